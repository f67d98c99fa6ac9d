"""A collector that listens on a real socket and decodes its requests."""

import gzip
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

Value = object


@dataclass(frozen=True)
class Got:
    """A span as it arrived."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    attributes: Mapping[str, Value]
    events: tuple[tuple[str, Mapping[str, Value]], ...]
    status: int
    status_text: str
    start_ns: int
    end_ns: int
    flags: int
    dropped_events: int
    trace_state: str


@dataclass
class Collector:
    """The received spans and metrics, and the answers to the next requests."""

    spans: list[Got] = field(default_factory=list[Got])
    bodies: list[bytes] = field(default_factory=list[bytes])
    metrics: dict[str, list[tuple[Mapping[str, Value], float]]] = field(
        default_factory=dict[str, list[tuple[Mapping[str, Value], float]]]
    )
    """The newest points of each metric: their labels, and their value or sum."""
    schemas: set[str] = field(default_factory=set[str])
    resource: dict[str, Value] = field(default_factory=dict[str, Value])
    status: int = 200
    refuses: bytes | None = None
    """Requests about spans with these bytes in them are refused."""
    hold: Event | None = None
    """Requests are answered only when it is set."""
    requests: int = 0
    endpoint: str = ""

    def named(self, name: str) -> list[Got]:
        """Return the spans of a name."""
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> Got:
        """Return the only span of a name."""
        (span,) = self.named(name)
        return span

    def values(self, metric: str) -> dict[tuple[tuple[str, Value], ...], float]:
        """Return the points of a metric by their labels."""
        return {tuple(sorted(labels.items())): value for labels, value in self.metrics.get(metric, [])}

    def take(self, path: str, body: bytes) -> int:
        """Take a request; return how it is answered."""
        self.requests += 1
        if self.hold is not None:
            self.hold.wait(300)
        if self.status != 200:
            return self.status
        if path == "/v1/traces":
            if self.refuses is not None and self.refuses in body:
                return 400
            self._take_spans(ExportTraceServiceRequest.FromString(body))
        elif path == "/v1/metrics":
            self._take_metrics(ExportMetricsServiceRequest.FromString(body))
        else:
            return 404
        self.bodies.append(body)
        return 200

    def _take_spans(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            self.resource = _attributes(resource.resource.attributes)
            for scope in resource.scope_spans:
                self.schemas.add(scope.schema_url)
                self.spans += [_got(span) for span in scope.spans]

    def _take_metrics(self, request: ExportMetricsServiceRequest) -> None:
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    kind = metric.WhichOneof("data")
                    points = getattr(metric, str(kind)).data_points
                    self.metrics[metric.name] = [(_attributes(p.attributes), _number(p)) for p in points]


def _number(point: object) -> float:
    for name in ("sum", "as_int", "as_double"):
        value = getattr(point, name, 0)
        if value:
            return float(value)
    return 0.0


def _got(span: WireSpan) -> Got:
    return Got(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.kind,
        _attributes(span.attributes),
        tuple((event.name, _attributes(event.attributes)) for event in span.events),
        span.status.code,
        span.status.message,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        span.flags,
        span.dropped_events_count,
        span.trace_state,
    )


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, Value]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Value:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return tuple(_value(item) for item in value.array_value.values)
    return getattr(value, str(kind))


@contextmanager
def running_collector(collector: Collector, port: int = 0) -> Generator[Collector]:
    """Listen on a port of this machine until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            self.send_response(collector.take(self.path, body))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the library
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    collector.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
