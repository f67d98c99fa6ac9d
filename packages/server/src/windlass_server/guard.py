"""The guard: middleware that every request passes before a route.

It gives the request an id, authenticates the caller, applies limits of rate, cost and concurrency, reads and
checks the body, opens the tenant, answers with a problem if anything fails, and counts metrics.

A user is limited by the number of requests, and so is an address on routes without credentials, except those
of health. A tenant is limited by the cost of its requests: bytes of bodies, which are counted before the body
is read if its length is given, and CPU time of the event loop, which all tenants share.
"""

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from dataclasses import field, replace
from functools import partial
from http import HTTPStatus
from ipaddress import IPv6Address, IPv6Network, ip_address
from math import ceil
from time import thread_time
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import JsonValue
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.limits import LIGHT_CHARS_MAX
from windlass.parts import Clock, new_id
from windlass.telemetry.spans import TRACEPARENT, TRACESTATE, context_in
from windlass.tools.calling import TurnGate, read_by_size
from windlass.webhooks import PayloadRefused, SignatureRefused
from windlass_protocol import CodecError, CodecLimits, parse
from windlass_protocol.codec_scan import count_values
from windlass_protocol.frozen import mutable
from windlass_server.auth import Doorman, Principal, RequestHeaders, key_id_of
from windlass_server.generated.table import OPERATIONS
from windlass_server.log import fields
from windlass_server.problems import Problem, is_expected, not_found, of_codec_error, problem_of
from windlass_server.requests import EVE_PREFIX, PREFIX, PREFIXES, WEBHOOKS, Caller
from windlass_server.routing import BODY
from windlass_server.settings import (
    BODY_DISCARD_BYTES_MAX,
    BODY_VALUES_MAX,
    HEADER_BYTES_MAX,
    METERS_MAX,
    RETRY_MS,
    SLOW_S,
    TARGET_BYTES_MAX,
    Limits,
)
from windlass_server.tenants import Tenant, Tenants
from windlass_server.work import Stalls, WorkMetrics

_LOG: Final = logging.getLogger("windlass.server")
_PATH_CHARS_MAX: Final = 200
"""Characters of a path without a route in the log."""
BEGUN_AT_ONCE: Final = 8
"""Requests that begin in one turn of the event loop: to a server that starts, all readers come at once."""
UNKNOWN: Final = "unknown"
"""The label of a request without a route."""


class Metrics:
    """Metrics of the whole server; none names a tenant or a user."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "windlass_http_requests_total",
            "Requests by route, method and status.",
            ("route", "method", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "windlass_http_request_seconds",
            "How long requests took; streams count when they end.",
            ("route",),
            registry=self._registry,
        )
        self.refused = Counter(
            "windlass_http_refused_total",
            "Requests that were refused to protect the server, by reason.",
            ("reason",),
            registry=self._registry,
        )
        self.streams = Gauge("windlass_streams_open", "Open streams.", registry=self._registry)
        self.events = Counter(
            "windlass_stream_events_total", "Events that streams have sent.", registry=self._registry
        )
        self.tenants = Gauge("windlass_tenants_open", "Open tenants.", registry=self._registry)
        self.work = WorkMetrics()
        self._registry.register(self.work)
        self._registry.register(Stalls())
        self._labelled: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        """The metrics of each route, method and status that was counted."""

    def count(self, scope: Scope, *, status: int, seconds: float) -> None:
        """Count a finished request."""
        key = (getattr(scope.get("route"), "path", UNKNOWN), _method(scope["method"]), status)
        counters = self._labelled.get(key)
        if counters is None:
            route, method, _ = key
            requests = self._requests.labels(route, method, str(status))
            counters = self._labelled[key] = (requests, self._seconds.labels(route))
        counters[0].inc()
        counters[1].observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in the format of Prometheus."""
        return generate_latest(self._registry)


def _method(name: str) -> str:
    """Return a known method: clients must not be able to create labels."""
    return name if name in {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"} else UNKNOWN


_JSON: Final = "application/json"
_DIGITS_MAX: Final = 20
"""Digits of a Content-Length; a longer one is too large in any case."""


async def read_body(receive: Receive, limits: Limits, *, declared: int | None) -> bytes:
    """Return the whole body, so that no route has to wait for a client; it is not looked at.

    Raises:
        Problem: the body is too large or too slow.
    """
    try:
        async with asyncio.timeout(limits.body_s_max):
            return await _read(receive, limits.body_bytes_max, declared=declared)
    except TimeoutError:
        raise Problem(408, "the body was not sent in time") from None


def declared_length(length: str) -> int | None:
    """Return the length of a body by its header; None if there is none."""
    return int(length[:_DIGITS_MAX]) if length.isascii() and length.isdigit() else None


async def _read(receive: Receive, limit: int, *, declared: int | None) -> bytes:
    if declared is not None and declared > limit + BODY_DISCARD_BYTES_MAX:
        raise _too_large(limit)
    chunks: list[bytes] = []
    size, has_more = 0, True
    while has_more and size <= limit + BODY_DISCARD_BYTES_MAX:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem(400, "the client disconnected")
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            # Read on and discard: a client that is still sending would not see the response.
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


def parse_body(raw: bytes, limits: Limits, *, kind: str) -> JsonValue:
    """Return the value of a body; None if it is empty.

    Raises:
        Problem: it is not JSON, or has too many values.
    """
    if not raw:
        return None
    if kind.partition(";")[0].strip().lower() != _JSON:
        raise Problem(415, f"a body is JSON, with the header content-type: {_JSON}")
    count = count_values(raw, BODY_VALUES_MAX)
    if count > BODY_VALUES_MAX:
        raise Problem(413, f"the body has too many values: {count:,}, limit {BODY_VALUES_MAX:,}")
    try:
        return parse(raw, CodecLimits(message_bytes_max=limits.body_bytes_max))
    except CodecError as error:
        raise of_codec_error(error) from None


@mutable
class _Bucket:
    tokens: float
    at: float


class Meter:
    """A token bucket per key: an average rate and a burst."""

    def __init__(self, clock: Clock, *, per_s: float, burst: float, keys_max: int = METERS_MAX) -> None:
        self._clock = clock
        self._per_s = per_s
        self._burst = burst
        self._keys_max = keys_max
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, key: str, amount: float = 1) -> int:
        """Count a request, or what it costs; return 0, or the seconds after which to try again.

        An amount above the burst needs a full bucket.
        """
        bucket = self._refill(key)
        needed = min(amount, self._burst)
        if bucket.tokens >= needed:
            bucket.tokens -= amount
            return 0
        return max(1, ceil((needed - bucket.tokens) / self._per_s))

    def charge(self, key: str, amount: float) -> None:
        """Count a cost that is known only afterwards; the debt is at most one burst."""
        bucket = self._refill(key)
        bucket.tokens = max(-self._burst, bucket.tokens - amount)

    def _refill(self, key: str) -> _Bucket:
        now = self._clock.monotonic()
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(self._burst, now)
            if len(self._buckets) > self._keys_max:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(key)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.at) * self._per_s)
        bucket.at = now
        return bucket


@mutable
class _Own:
    """The slots of one user."""

    free: asyncio.Semaphore
    users: int = 0
    """Requests that hold a slot or wait for one."""


@mutable
class Slot:
    """The slot of one request."""

    slots: "Slots"
    principal: str
    is_held: bool = True

    def release(self) -> None:
        """Free the slot; a second call does nothing."""
        if self.is_held:
            self.is_held = False
            self.slots.free(self.principal)


@mutable
class Slots:
    """The slots for concurrent requests: of the server, and of each user."""

    limits: Limits
    metrics: Metrics
    _all: asyncio.Semaphore = field(init=False)
    _own: Final[dict[str, _Own]] = field(default_factory=dict[str, _Own])
    _waiting: int = 0

    def __post_init__(self) -> None:
        self._all = asyncio.Semaphore(self.limits.requests_max)

    async def take(self, principal: str) -> Slot:
        """Wait for a slot.

        Raises:
            Problem: too many requests wait, or no slot became free in time.
        """
        own = self._enter(principal)
        if not (own.free.locked() or self._all.locked()):
            await self._both(own)  # at once
            return Slot(self, principal)
        self._waiting += 1
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
        raise Problem(503, "the server is busy: retry later", retry_s=RETRY_MS // 1000)

    def free(self, principal: str) -> None:
        """Free a slot."""
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


class Metered:
    """Awaits a coroutine and counts the CPU time of its steps.

    A step runs from one wait to the next, and the event loop does nothing else meanwhile.
    """

    __slots__ = ("_cpu_s", "_told", "_work")

    def __init__(
        self,
        work: Coroutine[object, object, None],
        *,
        on_seconds: Callable[[float], None],
        cpu_s: Callable[[], float] = thread_time,
    ) -> None:
        self._work = work
        self._told = on_seconds
        self._cpu_s = cpu_s

    def __await__(self) -> Generator[object, object, None]:
        """Run the coroutine; `on_seconds` gets the seconds of each step."""
        step: Callable[[], object] = partial(self._work.send, None)
        while True:
            began = self._cpu_s()
            try:
                waits = step()
            except StopIteration:
                return
            finally:
                self._told(self._cpu_s() - began)
            try:
                step = partial(self._work.send, (yield waits))
            except GeneratorExit:
                self._work.close()
                raise
            except BaseException as error:  # noqa: BLE001 - passed on to the coroutine, which decides
                step = partial(self._work.throw, error)


API_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""Headers of every response of a route, unless the route sets them: its body is for the caller alone."""

REQUEST_ID: Final = "x-request-id"
"""The header with the id of a request."""
_ID: Final = "request_id"
"""The id in the state of a request."""
_ID_FORM: Final = re.compile(r"[!-~]{1,128}")
_CLOSE: Final = (b"connection", b"close")
_OVER: Final = {
    "rate": "too many requests: retry later",
    "bytes": "the requests of this tenant have too many bytes: retry later",
    "cpu": "the requests of this tenant take too much time of the server: retry later",
}
"""The texts of refusals by the limits of rate and cost."""
DOCUMENT: Final = f"{PREFIX}/openapi.json"
_HEALTH: Final = frozenset(operation.path for operation in OPERATIONS if operation.who == "public")
PUBLIC: Final = _HEALTH | {DOCUMENT}
"""Paths that need no credentials."""
_SOURCE_CHARS_MAX: Final = 64
"""Characters of what a proxy calls the address of a client, if it is none."""
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Guard:
    """Passes a request on to the routes, or refuses it."""

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        *,
        doorman: Doorman,
        tenants: Tenants,
        clock: Clock,
        metrics: Metrics,
        own_approvals: bool = False,
    ) -> None:
        self._app = app
        self._own_approvals = own_approvals
        self._doorman = doorman
        self._tenants = tenants
        self._limits = limits
        self._metrics = metrics
        self._meter = Meter(clock, per_s=limits.requests_per_s, burst=limits.requests_burst)
        # Apart from users: addresses cost nothing, and must not displace their meters.
        self._public = Meter(clock, per_s=limits.requests_per_s, burst=limits.requests_burst)
        self._bytes = Meter(clock, per_s=limits.bytes_per_s, burst=limits.bytes_burst)
        self._cpu = Meter(clock, per_s=limits.cpu_per_s, burst=limits.cpu_burst_s)
        self._failures = Meter(clock, per_s=limits.failures_per_s, burst=limits.failures_burst)
        self._clock = clock
        self._slots = Slots(limits, metrics)
        self._turns = TurnGate(BEGUN_AT_ONCE)
        # Apart from users: bodies of strangers that do not come must not take the slots of users.
        self._unsigned = Slots(limits, metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; see ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = self._clock.monotonic()
        status, is_stream = 0, False
        is_route = scope["path"].startswith((*PREFIXES, WEBHOOKS))
        request_id = _request_id(scope)
        state: dict[str, object] = scope.setdefault("state", {})
        state[_ID] = request_id
        own_headers = [
            (REQUEST_ID.encode(), request_id.encode()),
            *((TRACEPARENT.encode(), text.encode()) for text in [_trace(scope).get(TRACEPARENT)] if text),
        ]

        async def counted(message: Message) -> None:
            nonlocal status, is_stream
            if message["type"] == "http.response.start":
                status = message["status"]
                is_stream = not any(name == b"content-length" for name, _ in message["headers"])
                if is_route:
                    message["headers"] = [*_with_headers(message["headers"]), *own_headers]
                if self._tenants.is_draining:
                    # The next request goes to another server.
                    message["headers"] = [*message["headers"], _CLOSE]
            await send(message)

        if is_route:
            await self._turns.wait()
        # The slot and the tenant are held until the response is sent, streams included.
        held = _Held()
        try:
            await self._admit(scope, receive, held)
            if held.slot is None:
                await self._app(scope, receive, counted)
            else:
                work = self._work(scope, receive, counted)
                await Metered(work, on_seconds=partial(self._charge, held.slot, held.tenant))
        except Exception as error:
            if not is_expected(error):
                error.add_note(f"{REQUEST_ID}: {request_id}")  # the log has it below the traceback
            if status:
                raise
            problem = replace(problem_of(Request(scope), error), request_id=request_id)
            if scope["path"].startswith(f"{EVE_PREFIX}/"):
                problem = problem.for_eve()
            await problem.response()(scope, receive, counted)
            if not is_expected(error):
                raise  # the log of the server gets the traceback
        finally:
            held.release()
            seconds = self._clock.monotonic() - began
            self._metrics.count(scope, status=status or 500, seconds=seconds)
            if seconds > SLOW_S and not is_stream:
                _LOG.warning(
                    "slow request", extra=_log_fields(scope, status=status, seconds=round(seconds, 3))
                )

    async def _work(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def _charge(self, slot: Slot, tenant: Tenant | None, seconds: float) -> None:
        """Count CPU time for a tenant; what a stream costs after its start is not counted."""
        if slot.is_held and tenant is not None:
            self._cpu.charge(tenant.name, seconds)

    def _refuse_over(self, meter: Meter, key: str, *, amount: float, reason: str) -> None:
        retry_s = meter.take(key, amount)
        if retry_s:
            self._metrics.refused.labels(reason).inc()
            # The rest of a large body is not even read.
            headers = {"connection": "close"} if amount > LIGHT_CHARS_MAX else None
            raise Problem(429, _OVER[reason], retry_s=retry_s, headers=headers)

    async def _admit(self, scope: Scope, receive: Receive, held: "_Held") -> None:
        """Check a request; put its `Caller` and its body into its state."""
        _check_head(scope)
        path: str = scope["path"]
        if path.startswith(WEBHOOKS):
            await self._admit_signed(scope, receive, held)
            return
        if path in _HEALTH:
            return  # never refused: a supervisor may end a process that does not answer
        if path in PUBLIC or not path.startswith(PREFIXES):
            self._refuse_over(self._public, _source(scope), amount=1, reason="rate")
            return
        headers = _request_headers(scope)
        principal = await self._who(scope, headers)
        self._refuse_over(self._meter, principal.key, amount=1, reason="rate")
        self._refuse_over(self._cpu, principal.tenant, amount=0, reason="cpu")
        has_body = scope["method"] in _WITH_BODY
        declared = declared_length(_header(scope, b"content-length")) if has_body else None
        if declared is not None:
            # A longer body is refused in any case.
            amount = min(declared, self._limits.body_bytes_max)
            self._refuse_over(self._bytes, principal.tenant, amount=amount, reason="bytes")
        slot = held.slot = await self._slots.take(principal.key)
        state: dict[str, object] = scope.setdefault("state", {})
        if has_body:
            raw = await read_body(receive, self._limits, declared=declared)
            if declared is None:
                self._refuse_over(self._bytes, principal.tenant, amount=len(raw), reason="bytes")
            kind = _header(scope, b"content-type")
            state[BODY] = await read_by_size(len(raw), partial(parse_body, raw, self._limits, kind=kind))
        tenant = held.tenant = await self._tenants.take(
            principal.tenant, may_create=has_body or not principal.is_claimed
        )
        state["caller"] = Caller(
            principal,
            tenant,
            slot.release,
            partial(self._is_still, headers, principal, tenant),
            trace=_trace(scope),
            approves_own=self._own_approvals,
            output_repairs_max=self._limits.output_repairs_max,
            backlog_max=self._limits.backlog_max,
        )

    async def _admit_signed(self, scope: Scope, receive: Receive, held: "_Held") -> None:
        """Check a request of a webhook: its signature stands for credentials.

        The body is read before the sender is known, so its address is limited, not its user. It takes a slot
        of users once its signature is known to be right.
        """
        held.slot = await self._unsigned.take(_source(scope))
        declared = declared_length(_header(scope, b"content-length"))
        try:
            webhook = self._tenants.webhooks.find(scope["path"].removeprefix(WEBHOOKS))
            if webhook is None:
                raise not_found("webhook")
            if scope["method"] != "POST":
                raise Problem(405, "a webhook takes POST alone", headers={"allow": "POST"})
            raw = await read_body(receive, self._limits, declared=declared)
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            verify = partial(self._tenants.webhooks.verify, webhook.name, headers, raw)
            delivery = await read_by_size(len(raw), verify)
        except (SignatureRefused, Problem) as error:
            problem = error if isinstance(error, Problem) else Problem(401, error.message, error.code)
            self._count_failure(scope, problem)
            raise problem from None
        except PayloadRefused as error:
            raise Problem(400, error.message, error.code) from None
        principal = Principal(webhook.tenant, webhook.owner)
        self._refuse_over(self._meter, f"webhook {webhook.name}", amount=1, reason="rate")
        self._refuse_over(self._bytes, principal.tenant, amount=len(raw), reason="bytes")
        held.slot.release()
        held.slot = await self._slots.take(f"webhook {webhook.name}")
        tenant = held.tenant = await self._tenants.take(principal.tenant)
        state: dict[str, object] = scope.setdefault("state", {})
        state["caller"] = Caller(principal, tenant, held.slot.release, _always, trace=_trace(scope))
        state["delivery"] = delivery

    async def _is_still(self, headers: RequestHeaders, principal: Principal, tenant: Tenant) -> bool:
        """Whether a stream may go on; one of a tenant without files ends when there are files."""
        return not tenant.is_outdated and await self._doorman.is_still(headers, principal)

    async def _who(self, scope: Scope, headers: RequestHeaders) -> Principal:
        try:
            return await self._doorman.principal(headers)
        except Problem as problem:
            if problem.status != HTTPStatus.SERVICE_UNAVAILABLE:
                self._count_failure(scope, problem)
            raise

    def _count_failure(self, scope: Scope, problem: Problem) -> None:
        """Count a request without valid credentials; log it, or refuse its address if there are too many.

        Only failed authentication counts: valid users may share the address.
        """
        retry_s = self._failures.take(_source(scope))
        if retry_s:
            self._metrics.refused.labels("failures").inc()
            raise Problem(429, "too many requests: retry later", retry_s=retry_s) from None
        _LOG.warning("request refused: %s", problem.detail, extra=_log_fields(scope, status=problem.status))


@mutable
class _Held:
    """What a request holds while it is answered."""

    slot: Slot | None = None
    tenant: Tenant | None = None

    def release(self) -> None:
        if self.slot is not None:
            self.slot.release()
        if self.tenant is not None:
            self.tenant.release()


def _log_fields(scope: Scope, *, status: int, seconds: float | None = None) -> dict[str, object]:
    """Return the log fields of a request. Its query may hold text of a user, and is left out."""
    route: str = getattr(scope.get("route"), "path", scope["path"][:_PATH_CHARS_MAX])
    return fields(
        method=_method(scope["method"]),
        path=route,
        status=status,
        seconds=seconds,
        address=_address(scope) or None,
        keyId=key_id_of(_header(scope, b"authorization")),
        httpRequestId=scope["state"][_ID],
        traceparent=_trace(scope).get(TRACEPARENT),
    )


def _request_id(scope: Scope) -> str:
    """Return the id of a request: that of its client or proxy, or a new one."""
    text = _header(scope, REQUEST_ID.encode())
    return text if _ID_FORM.fullmatch(text) else new_id()


def _trace(scope: Scope) -> Mapping[str, str]:
    """Return the trace context of a request by the names of its headers; nothing without a valid one."""
    parent = _header(scope, TRACEPARENT.encode())
    if not parent or context_in({TRACEPARENT: parent}) is None:
        return {}
    state = _header(scope, TRACESTATE.encode())
    return {TRACEPARENT: parent, TRACESTATE: state} if state else {TRACEPARENT: parent}


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def _source(scope: Scope) -> str:
    """Return what a request counts for: its address, or the network of 64 bits of an address of IPv6.

    A client of IPv6 has such a network, and could send each request from another address of it.
    """
    text = _address(scope)
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return text[:_SOURCE_CHARS_MAX]
    if not isinstance(address, IPv6Address):
        return str(address)
    return str(address.ipv4_mapped or IPv6Network((address, 64), strict=False))


async def _always() -> bool:
    return True


def _check_head(scope: Scope) -> None:
    target = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    if target > TARGET_BYTES_MAX:
        raise Problem(414, f"path and query are too long: {target:,} bytes, limit {TARGET_BYTES_MAX:,}")
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    size = sum(len(name) + len(value) for name, value in headers)
    if size > HEADER_BYTES_MAX:
        raise Problem(431, f"the headers are too large: {size:,} bytes, limit {HEADER_BYTES_MAX:,}")

    if _header(scope, b"content-length") and _header(scope, b"transfer-encoding"):
        # The end of the body would be ambiguous (request smuggling).
        raise Problem(
            400, "give Content-Length or Transfer-Encoding, not both", headers={"connection": "close"}
        )


def _with_headers(own: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    headers = list(own)
    names = {name.lower() for name, _ in headers}
    return headers + [header for header in API_HEADERS if header[0] not in names]


def _request_headers(scope: Scope) -> RequestHeaders:
    return RequestHeaders(
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
