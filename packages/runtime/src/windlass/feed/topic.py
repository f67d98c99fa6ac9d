"""What the readers of one stream share: the newest events, and how they are woken."""

from asyncio import Future
from bisect import bisect_right
from collections.abc import Sequence
from weakref import WeakSet

from windlass.feed.events import Shown
from windlass.feed.limits import EVENTS_PER_READ, RING_BYTES_MAX, TAIL_BYTES_MAX, TAILS_MAX
from windlass.feed.live import Pieces


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
