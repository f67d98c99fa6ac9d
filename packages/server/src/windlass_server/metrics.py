"""Numbers about the server as a whole; none of them names a tenant or a user."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import Scope

UNKNOWN: Final = "unknown"
"""The route of a request that none of the routes took."""


class Metrics:
    """Counts what a server does."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "windlass_http_requests_total",
            "Requests by route, method and status.",
            ("route", "method", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "windlass_http_request_seconds",
            "How long requests took; streams count when they end.",
            ("route",),
            registry=self._registry,
        )
        self.refused = Counter(
            "windlass_http_refused_total",
            "Requests that were refused to protect the server, by reason.",
            ("reason",),
            registry=self._registry,
        )
        self.streams = Gauge("windlass_streams_open", "Open streams.", registry=self._registry)
        self.events = Counter(
            "windlass_stream_events_total", "Events that streams have sent.", registry=self._registry
        )
        self.tenants = Gauge("windlass_tenants_open", "Tenants whose store is open.", registry=self._registry)

    def count(self, scope: Scope, *, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        route = getattr(scope.get("route"), "path", UNKNOWN)
        self._requests.labels(route, _method(scope["method"]), str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """Return everything in the format of Prometheus."""
        return generate_latest(self._registry)


def _method(name: str) -> str:
    """Return a method that is known: clients must not be able to make up labels."""
    return name if name in {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"} else UNKNOWN
