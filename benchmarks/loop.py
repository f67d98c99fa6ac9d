"""Cost of the loop: a step by its workload, a run, a stream, a delta by its readers, a request, a read.

All of it runs in this process and, but for a run on SQLite and the reads, in memory: the loop alone is
measured.
"""

import asyncio
import gc
import json
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

from benchmarks.goals import Numbers
from benchmarks.measure import Effort, Row, compare
from benchmarks.samples import TEXT
from windlass import (
    Agent,
    AgentRuntime,
    HookCall,
    LLMMessage,
    LLMStreamChunk,
    RunHandle,
    Tool,
    ToolCall,
    hook,
    tool,
)
from windlass.agent.hooks import Hook
from windlass.models.anthropic import anthropic_body, anthropic_turns
from windlass.models.openai import openai_body, openai_messages, openai_turns
from windlass.models.transport import ModelSettings
from windlass_protocol import JsonObject

READERS = (1, 100)
TURNS_TO_READER = 100
UNCOMPACTED_TOKENS = 10_000_000
"""More than a history has: its model writes no summaries."""
STREAM_CHUNKS = 200
REQUEST_TOOLS = 20
REQUEST_MESSAGES = 400
PAGE = "one page of the ledger of the northern region, newest first. " * 16
SECRETS = tuple(f"registered-secret-{number:04}-of-the-northern-region" for number in range(20))


@dataclass(frozen=True, slots=True)
class Size:
    """How much to run."""

    steps: int
    deltas: int
    rounds: int
    runs: tuple[int, int]
    """Steps of the short and of the long run that are read."""


FULL = Size(steps=50, deltas=1_000, rounds=7, runs=(50, 2_000))
QUICK = Size(steps=2, deltas=10, rounds=1, runs=(2, 4))


@hook("before_tool_call", right="veto")
async def allow(seen: HookCall) -> None:
    """Allow every call."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One kind of step."""

    name: str
    tools: int = 1
    calls: int = 1
    """Calls in one answer."""
    runs_in_thread: bool = False
    """Whether the tool is a sync function."""
    hooks: tuple[Hook, ...] = ()
    secrets: tuple[str, ...] = ()


PLAIN = Workload("tools: 1")
FIVE_CALLS = Workload("five calls in one answer", calls=5)
WITH_HOOK = Workload("one hook before each call", hooks=(allow,))
SYNC_TOOL = Workload("a sync tool", runs_in_thread=True)
EACH_CALL = "… of these, each call"
HELD = "tokens of prose held back by masking"
WORKLOADS = (
    PLAIN,
    Workload("tools: 20", tools=20),
    Workload("tools: 100", tools=100),
    FIVE_CALLS,
    WITH_HOOK,
    SYNC_TOOL,
    Workload(f"registered secrets: {len(SECRETS)}", secrets=SECRETS),
)


def loop_rows(size: Size, effort: Effort) -> list[Row]:
    """Return the lines of the table."""
    return [
        *asyncio.run(_step_rows(size)),
        *asyncio.run(_program_rows(size)),
        *asyncio.run(_stream_rows(size)),
        *asyncio.run(_delta_rows(size)),
        *_request_rows(effort),
        *asyncio.run(_held_rows()),
        *asyncio.run(_read_rows(size)),
    ]


def loop_numbers(rows: Sequence[Row]) -> Numbers:
    """Return the numbers of the goals."""
    costs = {row.what: row.cost for row in rows}
    plain, hook_us, sync_us = (
        costs[f"a step in memory, {each.name}"] for each in (PLAIN, WITH_HOOK, SYNC_TOOL)
    )
    programs = [costs[_program_name(name)] for name in PROGRAMS]
    return {
        "hook_ms": (hook_us - plain) / 1e3,
        "sync_tool_ms": (sync_us - plain) / 1e3,
        "parallel_call": costs[EACH_CALL] / plain,
        "program_ms": max(programs) / 1e3,
        "held_tokens": costs[HELD],
    }


class Caller:
    """Makes the same number of tool calls in each step; its work does not grow with the history."""

    def __init__(self, steps: int, *, calls: int = 1) -> None:
        self._steps = steps
        self._calls = range(calls)

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        step = len(messages) // (1 + len(self._calls))
        if step == self._steps:
            if step and PAGE not in messages[-1].content:
                raise RuntimeError(f"the tool returned no page: {messages[-1].content[:200]}")
            yield LLMStreamChunk(content_delta="All pages are here.", finish_reason="stop")
            return
        for number in self._calls:
            arguments: JsonObject = {"query": "open invoices", "page": step}
            call = ToolCall(id=f"c{step}.{number}", name="lookup_0", arguments=arguments)
            last = number == self._calls[-1]
            yield LLMStreamChunk(tool_call_delta=call, finish_reason="tool-calls" if last else None)


class Talker:
    """Says words one by one; with `pauses`, all that wait for a word have a turn before the next."""

    def __init__(self, *, pauses: bool) -> None:
        self.words = 1
        self._pauses = pauses

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        for _ in range(self.words):
            if self._pauses:
                await _a_turn_for_all()
            yield LLMStreamChunk(content_delta="word ")
        yield LLMStreamChunk(finish_reason="stop")


async def _a_turn_for_all() -> None:
    for _ in range(2):
        await asyncio.sleep(0)


def _tools(count: int, *, runs_in_thread: bool = False) -> list[Tool[..., object]]:
    async def lookup(query: str, page: int) -> str:
        """Look up one page of the ledger."""
        return PAGE

    def lookup_in_thread(query: str, page: int) -> str:
        """Look up one page of the ledger."""
        return PAGE

    function = lookup_in_thread if runs_in_thread else lookup
    return [tool(mode="read", name=f"lookup_{number}")(function) for number in range(count)]


async def _cpu(work: Awaitable[object]) -> float:
    gc.collect()
    began = process_time()
    await work
    return process_time() - began


def _agent(workload: Workload, steps: int) -> Agent:
    return Agent(
        "bench",
        model=Caller(steps, calls=workload.calls),
        tools=_tools(workload.tools, runs_in_thread=workload.runs_in_thread),
        hooks=workload.hooks,
    )


async def _step_rows(size: Size) -> list[Row]:
    """Return a row for each workload, and two rows for a run without calls."""
    best: dict[str, float] = {}

    def keep(name: str, seconds: float) -> None:
        best[name] = min(best.get(name, seconds), seconds)

    speaker = Agent("bench", model=Caller(0))
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        runtimes = {
            each: await stack.enter_async_context(
                AgentRuntime.in_memory([_agent(each, size.steps)], secrets=each.secrets)
            )
            for each in WORKLOADS
        }
        memory = await stack.enter_async_context(AgentRuntime.in_memory([speaker]))
        file = await stack.enter_async_context(
            AgentRuntime.open(Path(folder) / "bench.db", agents=[speaker], durability="process")
        )
        for _ in range(size.rounds):
            for workload, runtime in runtimes.items():
                handle = await runtime.start_run("bench", "Collect the pages.")
                keep(workload.name, await _cpu(_end_of(handle)) / size.steps)
            keep("memory", await _cpu(_runs(memory, size.steps)) / size.steps)
            keep("file", await _cpu(_runs(file, size.steps)) / size.steps)
    plain = best[PLAIN.name]
    rows = [
        Row(
            f"a step in memory, {each.name}", best[each.name] * 1e6, "µs", PLAIN.name, best[each.name] / plain
        )
        for each in WORKLOADS
    ]
    a_call = best[FIVE_CALLS.name] / FIVE_CALLS.calls
    after = WORKLOADS.index(FIVE_CALLS) + 1
    rows.insert(after, Row(EACH_CALL, a_call * 1e6, "µs", f"a step, {PLAIN.name}", a_call / plain))
    return [
        *rows,
        Row(
            "a run in memory with one text answer",
            best["memory"] * 1e6,
            "µs",
            f"a step, {PLAIN.name}",
            best["memory"] / plain,
        ),
        Row(
            "… on SQLite, durability process",
            best["file"] * 1e6,
            "µs",
            "the run in memory",
            best["file"] / best["memory"],
        ),
    ]


PROGRAM_CALLS = 20
AT_ONCE = f"""
import asyncio
pages = await asyncio.gather(*[lookup_0("open invoices", page) for page in range({PROGRAM_CALLS})])
sum(len(page) for page in pages)
"""
IN_TURN = f"""
count = 0
for page in range({PROGRAM_CALLS}):
    count += len(await lookup_0("open invoices", page))
count
"""


class Coder:
    """Writes one program, and counts what it reads."""

    def __init__(self, source: str) -> None:
        self._source = source

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        if len(messages) > 1:
            if str(PROGRAM_CALLS * len(PAGE)) not in messages[-1].content:
                raise RuntimeError(f"the program did not read the pages: {messages[-1].content[:200]}")
            yield LLMStreamChunk(content_delta="All pages are here.", finish_reason="stop")
            return
        call = ToolCall(id="c0", name="run_code", arguments={"code": self._source})
        yield LLMStreamChunk(tool_call_delta=call, finish_reason="tool-calls")


class Reading:
    """A model, and the characters that it has read."""

    def __init__(self, model: Caller | Coder) -> None:
        self._model = model
        self.chars = self.requests = 0

    def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        self.requests += 1
        self.chars += len(json.dumps([*(tools or ())])) + sum(len(one.content) for one in messages)
        return self._model.stream(messages, tools=tools, temperature=temperature)


PROGRAMS = ("at once", "one after the other")


def _program_name(name: str) -> str:
    return f"{PROGRAM_CALLS} calls in one program, {name}"


async def _program_rows(size: Size) -> list[Row]:
    """Compare calls in one program with as many steps; the CPU of the interpreter is a row of its own."""
    models = {
        "steps": Reading(Caller(PROGRAM_CALLS)),
        "at once": Reading(Coder(AT_ONCE)),
        "one after the other": Reading(Coder(IN_TURN)),
    }
    best = dict.fromkeys(models, float("inf"))
    before = os.times()
    async with AsyncExitStack() as stack:
        runtimes = {
            name: await stack.enter_async_context(
                AgentRuntime.in_memory(
                    [Agent("bench", model=model, tools=_tools(1), code_mode=name != "steps")]
                )
            )
            for name, model in models.items()
        }
        for _ in range(size.rounds):
            for name, runtime in runtimes.items():
                best[name] = min(best[name], await _cpu(_runs(runtime, size.rounds)) / size.rounds)
    steps, after = models["steps"], os.times()
    rows: list[Row] = []
    for name in PROGRAMS:
        rows.append(
            Row(
                _program_name(name),
                best[name] * 1e6,
                "µs",
                f"{PROGRAM_CALLS} steps",
                best[name] / best["steps"],
            )
        )
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    each = spent / (2 * size.rounds * size.rounds)
    rows.append(
        Row(
            "… CPU of the interpreter's process, each",
            each * 1e6,
            "µs",
            f"{PROGRAM_CALLS} steps",
            each / best["steps"],
        )
    )
    one, many = models["at once"], steps
    chars, all_chars = one.chars / one.requests * 2, many.chars / many.requests * (PROGRAM_CALLS + 1)
    rows.append(
        Row(
            "… characters that the model reads, of 2 requests",
            chars,
            "",
            f"{PROGRAM_CALLS + 1} requests",
            chars / all_chars,
        )
    )
    return rows


async def _end_of(handle: RunHandle) -> None:
    result = await handle.wait()
    if result.error is not None:
        raise RuntimeError(f"a run failed: {result.error.message}")


async def _runs(runtime: AgentRuntime, count: int) -> None:
    for _ in range(count):
        await _end_of(await runtime.start_run("bench", "Say something."))


async def _stream_rows(size: Size) -> list[Row]:
    """Compare a chunk of a long answer that has no reader to a chunk of the bare generator."""
    model = Talker(pauses=False)
    one = many = bare = float("inf")
    async with AgentRuntime.in_memory([Agent("bench", model=model)]) as runtime:
        for _ in range(size.rounds):
            model.words = 1
            one = min(one, await _cpu(_runs(runtime, size.steps)))
            model.words = STREAM_CHUNKS + 1
            many = min(many, await _cpu(_runs(runtime, size.steps)))
            bare = min(bare, await _cpu(_drained(model, size.steps)))
    chunks = STREAM_CHUNKS * size.steps
    cost, floor = (many - one) / chunks, bare / (chunks + 2 * size.steps)
    what = f"a chunk of a stream of {STREAM_CHUNKS}"
    return [Row(what, cost * 1e6, "µs", "the bare generator", cost / floor)]


class Speaker:
    """Says prose token by token, and notes after each how many of them no reader has seen whole."""

    def __init__(self) -> None:
        self.shown = self.held = 0

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        ends: list[int] = []
        for token in re.findall(r" ?[^ ]+", TEXT.strip()):
            ends.append(len(token) + (ends[-1] if ends else 0))
            yield LLMStreamChunk(content_delta=token)
            for _ in range(TURNS_TO_READER):
                await asyncio.sleep(0)
            self.held = max(self.held, sum(end > self.shown for end in ends))
        yield LLMStreamChunk(finish_reason="stop")


async def _held_rows() -> list[Row]:
    """Count the tokens that a reader gets only with a later one."""
    model = Speaker()
    agent = Agent("bench", model=model)
    async with AgentRuntime.in_memory([agent]) as runtime:
        async for event in (await runtime.start_run(agent, "Talk.")).events():
            if event.type == "message.appended":
                model.shown += len(str(event.data["messageDelta"]))
    if model.shown != len(TEXT.strip()):
        raise RuntimeError(f"{model.shown} of {len(TEXT.strip())} characters were shown")
    return [Row(HELD, model.held, "", "none", None)]


async def _drained(model: Talker, times: int) -> None:
    for _ in range(times):
        async for _ in model.stream(()):
            pass


async def _delta_rows(size: Size) -> list[Row]:
    rows: list[Row] = []
    model = Talker(pauses=True)
    agent = Agent("bench", model=model)
    async with AgentRuntime.in_memory([agent]) as runtime:
        for readers in READERS:
            one = many = queues = float("inf")
            for _ in range(size.rounds):
                model.words = 1
                one = min(one, await _cpu(_read_by(await runtime.start_run(agent, "Talk."), readers)))
                model.words = size.deltas + 1
                many = min(many, await _cpu(_read_by(await runtime.start_run(agent, "Talk."), readers)))
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


def _request_rows(effort: Effort) -> list[Row]:
    """Compare what is made of a long conversation at one step to turning it into JSON."""
    settings = ModelSettings()
    tools = [one.definition for one in _tools(REQUEST_TOOLS)]
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
            f"request to {name}, messages: {REQUEST_MESSAGES}, tools: {REQUEST_TOOLS}",
            make,
            to="json.dumps of it",
            other=partial(json.dumps, make()),
            effort=effort,
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
            agent = Agent("bench", model=Caller(steps), tools=_tools(1), compaction=UNCOMPACTED_TOKENS)
            async with AgentRuntime.open(path, agents=[agent], durability="process") as runtime:
                await _end_of(await runtime.start_run(agent, "Collect the pages.", run_id=f"r{steps}"))
        for _ in range(size.rounds):
            async with AgentRuntime.open(path, agents=[], durability="process") as runtime:
                for name, steps in first:
                    one = (name, steps)
                    first[one] = min(first[one], await _cpu(_READS[name](runtime, f"r{steps}")))
                    for _ in range(_READS_AGAIN):
                        again[one] = min(again[one], await _cpu(_READS[name](runtime, f"r{steps}")))
    rows: list[Row] = []
    for name in _READS:
        # Decisions are as many as steps, so their cost is that of one.
        is_each = name == "decisions"
        for what, costs in (("", again), (", first in a process", first)):
            ours, theirs = (costs[name, steps] / (steps if is_each else 1) for steps in (long, short))
            unit = ", each" if is_each else ""
            cost = ours * 1e6
            rows.append(
                Row(f"{name}, {long:,} steps{what}{unit}", cost, "µs", f"{short} steps", ours / theirs)
            )
    return rows


_READS: dict[str, Callable[[AgentRuntime, str], Awaitable[object]]] = {
    "run_snapshot": lambda runtime, run_id: runtime.run_snapshot(run_id),
    "requests": lambda runtime, run_id: runtime.handle(run_id).open_requests(),
    "decisions": lambda runtime, run_id: runtime.handle(run_id).decisions(),
}
_READS_AGAIN = 5
