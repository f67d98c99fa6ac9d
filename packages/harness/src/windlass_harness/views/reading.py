"""The payloads of a step, as the history takes them.

Nearly all records of a long session are of these few types and of one usual shape, which is read as it is.
Whatever has another shape is read by its type, which says what is wrong with it if something is.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from pydantic import BaseModel, JsonValue

from windlass_harness.views.content import action_name, tool_output
from windlass_harness.views.fold import read
from windlass_harness.views.trusted import call_part, output, reasoning_part, text_part
from windlass_protocol import (
    ActionResultData,
    ActionsRequestedData,
    ActionStartedData,
    AssistantPart,
    EffectClass,
    MessageCompletedData,
    ReasoningCompletedData,
    ReasoningPart,
    RuntimeActionRequest,
    StepCompletedData,
    StepStartedData,
    ToolCallPart,
    ToolOutput,
    ToolOutputType,
)

ModelT = TypeVar("ModelT", bound=BaseModel)
JsonObject = Mapping[str, JsonValue]


class Place(NamedTuple):
    """A step: the turn, and the number of the step in it.

    Another attempt has the same.
    """

    turn_id: str
    step_index: int


class Started(NamedTuple):
    """The intent of a call."""

    call_id: str
    tool_name: str
    effect: EffectClass
    idempotency_key: str
    arguments: JsonValue


def read_step_started(data: JsonObject) -> tuple[Place, int | None]:
    """Return where a step begins, and how many messages its prompt has."""
    place, count = _place(data), data.get("promptMessageCount")
    if place is None or not (count is None or type(count) is int):
        found = read(StepStartedData, data)
        return Place(found.turn_id, found.step_index), found.prompt_message_count
    return place, count


def read_step_completed(data: JsonObject) -> tuple[Place, int | None]:
    """Return which step ended, and how many tokens the provider counted in its prompt."""
    place, usage = _place(data), data.get("usage", _NOTHING)
    tokens = usage.get("inputTokens") if type(usage) is dict else _UNUSUAL
    if place is None or not (tokens is None or type(tokens) is int):
        found = read(StepCompletedData, data)
        counted = None if found.usage is None else found.usage.input_tokens
        return Place(found.turn_id, found.step_index), counted
    return place, tokens


def read_reasoning(data: JsonObject) -> tuple[Place, ReasoningPart]:
    """Return what the model thought aloud, and where."""
    place, text = _place(data), data.get("reasoning")
    if place is None or type(text) is not str or "providerMetadata" in data:
        found = read(ReasoningCompletedData, data)
        part = ReasoningPart(text=found.reasoning, provider_options=found.provider_metadata)
        return Place(found.turn_id, found.step_index), part
    return place, reasoning_part(text=text)


def read_said(data: JsonObject) -> tuple[Place, Sequence[AssistantPart]]:
    """Return what the model said, and where."""
    place, text = _place(data), data.get("message", _UNUSUAL)
    if place is None or "parts" in data or not (text is None or type(text) is str):
        found = read(MessageCompletedData, data)
        place, text = Place(found.turn_id, found.step_index), found.message
        if found.parts:
            return place, found.parts
    return place, (text_part(text=text),) if text else ()


def read_requested(data: JsonObject) -> tuple[Place, Sequence[ToolCallPart]]:
    """Return the calls that the model asked for, and where."""
    place, parts = _place(data), _usual_calls(data.get("actions"))
    if place is None or parts is None:
        found = read(ActionsRequestedData, data)
        return Place(found.turn_id, found.step_index), [part_of(action) for action in found.actions]
    return place, parts


def part_of(action: RuntimeActionRequest) -> ToolCallPart:
    """Return an action as the part of the answer that asked for it."""
    return call_part(tool_call_id=action.call_id, tool_name=action_name(action), input=action.input)


def read_started(data: JsonObject) -> tuple[Place, Started]:
    """Return the intent of a call, and where it was asked for."""
    place, effect = _place(data), _EFFECTS.get(str(data.get("effect")))
    call_id, name, key = data.get("callId"), data.get("toolName"), data.get("idempotencyKey")
    is_usual = type(call_id) is str and type(name) is str and type(key) is str
    if place is None or effect is None or not is_usual:
        found = read(ActionStartedData, data)
        started = Started(
            found.call_id, found.tool_name, found.effect, found.idempotency_key, found.arguments
        )
        return Place(found.turn_id, found.step_index), started
    return place, Started(str(call_id), str(name), effect, str(key), own(data.get("arguments")))


def read_result(data: JsonObject) -> tuple[str, ToolOutput]:
    """Return the call that a result belongs to, and the result as the model sees it."""
    result = data.get("result")
    if type(result) is dict and data.get("status") == "completed" and not result.get("isError"):
        call_id, value = result.get("callId"), result.get("output")
        if type(call_id) is str and "output" in result and result.get("kind") == "tool-result":
            kind = ToolOutputType.TEXT if type(value) is str else ToolOutputType.JSON
            return call_id, output(type=kind, value=own(value))
    found = read(ActionResultData, data)
    return found.result.call_id, tool_output(found)


def own(value: JsonValue) -> JsonValue:
    """Return a copy of a value that no change of a record can reach."""
    if type(value) is dict:
        return {name: own(member) for name, member in value.items()}
    if type(value) is list:
        return [own(item) for item in value]
    return value


def _place(data: JsonObject) -> Place | None:
    """The place of a payload; None if it is not of the usual shape."""
    turn_id, step_index = data.get("turnId"), data.get("stepIndex")
    if type(turn_id) is str and type(step_index) is int:
        return Place(turn_id, step_index)
    return None


def _usual_calls(actions: JsonValue) -> list[ToolCallPart] | None:
    """The calls of a payload; None if one of them is not of the usual shape."""
    if type(actions) is not list:
        return None
    parts: list[ToolCallPart] = []
    for action in actions:
        if type(action) is not dict or action.get("kind") != "tool-call" or "input" not in action:
            return None
        call_id, name = action.get("callId"), action.get("toolName")
        if type(call_id) is not str or type(name) is not str:
            return None
        parts.append(call_part(tool_call_id=call_id, tool_name=name, input=own(action["input"])))
    return parts


_UNUSUAL: Final = True
"""In the place of a text or a number that is missing, so that nobody takes it for one."""
_NOTHING: Final[dict[str, JsonValue]] = {}
_EFFECTS: Final = {effect.value: effect for effect in EffectClass}
