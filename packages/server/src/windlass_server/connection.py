"""A connection that does not wait for ever, for words or to be heard."""

import asyncio
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from windlass_server.limits import HEAD_S_MAX, SEND_S_MAX


class Connection(H11Protocol):
    """A connection that is closed when nothing comes of it.

    That is when the head of a request, or a body behind its answer, does not come in time, or when nothing
    of an answer is taken for a while.
    """

    head_s_max: ClassVar[float] = HEAD_S_MAX
    send_s_max: ClassVar[float] = SEND_S_MAX
    _late: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] as in uvicorn
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Take bytes; go on waiting if they are no whole head yet."""
        super().data_received(data)
        self._expect()

    def on_response_complete(self) -> None:
        """Begin to wait for the rest of a body that was answered before it was there."""
        super().on_response_complete()
        self._expect()

    def pause_writing(self) -> None:
        """Begin to wait for the client to take something."""
        super().pause_writing()
        self._look(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Stop waiting: it has taken most of it."""
        self._let_go()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop()
        self._let_go()
        super().connection_lost(exc)

    def _expect(self) -> None:
        theirs = self.conn.their_state
        is_behind = theirs is h11.SEND_BODY and self.cycle.response_complete
        if theirs is not h11.IDLE and not is_behind:
            self._stop()
        elif self._late is None:
            self._late = self.loop.call_later(self.head_s_max, self.transport.close)

    def _stop(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _look(self, before: int) -> None:
        self._stuck = self.loop.call_later(self.send_s_max, self._look_again, before)

    def _look_again(self, before: int) -> None:
        left = self.transport.get_write_buffer_size()
        if left < before:
            self._look(left)
        else:
            # To close it would be to wait until everything is taken.
            self.transport.abort()

    def _let_go(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None
