"""Reports: counts, and their plain text."""

from dataclasses import replace

from tests.harness.ledger.samples import answer, decision, problem, run

from windlass_harness.ledger import (
    ProposalReport,
    ProposalState,
    ProposalStatus,
    RunFacts,
    compare_versions,
    failures_report,
    goal_report,
    report_text,
    run_report,
    versions_report,
)
from windlass_harness.ledger.reports import POINTS_MAX
from windlass_harness.ledger.versions import Sample
from windlass_protocol import (
    DecisionRun,
    DecisionRunStatus,
    FailureKind,
    Proposal,
    ProposalAppliedData,
    ProposalChange,
    ProposalCheck,
    ProposalPart,
    ProposalSettledData,
    Usage,
    VersionTally,
)

OLD, NEW = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def facts(
    at: int,
    failure: FailureKind | None = None,
    cause: str = "",
    *,
    status: DecisionRunStatus = DecisionRunStatus.COMPLETED,
    fingerprint: str | None = OLD,
) -> RunFacts:
    return RunFacts(
        f"r{at}", status, f"2026-03-{at % 28 + 1:02d}T09:00:00Z", "g",
        fingerprint=fingerprint, duration_ms=100 * at, tokens=10 * at, cost_micros=5 * at,
        failure=failure, cause=cause, is_judged=at % 2 == 0,
    )  # fmt: skip


def mixed() -> list[RunFacts]:
    return [
        facts(9, status=DecisionRunStatus.RUNNING),
        facts(8, fingerprint=NEW),
        facts(7, fingerprint=NEW),
        facts(6, FailureKind.TOOL_ERROR, "No room 12 in Oslo"),
        facts(5, FailureKind.TOOL_ERROR, "No room 77 in Oslo"),
        facts(4, FailureKind.TIMEOUT, "late"),
        facts(3, FailureKind.TOOL_ERROR, "Broken"),
        facts(2),
        facts(1, fingerprint=None),
    ]


def test_the_report_of_a_goal_lists_versions_and_failures() -> None:
    report = goal_report("g", mixed(), description="Rooms are booked.")
    assert (report.runs, report.running, report.judged) == (8, 1, 4)
    assert report.success_rate is not None
    assert report.success_rate.value == 0.5
    assert report.success == (1, 1, 0, 0, 0, 0, 1, 1)
    assert [(one.fingerprint, one.runs) for one in report.versions] == [(NEW, 2), (OLD, 5)]
    assert [(group.kind, group.count) for group in report.failures] == [
        (FailureKind.TOOL_ERROR, 3), (FailureKind.TIMEOUT, 1)
    ]  # fmt: skip
    assert report_text(report) == GOAL
    recorded = [RunFacts("r1", DecisionRunStatus.COMPLETED, "2026-03-01T09:00:00Z")]
    text = report_text(goal_report("g", recorded))
    assert text.endswith("Evaluated: 0 of 1 run; the others succeed by completing"), (
        "no versions, no durations"
    )
    assert "duration" not in text


def test_a_goal_without_ended_runs_has_no_success_rate() -> None:
    assert report_text(goal_report("g", [])) == "Goal g: 0 runs ended"


def test_a_version_is_shown_without_the_numbers_that_are_unknown() -> None:
    unknown = VersionTally(fingerprint=NEW, runs=1, succeeded=1)
    text = report_text(replace(goal_report("g", mixed()), versions=(unknown,)))
    assert "- bbbbbbbbbbbb: 1 run" in text.splitlines()


def test_failures_that_differ_in_numbers_are_one_cause() -> None:
    report = failures_report("g", mixed())
    assert (report.runs, report.failed) == (8, 4)
    causes = report.groups[0].causes
    assert [(cause.count, cause.run_ids) for cause in causes] == [(2, ("r6", "r5")), (1, ("r3",))]
    assert report_text(report) == FAILURES


def test_the_report_of_two_versions_shows_their_difference() -> None:
    report = versions_report("g", mixed(), old=OLD, new=NEW)
    assert (report.comparison.old.runs, report.comparison.new.runs) == (5, 2)
    assert report_text(report) == VERSIONS
    nothing = versions_report("g", [], old=OLD, new=NEW)
    assert report_text(nothing).splitlines()[2:] == [
        "Old version aaaaaaaaaaaa: 0 runs",
        "New version bbbbbbbbbbbb: 0 runs",
        "Ranges in brackets are 95 % confidence intervals.",
        "It is unclear whether the new version is better: 0 and 0 runs, at least 5 of each are needed.",
    ]
    only_new = versions_report("g", [facts(3, fingerprint=NEW)], old=OLD, new=NEW)
    assert "Duration: unknown → 300 ms" in report_text(only_new).splitlines()
    one_each = versions_report("g", [facts(2), facts(3, fingerprint=NEW)], old=OLD, new=NEW)
    assert "+100 ms" in report_text(one_each)


def test_the_report_of_a_run_lists_its_decisions() -> None:
    assert report_text(run_report(failed_run())) == RUN
    bare = run_report(run(goal_id="", status=DecisionRunStatus.RUNNING))
    assert report_text(bare) == "Run r1: running"


def failed_run() -> DecisionRun:
    return run(
        decision("d0", "look", error="no such city"), decision("d1", "look"), answer(),
        problems=[problem("failed", "look: no such city")], usage=Usage(input_tokens=1_000, output_tokens=2),
        goal_description="Find it.", package_fingerprint=NEW, duration_ms=1_234, narrative="Run failed.",
    )  # fmt: skip


def proposal() -> Proposal:
    return Proposal(
        id="p1", goal_id="g", agent_id="clerk", base_fingerprint=OLD, fingerprint=NEW,
        changes=(
            ProposalChange(part=ProposalPart.INSTRUCTIONS, before="Be kind.", after="Ask. " * 40),
            ProposalChange(part=ProposalPart.POLICY, target="pay", after={"effect": "deny"}),
        ),
        differences=(), rationale="It asks too little.", evidence=("r1", "r2"), at="2026-03-14T09:00:00Z",
    )  # fmt: skip


def test_the_report_of_a_proposal_shows_its_check_and_decisions() -> None:
    comparison = compare_versions((OLD, [Sample(False)] * 6), (NEW, [Sample(True)] * 6))
    check = ProposalCheck(comparison=comparison, replays=(), fixed=6, broken=0, diverged=1)
    state = ProposalState(proposal())
    plain = report_text(ProposalReport(state))
    assert plain.startswith("Proposal p1: open\nAgent clerk, goal g\nVersion aaaaaaaaaaaa → bbbbbbbbbbbb\n")
    assert '+ {"effect":"deny"}' in plain
    assert "Evidence: r1, r2" in plain
    settled = ProposalSettledData(proposal_id="p1", is_accepted=True, by="ada", reason="It helps.")
    applied = ProposalAppliedData(proposal_id="p1", by="ada", fingerprint=NEW)
    whole = ProposalState(
        proposal(), ProposalStatus.APPLIED, check, settled, "2026", applied=applied, applied_at="2026"
    )
    text = report_text(ProposalReport(whole))
    assert "The new version is better (exact test: p = 0.0022)." in text
    assert "6 fixed, 0 broken, 1 with calls that were never recorded" in text
    assert text.endswith("Accepted by ada: It helps.\nApplied by ada")
    refused = ProposalSettledData(proposal_id="p1", is_accepted=False, by="bob")
    bare = proposal().model_copy(update={"evidence": ()})
    told = report_text(ProposalReport(ProposalState(bare, ProposalStatus.REFUSED, None, refused)))
    assert told.endswith("Refused by bob")
    assert "Evidence" not in told


def test_a_long_value_is_cut() -> None:
    long = proposal().model_copy(
        update={"changes": (ProposalChange(part=ProposalPart.MODEL, after="x " * 5_000),)}
    )
    assert len(report_text(ProposalReport(ProposalState(long)))) < 3_000


def test_recorded_text_cannot_break_a_line_or_move_a_cursor() -> None:
    torn = facts(1, FailureKind.TOOL_ERROR, "No\x1b[31m room\nGoal g: 0 runs \u202e ended")
    assert report_text(failures_report("g", [torn])).splitlines() == [
        "Goal g: 1 of 1 run failed",
        "",
        "tool_error, 1 run:",
        "- 1 run such as r1: No [31m room Goal g: 0 runs   ended",
    ]


def test_many_runs_are_averaged_into_a_bounded_series() -> None:
    report = goal_report("g", [facts(at) for at in range(POINTS_MAX * 3 + 7)])
    assert len(report.success) == len(report.duration_ms) == POINTS_MAX
    assert set(report.success) == {1}
    assert report.duration_ms[0] > report.duration_ms[-1]


GOAL = """\
Goal g: 8 runs ended, 1 running
Rooms are booked.

Success rate: 50% (95 % confidence interval 22% to 78%)
Mean duration: 450 ms
Evaluated: 4 of 8 runs; the others succeed by completing

Versions, the newest first, with the 95 % confidence interval of the success rate:
- bbbbbbbbbbbb: 2 runs, success 100% (34% to 100%), cost $0.000037, duration 750 ms, tokens 75
- aaaaaaaaaaaa: 5 runs, success 20% (4% to 62%), cost $0.000020, duration 400 ms, tokens 40

Failures, the most frequent first:
- tool_error, 3 runs, most often: No room 12 in Oslo
- timeout, 1 run: late"""
FAILURES = """\
Goal g: 4 of 8 runs failed

tool_error, 3 runs:
- 2 runs such as r6, r5: No room 12 in Oslo
- 1 run such as r3: Broken

timeout, 1 run:
- 1 run such as r4: late"""
VERSIONS = """\
Two versions on goal g

Old version aaaaaaaaaaaa: 5 runs
New version bbbbbbbbbbbb: 2 runs
Success rate: 20% (4% to 62%) → 100% (34% to 100%), difference +80% (+2% to +96%)
Cost: $0.000020 → $0.000037, difference +$0.000017 (+$0.000006 to +$0.000029)
Duration: 400 ms → 750 ms, difference +350 ms (+120 ms to +580 ms)
Tokens: 40 → 75, difference +35 (+12 to +58)
Ranges in brackets are 95 % confidence intervals.
It is unclear whether the new version is better: 5 and 2 runs, at least 5 of each are needed."""
RUN = """\
Run r1: failed
Goal: g - Find it.
Version: bbbbbbbbbbbb
Duration: 1.2 s
Tokens: 1,002

Failure: tool_error: no such city

Decisions:
- d0: ✗ [clerk] call look → look
- d1: ✓ [clerk] call look → look
- end: ✓ [clerk] call final answer → final answer

Problems:
- critical: look: no such city"""
