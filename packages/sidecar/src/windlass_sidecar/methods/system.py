"""`system.*`: how the sidecar is, and its end."""

from typing import Final

from pydantic import JsonValue

from windlass_sidecar.app import App
from windlass_sidecar.health import health
from windlass_sidecar.params import NoParams
from windlass_sidecar.rpc import Later, Method, method


async def ping(app: App, params: NoParams) -> JsonValue:
    """Say how the sidecar is."""
    return (await health(app)).model_dump(mode="json", by_alias=True)


async def shutdown(app: App, params: NoParams) -> Later:
    """End, after what is under way."""
    return Later(None, app.stop.set)


async def shutdown_now(app: App, params: NoParams) -> Later:
    """End at once; runs go on when their streams are asked for again."""

    def stop() -> None:
        app.is_hurried = True
        app.stop.set()

    return Later(None, stop)


METHODS: Final[tuple[Method[App], ...]] = (
    method("system.ping", NoParams, run=ping, is_urgent=True),
    method("system.shutdown", NoParams, run=shutdown, is_urgent=True),
    method("system.shutdown_now", NoParams, run=shutdown_now, is_urgent=True),
)
