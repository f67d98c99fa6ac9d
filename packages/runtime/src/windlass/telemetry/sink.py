"""Port of telemetry: spans and their exporter."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from windlass.ports.machine import StallTotals
from windlass_protocol.frozen import sealed

Attribute = str | int | float | bool | tuple[str, ...]
Attributes = Mapping[str, Attribute]


class Operation(StrEnum):
    """The operation of a span; the first three names come from the OpenTelemetry conventions."""

    INVOKE_AGENT = "invoke_agent"
    CHAT = "chat"
    EXECUTE_TOOL = "execute_tool"
    WAIT = "wait"


@sealed
class SpanMoment:
    """An event inside a span."""

    name: str
    at_ns: int
    attributes: Attributes


@sealed
class TraceContext:
    """The trace of a run, and its parent span."""

    trace_id: int
    """128 bits, never 0."""
    parent_id: int | None = None
    """64 bits, never 0; None for a run that starts its trace."""
    is_remote: bool = False
    """The parent span belongs to another process."""
    is_sampled: bool = True
    """The sampling decision of the process that started the trace."""
    trace_state: str = ""


@sealed
class Span:
    """A finished operation; times are nanoseconds since 1970."""

    operation: Operation
    name: str
    span_id: int
    context: TraceContext
    """Trace and parent of this span."""
    start_ns: int
    end_ns: int
    attributes: Attributes
    error_type: str | None = None
    """None if the operation succeeded."""
    error_text: str | None = None
    """Set only if content capture is on."""
    moments: tuple[SpanMoment, ...] = ()
    moments_dropped: int = 0

    @property
    def duration_s(self) -> float:
        return max(0, self.end_ns - self.start_ns) / 1e9


class Sent(StrEnum):
    """The result of an attempt to send spans."""

    TAKEN = "taken"
    LATER = "later"
    """Not accepted now; the same spans may be sent again."""
    REFUSED = "refused"
    """Refused for good; sending them again does not help."""


class TelemetrySink(Protocol):
    """Exports spans and metrics. Every method may block; calls do not overlap."""

    def send(self, spans: Sequence[Span]) -> Sent:
        """Send spans; never raises."""
        ...

    def count(self, spans: Sequence[Span]) -> None:
        """Count spans in the metrics."""
        ...

    def send_metrics(self, unfinished: Mapping[str, int], dropped: int, stalls: StallTotals) -> None:
        """Send the metrics, with unfinished runs by agent, spans dropped so far, and stalls of the loop."""
        ...

    def stop(self) -> None:
        """Make a send in progress give up soon; called last, from any thread."""
        ...
