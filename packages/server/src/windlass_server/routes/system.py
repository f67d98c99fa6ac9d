"""The server itself."""

from fastapi import APIRouter, Request, Response

import windlass_server
from windlass_server.access import CallerDep
from windlass_server.docs import answers, reply
from windlass_server.guard import PREFIX
from windlass_server.metrics import Metrics
from windlass_server.models import Health
from windlass_server.problems import not_found
from windlass_server.streams import Streams
from windlass_server.tenants import Tenants

router = APIRouter(prefix=PREFIX, tags=["server"])
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@router.get(
    "/health",
    response_model=Health,
    responses={200: answers(200, {"status": "ok", "version": "0.1.0"})[200]},
    summary="Whether the server is there",
)
async def health(request: Request) -> Response:
    """Say whether the server takes requests; anybody may ask."""
    streams: Streams = request.app.state.streams
    status = "closing" if streams.is_closing else "ok"
    return reply(Health(status=status, version=windlass_server.__version__))


@router.get(
    "/metrics",
    response_class=Response,
    responses=answers(200, "windlass_streams_open 3.0\n", 404, media_type="text/plain"),
    summary="Numbers for Prometheus",
)
async def metrics(request: Request, caller: CallerDep) -> Response:
    """Return numbers about the whole server, to its operators alone."""
    if not caller.principal.is_operator:
        raise not_found("route")
    counted: Metrics = request.app.state.metrics
    tenants: Tenants = request.app.state.tenants
    counted.tenants.set(tenants.open_count)
    return Response(counted.text(), media_type=METRICS_TYPE)
