"""The one fold from events to what a chat shows: records and live deltas in, changes out.

`ChatFold` remembers how much of each text was shown, so a text is shown once, whether it came in deltas, only
as a record, or in part as both. Surfaces (SSE shapes, chat protocols, the sidecar, the command) render its
changes, and keep no memory of events.
"""

from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from typing import Final, Literal

from msgspec import UNSET
from pydantic import JsonValue

from windlass_harness.record import Record, body_of
from windlass_harness.views.chat import step_message_id
from windlass_harness.views.fold import Handlers
from windlass_harness.views.payloads import (
    SKIPPED,
    UNSPOKEN,
    Action,
    StepPosition,
    action_name,
    action_of_intent,
    question_outcome,
    step_position,
    tool_call,
    tool_output,
    usage_model,
)
from windlass_harness.views.runs import RUN_END_BODIES, RUN_ENDS, RunEnd
from windlass_protocol import (
    ErrorInfo,
    Event,
    FinishReason,
    InputOutcome,
    InputRequest,
    InputResolution,
    JsonObject,
    RecoveryChoice,
    RunStatus,
    ToolOutput,
    ToolOutputType,
    Usage,
)
from windlass_protocol.bodies import or_none
from windlass_protocol.frozen import frozen
from windlass_protocol.generated import records

TextKind = Literal["text", "reasoning"]


@frozen
class StepStarted:
    """A step begins: the model is called."""

    step: int


@frozen
class StepVoided:
    """Everything that was shown of a step is void; it is shown again."""

    step: int


@frozen
class StepRetrying:
    """The model call failed and is repeated."""

    message: str


@frozen
class StepEnded:
    """The model has answered."""

    finish_reason: FinishReason
    usage: Usage | None


@frozen
class TextDelta:
    """More of a text; the first delta of a key begins it."""

    kind: TextKind
    key: str
    step: int
    delta: str
    message_id: str | None = None
    """The id of the chat message that the text is part of."""
    is_whole: bool = False
    """Whether the delta is the whole text: it replaces all deltas before it."""


@frozen
class TextEnded:
    """A text is complete; a text that was shown again may still continue."""

    kind: TextKind
    key: str


@frozen
class CallDelta:
    """More of the arguments of a call."""

    key: str
    step: int
    call_id: str
    name: str
    delta: str
    is_first: bool


@frozen
class CallRequested:
    """A call is requested; `streamed` are the arguments that deltas have shown."""

    key: str
    step: int
    action: Action
    streamed: str = ""
    parent_id: str | None = None
    """The id of the program's call that made it; None if the model requested it."""

    @property
    def parent_key(self) -> str | None:
        """The key of the program's call, which is of the same step."""
        above = self.key.removesuffix(self.action.call_id)
        return None if self.parent_id is None else f"{above}{self.parent_id}"

    @property
    def name(self) -> str:
        """The name of the tool."""
        return action_name(self.action)

    @property
    def arguments(self) -> JsonObject:
        """The arguments as chat clients see them: an object."""
        return tool_call(self.action).arguments


@frozen
class CallStarted:
    """A call is executed."""

    call_id: str


@frozen
class CallProgress:
    """Progress of a call."""

    key: str
    output: JsonValue


@frozen
class CallSettled:
    """A call has its result."""

    key: str
    call_id: str
    output: ToolOutput
    result: records.ActionResult | None
    """The result as recorded; None if there is no such record."""
    is_known: bool
    """False if no such call is open: the reader began later, or it is a second result."""


@frozen
class MessageReceived:
    """A message of the user; `is_first` if the run began with it."""

    key: str
    text: str
    is_first: bool


@frozen
class Ask:
    """A request to a person."""

    request: InputRequest
    call_key: str | None
    """The call that the request is about; for a subagent, the call that started it."""
    subagent: str | None = None
    """The run of the subagent that asks."""


@frozen
class RequestsOpened:
    """Requests to people."""

    asks: tuple[Ask, ...]


@frozen
class RequestAnswered:
    """A request to a person is settled."""

    ask: Ask
    resolution: InputResolution


@frozen
class SubagentStarted:
    """A subagent was started."""

    key: str
    call_key: str | None
    name: str


@frozen
class SubagentEnded:
    """A subagent has ended."""

    key: str
    name: str
    output: str
    error: str | None


@frozen
class StateChanged:
    """The state of the session has changed."""

    changed: JsonObject
    removed: tuple[str, ...]


@frozen
class Spent:
    """Tokens were used."""

    model: str | None
    usage: Usage


@frozen
class Noted:
    """An event of the runtime that a terminal mentions."""

    what: Literal["compacted", "recovering"]


@frozen
class RunWaiting:
    """The run waits for people."""

    asks: tuple[Ask, ...]


@frozen
class RunEnded:
    """The run has ended."""

    status: RunStatus
    output: JsonValue = None
    reason: str | None = None
    error: ErrorInfo | None = None
    exceeded: tuple[str, ...] = ()
    """The budgets that are exhausted."""
    usage: Usage = field(default_factory=Usage)


Change = (
    StepStarted
    | StepVoided
    | StepRetrying
    | StepEnded
    | TextDelta
    | TextEnded
    | CallDelta
    | CallRequested
    | CallStarted
    | CallProgress
    | CallSettled
    | MessageReceived
    | RequestsOpened
    | RequestAnswered
    | SubagentStarted
    | SubagentEnded
    | StateChanged
    | Spent
    | Noted
    | RunWaiting
    | RunEnded
)


@frozen
class ShownText:
    """A text of the current step, as far as it was shown."""

    kind: TextKind
    key: str
    message_id: str | None
    text: str = ""
    is_open: bool = False
    is_done: bool = False
    is_cut: bool = False
    """Whether its beginning was not seen: the reader joined in the middle of the step."""


@frozen
class ShownInput:
    """The arguments of a call that are being streamed; `shown` is the part that deltas have shown."""

    key: str
    name: str | None = None
    text: str = ""
    shown: str = ""


@frozen
class OpenCall:
    """A call without a result."""

    key: str
    step: int


ON_PEOPLE: Final = "input"
"""`on` of a run that waits for people."""
_NO_RESULT: Final = ToolOutput.model_construct(
    type=ToolOutputType.ERROR_TEXT, value="The run has ended, and no result of this call is known."
)


_ON: Final = Handlers["ChatFold", Event | Record, [], Iterator[Change]]()


class ChatFold:
    """The fold: what was shown so far, and the parts that are still open."""

    def __init__(self, run_id: str = "") -> None:
        self._run_id = run_id
        """The first part of all keys."""
        self._place: StepPosition | None = None
        self._step = -1
        """The number of the step among the steps that were shown; a retry keeps the number."""
        self._is_step_seen = False
        """Whether the start of the step was seen."""
        self._has_begun = False
        """Whether a call of the step was started; then the step is not void any more."""
        self._model: str | None = None
        self._has_words = False
        """Whether there was a message of the user."""
        self._texts: list[ShownText] = []
        self._inputs: dict[str, ShownInput] = {}
        self._calls: dict[str, OpenCall] = {}
        self._asks: dict[str, Ask] = {}
        self._subagents: dict[str, str] = {}
        self.is_run_over = False
        """Whether a run has ended, and nothing but records of the session came after it."""

    def apply(self, event: Event | Record) -> list[Change]:
        """Apply the next event of a run or a session; return the changes of the chat.

        Live deltas may be missing; unknown types are ignored.

        Raises:
            ValidationError: the data of a known type cannot be read.
        """
        of_session = event.type.startswith("session.")
        self.is_run_over = event.type in RUN_ENDS or (self.is_run_over and of_session)
        handle = _ON.by_type.get(event.type)
        return [] if handle is None else [*handle(self, event, body_of(event))]

    def apply_all(self, events: Iterable[Event | Record]) -> list[Change]:
        """Apply the next events; return the changes of the chat."""
        return [change for event in events for change in self.apply(event)]

    def resume(self, *, has_deltas: bool) -> None:
        """Continue for a reader that has the events so far, and perhaps live deltas of the last step.

        A fold has live deltas only of readers that it served from the beginning.
        """
        self._is_step_seen = self._is_step_seen and not has_deltas

    # steps

    @_ON.on(records.StepStarted)
    def step_started(self, event: Event | Record, body: records.StepStarted) -> Iterator[Change]:
        """Begin a new step, or a retry."""
        self._model = body.model_id or self._model
        position = step_position(body)
        if position == self._place and not self._has_begun:
            self._is_step_seen = True
            yield from self._step_again(None)
            return
        self._enter(position, is_seen=True)
        yield StepStarted(self._step)

    @_ON.on(records.StepRetrying)
    def step_retrying(self, event: Event | Record, body: records.StepRetrying) -> Iterator[Change]:
        yield from self._step_again(body.usage)
        yield StepRetrying(body.message or body.code)

    @_ON.on(records.StepCompleted)
    def step_completed(self, event: Event | Record, body: records.StepCompleted) -> Iterator[Change]:
        yield from self._report_usage(body.usage)
        yield StepEnded(body.finish_reason, usage_model(body.usage))

    @_ON.on(records.StepFailed)
    def step_failed(self, event: Event | Record, body: records.StepFailed) -> Iterator[Change]:
        yield from self._report_usage(body.usage)

    def _report_usage(self, usage: records.Usage | None) -> Iterator[Change]:
        """Report the usage of a step or an attempt."""
        used = usage_model(usage)
        if used is not None:
            yield Spent(self._model, used)

    def _enter(self, position: StepPosition, *, is_seen: bool) -> None:
        self._place, self._step, self._is_step_seen = position, self._step + 1, is_seen
        self._has_begun, self._texts, self._inputs = False, [], {}

    def _step_again(self, usage: records.Usage | None) -> Iterator[Change]:
        """Void the texts and calls of the step so far."""
        yield from self._report_usage(usage)
        of_step = [call_id for call_id, call in self._calls.items() if call.step == self._step]
        if self._has_begun or not (self._texts or self._inputs or of_step):
            return
        self._texts, self._inputs = [], {}
        for call_id in of_step:
            del self._calls[call_id]
        yield StepVoided(self._step)

    # texts

    @_ON.on(records.MessageAppended)
    def message_appended(self, event: Event | Record, body: records.MessageAppended) -> Iterator[Change]:
        at = self._current(event, step_position(body), "text")
        yield from self._append_text(at, body.message_delta, body.message_so_far)

    @_ON.on(records.ReasoningAppended)
    def reasoning_appended(self, event: Event | Record, body: records.ReasoningAppended) -> Iterator[Change]:
        at = self._current(event, step_position(body), "reasoning")
        yield from self._append_text(at, body.reasoning_delta, body.reasoning_so_far)

    @_ON.on(records.MessageCompleted)
    def message_completed(self, event: Event | Record, body: records.MessageCompleted) -> Iterator[Change]:
        yield from self._complete_text(self._current(event, step_position(body), "text"), body.message or "")

    @_ON.on(records.ReasoningCompleted)
    def reasoning_completed(
        self, event: Event | Record, body: records.ReasoningCompleted
    ) -> Iterator[Change]:
        yield from self._complete_text(self._current(event, step_position(body), "reasoning"), body.reasoning)

    def _append_text(self, at: int, delta: str, so_far: str | None) -> Iterator[Change]:
        text = self._texts[at]
        if so_far is not None:
            yield from self._extend_text(at, so_far)
        elif delta:
            is_cut = text.is_cut or not (text.text or self._is_step_seen)
            self._texts[at] = replace(text, text=text.text + delta, is_open=True, is_cut=is_cut)
            yield TextDelta(text.kind, text.key, self._step, delta, text.message_id)

    def _complete_text(self, at: int, whole: str) -> Iterator[Change]:
        text = self._texts[at]
        if text.is_cut and whole.endswith(text.text):
            # The reader has the beginning from before.
            self._texts[at] = replace(text, text=whole)
        else:
            yield from self._extend_text(at, whole, is_whole=not text.text)
        yield from self._end_text(at)
        if whole:
            self._texts[at] = replace(self._texts[at], is_done=True)
        else:
            del self._texts[at]

    def _extend_text(self, at: int, whole: str, *, is_whole: bool = False) -> Iterator[Change]:
        """Show the new end of a text; the whole step again, if the text does not continue what was shown."""
        text = self._texts[at]
        if text.is_cut or not whole.startswith(text.text):
            self._texts[at] = replace(text, text=whole, is_cut=False)
            yield from self._show_again()
        elif delta := whole[len(text.text) :]:
            # Other texts stay open: text that masking held back follows when they are complete.
            self._texts[at] = replace(text, text=whole, is_open=True)
            yield TextDelta(text.kind, text.key, self._step, delta, text.message_id, is_whole)

    def _show_again(self) -> Iterator[Change]:
        yield StepVoided(self._step)
        for at, text in enumerate(self._texts):
            if text.text:
                yield TextDelta(text.kind, text.key, self._step, text.text, text.message_id, is_whole=True)
                yield TextEnded(text.kind, text.key)
            self._texts[at] = replace(text, is_open=False)
        for call_id, call in self._inputs.items():
            if call.name is not None and call.shown:
                yield CallDelta(call.key, self._step, call_id, call.name, call.shown, is_first=True)

    def _end_texts(self) -> Iterator[Change]:
        for at in range(len(self._texts)):
            yield from self._end_text(at)

    def _end_text(self, at: int) -> Iterator[Change]:
        text = self._texts[at]
        if text.is_open:
            self._texts[at] = replace(text, is_open=False)
            yield TextEnded(text.kind, text.key)

    def _current(self, event: Event | Record, position: StepPosition, kind: TextKind) -> int:
        """Return the index of the text that an event continues; begin a new text if there is none."""
        if self._place != position:
            self._enter(position, is_seen=False)
        same = [at for at, text in enumerate(self._texts) if text.kind == kind]
        if same and not self._texts[same[-1]].is_done:
            return same[-1]
        number = f".{len(same)}" if same else ""
        key = f"{self._run_id}/{self._step}{number}" + ("" if kind == "text" else "/thought")
        message_id = None
        if event.session_id is not None:
            message_id = step_message_id(
                event.session_id, turn_id=position.turn_id, step_index=position.step_index
            )
        self._texts.append(ShownText(kind, key, message_id))
        return len(self._texts) - 1

    # calls

    @_ON.on(records.ActionInputAppended)
    def input_appended(self, event: Event | Record, body: records.ActionInputAppended) -> Iterator[Change]:
        call = self._inputs.get(body.call_id) or ShownInput(self._key(body.call_id))
        text = call.text + body.input_delta if body.input_so_far is None else body.input_so_far
        name = body.tool_name or call.name
        # If the pieces do not match, the complete call corrects them: it comes last.
        delta = text[len(call.shown) :] if name is not None and text.startswith(call.shown) else ""
        self._inputs[body.call_id] = replace(call, name=name, text=text, shown=call.shown + delta)
        if name is not None and delta:
            yield CallDelta(call.key, self._step, body.call_id, name, delta, is_first=not call.shown)

    @_ON.on(records.ActionsRequested)
    def actions_requested(self, event: Event | Record, body: records.ActionsRequested) -> Iterator[Change]:
        yield from self._end_texts()
        yield from self._request_calls(body.actions, body.parent_call_id)

    @_ON.on(records.ActionStarted)
    def action_started(self, event: Event | Record, body: records.ActionStarted) -> Iterator[Change]:
        self._has_begun = True
        if body.call_id not in self._calls:
            yield from self._request_calls([action_of_intent(body)], body.parent_call_id)
        yield CallStarted(body.call_id)

    @_ON.on(records.ActionPartial)
    def action_partial(self, event: Event | Record, body: records.ActionPartial) -> Iterator[Change]:
        call = self._calls.get(body.call_id)
        if call is not None:
            yield CallProgress(call.key, body.output)

    @_ON.on(records.ActionResult)
    def action_result(self, event: Event | Record, body: records.ActionResult) -> Iterator[Change]:
        self._has_begun = True
        yield self._settle_call(body.result.call_id, tool_output(body), body)

    @_ON.on(records.RecoveryEffectSettled)
    def effect_settled(self, event: Event | Record, body: records.RecoveryEffectSettled) -> Iterator[Change]:
        """Settle an interrupted call that is skipped."""
        if body.choice is RecoveryChoice.SKIP and body.call_id in self._calls:
            # Of an early journal: later ones have a result before the decision.
            yield self._settle_call(body.call_id, SKIPPED)

    def _request_calls(self, actions: Iterable[Action], parent_id: str | None = None) -> Iterator[Change]:
        for action in actions:
            key, shown = self._key(action.call_id), self._inputs.pop(action.call_id, None)
            self._calls[action.call_id] = OpenCall(key, self._step)
            yield CallRequested(key, self._step, action, "" if shown is None else shown.shown, parent_id)

    def _settle_call(
        self, call_id: str, output: ToolOutput, data: records.ActionResult | None = None
    ) -> CallSettled:
        call = self._calls.pop(call_id, None)
        key = self._key(call_id) if call is None else call.key
        return CallSettled(key, call_id, output, data, is_known=call is not None)

    def _key(self, call_id: str) -> str:
        # Models give the same id to calls of different steps, and to those of their subagents.
        return f"{self._run_id}/{self._step}/{call_id}"

    # people and subagents

    @_ON.on(records.MessageReceived)
    def message_received(self, event: Event | Record, body: records.MessageReceived) -> Iterator[Change]:
        if body.delivery in UNSPOKEN:
            return
        is_first, self._has_words = not self._has_words, True
        yield MessageReceived(f"{self._run_id}/said/{event.seq}", body.message, is_first)

    @_ON.on(records.InputRequested)
    def input_requested(self, event: Event | Record, body: records.InputRequested) -> Iterator[Change]:
        self._has_begun = True
        asks: list[Ask] = []
        for request in body.requests:
            if body.child_session_id is not None:
                call_id = body.call_id or ""
                call = self._calls.get(call_id)
                ask = Ask(request, None if call is None else call.key, self._subagents.get(call_id))
            else:
                if request.action.call_id not in self._calls:
                    yield from self._request_calls([request.action])
                ask = Ask(request, self._calls[request.action.call_id].key)
            self._asks[request.request_id] = ask
            asks.append(ask)
        yield RequestsOpened(tuple(asks))

    @_ON.on(records.InputResolved)
    def input_resolved(self, event: Event | Record, body: records.InputResolved) -> Iterator[Change]:
        for resolution in body.resolutions:
            ask = self._asks.pop(resolution.request_id, None)
            if ask is None:
                continue
            yield RequestAnswered(ask, resolution)
            answer = question_outcome(ask.request, resolution)
            if answer is not None and ask.subagent is None:
                yield self._settle_call(ask.request.action.call_id, answer)

    @_ON.on(records.RunWaiting)
    def run_waiting(self, event: Event | Record, body: records.RunWaiting) -> Iterator[Change]:
        if body.on == ON_PEOPLE and self._asks:
            yield from self._end_texts()
            yield RunWaiting(tuple(self._asks.values()))

    @_ON.on(records.SubagentCalled)
    def subagent_called(self, event: Event | Record, body: records.SubagentCalled) -> Iterator[Change]:
        key = self._subagents[body.call_id] = body.child_run_id or body.child_session_id
        call = self._calls.get(body.call_id)
        yield SubagentStarted(key, None if call is None else call.key, body.name)

    @_ON.on(records.SubagentCompleted)
    def subagent_completed(self, event: Event | Record, body: records.SubagentCompleted) -> Iterator[Change]:
        if body.usage is not None:
            yield Spent(None, usage_model(body.usage) or Usage())
        key = self._subagents.pop(body.call_id, None)
        if key is not None:
            error = body.error.message if body.error is not None else None
            failed = error or (f"{body.subagent_name} failed" if body.is_error else None)
            yield SubagentEnded(key, body.subagent_name, body.output, failed)

    @_ON.on(records.SessionStateChanged)
    def state_changed(self, event: Event | Record, body: records.SessionStateChanged) -> Iterator[Change]:
        yield StateChanged(dict(body.set or {}), tuple(body.removed or ()))

    @_ON.on(records.RecoveryStarted, records.CompactionCompleted)
    def noted(
        self, event: Event | Record, body: records.RecoveryStarted | records.CompactionCompleted
    ) -> Iterator[Change]:
        yield Noted("compacted" if isinstance(body, records.CompactionCompleted) else "recovering")

    @_ON.on(*RUN_END_BODIES)
    def run_ended(self, event: Event | Record, body: RunEnd) -> Iterator[Change]:
        yield from self._end_texts()
        yield from self._give_up()
        output: JsonValue = None
        if isinstance(body, records.RunCompleted):
            is_typed = body.structured_output is not UNSET
            output = or_none(body.structured_output) if is_typed else body.output
        yield RunEnded(
            RUN_ENDS[event.type],
            output=output,
            reason=body.reason if isinstance(body, records.RunCancelled) else None,
            error=None if isinstance(body, records.RunCompleted) else body.error,
            exceeded=tuple(body.exceeded) if isinstance(body, records.RunBudgetExhausted) else (),
            usage=usage_model(body.usage) or Usage(),
        )

    def _give_up(self) -> Iterator[Change]:
        """Settle the requests and calls that are open when the run ends."""
        for name, ask in self._asks.items():
            yield RequestAnswered(ask, InputResolution(request_id=name, outcome=InputOutcome.CANCELLED))
        self._asks.clear()
        for call_id in tuple(self._calls):
            yield self._settle_call(call_id, _NO_RESULT)
