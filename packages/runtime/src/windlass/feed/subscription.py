"""Subscriptions: streams of events over the records of a session or of the whole store."""

from asyncio import Future, ensure_future, get_running_loop, shield
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol, Self
from weakref import WeakSet

from windlass.errors import AgentError
from windlass.feed.cursors import EVENTS_PER_READ, RING_BYTES_MAX, TAIL_BYTES_MAX, TAILS_MAX, ReaderPosition
from windlass.feed.live import LiveStep, PublishedRecord, StepDeltas, weight
from windlass.feed.pauses import LivePause
from windlass.ports.catalog import RunRow
from windlass.ports.feed import CursorExpired, FeedStore, StreamOptions, bad_subscription
from windlass.refusals import unknown_run
from windlass_harness.record import Record, to_event
from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import Cursor, Event
from windlass_protocol.frozen import frozen

EVERYTHING: Final = ""
"""Topic of the whole store; session ids are never empty."""

Wants = Callable[[str, Record], bool]
"""Whether a reader wants events of a type about a record."""


class RecordFilter(NamedTuple):
    """The events that a reader wants out of a sequence."""

    wants: Wants
    is_by_type: bool = False
    """Whether the answer depends on the type of the event; otherwise the record alone decides."""


Floor = Callable[[], Awaitable[int]]
"""Returns the position after which the store is complete; 0 if nothing was ever deleted."""


@frozen
class StreamStart:
    """Start of a stream, and the end of the journal at that moment."""

    after: int
    last: int
    is_over: bool = False
    """Whether no more records can follow."""


class RecordSequence(Protocol):
    """An ordered sequence of records for one reader."""

    @property
    def topic(self) -> str:
        """Session id or `EVERYTHING`; known after `find`."""
        ...

    @property
    def chosen(self) -> RecordFilter | None:
        """The events that the reader wants; None for all of them."""
        ...

    def order(self, record: Record) -> int:
        """Return the number of a record in this sequence."""
        ...

    async def find(self) -> None:
        """Find the topic.

        Raises:
            Conflict: the run does not exist.
        """
        ...

    async def begin(self, order: int | None) -> StreamStart:
        """Start after a number; None starts at the first record that is kept.

        Raises:
            CursorExpired: the session, or records after the number, were deleted.
            Rejected: the number is beyond the last record.
        """
        ...

    async def fetch(self, after: int) -> "Fetched":
        """Read the next records from the store; readers of a topic share what one of them fetched."""
        ...

    def is_before(self, after: int, fetched: "Fetched") -> bool:
        """Whether a read, of another reader, lacks records that were there when this reader began."""
        ...

    def check(self, after: int, fetched: "Fetched") -> tuple[Record, ...]:
        """Return the records that were fetched; an empty tuple at the end.

        Raises:
            CursorExpired: records after the number were deleted.
        """
        ...


@frozen
class Fetched:
    """The next records after a number."""

    records: tuple[Record, ...]
    is_gone: bool
    """Whether what was to follow is deleted."""
    shown: tuple[PublishedRecord, ...] = ()
    """The records with their events, if readers share them."""


_DELETED: Final = "the session was deleted"


class SessionRecords:
    """The records of a session."""

    __slots__ = ("_floor", "_last", "_store", "chosen", "topic")

    def __init__(self, store: FeedStore, session_id: str, *, chosen: RecordFilter | None = None) -> None:
        self._store = store
        self.chosen = chosen
        self.topic = session_id
        self._last = 0
        self._floor: int | None = None
        """Records before this number may be missing."""

    def order(self, record: Record) -> int:
        """Return the number of the record in its session."""
        return record.seq

    async def find(self) -> None:
        """Nothing to find: a session need not exist yet."""

    async def begin(self, order: int | None) -> StreamStart:
        """Start after a record of the session."""
        row = await self._store.session(self.topic)
        if row is None and await self._store.is_deleted(self.topic):
            raise CursorExpired(_DELETED)
        last = self._last = 0 if row is None else row.last_seq
        if order is None:
            self._floor = 0
        return StreamStart(check_past(order or 0, last), last)

    async def fetch(self, after: int) -> Fetched:
        """Read the next records of the session."""
        records = await self._store.read(self.topic, after=after, limit=EVENTS_PER_READ)
        return Fetched(records, not records and await self._is_gone(after))

    def is_before(self, after: int, fetched: Fetched) -> bool:
        """Whether the read ended before the last record that this reader knows."""
        return not fetched.records and after < self._last

    def check(self, after: int, fetched: Fetched) -> tuple[Record, ...]:
        """Return the records, unless some before them are missing."""
        records = fetched.records
        # Sequence numbers of a session have no gaps: missing records were deleted.
        is_missing = records[0].seq != after + 1 if records else after < self._last
        if is_missing and after != self._floor:
            raise CursorExpired(f"cursor expired: records of the session after {after:,} were deleted")
        if fetched.is_gone:
            raise CursorExpired(_DELETED)
        return records

    async def _is_gone(self, after: int) -> bool:
        """Return whether the session was deleted, and not only without records yet."""
        row = await self._store.session(self.topic)
        if row is not None:
            return row.last_seq < after
        return after > 0 or await self._store.is_deleted(self.topic)


class RunRecords(SessionRecords):
    """The records of a session, starting at a run."""

    __slots__ = ("_is_bounded", "_row", "_run_id")

    def __init__(
        self,
        store: FeedStore,
        run_id: str,
        *,
        chosen: RecordFilter,
        until_terminal: bool,
        row: RunRow | None = None,
    ) -> None:
        super().__init__(store, "", chosen=chosen)
        self._run_id = run_id
        self._is_bounded = until_terminal
        self._row = row

    async def find(self) -> None:
        """Find the session of the run."""
        if self._row is None:
            self._row = await find_run(self._store, self._run_id)
        self.topic = self._row.session_id

    async def begin(self, order: int | None) -> StreamStart:
        """Start after a record of the session, but not before the run.

        A run without records when its row was read has none up to the end that was read with it. A record
        published since is held by the topic, or it is before the floor of the topic and in the journal.
        """
        run, self._row = self._row, None
        assert run is not None, "it was found"
        last = self._last = run.last_seq
        first = run.first_seq - 1 if run.first_seq else last
        is_over = self._is_bounded and run.status in RUN_ENDS.values()
        if order is None:
            self._floor = first
        return StreamStart(max(check_past(order or 0, last), first), last, is_over)


class StoreRecords:
    """The records of the whole store."""

    __slots__ = ("_floor", "_store", "chosen", "topic")

    def __init__(self, store: FeedStore, *, floor: Floor | None, chosen: RecordFilter | None = None) -> None:
        self._store = store
        self.chosen = chosen
        self._floor = floor
        self.topic = EVERYTHING

    def order(self, record: Record) -> int:
        """Return the position of the record."""
        return record.position or 0

    async def find(self) -> None:
        """Nothing to find: there is one store."""

    async def begin(self, order: int | None) -> StreamStart:
        """Start after a position."""
        last = await self._store.last_position()
        after = check_past(order or 0, last)
        floor = await self._floor_now()
        if order is None:
            after = min(floor, last)
        return StreamStart(after, last)

    async def fetch(self, after: int) -> Fetched:
        """Read the next records of the store."""
        records = await self._store.read_all(after=after, limit=EVENTS_PER_READ)
        # Read the floor after the records, so that a concurrent deletion is noticed.
        return Fetched(records, after < await self._floor_now())

    def is_before(self, after: int, fetched: Fetched) -> bool:
        """Never: a read that finds nothing is an end, which the next publish moves."""
        return False

    def check(self, after: int, fetched: Fetched) -> tuple[Record, ...]:
        """Return the records, unless some before them are missing."""
        if fetched.is_gone:
            raise CursorExpired(f"cursor expired: records after position {after:,} were deleted")
        return fetched.records

    async def _floor_now(self) -> int:
        return 0 if self._floor is None else await self._floor()


async def find_run(store: FeedStore, run_id: str) -> RunRow:
    """Return a run; Conflict if it is unknown."""
    run = await store.run(run_id)
    if run is None:
        raise unknown_run(run_id)
    return run


def check_past(order: int, last: int) -> int:
    """Return the number; Rejected if it is beyond the last one."""
    if order > last:
        raise bad_subscription(
            f"cursor beyond the end: it is after record {order:,}, the last record is {last:,}"
        )
    return order


class Reader:
    """A waiting reader of a topic, identified by object identity."""

    __slots__ = ("__weakref__",)


class Topic:
    """The newest events of one session, or of the whole store.

    It holds all events after its floor, which rises when they exceed the limits. Readers before the floor
    read the journal. When every reader has read everything and waits, no event is held. A topic lives as long
    as one of its readers.
    """

    __slots__ = (
        "__weakref__",
        "_awake",
        "_bytes",
        "_events_max",
        "_floor",
        "_last",
        "_live_readers",
        "_orders",
        "_parked",
        "_parked_live",
        "_reads",
        "_shown",
        "stirs",
        "tails",
        "version",
    )

    def __init__(self, events_max: int) -> None:
        self._events_max = events_max
        self._floor: int | None = None
        """Number before the first held event; None if the end of the journal is unknown."""
        self._last = 0
        self._orders: list[int] = []
        self._shown: list[PublishedRecord] = []
        self._bytes = 0
        self._awake: set[int] = set()
        """Readers that do not wait, by `id()`: a reader that is dropped removes itself."""
        self._live_readers: WeakSet[Reader] = WeakSet()
        self._parked: dict[Reader, Future[None]] = {}
        self._parked_live: dict[Reader, Future[None]] = {}
        self._reads: dict[tuple[int, int], Future[Fetched]] = {}
        """Reads under way that readers share, by their start and the version at which they began."""
        self.tails: dict[tuple[str, int], StepDeltas] = {}
        """Deltas to show before a record, by session id and sequence number."""
        self.version = 0
        """Changes with every publish."""
        self.stirs = 0
        """Changes with every delta."""

    @property
    def held(self) -> int:
        """Number of events held in memory."""
        return len(self._shown)

    @property
    def held_bytes(self) -> int:
        """Their approximate size in bytes."""
        return self._bytes

    @property
    def is_empty(self) -> bool:
        """Whether it has no readers."""
        return not (self._awake or self._parked or self._parked_live)

    @property
    def has_live_readers(self) -> bool:
        """Whether any reader shows live deltas."""
        return bool(self._live_readers)

    def join(self, reader: Reader, *, with_live: bool) -> None:
        """Hold events for a reader until it waits."""
        self._awake.add(id(reader))
        if with_live:
            self._live_readers.add(reader)

    def leave(self, reader: Reader) -> None:
        """Remove a reader."""
        self._awake.discard(id(reader))
        self._live_readers.discard(reader)
        self._rest_if_all_wait()

    def forget(self, reader: Reader) -> None:
        """Remove a reader that is garbage-collected, in any thread: nothing else is changed."""
        self._awake.discard(id(reader))

    def park(self, reader: Reader, future: "Future[None]", *, with_live: bool) -> None:
        """Register a reader that has read everything, to be woken by the next event."""
        (self._parked_live if with_live else self._parked)[reader] = future
        self._awake.discard(id(reader))
        if not self._awake and (self._shown or self.tails):
            self._rest_if_all_wait()

    def unpark(self, reader: Reader) -> None:
        """Undo `park`, if the reader was not woken."""
        if self._parked.pop(reader, None) or self._parked_live.pop(reader, None):
            self._awake.add(id(reader))

    def add(self, shown: Sequence[PublishedRecord], *, first: int) -> None:
        """Add durable events, numbered from `first` without gaps, and wake all readers."""
        self.version += 1
        if self._floor is not None and first <= self._last:
            # Published late: later events were added before, so every reader reads these from the journal.
            return
        if self._floor is None or first != self._last + 1:
            self._clear()
            self._floor = first - 1
        self._last = first + len(shown) - 1
        self._orders += range(first, self._last + 1)
        self._shown += shown
        self._bytes += sum(published.weight for published in shown)
        excess = self._excess()
        if excess > 0:
            self._floor = self._orders[excess - 1]
            del self._orders[:excess], self._shown[:excess]
        self._wake(self._parked)
        self._wake(self._parked_live)

    def _excess(self) -> int:
        """Return how many of the oldest events exceed the limits."""
        excess = max(0, len(self._shown) - self._events_max)
        self._bytes -= sum(published.weight for published in self._shown[:excess])
        while self._bytes > RING_BYTES_MAX:
            self._bytes -= self._shown[excess].weight
            excess += 1
        return excess

    def add_tail(self, position: tuple[str, int], pieces: StepDeltas) -> None:
        """Hold the deltas before a record until all readers have passed it."""
        self.tails[position] = pieces
        total = sum(tail.weight for tail in self.tails.values())
        while len(self.tails) > TAILS_MAX or total > TAIL_BYTES_MAX:
            total -= self.tails.pop(next(iter(self.tails))).weight

    def stir(self) -> None:
        """Wake the readers of live deltas."""
        self.stirs += 1
        self._wake(self._parked_live)

    def doubt(self) -> None:
        """Make every reader read the journal."""
        self.version += 1
        self._clear()
        self._floor = None
        self._wake(self._parked)
        self._wake(self._parked_live)

    def after(self, order: int) -> list[PublishedRecord] | None:
        """Return the next events after a number; None if they must be read from the journal."""
        if self._floor is None or order < self._floor:
            return None
        start = bisect_right(self._orders, order)
        return self._shown[start : start + EVENTS_PER_READ]

    async def fetch(self, line: RecordSequence, after: int) -> Fetched:
        """Read the journal, once for all readers that are at the same place.

        What is written during the read changes the version, so that readers look again.
        """
        if len(self._awake) == 1:
            return await line.fetch(after)
        key = (after, self.version)
        reading = self._reads.get(key)
        if reading is None:
            reading = self._reads[key] = ensure_future(_fetch_events(line, after))
            reading.add_done_callback(lambda done: self._end_read(key, done))
        # A reader that leaves does not end the read of the others.
        fetched = await shield(reading)
        # A record is durable a moment before it is published: a read that began before may lack it.
        return await line.fetch(after) if line.is_before(after, fetched) else fetched

    def _end_read(self, key: tuple[int, int], done: "Future[Fetched]") -> None:
        del self._reads[key]
        if not done.cancelled():
            # Retrieve the exception, or asyncio logs it: all readers may have left.
            done.exception()

    def cover(self, order: int) -> None:
        """Note that the journal ends at this number and nothing was published since."""
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
        self._awake.update(map(id, parked))
        for future in parked.values():
            if not future.done():
                future.set_result(None)
        parked.clear()


async def _fetch_events(line: RecordSequence, after: int) -> Fetched:
    fetched = await line.fetch(after)
    published = tuple(
        PublishedRecord(record, to_event(record), weight(record.data)) for record in fetched.records
    )
    return Fetched(fetched.records, fetched.is_gone, published)


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
"""Record types after which the previous step has no more deltas."""


def ends_step(record: Record) -> bool:
    """Whether a record ends the open step; the end of a run that never started does not."""
    return record.type in STEP_ENDS and "unstarted" not in record.data


_TEXT_ENDS: Final = frozenset(
    {"message.completed", "actions.requested", "step.completed", "step.failed", "step.retrying"}
)


def replaces_deltas(record: Record) -> bool:
    """Whether a record contains or cancels the live deltas before it."""
    return record.type in _TEXT_ENDS or ends_step(record)


class Source(Protocol):
    """The part of the feed that a subscription needs."""

    def topic(self, key: str) -> Topic:
        """Return the topic of a session, or of everything."""
        ...

    def release(self, key: str, topic: Topic) -> None:
        """Drop a topic after its last reader left."""
        ...

    def open_step(self, session_id: str) -> LiveStep | None:
        """Return the step of a session that is open for deltas."""
        ...

    def watch(self, key: str) -> None:
        """Have the deltas of a topic sent by the processes that drive its sessions."""
        ...

    def live_steps(self, key: str, stamp: int) -> Iterable[LiveStep]:
        """Return the open steps of a topic with deltas after the stamp."""
        ...

    @property
    def stamp(self) -> int:
        """Number that grows with every delta."""
        ...

    @property
    def failure(self) -> AgentError | None:
        """The error that ended the feed; None while it is open."""
        ...

    def now(self) -> str:
        """Return the current time, as the timestamp of deltas."""
        ...

    def pause(self, seconds: float) -> LivePause:
        """Begin a pause of at least that many seconds."""
        ...


class Subscription(Reader):
    """A stream of events from one cursor; see `EventStream`."""

    __slots__ = (
        "_after",
        "_end",
        "_line",
        "_next",
        "_options",
        "_pause",
        "_place",
        "_ready",
        "_seen",
        "_source",
        "_stamp",
        "_start",
        "_step",
        "_stirs",
        "_topic",
        "_until_terminal",
        "_version",
        "is_over",
    )

    def __init__(
        self,
        source: Source,
        line: RecordSequence,
        *,
        cursor: Cursor | None,
        start: Cursor,
        options: StreamOptions,
        until_terminal: bool = False,
    ) -> None:
        self._source = source
        self._line = line
        self._place = ReaderPosition(cursor or start)
        self._start = None if cursor is None else self._place.order
        self._options = options
        self._until_terminal = until_terminal
        self._topic: Topic | None = None
        self._after = self._place.order
        self._end: int | None = None
        self._ready: Sequence[Event] = ()
        self._next = 0
        self._seen: dict[str, tuple[int, int]] = {}
        """By session: a record number, and the deltas seen of the step that was open at it."""
        self._stamp = -1
        self._version = -1
        """Version of the topic up to which every record was read; -1 if there may be more."""
        self._stirs = -1
        """Deltas of the topic at the last look."""
        self._step: LiveStep | None = None
        """The step of the last deltas: its record was read and it belongs to this stream."""
        self._pause: LivePause | None = None
        """Ends when deltas may be shown again; see `StreamOptions.live_pause_s`."""
        self.is_over = False

    def __del__(self) -> None:
        # A stream that was dropped without `aclose`: the topic holds no more events for it.
        topic: Topic | None = getattr(self, "_topic", None)
        if topic is not None:
            topic.forget(self)

    @property
    def cursor(self) -> Cursor:
        """The position of the reader."""
        has_all = self._next == len(self._ready)
        return self._place.cursor(self._after if has_all else self._place.order)

    @property
    def ready(self) -> int:
        """Number of events available without waiting."""
        return len(self._ready) - self._next

    @property
    def place(self) -> ReaderPosition:
        """The position of the reader, updated while it reads."""
        return self._place

    def __aiter__(self) -> Self:
        """Return the stream itself."""
        return self

    async def open(self) -> None:
        """Check the cursor, join the topic and make the first events ready; idempotent."""
        if self._topic is not None or self.is_over:
            return
        line = self._line
        try:
            await line.find()
            # Join before reading the end: events published from here on are in the topic.
            self._topic = self._source.topic(line.topic)
            has_live = self._options.with_live and self._options.follow
            self._topic.join(self, with_live=has_live)
            if has_live:
                self._source.watch(line.topic)
            span = await line.begin(self._start)
            if self._place.index:
                self._seen[line.topic] = (self._place.order, self._place.index)
            self._after = self._place.order = span.after
            if not self._options.follow or span.is_over:
                self._end = span.last
            while not (self._ready or self.is_over) and await self._take_in(self._topic):
                pass
        except BaseException:
            self._leave()
            raise

    async def aclose(self) -> None:
        """Close the stream."""
        self.is_over = True
        self._ready, self._next = (), 0
        self._leave()

    def _leave(self) -> None:
        if self._topic is not None:
            self._topic.leave(self)
            self._source.release(self._line.topic, self._topic)
            self._topic = None
        if self._pause is not None:
            self._pause.leave()
            self._pause = None

    async def __anext__(self) -> Event:
        """Return the next event; wait if there is none."""
        while self._next == len(self._ready):
            topic = self._topic
            if topic is None or topic.version != self._version:
                is_found = await self._look()
            else:
                # Nothing but deltas was published since the last look.
                is_found = topic.stirs != self._stirs and self._take_live(topic)
            if not is_found:
                await self.wait()
        return self._pass()

    async def next_now(self) -> Event | None:
        """Return the next event; None if none is available.

        Raises:
            StopAsyncIteration: the stream has ended.
        """
        while self._next == len(self._ready):
            if not await self._look():
                return None
        return self._pass()

    async def wait(self) -> None:
        """Wait until there may be more; call it after `next_now` returned None."""
        topic = self._topic
        assert topic is not None, "only a stream that has not ended is waited for"
        if self._source.failure is not None:
            raise self._source.failure.with_traceback(None)
        pause = self._pause
        if pause is not None and pause.is_over:
            # Deltas may have been left where they were since the last look.
            self._pause = None
            return
        future = get_running_loop().create_future()
        topic.park(self, future, with_live=self._options.with_live and pause is None)
        if pause is not None:
            pause.wake(future)
        try:
            await future
        finally:
            # The topic has forgotten the reader if it was the one to wake it.
            topic.unpark(self)
            if pause is not None:
                pause.forget(future)

    def _pass(self) -> Event:
        event = self._ready[self._next]
        self._next += 1
        self._place.pass_by(event)
        return event

    async def _look(self) -> bool:
        """Make the next events ready, if there are any; False if the reader has to wait.

        Raises:
            StopAsyncIteration: the stream has ended.
        """
        topic = self._topic
        if topic is None:
            await self.open()
            if self._ready:
                return True
            topic = self._topic
            if topic is None:
                raise StopAsyncIteration
        if topic.version == self._version and topic.stirs == self._stirs:
            return False
        self._ready, self._next = (), 0
        return await self._take_in(topic)

    async def _take_in(self, topic: Topic) -> bool:
        """Fill the ready events; False if the reader has read everything."""
        if self._end is not None and self._after >= self._end:
            await self.aclose()
            return True
        items: Sequence[PublishedRecord | Record] | None = topic.after(self._after)
        # Another process may have written records before the end that the topic does not know.
        if items is None or (not items and self._end is not None):
            version, line, after = topic.version, self._line, self._after
            # A stream that ends must know all that was there when it began.
            fetched = await (topic.fetch(line, after) if self._end is None else line.fetch(after))
            items = line.check(after, fetched) and (fetched.shown or fetched.records)
            if not items:
                if self._end is not None:
                    await self.aclose()
                elif version == topic.version:
                    # At the end: nothing was published during the read.
                    topic.cover(self._after)
                return True
        if items:
            self._version = -1
            self._take(topic, items)
            return True
        self._version = topic.version
        return self._take_live(topic)

    def _take(self, topic: Topic, items: Sequence[PublishedRecord | Record]) -> None:
        """Make records ready, each after the deltas that precede it."""
        ready: list[Event] = []
        line, end, chosen = self._line, self._end, self._line.chosen
        has_live = self._options.with_live and self._options.follow
        for item in items:
            record = item.record if isinstance(item, PublishedRecord) else item
            order = line.order(record)
            if end is not None and order > end:
                self._after = end
                break
            self._after = order
            if has_live:
                self._take_tail(topic, record, ready=ready)
            if chosen is None or chosen.wants(record.type, record):
                ready.append(item.event if isinstance(item, PublishedRecord) else to_event(item))
                if self._until_terminal and record.type in RUN_ENDS:
                    self._end = order
                    break
        self._ready = ready

    def _take_tail(self, topic: Topic, record: Record, *, ready: list[Event]) -> None:
        session_id = record.session_id
        pieces = topic.tails.get((session_id, record.seq)) if topic.tails else None
        if pieces is not None and self._is_open_to(pieces.started):
            ready += self._unseen(pieces)
        if ends_step(record):
            self._seen.pop(session_id, None)
        if record.type == "action.result" or replaces_deltas(record):
            self._pass_deltas(record)

    def _pass_deltas(self, record: Record) -> None:
        """Pass the deltas that a record replaces, if it was read before it was published.

        Until then the feed has them as open: they would be shown after the record, and remain.
        """
        step = self._source.open_step(record.session_id)
        if step is None:
            return
        pieces = step.pieces
        if pieces is not None and pieces.seq < record.seq:
            self._seen[record.session_id] = (pieces.started.seq, pieces.next_index)
        step.note_read(record, ends_step=ends_step(record))

    def _take_live(self, topic: Topic) -> bool:
        """Make deltas ready that follow the last stored record."""
        if self._pause is not None and not self._pause.is_over:
            return False
        self._stirs = topic.stirs
        if not self._options.with_live:
            return False
        ready: Sequence[Event] = ()
        source, line = self._source, self._line
        for step in source.live_steps(line.topic, self._stamp):
            pieces = step.pieces
            if pieces is None:
                continue
            if step is not self._step:
                # The record of the step may not have been published yet.
                if line.order(step.started) > self._after or not self._is_open_to(step.started):
                    continue
                self._step = step
            unseen = self._unseen(pieces)
            ready = [*ready, *unseen] if ready else unseen
        self._stamp = source.stamp
        self._ready, self._next = ready, 0
        if ready and self._options.live_pause_s:
            self._pause = source.pause(self._options.live_pause_s)
        return bool(ready)

    def _unseen(self, pieces: StepDeltas) -> Sequence[Event]:
        """Return the deltas that the reader has not seen; readers at the same place share the list."""
        started, end = pieces.started, pieces.next_index
        at_seq, index = self._seen.get(started.session_id, (0, 0))
        # An index beyond the end was counted by a process that wrote the same step before a crash.
        if at_seq < started.seq or index > end:
            index = 0
        if index == end:
            return ()
        self._seen[started.session_id] = (started.seq, end)
        deltas, chosen = pieces.since(index, self._source.now), self._line.chosen
        if chosen is None or not chosen.is_by_type:
            return deltas
        return [delta for delta in deltas if chosen.wants(delta.type, started)]

    def _is_open_to(self, started: Record) -> bool:
        """Whether the reader may want deltas of a step."""
        chosen = self._line.chosen
        return chosen is None or chosen.is_by_type or chosen.wants(started.type, started)
