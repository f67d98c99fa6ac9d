"""A recorded run while records are applied to it."""

from collections.abc import Iterable
from typing import Final

from windlass_harness.times import elapsed_ms
from windlass_harness.views.fold import text_in
from windlass_harness.views.ledger import narrate
from windlass_harness.views.usage import NO_USAGE, add_usage
from windlass_protocol import (
    Decision,
    DecisionEvaluation,
    DecisionRun,
    DecisionRunStatus,
    DecisionType,
    JsonObject,
    Outcome,
    Problem,
    ProblemSeverity,
    Record,
    RunMetrics,
    RunStartedData,
    Usage,
)
from windlass_protocol.limits import INTEGER_MAX
from windlass_protocol.unchecked import changed

ENDS: Final = {
    "run.completed": DecisionRunStatus.COMPLETED,
    "run.failed": DecisionRunStatus.FAILED,
    "run.cancelled": DecisionRunStatus.CANCELLED,
    "run.budget_exhausted": DecisionRunStatus.FAILED,
}
"""The records that end a run, and the status each one leaves."""


def begun(data: RunStartedData, at: str) -> DecisionRun:
    """Return a run that has just begun."""
    return DecisionRun(
        id=data.run_id,
        goal_id=data.goal_id or "",
        goal_description=data.goal_description,
        started_at=at,
        status=DecisionRunStatus.RUNNING,
        decisions=(),
        problems=(),
        metrics=_NO_METRICS,
        input_data=data.input_data,
        agent_id=data.agent_id,
        package_id=data.package_id,
        package_fingerprint=data.package_fingerprint,
    )


class RunDraft:
    """A recorded run that takes changes; decisions are found by their ids."""

    def __init__(self, run: DecisionRun) -> None:
        self.run = run
        """All of it but its decisions and problems, which `freeze` adds."""
        self._decisions = {decision.id: decision for decision in run.decisions}
        self._problems: list[Problem] = list(run.problems)
        self._nodes = dict.fromkeys(run.metrics.nodes_executed)

    def freeze(self) -> DecisionRun:
        """Return the run as it is now."""
        outcomes = [one.outcome for one in self._decisions.values() if one.outcome is not None]
        succeeded = sum(outcome.success for outcome in outcomes)
        metrics = RunMetrics(
            total_decisions=len(self._decisions),
            successful_decisions=succeeded,
            failed_decisions=len(outcomes) - succeeded,
            total_tokens=_total(outcome.tokens_used for outcome in outcomes),
            total_latency_ms=_total(outcome.latency_ms for outcome in outcomes),
            nodes_executed=tuple(self._nodes),
        )
        return self.run.model_copy(
            update={
                "decisions": tuple(self._decisions.values()),
                "problems": tuple(self._problems),
                "metrics": metrics,
            }
        )

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.run.status is DecisionRunStatus.RUNNING

    @property
    def has_critical_problem(self) -> bool:
        """Whether something is known that made it fail."""
        return any(problem.severity is ProblemSeverity.CRITICAL for problem in self._problems)

    def decide(self, decision: Decision) -> None:
        """Take a choice; the same id again replaces the one before."""
        self._decisions[decision.id] = decision
        self._nodes.setdefault(decision.node_id)

    def settle(self, decision_id: str, outcome: Outcome) -> bool:
        """Take what came of a choice; False if nobody knows it."""
        return self._change(decision_id, {"outcome": outcome})

    def judge(self, decision_id: str, evaluation: DecisionEvaluation) -> bool:
        """Take a judgement of a choice; False if nobody knows it."""
        return self._change(decision_id, {"evaluation": evaluation})

    def delegate(self, decision_id: str, child: JsonObject) -> None:
        """Take that a choice gave work to another session."""
        decision = self._decisions[decision_id]
        context = {**(decision.input_context or {}), **child}
        self._change(decision_id, {"decision_type": DecisionType.DELEGATION, "input_context": context})

    def _change(self, decision_id: str, update: dict[str, object]) -> bool:
        decision = self._decisions.get(decision_id)
        if decision is None:
            return False
        self._decisions[decision_id] = changed(decision, update)
        return True

    def report(self, problem: Problem) -> None:
        """Take a problem."""
        self._problems.append(problem)

    def charge(self, usage: Usage | None) -> None:
        """Take what a model call used."""
        if usage is not None:
            total = add_usage(self.run.usage or NO_USAGE, usage)
            self.run = self.run.model_copy(update={"usage": total})

    def pursue(self, words: str) -> None:
        """Take what somebody asked for, if no goal was given."""
        if self.run.goal_description is None:
            self.run = self.run.model_copy(update={"goal_description": words})

    def move(self, fingerprint: str) -> None:
        """Take that it goes on under another version of its agent."""
        self.run = self.run.model_copy(update={"package_fingerprint": fingerprint})

    def end(self, record: Record) -> None:
        """Take its end, which is the first one."""
        output = record.data.get("outputData")
        self.run = self.run.model_copy(
            update={
                "status": ENDS[record.type],
                "completed_at": record.at,
                "duration_ms": elapsed_ms(self.run.started_at, record.at),
                "output_data": output if isinstance(output, dict) else None,
            }
        )
        given = text_in(record.data, "narrative")
        narrative = narrate(self.freeze()) if given is None else given
        self.run = self.run.model_copy(update={"narrative": narrative})


def _total(amounts: Iterable[int | None]) -> int:
    """A sum stops at the largest number that a record can hold."""
    return min(sum(amount or 0 for amount in amounts), INTEGER_MAX)


_NO_METRICS: Final = RunMetrics(
    total_decisions=0,
    successful_decisions=0,
    failed_decisions=0,
    total_tokens=0,
    total_latency_ms=0,
    nodes_executed=(),
)
