"""What a report counts of a run."""

from dataclasses import dataclass

from windlass_harness.ledger.failures import classify
from windlass_harness.ledger.goals import run_tokens
from windlass_harness.ledger.versions import Sample
from windlass_protocol import DecisionRun, DecisionRunStatus, FailureKind


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run in numbers."""

    run_id: str
    status: DecisionRunStatus
    started_at: str
    goal_id: str = ""
    agent_id: str | None = None
    fingerprint: str | None = None
    """The version of the agent; None for a run that somebody recorded."""
    duration_ms: int | None = None
    tokens: int | None = None
    cost_micros: int | None = None
    failure: FailureKind | None = None
    cause: str = ""
    """Why it failed, in words."""
    decision_id: str | None = None
    """The decision that is to blame."""
    is_judged: bool = False
    """Whether somebody held it against its goal."""

    @property
    def has_ended(self) -> bool:
        """Whether it counts: a run that goes on is neither success nor failure."""
        return self.status is not DecisionRunStatus.RUNNING

    @property
    def has_succeeded(self) -> bool:
        """Whether it completed, and was not judged to have missed its goal."""
        return self.has_ended and self.failure is None

    @property
    def sample(self) -> Sample:
        """The run as comparisons take it."""
        return Sample(self.has_succeeded, self.cost_micros, self.duration_ms, self.tokens)


def run_facts(run: DecisionRun) -> RunFacts:
    """Return what is counted of a run."""
    failure = classify(run)
    return RunFacts(
        run_id=run.id,
        status=run.status,
        started_at=run.started_at,
        goal_id=run.goal_id,
        agent_id=run.agent_id,
        fingerprint=run.package_fingerprint,
        duration_ms=run.duration_ms,
        tokens=run_tokens(run),
        cost_micros=None if run.usage is None else run.usage.cost_micros,
        failure=None if failure is None else failure.kind,
        cause="" if failure is None else failure.told,
        decision_id=None if failure is None else failure.decision_id,
        is_judged=any(one.evaluation is not None for one in run.decisions),
    )
