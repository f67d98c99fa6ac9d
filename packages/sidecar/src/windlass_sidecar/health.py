"""How the sidecar is."""

import asyncio
import os
import platform

from windlass.errors import AgentError
from windlass_protocol import CheckStatus, SidecarCheck, SidecarHealth, SidecarStatus
from windlass_sidecar import PROTOCOL_VERSION, __version__
from windlass_sidecar.app import App
from windlass_sidecar.limits import HEALTH_TIMEOUT_S
from windlass_sidecar.providers import NAMES


async def health(app: App) -> SidecarHealth:
    """Look at the store and say how things are."""
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
        loaded_providers=NAMES,
        loaded_tools=len(app.tools.list_tools()),
        active_traces=len(app.streams),
        checks={"store": store},
    )


async def _store_check(app: App) -> SidecarCheck:
    began_s = app.clock.monotonic()
    kind = "in memory" if app.path is None else "SQLite"
    status, message = CheckStatus.OK, kind
    try:
        async with asyncio.timeout(HEALTH_TIMEOUT_S):
            await app.store.session("health")
    except TimeoutError:
        status, message = CheckStatus.WARN, f"{kind}: no answer within {HEALTH_TIMEOUT_S:g} s"
    except AgentError as error:
        status, message = CheckStatus.ERROR, f"{kind}: {error.kind}"
    latency_ms = round((app.clock.monotonic() - began_s) * 1_000, 3)
    return SidecarCheck(status=status, message=message, latency_ms=latency_ms)
