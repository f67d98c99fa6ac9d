"""The HTTP server of Windlass: sessions, runs, feeds and approvals."""

from typing import TYPE_CHECKING

import windlass as _windlass
from windlass_protocol.lazy import lazy_names as _lazy_names
from windlass_protocol.origin import check_origin as _check_origin

if TYPE_CHECKING:
    from windlass_server.app import create_app as create_app
    from windlass_server.app import serve as serve
    from windlass_server.log import configure as configure
    from windlass_server.settings import ImproveSettings as ImproveSettings
    from windlass_server.settings import JwtSettings as JwtSettings
    from windlass_server.settings import Settings as Settings
    from windlass_server.tenants import Tenants as Tenants
    from windlass_server.transport import FastAPISseTransport as FastAPISseTransport

__version__ = "0.1.0"

_check_origin(_windlass, __version__)

_HOMES = {
    "windlass_server.app": (
        "create_app",
        "serve",
    ),
    "windlass_server.log": ("configure",),
    "windlass_server.settings": (
        "ImproveSettings",
        "JwtSettings",
        "Settings",
    ),
    "windlass_server.tenants": ("Tenants",),
    "windlass_server.transport": ("FastAPISseTransport",),
}

__getattr__, __dir__ = _lazy_names(__name__, _HOMES)
