"""Reports on recorded runs: a goal, its failures, two versions, one run, a proposal.

Reports are data. `report_text` returns one as plain text, for a model or a log; the command draws tables and
charts.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final, assert_never

from pydantic import JsonValue

from windlass_harness.ledger.failures import Failure, Loop, cause_of, classify, find_loops
from windlass_harness.ledger.goals import RunFacts, run_facts
from windlass_harness.ledger.proposals import ProposalState
from windlass_harness.ledger.versions import RUNS_MIN, SIGNIFICANT, compare_versions, rate, tally
from windlass_harness.views.ledger import describe_decision
from windlass_protocol import (
    DecisionRun,
    Estimate,
    FailureKind,
    ProposalChange,
    ProposalCheck,
    VersionComparison,
    VersionTally,
    VersionVerdict,
    canonical,
)
from windlass_protocol.frozen import sealed

POINTS_MAX: Final = 40
"""Points of a series over time; with more runs, neighbours are averaged into one point."""
VERSIONS_MAX: Final = 10
CAUSES_MAX: Final = 5
RUNS_NAMED_MAX: Final = 3
FINGERPRINT_CHARS: Final = 12
VALUE_CHARS_MAX: Final = 2_000
_MICROS: Final = 1_000_000
_CENT_MICROS: Final = 10_000
_SECOND_MS: Final = 1_000
_P_MIN: Final = 0.001
"""P-values below this are not told apart."""


@sealed
class Cause:
    """Failures with the same text, apart from numbers, ids and names in it."""

    told: str
    """The text of the newest of them."""
    count: int
    run_ids: tuple[str, ...]
    """The newest runs; RUNS_NAMED_MAX of them unless more are wanted."""


@sealed
class FailureGroup:
    """Runs that failed with one kind of failure."""

    kind: FailureKind
    count: int
    causes: tuple[Cause, ...]


@sealed
class GoalReport:
    """Success, duration, versions and failures of the runs of a goal."""

    goal_id: str
    description: str
    runs: int
    """Runs that have ended."""
    running: int
    judged: int
    """Runs that were evaluated against the goal; the others count as successful if they completed."""
    success_rate: Estimate | None
    success: tuple[float, ...]
    """Success rate over time, oldest first, at most POINTS_MAX points."""
    duration_ms: tuple[float, ...]
    """Mean duration over time, oldest first, at most POINTS_MAX points."""
    versions: tuple[VersionTally, ...]
    """Versions of the agent, newest first."""
    failures: tuple[FailureGroup, ...]


@sealed
class FailuresReport:
    """The failures of a goal by kind, the most frequent kind first."""

    goal_id: str
    runs: int
    failed: int
    groups: tuple[FailureGroup, ...]


@sealed
class VersionsReport:
    """Two versions of an agent on one goal."""

    goal_id: str
    comparison: VersionComparison


@sealed
class RunReport:
    """The decisions of one run, its problems and its failure."""

    facts: RunFacts
    goal_description: str
    narrative: str
    decisions: tuple[str, ...]
    """One line each."""
    decision_ids: tuple[str, ...]
    problems: tuple[str, ...]
    failure: Failure | None
    loops: tuple[Loop, ...]


@sealed
class ProposalReport:
    """A proposal with its check and its approval or refusal."""

    state: ProposalState


Report = GoalReport | FailuresReport | VersionsReport | RunReport | ProposalReport


def goal_report(goal_id: str, facts: Sequence[RunFacts], *, description: str = "") -> GoalReport:
    """Return the report of a goal; `facts` are newest first."""
    ended = [run for run in facts if run.has_ended]
    succeeded = sum(run.has_succeeded for run in ended)
    oldest_first = ended[::-1]
    timed = [float(run.duration_ms) for run in oldest_first if run.duration_ms is not None]
    return GoalReport(
        goal_id=goal_id,
        description=description,
        runs=len(ended),
        running=len(facts) - len(ended),
        judged=sum(run.is_judged for run in ended),
        success_rate=rate(succeeded, len(ended)),
        success=_points([float(run.has_succeeded) for run in oldest_first]),
        duration_ms=_points(timed),
        versions=_versions(ended),
        failures=failure_groups(ended),
    )


def failures_report(goal_id: str, facts: Sequence[RunFacts]) -> FailuresReport:
    """Return the failures of a goal; `facts` are newest first."""
    ended = [run for run in facts if run.has_ended]
    groups = failure_groups(ended)
    return FailuresReport(goal_id, len(ended), sum(group.count for group in groups), groups)


def versions_report(goal_id: str, facts: Sequence[RunFacts], *, old: str, new: str) -> VersionsReport:
    """Compare two versions of an agent, given by fingerprint, on the runs of a goal."""
    ended = [run for run in facts if run.has_ended]
    samples = [[run.sample for run in ended if run.fingerprint == name] for name in (old, new)]
    return VersionsReport(goal_id, compare_versions((old, samples[0]), (new, samples[1])))


def run_report(run: DecisionRun) -> RunReport:
    """Return the report of one run."""
    return RunReport(
        facts=run_facts(run),
        goal_description=run.goal_description or "",
        narrative=run.narrative or "",
        decisions=tuple(map(describe_decision, run.decisions)),
        decision_ids=tuple(decision.id for decision in run.decisions),
        problems=tuple(f"{problem.severity.value}: {problem.description}" for problem in run.problems),
        failure=classify(run),
        loops=find_loops(run),
    )


def failure_groups(
    facts: Sequence[RunFacts], *, causes_max: int = CAUSES_MAX, runs_max: int = RUNS_NAMED_MAX
) -> tuple[FailureGroup, ...]:
    """Return failures by kind and then by cause, the most frequent first.

    `causes_max` limits the causes of each kind, `runs_max` the runs that each cause names.
    """
    kinds: dict[FailureKind, dict[str, list[RunFacts]]] = {}
    for run in facts:
        if run.failure is not None:
            kinds.setdefault(run.failure, {}).setdefault(cause_of(run.cause), []).append(run)
    groups = [_group(kind, causes, causes_max, runs_max) for kind, causes in kinds.items()]
    return tuple(sorted(groups, key=lambda group: (-group.count, group.kind)))


def _group(
    kind: FailureKind, causes: Mapping[str, Sequence[RunFacts]], causes_max: int, runs_max: int
) -> FailureGroup:
    group_causes = [
        Cause(runs[0].cause, len(runs), tuple(run.run_id for run in runs[:runs_max]))
        for runs in causes.values()
    ]
    group_causes.sort(key=lambda cause: -cause.count)
    return FailureGroup(kind, sum(cause.count for cause in group_causes), tuple(group_causes[:causes_max]))


def _versions(ended: Sequence[RunFacts]) -> tuple[VersionTally, ...]:
    by_version: dict[str, list[RunFacts]] = {}
    for run in ended:
        if run.fingerprint is not None:
            by_version.setdefault(run.fingerprint, []).append(run)
    newest = list(by_version.items())[:VERSIONS_MAX]
    return tuple(tally(name, [run.sample for run in runs]) for name, runs in newest)


def _points(values: Sequence[float]) -> tuple[float, ...]:
    """Average neighbours so that at most POINTS_MAX points remain."""
    if len(values) <= POINTS_MAX:
        return tuple(values)
    edges = [round(at * len(values) / POINTS_MAX) for at in range(POINTS_MAX + 1)]
    return tuple(sum(values[begin:end]) / (end - begin) for begin, end in pairwise(edges))


# plain text


def report_text(report: Report) -> str:
    """Return a report as plain text: one fact a line, lists with a leading hyphen."""
    match report:
        case GoalReport():
            lines = _goal_lines(report)
        case FailuresReport():
            lines = _failures_lines(report)
        case VersionsReport():
            lines = [f"Two versions on goal {report.goal_id}", "", *_comparison_lines(report.comparison)]
        case RunReport():
            lines = _run_lines(report)
        case ProposalReport():
            lines = _proposal_lines(report.state)
        case _:
            assert_never(report)
    return "\n".join(map(_one_line, lines))


def _goal_lines(report: GoalReport) -> list[str]:
    running = f", {report.running} running" if report.running else ""
    lines = [f"Goal {report.goal_id}: {_many(report.runs, 'run')} ended{running}"]
    if report.description:
        lines.append(report.description)
    success = report.success_rate
    if success is None:
        return lines
    interval = f"95 % confidence interval {success.low or 0:.0%} to {success.high or 0:.0%}"
    lines += ["", f"Success rate: {success.value:.0%} ({interval})"]
    if report.duration_ms:
        lines.append(f"Mean duration: {_seconds(sum(report.duration_ms) / len(report.duration_ms))}")
    others = "; the others succeed by completing" if report.judged < report.runs else ""
    lines.append(f"Evaluated: {report.judged} of {_many(report.runs, 'run')}{others}")
    if report.versions:
        lines += [
            "",
            "Versions, the newest first, with the 95 % confidence interval of the success rate:",
            *map(_version_line, report.versions),
        ]
    if report.failures:
        lines += ["", "Failures, the most frequent first:"]
        lines += [_failure_line(group) for group in report.failures]
    return lines


def _version_line(version: VersionTally) -> str:
    parts = [f"- {short_fingerprint(version.fingerprint)}: {_many(version.runs, 'run')}"]
    for name, estimate, form in (
        ("success", version.success_rate, None),
        ("cost", version.cost_micros, _dollars),
        ("duration", version.duration_ms, _seconds),
        ("tokens", version.tokens, _count),
    ):
        if estimate is not None:
            parts.append(f"{name} {_rate(estimate) if form is None else form(estimate.value)}")
    return ", ".join(parts)


def _failure_line(group: FailureGroup) -> str:
    first, *others = group.causes
    often = ", most often" if others else ""
    return f"- {group.kind.value}, {_many(group.count, 'run')}{often}: {first.told}"


def _failures_lines(report: FailuresReport) -> list[str]:
    lines = [f"Goal {report.goal_id}: {report.failed} of {_many(report.runs, 'run')} failed"]
    for group in report.groups:
        lines += ["", f"{group.kind.value}, {_many(group.count, 'run')}:"]
        for cause in group.causes:
            lines.append(f"- {_many(cause.count, 'run')} such as {', '.join(cause.run_ids)}: {cause.told}")
    return lines


def _comparison_lines(comparison: VersionComparison) -> list[str]:
    old, new = comparison.old, comparison.new
    return [
        f"Old version {short_fingerprint(old.fingerprint)}: {_many(old.runs, 'run')}",
        f"New version {short_fingerprint(new.fingerprint)}: {_many(new.runs, 'run')}",
        *_change_line("Success rate", (old.success_rate, new.success_rate, comparison.success_rate), _share),
        *_change_line("Cost", (old.cost_micros, new.cost_micros, comparison.cost_micros), _dollars),
        *_change_line("Duration", (old.duration_ms, new.duration_ms, comparison.duration_ms), _seconds),
        *_change_line("Tokens", (old.tokens, new.tokens, comparison.tokens), _count),
        "Ranges in brackets are 95 % confidence intervals.",
        verdict_text(comparison),
    ]


def verdict_text(comparison: VersionComparison) -> str:
    """Return the verdict of a comparison in a sentence, with the reason."""
    p_value = comparison.p_value
    test = "" if p_value is None else f"p < {_P_MIN}" if p_value < _P_MIN else f"p = {p_value:.2g}"
    if comparison.verdict is not VersionVerdict.UNCLEAR:
        return f"The new version is {comparison.verdict.value}{test and f' (exact test: {test})'}."
    old, new = comparison.old.runs, comparison.new.runs
    if min(old, new) < RUNS_MIN:
        reason = f": {old:,} and {new:,} runs, at least {RUNS_MIN} of each are needed"
    elif p_value is not None and p_value < SIGNIFICANT:
        reason = (
            ": the 95 % confidence interval of the difference of success rates contains 0, "
            f"although the exact test has {test}"
        )
    else:
        reason = test and f": it may be chance (exact test: {test})"
    return f"It is unclear whether the new version is better{reason}."


def _change_line(
    name: str, estimates: tuple[Estimate | None, Estimate | None, Estimate | None], form: "_Form"
) -> list[str]:
    old, new, difference = estimates
    if old is None and new is None:
        return []
    shown = [
        _UNKNOWN if estimate is None else _rate(estimate) if form is _share else form(estimate.value)
        for estimate in (old, new)
    ]
    return [f"{name}: {shown[0]} → {shown[1]}{_difference(difference, form)}"]


def _difference(difference: Estimate | None, form: "_Form") -> str:
    if difference is None:
        return ""
    text = f", difference {_format_signed(difference.value, form)}"
    if difference.low is None or difference.high is None:
        return text
    return f"{text} ({_format_signed(difference.low, form)} to {_format_signed(difference.high, form)})"


def _run_lines(report: RunReport) -> list[str]:
    facts = report.facts
    lines = [f"Run {facts.run_id}: {facts.status.value}"]
    if goal := " - ".join(part for part in (facts.goal_id, report.goal_description) if part):
        lines.append(f"Goal: {goal}")
    if facts.fingerprint is not None:
        lines.append(f"Version: {short_fingerprint(facts.fingerprint)}")
    if facts.duration_ms is not None:
        lines.append(f"Duration: {_seconds(facts.duration_ms)}")
    if facts.tokens is not None:
        lines.append(f"Tokens: {_count(facts.tokens)}")
    if report.failure is not None:
        lines += ["", f"Failure: {report.failure.kind.value}: {report.failure.told}"]
    if report.decisions:
        named_lines = zip(report.decision_ids, report.decisions, strict=True)
        lines += ["", "Decisions:", *(f"- {name}: {text}" for name, text in named_lines)]
    if report.problems:
        lines += ["", "Problems:", *(f"- {problem}" for problem in report.problems)]
    return lines


def _proposal_lines(state: ProposalState) -> list[str]:
    proposal = state.proposal
    versions = [
        short_fingerprint(fingerprint) for fingerprint in (proposal.base_fingerprint, proposal.fingerprint)
    ]
    lines = [
        f"Proposal {proposal.id}: {state.status.value}",
        f"Agent {proposal.agent_id}, goal {proposal.goal_id}",
        f"Version {' → '.join(versions)}",
        "",
        proposal.rationale,
    ]
    if proposal.evidence:
        lines.append(f"Evidence: {', '.join(proposal.evidence)}")
    for change in proposal.changes:
        lines += ["", *_proposed_lines(change)]
    if state.check is not None:
        lines += ["", *_comparison_lines(state.check.comparison), _check_line(state.check)]
    if state.settled is not None:
        word = "Accepted" if state.settled.is_accepted else "Refused"
        why = f": {state.settled.reason}" if state.settled.reason else ""
        lines += ["", f"{word} by {state.settled.by}{why}"]
    if state.applied is not None:
        lines.append(f"Applied by {state.applied.by}")
    return lines


def _proposed_lines(change: ProposalChange) -> list[str]:
    of = "" if change.target is None else f" of {change.target}"
    values = (("-", change.before), ("+", change.after))
    return [
        f"{change.part.value.replace('_', ' ')}{of}:",
        *(f"{sign} {_value(value)}" for sign, value in values if value is not None),
    ]


def _check_line(check: ProposalCheck) -> str:
    return f"{check.fixed} fixed, {check.broken} broken, {check.diverged} with calls that were never recorded"


def short_fingerprint(fingerprint: str) -> str:
    """Return the first characters of a fingerprint, enough to tell versions apart."""
    return fingerprint.removeprefix("sha256:")[:FINGERPRINT_CHARS]


def _format_signed(value: float, form: "_Form") -> str:
    return f"{'-' if value < 0 else '+'}{form(abs(value))}"


def _rate(estimate: Estimate) -> str:
    return f"{estimate.value:.0%} ({estimate.low or 0:.0%} to {estimate.high or 0:.0%})"


def _share(value: float) -> str:
    return f"{value:.0%}"


def _dollars(micros: float) -> str:
    # A model call costs thousandths of a cent.
    return f"${micros / _MICROS:.6f}" if micros < _CENT_MICROS else f"${micros / _MICROS:,.4f}"


def _seconds(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < _SECOND_MS else f"{ms / _SECOND_MS:,.1f} s"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _value(value: JsonValue) -> str:
    text = value if isinstance(value, str) else canonical(value).decode()
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[: VALUE_CHARS_MAX - 1]}…"


def _one_line(text: str) -> str:
    """Return a text in one line without control characters: recorded text is not trusted."""
    return "".join(char if char.isprintable() else " " for char in " ".join(text.split()))


_Form = Callable[[float], str]
_UNKNOWN: Final = "unknown"
