"""One reader: a cursor over the journal that is woken when there is more."""

from asyncio import get_running_loop
from collections.abc import Iterable, Sequence
from typing import Final, Protocol, Self

from windlass.errors import AgentError
from windlass.feed.cursors import Place
from windlass.feed.events import Shown, show
from windlass.feed.line import Line
from windlass.feed.live import LiveStep, Pieces
from windlass.feed.topic import Reader, Topic
from windlass.ports.feed import StreamOptions
from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import Cursor, Event, Record

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
