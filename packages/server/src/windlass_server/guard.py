"""What every request passes before a route sees it: who, how often, how much."""

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass import AgentError
from windlass.parts import Clock
from windlass_protocol import CodecError, CodecLimits, parse
from windlass_server.auth import Doorman
from windlass_server.limits import (
    BODY_DISCARD_BYTES_MAX,
    HEADER_BYTES_MAX,
    RETRY_MS,
    TARGET_BYTES_MAX,
    Meter,
)
from windlass_server.metrics import Metrics
from windlass_server.principal import Principal
from windlass_server.problems import Problem, of_agent_error, of_codec_error
from windlass_server.settings import Limits
from windlass_server.tenants import Tenant, Tenants

PREFIX: Final = "/v1"
PUBLIC: Final = frozenset({f"{PREFIX}/health", f"{PREFIX}/openapi.json"})
"""What anybody may ask for: it says nothing about anybody."""
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_JSON: Final = "application/json"


@dataclass(slots=True)
class Slot:
    """The place of one request among those that are answered now."""

    guard: "Guard"
    is_held: bool = True

    def release(self) -> None:
        """Give the place to somebody else: what is left is a stream."""
        if self.is_held:
            self.is_held = False
            self.guard.slots.release()


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a request, with their tenant; found in the state of the request."""

    principal: Principal
    tenant: Tenant
    slot: Slot


@dataclass(slots=True)
class _Body:
    """A body that was read: it is given to the route once."""

    receive: Receive
    raw: bytes
    is_given: bool = field(default=False)

    async def __call__(self) -> Message:
        if self.is_given:
            return await self.receive()
        self.is_given = True
        return {"type": "http.request", "body": self.raw, "more_body": False}


class Guard:
    """Lets a request through to the routes, or answers it itself."""

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        *,
        doorman: Doorman,
        tenants: Tenants,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._app = app
        self._doorman = doorman
        self._tenants = tenants
        self._limits = limits
        self._metrics = metrics
        self._meter = Meter(clock, per_s=limits.requests_per_s, burst=limits.requests_burst)
        self._failures = Meter(clock, per_s=limits.failures_per_s, burst=limits.failures_burst)
        self._clock = clock
        self._json = CodecLimits(message_bytes_max=limits.body_bytes_max)
        self.slots = asyncio.Semaphore(limits.requests_max)
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; see ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = self._clock.monotonic()
        status = 500

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._answer(scope, receive, counted)
        finally:
            self._metrics.count(scope, status=status, seconds=self._clock.monotonic() - began)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Whatever was asked for stays open until the answer is through, streams included.
        async with AsyncExitStack() as stack:
            try:
                receive = await self._admit(scope, receive, stack)
            except Problem as problem:
                await problem.response()(scope, receive, send)
            except AgentError as error:
                await of_agent_error(error).response()(scope, receive, send)
            else:
                await self._app(scope, receive, send)

    async def _admit(self, scope: Scope, receive: Receive, stack: AsyncExitStack) -> Receive:
        """Return what the route may read; whoever asks is in the state of the request."""
        _check_head(scope)
        if scope["path"] in PUBLIC or not scope["path"].startswith(f"{PREFIX}/"):
            return receive
        principal = await self._who(scope)
        retry_s = self._meter.take(principal.key)
        if retry_s:
            self._metrics.refused.labels("rate").inc()
            raise Problem(429, "too many requests: come back later", retry_s=retry_s)
        slot = await self._take_slot()
        stack.callback(slot.release)
        body = await self._body(scope, receive)
        tenant = await stack.enter_async_context(self._tenants.use(principal.tenant))
        scope.setdefault("state", {})["caller"] = Caller(principal, tenant, slot)
        return body

    async def _who(self, scope: Scope) -> Principal:
        try:
            return await self._doorman.principal(_header(scope, b"authorization"), _header(scope, b"host"))
        except Problem:
            # Only those who are not known are slowed down: others may share their address.
            client = scope.get("client")
            retry_s = self._failures.take(client[0] if client else "")
            if not retry_s:
                raise
        self._metrics.refused.labels("failures").inc()
        raise Problem(429, "too many requests: come back later", retry_s=retry_s)

    async def _take_slot(self) -> Slot:
        """Wait for a place among those that are answered, not long and not with everybody."""
        self._waiting += 1
        try:
            if self._waiting > self._limits.waiting_max:
                raise TimeoutError
            async with asyncio.timeout(self._limits.wait_s_max):
                await self.slots.acquire()
        except TimeoutError:
            self._metrics.refused.labels("busy").inc()
            raise Problem(503, "the server is busy: come back later", retry_s=RETRY_MS // 1000) from None
        finally:
            self._waiting -= 1
        return Slot(self)

    async def _body(self, scope: Scope, receive: Receive) -> Receive:
        """Read a body to its end, so that nothing behind this has to wait for a client."""
        if scope["method"] not in _WITH_BODY:
            return receive
        try:
            async with asyncio.timeout(self._limits.body_s_max):
                raw = await self._read(scope, receive)
        except TimeoutError:
            raise Problem(408, "the body did not come in time") from None
        if raw:
            kind = _header(scope, b"content-type").partition(";")[0].strip().lower()
            if kind != _JSON:
                raise Problem(415, f"a body is {_JSON}")
            try:
                parse(raw, self._json)
            except CodecError as error:
                raise of_codec_error(error) from None
        return _Body(receive, raw)

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        limit = self._limits.body_bytes_max
        told = _header(scope, b"content-length")
        if told.isdigit() and int(told) > limit + BODY_DISCARD_BYTES_MAX:
            raise _too_large(limit)
        chunks: list[bytes] = []
        size, has_more = 0, True
        while has_more and size <= limit + BODY_DISCARD_BYTES_MAX:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Problem(400, "the client has gone")
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > limit:
                # Read on without keeping it: a client that is still sending would not see the answer.
                chunks.clear()
            else:
                chunks.append(chunk)
            has_more = message.get("more_body", False)
        if size > limit:
            raise _too_large(limit)
        return b"".join(chunks)


def _too_large(limit: int) -> Problem:
    return Problem(
        413, f"the body is too large: the limit is {limit:,} bytes", headers={"connection": "close"}
    )


def _check_head(scope: Scope) -> None:
    target = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    if target > TARGET_BYTES_MAX:
        raise Problem(414, f"the address is too long: {target:,} bytes, limit {TARGET_BYTES_MAX:,}")
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    size = sum(len(name) + len(value) for name, value in headers)
    if size > HEADER_BYTES_MAX:
        raise Problem(431, f"the headers are too large: {size:,} bytes, limit {HEADER_BYTES_MAX:,}")


def _header(scope: Scope, name: bytes) -> str:
    for key, value in scope["headers"]:
        if key == name:
            return value.decode("latin-1")
    return ""
