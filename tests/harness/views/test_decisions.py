"""The decision ledger: decisions, outcomes and problems."""

import pytest
from tests.harness.views.journal import DECISION, Facts, Journal, some

from windlass_harness.views import DecisionsState, fold_decisions
from windlass_protocol import DecisionRun, DecisionRunStatus
from windlass_protocol.limits import INTEGER_MAX


def ledger(journal: Journal) -> DecisionsState:
    return fold_decisions(journal.records)


def run_of(journal: Journal) -> DecisionRun:
    return ledger(journal).runs["r1"]


def decide(journal: Journal, decision_id: str, node: str = "n", **more: object) -> Journal:
    decision: Facts = {**DECISION, "id": decision_id, "nodeId": node, **more}
    return journal.add("decision.recorded", {"decision": decision})


def settle(journal: Journal, decision_id: str, success: bool, **more: object) -> Journal:
    return journal.add(
        "decision.outcome", {"decisionId": decision_id, "outcome": {"success": success, **more}}
    )


def begin(**more: object) -> Journal:
    return Journal().add("run.started", {"runId": "r1", "agentId": "a", **more})


def test_a_run_that_began_has_a_goal_and_nothing_else() -> None:
    run = run_of(begin(goalId="g", goalDescription="win", inputData={"n": 1}))
    assert (run.id, run.goal_id, run.goal_description, run.input_data) == ("r1", "g", "win", {"n": 1})
    assert run.status is DecisionRunStatus.RUNNING
    assert run.metrics.total_decisions == 0
    assert run.narrative is None
    assert run_of(begin()).goal_id == ""


def test_decisions_are_counted_by_outcome() -> None:
    journal = decide(decide(decide(begin(), "d0", "plan"), "d1", "act"), "d2", "plan")
    settle(settle(journal, "d0", True, tokensUsed=10, latencyMs=5), "d1", False, tokensUsed=1)
    metrics = run_of(journal).metrics
    assert (metrics.total_decisions, metrics.successful_decisions, metrics.failed_decisions) == (3, 1, 1)
    assert (metrics.total_tokens, metrics.total_latency_ms) == (11, 5)
    assert metrics.nodes_executed == ("plan", "act")


def test_sums_stop_at_the_largest_number_and_come_back_from_it() -> None:
    journal = decide(decide(begin(), "d0"), "d1")
    for one in ("d0", "d1"):
        settle(journal, one, True, tokensUsed=INTEGER_MAX, latencyMs=INTEGER_MAX)
    metrics = run_of(journal).metrics
    assert (metrics.total_tokens, metrics.total_latency_ms) == (INTEGER_MAX, INTEGER_MAX)
    before = ledger(journal)
    settle(journal, "d1", True, tokensUsed=0)
    assert run_of(journal).metrics.total_tokens == INTEGER_MAX
    assert fold_decisions(journal.records[-1:], before) == ledger(journal)


def test_decisions_belong_to_the_newest_run_though_an_older_one_is_started_again() -> None:
    journal = begin().add("run.started", {"runId": "r2", "agentId": "a"})
    decide(journal.add("run.started", {"runId": "r1", "agentId": "a"}), "d0")
    assert [len(run.decisions) for run in ledger(journal).runs.values()] == [0, 1]


def test_a_judgement_is_kept_with_its_decision() -> None:
    judged = {"decisionId": "d0", "evaluation": {"goalAligned": True, "outcomeQuality": 0.9}}
    journal = decide(begin(), "d0").add("decision.evaluated", judged)
    assert some(run_of(journal).decisions[0].evaluation).outcome_quality == 0.9


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("decision.outcome", {"decisionId": "ghost", "outcome": {"success": True}}),
        ("decision.evaluated", {"decisionId": "ghost", "evaluation": {"goalAligned": True}}),
    ],
)
def test_records_of_unknown_decisions_are_counted_as_orphans(kind: str, data: Facts) -> None:
    assert ledger(begin().add(kind, data)).orphans == 1
    assert ledger(Journal().add(kind, data)).orphans == 1
    assert run_of(begin().add(kind, data)) == run_of(begin())


def test_records_of_unknown_runs_are_counted_as_orphans() -> None:
    problem = {"id": "p", "severity": "minor", "description": "d", "timestamp": "2026-01-31T09:00:00Z"}
    journal = decide(Journal(), "d0").add("problem.reported", {"problem": problem})
    journal.add("run.completed", {"runId": "ghost"})
    assert ledger(journal) == DecisionsState(ledger(journal).position, orphans=2)


def test_a_step_that_belongs_to_no_run_changes_nothing() -> None:
    journal = Journal().add("session.started").say("Hello.")
    assert ledger(journal) == DecisionsState(ledger(journal).position)


def test_a_record_that_names_its_run_belongs_to_it() -> None:
    journal = begin().add("run.started", {"runId": "r2", "agentId": "a"})
    journal.add("decision.recorded", {"decision": {**DECISION, "id": "d0"}}, runId="r1")
    journal.add("decision.recorded", {"decision": {**DECISION, "id": "d0"}})
    assert {key: len(run.decisions) for key, run in ledger(journal).runs.items()} == {"r1": 1, "r2": 1}


def test_the_narrative_is_the_one_given_or_written_at_the_end() -> None:
    given = begin().add("run.completed", {"runId": "r1", "narrative": "All went well."})
    assert run_of(given).narrative == "All went well."
    journal = decide(begin(), "d0").add("run.completed", {"runId": "r1"})
    written = "Run completed successfully. Made 1 decision: 0 succeeded, 0 failed, 1 pending."
    assert run_of(journal).narrative == written
    assert run_of(settle(journal, "d0", True)).narrative == written, "what comes later does not rewrite it"
    assert run_of(journal).metrics.successful_decisions == 1


def test_problems_are_kept_in_order() -> None:
    journal = begin()
    for number in range(3):
        problem = {
            "id": f"p{number}",
            "severity": "minor",
            "description": "d",
            "timestamp": "2026-01-31T09:00:00Z",
        }
        journal.add("problem.reported", {"problem": problem})
    assert [problem.id for problem in run_of(journal).problems] == ["p0", "p1", "p2"]


def test_unknown_fields_of_a_decision_survive_its_outcome() -> None:
    journal = settle(decide(begin(), "d0", newField="kept"), "d0", True)
    [decision] = run_of(journal).decisions
    assert decision.model_dump(by_alias=True)["newField"] == "kept"
    assert decision.outcome is not None
