"""Runs many seeds, for a minute or for a night."""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.sim.mutations import MUTATIONS, RARE
from tests.simulator import simulate

ROOT: Final = Path(__file__).parents[2]
SEEDS_PER_MUTATION_MAX: Final = 1_000
FAILURES_SHOWN_MAX: Final = 3


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="play one seed and show its trace")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--jobs", type=int, default=1, help="share the seeds among so many processes")
    parser.add_argument("--forgets", action="store_true", help="drop the state after every commit")
    parser.add_argument("--digests", action="store_true", help="write a digest of the records of each seed")
    parser.add_argument("--mutations", nargs="*", help="find planted bugs: these, or all")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the command line; 0 if nothing is wrong."""
    given = parsed(arguments)
    if given.jobs > 1:
        return _shared(given, arguments)
    if given.seed is not None:
        return _one(given.seed, forgets=given.forgets)
    if given.mutations is not None:
        return _mutations(given.mutations or list(MUTATIONS), range(given.first, SEEDS_PER_MUTATION_MAX))
    return _many(range(given.first, given.first + given.count), given)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _one(seed: int, *, forgets: bool) -> int:
    report = simulate(seed, forgets=forgets)
    _say(report.text())
    return 1 if report.problems else 0


def _many(seeds: Iterable[int], given: argparse.Namespace) -> int:
    played = records = effects = crashes = jumps = failed = 0
    for seed in seeds:
        report = simulate(seed, forgets=given.forgets)
        played += 1
        records += report.records
        effects += report.effects
        crashes += report.crashes
        jumps += report.jumps
        if given.digests:
            _say(f"{seed} {report.digest}")
        if report.problems:
            failed += 1
            if failed <= FAILURES_SHOWN_MAX:
                _say(f"{report.text()}\nreplay: python -m tests.sim --seed {seed}")
    _say(
        f"{played} seeds, {records} records, {effects} effects, {crashes} crashes, {jumps} clock jumps: "
        f"{failed} failed"
    )
    return 1 if failed else 0


def _mutations(names: Sequence[str], seeds: range) -> int:
    missed = 0
    for name in names:
        found = find(name, seeds)
        missed += found is None
        _say(f"{name}: {'NOT FOUND' if found is None else found}")
    _say(f"{len(names) - missed} of {len(names)} found")
    return 1 if missed else 0


def find(name: str, seeds: Iterable[int]) -> str | None:
    """Plant a bug; return the first seed that finds it, with the violation. `RARE` is tried first."""
    for seed in (*([RARE[name]] if name in RARE else ()), *seeds):
        with MUTATIONS[name]():
            report = simulate(seed)
        if report.problems:
            return f"seed {seed}: {report.problems[0]}"
    return None


def _shared(given: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Give each process a part of the seeds, or of the bugs."""
    rest = [one for at, one in enumerate(arguments) if one != "--jobs" and arguments[at - 1] != "--jobs"]
    parts: list[list[str]] = []
    for job in range(given.jobs):
        if given.mutations is not None:
            names = given.mutations or list(MUTATIONS)
            parts.append(["--mutations", *names[job :: given.jobs]])
        else:
            share = given.count // given.jobs
            parts.append([*rest, "--first", str(given.first + job * share), "--count", str(share)])
    started = [start(part) for part in parts]
    return max(finish(process)[0] for process in started)


def start(arguments: Sequence[str], *, hash_seed: str = "random") -> subprocess.Popen[str]:
    """Begin to simulate in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.sim", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Return the exit code and the output."""
    text, _ = process.communicate()
    _say(text.rstrip() or f"ended with {process.returncode} and without a word")
    return process.returncode, text
