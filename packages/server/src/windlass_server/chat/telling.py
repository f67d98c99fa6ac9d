"""One run as beats: what of its events a chat shows, in order.

A fold: it knows the events so far and nothing else, so the same events give the same beats, whenever and
however often they are read. Words come as they are written, or whole if the reader came later.
"""

from collections.abc import Callable, Iterable
from typing import Final

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
    InputRequestedData,
    InputResolution,
    InputResolvedData,
    MessageReceivedData,
    RecoveryChoice,
    RecoveryEffectSettledData,
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
from windlass_server.chat.beats import (
    Ask,
    Asked,
    Beat,
    CallDone,
    CallPiece,
    CallProgress,
    CallReady,
    Delegated,
    Ended,
    Piece,
    PieceDone,
    Returned,
    Said,
    Settled,
    Spent,
    StateChanged,
    StepBegan,
    StepVoid,
    TextKind,
    Waits,
)
from windlass_server.chat.open_parts import OpenCall, OpenText, WrittenCall

ON_PEOPLE: Final = "input"
"""What a run waits on that waits for people."""
_NO_RESULT: Final = ToolOutput(
    type=ToolOutputType.ERROR_TEXT, value="The run has ended, and no result of this call is known."
)


class Telling:
    """Turns the events of a run into beats."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._step = -1
        """The number of the step among those of the run; one that is tried again keeps its number."""
        self._index: int | None = None
        self._has_begun = False
        """Whether a call of the step was begun: what was shown of it stays."""
        self._texts: list[OpenText] = []
        self._pieces: dict[str, WrittenCall] = {}
        self._calls: dict[str, OpenCall] = {}
        self._asks: dict[str, Ask] = {}
        self._children: dict[str, str] = {}
        self._model: str | None = None
        self._has_words = False

    def tell(self, event: Event) -> list[Beat]:
        """Return what an event is in a chat, often nothing."""
        handle = _HANDLERS.get(event.type)
        return [] if handle is None else list(handle(self, event))

    # steps

    def step_started(self, event: Event) -> Iterable[Beat]:
        """The model is asked, again or anew."""
        data = read(StepStartedData, event.data)
        self._model = data.model_id or self._model
        if data.step_index == self._index and not self._has_begun:
            yield from self.step_again(event)
            return
        self._index, self._step, self._has_begun = data.step_index, self._step + 1, False
        self._texts, self._pieces = [], {}
        yield StepBegan(self._step)

    def step_again(self, event: Event) -> Iterable[Beat]:
        """What the step has said so far is void, if it has said anything."""
        yield from self.step_ended(event)
        of_step = [call_id for call_id, call in self._calls.items() if call.step == self._step]
        if self._has_begun or not (self._texts or self._pieces or of_step):
            return
        self._texts, self._pieces = [], {}
        for call_id in of_step:
            del self._calls[call_id]
        yield StepVoid(self._step)

    def step_ended(self, event: Event) -> Iterable[Beat]:
        """A step, or an attempt at it, is over: what it used."""
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
        """The words of the answer, which count."""
        return self._completed("text", text_in(event.data, "message") or "")

    def reasoning_completed(self, event: Event) -> Iterable[Beat]:
        """The reasoning, which counts."""
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
        """Show what is new of a text; all of the step, if what was shown of it is wrong."""
        if not whole.startswith(text.text):
            text.text = whole
            yield from self._retold()
        elif delta := whole[len(text.text) :]:
            # Others stay open: what a mask held back of them comes when they are whole.
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
        # What was shown and does not fit is put right by the whole call, which comes last.
        delta = call.text[len(call.shown) :] if call.text.startswith(call.shown) else ""
        if call.name is not None and delta:
            call.shown += delta
            yield CallPiece(call.key, self._step, call.name, delta)

    def actions_requested(self, event: Event) -> Iterable[Beat]:
        """The model asked for calls."""
        yield from self._close_all()
        yield from self._ready(read(ActionsRequestedData, event.data).actions)

    def action_started(self, event: Event) -> Iterable[Beat]:
        """A call is about to happen."""
        data = read(ActionStartedData, event.data)
        self._has_begun = True
        if data.call_id not in self._calls:
            yield from self._ready([started_action(data)])

    def action_partial(self, event: Event) -> Iterable[Beat]:
        """How far a call is."""
        data = read(ActionPartialData, event.data)
        call = self._calls.get(data.call_id)
        if call is not None:
            yield CallProgress(call.key, data.output)

    def action_result(self, event: Event) -> Iterable[Beat]:
        """What came of a call."""
        data = read(ActionResultData, event.data)
        self._has_begun = True
        yield from self._done(data.result.call_id, tool_output(data))

    def effect_settled(self, event: Event) -> Iterable[Beat]:
        """A call that was interrupted is not made again."""
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
        """Somebody spoke."""
        is_first, self._has_words = not self._has_words, True
        yield Said(
            f"{self._run_id}/said/{event.seq}", read(MessageReceivedData, event.data).message, is_first
        )

    def input_requested(self, event: Event) -> Iterable[Beat]:
        """People are asked."""
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
        """What people were asked is decided."""
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
        """A subagent was given work."""
        data = read(SubagentCalledData, event.data)
        key = self._children[data.call_id] = data.child_run_id or data.child_session_id
        call = self._calls.get(data.call_id)
        yield Delegated(key, None if call is None else call.key, data.name)

    def subagent_completed(self, event: Event) -> Iterable[Beat]:
        """A subagent is finished."""
        data = read(SubagentCompletedData, event.data)
        if data.usage is not None:
            yield Spent(None, data.usage)
        key = self._children.pop(data.call_id, None)
        if key is not None:
            error = data.error.message if data.error is not None else None
            failed = error or (f"{data.subagent_name} failed" if data.is_error else None)
            yield Returned(key, data.subagent_name, data.output, failed)

    def state_changed(self, event: Event) -> Iterable[Beat]:
        """The state of the session is another one."""
        data = read(SessionStateChangedData, event.data)
        yield StateChanged(dict(data.set or {}), tuple(data.removed or ()))

    def run_ended(self, event: Event) -> Iterable[Beat]:
        """The run is over."""
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
        """What is open when a run ends stays so; nobody who watches should wait for it."""
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
