"""The short ways in: to a collector that is named, or to the environment's."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from windlass.adapters.telemetry.environment import Settings, settings
from windlass.ports.telemetry import TelemetrySink
from windlass.refusals import bad_request, missing_port
from windlass.runtime import CoreRuntime
from windlass.setup_check import check_given
from windlass.telemetry.bookmark import Bookmark
from windlass.telemetry.exporter import Parts, TelemetryExport
from windlass.telemetry.limits import METRICS_S, PAUSE_S
from windlass.telemetry.watch import Watch
from windlass_protocol import JsonObject

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter
    from opentelemetry.sdk.trace.export import SpanExporter

STATE_SUFFIX: Final = ".otel"
"""Of the file beside a store that remembers how far its export is; the server and the command share it."""
_OTLP: Final = "windlass.adapters.telemetry.otlp"


def export(
    runtime: CoreRuntime,
    *,
    endpoint: str | None = None,
    state_path: str | Path | None = None,
    capture_content: bool = False,
    span_exporter: "SpanExporter | None" = None,
    metric_exporter: "MetricExporter | None" = None,
) -> TelemetryExport:
    """Export the runs of a store as OpenTelemetry traces and metrics.

    It goes on until it is closed. Enter it inside the runtime: `async with telemetry.export(runtime)`.

    Args:
        runtime: whose store is exported, whoever drives its runs.
        endpoint: where an OTLP collector listens, such as `http://localhost:4318`. When left out, the
            variables OTEL_EXPORTER_OTLP_… say it.
        state_path: a file that remembers how far the export is, so that a restart goes on there. Only one of
            the processes with the same file exports. When left out, or at first, only what happens from now
            on is exported.
        capture_content: whether messages, arguments, results and texts of errors are exported.
        span_exporter: an exporter of the OpenTelemetry SDK, in place of OTLP.
        metric_exporter: the same for metrics; with either of them nothing is sent by OTLP.

    Raises:
        Rejected: an argument or a variable cannot be used, or `windlass[otel]` is not installed.
    """
    words = "whether content is exported: True or False"
    check_given(capture_content, bool, what="capture_content", words=words)
    exporters = {"span_exporter": span_exporter, "metric_exporter": metric_exporter}
    sink = _sink(_checked(endpoint), settings(needs_endpoint=False), exporters)
    return _made(runtime, sink, state_path=state_path, with_content=capture_content)


def export_from_environment(
    runtime: CoreRuntime, *, state_path: str | Path | None = None, capture_content: bool = False
) -> AbstractAsyncContextManager[TelemetryExport | None]:
    """Export if the environment names a collector, and do nothing otherwise.

    A collector is named by OTEL_EXPORTER_OTLP_ENDPOINT, or by that of one signal; OTEL_SDK_DISABLED,
    OTEL_TRACES_EXPORTER=none and OTEL_METRICS_EXPORTER=none turn all of it, or one signal, off.

    Raises:
        Rejected: as for `export`.
    """
    chosen = settings(needs_endpoint=True)
    if not chosen.is_wanted:
        return nullcontext()
    return _made(runtime, _sink(None, chosen, {}), state_path=state_path, with_content=capture_content)


def check_environment() -> bool:
    """Return whether the environment names a collector that can be exported to.

    For servers, which want to know before the first store is open.

    Raises:
        Rejected: as for `export_from_environment`.
    """
    is_wanted = settings(needs_endpoint=True).is_wanted
    if is_wanted:
        _imported(_OTLP)
    return is_wanted


def trace_metadata() -> JsonObject:
    """Return the current span, as metadata of a run that belongs into its trace.

    `await runtime.start(agent, message, metadata=telemetry.trace_metadata())`. It is empty outside any span.
    Whoever got a `traceparent` from elsewhere, as in the headers of a request, gives that.

    Raises:
        Rejected: `windlass[otel]` is not installed.
    """
    carrier: dict[str, str] = {}
    _imported("opentelemetry.trace.propagation.tracecontext").TraceContextTextMapPropagator().inject(carrier)
    return {**carrier}


def _checked(endpoint: str | None) -> str | None:
    if endpoint is None:
        return None
    words = "the address of a collector, such as http://localhost:4318"
    parts = urlsplit(check_given(endpoint, str, what="endpoint", words=words))
    if parts.scheme not in {"http", "https"} or not parts.netloc or parts.query or parts.fragment:
        raise bad_request(f"endpoint must be {words}")
    return endpoint


def _imported(name: str) -> ModuleType:
    try:
        # The SDK is an extra, and takes a quarter of a second to import.
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name
    raise bad_request(f"telemetry needs more than windlass alone ({missing}): pip install 'windlass[otel]'")


def _sink(endpoint: str | None, chosen: Settings, exporters: Mapping[str, object]) -> "_Chosen":
    sink: TelemetrySink = _imported(_OTLP).OtlpSink(endpoint, chosen, **exporters)
    return _Chosen(sink, chosen)


def _made(
    runtime: CoreRuntime, chosen: "_Chosen", *, state_path: str | Path | None, with_content: bool
) -> TelemetryExport:
    ports, found = runtime.ports, chosen.settings
    if ports.store is None:
        raise missing_port("run journal")
    return TelemetryExport(
        Parts(
            ports.store,
            ports.machine.clock,
            Watch(ports.store, ports.scribe.redactor, with_content=with_content),
            chosen.sink,
            Bookmark(None if state_path is None else Path(state_path)),
            pause_s=found.pause_s or PAUSE_S,
            metrics_s=found.metrics_s or METRICS_S,
        )
    )


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Who takes the telemetry, and how often."""

    sink: TelemetrySink
    settings: Settings
