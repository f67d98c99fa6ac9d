"""Run state and output deliveries, folded from records.

The first terminal record of a run seals its result; later records do not change it. A run with a cancel
request stays `cancelling` until it ends, also while it waits or resumes.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Final

from windlass_harness.record import Record
from windlass_harness.views.fold import START, Position, fold, read, text_in
from windlass_protocol import (
    BudgetLimits,
    ErrorInfo,
    JsonObject,
    ParentRun,
    PlaygroundOrigin,
    RunMode,
    RunResult,
    RunSnapshot,
    RunStatus,
    RunWait,
    SourceRef,
    Usage,
)
from windlass_protocol.frozen import frozen, mutable
from windlass_protocol.generated import event_data


class DeliveryStage(StrEnum):
    """The progress of a delivery."""

    INTENDED = "intended"
    """The delivery is in progress, or its owner is gone and that is not recorded yet."""
    COMPLETED = "completed"
    FAILED = "failed"
    """Nothing was delivered."""
    DEDUPED = "deduped"
    """Not attempted, because its key had been used."""
    UNKNOWN = "unknown"
    """It may or may not have happened; it is not repeated automatically."""


@frozen
class DeliveryState:
    """A delivery, folded from its records."""

    delivery_id: str
    sink_id: str
    stage: DeliveryStage
    run_id: str | None = None
    dedupe_key: str | None = None
    kind: str | None = None
    receipt: JsonObject | None = None
    """The receipt of the sink."""
    error: ErrorInfo | None = None
    reason: str | None = None
    """Why the outcome is unknown."""


@mutable
class Deliveries:
    """The deliveries of a session; records are applied one by one."""

    by_id: dict[str, DeliveryState] = field(default_factory=dict[str, DeliveryState])
    open_ids: dict[str, None] = field(default_factory=dict[str, None])
    """Deliveries that have an intent and no result."""
    keys: dict[str, str] = field(default_factory=dict[str, str])
    """Used keys, with the delivery that used each; a failed delivery frees its key."""

    def apply(self, record: Record) -> None:
        """Apply a record about a delivery; other records are ignored."""
        match record.type:
            case "delivery.intended":
                self._intend(record)
            case "delivery.completed":
                done = read(event_data.DeliveryCompletedData, record.data)
                self._settle(done.delivery_id, DeliveryStage.COMPLETED, receipt=done.receipt)
            case "delivery.failed":
                failed = read(event_data.DeliveryFailedData, record.data)
                self._settle(failed.delivery_id, DeliveryStage.FAILED, error=failed.error)
            case "delivery.unknown":
                lost = read(event_data.DeliveryUnknownData, record.data)
                self._settle(lost.delivery_id, DeliveryStage.UNKNOWN, reason=lost.reason)
            case "delivery.deduped":
                self._skip(record)
            case _:
                pass

    def _intend(self, record: Record) -> None:
        data = read(event_data.DeliveryIntendedData, record.data)
        self.by_id[data.delivery_id] = DeliveryState(
            data.delivery_id,
            data.sink_id,
            DeliveryStage.INTENDED,
            run_id=data.run_id or record.run_id,
            dedupe_key=data.dedupe_key,
            kind=data.kind,
        )
        self.open_ids[data.delivery_id] = None
        self.keys.setdefault(data.dedupe_key, data.delivery_id)

    def _skip(self, record: Record) -> None:
        data = read(event_data.DeliveryDedupedData, record.data)
        run_id = text_in(record.data, "runId") or record.run_id
        self.by_id[data.delivery_id] = DeliveryState(
            data.delivery_id,
            data.sink_id,
            DeliveryStage.DEDUPED,
            run_id=run_id,
            dedupe_key=data.dedupe_key,
        )

    def _settle(
        self,
        delivery_id: str,
        stage: DeliveryStage,
        *,
        receipt: JsonObject | None = None,
        error: ErrorInfo | None = None,
        reason: str | None = None,
    ) -> None:
        """Apply a result; the first one counts."""
        if delivery_id not in self.open_ids:
            return
        del self.open_ids[delivery_id]
        known = self.by_id[delivery_id]
        self.by_id[delivery_id] = replace(known, stage=stage, receipt=receipt, error=error, reason=reason)
        if stage is DeliveryStage.FAILED and known.dedupe_key is not None:
            del self.keys[known.dedupe_key]


DELIVERY_RECORDS: Final = frozenset(
    {
        "delivery.intended",
        "delivery.completed",
        "delivery.failed",
        "delivery.deduped",
        "delivery.unknown",
    }
)

UNKNOWN_MODEL: Final = "unknown"
"""The model of a run that names none."""
RUN_ENDS: Final = {
    "run.completed": RunStatus.COMPLETED,
    "run.failed": RunStatus.FAILED,
    "run.cancelled": RunStatus.CANCELLED,
    "run.budget_exhausted": RunStatus.BUDGET_EXHAUSTED,
}
"""The records that end a run, with the final status."""
AFTER_END: Final = DELIVERY_RECORDS | {"hook.completed", "hook.failed"}
"""All records of a run that may follow its end: output deliveries and its last hooks.

An answer that comes too late is a record of the session, without a run.
"""


@frozen
class RunState:
    """A run, folded from its records. `result` is set once it has ended."""

    run_id: str
    agent_id: str
    session_id: str
    started_at: str
    status: RunStatus = RunStatus.RUNNING
    waiting: RunWait | None = None
    """What the run waits for."""
    is_cancel_requested: bool = False
    cancel_reason: str | None = None
    """The reason of the cancel request."""
    turn_id: str | None = None
    source: SourceRef | None = None
    owner: str | None = None
    """The owner of the session, as the start request named it."""
    metadata: JsonObject | None = None
    """Free JSON of the start request."""
    speakers: tuple[str | None, ...] = ()
    """The senders of messages to the run while it was active; None is an unnamed sender."""
    mode: RunMode | None = None
    can_ask: bool = True
    """Whether the channel of the request can show questions to people."""
    budget: BudgetLimits | None = None
    parent: ParentRun | None = None
    """The calling call, if this is the run of a subagent."""
    undo: JsonObject | None = None
    """The calls that the run reverses, as its start lists them."""
    playground: PlaygroundOrigin | None = None
    """The step that it runs again, if it is a playground run."""
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
            waiting=self.waiting,
            playground=self.playground,
        )


@frozen
class RunsState:
    """The runs of a session by id, in the order of their start."""

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
    """Return the run of a record; records about a run hold its id in their data."""
    run_id = record.data.get("runId") if record.type.startswith("run.") else None
    return run_id if isinstance(run_id, str) else record.run_id


def start_run(record: Record) -> RunState | None:
    """Return the run that a record starts; None if it starts none."""
    if record.type != "run.started":
        return None
    return _run_of(read(event_data.RunStartedData, record.data), record)


def unstarted_run(record: Record) -> RunState | None:
    """Return the run that a record ends before it started; None if there is none."""
    facts = record.data.get("unstarted") if record.type in _UNSTARTED else None
    if not isinstance(facts, dict):
        return None
    run = _run_of(read(event_data.RunStartedData, facts), record)
    return advance_run(_cancel(run, record) if record.type == "run.cancelled" else run, record)


_UNSTARTED: Final = frozenset({"run.cancelled", "run.failed"})
"""The end of a run that never started."""


def _run_of(data: "event_data.RunStartedData", record: Record) -> RunState:
    return RunState(
        run_id=data.run_id,
        agent_id=data.agent_id,
        session_id=record.session_id,
        started_at=record.at,
        turn_id=record.turn_id,
        source=data.source,
        owner=data.owner,
        metadata=data.metadata,
        mode=data.mode,
        can_ask=data.capabilities is None or data.capabilities.request_input is not False,
        budget=data.budget,
        parent=data.parent,
        undo=data.undo,
        playground=data.playground,
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
    if run.is_cancel_requested:
        return run
    data = read(event_data.RunWaitingData, record.data)
    wait = RunWait(on=data.on, until=data.until, reason=data.reason)
    return replace(run, status=RunStatus.WAITING, waiting=wait)


def _resume(run: RunState, record: Record) -> RunState:
    return run if run.is_cancel_requested else replace(run, status=RunStatus.RUNNING, waiting=None)


def _cancel(run: RunState, record: Record) -> RunState:
    reason = record.data.get("reason")
    return replace(
        run,
        status=RunStatus.CANCELLING,
        waiting=None,
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
    data = read(event_data.SessionMovedData, record.data)
    return replace(run, package_fingerprint=data.to_fingerprint)


def _complete(run: RunState, record: Record) -> RunState:
    data = read(event_data.RunCompletedData, record.data)
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
    data = read(event_data.RunFailedData, record.data)
    return _seal(run, record, _unsuccessful(run, RunStatus.FAILED, data.usage, data.error))


def _cancelled(run: RunState, record: Record) -> RunState:
    data = read(event_data.RunCancelledData, record.data)
    result = _unsuccessful(run, RunStatus.CANCELLED, data.usage, data.error)
    return _seal(run, record, result.model_copy(update={"reason": data.reason}) if data.reason else result)


def _exhausted(run: RunState, record: Record) -> RunState:
    data = read(event_data.RunBudgetExhaustedData, record.data)
    return _seal(run, record, _unsuccessful(run, RunStatus.BUDGET_EXHAUSTED, data.usage, data.error))


def _unsuccessful(
    run: RunState, status: RunStatus, usage: Usage | None, error: ErrorInfo | None = None
) -> RunResult:
    return RunResult(
        run_id=run.run_id, status=status, output="", session_id=run.session_id, usage=usage, error=error
    )


def _seal(run: RunState, record: Record, result: RunResult) -> RunState:
    return replace(run, status=result.status, waiting=None, ended_at=record.at, result=result)


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
"""The records that change a started run."""
