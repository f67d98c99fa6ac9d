"""A session: what the next step needs, and what recovery asks after a crash."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from pydantic import JsonValue

from windlass_harness.views.family import ChildSession, ProxiedRequest
from windlass_harness.views.fold import START, Position
from windlass_harness.views.history import History
from windlass_harness.views.resolved import Resolved
from windlass_harness.views.runs import UNKNOWN_MODEL, RunState
from windlass_harness.views.steps import Call, CallStage, OpenStep
from windlass_protocol import (
    CompactionConfig,
    HarnessSession,
    InputRequest,
    ModelReference,
    SessionAgent,
)

THRESHOLD_TOKENS: Final = 100_000
RECENT_WINDOW_SIZE: Final = 10
DEFAULT_COMPACTION: Final = CompactionConfig(
    threshold=THRESHOLD_TOKENS, recent_window_size=RECENT_WINDOW_SIZE
)
NO_HISTORY: Final = History()

JsonObject = dict[str, JsonValue]


class TurnStatus(StrEnum):
    """Where a turn is."""

    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class SessionStatus(StrEnum):
    """Where a session is. A failed or completed one may still be given a new turn."""

    NEW = "new"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TurnState:
    """The newest turn. `step_index` is that of its newest step, None before the first."""

    turn_id: str
    sequence: int
    status: TurnStatus = TurnStatus.RUNNING
    step_index: int | None = None
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Wait:
    """What a session waits for: next-user-message, input, recovery, subagent, timer …"""

    on: str
    until: str | None = None
    request_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session as its records tell it."""

    position: Position = START
    status: SessionStatus = SessionStatus.NEW
    agent: SessionAgent | None = None
    compaction: CompactionConfig = DEFAULT_COMPACTION
    continuation_token: str = ""
    output_schema: JsonObject | None = None
    root_session_id: str | None = None
    authored: JsonObject = field(default_factory=dict[str, JsonValue])
    history: History = NO_HISTORY
    prompt_message_count: int | None = None
    run: RunState | None = None
    run_ids: tuple[str, ...] = ()
    """Every run that was started; one never starts again."""
    turn: TurnState | None = None
    requests: tuple[InputRequest, ...] = ()
    proxied: tuple[ProxiedRequest, ...] = ()
    """What subagents ask people."""
    children: tuple[ChildSession, ...] = ()
    """The sessions of subagents, in the order in which they were called."""
    waiting: Wait | None = None
    resolved: dict[str, Resolved] = field(default_factory=dict[str, Resolved])
    """By agent and resolver, see `resolved_key`."""
    epoch: int = 0
    taint: tuple[str, ...] = ()
    """What results have brought into it, sorted: untrusted content, private data."""

    @property
    def session(self) -> HarnessSession:
        """The session in the shape that a step takes; it has no agent before it started."""
        nobody = SessionAgent(model_reference=ModelReference(id=UNKNOWN_MODEL), system="", tools=())
        return HarnessSession(
            agent=self.agent or nobody,
            compaction=self.compaction,
            continuation_token=self.continuation_token,
            history=self.history.messages,
            session_id=self.position.session_id or "new",
            output_schema=self.output_schema,
            root_session_id=self.root_session_id,
            state=self.authored or None,
        )

    @property
    def calls(self) -> tuple[Call, ...]:
        """Calls of steps that are not finished; those with a result carry it."""
        return self.history.calls

    @property
    def interrupted(self) -> tuple[Call, ...]:
        """Calls that were started and have no result: what recovery must decide about."""
        return tuple(call for call in self.calls if call.stage is CallStage.STARTED)

    @property
    def is_answering(self) -> bool:
        """Whether a model call was started and has neither answered nor failed."""
        return any(isinstance(item, OpenStep) and not item.is_answered for item in self.history.tail)
