"""Jobs: work in the background. A call is answered at once, and the work goes on in a session of its own.

A job is a run of a subagent that no call waits for: of another agent, or of the same agent to make one call
of a tool. Its requests, its budget and its report are those of every subagent. The report is reviewed like
that of a call, and joins the next model call as a message. If no run is under way, it begins one.
"""

from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from windlass_harness.loop import ends, failures, subagents, undo
from windlass_harness.loop.events import (
    CallReturned,
    CallSettlement,
    Draft,
    Moment,
    Plan,
    ReviewReport,
    within_limit,
)
from windlass_harness.loop.notes import (
    CANCEL_JOB,
    JOB_TOOLS,
    LIST_JOBS,
    MESSAGE_JOB,
    WAIT_FOR_JOB,
    BackgroundJob,
)
from windlass_harness.loop.rules import Rules
from windlass_harness.loop.state import LoopState
from windlass_harness.record import Post
from windlass_harness.views.history import Call
from windlass_harness.views.payloads import JOB
from windlass_protocol import (
    ActionStatus,
    JsonObject,
    RunMode,
    RunStatus,
    ToolMessage,
    ToolOutput,
    ToolOutputType,
    ToolResultPart,
)
from windlass_protocol.bodies import Part, read_body
from windlass_protocol.generated import records

UNKNOWN_JOB: Final = "unknown_job"
_CANCELLED: Final = "The agent that began it cancelled it."
_DONE: Final = (ToolOutputType.TEXT, ToolOutputType.JSON)


class JobCall(Part, frozen=True, kw_only=True):
    """The call in the start of a run that makes one call."""

    tool_name: str
    input: records.JsonObject


# the run that began the jobs


def begin_result(
    state: LoopState, call: Call, job_id: str, *, name: str, is_tool: bool, now: Moment
) -> Draft:
    """Return the result of a call that began a job."""
    output: JsonObject = {"job": job_id, "name": name, "status": RunStatus.RUNNING.value}
    result: records.RuntimeActionResult = (
        records.ToolActionResult(call_id=call.call_id, tool_name=name, output=output)
        if is_tool
        else records.SubagentActionResult(call_id=call.call_id, subagent_name=name, output=output)
    )
    body = records.ActionResult(result=result, status=ActionStatus.COMPLETED, **state.place_of(call))
    return state.draft(body, now=now)


def are_awaited(state: LoopState, rules: Rules) -> bool:
    """Whether a run that has its answer waits for jobs: a task ends with its run, a conversation does not."""
    is_task = state.run is not None and state.run.mode is RunMode.TASK
    is_waiting = (is_task or rules.waits_for_jobs) and not reports(state)
    return is_waiting and any(job.is_open for job in state.jobs.values())


def are_busy(state: LoopState) -> bool:
    """Whether an open job does not wait for a person."""
    return any(job.is_open and not _is_asking(state, job) for job in state.jobs.values())


def _is_asking(state: LoopState, job: BackgroundJob) -> bool:
    return any(request.call_id == job.call_id for request in state.session.family.proxied.values())


def reports(state: LoopState) -> tuple[ReviewReport, ...]:
    """Return the reviews of reports that no message has brought yet."""
    step = state.place()["step_index"] if state.session.turn is not None else 0
    return tuple(
        ReviewReport(job.job_id, job.name, {}, job.report, step)
        for job in state.jobs.values()
        if job.report is not None
    )


def deliver(state: LoopState, event: CallReturned, *, now: Moment) -> list[Draft]:
    """Return the message that brings a reviewed report; none if there is none to bring."""
    job = state.jobs.get(event.call_id)
    if job is None or job.report is None or state.is_ending:
        return []
    if event.status is ActionStatus.COMPLETED:
        output = event.output if isinstance(event.output, str) else to_json(event.output).decode()
        text = f"Job {job.job_id} ({job.name}) has completed. Its result:\n{output}"
    else:
        text = f"Job {job.job_id} ({job.name}) has no result: {event.message or event.code}"
    body = records.MessageReceived(
        message="", context=[text], delivery=JOB, job=job.job_id, **state.turn_place
    )
    return [state.draft(body, now=now)]


def settle(state: LoopState, call: Call, *, now: Moment, rules: Rules) -> CallSettlement | None:
    """Return what becomes of a call about jobs; None for other calls."""
    name = call.tool_name
    if not rules.has_jobs or name not in JOB_TOOLS:
        return None
    if name == LIST_JOBS:
        listed: list[JsonValue] = [_facts(state, job) for job in state.jobs.values()]
        return CallSettlement([_result(state, call, listed, now)])
    arguments = call.input if isinstance(call.input, dict) else {}
    job = state.jobs.get(str(arguments.get("job")))
    if job is None:
        message = f"There is no job {arguments.get('job')}; list_jobs lists them."
        error = records.ActionError(code=UNKNOWN_JOB, message=message)
        return CallSettlement([subagents.fail_call(state, call, error, now=now)])
    if name == WAIT_FOR_JOB and job.status is None:
        # Its result follows as a message, as that of every job.
        return CallSettlement(is_busy=not _is_asking(state, job))
    draft = _result(state, call, _facts(state, job), now)
    if name == CANCEL_JOB and job.status is None:
        draft.posts = (subagents.cancel_post(job.child, _CANCELLED),)
    elif name == MESSAGE_JOB and job.status is None:
        draft.posts = (_message_post(call, job, str(arguments.get("message"))),)
    return CallSettlement([draft])


def _message_post(call: Call, job: BackgroundJob, message: str) -> Post:
    run_id, call_path = job.child.run_id, f"{call.turn_id}:{call.step_index}:{call.call_id}"
    key = within_limit(f"{subagents.TELL}:{run_id}:{call_path}")
    body: JsonObject = {"runId": run_id, "message": message, "messageId": key}
    return Post(job.child.session_id, subagents.TELL, key, body)


def _facts(state: LoopState, job: BackgroundJob) -> JsonObject:
    """Return a job as the model sees it."""
    status = "waits for a person" if _is_asking(state, job) else RunStatus.RUNNING.value
    return {
        "job": job.job_id,
        "name": job.name,
        "status": status if job.status is None else job.status.value,
        "began": job.began_at,
    }


def _result(state: LoopState, call: Call, output: JsonValue, now: Moment) -> Draft:
    result = records.ToolActionResult(call_id=call.call_id, tool_name=call.tool_name, output=output)
    body = records.ActionResult(result=result, status=ActionStatus.COMPLETED, **state.place_of(call))
    return state.draft(body, now=now)


# the run of a job


def next_step(state: LoopState, *, now: Moment) -> Plan:
    """Return the next step of a run that makes one call: the call, the last message, or the failure."""
    run = state.run
    assert run is not None
    assert run.job is not None
    if not state.run_notes.budget.steps_used:
        call = read_body(JobCall, run.job)
        action = records.ToolCallAction(call_id=call.tool_name, tool_name=call.tool_name, input=call.input)
        return undo.plan_step(state, action, now=now)
    output = _output(state)
    text = output.value if isinstance(output.value, str) else to_json(output.value).decode()
    if output.type not in _DONE:
        return Plan(ends.fail_run(state, failures.job_failed(text), now=now))
    return undo.plan_step(state, text, now=now)


def _output(state: LoopState) -> ToolOutput:
    """Return the result of the only call of a run; a hook or a message may have said something since."""
    messages = reversed(state.session.history.messages)
    (part,) = next(message.content for message in messages if isinstance(message, ToolMessage))
    assert isinstance(part, ToolResultPart), "a call has a result"
    return part.output
