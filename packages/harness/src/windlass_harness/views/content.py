"""What the views share: calls and results as models and chat clients see them."""

from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from windlass_protocol import (
    ActionResultData,
    ActionStartedData,
    ActionStatus,
    InputKind,
    InputOutcome,
    InputRequest,
    InputResolution,
    LoadSkillAction,
    RuntimeActionRequest,
    ToolCall,
    ToolCallAction,
    ToolOutput,
    ToolOutputType,
    ToolResult,
)

LOAD_SKILL: Final = "load_skill"
DENIED: Final = "Tool execution was denied."
SKIPPED: Final = ToolOutput(
    type=ToolOutputType.EXECUTION_DENIED,
    reason="Skipped: the call was interrupted and is not run again. It may or may not have taken effect.",
)
APPROVAL_OPTIONS: Final = ["approve", "deny"]


def action_name(action: RuntimeActionRequest) -> str:
    """Return the name of the tool under which the model asked for an action."""
    if isinstance(action, ToolCallAction):
        return action.tool_name
    return LOAD_SKILL if isinstance(action, LoadSkillAction) else action.name


def started_action(data: ActionStartedData) -> ToolCallAction:
    """Return the call of an intent that nobody announced."""
    arguments = {} if data.arguments is None else data.arguments
    return ToolCallAction(call_id=data.call_id, tool_name=data.tool_name, input=arguments)


def tool_output(data: ActionResultData) -> ToolOutput:
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
    """Return the output of a call that succeeded."""
    kind = ToolOutputType.TEXT if isinstance(value, str) else ToolOutputType.JSON
    return ToolOutput(type=kind, value=value)


def tool_call(action: RuntimeActionRequest) -> ToolCall:
    """Return a call as chat clients see it; arguments must be an object there."""
    arguments: dict[str, JsonValue] = (
        action.input if isinstance(action.input, dict) else {"input": action.input}
    )
    return ToolCall(id=action.call_id, name=action_name(action), arguments=arguments)


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
    """Return a value as text for people: itself, or its JSON."""
    return value if isinstance(value, str) else to_json(value).decode()


def question_outcome(request: InputRequest, resolution: InputResolution) -> ToolOutput | None:
    """Return what a question gave the model; None if the request was not a question.

    Without a kind, an approval is known by its two options, approve and deny.
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
