"""Simulated users: they start and watch runs, answer requests and cancel."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import Final, TypeVar

from tests.simulator.plan import RunPlan, Scenario
from tests.simulator.process import Process, worker_package_id
from tests.simulator.world import World

from windlass.agent.agent import output_contract
from windlass.errors import AgentError, Ambiguous, Unavailable
from windlass.ports.feed import EventStream
from windlass.runtime.compose import AgentRuntime
from windlass_protocol import (
    BudgetLimits,
    Cursor,
    Event,
    InputKind,
    InputRequest,
    InputResponse,
    RunMode,
    RunRequest,
    RunResult,
)
from windlass_protocol.frozen import mutable

T = TypeVar("T")

TRIES_MAX: Final = 40
PAUSE_S: Final = 1.0
COST_MICROS_MAX: Final = 10_000_000
"""The limit in money of each run: interrupted calls count with what was set aside for them."""
_TYPED: Final = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
_CONTRACT: Final = output_contract(_TYPED, "worker")


class Gone(Exception):
    """The process ended before it answered."""


@mutable
class Watcher:
    """A subscriber that reconnects again and again with its last cursor."""

    name: str
    scope: str
    """all, session or run."""
    scope_id: str
    seen: list[tuple[str, int, int]] = field(default_factory=list[tuple[str, int, int]])
    """Session, number and position of every event of the journal."""
    cursor: Cursor | None = None
    connection: int = 0
    """The number of the connection; events on an older one are ignored."""

    def subscribe(self, runtime: AgentRuntime) -> EventStream:
        """Subscribe again from the last cursor."""
        match self.scope:
            case "all":
                return runtime.subscribe_all(self.cursor)
            case "session":
                return runtime.sessions.subscribe(self.scope_id, self.cursor)
            case _:
                return runtime.subscribe_run(self.scope_id, self.cursor)


class People:
    """All users of the runtime."""

    def __init__(self, world: World, scenario: Scenario) -> None:
        self.world = world
        self.scenario = scenario
        self.processes: list[Process] = []
        self.accepted: set[str] = set()
        """Runs that a runtime has acknowledged."""
        self.cancelled: set[str] = set()
        self.answered: list[InputResponse] = []
        self.results: dict[str, RunResult] = {}
        self.watchers: list[Watcher] = []
        self._reading: list[asyncio.Task[None]] = []
        self._asked: set[str] = set()

    # asking

    async def via(self, ask: Callable[[AgentRuntime], Awaitable[T]], process: Process | None = None) -> T:
        """Send a request to a process.

        Raises:
            Gone: it ended before it answered.
        """
        process = process or await self.any_process()
        task = asyncio.get_running_loop().create_task(_wait(ask(process.runtime)), context=process.context)
        task.add_done_callback(_forget)
        await asyncio.wait({task, process.down}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Gone
        return task.result()

    async def any_process(self) -> Process:
        """Return a running process."""
        while True:
            there = [process for process in self.processes if not process.is_down]
            if there:
                return there[self.world.below(len(there))]
            await self.world.clock.sleep(PAUSE_S)

    async def insist(self, ask: Callable[[AgentRuntime], Awaitable[T]]) -> T:
        """Repeat a request until there is an answer."""
        for _ in range(TRIES_MAX):
            try:
                return await self.via(ask)
            except (Gone, Unavailable, Ambiguous):
                await self.world.clock.sleep(PAUSE_S)
        raise Gone

    # runs

    async def start(self, plan: RunPlan) -> None:
        """Start a run, and wait for its result."""
        await self.world.clock.sleep(plan.start_s)
        request = _request(plan)
        await self.insist(lambda runtime: runtime.start_run(request))
        if await self.world.store.run(plan.run_id) is None:
            self.world.blame(f"the start of {plan.run_id} was acknowledged before it was durable")
        self.accepted.add(plan.run_id)
        if self.world.chance(0.3):
            # A caller that is not sure asks again.
            await self.insist(lambda runtime: runtime.start_run(request))

    async def cancel(self, plan: RunPlan) -> None:
        """Cancel a run."""
        await self.world.clock.sleep(plan.start_s + (plan.cancel_s or 0.0))
        while plan.run_id not in self.accepted:
            await self.world.clock.sleep(PAUSE_S)
        await self.insist(lambda runtime: runtime.cancel_run(plan.run_id, by="user"))
        self.cancelled.add(plan.run_id)

    async def wait(self, run_id: str) -> RunResult:
        """Wait for a run; use another process whenever one ends."""
        while True:
            try:
                result = await self.via(lambda runtime: runtime.handle(run_id).wait())
            except (Gone, Unavailable, Ambiguous):
                await self.world.clock.sleep(PAUSE_S)
                continue
            self.results[run_id] = result
            return result

    # watching

    def watch(self) -> None:
        """Subscribe to everything, to a session and to a run."""
        plan = self.scenario.runs[0]
        self.watchers = [
            Watcher("the one who sees all", "all", ""),
            Watcher("the one of the session", "session", plan.session_id),
            Watcher("the one of the run", "run", plan.run_id),
        ]
        for watcher in self.watchers:
            self._reading.append(asyncio.create_task(self._read(watcher)))

    async def _read(self, watcher: Watcher) -> None:
        while True:
            if watcher.scope == "run" and watcher.scope_id not in self.accepted:
                await self.world.clock.sleep(PAUSE_S)
                continue
            process = await self.any_process()
            try:
                await self.via(lambda runtime: self._follow(watcher, runtime), process)
            except (Gone, Unavailable, Ambiguous):
                await self.world.clock.sleep(PAUSE_S / 4)

    async def _follow(self, watcher: Watcher, runtime: AgentRuntime) -> None:
        """Read until the subscriber ends this connection."""
        stream = watcher.subscribe(runtime)
        watcher.connection += 1
        connection = watcher.connection
        try:
            async for event in stream:
                if connection != watcher.connection:
                    return
                watcher.cursor = stream.cursor
                if event.index is not None:
                    continue
                self.world.show(event, watcher.name)
                watcher.seen.append((event.session_id or "", event.seq or 0, event.meta.position or 0))
                if watcher.scope == "all" and event.type == "input.requested":
                    self._hear(event)
                if self.world.chance(self.scenario.reconnects):
                    return
        finally:
            await stream.aclose()

    def _hear(self, event: Event) -> None:
        requests = event.data.get("requests")
        assert isinstance(requests, list)
        for one in requests:
            request = InputRequest.model_validate(one)
            if request.request_id not in self._asked:
                self._asked.add(request.request_id)
                asyncio.create_task(self._decide(event.session_id or "", request)).add_done_callback(_forget)

    def have_seen_all(self) -> bool:
        """Return whether every subscriber has seen all durable records."""
        drafts = self.world.drafts
        everything, session, run = self.watchers
        return (
            len(everything.seen) == sum(len(one) for one in drafts.values())
            and len(session.seen) == len(drafts.get(session.scope_id, ()))
            and len(run.seen) == sum(d.run_id == run.scope_id for one in drafts.values() for d in one)
        )

    # answering

    async def _decide(self, session_id: str, request: InputRequest) -> None:
        """Answer in time, late, twice, wrongly or not at all."""
        world = self.world
        style = ("prompt", "prompt", "prompt", "late", "never", "twice", "wrong")[world.below(7)]
        if style == "never":
            return
        await world.clock.sleep(world.random() * (2.0 if style != "late" else 30.0))
        if style == "wrong":
            wrong = InputResponse(request_id=request.request_id, option_id="whatever", responder="eve")
            await self.answer(session_id, wrong)
        response = self._response(request)
        await self.answer(session_id, response)
        if style == "twice":
            await self.answer(session_id, response)

    def _response(self, request: InputRequest) -> InputResponse:
        world = self.world
        if request.kind is InputKind.RECOVERY:
            option = ("retry", "skip", "supply")[world.below(3)]
        else:
            option = ("approve", "approve", "approve_session", "deny")[world.below(4)]
            is_offered = option in {one.id for one in request.options or ()}
            option = option if is_offered else "approve"
        return InputResponse(
            request_id=request.request_id, option_id=option, text='"supplied"', responder=f"p{world.below(2)}"
        )

    async def answer(self, session_id: str, response: InputResponse) -> None:
        """Send an answer; a refused answer is not counted."""
        posts = len(self.world.posts)
        try:
            await self.insist(lambda runtime: runtime.sessions.answer(session_id, (response,)))
        except (AgentError, Gone):
            return
        if not any(post.kind == "answer" for post in self.world.posts[posts:]):
            self.world.blame(f"an answer to {response.request_id} was acknowledged before it was durable")
        self.answered.append(response)

    async def answer_everything(self) -> None:
        """Answer all open requests."""
        for session_id in sorted({plan.session_id for plan in self.scenario.runs}):
            try:
                requests = await self.via(lambda runtime: runtime.sessions.open_requests(session_id))  # noqa: B023 - it is called before the next turn
            except (Gone, AgentError):
                continue
            for request in requests:
                await self.answer(session_id, self._response(request))

    async def leave(self) -> None:
        """Stop watching."""
        for task in self._reading:
            task.cancel()
        await asyncio.wait(self._reading)


async def _wait(asked: Awaitable[T]) -> T:
    return await asked


def _forget(task: "asyncio.Task[T]") -> None:
    """Discard the result of an abandoned request: its error is not a problem of the event loop."""
    if not task.cancelled():
        task.exception()


def _request(plan: RunPlan) -> RunRequest:
    return RunRequest(
        run_id=plan.run_id,
        agent_id="worker",
        input=f"run {plan.run_id} please",
        session_id=plan.session_id,
        package_id=worker_package_id(),
        mode=RunMode.TASK if plan.is_task else None,
        budget=BudgetLimits(max_steps=plan.max_steps, max_cost_micros=COST_MICROS_MAX),
        output_contract=_CONTRACT if plan.is_typed else None,
    )
