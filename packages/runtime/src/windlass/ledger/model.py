"""Recorded runs as plain dataclasses.

Queries return them. They can also be built by hand, as a test does: `Run("run_1", "goal_1")`.
"""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from functools import cache
from typing import Final

from pydantic import JsonValue, TypeAdapter, computed_field
from pydantic_core import from_json

from windlass.ledger.kinds import DecisionType, RecordingError, RunStatus
from windlass.ledger.wall import now
from windlass_harness.ledger.goals import RunFacts
from windlass_protocol import JsonObject
from windlass_protocol.frozen import sealed

GOOD_QUALITY: Final = 0.5
"""A decision is good if its outcome was rated higher than this."""
_MILLISECOND: Final = timedelta(milliseconds=1)


@sealed
class Option:
    """An option of a decision."""

    id: str
    description: str = ""
    action_type: str = "unknown"
    action_params: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    pros: tuple[str, ...] = ()
    cons: tuple[str, ...] = ()
    confidence: float = 0.5


@sealed
class Outcome:
    """The outcome of a decision."""

    success: bool
    result: JsonValue = None
    error: str | None = None
    state_changes: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    tokens_used: int = 0
    latency_ms: int = 0
    summary: str = ""
    timestamp: datetime | None = None


@sealed
class DecisionEvaluation:
    """A judgement of a decision; scores are from 0 to 1."""

    goal_aligned: bool = True
    alignment_score: float = 1.0
    better_option_existed: bool = False
    better_option_id: str | None = None
    why_better: str | None = None
    outcome_quality: float = 1.0
    contributed_to_success: bool | None = None
    explanation: str = ""

    def __post_init__(self) -> None:
        for name in ("alignment_score", "outcome_quality"):
            score = getattr(self, name)
            if not 0 <= score <= 1:
                raise RecordingError(f"{name} must be from 0 to 1, found {score}")

    def to_wire(self) -> JsonObject:
        """Return it in wire form."""
        wire: JsonObject = {
            "goalAligned": self.goal_aligned,
            "alignmentScore": float(self.alignment_score),
            "betterOptionExisted": self.better_option_existed,
            "outcomeQuality": float(self.outcome_quality),
            "contributedToSuccess": self.contributed_to_success,
            "explanation": self.explanation,
        }
        if self.better_option_id is not None:
            wire["betterOptionId"] = self.better_option_id
        if self.why_better is not None:
            wire["whyBetter"] = self.why_better
        return wire


@sealed
class Decision:
    """A choice among options."""

    id: str
    node_id: str
    intent: str
    timestamp: datetime = field(default_factory=now)
    decision_type: DecisionType = DecisionType.CUSTOM
    options: tuple[Option, ...] = ()
    chosen_option_id: str = ""
    reasoning: str = ""
    active_constraints: tuple[str, ...] = ()
    input_context: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    outcome: Outcome | None = None
    """None while it is pending."""
    evaluation: DecisionEvaluation | None = None

    @property
    def chosen_option(self) -> Option | None:
        """The chosen option; None if it is not among the options."""
        return next((option for option in self.options if option.id == self.chosen_option_id), None)

    @property
    def is_pending(self) -> bool:
        """Whether it has no outcome yet."""
        return self.outcome is None

    @property
    def was_successful(self) -> bool:
        """Whether it has an outcome and that is a success."""
        return self.outcome is not None and self.outcome.success

    @property
    def has_failed(self) -> bool:
        """Whether it has an outcome and that is a failure."""
        return self.outcome is not None and not self.outcome.success

    @property
    def was_good_decision(self) -> bool:
        """Whether it was judged good; without a judgement, whether it was successful."""
        if self.evaluation is None:
            return self.was_successful
        return self.evaluation.goal_aligned and self.evaluation.outcome_quality > GOOD_QUALITY

    def summary_for_builder(self) -> str:
        """Return it in one line: ✓, ✗ or … while pending, then who, what and how."""
        sign = "…" if self.outcome is None else "✓" if self.outcome.success else "✗"
        option = self.chosen_option
        action = "unknown action" if option is None else option.description or option.id
        judgement = "" if self.evaluation is None else f" [quality: {self.evaluation.outcome_quality:g}]"
        return f"{sign} [{self.node_id}] {self.intent} → {action}{judgement}"


@sealed
class Problem:
    """A problem that was reported in a run."""

    id: str
    severity: str
    description: str
    timestamp: datetime = field(default_factory=now)
    root_cause: str | None = None
    decision_id: str | None = None
    suggested_fix: str | None = None


@sealed
class RunMetrics:
    """Counts of a run; a pending decision is neither a success nor a failure."""

    total_decisions: int = 0
    successful_decisions: int = 0
    failed_decisions: int = 0
    total_tokens: int = 0
    total_latency_ms: int = 0
    nodes_executed: tuple[str, ...] = ()

    @property
    def pending_decisions(self) -> int:
        """Decisions without an outcome."""
        return self.total_decisions - self.successful_decisions - self.failed_decisions

    @computed_field
    @property
    def success_rate(self) -> float:
        """Successful among those with an outcome, from 0 to 1; 0 if there is none."""
        decided = self.successful_decisions + self.failed_decisions
        return self.successful_decisions / decided if decided else 0.0


@sealed
class Run:
    """A recorded run."""

    id: str
    goal_id: str
    started_at: datetime = field(default_factory=now)
    status: RunStatus = RunStatus.RUNNING
    completed_at: datetime | None = None
    decisions: tuple[Decision, ...] = ()
    problems: tuple[Problem, ...] = ()
    metrics: RunMetrics = field(default_factory=RunMetrics)
    narrative: str = ""
    goal_description: str = ""
    input_data: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    output_data: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    execution_id: str = ""
    """The W3C trace id of the run."""
    agent_id: str = ""
    """The agent; `recorder` for a run that was recorded from outside."""
    package_fingerprint: str | None = None
    """The version of the agent; None for a run that was recorded from outside."""
    cost_micros: int = 0
    """Cost of its model calls, in millionths of a dollar."""

    @computed_field
    @property
    def duration_ms(self) -> int:
        """How long it took; 0 while it is open."""
        return (
            0 if self.completed_at is None else max(0, (self.completed_at - self.started_at) // _MILLISECOND)
        )

    def to_json(self, *, indent: int | None = None) -> bytes:
        """Return it in the export format, with its computed properties."""
        return _exporter().dump_json(self, indent=indent)

    def to_dict(self) -> JsonObject:
        """Return it as plain JSON data."""
        return from_json(self.to_json())


@sealed
class RunSummary:
    """Summary of a run."""

    run_id: str
    goal_id: str
    status: RunStatus
    duration_ms: int
    decision_count: int
    success_rate: float
    problem_count: int
    narrative: str
    key_decisions: tuple[str, ...] = ()
    critical_problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    successes: tuple[str, ...] = ()
    facts: RunFacts | None = None
    """The run in numbers, with the kind of its failure."""


@cache
def _exporter() -> TypeAdapter[Run]:
    return TypeAdapter(Run)
