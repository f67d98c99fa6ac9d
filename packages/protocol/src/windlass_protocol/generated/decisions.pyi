# Generated from spec/decisions.schema.json by `make gen`. Do not edit.
"""Choices an agent made, what came of them, and problems it met."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, JsonValue

from windlass_protocol._wire import Bool, Float, JsonObject, KeepsNulls, Maybe, Open, Str
from windlass_protocol.generated.common import Count, Id, Timestamp, Usage

class DecisionType(StrEnum):
    """What was chosen."""

    TOOL_SELECTION = "tool_selection"
    PARAMETER_CHOICE = "parameter_choice"
    PATH_CHOICE = "path_choice"
    OUTPUT_FORMAT = "output_format"
    RETRY_STRATEGY = "retry_strategy"
    DELEGATION = "delegation"
    TERMINATION = "termination"
    CUSTOM = "custom"

class Option(Open):
    """One thing the agent could have done."""

    id: Str
    """Identifier of the option."""
    description: Maybe[Str] = None
    """What it does."""
    action_type: Maybe[Str] = None
    """Such as tool_call, generate or delegate."""
    action_params: Maybe[JsonObject] = None
    """Parameters of the action."""
    pros: Maybe[tuple[Str, ...]] = None
    """What speaks for it."""
    cons: Maybe[tuple[Str, ...]] = None
    """What speaks against it."""
    confidence: Maybe[Annotated[Float, Field(ge=0, le=1)]] = None
    """How sure the agent was, from 0 to 1."""

class Outcome(KeepsNulls, Open):
    """What came of a decision."""

    success: Bool
    """Whether the action succeeded."""
    result: JsonValue = None
    """What it returned."""
    error: Str | None = None
    """Why it failed."""
    summary: Maybe[Str] = None
    """What happened, for people."""
    state_changes: Maybe[JsonObject] = None
    """What changed."""
    tokens_used: Maybe[Count] = None
    """Tokens it used."""
    latency_ms: Maybe[Count] = None
    """Time it took."""
    timestamp: Maybe[Timestamp] = None
    """When it was recorded."""

class DecisionEvaluation(KeepsNulls, Open):
    """A judgement of a decision, made later."""

    goal_aligned: Bool
    """Whether it served the goal."""
    alignment_score: Maybe[Annotated[Float, Field(ge=0, le=1)]] = None
    """How well it did, from 0 to 1."""
    better_option_existed: Maybe[Bool] = None
    """Whether another option was better."""
    better_option_id: Maybe[Str] = None
    """Which one."""
    why_better: Maybe[Str] = None
    """Why."""
    outcome_quality: Maybe[Annotated[Float, Field(ge=0, le=1)]] = None
    """How good the outcome was, from 0 to 1."""
    contributed_to_success: Bool | None = None
    """Whether it helped."""
    explanation: Maybe[Str] = None
    """Why it was judged so."""

class Decision(Open):
    """A choice among options."""

    id: Id
    """Identifier of the decision."""
    timestamp: Timestamp
    """When it was made."""
    node_id: Str
    """Part of the agent that made it."""
    intent: Str
    """What the agent wanted."""
    decision_type: DecisionType
    """What was chosen."""
    options: tuple[Option, ...]
    """What it could have done."""
    chosen_option_id: Str
    """What it did."""
    reasoning: Str
    """Why."""
    active_constraints: Maybe[tuple[Str, ...]] = None
    """Constraints in force."""
    input_context: Maybe[JsonObject] = None
    """What it knew."""
    outcome: Maybe[Outcome] = None
    """What came of it; absent while pending."""
    evaluation: Maybe[DecisionEvaluation] = None
    """How it was judged later."""

class ProblemSeverity(StrEnum):
    """How bad a problem is."""

    CRITICAL = "critical"
    WARNING = "warning"
    MINOR = "minor"

class Problem(KeepsNulls, Open):
    """Something that went wrong."""

    id: Id
    """Identifier of the problem."""
    severity: ProblemSeverity
    """How bad it is."""
    description: Str
    """What went wrong."""
    timestamp: Timestamp
    """When it was reported."""
    decision_id: Id | None = None
    """Decision that caused it."""
    root_cause: Str | None = None
    """Why it went wrong."""
    suggested_fix: Str | None = None
    """What might help."""

class RunMetrics(Open):
    """Counts of a recorded run. A pending decision is neither a success nor a failure."""

    total_decisions: Count
    """Decisions."""
    successful_decisions: Count
    """Decisions with a successful action."""
    failed_decisions: Count
    """Decisions with a failed action."""
    total_tokens: Count
    """Tokens."""
    total_latency_ms: Count
    """Time of all actions."""
    nodes_executed: tuple[Str, ...]
    """Parts that decided, in order of their first decision."""

class DecisionRunStatus(StrEnum):
    """Where a recorded run is."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    STUCK = "stuck"
    CANCELLED = "cancelled"

class DecisionRun(KeepsNulls, Open):
    """A recorded run with its decisions and problems."""

    id: Id
    """Identifier of the run."""
    goal_id: Str
    """Goal it pursued."""
    started_at: Timestamp
    """When it began."""
    status: DecisionRunStatus
    """Where it is."""
    decisions: tuple[Decision, ...]
    """Choices, in order."""
    problems: tuple[Problem, ...]
    """Problems, in order."""
    metrics: RunMetrics
    """Counts."""
    goal_description: Maybe[Str] = None
    """The goal, for people."""
    completed_at: Timestamp | None = None
    """When it ended."""
    narrative: Maybe[Str] = None
    """What happened, for people."""
    input_data: Maybe[JsonObject] = None
    """What it was given."""
    output_data: Maybe[JsonObject] = None
    """What it returned."""
    agent_id: Maybe[Id] = None
    """Agent that ran."""
    package_id: Maybe[Id] = None
    """Package of the agent, with its version if it has one."""
    package_fingerprint: Maybe[Str] = None
    """Exact version of the agent; the last one, if the run moved."""
    usage: Maybe[Usage] = None
    """What its model calls used and cost: failed ones, summaries and subagents included."""
    duration_ms: Maybe[Count] = None
    """From its beginning to its end, waits included; absent while open."""

class RunSummary(Open):
    """A recorded run in short."""

    run_id: Id
    """The run."""
    goal_id: Str
    """Goal it pursued."""
    status: DecisionRunStatus
    """Where it is."""
    duration_ms: Count
    """How long it took; 0 while open."""
    decision_count: Count
    """Decisions."""
    success_rate: Annotated[Float, Field(ge=0, le=1)]
    """Successful among decided, from 0 to 1."""
    problem_count: Count
    """Problems."""
    narrative: Str
    """What happened, for people."""
    key_decisions: tuple[Str, ...]
    """Decisions worth a look."""
    critical_problems: tuple[Str, ...]
    """Critical problems."""
    warnings: tuple[Str, ...]
    """Warnings."""
    successes: tuple[Str, ...]
    """What went well."""

class FailureKind(StrEnum):
    """Why a run failed; each kind has one rule."""

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

class ProposalPart(StrEnum):
    """What a proposal changes of an agent."""

    INSTRUCTIONS = "instructions"
    TOOL_DESCRIPTION = "tool_description"
    POLICY = "policy"
    BUDGET = "budget"
    MODEL = "model"

class ProposalChange(KeepsNulls, Open):
    """One change that a proposal makes to an agent."""

    part: ProposalPart
    """What it changes."""
    target: Maybe[Str] = None
    """The tool, or the rule of the policy."""
    before: JsonValue = None
    """What it was."""
    after: JsonValue = None
    """What it would be."""

class PackageDifference(KeepsNulls, Open):
    """One place at which two packages differ."""

    path: Str
    """JSON pointer into the package."""
    before: JsonValue = None
    """What is there now; absent if nothing."""
    after: JsonValue = None
    """What would be there; absent if nothing."""

class Proposal(Open):
    """A proposed change to an agent."""

    id: Id
    """Identifier of the proposal."""
    goal_id: Str
    """The goal that it serves."""
    agent_id: Id
    """The agent."""
    base_fingerprint: Str
    """The version that it changes."""
    fingerprint: Str
    """The version that it makes."""
    changes: tuple[ProposalChange, ...]
    """What it changes."""
    differences: tuple[PackageDifference, ...]
    """The same as a difference of packages."""
    rationale: Str
    """Why it should help."""
    evidence: tuple[Str, ...]
    """Runs that show it."""
    at: Timestamp
    """When it was made."""
    run_id: Maybe[Id] = None
    """The run that came up with it."""

class Estimate(Open):
    """A number that was measured, and how sure it is."""

    value: Float
    """What was measured."""
    low: Maybe[Float] = None
    """Lower end of the 95 % confidence interval; absent if there are too few values."""
    high: Maybe[Float] = None
    """Upper end of it."""

class VersionTally(Open):
    """What runs of one version of an agent came to."""

    fingerprint: Str
    """The version."""
    runs: Count
    """How many there are."""
    succeeded: Count
    """How many of them reached the goal."""
    success_rate: Maybe[Estimate] = None
    """Succeeded among all."""
    cost_micros: Maybe[Estimate] = None
    """Mean cost, in millionths of a dollar."""
    duration_ms: Maybe[Estimate] = None
    """Mean duration."""
    tokens: Maybe[Estimate] = None
    """Mean number of tokens."""

class VersionVerdict(StrEnum):
    """Whether the new version is better; unclear without enough evidence."""

    BETTER = "better"
    WORSE = "worse"
    UNCLEAR = "unclear"

class VersionComparison(Open):
    """Two versions of an agent side by side; differences are new less old."""

    old: VersionTally
    """The one that is there."""
    new: VersionTally
    """The other one."""
    verdict: VersionVerdict
    """What the success rates say: better or worse only with enough runs, by an exact test and the interval.
    """
    success_rate: Maybe[Estimate] = None
    """Difference of success rates."""
    p_value: Maybe[Annotated[Float, Field(ge=0, le=1)]] = None
    """Probability that equal versions differ as much: Fisher's exact test, or the exact test of pairs."""
    cost_micros: Maybe[Estimate] = None
    """Difference of mean costs."""
    duration_ms: Maybe[Estimate] = None
    """Difference of mean durations."""
    tokens: Maybe[Estimate] = None
    """Difference of mean tokens."""

class ReplayedRun(Open):
    """What came of one attempt to do a recorded run again."""

    run_id: Id
    """The run that the input comes from."""
    fingerprint: Str
    """The version that did it."""
    success: Bool
    """Whether it reached the goal."""
    score: Annotated[Float, Field(ge=0, le=1)]
    """How well, from 0 to 1."""
    diverged: Count
    """Calls for which nothing was recorded."""
    failure: Maybe[FailureKind] = None
    """Why it failed."""
    explanation: Maybe[Str] = None
    """What the criteria say."""
    output: Maybe[Str] = None
    """The beginning of its answer."""

class ProposalCheck(Open):
    """How a proposal did on recorded runs."""

    comparison: VersionComparison
    """Both versions."""
    replays: tuple[ReplayedRun, ...]
    """Each attempt."""
    fixed: Count
    """Runs that the new version did more often."""
    broken: Count
    """Runs that the old version did more often."""
    diverged: Count
    """Attempts with calls for which nothing was recorded."""
