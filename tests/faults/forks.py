"""Processes made by forking, which starts each of them in a millisecond.

Only for a program that has no thread, event loop or database of its own.
"""

import asyncio
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")

LIFE_S_MAX: Final = 300
"""A process that lives longer hangs, and is ended."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of a process: a status, or a signal."""

    status: int | None
    signal: int | None
    report: Any = None

    @property
    def is_killed(self) -> bool:
        return self.signal == signal.SIGKILL

    @property
    def is_fine(self) -> bool:
        return self.status == 0


def fork(work: Callable[[], object], report: Path | None = None) -> int:
    """Call a function in another process; its result goes to the report as JSON."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        signal.alarm(LIFE_S_MAX)
        made = work()
        if report is not None:
            report.write_text(json.dumps(made))
        status = 0
    except BaseException:  # noqa: BLE001 - the end of the process
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def wait(pid: int, report: Path | None = None) -> End:
    """Wait for a process that `fork` made."""
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return End(None, os.WTERMSIG(status))
    told = json.loads(report.read_text()) if report is not None and report.exists() else None
    return End(os.WEXITSTATUS(status), None, told)


def run_story(story: Callable[[], Coroutine[Any, Any, R]], report: Path | None = None) -> End:
    """Run something asynchronous in a process of its own, to its end."""
    return wait(fork(lambda: asyncio.run(story()), report), report)


def in_lanes(work: Callable[[T], Any], items: Sequence[T], folder: Path, lanes: int = 2) -> list[Any]:
    """Call a function for each item in a few processes; return the results."""

    def lane(number: int) -> list[Any]:
        signal.alarm(0)
        return [work(item) for item in items[number::lanes]]

    reports = [folder / f"lane-{number}" for number in range(lanes)]
    pids = [fork(lambda number=number: lane(number), report) for number, report in enumerate(reports)]
    ends = [wait(pid, report) for pid, report in zip(pids, reports, strict=True)]
    made: list[Any] = [None] * len(items)
    for number, end in enumerate(ends):
        if not end.is_fine:
            raise RuntimeError(f"lane {number} ended with {end}")
        made[number::lanes] = end.report
    return made
