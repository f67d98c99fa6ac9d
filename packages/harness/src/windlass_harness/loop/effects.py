"""What the loop wants done: the outputs that are not records."""

from dataclasses import dataclass
from typing import ClassVar

from pydantic import JsonValue

from windlass_harness.loop.drafts import Draft
from windlass_harness.views.runs import RunState
from windlass_protocol import CompactionConfig, JsonObject


@dataclass(frozen=True, slots=True)
class CallModel:
    """Ask the model for the next answer; its `step.started` is the intent."""

    step_index: int
    attempt: int
    key: ClassVar[str] = "model"
    """What the effect is called while it is under way."""


@dataclass(frozen=True, slots=True)
class Compact:
    """Make the history shorter; its `compaction.requested` is the intent."""

    config: CompactionConfig
    overhead_tokens: int
    key: ClassVar[str] = "compact"
    """What the effect is called while it is under way."""


def judge_key(call_id: str) -> str:
    """Return what the judging of a call is called while it is under way."""
    return f"judge:{call_id}"


def run_key(call_id: str) -> str:
    """Return what a call is called while it runs."""
    return f"call:{call_id}"


@dataclass(frozen=True, slots=True)
class JudgeCall:
    """Check the arguments of a call and ask the policy about it. Touches nothing."""

    call_id: str
    tool_name: str
    input: JsonValue
    approved_hash: str | None = None
    """A person approved the call with these arguments."""
    approved_policy: str | None = None
    """Under this version of the policy."""

    @property
    def key(self) -> str:
        """What the effect is called while it is under way."""
        return judge_key(self.call_id)


@dataclass(frozen=True, slots=True)
class RunTool:
    """Run a tool; its `action.started` is the intent."""

    call_id: str
    tool_name: str
    arguments: JsonObject
    idempotency_key: str
    step_index: int
    attempt: int

    @property
    def key(self) -> str:
        """What the effect is called while it is under way."""
        return run_key(self.call_id)


@dataclass(frozen=True, slots=True)
class ReviewReport:
    """See what a subagent returned before the model does. Touches nothing."""

    call_id: str
    tool_name: str
    arguments: JsonObject
    report: JsonObject
    """What its `subagent.completed` says."""
    step_index: int

    @property
    def key(self) -> str:
        """What the effect is called while it is under way."""
        return f"report:{self.call_id}"


@dataclass(frozen=True, slots=True)
class CheckOutput:
    """Hold the last answer against the output contract. Touches nothing."""

    text: str
    key: ClassVar[str] = "output"
    """What the effect is called while it is under way."""


@dataclass(frozen=True, slots=True)
class CallHooks:
    """Run the hooks of a point: of the run, or of one of its calls."""

    point: str
    run: RunState
    call_id: str | None = None

    @property
    def key(self) -> str:
        """What the effect is called while it is under way."""
        return f"hooks:{self.point}:{self.run.run_id}:{self.call_id or ''}"


@dataclass(frozen=True, slots=True)
class Deliver:
    """Give the output of a run to a sink; its `delivery.intended` is the intent."""

    delivery_id: str
    sink_id: str
    dedupe_key: str
    kind: str
    run: RunState

    @property
    def key(self) -> str:
        """What the effect is called while it is under way."""
        return f"deliver:{self.delivery_id}"


Effect = CallModel | Compact | JudgeCall | RunTool | ReviewReport | CheckOutput | CallHooks | Deliver


def is_errand(effect: Effect) -> bool:
    """Whether an effect is for a run that has ended, not for the one under way."""
    return isinstance(effect, CallHooks | Deliver) and effect.run.result is not None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write, then what to do.

    Nothing of either means: wait, until `wake_at_ms` at the latest.
    """

    drafts: tuple[Draft, ...] = ()
    effects: tuple[Effect, ...] = ()
    wake_at_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write and nothing to do."""
        return not self.drafts and not self.effects


NOTHING = Plan()
