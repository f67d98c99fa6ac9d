"""HTTP connections to public addresses only.

The HTTP client (httpcore2) supports no proxies, cookies, redirects or credentials, and reads no environment;
it reaches the network only through the backend below.
"""

import asyncio
from collections.abc import Iterable
from typing import Final, cast

import httpcore2

from windlass.addresses import Target, check_public
from windlass.toolbox.fetch import HttpReply, Network
from windlass.toolbox.limits import ADDRESSES_MAX, BODY_BYTES_MAX, CONNECT_TIMEOUT_S
from windlass.tools import ToolFailed

_HEADERS: Final = (
    (b"User-Agent", b"windlass-web-fetch"),
    (b"Accept", b"text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.9,*/*;q=0.1"),
    (b"Accept-Encoding", b"gzip"),
    (b"Accept-Language", b"en,*;q=0.5"),
    (b"Connection", b"close"),
)


async def get(target: Target, network: Network) -> HttpReply:
    """Send one request; redirects are returned like any other response.

    Raises:
        ToolFailed: the page cannot be fetched; the message is for the model.
    """
    url = httpcore2.URL(
        scheme=target.scheme.encode(),
        host=target.host.encode(),
        port=target.port,
        target=target.path.encode(),
    )
    headers = [(b"Host", target.authority.encode()), *_HEADERS]
    try:
        async with (
            httpcore2.AsyncConnectionPool(
                ssl_context=network.tls, network_backend=PublicOnly(network)
            ) as pool,
            pool.stream("GET", url, headers=headers) as response,
        ):
            return await _read(response)
    except httpcore2.TimeoutException:
        raise ToolFailed("the server did not answer in time", retryable=True) from None
    except (httpcore2.NetworkError, OSError):
        raise ToolFailed(
            "the server could not be reached, or closed the connection", retryable=True
        ) from None
    except httpcore2.ProtocolError:
        raise ToolFailed("the server did not answer with HTTP") from None


class PublicOnly(httpcore2.AsyncNetworkBackend):
    """The network backend: it connects to the addresses that it has checked."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of httpcore2; our own timeout applies
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            try:
                addresses = await self._network.resolve(host, port)
            except OSError:
                raise ToolFailed("the host name cannot be resolved", retryable=True) from None
            dial = self._network.dial or _dial
        for address in check_public(addresses)[:ADDRESSES_MAX]:
            try:
                return await dial(address, port)
            except (OSError, httpcore2.NetworkError, httpcore2.TimeoutException):
                continue
        raise ToolFailed("the server could not be reached", retryable=True)


async def _dial(address: str, port: int) -> httpcore2.AsyncNetworkStream:
    # httpcore2 declares another class in its place if anyio is not installed.
    backend = cast(httpcore2.AsyncNetworkBackend, httpcore2.AnyIOBackend())
    return await backend.connect_tcp(address, port, timeout=CONNECT_TIMEOUT_S)


async def _read(response: httpcore2.Response) -> HttpReply:
    headers: dict[str, str] = {}
    for name, value in response.headers:
        headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1").strip())
    if 300 <= response.status < 400:
        # The body of a redirect is not used.
        return HttpReply(response.status, headers, b"")
    body = bytearray()
    async for chunk in response.aiter_stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise ToolFailed(f"the page is too large: limit {BODY_BYTES_MAX:,} bytes")
    return HttpReply(response.status, headers, bytes(body))
