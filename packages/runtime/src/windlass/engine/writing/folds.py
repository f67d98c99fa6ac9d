"""Folds of journals that continue at their cursor.

A read of a run costs what is new since the last read, not the length of the run. The first read of a run or
session skips the appends of steps: it reads milestones. A fold is a cache: it holds durable records only, and
each read looks at the journal, where any process may have written meanwhile.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from pydantic_core import to_json

from windlass.ports.catalog import RunRow
from windlass.ports.store import Store
from windlass_harness.record import Record
from windlass_harness.views.family import FamilyDraft
from windlass_harness.views.runs import (
    DELIVERY_RECORDS,
    RUN_CHANGES,
    RUN_ENDS,
    DeliveryStates,
    RunState,
    advance_run,
    run_id_of,
    start_run,
    unstarted_run,
)
from windlass_harness.views.session import WITHOUT_STEPS, SessionDraft, SessionState
from windlass_protocol.generated.records import RunStarted, SessionForked, SessionStateChanged

SESSION_RECORDS: Final = 512
RUN_RECORDS: Final = 64
"""Milestones that are read at once: most runs have fewer, and those of later runs may follow."""
SESSIONS_BYTES_MAX: Final = 16 * 1_048_576
RUNS_BYTES_MAX: Final = 2 * 1_048_576
SESSION_BYTES: Final = 65_536
"""Approximate bytes of a session without its messages and its authored state."""
RUN_BYTES: Final = 2_048
"""Approximate bytes of a run without its output."""


class Fold(Protocol):
    """A state that records of one session are applied to."""

    seq: int
    """The number of the last record that was applied."""
    is_broken: bool
    """Whether a record could not be applied, so that the state is wrong."""

    @property
    def is_complete(self) -> bool:
        """Whether further records change nothing."""
        ...

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        ...

    def apply(self, records: Sequence[Record]) -> None:
        """Apply the next records."""
        ...


FoldT = TypeVar("FoldT", bound=Fold)


class SessionRead(Protocol):
    """`Journal.read` or `Journal.milestones`."""

    async def __call__(self, session_id: str, *, after: int, limit: int) -> tuple[Record, ...]:
        """Return records of a session, in order."""
        ...


class FoldCache(Generic[FoldT]):
    """Folds by key, those read last; the size of all together is limited."""

    def __init__(self, read: SessionRead, bytes_max: int, *, records_per_read: int) -> None:
        self._read = read
        self._records_per_read = records_per_read
        self._bytes_max = bytes_max
        self._bytes = 0
        self._known: OrderedDict[tuple[str, str], tuple[FoldT, int]] = OrderedDict()
        """Folds with their sizes."""

    async def read(self, session_id: str, name: str, begin: Callable[[], FoldT]) -> FoldT:
        """Return a fold of a session up to the end of the journal; `begin` makes it at the first read.

        `name` is that of the fold in its session. The id of a run alone would not do: it can be used again
        after its session was deleted.
        """
        key = session_id, name
        fold = self._known[key][0] if key in self._known else None
        try:
            if fold is None or not await self._go_on(fold, session_id):
                fold = begin()
                await self._go_on(fold, session_id)
        except BaseException:
            self._drop(key)
            raise
        self._keep(key, fold)
        return fold

    async def _go_on(self, fold: FoldT, session_id: str) -> bool:
        """Apply the records that are new; False if the session was deleted or the fold is broken.

        The last record is read again, to see that it is there. The id of a deleted session is not used again.
        """
        while True:
            seq, limit = fold.seq, 1 if fold.is_complete else self._records_per_read
            records = await self._read(session_id, after=max(seq - 1, 0), limit=limit)
            if fold.is_broken or (seq > 0 and not records):
                return False
            if records and not fold.is_complete:
                # Another reader may have applied some of them while this one waited.
                new = [record for record in records if record.seq > fold.seq]
                fold.is_broken = True
                fold.apply(new)
                fold.is_broken = False
            if len(records) < limit or fold.is_complete:
                return True

    def _drop(self, key: tuple[str, str]) -> None:
        if key in self._known:
            self._bytes -= self._known.pop(key)[1]

    def _keep(self, key: tuple[str, str], fold: FoldT) -> None:
        self._drop(key)
        size = fold.size
        if size > self._bytes_max:
            # Do not evict the others for a fold that cannot fit.
            return
        self._known[key] = fold, size
        self._bytes += size
        while self._bytes > self._bytes_max:
            self._drop(next(iter(self._known)))


class SessionFold:
    """A session without its steps and messages: run, people, subagents, authored state and deliveries."""

    def __init__(self) -> None:
        self.seq = 0
        self.is_complete = self.is_broken = False
        self.size = SESSION_BYTES
        self.deliveries = DeliveryStates()
        self._session = SessionDraft(SessionState())
        self.requests = self._session.requests
        """Open requests to people."""
        self.authored = self._session.authored
        """The state that the application set."""

    @property
    def family(self) -> FamilyDraft:
        """The subagents and their requests."""
        return self._session.family

    @property
    def run(self) -> RunState | None:
        """The current run; None if there is none."""
        run = self._session.run
        return None if run is None or run.result is not None else run

    @property
    def newest_run(self) -> RunState | None:
        """The newest run, which may have ended; None if there is none."""
        return self._session.run

    def apply(self, records: Sequence[Record]) -> None:
        """Apply the next milestones."""
        session = self._session
        for record in records:
            self.seq = record.seq
            if record.type in WITHOUT_STEPS:
                session.skip_to(record)
                session.apply(record)
            elif record.type in DELIVERY_RECORDS:
                self.deliveries.apply(record)
            if record.type == SessionStateChanged.TYPE:
                self.size = SESSION_BYTES + len(to_json(self.authored))
            if record.type == SessionForked.TYPE:
                # Deliveries belong to the session that this one was copied from.
                self.deliveries = DeliveryStates()
        session.history.messages.clear()


class RunFold:
    """One run of a session."""

    def __init__(self, row: RunRow) -> None:
        self.run: RunState | None = None
        """None before its first record."""
        self.seq = row.first_seq - 1
        self.is_broken = False
        self.size = RUN_BYTES
        self._run_id = row.run_id

    @property
    def is_complete(self) -> bool:
        """Whether the run has ended."""
        return self.run is not None and self.run.result is not None

    def apply(self, records: Sequence[Record]) -> None:
        """Apply the next milestones."""
        for record in records:
            self.seq = record.seq
            if record.type in _OF_RUN and run_id_of(record) == self._run_id:
                started = start_run(record) or unstarted_run(record)
                self.run = started or (self.run and advance_run(self.run, record))
                if record.type in RUN_ENDS:
                    # The output of a run may be large; nothing else of it is.
                    self.size += len(to_json(record.data))


_OF_RUN: Final = RUN_CHANGES | {RunStarted.TYPE}


class JournalFolds:
    """The folds of sessions and runs that reads of one runtime share."""

    def __init__(self, store: Store) -> None:
        self._store = store
        read = store.milestones
        self._sessions = FoldCache[SessionFold](read, SESSIONS_BYTES_MAX, records_per_read=SESSION_RECORDS)
        self._runs = FoldCache[RunFold](read, RUNS_BYTES_MAX, records_per_read=RUN_RECORDS)

    async def session(self, session_id: str) -> SessionFold:
        """Return a session without its steps and messages.

        The next read changes it: a caller takes what it needs before it awaits anything.
        """
        return await self._sessions.read(session_id, "", SessionFold)

    async def run(self, row: RunRow) -> RunState | None:
        """Return a run that has begun; None if its records are gone."""
        fold = await self._runs.read(row.session_id, row.run_id, lambda: RunFold(row))
        if row.status in RUN_ENDS.values() and not fold.is_complete:
            # The mark of the append that ended it is damaged: no seal covers it.
            fold = await self._read_whole(row)
        return fold.run

    async def _read_whole(self, row: RunRow) -> RunFold:
        fold = RunFold(row)
        while not fold.is_complete:
            records = await self._store.read(row.session_id, after=fold.seq, limit=SESSION_RECORDS)
            if not records:
                break
            fold.apply(records)
        return fold
