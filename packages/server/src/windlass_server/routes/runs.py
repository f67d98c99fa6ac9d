"""Routes of runs: list, read, trace, decisions, prompts, cancel; and starts that were refused."""

from collections.abc import Mapping
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Response

from windlass.catalog.sessions import RunQuery
from windlass.playground import Playground, UnknownStep
from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import (
    AcceptedRun,
    DecisionRun,
    FeedbackInfo,
    FeedbackList,
    PlaygroundDraft,
    PromptMessage,
    RefusedStart,
    RefusedStartPage,
    ResultCost,
    RunCosts,
    RunInfo,
    RunPage,
    RunRow,
    StepAnswer,
    StepCost,
    StepPrompt,
    ToolCost,
    TraceInfo,
    UndoPlan,
    Usage,
    UsageShare,
)
from windlass_protocol.limits import INTEGER_MAX
from windlass_server.generated.bodies import Cancel, NewFeedback, NewPlaygroundRun, NewRunEvent, RetryRun
from windlass_server.generated.queries import (
    RunsDecisionsQuery,
    RunsListQuery,
    RunsRefusedQuery,
    RunsTraceQuery,
)
from windlass_server.openapi import (
    COSTS_EXAMPLE,
    DECISIONS_EXAMPLE,
    FEEDBACK_EXAMPLE,
    PLAYGROUND_EXAMPLE,
    PROMPT_EXAMPLE,
    REFUSED_START_EXAMPLE,
    RUN_EXAMPLE,
    RUN_ROW_EXAMPLE,
    TRACE_EXAMPLE,
    UNDO_EXAMPLE,
    answers,
    body_example,
)
from windlass_server.problems import Problem, not_found
from windlass_server.requests import (
    PREFIX,
    CallerDep,
    OwnRun,
    PageDep,
    accepted,
    body_of,
    narrow_budget,
    page_of,
    reply,
)
from windlass_server.routing import Route

router = APIRouter(prefix=PREFIX, tags=["runs"], route_class=Route)
StepIndex = Annotated[int, Path(ge=0, le=INTEGER_MAX, description="A step, from 0.", examples=[0])]


DECISIONS_MAX: Final = 1_000
"""Decisions of one page."""
RESULTS_MAX: Final = 20
"""Results of tools in the costs of a run."""


@router.get(
    "/runs",
    response_model=RunPage,
    responses=answers(200, {"runs": [RUN_ROW_EXAMPLE]}),
)
async def list_runs(caller: CallerDep, query: Annotated[RunsListQuery, Query()]) -> Response:
    """Return the runs of your sessions, newest first unless sorted otherwise."""
    run_query = RunQuery(
        session_id=query.session,
        # No id has a line break.
        run_ids=None if query.runs is None else query.runs.split("\n"),
        agent_id=query.agent,
        status=query.status,
        root_only=not query.subagents,
        playground=query.playground,
        waits_on=query.waits_on,
        version=query.version,
        error=query.error,
        tag=query.tag,
        feedback=query.feedback,
        has_crashed=query.crashed,
        since=query.since,
        until=query.until,
        cost_micros_min=query.cost_min,
        cost_micros_max=query.cost_max,
        duration_ms_min=query.duration_min,
        duration_ms_max=query.duration_max,
        text=query.text,
        sort=query.sort,
        is_ascending=query.ascending,
    )
    page = await caller.sessions.runs(after=query.after, limit=query.limit, **run_query)
    total = await caller.sessions.count_runs(**run_query) if query.total else None
    return reply(
        RunPage(runs=tuple(body_of(RunRow, info) for info in page.items), next=page.next, total=total)
    )


@router.get(
    "/refused-starts",
    response_model=RefusedStartPage,
    responses=answers(200, {"refusedStarts": [REFUSED_START_EXAMPLE]}),
)
async def list_refused_starts(caller: CallerDep, query: Annotated[RunsRefusedQuery, Query()]) -> Response:
    """Return the runs that you asked for and that were not started, newest first, with their errors."""
    page = await caller.sessions.refused_starts(after=query.after, limit=query.limit, agent_id=query.agent)
    refused = tuple(body_of(RefusedStart, start) for start in page.items)
    return reply(RefusedStartPage(refused_starts=refused, next=page.next))


@router.get(
    "/runs/{run_id:path}/trace",
    response_model=TraceInfo,
    responses=answers(200, TRACE_EXAMPLE),
)
async def trace(caller: CallerDep, run: OwnRun, query: Annotated[RunsTraceQuery, Query()]) -> Response:
    """Return the spans of a run: model calls, tool calls with their arguments in short, and waits; and its
    events.
    """
    run_trace = await caller.tenant.runtime.sessions.trace(run.run_id, after=query.after)
    return reply(body_of(TraceInfo, run_trace, events=run_trace.events if query.events else ()))


@router.get(
    "/runs/{run_id:path}/costs",
    response_model=RunCosts,
    responses=answers(200, COSTS_EXAMPLE),
)
async def costs(caller: CallerDep, run: OwnRun) -> Response:
    """Return what a run cost so far, by step, model, subagent and tool, and the results of tools that cost
    most.
    """
    run_costs = await caller.tenant.runtime.sessions.costs(run.run_id)
    results = sorted(run_costs.results, key=lambda result: (-result.cost_micros, -result.tokens))
    tools = sorted(run_costs.tools.items(), key=lambda item: (-item[1].cost_micros, item[0]))
    return reply(
        RunCosts(
            steps=tuple(body_of(StepCost, step) for step in run_costs.steps),
            models=_usage_shares(run_costs.models),
            subagents=_usage_shares(run_costs.agents),
            tools=tuple(body_of(ToolCost, cost, tool=tool) for tool, cost in tools),
            results=tuple(
                body_of(ResultCost, result, tool=result.tool_name) for result in results[:RESULTS_MAX]
            ),
        )
    )


def _usage_shares(usages: Mapping[str, Usage]) -> tuple[UsageShare, ...]:
    return tuple(UsageShare(name=name, usage=usage) for name, usage in usages.items())


@router.get(
    "/runs/{run_id:path}/decisions",
    response_model=DecisionRun,
    responses=answers(200, DECISIONS_EXAMPLE),
)
async def decisions(
    caller: CallerDep, run: OwnRun, query: Annotated[RunsDecisionsQuery, Query()]
) -> Response:
    """Return the decisions of a run with their alternatives, outcomes and problems."""
    return reply(
        await caller.tenant.runtime.handle(run.run_id).decisions(after=query.after, limit=query.limit)
    )


@router.get(
    "/runs/{run_id:path}/steps/{step_index}/prompt",
    response_model=StepPrompt,
    responses=answers(200, PROMPT_EXAMPLE),
)
async def prompt(*, caller: CallerDep, run: OwnRun, step_index: StepIndex) -> Response:
    """Return the instructions, tools and messages that the model received in a step."""
    rebuilt = await caller.tenant.runtime.sessions.prompt(run.run_id, step_index)
    if rebuilt is None:
        raise not_found("step")
    messages = tuple(
        body_of(PromptMessage, message, tool_calls=message.tool_calls or None, parts=message.parts or None)
        for message in rebuilt.messages
    )
    return reply(body_of(StepPrompt, rebuilt, messages=messages))


@router.get(
    "/runs/{run_id:path}/steps/{step_index}/playground",
    response_model=PlaygroundDraft,
    responses=answers(200, PLAYGROUND_EXAMPLE),
)
async def playground_draft(*, caller: CallerDep, run: OwnRun, step_index: StepIndex) -> Response:
    """Return the parts of a model call that the playground can change, the models that can be chosen, and the
    answer that the call got.
    """
    try:
        draft = await Playground(caller.tenant.runtime).draft(run.run_id, step_index)
    except UnknownStep:
        raise not_found("step") from None
    answer = None if draft.answer is None else body_of(StepAnswer, draft.answer)
    return reply(body_of(PlaygroundDraft, draft, answer=answer))


@router.post(
    "/runs/{run_id:path}/steps/{step_index}/playground",
    status_code=202,
    response_model=AcceptedRun,
    responses=answers(202, {"sessionId": "play-019a8f…", "runId": "play-019a8f…"}),
)
async def play(
    *,
    caller: CallerDep,
    run: OwnRun,
    step_index: StepIndex,
    body: Annotated[
        NewPlaygroundRun,
        body_example(
            instructions={"instructions": "Answer in one sentence.", "size": "call"},
            model={"model": "openai/gpt-5-mini", "temperature": 0},
            tools={"tools": {"pay": "Pay a bill; ask before you pay more than 100 euros."}},
        ),
    ],
) -> Response:
    """Start a playground run: a model call of a run again, in a session of its own."""
    if run.agent_id not in caller.tenant.agent_ids:
        raise Problem(403, "runs of this agent cannot be started here, so the playground cannot run it")
    if body.calls == "real" and not (caller.approves_own or "approver" in caller.principal.roles):
        raise Problem(403, "real calls of the playground need the role approver: its messages can be edited")
    play_id = caller.id_for("play")
    try:
        handle = await Playground(caller.tenant.runtime).run(
            run.run_id,
            step_index,
            instructions=body.instructions,
            messages=body.messages,
            tools=body.tools,
            model=body.model,
            temperature=body.temperature,
            size=body.size or "run",
            calls=body.calls or "recorded",
            new_run_id=None if play_id is None else f"play-{play_id}",
            source=caller.principal.source,
        )
    except UnknownStep:
        raise not_found("step") from None
    return accepted(handle.run_id, handle.run_id)


@router.post(
    "/runs/{run_id:path}/cancel",
    status_code=202,
    response_model=AcceptedRun,
    responses=answers(202, {"sessionId": "019a8f…", "runId": "019a8f…"}),
)
async def cancel(
    *,
    caller: CallerDep,
    run: OwnRun,
    body: Annotated[Cancel | None, body_example(reason={"reason": "It takes too long."})] = None,
) -> Response:
    """Cancel a run; no effect on a run that has ended."""
    reason = None if body is None else body.reason
    await caller.tenant.runtime.cancel_run(run.run_id, by=caller.principal.user, reason=reason)
    return accepted(run.session_id, run.run_id)


@router.post(
    "/runs/{run_id:path}/retry",
    status_code=202,
    response_model=AcceptedRun,
    responses=answers(202, {"sessionId": "019a8f…", "runId": "retry:019a8f…"}),
)
async def retry(
    *,
    caller: CallerDep,
    run: OwnRun,
    body: Annotated[RetryRun | None, body_example(budget={"budget": {"maxSteps": 40}})] = None,
) -> Response:
    """Continue a failed run in a new run of its session, without repeating finished calls."""
    budget = None if body is None else narrow_budget(caller, run.agent_id, body.budget)
    handle = await caller.tenant.runtime.handle(run.run_id).retry(budget=budget)
    return accepted(run.session_id, handle.run_id)


@router.post(
    "/runs/{run_id:path}/events",
    status_code=202,
    response_model=AcceptedRun,
    responses=answers(202, {"sessionId": "019a8f…", "runId": "019a8f…"}),
)
async def send(
    *,
    caller: CallerDep,
    run: OwnRun,
    body: Annotated[NewRunEvent, body_example(paid={"name": "paid", "data": {"amount": 40}, "key": "pay_7"})],
) -> Response:
    """Send an event that the workflow of a run waits for; it is kept until then, and taken once."""
    data = body.data if "data" in body.model_fields_set else True
    handle = caller.tenant.runtime.handle(run.run_id)
    await handle.send(body.name, data, key=body.key or caller.id_for("event"), by=caller.principal.user)
    return accepted(run.session_id, run.run_id)


@router.post(
    "/runs/{run_id:path}/feedback",
    status_code=202,
    response_model=AcceptedRun,
    responses=answers(202, {"sessionId": "019a8f…", "runId": "019a8f…"}),
)
async def give_feedback(
    *,
    caller: CallerDep,
    run: OwnRun,
    body: Annotated[NewFeedback, body_example(thumb={"thumb": "down", "note": "The amount is wrong."})],
) -> Response:
    """Record what you say of a run, of one of its steps, or of an answer."""
    await caller.tenant.runtime.handle(run.run_id).feedback(
        thumb=body.thumb,
        score=body.score,
        note=body.note,
        tags=body.tags or (),
        step_index=body.step_index,
        message_id=body.message_id,
        by=caller.principal.user,
        key=caller.id_for("feedback"),
    )
    return accepted(run.session_id, run.run_id)


@router.get(
    "/runs/{run_id:path}/feedback",
    response_model=FeedbackList,
    responses=answers(200, {"feedback": [FEEDBACK_EXAMPLE]}),
)
async def feedback(caller: CallerDep, run: OwnRun, query: PageDep) -> Response:
    """Return what people said of a run, its steps and its answers, oldest first."""
    # Feedback is only added to, so that its number names it.
    numbered = tuple(enumerate(await caller.tenant.runtime.sessions.feedback(run.run_id)))
    page = page_of(numbered, query, name=lambda pair: str(pair[0]))
    items = tuple(body_of(FeedbackInfo, item) for _, item in page.items)
    return reply(FeedbackList(feedback=items, next=page.next))


@router.get(
    "/runs/{run_id:path}/undo",
    response_model=UndoPlan,
    responses=answers(200, UNDO_EXAMPLE),
)
async def undo_plan(caller: CallerDep, run: OwnRun) -> Response:
    """Return the calls of a run that may have changed something, newest first."""
    return reply(await caller.tenant.runtime.handle(run.run_id).undo_plan())


@router.post(
    "/runs/{run_id:path}/undo",
    status_code=202,
    response_model=AcceptedRun,
    responses=answers(202, {"sessionId": "019a8f…", "runId": "undo:019a8f…"}),
)
async def undo(caller: CallerDep, run: OwnRun) -> Response:
    """Reverse the calls of a run, newest first, in a new run of its session."""
    handle = await caller.tenant.runtime.handle(run.run_id).undo()
    return accepted(run.session_id, handle.run_id)


@router.get(
    "/runs/{run_id:path}",
    response_model=RunInfo,
    responses=answers(200, RUN_EXAMPLE),
)
async def get(caller: CallerDep, run: OwnRun) -> Response:
    """Return the state of a run, its open requests and its result."""
    runtime = caller.tenant.runtime
    snapshot = await runtime.run_snapshot(run.run_id)
    is_over = snapshot.status in RUN_ENDS.values()
    result = await runtime.handle(run.run_id).wait() if is_over else None
    requests = () if is_over else await runtime.handle(run.run_id).open_requests()
    listed = await runtime.sessions.runs(session_id=run.session_id, run_ids=(run.run_id,), limit=1)
    row = next((body_of(RunRow, info) for info in listed.items), None)
    return reply(RunInfo(run=snapshot, row=row, result=result, requests=requests))
