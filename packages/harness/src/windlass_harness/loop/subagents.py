"""Subagents: calls that run in a child session, their budgets, requests and reports.

The start item of the child is in one append with the record of the call, and the child's report with the end
of its run. So neither can be lost or repeated by a crash, and a waiting subagent call needs no recovery.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Final, TypedDict

from msgspec import UNSET
from pydantic import JsonValue
from pydantic_core import to_json

from windlass_harness.budget import BudgetState, remaining, share, wire_limits
from windlass_harness.loop.events import (
    ChildSaid,
    Delegation,
    Draft,
    Moment,
    join_ids,
    within_limit,
)
from windlass_harness.loop.notes import BackgroundJob, Child
from windlass_harness.loop.rules import Rules
from windlass_harness.loop.state import LoopState
from windlass_harness.record import Post
from windlass_harness.views.history import Call, CallStage
from windlass_harness.views.payloads import JOB
from windlass_harness.views.runs import RUN_END_BODIES, RUN_ENDS, RunState
from windlass_protocol import (
    ActionStatus,
    BudgetLimits,
    InputOutcome,
    InputRequest,
    InputResolution,
    Invocation,
    JsonObject,
    ParentRun,
    RunStatus,
    SessionCapabilities,
    Taint,
)
from windlass_protocol.bodies import Part, data_of, or_none, read_body
from windlass_protocol.generated import records
from windlass_protocol.limits import ID_CHARS_MAX

ASK: Final = "child_asks"
"""Item kind: a subagent requests input."""
SETTLE: Final = "child_settles"
"""Item kind: a request of a subagent was settled."""
REPORT: Final = "child_ended"
"""Item kind: a subagent ended."""
START: Final = "start"
"""Item kind: starts a run. It waits while an earlier run of the session waits."""
CANCEL: Final = "cancel"
"""Item kind: cancels a run."""
STEER: Final = "steer"
"""Item kind: a message to the run of a session, or to a new one."""
TELL: Final = "tell"
"""Item kind: a message of its caller to the run of a subagent."""
DEPTH: Final = "subagent_depth"
COUNT: Final = "subagent_count"
BUDGET: Final = "subagent_budget"
_SESSION: Final = "session:"
_SUBAGENT: Final = "subagent:"
"""Prefix of the run ids of all subagents, and of no other runs."""
_CANCELLED: Final = "The run that called it has ended."
_NOTHING_USED: Final = BudgetState()
_NEEDED: Final = ("maxTokens", "maxSteps", "maxWallMs")
"""Budgets that a subagent cannot start without a share of."""


def child_of(run: RunState, call: Call, *, name: str) -> Child:
    """Return the child session and run of a call; deterministic."""
    call_path = join_ids(run.run_id, str(call.step_index), call.call_id)
    run_id = _SUBAGENT + within_limit(call_path, most=ID_CHARS_MAX - len(_SESSION + _SUBAGENT))
    return Child(name, _SESSION + run_id, run_id)


def is_childs(name: str) -> bool:
    """Whether an id has the form of a subagent's run or session."""
    return name.removeprefix(_SESSION).startswith(_SUBAGENT)


# calling


def limit_passed(
    state: LoopState, call: Call, delegation: Delegation, *, now: Moment, rules: Rules
) -> tuple[str, str] | None:
    """Return the code and message of an exceeded subagent limit; None if there is none."""
    depth, most = _depth(state.run), rules.subagent_depth_max
    if depth > most:
        return DEPTH, f"Subagents may be {most} levels deep, and this would be level {depth}. Do it yourself."
    if state.run_notes.children >= (most := _children_max(state, call, rules)):
        return COUNT, f"This run has called {most} subagents, and may call no more. Do it yourself."
    left = _share(state, delegation, now)
    if any(left.get(name) == 0 for name in _NEEDED):
        return BUDGET, "Too little is left of the budget of this run to share it with a subagent."
    return None


def _children_max(state: LoopState, call: Call, rules: Rules) -> int:
    """Return how many subagents a run may call: those of a workflow are calls of it, which are limited."""
    program = None if call.parent_id is None else state.note(call.parent_id).program
    is_of_workflow = program is not None and program.is_workflow
    return rules.workflow_calls_max if is_of_workflow else rules.subagent_calls_max


def call_subagent(
    state: LoopState, call: Call, *, delegation: Delegation, now: Moment, rules: Rules
) -> Draft | tuple[str, str]:
    """Return the record of a subagent call, with the child's start item; or a refusal."""
    refusal = limit_passed(state, call, delegation, now=now, rules=rules)
    if refusal is not None:
        return refusal
    run = state.run
    assert run is not None, "only a run calls"
    child = child_of(run, call, name=delegation.name)
    own = delegation.body.get("budget")
    budget = _least(own if isinstance(own, dict) else {}, _share(state, delegation, now))
    called = records.SubagentCalled(
        call_id=call.call_id,
        child_session_id=child.session_id,
        child_run_id=child.run_id,
        session_id=run.session_id,
        name=child.name,
        tool_name=call.tool_name,
        depth=_depth(run),
        lent=BudgetLimits.model_validate(budget) if budget else None,
        job=next_job_id(state) if delegation.is_background else None,
        **state.turn_place,
    )
    body = _start(state, call, child=child, delegation=delegation, budget=budget)
    draft = state.draft(called, now=now)
    draft.posts = (Post(child.session_id, START, within_limit(f"{START}:{child.run_id}"), body),)
    return draft


def next_job_id(state: LoopState) -> str:
    """Return the id of the next job of a session."""
    return f"job_{state.job_count + 1}"


def _start(
    state: LoopState, call: Call, *, child: Child, delegation: Delegation, budget: Mapping[str, int]
) -> JsonObject:
    run, turn = state.run, state.session.turn
    assert run is not None
    assert turn is not None
    above = run.parent
    root = run.session_id if above is None else above.root_session_id
    callers = () if above is None else above.agents or ()
    invocation = Invocation(
        parent_call_id=call.call_id,
        parent_session_id=run.session_id,
        parent_turn_id=turn.turn_id,
        name=child.name,
    )
    caller_parent = delegation.body.get("parent")
    own_parent = ParentRun(
        session_id=run.session_id,
        run_id=run.run_id,
        call_id=call.call_id,
        root_session_id=root,
        depth=_depth(run),
        agents=(*callers, run.agent_id),
    )
    parent: JsonObject = {
        **(caller_parent if isinstance(caller_parent, dict) else {}),
        **own_parent.model_dump(mode="json", by_alias=True),
    }
    opening = delegation.body.get("session")
    session: JsonObject = {**opening} if isinstance(opening, dict) else {}
    session |= {"invocation": invocation.model_dump(mode="json", by_alias=True), "rootSessionId": root}
    if state.session.taint:
        # The task may quote content that this session has read.
        session["taint"] = [*sorted(state.session.taint)]
    body: JsonObject = {**delegation.body, "runId": child.run_id, "parent": parent, "session": session}
    if run.owner is not None:
        body["owner"] = run.owner
    return {**body, "budget": {**budget}} if budget else body


def _depth(run: RunState | None) -> int:
    """Return the depth of a child of the run."""
    return 1 if run is None or run.parent is None else run.parent.depth + 1


def _share(state: LoopState, delegation: Delegation, now: Moment) -> dict[str, int]:
    """Return the child's share of the remaining budget; open calls of the step are deducted first.

    All children at once get no more than there is: what is lent to others is not lent again.
    """
    notes = state.run_notes
    open_calls = state.session.history.open_calls()
    unbegun = sum(call.stage is CallStage.REQUESTED for call in open_calls)
    used = replace(
        notes.spent,
        tool_calls_used=notes.budget.tool_calls_used + unbegun,
        wall_ms_used=state.wall_ms(now),
    )
    part = wire_limits(share(used, notes.limits, parts=delegation.parts))
    lent = [
        note.lent for call in open_calls if (note := state.note(call.call_id)).report is None and note.lent
    ]
    run_id = None if state.run is None else state.run.run_id
    lent += [
        job.lent for job in state.jobs.values() if job.run_id == run_id and job.status is None and job.lent
    ]
    if not lent:
        return part
    free = remaining(
        replace(
            used,
            tokens_used=used.tokens_used + sum(limits.max_tokens or 0 for limits in lent),
            steps_used=used.steps_used + sum(limits.max_steps or 0 for limits in lent),
            tool_calls_used=used.tool_calls_used + sum(limits.max_tool_calls or 0 for limits in lent),
            cost_micros_used=used.cost_micros_used + sum(limits.max_cost_micros or 0 for limits in lent),
        ),
        notes.limits,
    )
    return _least(part, wire_limits(free))


def _least(own: Mapping[str, object], left: Mapping[str, int]) -> dict[str, int]:
    """Return all limits of both, and the smaller one of each that both have."""
    limits = {name: limit for name, limit in own.items() if isinstance(limit, int)}
    return limits | {name: min(limits.get(name, limit), limit) for name, limit in left.items()}


# items of children and for them


class CancelItem(Part, frozen=True, kw_only=True):
    """The body of an item that cancels a run."""

    run_id: str
    by: str | None = None
    reason: str | None = None


class ChildItem(Part, frozen=True, kw_only=True):
    """The body of an item from a subagent: which call of which run it is for."""

    run_id: str
    call_id: str
    child_run_id: str


class ChildAsked(ChildItem, frozen=True, kw_only=True):
    """A subagent requests input."""

    requests: Sequence[records.JsonObject]
    session_id: str


class ChildSettled(ChildItem, frozen=True, kw_only=True):
    """Requests of a subagent were settled."""

    resolutions: Sequence[records.JsonObject]


class ChildEnded(ChildItem, frozen=True, kw_only=True):
    """A subagent ended."""

    status: RunStatus | None = None
    output: str | None = None
    is_error: bool | None = None
    is_structured: bool | None = None
    error: records.ActionError | None = None
    usage: records.Usage | None = None
    steps: int | None = None
    tool_calls: int | None = None
    settled_micros: int | None = None
    taint: Sequence[Taint] | None = None


_ITEMS: Final[dict[str, type[ChildAsked | ChildSettled | ChildEnded]]] = {
    ASK: ChildAsked,
    SETTLE: ChildSettled,
    REPORT: ChildEnded,
}


def take_message(state: LoopState, event: ChildSaid, *, now: Moment) -> list[Draft]:
    """Return the records of a message from a subagent; none if its call is not open, or its job has ended."""
    item, job = read_body(_ITEMS[event.kind], event.body), state.job_of(str(event.body.get("childRunId")))
    if not (_is_open(state, item) if job is None else job.status is None):
        return []
    if isinstance(item, ChildEnded) and job is not None:
        return _end_job(state, item, job, now)
    if state.run is None:
        # A job goes on after its run; what it asks then is open in its own session.
        return []
    if isinstance(item, ChildAsked):
        return _take_requests(state, item, now)
    if isinstance(item, ChildSettled):
        resolutions = [InputResolution.model_validate(resolution) for resolution in item.resolutions]
        return _take_resolutions(state, item.call_id, resolutions, now)
    return _take_end(state, item, now)


def _is_open(state: LoopState, item: ChildItem) -> bool:
    """Whether the call of a subagent is open and has no report."""
    run, note = state.run, state.note(item.call_id)
    is_ours = run is not None and run.run_id == item.run_id
    is_child = note.child is not None and note.child.run_id == item.child_run_id
    return is_ours and is_child and note.report is None and state.call(item.call_id) is not None


def _take_requests(state: LoopState, item: ChildAsked, now: Moment) -> list[Draft]:
    if not item.requests:
        return []
    body = records.InputRequested(
        requests=[InputRequest.model_validate(request) for request in item.requests],
        call_id=item.call_id,
        child_session_id=item.session_id,
        **state.place(),
    )
    return [report_requests(state, body, session_id=item.session_id, now=now)]


def _take_resolutions(
    state: LoopState, call_id: str, resolutions: Sequence[InputResolution], now: Moment
) -> list[Draft]:
    drafts: list[Draft] = []
    for resolution in resolutions:
        proxied = state.session.family.proxied.get(resolution.request_id)
        if proxied is not None and proxied.call_id == call_id:
            body = records.InputResolved(
                resolutions=[resolution],
                call_id=call_id,
                child_session_id=proxied.session_id,
                **state.place(),
            )
            drafts.append(report_settled(state, body, now=now))
    return drafts


def close_requests(state: LoopState, now: Moment) -> list[Draft]:
    """Return the records that close the requests of all subagents."""
    proxied_requests = state.session.family.proxied.values()
    call_ids = dict.fromkeys(proxied.call_id for proxied in proxied_requests)
    return [draft for call_id in call_ids for draft in _withdrawn(state, call_id, now)]


def _withdrawn(state: LoopState, call_id: str, now: Moment) -> list[Draft]:
    left = [
        InputResolution(request_id=request_id, outcome=InputOutcome.CANCELLED)
        for request_id, proxied in state.session.family.proxied.items()
        if proxied.call_id == call_id
    ]
    return _take_resolutions(state, call_id, left, now)


def _take_end(state: LoopState, item: ChildEnded, now: Moment) -> list[Draft]:
    child = state.note(item.call_id).child
    assert child is not None, "only a child that was called has ended"
    return [*_withdrawn(state, item.call_id, now), state.draft(_end_body(item, child), now=now)]


def _end_job(state: LoopState, item: ChildEnded, job: BackgroundJob, now: Moment) -> list[Draft]:
    """Return the record that a job has ended; if no run goes on that could hear of it, one begins."""
    body = _end_body(item, job.child)
    if state.run is not None and not state.is_ending:
        return [*_withdrawn(state, item.call_id, now), state.draft(body, now=now)]
    is_dropped = job.is_dropped or (state.run is not None and state.run.run_id == job.run_id)
    ended = Draft(body.TYPE, now.at, body)
    ended.posts = () if is_dropped else (_turn_post(state, job),)
    return [ended]


def _turn_post(state: LoopState, job: BackgroundJob) -> Post:
    """Return the message that begins a run, like the newest one, to hear of a job that has ended."""
    run = state.session.run
    assert run is not None, "a run began the job"
    contract, budget = state.run_notes.contract, run.budget
    facts = records.RunStarted(
        run_id=within_limit(f"after:{job.child.run_id}"),
        agent_id=run.agent_id,
        package_id=run.package_id,
        package_fingerprint=run.package_fingerprint,
        route_id=run.route_id,
        model_id=run.model_id,
        source=run.source,
        owner=run.owner,
        mode=run.mode,
        capabilities=None if run.can_ask else SessionCapabilities(request_input=False),
        budget=budget,
        metadata=run.metadata,
    )
    body: JsonObject = {
        **data_of(facts),
        "message": "",
        "context": [f"Job {job.job_id} ({job.name}) has ended."],
        "delivery": JOB,
    }
    if contract is not None:
        body["contract"] = contract.model_dump(mode="json", by_alias=True)
    return Post(run.session_id, STEER, within_limit(f"{STEER}:{JOB}:{job.child.run_id}"), body)


def _end_body(item: ChildEnded, child: Child) -> records.SubagentCompleted:
    return records.SubagentCompleted(
        call_id=item.call_id,
        subagent_name=child.name,
        output=item.output or "",
        is_error=item.is_error,
        usage=item.usage,
        child_session_id=child.session_id,
        child_run_id=child.run_id,
        status=item.status,
        is_structured=item.is_structured,
        error=item.error,
        taint=item.taint,
        steps=item.steps,
        tool_calls=item.tool_calls,
        settled_micros=item.settled_micros,
    )


# reports to the parent run


def report_requests(state: LoopState, body: records.InputRequested, *, session_id: str, now: Moment) -> Draft:
    """Return the draft of a request, with an item for the parent run."""
    draft = state.draft(body, now=now)
    if (ids := _parent_ids(state.run)) is not None:
        requests = [request.model_dump(mode="json", by_alias=True) for request in body.requests]
        item = ChildAsked(requests=requests, session_id=session_id, **ids)
        _tell(draft, state.run, ASK, item, name=body.requests[0].request_id)
    return draft


def report_settled(state: LoopState, body: records.InputResolved, *, now: Moment) -> Draft:
    """Return the draft of a settled request, with an item for the parent run."""
    resolved = state.draft(body, now=now)
    if (ids := _parent_ids(state.run)) is not None:
        resolutions = [resolution.model_dump(mode="json", by_alias=True) for resolution in body.resolutions]
        item = ChildSettled(resolutions=resolutions, **ids)
        _tell(resolved, state.run, SETTLE, item, name=body.resolutions[0].request_id)
    return resolved


def report_end(
    run: RunState,
    ended: Draft,
    *,
    used: BudgetState = _NOTHING_USED,
    settled: int | None = None,
    taint: Set[str] = frozenset(),
) -> Draft:
    """Return the end of a run, with a report for the parent run."""
    body, ids = ended.body, _parent_ids(run)
    if ids is None or not isinstance(body, RUN_END_BODIES):
        return ended
    status, output, error, is_structured = RUN_ENDS[body.TYPE], "", None, None
    if isinstance(body, records.RunCompleted):
        is_structured = True if body.structured_output is not UNSET else None
        value = or_none(body.structured_output)
        output = to_json(value).decode() if is_structured else body.output or ""
    else:
        output = body.error.message if body.error is not None else _ENDED[status]
        error = records.ActionError(code=f"subagent_{status.value}", message=output)
    item = ChildEnded(
        status=status,
        output=output,
        is_error=None if error is None else True,
        is_structured=is_structured,
        error=error,
        usage=body.usage,
        steps=used.steps_used,
        tool_calls=used.tool_calls_used,
        settled_micros=settled,
        taint=[Taint(label) for label in sorted(taint)] or None,
        **ids,
    )
    _tell(ended, run, REPORT, item, name="")
    return ended


_ENDED: Final = {
    RunStatus.CANCELLED: "The subagent was cancelled before it was done.",
    RunStatus.FAILED: "The subagent failed.",
    RunStatus.BUDGET_EXHAUSTED: "The subagent used up its budget.",
}


class _ParentIds(TypedDict):
    run_id: str
    call_id: str
    child_run_id: str


def _parent_ids(run: RunState | None) -> _ParentIds | None:
    if run is None or run.parent is None:
        return None
    return {"run_id": run.parent.run_id, "call_id": run.parent.call_id, "child_run_id": run.run_id}


def _tell(draft: Draft, run: RunState | None, kind: str, item: ChildItem, *, name: str) -> None:
    assert run is not None
    assert run.parent is not None
    key = within_limit(f"{kind}:{run.run_id}:{name}")
    draft.posts = (*draft.posts, Post(run.parent.session_id, kind, key, data_of(item)))


def cancel_children(state: LoopState, ended: Draft) -> Draft:
    """Return the end of a run, with cancel items for its subagents; jobs of a completed run go on."""
    children = [
        child
        for call in state.session.history.open_calls()
        if (child := state.note(call.call_id).child) is not None and state.note(call.call_id).report is None
    ]
    if not isinstance(ended.body, records.RunCompleted):
        children += [
            job.child for job in state.jobs.values() if job.run_id == ended.run_id and job.status is None
        ]
    ended.posts = (*ended.posts, *(cancel_post(child, _CANCELLED) for child in children))
    return ended


def cancel_post(child: Child, reason: str) -> Post:
    """Return the item that cancels the run of a subagent."""
    body = data_of(CancelItem(run_id=child.run_id, reason=reason))
    return Post(child.session_id, CANCEL, within_limit(f"{CANCEL}:{child.run_id}"), body)


def result_of(
    state: LoopState, call: Call, *, output: JsonValue, is_error: bool = False
) -> records.RuntimeActionResult:
    """Return the result of a call: of a tool, or of a subagent."""
    child, failed = state.note(call.call_id).child, True if is_error else None
    if child is None:
        return records.ToolActionResult(
            call_id=call.call_id, tool_name=call.tool_name, output=output, is_error=failed
        )
    return records.SubagentActionResult(
        call_id=call.call_id, subagent_name=child.name, output=output, is_error=failed
    )


def fail_call(state: LoopState, call: Call, error: records.ActionError, *, now: Moment) -> Draft:
    """Return the record of a call that failed without an output."""
    body = records.ActionResult(
        result=result_of(state, call, output=None, is_error=True),
        status=ActionStatus.FAILED,
        error=error,
        **state.place_of(call),
    )
    return state.draft(body, now=now)
