"""What a step waited for: results of actions, and answers of people."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic_core import to_json

from windlass.steps.calls import EXECUTION_DENIED, Ready, Refused, approved_call, grant_key
from windlass.steps.performing import (
    action_event,
    output_as,
    perform,
    refusal,
    result_event,
    result_part,
    tool_part,
)
from windlass.steps.questions import answer_value, match_option, resolve
from windlass.steps.run import Shown, StepRun, at, dump
from windlass_harness.loop.events import AskedCall
from windlass_protocol import (
    AssistantMessage,
    InputKind,
    InputOutcome,
    InputRequest,
    InputResolution,
    InputResponse,
    ModelMessage,
    PendingActionBatch,
    PendingInputBatch,
    RuntimeActionResult,
    StepInput,
    StepPlace,
    SubagentActionResult,
    TextPart,
    ToolCallAction,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserContent,
)

_DENIED: Final = "A person denied the call."
_IGNORED: Final = "Nobody consented to the call."


@dataclass(frozen=True, slots=True)
class Resumed:
    """What is left of an input once the step took what it waited for."""

    given: StepInput
    is_waiting: bool = False
    """Something is still to come."""
    is_answered: bool = False
    """People have answered the last request that was open."""
    is_queued: bool = False
    """Some of the input had to wait."""
    late: tuple[Shown, ...] = ()
    """Results to show when the next step has begun."""


async def resume(run: StepRun, given: StepInput) -> Resumed:
    """Take what the step waited for; when all is there, calls get their results.

    A message that comes while something is open waits, unless it names an option of the only request that is
    open: then it is the answer.
    """
    actions, asked = run.state.pending_action_batch, run.state.pending_input_batch
    if actions is None and asked is None:
        await _tell(run, _stale(given.input_responses or ()), run.state.place)
        return Resumed(given)
    if actions is not None:
        run.change(pending_action_batch=_with_results(actions, given.runtime_action_results or ()))
    rest = StepInput(message=given.message, context=given.context, output_schema=given.output_schema)
    if asked is not None:
        responses = given.input_responses or ()
        spoken = None if responses else _spoken_answer(asked, given.message)
        if spoken is not None:
            responses, rest = (spoken,), rest.model_copy(update={"message": None})
        await _take_answers(run, asked, responses)
    is_queued = run.state.deferred_input is not None
    rest = coalesce(run.state.deferred_input, rest)
    if _is_open(run.state.pending_action_batch, run.state.pending_input_batch):
        run.change(deferred_input=rest if rest.model_dump() else None)
        return Resumed(rest, is_waiting=True)
    late = await _settle(run)
    return Resumed(rest, is_answered=asked is not None, is_queued=is_queued, late=late)


def coalesce(first: StepInput | None, second: StepInput) -> StepInput:
    """Join two inputs, in this order; of two schemas the later one counts."""
    if first is None:
        return second
    return StepInput(
        message=_joined(first.message, second.message),
        context=(*(first.context or ()), *(second.context or ())) or None,
        output_schema=first.output_schema if second.output_schema is None else second.output_schema,
        input_responses=(*(first.input_responses or ()), *(second.input_responses or ())) or None,
        runtime_action_results=(
            *(first.runtime_action_results or ()),
            *(second.runtime_action_results or ()),
        )
        or None,
    )


def _joined(first: UserContent | None, second: UserContent | None) -> UserContent | None:
    if first is None or second is None:
        return second if first is None else first
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    parts = [(TextPart(text=one),) if isinstance(one, str) else one for one in (first, second)]
    return (*parts[0], *parts[1])


# taking


def _with_results(batch: PendingActionBatch, results: Sequence[RuntimeActionResult]) -> PendingActionBatch:
    """Add the results of actions of the batch that have none yet."""
    asked = {action.call_id for action in batch.actions}
    have = {result.call_id: result for result in batch.results or ()}
    for result in results:
        if result.call_id in asked:
            have.setdefault(result.call_id, result)
    return batch.model_copy(update={"results": tuple(have.values())})


def _open_requests(batch: PendingInputBatch) -> tuple[InputRequest, ...]:
    answered = {response.request_id for response in batch.responses or ()}
    return tuple(request for request in batch.requests if request.request_id not in answered)


def _is_open(actions: PendingActionBatch | None, asked: PendingInputBatch | None) -> bool:
    waits = actions is not None and len(actions.results or ()) < len(actions.actions)
    return waits or (asked is not None and bool(_open_requests(asked)))


def _spoken_answer(batch: PendingInputBatch, message: UserContent | None) -> InputResponse | None:
    """Return the answer that a message is: an option of the only open request."""
    requests = _open_requests(batch)
    if not isinstance(message, str) or len(requests) != 1:
        return None
    option = match_option(requests[0], message)
    return None if option is None else InputResponse(request_id=requests[0].request_id, option_id=option)


async def _take_answers(run: StepRun, batch: PendingInputBatch, responses: Sequence[InputResponse]) -> None:
    requests = {request.request_id: request for request in _open_requests(batch)}
    kept = list(batch.responses or ())
    resolutions: list[InputResolution] = []
    for response in responses:
        request = requests.get(response.request_id)
        if request is None:
            resolutions += _stale((response,))
            continue
        resolution = resolve(request, response)
        resolutions.append(resolution)
        if resolution.outcome is not InputOutcome.INVALID:
            del requests[response.request_id]
            kept.append(resolution.response or response)
    run.change(pending_input_batch=batch.model_copy(update={"responses": tuple(kept)}))
    await _tell(run, resolutions, batch.event)


def _stale(responses: Iterable[InputResponse]) -> list[InputResolution]:
    """Answers to what is not open count for nothing."""
    return [
        InputResolution(request_id=response.request_id, outcome=InputOutcome.INVALID, response=response)
        for response in responses
    ]


async def _tell(run: StepRun, resolutions: Sequence[InputResolution], place: StepPlace | None) -> None:
    if resolutions and place is not None and run.is_one_turn:
        told = [dump(resolution) for resolution in resolutions]
        await run.emit("input.resolved", {"resolutions": [*told], **at(place)})


# settling


async def _settle(run: StepRun) -> tuple[Shown, ...]:
    """Give the calls that waited their results; both go into the history."""
    state = run.state
    parts: dict[str, ToolResultPart] = {}
    late: tuple[Shown, ...] = ()
    messages = state.pending_messages or ()
    for message in messages:
        if isinstance(message, ToolMessage):
            parts |= {one.tool_call_id: one for one in message.content if isinstance(one, ToolResultPart)}
    if state.pending_action_batch is not None:
        parts |= await _settle_actions(run, state.pending_action_batch)
    if state.pending_input_batch is not None:
        answered, late = await _settle_requests(run, state.pending_input_batch)
        parts |= answered
    run.say(*_paired(messages, parts))
    run.change(
        pending_messages=None, pending_action_batch=None, pending_input_batch=None, deferred_input=None
    )
    if run.is_one_turn:
        place = run.place
        run.change(place=place.model_copy(update={"step_index": place.step_index + 1}))
    return late


def _paired(messages: Sequence[ModelMessage], parts: dict[str, ToolResultPart]) -> tuple[ModelMessage, ...]:
    """Return the answer and its results, in the order of the calls."""
    answer = messages[0]
    assert isinstance(answer, AssistantMessage), "an answer with calls waits"
    calls = [part.tool_call_id for part in answer.content if isinstance(part, ToolCallPart)]
    return answer, ToolMessage(content=tuple(parts[call_id] for call_id in calls))


async def _settle_actions(run: StepRun, batch: PendingActionBatch) -> dict[str, ToolResultPart]:
    results = {result.call_id: result for result in batch.results or ()}
    parts: dict[str, ToolResultPart] = {}
    for action in batch.actions:
        result = results[action.call_id]
        if isinstance(result, SubagentActionResult) and not result.is_error:
            output = result.output if isinstance(result.output, str) else to_json(result.output).decode()
            told = {"callId": result.call_id, "subagentName": result.subagent_name, "output": output}
            await run.emit("subagent.completed", {**told})
        shown = action_event(result, batch.event)
        await run.emit(shown.type, shown.data)
        name = getattr(action, "name", None) or getattr(action, "tool_name", "load_skill")
        output = output_as(result.output, is_error=result.is_error is True)
        parts[action.call_id] = tool_part(action.call_id, str(name), output=output)
    return parts


async def _settle_requests(
    run: StepRun, batch: PendingInputBatch
) -> tuple[dict[str, ToolResultPart], tuple[Shown, ...]]:
    responses = {response.request_id: response for response in batch.responses or ()}
    parts: dict[str, ToolResultPart] = {}
    approved: list[Ready | Refused] = []
    for request in batch.requests:
        action = request.action
        assert isinstance(action, ToolCallAction), "people are asked about calls of tools"
        resolution = resolve(request, responses[request.request_id])
        if request.kind is InputKind.QUESTION:
            output = output_as(answer_value(resolution))
            parts[action.call_id] = tool_part(action.call_id, action.tool_name, output=output)
        elif resolution.outcome is InputOutcome.APPROVED:
            approved.append(await _approve(run, action))
        else:
            denied = refusal(_denied(action, resolution.outcome))
            shown = result_event(denied, batch.event)
            await run.emit(shown.type, shown.data)
            parts[action.call_id] = result_part(denied)
    outcomes = await perform(run, approved, place=batch.event)
    parts |= {one.returned.call_id: result_part(one) for one in outcomes}
    if not run.is_one_turn:
        return parts, tuple(result_event(one, batch.event) for one in outcomes)
    for one in outcomes:
        shown = result_event(one, batch.event)
        await run.emit(shown.type, shown.data)
    return parts, ()


def _denied(action: ToolCallAction, outcome: InputOutcome) -> Refused:
    told = _DENIED if outcome is InputOutcome.DENIED else _IGNORED
    call = AskedCall(action.call_id, action.tool_name, action.input)
    return Refused(call, EXECUTION_DENIED, told, is_denied=True)


async def _approve(run: StepRun, action: ToolCallAction) -> Ready | Refused:
    item = await approved_call(run, action)
    if isinstance(item, Ready):
        key = grant_key(run.harness, item.tool, arguments=item.arguments.json)
        known = run.state.approved_tools or ()
        if key is not None and key not in known:
            run.change(approved_tools=(*known, key))
    return item
