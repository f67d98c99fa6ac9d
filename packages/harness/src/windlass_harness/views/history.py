"""Model messages built from records, with the answers that are still open.

After the finished history comes a tail: answers of the model that are unfinished or have calls without a
result, and messages that people sent meanwhile. The front of the tail moves into the history as soon as every
call there has its result. So in the history a call is always followed by its result, results are in the order
of their calls, and a steering message comes after the step that it interrupted. An answer of a failed attempt
never gets into the history, unless one of its calls had started: a possible side effect is not forgotten.
Such an answer stays in the tail until its call has a result or its work ends. Then the history says that
there is no result, and takes the real one if it arrives later.
"""

from collections.abc import Iterable, Sequence, Set
from enum import StrEnum
from typing import Final

from msgspec import UNSET, Struct

from windlass_harness.compaction import MessageOrigin, compact, mark
from windlass_harness.views.payloads import (
    StepPosition,
    action_of_intent,
    assistant_message,
    is_limit_ask,
    part_of,
    result_part,
    step_position,
    tool_message,
)
from windlass_protocol import (
    AssistantPart,
    EffectClass,
    ModelMessage,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolOutputType,
    ToolPart,
    ToolResultPart,
    UserMessage,
)
from windlass_protocol.bodies import State
from windlass_protocol.frozen import frozen
from windlass_protocol.generated import records

INTERRUPTED: Final = "No result: the call was interrupted. It may or may not have taken effect."
STOPPED_READING: Final = "No result: the call was cancelled. It only reads, so nothing was changed."
NOT_EXECUTED: Final = "Not executed: the work was ended before this call began."


class CallStage(StrEnum):
    """The progress of a call."""

    REQUESTED = "requested"
    STARTED = "started"
    CLOSED = "closed"
    """Its work ended without a result; the output says so until a real one arrives."""
    FINISHED = "finished"


class Call(State, frozen=True):
    """A call that the model requested; if only started, an intent without a result."""

    call_id: str
    tool_name: str
    input: records.JsonValue
    turn_id: str
    step_index: int
    stage: CallStage = CallStage.REQUESTED
    effect: EffectClass | None = None
    idempotency_key: str | None = None
    arguments: records.JsonValue = None
    """Set if a policy or hook changed the input."""
    epoch: int | None = None
    """The epoch of the owner that started it; only that owner knows whether it is still running."""
    attempt: int = 0
    """The number of attempts."""
    output: ToolOutput | None = None
    parent_id: str | None = None
    """The call of the program that made it; None if the model requested it."""

    def with_start(self, body: records.ActionStarted, epoch: int | None) -> "Call":
        """Return the call after it was started, or started again."""
        return Call(
            self.call_id,
            self.tool_name,
            self.input,
            self.turn_id,
            self.step_index,
            CallStage.STARTED,
            body.effect,
            body.idempotency_key,
            None if body.arguments is UNSET else body.arguments,
            epoch,
            self.attempt + 1,
            None,
            self.parent_id,
        )

    def with_output(self, stage: CallStage, output: ToolOutput) -> "Call":
        """Return the call with its output."""
        return Call(
            self.call_id,
            self.tool_name,
            self.input,
            self.turn_id,
            self.step_index,
            stage,
            self.effect,
            self.idempotency_key,
            self.arguments,
            self.epoch,
            self.attempt,
            output,
            self.parent_id,
        )


@frozen
class OpenStep:
    """An answer of the model that is not in the history yet."""

    turn_id: str
    step_index: int
    parts: tuple[AssistantPart, ...] = ()
    calls: tuple[Call, ...] = ()
    is_answered: bool = False
    run_id: str | None = None
    epoch: int | None = None


def _open_ids(calls: Iterable[Call]) -> dict[str, None]:
    return {call.call_id: None for call in calls if call.output is None}


class Step(Struct, eq=False):
    """An open step while records are applied."""

    place: StepPosition
    run_id: str | None
    parts: list[AssistantPart] = []
    calls: dict[str, Call] = {}
    open_ids: dict[str, None] = {}
    """Ids of the calls without an output, in the order of the calls."""
    is_answered: bool = False
    epoch: int | None = None

    @staticmethod
    def thaw(step: OpenStep) -> "Step":
        """Return a mutable copy of an open step."""
        return Step(
            StepPosition(step.turn_id, step.step_index),
            step.run_id,
            parts=list(step.parts),
            calls={call.call_id: call for call in step.calls},
            open_ids=_open_ids(step.calls),
            is_answered=step.is_answered,
            epoch=step.epoch,
        )

    def freeze(self) -> OpenStep:
        """Return the immutable step."""
        calls = tuple(self.calls.values())
        return OpenStep(
            self.place.turn_id,
            self.place.step_index,
            tuple(self.parts),
            calls,
            is_answered=self.is_answered,
            run_id=self.run_id,
            epoch=self.epoch,
        )

    @property
    def step_index(self) -> int:
        """The number of the step in its turn."""
        return self.place.step_index

    @property
    def has_begun(self) -> bool:
        """Whether a call of it may have had an effect."""
        return any(call.stage is not CallStage.REQUESTED for call in self.calls.values())

    def start(self, body: records.ActionStarted, *, epoch: int | None) -> None:
        """Apply the intent of a call; a closed call is open again."""
        call = self.calls[body.call_id]
        if call.stage is CallStage.FINISHED:
            return
        self.calls[body.call_id] = call.with_start(body, epoch)
        if call.stage is CallStage.CLOSED:
            self.open_ids = _open_ids(self.calls.values())

    def finish(self, call_id: str, output: ToolOutput, *, stage: CallStage = CallStage.FINISHED) -> None:
        """Set the output of a call; the first real one counts."""
        call = self.calls[call_id]
        if call.stage is not CallStage.FINISHED:
            self.open_ids.pop(call_id, None)
            self.calls[call_id] = call.with_output(stage, output)

    def close(self, stages: Set[CallStage], exempt: Set[str]) -> list[str]:
        """Close the calls in these stages, except the kept ones; return their ids."""
        closed = [call for call in self.calls.values() if call.stage in stages and call.call_id not in exempt]
        for call in closed:
            text = NOT_EXECUTED if call.stage is CallStage.REQUESTED else INTERRUPTED
            output = ToolOutput(type=ToolOutputType.ERROR_TEXT, value=text)
            self.finish(call.call_id, output, stage=CallStage.CLOSED)
        return [call.call_id for call in closed]

    def messages(self) -> list[ModelMessage]:
        """Return the messages that a settled step adds to the history: its answer, and the results of calls.

        Calls of programs are in none.
        """
        messages: list[ModelMessage] = []
        if self.parts:
            messages.append(assistant_message(content=_content(self.parts)))
        results: list[ToolResultPart] = []
        for call in self.calls.values():
            if call.parent_id is None and call.output is not None:
                results.append(
                    result_part(tool_call_id=call.call_id, tool_name=call.tool_name, output=call.output)
                )
        if results:
            messages.append(tool_message(content=tuple(results)))
        return messages


def _content(parts: list[AssistantPart]) -> str | tuple[AssistantPart, ...]:
    first = parts[0]
    if len(parts) == 1 and isinstance(first, TextPart) and _is_bare(first):
        return first.text
    return tuple(parts)


def _is_bare(part: TextPart) -> bool:
    return part.provider_options is None and not part.model_extra


_NOTHING_BEGUN: Final = frozenset({CallStage.REQUESTED})
_WITHOUT_RESULT: Final = frozenset({CallStage.REQUESTED, CallStage.STARTED})


@frozen
class History:
    """The finished history, and the tail after it."""

    messages: tuple[ModelMessage, ...] = ()
    tail: tuple[OpenStep | UserMessage, ...] = ()
    unsettled: tuple[str, ...] = ()
    """Calls with a placeholder as their newest result in the messages."""

    @property
    def calls(self) -> tuple[Call, ...]:
        """Return every call of the tail, in order, including finished ones of unfinished steps."""
        return tuple(call for item in self.tail if isinstance(item, OpenStep) for call in item.calls)


class HistoryDraft:
    """A history while records are applied."""

    def __init__(self, history: History) -> None:
        self.messages = list(history.messages)
        self.revision = 0
        """Increased when existing messages change; new ones at the end do not count."""
        self._unsettled = dict.fromkeys(history.unsettled)
        self._tail: list[Step | UserMessage] = []
        self._by_call: dict[str, list[Step]] = {}
        """The steps of the tail by the ids of their calls, the newest last."""
        self.unanswered: Step | None = None
        """The unfinished answer."""
        for item in history.tail:
            if isinstance(item, OpenStep):
                self._append(Step.thaw(item))
            else:
                self._tail.append(item)

    def freeze(self) -> History:
        tail = tuple(item.freeze() if isinstance(item, Step) else item for item in self._tail)
        return History(tuple(self.messages), tail, tuple(self._unsettled))

    def open_calls(self) -> list[Call]:
        """Return the calls of the tail without an output, in order."""
        return [
            step.calls[call_id] for step in self._tail if isinstance(step, Step) for call_id in step.open_ids
        ]

    def open_call(self, call_id: str) -> Call | None:
        """Return the newest call with this id, if it has no output yet."""
        steps = self._by_call.get(call_id)
        call = None if steps is None else steps[-1].calls[call_id]
        return None if call is None or call.output is not None else call

    def receive(self, body: records.MessageReceived) -> None:
        """Add a message: its context texts first, then its text."""
        for text in body.context or ():
            self._tail.append(mark(UserMessage(content=text), MessageOrigin.CONTEXT))
        content = tuple(body.parts or ()) or body.message
        if content:
            self._tail.append(UserMessage(content=content))
        self._flush()

    def start_step(self, position: StepPosition, *, run_id: str | None, epoch: int | None = None) -> None:
        """Start an answer; an unfinished answer of another attempt is given up."""
        self.give_up()
        self._append(Step(position, run_id, epoch=epoch))

    def reason(self, position: StepPosition, part: ReasoningPart, *, run_id: str | None) -> None:
        """Add reasoning of the model."""
        self._writing(position, run_id).parts.append(part)

    def say(self, position: StepPosition, parts: Sequence[AssistantPart], *, run_id: str | None) -> None:
        """Add parts of the model's answer; parts that were added before are skipped."""
        step = self._writing(position, run_id)
        if any(isinstance(part, ReasoningPart) for part in parts):
            step.parts = [part for part in step.parts if not isinstance(part, ReasoningPart)]
        for part in parts:
            if isinstance(part, ToolCallPart) and not part.provider_executed:
                self._add_call(step, part)
            else:
                step.parts.append(part)

    def request(self, position: StepPosition, parts: Iterable[ToolCallPart], *, run_id: str | None) -> None:
        """Add the calls of the unfinished answer."""
        step = self._writing(position, run_id)
        for part in parts:
            self._add_call(step, part)

    def request_for(
        self, parent_id: str, position: StepPosition, parts: Iterable[ToolCallPart], *, run_id: str | None
    ) -> None:
        """Add the calls of a program to the step of its own call."""
        steps = self._by_call.get(parent_id)
        for part in parts:
            if steps is None:
                self._adopt(part, position, run_id)
            else:
                self._add_call(steps[-1], part, parent_id)

    def knows(self, call_id: str) -> bool:
        """Return whether a step of the tail has a call with this id."""
        return call_id in self._by_call

    def parent_of(self, call_id: str) -> str | None:
        """Return the call of the program that made a call of the tail; None if the model requested it."""
        steps = self._by_call.get(call_id)
        return None if steps is None else steps[-1].calls[call_id].parent_id

    def calls_of(self, parent_id: str) -> list[Call]:
        """Return the calls of an open program, in order."""
        steps = self._by_call.get(parent_id, ())
        return [call for step in steps[-1:] for call in step.calls.values() if call.parent_id == parent_id]

    def ask(self, body: records.InputRequested, *, run_id: str | None) -> None:
        """Add calls that appear only in requests to people to their step."""
        for request in body.requests:
            if request.action.call_id not in self._by_call and not is_limit_ask(request.action.call_id):
                self._adopt(part_of(request.action), step_position(body), run_id)

    def start_call(
        self, body: records.ActionStarted, *, run_id: str | None, epoch: int | None = None
    ) -> None:
        """Apply the intent of a call, even if the call was never requested."""
        steps = self._by_call.get(body.call_id)
        if steps is None:
            step = self._adopt(part_of(action_of_intent(body)), step_position(body), run_id)
        else:
            step = steps[-1]
        step.start(body, epoch=epoch)

    def finish_call(self, call_id: str, output: ToolOutput) -> None:
        """Apply the result of a call; the first one counts."""
        steps = self._by_call.get(call_id)
        if steps is None:
            self._settle(call_id, output)
            return
        position = steps[-1].place
        for step in steps:
            # Attempts of one step that request the same call share its effect.
            if step.place == position:
                step.finish(call_id, output)
        self._flush()

    def skip_call(self, call_id: str, output: ToolOutput) -> None:
        """Apply the decision that a call gets no result."""
        for step in self._by_call.get(call_id, ()):
            step.finish(call_id, output)
        self._settle(call_id, output)
        self._flush()

    def complete_step(self, position: StepPosition, *, run_id: str | None) -> None:
        """Apply the end of an answer."""
        self._writing(position, run_id).is_answered = True
        self.unanswered = None
        self._flush()

    def give_up(self) -> None:
        """Drop the unfinished answer, or end it if one of its calls had started."""
        step = self.unanswered
        if step is None:
            return
        self.unanswered = None
        if step.has_begun:
            step.is_answered = True
            step.close(_NOTHING_BEGUN, frozenset())
        else:
            self._tail.remove(step)
            self._forget(step)
        self._flush()

    def close_turn(self, turn_id: str, exempt: Set[str] = frozenset()) -> Set[str]:
        """End the steps of a turn, except the kept calls; return the closed calls."""
        return self._close([step for step in self._steps() if step.place.turn_id == turn_id], exempt)

    def close_run(self, run_id: str | None) -> Set[str]:
        """End the steps of a run, and those without a run; return the closed calls."""
        return self._close([step for step in self._steps() if step.run_id in (run_id, None)])

    def close_all(self) -> Set[str]:
        """End all steps of the tail; return the closed calls."""
        return self._close(self._steps())

    def is_open(self, call_id: str) -> bool:
        return any(step.calls[call_id].output is None for step in self._by_call.get(call_id, ()))

    def compact(self, body: records.CompactionCompleted) -> None:
        """Apply a compaction as it was planned."""
        self.revision += 1
        self.messages = list(
            compact(
                self.messages,
                summary=body.summary,
                kept_from=body.kept_from or 0,
                pinned=body.pinned or (),
                trimmed_call_ids=frozenset(body.trimmed_call_ids or ()),
                result_chars_max=body.result_chars_max or 0,
            )
        )

    def clear(self) -> None:
        """Remove the finished history; the tail stays."""
        self.revision += 1
        self.messages = []
        self._unsettled = {}
        self._tail = [*self._steps()]

    def _steps(self) -> list[Step]:
        return [item for item in self._tail if isinstance(item, Step)]

    def _close(self, steps: list[Step], exempt: Set[str] = frozenset()) -> Set[str]:
        if self.unanswered in steps:
            self.give_up()
        closed = {call_id for step in steps for call_id in step.close(_WITHOUT_RESULT, exempt)}
        self._flush()
        return closed

    def _append(self, step: Step) -> None:
        self._tail.append(step)
        for call_id in step.calls:
            self._by_call.setdefault(call_id, []).append(step)
        if not step.is_answered:
            self.unanswered = step

    def _writing(self, position: StepPosition, run_id: str | None) -> Step:
        """Return the unfinished answer; a new one if it belongs to another step."""
        step = self.unanswered
        if step is not None and step.place == position:
            return step
        self.start_step(position, run_id=run_id)
        return self._writing(position, run_id)

    def _adopt(self, part: ToolCallPart, position: StepPosition, run_id: str | None) -> Step:
        """Add a call to its step; to a new step if that one is no longer open."""
        step = next((step for step in reversed(self._steps()) if step.place == position), None)
        if step is None:
            step = Step(position, run_id, is_answered=True)
            self._append(step)
        self._add_call(step, part)
        return step

    def _add_call(self, step: Step, part: ToolCallPart, parent_id: str | None = None) -> None:
        """Add a call and its part to a step, unless the step has the call; a program's call has no part."""
        call_id = part.tool_call_id
        if call_id in step.calls:
            return
        if parent_id is None:
            step.parts.append(part)
        step.calls[call_id] = Call(
            call_id,
            part.tool_name,
            part.input,
            step.place.turn_id,
            step.place.step_index,
            parent_id=parent_id,
        )
        step.open_ids[call_id] = None
        steps = self._by_call.setdefault(call_id, [])
        steps.append(step)
        if len(steps) > 1:
            steps.sort(key=self._tail.index)

    def _forget(self, step: Step) -> None:
        for call_id in step.calls:
            steps = self._by_call[call_id]
            if len(steps) == 1:
                del self._by_call[call_id]
            else:
                steps.remove(step)

    def _flush(self) -> None:
        done = 0
        for item in self._tail:
            if isinstance(item, Step):
                if item.open_ids or not item.is_answered:
                    break
                self.messages += item.messages()
                self._forget(item)
                for call in item.calls.values():
                    self._unsettled.pop(call.call_id, None)
                    if call.stage is CallStage.CLOSED and call.parent_id is None:
                        self._unsettled[call.call_id] = None
            else:
                self.messages.append(item)
            done += 1
        del self._tail[:done]

    def _settle(self, call_id: str, output: ToolOutput) -> None:
        """Replace the placeholder of a call with its real output."""
        if call_id not in self._unsettled:
            return
        del self._unsettled[call_id]
        self.revision += 1
        for at in reversed(range(len(self.messages))):
            message = self.messages[at]
            if isinstance(message, ToolMessage) and any(
                _is_unsettled(part, call_id) for part in message.content
            ):
                parts = tuple(
                    part.model_copy(update={"output": output}) if _is_unsettled(part, call_id) else part
                    for part in message.content
                )
                self.messages[at] = message.model_copy(update={"content": parts})
                return


def _is_unsettled(part: ToolPart, call_id: str) -> bool:
    return (
        isinstance(part, ToolResultPart)
        and part.tool_call_id == call_id
        and part.output.value in (INTERRUPTED, NOT_EXECUTED)
    )
