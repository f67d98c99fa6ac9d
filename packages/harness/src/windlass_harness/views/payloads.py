"""Record payloads as message parts: calls, results, text and reasoning."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, cast

from pydantic import JsonValue
from pydantic_core import to_json

from windlass_harness.views.fold import read
from windlass_protocol import (
    ActionStatus,
    AssistantMessage,
    AssistantPart,
    EffectClass,
    InputKind,
    InputOutcome,
    InputRequest,
    InputResolution,
    LoadSkillAction,
    ReasoningPart,
    RuntimeActionRequest,
    TextPart,
    ToolCall,
    ToolCallAction,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolOutputType,
    ToolResult,
    ToolResultPart,
)
from windlass_protocol.generated import event_data
from windlass_protocol.unchecked import maker

LOAD_SKILL: Final = "load_skill"
CORRECTION: Final = "correction"
"""The delivery of a message that sends an answer back to the model: no person said it."""
CORRECTIONS: Final = frozenset({CORRECTION, "repair"})
"""All deliveries of such messages. Chats of early journals show a repair, as they did then."""
DENIED: Final = "Tool execution was denied."
SKIPPED: Final = ToolOutput.model_construct(
    type=ToolOutputType.EXECUTION_DENIED,
    reason="Skipped: the call was interrupted and is not run again. It may or may not have taken effect.",
)
SKIPPED_CODE: Final = "skipped"
"""Error code of an interrupted call that a person chose to skip."""
APPROVAL_OPTIONS: Final = ["approve", "deny"]


def action_name(action: RuntimeActionRequest) -> str:
    """Return the tool name under which the model requested an action."""
    if isinstance(action, ToolCallAction):
        return action.tool_name
    return LOAD_SKILL if isinstance(action, LoadSkillAction) else action.name


def started_action(data: "event_data.ActionStartedData") -> ToolCallAction:
    """Return the call of an intent that no request announced."""
    arguments = {} if data.arguments is None else data.arguments
    return ToolCallAction(call_id=data.call_id, tool_name=data.tool_name, input=arguments)


def tool_output(data: "event_data.ActionResultData") -> ToolOutput:
    """Return a result as the model sees it: an output, an error or a refusal."""
    output = data.result.output
    message = None if data.error is None else data.error.message
    if data.status is ActionStatus.REJECTED:
        return ToolOutput(type=ToolOutputType.EXECUTION_DENIED, reason=message or DENIED)
    if data.status is ActionStatus.COMPLETED and not data.result.is_error:
        return output_of(output)
    value = message if output is None and message is not None else output
    kind = ToolOutputType.ERROR_TEXT if isinstance(value, str) else ToolOutputType.ERROR_JSON
    return ToolOutput(type=kind, value=value)


def output_of(value: JsonValue) -> ToolOutput:
    """Return the output of a successful call."""
    kind = ToolOutputType.TEXT if isinstance(value, str) else ToolOutputType.JSON
    return ToolOutput(type=kind, value=value)


def tool_call(action: RuntimeActionRequest, parent_id: str | None = None) -> ToolCall:
    """Return a call as chat clients see it; arguments must be an object there.

    `parent_id` is the call of the program that made it.
    """
    arguments: dict[str, JsonValue] = (
        action.input if isinstance(action.input, dict) else {"input": action.input}
    )
    return ToolCall(
        id=action.call_id, name=action_name(action), arguments=arguments, parent_call_id=parent_id
    )


def tool_result(call_id: str, output: ToolOutput) -> ToolResult:
    """Return a result as chat clients see it, with the `id` of its call."""
    match output.type:
        case ToolOutputType.EXECUTION_DENIED:
            facts = {"success": False, "error": output.reason}
        case ToolOutputType.ERROR_TEXT | ToolOutputType.ERROR_JSON:
            facts = {"success": False, "error": as_text(output.value)}
        case _:
            facts = {"success": True, "data": output.value}
    return ToolResult.model_validate({**facts, "id": call_id})


def as_text(value: JsonValue) -> str:
    """Return a string as it is, any other value as JSON."""
    return value if isinstance(value, str) else to_json(value).decode()


def question_outcome(request: InputRequest, resolution: InputResolution) -> ToolOutput | None:
    """Return the output of a question for the model; None if the request was not a question.

    Without a kind, a request with the options approve and deny is an approval.
    """
    kind = resolution.kind or request.kind
    options = sorted(option.id for option in request.options or ())
    if kind is not InputKind.QUESTION and (kind is not None or options == APPROVAL_OPTIONS):
        return None
    answer: dict[str, JsonValue] = {"status": resolution.outcome.value}
    response = resolution.response
    if resolution.outcome is InputOutcome.ANSWERED and response is not None:
        answer |= response.model_dump(include={"option_id", "text"}, exclude_none=True)
    return output_of(answer)


text_part: Final = maker(TextPart, "text")
reasoning_part: Final = maker(ReasoningPart, "text")
call_part: Final = maker(ToolCallPart, "tool_call_id", "tool_name", "input")
output_part: Final = maker(ToolOutput, "type", "value")
result_part: Final = maker(ToolResultPart, "tool_call_id", "tool_name", "output")
assistant_message: Final = maker(AssistantMessage, "content")
tool_message: Final = maker(ToolMessage, "content")
JsonObject = Mapping[str, JsonValue]


class Place(NamedTuple):
    """A step: the turn, and the number of the step in it. A retry of the step has the same place."""

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
    """Return the place of a step, and the number of messages in its prompt."""
    place, count = _place(data), data.get("promptMessageCount")
    if place is None or not (count is None or type(count) is int):
        found = read(event_data.StepStartedData, data)
        return Place(found.turn_id, found.step_index), found.prompt_message_count
    return place, count


def read_step_completed(data: JsonObject) -> tuple[Place, int | None]:
    """Return the place of a finished step, and the prompt tokens that the provider counted."""
    place, usage = _place(data), data.get("usage", _NOTHING)
    tokens = usage.get("inputTokens") if type(usage) is dict else _UNUSUAL
    if place is None or not (tokens is None or type(tokens) is int):
        found = read(event_data.StepCompletedData, data)
        counted = None if found.usage is None else found.usage.input_tokens
        return Place(found.turn_id, found.step_index), counted
    return place, tokens


def read_reasoning(data: JsonObject) -> tuple[Place, ReasoningPart]:
    """Return reasoning of the model, and its place."""
    place, text = _place(data), data.get("reasoning")
    if place is None or type(text) is not str or "providerMetadata" in data:
        found = read(event_data.ReasoningCompletedData, data)
        part = ReasoningPart(text=found.reasoning, provider_options=found.provider_metadata)
        return Place(found.turn_id, found.step_index), part
    return place, reasoning_part(text=text)


def read_said(data: JsonObject) -> tuple[Place, Sequence[AssistantPart]]:
    """Return text of the model, and its place."""
    place, text = _place(data), data.get("message", _UNUSUAL)
    if place is None or "parts" in data or not (text is None or type(text) is str):
        found = read(event_data.MessageCompletedData, data)
        place, text = Place(found.turn_id, found.step_index), found.message
        if found.parts:
            return place, found.parts
    return place, (text_part(text=text),) if text else ()


def read_requested(data: JsonObject) -> tuple[Place, Sequence[ToolCallPart]]:
    """Return the calls that the model requested, and their place."""
    place, parts = _place(data), usual_calls(data.get("actions"))
    if place is None or parts is None:
        found = read(event_data.ActionsRequestedData, data)
        return Place(found.turn_id, found.step_index), [part_of(action) for action in found.actions]
    return place, parts


def part_of(action: RuntimeActionRequest) -> ToolCallPart:
    """Return an action as the part of the answer that requested it."""
    return call_part(tool_call_id=action.call_id, tool_name=action_name(action), input=action.input)


def read_started(data: JsonObject) -> tuple[Place, Started]:
    """Return the intent of a call, and its place."""
    place = _place(data)
    if place is None or not is_usual_intent(data):
        found = read(event_data.ActionStartedData, data)
        started = Started(
            found.call_id, found.tool_name, found.effect, found.idempotency_key, found.arguments
        )
        return Place(found.turn_id, found.step_index), started
    call_id, name, key = str(data["callId"]), str(data["toolName"]), str(data["idempotencyKey"])
    return place, Started(call_id, name, EFFECTS[str(data["effect"])], key, own(data.get("arguments")))


def is_usual_intent(data: JsonObject) -> bool:
    """Return whether the intent of a call can be read without validation."""
    return (
        type(data.get("callId")) is str
        and type(data.get("toolName")) is str
        and type(data.get("idempotencyKey")) is str
        and str(data.get("effect")) in EFFECTS
    )


def own(value: JsonValue) -> JsonValue:
    """Return a copy that is independent of the record."""
    if type(value) is dict:
        return {name: own(member) for name, member in value.items()}
    if type(value) is list:
        return [own(item) for item in value]
    return value


def taken(value: JsonValue) -> JsonValue:
    """Return the value of a record that is not used again."""
    return value


def read_result(data: JsonObject, keep: Callable[[JsonValue], JsonValue] = own) -> tuple[str, ToolOutput]:
    """Return the id of the call of a result, and the result as the model sees it.

    `keep` is `own` or `taken`.
    """
    result = data.get("result")
    if type(result) is dict and data.get("status") == "completed" and not result.get("isError"):
        call_id, value = result.get("callId"), result.get("output")
        if type(call_id) is str and "output" in result and result.get("kind") == "tool-result":
            kind = ToolOutputType.TEXT if type(value) is str else ToolOutputType.JSON
            return call_id, output_part(type=kind, value=value if type(value) is str else keep(value))
    found = read(event_data.ActionResultData, data)
    return found.result.call_id, tool_output(found)


_new_place: Final = cast("Callable[[type[Place], tuple[str, int]], Place]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]
"""Makes a place without the constructor of the named tuple, which is Python code."""


def _place(data: JsonObject) -> Place | None:
    """Return the place of a payload; None if it does not have the usual shape."""
    turn_id, step_index = data.get("turnId"), data.get("stepIndex")
    if type(turn_id) is str and type(step_index) is int:
        return _new_place(Place, (turn_id, step_index))
    return None


def usual_calls(
    actions: JsonValue, keep: Callable[[JsonValue], JsonValue] = own
) -> list[ToolCallPart] | None:
    """Return requested calls as parts; None if one of them does not have the usual shape.

    `keep` is `own` or `taken`.
    """
    if type(actions) is not list:
        return None
    parts: list[ToolCallPart] = []
    for action in actions:
        if type(action) is not dict or action.get("kind") != "tool-call" or "input" not in action:
            return None
        call_id, name = action.get("callId"), action.get("toolName")
        if type(call_id) is not str or type(name) is not str:
            return None
        parts.append(call_part(tool_call_id=call_id, tool_name=name, input=keep(action["input"])))
    return parts


_UNUSUAL: Final = True
"""A marker for a missing text or number, which equals no real value."""
_NOTHING: Final[dict[str, JsonValue]] = {}
EFFECTS: Final = {effect.value: effect for effect in EffectClass}
