"""The application behind the methods: runtime, store, tools, streams, settings, logs and health."""

import asyncio
import logging
import os
import platform
from collections.abc import Awaitable, Callable
from dataclasses import field, replace
from functools import wraps
from pathlib import Path
from typing import Final, Self, cast

from windlass import AgentRuntime, Tool, ToolRouter
from windlass.errors import AgentError
from windlass.limits import DRAIN_S
from windlass.models import ROUTE_IDS
from windlass.parts import Clock, Feed, MemoryStore, Store, SystemClock, allow_start, new_id
from windlass.ports.store import WatchedStore
from windlass.runtime.opening import is_postgres, open_store
from windlass_harness.redact import mask_text
from windlass_protocol import CheckStatus, SidecarCheck, SidecarHealth, SidecarStatus
from windlass_protocol.frozen import mutable
from windlass_sidecar import PROTOCOL_VERSION, __version__
from windlass_sidecar.limits import HEALTH_TIMEOUT_S, LOG_LINE_BYTES_MAX
from windlass_sidecar.rpc import Host
from windlass_sidecar.stdio import Stderr
from windlass_sidecar.streams import GrowingScribe, LiveStreams

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
_LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_CHATTY_LOGGERS: Final = ("httpcore2", "httpx2")
"""Loggers that log every request at level INFO."""


@mutable
class SidecarSettings:
    """The configuration that `config.get` returns and `config.set` changes."""

    log_level: str = "info"

    def apply(self) -> None:
        """Set the log level of the process."""
        logging.getLogger().setLevel(self.log_level.upper())


@mutable
class App:
    """Everything that methods use; open it with `open`."""

    runtime: AgentRuntime
    store: Store
    scribe: GrowingScribe
    tools: ToolRouter
    host: Host
    streams: LiveStreams
    clock: Clock
    began_s: float
    store_name: str | None = None
    """The path or the address of the store, without a password; None for one in memory."""
    settings: SidecarSettings = field(default_factory=SidecarSettings)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the sidecar is to shut down."""
    is_hurried: bool = False
    """Whether it is to shut down without draining."""

    @classmethod
    async def open(
        cls, path: str | Path | None, tools: ToolRouter, *, host: Host, drain_s: float = DRAIN_S
    ) -> Self:
        """Open the journal in a file or in PostgreSQL, a new one if there is none; without a path, in memory.

        Raises:
            AgentError: the file is not a store, is damaged or cannot be opened.
        """
        clock, scribe = SystemClock(), GrowingScribe()
        began_s = clock.monotonic()
        store = MemoryStore() if path is None else await open_store(path)
        builder = AgentRuntime.builder().journal(store).content(store).event_bus(Feed(store, clock))
        built = builder.policy(allow_start).options(is_attended=True, drain_s=drain_s).build()
        # The builder's scribe knows its secrets from the beginning; this one learns those of later streams.
        runtime = AgentRuntime(replace(built.core.ports, scribe=scribe))
        try:
            await runtime.core.resume()
        except BaseException:
            await store.aclose()
            raise
        streams = LiveStreams(runtime, scribe, tools=tools, host=host)
        store_name = None if isinstance(store, MemoryStore) else store.name
        return cls(runtime, store, scribe, tools, host, streams, clock, began_s, store_name)

    def new_id(self) -> str:
        """Return a unique id."""
        return new_id()

    def stop_now(self) -> None:
        """Shut down without draining."""
        self.is_hurried = True
        self.runtime.core.end_drain()
        self.stop.set()

    async def aclose(self) -> None:
        """Close everything; a stream continues when it is asked for again."""
        await self.streams.stop()
        await self.runtime.aclose()
        await self.streams.aclose()


def guard_tools(tools: ToolRouter) -> ToolRouter:
    """Return the same tools; one that raises KeyboardInterrupt has failed.

    Signals are handled by the event loop, which a KeyboardInterrupt of a tool would end.
    """
    return ToolRouter(_guard_tool(tool) for tool in tools.list_tools())


def _guard_tool(tool: Tool[..., object]) -> Tool[..., object]:
    if not tool.shape.signature.is_async:
        return tool  # the thread that it runs in does the same
    run = cast("Callable[..., Awaitable[object]]", tool.function)

    @wraps(run)
    async def run_guarded(*args: object, **kwargs: object) -> object:
        try:
            return await run(*args, **kwargs)
        except KeyboardInterrupt:
            raise RuntimeError("the tool raised KeyboardInterrupt") from None

    return replace(tool, function=run_guarded)


# health


async def health(app: App) -> SidecarHealth:
    """Return the health of the sidecar; the store is asked for a row."""
    store = await _store_check(app)
    status = SidecarStatus.OK if store.status is CheckStatus.OK else SidecarStatus.DEGRADED
    if app.stop.is_set():
        status = SidecarStatus.SHUTTING_DOWN
    return SidecarHealth(
        status=status,
        version=__version__,
        uptime_ms=round((app.clock.monotonic() - app.began_s) * 1_000, 3),
        protocol_version=PROTOCOL_VERSION,
        pid=os.getpid(),
        python_version=platform.python_version(),
        platform=platform.system().lower(),
        loaded_providers=ROUTE_IDS,
        loaded_tools=len(app.tools.list_tools()),
        active_traces=len(app.streams),
        checks={"store": store},
    )


async def _store_check(app: App) -> SidecarCheck:
    began_s = app.clock.monotonic()
    kind = (
        "in memory" if app.store_name is None else "PostgreSQL" if is_postgres(app.store_name) else "SQLite"
    )
    status, message = CheckStatus.OK, kind
    try:
        async with asyncio.timeout(HEALTH_TIMEOUT_S):
            await app.store.session("health")
        if isinstance(app.store, WatchedStore) and app.store.write_problem is not None:
            status, message = CheckStatus.ERROR, f"{kind}: {app.store.write_problem}"
    except TimeoutError:
        status, message = CheckStatus.WARN, f"{kind}: no answer within {HEALTH_TIMEOUT_S:g} s"
    except AgentError as error:
        status, message = CheckStatus.ERROR, f"{kind}: {error.kind}"
    latency_ms = round((app.clock.monotonic() - began_s) * 1_000, 3)
    return SidecarCheck(status=status, message=message, latency_ms=latency_ms)


# logs


class LineHandler(logging.Handler):
    """Writes each log record as one line to stderr, with secrets masked."""

    def __init__(self, errors: Stderr) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(_LOG_FORMAT))
        self.scribe: GrowingScribe | None = None
        """Knows the keys of providers; set once the application is open."""
        self._errors = errors

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        try:
            text = self.format(record)
        except Exception:  # noqa: BLE001 - logging must never fail its caller
            text = f"{record.levelname} {record.name}: a record that cannot be formatted"
        masked = mask_text(text) if self.scribe is None else self.scribe.redactor.text(text)
        line = " ".join(masked.splitlines()).encode("utf-8", "backslashreplace")
        self._errors.write(line[:LOG_LINE_BYTES_MAX] + b"\n")


def log_to(errors: Stderr, level: str) -> LineHandler:
    """Send all logs of the process to stderr."""
    handler = LineHandler(errors)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _CHATTY_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    return handler
