"""Drives: each session is driven in a task of its own while it has something to do.

A drive claims the session, folds its records or takes the state that the last drive left, and runs a `Driver`
until the session is parked. A drive that failed is repeated by the next sweep.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Final, Literal

from windlass.engine.binding import Binder, Binding
from windlass.engine.clocks import ParkedPauses, moment
from windlass.engine.driving.driver import Driver
from windlass.engine.driving.inbox import NO_QUARANTINE, Quarantine, RefusedDrive, agent_of
from windlass.engine.driving.slots import SessionSlots
from windlass.engine.driving.suspects import Suspects
from windlass.engine.driving.versions import AgentVersions
from windlass.engine.effect_context import EffectPorts
from windlass.engine.effects import Effects
from windlass.engine.hooks import EventHooks, FindEventHooks
from windlass.engine.model_calls.model_call import Prompt
from windlass.engine.writing.masking import log_failure
from windlass.engine.writing.writer import (
    Loaded,
    Publisher,
    Scribe,
    SessionWriter,
    load,
    save,
    wants_snapshot,
)
from windlass.errors import AgentError, Ambiguous, Conflict, Rejected, Unavailable
from windlass.limits import DRAIN_S
from windlass.ports.catalog import count_by_agent
from windlass.ports.clock import Clock
from windlass.ports.documents import RESTORED
from windlass.ports.inbox import COMPACT, STEER, InboxItem
from windlass.ports.journal import Claim, Standing
from windlass.ports.store import ContentStore, Store
from windlass.ports.wakes import NotParked, Parked, Wakes
from windlass.tools.calling import TurnGate
from windlass_harness.loop.rules import Rules
from windlass_harness.loop.state import LoopState
from windlass_harness.loop.subagents import CANCEL, START
from windlass_harness.views.runs import RunState
from windlass_protocol import ContentRef, RetryClass
from windlass_protocol.frozen import frozen

_LOG: Final = logging.getLogger(__name__)
_RUNS_LOG: Final = logging.getLogger("windlass.runs")

LEFT_MS: Final = 30_000
"""How long a session with a missing agent is left to other processes before the next attempt."""
ATTEMPTS_MAX: Final = 10
"""Failed drives in a row before a session is left alone until a restart."""
BUG_ATTEMPTS_MAX: Final = 3
"""Failed drives in a row with an unexpected error before the item or run at fault is ended."""
DRAIN_LOG_S: Final = 10.0
"""Interval of the log lines of a drain."""


VersionOf = Callable[[str, str, str], Awaitable[str | None]]
"""Returns the version of a run, of its agent, model and fingerprint; None if it does not matter here."""


async def any_version(agent_id: str, model_id: str, fingerprint: str) -> str | None:
    """Return None: every run may be driven here."""
    return None


class AgentAvailability:
    """Agent availability: which agents this process has, and which sessions wait for others."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        agents: Callable[[], Collection[str] | None],
        versions: AgentVersions,
        version_of: VersionOf,
    ) -> None:
        self.versions = versions
        self._version_of = version_of
        self._store = store
        self._clock = clock
        self._agents = agents
        self._missed: set[str] = set()
        """Missing agents with waiting runs; each is logged once."""
        self.has_held = False
        """Whether sessions are held because the store was restored."""
        self.left: dict[str, int] = {}
        """Sessions left to other processes, each with the time in milliseconds of the next attempt."""

    async def look_at_held(self) -> None:
        """Look whether sessions are held because the store was restored."""
        self.has_held = bool(await self._store.documents(RESTORED, limit=1))

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

    async def can_drive(self, state: LoopState, driver: Driver) -> bool:
        """Whether this process has the agent of the current run, or else of the next one.

        An agent of another version counts as missing while a process that has the version lives.
        """
        run, session_id = state.run, driver.session_id
        if self.has_held and await self._store.document(RESTORED, session_id) is not None:
            self.leave(session_id, "its store was restored; a person releases it: windlass restore --release")
            return False
        if run is not None:
            refusal = await self._refusal(
                run.agent_id, model_id=run.model_id, fingerprint=run.package_fingerprint
            )
            if refusal is not None:
                can_end = self._can_end(session_id, run.run_id, await driver.read_mail())
                if not can_end:
                    self.leave(session_id, refusal)
                return can_end
        if self._agents() is None or (run is not None and self.has_agent(run.agent_id)):
            return True
        items = await driver.read_mail()
        if run is not None:
            return self._can_end(session_id, run.run_id, items)
        missed = None
        for item in items:
            if item.kind in (START, STEER) and self.has_agent(agent_of(item)):
                refusal = await self._refusal(
                    agent_of(item),
                    model_id=item.body.get("modelId"),
                    fingerprint=item.body.get("packageFingerprint"),
                )
                if refusal is not None:
                    self.leave(session_id, refusal)
                return refusal is None
            if item.kind == START:
                return self._can_end(session_id, item.run_id or "", items)
            if item.kind == STEER:
                missed = agent_of(item)
            if item.kind == COMPACT and not self._can_compact(state, session_id):
                return False
        if missed is not None:
            self.leave(session_id, f"agent {missed} is missing; a message starts a run of it")
            return False
        return not state.compacting.is_due or self._can_compact(state, session_id)

    async def _refusal(self, agent_id: str, *, model_id: object, fingerprint: object) -> str | None:
        """Return why a run of a version is left to other processes; None if it may be driven here."""
        if not model_id or not fingerprint:
            return None
        version = await self._version_of(agent_id, str(model_id), str(fingerprint))
        return None if version is None else await self.versions.refusal(agent_id, version)

    def _can_end(self, session_id: str, run_id: str, items: Sequence[InboxItem]) -> bool:
        """Whether a run of a missing agent was cancelled and no other process has ended it in time."""
        cancelled = {item.run_id for item in items if item.kind == CANCEL}
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

    async def log_missing_agents(self) -> None:
        """Log the agents that unfinished runs need and this process does not have."""
        agents = self._agents()
        if agents is None:
            return
        for agent_id, count in count_by_agent(await self._store.open_runs()).items():
            if agent_id not in self._missed and not self.has_agent(agent_id):
                self._missed.add(agent_id)
                # A process without any agents only reads and answers: waiting runs are expected there.
                level = logging.WARNING if agents else logging.INFO
                summary = "1 unfinished run waits" if count == 1 else f"{count} unfinished runs wait"
                _LOG.log(level, "%s for agent %s, which this process does not have", summary, agent_id)


LOADED_AT_ONCE: Final = 1
"""Sessions that begin to be loaded in one turn of the loop: a process that starts takes over hundreds."""
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
        return texts + self.prompt.added_chars + MESSAGE_BYTES * (len(history.messages) + 1)


class SessionCache:
    """Cache of the sessions that were driven last."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, tuple[CachedSession, int]] = OrderedDict()
        """Sessions with their sizes in bytes."""
        self._bytes = 0

    def take(self, session_id: str, *, seq: int) -> CachedSession | None:
        """Remove and return a session; None if its journal does not end at `seq`."""
        if session_id not in self._sessions:
            return None
        session, size = self._sessions.pop(session_id)
        self._bytes -= size
        return session if session.loaded.state.seq == seq else None

    def keep(self, session_id: str, session: CachedSession) -> None:
        """Cache a session that is no longer driven, if it fits."""
        self.take(session_id, seq=0)
        size = session.size
        if size > BYTES_MAX:
            # Do not evict the others for a session that cannot fit.
            return
        self._sessions[session_id] = session, size
        self._bytes += size
        while len(self._sessions) > SESSIONS_MAX or self._bytes > BYTES_MAX:
            self.take(next(iter(self._sessions)), seq=0)


@frozen
class SessionContent:
    """A `ContentStore` that stores content for one session."""

    inner: ContentStore
    session_id: str

    async def put(
        self, content: bytes, *, media_type: str = "application/json", session_id: str | None = None
    ) -> ContentRef:
        """Store bytes for the session."""
        return await self.inner.put(content, media_type=media_type, session_id=session_id or self.session_id)

    async def get(self, ref: ContentRef) -> bytes:
        """Return bytes."""
        return await self.inner.get(ref)


@frozen
class Ports:
    """Dependencies of the engine."""

    store: Store
    publisher: Publisher
    effect_ports: EffectPorts
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
    slots: SessionSlots = field(default_factory=SessionSlots)
    """How many sessions are driven at once."""
    drain_s: float = DRAIN_S
    """How long effects under way may take to end when the engine is drained."""
    versions: Callable[[], Mapping[str, str]] = dict[str, str]
    """The versions of the agents that this process has, by agent."""
    version_of: VersionOf = any_version
    waits_for_version: bool = False
    """Whether a run waits while no process has the version of its agent."""
    event_hooks: FindEventHooks = lambda _: ()
    on_parked: Callable[[LoopState], None] = lambda _: None
    """Called when this process has stopped driving a session."""
    on_schedule_due: Callable[[], None] = lambda: None


class Drives:
    """The sessions that this process drives, each in a task of its own."""

    def __init__(
        self,
        ports: Ports,
        *,
        wake: Callable[[str], None],
        renew_lease: Callable[[], Awaitable[None]],
    ) -> None:
        self._ports = ports
        self._wake = wake
        self._renew_lease = renew_lease
        """Called when another owner has declared this process dead."""
        self.drivers: dict[str, Driver] = {}
        self.tasks: dict[str, asyncio.Task[Parked]] = {}
        self.failures: dict[str, int] = {}
        """Sessions after a failed drive, with the number of failures in a row; the sweep retries them."""
        self.crashed_together: set[str] = set()
        """Sessions that were at work together when their owners ended."""
        self.availability = AgentAvailability(
            ports.store,
            ports.clock,
            agents=ports.agents,
            versions=AgentVersions(
                ports.store,
                ports.clock,
                owner_id=ports.owner_id,
                own=ports.versions,
                is_waiting=ports.waits_for_version,
            ),
            version_of=ports.version_of,
        )
        self._suspects = Suspects(ports.store, ports.clock)
        self._cache = SessionCache()
        self._loads = TurnGate(LOADED_AT_ONCE)
        self._parked = ParkedPauses(ports.clock)
        self._event_hooks = EventHooks(ports.event_hooks, ports.scribe.redactor)
        self._drain_end = asyncio.Event()
        self.is_draining = False
        """Whether no session is driven any more, apart from effects that may end."""

    def begin(self, session_id: str) -> asyncio.Task[Parked]:
        """Begin to drive a session, see `Drive`; one that is driven already reads its inbox again."""
        task = self.tasks.get(session_id)
        if task is not None and not task.done():
            self.ring(session_id)
            return task
        task = asyncio.create_task(self._drive(session_id), name=f"windlass session {session_id}")
        self.tasks[session_id] = task
        task.add_done_callback(lambda task: self._on_task_end(session_id, task))
        return task

    def ring(self, session_id: str) -> None:
        """Tell the driver of a session, if it has one here, that the inbox has a new item."""
        driver = self.drivers.get(session_id)
        if driver is not None:
            driver.ring()

    def _on_task_end(self, session_id: str, task: asyncio.Task[Parked]) -> None:
        if self.tasks.get(session_id) is task:
            del self.tasks[session_id]
            self.drivers.pop(session_id, None)
            self.crashed_together.discard(session_id)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, NotParked):
            self._drop(session_id, error)

    def _drop(self, session_id: str, error: BaseException) -> None:
        """Retry at the next sweep: `ATTEMPTS_MAX` times, or without limit if the store is unreachable."""
        if isinstance(error, Unavailable) and error.retry is RetryClass.HOST_CONFIGURATION_NEEDED:
            self.availability.leave(session_id, error.message)
            return
        end_feeds_if_stopped(self._ports, error)
        is_passing = isinstance(error, Unavailable | Ambiguous)
        times = self.failures.get(session_id, 0) + (not is_passing)
        self.failures[session_id] = times
        level = logging.WARNING if is_passing else logging.ERROR
        name = type(error).__name__
        _LOG.log(level, "drive of session %s failed and is retried: %s", session_id, name)
        if not is_passing:
            redactor = self._ports.scribe.redactor
            log_failure(f"session {session_id} could not be driven", error, redactor=redactor, level=level)

    async def _drive(self, session_id: str) -> Parked:
        driver: Driver | None = None
        async with self._ports.slots.hold(self, lambda: self._is_under_way(session_id)):
            quarantine: Quarantine | None = NO_QUARANTINE
            while not self.is_draining and (driver is None or driver.has_mail):
                driven = await self._drive_once(session_id, quarantine)
                if isinstance(driven, Driver):
                    driver, quarantine = driven, NO_QUARANTINE
                    self.failures.pop(session_id, None)
                    if driver.is_lost:
                        await self._suspects.note_survival(driver.state)
                        # If no other owner has it, the next sweep continues from the journal.
                        self.failures[session_id] = 1
                        break
                else:
                    quarantine = quarantine.after(driven)
                    if quarantine is None:
                        raise driven.error
        if driver is None or not driver.is_parked:
            raise NotParked("this process stops, or another owner took the session")
        if driver.has_unknown_item:
            self.availability.leave(session_id, "unknown kind of inbox item; a newer release wrote it")
        return driver.park_report()

    async def _is_under_way(self, session_id: str) -> bool:
        """Whether a run of a session has begun, and not ended."""
        row = await self._ports.store.session(session_id)
        return row is not None and row.standing is not Standing.IDLE

    async def _drive_once(self, session_id: str, quarantine: Quarantine) -> Driver | RefusedDrive:
        """Drive a session until it is parked; return the refusal if this drive can never be committed."""
        ports = self._ports
        claim = await self._claim(session_id)
        cached = self._cache.take(session_id, seq=claim.last_seq)
        if cached is None and claim.last_seq:
            await self._loads.wait()
            cached = CachedSession(await load(ports.store, ports.store, session_id=session_id), Prompt())
        cached = cached or CachedSession(Loaded(LoopState(), 0), Prompt())
        if session_id in self.failures:
            # The last drive may have written records without learning of it; make readers look again.
            ports.effect_ports.bus.notify((session_id,))
        state = cached.loaded.state
        state.epoch = claim.epoch
        writer = SessionWriter(
            state,
            claim,
            journal=ports.store,
            publisher=ports.publisher,
            scribe=ports.scribe,
            clock=ports.clock,
            limits=ports.effect_ports.spend_limits,
        )
        writer.on_item_posted = self._wake

        async def bind(run: RunState) -> Binding | None:
            # Its first records are appended after this, also if it cannot be bound.
            if run.playground is None:
                self._event_hooks.observe(writer, run)
            return await ports.binder(run)

        predecessor = await self._suspects.look(state, is_alone=session_id not in self.crashed_together)
        pause_clock = self._parked.take(session_id)
        effects = Effects(
            bind,
            writer,
            shared=replace(
                ports.effect_ports, content=SessionContent(ports.effect_ports.content, session_id)
            ),
            pause_clock=pause_clock,
            prompt=cached.prompt,
            has_agent=self.availability.has_agent,
        )
        driver = Driver(
            state,
            writer,
            inbox=ports.store,
            effects=effects,
            pause_clock=pause_clock,
            rules=ports.rules,
            predecessor=predecessor,
        )
        self.drivers[session_id] = driver
        if not await self.availability.can_drive(state, driver):
            self._parked.keep(session_id, pause_clock)
            await writer.release()
            await self.availability.log_missing_agents()
            self.failures.pop(session_id, None)
            raise NotParked("this process does not have the agent, or another version of a workflow")
        try:
            if predecessor.is_suspect:
                await self._suspects.take_turn(driver)
            if self.is_draining:
                driver.stop()
            await driver.drive(quarantine)
        except Exception as error:
            if not self._is_refusal(session_id, error):
                raise
            return RefusedDrive(error, writer.consuming)
        finally:
            self._suspects.end_turn(driver)
            effects.close()
            ports.on_parked(state)
        self.availability.left.pop(session_id, None)
        if writer.is_released:
            self._parked.keep(session_id, pause_clock)
            await self._remember(session_id, cached)
        return driver

    def _is_refusal(self, session_id: str, error: Exception) -> bool:
        """Whether the same drive would fail in the same way again."""
        if isinstance(error, Rejected):
            return True
        attempts_max = ATTEMPTS_MAX if isinstance(error, AgentError) else BUG_ATTEMPTS_MAX
        is_passing = isinstance(error, Unavailable | Ambiguous)
        attempts = self.failures.get(session_id, 0) + 1
        return not is_passing and attempts >= attempts_max - 1

    async def _remember(self, session_id: str, cached: CachedSession) -> None:
        """Cache the state of a session, and save a snapshot if one is due."""
        loaded = cached.loaded
        if wants_snapshot(loaded.state, loaded.snapshot_seq):
            with suppress(AgentError):
                await save(self._ports.store, session_id, state=loaded.state)
            cached = CachedSession(Loaded(loaded.state, loaded.state.seq), cached.prompt)
        self._cache.keep(session_id, cached)

    async def _claim(self, session_id: str) -> Claim:
        ports = self._ports
        now_ms = moment(ports.clock).ms
        try:
            return await ports.store.claim(session_id, ports.owner_id, now_ms=now_ms)
        except Conflict:
            # Another owner drives the session and reads its inbox.
            self.failures.pop(session_id, None)
            raise NotParked("another owner has the session") from None
        except Rejected:
            # Another owner declared this process dead, for example after the machine slept.
            await self._renew_lease()
            return await ports.store.claim(session_id, ports.owner_id, now_ms=now_ms)

    # draining

    def end_drain(self) -> None:
        """Wait no longer for effects under way."""
        self._drain_end.set()

    async def drain(self) -> None:
        """Stop driving, and let effects under way end: for `drain_s` at most, or until `end_drain`."""
        self.is_draining = True
        self._suspects.stop()
        for driver in self.drivers.values():
            driver.stop()
        drives = asyncio.create_task(self._await_drives())
        early_end = asyncio.create_task(self._drain_end.wait())
        await self._await_effects(drives, early_end)
        early_end.cancel()
        self._give_up()
        await drives

    async def _await_drives(self) -> None:
        while self.tasks:
            await asyncio.wait(self.tasks.values())

    async def _await_effects(self, *ends: "asyncio.Task[None] | asyncio.Task[Literal[True]]") -> None:
        """Wait for one of the ends, for `drain_s` at most; log the number of calls under way."""
        clock = self._ports.clock
        until_s = clock.monotonic() + self._ports.drain_s
        while (left_s := until_s - clock.monotonic()) > 0 and not any(end.done() for end in ends):
            count = sum(len(driver.awaited) for driver in self.drivers.values())
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
        for session_id, driver in self.drivers.items():
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
        """Close the event hooks; all drives have ended."""
        await self._event_hooks.aclose()


def end_feeds_if_stopped(ports: Ports, error: BaseException) -> None:
    """End all feeds if the store has stopped for good."""
    if isinstance(error, Unavailable) and error.retry is RetryClass.REPAIR_NEEDED:
        ports.effect_ports.bus.end(error)
