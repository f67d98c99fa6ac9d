"""Cost of the loop: a step by its tools, a delta by its readers, a request, reads of a run by its steps.

All of it in one process, and in memory but for the reads of a run, so nothing but our own work is measured.
"""

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

from benchmarks.measure import Row, compare
from windlass import Agent, AgentRuntime, LLMMessage, LLMStreamChunk, RunHandle, Tool, ToolCall, tool
from windlass.adapters.models.anthropic import anthropic_body, anthropic_turns
from windlass.adapters.models.openai import openai_body, openai_messages, openai_turns
from windlass.adapters.models.transport import ModelSettings
from windlass_protocol import JsonObject

TOOLS = (1, 20, 100)
READERS = (1, 100)
REQUEST_MESSAGES = 400
PAGE = "one page of the ledger of the northern region, newest first. " * 16


@dataclass(frozen=True, slots=True)
class Size:
    """How much to run."""

    steps: int
    deltas: int
    rounds: int
    runs: tuple[int, int]
    """Steps of the short and of the long run that are read."""


FULL = Size(steps=50, deltas=1_000, rounds=7, runs=(50, 2_000))
SHORT = Size(steps=20, deltas=200, rounds=2, runs=(20, 200))


def loop_rows(size: Size = FULL) -> list[Row]:
    """Return the lines of the table."""
    return [
        *asyncio.run(_step_rows(size)),
        *asyncio.run(_delta_rows(size)),
        *_request_rows(),
        *asyncio.run(_read_rows(size)),
    ]


class Caller:
    """Calls a tool in each step; its work does not grow with the history."""

    def __init__(self, steps: int) -> None:
        self._steps = steps

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        step = len(messages) // 2
        if step == self._steps:
            yield LLMStreamChunk(content_delta="All pages are here.", finish_reason="stop")
            return
        call = ToolCall(id=f"c{step}", name="lookup_0", arguments={"query": "open invoices", "page": step})
        yield LLMStreamChunk(tool_call_delta=call, finish_reason="tool-calls")


class Talker:
    """Says words one by one; everybody who waits for one has a turn before the next."""

    def __init__(self) -> None:
        self.words = 1

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        for _ in range(self.words):
            await _a_turn_for_all()
            yield LLMStreamChunk(content_delta="word ")
        yield LLMStreamChunk(finish_reason="stop")


async def _a_turn_for_all() -> None:
    for _ in range(2):
        await asyncio.sleep(0)


def _tools(count: int) -> list[Tool[..., object]]:
    async def lookup(query: str, page: int) -> str:
        """Look up one page of the ledger."""
        return PAGE

    return [tool(mode="read", name=f"lookup_{number}")(lookup) for number in range(count)]


async def _cpu(work: Awaitable[object]) -> float:
    gc.collect()
    began = process_time()
    await work
    return process_time() - began


async def _step_rows(size: Size) -> list[Row]:
    agents = {count: Agent("bench", model=Caller(size.steps), tools=_tools(count)) for count in TOOLS}
    runtimes = {count: AgentRuntime.in_memory([agent]) for count, agent in agents.items()}
    best: dict[int, float] = {count: float("inf") for count in TOOLS}
    for _ in range(size.rounds):
        for count, runtime in runtimes.items():
            handle = await runtime.start(agents[count], "Collect the pages.")
            best[count] = min(best[count], await _cpu(handle.wait()) / size.steps * 1e6)
    for runtime in runtimes.values():
        await runtime.aclose()
    return [
        Row(f"a step in memory, tools: {count}", cost, "µs", f"tools: {TOOLS[0]}", cost / best[TOOLS[0]])
        for count, cost in best.items()
    ]


async def _delta_rows(size: Size) -> list[Row]:
    rows: list[Row] = []
    model = Talker()
    agent = Agent("bench", model=model)
    async with AgentRuntime.in_memory([agent]) as runtime:
        for readers in READERS:
            one = many = queues = float("inf")
            for _ in range(size.rounds):
                model.words = 1
                one = min(one, await _cpu(_read_by(await runtime.start(agent, "Talk."), readers)))
                model.words = size.deltas + 1
                many = min(many, await _cpu(_read_by(await runtime.start(agent, "Talk."), readers)))
                queues = min(queues, await _cpu(_queued(readers, size.deltas)))
            cost, floor = (many - one) / size.deltas * 1e6, queues / size.deltas * 1e6
            rows.append(
                Row(f"a delta, readers: {readers}", cost, "µs", "as many asyncio queues", cost / floor)
            )
    return rows


async def _read_by(handle: RunHandle, readers: int) -> None:
    async def read() -> None:
        async for _ in handle.events():
            pass

    await asyncio.gather(*(read() for _ in range(readers)))


async def _queued(readers: int, deltas: int) -> None:
    """Do the least that gives every word to every reader."""
    queues = [asyncio.Queue[str | None]() for _ in range(readers)]

    async def read(queue: asyncio.Queue[str | None]) -> None:
        while await queue.get() is not None:
            pass

    reading = asyncio.gather(*(read(queue) for queue in queues))
    for number in range(deltas + 1):
        for queue in queues:
            queue.put_nowait("word " if number < deltas else None)
        await _a_turn_for_all()
    await reading


def _request_rows() -> list[Row]:
    """Compare what is made of a long conversation at one step to turning it into JSON."""
    settings = ModelSettings()
    tools = [one.definition for one in _tools(TOOLS[1])]
    messages = [LLMMessage("system", "Be short."), LLMMessage("user", "Collect the pages.")]
    for number in range(REQUEST_MESSAGES // 2):
        call = ToolCall(id=f"c{number}", name="lookup_0", arguments={"query": "open", "page": number})
        messages.append(LLMMessage("assistant", tool_calls=(call,)))
        messages.append(LLMMessage("tool", PAGE, tool_call_id=call.id, name=call.name))
    said, turns = openai_turns(None), anthropic_turns("m", settings)

    def openai() -> JsonObject:
        return openai_body(
            "m",
            openai_messages(messages, said),
            tools=tools,
            temperature=None,
            settings=settings,
            max_tokens_name="max_tokens",
        )

    def anthropic() -> JsonObject:
        return anthropic_body("m", messages, turns=turns, tools=tools, temperature=None, settings=settings)

    requests: dict[str, Callable[[], JsonObject]] = {"OpenAI": openai, "Anthropic": anthropic}
    return [
        compare(
            f"request to {name}, messages: {REQUEST_MESSAGES}, tools: {TOOLS[1]}",
            make,
            to="json.dumps of it",
            other=partial(json.dumps, make()),
        )
        for name, make in requests.items()
    ]


async def _read_rows(size: Size) -> list[Row]:
    """Compare reads of a long run to those of a short one: read before, and for the first time."""
    short, long = size.runs
    first = {(name, steps): float("inf") for name in _READS for steps in size.runs}
    again = dict(first)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "bench.db"
        for steps in size.runs:
            agent = Agent("bench", model=Caller(steps), tools=_tools(1))
            async with AgentRuntime.open(path, agents=[agent], durability="process") as runtime:
                await (await runtime.start(agent, "Collect the pages.", run_id=f"r{steps}")).wait()
        for _ in range(size.rounds):
            async with AgentRuntime.open(path, agents=[], durability="process") as runtime:
                for name, steps in first:
                    one = (name, steps)
                    first[one] = min(first[one], await _cpu(_READS[name](runtime, f"r{steps}")))
                    for _ in range(_READS_AGAIN):
                        again[one] = min(again[one], await _cpu(_READS[name](runtime, f"r{steps}")))
    rows: list[Row] = []
    for name in _READS:
        # Decisions are as many as steps, so their cost is that of one; so is that of any first read.
        for what, costs, is_each in (("", again, name == "decisions"), (", first in a process", first, True)):
            ours, theirs = (costs[name, steps] / (steps if is_each else 1) for steps in (long, short))
            unit = ", each" if is_each else ""
            cost = ours * 1e6
            rows.append(
                Row(f"{name}, {long:,} steps{what}{unit}", cost, "µs", f"{short} steps", ours / theirs)
            )
    return rows


_READS: dict[str, Callable[[AgentRuntime, str], Awaitable[object]]] = {
    "run_snapshot": lambda runtime, run_id: runtime.run_snapshot(run_id),
    "requests": lambda runtime, run_id: runtime.handle(run_id).requests(),
    "decisions": lambda runtime, run_id: runtime.decisions(run_id),
}
_READS_AGAIN = 5
