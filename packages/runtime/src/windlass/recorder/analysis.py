"""What can be told of recorded runs, by rules alone: no model is asked."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from windlass.recorder.model import JsonObject, Run
from windlass_harness.ledger.failures import Failure
from windlass_protocol import Decision as WireDecision
from windlass_protocol import FailureKind

_CODE: Final = re.compile(r"[a-z][a-z0-9_.]*")
_EMPTY: Final = frozenset({"failed", "tool_failure"})
"""Codes that say no more than that something failed."""
NO_FAILED_DECISION: Final = "Unknown - no decision marked as failed"
OUTSIDE_CAUSE: Final = "Run failed but all decisions succeeded (external cause?)"
PENDING_CAUSE: Final = "Run failed and no decision did; {count} had no outcome (external cause?)"
INTERRUPTED: Final = "The process that recorded the run is gone; {count} decisions had no outcome"


@dataclass(frozen=True, slots=True)
class FailureAnalysis:
    """Why a run failed, as far as its decisions tell."""

    run_id: str
    failure_point: str
    """The decision that caused it, in one line."""
    root_cause: str
    decision_chain: tuple[str, ...] = ()
    """The decisions up to that one, each in a line."""
    problems: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    decision_id: str | None = None
    """The decision that caused it; None if none failed."""
    kind: FailureKind = FailureKind.UNKNOWN
    """Which of the known kinds of failures it is."""

    def to_dict(self) -> JsonObject:
        """Return it as plain data."""
        return {
            "run_id": self.run_id,
            "failure_point": self.failure_point,
            "root_cause": self.root_cause,
            "decision_chain": list(self.decision_chain),
            "problems": list(self.problems),
            "suggestions": list(self.suggestions),
            "decision_id": self.decision_id,
            "kind": self.kind.value,
        }

    def __str__(self) -> str:
        lines = [
            f"Failure of {self.run_id}: {self.kind.value}",
            f"At: {self.failure_point}",
            f"Root cause: {self.root_cause}",
        ]
        for title, texts in (
            ("Decisions", self.decision_chain),
            ("Problems", self.problems),
            ("Suggestions", self.suggestions),
        ):
            if texts:
                lines += ["", f"{title}:", *(f"  - {text}" for text in texts)]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class PatternAnalysis:
    """What the runs of a goal have in common."""

    goal_id: str
    run_count: int
    success_rate: float
    """Completed among all, from 0 to 1."""
    common_failures: tuple[tuple[str, int], ...] = ()
    """Failures by their cause, each as it was put first, and how many; the most frequent first."""
    problematic_nodes: tuple[tuple[str, float], ...] = ()
    """Nodes that often fail, with how often, from 0 to 1."""
    decision_patterns: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict[str, Mapping[str, object]]
    )

    def to_dict(self) -> dict[str, object]:
        """Return it as plain data."""
        return {
            "goal_id": self.goal_id,
            "run_count": self.run_count,
            "success_rate": self.success_rate,
            "common_failures": [list(each) for each in self.common_failures],
            "problematic_nodes": [list(each) for each in self.problematic_nodes],
            "decision_patterns": dict(self.decision_patterns),
        }

    def __str__(self) -> str:
        lines = [f"Goal {self.goal_id}: {self.run_count} runs, {self.success_rate:.1%} completed"]
        if self.common_failures:
            lines += ["", "Failures:", *(f"  - {count} x {text}" for text, count in self.common_failures)]
        if self.problematic_nodes:
            lines += [
                "",
                "Nodes:",
                *(f"  - {node}: {rate:.1%} failed" for node, rate in self.problematic_nodes),
            ]
        return "\n".join(lines)


def analyze(run: Run, failure: Failure, *, culprit: WireDecision | None) -> FailureAnalysis:
    """Return why a run failed; `culprit` is to blame, None if none failed."""
    problems = tuple(f"[{problem.severity}] {problem.description}" for problem in run.problems)
    fixes = [problem.suggested_fix for problem in run.problems if problem.suggested_fix]
    cause = next((one for one in run.decisions if culprit is not None and one.id == culprit.id), None)
    if cause is None:
        return FailureAnalysis(
            run.id,
            NO_FAILED_DECISION,
            _without_culprit(run, failure),
            trace(run),
            problems,
            tuple(fixes),
            kind=failure.kind,
        )
    blamed = next((p.root_cause for p in run.problems if p.decision_id == cause.id and p.root_cause), None)
    error = None if cause.outcome is None else cause.outcome.error
    return FailureAnalysis(
        run_id=run.id,
        failure_point=cause.summary_for_builder(),
        root_cause=_root_cause(blamed, error),
        decision_chain=trace(run)[: run.decisions.index(cause) + 1],
        problems=problems,
        suggestions=(*_suggestions(run), *fixes),
        decision_id=cause.id,
        kind=failure.kind,
    )


def _root_cause(blamed: str | None, error: str | None) -> str:
    """What a failure comes down to, in words: a code alone says too little."""
    if blamed is not None and error is not None and _CODE.fullmatch(blamed):
        return error if blamed in error or blamed in _EMPTY else f"{blamed}: {error}"
    return blamed or error or "Unknown"


def trace(run: Run) -> tuple[str, ...]:
    """Return the decisions of a run, each in a line."""
    return tuple(decision.summary_for_builder() for decision in run.decisions)


def compare(first: Run, second: Run) -> dict[str, object]:
    """Return how two runs differ."""
    return {"run_1": _in_short(first), "run_2": _in_short(second), "differences": _differences(first, second)}


def _in_short(run: Run) -> JsonObject:
    return {
        "id": run.id,
        "status": run.status.value,
        "decisions": len(run.decisions),
        "success_rate": run.metrics.success_rate,
    }


def _differences(first: Run, second: Run) -> list[str]:
    found: list[str] = []
    if first.status != second.status:
        found.append(f"Status: {first.status.value} vs {second.status.value}")
    if len(first.decisions) != len(second.decisions):
        found.append(f"Decision count: {len(first.decisions)} vs {len(second.decisions)}")
    for index, (one, other) in enumerate(zip(first.decisions, second.decisions, strict=False)):
        if one.chosen_option_id != other.chosen_option_id:
            found.append(
                f"Diverged at decision {index}: chose '{one.chosen_option_id}' vs '{other.chosen_option_id}'"
            )
            break
    nodes = set(first.metrics.nodes_executed), set(second.metrics.nodes_executed)
    for number, only in ((1, nodes[0] - nodes[1]), (2, nodes[1] - nodes[0])):
        if only:
            found.append(f"Nodes only in run {number}: {', '.join(sorted(only))}")
    return found


def _without_culprit(run: Run, failure: Failure) -> str:
    pending = run.metrics.pending_decisions
    if failure.kind is FailureKind.GOAL_MISSED:
        return failure.told
    if run.completed_at is None:
        return INTERRUPTED.format(count=pending)
    return PENDING_CAUSE.format(count=pending) if pending else OUTSIDE_CAUSE


def _suggestions(run: Run) -> Sequence[str]:
    found: list[str] = []
    for decision in run.decisions:
        if not decision.has_failed:
            continue
        chosen = decision.chosen_option
        others = [option for option in decision.options if option.id != decision.chosen_option_id]
        if others:
            instead = "unknown action" if chosen is None else chosen.description or chosen.id
            other = others[0].description or others[0].id
            found.append(f"Consider alternative: '{other}' instead of '{instead}'")
        if not decision.input_context:
            found.append(
                f"Decision '{decision.intent}' had no input context - ensure relevant data is passed"
            )
        if decision.active_constraints:
            constraints = ", ".join(decision.active_constraints)
            found.append(f"Review constraints: {constraints} - may be too restrictive")
    return tuple(dict.fromkeys(found))
