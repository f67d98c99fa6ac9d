"""How a thing is timed: CPU time, best of some rounds, in turns with a baseline."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from resource import RUSAGE_CHILDREN, getrusage
from time import process_time


@dataclass(frozen=True, slots=True)
class Effort:
    """How long two pieces of work are compared."""

    rounds: int
    round_s_min: float


FULL = Effort(rounds=7, round_s_min=0.05)
QUICK = Effort(rounds=1, round_s_min=0.0)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: what was timed, its cost, and what it is compared to."""

    what: str
    cost: float
    unit: str
    baseline: str
    ratio: float | None


def compare(
    what: str, work: Callable[[], object], *, to: str, other: Callable[[], object], effort: Effort
) -> Row:
    """Time two pieces of work in turns; the ratio is ours to the other."""
    ours, theirs = (_calls(each, effort.round_s_min) for each in (work, other))
    best_ours = best_theirs = float("inf")
    for _ in range(effort.rounds):
        best_ours = min(best_ours, _round(work, ours))
        best_theirs = min(best_theirs, _round(other, theirs))
    return Row(what, best_ours * 1e6, "µs", to, best_ours / best_theirs)


def start_up(what: str, code: str, *, to: str, other: str, effort: Effort) -> Row:
    """Time the CPU that a fresh interpreter needs for some code, above an empty one."""
    empty, ours, theirs = (
        min(_child(source) for _ in range(effort.rounds)) for source in ("pass", code, other)
    )
    return Row(what, (ours - empty) * 1e3, "ms", to, (ours - empty) / (theirs - empty))


def _calls(work: Callable[[], object], round_s_min: float) -> int:
    calls = 1
    while _round(work, calls) * calls < round_s_min:
        calls *= 2
    return calls


def _round(work: Callable[[], object], calls: int) -> float:
    began = process_time()
    for _ in range(calls):
        work()
    return (process_time() - began) / calls


def _child(code: str) -> float:
    # With bytecode, as an installed package has it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
