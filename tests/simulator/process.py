"""A simulated process: a real runtime that can be killed at any output.

Every output of the runtime goes through a gate. When the gate closes, nothing that the process does reaches
the store, the model, the tools or the clock. A crashed process never gets through again; a suspended one
continues much later.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar, copy_context
from datetime import datetime
from typing import Final, TypeVar

from pydantic import JsonValue
from tests.simulator.plan import HELPER, UNKNOWN, CallPlan, DoomPlan, Scenario
from tests.simulator.world import World

from windlass.agent import Agent
from windlass.agent.policy import RulesPolicy, allow_start
from windlass.engine.writing.scribe import RedactingScribe
from windlass.errors import Unavailable
from windlass.feed import Feed
from windlass.ports.machine import Machine
from windlass.ports.model import LLMMessage, LLMStreamChunk, LLMUsage, ModelPrice, ToolCallDelta
from windlass.runtime.compose import AgentRuntime
from windlass.runtime.registry import Registry, RuntimePorts
from windlass.testing.interpreter import WaveInterpreter, waves
from windlass.testing.stores import FaultRates, FaultyStore
from windlass.testing.time import sequential_ids
from windlass.tools import ToolFailed, tool
from windlass.tools.context import ToolContext
from windlass_harness.loop.events import Draft
from windlass_harness.policy import CallFacts, PolicySet, Rule
from windlass_harness.record import Record
from windlass_harness.views import fold_runs
from windlass_protocol import (
    AllowDecision,
    AskDecision,
    DeferDecision,
    DenyDecision,
    ErrorKind,
    FinishReason,
    InterruptDecision,
    JsonObject,
    ModifyDecision,
    PolicyDecision,
    PolicyKind,
    PolicyRef,
    RetryClass,
    ToolCall,
    encode,
)

T = TypeVar("T")

BRIEF_MS: Final = 4_000
DEFER_MS: Final = 2_000
TOOL_TIMEOUT_MS: Final = 6_000
_NO_FAULTS: Final = FaultRates(0.0, 0.0, 0.0, 0.0)
_REFS: Final = (PolicyRef(kind=PolicyKind.HOST, id="simulator", version="1"),)


class Process:
    """One runtime on the store of the world."""

    def __init__(self, world: World, scenario: Scenario, *, number: int, doom: DoomPlan | None) -> None:
        self.world = world
        self.scenario = scenario
        self.number = number
        self.doom = doom
        self.points = 0
        self.is_down = False
        self.was_gated = False
        self.owner_ids: list[str] = []
        """Its owner id in the store; a new one for each attempt to open it."""
        self.down = asyncio.get_running_loop().create_future()
        """Done while the process is closed or suspended."""
        self._gate: asyncio.Future[None] | None = None
        self.on_down: Callable[[Process], None] = lambda _: None
        self.context = copy_context()
        self.context.run(_PROCESS.set, self)
        self.store = GatedStore(self)
        self.clock = GatedClock(self)
        machine = Machine(self.clock, sequential_ids(f"p{number}"), world.random)
        self.runtime = AgentRuntime(
            RuntimePorts(
                machine,
                _SCRIBE,
                store=self.store,
                bus=Feed(self.store, self.clock),
                content=self.store,
                start_policy=allow_start,
                tool_policy=_ALLOWING if scenario.is_ruled else Policy(world),
                registry=_registry(has_family=bool(scenario.children), in_programs=world.in_programs),
                providers={"sim": Model(self)},
                # A millionth of a dollar for each token.
                prices=(("*", ModelPrice(1, 1)),),
                # A process of another release runs programs from their source.
                interpreter=WaveInterpreter(f"{number % 2}") if world.in_programs else None,
            )
        )

    async def pass_through(self) -> None:
        """Pass a point: the process may end here, and then nothing gets out."""
        self.points += 1
        if self.doom is not None and self.points == self.doom.at_point:
            self._go_down(self.doom)
        while self._gate is not None:
            await asyncio.shield(self._gate)

    def _go_down(self, doom: DoomPlan) -> None:
        """End the process: nothing gets out from now on, unless the end is orderly."""
        self.world.note(f"process {self.number} goes at point {self.points}: {doom.kind}")
        self.is_down = True
        self.down.set_result(None)
        if doom.kind != "close":
            self.was_gated = True
            self._gate = asyncio.get_running_loop().create_future()
        self.on_down(self)

    def open_gate(self) -> None:
        """Release everything that waits at the gate."""
        if self._gate is not None:
            self.world.note(f"process {self.number} is back")
            self._gate.set_result(None)
            self._gate = None
            self.is_down = False
            self.down = asyncio.get_running_loop().create_future()

    def end(self) -> None:
        """Cancel all tasks that wait at the gate, at the end of the simulation."""
        if self._gate is not None:
            self._gate.cancel()

    async def perform(self, context: ToolContext, tag: str, *, verdict: str) -> str:
        """Perform the effect of a tool."""
        world, plan = self.world, self.scenario.call(tag)
        await self.pass_through()
        _check_call(world, plan, context, verdict)
        world.begin(context, tag, effect=_EFFECTS[plan.tool], is_late=self.was_gated)
        await self.pass_through()
        try:
            await self.clock.sleep(60.0 if plan.fate == "hang" else plan.delay_s)
        except asyncio.CancelledError:
            if plan.fate == "stubborn":
                await self.clock.sleep(plan.delay_s)
            raise
        if plan.fate == "fail":
            raise ToolFailed("it does not work")
        world.finish(context.idempotency_key)
        await self.pass_through()
        return f"{tag} is done"


_EFFECTS: Final = {"look": "read", "put": "idempotent", "pay": "once"}
_PROCESS: ContextVar[Process] = ContextVar("process of the simulation")


def _check_call(world: World, plan: CallPlan, context: ToolContext, verdict: str) -> None:
    """Check that a call runs with the arguments of the model, changed by the policy alone."""
    expected = "modified" if plan.verdict == "modify" else plan.verdict
    if verdict != expected or not plan.tag.startswith(f"{context.run_id}."):
        world.blame(f"call {context.call_id} of {context.run_id} ran with other arguments: {verdict}")
    if plan.verdict in ("deny", "interrupt"):
        world.blame(f"call {plan.tag} ran although the policy said {plan.verdict}")


class _Trusting(RedactingScribe):
    """A scribe without redaction: there are no secrets, and redaction takes time."""

    def __call__(self, drafts: Sequence[Draft]) -> Sequence[Draft]:
        return drafts


_SCRIBE: Final = _Trusting()


class GatedStore(FaultyStore):
    """The store of the world as one process sees it."""

    def __init__(self, process: Process) -> None:
        world, rates = process.world, process.scenario.rates
        super().__init__(world.store, random=world.random, clock=world.clock, rates=rates or _NO_FAULTS)
        self.is_faulty = rates is not None
        self._process = process

    async def _pass(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        process = self._process

        async def through() -> T:
            await process.pass_through()
            return await call()

        result = await super()._pass(name, through)
        await process.pass_through()
        return result

    async def enlist(self, owner_id: str, *, now_ms: int) -> None:
        """Become an owner."""
        if owner_id not in self._process.owner_ids:
            self._process.owner_ids.append(owner_id)
        await super().enlist(owner_id, now_ms=now_ms)

    async def change_token(self) -> int:
        """Return a number that changes with every write."""
        return self._process.world.changes

    async def aclose(self) -> None:
        """Leave the store of the world open."""


class GatedClock:
    """The clock of the world as one process sees it."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def now(self) -> datetime:
        """Return the wall-clock time."""
        return self._process.world.clock.now()

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self._process.world.clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return once the seconds have passed and the process is there."""
        await self._process.world.clock.sleep(seconds)
        await self._process.pass_through()


class Policy:
    """A policy that decides as the arguments of each call say."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def version(self) -> str:
        """Always the same rules."""
        return "1"

    def before(self, call: CallFacts, *, is_attended: bool) -> PolicyDecision:
        """Decide by the verdict in the arguments."""
        arguments = call.arguments or {}
        tag = arguments.get("tag")
        match arguments.get("verdict"):
            case "deny":
                return DenyDecision(code="no", reason="never", policy_refs=_REFS)
            case "interrupt":
                return InterruptDecision(code="stop", reason="enough", policy_refs=_REFS)
            case "ask":
                return AskDecision(code="ask", reason="may it?", policy_refs=_REFS)
            case "brief":
                return AskDecision(code="ask", reason="now?", policy_refs=_REFS, expires_in_ms=BRIEF_MS)
            case "modify":
                given: JsonObject = {"tag": tag, "verdict": "modified"}
                return ModifyDecision(code="safer", reason="safer", policy_refs=_REFS, arguments=given)
            case "defer" if tag not in self._world.deferred:
                self._world.deferred.add(str(tag))
                return DeferDecision(code="later", reason="busy", policy_refs=_REFS, resume_after_ms=DEFER_MS)
            case _:
                return AllowDecision(code="ok", reason="fine", policy_refs=_REFS)

    def after(self, call: CallFacts, output: JsonValue) -> PolicyDecision:
        """Let every result through."""
        return AllowDecision(code="ok", reason="fine", policy_refs=_REFS)


_ALLOWING: Final = RulesPolicy(PolicySet((Rule("sim.allow", "allow", tools=("look", "put", "pay")),)))
"""Rules that allow every call; the engine remembers their decisions."""
_FAILURES: Final[tuple[Callable[[], Exception], ...]] = (
    lambda: ConnectionError("gone"),
    lambda: Unavailable("busy", kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.RETRYABLE),
    lambda: TimeoutError("late"),
    lambda: ValueError("broken"),
)


_HOPELESS: Final = len(_FAILURES) - 1


class Model:
    """A model that requests the calls of the plan; it depends on the history alone."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        """Give the next answer of the plan."""
        process, world = self._process, self._process.world
        run_id, step = _where(messages)
        await process.pass_through()
        world.ask(run_id, step, is_late=process.was_gated)
        await process.pass_through()
        now_s = world.clock.monotonic()
        if any(since <= now_s < until for since, until in process.scenario.outages):
            raise ConnectionError("away")
        plan = process.scenario.plan(run_id)
        is_last = step >= len(plan.steps)
        text = plan.output if is_last else f"step {step}"
        if plan.is_typed and is_last and step == len(plan.steps):
            text = "no JSON"
        yield LLMStreamChunk(content_delta=text)
        if world.chance(process.scenario.model_faults):
            await process.clock.sleep(world.random() * 4)
            if world.chance(0.2):
                return
            kind = world.below(40) // 13
            world.run(run_id).is_hopeless = kind == _HOPELESS and not process.was_gated
            raise _FAILURES[kind]()
        if not is_last:
            calls = plan.steps[step]
            if world.in_programs and calls:
                yield LLMStreamChunk(tool_call_delta=_program(calls))
                calls = ()
            for index, call in enumerate(calls):
                yield LLMStreamChunk(tool_call_delta=_delta(call, index))
        await process.pass_through()
        reason = FinishReason.STOP if is_last else FinishReason.TOOL_CALLS
        yield LLMStreamChunk(finish_reason=reason, usage=LLMUsage(input_tokens=7, output_tokens=3))


def _delta(call: CallPlan, index: int) -> ToolCall | ToolCallDelta:
    arguments = _arguments(call)
    if index % 2:
        return ToolCall(id=f"c{index}", name=call.tool, arguments=arguments)
    return ToolCallDelta(index, id=f"c{index}", name=call.tool, arguments_delta=encode(arguments).decode())


def _arguments(call: CallPlan) -> JsonObject:
    if call.tool == HELPER:
        return {"message": f"run {call.tag} please"}
    return {"tag": call.tag, "verdict": call.verdict}


def _program(calls: Sequence[CallPlan]) -> ToolCall:
    """Return a program that makes the calls of a step: the first of them alone, and then the others."""
    made = [(call.tool, _arguments(call)) for call in calls if call.tool != UNKNOWN]
    return ToolCall(id="c0", name="run_code", arguments={"code": waves(made[:1], made[1:])})


def _where(messages: Sequence[LLMMessage]) -> tuple[str, int]:
    """Return the run at the end of the history, and the number of its answers."""
    step = 0
    for message in reversed(messages):
        if message.role == "assistant":
            step += 1
        elif message.role == "user" and (words := message.content.rpartition("\n")[2]).startswith("run "):
            # The message to a subagent holds more than the caller's text.
            return words.split()[1], step
    raise AssertionError("a history without a run")


# Tools and agents are created once for all simulations: their effects depend on the calling process.


@tool(effect="read", timeout=TOOL_TIMEOUT_MS / 1_000)
async def look(tag: str, verdict: str, *, context: ToolContext) -> str:
    """Look at something."""
    return await _PROCESS.get().perform(context, tag, verdict=verdict)


@tool(effect="idempotent", timeout=TOOL_TIMEOUT_MS / 1_000)
async def put(tag: str, verdict: str, *, context: ToolContext) -> str:
    """Put something somewhere."""
    return await _PROCESS.get().perform(context, tag, verdict=verdict)


@tool(effect="once", timeout=TOOL_TIMEOUT_MS / 1_000)
async def pay(tag: str, verdict: str, *, context: ToolContext) -> str:
    """Pay for something."""
    return await _PROCESS.get().perform(context, tag, verdict=verdict)


_MADE: dict[tuple[bool, bool], Registry] = {}


def _registry(*, has_family: bool = False, in_programs: bool = False) -> Registry:
    kind = has_family, in_programs
    if kind not in _MADE:
        tools = [look, put, pay]
        helper = Agent(HELPER, model="sim/model", tools=tools, code_mode=in_programs)
        below = [helper] if has_family else []
        worker = Agent("worker", model="sim/model", tools=tools, subagents=below, code_mode=in_programs)
        _MADE[kind] = Registry([worker])
    return _MADE[kind]


def worker_package_id() -> str:
    """Return the package of all runs."""
    registered = _registry().agent("worker")
    assert registered is not None
    return registered.package.package_id


def check_family(world: World, journals: Mapping[str, Sequence[Record]]) -> None:
    """Check that every called subagent started once, and that reports on subagents are true."""
    called: dict[str, str] = {}
    for records in journals.values():
        for record in records:
            if record.type == "subagent.called":
                child_id = str(record.data["childRunId"])
                if child_id in called:
                    world.blame(f"{child_id} was called twice")
                called[child_id] = str(record.data["childSessionId"])
            elif record.type == "subagent.completed":
                _check_report(world, record, journals)
    for child_id, session_id in called.items():
        if child_id not in fold_runs(journals.get(session_id, ())).runs:
            world.blame(f"{child_id} was called and never began")
    for session_id, records in journals.items():
        is_wanted = session_id in called.values() or not session_id.startswith("session:subagent:")
        if records and not is_wanted:
            world.blame(f"{session_id} started without a call")


def _check_report(world: World, record: Record, journals: Mapping[str, Sequence[Record]]) -> None:
    """Check that the report of a subagent to its caller equals the subagent's journal."""
    child_id, data = str(record.data["childRunId"]), record.data
    run = fold_runs(journals.get(str(data["childSessionId"]), ())).runs.get(child_id)
    result = None if run is None else run.result
    if result is None or result.status != data["status"]:
        world.blame(f"{child_id} is reported as {data['status']}, and is {result and result.status}")
    elif result.status == "completed" and result.output != data["output"]:
        world.blame(
            f"{child_id} is reported to have answered {data['output']!r}, and answered {result.output!r}"
        )
