"""The lease of an owner: after it, others may have taken what is driven here."""

import asyncio

from windlass.engine.moments import moment
from windlass.limits import OWNER_LEASE_MS
from windlass.ports.clock import Clock


class Lease:
    """When this process was last heard of by the others, as far as it knows.

    A process that was stopped for longer than that does not know what it still owns: it begins nothing that
    touches the world before it has found out.
    """

    def __init__(self) -> None:
        self._beat_ms: int | None = None
        self._renewed = asyncio.Event()
        self._is_doubted = False
        """Whether it was over once since it was renewed. A clock that is put back does not undo what others
        took meanwhile."""

    def renew(self, now_ms: int) -> None:
        """Take note that the others heard of this process."""
        self._beat_ms = now_ms
        self._is_doubted = False
        self._renewed.set()

    def is_over(self, clock: Clock) -> bool:
        """Whether others may take this process, once heard of, for dead."""
        if self._beat_ms is not None and moment(clock).ms - self._beat_ms >= OWNER_LEASE_MS:
            self._is_doubted = True
        return self._is_doubted

    async def held(self, clock: Clock) -> None:
        """Return once others do not take this process for dead."""
        while self.is_over(clock):
            self._renewed.clear()
            await self._renewed.wait()
