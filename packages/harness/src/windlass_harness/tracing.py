"""The trace of a run as spans, folded from its records.

The root span is the run. It contains the turns; a turn contains the model calls (one span for each attempt),
the tool calls and the waits for people. A tool call starts when it is executed, or when the model requested
it as long as nothing has executed it; after an interruption it starts again, with the number of its attempt.
Ids are derived from the run and the numbers of records, so that
folding the same records always gives the same trace. Every attribute is redacted. A trace holds names, ids,
numbers and reasons, and of the content only the arguments of calls, in one short line each.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import Any, Final, cast

from msgspec import UNSET, Struct, to_builtins
from pydantic import BaseModel, JsonValue
from pydantic.alias_generators import to_camel
from pydantic_core import to_json

from windlass_harness.record import Record
from windlass_harness.redact import sanitize_for_trace
from windlass_harness.views.fold import ANYWHERE, Position, fold, text_in
from windlass_harness.views.payloads import SKIPPED_CODE, action_name
from windlass_protocol import HarnessTrace, InputKind, JsonObject, TraceEvent, TraceOutcome, TraceSpan
from windlass_protocol.bodies import Body, Part, data_of, or_none
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import records
from windlass_protocol.unchecked import changed, maker

LLM_SPAN: Final = "llm.complete"
TOOL_SPAN: Final = "tool.dispatch"
WAIT_SPAN: Final = "wait"

ARGUMENTS_CHARS_MAX: Final = 80
"""Characters of the arguments of a call on its span."""
_ARGUMENT_CHARS_MAX: Final = 40
_MASKED_CHARS_MAX: Final = 2_000
"""A longer argument is not shown: a secret is masked in a whole text only."""
_WAIT_FIELDS: Final = ("waitsSince", "waitsOn", "waitsUntil")
_INTERRUPTED: Final = "interruptedAt"
"""The attribute of a call that a crash broke off."""

_ENDS: Final = {
    records.RunCompleted.TYPE: TraceOutcome.OK,
    records.RunFailed.TYPE: TraceOutcome.ERROR,
    records.RunCancelled.TYPE: TraceOutcome.CANCELLED,
    records.RunBudgetExhausted.TYPE: TraceOutcome.BUDGET_EXHAUSTED,
}

_POLICY_EVENTS: Final[dict[type[records.PolicyDecision], str]] = {
    records.AllowDecision: "policy.allowed",
    records.DenyDecision: "policy.denied",
    records.AskDecision: "policy.asked",
    records.ModifyDecision: "policy.modified",
    records.InterruptDecision: "policy.interrupted",
    records.DeferDecision: "policy.deferred",
}

_EVENT_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    records.RunWaiting.TYPE: ("on", "until"),
    records.RunResumed.TYPE: ("reason", "epoch"),
    records.RunCancelRequested.TYPE: ("by", "reason"),
    records.StepRetrying.TYPE: ("code", "message", "attempt", "delay_ms"),
    records.BudgetWarned.TYPE: ("name", "used", "limit"),
    records.BudgetExhausted.TYPE: ("exceeded",),
    records.HookCompleted.TYPE: ("hook_id", "point", "status", "changed", "vetoed", "duration_ms"),
    records.HookFailed.TYPE: ("hook_id", "point", "status", "error"),
    records.CompactionRequested.TYPE: ("model_id", "usage_input_tokens"),
    records.CompactionCompleted.TYPE: ("model_id", "input_tokens_before", "input_tokens_after"),
    records.CompactionFailed.TYPE: ("code", "message"),
    records.OutputRejected.TYPE: ("schema_id", "attempt"),
    records.OutputFailed.TYPE: ("schema_id", "attempts"),
    records.SubagentCalled.TYPE: ("call_id", "child_session_id", "name"),
    records.RecoveryStarted.TYPE: ("epoch", "reason"),
    records.RecoveryEffectFound.TYPE: ("call_id", "effect", "tool_name"),
    records.RecoveryEffectSettled.TYPE: ("call_id", "choice", "by"),
}
"""Records that become events of a trace, with the fields that each event shows."""

_USAGE_FIELDS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "cost_micros",
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
    entries: Iterable[Record],
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
    start_state = replace(
        before,
        run_id=run_id or before.run_id,
        chat_id=chat_id or before.chat_id,
        user_id=user_id or before.user_id,
    )
    return fold(_Draft(start_state), entries)


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
        body = record.body
        if self._trace is None:
            if isinstance(body, records.RunStarted):
                self._start(record, body)
        elif self._trace.ended_at is None and _is_ours(record, self._trace):
            self._note(record)
            if body is not None and (handler := _HANDLERS.get(type(body))):
                handler(self, record, body)

    def _start(self, record: Record, run: records.RunStarted) -> None:
        if self._state.run_id not in {None, run.run_id}:
            return
        metadata = run.metadata or {}
        self._trace = HarnessTrace(
            trace_id=run.run_id,
            session_id=record.session_id,
            chat_id=self._state.chat_id or text_in(metadata, "chatId") or record.session_id,
            user_id=self._state.user_id or text_in(metadata, "userId") or "",
            started_at=record.at,
        )
        facts = _pick(run, "agent_id", "mode", "model_id", "package_fingerprint", "goal_id")
        self._begin("run", record, run.run_id, "run", facts)

    # spans

    def turn_started(self, record: Record, turn: records.TurnStarted) -> None:
        self._finish("turn", record.at, {})
        self._begin("turn", record, self._id("turn", record), "turn", _pick(turn, "turn_id", "sequence"))

    def turn_ended(
        self, record: Record, end: records.TurnCompleted | records.TurnFailed | records.TurnCancelled
    ) -> None:
        self._finish("turn", record.at, _pick(end, "code", "message", "reason"))

    def step_started(self, record: Record, step: records.StepStarted) -> None:
        self._finish("step", record.at, {"interrupted": True})
        self._begin_step(record, record.at, step)

    def step_completed(self, record: Record, step: records.StepCompleted) -> None:
        if "step" not in self._open:
            self._begin_step(record, self._retried_at or record.at, step)
        facts = _pick(step, "finish_reason", "cost_usd", "latency_ms", "queued_ms")
        self._finish("step", record.at, {**facts, **_pick(step.usage, *_USAGE_FIELDS)})

    def step_failed(self, record: Record, step: records.StepFailed) -> None:
        if "step" not in self._open and self._retried_at is not None:
            self._begin_step(record, self._retried_at, step)
        self._finish("step", record.at, _pick(step, "code", "message"))

    def step_retrying(self, record: Record, retry: records.StepRetrying) -> None:
        self._finish("step", record.at, _pick(retry, "code", "message"))
        self._retried_at = record.at

    def actions_requested(self, record: Record, requested: records.ActionsRequested) -> None:
        for index, action in enumerate(requested.actions):
            kind, name = str(action.__struct_config__.tag), action_name(action)
            call = _RequestedCall(call_id=action.call_id, kind=kind, tool_name=name)
            facts = {**data_of(call), **_arguments(action.input)}
            self._begin_call(record, index, call, facts, above=requested.parent_call_id)

    def policy_decided(self, record: Record, decided: records.PolicyDecided) -> None:
        """A call that is tried again later waits: a timer of a workflow, or a call that a policy deferred."""
        call_id = decided.call_id
        if call_id is None or not isinstance(decided.decision, records.DeferDecision):
            return
        key, call = _timer_key(call_id), _call_key(call_id)
        if call in self._open and key not in self._open:
            facts = {**_pick(decided, "call_id", "tool_name"), "kind": "timer"}
            self._begin(key, record, self._id("wait", record), WAIT_SPAN, facts, above=call)

    def action_started(self, record: Record, start: records.ActionStarted) -> None:
        key = _call_key(start.call_id)
        if key not in self._open:
            facts = _pick(start, "call_id", "tool_name")
            self._begin_call(record, 0, start, facts, above=start.parent_call_id)
        at = self._open[key]
        facts = {**_pick(start, "effect", "mode"), **_arguments(or_none(start.arguments))}
        attrs = dict(self._spans[at].attrs or {})
        if attrs.pop(_INTERRUPTED, None) is not None:
            before = attrs.get("attempt")
            facts["attempt"] = (before if isinstance(before, int) else 1) + 1
        changes: dict[str, object] = {"attrs": {**attrs, **_clean(facts)}}
        if _timer_key(start.call_id) in self._open:
            # The wait is a part of the call.
            self._finish(_timer_key(start.call_id), record.at, {})
        else:
            changes["start_at"] = record.at
        self._change(at, changes)

    def action_result(self, record: Record, settled: records.ActionResult) -> None:
        error = settled.error
        facts: JsonObject = {**_pick(settled, "status", "duration_ms"), **_pick(error, "code", "message")}
        if error is not None and error.code == SKIPPED_CODE:
            facts = {"status": SKIPPED_CODE}
        self._finish(_timer_key(settled.result.call_id), record.at, {})
        self._finish(_call_key(settled.result.call_id), record.at, facts)

    def effect_found(self, record: Record, effect: records.RecoveryEffectFound) -> None:
        at = self._open.get(_call_key(effect.call_id))
        if at is not None and effect.begun is not False:
            self._add_facts(at, {_INTERRUPTED: record.at})

    def effect_settled(self, record: Record, effect: records.RecoveryEffectSettled) -> None:
        if effect.choice == "skip":
            # Of an early journal: later ones have a result before the decision.
            self._finish(_call_key(effect.call_id), record.at, {"status": SKIPPED_CODE})

    def subagent_called(self, record: Record, call: records.SubagentCalled) -> None:
        at = self._open.get(_call_key(call.call_id))
        if at is not None:
            self._add_facts(at, _pick(call, "child_session_id", "child_run_id", "name"))

    def input_requested(self, record: Record, requested: records.InputRequested) -> None:
        for index, request in enumerate(requested.requests):
            facts = {**_pick(request, "request_id", "kind"), **_pick(request.action, "call_id", "tool_name")}
            key = _wait_key(request.request_id)
            if key not in self._open:
                if requested.child_session_id is None:
                    # A request of a subagent is about its own calls, even if their ids are equal.
                    self._asked_by[key] = _call_key(request.action.call_id)
                self._begin(key, record, f"{self._id('wait', record)}.{index}", WAIT_SPAN, facts)

    def input_resolved(self, record: Record, resolved: records.InputResolved) -> None:
        for resolution in resolved.resolutions:
            key = _wait_key(resolution.request_id)
            if key in self._open:
                kind = (self._spans[self._open[key]].attrs or {}).get("kind")
                facts = {
                    **_pick(resolution, "outcome"),
                    **_pick(resolution.response, "responder", "option_id"),
                }
                self._finish(key, record.at, facts)
                call = self._asked_by.pop(key, None)
                if call is not None and InputKind.QUESTION in (resolution.kind, kind):
                    # The answer is the result of the call; no other record follows.
                    self._finish(call, record.at, {"status": "completed"})

    def run_waiting(self, record: Record, wait: records.RunWaiting) -> None:
        since, on, until = _WAIT_FIELDS
        facts: JsonObject = {since: record.at, on: wait.on}
        if wait.until is not None:
            facts[until] = wait.until
        self._add_facts(self._open["run"], facts)

    def run_resumed(self, record: Record, resumed: Body) -> None:
        at = self._open["run"]
        attrs = self._spans[at].attrs or {}
        if _WAIT_FIELDS[0] in attrs:
            rest = {name: value for name, value in attrs.items() if name not in _WAIT_FIELDS}
            self._change(at, {"attrs": rest})

    def run_ended(self, record: Record, end: Body) -> None:
        self.run_resumed(record, end)
        for key in [key for key in self._open if key not in {"run", "turn"}]:
            self._finish(key, record.at, {"interrupted": True})
        self._asked_by.clear()
        self._finish("turn", record.at, {})
        facts = {
            **_pick(end, "reason", "exceeded"),
            **_pick(getattr(end, "error", None), "code", "kind", "message"),
        }
        self._finish("run", record.at, facts)
        ended = {"ended_at": record.at, "outcome": _ENDS[record.type]}
        self._trace = None if self._trace is None else self._trace.model_copy(update=ended)

    def _begin_step(
        self,
        record: Record,
        start_at: str,
        step: records.StepStarted | records.StepCompleted | records.StepFailed,
    ) -> None:
        self._retried_at = None
        facts = _pick(step, "model_id", "turn_id", "step_index")
        facts["attempt"] = record.attempt or 1
        self._begin("step", record, self._id("step", record), LLM_SPAN, facts, start_at=start_at)

    def _begin_call(
        self,
        record: Record,
        index: int,
        call: "_RequestedCall | records.ActionStarted",
        facts: JsonObject,
        *,
        above: str | None,
    ) -> None:
        key = _call_key(call.call_id)
        if key not in self._open:
            span_id = f"{self._id('call', record)}.{index}"
            # A call of a program belongs to the call of the program.
            name = f"{TOOL_SPAN}:{call.tool_name}"
            self._begin(key, record, span_id, name, facts, above=_call_key(above))

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
        name, body = record.type, record.body
        if isinstance(body, records.PolicyDecided):
            name = _POLICY_EVENTS[type(body.decision)]
            facts = {
                **_pick(body, "stage", "call_id", "tool_name"),
                **_pick(body.decision, "code", "reason"),
            }
        elif isinstance(body, records.ProblemReported):
            facts = _pick(body.problem, "severity", "description", "decision_id")
        elif body is not None and name in _EVENT_FIELDS:
            facts = _pick(body, *_EVENT_FIELDS[name])
        else:
            return
        self._events.append(
            _event(
                event_id=self._id("event", record),
                span_id=self._span_of(getattr(body, "call_id", None)),
                name=name,
                at=record.at,
                attrs=_clean(facts),
            )
        )

    def _span_of(self, call_id: str | None) -> str:
        """Return the innermost open span that an event belongs to."""
        keys = (_call_key(call_id), "step", "turn", "run")
        return next(self._spans[self._open[key]].span_id for key in keys if key in self._open)


def _clean(facts: JsonObject) -> JsonObject:
    return cast(JsonObject, sanitize_for_trace(facts))


def _arguments(arguments: JsonValue) -> JsonObject:
    """Return the fact that shows arguments in one line, such as `order 1042, cents 4990`; masked and cut."""
    line = ""
    for name, value in arguments.items() if isinstance(arguments, dict) else ():
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


def _pick(part: Struct | BaseModel | None, *names: str) -> JsonObject:
    """Return some fields by the names that they have on the wire, without those that the type lacks."""
    return {
        to_camel(name): to_builtins(value)
        for name in names
        if (value := getattr(part, name, None)) is not None and value is not UNSET
    }


class _RequestedCall(Part, frozen=True, kw_only=True):
    call_id: str
    kind: str
    tool_name: str


def _call_key(call_id: str | None) -> str:
    return f"call {call_id}"


def _timer_key(call_id: str) -> str:
    return f"timer {call_id}"


def _wait_key(request_id: str) -> str:
    return f"wait {request_id}"


def _is_ours(record: Record, trace: HarnessTrace) -> bool:
    run_id = getattr(record.body, "run_id", None) if record.type.startswith("run.") else None
    return (run_id or record.run_id or trace.trace_id) == trace.trace_id


_HANDLERS: Final[dict[type[Body], Callable[[_Draft, Record, Any], None]]] = {
    records.TurnStarted: _Draft.turn_started,
    records.TurnCompleted: _Draft.turn_ended,
    records.TurnFailed: _Draft.turn_ended,
    records.TurnCancelled: _Draft.turn_ended,
    records.StepStarted: _Draft.step_started,
    records.StepCompleted: _Draft.step_completed,
    records.StepFailed: _Draft.step_failed,
    records.StepRetrying: _Draft.step_retrying,
    records.ActionsRequested: _Draft.actions_requested,
    records.PolicyDecided: _Draft.policy_decided,
    records.ActionStarted: _Draft.action_started,
    records.ActionResult: _Draft.action_result,
    records.RecoveryEffectFound: _Draft.effect_found,
    records.RecoveryEffectSettled: _Draft.effect_settled,
    records.SubagentCalled: _Draft.subagent_called,
    records.RunWaiting: _Draft.run_waiting,
    records.RunResumed: _Draft.run_resumed,
    records.RunCancelRequested: _Draft.run_resumed,
    records.InputRequested: _Draft.input_requested,
    records.InputResolved: _Draft.input_resolved,
    records.RunCompleted: _Draft.run_ended,
    records.RunFailed: _Draft.run_ended,
    records.RunCancelled: _Draft.run_ended,
    records.RunBudgetExhausted: _Draft.run_ended,
}
