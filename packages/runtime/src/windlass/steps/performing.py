"""Making calls, and what is told and remembered of their results."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from pydantic import JsonValue

from windlass.engine.answer import elapsed_ms
from windlass.engine.making import made
from windlass.engine.results import Results, failed
from windlass.errors import is_told_to_end
from windlass.steps.calls import Ready, Refused
from windlass.steps.run import Shown, StepRun, at
from windlass.tools.context import STEPS_KEY, ToolContext, ToolState
from windlass_harness.completion import is_terminal_result
from windlass_harness.loop.authored import STATE_TOO_LARGE, changed, state_problem
from windlass_harness.loop.events import CallReturned, StateChange
from windlass_protocol import (
    ActionStatus,
    JsonObject,
    RuntimeActionResult,
    StepPlace,
    ToolOutput,
    ToolOutputType,
    ToolResultPart,
)

RESULT_FAILED = "ACTION_RESULT_FAILED"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a call."""

    tool_name: str
    returned: CallReturned
    is_terminal: bool = False
    """Whether the tool says that nothing is left to do."""


async def perform(run: StepRun, items: Sequence[Ready | Refused], *, place: StepPlace) -> tuple[Outcome, ...]:
    """Make calls at the same time; their results come in the order of the calls.

    `place` is the step that asked for them, so that a call made again has the same idempotency key.
    """
    return tuple(await asyncio.gather(*(_one(run, item, place) for item in items)))


async def _one(run: StepRun, item: Ready | Refused, place: StepPlace) -> Outcome:
    if isinstance(item, Refused):
        return refusal(item)
    harness, tool, call_id = run.harness, item.tool, item.call.call_id
    identity = harness.config.runtime_identity
    context = ToolContext(
        run.session.session_id,
        place.turn_id,
        call_id,
        agent_id="" if identity is None else identity.agent_id,
        turn_id=place.turn_id,
        step_index=place.step_index,
        attempt=run.attempt,
        timeout_ms=tool.timeout_ms,
        state=ToolState(run.session.state),
    )
    started = harness.clock.monotonic()
    try:
        async with harness.gates.of(tool):
            ran = await made(tool, item.arguments, context=context)
    except asyncio.CancelledError:
        if is_told_to_end():
            raise
        told = f"{tool.name} broke off by itself; whether it did anything is not known"
        return Outcome(tool.name, failed(call_id, "cancelled", message=told))
    results = Results(harness.content, clock=harness.clock, redactor=harness.config.redactor)
    returned = await results.returned(call_id, ran, duration_ms=elapsed_ms(harness.clock, started))
    if returned.status is ActionStatus.COMPLETED:
        returned = _kept(run, returned, context.state.change)
    return Outcome(tool.name, returned, is_terminal=is_terminal_result(ran.result))


def _kept(run: StepRun, returned: CallReturned, change: StateChange | None) -> CallReturned:
    """Keep what a call changed; one whose changes do not fit has failed."""
    if change is None:
        return returned
    values = dict(run.session.state or {})
    problem = state_problem({key: one for key, one in values.items() if key != STEPS_KEY}, change)
    if problem is not None:
        told = f"The call was made, but what it wanted to remember was not kept: {problem}"
        return failed(returned.call_id, STATE_TOO_LARGE, message=told, duration_ms=returned.duration_ms)
    run.session = run.session.model_copy(update={"state": changed(values, change)})
    return returned


def refusal(item: Refused) -> Outcome:
    """Return the result of a call that is not made."""
    status = ActionStatus.REJECTED if item.is_denied else ActionStatus.FAILED
    returned = CallReturned(item.call.call_id, status, None, code=item.code, message=item.message)
    return Outcome(item.call.tool_name, returned)


def result_event(outcome: Outcome, place: StepPlace) -> Shown:
    """Return the event that tells of a result."""
    returned = outcome.returned
    result: JsonObject = {"kind": "tool-result", "callId": returned.call_id, "toolName": outcome.tool_name}
    data: JsonObject = {"status": returned.status.value, **at(place)}
    if returned.status is ActionStatus.COMPLETED:
        result["output"] = returned.output
    else:
        error: JsonObject = {"code": returned.code, "message": returned.message}
        result.update(output=error, isError=True)
        data["error"] = error
    if returned.content is not None:
        data["contentRef"] = returned.content
    if returned.duration_ms is not None:
        data["durationMs"] = returned.duration_ms
    return Shown("action.result", {**data, "result": result})


def result_part(outcome: Outcome) -> ToolResultPart:
    """Return a result as the history has it."""
    returned = outcome.returned
    if returned.status is ActionStatus.COMPLETED:
        return tool_part(returned.call_id, outcome.tool_name, output=output_as(returned.output))
    if returned.status is ActionStatus.REJECTED:
        denied = ToolOutput(type=ToolOutputType.EXECUTION_DENIED, reason=returned.message)
        return tool_part(returned.call_id, outcome.tool_name, output=denied)
    output = ToolOutput(type=ToolOutputType.ERROR_TEXT, value=returned.message)
    return tool_part(returned.call_id, outcome.tool_name, output=output)


def tool_part(call_id: str, tool_name: str, *, output: ToolOutput) -> ToolResultPart:
    """Return the result of a call as a part of a message."""
    return ToolResultPart(tool_call_id=call_id, tool_name=tool_name, output=output)


def output_as(value: JsonValue, *, is_error: bool = False) -> ToolOutput:
    """Return a value as the output of a call: as text if it is one, else as JSON."""
    if isinstance(value, str):
        kind = ToolOutputType.ERROR_TEXT if is_error else ToolOutputType.TEXT
    else:
        kind = ToolOutputType.ERROR_JSON if is_error else ToolOutputType.JSON
    return ToolOutput(type=kind, value=value)


def action_event(result: RuntimeActionResult, place: StepPlace) -> Shown:
    """Return the event that tells of a result that the runtime brought."""
    body = cast(JsonObject, result.model_dump(mode="json"))
    if not result.is_error:
        return Shown("action.result", {"status": "completed", "result": body, **at(place)})
    output = result.output if isinstance(result.output, dict) else {}
    code, message = output.get("code"), output.get("message")
    error: JsonObject = {
        "code": code if isinstance(code, str) else RESULT_FAILED,
        "message": message if isinstance(message, str) else "the action failed",
    }
    return Shown("action.result", {"status": "failed", "error": error, "result": body, **at(place)})
