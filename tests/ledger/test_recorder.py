"""Every documented call of the recorder, as its document says."""

import json
import re
import textwrap
from pathlib import Path

import pytest
from tests.ledger.samples import GOAL, OPTIONS, decide

from windlass.ledger import (
    BuilderQuery,
    DecisionEvaluation,
    DecisionType,
    RecordingError,
    Run,
    RunStatus,
    Runtime,
)
from windlass_protocol import DecisionRunStatus
from windlass_protocol import DecisionType as WireDecisionType

EXAMPLE = """
from windlass.ledger import Runtime
from windlass.ledger import DecisionType

# Initialize runtime
runtime = Runtime(STORAGE)

# Start a run
run_id = runtime.start_run(
    goal_id="qualify-leads",
    goal_description="Qualify incoming sales leads",
    input_data={"lead_name": "Acme Corp"}
)

# Set node context
runtime.set_node("budget-checker")

# Record a decision
decision_id = runtime.decide(
    intent="Check if lead has budget",
    options=[
        {"id": "ask", "description": "Ask directly"},
        {"id": "infer", "description": "Infer from company size"}
    ],
    chosen="infer",
    reasoning="Company data available",
    decision_type=DecisionType.PATH_CHOICE
)

# Execute and record outcome
try:
    result = check_budget_from_company_data()
    runtime.record_outcome(
        decision_id=decision_id,
        success=True,
        result=result,
        summary=f"Estimated budget: {result['budget']}"
    )
except Exception as e:
    runtime.record_outcome(
        decision_id=decision_id,
        success=False,
        error=str(e)
    )
    runtime.report_problem(
        severity="critical",
        description="Budget check failed",
        decision_id=decision_id
    )

# End the run
runtime.end_run(
    success=True,
    narrative="Lead qualified with estimated budget",
    output_data={"qualified": True, "budget": "$50k"}
)
"""


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(tmp_path, strict=True)


def recorded(runtime: Runtime) -> Run:
    run = runtime.current_run
    assert run is not None
    return run


@pytest.mark.parametrize("is_found", [True, False])
def test_the_documented_example_runs_but_for_its_import_lines(tmp_path: Path, is_found: bool) -> None:
    def check_budget_from_company_data() -> dict[str, str]:
        if not is_found:
            raise LookupError("no data of Acme Corp")
        return {"budget": "$50k"}

    names: dict[str, object] = {
        "STORAGE": tmp_path,
        "check_budget_from_company_data": check_budget_from_company_data,
    }
    exec(textwrap.dedent(EXAMPLE), names)
    run = BuilderQuery(tmp_path).get_full_run(str(names["run_id"]))
    assert run is not None
    assert (run.status, run.goal_id) == (RunStatus.COMPLETED, "qualify-leads")
    assert run.input_data == {"lead_name": "Acme Corp"}
    assert run.output_data == {"qualified": True, "budget": "$50k"}
    [decision] = run.decisions
    assert decision.node_id == "budget-checker"
    assert decision.decision_type is DecisionType.PATH_CHOICE
    assert decision.was_successful is is_found
    assert [problem.decision_id for problem in run.problems] == ([] if is_found else ["dec_0"])


def test_ids_have_the_documented_forms(runtime: Runtime) -> None:
    assert runtime.execution_id == ""
    run_id = runtime.start_run(GOAL)
    assert re.fullmatch(r"run_\d{8}_\d{6}_[0-9a-f]{8}", run_id)
    assert re.fullmatch("[0-9a-f]{32}", runtime.execution_id)
    assert [decide(runtime), decide(runtime)] == ["dec_0", "dec_1"]
    assert [runtime.report_problem("minor", "a"), runtime.report_problem("warning", "b")] == [
        "prob_0",
        "prob_1",
    ]
    assert recorded(runtime).execution_id == runtime.execution_id
    before = runtime.execution_id
    runtime.end_run(True)
    assert runtime.execution_id == before
    runtime.start_run(GOAL)
    assert runtime.execution_id != before


def test_everything_that_is_said_of_a_decision_is_kept(runtime: Runtime) -> None:
    runtime.start_run(GOAL)
    option: dict[str, object] = {
        "id": "ask",
        "description": "Ask the lead directly",
        "action_type": "tool_call",
        "action_params": {"tool": "send_email"},
        "pros": ["Direct answer"],
        "cons": ["Might be awkward"],
        "confidence": 0.6,
    }
    runtime.decide(
        "Find the budget",
        [option, {"id": "infer"}],
        "ask",
        "It is quick",
        "lead-qualifier",
        DecisionType.TOOL_SELECTION,
        ["no_spam"],
        {"company_size": 500},
    )
    runtime.record_outcome("dec_0", True, {"has": True}, None, "Found", {"qualified": True}, 150, 420)
    runtime.record_evaluation("dec_0", DecisionEvaluation(outcome_quality=0.4, explanation="Slow"))
    [decision] = recorded(runtime).decisions
    first, second = decision.options
    assert (first.action_type, first.action_params, first.pros) == (
        "tool_call", {"tool": "send_email"}, ("Direct answer",)
    )  # fmt: skip
    assert (first.cons, first.confidence) == (("Might be awkward",), 0.6)
    assert (second.description, second.action_type, second.confidence, second.pros) == (
        "",
        "unknown",
        0.5,
        (),
    )
    assert (decision.intent, decision.reasoning, decision.node_id) == (
        "Find the budget", "It is quick", "lead-qualifier"
    )  # fmt: skip
    assert decision.active_constraints == ("no_spam",)
    assert decision.input_context == {"company_size": 500}
    assert decision.chosen_option == first
    assert decision.outcome is not None
    assert (decision.outcome.result, decision.outcome.summary) == ({"has": True}, "Found")
    assert (decision.outcome.tokens_used, decision.outcome.latency_ms) == (150, 420)
    assert decision.outcome.state_changes == {"qualified": True}
    assert decision.evaluation == DecisionEvaluation(outcome_quality=0.4, explanation="Slow")
    assert decision.was_successful
    assert not decision.was_good_decision
    assert decision.summary_for_builder() == (
        "✓ [lead-qualifier] Find the budget → Ask the lead directly [quality: 0.4]"
    )


def test_a_quick_decision_has_one_option(runtime: Runtime) -> None:
    runtime.start_run(GOAL)
    assert runtime.quick_decision("Format output", "Convert to JSON", "Standard", "formatter") == "dec_0"
    [decision] = recorded(runtime).decisions
    [option] = decision.options
    assert (option.id, option.description, option.action_type) == ("action", "Convert to JSON", "execute")
    assert (decision.node_id, decision.chosen_option_id) == ("formatter", "action")


def test_a_problem_keeps_its_decision_cause_and_fix(runtime: Runtime) -> None:
    runtime.start_run(GOAL)
    decision_id = decide(runtime)
    runtime.report_problem("warning", "Rate limit", decision_id, "Too many requests", "Back off")
    [problem] = recorded(runtime).problems
    assert (problem.id, problem.severity, problem.description) == ("prob_0", "warning", "Rate limit")
    assert (problem.decision_id, problem.root_cause, problem.suggested_fix) == (
        decision_id, "Too many requests", "Back off"
    )  # fmt: skip


def test_the_current_run_can_be_read(runtime: Runtime) -> None:
    assert runtime.current_run is None
    run_id = runtime.start_run(GOAL, "Qualify leads")
    for _ in range(3):
        decide(runtime)
    run = recorded(runtime)
    assert (run.id, run.status, len(run.decisions), run.goal_description) == (
        run_id, RunStatus.RUNNING, 3, "Qualify leads"
    )  # fmt: skip
    assert run.duration_ms == 0
    assert run.metrics.pending_decisions == 3
    runtime.end_run(True)
    assert runtime.current_run is None


@pytest.mark.parametrize("success", [True, False])
def test_end_run_records_the_status_and_exports_the_run(tmp_path: Path, success: bool) -> None:
    runtime = Runtime(tmp_path, strict=True)
    run_id = runtime.start_run(GOAL)
    runtime.record_outcome(decide(runtime), success, error=None if success else "No data")
    runtime.end_run(success)
    exported = json.loads((tmp_path / "runs" / f"{run_id}.json").read_bytes())
    run = BuilderQuery(tmp_path).get_full_run(run_id)
    assert run is not None
    assert run.to_dict() == exported
    assert exported["status"] == ("completed" if success else "failed")
    assert exported["metrics"]["success_rate"] == float(success)
    assert exported["narrative"] == (
        "Run completed successfully. Made 1 decision: 1 succeeded, 0 failed."
        if success
        else "Run failed. Made 1 decision: 0 succeeded, 1 failed. Failed on: Check the budget."
    )
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [f"{run_id}.json"]


def test_a_pending_decision_is_no_failure(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path, strict=True)
    run_id = runtime.start_run(GOAL)
    decide(runtime)
    runtime.record_outcome(decide(runtime), True)
    runtime.end_run(True)
    summary = BuilderQuery(tmp_path).get_run_summary(run_id)
    assert summary is not None
    assert summary.success_rate == 1.0
    assert summary.key_decisions == ()
    assert "1 pending" in summary.narrative
    assert "Failed on" not in summary.narrative


def test_the_node_of_a_run_does_not_leak_into_the_next(runtime: Runtime) -> None:
    runtime.start_run(GOAL)
    runtime.set_node("first")
    decide(runtime)
    assert recorded(runtime).decisions[0].node_id == "first"
    runtime.end_run(True)
    runtime.start_run(GOAL)
    decide(runtime)
    assert recorded(runtime).decisions[0].node_id == "unknown"
    assert recorded(runtime).metrics.nodes_executed == ("unknown",)


def test_decide_and_execute_runs_the_executor_and_records_the_outcome(runtime: Runtime) -> None:
    runtime.start_run(GOAL)
    assert runtime.decide_and_execute("Sum", OPTIONS, "ask", "why", lambda: 42, node_id="calc") == (
        "dec_0",
        42,
    )
    [decision] = recorded(runtime).decisions
    assert decision.node_id == "calc"
    assert decision.outcome is not None
    assert (decision.outcome.success, decision.outcome.result) == (True, 42)


@pytest.mark.parametrize("error", [KeyError("gone"), KeyboardInterrupt(), SystemExit(3)])
def test_an_exception_of_an_executor_is_recorded_and_raised(runtime: Runtime, error: BaseException) -> None:
    def fail() -> None:
        raise error

    runtime.start_run(GOAL)
    with pytest.raises(type(error)):
        runtime.decide_and_execute("Sum", OPTIONS, "ask", "why", fail)
    [decision] = recorded(runtime).decisions
    assert decision.has_failed
    assert decision.outcome is not None
    assert decision.outcome.error == (str(error) or type(error).__name__)


def test_enumerations_equal_those_of_the_wire() -> None:
    assert {kind.name: kind.value for kind in DecisionType} == {k.name: k.value for k in WireDecisionType}
    assert {kind.name: kind.value for kind in RunStatus} == {k.name: k.value for k in DecisionRunStatus}


def test_a_judgement_has_scores_from_0_to_1() -> None:
    with pytest.raises(RecordingError, match="outcome_quality must be from 0 to 1"):
        DecisionEvaluation(outcome_quality=1.5)


def test_secrets_are_masked_before_they_are_written(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path, secrets=["hunter2-hunter2"])
    runtime.start_run(GOAL, input_data={"password": "open sesame"})
    runtime.decide("Log in as hunter2-hunter2", OPTIONS, "ask", "why", context={"api_key": "s3cr3t-value-1"})
    runtime.end_run(True)
    runtime.close()
    for path in tmp_path.rglob("*"):
        held = path.read_bytes() if path.is_file() else b""
        for secret in (b"hunter2", b"open sesame", b"s3cr3t-value-1"):
            assert secret not in held, path
    run = BuilderQuery(tmp_path).list_runs_for_goal(GOAL)[0]
    full = BuilderQuery(tmp_path).get_full_run(run.run_id)
    assert full is not None
    assert full.decisions[0].intent == "Log in as [redacted]"


def test_a_recorder_can_be_closed_and_opened_again(tmp_path: Path) -> None:
    with Runtime(tmp_path) as runtime:
        runtime.start_run(GOAL)
        decide(runtime)
        runtime.end_run(True)
    assert not (tmp_path / "recorder.db-spool").exists()
    with Runtime(tmp_path) as runtime:
        runtime.start_run(GOAL)
        runtime.end_run(False)
    assert [run.status for run in BuilderQuery(tmp_path).list_runs_for_goal(GOAL)] == ["failed", "completed"]


def test_durability_power_records_alike(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path, durability="power")
    run_id = runtime.start_run(GOAL)
    decide(runtime)
    runtime.end_run(True)
    assert BuilderQuery(tmp_path).get_decision_trace(run_id) == [
        "… [unknown] Check the budget → Infer from company size"
    ]
