"""What many runs tell together: why they failed, which version does better."""

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Query, Response

from windlass.errors import Rejected
from windlass.package import package_difference, package_of
from windlass.ports.recorded import RunLook
from windlass_harness.ledger.goals import RunFacts
from windlass_harness.ledger.reports import failure_groups
from windlass_harness.ledger.versions import compare_versions, tally
from windlass_protocol import VersionTally
from windlass_server import examples
from windlass_server.access import CallerDep
from windlass_server.docs import answers, reply, seen
from windlass_server.guard import PREFIX, Caller
from windlass_server.ledger_models import (
    CauseView,
    CompareView,
    FailureGroupView,
    FailuresView,
    VersionsView,
    VersionView,
)
from windlass_server.problems import not_found
from windlass_server.routes.stats import AgentName, Since, Until, stamp_of
from windlass_server.wire import Wire

router = APIRouter(prefix=PREFIX, tags=["ledger"])
RUNS_MAX: Final = 10_000
"""The newest runs that one answer is made of."""
Agent = Annotated[str, Query(min_length=1, max_length=512, description="An agent.", examples=["clerk"])]
Version = Annotated[
    str,
    Query(pattern=r"^sha256:[0-9a-f]{64}$", description="A version of the agent, as `/versions` names it."),
]


class FailuresQuery(Wire):
    """Which runs are looked at."""

    since: Since = None
    to: Until = None
    agent: AgentName = None


@router.get(
    "/failures",
    response_model=FailuresView,
    responses=answers(200, examples.FAILURES, 400),
    summary="Why your runs failed",
)
async def failures(caller: CallerDep, query: Annotated[FailuresQuery, Query()]) -> Response:
    """Return why your runs failed, by kind and then by cause, with some runs of each.

    Errors that differ only in numbers, ids, paths or quoted values are one cause. The newest 10,000 runs
    count.
    """
    wanted = RunLook(caller.principal.user, query.agent, stamp_of(query.since), stamp_of(query.to))
    facts = await _facts(caller, wanted, limit=RUNS_MAX + 1)
    ended = [one for one in facts[:RUNS_MAX] if one.has_ended]
    groups = tuple(
        FailureGroupView(
            kind=group.kind, count=group.count, causes=tuple(seen(CauseView, one) for one in group.causes)
        )
        for group in failure_groups(ended)
    )
    failed = sum(group.count for group in groups)
    return reply(FailuresView(runs=len(ended), failed=failed, is_all=len(facts) <= RUNS_MAX, groups=groups))


@router.get(
    "/versions",
    response_model=VersionsView,
    responses=answers(200, examples.VERSIONS, 400),
    summary="The versions of an agent",
)
async def versions(caller: CallerDep, agent: Agent) -> Response:
    """Return the versions of an agent that your runs had, and what they came to.

    Rates and means have 95 % confidence intervals.
    """
    by_version: dict[str, list[RunFacts]] = {}
    for one in await _facts(caller, RunLook(caller.principal.user, agent)):
        if one.fingerprint is not None and one.has_ended:
            by_version.setdefault(one.fingerprint, []).append(one)
    found = tuple(
        VersionView(first_at=runs[-1].started_at, last_at=runs[0].started_at, tally=_tally(name, runs))
        for name, runs in by_version.items()
    )
    registered = caller.tenant.runtime.ports.registry.agent(agent)
    current = None if registered is None else registered.fingerprint
    return reply(VersionsView(agent_id=agent, current=current, versions=found))


@router.get(
    "/compare",
    response_model=CompareView,
    responses=answers(200, examples.COMPARE, 400, 404),
    summary="Two versions of an agent",
)
async def compare(*, caller: CallerDep, agent: Agent, old: Version, new: Version) -> Response:
    """Return how two versions of an agent did, and how sure the difference is.

    The new one is better, or worse, only if the whole interval of the difference says so.
    """
    facts = [one for one in await _facts(caller, RunLook(caller.principal.user, agent)) if one.has_ended]
    runs = [[one.sample for one in facts if one.fingerprint == name] for name in (old, new)]
    if not all(runs):
        raise not_found("version with a run of yours that has ended")
    comparison = compare_versions((old, runs[0]), (new, runs[1]))
    changes = await _changes(caller, old, new)
    return reply(CompareView(agent_id=agent, comparison=comparison, changes=changes))


async def _facts(caller: Caller, wanted: RunLook, *, limit: int = RUNS_MAX) -> list[RunFacts]:
    return await caller.tenant.insight.ask(lambda book: book.list_facts(wanted, limit))


def _tally(name: str, runs: Sequence[RunFacts]) -> VersionTally:
    return tally(name, [one.sample for one in runs])


async def _changes(caller: Caller, old: str, new: str) -> tuple[str, ...] | None:
    content = caller.tenant.runtime.ports.content
    assert content is not None, "it was opened with one"
    try:
        packages = [await package_of(content, name) for name in (old, new)]
    except Rejected:  # one of them is not kept any more
        return None
    return package_difference(*packages)
