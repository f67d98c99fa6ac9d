"""Pauses and budgets by the clock that does not jump, within one process.

A pause is written by the wall clock, because a record has no other. Whoever waits for its end in one process
measures it by the monotonic clock, so that nothing is tried early or late when somebody sets the wall clock.
What a request says about its expiry is for people, who go by the wall clock, and so does it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
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
    """Return what time it is; the same object within one millisecond."""
    now = clock.now()
    ms = int(now.timestamp() * 1000)
    last = _NEWEST[0]
    if ms != last.ms:
        last = _NEWEST[0] = Moment(stamp(now), ms)
    return last


def stamp(now: datetime) -> str:
    """Return a moment as the wire writes it, to the millisecond."""
    return now.isoformat(timespec="milliseconds")[:23] + "Z"


_NEWEST: Final = [Moment("", -1)]
_ROUNDING_S: Final = 1e-6
_JUMP_MS_MIN: Final = 1_000
"""A wall clock that is off by less is let be."""
SESSIONS_MAX: Final = 10_000
"""Parked sessions whose pauses are remembered; those of more end by the wall clock."""


class Steady:
    """Knows when the pauses of a session end."""

    def __init__(self, clock: Clock, ends: dict[Pause, float]) -> None:
        self.clock = self._clock = clock
        self._ends = ends
        self._active: tuple[str, str] | None = None
        self._active_s = 0.0
        """Since when that run goes on, by the monotonic clock."""

    def at(self, state: LoopState, now: Moment) -> Moment:
        """Return a moment that knows which pauses of the session go on."""
        notes = state.run_notes
        is_retry = notes.is_retry or state.compacting.is_retry
        pauses = _pauses(state) if is_retry or state.notes else []
        if notes.limits.max_wall_ms is not None:
            now = self.aged(state, now)
        if not pauses:
            self._ends.clear()
            return now
        self._ends = {pause: self._ends.get(pause) or self._end(pause, now) for pause in pauses}
        return replace(now, held=frozenset(self.held()))

    def time_left_ms(self, state: LoopState, *, most_ms: int) -> int:
        """Return how long an effect may take before the budget of its run is used up."""
        limit_ms = state.run_notes.limits.max_wall_ms
        if limit_ms is None:
            return most_ms
        return max(0, min(most_ms, limit_ms - state.wall_ms(self.aged(state, moment(self._clock)))))

    def aged(self, state: LoopState, now: Moment) -> Moment:
        """Return a moment that knows how long the run has gone on, if that is limited."""
        run, notes = state.run, state.run_notes
        since = notes.active_since
        is_ours = notes.epoch in (None, state.epoch)
        if run is None or since is None or notes.limits.max_wall_ms is None or not is_ours:
            return now
        now_s = self._clock.monotonic()
        if self._active != (run.run_id, since):
            # Whatever was before counts by the times of its records.
            self._active, self._active_s = (run.run_id, since), now_s - elapsed_ms(since, now.at) / 1_000
        return replace(now, active_ms=round((now_s - self._active_s) * 1_000))

    def _end(self, pause: Pause, now: Moment) -> float:
        left_ms = pause.until_ms - now.ms if pause.has(now.ms) else 0
        return self._clock.monotonic() + left_ms / 1_000

    def delay_ms(self, wake_at_ms: int, now: Moment) -> float:
        """Return how long to wait for a moment, or for the end of a pause before it."""
        held = self.held()
        since_s = self._clock.monotonic()
        first = min((end - since_s for end in held.values()), default=inf) * 1_000
        if any(pause.until_ms == wake_at_ms for pause in held):
            return first
        return min(first, max(0, wake_at_ms - now.ms))

    def wake_at_ms(self, wake_at_ms: int, now: Moment) -> int:
        """Return what the wall clock will say when a moment has come, as it goes now."""
        wall_ms = now.ms + ceil(self.delay_ms(wake_at_ms, now))
        is_off = self.held() and abs(wall_ms - wake_at_ms) >= _JUMP_MS_MIN
        return wall_ms if is_off else wake_at_ms

    def timer(self, wake_at_ms: int, on_time: Callable[[], None]) -> asyncio.Task[None] | None:
        """Call back at a moment; cancel the task to take that back."""
        delay_ms = self.delay_ms(wake_at_ms, moment(self._clock))
        timer = asyncio.create_task(self._clock.sleep(delay_ms / 1_000))
        # One that is cancelled must not ring: whoever it woke would wait anew, and cancel the next one.
        timer.add_done_callback(lambda timer: None if timer.cancelled() else on_time())
        return timer

    def held(self) -> dict[Pause, float]:
        """Return the pauses that go on, and when they end by the monotonic clock."""
        over_s = self._clock.monotonic() + _ROUNDING_S
        return {pause: end for pause, end in self._ends.items() if end > over_s}


class Parked:
    """The pauses of sessions that were parked by this process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: dict[str, dict[Pause, float]] = {}

    def take(self, session_id: str) -> Steady:
        """Return what is known about the pauses of a session."""
        return Steady(self._clock, self._ends.pop(session_id, {}))

    def keep(self, session_id: str, steady: Steady) -> None:
        """Remember the pauses of a session that nobody drives any more, if there is room."""
        held = steady.held()
        if held and len(self._ends) < SESSIONS_MAX:
            self._ends[session_id] = held


def _pauses(state: LoopState) -> list[Pause]:
    run = state.run_notes
    found = [run.pause] if run.is_retry and run.pause is not None else []
    if state.compacting.is_retry and state.compacting.pause is not None:
        found.append(state.compacting.pause)
    for note in state.notes.values():
        if note.pause is not None:
            found.append(note.pause)
    return found


class Lease:
    """When this process was last heard of by the others, as far as it knows.

    A process that was stopped for longer than that does not know what it still owns: it begins nothing that
    touches the world before it has found out.
    """

    def __init__(self) -> None:
        self._beat_ms: int | None = None
        self._renewed = asyncio.Event()
        self._is_doubted = False
        """Whether it was over once since it was renewed. A clock that is put back does not undo what others
        took meanwhile."""

    def renew(self, now_ms: int) -> None:
        """Take note that the others heard of this process."""
        self._beat_ms = now_ms
        self._is_doubted = False
        self._renewed.set()

    def is_over(self, clock: Clock) -> bool:
        """Whether others may take this process, once heard of, for dead."""
        if self._beat_ms is not None and moment(clock).ms - self._beat_ms >= OWNER_LEASE_MS:
            self._is_doubted = True
        return self._is_doubted

    async def held(self, clock: Clock) -> None:
        """Return once others do not take this process for dead."""
        while self.is_over(clock):
            self._renewed.clear()
            await self._renewed.wait()
