"""A connection that does not wait for ever for somebody to say what they want."""

import asyncio
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from windlass_server.limits import HEAD_S_MAX


class Connection(H11Protocol):
    """A connection that is closed when the head of a request does not come in time."""

    head_s_max: ClassVar[float] = HEAD_S_MAX
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] as in uvicorn
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Take bytes; go on waiting if they are no whole head yet."""
        super().data_received(data)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop()
        super().connection_lost(exc)

    def _expect(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._late is None:
            self._late = self.loop.call_later(self.head_s_max, self.transport.close)

    def _stop(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
