# Generated from spec/runs.schema.json by `make gen`. Do not edit.
"""One turn of a session, from an input to its end.

The types are made on first use; the .pyi file declares them.
"""

from windlass_protocol.lazy import lazy_values as _lazy_values


def _make_RunStatus() -> object:
    from enum import StrEnum

    class RunStatus(StrEnum):
        """Where a run is; the last four are final."""

        __qualname__ = "RunStatus"

        PENDING = "pending"
        RUNNING = "running"
        WAITING = "waiting"
        CANCELLING = "cancelling"
        COMPLETED = "completed"
        FAILED = "failed"
        CANCELLED = "cancelled"
        BUDGET_EXHAUSTED = "budget_exhausted"

    return RunStatus


def _make_RunRequest() -> object:
    from typing import Literal

    from windlass_protocol._wire import Closed, JsonObject, Maybe, Str
    from windlass_protocol.generated.common import Id, SourceRef
    from windlass_protocol.generated.output import OutputContract
    from windlass_protocol.generated.policy import BudgetLimits
    from windlass_protocol.generated.sessions import RunMode, SessionCapabilities, UserContent

    class RunRequest(Closed):
        """Asks for a run."""

        __qualname__ = "RunRequest"

        run_id: Id
        agent_id: Id
        input: UserContent
        session_id: Maybe[Id] = None
        turn_id: Maybe[Id] = None
        source: Maybe[SourceRef] = None
        owner: Maybe[Id] = None
        package_id: Maybe[Id] = None
        output_contract: Maybe[OutputContract] = None
        mode: Maybe[RunMode] = None
        capabilities: Maybe[SessionCapabilities] = None
        budget: Maybe[BudgetLimits] = None
        batch: Maybe[Literal["within 24h", "off"]] = None
        context: Maybe[tuple[Str, ...]] = None
        metadata: Maybe[JsonObject] = None
        goal_id: Maybe[Str] = None
        goal_description: Maybe[Str] = None

    return RunRequest


def _make_RunResult() -> object:
    from pydantic import JsonValue

    from windlass_protocol._wire import KeepsNulls, Maybe, Open, Str
    from windlass_protocol.generated.common import Id, Usage
    from windlass_protocol.generated.errors import ErrorInfo
    from windlass_protocol.generated.runs import RunStatus

    class RunResult(KeepsNulls, Open):
        """What came of a run. Sealed: it equals what the journal says."""

        __qualname__ = "RunResult"

        run_id: Id
        status: RunStatus
        output: Str
        session_id: Maybe[Id] = None
        structured_output: JsonValue = None
        error: Maybe[ErrorInfo] = None
        reason: Maybe[Str] = None
        usage: Maybe[Usage] = None

    return RunResult


def _make_RunWait() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Timestamp

    class RunWait(Open):
        """What a run waits for."""

        __qualname__ = "RunWait"

        on: Str
        since: Maybe[Timestamp] = None
        until: Maybe[Timestamp] = None
        reason: Maybe[Str] = None

    return RunWait


def _make_PlaygroundOrigin() -> object:
    from typing import Literal

    from windlass_protocol._wire import Open
    from windlass_protocol.generated.common import Count, Id

    class PlaygroundOrigin(Open):
        """The step of a run that a playground run repeats."""

        __qualname__ = "PlaygroundOrigin"

        run_id: Id
        session_id: Id
        step_index: Count
        size: Literal["call", "run"]
        calls: Literal["recorded", "real"]

    return PlaygroundOrigin


def _make_RunSnapshot() -> object:
    from windlass_protocol._wire import Bool, Maybe, Open, Str
    from windlass_protocol.generated.common import Id, SourceRef
    from windlass_protocol.generated.runs import PlaygroundOrigin, RunStatus, RunWait

    class RunSnapshot(Open):
        """Where a run is now."""

        __qualname__ = "RunSnapshot"

        run_id: Id
        agent_id: Id
        status: RunStatus
        package_id: Id
        package_fingerprint: Str
        route_id: Id
        model_id: Id
        cancellation_requested: Bool
        session_id: Maybe[Id] = None
        turn_id: Maybe[Id] = None
        source: Maybe[SourceRef] = None
        waiting: Maybe[RunWait] = None
        playground: Maybe[PlaygroundOrigin] = None

    return RunSnapshot


def _make_WaitCause() -> object:
    from enum import StrEnum

    class WaitCause(StrEnum):
        """What a run waits for, in a filter; `person` is input or recovery."""

        __qualname__ = "WaitCause"

        INPUT = "input"
        RECOVERY = "recovery"
        PERSON = "person"
        SUBAGENT = "subagent"
        PROVIDER = "provider"
        BATCH = "batch"
        TIMER = "timer"
        BUDGET = "budget"

    return WaitCause


def _make_RunSort() -> object:
    from enum import StrEnum

    class RunSort(StrEnum):
        """What runs are sorted by."""

        __qualname__ = "RunSort"

        STARTED = "started"
        DURATION = "duration"
        COST = "cost"

    return RunSort


def _make_SessionSort() -> object:
    from enum import StrEnum

    class SessionSort(StrEnum):
        """What sessions are sorted by."""

        __qualname__ = "SessionSort"

        CREATED = "created"
        UPDATED = "updated"
        COST = "cost"

    return SessionSort


__getattr__, __dir__ = _lazy_values(
    globals(),
    {
        "RunStatus": _make_RunStatus,
        "RunRequest": _make_RunRequest,
        "RunResult": _make_RunResult,
        "RunWait": _make_RunWait,
        "PlaygroundOrigin": _make_PlaygroundOrigin,
        "RunSnapshot": _make_RunSnapshot,
        "WaitCause": _make_WaitCause,
        "RunSort": _make_RunSort,
        "SessionSort": _make_SessionSort,
    },
)
