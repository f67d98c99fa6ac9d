# Generated from spec/input.schema.json by `make gen`. Do not edit.
"""Questions, approvals and recovery choices, and their answers.

The types are made on first use; the .pyi file declares them.
"""

from windlass_protocol.lazy import lazy_values as _lazy_values


def _make_ToolCallAction() -> object:
    from typing import Literal

    from pydantic import JsonValue

    from windlass_protocol._wire import Open, Str, Tagged
    from windlass_protocol.generated.common import Id

    class ToolCallAction(Tagged, Open):
        """A tool call that the model asked for."""

        __qualname__ = "ToolCallAction"

        __constants__ = ("kind",)

        call_id: Id
        tool_name: Str
        input: JsonValue
        kind: Literal["tool-call"] = "tool-call"

    return ToolCallAction


def _make_SubagentCallAction() -> object:
    from typing import Literal

    from pydantic import JsonValue

    from windlass_protocol._wire import Maybe, Open, Str, Tagged
    from windlass_protocol.generated.common import Id

    class SubagentCallAction(Tagged, Open):
        """A call of a subagent."""

        __qualname__ = "SubagentCallAction"

        __constants__ = ("kind",)

        call_id: Id
        name: Str
        subagent_name: Str
        input: JsonValue
        kind: Literal["subagent-call"] = "subagent-call"
        description: Maybe[Str] = None
        node_id: Maybe[Str] = None

    return SubagentCallAction


def _make_RemoteAgentCallAction() -> object:
    from typing import Literal

    from pydantic import JsonValue

    from windlass_protocol._wire import Maybe, Open, Str, Tagged
    from windlass_protocol.generated.common import Id

    class RemoteAgentCallAction(Tagged, Open):
        """A call of an agent elsewhere."""

        __qualname__ = "RemoteAgentCallAction"

        __constants__ = ("kind",)

        call_id: Id
        name: Str
        remote_agent_name: Str
        input: JsonValue
        kind: Literal["remote-agent-call"] = "remote-agent-call"
        description: Maybe[Str] = None
        node_id: Maybe[Str] = None

    return RemoteAgentCallAction


def _make_LoadSkillAction() -> object:
    from typing import Literal

    from pydantic import JsonValue

    from windlass_protocol._wire import Open, Tagged
    from windlass_protocol.generated.common import Id

    class LoadSkillAction(Tagged, Open):
        """A skill to load."""

        __qualname__ = "LoadSkillAction"

        __constants__ = ("kind",)

        call_id: Id
        input: JsonValue
        kind: Literal["load-skill"] = "load-skill"

    return LoadSkillAction


def _make_RuntimeActionRequest() -> object:
    from typing import Annotated

    from pydantic import Field

    from windlass_protocol.generated.input import (
        LoadSkillAction,
        RemoteAgentCallAction,
        SubagentCallAction,
        ToolCallAction,
    )

    RuntimeActionRequest = Annotated[
        ToolCallAction | SubagentCallAction | RemoteAgentCallAction | LoadSkillAction,
        Field(discriminator="kind"),
    ]
    return RuntimeActionRequest


def _make_ToolActionResult() -> object:
    from typing import Literal

    from pydantic import JsonValue

    from windlass_protocol._wire import Bool, Maybe, Open, Str, Tagged
    from windlass_protocol.generated.common import Id

    class ToolActionResult(Tagged, Open):
        """What came of an action."""

        __qualname__ = "ToolActionResult"

        __constants__ = ("kind",)

        call_id: Id
        output: JsonValue
        tool_name: Str
        kind: Literal["tool-result"] = "tool-result"
        is_error: Maybe[Bool] = None

    return ToolActionResult


def _make_SubagentActionResult() -> object:
    from typing import Literal

    from pydantic import JsonValue

    from windlass_protocol._wire import Bool, Maybe, Open, Str, Tagged
    from windlass_protocol.generated.common import Id

    class SubagentActionResult(Tagged, Open):
        """What came of an action."""

        __qualname__ = "SubagentActionResult"

        __constants__ = ("kind",)

        call_id: Id
        output: JsonValue
        subagent_name: Str
        kind: Literal["subagent-result"] = "subagent-result"
        is_error: Maybe[Bool] = None

    return SubagentActionResult


def _make_LoadSkillActionResult() -> object:
    from typing import Literal

    from pydantic import JsonValue

    from windlass_protocol._wire import Bool, Maybe, Open, Str, Tagged
    from windlass_protocol.generated.common import Id

    class LoadSkillActionResult(Tagged, Open):
        """What came of an action."""

        __qualname__ = "LoadSkillActionResult"

        __constants__ = ("kind",)

        call_id: Id
        output: JsonValue
        kind: Literal["load-skill-result"] = "load-skill-result"
        is_error: Maybe[Bool] = None
        name: Maybe[Str] = None

    return LoadSkillActionResult


def _make_RuntimeActionResult() -> object:
    from typing import Annotated

    from pydantic import Field

    from windlass_protocol.generated.input import (
        LoadSkillActionResult,
        SubagentActionResult,
        ToolActionResult,
    )

    RuntimeActionResult = Annotated[
        ToolActionResult | SubagentActionResult | LoadSkillActionResult,
        Field(discriminator="kind"),
    ]
    return RuntimeActionResult


def _make_InputKind() -> object:
    from enum import StrEnum

    class InputKind(StrEnum):
        """Why a person is asked."""

        __qualname__ = "InputKind"

        APPROVAL = "approval"
        QUESTION = "question"
        RECOVERY = "recovery"
        AUTHORIZATION = "authorization"

    return InputKind


def _make_InputDisplay() -> object:
    from enum import StrEnum

    class InputDisplay(StrEnum):
        """How to show the request."""

        __qualname__ = "InputDisplay"

        CONFIRMATION = "confirmation"
        SELECT = "select"
        TEXT = "text"

    return InputDisplay


def _make_OptionStyle() -> object:
    from enum import StrEnum

    class OptionStyle(StrEnum):
        """How to show an option."""

        __qualname__ = "OptionStyle"

        DEFAULT = "default"
        PRIMARY = "primary"
        DANGER = "danger"

    return OptionStyle


def _make_InputOption() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Id
    from windlass_protocol.generated.input import OptionStyle

    class InputOption(Open):
        """One answer a person can pick."""

        __qualname__ = "InputOption"

        id: Id
        label: Str
        description: Maybe[Str] = None
        style: Maybe[OptionStyle] = None

    return InputOption


def _make_InputRequest() -> object:
    from windlass_protocol._wire import Bool, Maybe, Open, Str
    from windlass_protocol.generated.common import Id, Sha256, Timestamp
    from windlass_protocol.generated.input import InputDisplay, InputKind, InputOption, RuntimeActionRequest

    class InputRequest(Open):
        """A request to a person. It names the exact call it is about."""

        __qualname__ = "InputRequest"

        request_id: Id
        action: RuntimeActionRequest
        prompt: Str
        display: InputDisplay
        options: Maybe[tuple[InputOption, ...]] = None
        allow_freeform: Maybe[Bool] = None
        kind: Maybe[InputKind] = None
        arguments_hash: Maybe[Sha256] = None
        expires_at: Maybe[Timestamp] = None
        responders: Maybe[tuple[Str, ...]] = None
        is_answered: Maybe[Bool] = None

    return InputRequest


def _make_InputResponse() -> object:
    from windlass_protocol._wire import JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.common import Id, Sha256

    class InputResponse(Open):
        """A person's answer."""

        __qualname__ = "InputResponse"

        request_id: Id
        option_id: Maybe[Id] = None
        text: Maybe[Str] = None
        responder: Maybe[Str] = None
        roles: Maybe[tuple[Str, ...]] = None
        arguments_hash: Maybe[Sha256] = None
        arguments: Maybe[JsonObject] = None

    return InputResponse


def _make_InputOutcome() -> object:
    from enum import StrEnum

    class InputOutcome(StrEnum):
        """What came of a request."""

        __qualname__ = "InputOutcome"

        ANSWERED = "answered"
        APPROVED = "approved"
        CANCELLED = "cancelled"
        DENIED = "denied"
        EXPIRED = "expired"
        IGNORED = "ignored"
        INVALID = "invalid"

    return InputOutcome


def _make_InputResolution() -> object:
    from windlass_protocol._wire import Maybe, Open
    from windlass_protocol.generated.common import Id
    from windlass_protocol.generated.input import InputKind, InputOutcome, InputResponse

    class InputResolution(Open):
        """What came of one request."""

        __qualname__ = "InputResolution"

        request_id: Id
        outcome: InputOutcome
        kind: Maybe[InputKind] = None
        response: Maybe[InputResponse] = None
        answer_id: Maybe[Id] = None

    return InputResolution


__getattr__, __dir__ = _lazy_values(
    globals(),
    {
        "ToolCallAction": _make_ToolCallAction,
        "SubagentCallAction": _make_SubagentCallAction,
        "RemoteAgentCallAction": _make_RemoteAgentCallAction,
        "LoadSkillAction": _make_LoadSkillAction,
        "RuntimeActionRequest": _make_RuntimeActionRequest,
        "ToolActionResult": _make_ToolActionResult,
        "SubagentActionResult": _make_SubagentActionResult,
        "LoadSkillActionResult": _make_LoadSkillActionResult,
        "RuntimeActionResult": _make_RuntimeActionResult,
        "InputKind": _make_InputKind,
        "InputDisplay": _make_InputDisplay,
        "OptionStyle": _make_OptionStyle,
        "InputOption": _make_InputOption,
        "InputRequest": _make_InputRequest,
        "InputResponse": _make_InputResponse,
        "InputOutcome": _make_InputOutcome,
        "InputResolution": _make_InputResolution,
    },
)
