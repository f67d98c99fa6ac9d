"""A deterministic simulator of the whole runtime.

One seed is one story, with faults, crashes and clock jumps.

    report = simulate(17)
    assert not report.problems, report.text()

The same seed tells the same story, to the last identifier and millisecond.
"""

import asyncio
import logging
from collections.abc import Coroutine, Generator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import Context
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, TypeVar

from pydantic_core import to_json

from windlass import errors
from windlass.engine import loading
from windlass.errors import AgentError
from windlass.testing.models import always_replay
from windlass.testing.simulator.checks import check
from windlass.testing.simulator.people import Gone, People
from windlass.testing.simulator.plan import HORIZON_S, DoomPlan, Scenario, draw
from windlass.testing.simulator.process import Process
from windlass.testing.simulator.world import World
from windlass.testing.time import run_in_fake_time
from windlass_protocol import Record

T = TypeVar("T")
_Work = Coroutine[object, object, T] | Generator[asyncio.Future[object] | None, None, T]

QUIET_S_MAX: Final = 900.0
"""How long everything may take to end once the faults have stopped and people answer."""
ROUND_S: Final = 5.0
OPENINGS_MAX: Final = 100
OPENING_S: Final = 0.5
"""Before a process that could not be opened is tried again."""
SNAPSHOT_RECORDS_MIN: Final = 8
_SNAPSHOTS: Final = "SNAPSHOT_RECORDS_MIN"
REST_S_MAX: Final = 30.0
"""How long the last calls may take: one of a slow store may be under way."""


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """What came of a simulation."""

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
        """How many records there are."""
        return sum(len(records) for records in self.journals.values())

    @property
    def digest(self) -> str:
        """Names all records, with their ids and moments."""
        lines = sha256()
        for session_id in sorted(self.journals):
            for record in self.journals[session_id]:
                lines.update(to_json(record.model_dump(mode="json", by_alias=True)))
        return lines.hexdigest()

    def text(self) -> str:
        """Say what went wrong, and how it came to it."""
        head = [f"seed {self.seed}: {problem}" for problem in self.problems]
        return "\n".join((*head, f"the last of seed {self.seed}:", *self.trace))


def simulate(seed: int, *, forgets: bool = False, has_family: bool = False) -> SimulationReport:
    """Play the story of a seed and check everything that has to be true of it.

    With `forgets`, every session drops its state after each commit and folds it anew; the story is the same.
    With `has_family` every run gives work to a subagent, which makes it another story.
    """
    world = World(seed)
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
    """Processes come and go, the clock jumps, and in the end all has to be quiet."""

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
            self.world.blame(f"somebody outside got an error: {error!r}")

    def _keep(
        self, loop: asyncio.AbstractEventLoop, work: _Work[T], **options: Context | None
    ) -> asyncio.Task[T]:
        """Hold every task to the end.

        Whoever is frozen must not be collected, at a time that nobody chose.
        """
        task = asyncio.Task(work, loop=loop, context=options.get("context"))
        self._kept.append(task)
        return task

    def _on_error(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, object]) -> None:
        """An error that got past everybody."""
        self.world.blame(f"nobody took {context.get('exception')!r}: {context.get('message')}")

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
        """Make a process take work; it may have to try more than once."""
        for _ in range(OPENINGS_MAX):
            try:
                await self.people.via(lambda runtime: runtime.resume(), process)
                return
            except Gone:
                return
            except AgentError:
                await self.world.clock.sleep(OPENING_S)

    def _on_down(self, process: Process) -> None:
        doom = process.doom
        assert doom is not None, "only a process that is doomed ends"
        self._begin(self._after(process, doom))

    async def _after(self, process: Process, doom: DoomPlan) -> None:
        """See to it that life goes on after a process is gone."""
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
        """A process that slept goes on; if it had not been opened yet, it is now."""
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
        """Stop all faults, wake all sleepers, and wait until every run has ended."""
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
        """Tell whether nobody drives anything and all readers are at the end."""
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
    """Errors that are only logged are problems, unless it was the store that failed."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        self._world.note(f"log: {text}")
        if record.name != _OF_THE_HOST and text.rpartition(" ")[2] not in _EXPECTED:
            self._world.blame(text)


_OF_THE_HOST: Final = "windlass.failures"
"""Who tells of code of the host that failed, which models of the simulator do on purpose."""
_EXPECTED: Final = frozenset(
    name for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, AgentError)
)


@contextmanager
def _small_snapshots() -> Generator[None]:
    """Let short sessions have snapshots too."""
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
