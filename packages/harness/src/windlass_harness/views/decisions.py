"""The decision ledger: what runs chose, what came of it, and what went wrong.

A second outcome replaces the first. A decision without an outcome is pending: neither success nor failure.
Outcomes and judgements of decisions that nobody knows, and whatever belongs to no run, count as orphans. The
narrative is written when the run ends and stays as it is.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from windlass_harness.views.fold import START, Position, fold, text_in
from windlass_harness.views.ledger import narrate
from windlass_harness.views.runs import run_id_of
from windlass_protocol import (
    Decision,
    DecisionEvaluatedData,
    DecisionOutcomeData,
    DecisionRecordedData,
    DecisionRun,
    DecisionRunStatus,
    Outcome,
    Problem,
    ProblemReportedData,
    Record,
    RunMetrics,
    RunStartedData,
)

_ENDS: Final = {
    "run.completed": DecisionRunStatus.COMPLETED,
    "run.failed": DecisionRunStatus.FAILED,
    "run.cancelled": DecisionRunStatus.CANCELLED,
    "run.budget_exhausted": DecisionRunStatus.FAILED,
}


@dataclass(frozen=True, slots=True)
class DecisionsState:
    """The recorded runs of a session by their ids, in the order in which they began."""

    position: Position = START
    runs: Mapping[str, DecisionRun] = field(default_factory=dict[str, DecisionRun])
    run_id: str | None = None
    orphans: int = 0


def fold_decisions(records: Iterable[Record], state: DecisionsState | None = None) -> DecisionsState:
    """Fold records of a session into its recorded runs.

    Raises:
        Gap: a record is not the next one of the session.
    """
    return fold(_Draft(state or DecisionsState()), records)


class _Run:
    """A recorded run while records are applied; decisions are found by their ids."""

    def __init__(self, run: DecisionRun) -> None:
        self._run = run
        self._decisions = {decision.id: decision for decision in run.decisions}
        self._problems: list[Problem] = list(run.problems)
        metrics = run.metrics
        self._nodes = dict.fromkeys(metrics.nodes_executed)
        self._succeeded, self._failed = metrics.successful_decisions, metrics.failed_decisions
        self._tokens, self._latency_ms = metrics.total_tokens, metrics.total_latency_ms

    def freeze(self) -> DecisionRun:
        metrics = RunMetrics(
            total_decisions=len(self._decisions),
            successful_decisions=self._succeeded,
            failed_decisions=self._failed,
            total_tokens=self._tokens,
            total_latency_ms=self._latency_ms,
            nodes_executed=tuple(self._nodes),
        )
        return self._run.model_copy(
            update={
                "decisions": tuple(self._decisions.values()),
                "problems": tuple(self._problems),
                "metrics": metrics,
            }
        )

    def decide(self, decision: Decision) -> None:
        before = self._decisions.get(decision.id)
        if before is not None:
            self._count(before.outcome, -1)
        self._decisions[decision.id] = decision
        self._count(decision.outcome, 1)
        self._nodes.setdefault(decision.node_id)

    def settle(self, data: DecisionOutcomeData) -> bool:
        decision = self._decisions.get(data.decision_id)
        if decision is None:
            return False
        self._count(decision.outcome, -1)
        self._count(data.outcome, 1)
        self._decisions[decision.id] = decision.model_copy(update={"outcome": data.outcome})
        return True

    def judge(self, data: DecisionEvaluatedData) -> bool:
        decision = self._decisions.get(data.decision_id)
        if decision is None:
            return False
        self._decisions[decision.id] = decision.model_copy(update={"evaluation": data.evaluation})
        return True

    def report(self, problem: Problem) -> None:
        self._problems.append(problem)

    def end(self, record: Record) -> None:
        if self._run.status is not DecisionRunStatus.RUNNING:
            return
        output = record.data.get("outputData")
        self._run = self._run.model_copy(
            update={
                "status": _ENDS[record.type],
                "completed_at": record.at,
                "output_data": output if isinstance(output, dict) else None,
            }
        )
        given = text_in(record.data, "narrative")
        narrative = narrate(self.freeze()) if given is None else given
        self._run = self._run.model_copy(update={"narrative": narrative})

    def _count(self, outcome: Outcome | None, sign: int) -> None:
        if outcome is not None:
            self._succeeded += sign if outcome.success else 0
            self._failed += 0 if outcome.success else sign
            self._tokens += sign * (outcome.tokens_used or 0)
            self._latency_ms += sign * (outcome.latency_ms or 0)


class _Draft:
    def __init__(self, state: DecisionsState) -> None:
        self.position = state.position
        self._runs = dict(state.runs)
        self._run_id = state.run_id
        self._orphans = state.orphans
        self._thawed: dict[str, _Run] = {}

    def freeze(self) -> DecisionsState:
        thawed = {run_id: run.freeze() for run_id, run in self._thawed.items()}
        return DecisionsState(self.position, {**self._runs, **thawed}, self._run_id, self._orphans)

    def apply(self, record: Record) -> None:
        handle = _HANDLERS.get(record.type)
        if handle is not None:
            handle(self, record)

    def run_started(self, record: Record) -> None:
        data = RunStartedData.model_validate(record.data)
        self._run_id = data.run_id
        if data.run_id not in self._runs:
            self._runs[data.run_id] = DecisionRun(
                id=data.run_id,
                goal_id=data.goal_id or "",
                goal_description=data.goal_description,
                started_at=record.at,
                status=DecisionRunStatus.RUNNING,
                decisions=(),
                problems=(),
                metrics=_NO_METRICS,
                input_data=data.input_data,
            )

    def run_ended(self, record: Record) -> None:
        run = self._run_of(record)
        if run is not None:
            run.end(record)

    def decided(self, record: Record) -> None:
        run = self._run_of(record)
        if run is None:
            self._orphans += 1
        else:
            run.decide(DecisionRecordedData.model_validate(record.data).decision)

    def settled(self, record: Record) -> None:
        run = self._run_of(record)
        if run is None or not run.settle(DecisionOutcomeData.model_validate(record.data)):
            self._orphans += 1

    def judged(self, record: Record) -> None:
        run = self._run_of(record)
        if run is None or not run.judge(DecisionEvaluatedData.model_validate(record.data)):
            self._orphans += 1

    def reported(self, record: Record) -> None:
        run = self._run_of(record)
        if run is None:
            self._orphans += 1
        else:
            run.report(ProblemReportedData.model_validate(record.data).problem)

    def _run_of(self, record: Record) -> _Run | None:
        """The run that a record names, or else the newest one."""
        run_id = run_id_of(record) or self._run_id
        if run_id is None or run_id not in self._runs:
            return None
        if run_id not in self._thawed:
            self._thawed[run_id] = _Run(self._runs[run_id])
        return self._thawed[run_id]


_NO_METRICS: Final = RunMetrics(
    total_decisions=0,
    successful_decisions=0,
    failed_decisions=0,
    total_tokens=0,
    total_latency_ms=0,
    nodes_executed=(),
)

_HANDLERS: Final[dict[str, Callable[[_Draft, Record], None]]] = {
    "run.started": _Draft.run_started,
    "decision.recorded": _Draft.decided,
    "decision.outcome": _Draft.settled,
    "decision.evaluated": _Draft.judged,
    "problem.reported": _Draft.reported,
    **dict.fromkeys(_ENDS, _Draft.run_ended),
}
