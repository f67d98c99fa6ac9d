"""Rules of the loop: limits, retries, hooks, sinks and compaction; and the calls that a hook reads.

A program that declares agents imports this module, and not the events of the loop.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Final

from pydantic import JsonValue

from windlass_harness.retry import RetryPolicy
from windlass_protocol import BudgetName, LimitChoice
from windlass_protocol.frozen import frozen

REFUSALS_MAX: Final = 5
CALLS_PER_STEP_MAX: Final = 64
STEPS_MAX: Final = 10_000
DEFER_MS_MIN: Final = 1_000
"""Minimum delay of a call that a policy deferred."""
COMPLETION_VETOES_MAX: Final = 3
INTERRUPTIONS_MAX: Final = 5
SUBAGENT_DEPTH_MAX: Final = 3
SUBAGENT_CALLS_MAX: Final = 32
PROGRAM_CALLS_MAX: Final = 256
WORKFLOW_CALLS_MAX: Final = 10_000
WORKFLOW_EVENTS_MAX: Final = 10_000
RETRY_FOR_MS: Final = 3_600_000
"""How long transient faults of a provider are retried: one hour."""
AWAKE_MS_MAX: Final = 30_000
"""A wait up to this long is spent awake; a longer one is a row in the store, without a task."""
DEFAULT_RETRY: Final = RetryPolicy(max_delay_ms=60_000)
COMPACTION_THRESHOLD_TOKENS: Final = 100_000
"""Threshold for a model with an unknown context window."""
RECENT_MESSAGES: Final = 10

# Hook points that the loop knows; windlass.hooks has all.
RUN_STARTING: Final = "run_starting"
BEFORE_TOOL_CALL: Final = "before_tool_call"
AFTER_APPROVAL_DECISION: Final = "after_approval_decision"
BEFORE_RUN_COMPLETE: Final = "before_run_complete"
ON_RUN_CANCEL_REQUESTED: Final = "on_run_cancel_requested"
AFTER_RUN_TERMINAL: Final = "after_run_terminal"


class Dedupe(StrEnum):
    """Scope in which a sink accepts an output once."""

    RUN = "run"
    """The output of a run."""
    OUTPUT = "output"
    """The same output in one session, whatever run it is of."""
    SESSION = "session"
    """The first output of the session."""


@frozen
class RunLimit:
    """The limit of each run that the budget of a run comes from."""

    name: str
    at_limit: LimitChoice
    responders: tuple[str, ...] | None = None
    """Who may let the run spend more; None for anyone."""
    subject: str = ""
    """The owner or the agent, if each has a limit."""


@frozen
class RequestedCall:
    """A call that the model requested. `input` is a string if it is not valid JSON."""

    call_id: str
    tool_name: str
    input: JsonValue
    subagent: str | None = None
    """The subagent that the call is for, if any."""


@frozen
class SinkRule:
    """A sink that receives the output of a run."""

    sink_id: str
    dedupe: Dedupe = Dedupe.RUN


@frozen
class CompactionRule:
    """When a history is compacted, and the other tokens of its prompt."""

    threshold: int = COMPACTION_THRESHOLD_TOKENS
    """Maximum tokens of a prompt before compaction."""
    recent_window_size: int = RECENT_MESSAGES
    """Number of newest messages that are kept, if they fit."""
    limit: int | None = None
    """Maximum tokens after a compaction; more fails the run. None leaves the limit to the model."""
    overhead_tokens: int = 0
    """Tokens of instructions and tool definitions."""
    model_id: str | None = None
    """Model that writes summaries; None means the model of the run."""


DEFAULT_COMPACTION: Final = CompactionRule()


@frozen
class CallPrice:
    """The most that a model call can cost, in millionths of a dollar for a million tokens."""

    input: int
    output: int
    request: int = 0
    """Millionths of a dollar for the request itself."""
    above_tokens: int = 0
    """Tokens of a prompt above which these prices hold."""


@frozen
class ModelTerms:
    """Prices of a model, and the longest answer that it may give."""

    prices: tuple[CallPrice, ...]
    """By `above_tokens`; those of the shortest prompts come first."""
    answer_tokens: int
    """Tokens of its longest answer."""
    answer_tokens_min: int = 1
    """Tokens of the shortest answer that it can be held to."""


@frozen
class CallBounds:
    """The most that a model call can cost, by the length of its answer."""

    price: CallPrice
    prompt_tokens: int
    answer_tokens: int
    """Tokens of the longest answer."""
    answer_tokens_min: int
    """Tokens of the shortest answer that is worth the call."""

    def cost(self, answer_tokens: int) -> int:
        """Return the cost in millionths of a dollar, rounded up."""
        amount = self.price.input * self.prompt_tokens + self.price.output * answer_tokens
        return self.price.request - (-amount // MILLION)

    def amounts(self, answer_tokens: int) -> tuple[int, int]:
        """Return the money and the tokens of a call with such an answer."""
        return self.cost(answer_tokens), self.prompt_tokens + answer_tokens

    def longest(self, *, micros: int | None, tokens: int | None) -> int:
        """Return the tokens of the longest answer that fits what is left; None does not limit it.

        Less than `answer_tokens_min` means that none fits.
        """
        longest = self.answer_tokens
        if tokens is not None:
            longest = min(longest, tokens - self.prompt_tokens)
        if micros is not None and self.cost(longest) > micros:
            fixed = self.price.input * self.prompt_tokens + self.price.request * MILLION
            longest = (micros * MILLION - fixed) // self.price.output if self.price.output else -1
        return longest


MILLION: Final = 1_000_000
NO_RUN_LIMITS: Final[Mapping[BudgetName, RunLimit]] = {}
NO_TERMS: Final[Mapping[str | None, ModelTerms]] = {}


@frozen
class Rules:
    """Limits and settings of a run's loop."""

    retry: RetryPolicy = DEFAULT_RETRY
    """Attempts and delays of model calls. `max_attempts` is exceeded while `retry_for_ms` lasts."""
    retry_for_ms: int = RETRY_FOR_MS
    """How long a model call is retried whose provider is away, since its first failure."""
    fallbacks: tuple[str, ...] = ()
    """Models that are called in turn when the one before is away or refuses the account; set by the agent."""
    refusals_max: int = REFUSALS_MAX
    """Refused calls in a row (unknown tool, invalid arguments) before the run fails."""
    calls_per_step_max: int = CALLS_PER_STEP_MAX
    steps_max: int = STEPS_MAX
    """Model calls per run, in addition to its budget."""
    interruptions_max: int = INTERRUPTIONS_MAX
    """Interrupted attempts of a model or tool call before it is no longer retried automatically.

    Only a process that ended while no other run was at work counts: the call may be what ends it. After other
    ends of the process the call is retried with growing pauses. A handed-over model call does not count; a
    tool call that outlives the grace period does. A person's `retry` resets the count.
    """
    subagent_depth_max: int = SUBAGENT_DEPTH_MAX
    """Levels of subagents below the root run; deeper calls are refused."""
    subagent_calls_max: int = SUBAGENT_CALLS_MAX
    """Subagent calls per run; further ones are refused."""
    program_calls_max: int = PROGRAM_CALLS_MAX
    """Calls that one program may make; a program that makes more fails."""
    workflow_calls_max: int = WORKFLOW_CALLS_MAX
    """Calls that a workflow may make, with its timers and its subagents; one that makes more fails."""
    workflow_events_max: int = WORKFLOW_EVENTS_MAX
    """Events that may be sent to a run; one that gets more fails."""
    has_jobs: bool = False
    """Whether the agent has work in the background, and tools for its jobs."""
    waits_for_jobs: bool = False
    """Whether a run of it ends only after its jobs."""
    hook_points: frozenset[str] = frozenset()
    """Points that have hooks."""
    completion_vetoes_max: int = COMPLETION_VETOES_MAX
    """Vetoed completions before the run fails."""
    sinks: tuple[SinkRule, ...] = ()
    responders: tuple[str, ...] | None = None
    """Who may decide about an interrupted call; None for anyone."""
    compaction: CompactionRule = DEFAULT_COMPACTION
    terms: Mapping[str | None, ModelTerms] = field(default_factory=lambda: NO_TERMS)
    """Terms of the models of a run with a limit in money; None is the first model, a name a fallback."""
    is_shared: bool = False
    """Whether the run counts for limits that it shares with other runs: each of its calls asks the store."""
    run_limits: Mapping[BudgetName, RunLimit] = field(default_factory=lambda: NO_RUN_LIMITS)
    """The limits of each run that its budget comes from."""


DEFAULT_RULES: Final = Rules()
