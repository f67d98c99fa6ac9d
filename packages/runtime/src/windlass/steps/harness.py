"""A configuration that was checked once, and what it comes to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from windlass.errors import Rejected, check_name, check_text, wrong
from windlass.limits import DESCRIPTION_CHARS_MAX
from windlass.policy import RulesPolicy
from windlass.ports.clock import Clock, Random
from windlass.ports.host import ToolPolicy
from windlass.ports.store import ContentStore
from windlass.steps.contract import AgentTool, HarnessTool, KeyedTool, ToolLoopHarnessConfig
from windlass.steps.output import FINAL_OUTPUT
from windlass.steps.questions import ASK_QUESTION, QUESTION_TOOL
from windlass.tools import Tool
from windlass.tools.router import ToolGates
from windlass_harness.policy import PolicySet
from windlass_protocol import ContentRef, ErrorKind, JsonObject, RetryClass, RunMode

_RESERVED: Final = frozenset({ASK_QUESTION, FINAL_OUTPUT})
_AGENT_INPUT: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "What the agent is to do; it knows nothing else."},
        "outputSchema": {"type": "object", "description": "JSON Schema of what it must return."},
    },
    "required": ["message"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Harness:
    """What every step of one configuration uses."""

    config: ToolLoopHarnessConfig
    tools: Mapping[str, Tool[..., object]]
    keyed: Mapping[str, KeyedTool]
    agents: Mapping[str, AgentTool]
    definitions: tuple[JsonObject, ...]
    """What the model is told of the tools."""
    policy: ToolPolicy
    content: ContentStore
    clock: Clock
    random: Random
    gates: ToolGates

    @property
    def can_ask(self) -> bool:
        """Whether people can be asked."""
        return self.config.capabilities.request_input is True

    @property
    def is_task(self) -> bool:
        """Whether an answer is the end."""
        return self.config.mode is RunMode.TASK


def prepare(config: ToolLoopHarnessConfig) -> Harness:
    """Return what the steps use.

    Raises:
        Rejected: the configuration cannot be used; the message says what to write.
    """
    _check(config)
    if config.clock is None or config.random is None:
        raise wrong(
            "the steps need a clock and a random source; windlass.runtime.compose gives those of the machine"
        )
    tools: dict[str, Tool[..., object]] = {}
    keyed: dict[str, KeyedTool] = {}
    agents: dict[str, AgentTool] = {}
    for name, item in config.tools.items():
        match item:
            case Tool():
                tools[name] = item
            case KeyedTool():
                tools[name], keyed[name] = item.tool, item
            case AgentTool():
                agents[name] = item
    definitions = [_definition(item) for item in config.tools.values()]
    if config.capabilities.request_input is True:
        definitions.append(QUESTION_TOOL)
    return Harness(
        config,
        tools=tools,
        keyed=keyed,
        agents=agents,
        definitions=tuple(definitions),
        policy=config.policy or RulesPolicy(PolicySet()),
        content=config.content or _NoContent(),
        clock=config.clock,
        random=config.random,
        gates=ToolGates(),
    )


def _check(config: ToolLoopHarnessConfig) -> None:
    for name, is_on in (("code_mode", config.code_mode), ("workflow", config.workflow)):
        if is_on:
            raise wrong(f"{name} is not built yet; leave it out, and the model gets its tools directly")
    if config.attempt < 1:
        raise wrong(f"attempt counts from 1, found {config.attempt}")
    if config.output_repairs_max < 0:
        raise wrong(f"output_repairs_max is 0 or more, found {config.output_repairs_max}")
    for name, item in config.tools.items():
        own = _name_of(item)
        if own != name:
            raise wrong(f"tools: {name!r} names a tool that is called {own!r}; use its own name")
        if name in _RESERVED:
            raise wrong(f"tools: the steps have a {name} of their own; give this tool another name")


def _name_of(item: HarnessTool) -> str:
    match item:
        case KeyedTool():
            return item.tool.name
        case AgentTool():
            check_text(item.description, "the description of an agent", chars_max=DESCRIPTION_CHARS_MAX)
            return check_name(item.name, "an agent")
        case Tool():
            return item.name


def _definition(item: HarnessTool) -> JsonObject:
    match item:
        case KeyedTool():
            return item.tool.definition
        case AgentTool():
            schema: JsonValue = _AGENT_INPUT
            return {"name": item.name, "description": item.description, "inputSchema": schema}
        case Tool():
            return item.definition


class _NoContent:
    """Keeps nothing: what is too large for a model is cut."""

    async def put(
        self, content: bytes, *, media_type: str = "application/json", session_id: str | None = None
    ) -> ContentRef:
        """Refuse.

        Raises:
            Rejected: always.
        """
        raise _nothing_kept()

    async def get(self, ref: ContentRef) -> bytes:
        """Refuse.

        Raises:
            Rejected: always.
        """
        raise _nothing_kept()


def _nothing_kept() -> Rejected:
    return Rejected(
        "the steps have no content store; give one in the configuration",
        kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
    )
