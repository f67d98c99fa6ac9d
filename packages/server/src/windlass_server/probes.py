"""Probes and metrics of a worker: a small HTTP server beside its runs, without credentials."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from socket import AF_INET, AF_INET6, create_server
from typing import Final

import uvicorn
from prometheus_client import CollectorRegistry, generate_latest
from starlette.types import Receive, Scope, Send

import windlass_server
from windlass import AgentError, AgentRuntime
from windlass.ports.store import WatchedStore
from windlass_protocol import JsonObject, encode
from windlass_server.settings import settings_error
from windlass_server.work import METRICS_TYPE, Stalls, WorkMetrics

_JSON: Final = "application/json"


class Probes:
    """What a worker answers: `/v1/health`, `/v1/ready` and `/v1/metrics`, as a server does."""

    def __init__(self, runtimes: Sequence[AgentRuntime], *, is_closing: Callable[[], bool]) -> None:
        self._runtimes = runtimes
        self._is_closing = is_closing
        self._work = WorkMetrics()
        self._registry = CollectorRegistry()
        self._registry.register(self._work)
        self._registry.register(Stalls())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; see ASGI."""
        if scope["type"] != "http":
            return
        status, media_type, body = await self._answer(scope["path"])
        headers = [(b"content-type", media_type.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, path: str) -> tuple[int, str, bytes]:
        health, is_ready = self._health()
        if path == "/v1/health":
            return 200, _JSON, encode(health)
        if path == "/v1/ready":
            return 200 if is_ready else 503, _JSON, encode(health)
        if path != "/v1/metrics":
            return 404, _JSON, b"{}"
        try:
            await self._work.update(self._runtimes)
        except AgentError as error:
            return 503, _JSON, encode({**health, "problem": error.message})
        return 200, METRICS_TYPE, generate_latest(self._registry)

    def _health(self) -> tuple[JsonObject, bool]:
        stores = [runtime.core.store for runtime in self._runtimes]
        problems = [store.write_problem for store in stores if isinstance(store, WatchedStore)]
        problem = next(filter(None, problems), None)
        is_closing = self._is_closing()
        health: JsonObject = {
            "status": "closing" if is_closing else "ok",
            "version": windlass_server.__version__,
        }
        if problem is not None:
            health["problem"] = problem
        # Without a runtime the store was not reached yet.
        return health, bool(stores) and not is_closing and problem is None


class _Server(uvicorn.Server):
    """A server that leaves signals to the worker."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@asynccontextmanager
async def probes(host: str, port: int, app: Probes) -> AsyncGenerator[str]:
    """Answer probes; the value is the address.

    Raises:
        Rejected: the port cannot be bound.
    """
    family = AF_INET6 if ":" in host else AF_INET
    try:
        listening = create_server((host, port), family=family)
    except OSError as error:
        problem = error.strerror or str(error)
        raise settings_error(f"cannot listen on {host}:{port} for probes: {problem}") from None
    config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False, server_header=False)
    server = _Server(config)
    serving = asyncio.create_task(server.serve([listening]), name="windlass probes")
    try:
        bound_host, bound_port = listening.getsockname()[:2]
        yield f"http://{f'[{bound_host}]' if ':' in bound_host else bound_host}:{bound_port}"
    finally:
        server.should_exit = True
        await serving
