"""Records as message parts: calls, results, text and reasoning."""

from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Struct
from pydantic import JsonValue
from pydantic_core import to_json

from windlass_protocol import (
    ActionStatus,
    AssistantMessage,
    AssistantPart,
    ContentRef,
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
    Usage,
)
from windlass_protocol.bodies import data_of, or_none, read_body
from windlass_protocol.generated import records
from windlass_protocol.unchecked import maker

LOAD_SKILL: Final = "load_skill"
CORRECTION: Final = "correction"
"""The delivery of a message that sends an answer back to the model: no person said it."""
CORRECTIONS: Final = frozenset({CORRECTION, "repair"})
JOB: Final = "job"
"""The delivery of a message about a job that has ended."""
UNSPOKEN: Final = CORRECTIONS | {JOB}
"""Deliveries of messages that no person said, and that are shown in another way."""
"""All deliveries of such messages. Chats of early journals show a repair, as they did then."""
DENIED: Final = "Tool execution was denied."
SKIPPED: Final = ToolOutput.model_construct(
    type=ToolOutputType.EXECUTION_DENIED,
    reason="Skipped: the call was interrupted and is not run again. It may or may not have taken effect.",
)
SKIPPED_CODE: Final = "skipped"
"""Error code of an interrupted call that a person chose to skip."""
APPROVAL_OPTIONS: Final = ["approve", "deny"]
LIMIT_CALL: Final = "limit:"
"""How the ids of requests to exceed a limit begin; the ids of other calls have no colon there."""


Action = RuntimeActionRequest | records.RuntimeActionRequest
"""An action of a request to a person, or of a record."""


def is_limit_ask(call_id: str) -> bool:
    """Whether a request is about a limit of the run: the model made no such call, and does not see it."""
    return call_id.startswith(LIMIT_CALL)


def action_name(action: Action) -> str:
    """Return the tool name under which the model requested an action."""
    if isinstance(action, records.ToolCallAction | ToolCallAction):
        return action.tool_name
    return LOAD_SKILL if isinstance(action, records.LoadSkillAction | LoadSkillAction) else action.name


DECISIONS: Final[dict[str, type[records.PolicyDecision]]] = {
    "allow": records.AllowDecision,
    "deny": records.DenyDecision,
    "ask": records.AskDecision,
    "modify": records.ModifyDecision,
    "interrupt": records.InterruptDecision,
    "defer": records.DeferDecision,
}
DECISION_NAMES: Final = {kind: name for name, kind in DECISIONS.items()}


def result_name(result: records.RuntimeActionResult) -> str:
    """Return the name of what was called, as the record of its result has it."""
    if isinstance(result, records.ToolActionResult):
        return result.tool_name
    return result.subagent_name if isinstance(result, records.SubagentActionResult) else LOAD_SKILL


def action_of_intent(body: records.ActionStarted) -> records.ToolCallAction:
    """Return the call of an intent that no request announced."""
    arguments = or_none(body.arguments)
    return records.ToolCallAction(
        call_id=body.call_id, tool_name=body.tool_name, input={} if arguments is None else arguments
    )


def tool_output(body: records.ActionResult) -> ToolOutput:
    """Return a result as the model sees it: an output, an error or a refusal."""
    output = body.result.output
    if body.status is ActionStatus.COMPLETED and not body.result.is_error:
        return output_of(output)
    message = None if body.error is None else body.error.message
    if body.status is ActionStatus.REJECTED:
        return ToolOutput(type=ToolOutputType.EXECUTION_DENIED, reason=message or DENIED)
    value = message if output is None and message is not None else output
    kind = ToolOutputType.ERROR_TEXT if isinstance(value, str) else ToolOutputType.ERROR_JSON
    return ToolOutput(type=kind, value=value)


def output_of(value: JsonValue) -> ToolOutput:
    """Return the output of a successful call."""
    kind = ToolOutputType.TEXT if isinstance(value, str) else ToolOutputType.JSON
    return output_part(type=kind, value=value)


def tool_call(action: Action, parent_id: str | None = None) -> ToolCall:
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


def model_name(route_id: str, model_id: str) -> str:
    """Return a model as agents name it, which is its name in costs and statistics: `provider/model`."""
    return f"{route_id}/{model_id}"


def first_model_name(route_id: str | None, model_id: str) -> str:
    """Return the first model of a run as its records name it; others are named as agents do.

    That is its id, unless that could be the name of another one, as in `openrouter/openai/gpt-4o`.
    """
    return model_id if route_id is None or "/" not in model_id else model_name(route_id, model_id)


def usage_model(usage: records.Usage | None) -> Usage | None:
    """Return the usage in a record as a model."""
    return None if usage is None else Usage.model_validate(data_of(usage))


def token_count(usage: Usage | records.Usage | None) -> int:
    """Return the tokens of prompts and answers; 0 where they are not known."""
    return 0 if usage is None else (usage.input_tokens or 0) + (usage.output_tokens or 0)


def content_model(ref: records.ContentRef) -> ContentRef:
    """Return the reference in a record as a model."""
    return ContentRef.model_validate(data_of(ref))


def content_part(ref: ContentRef) -> records.ContentRef:
    """Return a reference as a part of a record."""
    return read_body(records.ContentRef, ref.model_dump(mode="json", by_alias=True))


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


class StepPosition(Struct, frozen=True, gc=False):
    """A step: the turn, and the number of the step in it. A retry has the same position."""

    turn_id: str
    step_index: int


class OfStep(Protocol):
    """The data of a record about a step."""

    @property
    def turn_id(self) -> str: ...
    @property
    def step_index(self) -> int: ...


def step_position(body: OfStep) -> StepPosition:
    """Return the step that a record is about."""
    return StepPosition(body.turn_id, body.step_index)


def answer_parts(body: records.MessageCompleted) -> Sequence[AssistantPart]:
    """Return text of the model as parts of its answer."""
    if body.parts:
        return body.parts
    return (text_part(text=body.message),) if body.message else ()


def thought_part(body: records.ReasoningCompleted) -> ReasoningPart:
    """Return reasoning of the model as a part of its answer."""
    if body.provider_metadata is None:
        return reasoning_part(text=body.reasoning)
    return ReasoningPart(text=body.reasoning, provider_options=body.provider_metadata)


def part_of(action: Action) -> ToolCallPart:
    """Return an action as the part of the answer that requested it."""
    return call_part(tool_call_id=action.call_id, tool_name=action_name(action), input=action.input)
