"""Spans and attributes by the OpenTelemetry conventions for generative AI.

A turn has no span, because it coincides with its run. Without content capture there are names, ids, numbers
and codes, and never free text.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final

from pydantic import JsonValue

from windlass.telemetry.sink import Attribute, Operation, Span, SpanMoment, TraceContext
from windlass_harness.record import Record
from windlass_harness.redact import Redactor
from windlass_harness.times import ms_of
from windlass_harness.tracing import LLM_SPAN, TOOL_SPAN, WAIT_SPAN
from windlass_harness.views.fold import text_in
from windlass_protocol import JsonObject, TraceEvent, TraceSpan
from windlass_protocol.frozen import sealed

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
TRACESTATE_CHARS_MAX: Final = 512

_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_SPAN_ID: Final = re.compile(r"[0-9a-f]{16}")
_STATE: Final = re.compile(r"[\x20-\x7e]*")
_SAMPLED: Final = 1


def run_key(run_start: Record) -> str:
    """Return the seed of the span ids of a run; a run with the same id in another store has another."""
    return "\n".join((run_start.session_id, str(run_start.data["runId"]), run_start.at))


def trace_number(key: str) -> int:
    """Return a trace id."""
    return int.from_bytes(sha256(f"trace\n{key}".encode(errors="replace")).digest()[:16]) or 1


def span_number(key: str, name: str) -> int:
    """Return the id of a span of the run with that key."""
    return int.from_bytes(sha256(f"span\n{key}\n{name}".encode(errors="replace")).digest()[:8]) or 1


def child_number(key: str, child_run_id: str) -> int:
    """Return the id of the call that started a subagent; caller and subagent can both compute it."""
    return span_number(key, f"subagent\n{child_run_id}")


def context_in(carrier: Mapping[str, JsonValue]) -> TraceContext | None:
    """Return the context in a `traceparent`; None without a valid one."""
    text = carrier.get(TRACEPARENT)
    match = _PARENT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    version, trace_hex, span_hex, flags, more = match.groups()
    trace_id, span_id = int(trace_hex, 16), int(span_hex, 16)
    if version == "ff" or (version == "00" and more) or not trace_id or not span_id:
        return None
    state = carrier.get(TRACESTATE)
    is_state = isinstance(state, str) and len(state) <= TRACESTATE_CHARS_MAX and _STATE.fullmatch(state)
    return TraceContext(
        trace_id,
        span_id,
        is_remote=True,
        is_sampled=bool(int(flags, 16) & _SAMPLED),
        trace_state=str(state) if is_state else "",
    )


def session_context(first: Record) -> TraceContext | None:
    """Return the trace that a session was started in, from its first record."""
    trace = first.data.get("trace") if first.type == "session.started" else None
    if not isinstance(trace, dict):
        return None
    trace_hex, span_hex = trace.get("traceId"), trace.get("spanId")
    if not isinstance(trace_hex, str) or not _TRACE_ID.fullmatch(trace_hex) or not int(trace_hex, 16):
        return None
    is_span = isinstance(span_hex, str) and _SPAN_ID.fullmatch(span_hex)
    parent_id = int(str(span_hex), 16) or None if is_span else None
    return TraceContext(int(trace_hex, 16), parent_id, is_remote=parent_id is not None)


PAGE_RECORDS: Final = 256
"""Records of one read."""
BATCH_SPANS_MAX: Final = 512
"""Spans of one batch, apart from those that one record ends."""
BATCH_CHARS_MAX: Final = 1_000_000
"""Characters of attributes of one batch, apart from those of one record."""
SESSIONS_KEPT_MAX: Final = 2_000
"""Sessions with a current run that are cached; others are read again when they continue."""
CONTEXTS_KEPT_MAX: Final = 2_000
"""Traces of runs that are cached for their subagents."""
ANCESTORS_MAX: Final = 32
"""Levels of callers in which the trace of a subagent is searched."""
MOMENTS_PER_SPAN_MAX: Final = 128
ATTRIBUTE_CHARS_MAX: Final = 1_024
CONTENT_CHARS_MAX: Final = 16_384
"""Characters of messages, arguments or a result on one span."""
MESSAGES_PER_STEP_MAX: Final = 64
"""Messages, and calls, that are kept for the content of one step."""

PAUSE_S: Final = 5.0
"""Interval between two reads of the journal, unless OTEL_BSP_SCHEDULE_DELAY sets it."""
METRICS_S: Final = 60.0
"""Interval between two reports of metrics, unless OTEL_METRIC_EXPORT_INTERVAL sets it."""
RETRY_FIRST_S: Final = 1.0
"""Delay before the second attempt at a batch; it doubles with each attempt."""
RETRY_MAX_S: Final = 60.0
CLOSE_S: Final = 5.0
"""How long closing waits for the collector."""


def clean_text(text: str, limit: int = ATTRIBUTE_CHARS_MAX) -> str:
    """Return a text as an attribute: cut, and without lone surrogates."""
    cut = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return cut.encode("utf-8", "replace").decode()


def attribute(value: JsonValue) -> Attribute | None:
    """Return a plain value as an attribute; None for any other value."""
    match value:
        case str():
            return clean_text(value)
        case bool() | int() | float():
            return value
        case list() if all(isinstance(item, str) for item in value):
            return tuple(clean_text(str(item)) for item in value[:16])
        case _:
            return None


def named_attributes(facts: Mapping[str, JsonValue], names: Mapping[str, str]) -> dict[str, Attribute]:
    """Return the facts that have an attribute name, under that name."""
    attributes = ((name, attribute(facts.get(fact))) for fact, name in names.items())
    return {name: value for name, value in attributes if value is not None}


Facts = Mapping[str, JsonValue]

OTHER: Final = "_OTHER"
INTERRUPTED: Final = "interrupted"
UNKNOWN_TOOL: Final = "unknown_tool"
"""The code of a call of an unknown tool."""
NS_PER_MS: Final = 1_000_000

_TEXTS: Final = frozenset({"message", "reason", "error", "description", "by"})
"""Facts with free text."""

_USAGE: Final = {
    "inputTokens": "gen_ai.usage.input_tokens",
    "outputTokens": "gen_ai.usage.output_tokens",
    "cacheReadTokens": "gen_ai.usage.cache_read.input_tokens",
    "cacheWriteTokens": "gen_ai.usage.cache_creation.input_tokens",
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
"""Finish reasons with another name in the conventions."""


@sealed
class SpanFacts:
    """The facts that all spans of a run share."""

    run_id: str
    session_id: str
    agent_id: str
    provider: str
    model: str | None
    version: str | None
    context: TraceContext
    key: str
    """The seed of the span ids."""


@sealed
class SpanPosition:
    """The place of a span in its trace, and its events."""

    span_id: int
    root_id: int
    moments: Sequence[TraceEvent] = ()
    moments_dropped: int = 0
    hide: Callable[[str], str] | None = None
    """Masks secrets in free text; None leaves free text out."""


def operation_of(span: TraceSpan) -> Operation | None:
    """Return the operation of a folded span; None for one that is not exported."""
    if span.name == "run":
        return Operation.INVOKE_AGENT
    if span.name == LLM_SPAN:
        return Operation.CHAT
    if span.name.startswith(f"{TOOL_SPAN}:"):
        return Operation.EXECUTE_TOOL
    return Operation.WAIT if span.name == WAIT_SPAN else None


def agent_span(run: SpanFacts, span: TraceSpan, *, position: SpanPosition, end: Facts, outcome: str) -> Span:
    """Return the span of a run; `end` is the data of the record that ended it."""
    usage = end.get("usage")
    facts = usage if isinstance(usage, dict) else {}
    attributes = {
        **_model_attributes(run),
        **named_attributes(facts, _USAGE),
        "windlass.run.outcome": outcome,
        "gen_ai.agent.id": clean_text(run.agent_id),
    }
    if run.version is not None:
        attributes["gen_ai.agent.version"] = clean_text(run.version)
    error = end.get("error")
    why = error if isinstance(error, dict) else {}
    failed = {"failed": text_in(why, "kind") or OTHER, "budget_exhausted": "budget_exhausted"}
    built = _span(run, span, operation=Operation.INVOKE_AGENT, of=run.agent_id, position=position)
    return replace(
        built,
        context=run.context,
        attributes={**built.attributes, **attributes},
        error_type=failed.get(outcome),
        error_text=_error_text(why, position) if outcome in failed else None,
    )


def chat_span(run: SpanFacts, span: TraceSpan, *, position: SpanPosition) -> Span:
    """Return the span of one attempt at a model call."""
    facts = span.attrs or {}
    model = text_in(facts, "modelId") or run.model
    attributes = {**_model_attributes(replace(run, model=model)), **named_attributes(facts, _CHAT)}
    reason = text_in(facts, "finishReason")
    if reason is not None:
        attributes["gen_ai.response.finish_reasons"] = (_FINISH.get(reason, reason),)
    built = _span(run, span, operation=Operation.CHAT, of=model, position=position)
    return _with_outcome(built, attributes, facts=facts, position=position)


def tool_span(run: SpanFacts, span: TraceSpan, *, position: SpanPosition) -> Span:
    """Return the span of a tool call."""
    facts = span.attrs or {}
    # The name of an unknown tool is free text of the model.
    is_made_up = text_in(facts, "code") == UNKNOWN_TOOL and position.hide is None
    name = OTHER if is_made_up else clean_text(text_in(facts, "toolName") or OTHER)
    attributes = {**named_attributes(facts, _TOOL), "gen_ai.tool.name": name, "gen_ai.tool.type": "function"}
    built = _span(run, span, operation=Operation.EXECUTE_TOOL, of=name, position=position)
    return _with_outcome(built, attributes, facts=facts, position=position)


def wait_span(run: SpanFacts, span: TraceSpan, *, position: SpanPosition) -> Span:
    """Return the span of a wait for people; there is no convention for it."""
    facts = span.attrs or {}
    built = _span(run, span, operation=Operation.WAIT, of=text_in(facts, "kind"), position=position)
    return replace(built, attributes={**built.attributes, **named_attributes(facts, _WAIT)})


def _span(
    run: SpanFacts, span: TraceSpan, *, operation: Operation, of: str | None, position: SpanPosition
) -> Span:
    context = replace(run.context, parent_id=position.root_id, is_remote=False)
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
        position.span_id,
        context,
        start_ns=start_ns,
        end_ns=max(start_ns, ms_of(span.end_at or span.start_at) * NS_PER_MS),
        attributes=shared,
        moments=tuple(_moment(event, position) for event in position.moments[:MOMENTS_PER_SPAN_MAX]),
        moments_dropped=position.moments_dropped,
    )


def _model_attributes(run: SpanFacts) -> dict[str, Attribute]:
    attributes: dict[str, Attribute] = {"gen_ai.provider.name": clean_text(run.provider)}
    if run.model is not None:
        attributes["gen_ai.request.model"] = clean_text(run.model)
    return attributes


def _with_outcome(
    span: Span, attributes: Mapping[str, Attribute], *, facts: Facts, position: SpanPosition
) -> Span:
    """Return a span with its attributes, and with its error if it failed."""
    error = text_in(facts, "code")
    if error is None and facts.get("status") in {"failed", "rejected"}:
        error = text_in(facts, "status")
    if error is None and facts.get("interrupted"):
        error = INTERRUPTED
    return replace(
        span,
        attributes={**span.attributes, **attributes},
        error_type=None if error is None else clean_text(error or OTHER),
        error_text=None if error is None else _error_text(facts, position),
    )


def _error_text(facts: Facts, position: SpanPosition) -> str | None:
    text = text_in(facts, "message")
    return (
        None
        if text is None or position.hide is None
        else clean_text(position.hide(text), ATTRIBUTE_CHARS_MAX)
    )


def _moment(event: TraceEvent, position: SpanPosition) -> SpanMoment:
    attributes: dict[str, Attribute] = {}
    for name, value in (event.attrs or {}).items():
        is_text = name in _TEXTS
        masked = (
            position.hide(value)
            if is_text and position.hide is not None and isinstance(value, str)
            else value
        )
        attribute_value = attribute(masked) if position.hide is not None or not is_text else None
        if attribute_value is not None:
            attributes[f"windlass.{_snake(name)}"] = attribute_value
    return SpanMoment(clean_text(f"windlass.{event.name}"), ms_of(event.at) * NS_PER_MS, attributes)


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda match: f"_{match[0].lower()}", name)


_INPUT = "gen_ai.input.messages"
_OUTPUT = "gen_ai.output.messages"


class RunContent:
    """The content of one run for spans that have not ended yet."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._request: JsonObject | None = None
        self._new_messages: list[JsonObject] = []
        """The messages that are new in the next model call."""
        self._new_message_chars = 0
        self._answer_parts: list[JsonObject] = []
        """Parts of the unfinished answer."""
        self._arguments: dict[str, str] = {}
        self._result: str | None = None
        self._output: str | None = None

    def take(self, record: Record) -> None:
        """Note the content of a record, before the spans that it ends are built."""
        data = record.data
        match record.type:
            case "message.received":
                text = _text(data)
                self._add_message(_message("user", text), len(text))
            case "message.completed":
                self._answer_parts.append({"type": "text", "content": _text(data)})
            case "actions.requested":
                self._ask(data.get("actions"), is_inner="parentCallId" in data)
            case "action.result":
                result = data.get("result")
                self._return(result if isinstance(result, dict) else {}, is_inner="parentCallId" in data)
            case "run.completed":
                self._output = text_in(data, "output")
            case _:
                pass

    def chat(self, *, is_done: bool) -> dict[str, Attribute]:
        """Return the new input of a model call, and its output."""
        attributes = (
            {_INPUT: self._mask_text(list[JsonValue](self._new_messages))} if self._new_messages else {}
        )
        if is_done:
            if self._answer_parts:
                answer: JsonObject = {"role": "assistant", "parts": list[JsonValue](self._answer_parts)}
                attributes[_OUTPUT] = self._mask_text([answer])
            self._new_messages, self._answer_parts, self._new_message_chars = [], [], 0
        return dict(attributes)

    def tool(self, call_id: str) -> dict[str, Attribute]:
        """Return the arguments of a call, and its result if the last record was that."""
        attributes = {
            "gen_ai.tool.call.arguments": self._arguments.pop(call_id, None),
            "gen_ai.tool.call.result": self._result,
        }
        self._result = None
        return {name: value for name, value in attributes.items() if value is not None}

    def agent(self) -> dict[str, Attribute]:
        """Return the request and the answer of a run."""
        attributes: dict[str, Attribute] = {}
        if self._request is not None:
            attributes[_INPUT] = self._mask_text([self._request])
        if self._output is not None:
            attributes[_OUTPUT] = self._mask_text([_message("assistant", self._output)])
        return attributes

    def _add_message(self, message: JsonObject, chars: int) -> None:
        if self._request is None:
            self._request = message
        # Text after the limit would be cut off anyway.
        if len(self._new_messages) < MESSAGES_PER_STEP_MAX and self._new_message_chars < CONTENT_CHARS_MAX:
            self._new_messages.append(message)
            self._new_message_chars += chars

    def _ask(self, actions: JsonValue, *, is_inner: bool) -> None:
        for action in actions if isinstance(actions, list) else ():
            call = action if isinstance(action, dict) else {}
            call_id, arguments = text_in(call, "callId") or "", call.get("input")
            name = text_in(call, "toolName") or text_in(call, "name") or ""
            if len(self._answer_parts) < MESSAGES_PER_STEP_MAX and not is_inner:
                self._answer_parts.append(
                    {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}
                )
            if len(self._arguments) < MESSAGES_PER_STEP_MAX:
                self._arguments[call_id] = self._mask_text(arguments)

    def _return(self, result: Mapping[str, JsonValue], *, is_inner: bool) -> None:
        text = self._result = self._mask_text(result.get("output"))
        if is_inner:
            return  # the model does not see it
        part: JsonObject = {"type": "tool_call_response", "id": text_in(result, "callId"), "response": text}
        self._add_message({"role": "tool", "parts": [part]}, len(text))

    def _mask_text(self, value: JsonValue) -> str:
        masked = self._redactor.value(value)
        text = masked if isinstance(masked, str) else json.dumps(masked, ensure_ascii=False, default=str)
        return clean_text(text, CONTENT_CHARS_MAX)


def _message(role: str, text: str) -> JsonObject:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _text(data: Mapping[str, JsonValue]) -> str:
    parts = data.get("parts")
    texts = [text_in(data, "message") or ""]
    for part in parts if isinstance(parts, list) else ():
        texts.append(text_in(part, "text") or "" if isinstance(part, dict) else "")
    return "\n".join(text for text in texts if text)[:CONTENT_CHARS_MAX]
