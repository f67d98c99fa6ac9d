"""What a stream runs over: the records of a session, or those of the whole store."""

from asyncio import Future, get_running_loop
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Protocol, Self
from weakref import WeakSet

from windlass.errors import AgentError
from windlass.feed.cursors import EVENTS_PER_READ, RING_BYTES_MAX, TAIL_BYTES_MAX, TAILS_MAX, Place
from windlass.feed.live import LiveStep, Pieces, Shown, show
from windlass.ports.feed import CursorExpired, FeedStore, StreamOptions, refused
from windlass.ports.store import RunRow
from windlass.refusals import unknown_run
from windlass_harness.record import Record
from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import Cursor, Event
from windlass_protocol.frozen import frozen

EVERYTHING: Final = ""
"""The topic of the whole store; no session has an empty id."""

Wants = Callable[[str, Record], bool]
"""Whether a reader wants events of a type about the things of a record."""
Floor = Callable[[], Awaitable[int]]
"""The position behind which a store still has everything; 0 if it never deleted anything."""


@frozen
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


class Reader:
    """Somebody who waits for a topic; it is told apart by being itself."""

    __slots__ = ("__weakref__",)


class Topic:
    """The end of one session, or of the whole store.

    It holds all events behind its floor, which rises when they get too many or too large. Whoever stands
    before the floor reads the journal. Once every reader has seen everything and waits, nothing is held at
    all. A topic lives as long as one of its readers does.
    """

    __slots__ = (
        "__weakref__",
        "_awake",
        "_bytes",
        "_events_max",
        "_floor",
        "_last",
        "_orders",
        "_parked",
        "_parked_live",
        "_shown",
        "tails",
        "version",
    )

    def __init__(self, events_max: int) -> None:
        self._events_max = events_max
        self._floor: int | None = None
        """None: what is the end of the journal is not known."""
        self._last = 0
        self._orders: list[int] = []
        self._shown: list[Shown] = []
        self._bytes = 0
        self._awake: WeakSet[Reader] = WeakSet()
        self._parked: dict[Reader, Future[None]] = {}
        self._parked_live: dict[Reader, Future[None]] = {}
        self.tails: dict[tuple[str, int], Pieces] = {}
        """Deltas that belong before a record, by its session and number."""
        self.version = 0
        """Changes with everything that is published."""

    @property
    def held(self) -> int:
        """How many events are held in memory."""
        return len(self._shown)

    @property
    def held_bytes(self) -> int:
        """How many bytes they take, about."""
        return self._bytes

    @property
    def is_empty(self) -> bool:
        """Whether nobody reads it."""
        return not (self._awake or self._parked or self._parked_live)

    def join(self, reader: Reader) -> None:
        """Hold events for a reader until it waits."""
        self._awake.add(reader)

    def leave(self, reader: Reader) -> None:
        """Forget a reader."""
        self._awake.discard(reader)
        self._rest_if_all_wait()

    def park(self, reader: Reader, future: "Future[None]", *, with_live: bool) -> None:
        """Wake a reader that has seen everything when there is more."""
        (self._parked_live if with_live else self._parked)[reader] = future
        self._awake.discard(reader)
        self._rest_if_all_wait()

    def unpark(self, reader: Reader) -> None:
        """Take back `park`, if nothing has woken the reader."""
        if self._parked.pop(reader, None) or self._parked_live.pop(reader, None):
            self._awake.add(reader)

    def add(self, shown: Sequence[Shown], *, first: int) -> None:
        """Take durable events, numbered without gaps from `first` on, and wake everybody."""
        self.version += 1
        if self._floor is not None and first <= self._last:
            # Published late. Later ones were there before, so every reader has gone to the journal for these.
            return
        if self._floor is None or first != self._last + 1:
            self._clear()
            self._floor = first - 1
        self._last = first + len(shown) - 1
        self._orders += range(first, self._last + 1)
        self._shown += shown
        self._bytes += sum(one.weight for one in shown)
        excess = self._excess()
        if excess > 0:
            self._floor = self._orders[excess - 1]
            del self._orders[:excess], self._shown[:excess]
        self._wake(self._parked)
        self._wake(self._parked_live)

    def _excess(self) -> int:
        """How many of the oldest events have to go; those that are left fit."""
        excess = max(0, len(self._shown) - self._events_max)
        self._bytes -= sum(one.weight for one in self._shown[:excess])
        while self._bytes > RING_BYTES_MAX:
            self._bytes -= self._shown[excess].weight
            excess += 1
        return excess

    def add_tail(self, place: tuple[str, int], pieces: Pieces) -> None:
        """Keep the deltas before a record until all readers have passed it."""
        self.tails[place] = pieces
        total = sum(one.weight for one in self.tails.values())
        while len(self.tails) > TAILS_MAX or total > TAIL_BYTES_MAX:
            total -= self.tails.pop(next(iter(self.tails))).weight

    def stir(self) -> None:
        """Wake those who want live deltas."""
        self._wake(self._parked_live)

    def doubt(self) -> None:
        """Send every reader to the journal."""
        self.version += 1
        self._clear()
        self._floor = None
        self._wake(self._parked)
        self._wake(self._parked_live)

    def after(self, order: int) -> list[Shown] | None:
        """Return the next events behind a number; None if only the journal knows them."""
        if self._floor is None or order < self._floor:
            return None
        start = bisect_right(self._orders, order)
        return self._shown[start : start + EVENTS_PER_READ]

    def cover(self, order: int) -> None:
        """Take note that the journal ended there, and nothing was published since."""
        self._clear()
        self._floor = self._last = order

    def _rest_if_all_wait(self) -> None:
        if not self._awake:
            if self._floor is not None:
                self._floor = self._last
            self._clear()
            self.tails.clear()

    def _clear(self) -> None:
        self._orders.clear()
        self._shown.clear()
        self._bytes = 0

    def _wake(self, parked: "dict[Reader, Future[None]]") -> None:
        for reader, future in parked.items():
            self._awake.add(reader)
            if not future.done():
                future.set_result(None)
        parked.clear()


STEP_ENDS: Final = frozenset(RUN_ENDS) | {
    "step.started",
    "turn.waiting",
    "turn.completed",
    "turn.failed",
    "turn.cancelled",
    "run.waiting",
    "session.waiting",
    "session.completed",
    "session.failed",
}
"""Records after which the step before them shows nothing more."""


def ends_step(record: Record) -> bool:
    """Whether a record ends the open step; the end of a run that never began does not."""
    return record.type in STEP_ENDS and "unstarted" not in record.data


class Source(Protocol):
    """What a subscription needs of its feed."""

    def topic(self, key: str) -> Topic:
        """Return the topic of a session, or that of everything."""
        ...

    def release(self, key: str, topic: Topic) -> None:
        """Forget a topic, if the reader that left was its last."""
        ...

    def stirred(self, key: str, stamp: int) -> Iterable[LiveStep]:
        """Return the open steps of a topic that showed something since the stamp."""
        ...

    @property
    def stamp(self) -> int:
        """Rises with every delta that somebody could watch."""
        ...

    @property
    def failure(self) -> AgentError | None:
        """Why nothing more will come; None while something may."""
        ...

    def now(self) -> str:
        """Return the moment, for deltas."""
        ...


class Subscription(Reader):
    """A stream of events; see `EventStream`."""

    __slots__ = (
        "_after",
        "_end",
        "_line",
        "_next",
        "_options",
        "_place",
        "_ready",
        "_seen",
        "_source",
        "_stamp",
        "_start",
        "_topic",
        "_until_terminal",
        "is_over",
    )

    def __init__(
        self,
        source: Source,
        line: Line,
        *,
        cursor: Cursor | None,
        start: Cursor,
        options: StreamOptions,
        until_terminal: bool = False,
    ) -> None:
        self._source = source
        self._line = line
        self._place = Place(cursor or start)
        self._start = None if cursor is None else self._place.order
        self._options = options
        self._until_terminal = until_terminal
        self._topic: Topic | None = None
        self._after = self._place.order
        self._end: int | None = None
        self._ready: Sequence[Event] = ()
        self._next = 0
        self._seen: dict[str, tuple[int, int]] = {}
        """For each session, how many deltas were seen of the step that was open at a record."""
        self._stamp = -1
        self.is_over = False

    @property
    def cursor(self) -> Cursor:
        """Where the reader stands."""
        has_all = self._next == len(self._ready)
        return self._place.cursor(self._after if has_all else self._place.order)

    @property
    def ready(self) -> int:
        """How many events can be had without waiting."""
        return len(self._ready) - self._next

    @property
    def place(self) -> Place:
        """Where the reader stands, as it moves."""
        return self._place

    def __aiter__(self) -> Self:
        """Return the stream itself."""
        return self

    async def open(self) -> None:
        """Check the cursor and join the topic; does nothing the second time."""
        if self._topic is not None or self.is_over:
            return
        line = self._line
        try:
            await line.find()
            # Joined before the end is read: what is published from here on is in the topic.
            self._topic = self._source.topic(line.topic)
            self._topic.join(self)
            span = await line.begin(self._start)
        except BaseException:
            self._leave()
            raise
        self._after = span.after
        if self._place.index:
            self._seen[line.topic] = (self._place.order, self._place.index)
        if not self._options.follow or span.is_over:
            self._end = span.last

    async def aclose(self) -> None:
        """End the stream."""
        self.is_over = True
        self._ready, self._next = (), 0
        self._leave()

    def _leave(self) -> None:
        if self._topic is not None:
            self._topic.leave(self)
            self._source.release(self._line.topic, self._topic)
            self._topic = None

    async def __anext__(self) -> Event:
        """Return the next event; wait for it if there is none."""
        while (event := await self.next_now()) is None:
            await self.wait()
        return event

    async def next_now(self) -> Event | None:
        """Return the next event; None if there is none at this moment.

        Raises:
            StopAsyncIteration: there will never be one.
        """
        while self._next == len(self._ready):
            if self._topic is None:
                await self.open()
            if self._topic is None:
                raise StopAsyncIteration
            self._ready, self._next = (), 0
            if not await self._take_in(self._topic):
                return None
        event = self._ready[self._next]
        self._next += 1
        self._place.pass_by(event)
        return event

    async def wait(self) -> None:
        """Return once there may be more; call it when `next_now` has just returned None."""
        topic = self._topic
        assert topic is not None, "only a stream that has not ended is waited for"
        if self._source.failure is not None:
            raise self._source.failure.with_traceback(None)
        future = get_running_loop().create_future()
        topic.park(self, future, with_live=self._options.with_live)
        try:
            await future
        finally:
            topic.unpark(self)

    async def _take_in(self, topic: Topic) -> bool:
        """Make events ready; False if the reader has seen everything there is."""
        if self._end is not None and self._after >= self._end:
            await self.aclose()
            return True
        items: Sequence[Shown | Record] | None = topic.after(self._after)
        # Another process may have written what lies before the end without the topic knowing it yet.
        if items is None or (not items and self._end is not None):
            version = topic.version
            items = await self._line.read(self._after)
            if not items:
                if self._end is not None:
                    await self.aclose()
                elif version == topic.version:
                    # At the end: nothing was published while the journal was read.
                    topic.cover(self._after)
                return True
        if items:
            self._take(topic, items)
            return True
        return self._options.with_live and self._take_live(topic)

    def _take(self, topic: Topic, items: Sequence[Shown | Record]) -> None:
        """Make records ready, each behind the last deltas that belong before it."""
        ready: list[Event] = []
        line, end = self._line, self._end
        has_live = self._options.with_live and self._options.follow
        for item in items:
            record = item.record if isinstance(item, Shown) else item
            order = line.order(record)
            if end is not None and order > end:
                self._after = end
                break
            self._after = order
            if has_live:
                self._take_tail(topic, record, ready=ready)
            if line.wants(record.type, record):
                ready.append(item.event if isinstance(item, Shown) else show(item))
                if self._until_terminal and record.type in RUN_ENDS:
                    self._end = order
                    break
        self._ready = ready

    def _take_tail(self, topic: Topic, record: Record, *, ready: list[Event]) -> None:
        session_id = record.session_id
        pieces = topic.tails.get((session_id, record.seq)) if topic.tails else None
        if pieces is not None:
            ready += self._unseen(pieces)
        if ends_step(record):
            self._seen.pop(session_id, None)

    def _take_live(self, topic: Topic) -> bool:
        """Make deltas ready that come after everything that is stored."""
        ready: list[Event] = []
        source, line = self._source, self._line
        for step in source.stirred(line.topic, self._stamp):
            # The step itself may not have been published yet.
            if step.pieces is not None and line.order(step.started) <= self._after:
                ready += self._unseen(step.pieces)
        self._stamp = source.stamp
        self._ready = ready
        return bool(ready)

    def _unseen(self, pieces: Pieces) -> Iterable[Event]:
        started, end = pieces.started, pieces.next_index
        at_seq, index = self._seen.get(started.session_id, (0, 0))
        # A number above what there is was counted by somebody who wrote the same step before a crash.
        if at_seq < started.seq or index > end:
            index = 0
        if index == end:
            return ()
        self._seen[started.session_id] = (started.seq, end)
        deltas = pieces.since(index, self._source.now)
        return [delta for delta in deltas if self._line.wants(delta.type, started)]
