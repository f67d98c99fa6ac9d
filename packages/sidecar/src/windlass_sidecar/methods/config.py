"""`config.*`: what a host may look at and change."""

from typing import Final, Literal

from pydantic import JsonValue

from windlass_sidecar.app import App
from windlass_sidecar.errors import invalid_params
from windlass_sidecar.params import NoParams, Params
from windlass_sidecar.rpc import Method, method


class ConfigSet(Params):
    """What may be changed."""

    log_level: Literal["debug", "info", "warning", "error"] | None = None


async def get(app: App, params: NoParams) -> JsonValue:
    """Return the configuration."""
    return {"logLevel": app.settings.log_level, "store": None if app.path is None else str(app.path)}


async def change(app: App, params: ConfigSet) -> JsonValue:
    """Change the configuration."""
    if params.log_level is None:
        raise invalid_params("config.set takes logLevel: debug, info, warning or error")
    app.settings.log_level = params.log_level
    app.settings.apply()
    return None


METHODS: Final[tuple[Method[App], ...]] = (
    method("config.get", NoParams, run=get),
    method("config.set", ConfigSet, run=change),
)
