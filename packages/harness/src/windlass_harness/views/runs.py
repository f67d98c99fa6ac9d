"""Runs: where each one is, and what came of it.

The first terminal record of a run seals its result; whatever comes after changes nothing. A run somebody
asked to cancel stays `cancelling` until it ends, also while it waits or resumes.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from windlass_harness.views.deliveries import DELIVERY_RECORDS
from windlass_harness.views.fold import START, Position, fold, read
from windlass_protocol import (
    BudgetLimits,
    ErrorInfo,
    ParentRun,
    Record,
    RunBudgetExhaustedData,
    RunCancelledData,
    RunCompletedData,
    RunFailedData,
    RunMode,
    RunResult,
    RunSnapshot,
    RunStartedData,
    RunStatus,
    SessionMovedData,
    SourceRef,
    Usage,
)

UNKNOWN_MODEL: Final = "unknown"
"""The model of a run that names none."""
RUN_ENDS: Final = {
    "run.completed": RunStatus.COMPLETED,
    "run.failed": RunStatus.FAILED,
    "run.cancelled": RunStatus.CANCELLED,
    "run.budget_exhausted": RunStatus.BUDGET_EXHAUSTED,
}
"""The records that end a run, and the status each one leaves."""
AFTER_END: Final = DELIVERY_RECORDS | {"hook.completed", "hook.failed"}
"""All records of a run that may come after its end: what is made of its output, and its last hooks.

Nothing else does. An answer that comes too late is a record of the session, without a run.
"""


@dataclass(frozen=True, slots=True)
class RunState:
    """A run as its records tell it. `result` is there once it has ended."""

    run_id: str
    agent_id: str
    session_id: str
    started_at: str
    status: RunStatus = RunStatus.RUNNING
    is_cancel_requested: bool = False
    cancel_reason: str | None = None
    """Why somebody wants it to end, in their words."""
    turn_id: str | None = None
    source: SourceRef | None = None
    owner: str | None = None
    """Whom the session belongs to, as whoever asked for the run said."""
    speakers: tuple[str | None, ...] = ()
    """Who said something to it while it was under way; None is somebody who did not say who."""
    mode: RunMode | None = None
    can_ask: bool = True
    """Whether the channel of the request can put questions to people."""
    budget: BudgetLimits | None = None
    parent: ParentRun | None = None
    """The call that it works for, if it is a subagent's."""
    package_id: str | None = None
    package_fingerprint: str | None = None
    route_id: str | None = None
    model_id: str | None = None
    ended_at: str | None = None
    result: RunResult | None = None

    @property
    def snapshot(self) -> RunSnapshot | None:
        """The run as a snapshot; None if its start did not name package, route and model."""
        if not (self.package_id and self.package_fingerprint and self.route_id and self.model_id):
            return None
        return RunSnapshot(
            run_id=self.run_id,
            agent_id=self.agent_id,
            status=self.status,
            package_id=self.package_id,
            package_fingerprint=self.package_fingerprint,
            route_id=self.route_id,
            model_id=self.model_id,
            cancellation_requested=self.is_cancel_requested,
            session_id=self.session_id,
            turn_id=self.turn_id,
            source=self.source,
        )


@dataclass(frozen=True, slots=True)
class RunsState:
    """The runs of a session by their ids, in the order in which they began."""

    position: Position = START
    runs: Mapping[str, RunState] = field(default_factory=dict[str, RunState])


def fold_runs(records: Iterable[Record], state: RunsState | None = None) -> RunsState:
    """Fold records of a session into its runs.

    Raises:
        Gap: a record is not the next one of the session.
    """
    return fold(_Draft(state or RunsState()), records)


class _Draft:
    def __init__(self, state: RunsState) -> None:
        self.position = state.position
        self._runs = dict(state.runs)

    def apply(self, record: Record) -> None:
        started = start_run(record)
        if started is not None:
            self._runs.setdefault(started.run_id, started)
        elif (run_id := run_id_of(record)) in self._runs:
            self._runs[run_id] = advance_run(self._runs[run_id], record)
        elif (withdrawn := unstarted_run(record)) is not None:
            self._runs[withdrawn.run_id] = withdrawn

    def freeze(self) -> RunsState:
        return RunsState(self.position, self._runs)


def run_id_of(record: Record) -> str | None:
    """Return the run of a record; records about a run name it in their data."""
    run_id = record.data.get("runId") if record.type.startswith("run.") else None
    return run_id if isinstance(run_id, str) else record.run_id


def start_run(record: Record) -> RunState | None:
    """Return the run that a record starts; None if it starts none."""
    if record.type != "run.started":
        return None
    return _run_of(read(RunStartedData, record.data), record)


def unstarted_run(record: Record) -> RunState | None:
    """Return the run that a record ends before it began; None if it ends none."""
    facts = record.data.get("unstarted") if record.type in _UNSTARTED else None
    if not isinstance(facts, dict):
        return None
    run = _run_of(read(RunStartedData, facts), record)
    return advance_run(_cancel(run, record) if record.type == "run.cancelled" else run, record)


_UNSTARTED: Final = frozenset({"run.cancelled", "run.failed"})
"""How a run ends that never began."""


def _run_of(data: RunStartedData, record: Record) -> RunState:
    return RunState(
        run_id=data.run_id,
        agent_id=data.agent_id,
        session_id=record.session_id,
        started_at=record.at,
        turn_id=record.turn_id,
        source=data.source,
        owner=data.owner,
        mode=data.mode,
        can_ask=data.capabilities is None or data.capabilities.request_input is not False,
        budget=data.budget,
        parent=data.parent,
        package_id=data.package_id,
        package_fingerprint=data.package_fingerprint,
        route_id=data.route_id,
        model_id=data.model_id,
    )


def advance_run(run: RunState, record: Record) -> RunState:
    """Return the run after one of its records."""
    change = _CHANGES.get(record.type)
    return run if change is None or run.result is not None else change(run, record)


def _wait(run: RunState, record: Record) -> RunState:
    return run if run.is_cancel_requested else replace(run, status=RunStatus.WAITING)


def _resume(run: RunState, record: Record) -> RunState:
    return run if run.is_cancel_requested else replace(run, status=RunStatus.RUNNING)


def _cancel(run: RunState, record: Record) -> RunState:
    reason = record.data.get("reason")
    return replace(
        run,
        status=RunStatus.CANCELLING,
        is_cancel_requested=True,
        cancel_reason=reason if isinstance(reason, str) else None,
    )


def _turn(run: RunState, record: Record) -> RunState:
    turn_id = record.data.get("turnId")
    return replace(run, turn_id=turn_id) if isinstance(turn_id, str) else run


def _hear(run: RunState, record: Record) -> RunState:
    sender = record.data.get("sender")
    speaker = sender if isinstance(sender, str) else None
    if record.data.get("delivery") != "steer" or speaker in run.speakers:
        return run
    return replace(run, speakers=(*run.speakers, speaker))


def _move(run: RunState, record: Record) -> RunState:
    data = read(SessionMovedData, record.data)
    return replace(run, package_fingerprint=data.to_fingerprint)


def _complete(run: RunState, record: Record) -> RunState:
    data = read(RunCompletedData, record.data)
    result = RunResult(
        run_id=run.run_id,
        status=RunStatus.COMPLETED,
        output=data.output or "",
        session_id=run.session_id,
        usage=data.usage,
    )
    if "structured_output" in data.model_fields_set:
        # Null is an output too; only a run without a contract has none.
        result = result.model_copy(update={"structured_output": data.structured_output})
    return _seal(run, record, result)


def _fail(run: RunState, record: Record) -> RunState:
    data = read(RunFailedData, record.data)
    return _seal(run, record, _unsuccessful(run, RunStatus.FAILED, data.usage, data.error))


def _cancelled(run: RunState, record: Record) -> RunState:
    data = read(RunCancelledData, record.data)
    result = _unsuccessful(run, RunStatus.CANCELLED, data.usage, data.error)
    return _seal(run, record, result.model_copy(update={"reason": data.reason}) if data.reason else result)


def _exhausted(run: RunState, record: Record) -> RunState:
    data = read(RunBudgetExhaustedData, record.data)
    return _seal(run, record, _unsuccessful(run, RunStatus.BUDGET_EXHAUSTED, data.usage, data.error))


def _unsuccessful(
    run: RunState, status: RunStatus, usage: Usage | None, error: ErrorInfo | None = None
) -> RunResult:
    return RunResult(
        run_id=run.run_id, status=status, output="", session_id=run.session_id, usage=usage, error=error
    )


def _seal(run: RunState, record: Record, result: RunResult) -> RunState:
    return replace(run, status=result.status, ended_at=record.at, result=result)


_CHANGES: Final[dict[str, Callable[[RunState, Record], RunState]]] = {
    "run.waiting": _wait,
    "run.resumed": _resume,
    "run.cancel_requested": _cancel,
    "run.completed": _complete,
    "run.failed": _fail,
    "run.cancelled": _cancelled,
    "run.budget_exhausted": _exhausted,
    "session.moved": _move,
    "turn.started": _turn,
    "message.received": _hear,
}
RUN_CHANGES: Final = frozenset(_CHANGES)
"""The records that change a run that has begun."""
