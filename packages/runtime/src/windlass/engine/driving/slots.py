"""Slots: how many sessions a process drives at once.

Runs that are under way go on at once, also when all slots are taken: an answer, a message, a timer or the end
of another process brings them here, and they were let in before. Only those that begin a run wait. The
runtimes of a process, such as those of its tenants, may share the slots, and take turns.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from windlass.errors import check_whole
from windlass.limits import SESSIONS_DRIVEN_MAX


class SessionSlots:
    """How many sessions a process drives at once.

    Raises:
        Rejected: the number is not from 1 to 10,000.
    """

    def __init__(self, most: int = SESSIONS_DRIVEN_MAX) -> None:
        self.most = check_whole(most, "sessions_max", least=1, most=SESSIONS_DRIVEN_MAX)
        self.taken = 0
        """Sessions that are driven; more than `most` if runs under way went on meanwhile."""
        self._waiting: OrderedDict[object, deque[asyncio.Future[None]]] = OrderedDict()
        """Sessions that wait, by runtime; the first runtime has its turn."""

    @asynccontextmanager
    async def hold(
        self, runtime: object, is_under_way: Callable[[], Awaitable[bool]]
    ) -> AsyncGenerator[None]:
        """Hold a slot, for a session of a runtime; wait for it unless a run is under way."""
        if self.taken >= self.most and not await is_under_way():
            await self._wait(runtime)
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1
            self._call_next()

    async def _wait(self, runtime: object) -> None:
        while self.taken >= self.most:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(runtime, deque()).append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                # Its turn may have come just now.
                self._call_next()
                raise

    def _call_next(self) -> None:
        while self.taken < self.most and self._waiting:
            runtime, queue = self._waiting.popitem(last=False)
            turn = queue.popleft()
            if queue:
                self._waiting[runtime] = queue
            if not turn.done():
                turn.set_result(None)
                return
