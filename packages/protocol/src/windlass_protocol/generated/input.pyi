# Generated from spec/input.schema.json by `make gen`. Do not edit.
"""Questions, approvals and recovery choices, and their answers."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from windlass_protocol._wire import Bool, JsonObject, Maybe, Open, Str, Tagged
from windlass_protocol.generated.common import Id, Sha256, Timestamp

class ToolCallAction(Tagged, Open):
    """A tool call that the model asked for."""

    __constants__ = ("kind",)

    call_id: Id
    """Identifier of the call."""
    tool_name: Str
    """Name of the tool."""
    input: JsonValue
    """Arguments."""
    kind: Literal["tool-call"] = "tool-call"
    """Kind of action."""

class SubagentCallAction(Tagged, Open):
    """A call of a subagent."""

    __constants__ = ("kind",)

    call_id: Id
    """Identifier of the call."""
    name: Str
    """Name the model used."""
    subagent_name: Str
    """Name of the subagent."""
    input: JsonValue
    """What the subagent is asked."""
    kind: Literal["subagent-call"] = "subagent-call"
    """Kind of action."""
    description: Maybe[Str] = None
    """What the subagent is for."""
    node_id: Maybe[Str] = None
    """Place of the subagent in its package."""

class RemoteAgentCallAction(Tagged, Open):
    """A call of an agent elsewhere."""

    __constants__ = ("kind",)

    call_id: Id
    """Identifier of the call."""
    name: Str
    """Name the model used."""
    remote_agent_name: Str
    """Name of the remote agent."""
    input: JsonValue
    """What the agent is asked."""
    kind: Literal["remote-agent-call"] = "remote-agent-call"
    """Kind of action."""
    description: Maybe[Str] = None
    """What the agent is for."""
    node_id: Maybe[Str] = None
    """Place of the agent in its package."""

class LoadSkillAction(Tagged, Open):
    """A skill to load."""

    __constants__ = ("kind",)

    call_id: Id
    """Identifier of the call."""
    input: JsonValue
    """Which skill."""
    kind: Literal["load-skill"] = "load-skill"
    """Kind of action."""

RuntimeActionRequest = Annotated[
    ToolCallAction | SubagentCallAction | RemoteAgentCallAction | LoadSkillAction,
    Field(discriminator="kind"),
]
"""Something the model asked the runtime to do."""

class ToolActionResult(Tagged, Open):
    """What came of an action."""

    __constants__ = ("kind",)

    call_id: Id
    """The action it answers."""
    output: JsonValue
    """The result."""
    tool_name: Str
    """Name of the tool."""
    kind: Literal["tool-result"] = "tool-result"
    """Kind of result."""
    is_error: Maybe[Bool] = None
    """Whether it failed."""

class SubagentActionResult(Tagged, Open):
    """What came of an action."""

    __constants__ = ("kind",)

    call_id: Id
    """The action it answers."""
    output: JsonValue
    """The result."""
    subagent_name: Str
    """Name of the subagent."""
    kind: Literal["subagent-result"] = "subagent-result"
    """Kind of result."""
    is_error: Maybe[Bool] = None
    """Whether it failed."""

class LoadSkillActionResult(Tagged, Open):
    """What came of an action."""

    __constants__ = ("kind",)

    call_id: Id
    """The action it answers."""
    output: JsonValue
    """The result."""
    kind: Literal["load-skill-result"] = "load-skill-result"
    """Kind of result."""
    is_error: Maybe[Bool] = None
    """Whether it failed."""
    name: Maybe[Str] = None
    """Name of the skill."""

RuntimeActionResult = Annotated[
    ToolActionResult | SubagentActionResult | LoadSkillActionResult,
    Field(discriminator="kind"),
]
"""What came of an action the runtime did."""

class InputKind(StrEnum):
    """Why a person is asked."""

    APPROVAL = "approval"
    QUESTION = "question"
    RECOVERY = "recovery"
    AUTHORIZATION = "authorization"

class InputDisplay(StrEnum):
    """How to show the request."""

    CONFIRMATION = "confirmation"
    SELECT = "select"
    TEXT = "text"

class OptionStyle(StrEnum):
    """How to show an option."""

    DEFAULT = "default"
    PRIMARY = "primary"
    DANGER = "danger"

class InputOption(Open):
    """One answer a person can pick."""

    id: Id
    """Identifier of the option."""
    label: Str
    """What to show."""
    description: Maybe[Str] = None
    """What it means."""
    style: Maybe[OptionStyle] = None
    """How to show it."""

class InputRequest(Open):
    """A request to a person. It names the exact call it is about."""

    request_id: Id
    """Identifier; the answer names it."""
    action: RuntimeActionRequest
    """The call it is about."""
    prompt: Str
    """What to ask."""
    display: InputDisplay
    """How to show it."""
    options: Maybe[tuple[InputOption, ...]] = None
    """Answers to pick from."""
    allow_freeform: Maybe[Bool] = None
    """Whether a free text is an answer."""
    kind: Maybe[InputKind] = None
    """Why the person is asked."""
    arguments_hash: Maybe[Sha256] = None
    """Digest of the exact arguments; an approval counts for these only."""
    expires_at: Maybe[Timestamp] = None
    """When the request lapses."""
    responders: Maybe[tuple[Str, ...]] = None
    """Who may answer; anyone entitled to the session when absent."""
    is_answered: Maybe[Bool] = None
    """Whether an answer is stored and waits for the process that drives the run; set in lists of requests."""

class InputResponse(Open):
    """A person's answer."""

    request_id: Id
    """The request it answers."""
    option_id: Maybe[Id] = None
    """The option picked."""
    text: Maybe[Str] = None
    """The text given."""
    responder: Maybe[Str] = None
    """Who answered."""
    roles: Maybe[tuple[Str, ...]] = None
    """Roles of the person who answered, as the server knows them; a request may name a role as its responder.
    """
    arguments_hash: Maybe[Sha256] = None
    """Digest of the arguments that the person saw."""
    arguments: Maybe[JsonObject] = None
    """Arguments that the person approves instead of those of the request."""

class InputOutcome(StrEnum):
    """What came of a request."""

    ANSWERED = "answered"
    APPROVED = "approved"
    CANCELLED = "cancelled"
    DENIED = "denied"
    EXPIRED = "expired"
    IGNORED = "ignored"
    INVALID = "invalid"

class InputResolution(Open):
    """What came of one request."""

    request_id: Id
    """The request."""
    outcome: InputOutcome
    """What came of it."""
    kind: Maybe[InputKind] = None
    """Why the person was asked."""
    response: Maybe[InputResponse] = None
    """The answer, if there was one."""
    answer_id: Maybe[Id] = None
    """The answer that settled it, among all answers to the session."""
