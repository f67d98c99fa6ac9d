"""The bodies of requests and answers that the wire of the runtime does not have."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue, Strict

from windlass.catalog import SessionStatus
from windlass_protocol import (
    BudgetLimits,
    ChatMessage,
    ContentRef,
    HarnessTrace,
    InputRequest,
    InputResponse,
    RunMode,
    RunResult,
    RunSnapshot,
    RunStatus,
    ToolCall,
    TraceEvent,
    TraceSpan,
    Usage,
    UserContent,
)
from windlass_protocol.limits import INTEGER_MAX
from windlass_server.wire import Maybe, Shown, Text, Wire

JsonObject = dict[str, JsonValue]
Words = Annotated[
    UserContent, Field(description="What the user says: a text, or parts.", examples=["How is the weather?"])
]
Contexts = Annotated[tuple[Text, ...], Field(max_length=64, description="Texts before the message.")]
Schema = Annotated[JsonObject, Field(description="A JSON Schema that the output must fit.")]
Name = Annotated[Text, Field(min_length=1, max_length=512, pattern=r"^[^\x00-\x1f\x7f]+$")]


def _is_empty(value: tuple[object, ...]) -> bool:
    return not value


class RunWishes(Wire):
    """What a run may be told beside its message."""

    agent: Annotated[Name | None, Field(description="Which agent; may be left out if it is clear.")] = None
    mode: RunMode | None = None
    output_schema: Schema | None = None
    context: Contexts | None = None
    metadata: Annotated[JsonObject | None, Field(description="JSON to find again in `run.started`.")] = None
    budget: BudgetLimits | None = None
    goal: Annotated[Name | None, Field(description="What the run is for, to find and judge it by.")] = None


class NewSession(RunWishes):
    """A session to begin, with its first message or without."""

    message: Words | None = None


class NewMessage(RunWishes):
    """Something to say in a session, or answers to what it asks; one of the two."""

    message: Words | None = None
    responses: Annotated[tuple[InputResponse, ...] | None, Field(min_length=1, max_length=64)] = None
    continuation_token: Annotated[
        Text | None,
        Field(
            max_length=64, description="Goes on only if nobody else has meanwhile; a stale one is refused."
        ),
    ] = None
    delivery: Annotated[
        Literal["queue", "steer"],
        Field(description="`queue` waits for the run under way; `steer` speaks to it."),
    ] = "queue"


class Cancel(Wire):
    """Why a run should end."""

    reason: Annotated[Text | None, Field(max_length=1_000)] = None


class Answer(Wire):
    """An answer to a request: one of its options, words, or both."""

    option_id: Name | None = None
    text: Annotated[Text | None, Field(max_length=100_000)] = None
    arguments_hash: Annotated[
        Text | None, Field(description="Of the arguments that were shown; another call is then refused.")
    ] = None


class Accepted(Shown):
    """Work that was taken: it is durable, and happens from now on."""

    session_id: str
    run_id: Annotated[Maybe[str], Field(description="The run that it begins, or is answered in.")] = None
    message_id: Annotated[Maybe[str], Field(description="Of words to the run under way.")] = None
    continuation_token: Annotated[Maybe[str], Field(description="With which to go on behind it.")] = None


class RunView(Shown):
    """A run: where it is, what it waits for, and what came of it."""

    run: RunSnapshot
    result: Annotated[Maybe[RunResult], Field(description="Once it has ended.")] = None
    requests: Annotated[tuple[InputRequest, ...], Field(description="What people are being asked.")] = ()


class SessionView(Shown):
    """A session: what it is about, where it is, and what it has used."""

    session_id: str
    title: Annotated[str, Field(description="What was said first, in one short line.")]
    agent_id: str
    status: Annotated[SessionStatus, Field(description="Of its newest run; idle without one.")]
    created_at: str
    updated_at: str
    run_count: int
    request_count: Annotated[int, Field(description="Requests to people that are open in it.")]
    usage: Usage
    parent_session_id: Maybe[str] = None
    root_session_id: str
    predecessor_id: Annotated[Maybe[str], Field(description="The session that it was forked from.")] = None
    predecessor_seq: Maybe[int] = None
    continuation_token: Annotated[Maybe[str], Field(description="With which to go on from here.")] = None


class SessionPage(Shown):
    """Some sessions, the newest first."""

    sessions: tuple[SessionView, ...]
    next: Annotated[Maybe[str], Field(description="What `after` takes to go on.")] = None


class HistoryPage(Shown):
    """Some messages of a session, the oldest first."""

    messages: tuple[ChatMessage, ...]
    next: Annotated[Maybe[str], Field(description="What `after` takes to go on.")] = None


class RunRowView(Shown):
    """A run in a list."""

    run_id: str
    session_id: str
    agent_id: str
    status: RunStatus
    started_at: Annotated[Maybe[str], Field(description="Absent while it waits for its turn.")] = None
    ended_at: Maybe[str] = None
    usage: Usage


class RunPage(Shown):
    """Some runs, the newest first."""

    runs: tuple[RunRowView, ...]
    next: Annotated[Maybe[str], Field(description="What `after` takes to go on.")] = None


class ApprovalView(Shown):
    """Something that waits for a person."""

    session_id: str
    root_session_id: str
    run_id: str
    agent_id: str
    owner: Annotated[Maybe[str], Field(description="Whose session it is.")] = None
    asked_at: str
    request: InputRequest


class ApprovalPage(Shown):
    """Some of what waits for a person, the oldest first."""

    requests: tuple[ApprovalView, ...]
    next: Annotated[Maybe[str], Field(description="What `after` takes to go on.")] = None


class TraceView(Shown):
    """What a run did and how long it took; the first span is the run itself."""

    trace: HarnessTrace
    spans: tuple[TraceSpan, ...]
    events: tuple[TraceEvent, ...]


class PromptMessage(Shown):
    """A message as the model got it."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: Annotated[tuple[ToolCall, ...], Field(exclude_if=_is_empty)] = ()
    tool_call_id: Maybe[str] = None
    name: Maybe[str] = None
    reasoning: Maybe[str] = None
    parts: Annotated[tuple[JsonObject, ...], Field(exclude_if=_is_empty)] = ()
    is_error: Annotated[bool, Field(description="Of a tool: the call failed or was refused.")] = False


class PromptView(Shown):
    """What the model was asked in a step."""

    run_id: str
    session_id: str
    step_index: int
    seq: Annotated[int, Field(description="The record that began the step.")]
    route_id: Maybe[str] = None
    model_id: Maybe[str] = None
    fingerprint: Annotated[Maybe[str], Field(description="The version of the agent.")] = None
    temperature: Maybe[float] = None
    system: Annotated[str, Field(description="The words before all messages.")]
    output_schema: Maybe[JsonObject] = None
    tools: Annotated[tuple[JsonObject, ...], Field(description="Name, description and inputSchema of each.")]
    messages: tuple[PromptMessage, ...]
    unknown: Annotated[tuple[str, ...], Field(description="What cannot be known, in words.")]


class ContentList(Shown):
    """What a session keeps beside its records."""

    contents: tuple[ContentRef, ...]


class SafePoints(Shown):
    """Records at which a fork can begin, in order."""

    safe_points: tuple[int, ...]
    next: Annotated[Maybe[int], Field(description="What `before` takes to see older ones.")] = None


class Fork(Wire):
    """Where a fork begins."""

    at: Annotated[
        int | None, Strict(), Field(ge=1, le=INTEGER_MAX, description="A record; the last one when left out.")
    ] = None


class Deleted(Shown):
    """Sessions that are gone."""

    deleted: tuple[str, ...]


class ToolView(Shown):
    """A tool that an agent may call."""

    name: str
    description: str
    mode: str
    effect: str
    agents: Annotated[tuple[str, ...], Field(description="Whose it is.")]
    input_schema: JsonObject


class ToolList(Shown):
    """All tools of all agents."""

    tools: tuple[ToolView, ...]


class AgentView(Shown):
    """An agent that runs can be started with."""

    agent_id: str
    description: str
    model: str
    version: Maybe[str] = None
    tools: Annotated[tuple[str, ...], Field(description="Names of its tools.")]
    subagents: tuple[str, ...]


class AgentList(Shown):
    """All agents of the server."""

    agents: tuple[AgentView, ...]


class Health(Shown):
    """Whether the server takes requests."""

    status: Literal["ok", "closing"]
    version: str
