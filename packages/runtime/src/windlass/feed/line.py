"""What a stream runs over: the records of a session, or those of the whole store."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from windlass.feed.limits import EVENTS_PER_READ
from windlass.ports.feed import CursorExpired, FeedStore, refused
from windlass.ports.store import RunRow
from windlass.refusals import unknown_run
from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import Record

EVERYTHING: Final = ""
"""The topic of the whole store; no session has an empty id."""

Wants = Callable[[str, Record], bool]
"""Whether a reader wants events of a type about the things of a record."""
Floor = Callable[[], Awaitable[int]]
"""The position behind which a store still has everything; 0 if it never deleted anything."""


@dataclass(frozen=True, slots=True)
class Span:
    """Where a stream begins, and where the journal ended at that moment."""

    after: int
    last: int
    is_over: bool = False
    """Nothing more will come."""


class Line(Protocol):
    """One ordered line of records, for one reader."""

    @property
    def topic(self) -> str:
        """The session, or `EVERYTHING`; known once it has begun."""
        ...

    def wants(self, event_type: str, record: Record) -> bool:
        """Return whether the reader wants events of a type about the things of a record."""
        ...

    def order(self, record: Record) -> int:
        """Return the number of a record in this line."""
        ...

    async def find(self) -> None:
        """Learn which topic it is.

        Raises:
            Conflict: there is no such thing.
        """
        ...

    async def begin(self, order: int | None) -> Span:
        """Start behind a number; None starts with the first record that is kept.

        Raises:
            CursorExpired: what comes after the number is no longer kept.
            Rejected: no record has the number yet.
        """
        ...

    async def read(self, after: int) -> tuple[Record, ...]:
        """Return the next records; none at the end.

        Raises:
            CursorExpired: they are no longer kept.
        """
        ...


class SessionLine:
    """The records of a session."""

    __slots__ = ("_floor", "_last", "_store", "_wants", "topic")

    def __init__(self, store: FeedStore, session_id: str, *, wants: Wants) -> None:
        self._store = store
        self._wants = wants
        self.topic = session_id
        self._last = 0
        self._floor: int | None = None
        """A number before which records may be missing."""

    def wants(self, event_type: str, record: Record) -> bool:
        """Return whether the reader wants events of a type about the things of a record."""
        return self._wants(event_type, record)

    def order(self, record: Record) -> int:
        """Return the number of the record in its session."""
        return record.seq

    async def find(self) -> None:
        """A session need not exist yet."""

    async def begin(self, order: int | None) -> Span:
        """Start behind a record of the session."""
        last = self._last = await self._last_seq()
        if order is None:
            self._floor = 0
        return Span(check_past(order or 0, last), last)

    async def read(self, after: int) -> tuple[Record, ...]:
        """Return the next records of the session."""
        records = await self._store.read(self.topic, after=after, limit=EVENTS_PER_READ)
        # A session has no gaps of its own: if records are missing, they were deleted.
        is_missing = records[0].seq != after + 1 if records else after < self._last
        if is_missing and after != self._floor:
            raise CursorExpired(f"the records of the session behind {after:,} are no longer kept")
        if not records and after and await self._last_seq() < after:
            raise CursorExpired("the session was deleted")
        return records

    async def _last_seq(self) -> int:
        row = await self._store.session(self.topic)
        return 0 if row is None else row.last_seq


class RunLine(SessionLine):
    """The records of a session, from those on that belong to a run."""

    __slots__ = ("_is_bounded", "_run_id")

    def __init__(self, store: FeedStore, run_id: str, *, wants: Wants, until_terminal: bool) -> None:
        super().__init__(store, "", wants=wants)
        self._run_id = run_id
        self._is_bounded = until_terminal

    async def find(self) -> None:
        """Learn the session of the run."""
        self.topic = (await find_run(self._store, self._run_id)).session_id

    async def begin(self, order: int | None) -> Span:
        """Start behind a record of the session, not before the run does."""
        # The end before the start: a run that has no record now has none up to that end.
        last = await self._last_seq()
        run = await find_run(self._store, self._run_id)
        first = run.first_seq - 1 if run.first_seq else last
        is_over = self._is_bounded and run.status in RUN_ENDS.values()
        if is_over:
            last = await self._last_seq()
        self._last = last
        if order is None:
            self._floor = first
        return Span(max(check_past(order or 0, last), first), last, is_over)


class StoreLine:
    """The records of the whole store."""

    __slots__ = ("_floor", "_store", "_wants", "topic")

    def __init__(self, store: FeedStore, *, wants: Wants, floor: Floor | None) -> None:
        self._store = store
        self._wants = wants
        self._floor = floor
        self.topic = EVERYTHING

    def wants(self, event_type: str, record: Record) -> bool:
        """Return whether the reader wants events of a type about the things of a record."""
        return self._wants(event_type, record)

    def order(self, record: Record) -> int:
        """Return the position of the record."""
        return record.position or 0

    async def find(self) -> None:
        """There is only one."""

    async def begin(self, order: int | None) -> Span:
        """Start behind a position."""
        last = await self._store.last_position()
        after = check_past(order or 0, last)
        floor = await self._floor_now()
        if order is None:
            after = min(floor, last)
        return Span(after, last)

    async def read(self, after: int) -> tuple[Record, ...]:
        """Return the next records of the store."""
        records = await self._store.read_all(after=after, limit=EVENTS_PER_READ)
        # Asked after reading, so that what was deleted meanwhile is noticed.
        if after < await self._floor_now():
            raise CursorExpired(f"the records behind position {after:,} are no longer kept")
        return records

    async def _floor_now(self) -> int:
        return 0 if self._floor is None else await self._floor()


async def find_run(store: FeedStore, run_id: str) -> RunRow:
    """Return a run; Conflict if nobody ever started it."""
    run = await store.run(run_id)
    if run is None:
        raise unknown_run(run_id)
    return run


def check_past(order: int, last: int) -> int:
    """Return a number that is not behind the last one."""
    if order > last:
        raise refused(f"the cursor is after record {order:,}, and the last one is {last:,}")
    return order
