"""Crashes at every call of the store: a run is broken off there and continued by a second runtime."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Final, TypeVar, cast

from pydantic import JsonValue

from windlass.adapters.journals.memory import MemoryStore
from windlass.agent.agent import AnyAgent
from windlass.agent.policy import allow_start
from windlass.errors import Conflict
from windlass.feed import Feed
from windlass.ports.listing import OpenRequest
from windlass.runtime.compose import AgentRuntime
from windlass.runtime.handle import RunHandle
from windlass.testing.stores import FullStore, WrappedStore
from windlass.testing.time import FakeClock, check_no_loop, run_in_fake_time, seeded_random, sequential_ids
from windlass_harness.loop.people import is_divergence
from windlass_protocol import InputKind, InputRequest, InputResponse, RunResult, UserContent
from windlass_protocol.frozen import sealed

T = TypeVar("T")
RUN_ID: Final = "run"


@sealed
class Crash:
    """A crash, and the result of the run that was continued after it."""

    number: int
    """The crash is at this point of the run, from 1."""
    point: str
    """The call of the store, `asked` (nothing has happened) or `done` (the caller does not know)."""
    result: RunResult


def crash_everywhere(
    agent: AnyAgent,
    message: object,
    *,
    answer: str | Callable[[InputRequest], InputResponse] = "approve",
    recover: str = "retry",
    undo: bool = False,
    send: Mapping[str, JsonValue] | None = None,
) -> Iterator[Crash]:
    """Run an agent or a workflow once for each point at which its process can die; yield each result.

    `message` is that of the run: a text or parts, or the argument of the workflow.

    Everything is in memory and in fake time. At the crash all tasks of the first runtime are cancelled, and
    nothing of it reaches the store any more; a second runtime continues the run. The model must answer by its
    history, see `by_history`. `answer` is the option for approvals and questions, or a function that answers
    all requests; `recover` is the option for calls that the crash interrupted. With `undo` the run is then
    undone, and the crash is in the run that reverses its calls; its result is yielded. `send` are events
    that are sent when the run has started: their data by name.

    Raises:
        RuntimeError: an event loop is running in this thread, or a run never ends.
        AssertionError: a workflow went another way than its records.
    """
    check_no_loop("crash_everywhere")
    play = _Play(agent, message, _choice(answer, recover), send or {})
    number = 0
    while True:
        number += 1
        clock = FakeClock()
        crash = run_in_fake_time(_crash_at(number, play, clock, undo=undo), clock=clock)
        if crash is None:
            return
        yield crash


def run_once(
    agent: AnyAgent,
    message: object,
    *,
    answer: str | Callable[[InputRequest], InputResponse] = "approve",
    send: Mapping[str, JsonValue] | None = None,
) -> RunResult:
    """Run an agent or a workflow as `crash_everywhere` does, without a crash, and return the result."""
    clock = FakeClock()
    play = _Play(agent, message, _choice(answer, "retry"), send or {})
    return run_in_fake_time(_drive(MemoryStore(), clock, play), clock=clock)


@sealed
class _Play:
    """A run, and what people and other systems do in it."""

    agent: AnyAgent
    message: object
    choose: Callable[[InputRequest], InputResponse]
    events: Mapping[str, JsonValue]


def _choice(
    answer: str | Callable[[InputRequest], InputResponse], recover: str
) -> Callable[[InputRequest], InputResponse]:
    if not isinstance(answer, str):
        return answer

    def choose(request: InputRequest) -> InputResponse:
        option_id = recover if request.kind is InputKind.RECOVERY else answer
        return InputResponse(request_id=request.request_id, option_id=option_id)

    return choose


_POLLS: Final = frozenset({"documents", "due", "enlist", "next_document_ms", "next_wake_ms"})
"""Calls of the store that a process makes while it waits."""


class _Gate:
    """The output of a process: from its crash on, nothing gets through."""

    def __init__(self, at: int) -> None:
        self._at = at
        self._polls: set[str] = set()
        self.point = ""
        self.is_down = asyncio.Event()
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def reach(self, point: str) -> None:
        """Pass a point; the process may die here.

        A process that waits asks the store for work again and again. It counts once until something else
        happens: at all of these points it leaves the same behind.
        """
        if point.partition(" ")[0] not in _POLLS:
            self._polls.clear()
        elif point in self._polls:
            await self.pass_through()
            return
        else:
            self._polls.add(point)
        self._at -= 1
        if self._at == 0:
            self.point = point
            self.is_down.set()
        await self.pass_through()

    async def pass_through(self) -> None:
        """Return if the process lives, and never if it does not."""
        if self.is_down.is_set():
            await asyncio.shield(self._closed)

    def end(self) -> None:
        """End the tasks that wait for ever."""
        self._closed.cancel()


class _Store(WrappedStore):
    """A store as a process sees it that may die at any call."""

    def __init__(self, inner: FullStore, gate: _Gate) -> None:
        super().__init__(inner)
        self._gate = gate

    async def _pass(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        await self._gate.reach(f"{name} asked")
        result = await call()
        await self._gate.reach(f"{name} done")
        return result


class _KeptStore(WrappedStore):
    """A store that stays open when its runtime closes."""

    async def aclose(self) -> None:
        """Do nothing."""


class _Clock:
    """A clock that stops for a process with its death."""

    def __init__(self, inner: FakeClock, gate: _Gate) -> None:
        self._inner = inner
        self._gate = gate

    def now(self) -> datetime:
        """Return the wall-clock time."""
        return self._inner.now()

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self._inner.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return once the seconds have passed, if the process lives then."""
        await self._inner.sleep(seconds)
        await self._gate.pass_through()


async def _crash_at(number: int, play: _Play, clock: FakeClock, *, undo: bool) -> Crash | None:
    """Crash at a point; None if the run has ended before."""
    store, gate = MemoryStore(), _Gate(number)
    mine, drive = asyncio.current_task(), _undo if undo else _drive
    if undo:
        await _drive(_KeptStore(store), clock, play)
    first = asyncio.ensure_future(drive(_Store(store, gate), _Clock(clock, gate), play))
    down = asyncio.ensure_future(gate.is_down.wait())
    await asyncio.wait({first, down}, return_when=asyncio.FIRST_COMPLETED)
    if not gate.is_down.is_set():
        down.cancel()
        await first
        return None
    for task in asyncio.all_tasks():
        if task is not mine:
            task.cancel()
    result = await drive(store, clock, play)
    gate.end()
    return Crash(number, gate.point, result)


async def _drive(store: FullStore, clock: FakeClock | _Clock, play: _Play) -> RunResult:
    """Start the run or continue it, answer its requests, and return its result."""
    async with _runtime(store, clock, play.agent) as runtime:
        message = cast(UserContent, play.message)
        handle = await runtime.start_run(play.agent, message, run_id=RUN_ID, session_id=RUN_ID)
        for name, data in play.events.items():
            # It has ended before the crash.
            with suppress(Conflict):
                await handle.send(name, data, key=name)
        return await _follow(runtime, handle, play.choose)


async def _undo(store: FullStore, clock: FakeClock | _Clock, play: _Play) -> RunResult:
    """Undo the run or continue to undo it, answer its requests, and return its result."""
    async with _runtime(store, clock, play.agent) as runtime:
        return await _follow(runtime, await runtime.handle(RUN_ID).undo(), play.choose)


def _runtime(store: FullStore, clock: FakeClock | _Clock, agent: AnyAgent) -> AgentRuntime:
    builder = AgentRuntime.builder().journal(store).content(store).event_bus(Feed(store, clock))
    builder.options(clock=clock, ids=sequential_ids(f"{id(store):x}"), random=seeded_random(1))
    return builder.policy(allow_start).agent(agent).options(is_attended=True).build()


async def _follow(
    runtime: AgentRuntime, handle: RunHandle[object], choose: Callable[[InputRequest], InputResponse]
) -> RunResult:
    async for event in handle.events():
        if event.type == "run.waiting":
            for request in (await runtime.sessions.requests()).items:
                if is_divergence(request.request):
                    raise AssertionError(request.request.prompt)
                await _answer(runtime, request, choose)
    return await runtime.handle(handle.run_id).wait()


async def _answer(
    runtime: AgentRuntime, request: OpenRequest, choose: Callable[[InputRequest], InputResponse]
) -> None:
    # Answered before the crash, and not taken yet.
    with suppress(Conflict):
        await runtime.sessions.answer(request.session_id, [choose(request.request)])
