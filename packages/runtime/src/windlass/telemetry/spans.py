"""Spans of the fold as the conventions for generative AI call them.

The turn of a run is the run itself, so it has no span of its own here. Without content there are names, ids,
numbers and codes, and never a text that somebody wrote.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pydantic import JsonValue

from windlass.ports.telemetry import Attribute, Moment, Operation, Span, TraceContext
from windlass.telemetry.attributes import attribute, clean_text, picked
from windlass.telemetry.limits import ATTRIBUTE_CHARS_MAX, MOMENTS_PER_SPAN_MAX
from windlass_harness.times import ms_of
from windlass_harness.tracing import LLM_SPAN, TOOL_SPAN, WAIT_SPAN
from windlass_harness.views.fold import text_in
from windlass_protocol import TraceEvent, TraceSpan

Facts = Mapping[str, JsonValue]

OTHER: Final = "_OTHER"
INTERRUPTED: Final = "interrupted"
UNKNOWN_TOOL: Final = "unknown_tool"
"""The code of a call of a tool that there is not."""
NS_PER_MS: Final = 1_000_000

_TEXTS: Final = frozenset({"message", "reason", "error", "description", "by"})
"""Facts that somebody wrote in words."""

_USAGE: Final = {
    "inputTokens": "gen_ai.usage.input_tokens",
    "outputTokens": "gen_ai.usage.output_tokens",
    "cacheReadTokens": "gen_ai.usage.cache_read.input_tokens",
    "cacheWriteTokens": "gen_ai.usage.cache_write.input_tokens",
    "reasoningTokens": "gen_ai.usage.reasoning.output_tokens",
    "costMicros": "windlass.usage.cost_micros",
}
_CHAT: Final = {**_USAGE, "attempt": "windlass.step.attempt", "stepIndex": "windlass.step.index"}
_TOOL: Final = {
    "callId": "gen_ai.tool.call.id",
    "effect": "windlass.tool.effect",
    "mode": "windlass.tool.mode",
    "status": "windlass.tool.status",
}
_WAIT: Final = {
    "kind": "windlass.wait.kind",
    "outcome": "windlass.wait.outcome",
    "callId": "gen_ai.tool.call.id",
    "toolName": "gen_ai.tool.name",
}
_FINISH: Final = {"tool-calls": "tool_call", "content-filter": "content_filter"}
"""Reasons to stop that the conventions write in another way."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What all spans of a run share."""

    run_id: str
    session_id: str
    agent_id: str
    provider: str
    model: str | None
    version: str | None
    context: TraceContext
    key: str
    """What the ids of its spans are made of."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a span is in its trace, and what happened in it."""

    span_id: int
    root_id: int
    moments: Sequence[TraceEvent] = ()
    moments_dropped: int = 0
    hide: Callable[[str], str] | None = None
    """Masks secrets in texts that somebody wrote; None leaves such texts out."""


def operation_of(span: TraceSpan) -> Operation | None:
    """Return what a span of the fold is about; None for one that is not exported."""
    if span.name == "run":
        return Operation.INVOKE_AGENT
    if span.name == LLM_SPAN:
        return Operation.CHAT
    if span.name.startswith(f"{TOOL_SPAN}:"):
        return Operation.EXECUTE_TOOL
    return Operation.WAIT if span.name == WAIT_SPAN else None


def agent_span(run: RunFacts, span: TraceSpan, *, place: Place, end: Facts, outcome: str) -> Span:
    """Return the span of a run; `end` is the data of the record that ended it."""
    usage = end.get("usage")
    facts = usage if isinstance(usage, dict) else {}
    attributes = {
        **_model_attributes(run),
        **picked(facts, _USAGE),
        "windlass.run.outcome": outcome,
        "gen_ai.agent.id": clean_text(run.agent_id),
    }
    if run.version is not None:
        attributes["gen_ai.agent.version"] = clean_text(run.version)
    error = end.get("error")
    why = error if isinstance(error, dict) else {}
    failed = {"failed": text_in(why, "kind") or OTHER, "budget_exhausted": "budget_exhausted"}
    made = _span(run, span, operation=Operation.INVOKE_AGENT, of=run.agent_id, place=place)
    return replace(
        made,
        context=run.context,
        attributes={**made.attributes, **attributes},
        error_type=failed.get(outcome),
        error_text=_error_text(why, place) if outcome in failed else None,
    )


def chat_span(run: RunFacts, span: TraceSpan, *, place: Place) -> Span:
    """Return the span of one attempt at a model call."""
    facts = span.attrs or {}
    model = text_in(facts, "modelId") or run.model
    attributes = {**_model_attributes(replace(run, model=model)), **picked(facts, _CHAT)}
    reason = text_in(facts, "finishReason")
    if reason is not None:
        attributes["gen_ai.response.finish_reasons"] = (_FINISH.get(reason, reason),)
    made = _span(run, span, operation=Operation.CHAT, of=model, place=place)
    return _judged(made, attributes, facts=facts, place=place)


def tool_span(run: RunFacts, span: TraceSpan, *, place: Place) -> Span:
    """Return the span of a tool call."""
    facts = span.attrs or {}
    # The name of a tool that does not exist is something that the model wrote.
    is_made_up = text_in(facts, "code") == UNKNOWN_TOOL and place.hide is None
    name = OTHER if is_made_up else clean_text(text_in(facts, "toolName") or OTHER)
    attributes = {**picked(facts, _TOOL), "gen_ai.tool.name": name, "gen_ai.tool.type": "function"}
    made = _span(run, span, operation=Operation.EXECUTE_TOOL, of=name, place=place)
    return _judged(made, attributes, facts=facts, place=place)


def wait_span(run: RunFacts, span: TraceSpan, *, place: Place) -> Span:
    """Return the span of a wait for people; there is no convention for it."""
    facts = span.attrs or {}
    made = _span(run, span, operation=Operation.WAIT, of=text_in(facts, "kind"), place=place)
    return replace(made, attributes={**made.attributes, **picked(facts, _WAIT)})


def _span(run: RunFacts, span: TraceSpan, *, operation: Operation, of: str | None, place: Place) -> Span:
    context = replace(run.context, parent_id=place.root_id, is_remote=False)
    name = operation.value if of is None else f"{operation.value} {of}"
    start_ns = ms_of(span.start_at) * NS_PER_MS
    shared: dict[str, Attribute] = {
        "gen_ai.conversation.id": clean_text(run.session_id),
        "gen_ai.agent.name": clean_text(run.agent_id),
        "windlass.run.id": clean_text(run.run_id),
    }
    if operation is not Operation.WAIT:
        shared["gen_ai.operation.name"] = operation.value
    return Span(
        operation,
        clean_text(name),
        place.span_id,
        context,
        start_ns=start_ns,
        end_ns=max(start_ns, ms_of(span.end_at or span.start_at) * NS_PER_MS),
        attributes=shared,
        moments=tuple(_moment(event, place) for event in place.moments[:MOMENTS_PER_SPAN_MAX]),
        moments_dropped=place.moments_dropped,
    )


def _model_attributes(run: RunFacts) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {"gen_ai.provider.name": clean_text(run.provider)}
    if run.model is not None:
        found["gen_ai.request.model"] = clean_text(run.model)
    return found


def _judged(made: Span, attributes: Mapping[str, Attribute], *, facts: Facts, place: Place) -> Span:
    """Return a span with its attributes, and with its error if it went wrong."""
    error = text_in(facts, "code")
    if error is None and facts.get("status") in {"failed", "rejected"}:
        error = text_in(facts, "status")
    if error is None and facts.get("interrupted"):
        error = INTERRUPTED
    return replace(
        made,
        attributes={**made.attributes, **attributes},
        error_type=None if error is None else clean_text(error or OTHER),
        error_text=None if error is None else _error_text(facts, place),
    )


def _error_text(facts: Facts, place: Place) -> str | None:
    text = text_in(facts, "message")
    return None if text is None or place.hide is None else clean_text(place.hide(text), ATTRIBUTE_CHARS_MAX)


def _moment(event: TraceEvent, place: Place) -> Moment:
    attributes: dict[str, Attribute] = {}
    for name, value in (event.attrs or {}).items():
        is_text = name in _TEXTS
        shown = place.hide(value) if is_text and place.hide is not None and isinstance(value, str) else value
        found = attribute(shown) if place.hide is not None or not is_text else None
        if found is not None:
            attributes[f"windlass.{_snake(name)}"] = found
    return Moment(clean_text(f"windlass.{event.name}"), ms_of(event.at) * NS_PER_MS, attributes)


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", name)
