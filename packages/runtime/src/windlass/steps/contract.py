"""The contract of a step: a session in, a session and what to do next out."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, field
from enum import StrEnum
from typing import Protocol

from windlass.agent.dynamic import Dynamic
from windlass.agent.hooks import EventHook, Hook
from windlass.agent.sandbox import Bubblewrap, NoSandbox
from windlass.ports.clock import Clock, Random
from windlass.ports.host import ToolPolicy
from windlass.ports.interpreter import Interpreter
from windlass.ports.model import LLMProvider
from windlass.ports.sandbox import SandboxAdapter
from windlass.ports.store import ContentStore
from windlass.tools import Tool
from windlass_harness.budget import Budget
from windlass_harness.loop.rules import DEFAULT_RETRY
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
    SandboxSpec,
    SessionCapabilities,
    StepDone,
    StepInput,
)
from windlass_protocol.frozen import sealed
from windlass_protocol.limits import OUTPUT_REPAIRS


class Grammar(StrEnum):
    """The sequence of events that `handle_event` gets."""

    ONE_TURN = "one-turn"
    """Every record of the loop, as in the feed of an `AgentRuntime`: a turn waits for people."""
    TURN_PER_INPUT = "turn-per-input"
    """The events of older tool loops: a wait for people ends the turn, and their answers start another."""


@sealed
class KeyedTool:
    """A tool with another approval key; see `KitOptions.approval_key`, which makes the same tool."""

    tool: Tool[..., object]
    approval_key: Callable[[JsonObject], str]


@sealed
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
"""A tool of a loop; an `AgentTool` is performed by the host."""
ResolveModel = Callable[[ModelReference], LLMProvider | Awaitable[LLMProvider]]
HandleEvent = Callable[[Event, Sequence[ModelMessage] | None], Awaitable[None] | None]
"""Gets each event in order, with `step.started` also the messages of the next model request.

The step waits for it. An exception that it raises is logged and changes nothing.
"""


class StepFn(Protocol):
    """One step: at most one answer of the model, and its tool calls."""

    async def __call__(self, session: HarnessSession, step_input: StepInput | None = None, /) -> "StepResult":
        """Return the session after the step, and what to do next.

        The given session is not changed. A step takes effect once the caller has stored the result: repeat an
        interrupted step with the same session and input.

        Raises:
            Rejected: the input cannot be used; nothing has happened.
            Corrupt: the state in the session cannot be read; nothing has happened.
        """
        ...


StepNext = StepDone | StepFn | None
"""A step: call it at once. None: wait for the next input. StepDone: the session has ended."""


@sealed
class StepResult:
    """The session after a step, and what to do next."""

    next: StepNext
    session: HarnessSession
    unknown_results: tuple[str, ...] = ()
    """The call ids of action results that were not taken: no open call of an agent has them."""


@sealed
class ToolLoopHarnessConfig:
    """Configuration of the step function: everything that the session does not hold."""

    _: KW_ONLY
    mode: RunMode
    """conversation waits after an answer; task ends with it."""
    tools: Mapping[str, HarnessTool]
    """The tools of the model by name; the tools in a session are only for its readers."""
    resolve_model: ResolveModel
    handle_event: HandleEvent | None = None
    hooks: Sequence[Hook | EventHook] = ()
    """Functions with `@hook` and `@on_event`; event hooks get each event after `handle_event`."""
    dynamic_instructions: Dynamic | None = None
    """Instructions that a function resolves; they precede the system prompt of the session."""
    dynamic_tools: Sequence[Dynamic] = ()
    """Tools that functions resolve, in addition to `tools`."""
    dynamic_skills: Sequence[Dynamic] = ()
    """Skills that functions resolve; the model gets the tool `load_skill`."""
    capabilities: SessionCapabilities = field(default_factory=SessionCapabilities)
    """Whether people can be asked; if not, there is no `ask_question`, and calls that need approval fail."""
    on_compaction: Callable[[], Sequence[ModelMessage]] | None = None
    """Returns messages to add to a compacted history, such as a to-do list."""
    runtime_identity: RuntimeIdentity | None = None
    """Part of `session.started`."""
    code_mode: bool = False
    """Whether the model calls tools and agents from programs; needs an interpreter."""
    workflow: bool = False
    """Whether the model may write programs that call agents; needs an interpreter."""
    interpreter: Interpreter | None = None
    """Runs the programs of the model; the caller closes it."""
    sandbox: Bubblewrap | NoSandbox | SandboxSpec | None = None
    """Where commands and files of the session live; its state is the `sandbox_state` of the session."""
    sandboxes: Mapping[str, SandboxAdapter] = field(default_factory=dict[str, SandboxAdapter])
    """Adapters of sandboxes by name, such as those of windlass.parts; the caller closes them."""
    policy: ToolPolicy | None = None
    """Decides about calls of tools that leave it to the policy; the default rules when left out."""
    budget: Budget | BudgetLimits | None = None
    """Limits of one turn."""
    retry: RetryPolicy = DEFAULT_RETRY
    """Retries of model requests, and their delays."""
    output_repairs_max: int = OUTPUT_REPAIRS
    """Attempts of the model to correct an output that does not fit its schema."""
    redactor: Redactor = field(default_factory=Redactor)
    """Masks secrets in events and in the history."""
    content: ContentStore | None = None
    """Stores resolved parts, which need it, and results that are too large for a model, else they are cut."""
    attempt: int = 1
    """The number of this attempt at the step, for a driver that repeats one after a crash; part of events."""
    grammar: Grammar = Grammar.ONE_TURN
    clock: Clock | None = None
    random: Random | None = None
    """Clock and random source; those of the machine when left out."""
