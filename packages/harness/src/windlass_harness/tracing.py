"""The trace of a run as spans, folded from its records.

The root span is the run. It contains the turns; a turn contains the model calls (one span for each attempt),
the tool calls and the waits for people. A tool call starts when it is executed, or when the model requested
it as long as nothing has executed it; after an interruption it starts again, with the number of its attempt.
Ids are derived from the run and the numbers of records, so that
folding the same records always gives the same trace. Every attribute is redacted. A trace holds names, ids,
numbers and reasons, and of the content only the arguments of calls, in one short line each.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import field, replace
from typing import Final, cast

from pydantic import JsonValue
from pydantic_core import to_json

from windlass_harness.record import Record
from windlass_harness.redact import sanitize_for_trace
from windlass_harness.views.fold import ANYWHERE, Position, fold, text_in
from windlass_harness.views.payloads import SKIPPED_CODE
from windlass_protocol import HarnessTrace, JsonObject, TraceEvent, TraceOutcome, TraceSpan
from windlass_protocol.frozen import sealed
from windlass_protocol.unchecked import changed, maker

LLM_SPAN: Final = "llm.complete"
TOOL_SPAN: Final = "tool.dispatch"
WAIT_SPAN: Final = "wait"

ARGUMENTS_CHARS_MAX: Final = 80
"""Characters of the arguments of a call on its span."""
_ARGUMENT_CHARS_MAX: Final = 40
_MASKED_CHARS_MAX: Final = 2_000
"""A longer argument is not shown: a secret is masked in a whole text only."""
_WAIT_FIELDS: Final = ("waitsOn", "waitsUntil", "waitsSince")

_ENDS: Final = {
    "run.completed": TraceOutcome.OK,
    "run.failed": TraceOutcome.ERROR,
    "run.cancelled": TraceOutcome.CANCELLED,
    "run.budget_exhausted": TraceOutcome.BUDGET_EXHAUSTED,
}

_POLICY_EVENTS: Final = {
    "allow": "policy.allowed",
    "deny": "policy.denied",
    "ask": "policy.asked",
    "modify": "policy.modified",
    "interrupt": "policy.interrupted",
    "defer": "policy.deferred",
}

_EVENT_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "run.waiting": ("on", "until"),
    "run.resumed": ("reason", "epoch"),
    "run.cancel_requested": ("by", "reason"),
    "step.retrying": ("code", "message", "attempt", "delayMs"),
    "budget.warned": ("name", "used", "limit"),
    "budget.exhausted": ("exceeded",),
    "hook.completed": ("hookId", "point", "status", "changed", "vetoed", "durationMs"),
    "hook.failed": ("hookId", "point", "status", "error"),
    "compaction.requested": ("modelId", "usageInputTokens"),
    "compaction.completed": ("modelId", "inputTokensBefore", "inputTokensAfter"),
    "compaction.failed": ("code", "message"),
    "output.rejected": ("schemaId", "attempt"),
    "output.failed": ("schemaId", "attempts"),
    "subagent.called": ("callId", "childSessionId", "name"),
    "recovery.started": ("epoch", "reason"),
    "recovery.effect_found": ("callId", "effect", "toolName"),
    "recovery.effect_settled": ("callId", "choice", "by"),
}
"""Records that become events of a trace, with the fields that each event shows."""

_USAGE_FIELDS: Final = (
    "inputTokens",
    "outputTokens",
    "cacheReadTokens",
    "cacheWriteTokens",
    "reasoningTokens",
    "costMicros",
)

# A trace of a long run has tens of thousands of these, of values that are valid already.
_span: Final = maker(TraceSpan, "span_id", "name", "seq", "start_at", "parent_id", "attrs")
_event: Final = maker(TraceEvent, "event_id", "span_id", "name", "at", "attrs")


@sealed
class TraceState:
    """The trace of one run so far; `trace` is None until the run starts.

    Spans and events are in the order of their start. A span without an end is still open.
    """

    position: Position = ANYWHERE
    run_id: str | None = None
    chat_id: str | None = None
    user_id: str | None = None
    trace: HarnessTrace | None = None
    spans: tuple[TraceSpan, ...] = ()
    events: tuple[TraceEvent, ...] = ()
    open_spans: Mapping[str, int] = field(default_factory=dict[str, int])
    asked_by: Mapping[str, str] = field(default_factory=dict[str, str])
    """Calls that wait for people, by the open span of the wait."""
    retried_at: str | None = None
    touched: tuple[int, ...] = ()
    """For each span, the number of the record that changed it last."""

    def since(self, seq: int) -> tuple[tuple[TraceSpan, ...], tuple[TraceEvent, ...]]:
        """Return the spans that records after one began or changed, and the events of those records."""
        spans = tuple(span for span, at in zip(self.spans, self.touched, strict=True) if at > seq)
        events = tuple(event for event in self.events if int(event.event_id.rpartition("/")[2]) > seq)
        return spans, events


def fold_trace(
    records: Iterable[Record],
    state: TraceState | None = None,
    *,
    run_id: str | None = None,
    chat_id: str | None = None,
    user_id: str | None = None,
) -> TraceState:
    """Fold records of a session into the trace of one of its runs.

    The run is the given one, or else the first that starts; the records may begin anywhere before it. The
    chat and user are the given ones, or else `chatId` and `userId` of the run's metadata, or else the session
    and no user. Records of other runs, and records after the end of the run, are ignored.

    Raises:
        Gap: a record is not the next one of the session.
    """
    before = state or TraceState()
    asked = replace(
        before,
        run_id=run_id or before.run_id,
        chat_id=chat_id or before.chat_id,
        user_id=user_id or before.user_id,
    )
    return fold(_Draft(asked), records)


class _Draft:
    def __init__(self, state: TraceState) -> None:
        self.position = state.position
        self._state = state
        self._trace = state.trace
        self._spans = list(state.spans)
        self._events = list(state.events)
        self._open = dict(state.open_spans)
        self._asked_by = dict(state.asked_by)
        self._retried_at = state.retried_at
        self._touched = list(state.touched)
        self._seq = 0

    def freeze(self) -> TraceState:
        return replace(
            self._state,
            position=self.position,
            trace=self._trace,
            spans=tuple(self._spans),
            events=tuple(self._events),
            open_spans=self._open,
            asked_by=self._asked_by,
            retried_at=self._retried_at,
            touched=tuple(self._touched),
        )

    def apply(self, record: Record) -> None:
        self._seq = record.seq
        if self._trace is None:
            if record.type == "run.started":
                self._start(record)
        elif self._trace.ended_at is None and self._is_ours(record, self._trace):
            self._note(record)
            if record.type in _HANDLERS:
                _HANDLERS[record.type](self, record)

    def _start(self, record: Record) -> None:
        run_id = str(record.data["runId"])
        if self._state.run_id not in {None, run_id}:
            return
        metadata = _object(record.data.get("metadata"))
        self._trace = HarnessTrace(
            trace_id=run_id,
            session_id=record.session_id,
            chat_id=self._state.chat_id or text_in(metadata, "chatId") or record.session_id,
            user_id=self._state.user_id or text_in(metadata, "userId") or "",
            started_at=record.at,
        )
        facts = _pick(record.data, "agentId", "mode", "modelId", "packageFingerprint", "goalId")
        self._begin("run", record, run_id, "run", facts)

    @staticmethod
    def _is_ours(record: Record, trace: HarnessTrace) -> bool:
        named = text_in(record.data, "runId") if record.type.startswith("run.") else None
        return (named or record.run_id or trace.trace_id) == trace.trace_id

    # spans

    def turn_started(self, record: Record) -> None:
        self._finish("turn", record.at, {})
        facts = _pick(record.data, "turnId", "sequence")
        self._begin("turn", record, self._id("turn", record), "turn", facts)

    def turn_ended(self, record: Record) -> None:
        self._finish("turn", record.at, _pick(record.data, "code", "message", "reason"))

    def step_started(self, record: Record) -> None:
        self._finish("step", record.at, {"interrupted": True})
        self._begin_step(record, record.at)

    def step_completed(self, record: Record) -> None:
        if "step" not in self._open:
            self._begin_step(record, self._retried_at or record.at)
        usage = _object(record.data.get("usage"))
        facts = _pick(record.data, "finishReason", "costUsd", "latencyMs", "queuedMs")
        self._finish("step", record.at, {**facts, **_pick(usage, *_USAGE_FIELDS)})

    def step_failed(self, record: Record) -> None:
        if "step" not in self._open and self._retried_at is not None:
            self._begin_step(record, self._retried_at)
        self._finish("step", record.at, _pick(record.data, "code", "message"))

    def step_retrying(self, record: Record) -> None:
        self._finish("step", record.at, _pick(record.data, "code", "message"))
        self._retried_at = record.at

    def actions_requested(self, record: Record) -> None:
        for index, action in enumerate(_objects(record.data.get("actions"))):
            self._begin_call(record, index, action)

    def action_started(self, record: Record) -> None:
        key = f"call {text_in(record.data, 'callId')}"
        if key not in self._open:
            self._begin_call(record, 0, record.data)
        at = self._open[key]
        facts = {**_pick(record.data, "effect", "mode"), **_arguments(record.data.get("arguments"))}
        attrs = dict(self._spans[at].attrs or {})
        if attrs.pop("interruptedAt", None) is not None:
            before = attrs.get("attempt")
            facts["attempt"] = (before if isinstance(before, int) else 1) + 1
        self._change(at, {"start_at": record.at, "attrs": {**attrs, **_clean(facts)}})

    def action_result(self, record: Record) -> None:
        result, error = _object(record.data.get("result")), _object(record.data.get("error"))
        facts: JsonObject = {**_pick(record.data, "status", "durationMs"), **_pick(error, "code", "message")}
        if error.get("code") == SKIPPED_CODE:
            facts = {"status": SKIPPED_CODE}
        self._finish(f"call {text_in(result, 'callId')}", record.at, facts)

    def effect_found(self, record: Record) -> None:
        at = self._open.get(f"call {text_in(record.data, 'callId')}")
        if at is not None and record.data.get("begun") is not False:
            self._add_facts(at, {"interruptedAt": record.at})

    def effect_settled(self, record: Record) -> None:
        if record.data.get("choice") == "skip":
            # Of an early journal: later ones have a result before the decision.
            self._finish(f"call {text_in(record.data, 'callId')}", record.at, {"status": SKIPPED_CODE})

    def subagent_called(self, record: Record) -> None:
        at = self._open.get(f"call {text_in(record.data, 'callId')}")
        if at is not None:
            self._add_facts(at, _pick(record.data, "childSessionId", "childRunId", "name"))

    def input_requested(self, record: Record) -> None:
        for index, request in enumerate(_objects(record.data.get("requests"))):
            action = _object(request.get("action"))
            facts = {**_pick(request, "requestId", "kind"), **_pick(action, "callId", "toolName")}
            key = f"wait {text_in(request, 'requestId')}"
            if key not in self._open:
                if record.data.get("childSessionId") is None:
                    # A request of a subagent is about its own calls, even if their ids are equal.
                    self._asked_by[key] = f"call {text_in(action, 'callId')}"
                self._begin(key, record, f"{self._id('wait', record)}.{index}", WAIT_SPAN, facts)

    def input_resolved(self, record: Record) -> None:
        for resolution in _objects(record.data.get("resolutions")):
            key = f"wait {text_in(resolution, 'requestId')}"
            if key in self._open:
                kind = (self._spans[self._open[key]].attrs or {}).get("kind")
                response = _object(resolution.get("response"))
                facts = {**_pick(resolution, "outcome"), **_pick(response, "responder", "optionId")}
                self._finish(key, record.at, facts)
                call = self._asked_by.pop(key, None)
                if call is not None and "question" in (resolution.get("kind"), kind):
                    # The answer is the result of the call; no other record follows.
                    self._finish(call, record.at, {"status": "completed"})

    def run_waiting(self, record: Record) -> None:
        facts: JsonObject = {"waitsSince": record.at, "waitsOn": record.data.get("on")}
        if (until := record.data.get("until")) is not None:
            facts["waitsUntil"] = until
        self._add_facts(self._open["run"], facts)

    def run_resumed(self, record: Record) -> None:
        at = self._open["run"]
        attrs = self._spans[at].attrs or {}
        if "waitsSince" in attrs:
            rest = {name: value for name, value in attrs.items() if name not in _WAIT_FIELDS}
            self._change(at, {"attrs": rest})

    def run_ended(self, record: Record) -> None:
        self.run_resumed(record)
        for key in [key for key in self._open if key not in {"run", "turn"}]:
            self._finish(key, record.at, {"interrupted": True})
        self._asked_by.clear()
        self._finish("turn", record.at, {})
        error = _object(record.data.get("error"))
        facts = {**_pick(record.data, "reason", "exceeded"), **_pick(error, "code", "kind", "message")}
        self._finish("run", record.at, facts)
        ended = {"ended_at": record.at, "outcome": _ENDS[record.type]}
        self._trace = None if self._trace is None else self._trace.model_copy(update=ended)

    def _begin_step(self, record: Record, start_at: str) -> None:
        self._retried_at = None
        facts = _pick(record.data, "modelId", "turnId", "stepIndex")
        facts["attempt"] = record.attempt or 1
        self._begin("step", record, self._id("step", record), LLM_SPAN, facts, start_at=start_at)

    def _begin_call(self, record: Record, index: int, action: Mapping[str, JsonValue]) -> None:
        name = text_in(action, "toolName") or text_in(action, "name") or "load_skill"
        key = f"call {text_in(action, 'callId')}"
        if key not in self._open:
            span_id = f"{self._id('call', record)}.{index}"
            facts = {**_pick(action, "callId", "kind"), "toolName": name, **_arguments(action.get("input"))}
            # A call of a program belongs to the call of the program.
            above = f"call {text_in(record.data, 'parentCallId')}"
            self._begin(key, record, span_id, f"{TOOL_SPAN}:{name}", facts, above=above)

    def _begin(
        self,
        key: str,
        record: Record,
        span_id: str,
        name: str,
        facts: JsonObject,
        *,
        start_at: str | None = None,
        above: str = "",
    ) -> None:
        parent = {"run": None, "turn": "run"}.get(key, "turn" if "turn" in self._open else "run")
        parent = above if above in self._open else parent
        self._open[key] = len(self._spans)
        self._touched.append(record.seq)
        self._spans.append(
            _span(
                span_id=span_id,
                name=name,
                seq=record.seq,
                start_at=start_at or record.at,
                parent_id=None if parent is None else self._spans[self._open[parent]].span_id,
                attrs=_clean(facts),
            )
        )

    def _finish(self, key: str, end_at: str, facts: JsonObject) -> None:
        at = self._open.pop(key, None)
        if at is not None:
            self._change(at, {"end_at": end_at, "attrs": self._with_facts(at, facts)})

    def _add_facts(self, at: int, facts: JsonObject) -> None:
        self._change(at, {"attrs": self._with_facts(at, facts)})

    def _with_facts(self, at: int, facts: JsonObject) -> JsonObject:
        return {**(self._spans[at].attrs or {}), **_clean(facts)}

    def _change(self, at: int, fields: dict[str, object]) -> None:
        self._spans[at] = changed(self._spans[at], fields)
        self._touched[at] = self._seq

    def _id(self, kind: str, record: Record) -> str:
        return f"{self._spans[0].span_id}/{kind}/{record.seq}"

    # moments

    def _note(self, record: Record) -> None:
        data = record.data
        name = record.type
        if name == "policy.decided":
            decision = _object(data.get("decision"))
            answer = str(decision.get("decision"))
            name = _POLICY_EVENTS.get(answer, f"policy.{answer}")
            facts = {**_pick(data, "stage", "callId", "toolName"), **_pick(decision, "code", "reason")}
        elif name == "problem.reported":
            facts = _pick(_object(data.get("problem")), "severity", "description", "decisionId")
        elif name in _EVENT_FIELDS:
            facts = _pick(data, *_EVENT_FIELDS[name])
        else:
            return
        self._events.append(
            _event(
                event_id=self._id("event", record),
                span_id=self._span_of(text_in(data, "callId")),
                name=name,
                at=record.at,
                attrs=_clean(facts),
            )
        )

    def _span_of(self, call_id: str | None) -> str:
        """Return the innermost open span that an event belongs to."""
        keys = (f"call {call_id}", "step", "turn", "run")
        return next(self._spans[self._open[key]].span_id for key in keys if key in self._open)


def _clean(facts: JsonObject) -> JsonObject:
    return cast(JsonObject, sanitize_for_trace(facts))


def _arguments(given: JsonValue) -> JsonObject:
    """Return the fact that shows arguments in one line, such as `order 1042, cents 4990`; masked and cut."""
    line = ""
    for name, value in given.items() if isinstance(given, dict) else ():
        word = f"{_one_line(name)} {_argument(name, value)}"
        if len(line) + len(word) + 2 > ARGUMENTS_CHARS_MAX:
            line = f"{line}, …" if line else f"{word[: ARGUMENTS_CHARS_MAX - 1]}…"
            break
        line = f"{line}, {word}" if line else word
    return {"arguments": line} if line else {}


def _argument(name: str, value: JsonValue) -> str:
    match value:
        case dict():
            return "{…}" if value else "{}"
        case list():
            return "[…]" if value else "[]"
        case str() if len(value) > _MASKED_CHARS_MAX:
            return "…"
        case _:
            shown = _clean({name: value})[name]
            return _one_line(shown if isinstance(shown, str) else to_json(shown).decode())


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _ARGUMENT_CHARS_MAX else f"{line[: _ARGUMENT_CHARS_MAX - 1]}…"


def _pick(data: Mapping[str, JsonValue], *names: str) -> JsonObject:
    """Return some fields; a list or an object is a copy that is independent of the record."""
    return {
        name: deepcopy(value) if isinstance(value, list | dict) else value
        for name in names
        if (value := data.get(name)) is not None
    }


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _objects(value: JsonValue) -> Iterator[JsonObject]:
    return map(_object, value if isinstance(value, list) else [])


_HANDLERS: Final[dict[str, Callable[[_Draft, Record], None]]] = {
    "turn.started": _Draft.turn_started,
    "turn.completed": _Draft.turn_ended,
    "turn.failed": _Draft.turn_ended,
    "turn.cancelled": _Draft.turn_ended,
    "step.started": _Draft.step_started,
    "step.completed": _Draft.step_completed,
    "step.failed": _Draft.step_failed,
    "step.retrying": _Draft.step_retrying,
    "actions.requested": _Draft.actions_requested,
    "action.started": _Draft.action_started,
    "action.result": _Draft.action_result,
    "recovery.effect_found": _Draft.effect_found,
    "recovery.effect_settled": _Draft.effect_settled,
    "subagent.called": _Draft.subagent_called,
    "run.waiting": _Draft.run_waiting,
    "run.resumed": _Draft.run_resumed,
    "run.cancel_requested": _Draft.run_resumed,
    "input.requested": _Draft.input_requested,
    "input.resolved": _Draft.input_resolved,
    **dict.fromkeys(_ENDS, _Draft.run_ended),
}
