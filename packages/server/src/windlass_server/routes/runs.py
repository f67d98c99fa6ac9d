"""Runs: where they are, what they chose, ending them."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field

from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import DecisionRun, RunStatus
from windlass_protocol.limits import INTEGER_MAX
from windlass_server import examples
from windlass_server.access import CallerDep, own_run
from windlass_server.docs import answers, body_example, reply, seen
from windlass_server.guard import PREFIX
from windlass_server.limits import PAGE_DEFAULT, PAGE_MAX
from windlass_server.models import (
    Accepted,
    Cancel,
    PromptMessage,
    PromptView,
    RunPage,
    RunRowView,
    RunView,
    TraceView,
)
from windlass_server.problems import not_found
from windlass_server.wire import Wire

router = APIRouter(prefix=PREFIX, tags=["runs"])
RunId = Annotated[str, Path(description="A run.", examples=["019a8f…"])]
StepIndex = Annotated[int, Path(ge=0, le=INTEGER_MAX, description="A step, from 0.", examples=[0])]


class RunQueryParams(Wire):
    """Which runs are wanted."""

    after: Annotated[str | None, Field(max_length=64, description="The `next` of the page before.")] = None
    limit: Annotated[int, Field(ge=1, le=PAGE_MAX, description="Runs on a page.")] = PAGE_DEFAULT
    session: Annotated[str | None, Field(min_length=1, max_length=512)] = None
    agent: Annotated[str | None, Field(min_length=1, max_length=512)] = None
    status: RunStatus | None = None


@router.get(
    "/runs",
    response_model=RunPage,
    responses=answers(200, {"runs": [examples.RUN_ROW]}, 400),
    summary="Your runs",
)
async def list_runs(caller: CallerDep, query: Annotated[RunQueryParams, Query()]) -> Response:
    """Return the runs of your sessions, the one that was asked for last first."""
    page = await caller.tenant.runtime.sessions.runs(
        after=query.after,
        limit=query.limit,
        session_id=query.session,
        agent_id=query.agent,
        status=query.status,
        owner=caller.principal.user,
    )
    return reply(RunPage(runs=tuple(seen(RunRowView, info) for info in page.items), next=page.next))


@router.get(
    "/runs/{run_id:path}/trace",
    response_model=TraceView,
    responses=answers(200, examples.TRACE, 404, 409),
    summary="What a run did, and how long it took",
)
async def trace(caller: CallerDep, run_id: RunId) -> Response:
    """Return the spans of a run: model calls, tool calls and waits, without words."""
    await own_run(caller, run_id)
    return reply(seen(TraceView, await caller.tenant.runtime.sessions.trace(run_id)))


@router.get(
    "/runs/{run_id:path}/decisions",
    response_model=DecisionRun,
    responses=answers(200, examples.DECISIONS, 404, 409),
    summary="What a run chose",
)
async def decisions(caller: CallerDep, run_id: RunId) -> Response:
    """Return what a run chose, among what, what came of it, and what went wrong."""
    await own_run(caller, run_id)
    return reply(await caller.tenant.runtime.decisions(run_id))


@router.get(
    "/runs/{run_id:path}/steps/{step_index}/prompt",
    response_model=PromptView,
    responses=answers(200, examples.PROMPT, 404),
    summary="What the model was asked",
)
async def prompt(*, caller: CallerDep, run_id: RunId, step_index: StepIndex) -> Response:
    """Return the instructions, tools and messages that the model got in a step.

    They are made again from the journal and the version of the agent that the run is pinned to; `unknown`
    says what cannot be known. Of several attempts at a step it is the last one.
    """
    await own_run(caller, run_id)
    found = await caller.tenant.runtime.sessions.prompt(run_id, step_index)
    if found is None:
        raise not_found("step")
    messages = tuple(seen(PromptMessage, one) for one in found.messages)
    return reply(seen(PromptView, found, messages=messages))


@router.post(
    "/runs/{run_id:path}/cancel",
    status_code=202,
    response_model=Accepted,
    responses=answers(202, {"sessionId": "019a8f…", "runId": "019a8f…"}, 404, has_body=True),
    summary="End a run",
)
async def cancel(
    *,
    caller: CallerDep,
    run_id: RunId,
    given: Annotated[Cancel | None, body_example(reason={"reason": "It takes too long."})] = None,
) -> Response:
    """Ask a run to end; nothing happens to one that has ended."""
    row = await own_run(caller, run_id)
    reason = None if given is None else given.reason
    await caller.tenant.runtime.cancel_run(run_id, by=caller.principal.user, reason=reason)
    return reply(Accepted(session_id=row.session_id, run_id=run_id), 202)


@router.get(
    "/runs/{run_id:path}",
    response_model=RunView,
    responses=answers(200, examples.RUN, 404),
    summary="Where a run is",
)
async def get(caller: CallerDep, run_id: RunId) -> Response:
    """Return where a run is, what it waits for, and what came of it."""
    await own_run(caller, run_id)
    runtime = caller.tenant.runtime
    snapshot = await runtime.run_snapshot(run_id)
    is_over = snapshot.status in RUN_ENDS.values()
    result = await runtime.run_result(run_id) if is_over else None
    requests = () if is_over else await runtime.run_requests(run_id)
    return reply(RunView.model_construct(run=snapshot, result=result, requests=requests))
