"""Recorded runs as plain text."""

import pytest
from tests.harness.views.journal import DECISION, Facts

from windlass_harness.views import describe_decision, narrate, summarize_run
from windlass_protocol import Decision, DecisionRun, DecisionRunStatus, RunMetrics

YES: Facts = {"success": True, "summary": "it worked"}
NO: Facts = {"success": False, "error": "it broke"}


def decision(number: int = 0, **more: object) -> Decision:
    return Decision.model_validate({**DECISION, "id": f"d{number}", "intent": f"intent {number}", **more})


def run(*decisions: Decision, status: str = "completed", **more: object) -> DecisionRun:
    succeeded = sum(one.outcome is not None and one.outcome.success for one in decisions)
    failed = sum(one.outcome is not None and not one.outcome.success for one in decisions)
    metrics = RunMetrics(
        total_decisions=len(decisions),
        successful_decisions=succeeded,
        failed_decisions=failed,
        total_tokens=0,
        total_latency_ms=0,
        nodes_executed=(),
    )
    facts: Facts = {
        "id": "r1",
        "goalId": "g",
        "startedAt": "2026-01-31T09:00:00Z",
        "status": status,
        "problems": [],
        **more,
    }
    return DecisionRun.model_validate({**facts, "decisions": decisions, "metrics": metrics})


def problem(severity: str, description: str) -> Facts:
    return {"id": "p", "severity": severity, "description": description, "timestamp": "2026-01-31T09:00:00Z"}


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ({"outcome": YES}, "✓ [n] intent 0 → act"),
        ({"outcome": NO}, "✗ [n] intent 0 → act"),
        ({}, "… [n] intent 0 → act"),
        ({"chosenOptionId": "elsewhere", "outcome": YES}, "✓ [n] intent 0 → unknown action"),
        ({"options": [{"id": "a"}], "outcome": YES}, "✓ [n] intent 0 → a"),
        (
            {"outcome": YES, "evaluation": {"goalAligned": True, "outcomeQuality": 0.8}},
            "✓ [n] intent 0 → act [quality: 0.8]",
        ),
        ({"outcome": YES, "evaluation": {"goalAligned": True}}, "✓ [n] intent 0 → act"),
    ],
)
def test_a_decision_is_described_in_one_line(facts: Facts, line: str) -> None:
    assert describe_decision(decision(0, **facts)) == line


@pytest.mark.parametrize(
    ("status", "opening"),
    [
        ("running", "Run is still going on."),
        ("completed", "Run completed successfully."),
        ("failed", "Run failed."),
        ("stuck", "Run is stuck."),
        ("cancelled", "Run was cancelled."),
    ],
)
def test_a_story_begins_with_how_it_ended(status: str, opening: str) -> None:
    assert narrate(run(status=status)) == opening


def test_a_narrative_has_counts_problems_and_failures() -> None:
    told = run(
        decision(0, outcome=YES),
        *(decision(number, outcome=NO) for number in range(1, 6)),
        decision(9),
        status="failed",
        problems=[problem("critical", "no disk"), problem("warning", "slow"), problem("minor", "dust")],
    )
    assert narrate(told) == (
        "Run failed. Made 7 decisions: 1 succeeded, 5 failed, 1 pending. Critical issues: no disk. "
        "Warnings: slow. Failed on: intent 1; intent 2; intent 3."
    )


def test_a_sentence_ends_once() -> None:
    told = run(decision(1, outcome=NO, intent="Stop."), problems=[problem("warning", "It has no effect.")])
    assert narrate(told).endswith("Warnings: It has no effect. Failed on: Stop.")


def test_a_pending_decision_is_not_called_a_failure() -> None:
    assert "Failed on" not in narrate(run(decision(0, outcome=YES), decision(1)))
    assert summarize_run(run(decision(0))).key_decisions == ()


def test_a_summary_has_status_counts_key_decisions_and_problems() -> None:
    excellent = {"goalAligned": True, "outcomeQuality": 0.81}
    ordinary = {"goalAligned": True, "outcomeQuality": 0.8}
    summary = summarize_run(
        run(
            decision(0, outcome=YES, evaluation=ordinary),
            decision(1, outcome=YES, evaluation=excellent),
            decision(2, outcome=NO),
            decision(3, evaluation={"goalAligned": False}),
            completedAt="2026-01-31T09:00:01.500Z",
            problems=[problem("critical", "no disk"), problem("warning", "slow"), problem("minor", "dust")],
            narrative="As told.",
        )
    )
    assert summary.run_id == "r1"
    assert summary.status is DecisionRunStatus.COMPLETED
    assert (summary.duration_ms, summary.decision_count, summary.problem_count) == (1500, 4, 3)
    assert summary.success_rate == pytest.approx(2 / 3)
    assert summary.narrative == "As told."
    assert summary.key_decisions == ("✓ [n] intent 1 → act [quality: 0.81]", "✗ [n] intent 2 → act")
    assert (summary.critical_problems, summary.warnings) == (("no disk",), ("slow",))
    assert summary.successes == ("it worked", "it worked")


def test_a_summary_is_short() -> None:
    decisions = [decision(number, outcome=NO) for number in range(9)]
    decisions += [decision(number, outcome=YES) for number in range(9)]
    summary = summarize_run(run(*decisions))
    assert (len(summary.key_decisions), len(summary.successes)) == (5, 3)


def test_an_open_run_without_outcomes_has_no_duration_and_no_rate() -> None:
    summary = summarize_run(run(decision(0), decision(1, outcome={"success": True}), status="running"))
    assert summary.duration_ms == 0
    assert summary.success_rate == 1.0
    assert summary.successes == (), "an outcome without a summary says nothing"
    assert summarize_run(run(decision(0), status="running")).success_rate == 0.0
    assert summary.narrative.startswith("Run is still going on.")
