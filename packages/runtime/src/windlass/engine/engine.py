"""The engine: claims sessions, drives them, and wakes them."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, Literal, Protocol, runtime_checkable

from windlass.engine.binding import Binder, Binding
from windlass.engine.clocks import ParkedPauses, moment
from windlass.engine.driver import Driver
from windlass.engine.effects import EffectPorts, Effects, SessionContent
from windlass.engine.hooks import EventHooks, FindEventHooks
from windlass.engine.inbox import NO_QUARANTINE, Quarantine, RefusedDrive, agent_of, each_item
from windlass.engine.masking import log_failure
from windlass.engine.model_call import Prompt
from windlass.engine.writer import Loaded, Publisher, Scribe, SessionWriter, load, save, wants_snapshot
from windlass.errors import AgentError, Ambiguous, Conflict, Rejected, Unavailable
from windlass.limits import DRAIN_S, OWNER_LEASE_MS
from windlass.ports.clock import IDLE, Clock
from windlass.ports.store import (
    CANCEL,
    COMPACT,
    SCHEDULE,
    START,
    STEER,
    Catalog,
    Claim,
    Notice,
    Standing,
    Store,
)
from windlass.ports.wakes import Drive, NotParked, Parked, Wakes
from windlass_harness.loop.rules import Rules
from windlass_harness.loop.state import LoopState
from windlass_harness.views.runs import RunState
from windlass_protocol import RetryClass
from windlass_protocol.frozen import frozen

_LOG: Final = logging.getLogger(__name__)
_RUNS_LOG: Final = logging.getLogger("windlass.runs")

LEFT_MS: Final = 30_000
"""How long a session with a missing agent is left to other processes before the next attempt."""


class AgentAvailability:
    """Agent availability: which agents this process has, and which sessions wait for others."""

    def __init__(self, store: Store, clock: Clock, *, agents: Callable[[], Collection[str] | None]) -> None:
        self._store = store
        self._clock = clock
        self._agents = agents
        self._missed: set[str] = set()
        """Missing agents with waiting runs; each is logged once."""
        self.left: dict[str, int] = {}
        """Sessions left to other processes, each with the time in milliseconds of the next attempt."""

    def leave(self, session_id: str, why: str) -> None:
        """Leave a session to processes that have its agent; try again after `LEFT_MS`."""
        if session_id not in self.left:
            _LOG.warning("session %s waits for another process: %s", session_id, why)
        self._leave(session_id)

    def _leave(self, session_id: str) -> None:
        self.left[session_id] = moment(self._clock).ms + LEFT_MS

    def has_agent(self, agent_id: str) -> bool:
        """Whether this process can drive runs of an agent."""
        agents = self._agents()
        return agents is None or agent_id in agents

    async def can_drive(self, state: LoopState, session_id: str) -> bool:
        """Whether this process has the agent of the current run, or else of the next one."""
        run = state.run
        if run is not None:
            return self.has_agent(run.agent_id) or await self._can_end(session_id, run.run_id)
        if self._agents() is None:
            return True
        missed = None
        async for item in each_item(self._store, session_id):
            if item.kind in (START, STEER) and self.has_agent(agent_of(item)):
                return True
            if item.kind == START:
                return await self._can_end(session_id, str(item.body.get("runId")))
            if item.kind == STEER:
                missed = agent_of(item)
            if item.kind == COMPACT and not self._can_compact(state, session_id):
                return False
        if missed is not None:
            self.leave(session_id, f"agent {missed} is missing; a message starts a run of it")
            return False
        return not state.compacting.is_due or self._can_compact(state, session_id)

    async def _can_end(self, session_id: str, run_id: str) -> bool:
        """Whether a run of a missing agent was cancelled and no other process has ended it in time."""
        items = each_item(self._store, session_id)
        cancelled = {str(item.body.get("runId")) async for item in items if item.kind == CANCEL}
        until_ms, now_ms = self.left.get(session_id), moment(self._clock).ms
        is_due = until_ms is not None and until_ms <= now_ms
        if is_due and run_id in cancelled:
            return True
        if cancelled and (is_due or until_ms is None):
            self._leave(session_id)
        return False

    def _can_compact(self, state: LoopState, session_id: str) -> bool:
        """Whether this process has the agent of the last run; if not, the session is left."""
        last = state.session.run
        if last is None or self.has_agent(last.agent_id):
            return True
        self.leave(session_id, f"agent {last.agent_id} is missing; it compacts the history")
        return False

    async def tell_missed(self) -> None:
        """Log the agents that unfinished runs need and this process does not have."""
        agents = self._agents()
        if agents is None:
            return
        for agent_id, count in (await self._store.unfinished()).items():
            if agent_id not in self._missed and not self.has_agent(agent_id):
                self._missed.add(agent_id)
                # A process without any agents only reads and answers: waiting runs are expected there.
                level = logging.WARNING if agents else logging.INFO
                told = "1 unfinished run waits" if count == 1 else f"{count} unfinished runs wait"
                _LOG.log(level, "%s for agent %s, which this process does not have", told, agent_id)


class ClockJumpWakes:
    """Wakes sessions on time after the wall clock was set back."""

    def __init__(self, store: Catalog, clock: Clock, *, wake: Callable[[str], None]) -> None:
        self._store = store
        self._clock = clock
        self._wake = wake
        self.tasks: set[asyncio.Task[None]] = set()

    async def catch(self, now_ms: int) -> None:
        """Schedule wake-ups of waiting sessions by the monotonic clock.

        `now_ms` is the wall-clock time without the jump. Each session is woken once; it waits again if it
        goes by the wall clock, as a request that expires does.
        """
        since_s = self._clock.monotonic()
        wakes: list[tuple[int, str]] = []
        after: str | None = None
        while rows := await self._store.sessions(after=after):
            for row in rows:
                if row.standing is Standing.WAITING and row.wake_at_ms is not None:
                    wakes.append((row.wake_at_ms - now_ms, row.session_id))
            after = rows[-1].session_id
        task = asyncio.create_task(self._wake_all(sorted(wakes), since_s), name="windlass late wakes")
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _wake_all(self, wakes: Sequence[tuple[int, str]], since_s: float) -> None:
        for delay_ms, session_id in wakes:
            await self._clock.sleep(since_s + delay_ms / 1_000 - self._clock.monotonic())
            self._wake(session_id)


SESSIONS_MAX: Final = 64
BYTES_MAX: Final = 32 * 1_048_576
"""Approximate bytes of all cached sessions together."""
MESSAGE_BYTES: Final = 2_048
"""Approximate bytes of a message without its text, and of a session without its messages."""


@frozen
class CachedSession:
    """A cached session, as its last driver left it."""

    loaded: Loaded
    prompt: Prompt

    @property
    def size(self) -> int:
        """Approximate size in bytes; compacted messages do not count."""
        state = self.loaded.state
        history = state.session.history
        texts = state.size_sums.since(0, history.messages, revision=history.revision)
        return texts + MESSAGE_BYTES * (len(history.messages) + 1)


class SessionCache:
    """Cache of the sessions that were driven last."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[CachedSession, int]] = OrderedDict()
        """Sessions with their sizes in bytes."""
        self._bytes = 0

    def take(self, session_id: str, *, seq: int) -> CachedSession | None:
        """Remove and return a session; None if its journal does not end at `seq`."""
        if session_id not in self._known:
            return None
        known, size = self._known.pop(session_id)
        self._bytes -= size
        return known if known.loaded.state.seq == seq else None

    def keep(self, session_id: str, known: CachedSession) -> None:
        """Cache a session that is no longer driven, if it fits."""
        self.take(session_id, seq=0)
        size = known.size
        if size > BYTES_MAX:
            # Do not evict the others for a session that cannot fit.
            return
        self._known[session_id] = known, size
        self._bytes += size
        while len(self._known) > SESSIONS_MAX or self._bytes > BYTES_MAX:
            self.take(next(iter(self._known)), seq=0)


SWEEP_S: Final = 1.0
"""Interval of the sweep for sessions without an owner."""
ATTEMPTS_MAX: Final = 10
"""Failed drives in a row before a session is left alone until a restart."""
CLOCK_BACK_MS_MIN: Final = 5_000
"""Smaller jumps back of the wall clock are ignored."""
BUG_ATTEMPTS_MAX: Final = 3
"""Failed drives in a row with an unexpected error before the item or run at fault is ended."""
SWEPT_MAX: Final = 100
"""Sessions that one sweep wakes; the next sweep continues."""
REWAKES_MAX: Final = 1_000
"""Sessions that were found by a sweep and wait to be driven elsewhere, beside which others are found."""
LOST_PER_SWEEP_MAX: Final = 25
"""Wakes that one sweep repeats because they seem lost."""
REWAKE_TIMES_MAX: Final = 16
"""The longest time between two wakes of a session that stays due, in times of `lost_after_ms`."""
DRAIN_LOG_S: Final = 10.0
"""Interval of the log lines of a drain."""
DRIVEN_MAX: Final = 10_000
"""Sessions driven at the same time; further ones wait."""


_ITEMS_END: Final = 2**53 - 1
"""Larger than any item number."""


@runtime_checkable
class SharedStore(Protocol):
    """A store that other processes may also write to."""

    async def change_token(self) -> int:
        """Return a number that changes after every write of any process."""
        ...


class LocalWakes:
    """Sessions are driven by the process that wakes them, or by the first whose sweep finds them.

    It needs nothing but the store. A process that does not drive leaves its wakes to the sweeps of others.
    """

    lost_after_ms = 0

    def __init__(self) -> None:
        self._drive: Drive | None = None

    async def open(self, drive: Drive | None) -> None:
        """Drive with this function."""
        self._drive = drive

    def wake(self, session_id: str, *, is_lost: bool = False) -> None:
        """Drive a session here."""
        if self._drive is not None:
            self._drive(session_id)

    async def aclose(self) -> None:
        """Do nothing: the engine ends its drives."""


@runtime_checkable
class NotifyingStore(Protocol):
    """A store that tells of most writes of other processes at once."""

    def listen(self, told: Callable[[Notice], None]) -> Callable[[], None]:
        """Call a function in this event loop when another process has written; return how to end that."""
        ...


@frozen
class Ports:
    """Dependencies of the engine."""

    store: Store
    publisher: Publisher
    shared: EffectPorts
    scribe: Scribe
    clock: Clock
    binder: Binder
    agents: Callable[[], Collection[str] | None]
    """The agents that this process can drive; None means any."""
    rules: Rules
    owner_id: str
    wakes: Wakes
    is_driving: bool = True
    """Whether this process drives sessions; if not, it only wakes them."""
    drain_s: float = DRAIN_S
    """How long effects under way may take to end when the engine is drained."""
    event_hooks: FindEventHooks = lambda _: ()
    on_parked: Callable[[LoopState], None] = lambda _: None
    """Called when this process has stopped driving a session."""
    on_schedule_due: Callable[[], None] = lambda: None


class Engine:
    """Drives sessions, each in a task of its own while it has something to do."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._drivers: dict[str, Driver | None] = {}
        self._tasks: dict[str, asyncio.Task[Parked]] = {}
        self._dropped: dict[str, int] = {}
        """Sessions after a failed drive, with the number of failures in a row; they are retried."""
        self._availability = AgentAvailability(ports.store, ports.clock, agents=ports.agents)
        self._cache = SessionCache()
        self._parked = ParkedPauses(ports.clock)
        self._event_hooks = EventHooks(ports.event_hooks, ports.scribe.redactor)
        self._turn = asyncio.Semaphore(DRIVEN_MAX)
        self._keeper: asyncio.Task[None] | None = None
        self._clock_jumps = ClockJumpWakes(ports.store, ports.clock, wake=self.wake)
        self._watched = ports.store if isinstance(ports.store, SharedStore) else None
        self._change: int | None = None
        self._shared: set[str] = set()
        """Sessions that were at work together when their owners ended."""
        self._left_count = 0
        """Sessions at work without an owner that the last sweep found."""
        self._rewakes: dict[str, tuple[int, int]] = {}
        """Sessions that were due at the last sweep: when each is woken again, and the time after that."""
        self._newest_item = 0
        """Largest item number at the last look for new items."""
        self._looking = asyncio.Lock()
        self._hearer: asyncio.Task[None] | None = None
        """Looks around and sweeps after a notification."""
        self._is_told = False
        self._end_listening: Callable[[], None] = lambda: None
        self._draining: asyncio.Future[None] | None = None
        self._drain_end = asyncio.Event()
        self.is_draining = False
        """Whether no session is driven any more, apart from effects that may end."""
        self.is_closed = False

    async def open(self) -> None:
        """Register as an owner and continue unfinished runs, if this process drives."""
        if self._keeper is not None:
            return
        ports = self._ports
        if ports.is_driving:
            await self._beat()
            await self._availability.tell_missed()
        self._newest_item = (await ports.store.arrivals(after=_ITEMS_END)).newest
        await ports.wakes.open(self.drive if ports.is_driving else None)
        if ports.is_driving:
            await self._sweep()
        self._keeper = asyncio.create_task(self._keep(), name=IDLE)
        if isinstance(ports.store, NotifyingStore):
            self._end_listening = ports.store.listen(self._hear)

    def wake(self, session_id: str, *, is_lost: bool = False) -> None:
        """Make sure that the session is driven and reads its inbox."""
        if not self.is_closed:
            self._ports.wakes.wake(session_id, is_lost=is_lost)

    def drive(self, session_id: str) -> asyncio.Task[Parked]:
        """Begin to drive a session, see `Drive`; one that is driven already reads its inbox again."""
        task = self._tasks.get(session_id)
        if task is not None and not task.done():
            driver = self._drivers.get(session_id)
            if driver is not None:
                driver.ring()
            return task
        task = asyncio.create_task(self._drive(session_id), name=f"windlass session {session_id}")
        self._tasks[session_id] = task
        task.add_done_callback(lambda task: self._done(session_id, task))
        return task

    def _done(self, session_id: str, task: asyncio.Task[Parked]) -> None:
        if self._tasks.get(session_id) is task:
            del self._tasks[session_id]
            self._drivers.pop(session_id, None)
            self._shared.discard(session_id)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, NotParked):
            self._drop(session_id, error)

    def _drop(self, session_id: str, error: BaseException) -> None:
        """Retry at the next sweep: `ATTEMPTS_MAX` times, or without limit if the store is unreachable."""
        if isinstance(error, Unavailable) and error.retry is RetryClass.HOST_CONFIGURATION_NEEDED:
            self._availability.leave(session_id, error.message)
            return
        self._end_if_stopped(error)
        is_passing = isinstance(error, Unavailable | Ambiguous)
        times = self._dropped.get(session_id, 0) + (not is_passing)
        self._dropped[session_id] = times
        level = logging.WARNING if is_passing else logging.ERROR
        name = type(error).__name__
        _LOG.log(level, "drive of session %s failed and is retried: %s", session_id, name)
        if not is_passing:
            redactor = self._ports.scribe.redactor
            log_failure(f"session {session_id} could not be driven", error, redactor=redactor, level=level)

    def _end_if_stopped(self, error: BaseException) -> None:
        """End all feeds if the store has stopped for good."""
        if isinstance(error, Unavailable) and error.retry is RetryClass.REPAIR_NEEDED:
            self._ports.shared.bus.end(error)

    async def drain(self) -> None:
        """Stop driving, and let effects under way end: for `drain_s` at most, or until `end_drain`.

        Sessions are released as their effects end, and other owners continue their runs. Items are still
        posted, and readers are still notified.
        """
        if self._draining is None:
            self._draining = asyncio.ensure_future(self._drain())
        await asyncio.shield(self._draining)

    def end_drain(self) -> None:
        """Wait no longer for effects under way."""
        self._drain_end.set()

    async def _drain(self) -> None:
        self.is_draining = True
        # It waits for the drives that it began, which are stopped next.
        closing = asyncio.ensure_future(self._ports.wakes.aclose())
        for driver in self._drivers.values():
            if driver is not None:
                driver.stop()
        drives = asyncio.create_task(self._await_drives())
        early_end = asyncio.create_task(self._drain_end.wait())
        await self._await_effects(drives, early_end)
        early_end.cancel()
        self._give_up()
        await drives
        await closing

    async def _await_drives(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _await_effects(self, *ends: "asyncio.Task[None] | asyncio.Task[Literal[True]]") -> None:
        """Wait for one of the ends, for `drain_s` at most; log the number of calls under way."""
        clock = self._ports.clock
        until_s = clock.monotonic() + self._ports.drain_s
        while (left_s := until_s - clock.monotonic()) > 0 and not any(end.done() for end in ends):
            count = sum(len(driver.awaited) for driver in self._drivers.values() if driver is not None)
            if count:
                _RUNS_LOG.info(
                    "draining: %s call%s under way, up to %.0f s",
                    f"{count:,}",
                    "s" * (count > 1),
                    left_s,
                    extra={"windlass": {"calls": count, "leftS": round(left_s)}},
                )
            pause = asyncio.ensure_future(clock.sleep(min(DRAIN_LOG_S, left_s)))
            await asyncio.wait((pause, *ends), return_when=asyncio.FIRST_COMPLETED)
            pause.cancel()

    def _give_up(self) -> None:
        """Wait no longer for the effects under way; log their ids."""
        for session_id, driver in self._drivers.items():
            if driver is None:
                continue
            keys = [effect.key for effect in driver.awaited]
            if keys:
                _RUNS_LOG.warning(
                    "session %s is handed over with calls under way, which did not end in time: %s",
                    session_id,
                    ", ".join(keys),
                    extra={"windlass": {"sessionId": session_id, "calls": keys}},
                )
            driver.give_up()

    async def aclose(self) -> None:
        """Drain, and leave the store; the next owner continues the runs."""
        await self.drain()
        if self.is_closed:
            return
        self.is_closed = True
        self._end_listening()
        helpers = [
            *self._clock_jumps.tasks,
            *(one for one in (self._keeper, self._hearer) if one is not None),
        ]
        for task in helpers:
            task.cancel()
        if helpers:
            await asyncio.wait(helpers)
        await self._ports.shared.provider_limits.aclose()
        # If retiring fails, other owners take over when the lease expires.
        with suppress(AgentError):
            await self._ports.store.retire(self._ports.owner_id)
        await self._event_hooks.aclose()

    async def _drive(self, session_id: str) -> Parked:
        driver: Driver | None = None
        async with self._turn:
            quarantine: Quarantine | None = NO_QUARANTINE
            while not self.is_draining and (driver is None or driver.has_mail):
                driven = await self._drive_once(session_id, quarantine)
                if isinstance(driven, Driver):
                    driver, quarantine = driven, NO_QUARANTINE
                    self._dropped.pop(session_id, None)
                    if driver.is_lost:
                        # If no other owner has it, the next sweep continues from the journal.
                        self._dropped[session_id] = 1
                        break
                else:
                    quarantine = quarantine.after(driven)
                    if quarantine is None:
                        raise driven.error
        if driver is None or not driver.is_parked:
            raise NotParked("this process stops, or another owner took the session")
        if driver.has_unknown_item:
            self._availability.leave(session_id, "unknown kind of inbox item; a newer release wrote it")
        return driver.parked()

    async def _drive_once(self, session_id: str, quarantine: Quarantine) -> Driver | RefusedDrive:
        """Drive a session until it is parked; return the refusal if this drive can never be committed."""
        ports = self._ports
        claim = await self._claim(session_id)
        known = self._cache.take(session_id, seq=claim.last_seq) or CachedSession(
            await load(ports.store, ports.store, session_id=session_id)
            if claim.last_seq
            else Loaded(LoopState(), 0),
            Prompt(),
        )
        if session_id in self._dropped:
            # The last drive may have written records without learning of it; make readers look again.
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
        writer.on_item_posted = self.wake
        if not await self._availability.can_drive(state, session_id):
            await writer.release()
            await self._availability.tell_missed()
            self._dropped.pop(session_id, None)
            raise NotParked("this process does not have the agent")

        async def bind(run: RunState) -> Binding | None:
            # Its first records are appended after this, also if it cannot be bound.
            if run.playground is None:
                self._event_hooks.observe(writer, run)
            return await ports.binder(run)

        pause_clock = self._parked.take(session_id)
        effects = Effects(
            bind,
            writer,
            shared=replace(ports.shared, content=SessionContent(ports.shared.content, session_id)),
            pause_clock=pause_clock,
            prompt=known.prompt,
            has_agent=self._availability.has_agent,
        )
        driver = Driver(
            state,
            writer,
            inbox=ports.store,
            effects=effects,
            pause_clock=pause_clock,
            rules=ports.rules,
            is_alone=session_id not in self._shared,
        )
        self._drivers[session_id] = driver
        if self.is_draining:
            driver.stop()
        try:
            await driver.drive(quarantine)
        except Exception as error:
            if not self._is_refusal(session_id, error):
                raise
            return RefusedDrive(error, writer.consuming)
        finally:
            effects.close()
            ports.on_parked(state)
        self._availability.left.pop(session_id, None)
        if writer.is_released:
            self._parked.keep(session_id, pause_clock)
            await self._remember(session_id, known)
        return driver

    def _is_refusal(self, session_id: str, error: Exception) -> bool:
        """Whether the same drive would fail in the same way again."""
        if isinstance(error, Rejected):
            return True
        attempts_max = ATTEMPTS_MAX if isinstance(error, AgentError) else BUG_ATTEMPTS_MAX
        is_passing = isinstance(error, Unavailable | Ambiguous)
        attempts = self._dropped.get(session_id, 0) + 1
        return not is_passing and attempts >= attempts_max - 1

    async def _remember(self, session_id: str, known: CachedSession) -> None:
        """Cache the state of a session, and save a snapshot if one is due."""
        loaded = known.loaded
        if wants_snapshot(loaded.state, loaded.snapshot_seq):
            with suppress(AgentError):
                await save(self._ports.store, session_id, state=loaded.state)
            known = CachedSession(Loaded(loaded.state, loaded.state.seq), known.prompt)
        self._cache.keep(session_id, known)

    async def _claim(self, session_id: str) -> Claim:
        ports = self._ports
        now_ms = moment(ports.clock).ms
        try:
            return await ports.store.claim(session_id, ports.owner_id, now_ms=now_ms)
        except Conflict:
            # Another owner drives the session and reads its inbox.
            self._dropped.pop(session_id, None)
            raise NotParked("another owner has the session") from None
        except Rejected:
            # Another owner declared this process dead, for example after the machine slept.
            await self._beat(is_doubted=True)
            return await ports.store.claim(session_id, ports.owner_id, now_ms=now_ms)

    # the keeper

    async def _keep(self) -> None:
        """Renew the lease, and wake sessions without an owner, until cancelled."""
        ports = self._ports
        beat_ms, is_told = moment(ports.clock).ms, False
        ahead_ms = beat_ms - ports.clock.monotonic() * 1_000
        while True:
            await ports.clock.sleep(SWEEP_S)
            now_ms = moment(ports.clock).ms
            back_ms = ahead_ms - (now_ms - ports.clock.monotonic() * 1_000)
            try:
                if back_ms >= CLOCK_BACK_MS_MIN:
                    await self._clock_jumps.catch(now_ms + int(back_ms))
                ahead_ms -= back_ms
                if not ports.is_driving:
                    await self._look_around()
                    continue
                # Also while draining: the sessions with effects under way must not get another owner.
                if abs(now_ms - beat_ms) >= OWNER_LEASE_MS / 4:
                    await self._beat()
                    beat_ms = now_ms
                async with self._looking:
                    await self._look_around()
                    if not self.is_draining:
                        await self._sweep()
                if not self.is_draining:
                    await self._look_at_times()
                is_told = False
            except Exception as error:  # noqa: BLE001 - without its keeper a process stops being an owner
                # The store is unreachable for now; drivers that cannot write end by themselves.
                if not is_told:
                    level = logging.WARNING if isinstance(error, AgentError) else logging.ERROR
                    _LOG.log(level, "store unreachable, sessions not swept: %s", type(error).__name__)
                is_told = True
                self._end_if_stopped(error)

    async def _look_at_times(self) -> None:
        """Notice schedules that are due.

        The keeper task is named idle while neither a schedule nor a session waits for a time; the test clock
        looks for that name.
        """
        ports = self._ports
        wake, tick = await ports.store.next_wake_ms(), await ports.store.next_document_ms(SCHEDULE)
        if tick is not None and tick <= moment(ports.clock).ms:
            ports.on_schedule_due()
        if self._keeper is not None:
            self._keeper.set_name(IDLE if wake is None and tick is None else "windlass keeper")

    async def _beat(self, *, is_doubted: bool = False) -> None:
        """Renew the lease; if it had expired, drop the drivers of sessions that were taken."""
        ports = self._ports
        lease, now_ms = ports.shared.lease, moment(ports.clock).ms
        is_late = lease.is_over(ports.clock)
        await ports.store.enlist(ports.owner_id, now_ms=now_ms)
        # The heartbeat itself may have taken longer than the lease.
        is_doubted = is_doubted or is_late or lease.is_over(ports.clock)
        for session_id, driver in [*self._drivers.items()] if is_doubted else ():
            row = await ports.store.session(session_id)
            if driver is not None and (row is None or row.owner_id != ports.owner_id):
                driver.lose()
        lease.renew(now_ms)

    async def _look_around(self) -> None:
        """Notify readers and drivers of writes by other processes."""
        change = self._change if self._watched is None else await self._watched.change_token()
        if change == self._change:
            return
        self._change = change
        self._ports.shared.bus.notify()
        # Our own writes change the token too: ring only drivers with new items.
        arrived = await self._ports.store.arrivals(after=self._newest_item)
        self._newest_item = arrived.newest
        for session_id in arrived.session_ids:
            driver = self._drivers.get(session_id)
            if driver is not None:
                driver.ring()

    def _hear(self, told: Notice) -> None:
        """Notify readers and drivers of a write by another process; look for work if there are new items."""
        if self.is_closed:
            return
        self._ports.shared.bus.notify(told.sessions)
        for session_id in told.sessions if told.has_items and told.sessions is not None else ():
            driver = self._drivers.get(session_id)
            if driver is not None:
                driver.ring()
        if told.has_items and not self._drivers.keys() >= (told.sessions or {""}):
            self._is_told = True
            if self._hearer is None or self._hearer.done():
                self._hearer = asyncio.create_task(self._look_at_once(), name="windlass hearer")

    async def _look_at_once(self) -> None:
        """Look around and sweep, until there was no notification meanwhile."""
        while self._is_told:
            self._is_told = False
            # The keeper tries again, and tells.
            with suppress(AgentError):
                async with self._looking:
                    await self._look_around()
                    if self._ports.is_driving and not self.is_draining:
                        await self._sweep()

    async def _note_shared(self, due: Sequence[str]) -> None:
        """Note which sessions were left together: none of them must be taken for what ended its process."""
        new = [one for one in due if one not in self._tasks and one not in self._rewakes]
        rows = [await self._ports.store.session(one) for one in new]
        left = [row.session_id for row in rows if row is not None and row.standing is Standing.RUNNING]
        # A sweep wakes a part of many sessions; the last of them is not alone either.
        if len(left) > 1 or self._left_count > 1:
            self._shared.update(left)
        self._left_count = len(left)

    async def _sweep(self) -> None:
        ports = self._ports
        # Sessions that were given up on, or woken elsewhere, are still due: they must not hide others.
        known = min(len(self._rewakes), REWAKES_MAX)
        room = SWEPT_MAX + len(self._dropped) + len(self._availability.left) + known
        now_ms = moment(ports.clock).ms
        due = await ports.store.due(now_ms=now_ms, limit=room, agents=ports.agents())
        await self._note_shared(due)
        again = [one for one, times in self._dropped.items() if times < ATTEMPTS_MAX]
        # The store returns sessions that have waited longest first.
        found = dict.fromkeys((*due, *again))
        if lost_after_ms := ports.wakes.lost_after_ms:
            # Their wakes may be on their way; each is repeated once it seems lost, less and less often.
            later = now_ms + lost_after_ms
            self._rewakes = {one: self._rewakes.get(one, (later, lost_after_ms)) for one in found}
            self._shared.intersection_update((*found, *self._tasks))
        left = LOST_PER_SWEEP_MAX if lost_after_ms else len(found)
        for session_id in found:
            if self._availability.left.get(session_id, 0) <= now_ms and self._is_due_again(
                session_id, now_ms
            ):
                self.wake(session_id, is_lost=lost_after_ms > 0)
                left -= 1
            if not left:
                # The next sweep continues: many sessions are due when the engine of wakes is behind.
                break

    def _is_due_again(self, session_id: str, now_ms: int) -> bool:
        """Return whether a session that a sweep found is to be woken now."""
        at_ms, after_ms = self._rewakes.get(session_id, (0, 0))
        if at_ms <= now_ms and after_ms:
            after_ms = min(2 * after_ms, REWAKE_TIMES_MAX * self._ports.wakes.lost_after_ms)
            self._rewakes[session_id] = now_ms + after_ms, after_ms
        return at_ms <= now_ms
