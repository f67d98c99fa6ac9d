"""Run state and output deliveries, folded from records.

The first terminal record of a run seals its result; later records do not change it. A run with a cancel
request stays `cancelling` until it ends, also while it waits or resumes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Final

from msgspec import UNSET

from windlass_harness.record import Record
from windlass_harness.views.fold import START, Handlers, Position, fold, types_of
from windlass_harness.views.payloads import first_model_name, usage_model
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
)
from windlass_protocol.bodies import BodyError
from windlass_protocol.frozen import frozen, mutable
from windlass_protocol.generated import records


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
class DeliveryStates:
    """The deliveries of a session; records are applied one by one."""

    by_id: dict[str, DeliveryState] = field(default_factory=dict[str, DeliveryState])
    open_ids: dict[str, None] = field(default_factory=dict[str, None])
    """Deliveries that have an intent and no result."""
    keys: dict[str, str] = field(default_factory=dict[str, str])
    """Used keys, with the delivery that used each; a failed delivery frees its key."""

    def apply(self, record: Record) -> None:
        """Apply a record about a delivery; other records are ignored."""
        match record.body:
            case records.DeliveryIntended() as body:
                self._intend(body, record)
            case records.DeliveryCompleted() as body:
                self._settle(body.delivery_id, DeliveryStage.COMPLETED, receipt=body.receipt)
            case records.DeliveryFailed() as body:
                self._settle(body.delivery_id, DeliveryStage.FAILED, error=body.error)
            case records.DeliveryUnknown() as body:
                self._settle(body.delivery_id, DeliveryStage.UNKNOWN, reason=body.reason)
            case records.DeliveryDeduped() as body:
                self._skip(body, record)
            case _:
                pass

    def _intend(self, body: records.DeliveryIntended, record: Record) -> None:
        self.by_id[body.delivery_id] = DeliveryState(
            body.delivery_id,
            body.sink_id,
            DeliveryStage.INTENDED,
            run_id=body.run_id or record.run_id,
            dedupe_key=body.dedupe_key,
            kind=body.kind,
        )
        self.open_ids[body.delivery_id] = None
        self.keys.setdefault(body.dedupe_key, body.delivery_id)

    def _skip(self, body: records.DeliveryDeduped, record: Record) -> None:
        self.by_id[body.delivery_id] = DeliveryState(
            body.delivery_id,
            body.sink_id,
            DeliveryStage.DEDUPED,
            run_id=body.run_id or record.run_id,
            dedupe_key=body.dedupe_key,
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
        delivery = self.by_id[delivery_id]
        self.by_id[delivery_id] = replace(delivery, stage=stage, receipt=receipt, error=error, reason=reason)
        if stage is DeliveryStage.FAILED and delivery.dedupe_key is not None:
            del self.keys[delivery.dedupe_key]


DELIVERY_BODIES: Final = (
    records.DeliveryIntended,
    records.DeliveryCompleted,
    records.DeliveryFailed,
    records.DeliveryDeduped,
    records.DeliveryUnknown,
)
DELIVERY_RECORDS: Final = types_of(*DELIVERY_BODIES)

UNKNOWN_MODEL: Final = "unknown"
"""The model of a run that names none."""
RunEnd = records.RunCompleted | records.RunFailed | records.RunCancelled | records.RunBudgetExhausted
RUN_END_BODIES: Final = (
    records.RunCompleted,
    records.RunFailed,
    records.RunCancelled,
    records.RunBudgetExhausted,
)
RUN_ENDS: Final = {
    records.RunCompleted.TYPE: RunStatus.COMPLETED,
    records.RunFailed.TYPE: RunStatus.FAILED,
    records.RunCancelled.TYPE: RunStatus.CANCELLED,
    records.RunBudgetExhausted.TYPE: RunStatus.BUDGET_EXHAUSTED,
}
"""The records that end a run, with the final status."""
AFTER_END: Final = DELIVERY_RECORDS | types_of(records.HookCompleted, records.HookFailed)
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
    job: JsonObject | None = None
    """The one call that the run makes, without a model."""
    playground: PlaygroundOrigin | None = None
    """The step that it runs again, if it is a playground run."""
    package_id: str | None = None
    package_fingerprint: str | None = None
    route_id: str | None = None
    model_id: str | None = None
    ended_at: str | None = None
    result: RunResult | None = None

    @property
    def first_model(self) -> str | None:
        """Its first model, as its records name it; None if its start did not name one."""
        return None if self.model_id is None else first_model_name(self.route_id, self.model_id)

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


def fold_runs(entries: Iterable[Record], state: RunsState | None = None) -> RunsState:
    """Fold records of a session into its runs.

    Raises:
        Gap: a record is not the next one of the session.
    """
    return fold(_Draft(state or RunsState()), entries)


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
    if not record.type.startswith("run."):
        return record.run_id
    try:
        body = record.body
    except BodyError:
        # A fold refuses the record; a feed finds it all the same.
        run_id = record.data.get("runId")
        return run_id if isinstance(run_id, str) else record.run_id
    return body.run_id if isinstance(body, _OF_RUN) else record.run_id


_OF_RUN: Final = (
    records.RunStarted,
    records.RunResumed,
    records.RunWaiting,
    records.RunCancelRequested,
    records.RunCompleted,
    records.RunFailed,
    records.RunCancelled,
    records.RunBudgetExhausted,
)


def start_run(record: Record) -> RunState | None:
    """Return the run that a record starts; None if it starts none."""
    if record.type != records.RunStarted.TYPE:
        return None
    body = record.body
    return _run_of(body, record) if isinstance(body, records.RunStarted) else None


def unstarted_run(record: Record) -> RunState | None:
    """Return the run that a record ends before it started; None if there is none."""
    body = record.body if record.type in RUN_ENDS else None
    if not isinstance(body, records.RunCancelled | records.RunFailed) or body.unstarted is None:
        return None
    run = _run_of(body.unstarted, record)
    if isinstance(body, records.RunCancelled):
        run = _cancelling(run, body.reason)
    return advance_run(run, record)


def _run_of(body: records.RunStarted, record: Record) -> RunState:
    return RunState(
        run_id=body.run_id,
        agent_id=body.agent_id,
        session_id=record.session_id,
        started_at=record.at,
        turn_id=record.turn_id,
        source=body.source,
        owner=body.owner,
        metadata=body.metadata,
        mode=body.mode,
        can_ask=body.capabilities is None or body.capabilities.request_input is not False,
        budget=body.budget,
        parent=body.parent,
        undo=body.undo,
        job=body.job,
        playground=body.playground,
        package_id=body.package_id,
        package_fingerprint=body.package_fingerprint,
        route_id=body.route_id,
        model_id=body.model_id,
    )


_CHANGES: Final = Handlers[RunState, Record, [], RunState]()


def advance_run(run: RunState, record: Record) -> RunState:
    """Return the run after one of its records."""
    change = _CHANGES.by_type.get(record.type)
    return run if change is None or run.result is not None else change(run, record, record.body)


@_CHANGES.on(records.RunWaiting)
def _wait(run: RunState, record: Record, body: records.RunWaiting) -> RunState:
    if run.is_cancel_requested:
        return run
    wait = RunWait(on=body.on, since=record.at, until=body.until, reason=body.reason)
    return replace(run, status=RunStatus.WAITING, waiting=wait)


@_CHANGES.on(records.RunResumed)
def _resume(run: RunState, _record: Record, _: records.RunResumed) -> RunState:
    return run if run.is_cancel_requested else replace(run, status=RunStatus.RUNNING, waiting=None)


@_CHANGES.on(records.RunCancelRequested)
def _cancel(run: RunState, _: Record, body: records.RunCancelRequested) -> RunState:
    return _cancelling(run, body.reason)


def _cancelling(run: RunState, reason: str | None) -> RunState:
    return replace(
        run, status=RunStatus.CANCELLING, waiting=None, is_cancel_requested=True, cancel_reason=reason
    )


@_CHANGES.on(records.TurnStarted)
def _turn(run: RunState, _: Record, body: records.TurnStarted) -> RunState:
    return replace(run, turn_id=body.turn_id)


@_CHANGES.on(records.MessageReceived)
def _hear(run: RunState, _: Record, body: records.MessageReceived) -> RunState:
    if body.delivery != STEER or body.sender in run.speakers:
        return run
    return replace(run, speakers=(*run.speakers, body.sender))


STEER: Final = "steer"
"""The delivery of a message to a run under way."""


@_CHANGES.on(records.SessionMoved)
def _move(run: RunState, _: Record, body: records.SessionMoved) -> RunState:
    return replace(run, package_fingerprint=body.to_fingerprint)


@_CHANGES.on(records.RunCompleted)
def _complete(run: RunState, record: Record, body: records.RunCompleted) -> RunState:
    result = RunResult(
        run_id=run.run_id,
        status=RunStatus.COMPLETED,
        output=body.output or "",
        session_id=run.session_id,
        usage=usage_model(body.usage),
    )
    if body.structured_output is not UNSET:
        # Null is an output too; only a run without a contract has none.
        result = result.model_copy(update={"structured_output": body.structured_output})
    return _seal(run, record, result)


@_CHANGES.on(records.RunFailed, records.RunCancelled, records.RunBudgetExhausted)
def _fail(
    run: RunState, record: Record, body: records.RunFailed | records.RunCancelled | records.RunBudgetExhausted
) -> RunState:
    result = RunResult(
        run_id=run.run_id,
        status=RUN_ENDS[record.type],
        output="",
        session_id=run.session_id,
        usage=usage_model(body.usage),
        error=body.error,
    )
    if isinstance(body, records.RunCancelled) and body.reason:
        result = result.model_copy(update={"reason": body.reason})
    return _seal(run, record, result)


def _seal(run: RunState, record: Record, result: RunResult) -> RunState:
    return replace(run, status=result.status, waiting=None, ended_at=record.at, result=result)


RUN_CHANGES: Final = frozenset(_CHANGES.by_type)
"""The records that change a started run."""
