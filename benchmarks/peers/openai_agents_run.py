# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# (this peer lives in an environment of its own, which the type checker does not see)
"""OpenAI Agents SDK with its SQLite session.

Choices:
- `Runner.run(agent, text, session=SQLiteSession(id, path))`, the quick start of its page on sessions. The
  session sets WAL and leaves synchronous at SQLite's default, FULL. It stores the items of each turn when
  the turn ends.
- Tracing is off: it would send everything over the network.
- One `SQLiteSession` object a session, all on one file, closed at the end: closing is not in the
  measurement.
- The session is a memory and not a record of the run: after a crash there is nothing that goes on by
  itself. Resume is what an application would do, the next `Runner.run` on the same session with a new
  message.
"""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from agents import Agent, FunctionTool, Model, ModelResponse, RunConfig, SQLiteSession, Usage, function_tool
from agents import Runner as AgentsRunner
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from benchmarks.peers.task import (
    FINAL,
    INSTRUCTIONS,
    TOOL,
    TOOL_DESCRIPTION,
    Call,
    Runner,
    Script,
    arguments,
    main,
)

NO_TRACING = RunConfig(tracing_disabled=True)
MAX_TURNS = 10_000


class ScriptedModel(Model):
    def __init__(self, script: Script) -> None:
        self._script = script

    async def get_response(self, *asked: Any, **named: Any) -> ModelResponse:
        items = named["input"] if "input" in named else asked[1]
        last = items[-1] if isinstance(items, list) else {"content": items}
        call = await self._script.answer(str(last.get("call_id") or last["content"]), len(items))
        return ModelResponse(output=[_item(call)], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


class OpenAiAgents(Runner):
    name = "openai-agents"
    packages = ("openai-agents",)

    async def open(self, folder: Path, script: Script) -> None:
        self._script, self._path = script, folder / "bench.db"
        self._sessions: dict[str, SQLiteSession] = {}
        self._agent = Agent(
            name="bench", instructions=INSTRUCTIONS, model=ScriptedModel(script), tools=[_tool(script)]
        )

    async def run(self, session: str) -> str:
        memory = self._sessions[session] = SQLiteSession(session, self._path)
        prompt = self._script.prompt(session)
        result = await AgentsRunner.run(
            self._agent, prompt, session=memory, max_turns=MAX_TURNS, run_config=NO_TRACING
        )
        return result.final_output

    async def resume(self, session: str) -> None:
        await self.run(session)

    async def park(self, sessions: Sequence[str]) -> None:
        for session in sessions:
            self._sessions.pop(session).close()

    async def close(self) -> None:
        await self.park(list(self._sessions))


def _tool(script: Script) -> FunctionTool:
    async def lookup(query: str, page: int) -> str:
        return script.lookup(query, page)

    return function_tool(lookup, name_override=TOOL, description_override=TOOL_DESCRIPTION)


def _item(call: Call | None) -> Any:
    if call is not None:
        return ResponseFunctionToolCall(
            id=call.id, call_id=call.id, type="function_call", name=TOOL, arguments=call.arguments_json
        )
    text = ResponseOutputText(text=FINAL, type="output_text", annotations=[], logprobs=[])
    return ResponseOutputMessage(
        id="final", type="message", role="assistant", status="completed", content=[text]
    )


if __name__ == "__main__":
    main(OpenAiAgents(), arguments())
