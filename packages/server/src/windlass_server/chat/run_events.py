"""The events of a run as a chat shows them, and the part of a run that one stream shows.

`Telling` is a fold from events to beats: it depends on the events so far and nothing else, so the same events
give the same beats. Texts come in pieces, or whole if the stream began later. A run that waits for people is
several streams to a chat client: `Gate` selects the part that one stream shows.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import JsonValue

from windlass import Event
from windlass_harness.views.fold import read, text_in
from windlass_harness.views.payloads import SKIPPED, question_outcome, started_action, tool_call, tool_output
from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import (
    ActionInputAppendedData,
    ActionPartialData,
    ActionResultData,
    ActionsRequestedData,
    ActionStartedData,
    ErrorInfo,
    InputOutcome,
    InputRequest,
    InputRequestedData,
    InputResolution,
    InputResolvedData,
    MessageReceivedData,
    RecoveryChoice,
    RecoveryEffectSettledData,
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

TextKind = Literal["text", "thought"]


@dataclass(frozen=True, slots=True)
class StepBegan:
    """A step begins: the model is called."""

    step: int


@dataclass(frozen=True, slots=True)
class StepVoid:
    """Everything that was shown of a step is void; it is shown again."""

    step: int


@dataclass(frozen=True, slots=True)
class Piece:
    """More of a text; the first piece of a key begins it."""

    kind: TextKind
    key: str
    step: int
    delta: str


@dataclass(frozen=True, slots=True)
class PieceDone:
    """A text is complete; a text that was shown again may still continue."""

    kind: TextKind
    key: str


@dataclass(frozen=True, slots=True)
class CallPiece:
    """More of the arguments of a call; the first piece of a key begins it."""

    key: str
    step: int
    name: str
    delta: str


@dataclass(frozen=True, slots=True)
class CallReady:
    """A call is requested; `streamed` are the arguments that pieces have shown."""

    key: str
    step: int
    name: str
    arguments: JsonValue
    streamed: str = ""


@dataclass(frozen=True, slots=True)
class CallProgress:
    """Progress of a call."""

    key: str
    output: JsonValue


@dataclass(frozen=True, slots=True)
class CallDone:
    """The result of a call."""

    key: str
    output: ToolOutput


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the user; `is_first` if the run began with it."""

    key: str
    text: str
    is_first: bool


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to a person."""

    request: InputRequest
    call_key: str | None
    """The call that the request is about; for a subagent, the call that started it."""
    subagent: str | None = None
    """The run of the subagent that asks."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Requests to people."""

    asks: tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class Settled:
    """Requests to people are settled."""

    resolutions: tuple[tuple[Ask, InputResolution], ...]


@dataclass(frozen=True, slots=True)
class Delegated:
    """A subagent was started."""

    key: str
    call_key: str | None
    name: str


@dataclass(frozen=True, slots=True)
class Returned:
    """A subagent has ended."""

    key: str
    name: str
    output: str
    error: str | None


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The state of the session has changed."""

    changed: dict[str, JsonValue]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens were used."""

    model: str | None
    usage: Usage


@dataclass(frozen=True, slots=True)
class Waits:
    """The run waits for people."""

    asks: tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """The run has ended."""

    status: RunStatus
    output: JsonValue = None
    reason: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    usage: Usage = field(default_factory=Usage)


Beat = (
    StepBegan
    | StepVoid
    | Piece
    | PieceDone
    | CallPiece
    | CallReady
    | CallProgress
    | CallDone
    | Said
    | Asked
    | Settled
    | Delegated
    | Returned
    | StateChanged
    | Spent
    | Waits
    | Ended
)


@dataclass(slots=True)
class OpenText:
    """A text of the current step."""

    kind: TextKind
    key: str
    text: str = ""
    is_open: bool = False
    is_done: bool = False


@dataclass(slots=True)
class WrittenCall:
    """A call with arguments that are being streamed."""

    key: str
    name: str | None = None
    text: str = ""
    shown: str = ""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call without a result."""

    key: str
    step: int


ON_PEOPLE: Final = "input"
"""`on` of a run that waits for people."""
_NO_RESULT: Final = ToolOutput(
    type=ToolOutputType.ERROR_TEXT, value="The run has ended, and no result of this call is known."
)


class Telling:
    """Turns the events of a run into beats."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._step = -1
        """The number of the step in the run; a retry keeps the number."""
        self._index: int | None = None
        self._has_begun = False
        """Whether a call of the step was started; then the step is not void any more."""
        self._texts: list[OpenText] = []
        self._pieces: dict[str, WrittenCall] = {}
        self._calls: dict[str, OpenCall] = {}
        self._asks: dict[str, Ask] = {}
        self._children: dict[str, str] = {}
        self._model: str | None = None
        self._has_words = False

    def tell(self, event: Event) -> list[Beat]:
        """Return the beats of an event; many have none."""
        handle = _HANDLERS.get(event.type)
        return [] if handle is None else list(handle(self, event))

    # steps

    def step_started(self, event: Event) -> Iterable[Beat]:
        """The model is called: a new step, or a retry."""
        data = read(StepStartedData, event.data)
        self._model = data.model_id or self._model
        if data.step_index == self._index and not self._has_begun:
            yield from self.step_again(event)
            return
        self._index, self._step, self._has_begun = data.step_index, self._step + 1, False
        self._texts, self._pieces = [], {}
        yield StepBegan(self._step)

    def step_again(self, event: Event) -> Iterable[Beat]:
        """Void the texts and calls of the step so far."""
        yield from self.step_ended(event)
        of_step = [call_id for call_id, call in self._calls.items() if call.step == self._step]
        if self._has_begun or not (self._texts or self._pieces or of_step):
            return
        self._texts, self._pieces = [], {}
        for call_id in of_step:
            del self._calls[call_id]
        yield StepVoid(self._step)

    def step_ended(self, event: Event) -> Iterable[Beat]:
        """Report the usage of a step or an attempt."""
        used = event.data.get("usage")
        if isinstance(used, dict):
            yield Spent(self._model, Usage.model_validate(used))

    # texts

    def message_appended(self, event: Event) -> Iterable[Beat]:
        """A piece of the answer."""
        return self._appended(
            "text", text_in(event.data, "messageDelta"), text_in(event.data, "messageSoFar")
        )

    def reasoning_appended(self, event: Event) -> Iterable[Beat]:
        """A piece of the reasoning."""
        delta, so_far = text_in(event.data, "reasoningDelta"), text_in(event.data, "reasoningSoFar")
        return self._appended("thought", delta, so_far)

    def message_completed(self, event: Event) -> Iterable[Beat]:
        """The complete answer."""
        return self._completed("text", text_in(event.data, "message") or "")

    def reasoning_completed(self, event: Event) -> Iterable[Beat]:
        """The complete reasoning."""
        return self._completed("thought", text_in(event.data, "reasoning") or "")

    def _appended(self, kind: TextKind, delta: str | None, so_far: str | None) -> Iterable[Beat]:
        text = self._current(kind)
        whole = text.text + (delta or "") if so_far is None else so_far
        return self._grown(text, whole)

    def _completed(self, kind: TextKind, whole: str) -> Iterable[Beat]:
        text = self._current(kind)
        yield from self._grown(text, whole)
        yield from self._closed(text)
        text.is_done = True
        if not text.text:
            self._texts.remove(text)

    def _grown(self, text: OpenText, whole: str) -> Iterable[Beat]:
        """Show the new end of a text; the whole step again, if the text does not continue what was shown."""
        if not whole.startswith(text.text):
            text.text = whole
            yield from self._retold()
        elif delta := whole[len(text.text) :]:
            # Other texts stay open: text that masking held back follows when they are complete.
            text.text, text.is_open = whole, True
            yield Piece(text.kind, text.key, self._step, delta)

    def _retold(self) -> Iterable[Beat]:
        yield StepVoid(self._step)
        for text in self._texts:
            if text.text:
                yield Piece(text.kind, text.key, self._step, text.text)
                yield PieceDone(text.kind, text.key)
            text.is_open = False
        for call in self._pieces.values():
            if call.name is not None and call.shown:
                yield CallPiece(call.key, self._step, call.name, call.shown)

    def _close_all(self) -> Iterable[Beat]:
        for text in self._texts:
            yield from self._closed(text)

    def _closed(self, text: OpenText) -> Iterable[Beat]:
        if text.is_open:
            text.is_open = False
            yield PieceDone(text.kind, text.key)

    def _current(self, kind: TextKind) -> OpenText:
        same = [text for text in self._texts if text.kind == kind]
        if same and not same[-1].is_done:
            return same[-1]
        number = f".{len(same)}" if same else ""
        key = f"{self._run_id}/{self._step}{number}" + ("" if kind == "text" else "/thought")
        text = OpenText(kind, key)
        self._texts.append(text)
        return text

    # calls

    def input_appended(self, event: Event) -> Iterable[Beat]:
        """A piece of the arguments of a call."""
        data = read(ActionInputAppendedData, event.data)
        call = self._pieces.setdefault(data.call_id, WrittenCall(self._key(data.call_id)))
        so_far = text_in(event.data, "inputSoFar")
        call.text = call.text + data.input_delta if so_far is None else so_far
        call.name = data.tool_name or call.name
        # If the pieces do not match, the complete call corrects them: it comes last.
        delta = call.text[len(call.shown) :] if call.text.startswith(call.shown) else ""
        if call.name is not None and delta:
            call.shown += delta
            yield CallPiece(call.key, self._step, call.name, delta)

    def actions_requested(self, event: Event) -> Iterable[Beat]:
        """The model asked for calls."""
        yield from self._close_all()
        yield from self._ready(read(ActionsRequestedData, event.data).actions)

    def action_started(self, event: Event) -> Iterable[Beat]:
        """A call starts."""
        data = read(ActionStartedData, event.data)
        self._has_begun = True
        if data.call_id not in self._calls:
            yield from self._ready([started_action(data)])

    def action_partial(self, event: Event) -> Iterable[Beat]:
        """Progress of a call."""
        data = read(ActionPartialData, event.data)
        call = self._calls.get(data.call_id)
        if call is not None:
            yield CallProgress(call.key, data.output)

    def action_result(self, event: Event) -> Iterable[Beat]:
        """The result of a call."""
        data = read(ActionResultData, event.data)
        self._has_begun = True
        yield from self._done(data.result.call_id, tool_output(data))

    def effect_settled(self, event: Event) -> Iterable[Beat]:
        """An interrupted call is skipped."""
        data = read(RecoveryEffectSettledData, event.data)
        if data.choice is RecoveryChoice.SKIP:
            yield from self._done(data.call_id, SKIPPED)

    def _ready(self, actions: Iterable[RuntimeActionRequest]) -> Iterable[Beat]:
        for action in actions:
            call, key = tool_call(action), self._key(action.call_id)
            written = self._pieces.pop(action.call_id, None)
            self._calls[action.call_id] = OpenCall(key, self._step)
            arguments: JsonValue = call.arguments
            yield CallReady(key, self._step, call.name, arguments, "" if written is None else written.shown)

    def _done(self, call_id: str, output: ToolOutput) -> Iterable[Beat]:
        call = self._calls.pop(call_id, None)
        if call is not None:
            yield CallDone(call.key, output)

    def _key(self, call_id: str) -> str:
        # Models give the same id to calls of different steps, and to those of their subagents.
        return f"{self._run_id}/{self._step}/{call_id}"

    # people and subagents

    def message_received(self, event: Event) -> Iterable[Beat]:
        """A message of the user."""
        is_first, self._has_words = not self._has_words, True
        yield Said(
            f"{self._run_id}/said/{event.seq}", read(MessageReceivedData, event.data).message, is_first
        )

    def input_requested(self, event: Event) -> Iterable[Beat]:
        """Requests to people."""
        data = read(InputRequestedData, event.data)
        self._has_begun = True
        asks: list[Ask] = []
        for request in data.requests:
            if data.child_session_id is not None:
                call = self._calls.get(data.call_id or "")
                ask = Ask(request, None if call is None else call.key, self._children.get(data.call_id or ""))
            else:
                if request.action.call_id not in self._calls:
                    yield from self._ready([request.action])
                ask = Ask(request, self._calls[request.action.call_id].key)
            self._asks[request.request_id] = ask
            asks.append(ask)
        yield Asked(tuple(asks))

    def input_resolved(self, event: Event) -> Iterable[Beat]:
        """Requests to people are settled."""
        for resolution in read(InputResolvedData, event.data).resolutions:
            ask = self._asks.pop(resolution.request_id, None)
            if ask is None:
                continue
            yield Settled(((ask, resolution),))
            answer = question_outcome(ask.request, resolution)
            if answer is not None and ask.subagent is None:
                yield from self._done(ask.request.action.call_id, answer)

    def run_waiting(self, event: Event) -> Iterable[Beat]:
        """The run waits."""
        if read(RunWaitingData, event.data).on == ON_PEOPLE and self._asks:
            yield from self._close_all()
            yield Waits(tuple(self._asks.values()))

    def subagent_called(self, event: Event) -> Iterable[Beat]:
        """A subagent was started."""
        data = read(SubagentCalledData, event.data)
        key = self._children[data.call_id] = data.child_run_id or data.child_session_id
        call = self._calls.get(data.call_id)
        yield Delegated(key, None if call is None else call.key, data.name)

    def subagent_completed(self, event: Event) -> Iterable[Beat]:
        """A subagent has ended."""
        data = read(SubagentCompletedData, event.data)
        if data.usage is not None:
            yield Spent(None, data.usage)
        key = self._children.pop(data.call_id, None)
        if key is not None:
            error = data.error.message if data.error is not None else None
            failed = error or (f"{data.subagent_name} failed" if data.is_error else None)
            yield Returned(key, data.subagent_name, data.output, failed)

    def state_changed(self, event: Event) -> Iterable[Beat]:
        """The state of the session has changed."""
        data = read(SessionStateChangedData, event.data)
        yield StateChanged(dict(data.set or {}), tuple(data.removed or ()))

    def run_ended(self, event: Event) -> Iterable[Beat]:
        """The run has ended."""
        yield from self._close_all()
        yield from self._given_up()
        data, error, used = event.data, event.data.get("error"), event.data.get("usage")
        told = ErrorInfo.model_validate(error) if isinstance(error, dict) else None
        yield Ended(
            RUN_ENDS[event.type],
            output=data["structuredOutput"] if "structuredOutput" in data else data.get("output"),
            reason=text_in(data, "reason"),
            error_code=None if told is None else told.code.value,
            error_message=None if told is None else told.message,
            usage=Usage.model_validate(used) if isinstance(used, dict) else Usage(),
        )

    def _given_up(self) -> Iterable[Beat]:
        """Close the requests and calls that are open when the run ends."""
        for name, ask in self._asks.items():
            yield Settled(((ask, InputResolution(request_id=name, outcome=InputOutcome.CANCELLED)),))
        self._asks.clear()
        for call_id in tuple(self._calls):
            yield from self._done(call_id, _NO_RESULT)


_HANDLERS: Final[dict[str, Callable[[Telling, Event], Iterable[Beat]]]] = {
    "step.started": Telling.step_started,
    "step.retrying": Telling.step_again,
    "step.completed": Telling.step_ended,
    "step.failed": Telling.step_ended,
    "message.received": Telling.message_received,
    "message.appended": Telling.message_appended,
    "message.completed": Telling.message_completed,
    "reasoning.appended": Telling.reasoning_appended,
    "reasoning.completed": Telling.reasoning_completed,
    "action.input.appended": Telling.input_appended,
    "actions.requested": Telling.actions_requested,
    "action.started": Telling.action_started,
    "action.partial": Telling.action_partial,
    "action.result": Telling.action_result,
    "recovery.effect_settled": Telling.effect_settled,
    "input.requested": Telling.input_requested,
    "input.resolved": Telling.input_resolved,
    "run.waiting": Telling.run_waiting,
    "subagent.called": Telling.subagent_called,
    "subagent.completed": Telling.subagent_completed,
    "session.state_changed": Telling.state_changed,
    **dict.fromkeys(RUN_ENDS, Telling.run_ended),
}


@dataclass(frozen=True, slots=True)
class View:
    """The part of a run that a stream shows."""

    skipped: int = 0
    """The number of waits for people that it skips."""
    known: int = 0
    """The number of waits in the journal: the run continued after all of them but the last."""
    decided: frozenset[str] = frozenset()
    """Answered requests: a wait for these only does not end the stream."""


WHOLE: Final = View()


@dataclass(slots=True)
class Gate:
    """Decides for every beat whether it is shown, and whether the stream ends there."""

    view: View
    _waits: int = 0
    _is_open: bool = field(init=False)

    def __post_init__(self) -> None:
        self._is_open = not self.view.skipped

    @property
    def is_closed(self) -> bool:
        """Whether beats are still skipped."""
        return not self._is_open

    def open(self) -> None:
        """Show everything from here on."""
        self._is_open = True

    def is_pause(self, beat: Beat) -> bool:
        """Take the next beat; return whether the stream ends because the run waits there."""
        if not isinstance(beat, Waits):
            return False
        self._waits += 1
        if self.is_closed:
            self._is_open = self._waits >= self.view.skipped
            return False
        went_on = self._waits < self.view.known
        return not went_on and not self.view.decided.issuperset(ask.request.request_id for ask in beat.asks)


class Past:
    """The requests of a run so far, and its waits for them."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.asked: set[str] = set()
        self.settled: set[str] = set()
        self.waits: list[frozenset[str]] = []
        """The requests of each wait."""
        self._telling = Telling(run_id)

    def take(self, event: Event) -> None:
        """Take the next event of the run."""
        for beat in self._telling.tell(event):
            match beat:
                case Asked():
                    self.asked |= {ask.request.request_id for ask in beat.asks}
                case Settled():
                    self.settled |= {ask.request.request_id for ask, _ in beat.resolutions}
                case Waits():
                    self.waits.append(frozenset(ask.request.request_id for ask in beat.asks))
                case _:
                    pass

    def whole(self) -> View:
        """Return the view from the beginning to the current or next wait."""
        return View(0, len(self.waits), frozenset(self.settled))

    def behind(self, answered: frozenset[str], *, needs_all: bool) -> View | None:
        """Return the view after the wait that answers are for.

        None if there is none; with `needs_all` it is one of which nothing is left without an answer.
        """
        for number, asked in enumerate(self.waits, 1):
            if asked <= answered if needs_all else asked & answered:
                return View(number, len(self.waits), frozenset(self.settled) | answered)
        return None
