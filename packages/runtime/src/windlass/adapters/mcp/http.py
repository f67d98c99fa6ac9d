"""A server behind an address: bounded answers, no redirects elsewhere, no proxies."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import httpx2
from mcp.client.streamable_http import streamable_http_client

from windlass.adapters.mcp.guard import Streams
from windlass.adapters.mcp.limits import MESSAGE_BYTES_MAX
from windlass.adapters.mcp.server import McpServer

_CONNECT_TIMEOUT_S = 30.0


@asynccontextmanager
async def http_transport(server: McpServer) -> AsyncGenerator[Streams, None]:
    """Yield what a server says and what it is told, over streamable HTTP.

    How long an answer may take is up to whoever asks.
    """
    async with httpx2.AsyncClient(
        headers={**server.headers, "accept-encoding": "identity"},
        timeout=httpx2.Timeout(_CONNECT_TIMEOUT_S, read=None),
        transport=BoundedTransport(httpx2.AsyncHTTPTransport()),
        # Of the environment nothing is taken: no proxy sees the headers, no file adds any.
        trust_env=False,
    ) as client:
        transport = streamable_http_client(
            server.url, http_client=client, max_sse_event_size=MESSAGE_BYTES_MAX
        )
        async with transport as streams:
            yield streams


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Lets no answer through that is larger than a message, or packed."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request."""
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.ReadError("the answer is packed, which was not asked for")
        if response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            # It goes on for as long as it likes; its events are bounded.
            return response
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream), "an asynchronous transport answers so"
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_Bounded(stream),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Close what is below."""
        await self._inner.aclose()


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MESSAGE_BYTES_MAX
        async for chunk in self._inner:
            left -= len(chunk)
            if left < 0:
                raise httpx2.StreamError(f"the answer is larger than {MESSAGE_BYTES_MAX:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
