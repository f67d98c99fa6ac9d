"""What all effects of one session share: ports, bindings of its runs, and the answer that is being shown."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import Final, Protocol, cast

from windlass.engine.binding import Binder, Binding
from windlass.engine.clocks import Lease, PauseClock
from windlass.engine.deadline import Deadlines
from windlass.engine.dynamic import ResolverPorts
from windlass.engine.spending.batches import Batches
from windlass.engine.spending.provider_limits import RuntimeLimits
from windlass.engine.spending.spend_limits import SpendLimits
from windlass.engine.tasks import EffectTask, Tasks
from windlass.engine.tool_calls.approval import Judged
from windlass.engine.tool_calls.subagents import Delegator
from windlass.engine.writing.masking import MaskedAnswer, SecretInputs
from windlass.engine.writing.writer import SessionWriter
from windlass.ports.clock import Clock, Random
from windlass.ports.feed import EventBus
from windlass.ports.interpreter import CallBody, Interpreter, LiveProgram, ProgramFunctions
from windlass.ports.sandbox import FindSandbox, MakeSessionSandbox
from windlass.ports.store import ContentStore
from windlass.prices import UnpricedModels
from windlass.tools.router import ToolGates
from windlass_harness.loop.events import CallJudged, CallRefused, LoopEvent, RunProgram
from windlass_harness.loop.notes import ProgramVariables
from windlass_harness.loop.rules import CALLS_PER_STEP_MAX
from windlass_harness.loop.state import LoopState
from windlass_harness.redact import Redactor
from windlass_harness.views.runs import RunState
from windlass_protocol import AllowDecision
from windlass_protocol.frozen import frozen


class ProgramRunner(Protocol):
    """Checks and runs the programs of a run."""

    async def check(
        self,
        judged: Judged,
        functions: ProgramFunctions,
        *,
        redactor: Redactor,
        variables: ProgramVariables | None,
    ) -> CallJudged | CallRefused:
        """Return the decision about the call of a program; a refusal if the program cannot run."""
        ...

    async def run_turn(self, effect: RunProgram, *, binding: Binding) -> LoopEvent:
        """Run a program until it waits for calls or ends; failures of it are part of the event."""
        ...

    async def body_of(self, effect: RunProgram, number: int, *, binding: Binding) -> CallBody | None:
        """Return what performs a call of a function of the application; None if the tool of the call does.

        Raises:
            Diverged: the function is run again for it, and went another way.
        """
        ...


class MakePrograms(Protocol):
    """Makes what runs the programs of a run."""

    def __call__(
        self,
        interpreter: Interpreter | None,
        content: ContentStore,
        clock: Clock,
        owner: str,
        family: str,
        live: dict[str, LiveProgram],
        turns: dict[str, asyncio.Lock],
        run: RunState | None,
    ) -> ProgramRunner:
        """Return it; `live` holds the functions of the application that wait in memory, by their calls.

        `turns` is held while one of them runs.
        """
        ...


@frozen
class EffectPorts:
    """Ports and limits that all sessions of a runtime share to perform effects."""

    content: ContentStore
    bus: EventBus
    clock: Clock
    random: Random
    is_attended: bool
    sandbox_of: FindSandbox
    session_sandboxes: Callable[[], MakeSessionSandbox]
    """Enters the room that makes sandboxes of sessions."""
    programs: Callable[[], MakePrograms]
    """Enters the room that runs programs."""
    calls_max: int = CALLS_PER_STEP_MAX
    """Calls per answer."""
    gates: ToolGates = field(default_factory=ToolGates)
    secret_inputs: SecretInputs = field(default_factory=SecretInputs)
    deadlines: Deadlines = field(default_factory=Deadlines)
    lease: Lease = field(default_factory=Lease)
    provider_limits: RuntimeLimits = field(default_factory=RuntimeLimits)
    spend_limits: SpendLimits | None = None
    """Limits for people and teams; None without a store."""
    batches: Batches | None = None
    """Model calls of many runs that are answered together; None without a store."""
    unpriced: UnpricedModels = field(default_factory=UnpricedModels)
    delegator: Delegator | None = None
    interpreter: Interpreter | None = None
    """Runs the programs of models."""
    after_chunk: Callable[[], Awaitable[None]] | None = None
    """Awaited after each delta, if the application publishes deltas itself."""


_BINDINGS_MAX: Final = 2
"""Bindings that a session keeps, one for each run."""


def family_of(run: RunState) -> str:
    """Return the session that a run and all its subagents work for."""
    return run.session_id if run.parent is None else run.parent.root_session_id


def current_task() -> EffectTask:
    """Return the task that performs an effect."""
    task = asyncio.current_task()
    assert task is not None, "an effect is performed in a task"
    return cast(EffectTask, task)


class EffectContext:
    """What all effects of one session share."""

    def __init__(
        self, binder: Binder, writer: SessionWriter, *, shared: EffectPorts, pause_clock: PauseClock
    ) -> None:
        self.writer = writer
        self.session_id = writer.session_id
        self.shared = shared
        self.pause_clock = pause_clock
        self.tasks = Tasks(pause_clock.clock, writer.session_id)
        self.live: MaskedAnswer | None = None
        """The answer of the newest step, as it is shown."""
        self.bindings: dict[str, Binding] = {}
        """Bindings by run id: the current run, and the previous one until it is delivered."""
        self.allowed: dict[tuple[str, frozenset[str], bool], AllowDecision] = {}
        """Decisions that hold for any arguments, by tool, taint and whether a program calls."""
        self._live_programs: dict[str, LiveProgram] = {}
        """Functions of the application that wait for calls, by the key of their call."""
        self._program_turns: dict[str, asyncio.Lock] = {}
        self._binder = binder

    async def binding(self, state: LoopState) -> Binding | None:
        """Return the binding of the current run; None if its agent is not here."""
        run = state.run
        return None if run is None else self.bindings.get(run.run_id) or await self.bound_to(run)

    async def bound_to(self, run: RunState) -> Binding | None:
        """Return the binding of a run; None if its agent is not here."""
        binding = self.bindings.get(run.run_id)
        if binding is None:
            binding = await self._binder(run)
            if binding is not None:
                while len(self.bindings) >= _BINDINGS_MAX:
                    del self.bindings[next(iter(self.bindings))]
                self.close_programs()
                self.bindings[run.run_id] = binding
                self.allowed.clear()
        return binding

    def use(self, binding: Binding, state: LoopState) -> None:
        """Replace the binding of the current run."""
        if state.run is not None:
            self.bindings[state.run.run_id] = binding
            self.allowed.clear()

    def can_ask(self, state: LoopState) -> bool:
        """Whether a person can be asked, through the channel of the run."""
        return self.shared.is_attended and (state.run is None or state.run.can_ask)

    def resolver_ports(self, state: LoopState) -> ResolverPorts:
        """Return what resolvers of the agent get."""
        return ResolverPorts(self.shared.content, self.shared.clock, self.can_ask(state))

    def task_of(self, key: str) -> EffectTask:
        """Return the task that performs the effect of a key, or else the current task."""
        return self.tasks.under_way.get(key) or current_task()

    def programs(self, state: LoopState) -> ProgramRunner:
        """Return what runs the programs of the current run."""
        shared, run = self.shared, state.run
        return shared.programs()(
            shared.interpreter,
            shared.content,
            shared.clock,
            owner=(run and run.owner) or "",
            family=self.session_id if run is None else family_of(run),
            live=self._live_programs,
            turns=self._program_turns,
            run=run,
        )

    def close_programs(self) -> None:
        """Remove the functions of the application that wait in memory: their records bring them back."""
        for program in self._live_programs.values():
            program.close()
        self._live_programs.clear()
