"""Routes over many runs: statistics, failures, versions of agents, proposals to change them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Final, TypedDict

from fastapi import APIRouter, Path, Query, Request, Response

from windlass.agent.package import package_difference, package_of
from windlass.catalog import RunStats
from windlass.catalog.stats import RunGroup, RunSplit
from windlass.errors import Conflict, Rejected
from windlass.ledger import ProposalState
from windlass.ledger.changes import package_values
from windlass.ports.recorded import Fact, RunLook
from windlass_harness.ledger.goals import RunFacts
from windlass_harness.ledger.reports import failure_groups
from windlass_harness.ledger.versions import compare_versions, tally
from windlass_protocol import (
    AgentComparison,
    AgentVersion,
    AgentVersions,
    FailingTool,
    FailureCause,
    FailureGroup,
    Failures,
    PackageDifference,
    ProposalAccepted,
    ProposalList,
    ProposalView,
    ProposalWork,
    RunNumbers,
    Stats,
    StatsBucket,
    StatsGroup,
    ToolBucket,
    ToolGroup,
    VersionTally,
    WaitingNumbers,
)
from windlass_server.generated.bodies import NewProposal, ProposalTrial, Verdict
from windlass_server.generated.queries import (
    AgentsCompareQuery,
    AgentsVersionsQuery,
    ProposalsListQuery,
    RunsFailuresQuery,
    RunsStatsQuery,
)
from windlass_server.openapi import (
    COMPARE_EXAMPLE,
    FAILURES_EXAMPLE,
    PROPOSAL_EXAMPLE,
    STATS_EXAMPLE,
    VERSIONS_EXAMPLE,
    answers,
    body_example,
)
from windlass_server.problems import Problem, not_found
from windlass_server.requests import (
    PREFIX,
    Caller,
    CallerDep,
    agent_for,
    body_of,
    conflict_error,
    page_of,
    reply,
    stamp,
)
from windlass_server.routing import Route
from windlass_server.settings import ImproveSettings
from windlass_server.tenants import Improving, Work

numbers = APIRouter(prefix=PREFIX, tags=["numbers"], route_class=Route)
ledger = APIRouter(prefix=PREFIX, tags=["ledger"], route_class=Route)
proposals = APIRouter(prefix=PREFIX, tags=["proposals"], route_class=Route)
FAILING_TOOLS_MAX: Final = 20
GROUPS_MAX: Final = 8
"""Agents, models or versions in statistics that are split."""
SPAN_DEFAULT: Final = timedelta(days=1)
_GROUPS: Final[Mapping[str, RunSplit]] = {
    "agent": "agent",
    "user": "owner",
    "model": "model",
    "version": "version",
}
"""How runs are grouped for a split."""


@numbers.get(
    "/stats",
    response_model=Stats,
    responses=answers(200, STATS_EXAMPLE),
)
async def stats(caller: CallerDep, query: Annotated[RunsStatsQuery, Query()]) -> Response:
    """Return counts, durations and cost of your runs."""
    end = query.until or caller.now()
    start = query.since or end - SPAN_DEFAULT
    run_stats = await caller.sessions.stats(
        start, end, bucket_s=query.bucket, agent_id=query.agent, split=_GROUPS.get(query.split or "")
    )
    look = caller.sessions.look(query.agent, run_stats.start, run_stats.end)
    failing = await caller.tenant.insight.ask(lambda book: book.list_failing_tools(look, FAILING_TOOLS_MAX))
    view = _stats_view(
        run_stats, failing, None if query.split in (None, "tool") else run_stats.groups[:GROUPS_MAX]
    )
    if query.split != "tool":
        return reply(view)
    counts = await caller.tenant.insight.ask(lambda book: book.count_tools(look, query.bucket))
    return reply(
        view.model_copy(update={"tools": _by_tool(counts, [bucket.at for bucket in run_stats.buckets])})
    )


def _by_tool(counts: Iterable[tuple[int, Fact]], starts: Sequence[str]) -> tuple[ToolGroup, ...]:
    """Return the calls of the tools that are called most."""
    tools: dict[str, dict[int, Fact]] = {}
    for at, fact in counts:
        tools.setdefault(fact.name, {})[at] = fact
    most = sorted(tools.items(), key=lambda item: (-sum(fact.total for fact in item[1].values()), item[0]))
    return tuple(
        ToolGroup(
            tool=name,
            **_calls(tuple(by_time.values())),
            buckets=tuple(
                ToolBucket(at=start, **_calls((by_time[at],) if at in by_time else ()))
                for at, start in enumerate(starts)
            ),
        )
        for name, by_time in most[:GROUPS_MAX]
    )


class _Calls(TypedDict):
    calls: int
    failed: int
    mean_ms: int | None


def _calls(facts: Sequence[Fact]) -> _Calls:
    ended = sum(fact.succeeded + fact.failed for fact in facts)
    return _Calls(
        calls=sum(fact.total for fact in facts),
        failed=sum(fact.failed for fact in facts),
        mean_ms=sum(fact.latency_ms for fact in facts) // ended if ended else None,
    )


def _stats_view(
    stats: RunStats, failing: list[tuple[str, int, int]], groups: Sequence[RunGroup] | None
) -> Stats:
    tools = (FailingTool(tool=tool, calls=calls, failed=failed) for tool, calls, failed in failing)
    return Stats(
        since=stats.start,
        until=stats.end,
        bucket_s=stats.bucket_s,
        total=body_of(RunNumbers, stats.total),
        buckets=tuple(body_of(StatsBucket, bucket) for bucket in stats.buckets),
        waiting=body_of(WaitingNumbers, stats.waiting),
        failing_tools=tuple(tools),
        groups=None if groups is None else tuple(_group_view(group) for group in groups),
    )


def _group_view(group: RunGroup) -> StatsGroup:
    return StatsGroup(
        name=group.name,
        total=body_of(RunNumbers, group.total),
        buckets=tuple(body_of(StatsBucket, bucket) for bucket in group.buckets),
    )


RUNS_MAX: Final = 10_000
"""The newest runs that one response is computed from."""
CAUSES_MAX: Final = 200
"""The most frequent causes of each kind of failure."""


@ledger.get(
    "/failures",
    response_model=Failures,
    responses=answers(200, FAILURES_EXAMPLE),
)
async def failures(caller: CallerDep, query: Annotated[RunsFailuresQuery, Query()]) -> Response:
    """Return why your runs failed: by kind and by cause, with the runs of each."""
    look = caller.sessions.look(
        query.agent, *(moment and stamp(moment) for moment in (query.since, query.until))
    )
    facts = await _facts(caller, look, limit=RUNS_MAX + 1)
    ended = [run for run in facts[:RUNS_MAX] if run.has_ended]
    groups = tuple(
        FailureGroup(
            kind=group.kind,
            count=group.count,
            causes=tuple(body_of(FailureCause, cause) for cause in group.causes),
        )
        for group in failure_groups(ended, causes_max=CAUSES_MAX, runs_max=RUNS_MAX)
    )
    failed = sum(group.count for group in groups)
    return reply(Failures(runs=len(ended), failed=failed, is_all=len(facts) <= RUNS_MAX, groups=groups))


@ledger.get(
    "/versions",
    response_model=AgentVersions,
    responses=answers(200, VERSIONS_EXAMPLE),
)
async def versions(caller: CallerDep, query: Annotated[AgentsVersionsQuery, Query()]) -> Response:
    """Return the versions of an agent in your runs, with the results of those runs."""
    agent = query.agent
    by_version: dict[str, list[RunFacts]] = {}
    for run in await _facts(caller, caller.sessions.look(agent)):
        if run.fingerprint is not None and run.has_ended:
            by_version.setdefault(run.fingerprint, []).append(run)
    agent_versions = tuple(
        AgentVersion(first_at=runs[-1].started_at, last_at=runs[0].started_at, tally=_tally(name, runs))
        for name, runs in by_version.items()
    )
    registered = caller.tenant.runtime.core.ports.registry.agent(agent)
    current = None if registered is None else registered.fingerprint
    page = page_of(agent_versions, query, name=lambda version: version.tally.fingerprint)
    return reply(AgentVersions(agent_id=agent, current=current, versions=page.items, next=page.next))


@ledger.get(
    "/compare",
    response_model=AgentComparison,
    responses=answers(200, COMPARE_EXAMPLE),
)
async def compare(caller: CallerDep, query: Annotated[AgentsCompareQuery, Query()]) -> Response:
    """Return the results of two versions of an agent, and the confidence of their difference."""
    agent, old, new = query.agent, query.old, query.new
    facts = [run for run in await _facts(caller, caller.sessions.look(agent)) if run.has_ended]
    runs = [[run.sample for run in facts if run.fingerprint == name] for name in (old, new)]
    if not all(runs):
        raise not_found("version with a run of yours that has ended")
    comparison = compare_versions((old, runs[0]), (new, runs[1]))
    changes, differences = await _changes(caller, old, new)
    return reply(
        AgentComparison(agent_id=agent, comparison=comparison, changes=changes, differences=differences)
    )


async def _facts(caller: Caller, look: RunLook, *, limit: int = RUNS_MAX) -> list[RunFacts]:
    return await caller.tenant.insight.ask(lambda book: book.list_facts(look, limit))


def _tally(name: str, runs: Sequence[RunFacts]) -> VersionTally:
    return tally(name, [run.sample for run in runs])


async def _changes(
    caller: Caller, old: str, new: str
) -> tuple[tuple[str, ...] | None, tuple[PackageDifference, ...] | None]:
    """Return the changes between two versions in words and in values."""
    content = caller.tenant.runtime.core.ports.content
    assert content is not None, "it was opened with one"
    try:
        packages = [await package_of(content, name) for name in (old, new)]
    except Rejected:  # one of them is no longer stored
        return None, None
    return package_difference(*packages), package_values(*packages)


ProposalId = Annotated[str, Path(description="A proposal.", examples=["proposal-019a8f…"])]


@proposals.get(
    "/proposals",
    response_model=ProposalList,
    responses=answers(200, {"proposals": [PROPOSAL_EXAMPLE], "work": []}),
)
async def list_proposals(
    request: Request, caller: CallerDep, *, query: Annotated[ProposalsListQuery, Query()]
) -> Response:
    """Return the proposals to change agents of the tenant, newest first."""
    desk = _desk(request, caller)
    states = await desk.builder.proposals()

    def is_shown(state: ProposalState) -> bool:
        return query.status in (None, state.status) and query.agent in (None, state.proposal.agent_id)

    page = page_of(states, query, name=lambda state: state.proposal.id, is_shown=is_shown)
    work = tuple(body_of(ProposalWork, item) for item in desk.works)
    views = tuple(_proposal_view(desk, state) for state in page.items)
    return reply(ProposalList(proposals=views, work=work, next=page.next))


@proposals.post(
    "/proposals",
    status_code=202,
    response_model=ProposalAccepted,
    responses=answers(202, {"proposalId": "proposal-019a8f…"}),
)
async def propose(
    request: Request,
    caller: CallerDep,
    *,
    body: Annotated[NewProposal, body_example(prices={"goal": "prices", "agent": "clerk"})],
) -> Response:
    """Let the builder model propose a change to an agent, for a goal."""
    desk, settings = _desk(request, caller), _settings(request)
    if settings.model is None:
        raise conflict_error(
            "the server has no builder model: set ImproveSettings(model=…) or --builder-model"
        )
    if body.goal not in {goal.goal_id for goal in settings.goals}:
        names = ", ".join(goal.goal_id for goal in settings.goals) or "none"
        raise conflict_error(f"unknown goal; known are {names}: set ImproveSettings(goals=[…]) or --goals")
    agent = None if body.agent is None else agent_for(caller, body.agent)
    proposal_id = f"proposal-{caller.new_id('proposal')}"
    work = Work(proposal_id, "propose", stamp(caller.now()), body.goal, agent)
    desk.begin(work, lambda: desk.builder.propose(body.goal, agent=agent, proposal_id=proposal_id))
    return reply(ProposalAccepted(proposal_id=proposal_id), 202)


@proposals.post(
    "/proposals/{proposal_id:path}/check",
    status_code=202,
    response_model=ProposalAccepted,
    responses=answers(202, {"proposalId": "proposal-019a8f…"}),
)
async def check(
    request: Request,
    caller: CallerDep,
    *,
    proposal_id: ProposalId,
    body: Annotated[ProposalTrial | None, body_example(some={}, more={"repeats": 3})] = None,
) -> Response:
    """Repeat recorded runs with both versions, and compare the results."""
    desk = _desk(request, caller)
    made = (await _find_proposal(desk, proposal_id)).proposal
    if made.goal_id not in {goal.goal_id for goal in _settings(request).goals}:
        raise conflict_error(
            "the goal of this proposal is unknown to the server: set ImproveSettings(goals=[…]) or --goals"
        )
    wish = body or ProposalTrial()
    work = Work(proposal_id, "check", stamp(caller.now()), made.goal_id, made.agent_id)
    desk.begin(work, lambda: desk.builder.check(proposal_id, run_ids=wish.run_ids, repeats=wish.repeats or 1))
    return reply(ProposalAccepted(proposal_id=proposal_id), 202)


@proposals.post(
    "/proposals/{proposal_id:path}/approve",
    response_model=ProposalView,
    responses=answers(200, PROPOSAL_EXAMPLE),
)
async def approve(
    request: Request,
    caller: CallerDep,
    *,
    proposal_id: ProposalId,
    ruling: Annotated[Verdict | None, body_example(words={"reason": "The check is clear."})] = None,
) -> Response:
    """Record your approval; it can be withdrawn until the change is applied."""
    return await _settle(request, caller, proposal_id=proposal_id, verdict=ruling or Verdict(), is_yes=True)


@proposals.post(
    "/proposals/{proposal_id:path}/refuse",
    response_model=ProposalView,
    responses=answers(200, PROPOSAL_EXAMPLE),
)
async def refuse(
    request: Request,
    caller: CallerDep,
    *,
    proposal_id: ProposalId,
    ruling: Annotated[Verdict | None, body_example(words={"reason": "It makes it slower."})] = None,
) -> Response:
    """Record your refusal and its reason."""
    return await _settle(request, caller, proposal_id=proposal_id, verdict=ruling or Verdict(), is_yes=False)


@proposals.get(
    "/proposals/{proposal_id:path}",
    response_model=ProposalView,
    responses=answers(200, PROPOSAL_EXAMPLE),
)
async def get_proposal(request: Request, caller: CallerDep, *, proposal_id: ProposalId) -> Response:
    """Return a proposal: the change, its evidence, its check and its verdict."""
    desk = _desk(request, caller)
    return reply(_proposal_view(desk, await _find_proposal(desk, proposal_id)))


def _settings(request: Request) -> ImproveSettings:
    return request.app.state.improve


def _desk(request: Request, caller: Caller) -> Improving:
    return caller.tenant.insight.improving(_settings(request))


async def _find_proposal(desk: Improving, proposal_id: str) -> ProposalState:
    try:
        return await desk.builder.proposal(proposal_id)
    except Conflict:
        pass
    raise not_found("proposal")


async def _settle(
    request: Request, caller: Caller, *, proposal_id: str, verdict: Verdict, is_yes: bool
) -> Response:
    """Record a verdict, unless it is about another version."""
    desk = _desk(request, caller)
    made = (await _find_proposal(desk, proposal_id)).proposal
    if verdict.fingerprint not in (None, made.fingerprint):
        raise Problem(
            409, "the proposal makes another version than the given fingerprint: read it, then decide"
        )
    say = desk.builder.approve if is_yes else desk.builder.refuse
    return reply(
        _proposal_view(desk, await say(proposal_id, by=caller.principal.user, reason=verdict.reason or ""))
    )


def _proposal_view(desk: Improving, state: ProposalState) -> ProposalView:
    work = tuple(body_of(ProposalWork, item) for item in desk.works if item.proposal_id == state.proposal.id)
    return body_of(ProposalView, state, work=work)
