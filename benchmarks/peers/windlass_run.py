"""Windlass: the durable step.

Choices:
- The names that the public API promises, and nothing else; the model is any `LLMProvider`.
- The tool has the effect class that costs most, `once`: its intent is durable before it starts.
- Variants: `power` (the default of `AgentRuntime.open`, synchronous FULL as the peers have it) and
  `process` (NORMAL).
- Variant `memory`: the same loop and the same records, in a store that forgets them with the process.
- Variant `rows`: power, with a tool that returns structured rows instead of a text.
- Variant `postgres`: a store in PostgreSQL, opened with its address and no options.
- Variant `waiting`, for the parked sessions alone: the tool needs a person's consent, and a run is left when
  it waits for it.
- Resume is `AgentRuntime.open`, which goes on with unfinished runs by itself.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Literal

from benchmarks.peers.task import (
    FINAL,
    POSTGRES,
    TOOL,
    TOOL_DESCRIPTION,
    Call,
    Runner,
    Script,
    arguments,
    ledger_rows,
    main,
)
from windlass import (
    Agent,
    AgentRuntime,
    LLMMessage,
    LLMStreamChunk,
    LLMUsage,
    ToolCall,
    ToolContext,
    tool,
)
from windlass_protocol import JsonObject

WAIT_S = 600
ROWS_CHARS = 60_000
USAGE = LLMUsage(input_tokens=900, output_tokens=40)


class ScriptedModel:
    def __init__(self, script: Script) -> None:
        self._script = script

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        last = messages[-1]
        yield _chunk(await self._script.answer(last.tool_call_id or last.content, len(messages)))


class Windlass(Runner):
    packages = ("windlass-runtime",)

    def __init__(self, variant: str) -> None:
        self.name = f"windlass-{variant}"
        self._durability: Literal["power", "process"] = "process" if variant == "process" else "power"
        self._waits = variant == "waiting"
        self._forgets = variant == "memory"
        self._rows_chars = ROWS_CHARS if variant == "rows" else 0

    async def open(self, folder: Path, script: Script) -> None:
        @tool(
            mode="safe_write",
            effect="once",
            description=TOOL_DESCRIPTION,
            approval="always" if self._waits else "policy",
        )
        async def lookup(query: str, page: int, ctx: ToolContext) -> object:
            text = script.lookup(query, page)
            return ledger_rows(page, self._rows_chars) if self._rows_chars else text

        self._script = script
        self._agent = Agent("bench", model=ScriptedModel(script), tools=[lookup])
        if self._forgets:
            self._runtime = AgentRuntime.in_memory([self._agent])
        elif POSTGRES:
            self._runtime = await AgentRuntime.open(POSTGRES, agents=[self._agent])
        else:
            self._runtime = await AgentRuntime.open(
                folder / "bench.db", agents=[self._agent], durability=self._durability
            )
        await self._runtime.__aenter__()

    async def run(self, session: str) -> str:
        handle = await self._runtime.start_run(
            self._agent, self._script.prompt(session), session_id=session, run_id=f"run.{session}"
        )
        if self._waits:
            async with aclosing(handle.events()) as events:
                async for event in events:
                    if event.type == "run.waiting":
                        break
            return FINAL
        return (await handle.wait(timeout=WAIT_S)).output

    async def resume(self, session: str) -> None:
        await self._runtime.handle(f"run.{session}").wait(timeout=WAIT_S)

    async def close(self) -> None:
        await self._runtime.__aexit__(None, None, None)


def _chunk(call: Call | None) -> LLMStreamChunk:
    if call is None:
        return LLMStreamChunk(content_delta=FINAL, finish_reason="stop", usage=USAGE)
    asked = ToolCall(id=call.id, name=TOOL, arguments={"query": call.query, "page": call.page})
    return LLMStreamChunk(tool_call_delta=asked, finish_reason="tool-calls", usage=USAGE)


if __name__ == "__main__":
    options = arguments()
    main(Windlass(options.variant or "power"), options)
