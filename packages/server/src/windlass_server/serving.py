"""A server on a socket, until a signal ends it."""

import asyncio
import sys
from collections.abc import Callable
from socket import AF_INET, AF_INET6, create_server, socket
from typing import Final

import uvicorn

from windlass import telemetry
from windlass_server.app import create_app
from windlass_server.connection import Connection
from windlass_server.limits import DRAIN_S, HEADER_BYTES_MAX, TARGET_BYTES_MAX
from windlass_server.principal import LOCAL
from windlass_server.settings import Settings, refused
from windlass_server.tenants import Tenants

BACKLOG: Final = 2_048
"""Connections that wait to be taken."""
_HEAD_BYTES_MAX: Final = 2 * (HEADER_BYTES_MAX + TARGET_BYTES_MAX)
"""Above this the connection is closed without an answer that explains it."""


def serve(settings: Settings, tenants: Tenants, *, told: Callable[[str], None] | None = None) -> int:
    """Serve until a signal ends it; return the exit code.

    `told` gets the address once it can be reached, with the port that was taken if any would do.

    Raises:
        AgentError: it cannot be served: a store is none, nobody provides a model, the port is taken, or the
            environment names a collector of OpenTelemetry that cannot be exported to.
    """
    telemetry.check_environment()
    asyncio.run(tenants.check([LOCAL.tenant] if settings.is_open else []))
    config = uvicorn.Config(
        create_app(settings, tenants),
        host=settings.host,
        port=settings.port,
        http=Connection,
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=_HEAD_BYTES_MAX,
        timeout_graceful_shutdown=DRAIN_S,
    )
    server = _Server(config, told or _write)
    server.run([_listening(settings)])
    return 0 if server.started else 3


def _listening(settings: Settings) -> socket:
    """Take the port.

    Raises:
        Rejected: it cannot be had.
    """
    family = AF_INET6 if ":" in settings.host else AF_INET
    try:
        return create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        problem = error.strerror or str(error)
    raise refused(
        f"{settings.host}:{settings.port} cannot be served at: {problem}; end what listens there, or choose "
        "another port with --port (0 takes a free one)"
    )


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, told: Callable[[str], None]) -> None:
        super().__init__(config)
        self._told = told

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._told(f"http://{f'[{host}]' if ':' in host else host}:{port}")


def _write(address: str) -> None:
    sys.stderr.write(f"Windlass is running on {address}\n")
