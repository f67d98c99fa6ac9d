# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# (this peer lives in an environment of its own, which the type checker does not see)
"""LangGraph with its SQLite or Postgres saver.

Choices, each as its documentation has it or cheaper for the peer:
- The agent is `langchain.agents.create_agent`, the one way that the documentation of both packages shows
  now (`langgraph.prebuilt.create_react_agent` is deprecated).
- The saver is `AsyncSqliteSaver`, the one for async programs. It sets WAL and leaves synchronous at
  SQLite's default, FULL.
- With several processes it is `AsyncPostgresSaver` with a pool of ten connections each, with the three
  parameters that its page asks for.
- `durability="sync"`: a checkpoint is written before the next step starts, as a durable step promises. The
  default, "async", writes it while the next step already runs; it costs the same CPU within the noise, and
  with a model that answers at once a kill loses most of a run, because the writing falls behind.
- Tracing is off, as it is without an account.
- Variant `delta`: the messages are a `DeltaChannel` (beta), which stores what was added and, every
  hundredth time, a snapshot.
- Resume is `ainvoke(None, config)`: the graph goes on from the last checkpoint.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from langchain.agents import AgentState, create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph.message import _messages_delta_reducer
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from benchmarks.peers.task import (
    FINAL,
    POSTGRES,
    TOOL,
    TOOL_DESCRIPTION,
    Call,
    Runner,
    Script,
    arguments,
    main,
)


class DeltaState(AgentState):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]


class ScriptedModel(BaseChatModel):
    script: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> "ScriptedModel":
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        last = messages[-1]
        seen = last.tool_call_id if isinstance(last, ToolMessage) else str(last.content)
        message = _message(await self.script.answer(seen, len(messages)))
        return ChatResult(generations=[ChatGeneration(message=message)])


class LangGraph(Runner):
    packages = ("langgraph", "langgraph-checkpoint-sqlite", "langchain")

    def __init__(self, variant: str) -> None:
        self.name = f"langgraph-{variant}" if variant else "langgraph"
        self._state = DeltaState if variant == "delta" else None

    async def open(self, folder: Path, script: Script) -> None:
        async def lookup(query: str, page: int) -> str:
            return script.lookup(query, page)

        tool = StructuredTool.from_function(coroutine=lookup, name=TOOL, description=TOOL_DESCRIPTION)
        self._script = script
        if POSTGRES:
            self._saver = postgres_saver()
        else:
            self._saver = AsyncSqliteSaver.from_conn_string(str(folder / "bench.db"))
        self._agent = create_agent(
            ScriptedModel(script=script),
            tools=[tool],
            state_schema=self._state,
            checkpointer=await self._saver.__aenter__(),
        )

    async def run(self, session: str) -> str:
        asked = {"messages": [{"role": "user", "content": self._script.prompt(session)}]}
        result = await self._agent.ainvoke(asked, self._config(session), durability="sync")
        return result["messages"][-1].content

    async def resume(self, session: str) -> None:
        await self._agent.ainvoke(None, self._config(session), durability="sync")

    async def close(self) -> None:
        await self._saver.__aexit__(None, None, None)

    def _config(self, session: str) -> Any:
        return {"configurable": {"thread_id": session}, "recursion_limit": 10_000}


@asynccontextmanager
async def postgres_saver() -> AsyncIterator[Any]:
    kwargs = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    async with AsyncConnectionPool(POSTGRES, min_size=1, max_size=10, kwargs=kwargs) as pool:
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        yield saver


def _message(call: Call | None) -> AIMessage:
    if call is None:
        return AIMessage(content=FINAL)
    return AIMessage(content="", tool_calls=[{"id": call.id, "name": TOOL, "args": call.arguments}])


if __name__ == "__main__":
    options = arguments()
    main(LangGraph(options.variant), options)
