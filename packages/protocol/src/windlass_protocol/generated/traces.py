# Generated from spec/traces.schema.json by `make gen`. Do not edit.
"""What a run did and how long it took, in the shape of OpenTelemetry.

The types are made on first use; the .pyi file declares them.
"""

from windlass_protocol.lazy import lazy_values as _lazy_values


def _make_TraceOutcome() -> object:
    from enum import StrEnum

    class TraceOutcome(StrEnum):
        """How a traced run ended."""

        __qualname__ = "TraceOutcome"

        OK = "ok"
        ERROR = "error"
        BUDGET_EXHAUSTED = "budget_exhausted"
        CANCELLED = "cancelled"

    return TraceOutcome


def _make_HarnessTrace() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Timestamp
    from windlass_protocol.generated.traces import TraceOutcome

    class HarnessTrace(Open):
        """One run of the loop."""

        __qualname__ = "HarnessTrace"

        trace_id: Str
        session_id: Str
        chat_id: Str
        user_id: Str
        started_at: Timestamp
        ended_at: Maybe[Timestamp] = None
        outcome: Maybe[TraceOutcome] = None

    return HarnessTrace


def _make_TraceSpan() -> object:
    from windlass_protocol._wire import JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.common import Positive, Timestamp

    class TraceSpan(Open):
        """One unit of work, such as a model call or a tool call."""

        __qualname__ = "TraceSpan"

        span_id: Str
        name: Str
        start_at: Timestamp
        seq: Maybe[Positive] = None
        end_at: Maybe[Timestamp] = None
        parent_id: Maybe[Str] = None
        attrs: Maybe[JsonObject] = None

    return TraceSpan


def _make_TraceEvent() -> object:
    from windlass_protocol._wire import JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.common import Timestamp

    class TraceEvent(Open):
        """A moment inside a span."""

        __qualname__ = "TraceEvent"

        event_id: Str
        span_id: Str
        name: Str
        at: Timestamp
        attrs: Maybe[JsonObject] = None

    return TraceEvent


__getattr__, __dir__ = _lazy_values(
    globals(),
    {
        "TraceOutcome": _make_TraceOutcome,
        "HarnessTrace": _make_HarnessTrace,
        "TraceSpan": _make_TraceSpan,
        "TraceEvent": _make_TraceEvent,
    },
)
