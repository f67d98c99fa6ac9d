"""What every request passes before a route sees it: who, how often, how much."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass import AgentError
from windlass.parts import Clock
from windlass_server.auth import Asked, Doorman
from windlass_server.bodies import read_body
from windlass_server.limits import HEADER_BYTES_MAX, TARGET_BYTES_MAX, Meter
from windlass_server.metrics import Metrics
from windlass_server.principal import Principal
from windlass_server.problems import Problem, of_agent_error
from windlass_server.settings import Limits
from windlass_server.slots import Slot, Slots
from windlass_server.streams import Reading
from windlass_server.tenants import Tenant, Tenants

PREFIX: Final = "/v1"
PUBLIC: Final = frozenset({f"{PREFIX}/health", f"{PREFIX}/openapi.json"})
"""What anybody may ask for: it says nothing about anybody."""
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a request, with their tenant; found in the state of the request."""

    principal: Principal
    tenant: Tenant
    slot: Slot
    is_welcome: Callable[[], Awaitable[bool]]
    """Whether they would be let in again: a stream may outlive a key."""

    @property
    def reading(self) -> Reading:
        """Who reads a stream that they ask for."""
        return Reading(self.principal.key, self.is_welcome)


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
        self._slots = Slots(limits, metrics)

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
        asked = _asked(scope)
        principal = await self._who(scope, asked)
        retry_s = self._meter.take(principal.key)
        if retry_s:
            self._metrics.refused.labels("rate").inc()
            raise Problem(429, "too many requests: come back later", retry_s=retry_s)
        slot = await self._slots.take(principal.key)
        stack.callback(slot.release)
        body = await self._body(scope, receive)
        tenant = await stack.enter_async_context(self._tenants.use(principal.tenant))
        scope.setdefault("state", {})["caller"] = Caller(
            principal, tenant, slot, partial(self._doorman.is_still, asked, principal)
        )
        return body

    async def _who(self, scope: Scope, asked: Asked) -> Principal:
        try:
            return await self._doorman.principal(asked)
        except Problem as problem:
            if problem.status == HTTPStatus.SERVICE_UNAVAILABLE:
                raise
            # Only those who are not known are slowed down: others may share their address.
            client = scope.get("client")
            retry_s = self._failures.take(client[0] if client else "")
            if not retry_s:
                raise
        self._metrics.refused.labels("failures").inc()
        raise Problem(429, "too many requests: come back later", retry_s=retry_s)

    async def _body(self, scope: Scope, receive: Receive) -> Receive:
        if scope["method"] not in _WITH_BODY:
            return receive
        length, kind = _header(scope, b"content-length"), _header(scope, b"content-type")
        return _Body(receive, await read_body(receive, self._limits, length=length, kind=kind))


def _check_head(scope: Scope) -> None:
    target = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    if target > TARGET_BYTES_MAX:
        raise Problem(414, f"the address is too long: {target:,} bytes, limit {TARGET_BYTES_MAX:,}")
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    size = sum(len(name) + len(value) for name, value in headers)
    if size > HEADER_BYTES_MAX:
        raise Problem(431, f"the headers are too large: {size:,} bytes, limit {HEADER_BYTES_MAX:,}")

    if _header(scope, b"content-length") and _header(scope, b"transfer-encoding"):
        # Where its body ends is not clear, so neither is what comes behind it.
        raise Problem(
            400, "give Content-Length or Transfer-Encoding, not both", headers={"connection": "close"}
        )


def _asked(scope: Scope) -> Asked:
    return Asked(
        scope["method"],
        _header(scope, b"host"),
        authorization=_header(scope, b"authorization"),
        origin=_header(scope, b"origin"),
        site=_header(scope, b"sec-fetch-site"),
    )


def _header(scope: Scope, name: bytes) -> str:
    for key, value in scope["headers"]:
        if key == name:
            return value.decode("latin-1")
    return ""
