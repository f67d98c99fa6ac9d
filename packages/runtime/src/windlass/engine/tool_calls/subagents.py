"""Subagent calls: what the child run starts with, and the review of its report."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from pydantic import JsonValue
from pydantic_core import from_json

from windlass.agent.agent import subagent_tool
from windlass.engine.binding import Binding
from windlass.engine.hook_points import after_call
from windlass.engine.tool_calls.approval import Judged, begins_job
from windlass.engine.tool_calls.results import CallResults, failure_result, review
from windlass.errors import AgentError
from windlass.ports.clock import Clock
from windlass.ports.store import ContentStore
from windlass.tools import Tool
from windlass.tools.calling import Arguments, run_of_json
from windlass_harness.loop.events import (
    CallJudged,
    CallRefused,
    CallReturned,
    Delegation,
    ModelAnswered,
    ReviewReport,
    RunTool,
)
from windlass_harness.loop.jobs import JobCall
from windlass_harness.loop.notes import Child
from windlass_harness.loop.state import LoopState
from windlass_harness.loop.subagents import child_of
from windlass_harness.views.history import Call
from windlass_harness.views.runs import RunState
from windlass_protocol import AllowDecision, JsonObject, ModifyDecision
from windlass_protocol.frozen import frozen
from windlass_protocol.generated import records

REFUSED = "subagent_refused"
"""Error code of a call if its subagent cannot start."""


@frozen
class Task:
    """The task of a subagent."""

    run: RunState
    """The calling run."""
    child: Child
    package_id: str
    message: str
    output_schema: JsonObject | None = None
    job: JobCall | None = None
    """The one call that the subagent makes, without a model."""


class Delegator(Protocol):
    """Checks and prepares the start of a subagent."""

    async def __call__(self, task: Task) -> JsonObject:
        """Run every start check; return the body of the child's start item.

        Raises:
            AgentError: the subagent cannot start.
        """
        ...


def with_subagents(answer: ModelAnswered, tools: Mapping[str, Tool[..., object]]) -> ModelAnswered:
    """Return the answer with its subagent calls marked."""
    for call in answer.calls:
        tool = tools.get(call.tool_name)
        if tool is not None and tool.delegates is not None:
            break
    else:
        return answer
    names = {name for name, tool in tools.items() if tool.delegates is not None}
    calls = tuple(
        replace(call, subagent=call.tool_name) if call.tool_name in names else call for call in answer.calls
    )
    return replace(answer, calls=calls)


async def delegate(
    judged: Judged, state: LoopState, *, binding: Binding, delegator: Delegator | None
) -> CallJudged | CallRefused:
    """Return the decision with the child's start body, if the call is for a subagent."""
    event, run, call = judged.event, state.run, state.call(judged.event.call_id)
    if run is None or call is None or not isinstance(event.decision, AllowDecision | ModifyDecision):
        return event
    tool, arguments = binding.tools[call.tool_name], judged.arguments.json
    is_background = begins_job(tool, state, call.call_id)
    is_tool = tool.delegates is None
    if is_tool and not is_background:
        return event
    if delegator is None:
        return CallRefused(event.call_id, REFUSED, "This process cannot start subagents.", event.notes)
    child = child_of(run, call, name=tool.name)
    package_id = tool.delegates or binding.package.package_id
    output_schema = arguments.get("output_schema")
    task = (
        Task(run, child, package_id, f"Call {tool.name}.", job=JobCall(tool_name=tool.name, input=arguments))
        if is_tool
        else Task(
            run,
            child,
            package_id,
            str(arguments["message"]),
            output_schema if isinstance(output_schema, dict) else None,
        )
    )
    try:
        body = await delegator(task)
    except AgentError as error:
        message = binding.redactor.text(error.message)
        return CallRefused(event.call_id, REFUSED, f"The subagent was not started: {message}", event.notes)
    delegation = Delegation(
        tool.name,
        body,
        parts=_parts(binding, state, call),
        is_background=is_background,
        is_tool=is_tool,
    )
    return replace(event, delegation=delegation)


def _parts(binding: Binding, state: LoopState, begun: Call) -> int:
    """Return how many subagent calls share the remaining budget; a program may call another one later."""
    parts = sum(
        (tool := binding.tools.get(call.tool_name)) is not None
        and (tool.delegates is not None or tool.is_background)
        and state.note(call.call_id).report is None
        for call in state.session.history.open_calls()
    )
    return parts if begun.parent_id is None else parts + 1


async def review_report(
    binding: Binding,
    run: RunState,
    *,
    state: LoopState,
    effect: ReviewReport,
    content: ContentStore,
    clock: Clock,
) -> CallReturned:
    """Return the report as the model sees it; hooks and the policy review it first."""
    report, output = effect.report, effect.report.output
    error = report.error or records.ActionError(code="subagent_failed", message=output)
    if report.is_error:
        returned = failure_result(effect.call_id, error.code, message=error.message)
    else:
        value: JsonValue = from_json(output) if report.is_structured else output
        results = CallResults(content, clock=clock, redactor=binding.redactor)
        returned = await results.result_of(effect.call_id, run_of_json(value), duration_ms=0)
        returned = replace(returned, duration_ms=None)
    made = RunTool(
        effect.call_id, effect.tool_name, effect.arguments, "", step_index=effect.step_index, attempt=1
    )
    returned = await after_call(binding, run, state=state, effect=made, returned=returned, clock=clock)
    tool = binding.tools.get(effect.tool_name) or subagent_tool(effect.tool_name, "", package_id="")
    arguments = Arguments(effect.arguments, "", {})
    seen = await review(binding, tool, arguments=arguments, returned=returned)
    return seen if seen is returned else replace(seen, notes=returned.notes)
