"""What a change of the sources costs: `python -m benchmarks.compare BASE NEW` compares two checkouts.

Both run with this interpreter and the measuring code of this checkout; only `packages/*/src` differs. Each
number is that of processes of its own, in turns, with the order changed from round to round: the least of
the rounds, and the ratio of new to base. «paired» is the median of the ratios of each round: far from the
ratio of the best, the machine was busy, and more rounds are needed. CPU is that of the process with all its
threads. A resume is the whole of it: open the file, read, check and fold the records, claim the session, and
ask the model.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.durable_step import CONTENDERS, COUNTED, QUIET, Contender, import_cpu, run_scenario
from benchmarks.peers.environments import last_line
from benchmarks.peers.report import table
from benchmarks.peers.results import MEMORY, NAMES, PROCESS, US, Problem, read_line
from benchmarks.peers.task import CRASHED

ROUNDS: Final = 5
STEPS: Final = 200
RESUME_STEPS: Final = 500
OURS: Final = {contender.name: contender for contender in CONTENDERS if contender.environment is None}


@dataclass(frozen=True, slots=True)
class Checkout:
    """A checkout whose sources are measured."""

    surroundings: Mapping[str, str]
    crashed: Path
    """The database of a run that was cut off; each resume gets a copy."""

    @classmethod
    def prepare(cls, root: Path, folder: Path, resume_steps: int) -> "Checkout":
        """Check that the sources of a checkout are the ones in use, and cut off a run with them."""
        sources = [str(path) for path in sorted(root.resolve().glob("packages/*/src"))]
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        # One order of sets in both, so that the same calls are counted.
        surroundings = {**kept, **QUIET, "PYTHONPATH": os.pathsep.join(sources), "PYTHONHASHSEED": "0"}
        where = subprocess.run(
            [sys.executable, "-c", "import windlass; print(windlass.__file__)"],
            env=surroundings,
            capture_output=True,
            text=True,
            check=False,
        )
        if not where.stdout.startswith(tuple(sources)):
            raise SystemExit(f"{root}: expected a checkout with packages/*/src, and windlass in one of them")
        checkout = cls(surroundings, folder)
        done = checkout.run(OURS[US], "crash", folder, steps=resume_steps)
        if done.returncode != CRASHED:
            raise SystemExit(f"{root}: a run was not cut off: {last_line(done.stderr)}")
        return checkout

    def run(
        self, contender: Contender, scenario: str, folder: Path, **numbers: int
    ) -> "subprocess.CompletedProcess[str]":
        """Run a scenario with the sources of this checkout."""
        return run_scenario(Path(sys.executable), contender, scenario, folder, self.surroundings, **numbers)


Take = Callable[[Checkout, Path], float]
"""Measures a checkout once, with an empty folder."""


def _number(done: "subprocess.CompletedProcess[str]", key: str) -> float:
    if done.returncode:
        raise SystemExit(f"a measurement failed: {last_line(done.stderr)}")
    return read_line(done.stdout)[key]


def _step(contender: Contender, steps: int) -> Take:
    def take(checkout: Checkout, folder: Path) -> float:
        return _number(checkout.run(contender, "steps", folder, steps=steps), "cpu_s") / steps * 1e6

    return take


def _calls(checkout: Checkout, folder: Path) -> float:
    return _number(checkout.run(COUNTED, "calls", folder), "calls_a_step")


def _resume(steps: int) -> Take:
    def take(checkout: Checkout, folder: Path) -> float:
        shutil.copytree(checkout.crashed, folder, dirs_exist_ok=True)
        return _number(checkout.run(OURS[US], "resume", folder, steps=steps), "cpu_s") * 1e3

    return take


def _import(checkout: Checkout, folder: Path) -> float:
    outcome = import_cpu(Path(sys.executable), NAMES, 1, checkout.surroundings)
    if isinstance(outcome, Problem):
        raise SystemExit(f"an import failed: {outcome.why}")
    return outcome["cpu_s"] * 1e3


def measures(steps: int, resume_steps: int) -> dict[str, Take]:
    """Return what is measured, by name."""
    each = {f"a step, {name}, µs": _step(OURS[name], steps) for name in (MEMORY, PROCESS, US)}
    return {
        **each,
        "calls of Python functions a step": _calls,
        f"resume of {resume_steps} steps, ms": _resume(resume_steps),
        f"{NAMES}, ms": _import,
    }


def compare(
    checkouts: tuple[Checkout, Checkout], rounds: int, takes: Mapping[str, Take]
) -> dict[str, tuple[list[float], list[float]]]:
    """Return the numbers of all rounds, of base and new."""
    numbers: dict[str, tuple[list[float], list[float]]] = {what: ([], []) for what in takes}
    for turn in range(rounds):
        for what, take in takes.items():
            for which in (0, 1) if turn % 2 == 0 else (1, 0):
                with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
                    numbers[what][which].append(take(checkouts[which], Path(folder)))
        print(f"round {turn + 1} of {rounds}", file=sys.stderr, flush=True)
    return numbers


def render(numbers: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> str:
    """Return the table of base, new and ratios."""
    rows: list[list[str]] = []
    for what, (base, new) in numbers.items():
        paired = median(after / before for before, after in zip(base, new, strict=True))
        best = min(base), min(new)
        rows.append(
            [what, *(f"{number:.1f}" for number in best), f"{best[1] / best[0]:.3f}", f"{paired:.3f}"]
        )
    return table(("", "base", "new", "new / base", "paired"), rows)


def main() -> int:
    """Compare two checkouts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("base", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--steps", type=int, default=STEPS, help="of the run whose steps are timed")
    parser.add_argument("--resume-steps", type=int, default=RESUME_STEPS)
    parser.add_argument("--only", default="", help="only what has this in its name, such as «calls»")
    options = parser.parse_args()
    takes = {
        what: take
        for what, take in measures(options.steps, options.resume_steps).items()
        if options.only in what
    }
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        checkouts: list[Checkout] = []
        for name in ("base", "new"):
            crashed = Path(folder, name)
            crashed.mkdir()
            checkouts.append(Checkout.prepare(getattr(options, name), crashed, options.resume_steps))
        numbers = compare((checkouts[0], checkouts[1]), options.rounds, takes)
    print(render(numbers))
    load = " ".join(f"{part:.1f}" for part in os.getloadavg())
    print(f"\nThe best of {options.rounds} rounds; load average at the end {load} on {os.cpu_count()} cores.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
