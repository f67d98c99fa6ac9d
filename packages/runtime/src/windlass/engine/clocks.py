"""Clocks: pauses and time budgets, measured by the monotonic clock within one process.

A pause is recorded in wall-clock time. Within one process its end is measured by the monotonic clock, so that
a retry is not early or late when the wall clock is set. Requests expire by the wall clock, which people see.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from math import ceil, inf
from typing import Final

from windlass.limits import OWNER_LEASE_MS
from windlass.ports.clock import Clock
from windlass_harness.loop.events import Moment
from windlass_harness.loop.notes import Pause
from windlass_harness.loop.state import LoopState
from windlass_harness.times import elapsed_ms


def moment(clock: Clock) -> Moment:
    """Return the current time; the same object within one millisecond."""
    now = clock.now()
    ms = int(now.timestamp()) * 1000 + now.microsecond // 1000
    last = _NEWEST[0]
    if ms != last.ms:
        # Within one second only the milliseconds of the text change.
        is_near = ms // 1000 == last.ms // 1000
        text = f"{last.at[:20]}{ms % 1000:03}Z" if is_near else stamp(now)
        last = _NEWEST[0] = Moment(text, ms)
    return last


def stamp(now: datetime) -> str:
    """Return a time as a wire timestamp, with milliseconds."""
    return now.isoformat(timespec="milliseconds")[:23] + "Z"


_NEWEST: Final = [Moment("", -1)]
_ROUNDING_S: Final = 1e-6
_JUMP_MS_MIN: Final = 1_000
"""Smaller jumps of the wall clock are ignored."""
SESSIONS_MAX: Final = 10_000
"""Parked sessions with pauses in memory; pauses of further ones end by the wall clock."""


class PauseClock:
    """Monotonic ends of a session's pauses, and the active time of its run."""

    def __init__(self, clock: Clock, ends: dict[Pause, float]) -> None:
        self.clock = self._clock = clock
        self._ends = ends
        self._active: tuple[str, str] | None = None
        self._active_s = 0.0
        """Start of the run's active time, by the monotonic clock."""

    def at(self, state: LoopState, now: Moment) -> Moment:
        """Return the moment with the pauses that have not ended."""
        notes = state.run_notes
        is_retry = notes.is_retry or state.compacting.is_retry
        pauses = _pauses(state) if is_retry or state.notes else []
        if notes.limits.max_wall_ms is not None:
            now = self.aged(state, now)
        if not pauses:
            self._ends.clear()
            return now
        self._ends = {pause: self._ends.get(pause) or self._end(pause, now) for pause in pauses}
        return Moment(now.at, now.ms, frozenset(self.open_pauses()), now.active_ms)

    def time_left_ms(self, state: LoopState, *, most_ms: int) -> int:
        """Return how long an effect may take before the run's time budget is used up."""
        limit_ms = state.run_notes.limits.max_wall_ms
        if limit_ms is None:
            return most_ms
        return max(0, min(most_ms, limit_ms - state.wall_ms(self.aged(state, moment(self._clock)))))

    def aged(self, state: LoopState, now: Moment) -> Moment:
        """Return the moment with the active time of the run, if the run has a time budget."""
        run, notes = state.run, state.run_notes
        since = notes.active_since
        is_ours = notes.epoch in (None, state.epoch)
        if run is None or since is None or notes.limits.max_wall_ms is None or not is_ours:
            return now
        now_s = self._clock.monotonic()
        if self._active != (run.run_id, since):
            # Time before this process counts by the timestamps of records.
            self._active, self._active_s = (run.run_id, since), now_s - elapsed_ms(since, now.at) / 1_000
        return Moment(now.at, now.ms, now.held, round((now_s - self._active_s) * 1_000))

    def _end(self, pause: Pause, now: Moment) -> float:
        left_ms = pause.until_ms - now.ms if pause.has(now.ms) else 0
        return self._clock.monotonic() + left_ms / 1_000

    def delay_ms(self, wake_at_ms: int, now: Moment) -> float:
        """Return the delay until `wake_at_ms`, or until the first pause ends if that is earlier."""
        held = self.open_pauses()
        since_s = self._clock.monotonic()
        first = min((end - since_s for end in held.values()), default=inf) * 1_000
        # A pause that has ended since `wake_at_ms` was planned is over, whatever the wall clock says.
        ends = [end for pause, end in self._ends.items() if pause.until_ms == wake_at_ms]
        left = (max(ends) - since_s) * 1_000 if ends else wake_at_ms - now.ms
        return min(first, max(0, left))

    def wake_at_ms(self, wake_at_ms: int, now: Moment) -> int:
        """Return the wall-clock time of the next wake-up, corrected by jumps of the wall clock."""
        wall_ms = now.ms + ceil(self.delay_ms(wake_at_ms, now))
        is_off = self.open_pauses() and abs(wall_ms - wake_at_ms) >= _JUMP_MS_MIN
        return wall_ms if is_off else wake_at_ms

    def timer(self, wake_at_ms: int, on_time: Callable[[], None]) -> asyncio.Task[None] | None:
        """Call back at a moment; cancel the task to take that back."""
        delay_ms = self.delay_ms(wake_at_ms, moment(self._clock))
        timer = asyncio.create_task(self._clock.sleep(delay_ms / 1_000))
        # A cancelled timer must not call back: the driver would wait again and cancel the next timer.
        timer.add_done_callback(lambda timer: None if timer.cancelled() else on_time())
        return timer

    def open_pauses(self) -> dict[Pause, float]:
        """Return the pauses that have not ended, with their monotonic ends."""
        over_s = self._clock.monotonic() + _ROUNDING_S
        return {pause: end for pause, end in self._ends.items() if end > over_s}


class ParkedPauses:
    """Pauses of sessions that this process parked, by session."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: dict[str, dict[Pause, float]] = {}

    def take(self, session_id: str) -> PauseClock:
        """Remove and return the pauses of a session."""
        return PauseClock(self._clock, self._ends.pop(session_id, {}))

    def keep(self, session_id: str, pause_clock: PauseClock) -> None:
        """Keep the pauses of a parked session, if there is room."""
        held = pause_clock.open_pauses()
        if held and len(self._ends) < SESSIONS_MAX:
            self._ends[session_id] = held


def _pauses(state: LoopState) -> list[Pause]:
    run = state.run_notes
    pauses = [run.pause] if run.is_retry and run.pause is not None else []
    if state.compacting.is_retry and state.compacting.pause is not None:
        pauses.append(state.compacting.pause)
    # Only calls that are open wait; a workflow may have made thousands of others.
    notes = (state.notes.get(call.call_id) for call in state.session.history.open_calls())
    return [*pauses, *(note.pause for note in notes if note is not None and note.pause is not None)]


class Lease:
    """The lease of this process: other owners may take its sessions once it has expired.

    A process that was suspended for longer does not know what it still owns: it starts no effect before it
    has renewed the lease and checked its sessions.
    """

    def __init__(self) -> None:
        self._beat_ms: int | None = None
        self._renewed = asyncio.Event()
        self._is_doubted = False
        """Whether the lease expired since it was last renewed; setting the clock back does not undo that."""

    def renew(self, now_ms: int) -> None:
        """Record a successful heartbeat."""
        self._beat_ms = now_ms
        self._is_doubted = False
        self._renewed.set()

    def age_ms(self, clock: Clock) -> int:
        """Return the time since the last heartbeat; 0 if there was none."""
        return 0 if self._beat_ms is None else max(0, moment(clock).ms - self._beat_ms)

    def is_over(self, clock: Clock) -> bool:
        """Whether the lease has expired, so that other owners may have taken sessions."""
        if self._beat_ms is not None and moment(clock).ms - self._beat_ms >= OWNER_LEASE_MS:
            self._is_doubted = True
        return self._is_doubted

    async def wait_until_valid(self, clock: Clock) -> None:
        """Return when the lease is valid."""
        while self.is_over(clock):
            self._renewed.clear()
            await self._renewed.wait()
