"""Stalls of event loops: a thread signals to a loop four times a second, and notices a late answer.

Coroutines share a loop: while one computes, or calls a function that blocks, every session, request and timer
of the process stands still. The thread samples what the loop runs when the answer is overdue, and logs and
counts the stall once it is over. The runtimes of a loop share one thread.

Limits. A stall of less than 250 ms is not seen, one of up to 500 ms may be missed, and the duration is up to
250 ms short: the loop was already busy when the signal was sent. A process that is stopped or
starved by others is counted, too. A task that is sampled is the one that ran when the thread looked: of
several that were slow in turn, one is named. Code that keeps the interpreter to itself, such as a long match
of `re`, keeps the thread from looking until it ends.
"""

import asyncio
import gc
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Final

from windlass.ports.machine import Stall, StallTotals

STALL_S: Final = 0.25
"""The interval of signals, and the shortest delay of an answer that is a stall."""
GOES_ON_S: Final = 5.0
"""A stall that goes on is logged after this time, and whenever it has become twice as long."""
LATEST_MAX: Final = 20
"""Stalls that are kept with their details."""
_SESSION: Final = "windlass session "
"""How the names of tasks begin that drive a session, or perform its effects."""
_LOG: Final = logging.getLogger("windlass.loop")
WHOLE_S: Final = 3_600.0
"""The longest time between two collections that walk all objects, while there are collections."""
FULL_GENERATION: Final = 2
COLLECTIONS_PER_COUNT: Final = 64
"""Full collections after which the exempt objects are counted: each exempts some ten thousands."""
GARBAGE_MAX: Final = 500_000
"""Exempt objects, beside those of the last collection of all, that may be garbage."""
THRESHOLDS: Final = (700, 3, 2)
"""When the generations are collected: a full collection then walks some ten thousand objects, in 5 to 10 ms.

Python has (700, 10, 10), and makes no full collection before a quarter of all objects is new: then it walks
a hundred thousand. Most of them are not in the caches of the processor, so each takes 0.5 µs.
"""
SWITCH_S: Final = 0.0001
"""How long a thread may compute while the event loop waits for the interpreter, seconds; Python has 0.005.

A request waits for it several times. While a large message is masked in a thread, small requests of other
tenants must stay quick.
"""


class SettledHeap:
    """Keeps full garbage collections short: what one of them leaves is exempt from the next ones.

    A full collection walks all objects that no other one has exempted: in a server with hundreds of sessions
    in memory that took 50 to 130 ms. With this, it walks those that were made since the last one. An exempt
    object is freed as always when nothing refers to it; only one in a cycle, which became garbage after it
    was exempted, stays. So all are walked once more when there may be `GARBAGE_MAX` of those, and at least
    as many as there are others, and `WHOLE_S` after the last time.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._thresholds = gc.get_threshold()
        self._collections = 0
        """Full collections since the exempt objects were counted."""
        self._is_whole = False
        """Whether the next full collection walks all objects."""
        self._settled = 0
        """The objects that were exempt after the last whole collection."""
        self._whole_at_s = 0.0

    def start(self) -> None:
        """Exempt all objects that exist; for a process that has started. A second call does only that."""
        gc.freeze()
        self._note_whole()
        if self._on_collection in gc.callbacks:
            return
        # There is nothing to walk: Python learns that there are no old objects.
        gc.collect()
        self._thresholds = gc.get_threshold()
        gc.set_threshold(*THRESHOLDS)
        gc.callbacks.append(self._on_collection)

    def stop(self) -> None:
        """Let the next full collection walk all objects, and exempt none."""
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)
            gc.set_threshold(*self._thresholds)
        gc.unfreeze()

    def _note_whole(self) -> None:
        self._is_whole, self._collections = False, 0
        self._settled, self._whole_at_s = gc.get_freeze_count(), self._monotonic()

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase != "stop" or info["generation"] < FULL_GENERATION:
            return
        gc.freeze()
        if self._is_whole:
            self._note_whole()
            return
        self._collections += 1
        is_late = self._monotonic() - self._whole_at_s >= WHOLE_S
        if self._collections < COLLECTIONS_PER_COUNT and not is_late:
            return
        # Counting walks a list of them, in some milliseconds.
        self._collections = 0
        if is_late or gc.get_freeze_count() - self._settled >= max(GARBAGE_MAX, self._settled):
            self._is_whole = True
            gc.unfreeze()


HEAP: Final = SettledHeap()


def shorten_stalls() -> None:
    """Let other threads and garbage collections delay the event loop less; for a process that has started.

    Threads give the interpreter to the event loop after 0.1 ms. Full garbage collections walk no objects of
    the start, and none that an earlier one has walked; see `SettledHeap`. None is made here, because it would
    be the longest stall of the start, and imports leave next to no garbage.
    """
    sys.setswitchinterval(SWITCH_S)
    HEAP.start()


class StallCounts:
    """Counts the stalls of a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = self._total_ms = self._longest_ms = 0
        self._latest: deque[Stall] = deque(maxlen=LATEST_MAX)

    def add(self, stall: Stall) -> None:
        """Count a stall, and log it."""
        with self._lock:
            self._count += 1
            self._total_ms += stall.duration_ms
            self._longest_ms = max(self._longest_ms, stall.duration_ms)
            self._latest.append(stall)
        _LOG.warning(
            "the event loop stood still for %d ms: session %s, task %s, at %s",
            stall.duration_ms,
            stall.session_id or "-",
            stall.task or "-",
            stall.code or "-",
        )

    def totals(self) -> StallTotals:
        """Return the counts so far."""
        with self._lock:
            return StallTotals(self._count, self._total_ms, self._longest_ms, tuple(self._latest))


COUNTS: Final = StallCounts()


def loop_stalls() -> StallTotals:
    """Return the stalls of all event loops of this process that runtimes have run on."""
    return COUNTS.totals()


class LoopThread:
    """Looks at one loop; made in the thread of the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        counts: StallCounts = COUNTS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._counts = counts
        self._monotonic = monotonic
        self._ending = threading.Event()
        self._sent_s: float | None = None
        self._answered_s: float | None = None
        self._sample: tuple[str, str] | None = None
        self._log_at_s = GOES_ON_S
        """The duration at which the present stall is logged, if it goes on."""

    def start(self) -> None:
        """Begin to look, in a thread."""
        threading.Thread(target=self._run, name="windlass-loop-watch", daemon=True).start()

    def stop(self) -> None:
        """End the thread; it is not awaited."""
        self._ending.set()

    def look(self) -> None:
        """Look once: sample an overdue answer, count a late one, send the next signal.

        Raises:
            RuntimeError: the loop is closed.
        """
        if self._sent_s is not None and self._answered_s is None:
            late_s = self._monotonic() - self._sent_s
            if self._sample is None and late_s >= STALL_S:
                self._sample = self._sample_loop()
            if late_s >= self._log_at_s:
                self._log_at_s *= 2
                self._log_stall(late_s)
            return
        if self._sent_s is not None and self._answered_s is not None:
            self._count(self._answered_s - self._sent_s)
        self._sample = self._answered_s = None
        self._log_at_s = GOES_ON_S
        self._sent_s = self._monotonic()
        self._loop.call_soon_threadsafe(self._answer)

    def _run(self) -> None:
        while not self._ending.wait(STALL_S):
            try:
                self.look()
            except RuntimeError:
                return

    def _answer(self) -> None:
        self._answered_s = self._monotonic()

    def _count(self, late_s: float) -> None:
        if late_s < STALL_S:
            return
        task, code = self._sample or ("", "")
        self._counts.add(Stall(round(late_s * 1_000), _session_of(task), task, code))

    def _log_stall(self, late_s: float) -> None:
        """Log a stall that goes on: it may never end."""
        task, code = self._sample_loop()
        _LOG.error(
            "the event loop has stood still for %d ms, and still does: session %s, task %s, at %s",
            round(late_s * 1_000),
            _session_of(task) or "-",
            task or "-",
            code or "-",
        )

    def _sample_loop(self) -> tuple[str, str]:
        """Return the name of the task that the loop runs, and its code."""
        task = asyncio.current_task(self._loop)
        # The documented way to see another thread.
        frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
        return "" if task is None else task.get_name(), _code_of(frames.get(self._loop_thread))


def _session_of(task: str) -> str | None:
    """Return the session that a task drives, or performs effects of; None if it is another task."""
    return task.removeprefix(_SESSION) if task.startswith(_SESSION) else None


def _code_of(frame: FrameType | None) -> str:
    """Return the innermost frame that is not of the standard library; empty if there is none."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module.partition(".")[0] not in sys.stdlib_module_names:
            return f"{module}:{frame.f_code.co_qualname}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


_LOCK: Final = threading.Lock()
_WATCHED: Final[dict[asyncio.AbstractEventLoop, tuple[LoopThread, int]]] = {}
"""The threads by their loops, with the number of runtimes."""


class RuntimeWatch:
    """Watches the running loop for a runtime."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_released = False
        with _LOCK:
            for loop in [loop for loop in _WATCHED if loop.is_closed()]:
                del _WATCHED[loop]
            thread, runtimes = _WATCHED.get(self._loop) or (LoopThread(self._loop), 0)
            _WATCHED[self._loop] = (thread, runtimes + 1)
        if not runtimes:
            thread.start()

    def release(self) -> None:
        """Stop watching, unless another runtime of the loop goes on."""
        with _LOCK:
            if self._is_released or self._loop not in _WATCHED:
                return
            self._is_released = True
            thread, runtimes = _WATCHED.pop(self._loop)
            if runtimes > 1:
                _WATCHED[self._loop] = (thread, runtimes - 1)
        if runtimes == 1:
            thread.stop()
