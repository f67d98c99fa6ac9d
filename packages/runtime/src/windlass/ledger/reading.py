"""Recorded runs, read from the journal."""

import gc
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Final, cast

from pydantic import ValidationError

from windlass.ledger.kinds import DecisionType, RunStatus
from windlass.ledger.model import (
    Decision,
    DecisionEvaluation,
    Option,
    Outcome,
    Problem,
    Run,
    RunMetrics,
    RunSummary,
)
from windlass.ports.recorded import RunStore
from windlass_harness.ledger.goals import run_facts, with_evaluations
from windlass_harness.ledger.names import evaluation_session
from windlass_harness.record import Record
from windlass_harness.views import DecisionsState, fold_decisions, narrate, summarize_run
from windlass_harness.views.fold import text_in
from windlass_protocol import Decision as WireDecision
from windlass_protocol import DecisionEvaluation as WireEvaluation
from windlass_protocol import DecisionRun
from windlass_protocol import Option as WireOption
from windlass_protocol import Outcome as WireOutcome
from windlass_protocol.bodies import BodyError
from windlass_protocol.frozen import sealed

UNREADABLE: Final = "recorder.unreadable"
"""Type of a record with an invalid payload: views ignore it."""


@contextmanager
def in_one_go() -> Generator[None]:
    """Read many records with the garbage collector paused.

    A run of 10,000 decisions is half a million objects without cycles; collecting during the read doubles its
    cost.
    """
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()


@sealed
class FoldedRun:
    """A run, with the facts that its session holds about it."""

    wire: DecisionRun
    execution_id: str
    writer: str
    last_at: str
    owner: str = ""
    """The owner of the session."""
    is_playground: bool = False
    """Whether it is a playground run."""


@sealed
class Session:
    """The runs of a session by their ids, and the position of its newest record."""

    runs: Mapping[str, FoldedRun]
    position: int


def read_session(store: RunStore, session_id: str) -> Session:
    """Return the runs of a session.

    A record with an invalid payload is ignored.

    Raises:
        Corrupt: the session is damaged.
    """
    notes = _Notes()
    try:
        state = fold_decisions(notes.observe(store.records(session_id)))
    except (BodyError, ValidationError):
        notes = _Notes()
        state = fold_decisions(_readable(notes.observe(store.records(session_id))))
    runs = {
        run_id: FoldedRun(
            with_evaluations(wire, store.records(evaluation_session(run_id))),
            notes.execution_id,
            notes.writers.get(run_id, ""),
            notes.last_at.get(run_id, wire.started_at),
            notes.owner,
            run_id in notes.playground_runs,
        )
        for run_id, wire in state.runs.items()
    }
    return Session(runs, notes.position)


def read_run(store: RunStore, run_id: str) -> Run | None:
    """Return a run with a session of its own; None if it is unknown."""
    run = read_session(store, run_id).runs.get(run_id)
    return None if run is None else run_of(run)


def run_of(folded: FoldedRun, *, status: RunStatus | None = None) -> Run:
    """Return a run as a dataclass, with `status` if given."""
    wire = folded.wire
    return Run(
        id=wire.id,
        goal_id=wire.goal_id,
        started_at=datetime.fromisoformat(wire.started_at),
        status=status or RunStatus(wire.status.value),
        completed_at=None if wire.completed_at is None else datetime.fromisoformat(wire.completed_at),
        decisions=tuple(map(_decision, wire.decisions)),
        problems=tuple(
            Problem(
                id=problem.id,
                severity=problem.severity.value,
                description=problem.description,
                timestamp=datetime.fromisoformat(problem.timestamp),
                root_cause=problem.root_cause,
                decision_id=problem.decision_id,
                suggested_fix=problem.suggested_fix,
            )
            for problem in wire.problems
        ),
        metrics=RunMetrics(
            total_decisions=wire.metrics.total_decisions,
            successful_decisions=wire.metrics.successful_decisions,
            failed_decisions=wire.metrics.failed_decisions,
            total_tokens=wire.metrics.total_tokens,
            total_latency_ms=wire.metrics.total_latency_ms,
            nodes_executed=wire.metrics.nodes_executed,
        ),
        narrative=narrate(wire) if wire.narrative is None else wire.narrative,
        goal_description=wire.goal_description or "",
        input_data=wire.input_data or {},
        output_data=wire.output_data or {},
        execution_id=folded.execution_id,
        agent_id=wire.agent_id or "",
        package_fingerprint=wire.package_fingerprint,
        cost_micros=0 if wire.usage is None else wire.usage.cost_micros or 0,
    )


def summary_of(wire: DecisionRun) -> RunSummary:
    """Return the summary of a run."""
    short = summarize_run(wire)
    return RunSummary(
        run_id=short.run_id,
        goal_id=short.goal_id,
        status=RunStatus(short.status.value),
        duration_ms=short.duration_ms,
        decision_count=short.decision_count,
        success_rate=short.success_rate,
        problem_count=short.problem_count,
        narrative=short.narrative,
        key_decisions=short.key_decisions,
        critical_problems=short.critical_problems,
        warnings=short.warnings,
        successes=short.successes,
        facts=run_facts(wire),
    )


def _decision(wire: WireDecision) -> Decision:
    return Decision(
        id=wire.id,
        timestamp=datetime.fromisoformat(wire.timestamp),
        node_id=wire.node_id,
        intent=wire.intent,
        decision_type=DecisionType(wire.decision_type.value),
        options=tuple(map(_option, wire.options)),
        chosen_option_id=wire.chosen_option_id,
        reasoning=wire.reasoning,
        active_constraints=wire.active_constraints or (),
        input_context=wire.input_context or {},
        outcome=None if wire.outcome is None else _outcome(wire.outcome),
        evaluation=None if wire.evaluation is None else _evaluation(wire.evaluation),
    )


def _option(wire: WireOption) -> Option:
    return Option(
        id=wire.id,
        description=wire.description or "",
        action_type=wire.action_type or "unknown",
        action_params=wire.action_params or {},
        pros=wire.pros or (),
        cons=wire.cons or (),
        confidence=0.5 if wire.confidence is None else wire.confidence,
    )


def _outcome(wire: WireOutcome) -> Outcome:
    return Outcome(
        success=wire.success,
        result=wire.result,
        error=wire.error,
        state_changes=wire.state_changes or {},
        tokens_used=wire.tokens_used or 0,
        latency_ms=wire.latency_ms or 0,
        summary=wire.summary or "",
        timestamp=None if wire.timestamp is None else datetime.fromisoformat(wire.timestamp),
    )


def _evaluation(wire: WireEvaluation) -> DecisionEvaluation:
    return DecisionEvaluation(
        goal_aligned=wire.goal_aligned,
        alignment_score=1.0 if wire.alignment_score is None else wire.alignment_score,
        better_option_existed=bool(wire.better_option_existed),
        better_option_id=wire.better_option_id,
        why_better=wire.why_better,
        outcome_quality=1.0 if wire.outcome_quality is None else wire.outcome_quality,
        contributed_to_success=wire.contributed_to_success,
        explanation=wire.explanation or "",
    )


class _Notes:
    """Facts outside of the decisions, collected while the records are read."""

    def __init__(self) -> None:
        self.execution_id = ""
        self.owner = ""
        self.position = 0
        self.writers: dict[str, str] = {}
        self.last_at: dict[str, str] = {}
        self.playground_runs: set[str] = set()

    def observe(self, records: Iterable[Record]) -> Iterator[Record]:
        for record in records:
            run_id = record.run_id
            if record.type == "session.started":
                self.execution_id = _text_at(record.data, "trace", "traceId")
            elif record.type == "run.started" and run_id is not None:
                self.owner = self.owner or text_in(record.data, "owner") or ""
                self.writers[run_id] = _text_at(record.data, "metadata", "recorder")
                if "playground" in record.data:
                    self.playground_runs.add(run_id)
            if run_id is not None:
                self.last_at[run_id] = record.at
            self.position = record.position or 0
            yield record


def _readable(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records; an invalid payload gets the type `UNREADABLE`."""
    state = DecisionsState()
    for record in records:
        try:
            state = fold_decisions((record,), state)
        except (BodyError, ValidationError):
            record = replace(record, type=UNREADABLE)
            state = fold_decisions((record,), state)
        yield record


def _text_at(data: Mapping[str, object], name: str, below: str) -> str:
    child = data.get(name)
    return text_in(cast("Mapping[str, object]", child), below) or "" if isinstance(child, dict) else ""
