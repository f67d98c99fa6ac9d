"""The program of killed processes: runs with failpoints, and tools that leave traces."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal, Protocol

from tests.faults.mutants import mutated

from windlass import Agent, AgentRuntime, ToolContext, tool
from windlass.adapters.journals.memory import MemoryStore
from windlass.adapters.system import SystemClock, chance, new_id
from windlass.agent.policy import allow_start
from windlass.engine.writing.scribe import RedactingScribe
from windlass.errors import Conflict
from windlass.feed import Feed
from windlass.ports.interpreter import Interpreter
from windlass.ports.journal import Appended, Batch
from windlass.ports.machine import Machine
from windlass.ports.model import LLMMessage, LLMStreamChunk
from windlass.ports.wakes import Wakes
from windlass.runtime.handle import RunHandle
from windlass.runtime.registry import Registry, RuntimePorts, register_agent
from windlass.sql.statements import Cursor, SqlConnection, Value
from windlass.sqlite.schema import Durability, connect
from windlass.sqlite.store import SqliteStore
from windlass.testing import Answer, Failpoints, FailpointStore, ScriptedModel, call, say
from windlass.testing.stores import FullStore
from windlass_harness.record import Record
from windlass_protocol import InputRequest, JsonObject

WAIT_S: Final = 300.0
"""The longest that any one thing may take."""
Choice = Literal["retry", "skip", "supply"]
Detail = Literal["calls", "commits", "statements"]
"""Places of failpoints: around store calls, also commits, or also all statements."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A run: its steps, each of which is names of tools joined with +."""

    session_id: str
    run_id: str
    steps: tuple[str, ...]

    @property
    def message(self) -> str:
        return f"{self.run_id}: {' '.join(self.steps)}"


@dataclass(frozen=True, slots=True)
class Life:
    """One process: its program, and the point where it ends."""

    folder: Path
    plots: tuple[Plot, ...]
    at: int | None = None
    """The point at which it ends."""
    started: frozenset[str] = frozenset()
    """Runs with an acknowledged start: they must exist."""
    durability: Durability = "process"
    detail: Detail = "commits"
    choice: Choice = "retry"
    act: Literal["kill", "stop"] = "kill"
    ahead_s: float = 0.0
    """The clock offset: with it, owners of earlier processes have lost their lease."""
    mutant: str = ""


class Ledger(Protocol):
    """The file of traces."""

    def write(self, **facts: object) -> None:
        """Leave one."""
        ...


class Trace:
    """A file of JSON lines that outlives the process that writes it."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

    def write(self, **facts: object) -> None:
        os.write(self._file, json.dumps(facts).encode() + b"\n")
        with suppress(OSError):
            os.fsync(self._file)


def read_trace(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


# the agent


def make_agent(points: Failpoints, ledger: Ledger) -> Agent:
    """Return an agent with tools of every effect class that record their calls."""

    def effect(name: str, ctx: ToolContext) -> dict[str, str]:
        points.hit(f"{name} before")
        proof = f"{ctx.idempotency_key}#{ctx.attempt}#{os.getpid()}"
        ledger.write(
            session=ctx.session_id,
            key=ctx.idempotency_key,
            attempt=ctx.attempt,
            tool=name,
            proof=proof,
            pid=os.getpid(),
        )
        points.hit(f"{name} after")
        return {"proof": proof}

    @tool(mode="read", effect="read", description="Read something.")
    async def look(ctx: ToolContext) -> dict[str, str]:
        return effect("look", ctx)

    @tool(mode="safe_write", effect="idempotent", description="Set something.")
    async def note(ctx: ToolContext) -> dict[str, str]:
        return effect("note", ctx)

    @tool(mode="safe_write", effect="once", description="Pay something.")
    async def pay(ctx: ToolContext) -> dict[str, str]:
        return effect("pay", ctx)

    @tool(mode="safe_write", effect="once", description="Send something, in a thread.")
    def send(ctx: ToolContext) -> dict[str, str]:
        return effect("send", ctx)

    return Agent("shop", model=_PointedModel(points), tools=[look, note, pay, send])


def answer(messages: Sequence[LLMMessage]) -> Answer:
    """Answer by the plot in the last message of the user."""
    at = max(index for index, message in enumerate(messages) if message.role == "user")
    steps = str(messages[at].content).split(": ", 1)[1].split()
    done = sum(message.role == "assistant" for message in messages[at:])
    if done == len(steps):
        results = [message.content for message in messages[at:] if message.role == "tool"]
        return say(f"done after {len(results)} results")
    names = steps[done].split("+")
    taken = sum(len(message.tool_calls) for message in messages)
    parts = [call(name, {}, call_id=f"call-{taken + index + 1}") for index, name in enumerate(names)]
    return sum(parts[1:], parts[0])


class _PointedModel(ScriptedModel):
    """The scripted model, with points before and after its answer."""

    def __init__(self, points: Failpoints) -> None:
        super().__init__(answer)
        self._points = points

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        self._points.hit("model before")
        async for chunk in super().stream(messages, tools=tools, temperature=temperature):
            yield chunk
        self._points.hit("model after")


# the runtime


class AheadClock(SystemClock):
    """A clock that is ahead of the others."""

    def __init__(self, seconds: float) -> None:
        self._ahead = timedelta(seconds=seconds)

    def now(self) -> datetime:
        return super().now() + self._ahead


def runtime_on(
    store: FullStore,
    agents: Iterable[Agent],
    *,
    machine: Machine | None = None,
    interpreter: Interpreter | None = None,
    wakes: Wakes | None = None,
    is_driving: bool = True,
) -> AgentRuntime:
    """Return a runtime on a store."""
    registry = Registry()
    for agent in agents:
        registry.add(register_agent(agent))
    machine = machine or Machine(SystemClock(), new_id, chance)
    return AgentRuntime(
        RuntimePorts(
            machine,
            RedactingScribe(),
            store=store,
            bus=Feed(store, machine.clock),
            content=store,
            start_policy=allow_start,
            registry=registry,
            interpreter=interpreter,
            wakes=wakes,
            is_driving=is_driving,
        )
    )


@dataclass(slots=True)
class _PointedConnection:
    """A connection with failpoints around its statements, in its thread."""

    inner: SqlConnection
    points: Failpoints
    commits_only: bool

    def execute(self, sql: str, parameters: Sequence[Value] = (), /) -> Cursor:
        word = sql.split(maxsplit=1)[0]
        if word in ("PRAGMA", "SELECT", "CREATE") or (self.commits_only and word != "COMMIT"):
            return self.inner.execute(sql, parameters)
        self.points.hit(f"{word} asked")
        cursor = self.inner.execute(sql, parameters)
        self.points.hit(f"{word} done")
        return cursor

    def close(self) -> None:
        self.inner.close()


def pointed_connect(points: Failpoints, detail: Detail) -> Callable[[Path], SqlConnection]:
    if detail == "calls":
        return lambda path: _CalmConnection(connect(path))
    return lambda path: _PointedConnection(connect(path), points, detail == "commits")


_TRANSACTION: Final = Lock()
"""Held during a transaction, so that a process is not frozen in one: the file would stay locked."""


@dataclass(slots=True)
class _CalmConnection:
    """A connection that defers freezing the process until its transaction ends."""

    inner: SqlConnection

    def execute(self, sql: str, parameters: Sequence[Value] = (), /) -> Cursor:
        word = sql.split(maxsplit=1)[0]
        if word == "BEGIN":
            _TRANSACTION.acquire()
        try:
            return self.inner.execute(sql, parameters)
        finally:
            if word in ("COMMIT", "ROLLBACK"):
                _TRANSACTION.release()

    def close(self) -> None:
        self.inner.close()


def stop_process(name: str) -> None:
    """Freeze the process until it is continued."""
    with _TRANSACTION:
        os.kill(os.getpid(), signal.SIGSTOP)


# a life


async def live(life: Life) -> list[str]:
    """Run all plots to their ends; return the points that were passed."""
    points = Failpoints(life.at, **({"act": stop_process} if life.act == "stop" else {}))
    acks, ledger = Trace(life.folder / "acks"), Trace(life.folder / "ledger")
    agent = make_agent(points, ledger)
    inner = await SqliteStore.open(
        life.folder / "app.db",
        durability=life.durability,
        connect=pointed_connect(points, life.detail),
    )
    is_early = life.mutant == "early" and life.at is not None
    store = (EarlyStore if is_early else FailpointStore)(inner, points)
    machine = Machine(AheadClock(life.ahead_s), new_id, chance)
    with mutated(life.mutant):
        async with asyncio.timeout(WAIT_S), runtime_on(store, [agent], machine=machine) as runtime:
            await asyncio.gather(*(_play(runtime, agent, plot, life, acks) for plot in life.plots))
    return points.passed


def warm() -> None:
    """Warm up once, without threads: later processes are faster."""

    async def story() -> None:
        points, nowhere = Failpoints(), Trace(Path(os.devnull))
        agent = make_agent(points, nowhere)
        life = Life(Path(), ())
        async with asyncio.timeout(WAIT_S), runtime_on(MemoryStore(), [agent]) as runtime:
            await _play(runtime, agent, Plot("s", "r", ("look+note", "pay")), life, nowhere)

    asyncio.run(story())


async def _play(runtime: AgentRuntime, agent: Agent, plot: Plot, life: Life, acks: Trace) -> None:
    if plot.run_id in life.started:
        handle = runtime.handle(plot.run_id)
    else:
        handle = await runtime.start_run(agent, plot.message, session_id=plot.session_id, run_id=plot.run_id)
        acks.write(what="start", run=plot.run_id)
    async for event in handle.events():
        if event.index is None:
            seen = {"session": event.session_id, "seq": event.seq, "type": event.type, "data": event.data}
            acks.write(what="event", **seen)
        if event.type == "run.waiting":
            await answer_all(handle, life.choice)
    result = await handle.wait(timeout=WAIT_S)
    acks.write(what="result", run=plot.run_id, status=result.status, output=result.output)


async def answer_all(handle: RunHandle, choice: Choice) -> None:
    """Answer open requests until the run ends."""
    for request in await handle.open_requests():
        with suppress(Conflict):
            await handle.answer(request.request_id, choice, text=supplied(request), responder="tester")


def supplied(request: InputRequest) -> str:
    return json.dumps({"proof": f"supplied for {request.action.call_id}"})


async def read_back(folder: Path, sessions: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """Return all records of sessions, as the disk has them."""
    store = await SqliteStore.open(folder / "app.db", durability="process")
    try:
        return {name: [plain(one) for one in await _all(store, name)] for name in sessions}
    finally:
        await store.aclose()


async def _all(store: SqliteStore, session_id: str) -> list[Record]:
    records: list[Record] = []
    while more := await store.read(session_id, after=records[-1].seq if records else 0):
        records += more
    return records


def plain(record: Record) -> dict[str, Any]:
    return {
        "seq": record.seq,
        "position": record.position,
        "epoch": record.epoch,
        "type": record.type,
        "run": record.run_id,
        "data": record.data,
    }


# mutants: bugs that the tests must find


class EarlyStore(FailpointStore):
    """A store that acknowledges an append, and makes it when the next one comes."""

    def __init__(self, inner: FullStore, points: Failpoints) -> None:
        super().__init__(inner, points)
        self._held: dict[str, Batch] = {}

    async def append(self, batch: Batch) -> Appended:
        held = self._held.pop(batch.claim.session_id, None)
        if held is not None:
            await super().append(held)
        if batch.is_last:
            return await super().append(batch)
        self._held[batch.claim.session_id] = batch
        return Appended(batch.expected_seq + 1, 1)
