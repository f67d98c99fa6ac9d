"""Overflow queues: bounded buffers for readers that prefer recent events to all events."""

from collections.abc import Callable
from typing import Self

from windlass.feed.cursors import ReaderPosition
from windlass.feed.subscription import Subscription
from windlass.ports.feed import (
    PROGRESS_TYPES,
    TERMINAL_TYPES,
    Overflow,
    OverflowNotice,
    OverflowReason,
    QueueOptions,
    SubscriberLagged,
)
from windlass_protocol import Cursor, Event, JsonObject
from windlass_protocol.bodies import Part, data_of
from windlass_protocol.frozen import frozen, mutable


@frozen
class _Gap:
    """Dropped events before another one."""

    dropped: int
    start: int
    end: int
    is_progress: bool

    def __add__(self, other: "_Gap | None") -> "_Gap":
        if other is None:
            return self
        return _Gap(
            self.dropped + other.dropped,
            min(self.start, other.start),
            max(self.end, other.end),
            self.is_progress and other.is_progress,
        )


@mutable
class _Waiting:
    """A queued event, and the gap before it."""

    event: Event
    gap: _Gap | None


class OverflowQueue:
    """A bounded queue of events in order; terminal events are never dropped."""

    def __init__(self, options: QueueOptions, order_of: Callable[[Event], int]) -> None:
        self._options = options
        self._order_of = order_of
        self._waiting: list[_Waiting] = []
        self._gap: _Gap | None = None
        """Gap after the last event."""
        self.failure: OverflowNotice | None = None
        """The overflow that closed the queue; no more events are accepted."""

    def __len__(self) -> int:
        """Return the number of queued events."""
        return len(self._waiting)

    def offer(self, event: Event) -> bool:
        """Add an event, or drop one; False if it must be offered again later."""
        is_terminal = event.type in TERMINAL_TYPES
        room = self._options.capacity - (0 if is_terminal else self._options.terminal_reserve)
        if len(self._waiting) < room:
            self._append(event)
            return True
        if is_terminal:
            return self._make_room(event, self._droppable()[:1])
        match self._options.overflow:
            case Overflow.DROP_PROGRESS if event.type not in PROGRESS_TYPES:
                return self._make_room(event, self._droppable()[:1])
            case Overflow.SUMMARIZE_AND_CONTINUE:
                return self._make_room(event, self._droppable()[-1:])
            case Overflow.FAIL_SUBSCRIBER:
                self.failure = self._notice(self._missing(event))
                return True
            case _:
                self._gap = self._missing(event) + self._gap
                return True

    def pop(self) -> Event:
        """Return the oldest event; its `overflow` describes the gap before it."""
        first = self._waiting.pop(0)
        if first.gap is None:
            return first.event
        return first.event.model_copy(update={"overflow": _wire(self._notice(first.gap))})

    def _droppable(self) -> list[int]:
        """Return the indexes of events that may be dropped."""
        types = [event_type.event.type for event_type in self._waiting]
        match self._options.overflow:
            case Overflow.DROP_PROGRESS:
                return [at for at, event_type in enumerate(types) if event_type in PROGRESS_TYPES]
            case Overflow.FAIL_SUBSCRIBER:
                return []
            case _:
                return [at for at, event_type in enumerate(types) if event_type not in TERMINAL_TYPES]

    def _make_room(self, event: Event, at: list[int]) -> bool:
        """Replace a droppable event; False if there is none."""
        for index in at:
            dropped = self._waiting.pop(index)
            gap = self._missing(dropped.event) + dropped.gap
            if index < len(self._waiting):
                self._waiting[index].gap = gap + self._waiting[index].gap
            else:
                self._gap = gap + self._gap
            self._append(event)
        return bool(at)

    def _append(self, event: Event) -> None:
        self._waiting.append(_Waiting(event, self._gap))
        self._gap = None

    def _missing(self, event: Event) -> _Gap:
        order = self._order_of(event)
        return _Gap(1, order, order, event.type in PROGRESS_TYPES)

    def _notice(self, gap: _Gap) -> OverflowNotice:
        policy = self._options.overflow
        if policy is Overflow.FAIL_SUBSCRIBER:
            reason = OverflowReason.SUBSCRIBER_QUEUE_FULL
        elif gap.is_progress:
            reason = OverflowReason.POLICY_DROPPED_PROGRESS
        else:
            reason = OverflowReason.POLICY_DROPPED_NON_TERMINAL
        is_preserved = policy is not Overflow.FAIL_SUBSCRIBER
        return OverflowNotice(policy, reason, gap.dropped, gap.start, gap.end, is_preserved)


class _NoticeData(Part, frozen=True, kw_only=True):
    policy: str
    reason: str
    dropped: int
    gap_start: int
    gap_end: int
    terminal_preserved: bool


def _wire(notice: OverflowNotice) -> JsonObject:
    return data_of(
        _NoticeData(
            policy=notice.policy.value,
            reason=notice.reason.value,
            dropped=notice.dropped,
            gap_start=notice.gap_start,
            gap_end=notice.gap_end,
            terminal_preserved=notice.terminal_preserved,
        )
    )


class QueuedSubscription:
    """A stream with an overflow queue; see `EventStream`.

    Events published since the last call pass through the queue at the next call, with the same outcome as a
    queue filled in the background. Until then they are in the journal, so events that may not be dropped and
    do not fit can wait there.
    """

    def __init__(self, inner: Subscription, options: QueueOptions) -> None:
        self._inner = inner
        self._queue = OverflowQueue(options, inner.place.order_of)
        self._place = ReaderPosition(inner.cursor)
        self._held: Event | None = None
        """An event that did not fit into the queue."""
        self._has_ended = False

    @property
    def cursor(self) -> Cursor:
        """The position of the reader."""
        return self._place.cursor(self._place.order)

    @property
    def ready(self) -> int:
        """Number of events available without waiting."""
        return len(self._queue)

    def __aiter__(self) -> Self:
        """Return the stream itself."""
        return self

    async def open(self) -> None:
        """Check the cursor; idempotent."""
        await self._inner.open()

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()
        self._queue, self._held = OverflowQueue(QueueOptions(), self._place.order_of), None

    async def __anext__(self) -> Event:
        """Return the next event; wait if there is none.

        Raises:
            SubscriberLagged: the queue was full and its policy is to fail.
        """
        queue = self._queue
        while True:
            await self._take_in()
            if len(queue):
                event = queue.pop()
                self._place.pass_by(event)
                return event
            if queue.failure is not None:
                await self.aclose()
                raise SubscriberLagged(queue.failure)
            if self._has_ended:
                raise StopAsyncIteration
            await self._inner.wait()

    async def _take_in(self) -> None:
        """Pass all available events through the queue, as far as they fit."""
        while self._queue.failure is None and not self._has_ended:
            try:
                event = self._held or await self._inner.next_now()
            except StopAsyncIteration:
                self._has_ended = True
                return
            self._held = None
            if event is None:
                return
            if not self._queue.offer(event):
                self._held = event
                return
