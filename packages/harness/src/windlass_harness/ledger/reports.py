"""Reports as data: a goal, failures, versions, one run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from windlass_harness.ledger.failures import Failure, Loop, cause_of, classify, find_loops
from windlass_harness.ledger.goals import RunFacts, run_facts
from windlass_harness.ledger.proposals import ProposalState
from windlass_harness.ledger.versions import compare_versions, rate, tally
from windlass_harness.views.ledger import describe_decision
from windlass_protocol import DecisionRun, Estimate, FailureKind, VersionComparison, VersionTally

POINTS_MAX: Final = 40
"""Columns of a sparkline; more runs share one."""
VERSIONS_MAX: Final = 10
CAUSES_MAX: Final = 5
RUNS_NAMED_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Cause:
    """Failures that come down to the same: what differs are numbers, ids, names."""

    told: str
    """As the newest of them puts it."""
    count: int
    run_ids: tuple[str, ...]
    """The newest of them."""


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Runs that failed for one kind of reason."""

    kind: FailureKind
    count: int
    causes: tuple[Cause, ...]


@dataclass(frozen=True, slots=True)
class GoalReport:
    """How the runs of a goal went."""

    goal_id: str
    description: str
    runs: int
    """All that ended."""
    running: int
    judged: int
    """Runs that somebody held against the goal; the others succeeded if they completed."""
    success_rate: Estimate | None
    success: tuple[float, ...]
    """Success rates over time, oldest first."""
    duration_ms: tuple[float, ...]
    """Mean durations over time, oldest first."""
    versions: tuple[VersionTally, ...]
    """Versions of the agent, newest first."""
    failures: tuple[FailureGroup, ...]


@dataclass(frozen=True, slots=True)
class FailuresReport:
    """Why runs of a goal failed, the most frequent reason first."""

    goal_id: str
    runs: int
    failed: int
    groups: tuple[FailureGroup, ...]


@dataclass(frozen=True, slots=True)
class VersionsReport:
    """Two versions of an agent on one goal."""

    goal_id: str
    comparison: VersionComparison


@dataclass(frozen=True, slots=True)
class RunReport:
    """What one run decided, and how it ended."""

    facts: RunFacts
    goal_description: str
    narrative: str
    decisions: tuple[str, ...]
    """Each in a line."""
    decision_ids: tuple[str, ...]
    problems: tuple[str, ...]
    failure: Failure | None
    loops: tuple[Loop, ...]


@dataclass(frozen=True, slots=True)
class ProposalReport:
    """A proposal with its check."""

    state: ProposalState


Report = GoalReport | FailuresReport | VersionsReport | RunReport | ProposalReport


def goal_report(goal_id: str, facts: Sequence[RunFacts], *, description: str = "") -> GoalReport:
    """Return how the runs of a goal went; `facts` are newest first."""
    ended = [one for one in facts if one.has_ended]
    succeeded = sum(one.has_succeeded for one in ended)
    oldest_first = ended[::-1]
    timed = [float(one.duration_ms) for one in oldest_first if one.duration_ms is not None]
    return GoalReport(
        goal_id=goal_id,
        description=description,
        runs=len(ended),
        running=len(facts) - len(ended),
        judged=sum(one.is_judged for one in ended),
        success_rate=rate(succeeded, len(ended)),
        success=_points([float(one.has_succeeded) for one in oldest_first]),
        duration_ms=_points(timed),
        versions=_versions(ended),
        failures=failure_groups(ended),
    )


def failures_report(goal_id: str, facts: Sequence[RunFacts]) -> FailuresReport:
    """Return why runs of a goal failed; `facts` are newest first."""
    ended = [one for one in facts if one.has_ended]
    groups = failure_groups(ended)
    return FailuresReport(goal_id, len(ended), sum(group.count for group in groups), groups)


def versions_report(goal_id: str, facts: Sequence[RunFacts], *, old: str, new: str) -> VersionsReport:
    """Return two versions of an agent, by their fingerprints, on the runs of a goal."""
    ended = [one for one in facts if one.has_ended]
    samples = [[one.sample for one in ended if one.fingerprint == name] for name in (old, new)]
    return VersionsReport(goal_id, compare_versions((old, samples[0]), (new, samples[1])))


def run_report(run: DecisionRun) -> RunReport:
    """Return what one run decided, and how it ended."""
    return RunReport(
        facts=run_facts(run),
        goal_description=run.goal_description or "",
        narrative=run.narrative or "",
        decisions=tuple(map(describe_decision, run.decisions)),
        decision_ids=tuple(decision.id for decision in run.decisions),
        problems=tuple(f"{one.severity.value}: {one.description}" for one in run.problems),
        failure=classify(run),
        loops=find_loops(run),
    )


def failure_groups(facts: Sequence[RunFacts]) -> tuple[FailureGroup, ...]:
    """Return failures by kind and then by cause, the most frequent first."""
    kinds: dict[FailureKind, dict[str, list[RunFacts]]] = {}
    for one in facts:
        if one.failure is not None:
            kinds.setdefault(one.failure, {}).setdefault(cause_of(one.cause), []).append(one)
    groups = [_group(kind, causes) for kind, causes in kinds.items()]
    return tuple(sorted(groups, key=lambda group: (-group.count, group.kind)))


def _group(kind: FailureKind, causes: Mapping[str, Sequence[RunFacts]]) -> FailureGroup:
    found = [
        Cause(runs[0].cause, len(runs), tuple(one.run_id for one in runs[:RUNS_NAMED_MAX]))
        for runs in causes.values()
    ]
    found.sort(key=lambda cause: -cause.count)
    return FailureGroup(kind, sum(cause.count for cause in found), tuple(found[:CAUSES_MAX]))


def _versions(ended: Sequence[RunFacts]) -> tuple[VersionTally, ...]:
    by_version: dict[str, list[RunFacts]] = {}
    for one in ended:
        if one.fingerprint is not None:
            by_version.setdefault(one.fingerprint, []).append(one)
    newest = list(by_version.items())[:VERSIONS_MAX]
    return tuple(tally(name, [one.sample for one in runs]) for name, runs in newest)


def _points(values: Sequence[float]) -> tuple[float, ...]:
    """Means of as many neighbours as need be for a sparkline."""
    if len(values) <= POINTS_MAX:
        return tuple(values)
    edges = [round(at * len(values) / POINTS_MAX) for at in range(POINTS_MAX + 1)]
    return tuple(sum(values[begin:end]) / (end - begin) for begin, end in pairwise(edges))
