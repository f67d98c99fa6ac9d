"""Port of telemetry: spans and their exporter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

Attribute = str | int | float | bool | tuple[str, ...]
Attributes = Mapping[str, Attribute]


class Operation(StrEnum):
    """What a span is about; the first three are names of the conventions."""

    INVOKE_AGENT = "invoke_agent"
    CHAT = "chat"
    EXECUTE_TOOL = "execute_tool"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened in a span."""

    name: str
    at_ns: int
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class TraceContext:
    """The trace of a run, and the span that it lies in."""

    trace_id: int
    """128 bits, never 0."""
    parent_id: int | None = None
    """64 bits, never 0; None for a run that begins its trace."""
    is_remote: bool = False
    """The parent is a span of somebody else."""
    is_sampled: bool = True
    """Whoever began the trace wants to see it."""
    trace_state: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of work that has ended; a moment is in nanoseconds since 1970."""

    operation: Operation
    name: str
    span_id: int
    context: TraceContext
    """With the parent of this very span."""
    start_ns: int
    end_ns: int
    attributes: Attributes
    error_type: str | None = None
    """None if it went well."""
    error_text: str | None = None
    """Only where content is wanted."""
    moments: tuple[Moment, ...] = ()
    moments_dropped: int = 0

    @property
    def duration_s(self) -> float:
        """How long it took."""
        return max(0, self.end_ns - self.start_ns) / 1e9


class Sent(StrEnum):
    """What came of an attempt to send spans."""

    TAKEN = "taken"
    LATER = "later"
    """Nobody took them now; the same may be sent again."""
    REFUSED = "refused"
    """They will never be taken as they are."""


class TelemetrySink(Protocol):
    """Who takes spans and metrics away.

    Every method may block; they are called one at a time.
    """

    def send(self, spans: Sequence[Span]) -> Sent:
        """Send spans; never raises."""
        ...

    def count(self, spans: Sequence[Span]) -> None:
        """Count spans in the metrics."""
        ...

    def send_metrics(self, unfinished: Mapping[str, int], dropped: int) -> None:
        """Send the metrics, with unfinished runs by agent, and spans dropped so far."""
        ...

    def stop(self) -> None:
        """Make whoever sends at this moment give up soon; called last, from anywhere."""
        ...
