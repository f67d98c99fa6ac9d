"""Metrics by the conventions for generative AI, and a few of our own."""

from collections.abc import Iterable, Mapping
from typing import Final

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from windlass.ports.telemetry import Attribute, Operation, Span

LABEL_VALUES_MAX: Final = 500
"""Names that a metric tells apart; a model may make up names of tools without end."""
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
    """The instruments, and what is counted with them."""

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
                name, unit="s", description=words, explicit_bucket_boundaries_advisory=bounds
            )
            for operation, (name, words, bounds) in shapes.items()
        }
        self._runs = meter.create_counter("windlass.runs", unit="{run}", description="Runs that ended.")
        self._errors = meter.create_counter(
            "windlass.tool.errors", unit="{call}", description="Tool calls that failed or were rejected."
        )
        self._known: dict[str, set[Attribute]] = {}
        self._unfinished: Mapping[str, int] = {}
        self._dropped = 0
        meter.create_observable_gauge(
            "windlass.runs.unfinished",
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

    def count(self, span: Span) -> None:
        """Count a span that has ended."""
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

    def observe(self, unfinished: Mapping[str, int], dropped: int) -> None:
        """Say what the gauges show from now on."""
        self._unfinished, self._dropped = dict(unfinished), dropped

    def _count_tokens(self, span: Span) -> None:
        for kind in ("input", "output"):
            count = span.attributes.get(f"gen_ai.usage.{kind}_tokens")
            if isinstance(count, int):
                self._tokens.record(count, {**self._labels(span, *_MODEL), "gen_ai.token.type": kind})

    def _labels(self, span: Span, *names: str) -> dict[str, Attribute]:
        found = ((name, span.attributes.get(name)) for name in names)
        return {name: self._label(name, value) for name, value in found if value is not None}

    def _label(self, name: str, value: Attribute) -> Attribute:
        known = self._known.setdefault(name, set())
        if value not in known and len(known) >= LABEL_VALUES_MAX:
            return OTHER
        known.add(value)
        return value

    def _observe_unfinished(self, options: CallbackOptions) -> Iterable[Observation]:
        for agent, count in self._unfinished.items():
            yield Observation(count, {"gen_ai.agent.name": self._label("gen_ai.agent.name", agent)})

    def _observe_dropped(self, options: CallbackOptions) -> Iterable[Observation]:
        yield Observation(self._dropped)
