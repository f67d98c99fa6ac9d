"""The engine: which sessions are driven, by whom, and when."""

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Protocol, runtime_checkable

from windlass.engine.binding import Binder
from windlass.engine.care import NO_CARE, Care, Refusal
from windlass.engine.driver import Driver
from windlass.engine.failures import log_failure
from windlass.engine.late import LateWakes
from windlass.engine.loading import Loaded, load, save, wants_snapshot
from windlass.engine.moments import moment
from windlass.engine.prompt import Prompt
from windlass.engine.reach import Reach
from windlass.engine.recent import Known, Recent
from windlass.engine.session_content import SessionContent
from windlass.engine.steady import Parked
from windlass.engine.work import AgentWork, Shared
from windlass.engine.writer import Publisher, Scribe, SessionWriter
from windlass.errors import AgentError, Ambiguous, Conflict, Rejected, Unavailable
from windlass.limits import OWNER_LEASE_MS
from windlass.ports.clock import IDLE, Clock
from windlass.ports.store import Claim, Store
from windlass_harness.loop.rules import Rules
from windlass_protocol import RetryClass

_LOG: Final = logging.getLogger(__name__)

SWEEP_S: Final = 1.0
"""How often somebody looks for sessions that nobody drives."""
ATTEMPTS_MAX: Final = 10
"""How often in a row a session that cannot be driven is tried before it is left alone until a restart."""
CLOCK_BACK_MS_MIN: Final = 5_000
"""A wall clock that was put back less is let be."""
BUG_ATTEMPTS_MAX: Final = 3
"""How often in a row, if what is in the way is no error of ours: then the item or run at fault is ended."""
SWEPT_MAX: Final = 100
"""Sessions that one sweep takes up; the next one goes on."""
DRIVEN_MAX: Final = 10_000
"""Sessions driven at the same time; more wait their turn."""


_ITEMS_END: Final = 2**53 - 1
"""No item has a number behind it."""


@runtime_checkable
class Watched(Protocol):
    """A store that other processes may write to as well."""

    async def change_token(self) -> int:
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
    agents: Callable[[], Collection[str] | None]
    """The agents whose runs this process can drive; None means any."""
    rules: Rules
    owner_id: str


class Engine:
    """Drives sessions, each in a task of its own while it has something to do."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._drivers: dict[str, Driver | None] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._dropped: dict[str, int] = {}
        """Sessions that could not be driven, and how often in a row; they are tried again."""
        self._reach = Reach(ports.store, ports.clock, agents=ports.agents)
        self._recent = Recent()
        self._parked = Parked(ports.clock)
        self._turn = asyncio.Semaphore(DRIVEN_MAX)
        self._keeper: asyncio.Task[None] | None = None
        self._late = LateWakes(ports.store, ports.clock, wake=self.wake)
        self._watched = ports.store if isinstance(ports.store, Watched) else None
        self._change: int | None = None
        self._newest_item = 0
        """Of all inboxes, when somebody last looked around."""
        self.is_closed = False

    async def open(self) -> None:
        """Become an owner, and go on with what was left unfinished."""
        if self._keeper is not None:
            return
        ports = self._ports
        await self._beat()
        await self._reach.tell_missed()
        self._newest_item = (await ports.store.arrivals(after=_ITEMS_END)).newest
        await self._sweep()
        self._keeper = asyncio.create_task(self._keep(), name=IDLE)

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
        elif driver is not None and driver.is_puzzled:
            self._reach.leave(session_id, "its inbox has an item of a kind that this release does not know")

    def _drop(self, session_id: str, error: BaseException) -> None:
        """Try again at the next sweep; not for ever, unless the store was out of reach."""
        if isinstance(error, Unavailable) and error.retry is RetryClass.HOST_CONFIGURATION_NEEDED:
            self._reach.leave(session_id, error.message)
            return
        self._end_if_stopped(error)
        is_passing = isinstance(error, Unavailable | Ambiguous)
        times = self._dropped.get(session_id, 0) + (not is_passing)
        self._dropped[session_id] = times
        level = logging.WARNING if is_passing else logging.ERROR
        name = type(error).__name__
        _LOG.log(level, "session %s could not be driven and is tried again: %s", session_id, name)
        if not is_passing:
            redactor = self._ports.scribe.redactor
            log_failure(f"session {session_id} could not be driven", error, redactor=redactor, level=level)

    def _end_if_stopped(self, error: BaseException) -> None:
        """Let nobody wait for a store that takes nothing more."""
        if isinstance(error, Unavailable) and error.retry is RetryClass.REPAIR_NEEDED:
            self._ports.shared.bus.end(error)

    async def aclose(self) -> None:
        """Stop driving; tools get a moment to finish, runs go on with the next owner."""
        if self.is_closed:
            return
        self.is_closed = True
        helpers = [*self._late.tasks, *(() if self._keeper is None else (self._keeper,))]
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
            care: Care | None = NO_CARE
            refusal = await self._drive_once(session_id, care)
            while refusal is not None:
                care = care.after(refusal)
                if care is None:
                    raise refusal.error
                refusal = await self._drive_once(session_id, care)
        self._dropped.pop(session_id, None)

    async def _drive_once(self, session_id: str, care: Care) -> Refusal | None:
        """Drive a session until it is parked; return why if it cannot be driven so."""
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
        writer.rouse = self.wake
        if not await self._reach.can_drive(state, session_id):
            await writer.release()
            await self._reach.tell_missed()
            return None
        steady = self._parked.take(session_id)
        work = AgentWork(
            ports.binder,
            writer,
            shared=replace(ports.shared, content=SessionContent(ports.shared.content, session_id)),
            steady=steady,
            prompt=known.prompt,
            has_agent=self._reach.has_agent,
        )
        driver = Driver(state, writer, inbox=ports.store, work=work, steady=steady, rules=ports.rules)
        self._drivers[session_id] = driver
        if self.is_closed:
            driver.stop()
        try:
            await driver.drive(care)
        except Exception as error:
            if not self._is_refusal(session_id, error):
                raise
            return Refusal(error, writer.consuming)
        finally:
            work.close()
        self._reach.left.pop(session_id, None)
        if writer.is_released:
            self._parked.keep(session_id, steady)
            await self._remember(session_id, known)
        return None

    def _is_refusal(self, session_id: str, error: Exception) -> bool:
        """Whether driving a session in the same way again would fail again."""
        if isinstance(error, Rejected):
            return True
        attempts_max = ATTEMPTS_MAX if isinstance(error, AgentError) else BUG_ATTEMPTS_MAX
        is_passing = isinstance(error, Unavailable | Ambiguous)
        attempts = self._dropped.get(session_id, 0) + 1
        return not is_passing and attempts >= attempts_max - 1

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
            await self._beat(is_doubted=True)
            return await ports.store.claim(session_id, ports.owner_id, now_ms=now_ms)

    # the keeper

    async def _keep(self) -> None:
        """Stay an owner, and look after sessions that nobody drives."""
        ports = self._ports
        beat_ms, is_told = moment(ports.clock).ms, False
        ahead_ms = beat_ms - ports.clock.monotonic() * 1_000
        while True:
            await ports.clock.sleep(SWEEP_S)
            now_ms = moment(ports.clock).ms
            back_ms = ahead_ms - (now_ms - ports.clock.monotonic() * 1_000)
            try:
                if back_ms >= CLOCK_BACK_MS_MIN:
                    await self._late.catch(now_ms + int(back_ms))
                ahead_ms -= back_ms
                if abs(now_ms - beat_ms) >= OWNER_LEASE_MS / 4:
                    await self._beat()
                    beat_ms = now_ms
                await self._look_around()
                await self._sweep()
                await self._tell_clock()
                is_told = False
            except Exception as error:  # noqa: BLE001 - without its keeper a process stops being an owner
                # The store is out of reach for now; runs that cannot be written end by themselves.
                if not is_told:
                    level = logging.WARNING if isinstance(error, AgentError) else logging.ERROR
                    _LOG.log(level, "sessions are not looked after for now: %s", type(error).__name__)
                is_told = True
                self._end_if_stopped(error)

    async def _tell_clock(self) -> None:
        """Let whoever owns the clock know whether a session is to be woken some time."""
        wake = await self._ports.store.next_wake_ms()
        if self._keeper is not None:
            self._keeper.set_name(IDLE if wake is None else "windlass keeper")

    async def _beat(self, *, is_doubted: bool = False) -> None:
        """Be heard of; if that is late, find out what others have taken meanwhile."""
        ports = self._ports
        lease, now_ms = ports.shared.lease, moment(ports.clock).ms
        is_late = lease.is_over(ports.clock)
        await ports.store.enlist(ports.owner_id, now_ms=now_ms)
        # Also the store may have taken its time.
        is_doubted = is_doubted or is_late or lease.is_over(ports.clock)
        for session_id, driver in [*self._drivers.items()] if is_doubted else ():
            row = await ports.store.session(session_id)
            if driver is not None and (row is None or row.owner_id != ports.owner_id):
                driver.lose()
        lease.renew(now_ms)

    async def _look_around(self) -> None:
        """Pass on what other processes wrote, to the readers and to the drivers."""
        change = self._change if self._watched is None else await self._watched.change_token()
        if change == self._change:
            return
        self._change = change
        self._ports.shared.bus.notify()
        # Our own writes are changes too, so only those are rung who got something.
        arrived = await self._ports.store.arrivals(after=self._newest_item)
        self._newest_item = arrived.newest
        for session_id in arrived.session_ids:
            driver = self._drivers.get(session_id)
            if driver is not None:
                driver.ring()

    async def _sweep(self) -> None:
        ports = self._ports
        # Those that were given up on are still due: without room for them they would hide the others.
        room = SWEPT_MAX + len(self._dropped) + len(self._reach.left)
        now_ms = moment(ports.clock).ms
        due = await ports.store.due(now_ms=now_ms, limit=room, agents=ports.agents())
        again = [one for one, times in self._dropped.items() if times < ATTEMPTS_MAX]
        # In the order of the store: those that waited longest come first.
        for session_id in dict.fromkeys((*due, *again)):
            if self._reach.left.get(session_id, 0) <= now_ms:
                self.wake(session_id)
