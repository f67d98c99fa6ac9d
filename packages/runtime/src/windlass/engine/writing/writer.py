"""The writer of one session: drafts records, folds them at once, and appends them in batches."""

import asyncio
import logging
import zlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Protocol, TypeVar

from pydantic import JsonValue

from windlass.engine.spending.spend_limits import SpendLimits
from windlass.errors import AgentError, Ambiguous, Conflict, Unavailable
from windlass.ports.clock import Clock
from windlass.ports.inbox import NewRun
from windlass.ports.journal import Appended, Batch, Claim, Journal, SharedCalls, Snapshots, Standing
from windlass.ports.purses import CallAsk, CallGrant, CallRefusal, Purse, PurseStore
from windlass.tools.calling import read_by_size
from windlass_harness.loop import people
from windlass_harness.loop.events import Draft
from windlass_harness.loop.purse import PaidCall, paid_call, paid_summary
from windlass_harness.loop.rules import CallBounds
from windlass_harness.loop.state import LoopState, dump_loop, load_loop
from windlass_harness.record import Record
from windlass_harness.redact import Redactor
from windlass_harness.views.listing import RUN_STATUSES
from windlass_harness.views.runs import DELIVERY_RECORDS, RunState
from windlass_protocol import ErrorInfo, InputKind, JsonObject, RetryClass, RunStatus
from windlass_protocol.bodies import Part, data_of
from windlass_protocol.frozen import frozen
from windlass_protocol.generated import records

T = TypeVar("T")

ATTEMPTS_MAX: Final = 5
RETRY_DELAY_S: Final = 0.05
"""Delay before the second attempt; it doubles with each attempt."""
DELAY_S_MAX: Final = 1.0
RESULT_RETRY_S_MAX: Final = 600.0
"""How long results of effects are retried, for example while the disk is full."""


async def retry_store_call(
    call: Callable[[], Awaitable[T]],
    clock: Clock,
    *,
    must_keep: Callable[[], bool] = lambda: False,
    first: Ambiguous | Unavailable | None = None,
) -> T:
    """Call the store; retry a few times with growing delays.

    While `must_keep()` it is retried for up to ten minutes, unless the store has stopped for good. `first` is
    the error of an attempt that the caller made.

    Raises:
        Unavailable: every attempt failed.
        Ambiguous: the last attempt may have been written.
    """
    attempts, until_s, error = 0, clock.monotonic() + RESULT_RETRY_S_MAX, first
    while True:
        if error is None:
            try:
                return await call()
            except (Ambiguous, Unavailable) as failure:
                error = failure
        attempts += 1
        is_passing = isinstance(error, Ambiguous) or error.retry is RetryClass.RETRYABLE
        is_worth_it = is_passing and must_keep() and clock.monotonic() < until_s
        if attempts >= ATTEMPTS_MAX and not is_worth_it:
            raise error
        error = None
        await clock.sleep(min(RETRY_DELAY_S * 2 ** min(attempts - 1, ATTEMPTS_MAX), DELAY_S_MAX))


class Lost(Exception):
    """Another owner has the session; nothing more may be done for it here."""


class Publisher(Protocol):
    """Publishes durable records."""

    def publish(self, records: Sequence[Record]) -> None:
        """Publish the records of one append."""
        ...


class Observer(Protocol):
    """Gets the durable records of a session."""

    async def make_room(self) -> None:
        """Return when the observer can take more records."""
        ...

    def take(self, records: Sequence[Record]) -> None:
        """Take the records of one append; they must not be changed."""
        ...


class Scribe(Protocol):
    """Masks secrets in drafts before they become records."""

    @property
    def redactor(self) -> Redactor:
        """The redactor, also used for live events."""
        ...

    def __call__(self, drafts: Sequence[Draft]) -> Sequence[Draft]:
        """Return the drafts with secrets masked."""
        ...

    async def mask_drafts(self, drafts: Sequence[Draft], masked: JsonValue = None) -> Sequence[Draft]:
        """Return the drafts with secrets masked; large ones do not hold up the event loop.

        `masked` is the output of a call in which they were masked before.
        """
        ...

    async def mask_body(self, data: JsonObject) -> JsonObject:
        """Return data with secrets masked, and remember it; large data does not hold up the event loop."""
        ...


class SessionWriter:
    """Appends records to a claimed session."""

    def __init__(
        self,
        state: LoopState,
        claim: Claim,
        *,
        journal: Journal,
        publisher: Publisher,
        scribe: Scribe,
        clock: Clock,
        limits: SpendLimits | None = None,
    ) -> None:
        self.on_item_posted: Callable[[str], None] = lambda _: None
        """Called with each session that received an inbox item."""
        self.session_id = claim.session_id
        self.is_released = False
        self.is_given_up = False
        """Whether nothing more is to be awaited: results are then not retried for long."""
        self.state = state
        self._claim = claim
        self.journal = journal
        self._publisher = publisher
        self._scribe = scribe
        self._clock = clock
        self._seq = state.seq
        self._records: list[Record] = []
        """Records that are folded but not durable."""
        self._consumes: list[int] = []
        self._new_runs: list[tuple[NewRun, int]] = []
        self._runs: dict[str, RunStatus] = {}
        self._standing: Standing | None = None
        self.wake_at_ms: int | None = None
        self._open_request_ids = frozenset(state.session.requests)
        """Open requests, as the index has them."""
        self._is_asking = False
        """Whether the next commit has a request: one that it closes as well is not among the open ones."""
        self._observer: Observer | None = None
        self._paid: list[PaidCall] = []
        """Calls for shared limits that end with the next commit."""
        self._limits = limits
        self._has_held = limits is not None and bool(limits.current)
        """Whether the store may hold calls of this session for limits that it shares."""
        self.step: Record | None = None
        """The durable `step.started` record of the newest step."""

    def observe(self, observer: Observer) -> None:
        """Pass records to an observer when they are durable; an append waits until it has room."""
        self._observer = observer

    def add(self, drafts: Sequence[Draft]) -> None:
        """Draft records: folded into the state now, durable after the next commit."""
        if drafts:
            self.add_masked(self._scribe(drafts))

    async def mask(self, drafts: Sequence[Draft], masked: JsonValue = None) -> Sequence[Draft]:
        """Return drafts for `add_masked`; secrets in large ones are looked for in a thread.

        `masked` is the output of a call in which they were masked before.
        """
        return await self._scribe.mask_drafts(drafts, masked) if drafts else drafts

    def add_masked(self, drafts: Sequence[Draft]) -> None:
        """Draft records that `mask` returned."""
        pending, state, epoch = self._records, self.state, self._claim.epoch
        for record in drafts:
            shared_call = state.run_notes.shared_call
            record.session_id, record.epoch = self.session_id, epoch
            record.seq = self._seq + len(pending) + 1
            pending.append(record)
            state.apply(record)
            if shared_call is not None and state.run_notes.shared_call is None and record.body is not None:
                self._paid.append(paid_call(shared_call, record.body))
            if record.type in _SUMMARIES:
                self._pay_summary(record)
            status = RUN_STATUSES.get(record.type)
            if status is not None and record.run_id is not None:
                self._runs[record.run_id] = status
            elif isinstance(record.body, records.InputRequested) and record.body.child_session_id is None:
                self._is_asking = True

    async def inspect(self, body: JsonObject) -> None:
        """Inspect the body of an inbox item for secrets before records are drafted from it.

        It was masked before it was posted, perhaps by another process. If it is large, inspecting it here
        keeps the event loop free; the records of it are then recognised quickly.
        """
        await self._scribe.mask_body(body)

    def begin(self, run: NewRun, item: int) -> None:
        """Start a run in the next commit, from a message to an ended run."""
        self._new_runs.append((run, item))

    @property
    def consuming(self) -> frozenset[int]:
        """Items that the next commit consumes."""
        return frozenset(self._consumes)

    def consume(self, item: int) -> None:
        """Consume an inbox item in the next commit."""
        self._consumes.append(item)

    async def commit(self, *, standing: Standing, wake_at_ms: int | None, is_last: bool = False) -> None:
        """Append all drafts, then publish them.

        Raises:
            Lost: another owner has the session.
            Unavailable: nothing was written; try again later.
            Rejected: the journal will never accept the batch.
        """
        is_same = standing is self._standing and wake_at_ms == self.wake_at_ms
        pending = self._records
        if not pending and not self._consumes and is_same and not is_last:
            return
        requests = self.state.session.requests
        has_other_requests = self._is_asking or requests.keys() != self._open_request_ids
        batch = Batch(
            self._claim,
            self._seq,
            tuple(pending),
            consumes=tuple(self._consumes),
            standing=None if is_same else standing,
            wake_at_ms=wake_at_ms,
            runs=tuple(self._runs.items()),
            new_runs=tuple(self._new_runs),
            asked=tuple(requests.values()) if has_other_requests else None,
            is_last=is_last,
            calls=self._calls_to_settle(),
        )
        if self._observer is not None and pending:
            await self._observer.make_room()
        try:
            appended = await self.journal.append(batch)
        except Conflict as error:
            raise Lost from error
        except (Ambiguous, Unavailable) as error:
            appended = await self._append_again(batch, error)
        if has_other_requests:
            self._is_asking = False
            self._open_request_ids = frozenset(request.request_id for request in batch.asked or ())
        self._standing, self.wake_at_ms = standing, wake_at_ms
        self.is_released = is_last
        if batch.calls is not None:
            self._has_held = batch.calls.open_call is not None
            self._paid.clear()
        self._records = []
        if self._consumes:
            self._consumes.clear()
            self._new_runs.clear()
        if self._runs:
            self._runs.clear()
        if pending:
            _log_runs(pending)
            self._seq += len(pending)
            position = appended.first_position
            for record in pending:
                record.position = position
                position += 1
                if record.type == records.StepStarted.TYPE:
                    self.step = record
            self._publisher.publish(pending)
            if self._observer is not None:
                self._observer.take(pending)
        for post in batch.posts:
            self.on_item_posted(post.session_id)

    async def hold_call(
        self, store: PurseStore, call: str, purses: tuple[Purse, ...], bounds: CallBounds
    ) -> CallGrant | CallRefusal:
        """Hold the next model call in the purses that it counts for.

        Raises:
            Lost: another owner has the session.
            Unavailable: the store cannot be reached.
        """
        if self._paid:
            # What the call before did not need is there for this one.
            await self.commit(standing=Standing.RUNNING, wake_at_ms=None)
        # Before it is asked: a lost answer may have held the call.
        self._has_held = True
        ask = CallAsk(self._claim, call, purses, bounds)
        try:
            return await retry_store_call(lambda: store.hold_call(ask), self._clock)
        except Conflict as error:
            raise Lost from error
        except AgentError:
            await self.commit(standing=Standing.RUNNING, wake_at_ms=None)
            raise

    def _pay_summary(self, record: Record) -> None:
        """Count a summary in the purses of its run; it was not held in them before."""
        run = self.state.session.run
        if run is None or self._limits is None or not self._limits.current:
            return
        purses = self._limits.purses(run.owner, run.agent_id)
        paid = paid_summary(record, tuple(purse.name for purse in purses))
        if paid is not None:
            self._paid.append(paid)

    def _calls_to_settle(self) -> SharedCalls | None:
        """Return the calls to settle with the next append."""
        open_call = self.state.run_notes.shared_call
        if not self._paid and not self._has_held:
            return None
        return SharedCalls(tuple(self._paid), open_call)

    async def release(self) -> None:
        """Release the session; drafts are discarded.

        Errors are ignored: another owner may have the session already, or the lease will expire.
        """
        with suppress(AgentError):
            await self.journal.append(Batch(self._claim, self._seq, (), is_last=True))

    async def _append_again(self, batch: Batch, error: Ambiguous | Unavailable) -> Appended:
        """Append again; after an ambiguous error, read back first."""
        is_in_doubt = isinstance(error, Ambiguous)

        async def attempt() -> Appended:
            nonlocal is_in_doubt
            appended = await self._look(batch) if is_in_doubt else None
            try:
                return appended or await self.journal.append(batch)
            except Ambiguous:
                is_in_doubt = True
                raise

        try:
            return await retry_store_call(
                attempt, self._clock, must_keep=lambda: self._holds_results(batch), first=error
            )
        except Conflict as refusal:
            raise Lost from refusal

    def _holds_results(self, batch: Batch) -> bool:
        """Whether a batch holds results of effects, which cannot be produced again."""
        return not self.is_given_up and any(draft.type in _RESULT_RECORDS for draft in batch.drafts)

    async def _look(self, batch: Batch) -> Appended | None:
        """Read back an ambiguous append; None if it did not happen."""
        records = await self.journal.read(self.session_id, after=batch.expected_seq)
        if not records:
            # A batch without records leaves nothing to read back. Writing it twice is safe: if the first
            # write consumed an item or released the session, the second is refused.
            return None
        is_ours = all(record.epoch == self._claim.epoch for record in records)
        if len(records) != len(batch.drafts) or not is_ours:
            raise Lost
        return Appended(batch.expected_seq + 1, records[0].position or 0)


class _LogIds(Part, frozen=True, kw_only=True):
    run_id: str | None
    session_id: str
    agent_id: str | None


def log_ids(run: Record | RunState) -> JsonObject:
    """Return the ids of a run, for the log of operators."""
    return data_of(_LogIds(run_id=run.run_id, session_id=run.session_id, agent_id=run.agent_id))


def _log_runs(written: Sequence[Record]) -> None:
    """Log what an operator has to know of an append; the texts are masked, as all records are."""
    for record in written:
        if record.type not in _LOGGED:
            continue
        ids = log_ids(record)
        description, problem, level = _LOGGED[record.type], "", logging.WARNING
        match record.body:
            case records.InputRequested(requests=requests):
                if not any(request.kind is InputKind.RECOVERY for request in requests):
                    continue
                if any(people.is_divergence(request) for request in requests):
                    description = "waits for a person: its workflow went another way than its records"
            case (
                records.RunFailed(error=ErrorInfo() as error)
                | records.RunBudgetExhausted(error=ErrorInfo() as error)
            ):
                ids |= {"code": error.code, "kind": error.kind}
                problem = f": {error.message}"
            case _:
                level = logging.INFO
        names = (record.run_id, record.agent_id)
        _LOG.log(level, "run %s of agent %s %s%s", *names, description, problem, extra={"windlass": ids})


_LOG: Final = logging.getLogger("windlass.runs")
_LOGGED: Final = {
    records.RunFailed.TYPE: "failed",
    records.RunBudgetExhausted.TYPE: "exhausted its budget",
    records.RecoveryStarted.TYPE: "continues here: the process that drove it ended",
    records.InputRequested.TYPE: "waits for a person: a call was interrupted and may have taken effect",
}
_SUMMARIES: Final = {records.CompactionCompleted.TYPE, records.CompactionFailed.TYPE}
_RESULT_RECORDS: Final = {records.ActionResult.TYPE, *DELIVERY_RECORDS} - {records.DeliveryIntended.TYPE}

RECORDS_PER_READ: Final = 2_048
"""Records that are read at once when a session is loaded."""
RECORDS_IN_A_ROW: Final = 256
"""Records that are folded in one turn of the event loop."""
SNAPSHOT_RECORDS_MIN: Final = 4_096
"""Records of a tail before a snapshot is worth writing.

A snapshot is loaded faster than its records are folded, but costs more to write than one load of so few
records saves.
"""
PACKED: Final = 8
"""About how many times smaller a state is as it is stored."""
STATE_BYTES_MAX: Final = 1_073_741_824
"""Larger states are not saved; they are folded from records."""


@frozen
class Loaded:
    """A folded session, and the sequence number of its snapshot."""

    state: LoopState
    snapshot_seq: int


async def load(store: Journal, snapshots: Snapshots, *, session_id: str) -> Loaded:
    """Fold a session from its snapshot and records; an unusable snapshot is ignored.

    Raises:
        Corrupt: the journal is damaged.
    """
    state = await load_snapshot(snapshots, session_id)
    seq = state.seq
    while True:
        records = await store.read(session_id, after=state.seq, limit=RECORDS_PER_READ)
        for at in range(0, len(records), RECORDS_IN_A_ROW):
            if at:
                await asyncio.sleep(0)  # noqa: TID251 - a turn, not a time
            state.apply_all(records[at : at + RECORDS_IN_A_ROW])
            state.measure()
        if len(records) < RECORDS_PER_READ:
            return Loaded(state, seq)


async def load_snapshot(snapshots: Snapshots, session_id: str) -> LoopState:
    """Return the state of a session at its snapshot; a new state without a usable snapshot."""
    saved = await snapshots.load(session_id)
    state = None
    if saved is not None:
        state = await read_by_size(PACKED * len(saved[1]), partial(_unpack_snapshot, saved[1]))
    return LoopState() if saved is None or state is None or state.seq != saved[0] else state


def wants_snapshot(state: LoopState, snapshot_seq: int) -> bool:
    """Whether a new snapshot is worth its size.

    The interval grows with the session, so that all snapshots together stay a fraction of the records.
    """
    return state.seq - snapshot_seq >= max(SNAPSHOT_RECORDS_MIN, snapshot_seq)


async def save(snapshots: Snapshots, session_id: str, *, state: LoopState) -> None:
    """Save a snapshot of a state that nothing changes meanwhile."""
    packed = await read_by_size(state.measure(), lambda: zlib.compress(dump_loop(state), 1))
    await snapshots.save(session_id, state.seq, state=packed)


def _unpack_snapshot(snapshot: bytes) -> LoopState | None:
    """Return the state of a snapshot; None if it is unusable."""
    unpacker = zlib.decompressobj()
    try:
        dump = unpacker.decompress(snapshot, STATE_BYTES_MAX)
    except zlib.error:
        return None
    state = load_loop(dump) if unpacker.eof else None
    if state is not None:
        state.measure()
    return state
