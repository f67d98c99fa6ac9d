"""The contract of a step: a session in, a session and what to do next out."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from windlass.ports.clock import Clock, Random
from windlass.ports.host import ToolPolicy
from windlass.ports.model import LLMProvider
from windlass.ports.store import ContentStore
from windlass.tools import Tool
from windlass_harness.budget import BudgetLimit
from windlass_harness.loop.rules import DEFAULT_RETRY, OUTPUT_REPAIRS
from windlass_harness.redact import Redactor
from windlass_harness.retry import RetryPolicy
from windlass_protocol import (
    BudgetLimits,
    Event,
    HarnessSession,
    JsonObject,
    ModelMessage,
    ModelReference,
    RunMode,
    RuntimeIdentity,
    SessionCapabilities,
    StepDone,
    StepInput,
)


class Grammar(StrEnum):
    """The sequence of events that `handle_event` gets."""

    ONE_TURN = "one-turn"
    """Every record of the loop, as the feed of an `AgentRuntime` shows it: a turn waits and goes on."""
    TURN_PER_INPUT = "turn-per-input"
    """The events of older tool loops: a wait for people ends the turn, and their answers begin another."""


@dataclass(frozen=True, slots=True)
class KeyedTool:
    """A tool whose approvals for the session cover the calls with the same key of the arguments."""

    tool: Tool[..., object]
    approval_key: Callable[[JsonObject], str]


@dataclass(frozen=True, slots=True)
class AgentTool:
    """An agent that the model may call. The driver of the steps runs it."""

    name: str
    description: str = ""
    subagent_name: str = ""
    """The name of the tool when left out."""
    node_id: str | None = None
    """Its place in the package."""
    is_remote: bool = False


HarnessTool = Tool[..., object] | KeyedTool | AgentTool
ResolveModel = Callable[[ModelReference], LLMProvider | Awaitable[LLMProvider]]
HandleEvent = Callable[[Event, Sequence[ModelMessage] | None], Awaitable[None] | None]
"""Takes each event in order; with `step.started` come the messages that the model is going to read.

The step waits for it. An exception that it raises is logged and changes nothing.
"""


class StepFn(Protocol):
    """One step: at most one answer of the model, and the calls that it asks for."""

    async def __call__(self, session: HarnessSession, step_input: StepInput | None = None, /) -> "StepResult":
        """Return the session after the step, and what to do next.

        The session that was given is not changed. Until the result is stored nothing counts: repeat a step
        that was cut off with the same session and input.

        Raises:
            Rejected: the input cannot be used; nothing has happened.
            Corrupt: the state in the session cannot be read; nothing has happened.
        """
        ...


StepNext = StepDone | StepFn | None
"""A step: call it at once. None: wait for the next input. StepDone: it is over."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """The session after a step, and what to do next."""

    next: StepNext
    session: HarnessSession


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLoopHarnessConfig:
    """What the steps need and the session does not hold."""

    mode: RunMode
    """conversation waits after an answer, task is done with it."""
    tools: Mapping[str, HarnessTool]
    """What the model gets, by name; the tools that a session lists are for its readers."""
    resolve_model: ResolveModel
    handle_event: HandleEvent | None = None
    capabilities: SessionCapabilities = field(default_factory=SessionCapabilities)
    """Whether people can be asked; if not, there is no `ask_question` and what needs consent is denied."""
    on_compaction: Callable[[], Sequence[ModelMessage]] | None = None
    """Returns messages to put back when the history was compacted, such as a todo list."""
    runtime_identity: RuntimeIdentity | None = None
    """Told with `session.started`."""
    code_mode: bool = False
    """Not built yet: refused when true."""
    workflow: bool = False
    """Not built yet: refused when true."""
    policy: ToolPolicy | None = None
    """Decides about calls of tools that leave it to the policy; the default rules when left out."""
    budget: BudgetLimit | BudgetLimits | None = None
    """The most that one turn may use."""
    retry: RetryPolicy = DEFAULT_RETRY
    """When the model is asked again, and after which wait."""
    output_repairs_max: int = OUTPUT_REPAIRS
    """How often a model may correct an output that misses its schema."""
    redactor: Redactor = field(default_factory=Redactor)
    """Masks secrets in events and in the history."""
    content: ContentStore | None = None
    """Keeps results that are too large for a model; without one they are cut."""
    attempt: int = 1
    """The number of this attempt at the step, for a driver that repeats one after a crash; events tell it."""
    grammar: Grammar = Grammar.ONE_TURN
    clock: Clock | None = None
    random: Random | None = None
    """Clock and chance; those of the machine when made with `windlass.runtime.compose`."""
