"""The bodies of answers about many runs: numbers, failures, versions."""

from typing import Annotated

from pydantic import Field

from windlass_protocol import FailureKind, VersionComparison, VersionTally
from windlass_server.wire import Maybe, Shown


class RunNumbersView(Shown):
    """Runs that began in a part of the time."""

    runs: int
    completed: int
    failed: Annotated[int, Field(description="With those that used up their budget.")]
    cancelled: int
    open: Annotated[int, Field(description="Those that have not ended.")]
    input_tokens: int
    output_tokens: int
    cost_micros: Annotated[int, Field(description="Millionths of a dollar.")]
    p50_ms: Annotated[Maybe[int], Field(description="The middle of how long they took, waits included.")] = (
        None
    )
    p95_ms: Annotated[Maybe[int], Field(description="What one of twenty took longer than.")] = None


class BucketView(RunNumbersView):
    """The same, and when that part of the time begins."""

    at: str


class WaitingView(Shown):
    """What waits for people now."""

    runs: int
    requests: int
    oldest_asked_at: Maybe[str] = None


class FailingToolView(Shown):
    """A tool, with how often it was called and how often it failed."""

    tool: str
    calls: int
    failed: int


class StatsView(Shown):
    """Your runs over time, in numbers."""

    start: Annotated[str, Field(alias="from")]
    to: str
    bucket_s: int
    total: RunNumbersView
    buckets: Annotated[tuple[BucketView, ...], Field(description="Every part of the time, the oldest first.")]
    waiting: WaitingView
    failing_tools: Annotated[tuple[FailingToolView, ...], Field(description="The worst first.")]


class CauseView(Shown):
    """Failures that come down to the same."""

    told: Annotated[str, Field(description="As the newest of them puts it.")]
    count: int
    run_ids: Annotated[tuple[str, ...], Field(description="The newest of them.")]


class FailureGroupView(Shown):
    """Runs that failed for one kind of reason."""

    kind: FailureKind
    count: int
    causes: tuple[CauseView, ...]


class FailuresView(Shown):
    """Why your runs failed, the most frequent reason first."""

    runs: Annotated[int, Field(description="All that ended.")]
    failed: int
    is_all: Annotated[bool, Field(description="False if there are more than those that were counted.")]
    groups: tuple[FailureGroupView, ...]


class VersionView(Shown):
    """A version of an agent, and what its runs came to."""

    first_at: str
    last_at: str
    tally: VersionTally


class VersionsView(Shown):
    """The versions of an agent that your runs were made with, the newest first."""

    agent_id: str
    current: Annotated[Maybe[str], Field(description="The version that new runs get.")] = None
    versions: tuple[VersionView, ...]


class CompareView(Shown):
    """Two versions of an agent side by side."""

    agent_id: str
    comparison: VersionComparison
    changes: Annotated[
        Maybe[tuple[str, ...]], Field(description="What differs; absent if a version is not kept any more.")
    ] = None
