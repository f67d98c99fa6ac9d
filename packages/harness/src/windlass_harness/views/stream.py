"""The one fold from events to what a chat shows: records and live deltas in, changes out.

`ChatFold` remembers how much of each text was shown, so a text is shown once, whether it came in deltas, only
as a record, or in part as both. Surfaces (SSE shapes, chat protocols, the sidecar, the command) render its
changes, and keep no memory of events.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace
from functools import partial
from typing import Final, Literal

from pydantic import JsonValue

from windlass_harness.record import Record
from windlass_harness.views.chat import step_message_id
from windlass_harness.views.fold import read, text_in
from windlass_harness.views.payloads import (
    CORRECTIONS,
    SKIPPED,
    Place,
    action_name,
    question_outcome,
    started_action,
    tool_call,
    tool_output,
)
from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import (
    ActionInputAppendedData,
    ActionPartialData,
    ActionResultData,
    ActionsRequestedData,
    ActionStartedData,
    ErrorInfo,
    Event,
    InputOutcome,
    InputRequest,
    InputRequestedData,
    InputResolution,
    InputResolvedData,
    JsonObject,
    MessageReceivedData,
    RecoveryChoice,
    RecoveryEffectSettledData,
    RunBudgetExhaustedData,
    RunStatus,
    RuntimeActionRequest,
    RunWaitingData,
    SessionStateChangedData,
    StepStartedData,
    SubagentCalledData,
    SubagentCompletedData,
    ToolOutput,
    ToolOutputType,
    Usage,
)
from windlass_protocol.frozen import frozen

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
    """The model has answered. `usage` is as recorded."""

    finish_reason: str | None
    usage: JsonValue


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
    action: RuntimeActionRequest
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
    result: ActionResultData | None
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
    """Requests to people. `recorded` are the same requests as recorded."""

    asks: tuple[Ask, ...]
    recorded: JsonValue


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
_FIELDS: Final[dict[TextKind, str]] = {"text": "message", "reasoning": "reasoning"}
_NO_RESULT: Final = ToolOutput.model_construct(
    type=ToolOutputType.ERROR_TEXT, value="The run has ended, and no result of this call is known."
)


class ChatFold:
    """The fold: what was shown so far, and the parts that are still open."""

    def __init__(self, run_id: str = "") -> None:
        self._run_id = run_id
        """The first part of all keys."""
        self._place: Place | None = None
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
        handle = _HANDLERS.get(event.type)
        return [] if handle is None else [*handle(self, event)]

    def apply_all(self, events: Iterable[Event | Record]) -> list[Change]:
        """Apply the next events; return the changes of the chat."""
        return [change for event in events for change in self.apply(event)]

    def resume(self, *, has_deltas: bool) -> None:
        """Continue for a reader that has the events so far, and perhaps live deltas of the last step.

        A fold has live deltas only of readers that it served from the beginning.
        """
        self._is_step_seen = self._is_step_seen and not has_deltas

    # steps

    def step_started(self, event: Event | Record) -> Iterator[Change]:
        """Begin a new step, or a retry."""
        data = read(StepStartedData, event.data)
        self._model = data.model_id or self._model
        place = Place(data.turn_id, data.step_index)
        if place == self._place and not self._has_begun:
            self._is_step_seen = True
            yield from self._step_again(event)
            return
        self._enter(place, is_seen=True)
        yield StepStarted(self._step)

    def step_retrying(self, event: Event | Record) -> Iterator[Change]:
        yield from self._step_again(event)
        yield StepRetrying(text_in(event.data, "message") or str(event.data.get("code")))

    def step_completed(self, event: Event | Record) -> Iterator[Change]:
        yield from self.spent(event)
        yield StepEnded(text_in(event.data, "finishReason"), event.data.get("usage"))

    def spent(self, event: Event | Record) -> Iterator[Change]:
        """Report the usage of a step or an attempt."""
        used = event.data.get("usage")
        if isinstance(used, dict):
            yield Spent(self._model, Usage.model_validate(used))

    def _enter(self, place: Place, *, is_seen: bool) -> None:
        self._place, self._step, self._is_step_seen = place, self._step + 1, is_seen
        self._has_begun, self._texts, self._inputs = False, [], {}

    def _step_again(self, event: Event | Record) -> Iterator[Change]:
        """Void the texts and calls of the step so far."""
        yield from self.spent(event)
        of_step = [call_id for call_id, call in self._calls.items() if call.step == self._step]
        if self._has_begun or not (self._texts or self._inputs or of_step):
            return
        self._texts, self._inputs = [], {}
        for call_id in of_step:
            del self._calls[call_id]
        yield StepVoided(self._step)

    # texts

    def appended(self, event: Event | Record, kind: TextKind) -> Iterator[Change]:
        name = _FIELDS[kind]
        at, delta = self._current(event, kind), text_in(event.data, f"{name}Delta") or ""
        text, so_far = self._texts[at], text_in(event.data, f"{name}SoFar")
        if so_far is not None:
            yield from self._grown(at, so_far)
        elif delta:
            is_cut = text.is_cut or not (text.text or self._is_step_seen)
            self._texts[at] = replace(text, text=text.text + delta, is_open=True, is_cut=is_cut)
            yield TextDelta(kind, text.key, self._step, delta, text.message_id)

    def completed(self, event: Event | Record, kind: TextKind) -> Iterator[Change]:
        at, whole = self._current(event, kind), text_in(event.data, _FIELDS[kind]) or ""
        text = self._texts[at]
        if text.is_cut and whole.endswith(text.text):
            # The reader has the beginning from before.
            self._texts[at] = replace(text, text=whole)
        else:
            yield from self._grown(at, whole, is_whole=not text.text)
        yield from self._ended(at)
        if whole:
            self._texts[at] = replace(self._texts[at], is_done=True)
        else:
            del self._texts[at]

    def _grown(self, at: int, whole: str, *, is_whole: bool = False) -> Iterator[Change]:
        """Show the new end of a text; the whole step again, if the text does not continue what was shown."""
        text = self._texts[at]
        if text.is_cut or not whole.startswith(text.text):
            self._texts[at] = replace(text, text=whole, is_cut=False)
            yield from self._shown_again()
        elif delta := whole[len(text.text) :]:
            # Other texts stay open: text that masking held back follows when they are complete.
            self._texts[at] = replace(text, text=whole, is_open=True)
            yield TextDelta(text.kind, text.key, self._step, delta, text.message_id, is_whole)

    def _shown_again(self) -> Iterator[Change]:
        yield StepVoided(self._step)
        for at, text in enumerate(self._texts):
            if text.text:
                yield TextDelta(text.kind, text.key, self._step, text.text, text.message_id, is_whole=True)
                yield TextEnded(text.kind, text.key)
            self._texts[at] = replace(text, is_open=False)
        for call_id, call in self._inputs.items():
            if call.name is not None and call.shown:
                yield CallDelta(call.key, self._step, call_id, call.name, call.shown, is_first=True)

    def _all_ended(self) -> Iterator[Change]:
        for at in range(len(self._texts)):
            yield from self._ended(at)

    def _ended(self, at: int) -> Iterator[Change]:
        text = self._texts[at]
        if text.is_open:
            self._texts[at] = replace(text, is_open=False)
            yield TextEnded(text.kind, text.key)

    def _current(self, event: Event | Record, kind: TextKind) -> int:
        """Return the index of the text that an event continues; begin a new text if there is none."""
        index = event.data.get("stepIndex")
        place = Place(text_in(event.data, "turnId") or "", index if isinstance(index, int) else 0)
        if self._place != place:
            self._enter(place, is_seen=False)
        same = [at for at, text in enumerate(self._texts) if text.kind == kind]
        if same and not self._texts[same[-1]].is_done:
            return same[-1]
        number = f".{len(same)}" if same else ""
        key = f"{self._run_id}/{self._step}{number}" + ("" if kind == "text" else "/thought")
        message_id = None
        if event.session_id is not None:
            message_id = step_message_id(event.session_id, turn_id=place[0], step_index=place[1])
        self._texts.append(ShownText(kind, key, message_id))
        return len(self._texts) - 1

    # calls

    def input_appended(self, event: Event | Record) -> Iterator[Change]:
        data = read(ActionInputAppendedData, event.data)
        call = self._inputs.get(data.call_id) or ShownInput(self._key(data.call_id))
        so_far = text_in(event.data, "inputSoFar")
        text = call.text + data.input_delta if so_far is None else so_far
        name = data.tool_name or call.name
        # If the pieces do not match, the complete call corrects them: it comes last.
        delta = text[len(call.shown) :] if name is not None and text.startswith(call.shown) else ""
        self._inputs[data.call_id] = replace(call, name=name, text=text, shown=call.shown + delta)
        if name is not None and delta:
            yield CallDelta(call.key, self._step, data.call_id, name, delta, is_first=not call.shown)

    def actions_requested(self, event: Event | Record) -> Iterator[Change]:
        yield from self._all_ended()
        data = read(ActionsRequestedData, event.data)
        yield from self._requested(data.actions, data.parent_call_id)

    def action_started(self, event: Event | Record) -> Iterator[Change]:
        data = read(ActionStartedData, event.data)
        self._has_begun = True
        if data.call_id not in self._calls:
            yield from self._requested([started_action(data)], data.parent_call_id)
        yield CallStarted(data.call_id)

    def action_partial(self, event: Event | Record) -> Iterator[Change]:
        data = read(ActionPartialData, event.data)
        call = self._calls.get(data.call_id)
        if call is not None:
            yield CallProgress(call.key, data.output)

    def action_result(self, event: Event | Record) -> Iterator[Change]:
        data = read(ActionResultData, event.data)
        self._has_begun = True
        yield self._settled(data.result.call_id, tool_output(data), data)

    def effect_settled(self, event: Event | Record) -> Iterator[Change]:
        """Settle an interrupted call that is skipped."""
        data = read(RecoveryEffectSettledData, event.data)
        if data.choice is RecoveryChoice.SKIP and data.call_id in self._calls:
            # Of an early journal: later ones have a result before the decision.
            yield self._settled(data.call_id, SKIPPED)

    def _requested(
        self, actions: Iterable[RuntimeActionRequest], parent_id: str | None = None
    ) -> Iterator[Change]:
        for action in actions:
            key, shown = self._key(action.call_id), self._inputs.pop(action.call_id, None)
            self._calls[action.call_id] = OpenCall(key, self._step)
            yield CallRequested(key, self._step, action, "" if shown is None else shown.shown, parent_id)

    def _settled(self, call_id: str, output: ToolOutput, data: ActionResultData | None = None) -> CallSettled:
        call = self._calls.pop(call_id, None)
        key = self._key(call_id) if call is None else call.key
        return CallSettled(key, call_id, output, data, is_known=call is not None)

    def _key(self, call_id: str) -> str:
        # Models give the same id to calls of different steps, and to those of their subagents.
        return f"{self._run_id}/{self._step}/{call_id}"

    # people and subagents

    def message_received(self, event: Event | Record) -> Iterator[Change]:
        data = read(MessageReceivedData, event.data)
        if data.delivery in CORRECTIONS:
            return
        is_first, self._has_words = not self._has_words, True
        yield MessageReceived(f"{self._run_id}/said/{event.seq}", data.message, is_first)

    def input_requested(self, event: Event | Record) -> Iterator[Change]:
        data = read(InputRequestedData, event.data)
        self._has_begun = True
        asks: list[Ask] = []
        for request in data.requests:
            if data.child_session_id is not None:
                call_id = data.call_id or ""
                call = self._calls.get(call_id)
                ask = Ask(request, None if call is None else call.key, self._subagents.get(call_id))
            else:
                if request.action.call_id not in self._calls:
                    yield from self._requested([request.action])
                ask = Ask(request, self._calls[request.action.call_id].key)
            self._asks[request.request_id] = ask
            asks.append(ask)
        yield RequestsOpened(tuple(asks), event.data["requests"])

    def input_resolved(self, event: Event | Record) -> Iterator[Change]:
        for resolution in read(InputResolvedData, event.data).resolutions:
            ask = self._asks.pop(resolution.request_id, None)
            if ask is None:
                continue
            yield RequestAnswered(ask, resolution)
            answer = question_outcome(ask.request, resolution)
            if answer is not None and ask.subagent is None:
                yield self._settled(ask.request.action.call_id, answer)

    def run_waiting(self, event: Event | Record) -> Iterator[Change]:
        if read(RunWaitingData, event.data).on == ON_PEOPLE and self._asks:
            yield from self._all_ended()
            yield RunWaiting(tuple(self._asks.values()))

    def subagent_called(self, event: Event | Record) -> Iterator[Change]:
        data = read(SubagentCalledData, event.data)
        key = self._subagents[data.call_id] = data.child_run_id or data.child_session_id
        call = self._calls.get(data.call_id)
        yield SubagentStarted(key, None if call is None else call.key, data.name)

    def subagent_completed(self, event: Event | Record) -> Iterator[Change]:
        data = read(SubagentCompletedData, event.data)
        if data.usage is not None:
            yield Spent(None, data.usage)
        key = self._subagents.pop(data.call_id, None)
        if key is not None:
            error = data.error.message if data.error is not None else None
            failed = error or (f"{data.subagent_name} failed" if data.is_error else None)
            yield SubagentEnded(key, data.subagent_name, data.output, failed)

    def state_changed(self, event: Event | Record) -> Iterator[Change]:
        data = read(SessionStateChangedData, event.data)
        yield StateChanged(dict(data.set or {}), tuple(data.removed or ()))

    def noted(self, event: Event | Record) -> Iterator[Change]:
        yield Noted("compacted" if event.type == "compaction.completed" else "recovering")

    def run_ended(self, event: Event | Record) -> Iterator[Change]:
        yield from self._all_ended()
        yield from self._given_up()
        data, error, used = event.data, event.data.get("error"), event.data.get("usage")
        exceeded = read(RunBudgetExhaustedData, data).exceeded if event.type == "run.budget_exhausted" else ()
        yield RunEnded(
            RUN_ENDS[event.type],
            output=data["structuredOutput"] if "structuredOutput" in data else data.get("output"),
            reason=text_in(data, "reason"),
            error=ErrorInfo.model_validate(error) if isinstance(error, dict) else None,
            exceeded=tuple(exceeded),
            usage=Usage.model_validate(used) if isinstance(used, dict) else Usage(),
        )

    def _given_up(self) -> Iterator[Change]:
        """Settle the requests and calls that are open when the run ends."""
        for name, ask in self._asks.items():
            yield RequestAnswered(ask, InputResolution(request_id=name, outcome=InputOutcome.CANCELLED))
        self._asks.clear()
        for call_id in tuple(self._calls):
            yield self._settled(call_id, _NO_RESULT)


_HANDLERS: Final[dict[str, Callable[[ChatFold, Event | Record], Iterator[Change]]]] = {
    "step.started": ChatFold.step_started,
    "step.retrying": ChatFold.step_retrying,
    "step.completed": ChatFold.step_completed,
    "step.failed": ChatFold.spent,
    "message.received": ChatFold.message_received,
    "message.appended": partial(ChatFold.appended, kind="text"),
    "message.completed": partial(ChatFold.completed, kind="text"),
    "reasoning.appended": partial(ChatFold.appended, kind="reasoning"),
    "reasoning.completed": partial(ChatFold.completed, kind="reasoning"),
    "action.input.appended": ChatFold.input_appended,
    "actions.requested": ChatFold.actions_requested,
    "action.started": ChatFold.action_started,
    "action.partial": ChatFold.action_partial,
    "action.result": ChatFold.action_result,
    "recovery.started": ChatFold.noted,
    "recovery.effect_settled": ChatFold.effect_settled,
    "compaction.completed": ChatFold.noted,
    "input.requested": ChatFold.input_requested,
    "input.resolved": ChatFold.input_resolved,
    "run.waiting": ChatFold.run_waiting,
    "subagent.called": ChatFold.subagent_called,
    "subagent.completed": ChatFold.subagent_completed,
    "session.state_changed": ChatFold.state_changed,
    **dict.fromkeys(RUN_ENDS, ChatFold.run_ended),
}
