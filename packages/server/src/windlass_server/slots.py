"""How many requests are answered at the same time, of everybody and of each."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from windlass_server.limits import RETRY_MS
from windlass_server.metrics import Metrics
from windlass_server.problems import Problem
from windlass_server.settings import Limits


@dataclass(slots=True)
class _Own:
    """The places of one principal."""

    free: asyncio.Semaphore
    users: int = 0
    """Requests that hold one of them, or wait for it."""


@dataclass(slots=True)
class Slot:
    """The place of one request among those that are answered now."""

    slots: "Slots"
    principal: str
    is_held: bool = True

    def release(self) -> None:
        """Give the place to somebody else: what is left is a stream."""
        if self.is_held:
            self.is_held = False
            self.slots.free(self.principal)


@dataclass(slots=True)
class Slots:
    """The places of all requests; nobody gets more of them than is left to others."""

    limits: Limits
    metrics: Metrics
    _all: asyncio.Semaphore = field(init=False)
    _own: Final[dict[str, _Own]] = field(default_factory=dict[str, _Own])
    _waiting: int = 0

    def __post_init__(self) -> None:
        self._all = asyncio.Semaphore(self.limits.requests_max)

    async def take(self, principal: str) -> Slot:
        """Wait for a place, not long and not with everybody.

        Raises:
            Problem: there is none.
        """
        self._waiting += 1
        own = self._enter(principal)
        try:
            if self._waiting > self.limits.waiting_max:
                raise TimeoutError
            async with asyncio.timeout(self.limits.wait_s_max):
                await self._both(own)
        except BaseException as error:
            self._leave(principal)
            if not isinstance(error, TimeoutError):
                raise
        else:
            return Slot(self, principal)
        finally:
            self._waiting -= 1
        self.metrics.refused.labels("busy").inc()
        raise Problem(503, "the server is busy: come back later", retry_s=RETRY_MS // 1000)

    def free(self, principal: str) -> None:
        """Give a place back."""
        self._all.release()
        self._own[principal].free.release()
        self._leave(principal)

    async def _both(self, own: _Own) -> None:
        await own.free.acquire()
        try:
            await self._all.acquire()
        except BaseException:
            own.free.release()
            raise

    def _enter(self, principal: str) -> _Own:
        own = self._own.get(principal)
        if own is None:
            own = self._own[principal] = _Own(asyncio.Semaphore(self.limits.requests_per_principal_max))
        own.users += 1
        return own

    def _leave(self, principal: str) -> None:
        own = self._own[principal]
        own.users -= 1
        if not own.users:
            del self._own[principal]
