"""What the loop may try, and how often."""

from enum import StrEnum
from typing import Final

from windlass_harness.retry import RetryPolicy
from windlass_protocol.frozen import frozen

REFUSALS_MAX: Final = 5
CALLS_PER_STEP_MAX: Final = 64
STEPS_MAX: Final = 10_000
OUTPUT_REPAIRS: Final = 2
DEFER_MS_MIN: Final = 1_000
"""How long a call that a policy put off waits at least."""
COMPLETION_VETOES_MAX: Final = 3
INTERRUPTIONS_MAX: Final = 5
SUBAGENT_DEPTH_MAX: Final = 3
SUBAGENT_CALLS_MAX: Final = 32
DEFAULT_RETRY: Final = RetryPolicy()
COMPACTION_THRESHOLD_TOKENS: Final = 100_000
"""For a model of which nobody knows how much it reads."""
RECENT_MESSAGES: Final = 10


class Dedupe(StrEnum):
    """What a sink takes at most once."""

    RUN = "run"
    """The output of a run."""
    OUTPUT = "output"
    """The same output in one session, whatever run it is of."""
    SESSION = "session"
    """The first output of the session."""


@frozen
class SinkRule:
    """A sink that gets the output of a run."""

    sink_id: str
    dedupe: Dedupe = Dedupe.RUN


@frozen
class CompactionRule:
    """When the history of a run is made shorter, and what else its model reads."""

    threshold: int = COMPACTION_THRESHOLD_TOKENS
    """The most tokens of a prompt."""
    recent_window_size: int = RECENT_MESSAGES
    """How many of the newest messages stay as they are, if they fit."""
    limit: int | None = None
    """A prompt that is longer after a compaction ends the run; None leaves that to the model."""
    overhead_tokens: int = 0
    """Instructions and tools."""
    model_id: str | None = None
    """Who writes summaries; the model of the run if None."""


DEFAULT_COMPACTION: Final = CompactionRule()


@frozen
class Rules:
    """The limits of one loop."""

    retry: RetryPolicy = DEFAULT_RETRY
    refusals_max: int = REFUSALS_MAX
    """Calls in a row that cannot be made (no such tool, bad arguments) before the run fails."""
    calls_per_step_max: int = CALLS_PER_STEP_MAX
    steps_max: int = STEPS_MAX
    """Model calls of one run, whatever its budget says."""
    interruptions_max: int = INTERRUPTIONS_MAX
    """Attempts of a model call or tool call that ended with their process; then it is not repeated by itself.

    An owner that lets go of its session in order says so, and its model call does not count; a tool that
    outlives the grace does. A person who says retry begins the count anew.
    """
    subagent_depth_max: int = SUBAGENT_DEPTH_MAX
    """Levels of subagents below the first run; a call that would make one more is refused."""
    subagent_calls_max: int = SUBAGENT_CALLS_MAX
    """Calls of subagents in one run; further ones are refused."""
    hook_points: frozenset[str] = frozenset()
    """Where the run has hooks."""
    completion_vetoes_max: int = COMPLETION_VETOES_MAX
    """How often hooks may send the model back to work before the run fails."""
    sinks: tuple[SinkRule, ...] = ()
    responders: tuple[str, ...] | None = None
    """Who may say what becomes of an interrupted call; None for anybody."""
    compaction: CompactionRule = DEFAULT_COMPACTION


DEFAULT_RULES: Final = Rules()
