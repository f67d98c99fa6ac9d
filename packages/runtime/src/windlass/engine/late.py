"""Sessions that a wall clock which was put back would wake late."""

import asyncio
from collections.abc import Callable, Sequence

from windlass.ports.clock import Clock
from windlass.ports.store import Catalog, Standing


class LateWakes:
    """Wakes sessions when they would have been, had nobody put the wall clock back."""

    def __init__(self, store: Catalog, clock: Clock, *, wake: Callable[[str], None]) -> None:
        self._store = store
        self._clock = clock
        self._wake = wake
        self.tasks: set[asyncio.Task[None]] = set()

    async def catch(self, now_ms: int) -> None:
        """Remember who waits for a moment that has just moved away with the wall clock.

        `now_ms` is what it would be if nobody had put it back. Each is woken once when it would have been,
        and waits on if it goes by the wall clock, as a request that expires does.
        """
        since_s = self._clock.monotonic()
        wakes: list[tuple[int, str]] = []
        after: str | None = None
        while rows := await self._store.sessions(after=after):
            for row in rows:
                if row.standing is Standing.WAITING and row.wake_at_ms is not None:
                    wakes.append((row.wake_at_ms - now_ms, row.session_id))
            after = rows[-1].session_id
        task = asyncio.create_task(self._wake_all(sorted(wakes), since_s), name="windlass late wakes")
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _wake_all(self, wakes: Sequence[tuple[int, str]], since_s: float) -> None:
        for delay_ms, session_id in wakes:
            await self._clock.sleep(since_s + delay_ms / 1_000 - self._clock.monotonic())
            self._wake(session_id)
