"""Proposals to change agents: made, tried, and answered by people."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from windlass.errors import Conflict
from windlass.ledger import ProposalState, ProposalStatus
from windlass_server import examples
from windlass_server.access import CallerDep
from windlass_server.docs import answers, body_example, reply, seen
from windlass_server.guard import PREFIX, Caller
from windlass_server.improving import Improving, Work
from windlass_server.problems import Problem, not_found
from windlass_server.proposal_models import (
    CheckWish,
    NewProposal,
    ProposalAccepted,
    ProposalList,
    ProposalView,
    Ruling,
    WorkView,
)
from windlass_server.repeats import once
from windlass_server.settings import ImproveSettings
from windlass_server.starting import IdempotencyKey, agent_for, session_id_for, taken
from windlass_server.wire import Wire

router = APIRouter(prefix=PREFIX, tags=["proposals"])
ProposalId = Annotated[str, Path(description="A proposal.", examples=["proposal-019a8f…"])]


class ProposalQuery(Wire):
    """Which proposals are wanted."""

    status: ProposalStatus | None = None
    agent: str | None = None


@router.get(
    "/proposals",
    response_model=ProposalList,
    responses=answers(200, {"proposals": [examples.PROPOSAL], "work": []}, 404),
    summary="The proposals",
)
async def list_proposals(
    request: Request, caller: CallerDep, *, query: Annotated[ProposalQuery, Query()]
) -> Response:
    """Return the proposals to change agents of the tenant, the newest first.

    For improvers: a proposal quotes runs of everybody in the tenant.
    """
    desk = _desk(request, caller)
    found = await desk.builder.proposals()
    wanted = [
        one
        for one in found
        if query.status in (None, one.status) and query.agent in (None, one.proposal.agent_id)
    ]
    work = tuple(seen(WorkView, one) for one in desk.works)
    return reply(ProposalList(proposals=tuple(_view(desk, one) for one in wanted), work=work))


@router.post(
    "/proposals",
    status_code=202,
    response_model=ProposalAccepted,
    responses=answers(202, {"proposalId": "proposal-019a8f…"}, 404, 409, has_body=True),
    summary="Ask for a change",
)
async def propose(
    request: Request,
    caller: CallerDep,
    *,
    wanted: Annotated[NewProposal, body_example(prices={"goal": "prices", "agent": "clerk"})],
    key: IdempotencyKey = None,
) -> Response:
    """Let the model of the server propose a change to the agent of a goal.

    It looks at recorded runs. The answer comes at once; the proposal is in the list when it is made. The same
    key after a restart of the server goes on where it was.
    """
    desk, settings = _desk(request, caller), _settings(request)
    if settings.model is None:
        raise taken(
            "the server was given no model to propose with: ImproveSettings(model=…), --builder-model"
        )
    if wanted.goal not in {goal.goal_id for goal in settings.goals}:
        names = ", ".join(goal.goal_id for goal in settings.goals) or "none"
        raise taken(f"the server does not know this goal, only {names}: ImproveSettings(goals=[…]), --goals")
    agent = None if wanted.agent is None else agent_for(caller, wanted.agent)
    proposal_id = f"proposal-{session_id_for(caller, key, kind='proposal')}"
    work = Work(proposal_id, "propose", _now(caller), wanted.goal, agent)
    async with once(caller, key, route="proposals", body=wanted):
        desk.begin(work, lambda: desk.builder.propose(wanted.goal, agent=agent, proposal_id=proposal_id))
    return reply(ProposalAccepted(proposal_id=proposal_id), 202)


@router.post(
    "/proposals/{proposal_id:path}/check",
    status_code=202,
    response_model=ProposalAccepted,
    responses=answers(202, {"proposalId": "proposal-019a8f…"}, 404, 409, has_body=True),
    summary="Try a proposal",
)
async def check(
    request: Request,
    caller: CallerDep,
    *,
    proposal_id: ProposalId,
    wanted: Annotated[CheckWish | None, body_example(some={}, more={"repeats": 3})] = None,
) -> Response:
    """Do recorded runs again with both versions, and compare how they do.

    Nothing else happens. The models are asked for real. The answer comes at once; the check is in the
    proposal when it is done.
    """
    desk = _desk(request, caller)
    made = (await _find(desk, proposal_id)).proposal
    if made.goal_id not in {goal.goal_id for goal in _settings(request).goals}:
        raise taken("the server does not know the goal of this proposal: ImproveSettings(goals=[…]), --goals")
    wish = wanted or CheckWish()
    work = Work(proposal_id, "check", _now(caller), made.goal_id, made.agent_id)
    desk.begin(work, lambda: desk.builder.check(proposal_id, run_ids=wish.run_ids, repeats=wish.repeats))
    return reply(ProposalAccepted(proposal_id=proposal_id), 202)


@router.post(
    "/proposals/{proposal_id:path}/approve",
    response_model=ProposalView,
    responses=answers(200, examples.PROPOSAL, 404, 409, has_body=True),
    summary="Say yes to a proposal",
)
async def approve(
    request: Request,
    caller: CallerDep,
    *,
    proposal_id: ProposalId,
    ruling: Annotated[Ruling | None, body_example(words={"reason": "The check is clear."})] = None,
) -> Response:
    """Keep your yes, with your name; it can be taken back until the change is made.

    Whoever runs the server makes the change, with `builder.apply`, and gives the new agent to it.
    """
    return await _settle(request, caller, proposal_id=proposal_id, given=ruling or Ruling(), is_yes=True)


@router.post(
    "/proposals/{proposal_id:path}/refuse",
    response_model=ProposalView,
    responses=answers(200, examples.PROPOSAL, 404, 409, has_body=True),
    summary="Say no to a proposal",
)
async def refuse(
    request: Request,
    caller: CallerDep,
    *,
    proposal_id: ProposalId,
    ruling: Annotated[Ruling | None, body_example(words={"reason": "It makes it slower."})] = None,
) -> Response:
    """Keep your no, with your name and your words."""
    return await _settle(request, caller, proposal_id=proposal_id, given=ruling or Ruling(), is_yes=False)


@router.get(
    "/proposals/{proposal_id:path}",
    response_model=ProposalView,
    responses=answers(200, examples.PROPOSAL, 404),
    summary="A proposal",
)
async def get(request: Request, caller: CallerDep, *, proposal_id: ProposalId) -> Response:
    """Return a proposal: the change, its evidence, how it did, what people said."""
    desk = _desk(request, caller)
    return reply(_view(desk, await _find(desk, proposal_id)))


def _settings(request: Request) -> ImproveSettings:
    return request.app.state.improve


def _desk(request: Request, caller: Caller) -> Improving:
    if "improver" not in caller.principal.roles:
        raise not_found("route")
    return caller.tenant.insight.improving(_settings(request))


async def _find(desk: Improving, proposal_id: str) -> ProposalState:
    try:
        return await desk.builder.proposal(proposal_id)
    except Conflict:
        pass
    raise not_found("proposal")


async def _settle(
    request: Request, caller: Caller, *, proposal_id: str, given: Ruling, is_yes: bool
) -> Response:
    """Keep what somebody says, unless they read another version."""
    desk = _desk(request, caller)
    made = (await _find(desk, proposal_id)).proposal
    if given.fingerprint not in (None, made.fingerprint):
        raise Problem(409, "the proposal makes another version than this: read it, then decide")
    say = desk.builder.approve if is_yes else desk.builder.refuse
    return reply(_view(desk, await say(proposal_id, by=caller.principal.user, reason=given.reason)))


def _view(desk: Improving, state: ProposalState) -> ProposalView:
    work = tuple(seen(WorkView, one) for one in desk.works if one.proposal_id == state.proposal.id)
    return seen(ProposalView, state, work=work)


def _now(caller: Caller) -> str:
    now = caller.tenant.runtime.ports.machine.clock.now()
    return f"{now.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
