# Generated from spec/traces.schema.json by `make gen`. Do not edit.
"""What a run did and how long it took, in the shape of OpenTelemetry."""

from enum import StrEnum

from windlass_protocol._wire import JsonObject, Maybe, Open, Str
from windlass_protocol.generated.common import Positive, Timestamp

class TraceOutcome(StrEnum):
    """How a traced run ended."""

    OK = "ok"
    ERROR = "error"
    BUDGET_EXHAUSTED = "budget_exhausted"
    CANCELLED = "cancelled"

class HarnessTrace(Open):
    """One run of the loop."""

    trace_id: Str
    """Unique in the deployment."""
    session_id: Str
    """Owning session."""
    chat_id: Str
    """Owning chat."""
    user_id: Str
    """Owning user."""
    started_at: Timestamp
    """When the loop began."""
    ended_at: Maybe[Timestamp] = None
    """When the loop returned."""
    outcome: Maybe[TraceOutcome] = None
    """How it ended."""

class TraceSpan(Open):
    """One unit of work, such as a model call or a tool call."""

    span_id: Str
    """Identifier of the span."""
    name: Str
    """Such as llm.complete or tool.dispatch:read_file."""
    start_at: Timestamp
    """When it began."""
    seq: Maybe[Positive] = None
    """Number of the record that began it, in its session."""
    end_at: Maybe[Timestamp] = None
    """When it ended."""
    parent_id: Maybe[Str] = None
    """Parent span; absent for the root."""
    attrs: Maybe[JsonObject] = None
    """Attributes such as token counts, already redacted."""

class TraceEvent(Open):
    """A moment inside a span."""

    event_id: Str
    """Identifier of the event."""
    span_id: Str
    """The parent span."""
    name: Str
    """Such as policy.denied."""
    at: Timestamp
    """When it happened."""
    attrs: Maybe[JsonObject] = None
    """Attributes, already redacted."""
