"""HTTP requests to one server, retried where that is safe, and streams."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import lru_cache
from typing import Final, Protocol, TypeVar
from weakref import WeakSet

import httpx2

from windlass.client.connection import (
    ADDRESSES_WARNED_MAX,
    ANSWER_BYTES_MAX,
    ANSWER_LEVELS_MAX,
    ANSWER_S,
    ANSWER_VALUES_MAX,
    CONNECT_S,
    IDLE_CONNECTIONS_MAX,
    PROBLEM_BYTES_MAX,
    REQUESTS,
    RETRY_WAIT_MS_MAX,
    Broken,
    KeyMask,
    Means,
    NotWindlass,
    ServerAddress,
    ServerCall,
    Unreachable,
    error_of,
    is_passing,
)
from windlass.errors import AgentError, Ambiguous
from windlass.tools.calling import read_by_size
from windlass_harness.retry import RetryPolicy, next_retry_delay_ms, parse_retry_after_ms
from windlass_protocol import CodecError, CodecLimits, decode, encode
from windlass_protocol.codec_scan import count_values

T = TypeVar("T")

_LIMITS: Final = CodecLimits(message_bytes_max=ANSWER_BYTES_MAX, depth_max=ANSWER_LEVELS_MAX)
_LOG: Final = logging.getLogger(__name__)
_JSON: Final = "application/json"
_NOT_SENT: Final = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
    httpx2.ProxyError,
)
"""Errors that occur before a request was sent."""


class Closing(Protocol):
    """An object with its own connection."""

    async def aclose(self) -> None: ...


class ServerLink:
    """Requests to one server, over pooled connections."""

    def __init__(self, address: ServerAddress, means: Means, *, retries: RetryPolicy = REQUESTS) -> None:
        self._address = address
        self.means = means
        self.mask = KeyMask()
        self.retries = retries
        self._streams: WeakSet[Closing] = WeakSet()
        if address.is_open_to_others:
            _warn_of(address.shown)
        self._http = httpx2.AsyncClient(
            headers={"accept-encoding": "identity", "user-agent": "windlass"},
            timeout=httpx2.Timeout(ANSWER_S, connect=CONNECT_S, pool=None),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=IDLE_CONNECTIONS_MAX),
            # The environment is ignored: no proxy sees the key, and no netrc file adds credentials.
            trust_env=False,
        )

    def keep(self, stream: Closing) -> None:
        """Register a stream to be closed with this link."""
        self._streams.add(stream)

    async def aclose(self) -> None:
        """Close every connection, including those of streams."""
        for stream in tuple(self._streams):
            # A stream that is being read ends with its connection.
            with suppress(RuntimeError):
                await stream.aclose()
        await self._http.aclose()

    async def ask(self, kind: type[T], call: ServerCall) -> T:
        """Send a request until it is answered; return the answer.

        Raises:
            AgentError: the server refuses, cannot be reached, or sends an invalid answer.
        """
        raw = await self.read(call)
        reason = f"it has more than {ANSWER_VALUES_MAX:,} values"
        if count_values(raw, ANSWER_VALUES_MAX) <= ANSWER_VALUES_MAX:
            try:
                return await read_by_size(
                    len(raw), lambda: decode(kind, self.mask.json(raw, _LIMITS), limits=_LIMITS)
                )
            except CodecError as error:
                reason = error.message
        raise NotWindlass(
            f"invalid answer of {self._address.shown} to {call.method} {call.path}: {reason}; "
            "is it a Windlass server, and of this version?"
        )

    async def read(self, call: ServerCall) -> bytes:
        """Send a request until it is answered; return the bytes of the answer.

        Raises:
            AgentError: the server refuses or cannot be reached.
        """
        return await self._repeat(call, lambda: self._once(call))

    async def _repeat(self, call: ServerCall, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until there is an answer, or a reason not to ask again."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return await ask()
            except AgentError as error:
                if attempt >= self.retries.max_attempts or not _may_repeat(call, error):
                    raise
                after_ms = error.retry_after_ms
            await self.pause(attempt, self.retries, retry_after_ms=after_ms)

    async def pause(self, attempt: int, policy: RetryPolicy, *, retry_after_ms: int | None = None) -> None:
        """Wait before the next attempt; the delay grows with each attempt."""
        delay_ms = next_retry_delay_ms(policy, attempt, self.means.chance, retry_after_ms=retry_after_ms)
        await self.means.clock.sleep(delay_ms / 1_000)

    async def _once(self, call: ServerCall) -> bytes:
        try:
            async with self.stream(call) as response:
                return await _body(response, ANSWER_BYTES_MAX)
        except httpx2.RequestError as error:
            raise self.fault(error) from None

    @asynccontextmanager
    async def stream(
        self, call: ServerCall, *, accept: str = _JSON, silence_s: float = ANSWER_S
    ) -> AsyncGenerator[httpx2.Response]:
        """Send a request once, and yield its response with an unread body.

        Raises:
            AgentError: the server refuses, or cannot be reached.
        """
        request = self._request(call, accept, silence_s)
        try:
            response = await self._http.send(request, stream=True, follow_redirects=False)
        except httpx2.RequestError as error:
            raise self.fault(error) from None
        try:
            if not response.is_success:
                raise await self._refusal(response)
            yield response
        finally:
            await response.aclose()

    def _request(self, call: ServerCall, accept: str, silence_s: float) -> httpx2.Request:
        headers = {"accept": accept, **call.headers}
        token = self._address.token()
        if token is not None:
            self.mask.add(token)
            headers["authorization"] = f"Bearer {token}"
        if call.key is not None:
            headers["idempotency-key"] = call.key
        content = None
        if call.body is not None:
            headers["content-type"] = _JSON
            content = encode(call.body)
        query = {name: _word(value) for name, value in (call.query or {}).items() if value is not None}
        return self._http.build_request(
            call.method,
            f"{self._address.shown}{call.path}",
            params=query or None,
            headers=headers,
            content=content,
            timeout=httpx2.Timeout(silence_s, connect=CONNECT_S, pool=None),
        )

    async def _refusal(self, response: httpx2.Response) -> AgentError:
        if response.is_redirect:
            return NotWindlass(
                f"{self._address.shown} redirects, and a key is not sent to another address: use the address "
                "of the redirect"
            )
        try:
            raw = await _body(response, PROBLEM_BYTES_MAX)
        except (httpx2.RequestError, NotWindlass):
            raw = b""
        retry_after = response.headers.get("retry-after")
        after_ms = (
            None if retry_after is None else parse_retry_after_ms(retry_after, now=self.means.clock.now())
        )
        raw = self.mask.json(raw, _LIMITS)
        return error_of(response.status_code, raw, retry_after_ms=after_ms)

    async def lines(self, call: ServerCall, *, chars_max: int, accept: str = _JSON) -> AsyncGenerator[str]:
        """Send a request until it is answered, and yield the lines of the answer; the last may be incomplete.

        Raises:
            AgentError: the server refuses, cannot be reached, or a line is too long.
        """
        rest = ""
        async with AsyncExitStack() as stack:
            response = await self._repeat(
                call, lambda: stack.enter_async_context(self.stream(call, accept=accept))
            )
            try:
                async for piece in response.aiter_text():
                    *whole, rest = (rest + piece).split("\n")
                    for line in whole:
                        yield await self._mask(line)
                    if len(rest) > chars_max:
                        raise NotWindlass(f"a line is too long: limit {chars_max:,} characters")
            except httpx2.RequestError as error:
                raise self.fault(error) from None
        if rest:
            yield await self._mask(rest)

    async def _mask(self, line: str) -> str:
        return await read_by_size(len(line), lambda: self.mask.json(line.encode(), _LIMITS).decode())

    def fault(self, error: httpx2.RequestError) -> AgentError:
        """Return the error for a connection failure."""
        kind = type(error).__name__
        if isinstance(error, _NOT_SENT):
            return Unreachable(
                f"cannot connect to {self._address.shown} ({kind}): is the server running at it?"
            )
        return Broken(
            f"the connection to {self._address.shown} broke before the answer arrived ({kind}): check "
            "whether the request took effect, or repeat it with the same idempotency key"
        )


@lru_cache(maxsize=ADDRESSES_WARNED_MAX)
def _warn_of(address: str) -> None:
    """Warn once for each address if its key is sent in plain text."""
    _LOG.warning("the key for %s is sent without TLS and can be read in transit; use https", address)


def _may_repeat(call: ServerCall, error: AgentError) -> bool:
    if (error.retry_after_ms or 0) > RETRY_WAIT_MS_MAX:
        return False
    return is_passing(error) or (isinstance(error, Ambiguous) and call.is_repeatable)


async def _body(response: httpx2.Response, most: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in response.aiter_raw():
        size += len(piece)
        if size > most:
            raise NotWindlass(f"the answer is too large: limit {most:,} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _word(value: str | int | bool | None) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
