"""The contract of a step: a session in, a session and what to do next out."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from windlass.ports.clock import Clock, Random
from windlass.ports.host import ToolPolicy
from windlass.ports.model import LLMProvider
from windlass.ports.store import ContentStore
from windlass.tools import Tool
from windlass_harness.redact import Redactor
from windlass_harness.retry import RetryPolicy
from windlass_protocol import (
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

OUTPUT_REPAIRS_MAX: Final = 2
"""How often a model may correct an output that misses its schema, unless the configuration says otherwise."""
MODEL_RETRY: Final = RetryPolicy(max_attempts=3, base_delay_ms=500, max_delay_ms=30_000)


class Grammar(StrEnum):
    """How events speak of a wait for people."""

    ONE_TURN = "one-turn"
    """The turn waits (`turn.waiting`) and goes on under its id when the answers are there."""
    TURN_PER_INPUT = "turn-per-input"
    """The wait ends the turn and the answers begin another: for readers of older streams."""


@dataclass(frozen=True, slots=True)
class KeyedTool:
    """A tool whose approvals are remembered by a key of the arguments.

    For a tool with approval once: a person who approved a call approved every call with the same key.
    """

    tool: Tool[..., object]
    approval_key: Callable[[JsonObject], str]


@dataclass(frozen=True, slots=True)
class AgentTool:
    """An agent that the model may call; whoever drives the steps runs it."""

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

Secrets are masked in events; the messages are as they are. Whatever it raises is logged and changes nothing.
"""


class StepFn(Protocol):
    """One step: at most one answer of the model, and the calls that it asks for."""

    async def __call__(self, session: HarnessSession, step_input: StepInput | None = None, /) -> "StepResult":
        """Return the session after the step, and what to do next.

        The session that was given is not changed. Until the result is stored nothing counts: a step that was
        cut off is made again with the same session and input.

        Raises:
            Rejected: the input or the state of the session cannot be used; nothing has happened.
        """
        ...


StepNext = StepDone | StepFn | None
"""A step: call it at once. None: wait for the next input. StepDone: it is over."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step came to."""

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
    retry: RetryPolicy = MODEL_RETRY
    """When the model is asked again, and after which wait."""
    output_repairs_max: int = OUTPUT_REPAIRS_MAX
    redactor: Redactor = field(default_factory=Redactor)
    """Masks secrets in events and in results of tools."""
    content: ContentStore | None = None
    """Keeps results that are too large for a model; without one they are cut."""
    attempt: int = 1
    """The number of this attempt at the step, for whoever makes one again after a crash; events tell it."""
    grammar: Grammar = Grammar.ONE_TURN
    clock: Clock | None = None
    random: Random | None = None
    """Clock and chance; those of the machine when made with `windlass.runtime.compose`."""
