"""Answers that are not in the history yet, and how far their calls have come."""

from collections.abc import Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Generic, TypeVar

from pydantic import JsonValue

from windlass_harness.views.reading import Place, Started
from windlass_harness.views.trusted import assistant_message, result_part, tool_message
from windlass_protocol import (
    AssistantPart,
    EffectClass,
    ModelMessage,
    TextPart,
    ToolCallPart,
    ToolOutput,
    ToolOutputType,
)

INTERRUPTED: Final = "No result: the call was interrupted. It may or may not have taken effect."
STOPPED_READING: Final = "No result: the call was cancelled. It only reads, so nothing was changed."
NOT_EXECUTED: Final = "Not executed: the work was ended before this call began."

KeyT = TypeVar("KeyT")


class CallStage(StrEnum):
    """How far a call has come."""

    REQUESTED = "requested"
    STARTED = "started"
    CLOSED = "closed"
    """Its work ended without a result; the output says so until a real one comes."""
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
    epoch: int | None = None
    """Of the owner that started it; nobody else knows whether it is still running."""
    attempt: int = 0
    """How often it was started."""
    output: ToolOutput | None = None

    def started(self, data: Started, epoch: int | None) -> "Call":
        """Return the call once it has begun, or begun again."""
        return Call(
            self.call_id,
            self.tool_name,
            self.input,
            self.turn_id,
            self.step_index,
            CallStage.STARTED,
            data.effect,
            data.idempotency_key,
            data.arguments,
            epoch,
            self.attempt + 1,
        )

    def ended(self, stage: CallStage, output: ToolOutput) -> "Call":
        """Return the call once it has an output."""
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
        )


@dataclass(frozen=True, slots=True)
class OpenStep:
    """An answer of the model that is not in the history yet."""

    turn_id: str
    step_index: int
    parts: tuple[AssistantPart, ...] = ()
    calls: tuple[Call, ...] = ()
    is_answered: bool = False
    run_id: str | None = None
    epoch: int | None = None


@dataclass(slots=True, eq=False)
class Step:
    """An open step while records are applied; `order` is its place among the steps."""

    place: Place
    run_id: str | None
    order: int
    parts: list[AssistantPart] = field(default_factory=list["AssistantPart"])
    calls: dict[str, Call] = field(default_factory=dict[str, Call])
    unfinished: int = 0
    is_answered: bool = False
    epoch: int | None = None

    @staticmethod
    def thaw(step: OpenStep, order: int) -> "Step":
        """Return an open step that can be changed."""
        return Step(
            Place(step.turn_id, step.step_index),
            step.run_id,
            order,
            parts=list(step.parts),
            calls={call.call_id: call for call in step.calls},
            unfinished=sum(call.output is None for call in step.calls),
            is_answered=step.is_answered,
            epoch=step.epoch,
        )

    def freeze(self) -> OpenStep:
        """Return the step as it is."""
        calls = tuple(self.calls.values())
        return OpenStep(
            *self.place,
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
    def is_settled(self) -> bool:
        """Whether the answer is complete and every call has an output."""
        return self.is_answered and self.unfinished == 0

    @property
    def has_begun(self) -> bool:
        """Whether a call of it may have touched the world."""
        return any(call.stage is not CallStage.REQUESTED for call in self.calls.values())

    def add_call(self, part: ToolCallPart) -> bool:
        """Add a call and its part; False if it is there already."""
        if part.tool_call_id in self.calls:
            return False
        self.parts.append(part)
        self.calls[part.tool_call_id] = Call(part.tool_call_id, part.tool_name, part.input, *self.place)
        self.unfinished += 1
        return True

    def start(self, data: Started, *, epoch: int | None) -> None:
        """Take the intent of a call; what had been closed is open again."""
        call = self.calls[data.call_id]
        if call.stage is CallStage.FINISHED:
            return
        self.unfinished += call.stage is CallStage.CLOSED
        self.calls[data.call_id] = call.started(data, epoch)

    def finish(self, call_id: str, output: ToolOutput, *, stage: CallStage = CallStage.FINISHED) -> None:
        """Give a call its output; the first real one counts."""
        call = self.calls[call_id]
        if call.stage is not CallStage.FINISHED:
            self.unfinished -= call.output is None
            self.calls[call_id] = call.ended(stage, output)

    def close(self, stages: Set[CallStage], kept: Set[str]) -> list[str]:
        """Close the calls of these stages, but the kept ones; return their ids."""
        closed = [call for call in self.calls.values() if call.stage in stages and call.call_id not in kept]
        for call in closed:
            text = NOT_EXECUTED if call.stage is CallStage.REQUESTED else INTERRUPTED
            output = ToolOutput(type=ToolOutputType.ERROR_TEXT, value=text)
            self.finish(call.call_id, output, stage=CallStage.CLOSED)
        return [call.call_id for call in closed]

    def messages(self) -> list[ModelMessage]:
        """Return what a settled step adds to the history."""
        messages: list[ModelMessage] = []
        if self.parts:
            messages.append(assistant_message(content=_content(self.parts)))
        if self.calls:
            results = tuple(
                result_part(tool_call_id=call.call_id, tool_name=call.tool_name, output=call.output)
                for call in self.calls.values()
                if call.output is not None
            )
            messages.append(tool_message(content=results))
        return messages


def _content(parts: list[AssistantPart]) -> str | tuple[AssistantPart, ...]:
    first = parts[0]
    if len(parts) == 1 and isinstance(first, TextPart) and _is_bare(first):
        return first.text
    return tuple(parts)


def _is_bare(part: TextPart) -> bool:
    return part.provider_options is None and not part.model_extra


class StepIndex(Generic[KeyT]):
    """Steps by a key that several may share; their order says which is newest."""

    def __init__(self) -> None:
        self._steps: dict[KeyT, dict[int, Step]] = {}

    def add(self, key: KeyT, step: Step) -> None:
        """Put a step under a key."""
        self._steps.setdefault(key, {})[step.order] = step

    def remove(self, key: KeyT, step: Step) -> None:
        """Take a step away from under a key."""
        steps = self._steps[key]
        del steps[step.order]
        if not steps:
            del self._steps[key]

    def all(self, key: KeyT) -> list[Step]:
        """Return the steps under a key."""
        steps = self._steps.get(key)
        return [] if steps is None else list(steps.values())

    def newest(self, key: KeyT) -> Step | None:
        """Return the newest step under a key."""
        steps = self._steps.get(key)
        return None if steps is None else steps[max(steps)]
