# Generated from spec/decisions.schema.json by `make gen`. Do not edit.
"""Choices an agent made, what came of them, and problems it met.

The types are made on first use; the .pyi file declares them.
"""

from windlass_protocol.lazy import lazy_values as _lazy_values


def _make_DecisionType() -> object:
    from enum import StrEnum

    class DecisionType(StrEnum):
        """What was chosen."""

        __qualname__ = "DecisionType"

        TOOL_SELECTION = "tool_selection"
        PARAMETER_CHOICE = "parameter_choice"
        PATH_CHOICE = "path_choice"
        OUTPUT_FORMAT = "output_format"
        RETRY_STRATEGY = "retry_strategy"
        DELEGATION = "delegation"
        TERMINATION = "termination"
        CUSTOM = "custom"

    return DecisionType


def _make_Option() -> object:
    from typing import Annotated

    from pydantic import Field

    from windlass_protocol._wire import Float, JsonObject, Maybe, Open, Str

    class Option(Open):
        """One thing the agent could have done."""

        __qualname__ = "Option"

        id: Str
        description: Maybe[Str] = None
        action_type: Maybe[Str] = None
        action_params: Maybe[JsonObject] = None
        pros: Maybe[tuple[Str, ...]] = None
        cons: Maybe[tuple[Str, ...]] = None
        confidence: Maybe[Annotated[Float, Field(ge=0, le=1)]] = None

    return Option


def _make_Outcome() -> object:
    from pydantic import JsonValue

    from windlass_protocol._wire import Bool, JsonObject, KeepsNulls, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Timestamp

    class Outcome(KeepsNulls, Open):
        """What came of a decision."""

        __qualname__ = "Outcome"

        success: Bool
        result: JsonValue = None
        error: Str | None = None
        summary: Maybe[Str] = None
        state_changes: Maybe[JsonObject] = None
        tokens_used: Maybe[Count] = None
        latency_ms: Maybe[Count] = None
        timestamp: Maybe[Timestamp] = None

    return Outcome


def _make_DecisionEvaluation() -> object:
    from typing import Annotated

    from pydantic import Field

    from windlass_protocol._wire import Bool, Float, KeepsNulls, Maybe, Open, Str

    class DecisionEvaluation(KeepsNulls, Open):
        """A judgement of a decision, made later."""

        __qualname__ = "DecisionEvaluation"

        goal_aligned: Bool
        alignment_score: Maybe[Annotated[Float, Field(ge=0, le=1)]] = None
        better_option_existed: Maybe[Bool] = None
        better_option_id: Maybe[Str] = None
        why_better: Maybe[Str] = None
        outcome_quality: Maybe[Annotated[Float, Field(ge=0, le=1)]] = None
        contributed_to_success: Bool | None = None
        explanation: Maybe[Str] = None

    return DecisionEvaluation


def _make_Decision() -> object:
    from windlass_protocol._wire import JsonObject, Maybe, Open, Str
    from windlass_protocol.generated.common import Id, Timestamp
    from windlass_protocol.generated.decisions import DecisionEvaluation, DecisionType, Option, Outcome

    class Decision(Open):
        """A choice among options."""

        __qualname__ = "Decision"

        id: Id
        timestamp: Timestamp
        node_id: Str
        intent: Str
        decision_type: DecisionType
        options: tuple[Option, ...]
        chosen_option_id: Str
        reasoning: Str
        active_constraints: Maybe[tuple[Str, ...]] = None
        input_context: Maybe[JsonObject] = None
        outcome: Maybe[Outcome] = None
        evaluation: Maybe[DecisionEvaluation] = None

    return Decision


def _make_ProblemSeverity() -> object:
    from enum import StrEnum

    class ProblemSeverity(StrEnum):
        """How bad a problem is."""

        __qualname__ = "ProblemSeverity"

        CRITICAL = "critical"
        WARNING = "warning"
        MINOR = "minor"

    return ProblemSeverity


def _make_Problem() -> object:
    from windlass_protocol._wire import KeepsNulls, Open, Str
    from windlass_protocol.generated.common import Id, Timestamp
    from windlass_protocol.generated.decisions import ProblemSeverity

    class Problem(KeepsNulls, Open):
        """Something that went wrong."""

        __qualname__ = "Problem"

        id: Id
        severity: ProblemSeverity
        description: Str
        timestamp: Timestamp
        decision_id: Id | None = None
        root_cause: Str | None = None
        suggested_fix: Str | None = None

    return Problem


def _make_RunMetrics() -> object:
    from windlass_protocol._wire import Open, Str
    from windlass_protocol.generated.common import Count

    class RunMetrics(Open):
        """Counts of a recorded run. A pending decision is neither a success nor a failure."""

        __qualname__ = "RunMetrics"

        total_decisions: Count
        successful_decisions: Count
        failed_decisions: Count
        total_tokens: Count
        total_latency_ms: Count
        nodes_executed: tuple[Str, ...]

    return RunMetrics


def _make_DecisionRunStatus() -> object:
    from enum import StrEnum

    class DecisionRunStatus(StrEnum):
        """Where a recorded run is."""

        __qualname__ = "DecisionRunStatus"

        RUNNING = "running"
        COMPLETED = "completed"
        FAILED = "failed"
        STUCK = "stuck"
        CANCELLED = "cancelled"

    return DecisionRunStatus


def _make_DecisionRun() -> object:
    from windlass_protocol._wire import JsonObject, KeepsNulls, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id, Timestamp, Usage
    from windlass_protocol.generated.decisions import Decision, DecisionRunStatus, Problem, RunMetrics

    class DecisionRun(KeepsNulls, Open):
        """A recorded run with its decisions and problems."""

        __qualname__ = "DecisionRun"

        id: Id
        goal_id: Str
        started_at: Timestamp
        status: DecisionRunStatus
        decisions: tuple[Decision, ...]
        problems: tuple[Problem, ...]
        metrics: RunMetrics
        goal_description: Maybe[Str] = None
        completed_at: Timestamp | None = None
        narrative: Maybe[Str] = None
        input_data: Maybe[JsonObject] = None
        output_data: Maybe[JsonObject] = None
        agent_id: Maybe[Id] = None
        package_id: Maybe[Id] = None
        package_fingerprint: Maybe[Str] = None
        usage: Maybe[Usage] = None
        duration_ms: Maybe[Count] = None

    return DecisionRun


def _make_RunSummary() -> object:
    from typing import Annotated

    from pydantic import Field

    from windlass_protocol._wire import Float, Open, Str
    from windlass_protocol.generated.common import Count, Id
    from windlass_protocol.generated.decisions import DecisionRunStatus

    class RunSummary(Open):
        """A recorded run in short."""

        __qualname__ = "RunSummary"

        run_id: Id
        goal_id: Str
        status: DecisionRunStatus
        duration_ms: Count
        decision_count: Count
        success_rate: Annotated[Float, Field(ge=0, le=1)]
        problem_count: Count
        narrative: Str
        key_decisions: tuple[Str, ...]
        critical_problems: tuple[Str, ...]
        warnings: tuple[Str, ...]
        successes: tuple[Str, ...]

    return RunSummary


def _make_FailureKind() -> object:
    from enum import StrEnum

    class FailureKind(StrEnum):
        """Why a run failed; each kind has one rule."""

        __qualname__ = "FailureKind"

        CANCELLED = "cancelled"
        INTERRUPTED = "interrupted"
        REPEATED_CALL = "repeated_call"
        STALL = "stall"
        BUDGET = "budget"
        OUTPUT_CONTRACT = "output_contract"
        DENIED = "denied"
        TIMEOUT = "timeout"
        PROVIDER = "provider"
        INVALID_ARGUMENTS = "invalid_arguments"
        TOOL_ERROR = "tool_error"
        GOAL_MISSED = "goal_missed"
        UNKNOWN = "unknown"

    return FailureKind


def _make_ProposalPart() -> object:
    from enum import StrEnum

    class ProposalPart(StrEnum):
        """What a proposal changes of an agent."""

        __qualname__ = "ProposalPart"

        INSTRUCTIONS = "instructions"
        TOOL_DESCRIPTION = "tool_description"
        POLICY = "policy"
        BUDGET = "budget"
        MODEL = "model"

    return ProposalPart


def _make_ProposalChange() -> object:
    from pydantic import JsonValue

    from windlass_protocol._wire import KeepsNulls, Maybe, Open, Str
    from windlass_protocol.generated.decisions import ProposalPart

    class ProposalChange(KeepsNulls, Open):
        """One change that a proposal makes to an agent."""

        __qualname__ = "ProposalChange"

        part: ProposalPart
        target: Maybe[Str] = None
        before: JsonValue = None
        after: JsonValue = None

    return ProposalChange


def _make_PackageDifference() -> object:
    from pydantic import JsonValue

    from windlass_protocol._wire import KeepsNulls, Open, Str

    class PackageDifference(KeepsNulls, Open):
        """One place at which two packages differ."""

        __qualname__ = "PackageDifference"

        path: Str
        before: JsonValue = None
        after: JsonValue = None

    return PackageDifference


def _make_Proposal() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Id, Timestamp
    from windlass_protocol.generated.decisions import PackageDifference, ProposalChange

    class Proposal(Open):
        """A proposed change to an agent."""

        __qualname__ = "Proposal"

        id: Id
        goal_id: Str
        agent_id: Id
        base_fingerprint: Str
        fingerprint: Str
        changes: tuple[ProposalChange, ...]
        differences: tuple[PackageDifference, ...]
        rationale: Str
        evidence: tuple[Str, ...]
        at: Timestamp
        run_id: Maybe[Id] = None

    return Proposal


def _make_Estimate() -> object:
    from windlass_protocol._wire import Float, Maybe, Open

    class Estimate(Open):
        """A number that was measured, and how sure it is."""

        __qualname__ = "Estimate"

        value: Float
        low: Maybe[Float] = None
        high: Maybe[Float] = None

    return Estimate


def _make_VersionTally() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Count
    from windlass_protocol.generated.decisions import Estimate

    class VersionTally(Open):
        """What runs of one version of an agent came to."""

        __qualname__ = "VersionTally"

        fingerprint: Str
        runs: Count
        succeeded: Count
        success_rate: Maybe[Estimate] = None
        cost_micros: Maybe[Estimate] = None
        duration_ms: Maybe[Estimate] = None
        tokens: Maybe[Estimate] = None

    return VersionTally


def _make_VersionVerdict() -> object:
    from enum import StrEnum

    class VersionVerdict(StrEnum):
        """Whether the new version is better; unclear without enough evidence."""

        __qualname__ = "VersionVerdict"

        BETTER = "better"
        WORSE = "worse"
        UNCLEAR = "unclear"

    return VersionVerdict


def _make_VersionComparison() -> object:
    from typing import Annotated

    from pydantic import Field

    from windlass_protocol._wire import Float, Maybe, Open
    from windlass_protocol.generated.decisions import Estimate, VersionTally, VersionVerdict

    class VersionComparison(Open):
        """Two versions of an agent side by side; differences are new less old."""

        __qualname__ = "VersionComparison"

        old: VersionTally
        new: VersionTally
        verdict: VersionVerdict
        success_rate: Maybe[Estimate] = None
        p_value: Maybe[Annotated[Float, Field(ge=0, le=1)]] = None
        cost_micros: Maybe[Estimate] = None
        duration_ms: Maybe[Estimate] = None
        tokens: Maybe[Estimate] = None

    return VersionComparison


def _make_ReplayedRun() -> object:
    from typing import Annotated

    from pydantic import Field

    from windlass_protocol._wire import Bool, Float, Maybe, Open, Str
    from windlass_protocol.generated.common import Count, Id
    from windlass_protocol.generated.decisions import FailureKind

    class ReplayedRun(Open):
        """What came of one attempt to do a recorded run again."""

        __qualname__ = "ReplayedRun"

        run_id: Id
        fingerprint: Str
        success: Bool
        score: Annotated[Float, Field(ge=0, le=1)]
        diverged: Count
        failure: Maybe[FailureKind] = None
        explanation: Maybe[Str] = None
        output: Maybe[Str] = None

    return ReplayedRun


def _make_ProposalCheck() -> object:
    from windlass_protocol._wire import Open
    from windlass_protocol.generated.common import Count
    from windlass_protocol.generated.decisions import ReplayedRun, VersionComparison

    class ProposalCheck(Open):
        """How a proposal did on recorded runs."""

        __qualname__ = "ProposalCheck"

        comparison: VersionComparison
        replays: tuple[ReplayedRun, ...]
        fixed: Count
        broken: Count
        diverged: Count

    return ProposalCheck


__getattr__, __dir__ = _lazy_values(
    globals(),
    {
        "DecisionType": _make_DecisionType,
        "Option": _make_Option,
        "Outcome": _make_Outcome,
        "DecisionEvaluation": _make_DecisionEvaluation,
        "Decision": _make_Decision,
        "ProblemSeverity": _make_ProblemSeverity,
        "Problem": _make_Problem,
        "RunMetrics": _make_RunMetrics,
        "DecisionRunStatus": _make_DecisionRunStatus,
        "DecisionRun": _make_DecisionRun,
        "RunSummary": _make_RunSummary,
        "FailureKind": _make_FailureKind,
        "ProposalPart": _make_ProposalPart,
        "ProposalChange": _make_ProposalChange,
        "PackageDifference": _make_PackageDifference,
        "Proposal": _make_Proposal,
        "Estimate": _make_Estimate,
        "VersionTally": _make_VersionTally,
        "VersionVerdict": _make_VersionVerdict,
        "VersionComparison": _make_VersionComparison,
        "ReplayedRun": _make_ReplayedRun,
        "ProposalCheck": _make_ProposalCheck,
    },
)
