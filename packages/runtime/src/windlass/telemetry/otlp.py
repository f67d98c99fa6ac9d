"""OTLP export of spans and metrics."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util import BoundedList
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState
from requests import PreparedRequest, Response, Session

from windlass.ports.machine import StallTotals
from windlass.telemetry.environment import TelemetrySettings
from windlass.telemetry.sink import Attribute, Operation, Sent, Span, TraceContext

LABEL_VALUES_MAX: Final = 500
"""Distinct names in a metric; a model may make up tool names without end."""
OTHER: Final = "_OTHER"

_TOKENS: Final = [4**power for power in range(14)]
_SECONDS: Final = [0.01 * 2**power for power in range(14)]
_AGENT_SECONDS: Final = [0.1 * 2**power for power in range(13)]
_WAIT_SECONDS: Final = [1.0, 10.0, 60.0, 600.0, 3_600.0, 21_600.0, 86_400.0, 604_800.0]

_MODEL: Final = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model")
_DURATIONS: Final[Mapping[Operation, tuple[str, ...]]] = {
    Operation.CHAT: _MODEL,
    Operation.INVOKE_AGENT: ("gen_ai.agent.name", *_MODEL),
    Operation.EXECUTE_TOOL: ("gen_ai.tool.name", "gen_ai.tool.type", "gen_ai.agent.name"),
    Operation.WAIT: ("windlass.wait.kind", "windlass.wait.outcome", "gen_ai.agent.name"),
}


class Meters:
    """The metric instruments."""

    def __init__(self, meter: Meter) -> None:
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        shapes = {
            Operation.CHAT: ("gen_ai.client.operation.duration", "GenAI operation duration.", _SECONDS),
            Operation.INVOKE_AGENT: ("gen_ai.invoke_agent.duration", "Duration of runs.", _AGENT_SECONDS),
            Operation.EXECUTE_TOOL: ("gen_ai.execute_tool.duration", "Duration of tool calls.", _SECONDS),
            Operation.WAIT: ("windlass.wait.duration", "How long people took to answer.", _WAIT_SECONDS),
        }
        self._durations = {
            operation: meter.create_histogram(
                name, unit="s", description=description, explicit_bucket_boundaries_advisory=bounds
            )
            for operation, (name, description, bounds) in shapes.items()
        }
        self._runs = meter.create_counter(
            "windlass.runtime.runs", unit="{run}", description="Runs that ended."
        )
        self._errors = meter.create_counter(
            "windlass.tool.errors", unit="{call}", description="Tool calls that failed or were rejected."
        )
        self._known: dict[str, set[Attribute]] = {}
        self._unfinished: Mapping[str, int] = {}
        self._dropped = 0
        self._stalls = StallTotals()
        meter.create_observable_gauge(
            "windlass.runtime.runs.unfinished",
            callbacks=[self._observe_unfinished],
            unit="{run}",
            description="Runs of the store that have not ended: under way, waiting or queued.",
        )
        meter.create_observable_counter(
            "windlass.telemetry.dropped_spans",
            callbacks=[self._observe_dropped],
            unit="{span}",
            description="Spans that the collector refused for good.",
        )
        meter.create_observable_counter(
            "windlass.runtime.loop.stalls",
            callbacks=[lambda _: [Observation(self._stalls.count)]],
            unit="{stall}",
            description="Times in which one piece of code kept the event loop for over 250 ms.",
        )
        meter.create_observable_counter(
            "windlass.runtime.loop.stall_time",
            callbacks=[lambda _: [Observation(self._stalls.total_ms / 1_000)]],
            unit="s",
            description="The sum of these times.",
        )

    def count(self, span: Span) -> None:
        """Count a finished span."""
        labels = self._labels(span, *_DURATIONS[span.operation])
        if span.error_type is not None:
            labels["error.type"] = self._label("error.type", span.error_type)
        self._durations[span.operation].record(span.duration_s, labels)
        match span.operation:
            case Operation.CHAT:
                self._count_tokens(span)
            case Operation.INVOKE_AGENT:
                self._runs.add(1, self._labels(span, "gen_ai.agent.name", "windlass.run.outcome"))
            case Operation.EXECUTE_TOOL if span.error_type is not None:
                self._errors.add(1, labels)
            case _:
                pass

    def observe(self, unfinished: Mapping[str, int], dropped: int, stalls: StallTotals) -> None:
        """Set the values of the gauges."""
        self._unfinished, self._dropped, self._stalls = dict(unfinished), dropped, stalls

    def _count_tokens(self, span: Span) -> None:
        for kind in ("input", "output"):
            count = span.attributes.get(f"gen_ai.usage.{kind}_tokens")
            if isinstance(count, int):
                self._tokens.record(count, {**self._labels(span, *_MODEL), "gen_ai.token.type": kind})

    def _labels(self, span: Span, *names: str) -> dict[str, Attribute]:
        attributes = ((name, span.attributes.get(name)) for name in names)
        return {name: self._label(name, value) for name, value in attributes if value is not None}

    def _label(self, name: str, value: Attribute) -> Attribute:
        values = self._known.setdefault(name, set())
        if value not in values and len(values) >= LABEL_VALUES_MAX:
            return OTHER
        values.add(value)
        return value

    def _observe_unfinished(self, options: CallbackOptions) -> Iterable[Observation]:
        for agent, count in self._unfinished.items():
            yield Observation(count, {"gen_ai.agent.name": self._label("gen_ai.agent.name", agent)})

    def _observe_dropped(self, options: CallbackOptions) -> Iterable[Observation]:
        yield Observation(self._dropped)


SCOPE: Final = "windlass"
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"
"""The version of the semantic conventions."""

REFUSALS: Final = frozenset({400, 413, 422})
"""Status codes of a collector about the spans themselves; the others are about the collector."""


class _WatchedSession(Session):
    """Remembers the result of the last attempt, which an exporter does not return."""

    def __init__(self) -> None:
        super().__init__()
        self.was_tried = False
        self.status: int | None = None

    def forget(self) -> None:
        self.was_tried, self.status = False, None

    def send(self, request: PreparedRequest, **options: object) -> Response:
        self.was_tried, self.status = True, None
        response = super().send(request, **options)  # pyright: ignore[reportArgumentType] - passed on as they are
        self.status = response.status_code
        return response


class OtlpSink:
    """Sends to exporters of the OpenTelemetry SDK: those given, or OTLP over HTTP."""

    def __init__(
        self,
        endpoint: str | None,
        settings: TelemetrySettings,
        *,
        span_exporter: SpanExporter | None = None,
        metric_exporter: MetricExporter | None = None,
    ) -> None:
        is_own = span_exporter is None and metric_exporter is None
        self._session = _WatchedSession()
        self._spans = span_exporter
        if is_own and settings.has_traces:
            self._spans = OTLPSpanExporter(_signal(endpoint, "traces"), session=self._session)
        if is_own and settings.has_metrics:
            metric_exporter = OTLPMetricExporter(_signal(endpoint, "metrics"))
        self._is_watched = is_own
        self._resource = Resource.create()
        self._scope = InstrumentationScope(SCOPE, schema_url=SCHEMA_URL)
        self._provider: MeterProvider | None = None
        self._meters: Meters | None = None
        if metric_exporter is not None:
            # It never reports by itself: the exporter decides when to report.
            reader = PeriodicExportingMetricReader(metric_exporter, export_interval_millis=math.inf)
            self._provider = MeterProvider([reader], self._resource, shutdown_on_exit=False)
            self._meters = Meters(self._provider.get_meter(SCOPE, schema_url=SCHEMA_URL))

    def send(self, spans: Sequence[Span]) -> Sent:
        """Send spans; never raises."""
        sampled = [self._readable(span) for span in spans if span.context.is_sampled]
        if self._spans is None or not sampled:
            return Sent.TAKEN
        self._session.forget()
        try:
            result = self._spans.export(sampled)
        except Exception:  # noqa: BLE001 - an exporter of the host application may raise anything
            result = SpanExportResult.FAILURE
        if result is SpanExportResult.SUCCESS:
            return Sent.TAKEN
        # Spans that never reached the network cannot be encoded, or are too large. For an exporter of the
        # host application this is unknown: it gets the same spans again.
        is_refused = not self._session.was_tried or self._session.status in REFUSALS
        return Sent.REFUSED if self._is_watched and is_refused else Sent.LATER

    def count(self, spans: Sequence[Span]) -> None:
        """Count spans in the metrics."""
        if self._meters is not None:
            for span in spans:
                self._meters.count(span)

    def send_metrics(self, unfinished: Mapping[str, int], dropped: int, stalls: StallTotals) -> None:
        """Send the current metrics."""
        if self._meters is not None and self._provider is not None:
            self._meters.observe(unfinished, dropped, stalls)
            self._provider.force_flush()

    def stop(self) -> None:
        """Make a send in progress give up soon."""
        if self._spans is not None:
            self._spans.shutdown()
        if self._provider is not None:
            self._provider.shutdown()

    def _readable(self, span: Span) -> ReadableSpan:
        failed = Status(StatusCode.ERROR, span.error_text)
        attributes = dict(span.attributes)
        if span.error_type is not None:
            attributes["error.type"] = span.error_type
        events: BoundedList[Event] = BoundedList(max(1, len(span.moments)))
        events.extend([Event(moment.name, dict(moment.attributes), moment.at_ns) for moment in span.moments])
        events.dropped = span.moments_dropped
        return ReadableSpan(
            name=span.name,
            context=_span_context(span.context, span.span_id, is_remote=False),
            parent=_parent(span.context),
            resource=self._resource,
            attributes=attributes,
            events=events,
            kind=SpanKind.CLIENT if span.operation is Operation.CHAT else SpanKind.INTERNAL,
            status=Status(StatusCode.UNSET) if span.error_type is None else failed,
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )


def _parent(context: TraceContext) -> SpanContext | None:
    if context.parent_id is None:
        return None
    return _span_context(context, context.parent_id, is_remote=context.is_remote)


def _span_context(context: TraceContext, span_id: int, *, is_remote: bool) -> SpanContext:
    state = TraceState.from_header([context.trace_state]) if context.trace_state else None
    return SpanContext(context.trace_id, span_id, is_remote, TraceFlags(TraceFlags.SAMPLED), state)


def _signal(endpoint: str | None, signal: str) -> str | None:
    """Return the address of a signal; None if the environment decides."""
    return None if endpoint is None else f"{endpoint.rstrip('/')}/v1/{signal}"
