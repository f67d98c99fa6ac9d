"""The server: its ASGI application, its socket, and its command line."""

import argparse
import asyncio
import logging
import os
import resource
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from socket import AF_INET, AF_INET6, create_server, socket
from types import FrameType
from typing import ClassVar, Final, TypeVar
from weakref import WeakKeyDictionary

import h11
import uvicorn
from fastapi import APIRouter, FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

import windlass_server
from windlass import Agent, AgentError, Unavailable, telemetry
from windlass.demo import agent as demo
from windlass.ledger.goals import Goal
from windlass.limits import SERVICE_DRAIN_S
from windlass.loading import load
from windlass.parts import Clock, SystemClock, hide_environment, shorten_stalls
from windlass.telemetry.spans import TRACEPARENT, TRACESTATE
from windlass_protocol import RetryClass
from windlass_server import log
from windlass_server.auth import LOCAL, Doorman
from windlass_server.chat import a2a, agui, ai_sdk
from windlass_server.guard import REQUEST_ID, Guard, Metrics
from windlass_server.inspector import Pages
from windlass_server.openapi import describe
from windlass_server.options import OPTIONS
from windlass_server.routes import (
    approvals,
    evals,
    eve,
    feeds,
    insight,
    limits,
    runs,
    schedules,
    sessions,
    system,
    webhooks,
)
from windlass_server.settings import (
    BATCH_BYTES,
    FILES_MAX,
    FILES_PER_CONNECTION,
    HEAD_S_MAX,
    HEADER_BYTES_MAX,
    LINGER_S,
    REQUESTS_END_S,
    SEND_S_MAX,
    TARGET_BYTES_MAX,
    Settings,
    settings_error,
)
from windlass_server.streams import Streams
from windlass_server.tenants import Tenants

T = TypeVar("T")
_LOG: Final = logging.getLogger("windlass.server")
_ROUTERS: Final[tuple[APIRouter, ...]] = (
    feeds.router,
    sessions.router,
    approvals.router,
    sessions.contents,
    sessions.catalogue,
    runs.router,
    schedules.router,
    limits.router,
    evals.experiments,
    evals.datasets,
    webhooks.router,
    insight.numbers,
    insight.ledger,
    insight.proposals,
    system.agents,
    agui.router,
    ai_sdk.router,
    eve.router,
    system.router,
)


def in_order(routes: Iterable[BaseRoute]) -> list[BaseRoute]:
    """Return routes so that none hides another; the first that matches an address answers it.

    An id in a path may hold slashes, so `/sessions/{id:path}` matches the address of every route below it.
    Routes that end with a literal come first, then those that end with one segment, then those that end
    with such an id.
    """

    def reach(route: BaseRoute) -> int:
        last: str = getattr(route, "path", "").rpartition("/")[2]
        return 2 if last.endswith(":path}") else int(last.endswith("}"))

    return sorted(routes, key=reach)


class _App(FastAPI):
    """The application: FastAPI describes its routes, `Guard` and `Route` answer requests."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; see ASGI.

        Below a path of another application, the path of a request is as it would be at the root;
        `app_root_path` has the rest, for links.
        """
        if scope["type"] == "http" and (root := scope.get("root_path", "")):
            path: str = scope["path"]
            if f"{path}/".startswith(f"{root}/"):
                path = path.removeprefix(root) or "/"
            scope = {**scope, "path": path, "root_path": "", "app_root_path": root}
        await super().__call__(scope, receive, send)

    def build_middleware_stack(self) -> ASGIApp:
        """Return the middleware around the routes; `Guard` answers errors, and no route needs more."""
        app: ASGIApp = self.router
        for middleware in reversed(self.user_middleware):
            app = middleware.cls(app, *middleware.args, **middleware.kwargs)
        return app


class Shutdown:
    """The end of a server: its streams end, and its runs are drained before it is closed."""

    def __init__(self, streams: Streams, tenants: Tenants, *, delay_s: float = 0.0) -> None:
        self._streams = streams
        self._tenants = tenants
        self._delay_s = delay_s
        self._delay_end = asyncio.Event()
        self._signals: set[int] = set()
        self._draining: asyncio.Task[None] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether requests should be sent elsewhere; they are still answered."""
        return self._draining is not None

    def begin(self, number: int) -> None:
        """Begin because of a signal; a second one of the same number ends the drain.

        `windlass dev` passes SIGTERM on to a server that Ctrl-C of the terminal has reached too.
        """
        if number in self._signals:
            self._tenants.end_drain()
            self._delay_end.set()
        self._signals.add(number)
        if not self._delay_s:
            self._streams.close()
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain(), name="windlass drain")

    async def _drain(self) -> None:
        """Drain the runs; streams end, and connections are refused, once others send requests elsewhere."""
        drain = asyncio.create_task(self._tenants.drain(), name="windlass drain of tenants")
        with suppress(TimeoutError):
            async with asyncio.timeout(self._delay_s):
                await self._delay_end.wait()
        self._streams.close()
        await drain

    @property
    def is_drained(self) -> bool:
        """Whether nothing is left but to close."""
        return self._draining is not None and self._draining.done()


def create_app(settings: Settings, tenants: Tenants, *, clock: Clock | None = None) -> FastAPI:
    """Return the ASGI application; its lifespan opens and closes the tenants.

    It may be mounted below a path of another application, which then enters
    `app.router.lifespan_context(app)` in its own lifespan.

    Raises:
        Rejected: the keys or the issuer of tokens cannot be used.
    """
    watch = clock or SystemClock()
    tenants.push_rules = a2a.push_rules(settings)
    doorman, metrics = Doorman(settings, watch), Metrics()
    streams = Streams(settings.limits, metrics)
    shutdown = Shutdown(streams, tenants, delay_s=settings.ready_delay_s)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        await tenants.start()
        # Streams must end at the signal: the shutdown of the server waits for open responses.
        on_exit(shutdown.begin)
        try:
            yield
        finally:
            streams.close()
            await tenants.aclose()

    app = _App(
        title="Windlass",
        description="A server of durable agents: sessions, runs, their events, approvals and numbers.",
        version=windlass_server.__version__,
        contact={"name": "Windlass"},
        license_info={"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.state.streams, app.state.metrics, app.state.tenants = streams, metrics, tenants
    app.state.shutdown = shutdown
    app.state.improve = settings.improve
    app.state.pid = os.getpid() if settings.is_open else None
    # The routes themselves, not `include_router`: `route.path` is then the whole path everywhere.
    app.router.routes += in_order(route for router in _ROUTERS for route in router.routes)
    app.router.routes += [webhooks.route, *a2a.routes]
    app.router.default = Pages(app.router.default)
    describe(app)
    app.add_middleware(
        Guard,
        limits=settings.limits,
        doorman=doorman,
        tenants=tenants,
        clock=watch,
        metrics=metrics,
        own_approvals=settings.own_approvals,
    )
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "POST", "PATCH", "DELETE"],
            allow_headers=[
                "authorization",
                "content-type",
                "idempotency-key",
                "last-event-id",
                REQUEST_ID,
                TRACEPARENT,
                TRACESTATE,
                eve.AGENT_HEADER,
            ],
            expose_headers=["windlass-cursor", "retry-after", REQUEST_ID, TRACEPARENT, eve.SESSION_HEADER],
        )
    return app


CONNECT_S: Final = 5.0
"""How long a server waits before it tries again to open a store that cannot be reached."""
BACKLOG: Final = 2_048
"""Connections that wait to be accepted."""
_HEAD_BYTES_MAX: Final = 2 * (HEADER_BYTES_MAX + TARGET_BYTES_MAX)
"""Above this uvicorn closes the connection without an explanation."""


def serve(settings: Settings, tenants: Tenants, *, on_ready: Callable[[str], None] | None = None) -> int:
    """Serve until SIGTERM or SIGINT, and until the runs are drained; return the exit code, 0 then.

    While it drains, it answers requests, and `/v1/ready` is 503. After `ready_delay_s` it ends streams, whose
    readers connect elsewhere. The same signal again ends the delay and the drain.
    `on_ready` gets the address, with the real port, once the server accepts connections.

    Raises:
        AgentError: a store cannot be opened, an agent has an unknown model provider, the port is taken, or
            the OpenTelemetry exporter of the environment cannot be used.
    """
    log.configure(settings.log_level)
    telemetry.check_environment()
    allow_files()
    asyncio.run(_check(tenants, [LOCAL.tenant] if settings.is_open else []))
    app = create_app(settings, tenants)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=HttpConnection,
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=_HEAD_BYTES_MAX,
        timeout_graceful_shutdown=REQUESTS_END_S,
    )

    def announce(address: str) -> None:
        shorten_stalls()
        startup_fields = log.fields(address=address, **_startup_facts(settings, tenants))
        _LOG.info("Windlass is running on %s", address, extra=startup_fields)
        if on_ready is not None:
            on_ready(address)

    server = _Server(config, announce, app.state.shutdown)
    with _signals_end_normally():
        server.run([_listening(settings)])
    return 0 if server.started else 3


async def _check(tenants: Tenants, expected: Sequence[str]) -> None:
    """Check agents and stores; wait for a database that cannot be reached yet."""
    while True:
        try:
            return await tenants.check(expected)
        except Unavailable as error:
            if error.retry is not RetryClass.RETRYABLE:
                raise
            _LOG.warning("the store cannot be opened, next attempt in %d s: %s", CONNECT_S, error.message)
        await SystemClock().sleep(CONNECT_S)


@contextmanager
def _signals_end_normally() -> Generator[None]:
    """Let the process go on after SIGTERM and SIGINT: uvicorn raises them again when it has shut down."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ignore(number: int, frame: FrameType | None) -> None:
        """Do nothing: the server has shut down."""

    before = {number: signal.signal(number, ignore) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def allow_files() -> None:
    """Let the process open more files than most systems give it: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = FILES_MAX if hard == resource.RLIM_INFINITY else min(FILES_MAX, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def connections_max() -> int:
    """Return how many connections the files of this process allow."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = FILES_MAX if soft == resource.RLIM_INFINITY else min(FILES_MAX, soft)
    return files // FILES_PER_CONNECTION


def _startup_facts(settings: Settings, tenants: Tenants) -> dict[str, str | list[str] | None]:
    """Return the facts about a server that the log has at its start."""
    ways = [name for name, setting in (("keys", settings.keys), ("jwt", settings.jwt)) if setting is not None]
    return {
        "authentication": " and ".join(ways) or "none: open to this machine",
        "agents": sorted(tenants.agents),
        "data": "PostgreSQL" if tenants.address else str(tenants.folder),
        "durability": tenants.durability,
        "corsOrigins": list(settings.cors_origins) or None,
    }


def _listening(settings: Settings) -> socket:
    """Bind the port.

    Raises:
        Rejected: the port cannot be bound.
    """
    family = AF_INET6 if ":" in settings.host else AF_INET
    try:
        return create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        problem = error.strerror or str(error)
    raise settings_error(
        f"cannot listen on {settings.host}:{settings.port}: {problem}; stop the process that listens there, "
        "or choose another port with --port (0 takes a free one)"
    )


class _Server(uvicorn.Server):
    """A server that answers until its runs are drained; uvicorn would close its socket at the signal."""

    def __init__(
        self, config: uvicorn.Config, on_listening: Callable[[str], None], shutdown: Shutdown
    ) -> None:
        super().__init__(config)
        self._on_listening = on_listening
        self._shutdown = shutdown

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.started and sig not in self._captured_signals:
            self._captured_signals.append(sig)
        else:
            super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._shutdown.is_drained

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._on_listening(f"http://{f'[{host}]' if ':' in host else host}:{port}")


class GatheredWrites(asyncio.Transport):
    """A transport that sends the writes of one turn of the event loop together.

    A response is written in parts: its head, each piece of its body, its end. `BATCH_BYTES` of them are sent
    at once, so that the flow control of the transport stays in force.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        *,
        is_behind: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._is_behind = is_behind
        self._is_closed = False
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes with the others of this turn."""
        if not data:
            return
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(bytes(data))
        self._size += len(data)
        if self._size >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send the bytes of this turn now."""
        if self._parts:
            parts, self._parts, self._size = self._parts, [], 0
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def close(self) -> None:
        """Close the connection when everything was sent.

        If the client is still sending, the kernel would reset the connection, and the client might not see
        the response. So only our direction is closed at first. What the client sends is not read.
        """
        self.flush()
        if self._is_closed or self._transport.is_closing():
            return
        self._is_closed = True
        if self._is_behind():
            self._transport.pause_reading()
            self._transport.write_eof()
            self._loop.call_later(LINGER_S, self._transport.close)
        else:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection now."""
        self._parts.clear()
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether the connection is closed or about to be."""
        return self._is_closed or self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that are not sent."""
        return self._transport.get_write_buffer_size() + self._size

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return a fact about the connection."""
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """Stop reading from the client."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the client again."""
        self._transport.resume_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Let another protocol have the connection."""
        self._transport.set_protocol(protocol)


class HttpConnection(H11Protocol):
    """A connection with timeouts for slow clients.

    It is closed when the head of a request, or the rest of a body after its response, is not sent in time, or
    when the client does not read the response for a while. When there are too many, a new connection takes
    the place of the one that waits longest for a request: stores and tools need files too, and a health
    check must be answered.
    """

    _idle: ClassVar[WeakKeyDictionary[ServerState, dict["HttpConnection", None]]] = WeakKeyDictionary()
    """The connections of each server that wait for a request, those that wait longest first."""
    head_s_max: ClassVar[float] = HEAD_S_MAX
    send_s_max: ClassVar[float] = SEND_S_MAX
    _late: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] as in uvicorn
        """Start the timeout of the first request."""
        conn = self.conn
        writes = GatheredWrites(transport, self.loop, is_behind=lambda: conn.their_state is h11.SEND_BODY)
        super().connection_made(writes)
        self._expect()
        if len(self.connections) > connections_max():
            # Itself, if all others are in the middle of a request.
            longest = next(iter(self._waiting))
            longest._stop()
            longest.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Receive bytes; the timeout ends with a complete head."""
        super().data_received(data)
        self._expect()

    def on_response_complete(self) -> None:
        """Start the timeout of the rest of a body that was answered early."""
        super().on_response_complete()
        self._expect()

    def pause_writing(self) -> None:
        """Start the timeout of a client that does not read."""
        super().pause_writing()
        self._look(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Stop the timeout: the client has read most of the buffer."""
        self._let_go()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timeouts."""
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
            self._waiting[self] = None

    def _stop(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
            self._waiting.pop(self, None)

    @property
    def _waiting(self) -> "dict[HttpConnection, None]":
        return self._idle.setdefault(self.server_state, {})

    def _look(self, before: int) -> None:
        self._stuck = self.loop.call_later(self.send_s_max, self._look_again, before)

    def _look_again(self, before: int) -> None:
        left = self.transport.get_write_buffer_size()
        if left < before:
            self._look(left)
        else:
            # `close` would wait until the client has read everything.
            self.transport.abort()

    def _let_go(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None


def on_exit(close: Callable[[int], None]) -> None:
    """Call `close` with the signal at SIGTERM and SIGINT, in this event loop, before the other handlers.

    The shutdown of uvicorn waits for open responses, and a stream is open until it is closed. Outside of the
    main thread no signal arrives, so nothing is done there.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(number)

        def handle_signal(got: int, frame: FrameType | None, before: object = before) -> None:
            loop.call_soon_threadsafe(close, got)
            if callable(before):
                before(got, frame)

        signal.signal(number, handle_signal)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve; return the exit code."""
    options = _parser().parse_args(arguments)
    # The commands of tools run as the same user.
    hide_environment()
    try:
        goals = _load_objects(options.goals, Goal, option="--goals")
        settings = Settings.read(
            {option.name: getattr(options, option.name) for option in OPTIONS}, goals=goals
        )
        agents = _load_objects(options.agents, Agent, option="--agents") or (demo,)
        tenants = Tenants(
            options.data, agents, open_max=settings.limits.tenants_open_max, drain_s=options.drain_s
        )
        return serve(settings, tenants)
    except AgentError as error:
        sys.stderr.write(f"windlass-server: {error.message}\n")
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="windlass-server", description="Serve agents over HTTP.")
    add = parser.add_argument
    add("--agents", metavar="MODULE:ATTR", help="your agents, or FILE.py:ATTR; a demo agent when left out")
    add("--goals", metavar="MODULE:ATTR", help="a Goal, or a list of them, that changes are made for")
    add("--data", type=Path, default=Path("windlass-data"), help="the folder of the stores")
    add(
        "--drain-s",
        type=float,
        default=SERVICE_DRAIN_S,
        metavar="SECONDS",
        help="how long tool calls under way may take to end after SIGTERM or Ctrl-C",
    )
    for option in OPTIONS:
        add(option.option, default=option.default, metavar=option.form, help=option.meaning)
    return parser


def _load_objects(location: str | None, kind: type[T], *, option: str) -> tuple[T, ...]:
    try:
        return () if location is None else load(location, kind)
    except AgentError as error:
        raise settings_error(f"{option} {location}: {error.message}") from error
