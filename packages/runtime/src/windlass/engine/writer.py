"""The writer of one session: drafts records, folds them at once, and appends them in batches."""

import logging
import zlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol, TypeVar

from windlass.errors import AgentError, Ambiguous, Conflict, Unavailable
from windlass.ports.clock import Clock
from windlass.ports.store import Appended, Batch, Claim, Journal, NewRun, Snapshots, Standing
from windlass_harness.loop.events import Draft
from windlass_harness.loop.state import LoopState, dump_loop, load_loop
from windlass_harness.record import Record
from windlass_harness.redact import Redactor
from windlass_harness.views.listing import RUN_STATUSES
from windlass_harness.views.runs import DELIVERY_RECORDS
from windlass_protocol import ErrorInfo, InputKind, JsonObject, RetryClass, RunStatus
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
    attempts, until_s = 0, clock.monotonic() + RESULT_RETRY_S_MAX
    while True:
        attempts += 1
        try:
            if first is not None:
                first, error = None, first
                raise error
            return await call()
        except (Ambiguous, Unavailable) as error:
            is_passing = isinstance(error, Ambiguous) or error.retry is RetryClass.RETRYABLE
            is_worth_it = is_passing and must_keep() and clock.monotonic() < until_s
            if attempts >= ATTEMPTS_MAX and not is_worth_it:
                raise
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

    async def masked(self, data: JsonObject) -> JsonObject:
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
        self._asked = frozenset(state.session.requests)
        """Open requests, as the index has them."""
        self._is_asking = False
        """Whether the next commit has a request: one that it closes as well is not among the open ones."""
        self._observer: Observer | None = None
        self.step: Record | None = None
        """The durable `step.started` record of the newest step."""

    def observe(self, observer: Observer) -> None:
        """Pass records to an observer when they are durable; an append waits until it has room."""
        self._observer = observer

    def add(self, drafts: Sequence[Draft]) -> None:
        """Draft records: folded into the state now, durable after the next commit."""
        if not drafts:
            return
        pending, state, epoch = self._records, self.state, self._claim.epoch
        for record in self._scribe(drafts):
            record.session_id, record.epoch = self.session_id, epoch
            record.seq = self._seq + len(pending) + 1
            pending.append(record)
            state.apply(record)
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
        await self._scribe.masked(body)

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
        is_asked_anew = self._is_asking or requests.keys() != self._asked
        batch = Batch(
            self._claim,
            self._seq,
            tuple(pending),
            consumes=tuple(self._consumes),
            standing=None if is_same else standing,
            wake_at_ms=wake_at_ms,
            runs=tuple(self._runs.items()),
            new_runs=tuple(self._new_runs),
            asked=tuple(requests.values()) if is_asked_anew else None,
            is_last=is_last,
        )
        if self._observer is not None and pending:
            await self._observer.make_room()
        try:
            appended = await self.journal.append(batch)
        except Conflict as error:
            raise Lost from error
        except (Ambiguous, Unavailable) as error:
            appended = await self._append_again(batch, error)
        if is_asked_anew:
            self._is_asking = False
            self._asked = frozenset(request.request_id for request in batch.asked or ())
        self._standing, self.wake_at_ms = standing, wake_at_ms
        self.is_released = is_last
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
            found = await self._look(batch) if is_in_doubt else None
            try:
                return found or await self.journal.append(batch)
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


def _log_runs(written: Sequence[Record]) -> None:
    """Log what an operator has to know of an append; the texts are masked, as all records are."""
    for record in written:
        if record.type not in _TOLD:
            continue
        ids: JsonObject = {"runId": record.run_id, "sessionId": record.session_id, "agentId": record.agent_id}
        words, problem, level = _TOLD[record.type], "", logging.WARNING
        match record.body:
            case records.InputRequested(requests=requests):
                if not any(one.kind is InputKind.RECOVERY for one in requests):
                    continue
            case (
                records.RunFailed(error=ErrorInfo() as error)
                | records.RunBudgetExhausted(error=ErrorInfo() as error)
            ):
                ids |= {"code": error.code, "kind": error.kind}
                problem = f": {error.message}"
            case _:
                level = logging.INFO
        who = (record.run_id, record.agent_id)
        _LOG.log(level, "run %s of agent %s %s%s", *who, words, problem, extra={"windlass": ids})


_LOG: Final = logging.getLogger("windlass.runs")
_TOLD: Final = {
    records.RunFailed.TYPE: "failed",
    records.RunBudgetExhausted.TYPE: "exhausted its budget",
    records.RecoveryStarted.TYPE: "continues here: the process that drove it ended",
    records.InputRequested.TYPE: "waits for a person: a call was interrupted and may have taken effect",
}
_RESULT_RECORDS: Final = {records.ActionResult.TYPE, *DELIVERY_RECORDS} - {records.DeliveryIntended.TYPE}

RECORDS_PER_READ: Final = 2_048
"""Records that are read and folded at once when a session is loaded."""
SNAPSHOT_RECORDS_MIN: Final = 4_096
"""Records of a tail before a snapshot is worth writing.

A snapshot is loaded faster than its records are folded, but costs more to write than one load of so few
records saves.
"""
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
        state.apply_all(records)
        if len(records) < RECORDS_PER_READ:
            return Loaded(state, seq)


async def load_snapshot(snapshots: Snapshots, session_id: str) -> LoopState:
    """Return the state of a session at its snapshot; a new state without a usable snapshot."""
    saved = await snapshots.load(session_id)
    found = None if saved is None else _unpacked(saved[1])
    return LoopState() if saved is None or found is None or found.seq != saved[0] else found


def wants_snapshot(state: LoopState, snapshot_seq: int) -> bool:
    """Whether a new snapshot is worth its size.

    The interval grows with the session, so that all snapshots together stay a fraction of the records.
    """
    return state.seq - snapshot_seq >= max(SNAPSHOT_RECORDS_MIN, snapshot_seq)


async def save(snapshots: Snapshots, session_id: str, *, state: LoopState) -> None:
    """Save a snapshot of the state."""
    await snapshots.save(session_id, state.seq, state=zlib.compress(dump_loop(state), 1))


def _unpacked(snapshot: bytes) -> LoopState | None:
    """Return the state of a snapshot; None if it is unusable."""
    unpacker = zlib.decompressobj()
    try:
        dump = unpacker.decompress(snapshot, STATE_BYTES_MAX)
    except zlib.error:
        return None
    return load_loop(dump) if unpacker.eof else None
