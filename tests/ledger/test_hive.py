"""The names of Hive's `framework.Runtime`, and the differences that docs/origins.md tells."""

from dataclasses import FrozenInstanceError, fields, replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from inspect import Parameter, signature
from pathlib import Path

import pytest
from tests.ledger.samples import GOAL, OPTIONS, anything, decide, record

from windlass.ledger import (
    BuilderQuery,
    Decision,
    DecisionEvaluation,
    DecisionType,
    Option,
    Outcome,
    Problem,
    Run,
    RunMetrics,
    RunStatus,
    RunSummary,
    Runtime,
    wall,
)

AT = datetime(2026, 1, 31, 9, 30, tzinfo=timezone(timedelta(hours=5)))
REQUIRED = Parameter.empty
METHODS: dict[str, dict[str, object]] = {
    "start_run": {"goal_id": REQUIRED, "goal_description": "", "input_data": None},
    "end_run": {"success": REQUIRED, "narrative": "", "output_data": None},
    "set_node": {"node_id": REQUIRED},
    "decide": {
        "intent": REQUIRED,
        "options": REQUIRED,
        "chosen": REQUIRED,
        "reasoning": REQUIRED,
        "node_id": None,
        "decision_type": DecisionType.CUSTOM,
        "constraints": None,
        "context": None,
    },
    "record_outcome": {
        "decision_id": REQUIRED,
        "success": REQUIRED,
        "result": None,
        "error": None,
        "summary": "",
        "state_changes": None,
        "tokens_used": 0,
        "latency_ms": 0,
    },
    "report_problem": {
        "severity": REQUIRED,
        "description": REQUIRED,
        "decision_id": None,
        "root_cause": None,
        "suggested_fix": None,
    },
    "decide_and_execute": {
        "intent": REQUIRED,
        "options": REQUIRED,
        "chosen": REQUIRED,
        "reasoning": REQUIRED,
        "executor": REQUIRED,
        "kwargs": REQUIRED,
    },
    "quick_decision": {"intent": REQUIRED, "action": REQUIRED, "reasoning": REQUIRED, "node_id": None},
}
"""The parameters of each method in their order, with their defaults."""
FIELDS: dict[type, set[str]] = {
    Option: {"id", "description", "action_type", "action_params", "pros", "cons", "confidence"},
    Outcome: {
        "success", "result", "error", "state_changes", "tokens_used", "latency_ms", "summary", "timestamp"
    },
    DecisionEvaluation: {
        "goal_aligned", "alignment_score", "better_option_existed", "better_option_id", "why_better",
        "outcome_quality", "contributed_to_success", "explanation",
    },
    Decision: {
        "id", "timestamp", "node_id", "intent", "decision_type", "options", "chosen_option_id", "reasoning",
        "active_constraints", "input_context", "outcome", "evaluation",
    },
    Problem: {"id", "severity", "description", "root_cause", "decision_id", "timestamp", "suggested_fix"},
    RunMetrics: {
        "total_decisions", "successful_decisions", "failed_decisions", "total_tokens", "total_latency_ms",
        "nodes_executed",
    },
    Run: {
        "id", "goal_id", "started_at", "status", "completed_at", "decisions", "problems", "metrics",
        "narrative", "goal_description", "input_data", "output_data",
    },
    RunSummary: {
        "run_id", "goal_id", "status", "duration_ms", "decision_count", "success_rate", "problem_count",
        "narrative", "key_decisions", "critical_problems", "warnings", "successes",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_a_method_has_the_parameters_of_hive_in_their_order(name: str) -> None:
    taken = signature(getattr(Runtime, name)).parameters
    known = {key: one.default for key, one in taken.items() if one.kind is not Parameter.KEYWORD_ONLY}
    assert list(known.items())[1:] == list(METHODS[name].items())
    added = {key: one.default for key, one in taken.items() if one.kind is Parameter.KEYWORD_ONLY}
    assert added in ({}, {"run_id": None})


def test_the_only_argument_that_a_runtime_needs_is_its_storage_path(tmp_path: Path) -> None:
    first, *others = signature(Runtime).parameters.values()
    assert first.name == "storage_path"
    assert all(one.kind is Parameter.KEYWORD_ONLY for one in others)
    for place in (tmp_path / "path", str(tmp_path / "text")):
        assert record(Runtime(place)).startswith("run_")


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_a_data_class_has_the_fields_of_hive(kind: type) -> None:
    assert {one.name for one in fields(anything(kind))} >= FIELDS[kind]


def test_a_run_built_by_hand_starts_now_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return AT.astimezone(tz)

    monkeypatch.setattr(wall, "datetime", Clock)
    started_at = Run("r", "g").started_at
    assert (started_at, started_at.tzinfo) == (AT, UTC)


def test_a_run_is_built_by_hand_with_the_arguments_that_hive_requires() -> None:
    run = Run(id="r", goal_id="g")
    assert (run.status, run.decisions, run.problems, run.duration_ms) == (RunStatus.RUNNING, (), (), 0)
    assert run.metrics == RunMetrics()
    decision = Decision(id="d", node_id="n", intent="i")
    assert (decision.decision_type, decision.options, decision.chosen_option) == (
        DecisionType.CUSTOM,
        (),
        None,
    )
    assert decision.summary_for_builder() == "… [n] i → unknown action"
    problem = Problem(id="p", severity="minor", description="d")
    whole = replace(
        run,
        decisions=(replace(decision, outcome=Outcome(success=True)),),
        problems=(problem,),
        status=RunStatus.COMPLETED,
        completed_at=run.started_at + timedelta(seconds=2),
    )
    assert (whole.duration_ms, whole.decisions[0].was_successful) == (2_000, True)
    assert whole.to_dict()["status"] == "completed"


def test_what_was_built_does_not_change_and_takes_no_unknown_field() -> None:
    run = Run("r", "g")
    with pytest.raises(FrozenInstanceError):
        anything(run).status = RunStatus.FAILED
    with pytest.raises(TypeError, match="mood"):
        Run("r", "g", **anything({"mood": "good"}))
    # As docs/origins.md says: a run is changed by recording.
    for name in ("add_decision", "record_outcome", "add_problem", "complete"):
        assert not hasattr(run, name)
    assert not hasattr(run.metrics, "edges_traversed")


def test_recorded_times_have_a_time_zone(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path)
    run_id = runtime.start_run(GOAL)
    runtime.record_outcome(decide(runtime), True)
    runtime.report_problem("minor", "d")
    runtime.end_run(True)
    run = BuilderQuery(tmp_path).get_full_run(run_id)
    assert run is not None
    outcome = run.decisions[0].outcome
    assert outcome is not None
    for at in (
        run.started_at,
        run.completed_at,
        run.decisions[0].timestamp,
        outcome.timestamp,
        run.problems[0].timestamp,
    ):
        assert at is not None
        assert at.utcoffset() == timedelta()


def test_analyses_have_a_text_and_plain_data(tmp_path: Path) -> None:
    run_id = record(Runtime(tmp_path), error="No revenue")
    query = BuilderQuery(tmp_path)
    failure, patterns = query.analyze_failure(run_id), query.find_patterns(GOAL)
    assert failure is not None
    assert patterns is not None
    assert failure.to_dict()["root_cause"] == "No revenue"
    assert "No revenue" in str(failure)
    assert patterns.to_dict()["run_count"] == 1
    assert GOAL in str(patterns)


def test_a_second_outcome_counts_once_and_an_interrupted_executor_has_failed(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path)
    run_id = runtime.start_run(GOAL)
    decision_id = decide(runtime)
    runtime.record_outcome(decision_id, False, tokens_used=5)
    runtime.record_outcome(decision_id, True, tokens_used=3)

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runtime.decide_and_execute("Act", OPTIONS, "ask", "r", interrupted)
    runtime.end_run(True)
    run = BuilderQuery(tmp_path).get_full_run(run_id)
    assert run is not None
    metrics = run.metrics
    assert (metrics.successful_decisions, metrics.failed_decisions, metrics.total_tokens) == (1, 1, 3)
