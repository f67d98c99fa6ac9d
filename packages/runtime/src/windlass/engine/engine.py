"""The engine: which sessions are driven, by whom, and when."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from windlass.engine.care import NO_CARE, Care, Refusal, hopeless
from windlass.engine.driver import Driver
from windlass.engine.failures import log_failure
from windlass.engine.loading import Loaded, load, save, wants_snapshot
from windlass.engine.moments import moment
from windlass.engine.prompt import Prompt
from windlass.engine.recent import Known, Recent
from windlass.engine.work import AgentWork, Binder, Shared
from windlass.engine.writer import Publisher, Scribe, SessionWriter
from windlass.errors import AgentError, Ambiguous, Conflict, Rejected, Unavailable
from windlass.limits import OWNER_LEASE_MS
from windlass.ports.clock import Clock
from windlass.ports.journal import COMPACT, START, Claim, Standing, Store
from windlass_harness.loop.rules import Rules
from windlass_harness.loop.state import LoopState

_LOG: Final = logging.getLogger(__name__)

SWEEP_S: Final = 1.0
"""How often somebody looks for sessions that nobody drives."""
ATTEMPTS_MAX: Final = 10
"""How often in a row a session that cannot be driven is tried before it is left alone until a restart."""
CLOCK_BACK_MS_MIN: Final = 5_000
"""A wall clock that was put back less is let be."""
BUG_ATTEMPTS_MAX: Final = 3
"""How often in a row, if what is in the way is no error of ours: then the run is ended with it."""
DRIVEN_MAX: Final = 10_000
"""Sessions driven at the same time; more wait their turn."""


@runtime_checkable
class Watched(Protocol):
    """A store that other processes may write to as well."""

    def change_token(self) -> int:
        """Return a number that is another one after anybody has written."""
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    """What the engine is made of."""

    store: Store
    publisher: Publisher
    shared: Shared
    scribe: Scribe
    clock: Clock
    binder: Binder
    has_agent: Callable[[str], bool]
    rules: Rules
    owner_id: str


class Engine:
    """Drives sessions, each in a task of its own while it has something to do."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._drivers: dict[str, Driver | None] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._foreign: set[str] = set()
        """Sessions of agents that this process does not have."""
        self._dropped: dict[str, int] = {}
        """Sessions that could not be driven, and how often in a row; they are tried again."""
        self._hopeless: dict[str, Care] = {}
        """Sessions that fail each time: their runs are ended."""
        self._recent = Recent()
        self._turn = asyncio.Semaphore(DRIVEN_MAX)
        self._keeper: asyncio.Task[None] | None = None
        self._late: set[asyncio.Task[None]] = set()
        """They wake sessions in time that the wall clock would wake late."""
        self._watched = ports.store if isinstance(ports.store, Watched) else None
        self._change: int | None = None
        self.is_closed = False

    async def open(self) -> None:
        """Become an owner, and go on with what was left unfinished."""
        if self._keeper is not None:
            return
        ports = self._ports
        await ports.store.enlist(ports.owner_id, now_ms=moment(ports.clock).ms)
        await self._sweep()
        self._keeper = asyncio.create_task(self._keep(), name="windlass keeper")

    def wake(self, session_id: str) -> None:
        """See to it that a session is driven and looks into its inbox."""
        if self.is_closed:
            return
        if session_id in self._tasks:
            driver = self._drivers.get(session_id)
            if driver is not None:
                driver.ring()
            return
        task = asyncio.create_task(self._drive(session_id), name=f"windlass session {session_id}")
        self._tasks[session_id] = task
        task.add_done_callback(lambda _: self._done(session_id))

    def _done(self, session_id: str) -> None:
        task = self._tasks.pop(session_id)
        driver = self._drivers.pop(session_id, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._drop(session_id, error)
        elif driver is not None and driver.is_lost:
            # If nobody else has it after all, the next sweep goes on with what the journal says.
            self._dropped[session_id] = self._dropped.get(session_id, 0) + 1
        elif driver is not None and driver.has_mail:
            self.wake(session_id)

    def _drop(self, session_id: str, error: BaseException) -> None:
        """Try again at the next sweep; not for ever, unless the store was out of reach."""
        is_passing = isinstance(error, Unavailable | Ambiguous)
        times = self._dropped.get(session_id, 0) + (not is_passing)
        self._dropped[session_id] = times
        is_ours = isinstance(error, AgentError)
        if not is_passing and times >= (ATTEMPTS_MAX if is_ours else BUG_ATTEMPTS_MAX) - 1:
            self._hopeless[session_id] = hopeless(error)
        level = logging.WARNING if is_passing else logging.ERROR
        name = type(error).__name__
        _LOG.log(level, "session %s could not be driven and is tried again: %s", session_id, name)
        if not is_passing:
            redactor = self._ports.scribe.redactor
            log_failure(f"session {session_id} could not be driven", error, redactor=redactor, level=level)

    async def aclose(self) -> None:
        """Stop driving; tools get a moment to finish, runs go on with the next owner."""
        if self.is_closed:
            return
        self.is_closed = True
        helpers = [*self._late, *(() if self._keeper is None else (self._keeper,))]
        for task in helpers:
            task.cancel()
        if helpers:
            await asyncio.wait(helpers)
        for driver in self._drivers.values():
            if driver is not None:
                driver.stop()
        if self._tasks:
            await asyncio.wait(self._tasks.values())
        # An owner that cannot say goodbye is missed when its lease ends.
        with suppress(AgentError):
            await self._ports.store.retire(self._ports.owner_id)

    async def _drive(self, session_id: str) -> None:
        async with self._turn:
            care: Care | None = self._hopeless.pop(session_id, NO_CARE)
            refusal = await self._drive_once(session_id, care)
            while refusal is not None:
                care = care.after(refusal)
                if care is None:
                    raise refusal.error
                refusal = await self._drive_once(session_id, care)
        self._dropped.pop(session_id, None)

    async def _drive_once(self, session_id: str, care: Care) -> Refusal | None:
        """Drive a session until it is parked; return why if it was refused for good."""
        ports = self._ports
        claim = await self._claim(session_id)
        if claim is None:
            return None
        known = self._recent.take(session_id, seq=claim.last_seq) or Known(
            await load(ports.store, ports.store, session_id=session_id), Prompt()
        )
        if session_id in self._dropped:
            # Whoever drove it last may have written something without knowing, and nobody was shown it.
            ports.shared.bus.notify()
        state = known.loaded.state
        state.epoch = claim.epoch
        writer = SessionWriter(
            state,
            claim,
            journal=ports.store,
            publisher=ports.publisher,
            scribe=ports.scribe,
            clock=ports.clock,
        )
        if not await self._can_drive(state, session_id):
            self._foreign.add(session_id)
            is_idle = state.run is None and not state.compacting.is_due
            standing = Standing.IDLE if is_idle else Standing.RUNNING
            await writer.commit(standing=standing, wake_at_ms=None, is_last=True)
            return None
        work = AgentWork(ports.binder, writer, shared=ports.shared, prompt=known.prompt)
        driver = Driver(state, writer, inbox=ports.store, work=work, clock=ports.clock, rules=ports.rules)
        self._drivers[session_id] = driver
        if self.is_closed:
            driver.stop()
        try:
            await driver.drive(care)
        except Rejected as error:
            return Refusal(error, writer.consuming)
        if writer.is_released:
            await self._remember(session_id, known)
        return None

    async def _remember(self, session_id: str, known: Known) -> None:
        """Keep what is known of a session, so that less has to be read."""
        loaded = known.loaded
        if wants_snapshot(loaded.state, loaded.snapshot_seq):
            with suppress(AgentError):
                await save(self._ports.store, session_id, state=loaded.state)
            known = Known(Loaded(loaded.state, loaded.state.seq), known.prompt)
        self._recent.keep(session_id, known)

    async def _claim(self, session_id: str) -> Claim | None:
        ports = self._ports
        now_ms = moment(ports.clock).ms
        try:
            return await ports.store.claim(session_id, ports.owner_id, now_ms=now_ms)
        except Conflict:
            # Somebody else drives it and has seen, or will see, what is in the inbox.
            return None
        except Rejected:
            # Somebody took this process for dead, as after a long sleep of the machine.
            await ports.store.enlist(ports.owner_id, now_ms=now_ms)
            return await ports.store.claim(session_id, ports.owner_id, now_ms=now_ms)

    async def _can_drive(self, state: LoopState, session_id: str) -> bool:
        run = state.run
        if run is not None:
            return self._ports.has_agent(run.agent_id)
        items = await self._ports.store.pending(session_id)
        agents = [str(item.body.get("agentId")) for item in items if item.kind == START]
        last = state.session.run
        if last is not None and (state.compacting.is_due or any(item.kind == COMPACT for item in items)):
            agents.append(last.agent_id)
        return all(map(self._ports.has_agent, agents))

    # the keeper

    async def _keep(self) -> None:
        """Stay an owner, and look after sessions that nobody drives."""
        ports = self._ports
        beat_ms = moment(ports.clock).ms
        ahead_ms = beat_ms - ports.clock.monotonic() * 1_000
        while True:
            await ports.clock.sleep(SWEEP_S)
            now_ms = moment(ports.clock).ms
            back_ms = ahead_ms - (now_ms - ports.clock.monotonic() * 1_000)
            try:
                if back_ms >= CLOCK_BACK_MS_MIN:
                    await self._catch_late(now_ms + int(back_ms))
                ahead_ms -= back_ms
                if abs(now_ms - beat_ms) >= OWNER_LEASE_MS / 4:
                    await ports.store.enlist(ports.owner_id, now_ms=now_ms)
                    beat_ms = now_ms
                self._look_around()
                await self._sweep()
            except AgentError:
                # The store is out of reach for now; runs that cannot be written end by themselves.
                continue

    async def _catch_late(self, now_ms: int) -> None:
        """Remember who waits for a moment that has just moved away with the wall clock.

        `now_ms` is what it would be if nobody had put it back. Each is woken once when it would have been,
        and waits on if it goes by the wall clock, as a request that expires does.
        """
        store, since_s = self._ports.store, self._ports.clock.monotonic()
        wakes: list[tuple[int, str]] = []
        after: str | None = None
        while rows := await store.sessions(after=after):
            for row in rows:
                if row.standing is Standing.WAITING and row.wake_at_ms is not None:
                    wakes.append((row.wake_at_ms - now_ms, row.session_id))
            after = rows[-1].session_id
        task = asyncio.create_task(self._wake_late(sorted(wakes), since_s), name="windlass late wakes")
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _wake_late(self, wakes: Sequence[tuple[int, str]], since_s: float) -> None:
        clock = self._ports.clock
        for delay_ms, session_id in wakes:
            await clock.sleep(since_s + delay_ms / 1_000 - clock.monotonic())
            self.wake(session_id)

    def _look_around(self) -> None:
        """Pass on what other processes wrote, to the readers and to the drivers."""
        change = self._change if self._watched is None else self._watched.change_token()
        if change == self._change:
            return
        self._change = change
        self._ports.shared.bus.notify()
        for driver in self._drivers.values():
            if driver is not None:
                driver.ring()

    async def _sweep(self) -> None:
        ports = self._ports
        due = await ports.store.due(now_ms=moment(ports.clock).ms)
        again = [one for one, times in self._dropped.items() if times < ATTEMPTS_MAX]
        # In the order of the store: those that waited longest come first.
        for session_id in dict.fromkeys((*due, *again)):
            if session_id not in self._foreign:
                self.wake(session_id)
