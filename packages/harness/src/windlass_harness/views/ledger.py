"""Recorded runs as text: a line per decision, a narrative per run."""

from typing import Final

from windlass_harness.times import elapsed_ms
from windlass_protocol import Decision, DecisionRun, DecisionRunStatus, ProblemSeverity, RunSummary

KEY_DECISIONS_MAX: Final = 5
SUCCESSES_MAX: Final = 3
FAILED_INTENTS_MAX: Final = 3
QUALITY_WORTH_A_LOOK: Final = 0.8

_OPENINGS: Final = {
    DecisionRunStatus.RUNNING: "Run is still going on.",
    DecisionRunStatus.COMPLETED: "Run completed successfully.",
    DecisionRunStatus.FAILED: "Run failed.",
    DecisionRunStatus.STUCK: "Run is stuck.",
    DecisionRunStatus.CANCELLED: "Run was cancelled.",
}


def describe_decision(decision: Decision) -> str:
    """Return a decision in one line: ✓, ✗ or … (pending), then intention, action and outcome."""
    sign = "…" if decision.outcome is None else "✓" if decision.outcome.success else "✗"
    chosen = next((option for option in decision.options if option.id == decision.chosen_option_id), None)
    action = "unknown action" if chosen is None else chosen.description or chosen.id
    quality = None if decision.evaluation is None else decision.evaluation.outcome_quality
    judgement = "" if quality is None else f" [quality: {quality:g}]"
    return f"{sign} [{decision.node_id}] {decision.intent} → {action}{judgement}"


def narrate(run: DecisionRun) -> str:
    """Return the narrative of a run for people; a pending decision is not a failure."""
    metrics = run.metrics
    sentences = [_OPENINGS[run.status]]
    if metrics.total_decisions:
        pending = metrics.total_decisions - metrics.successful_decisions - metrics.failed_decisions
        counts = f"{metrics.successful_decisions} succeeded, {metrics.failed_decisions} failed"
        counts += f", {pending} pending" if pending else ""
        noun = "decision" if metrics.total_decisions == 1 else "decisions"
        sentences.append(f"Made {metrics.total_decisions} {noun}: {counts}.")
    for label, severity in (
        ("Critical issues", ProblemSeverity.CRITICAL),
        ("Warnings", ProblemSeverity.WARNING),
    ):
        if problems := _problems(run, severity):
            sentences.append(f"{label}: {'; '.join(problems).removesuffix('.')}.")
    failed = [decision.intent for decision in run.decisions if _has_failed(decision)]
    if failed:
        sentences.append(f"Failed on: {'; '.join(failed[:FAILED_INTENTS_MAX]).removesuffix('.')}.")
    return " ".join(sentences)


def summarize_run(run: DecisionRun) -> RunSummary:
    """Return the summary of a run: its counts, its key decisions and its problems, in words."""
    metrics = run.metrics
    decided = metrics.successful_decisions + metrics.failed_decisions
    key = [decision for decision in run.decisions if _has_failed(decision) or _is_excellent(decision)]
    successes = [
        decision.outcome.summary
        for decision in run.decisions
        if decision.outcome is not None and decision.outcome.success and decision.outcome.summary
    ]
    return RunSummary(
        run_id=run.id,
        goal_id=run.goal_id,
        status=run.status,
        duration_ms=0 if run.completed_at is None else elapsed_ms(run.started_at, run.completed_at),
        decision_count=metrics.total_decisions,
        success_rate=metrics.successful_decisions / decided if decided else 0.0,
        problem_count=len(run.problems),
        narrative=narrate(run) if run.narrative is None else run.narrative,
        key_decisions=tuple(map(describe_decision, key[:KEY_DECISIONS_MAX])),
        critical_problems=_problems(run, ProblemSeverity.CRITICAL),
        warnings=_problems(run, ProblemSeverity.WARNING),
        successes=tuple(successes[:SUCCESSES_MAX]),
    )


def _has_failed(decision: Decision) -> bool:
    return decision.outcome is not None and not decision.outcome.success


def _is_excellent(decision: Decision) -> bool:
    evaluation = decision.evaluation
    return evaluation is not None and (evaluation.outcome_quality or 0) > QUALITY_WORTH_A_LOOK


def _problems(run: DecisionRun, severity: ProblemSeverity) -> tuple[str, ...]:
    return tuple(problem.description for problem in run.problems if problem.severity is severity)
