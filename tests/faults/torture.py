"""The long tests: thousands of kills, rivals and sleepers, each from a seed.

    python -m tests.faults.torture all --write
    python -m tests.faults.torture kills --trials 40 --first 1 --place /dev/shm

Each part prints one line of JSON and exits with 1 if anything is wrong. Importing this module imports
nothing of the project: see `test_kills.py`.
"""

import argparse
import asyncio
import json
import logging
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.faults.damage import bit_flips, lost_logs
from tests.faults.disk import Disk
from tests.faults.evaluations import killed_evaluation
from tests.faults.forks import in_lanes
from tests.faults.kills import SIX_STEPS, exhaustive, scratch, seeded
from tests.faults.lossy import generations
from tests.faults.rig import warm
from tests.faults.rivals import sleepers, start_together
from tests.faults.test_program_kills import chain
from tests.runtime.test_schedules import live
from tests.server.crowd import crowds
from tests.server.desk import trial
from tests.server.noisy import noisy
from tests.server.streaming import streaming
from tests.sim.runner import start

PAGE: Final = Path(__file__).parents[2] / "benchmarks" / "TORTURE.md"
SHOWN_MAX: Final = 10
CROWD_TURNS: Final = 3
SCHEDULES: Final = 20
"""Schedules of one seed."""
SIMULATORS: Final = 2
"""Processes that share the seeds of simulations."""
_SIMULATED: Final = re.compile(
    r"(?P<seeds>\d+) seeds, .* (?P<crashes>\d+) crashes, .*: (?P<wrong>\d+) failed"
)
Part = Callable[[argparse.Namespace], dict[str, Any]]


def _sum(outcomes: list[dict[str, Any]]) -> dict[str, Any]:
    wrong = [one for outcome in outcomes for one in outcome["violations"]]
    totals = {name: sum(outcome[name] for outcome in outcomes) for name in ("kills", "repeated", "parked")}
    return {"trials": len(outcomes), **totals, "wrong": len(wrong), "violations": wrong[:SHOWN_MAX]}


def every_point(args: argparse.Namespace) -> dict[str, Any]:
    return _sum(exhaustive(args.place, steps=tuple(args.steps.split()), mutant=args.mutant, every=args.every))


def kills(args: argparse.Namespace) -> dict[str, Any]:
    seeds = range(args.first, args.first + args.trials)
    told = _sum(seeded(seeds, args.place, durability=args.durability, mutant=args.mutant))
    return {"seeds": f"{seeds.start}..{seeds.stop - 1}", **told}


def starts(args: argparse.Namespace) -> dict[str, Any]:
    told = start_together(args.place, processes=args.processes, starts=args.starts)
    return {**told, "wrong": len(told["violations"])}


def zombies(args: argparse.Namespace) -> dict[str, Any]:
    seeds = range(args.first, args.first + args.trials)
    return {
        "seeds": f"{seeds.start}..{seeds.stop - 1}",
        **_sum(sleepers(seeds, args.place, mutant=args.mutant)),
    }


def disks(args: argparse.Namespace) -> dict[str, Any]:
    with scratch(args.place) as folder, Disk("windlass-torture") as disk:
        wrong = asyncio.run(generations(disk, folder, trials=args.trials, seed=args.first))
    return {"trials": args.trials, "kills": args.trials, "wrong": len(wrong), "violations": wrong[:SHOWN_MAX]}


def logs(args: argparse.Namespace) -> dict[str, Any]:
    with scratch(args.place) as folder:
        told = lost_logs(folder, points=args.trials, seed=args.first)
    return {**told, "violations": told["violations"][:SHOWN_MAX]}


def bits(args: argparse.Namespace) -> dict[str, Any]:
    with scratch(args.place) as folder:
        told = asyncio.run(bit_flips(folder, trials=args.trials, seed=args.first))
    return {**told, "violations": told["violations"][:SHOWN_MAX]}


def simulations(args: argparse.Namespace) -> dict[str, Any]:
    share = args.trials // SIMULATORS
    firsts = [args.first + share * job for job in range(SIMULATORS)]
    jobs = [start(["--first", str(first), "--count", str(share)]) for first in firsts]
    told = [job.communicate()[0] for job in jobs]
    found = [_SIMULATED.search(text) for text in told]
    sums = [sum(int(one[name]) for one in found if one is not None) for name in ("seeds", "crashes", "wrong")]
    lost = sum(one is None for one in found)
    violations = [text[-4_000:] for text, job in zip(told, jobs, strict=True) if job.returncode]
    return {"trials": sums[0], "kills": sums[1], "wrong": sums[2] + lost, "violations": violations}


def programs(args: argparse.Namespace) -> dict[str, Any]:
    seeds = range(args.first, args.first + args.trials)
    with scratch(args.place) as folder:
        return _sum(in_lanes(lambda seed: chain(seed, Path(folder)), seeds, Path(folder)))


def histories(args: argparse.Namespace) -> dict[str, Any]:
    from tests.workflow.histories import simulate  # noqa: PLC0415 - it imports the project

    outcome = simulate(range(args.first, args.first + args.trials))
    return {**outcome, "violations": outcome["violations"][:SHOWN_MAX]}


def crowd(args: argparse.Namespace) -> dict[str, Any]:
    with scratch(args.place) as folder:
        told = asyncio.run(crowds(Path(folder), readers=args.trials, turns=CROWD_TURNS))
    wrong = told["violations"]
    return {
        "trials": told["readers"],
        "kills": told["reconnects"],
        "wrong": len(wrong),
        "violations": wrong[:SHOWN_MAX],
    }


def neighbour(args: argparse.Namespace) -> dict[str, Any]:
    with scratch(args.place) as folder:
        told = asyncio.run(noisy(Path(folder), bodies=args.trials))
    return {**told, "trials": args.trials, "wrong": len(told["violations"])}


def streams(args: argparse.Namespace) -> dict[str, Any]:
    with scratch(args.place) as folder:
        played = asyncio.run(
            streaming(
                Path(folder), sessions=args.trials, seconds=args.seconds, kills=args.kills, seed=args.first
            )
        )
    return {**played, "violations": played["violations"][:SHOWN_MAX]}


def fleet(args: argparse.Namespace) -> dict[str, Any]:
    from tests.fleet.storm import play  # noqa: PLC0415 - it imports the project

    return play(
        sessions=args.trials, servers=3, workers=4, blows=args.kills, seed=args.first, tell=_to_stderr
    )


def deploys(args: argparse.Namespace) -> dict[str, Any]:
    from tests.fleet.deploys import play  # noqa: PLC0415 - it imports the project

    return play(sessions=args.trials, deploys=args.kills, tell=_to_stderr)


def readers(args: argparse.Namespace) -> dict[str, Any]:
    from tests.fleet.readers import play  # noqa: PLC0415 - it imports the project

    return play(readers=args.trials, kills=args.kills, seed=args.first)


def outages(args: argparse.Namespace) -> dict[str, Any]:
    from tests.faults.outages import outages as play  # noqa: PLC0415 - it imports the project

    return play(range(args.first, args.first + args.trials))


def wakes(_: argparse.Namespace) -> dict[str, Any]:
    from tests.fleet.one_command import play  # noqa: PLC0415 - it imports the project
    from tests.fleet.test_wakes_kit import all_cases  # noqa: PLC0415 - it imports the project

    play()
    return {"trials": all_cases(), "kills": 5, "wrong": 0}


def desk(args: argparse.Namespace) -> dict[str, Any]:
    with scratch(args.place) as folder:
        told = trial(
            Path(folder), tickets=args.trials, kills=args.kills, outage_s=args.outage, seed=args.first
        )
        return asyncio.run(told)


def answers(args: argparse.Namespace) -> dict[str, Any]:
    from tests.faults.answers import play  # noqa: PLC0415 - it imports the project

    with scratch(args.place) as folder:
        told = play(Path(folder), races=args.trials, seed=args.first)
    return {**told, "violations": told["violations"][:SHOWN_MAX]}


def schedules(args: argparse.Namespace) -> dict[str, Any]:
    def year(seed: int) -> list[str]:
        try:
            asyncio.run(live(seed, count=SCHEDULES, days=365))
        except AssertionError as error:
            return [str(error)[:SHOWN_MAX]]
        return []

    logging.disable(logging.CRITICAL)
    seeds = range(args.first, args.first + args.trials)
    with scratch(args.place) as folder:
        wrong = [one for found in in_lanes(year, seeds, Path(folder)) for one in found]
    return {"trials": args.trials * SCHEDULES, "wrong": len(wrong), "violations": wrong[:SHOWN_MAX]}


def evaluations(args: argparse.Namespace) -> dict[str, Any]:
    with scratch(args.place) as folder:
        return killed_evaluation(folder, cases=args.trials)


def purses(args: argparse.Namespace) -> dict[str, Any]:
    from tests.faults.purses import play  # noqa: PLC0415 - it imports the project

    from tools.postgres import running_postgres  # noqa: PLC0415 - it imports the project

    with scratch(args.place) as folder, running_postgres() as server:
        outcomes = [
            asyncio.run(play(address, Path(folder), runs=args.trials, kills=args.kills, seed=args.first + at))
            for at, address in enumerate((f"{folder}/purses.db", server.new_database()))
        ]
    wrong = [violation for outcome in outcomes for violation in outcome["violations"]]
    kills = sum(outcome["kills"] for outcome in outcomes)
    return {"trials": 2 * args.trials, "kills": kills, "wrong": len(wrong), "violations": wrong[:SHOWN_MAX]}


PARTS: Final[dict[str, Part]] = {
    "every-point": every_point,
    "kills": kills,
    "starts": starts,
    "zombies": zombies,
    "disks": disks,
    "logs": logs,
    "bits": bits,
    "simulations": simulations,
    "programs": programs,
    "histories": histories,
    "crowd": crowd,
    "noisy": neighbour,
    "streams": streams,
    "fleet": fleet,
    "deploys": deploys,
    "wakes": wakes,
    "readers": readers,
    "outages": outages,
    "desk": desk,
    "answers": answers,
    "evaluations": evaluations,
    "schedules": schedules,
    "purses": purses,
}
ALL: Final[tuple[tuple[str, str, str], ...]] = (
    ("R2", "every-point", ""),
    ("R1", "kills", "--trials 450 --first 1 --durability power"),
    ("R11", "starts", "--processes 8 --starts 125"),
    ("R12", "zombies", "--trials 115 --first 1"),
    ("R4", "kills", "--trials 450 --first 1 --mutant blind"),
    ("R4", "kills", "--trials 40 --first 1 --mutant early"),
    ("R4", "zombies", "--trials 10 --first 1 --mutant fenceless"),
    ("R3", "disks", "--trials 10000 --first 1"),
    ("J1", "logs", "--trials 2000 --first 1"),
    ("J3", "bits", "--trials 5000 --first 1"),
    ("R9", "simulations", "--trials 10000 --first 0"),
    ("R9", "programs", "--trials 100 --first 1"),
    ("R9", "histories", "--trials 10000 --first 0"),
    ("F1", "crowd", "--trials 10000"),
    ("L1", "noisy", "--trials 120"),
    ("F1", "streams", "--trials 300 --kills 4 --first 1 --seconds 600"),
    ("R12", "fleet", "--trials 2000 --kills 120 --first 1"),
    ("J5", "deploys", "--trials 24 --kills 3"),
    ("R12", "wakes", ""),
    ("F1", "readers", "--trials 10000 --kills 12 --first 1"),
    ("J1", "outages", "--trials 12 --first 1"),
    ("R1", "desk", "--trials 30 --kills 25 --outage 600"),
    ("A1", "answers", "--trials 100 --first 1"),
    ("J5", "evaluations", "--trials 200"),
    ("R9", "schedules", "--trials 50 --first 1"),
    ("L1", "purses", "--trials 1000 --kills 20 --first 1"),
)
"""The parts of a whole night, each with its promise."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=[*PARTS, "all"])
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--steps", default=" ".join(SIX_STEPS), help="what the run of every-point does")
    parser.add_argument("--every", type=int, default=1, help="of the points of every-point")
    parser.add_argument("--durability", choices=["power", "process"], default="process")
    parser.add_argument("--mutant", default="", choices=["", "blind", "early", "fenceless"])
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument(
        "--kills", type=int, default=5, help="of servers; in fleet, of anything; in deploys, rolling restarts"
    )
    parser.add_argument("--seconds", type=float, default=60, help="how long streams play")
    parser.add_argument("--outage", type=float, default=60, help="of its provider, in seconds")
    parser.add_argument("--place", help="the folder in which files are made; a temporary one when left out")
    parser.add_argument("--write", action="store_true", help=f"put the rows into {PAGE.name}")
    return parser


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _run(args: argparse.Namespace) -> dict[str, Any]:
    began = time.monotonic()
    told = PARTS[args.part](args)
    return {**told, "seconds": round(time.monotonic() - began)}


def _all(parser: argparse.ArgumentParser, args: argparse.Namespace) -> bool:
    is_good = True
    for promise, part, options in ALL:
        place = ["--place", args.place] if args.place else []
        told = _run(parser.parse_args([part, *options.split(), *place]))
        sys.stdout.write(f"{promise} {part} {options}: {json.dumps(told)}\n")
        sys.stdout.flush()
        is_good = is_good and bool(told["wrong"]) is ("--mutant" in options)
        if args.write:
            _write(promise, f"{part} {options}".strip(), told)
    return is_good


def _write(promise: str, part: str, told: dict[str, Any]) -> None:
    """Put the row of a part into the table at the end of the page, in place of its earlier one."""
    names = ("kills", "repeated", "parked", "wrong", "seconds")
    cells = [
        promise,
        f"`{part}`",
        told.get("trials", told.get("starts")),
        *(told.get(one, "") for one in names),
    ]
    row = f"| {' | '.join(map(str, cells))} | {datetime.now(UTC):%Y-%m-%d} | {_more(told)} |"
    lines = PAGE.read_text().splitlines()
    number = next((at for at, line in enumerate(lines) if _key(line) == _key(row)), len(lines))
    PAGE.write_text("\n".join([*lines[:number], row, *lines[number + 1 :]]) + "\n")


def _key(line: str) -> tuple[str, str] | None:
    """Return the part of a row and its mutant."""
    found = re.match(r"\| \S+ \| `(\S+?)(?: [^`]*?)?(--mutant \w+)?`", line)
    return None if found is None else (found[1], found[2] or "")


def _more(told: dict[str, Any]) -> str:
    if "loaded_p99_ms" in told:
        return f"p99 of a small request {told['idle_p99_ms']} ms, under load {told['loaded_p99_ms']} ms"
    if "back_ms" in told:
        back, promoted = told["back_ms"], told["promoted_ms"]
        return (
            f"replica promoted after {min(promoted)} to {max(promoted)} ms, "
            f"all writers back after {min(back)} to {max(back)} ms"
        )
    if "longest_stall_ms" in told:
        stall_ms, deliveries = told["longest_stall_ms"], told["deliveries"]
        return f"longest stall {stall_ms} ms, {deliveries:,} deliveries"
    if "deliveries" in told:
        return f"{told['deliveries']:,} deliveries, {told['reconnects']:,} connections made again"
    if "results" in told:
        return f"{told['effects']:,} effects, {told['results']:,} results"
    return ""


def main() -> int:
    logging.disable(logging.ERROR)
    parser = _parser()
    args = parser.parse_args()
    warm()
    if args.part == "all":
        return 0 if _all(parser, args) else 1
    given = " ".join(one for one in sys.argv[1:] if one != "--write")
    promises = {_key(f"| - | `{part} {options}`"): promise for promise, part, options in ALL}
    promise = promises.get(_key(f"| - | `{given}`"))
    if args.write and promise is None:
        parser.error(f"--write takes a part of `make torture`, and {given} is none")
    told = _run(args)
    sys.stdout.write(json.dumps(told) + "\n")
    if args.write and promise is not None:
        _write(promise, given, told)
    return 1 if told["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
