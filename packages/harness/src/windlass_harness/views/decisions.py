"""The decision ledger: what runs chose, what came of it, and what went wrong.

A second outcome replaces the first. A decision without an outcome is pending: neither success nor failure.
Outcomes and judgements of decisions that nobody knows, and whatever belongs to no run, count as orphans. The
narrative is written when the run ends and stays as it is.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from windlass_harness.views.fold import START, Position, fold, read, text_in
from windlass_harness.views.ledger import narrate
from windlass_harness.views.runs import run_id_of
from windlass_protocol import (
    Decision,
    DecisionEvaluatedData,
    DecisionOutcomeData,
    DecisionRecordedData,
    DecisionRun,
    DecisionRunStatus,
    Problem,
    ProblemReportedData,
    Record,
    RunMetrics,
    RunStartedData,
)
from windlass_protocol.limits import INTEGER_MAX

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
        self._nodes = dict.fromkeys(run.metrics.nodes_executed)

    def freeze(self) -> DecisionRun:
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
        return self._run.model_copy(
            update={
                "decisions": tuple(self._decisions.values()),
                "problems": tuple(self._problems),
                "metrics": metrics,
            }
        )

    def decide(self, decision: Decision) -> None:
        self._decisions[decision.id] = decision
        self._nodes.setdefault(decision.node_id)

    def settle(self, data: DecisionOutcomeData) -> bool:
        decision = self._decisions.get(data.decision_id)
        if decision is None:
            return False
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


def _total(amounts: Iterable[int | None]) -> int:
    """A sum stops at the largest number that a record can hold."""
    return min(sum(amount or 0 for amount in amounts), INTEGER_MAX)


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
        data = read(RunStartedData, record.data)
        if data.run_id not in self._runs:
            self._run_id = data.run_id
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
            run.decide(read(DecisionRecordedData, record.data).decision)

    def settled(self, record: Record) -> None:
        run = self._run_of(record)
        if run is None or not run.settle(read(DecisionOutcomeData, record.data)):
            self._orphans += 1

    def judged(self, record: Record) -> None:
        run = self._run_of(record)
        if run is None or not run.judge(read(DecisionEvaluatedData, record.data)):
            self._orphans += 1

    def reported(self, record: Record) -> None:
        run = self._run_of(record)
        if run is None:
            self._orphans += 1
        else:
            run.report(read(ProblemReportedData, record.data).problem)

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
