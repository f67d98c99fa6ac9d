"""A deterministic simulator of the whole runtime.

One seed is one scenario, with faults, crashes and clock jumps.

    report = simulate(17)
    assert not report.problems, report.text()

The same seed gives the same run, to the last identifier and millisecond.
"""

import asyncio
import logging
from collections.abc import Coroutine, Generator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import Context
from dataclasses import field
from hashlib import sha256
from typing import Final, TypeVar

from pydantic_core import to_json
from tests.simulator.checks import check
from tests.simulator.people import Gone, People
from tests.simulator.plan import HORIZON_S, DoomPlan, Scenario, draw
from tests.simulator.process import Process
from tests.simulator.world import World

from windlass import errors
from windlass.engine.writing import writer as loading
from windlass.errors import AgentError
from windlass.testing.models import always_replay
from windlass.testing.time import check_no_loop, run_in_fake_time
from windlass_harness.record import Record, to_wire
from windlass_protocol.frozen import sealed

T = TypeVar("T")
_Work = Coroutine[object, object, T] | Generator[asyncio.Future[object] | None, None, T]

QUIET_S_MAX: Final = 900.0
"""Time limit for all runs to end after the faults have stopped and people answer."""
ROUND_S: Final = 5.0
OPENINGS_MAX: Final = 100
OPENING_S: Final = 0.5
"""Delay before a process that failed to open is tried again."""
SNAPSHOT_RECORDS_MIN: Final = 8
_SNAPSHOTS: Final = "SNAPSHOT_RECORDS_MIN"
REST_S_MAX: Final = 30.0
"""Time limit for the last calls: a call of a slow store may be in progress."""


@sealed
class SimulationReport:
    """The result of a simulation."""

    seed: int
    problems: tuple[str, ...]
    trace: tuple[str, ...]
    journals: dict[str, tuple[Record, ...]] = field(repr=False)
    """The records of each session."""
    crashes: int
    effects: int
    jumps: int
    """Of the wall clock."""

    @property
    def records(self) -> int:
        return sum(len(records) for records in self.journals.values())

    @property
    def digest(self) -> str:
        """A digest of all records, with their ids and times."""
        lines = sha256()
        for session_id in sorted(self.journals):
            for record in self.journals[session_id]:
                lines.update(to_json(to_wire(record)))
        return lines.hexdigest()

    def text(self) -> str:
        """Return the problems, and the end of the trace."""
        head = [f"seed {self.seed}: {problem}" for problem in self.problems]
        return "\n".join((*head, f"the last of seed {self.seed}:", *self.trace))


def simulate(
    seed: int,
    *,
    forgets: bool = False,
    has_family: bool = False,
    in_programs: bool = False,
) -> SimulationReport:
    """Run the scenario of a seed and check all invariants.

    With `forgets`, every session drops its state after each commit and folds it again; the scenario is the
    same. With `has_family` every run delegates work to a subagent, which makes it another scenario.
    With `in_programs` the model makes its calls in programs.

    Raises:
        RuntimeError: an event loop is running in this thread.
    """
    check_no_loop("simulate")
    world = World(seed, in_programs=in_programs)
    stage = _Stage(world, has_family=has_family)
    memory = always_replay(lambda _: world.store) if forgets else nullcontext()
    with _watched_log(world), _small_snapshots(), memory:
        try:
            run_in_fake_time(stage.play(), clock=world.clock)
        except RuntimeError as error:
            world.blame(f"the story does not end: {error}")
    return SimulationReport(
        seed,
        tuple(world.problems),
        tuple(world.trace),
        stage.journals,
        crashes=sum(process.was_gated for process in stage.people.processes),
        effects=sum(len(facts.begun) for facts in world.calls.values()),
        jumps=world.jumps,
    )


class _Stage:
    """Starts and ends processes, jumps the clock, and waits for the end of all runs."""

    def __init__(self, world: World, *, has_family: bool) -> None:
        self.world = world
        self.scenario: Scenario = draw(world, has_family=has_family)
        self.people = People(world, self.scenario)
        self.journals: dict[str, tuple[Record, ...]] = {}
        self._dooms = list(self.scenario.dooms)
        self._tasks: set[asyncio.Task[None]] = set()
        self._kept: list[asyncio.Task[object]] = []
        self._is_quiet = False

    async def play(self) -> None:
        world, people = self.world, self.people
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._on_error)
        loop.set_task_factory(self._keep)
        for _ in range(self.scenario.processes):
            self._begin(self._open())
        people.watch()
        for plan in self.scenario.runs:
            self._begin(people.start(plan))
            if plan.cancel_s is not None:
                self._begin(people.cancel(plan))
            self._begin(self._wait_for(plan.run_id))
        self._begin(self._jump())
        while self._is_busy() and world.clock.monotonic() < HORIZON_S:
            await world.clock.sleep(ROUND_S)
        await self._quieten()
        self.journals = await check(world, people)
        for process in people.processes:
            process.end()

    def _begin(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.world.blame(f"a user got an unexpected error: {error!r}")

    def _keep(
        self, loop: asyncio.AbstractEventLoop, work: _Work[T], **options: Context | None
    ) -> asyncio.Task[T]:
        """Keep references to all tasks until the end: a frozen task must not be garbage-collected."""
        task = asyncio.Task(work, loop=loop, context=options.get("context"))
        self._kept.append(task)
        return task

    def _on_error(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, object]) -> None:
        """Report an unhandled error of the event loop."""
        self.world.blame(f"unhandled exception {context.get('exception')!r}: {context.get('message')}")

    async def _wait_for(self, run_id: str) -> None:
        while run_id not in self.people.accepted:
            await self.world.clock.sleep(1.0)
        await self.people.wait(run_id)

    async def _jump(self) -> None:
        before = 0.0
        for at_s, seconds in self.scenario.jumps:
            await self.world.clock.sleep(at_s - before)
            before = at_s
            self.world.jump(seconds)

    # processes

    async def _open(self) -> None:
        """Open a process."""
        people = self.people
        doom = self._dooms.pop(0) if self._dooms and not self._is_quiet else None
        process = Process(self.world, self.scenario, number=len(people.processes) + 1, doom=doom)
        process.on_down = self._on_down
        process.store.is_faulty = process.store.is_faulty and not self._is_quiet
        people.processes.append(process)
        await self._resume(process)

    async def _resume(self, process: Process) -> None:
        """Start the workers of a process; it may take several attempts."""
        for _ in range(OPENINGS_MAX):
            try:
                await self.people.via(lambda runtime: runtime.core.resume(), process)
                return
            except Gone:
                return
            except AgentError:
                await self.world.clock.sleep(OPENING_S)

    def _on_down(self, process: Process) -> None:
        doom = process.doom
        assert doom is not None, "only a process with a planned end ends"
        self._begin(self._after(process, doom))

    async def _after(self, process: Process, doom: DoomPlan) -> None:
        """Plan the successor of a process that ended."""
        clock = self.world.clock
        if doom.kind == "close":
            await self._close(process)
        elif doom.is_noticed:
            await self._retire(process)
        await clock.sleep(doom.next_s)
        await self._open()
        if doom.kind == "sleep":
            await clock.sleep(doom.back_s)
            await self._wake(process)

    async def _wake(self, process: Process) -> None:
        """Resume a suspended process; open it if it was not open yet."""
        process.open_gate()
        await self._resume(process)

    async def _close(self, process: Process) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_task(process.runtime.aclose(), context=process.context)
        except AgentError as error:
            self.world.blame(f"a process could not be closed: {error.kind}")

    async def _retire(self, process: Process) -> None:
        for owner_id in process.owner_ids:
            await self.world.store.retire(owner_id)

    # the end

    async def _quieten(self) -> None:
        """Stop all faults, wake all suspended processes, and wait until every run has ended."""
        world, people = self.world, self.people
        self._is_quiet = True
        world.note("quiet")
        for process in people.processes:
            process.store.is_faulty = False
            if not process.is_down:
                process.doom = None
            elif process.doom is not None and process.doom.kind == "sleep":
                self._begin(self._wake(process))
            else:
                await self._retire(process)
        await self._open()
        latest = world.clock.monotonic() + QUIET_S_MAX
        while self._is_busy():
            if world.clock.monotonic() > latest:
                self._blame_the_slow()
                break
            await people.answer_everything()
            await world.clock.sleep(ROUND_S)
        latest = world.clock.monotonic() + REST_S_MAX
        while world.clock.monotonic() < latest and not await self._is_at_rest():
            await world.clock.sleep(1.0)
        await people.leave()

    async def _is_at_rest(self) -> bool:
        """Return whether no session is driven and all subscribers are at the end."""
        store = self.world.store
        for plan in self.scenario.all_runs:
            row = await store.session(plan.session_id)
            if row is not None and (row.owner_id is not None or await store.pending(plan.session_id)):
                return False
        return self.people.have_seen_all()

    def _is_busy(self) -> bool:
        people = self.people
        ids = [plan.run_id for plan in self.scenario.runs]
        return bool(self._tasks) or any(run_id not in people.results for run_id in ids)

    def _blame_the_slow(self) -> None:
        people = self.people
        for plan in self.scenario.runs:
            if plan.run_id not in people.results:
                is_known = plan.run_id in people.accepted
                self.world.blame(f"{plan.run_id} did not end" if is_known else f"{plan.run_id} never began")


class _Problems(logging.Handler):
    """Logged errors are problems, unless the store failed."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        self._world.note(f"log: {text}")
        if record.name not in _OF_THE_HOST and text.rpartition(" ")[2] not in _EXPECTED:
            self._world.blame(text)


_OF_THE_HOST: Final = ("windlass.failures", "windlass.runs")
"""Loggers about failures of host code and failed runs, which the simulated models cause on purpose."""
_EXPECTED: Final = frozenset(
    name for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, AgentError)
)


@contextmanager
def _small_snapshots() -> Generator[None]:
    """Make short sessions write snapshots too."""
    usual = loading.SNAPSHOT_RECORDS_MIN
    setattr(loading, _SNAPSHOTS, SNAPSHOT_RECORDS_MIN)
    try:
        yield
    finally:
        setattr(loading, _SNAPSHOTS, usual)


@contextmanager
def _watched_log(world: World) -> Generator[None]:
    logger, handler = logging.getLogger("windlass"), _Problems(world)
    was_heard = logger.propagate
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = was_heard
