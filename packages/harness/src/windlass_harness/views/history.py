"""The messages that the model sees, built from records.

Behind the finished history lies a tail: answers of the model that are still being written or whose calls have
no result yet, and what people said meanwhile. The tail moves into the history from its front as soon as every
call there has its result, so that in the history a call is always followed by its result, results are in the
order of their calls whatever order they finished in, and a steering message comes after the step that it
interrupted. An answer of an attempt that failed never gets there, unless one of its calls had begun: what
touched the world is not forgotten.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from pydantic import JsonValue

from windlass_harness.compaction import compact
from windlass_harness.origin import Origin, mark
from windlass_harness.views.content import action_name
from windlass_protocol import (
    ActionStartedData,
    AssistantMessage,
    AssistantPart,
    CompactionCompletedData,
    EffectClass,
    MessageCompletedData,
    MessageReceivedData,
    ModelMessage,
    ReasoningCompletedData,
    ReasoningPart,
    RuntimeActionRequest,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolOutputType,
    ToolResultPart,
    UserMessage,
)

INTERRUPTED: Final = "No result: the call was interrupted. It may or may not have taken effect."
NOT_EXECUTED: Final = "Not executed: the work was ended before this call began."


class CallStage(StrEnum):
    """How far a call has come."""

    REQUESTED = "requested"
    STARTED = "started"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Call:
    """A call that the model asked for; if only started, an intent without a result."""

    call_id: str
    tool_name: str
    input: JsonValue
    turn_id: str
    step_index: int
    stage: CallStage = CallStage.REQUESTED
    effect: EffectClass | None = None
    idempotency_key: str | None = None
    arguments: JsonValue = None
    """Given when a policy or hook changed the input."""
    output: ToolOutput | None = None


@dataclass(frozen=True, slots=True)
class OpenStep:
    """An answer of the model that is not in the history yet."""

    turn_id: str
    step_index: int
    parts: tuple[AssistantPart, ...] = ()
    calls: tuple[Call, ...] = ()
    is_answered: bool = False


@dataclass(frozen=True, slots=True)
class History:
    """The finished history, and the tail behind it."""

    messages: tuple[ModelMessage, ...] = ()
    tail: tuple[OpenStep | UserMessage, ...] = ()

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every call of the tail, in order, finished ones of unfinished steps too."""
        return tuple(call for item in self.tail if isinstance(item, OpenStep) for call in item.calls)


@dataclass(slots=True, eq=False)
class _Step:
    """An open step while records are applied."""

    turn_id: str
    step_index: int
    parts: list[AssistantPart] = field(default_factory=list["AssistantPart"])
    calls: dict[str, Call] = field(default_factory=dict[str, Call])
    unfinished: int = 0
    is_answered: bool = False

    @staticmethod
    def thaw(step: OpenStep) -> "_Step":
        calls = {call.call_id: call for call in step.calls}
        unfinished = sum(call.output is None for call in step.calls)
        return _Step(
            step.turn_id, step.step_index, list(step.parts), calls, unfinished, is_answered=step.is_answered
        )

    def freeze(self) -> OpenStep:
        return OpenStep(
            self.turn_id, self.step_index, tuple(self.parts), tuple(self.calls.values()), self.is_answered
        )

    @property
    def is_settled(self) -> bool:
        return self.is_answered and self.unfinished == 0

    @property
    def has_begun(self) -> bool:
        return any(call.stage is not CallStage.REQUESTED for call in self.calls.values())

    def add_call(self, part: ToolCallPart) -> bool:
        """Add a call and its part; False if it is there already."""
        if part.tool_call_id in self.calls:
            return False
        self.parts.append(part)
        self.calls[part.tool_call_id] = Call(
            part.tool_call_id, part.tool_name, part.input, self.turn_id, self.step_index
        )
        self.unfinished += 1
        return True

    def finish(self, call_id: str, output: ToolOutput) -> None:
        self.calls[call_id] = replace(self.calls[call_id], stage=CallStage.FINISHED, output=output)
        self.unfinished -= 1

    def close(self) -> None:
        """Give every call without a result one that says so."""
        self.is_answered = True
        for call in list(self.calls.values()):
            if call.output is None:
                text = NOT_EXECUTED if call.stage is CallStage.REQUESTED else INTERRUPTED
                self.finish(call.call_id, ToolOutput(type=ToolOutputType.ERROR_TEXT, value=text))

    def messages(self) -> Iterator[ModelMessage]:
        if self.parts:
            yield AssistantMessage(content=_content(self.parts))
        if self.calls:
            yield ToolMessage(
                content=tuple(
                    ToolResultPart(tool_call_id=call.call_id, tool_name=call.tool_name, output=call.output)
                    for call in self.calls.values()
                    if call.output is not None
                )
            )


def _content(parts: list[AssistantPart]) -> str | tuple[AssistantPart, ...]:
    if len(parts) == 1 and isinstance(parts[0], TextPart) and parts[0] == TextPart(text=parts[0].text):
        return parts[0].text
    return tuple(parts)


class HistoryDraft:
    """A history while records are applied."""

    def __init__(self, history: History) -> None:
        self.messages = list(history.messages)
        self._tail: list[_Step | UserMessage] = [
            _Step.thaw(item) if isinstance(item, OpenStep) else item for item in history.tail
        ]
        self._step_of = {call_id: step for step in self._steps() for call_id in step.calls}

    def freeze(self) -> History:
        """Return the history."""
        tail = tuple(item.freeze() if isinstance(item, _Step) else item for item in self._tail)
        return History(tuple(self.messages), tail)

    def receive(self, data: MessageReceivedData) -> None:
        """Take what somebody said: context first, then the words."""
        for text in data.context or ():
            self._tail.append(mark(UserMessage(content=text), Origin.CONTEXT))
        content = data.parts or data.message
        if content:
            self._tail.append(UserMessage(content=content))
        self._flush()

    def start_step(self, turn_id: str, step_index: int) -> None:
        """Begin an answer; whatever another attempt left unfinished is given up."""
        self.give_up()
        self._tail.append(_Step(turn_id, step_index))

    def reason(self, data: ReasoningCompletedData) -> None:
        """Take what the model thought aloud."""
        part = ReasoningPart(text=data.reasoning, provider_options=data.provider_metadata)
        self._writing(data.turn_id, data.step_index).parts.append(part)

    def say(self, data: MessageCompletedData) -> None:
        """Take what the model said; parts that were reported before are not taken twice."""
        step = self._writing(data.turn_id, data.step_index)
        parts = data.parts or ((TextPart(text=data.message),) if data.message else ())
        if any(isinstance(part, ReasoningPart) for part in parts):
            step.parts = [part for part in step.parts if not isinstance(part, ReasoningPart)]
        for part in parts:
            if isinstance(part, ToolCallPart) and not part.provider_executed:
                self._add_call(step, part)
            else:
                step.parts.append(part)

    def request(self, actions: Iterable[RuntimeActionRequest], *, turn_id: str, step_index: int) -> None:
        """Take the calls that the model asked for in the answer it is writing."""
        step = self._writing(turn_id, step_index)
        for action in actions:
            self._add_call(step, _call_part(action))

    def adopt(self, action: RuntimeActionRequest, *, turn_id: str, step_index: int) -> None:
        """Take a call that only shows in a request to a person, into its step."""
        if action.call_id in self._step_of:
            return
        step = next((step for step in self._steps() if self._is_at(step, turn_id, step_index)), None)
        if step is None:
            step = _Step(turn_id, step_index, is_answered=True)
            self._tail.append(step)
        self._add_call(step, _call_part(action))

    def start_call(self, data: ActionStartedData) -> None:
        """Take the intent of a call."""
        step = self._step_of.get(data.call_id)
        if step is not None and (call := step.calls[data.call_id]).output is None:
            step.calls[data.call_id] = replace(
                call,
                stage=CallStage.STARTED,
                effect=data.effect,
                idempotency_key=data.idempotency_key,
                arguments=data.arguments,
            )

    def finish_call(self, call_id: str, output: ToolOutput) -> None:
        """Take the result of a call; the first one counts."""
        step = self._step_of.get(call_id)
        if step is not None and step.calls[call_id].output is None:
            step.finish(call_id, output)
            self._flush()

    def complete_step(self, turn_id: str, step_index: int) -> None:
        """Take the end of an answer."""
        self._writing(turn_id, step_index).is_answered = True
        self._flush()

    def give_up(self) -> None:
        """Drop the answer that is being written, or close it if a call of it had begun."""
        step = self._unanswered()
        if step is None:
            return
        if step.has_begun:
            step.close()
        else:
            self._tail.remove(step)
            self._forget(step)
        self._flush()

    def close(self) -> None:
        """End everything in the tail: nothing will come of it any more."""
        self.give_up()
        for step in self._steps():
            step.close()
        self._flush()

    def compact(self, data: CompactionCompletedData) -> None:
        """Take a compaction, in the way in which it was planned."""
        self.messages = list(
            compact(
                self.messages,
                summary=data.summary,
                kept_from=data.kept_from or 0,
                pinned=data.pinned or (),
                trimmed_call_ids=frozenset(data.trimmed_call_ids or ()),
                result_chars_max=data.result_chars_max or 0,
            )
        )

    def clear(self) -> None:
        """Forget what was said; what is in progress stays."""
        self.messages = []
        self._tail = [*self._steps()]

    def _steps(self) -> list[_Step]:
        return [item for item in self._tail if isinstance(item, _Step)]

    @staticmethod
    def _is_at(step: _Step, turn_id: str, step_index: int) -> bool:
        return (step.turn_id, step.step_index) == (turn_id, step_index)

    def _unanswered(self) -> _Step | None:
        return next((step for step in self._steps() if not step.is_answered), None)

    def _writing(self, turn_id: str, step_index: int) -> _Step:
        """The answer that is being written; a new one if it belongs to another step."""
        step = self._unanswered()
        if step is not None and self._is_at(step, turn_id, step_index):
            return step
        self.start_step(turn_id, step_index)
        return self._writing(turn_id, step_index)

    def _add_call(self, step: _Step, part: ToolCallPart) -> None:
        if step.add_call(part):
            self._step_of[part.tool_call_id] = step

    def _forget(self, step: _Step) -> None:
        for call_id in step.calls:
            if self._step_of.get(call_id) is step:
                del self._step_of[call_id]

    def _flush(self) -> None:
        done = 0
        for item in self._tail:
            if isinstance(item, _Step):
                if not item.is_settled:
                    break
                self.messages.extend(item.messages())
                self._forget(item)
            else:
                self.messages.append(item)
            done += 1
        del self._tail[:done]


def _call_part(action: RuntimeActionRequest) -> ToolCallPart:
    return ToolCallPart(tool_call_id=action.call_id, tool_name=action_name(action), input=action.input)
