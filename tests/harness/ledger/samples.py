"""Runs for the tests of the ledger's rules."""

from collections.abc import Sequence

from pydantic import JsonValue

from windlass_protocol import (
    Decision,
    DecisionEvaluation,
    DecisionRun,
    DecisionRunStatus,
    DecisionType,
    Option,
    Outcome,
    Problem,
    ProblemSeverity,
    RunMetrics,
    Usage,
)

AT = "2026-03-14T09:26:53.589Z"


def decision(
    decision_id: str,
    tool: str = "look",
    arguments: dict[str, JsonValue] | None = None,
    *,
    result: JsonValue = None,
    error: str | None = None,
    is_pending: bool = False,
    type_: DecisionType = DecisionType.TOOL_SELECTION,
    evaluation: DecisionEvaluation | None = None,
    is_known: bool = True,
) -> Decision:
    """A decision, successful by default."""
    outcome = Outcome(success=error is None, result=result, error=error)
    options = (Option(id=tool, description=tool, action_params=arguments or {}),) if is_known else ()
    return Decision(
        id=decision_id,
        timestamp=AT,
        node_id="clerk",
        intent=f"call {tool}",
        decision_type=type_,
        options=options,
        chosen_option_id=tool,
        reasoning="",
        outcome=None if is_pending else outcome,
        evaluation=evaluation,
    )


def answer(decision_id: str = "end", *, evaluation: DecisionEvaluation | None = None) -> Decision:
    """The answer of a run."""
    return decision(decision_id, "final answer", type_=DecisionType.TERMINATION, evaluation=evaluation)


def problem(
    cause: str | None = None,
    told: str = "It broke.",
    *,
    severity: ProblemSeverity = ProblemSeverity.CRITICAL,
    decision_id: str | None = None,
) -> Problem:
    """A problem, critical by default."""
    return Problem(
        id="p1",
        severity=severity,
        description=told,
        timestamp=AT,
        root_cause=cause,
        decision_id=decision_id,
    )


def run(
    *decisions: Decision,
    status: DecisionRunStatus = DecisionRunStatus.FAILED,
    problems: Sequence[Problem] = (),
    usage: Usage | None = None,
    run_id: str = "r1",
    **more: object,
) -> DecisionRun:
    """A run, failed by default."""
    failed = sum(one.outcome is not None and not one.outcome.success for one in decisions)
    pending = sum(one.outcome is None for one in decisions)
    made = DecisionRun(
        id=run_id,
        goal_id="g",
        started_at=AT,
        status=status,
        decisions=decisions,
        problems=tuple(problems),
        usage=usage,
        metrics=RunMetrics(
            total_decisions=len(decisions),
            successful_decisions=len(decisions) - failed - pending,
            failed_decisions=failed,
            total_tokens=0,
            total_latency_ms=0,
            nodes_executed=(),
        ),
    )
    return made.model_copy(update=more)
