"""The engine: makes this process an owner of sessions, wakes them, and sweeps for those without an owner."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final, Protocol, runtime_checkable

from windlass.engine.clocks import moment
from windlass.engine.driving.drives import ATTEMPTS_MAX, Drives, Ports, end_feeds_if_stopped
from windlass.errors import AgentError
from windlass.limits import OWNER_LEASE_MS, WAIT_MS_MAX
from windlass.ports.catalog import Catalog
from windlass.ports.clock import IDLE, Clock, begin_task
from windlass.ports.documents import SCHEDULE
from windlass.ports.inbox import InboxNotice, NotifyingStore
from windlass.ports.journal import Standing
from windlass.ports.wakes import Drive, Parked
from windlass_protocol.frozen import frozen

_LOG: Final = logging.getLogger(__name__)

SWEEP_S: Final = 1.0
"""Interval of the sweep for sessions without an owner."""
CLOCK_BACK_MS_MIN: Final = 5_000
"""Smaller jumps back of the wall clock are ignored."""
SWEPT_MAX: Final = 100
"""Sessions that one sweep wakes; the next sweep continues."""
REWAKES_MAX: Final = 1_000
"""Sessions that were found by a sweep and wait to be driven elsewhere, beside which others are found."""
LOST_PER_SWEEP_MAX: Final = 25
"""Wakes that one sweep repeats because they seem lost."""
REWAKE_TIMES_MAX: Final = 16
"""The longest time between two wakes of a session that stays due, in times of `lost_after_ms`."""
_ITEMS_END: Final = 2**53 - 1
"""Larger than any item number."""


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
        begin_task(self.tasks, self._wake_all(sorted(wakes), since_s), name="windlass late wakes")

    async def _wake_all(self, wakes: Sequence[tuple[int, str]], since_s: float) -> None:
        for delay_ms, session_id in wakes:
            await self._clock.sleep(since_s + delay_ms / 1_000 - self._clock.monotonic())
            self._wake(session_id)


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


@frozen
class Rewake:
    """When a session that stays due is woken again."""

    at_ms: int
    after_ms: int
    """The time since it was woken last."""


class Engine:
    """Keeps the sessions of a store going: drives those that this process owns, and wakes the others."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._drives = Drives(ports, wake=self.wake, renew_lease=partial(self._renew_lease, is_doubted=True))
        self._housekeeper: asyncio.Task[None] | None = None
        self._clock_jumps = ClockJumpWakes(ports.store, ports.clock, wake=self.wake)
        if ports.effect_ports.batches is not None:
            ports.effect_ports.batches.wake = self.wake
        self._watched = ports.store if isinstance(ports.store, SharedStore) else None
        self._change: int | None = None
        self._abandoned_count = 0
        """Sessions at work without an owner that the last sweep found."""
        self._rewakes: dict[str, Rewake] = {}
        """Sessions that were due at the last sweep."""
        self._newest_item = 0
        """Largest item number at the last look for new items."""
        self._looking = asyncio.Lock()
        self._notice_task: asyncio.Task[None] | None = None
        """Looks around and sweeps after a notification."""
        self._has_notice = False
        self._end_listening: Callable[[], None] = lambda: None
        self._draining: asyncio.Future[None] | None = None
        self.is_closed = False

    @property
    def is_draining(self) -> bool:
        """Whether no session is driven any more, apart from effects that may end."""
        return self._drives.is_draining

    @property
    def lease_age_s(self) -> float:
        """How long ago the lease was renewed, in seconds; 0 if this process drives nothing."""
        return self._ports.effect_ports.lease.age_ms(self._ports.clock) / 1_000

    async def refusal_of(self, agent_id: str, fingerprint: str) -> str | None:
        """Return why a run of an agent is left to processes with another version of it; None if it is not."""
        version = await self._ports.version_of(agent_id, "", fingerprint)
        return None if not version else await self._drives.availability.versions.refusal(agent_id, version)

    async def open(self) -> None:
        """Register as an owner and continue unfinished runs, if this process drives."""
        if self._housekeeper is not None:
            return
        ports = self._ports
        if ports.is_driving:
            await self._renew_lease()
            await self._drives.availability.log_missing_agents()
        self._newest_item = (await ports.store.arrivals(after=_ITEMS_END)).newest
        await ports.wakes.open(self.drive if ports.is_driving else None)
        if ports.is_driving:
            await self._sweep()
        self._housekeeper = asyncio.create_task(self._keep(), name=IDLE)
        if isinstance(ports.store, NotifyingStore):
            self._end_listening = ports.store.listen(self._on_notice)

    def wake(self, session_id: str, *, is_lost: bool = False) -> None:
        """Make sure that the session is driven and reads its inbox."""
        if not self.is_closed:
            self._ports.wakes.wake(session_id, is_lost=is_lost)

    def drive(self, session_id: str) -> asyncio.Task[Parked]:
        """Begin to drive a session, see `Drive`; one that is driven already reads its inbox again."""
        return self._drives.begin(session_id)

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
        self._drives.end_drain()

    async def _drain(self) -> None:
        # If the store is away, the declaration ends with the lease.
        with suppress(AgentError):
            await self._drives.availability.versions.withdraw()
        # It waits for the drives that it began, which are stopped next.
        closing = asyncio.ensure_future(self._ports.wakes.aclose())
        await self._drives.drain()
        await closing

    async def aclose(self) -> None:
        """Drain, and leave the store; the next owner continues the runs."""
        await self.drain()
        if self.is_closed:
            return
        self.is_closed = True
        self._end_listening()
        helpers = [
            *self._clock_jumps.tasks,
            *(task for task in (self._housekeeper, self._notice_task) if task is not None),
        ]
        for task in helpers:
            task.cancel()
        if helpers:
            await asyncio.wait(helpers)
        if self._ports.effect_ports.batches is not None:
            await self._ports.effect_ports.batches.aclose()
        await self._ports.effect_ports.provider_limits.aclose()
        # If retiring fails, other owners take over when the lease expires.
        with suppress(AgentError):
            await self._ports.store.retire(self._ports.owner_id)
        await self._drives.aclose()

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
                    await self._poll_changes()
                    continue
                # Also while draining: the sessions with effects under way must not get another owner.
                if abs(now_ms - beat_ms) >= OWNER_LEASE_MS / 4:
                    await self._renew_lease()
                    beat_ms = now_ms
                if ports.effect_ports.spend_limits is not None:
                    await ports.effect_ports.spend_limits.refresh()
                async with self._looking:
                    await self._poll_changes()
                    if not self._drives.is_draining:
                        await self._sweep()
                if not self._drives.is_draining:
                    await self._look_at_times()
                is_told = False
            except Exception as error:  # noqa: BLE001 - without its keeper a process stops being an owner
                # The store is unreachable for now; drivers that cannot write end by themselves.
                if not is_told:
                    level = logging.WARNING if isinstance(error, AgentError) else logging.ERROR
                    _LOG.log(level, "store unreachable, sessions not swept: %s", type(error).__name__)
                is_told = True
                end_feeds_if_stopped(ports, error)

    async def _look_at_times(self) -> None:
        """Notice schedules and batches that are due.

        The keeper task is named idle while nothing waits for a time: no schedule, batch or session; the test
        clock looks for that name.
        """
        ports, batches = self._ports, self._ports.effect_ports.batches
        batch = None if batches is None else await batches.look()
        wake, tick = await ports.store.next_wake_ms(), await ports.store.next_document_ms(SCHEDULE)
        if tick is not None and tick <= moment(ports.clock).ms:
            ports.on_schedule_due()
        if self._housekeeper is not None:
            # A session that waits for an event without a limit has the longest wait there is.
            far_ms = moment(ports.clock).ms + WAIT_MS_MAX // 2
            is_idle = all(time is None or time > far_ms for time in (wake, tick, batch))
            self._housekeeper.set_name(IDLE if is_idle else "windlass keeper")

    async def _renew_lease(self, *, is_doubted: bool = False) -> None:
        """Renew the lease; if it had expired, drop the drivers of sessions that were taken."""
        ports = self._ports
        lease, now_ms = ports.effect_ports.lease, moment(ports.clock).ms
        is_late = lease.is_over(ports.clock)
        await ports.store.enlist(ports.owner_id, now_ms=now_ms)
        # The heartbeat itself may have taken longer than the lease.
        is_doubted = is_doubted or is_late or lease.is_over(ports.clock)
        for session_id, driver in [*self._drives.drivers.items()] if is_doubted else ():
            row = await ports.store.session(session_id)
            if row is None or row.owner_id != ports.owner_id:
                driver.lose()
        lease.renew(now_ms)
        if not self._drives.is_draining:
            await self._drives.availability.look_at_held()
            await self._drives.availability.versions.declare(is_doubted=is_doubted)

    async def _poll_changes(self) -> None:
        """Notify readers and drivers of writes by other processes."""
        change = self._change if self._watched is None else await self._watched.change_token()
        if change == self._change:
            return
        self._change = change
        self._ports.effect_ports.bus.notify()
        # Our own writes change the token too: ring only drivers with new items.
        arrived = await self._ports.store.arrivals(after=self._newest_item)
        self._newest_item = arrived.newest
        for session_id in arrived.session_ids:
            self._drives.ring(session_id)

    def _on_notice(self, notice: InboxNotice) -> None:
        """Notify readers and drivers of a write by another process; look for work if there are new items."""
        if self.is_closed:
            return
        self._ports.effect_ports.bus.notify(notice.sessions)
        if not notice.has_items:
            return
        session_ids = notice.sessions or ()
        for session_id in session_ids:
            self._drives.ring(session_id)
        driven_here = [session_id for session_id in session_ids if session_id in self._drives.drivers]
        if not session_ids or len(driven_here) < len(session_ids):
            self._has_notice = True
            if self._notice_task is None or self._notice_task.done():
                self._notice_task = asyncio.create_task(self._look_at_once(), name="windlass hearer")

    async def _look_at_once(self) -> None:
        """Look around and sweep, until there was no notification meanwhile."""
        while self._has_notice:
            self._has_notice = False
            # The keeper tries again, and tells.
            with suppress(AgentError):
                async with self._looking:
                    await self._poll_changes()
                    if self._ports.is_driving and not self._drives.is_draining:
                        await self._sweep()

    async def _note_shared(self, due: Sequence[str]) -> None:
        """Note which sessions were left together: none of them must be taken for what ended its process."""
        new = [
            session_id
            for session_id in due
            if session_id not in self._drives.tasks and session_id not in self._rewakes
        ]
        rows = [await self._ports.store.session(session_id) for session_id in new]
        left = [row.session_id for row in rows if row is not None and row.standing is Standing.RUNNING]
        # A sweep wakes a part of many sessions; the last of them is not alone either.
        if len(left) > 1 or self._abandoned_count > 1:
            self._drives.crashed_together.update(left)
        self._abandoned_count = len(left)

    async def _sweep(self) -> None:
        ports = self._ports
        # Sessions that were given up on, or woken elsewhere, are still due: they must not hide others.
        rewakes = min(len(self._rewakes), REWAKES_MAX)
        room = SWEPT_MAX + len(self._drives.failures) + len(self._drives.availability.left) + rewakes
        now_ms = moment(ports.clock).ms
        due = await ports.store.due(now_ms=now_ms, limit=room, agents=ports.agents())
        await self._note_shared(due)
        again = [session_id for session_id, times in self._drives.failures.items() if times < ATTEMPTS_MAX]
        # The store returns sessions that have waited longest first.
        sessions = dict.fromkeys((*due, *again))
        if lost_after_ms := ports.wakes.lost_after_ms:
            # Their wakes may be on their way; each is repeated once it seems lost, less and less often.
            later = now_ms + lost_after_ms
            self._rewakes = {
                session_id: self._rewakes.get(session_id, Rewake(later, lost_after_ms))
                for session_id in sessions
            }
            self._drives.crashed_together.intersection_update((*sessions, *self._drives.tasks))
        is_lost = lost_after_ms > 0
        wakes = (session_id for session_id in sessions if self._is_due_again(session_id, now_ms))
        # The next sweep continues: many sessions are due when the engine of wakes is behind.
        for session_id in islice(wakes, LOST_PER_SWEEP_MAX if is_lost else None):
            self.wake(session_id, is_lost=is_lost)

    def _is_due_again(self, session_id: str, now_ms: int) -> bool:
        """Return whether a session that a sweep found is to be woken now."""
        if self._drives.availability.left.get(session_id, 0) > now_ms:
            return False
        rewake = self._rewakes.get(session_id)
        if rewake is None:
            return True
        if rewake.at_ms > now_ms:
            return False
        after_ms = min(2 * rewake.after_ms, REWAKE_TIMES_MAX * self._ports.wakes.lost_after_ms)
        self._rewakes[session_id] = Rewake(now_ms + after_ms, after_ms)
        return True
