"""Agents of pydantic-ai inside a workflow: their model requests and tool calls are calls of the workflow.

Each is journaled before it is made and after it has ended. The function of the workflow, and the agent in
it, run again after a crash; what has a result is not done again. A tool with `requires_approval` asks a
person, and the run waits. Outside of a workflow nothing is different.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, cast

from pydantic_ai import _utils, exceptions
from pydantic_ai.agent import AbstractAgent, EventStreamHandler
from pydantic_ai.capabilities.abstract import WrapRunHandler
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    DurabilityEngineSpec,
    DurableOperationId,
    JournalCallableOperationBackend,
    ModelRequestId,
    RoleBasedOperationConfig,
    ToolsetCallToolId,
)
from pydantic_ai.models import Model
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import AgentDepsT, RunContext
from pydantic_ai.tools import Tool as AgentTool
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset, ToolsetTool, WrapperToolset
from pydantic_core import from_json, to_json

from windlass.foreign.calls import (
    MODEL,
    approve,
    full_name,
    is_in_workflow,
    make_call,
    make_tool,
    tool_options,
)
from windlass.tools import AnyTool, ToolOptions
from windlass.workflow.definition import FOREIGN_TOOLS
from windlass.workflow.replay import CallFailed
from windlass_protocol import JsonObject

METADATA: Final = "windlass"
"""The key of a tool's metadata with its options for Windlass: mode, effect, approval, timeout, retries."""
_STEP: Final = "step"
_TOOL: Final = "tool"
_STATUS: Final = re.compile(r"status_code: (\d+), model_name: ([^,]*)")


class WindlassDurability(BaseDurabilityCapability[AgentDepsT]):
    """Makes an agent durable in a workflow: `Agent(…, capabilities=[WindlassDurability()])`.

    Call `agent.run` in a function with `@workflow` that names the agent. The metadata of a tool has its
    options, those of `@tool`: `metadata={"windlass": {"mode": "read"}}`. Without them a tool runs without
    asking, and one that a crash interrupted asks a person whether it runs again.
    """

    engine_spec: ClassVar[DurabilityEngineSpec] = DurabilityEngineSpec(
        engine_name="Windlass",
        durable_unit_noun="call",
        durable_container_noun="workflow",
        codec=JSON_CODEC,
        # A workflow has no I/O: what a toolset opens is opened in its calls.
        toolset_lifecycles={
            "function": "enter-outside-durable",
            "mcp": "enter-outside-durable",
            "dynamic": "enter-never",
        },
        unsupported_runtime_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
    )

    def __init__(
        self,
        *,
        models: Mapping[str, Model] | None = None,
        event_stream_handler: EventStreamHandler[AgentDepsT] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(models=models, event_stream_handler=event_stream_handler, name=name)
        self._calls: dict[str, AnyTool] = {}

    def for_agent(self, agent: AbstractAgent[AgentDepsT, Any]) -> "WindlassDurability[AgentDepsT]":
        """Return a copy for an agent; see pydantic-ai."""
        unbound = self._calls
        self._calls = {}
        try:
            return cast("WindlassDurability[AgentDepsT]", super().for_agent(agent))
        finally:
            self._calls = unbound

    @property
    def in_durable_context(self) -> bool:
        """Whether this code is a part of a workflow."""
        return is_in_workflow()

    def get_durable_operation_backend(self) -> "_Calls":
        """Return what makes calls of operations; see pydantic-ai."""
        return _Calls(self.name, self.default_model_id, self._calls)

    def get_wrapper_toolset(self, toolset: AbstractToolset[AgentDepsT]) -> AbstractToolset[AgentDepsT]:
        """Return the tools of a run, whose approvals are requests of Windlass in a workflow."""
        durable = super().get_wrapper_toolset(toolset) or toolset
        return _Approvals(durable) if self.in_durable_context else durable

    async def wrap_run(self, ctx: RunContext[AgentDepsT], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Run an agent; in a workflow its own functions run without threads."""
        if not self.in_durable_context:
            return await super().wrap_run(ctx, handler=handler)
        with _utils.disable_threads():
            return await super().wrap_run(ctx, handler=handler)

    def tools(self) -> Sequence[AnyTool]:
        """Return the tools of Windlass behind the operations of the agent."""
        own: list[tuple[str, str, ToolOptions]] = [
            (MODEL, "A model request of the agent.", {"mode": "read"}),
            (_STEP, "A step of the agent without an effect.", {"mode": "read"}),
            (
                _TOOL,
                "A tool of the agent that it found while it ran.",
                tool_options({}, needs_approval=False),
            ),
        ]
        for function in self._function_tools():
            chosen = cast("Mapping[str, Any]", (function.metadata or {}).get(METADATA, {}))
            options = tool_options(chosen, needs_approval=function.requires_approval)
            own.append((function.name, function.description or "", options))
        for name, description, options in own:
            if (key := full_name(self.name, name)) not in self._calls:
                self._calls[key] = make_tool(self.name, name, description, options)
        return tuple(self._calls.values())

    def _function_tools(self) -> Sequence[AgentTool[AgentDepsT]]:
        functions: list[AgentTool[AgentDepsT]] = []

        def collect(leaf: AbstractToolset[AgentDepsT]) -> None:
            if isinstance(leaf, FunctionToolset):
                functions.extend(leaf.tools.values())

        for toolset in () if self.agent is None else self.agent.toolsets:
            toolset.apply(collect)
        return functions


class _Calls(JournalCallableOperationBackend[None]):
    """Makes calls of the workflow of the operations of an agent."""

    def __init__(self, agent_name: str, default_model_id: str | None, tools: Mapping[str, AnyTool]) -> None:
        super().__init__(
            agent_name=agent_name,
            default_model_id=default_model_id,
            config=RoleBasedOperationConfig(model=None, event=None, capability=None, tool=None),
        )
        self._agent_name = agent_name
        self._tools = tools

    async def execute(
        self,
        *,
        operation_id: DurableOperationId,
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],
        config: None,
    ) -> object:
        """Make the call of an operation, and return its result."""

        async def work() -> object:
            # A call is not in the workflow: functions that are not async have threads.
            _utils._disable_threads.set(False)  # pyright: ignore[reportPrivateUsage]
            return await body()

        try:
            return await make_call(*self._call_of(operation_id, name, cache_key), work)
        except CallFailed as error:
            failure = error
        raise _exception_of(failure) from failure

    def _call_of(
        self, operation_id: DurableOperationId, name: str, cache_key: tuple[object, ...]
    ) -> tuple[str, JsonObject]:
        """Return the tool and the arguments of an operation: small, and the same each time."""
        if isinstance(operation_id, ModelRequestId):
            messages = cast(Sequence[object], cache_key[1])
            arguments: JsonObject = {"model": operation_id.model_name, "messages": len(messages)}
            return full_name(self._agent_name, MODEL), arguments
        if isinstance(operation_id, ToolsetCallToolId):
            called, values = cast("tuple[str, dict[str, object]]", cache_key[:2])
            json_values = cast(JsonObject, from_json(to_json(values, serialize_unknown=True)))
            if (key := full_name(self._agent_name, called)) in self._tools:
                return key, json_values
            return full_name(self._agent_name, _TOOL), {"tool": called, "arguments": json_values}
        return full_name(self._agent_name, _STEP), {"step": name}


def _exception_of(failure: CallFailed) -> Exception:
    """Return the exception of pydantic-ai that a call failed with, made of its record."""
    if failure.type_name == "PermissionError":
        return exceptions.ToolFailed(failure.message)
    path, _, text = failure.message.partition(": ")
    kind = getattr(exceptions, path.rpartition(".")[2], None)
    if not isinstance(kind, type) or not issubclass(kind, Exception):
        return failure
    if issubclass(kind, exceptions.ModelHTTPError):
        status = _STATUS.match(text)
        return failure if status is None else kind(int(status[1]), status[2], text)
    if issubclass(kind, exceptions.ModelAPIError):
        return kind("", text)
    return kind(text) if issubclass(kind, exceptions.AgentRunError | exceptions.UserError) else failure


@dataclass
class _Approvals(WrapperToolset[AgentDepsT]):
    """Tools whose calls the policy of the workflow decides about, instead of ending the run of the agent."""

    asking: set[str] = field(default_factory=set[str])
    """The names of tools that need approval: a person approves before they are called."""

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """Return the tools; those that need approval ask when they are called."""
        tools = await super().get_tools(ctx)
        self.asking.update(name for name, tool in tools.items() if tool.tool_def.kind == "unapproved")
        return {name: _ask_when_called(tool) for name, tool in tools.items()}

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[AgentDepsT],
        tool: ToolsetTool[AgentDepsT],
    ) -> Any:
        """Call a tool; if its function asks for approval, a person is asked and it is called again."""
        if name in self.asking:
            ctx = replace(ctx, tool_call_approved=True)
        try:
            return await super().call_tool(name, tool_args, ctx, tool)
        except exceptions.ApprovalRequired:
            if ctx.tool_call_approved:
                raise
        if not await approve(f"{name}({to_json(tool_args, serialize_unknown=True).decode()})"):
            raise exceptions.ToolFailed("The tool call was denied.")
        return await super().call_tool(name, tool_args, replace(ctx, tool_call_approved=True), tool)


def _ask_when_called(tool: ToolsetTool[AgentDepsT]) -> ToolsetTool[AgentDepsT]:
    if tool.tool_def.kind != "unapproved":
        return tool
    return replace(tool, tool_def=replace(tool.tool_def, kind="function"))


def tools_of(value: object) -> Sequence[AnyTool]:
    """Return the tools behind an agent with WindlassDurability, for `@workflow(tools=[…])`; else nothing.

    A workflow that names the agent in its source has them already.
    """
    if not isinstance(value, AbstractAgent):
        return ()
    durability = WindlassDurability.from_agent(cast("AbstractAgent[Any, Any]", value))
    return () if durability is None else durability.tools()


FOREIGN_TOOLS.append(tools_of)
