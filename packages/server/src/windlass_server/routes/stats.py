"""Runs over time in numbers."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Query, Response
from pydantic import Field

from windlass.catalog import RunStats
from windlass.catalog.stats import BUCKET_S_MAX
from windlass.ports.recorded import RunLook
from windlass_server import examples
from windlass_server.access import CallerDep
from windlass_server.docs import answers, reply, seen
from windlass_server.guard import PREFIX
from windlass_server.ledger_models import BucketView, FailingToolView, RunNumbersView, StatsView, WaitingView
from windlass_server.problems import Problem
from windlass_server.wire import Wire

router = APIRouter(prefix=PREFIX, tags=["numbers"])
FAILING_TOOLS_MAX: Final = 20
SPAN_DEFAULT: Final = timedelta(days=1)
_MOMENT: Final = r"^(?:19[7-9]\d|2\d{3})-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)$"
_EXAMPLES: Final[list[object]] = ["2026-01-01T00:00:00Z"]
Since = Annotated[
    str | None,
    Field(alias="from", pattern=_MOMENT, description="Runs that began then or later.", examples=_EXAMPLES),
]
Until = Annotated[
    str | None, Field(pattern=_MOMENT, description="Runs that began before.", examples=_EXAMPLES)
]
AgentName = Annotated[str | None, Field(min_length=1, max_length=512)]


class StatsQuery(Wire):
    """Which runs are counted."""

    since: Since = None
    to: Until = None
    bucket: Annotated[int, Field(ge=1, le=BUCKET_S_MAX, description="Seconds of each part of the time.")] = (
        3_600
    )
    agent: AgentName = None


@router.get(
    "/stats",
    response_model=StatsView,
    responses=answers(200, examples.STATS, 400),
    summary="Your runs over time, in numbers",
)
async def stats(caller: CallerDep, query: Annotated[StatsQuery, Query()]) -> Response:
    """Return how many of your runs began, how they ended, and what they took.

    The last day when nothing is said, in hours. Runs of subagents are a part of the run that they work for,
    unless `agent` names theirs.
    """
    end = moment_of(query.to) or caller.tenant.runtime.ports.machine.clock.now()
    start = moment_of(query.since) or end - SPAN_DEFAULT
    owner = caller.principal.user
    found = await caller.tenant.runtime.sessions.stats(
        start, end, bucket_s=query.bucket, agent_id=query.agent, owner=owner
    )
    wanted = RunLook(owner, query.agent, found.start, found.end)
    failing = await caller.tenant.insight.ask(lambda book: book.list_failing_tools(wanted, FAILING_TOOLS_MAX))
    return reply(_view(found, failing))


def _view(found: RunStats, failing: list[tuple[str, int, int]]) -> StatsView:
    tools = (FailingToolView(tool=tool, calls=calls, failed=failed) for tool, calls, failed in failing)
    return StatsView.model_construct(
        None,
        start=found.start,
        to=found.end,
        bucket_s=found.bucket_s,
        total=seen(RunNumbersView, found.total),
        buckets=tuple(seen(BucketView, one) for one in found.buckets),
        waiting=seen(WaitingView, found.waiting),
        failing_tools=tuple(tools),
    )


def moment_of(text: str | None) -> datetime | None:
    """Return a moment that a query names.

    Raises:
        Problem: there is no such day or hour.
    """
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        pass
    raise Problem(422, "there is no such moment: write it as 2026-01-31T09:30:00Z")


def stamp_of(text: str | None) -> str | None:
    """Return a moment that a query names, as records write it."""
    moment = moment_of(text)
    if moment is None:
        return None
    return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
