"""The events of a run again, with the pauses that there were between them."""

from datetime import datetime
from typing import Self

from windlass import Event
from windlass.parts import Clock
from windlass.ports.feed import EventStream
from windlass_protocol import Cursor


class PacedStream:
    """A stream that gives each event when its time has come; see `EventStream`.

    `speed` 2 makes pauses half as long; none takes more than `pause_s_max` seconds.
    """

    def __init__(self, inner: EventStream, clock: Clock, *, speed: float, pause_s_max: float) -> None:
        self._inner = inner
        self._clock = clock
        self._speed = speed
        self._pause_s_max = pause_s_max
        self._taken: tuple[Event, Cursor] | None = None
        """What was read, and whose time has not come yet."""
        self._due = 0.0
        self._last_at: datetime | None = None
        self._cursor = inner.cursor

    def __aiter__(self) -> Self:
        """Return the stream itself."""
        return self

    async def __anext__(self) -> Event:
        """Return the next event, once its pause is over."""
        if self._taken is None:
            event = await anext(self._inner)
            self._taken = (event, self._inner.cursor)
            self._due = self._clock.monotonic() + self._pause_s(event)
        # A reader that is told to stop waiting meanwhile comes back for it.
        left_s = self._due - self._clock.monotonic()
        if left_s > 0:
            await self._clock.sleep(left_s)
        (event, self._cursor), self._taken = self._taken, None
        return event

    def _pause_s(self, event: Event) -> float:
        at, before = datetime.fromisoformat(event.meta.at), self._last_at
        self._last_at = at
        # A clock can be put back.
        real_s = 0.0 if before is None else max(0.0, (at - before).total_seconds())
        return min(real_s / self._speed, self._pause_s_max)

    @property
    def cursor(self) -> Cursor:
        """Where the reader stands."""
        return self._cursor

    @property
    def ready(self) -> int:
        """Nothing is known to be due: each event is sent by itself."""
        return 0

    async def open(self) -> None:
        """Check the cursor before the first event is asked for."""
        await self._inner.open()
        self._cursor = self._inner.cursor

    async def aclose(self) -> None:
        """End the stream."""
        await self._inner.aclose()
