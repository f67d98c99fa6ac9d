"""Reports as text that reads well in a terminal of 80 columns."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, assert_never

from pydantic import JsonValue

from windlass_harness.ledger.reports import (
    FailureGroup,
    FailuresReport,
    GoalReport,
    ProposalReport,
    Report,
    RunReport,
    VersionsReport,
)
from windlass_harness.ledger.tables import WIDTH, sparkline, table, to_ascii, wrapped
from windlass_protocol import (
    Estimate,
    ProposalChange,
    ProposalCheck,
    VersionComparison,
    VersionTally,
    canonical,
)

FINGERPRINT_CHARS: Final = 12
VALUE_CHARS_MAX: Final = 2_000
_MICROS: Final = 1_000_000
_CENT_MICROS: Final = 10_000
_SECOND_MS: Final = 1_000
_NOTHING: Final = "-"


def report_text(report: Report, *, width: int = WIDTH, is_ascii: bool = False) -> str:
    """Return a report as lines of at most a width, in ASCII if need be."""
    match report:
        case GoalReport():
            lines = _goal(report, width)
        case FailuresReport():
            lines = _failures(report, width)
        case VersionsReport():
            title = f"Two versions on goal {report.goal_id}"
            lines = [*wrapped(title, width=width), "", *_comparison(report.comparison, width)]
        case RunReport():
            lines = _run(report, width)
        case ProposalReport():
            lines = _proposal(report, width)
        case _:
            assert_never(report)
    text = "\n".join(line.rstrip() for line in lines)
    return to_ascii(text) if is_ascii else text


def _goal(report: GoalReport, width: int) -> list[str]:
    ended = f"{_many(report.runs, 'run')} ended"
    going = f", {report.running} running" if report.running else ""
    lines = wrapped(f"Goal {report.goal_id}: {ended}{going}", width=width)
    if report.description:
        lines += wrapped(report.description, width=width)
    if report.success_rate is None:
        return lines
    lines += [
        "",
        f"Success   {_share(report.success_rate)}",
        f"          {sparkline(report.success, low=0, high=1)}",
    ]
    if report.duration_ms:
        mean = sum(report.duration_ms) / len(report.duration_ms)
        lines += [f"Duration  {_seconds(mean)}", f"          {sparkline(report.duration_ms, low=0)}"]
    rest = "; the others succeed by completing" if report.judged < report.runs else ""
    lines += [f"Judged    {report.judged} of {report.runs}{rest}"]
    if report.versions:
        lines += ["", *_tallies(report.versions, width)]
    return [*lines, *_groups(report.failures, width)]


def _failures(report: FailuresReport, width: int) -> list[str]:
    told = f"Goal {report.goal_id}: {report.failed} of {_many(report.runs, 'run')} failed"
    lines = wrapped(told, width=width)
    lines += _groups(report.groups, width)
    for group in report.groups:
        for cause in group.causes:
            named = ", ".join(cause.run_ids)
            lines += ["", *wrapped(f"{group.kind.value}, {cause.count}: {cause.told}", width=width)]
            lines += wrapped(f"such as {named}", indent="  ", width=width)
    return lines


def _groups(groups: Sequence[FailureGroup], width: int) -> list[str]:
    if not groups:
        return []
    rows = [[group.kind.value, str(group.count), group.causes[0].told] for group in groups]
    return ["", *table(("Failure", "Runs", "Most often"), rows, right=(1,), width=width)]


def _comparison(comparison: VersionComparison, width: int) -> list[str]:
    old, new = comparison.old, comparison.new
    rows = [
        ["Runs", str(old.runs), str(new.runs), ""],
        ["Success", _short(old.success_rate), _short(new.success_rate), _points(comparison.success_rate)],
        ["Cost", *_three(old.cost_micros, new.cost_micros, comparison.cost_micros, _dollars)],
        ["Duration", *_three(old.duration_ms, new.duration_ms, comparison.duration_ms, _seconds)],
        ["Tokens", *_three(old.tokens, new.tokens, comparison.tokens, _count)],
    ]
    head = ("", f"old {_print(old.fingerprint)}", f"new {_print(new.fingerprint)}", "difference (95 %)")
    return [*table(head, rows, width=width), "", f"The new version is {_VERDICTS[comparison.verdict.value]}."]


def _run(report: RunReport, width: int) -> list[str]:
    facts = report.facts
    lines = wrapped(f"Run {facts.run_id}: {facts.status.value}", width=width)
    for name, value in (
        ("Goal", " - ".join(one for one in (facts.goal_id, report.goal_description) if one)),
        ("Version", "" if facts.fingerprint is None else _print(facts.fingerprint)),
        ("Took", "" if facts.duration_ms is None else _seconds(facts.duration_ms)),
        ("Tokens", "" if facts.tokens is None else _count(facts.tokens)),
    ):
        if value:
            lines += wrapped(f"{name}: {value}", width=width)
    if report.failure is not None:
        lines += ["", *wrapped(f"{report.failure.kind.value}: {report.failure.told}", width=width)]
    if report.decisions:
        rows = list(zip(report.decision_ids, report.decisions, strict=True))
        lines += ["", *table(("Decision", "What came of it"), rows, width=width)]
    for problem in report.problems:
        lines += ["", *wrapped(problem, width=width)]
    return lines


def _proposal(report: ProposalReport, width: int) -> list[str]:
    state, proposal = report.state, report.state.proposal
    lines = wrapped(f"Proposal {proposal.id}: {state.status.value}", width=width)
    agent = f"Agent {proposal.agent_id}, goal {proposal.goal_id}"
    lines += wrapped(agent, width=width)
    lines += [f"Version {_print(proposal.base_fingerprint)} → {_print(proposal.fingerprint)}", ""]
    lines += wrapped(proposal.rationale, width=width)
    lines += wrapped(f"Seen in {', '.join(proposal.evidence)}", width=width) if proposal.evidence else []
    for change in proposal.changes:
        lines += ["", *_change(change, width)]
    if state.check is not None:
        lines += ["", *_check(state.check, width)]
    if state.settled is not None:
        word = "Accepted" if state.settled.is_accepted else "Refused"
        why = f": {state.settled.reason}" if state.settled.reason else ""
        lines += ["", *wrapped(f"{word} by {state.settled.by}{why}", width=width)]
    if state.applied is not None:
        lines += wrapped(f"Applied by {state.applied.by}", width=width)
    return lines


def _change(change: ProposalChange, width: int) -> list[str]:
    named = "" if change.target is None else f" of {change.target}"
    lines = [f"{change.part.value.replace('_', ' ')}{named}"]
    for sign, value in (("- ", change.before), ("+ ", change.after)):
        if value is not None:
            lines += wrapped(_value(value), indent=sign, width=width)
    return lines


def _check(check: ProposalCheck, width: int) -> list[str]:
    told = f"{check.fixed} fixed, {check.broken} broken, {check.diverged} with calls that were never recorded"
    return [*_comparison(check.comparison, width), *wrapped(told, width=width)]


def _tallies(versions: Iterable[VersionTally], width: int) -> list[str]:
    rows = [
        [
            _print(one.fingerprint),
            str(one.runs),
            _short(one.success_rate),
            _mean(one.cost_micros, _dollars),
            _mean(one.duration_ms, _seconds),
            _mean(one.tokens, _count),
        ]
        for one in versions
    ]
    head = ("Version", "Runs", "Success", "Cost", "Duration", "Tokens")
    return table(head, rows, right=(1, 3, 4, 5), width=width)


def _three(old: Estimate | None, new: Estimate | None, gain: Estimate | None, form: "_Form") -> list[str]:
    told = _NOTHING if gain is None else f"{_signed(gain.value, form)}{_range(gain, form)}"
    return [_mean(old, form), _mean(new, form), told]


def _range(estimate: Estimate, form: "_Form") -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f" ({_signed(estimate.low, form)} to {_signed(estimate.high, form)})"


def _signed(value: float, form: "_Form") -> str:
    return f"{'-' if value < 0 else '+'}{form(abs(value))}"


def _mean(estimate: Estimate | None, form: "_Form") -> str:
    return _NOTHING if estimate is None else form(estimate.value)


def _share(estimate: Estimate) -> str:
    return f"{estimate.value:.0%}, 95 % sure of {estimate.low or 0:.0%} to {estimate.high or 0:.0%}"


def _short(estimate: Estimate | None) -> str:
    if estimate is None:
        return _NOTHING
    return f"{estimate.value:.0%} ({estimate.low or 0:.0%} to {estimate.high or 0:.0%})"


def _points(estimate: Estimate | None) -> str:
    if estimate is None:
        return _NOTHING
    return f"{estimate.value:+.0%} ({estimate.low or 0:+.0%} to {estimate.high or 0:+.0%})"


def _dollars(micros: float) -> str:
    # A model call costs thousandths of a cent.
    return f"${micros / _MICROS:.6f}" if micros < _CENT_MICROS else f"${micros / _MICROS:,.4f}"


def _seconds(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < _SECOND_MS else f"{ms / _SECOND_MS:,.1f} s"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _print(fingerprint: str) -> str:
    return fingerprint.removeprefix("sha256:")[:FINGERPRINT_CHARS]


def _value(value: JsonValue) -> str:
    text = value if isinstance(value, str) else canonical(value).decode()
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[: VALUE_CHARS_MAX - 1]}…"


_Form = Callable[[float], str]
_VERDICTS: Final = {
    "better": "better",
    "worse": "worse",
    "unclear": "neither better nor worse, as far as so few runs can tell",
}
