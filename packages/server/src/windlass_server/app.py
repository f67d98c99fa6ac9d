"""The server as an ASGI application."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

import windlass_server
from windlass import AgentError
from windlass.parts import Clock, SystemClock
from windlass_server.auth import Doorman
from windlass_server.guard import PREFIX, Guard
from windlass_server.metrics import Metrics
from windlass_server.openapi import describe
from windlass_server.pages import Pages
from windlass_server.problems import Problem, on_problem
from windlass_server.routes import (
    agents,
    agui,
    ai,
    approvals,
    catalog,
    contents,
    feeds,
    ledger,
    proposals,
    runs,
    sessions,
    stats,
    system,
)
from windlass_server.settings import Settings
from windlass_server.signals import on_exit
from windlass_server.streams import Streams
from windlass_server.tenants import Tenants

_ROUTERS: Iterable[APIRouter] = (
    feeds.router,
    sessions.router,
    approvals.router,
    contents.router,
    catalog.router,
    runs.router,
    stats.router,
    ledger.router,
    proposals.router,
    agents.router,
    agui.router,
    ai.router,
    system.router,
)


def create_app(settings: Settings, tenants: Tenants, *, clock: Clock | None = None) -> FastAPI:
    """Return the server; whoever serves it opens and closes the tenants with it.

    Raises:
        Rejected: the keys or the issuer of tokens cannot be used.
    """
    watch = clock or SystemClock()
    doorman, metrics = Doorman(settings, watch), Metrics()
    streams = Streams(settings.limits, metrics)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        await tenants.start()
        # Streams end when the server is told to, not when it has ended: it would wait for them.
        on_exit(streams.close)
        try:
            yield
        finally:
            streams.close()
            await tenants.aclose()

    app = FastAPI(
        title="Windlass",
        version=windlass_server.__version__,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.state.streams, app.state.metrics, app.state.tenants = streams, metrics, tenants
    app.state.improve = settings.improve
    for router in _ROUTERS:
        # As they are, not included: so everybody who asks a request or the application finds whole paths.
        app.router.routes += router.routes
    app.router.default = Pages(app.router.default)
    for kind in (Problem, AgentError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, on_problem)
    describe(app)
    app.add_middleware(
        Guard, limits=settings.limits, doorman=doorman, tenants=tenants, clock=watch, metrics=metrics
    )
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["authorization", "content-type", "idempotency-key", "last-event-id"],
            expose_headers=["windlass-cursor", "retry-after"],
        )
    return app
