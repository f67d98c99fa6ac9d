"""The messages of a server, counted: one that talks without end is cut off."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

import anyio
from mcp.client._transport import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest

from windlass.adapters.mcp.limits import MESSAGES_UNASKED_MAX

Item = SessionMessage | Exception
Streams = tuple[ReadStream[Item], WriteStream[SessionMessage]]
"""What a server says, and what it is told."""


class GuardedStream:
    """A stream of messages that ends when there are too many, and says that it ended."""

    def __init__(self, inner: ReadStream[Item], on_end: Callable[[], None]) -> None:
        self._inner = inner
        self._on_end = on_end
        self._unasked = 0

    def asked(self) -> None:
        """Count anew: we have asked for something."""
        self._unasked = 0

    async def receive(self) -> Item:
        """Return the next message."""
        try:
            item = await self._inner.receive()
        except BaseException:
            self._on_end()
            raise
        is_unasked = isinstance(item, Exception) or isinstance(
            item.message, JSONRPCRequest | JSONRPCNotification
        )
        self._unasked += is_unasked
        if self._unasked > MESSAGES_UNASKED_MAX:
            self._on_end()
            raise anyio.ClosedResourceError
        return item

    async def aclose(self) -> None:
        """Close the stream."""
        self._on_end()
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()
