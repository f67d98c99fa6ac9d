"""Response bodies of the HTTP API."""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal

from pydantic import ConfigDict, JsonValue
from pydantic.alias_generators import to_camel

from windlass.ports.store import SessionStatus
from windlass_protocol import (
    ChatMessage,
    HarnessTrace,
    InputRequest,
    RunResult,
    RunSnapshot,
    RunStatus,
    TraceEvent,
    TraceSpan,
    Usage,
)

JsonObject = dict[str, JsonValue]


class Answer:
    """Names are in camelCase on the wire; what a newer server adds is not looked at."""

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel, extra="ignore", hide_input_in_errors=True
    )


@dataclass(frozen=True, slots=True)
class Accepted(Answer):
    """Work that was taken: it is durable, and happens from now on."""

    session_id: str
    run_id: str | None = None
    """The run that it begins, or is answered in."""
    message_id: str | None = None
    """Of words to the run under way."""
    continuation_token: str | None = None
    """With which to go on behind it."""


@dataclass(frozen=True, slots=True)
class SessionInfo(Answer):
    """A session: what it is about, where it is, and what it has used."""

    session_id: str
    _: KW_ONLY
    title: str
    agent_id: str
    status: SessionStatus
    created_at: str
    updated_at: str
    run_count: int
    request_count: int
    usage: Usage
    root_session_id: str
    parent_session_id: str | None = None
    predecessor_id: str | None = None
    predecessor_seq: int | None = None
    continuation_token: str | None = None


@dataclass(frozen=True, slots=True)
class RunRow(Answer):
    """A run in a list."""

    run_id: str
    _: KW_ONLY
    session_id: str
    agent_id: str
    status: RunStatus
    usage: Usage
    started_at: str | None = None
    """None while it waits for its turn."""
    ended_at: str | None = None


@dataclass(frozen=True, slots=True)
class RunInfo(Answer):
    """A run: where it is, what it waits for, and what came of it."""

    run: RunSnapshot
    result: RunResult | None = None
    """Once it has ended."""
    requests: tuple[InputRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class ApprovalInfo(Answer):
    """Something that waits for a person."""

    session_id: str
    _: KW_ONLY
    root_session_id: str
    run_id: str
    agent_id: str
    asked_at: str
    request: InputRequest


@dataclass(frozen=True, slots=True)
class TraceInfo(Answer):
    """What a run did and how long it took; the first span is the run itself."""

    trace: HarnessTrace
    spans: tuple[TraceSpan, ...]
    events: tuple[TraceEvent, ...]


@dataclass(frozen=True, slots=True)
class AgentInfo(Answer):
    """An agent that runs can be started with."""

    agent_id: str
    _: KW_ONLY
    description: str
    model: str
    tools: tuple[str, ...]
    subagents: tuple[str, ...]
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Health(Answer):
    """Whether the server takes requests."""

    status: Literal["ok", "closing"]
    version: str


@dataclass(frozen=True, slots=True)
class SessionList(Answer):
    """A page of sessions, as it comes."""

    sessions: tuple[SessionInfo, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class MessageList(Answer):
    """A page of messages, as it comes."""

    messages: tuple[ChatMessage, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class RunList(Answer):
    """A page of runs, as it comes."""

    runs: tuple[RunRow, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class ApprovalList(Answer):
    """A page of requests, as it comes."""

    requests: tuple[ApprovalInfo, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class AgentList(Answer):
    """All agents, as they come."""

    agents: tuple[AgentInfo, ...]


@dataclass(frozen=True, slots=True)
class Deleted(Answer):
    """Sessions that are gone."""

    deleted: tuple[str, ...]
