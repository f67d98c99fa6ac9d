"""Agents of the OpenAI Agents SDK inside a workflow, and their sessions on a store of Windlass."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, cast

from agents import (
    Agent,
    AgentOutputSchemaBase,
    FunctionTool,
    Handoff,
    Model,
    ModelProvider,
    ModelResponse,
    ModelSettings,
    ModelTracing,
    MultiProvider,
    Tool,
    TResponseInputItem,
)
from agents.items import TResponseStreamEvent
from agents.memory import SessionABC
from agents.tool_context import ToolContext
from openai.types.responses.response_prompt_param import ResponsePromptParam
from pydantic import BaseModel, JsonValue, TypeAdapter
from pydantic_core import from_json

from windlass.errors import Conflict
from windlass.foreign.calls import (
    MODEL,
    approve,
    full_name,
    is_in_workflow,
    make_call,
    make_tool,
    tool_options,
)
from windlass.foreign.values import Values, key_of
from windlass.parts import Store
from windlass.runtime.compose import AgentRuntime
from windlass.tools import AnyTool, ToolOptions
from windlass.workflow.definition import FOREIGN_TOOLS
from windlass.workflow.replay import CallFailed
from windlass_protocol import JsonObject

_RESPONSE: Final = TypeAdapter(ModelResponse)
_SESSIONS: Final = "openai-session"
_NEWEST_FIRST: Final = 999_999_999_999
_NO_STREAM: Final = "a workflow records whole answers: write Runner.run, not Runner.run_streamed"


def durable(
    agent: Agent[Any],
    *,
    provider: ModelProvider | None = None,
    options: Mapping[str, ToolOptions] | None = None,
) -> Agent[Any]:
    """Return a copy of an agent whose model requests and function tools are calls of a workflow.

    Run it with `Runner.run` in a function with `@workflow` that names it. A tool that needs approval asks a
    person there. Agents that it hands over to are copied too. Outside of a workflow nothing is different.

    Args:
        agent: the agent; its model may be a name.
        provider: makes models of names; that of the SDK when left out.
        options: options of tools by their names: those of `@tool`. Without them a tool runs at once, and one
            that a crash interrupted asks a person whether it runs again.
    """
    return _durable(agent, provider or MultiProvider(), options or {}, {})


def _durable(
    agent: Agent[Any],
    provider: ModelProvider,
    options: Mapping[str, ToolOptions],
    copies: dict[int, Agent[Any]],
) -> Agent[Any]:
    if (copy := copies.get(id(agent))) is not None:
        return copy
    own = [make_tool(agent.name, MODEL, "A model request of the agent.", {"mode": "read"})]
    tools: list[Tool] = []
    for tool in agent.tools:
        if isinstance(tool, FunctionTool):
            tool_choice = tool_options(options.get(tool.name, {}), needs_approval=tool.needs_approval is True)
            own.append(make_tool(agent.name, tool.name, tool.description, tool_choice))
            tool = _durable_tool(tool, own[-1].name)
        tools.append(tool)
    copy = copies[id(agent)] = agent.clone(tools=tools, handoffs=[])
    # Agents may hand over to each other.
    handoffs: list[Agent[Any] | Handoff[Any, Any]] = [
        _durable(target, provider, options, copies) if isinstance(target, Agent) else target
        for target in agent.handoffs
    ]
    copy.handoffs = handoffs
    targets = [target for target in handoffs if isinstance(target, Agent)]
    copy.model = _DurableModel(agent, provider, own, targets)
    return copy


class _DurableModel(Model):
    """A model whose requests are calls, in a workflow."""

    def __init__(
        self,
        agent: Agent[Any],
        provider: ModelProvider,
        tools: Sequence[AnyTool],
        targets: Sequence[Agent[Any]],
    ) -> None:
        self.tools = tools
        self.targets = targets
        """The agents that it hands over to."""
        self._name = full_name(agent.name, MODEL)
        self._chosen = agent.model
        self._provider = provider

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],  # noqa: A002 - the SDK's name
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff[Any, Any]],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None,
        conversation_id: str | None,
        prompt: ResponsePromptParam | None,
    ) -> ModelResponse:
        """Return the answer of the model; the recorded one if there is one."""

        async def request() -> ModelResponse:
            return await self._model().get_response(
                system_instructions,
                input,
                model_settings,
                tools,
                output_schema,
                handoffs,
                tracing,
                previous_response_id=previous_response_id,
                conversation_id=conversation_id,
                prompt=prompt,
            )

        async def record() -> JsonValue:
            return _RESPONSE.dump_python(await request(), mode="json")

        if not is_in_workflow():
            return await request()
        count = 1 if isinstance(input, str) else len(input)
        return _RESPONSE.validate_python(await make_call(self._name, {"items": count}, record))

    def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],  # noqa: A002 - the SDK's name
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff[Any, Any]],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None,
        conversation_id: str | None,
        prompt: ResponsePromptParam | None,
    ) -> AsyncIterator[TResponseStreamEvent]:
        """Stream an answer, outside of workflows."""
        if is_in_workflow():
            raise RuntimeError(_NO_STREAM)
        return self._model().stream_response(
            system_instructions,
            input,
            model_settings,
            tools,
            output_schema,
            handoffs,
            tracing,
            previous_response_id=previous_response_id,
            conversation_id=conversation_id,
            prompt=prompt,
        )

    def _model(self) -> Model:
        return self._chosen if isinstance(self._chosen, Model) else self._provider.get_model(self._chosen)


def _durable_tool(tool: FunctionTool, name: str) -> FunctionTool:
    """Return a tool whose calls are calls of a workflow."""
    needs_approval = tool.needs_approval

    async def invoke(context: ToolContext[Any], text: str) -> Any:
        if not is_in_workflow():
            return await tool.on_invoke_tool(context, text)

        async def record() -> JsonValue:
            return _json_of(await tool.on_invoke_tool(context, text))

        arguments = _arguments_of(text)
        if callable(needs_approval):
            asks = await needs_approval(context, arguments, context.tool_call_id)
            if asks and not await approve(f"{tool.name}({text})"):
                return "The tool call was denied."
        try:
            return await make_call(name, arguments, record)
        except CallFailed as error:
            if error.type_name != "PermissionError":
                raise
            return error.message

    async def asks_outside(context: Any, arguments: dict[str, Any], call_id: str) -> bool:
        if is_in_workflow():
            return False
        return (
            await needs_approval(context, arguments, call_id) if callable(needs_approval) else needs_approval
        )

    return replace(tool, on_invoke_tool=invoke, needs_approval=asks_outside if needs_approval else False)


def _arguments_of(text: str) -> JsonObject:
    try:
        arguments: JsonValue = from_json(text or "{}")
    except ValueError:
        arguments = None
    return arguments if isinstance(arguments, dict) else {"text": text}


def _json_of(output: object) -> JsonValue:
    """Return what a tool returned as the SDK takes it from a record."""
    if isinstance(output, BaseModel):
        return output.model_dump(mode="json")
    if isinstance(output, list):
        return [_json_of(part) for part in cast("list[object]", output)]
    return cast(JsonObject, output) if isinstance(output, dict) else str(output)


class WindlassSession(SessionABC):
    """A session of the SDK on a store of Windlass, for `Runner.run(…, session=…)` outside of workflows."""

    def __init__(self, session_id: str, store: Store) -> None:
        self.session_id = session_id
        self._prefix = key_of(session_id)
        self._values = Values(store, _SESSIONS)

    @classmethod
    def of(cls, session_id: str, runtime: AgentRuntime) -> "WindlassSession":
        """Return a session in the store of a runtime."""
        return cls(session_id, runtime.core.store)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the newest items, oldest first."""
        items: list[JsonValue] = []
        async for _, stored in self._values.scan(self._prefix):
            batch = cast("list[JsonValue]", cast(JsonObject, stored)["items"])
            items = [*batch, *items]
            if limit is not None and len(items) >= limit:
                break
        newest = items if limit is None else items[len(items) - min(limit, len(items)) :]
        return cast("list[TResponseInputItem]", newest)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items durably, after those of all processes that did before."""
        while items:
            newest = cast("JsonObject | None", await self._values.first(self._prefix))
            number = 0 if newest is None else cast(int, newest["number"]) + 1
            value = cast(JsonObject, {"number": number, "items": items})
            with suppress(Conflict):
                await self._values.add(f"{self._prefix}{_NEWEST_FIRST - number:012}", value)
                return

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item and return it."""
        popped: list[JsonValue] = []

        def pop(stored: JsonValue) -> JsonValue:
            popped.clear()
            if not isinstance(stored, dict):
                return stored
            items = cast("list[JsonValue]", stored["items"])
            popped.extend(items[-1:])
            return {**stored, "items": items[:-1]}

        async for name, _ in self._values.scan(self._prefix):
            await self._values.change(name, pop)
            if popped:
                return cast("TResponseInputItem", popped[0])
        return None

    async def clear_session(self) -> None:
        """Delete all items."""
        await self._values.drop(self._prefix)


def tools_of(value: object) -> Sequence[AnyTool]:
    """Return the tools behind an agent of `durable`, for `@workflow(tools=[…])`; else nothing.

    A workflow that names the agent in its source has them already.
    """
    agents = [cast("Agent[Any]", value)] if isinstance(value, Agent) else []
    tools: dict[str, AnyTool] = {}
    while agents:
        model = agents.pop().model
        if isinstance(model, _DurableModel) and model.tools[0].name not in tools:
            tools |= {tool.name: tool for tool in model.tools}
            agents += model.targets
    return tuple(tools.values())


FOREIGN_TOOLS.append(tools_of)
