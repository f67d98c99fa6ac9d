"""Trials: processes are killed at counted points, and their traces are judged."""

import random
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from tests.faults.forks import End, in_lanes, run_story
from tests.faults.rig import Choice, Life, Plot, live, read_back, read_trace
from tests.faults.verdict import judge

SIX_STEPS: Final = ("look", "note", "pay", "look+send", "note", "send")
CHOICES: Final[tuple[Choice, ...]] = ("retry", "skip", "supply")
LIVES_MAX: Final = 6
POINTS_GUESS: Final = 400


@dataclass(frozen=True, slots=True)
class Trial:
    """The program to run, and the points at which each process is killed."""

    life: Life
    kills: tuple[int, ...]
    seed: int | None = None


@dataclass(slots=True)
class Outcome:
    """The outcome of a trial."""

    kills: int = 0
    lives: int = 0
    points: int = 0
    repeated: int = 0
    parked: int = 0
    violations: tuple[str, ...] = ()


@contextmanager
def scratch(place: str | None) -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="windlass-", dir=place))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def attempt(trial: Trial, place: str | None) -> dict[str, Any]:
    """Run a trial in a folder of its own; `place` is where."""
    with scratch(place) as folder:
        return asdict(_attempt(trial, folder))


def _attempt(trial: Trial, folder: Path) -> Outcome:
    outcome, end = Outcome(), End(None, None)
    life = replace(trial.life, folder=folder)
    for at in (*trial.kills, None):
        end = _live(replace(life, at=at), folder)
        outcome.lives += 1
        outcome.kills += end.is_killed
        if not end.is_killed and not end.is_fine:
            outcome.violations = (f"broke: life {outcome.lives} of {trial} ended with {end}",)
            return outcome
        if end.is_fine:
            outcome.points = end.report["points"]
            break
        acks = read_trace(folder / "acks")
        life = replace(life, started=frozenset(ack["run"] for ack in acks if ack["what"] == "start"))
    sessions = end.report["sessions"]
    runs = [plot.run_id for plot in life.plots]
    traces = {name: read_trace(folder / name) for name in ("acks", "ledger")}
    found, tally = judge(sessions, runs, acks=traces["acks"], ledger=traces["ledger"])
    outcome.violations = tuple(f"{one} in {trial.kills} seed {trial.seed}" for one in found)
    outcome.repeated, outcome.parked = tally.repeated, tally.parked
    return outcome


def _live(life: Life, folder: Path) -> End:
    async def story() -> dict[str, Any]:
        passed = await live(life)
        sessions = {plot.session_id for plot in life.plots}
        return {"points": len(passed), "sessions": await read_back(folder, sessions)}

    return run_story(story, folder / "report")


def exhaustive(
    place: str | None,
    *,
    steps: tuple[str, ...] = SIX_STEPS,
    mutant: str = "",
    every: int = 1,
    again_every: int = 6,
) -> list[dict[str, Any]]:
    """Kill one run at each of its points, or at some; now and then its recovery as well."""
    life = Life(Path(), (Plot("s1", "r1", steps),), mutant=mutant)
    with scratch(place) as folder:
        calm = attempt(Trial(life, ()), place)
        if calm["violations"] or not calm["points"]:
            return [calm]
        trials = [
            Trial(
                replace(life, choice=CHOICES[point % len(CHOICES)]),
                (point,) if point % again_every else (point, 12 + (7 * point) % 60),
            )
            for point in range(1, calm["points"] + 1, every)
        ]
        return in_lanes(lambda trial: attempt(trial, place), trials, folder)


def random_trial(seed: int, *, durability: str = "process", mutant: str = "") -> Trial:
    """Return a trial made of a seed: sessions, runs, tools, and the kills."""
    chance = random.Random(seed)
    plots: list[Plot] = []
    for session in range(chance.randint(1, 4)):
        for _ in range(chance.choice((1, 1, 2))):
            steps = tuple(_step(chance) for _ in range(chance.randint(1, 6)))
            plots.append(Plot(f"s{session}", f"r{len(plots)}", steps))
    life = Life(
        Path(),
        tuple(plots),
        durability="power" if durability == "power" else "process",
        detail=chance.choice(("commits", "statements")),
        choice=chance.choice(CHOICES),
        mutant=mutant,
    )
    most = POINTS_GUESS if life.detail == "statements" else POINTS_GUESS // 2
    kills = tuple(chance.randint(8, most) for _ in range(chance.randint(1, LIVES_MAX - 1)))
    return Trial(life, kills, seed)


def _step(chance: random.Random) -> str:
    count = chance.choice((1, 1, 1, 2, 3))
    return "+".join(chance.choice(("look", "note", "pay", "send")) for _ in range(count))


def seeded(
    seeds: range, place: str | None, *, durability: str = "process", mutant: str = ""
) -> list[dict[str, Any]]:
    """Run one random trial for each seed."""
    trials = [random_trial(seed, durability=durability, mutant=mutant) for seed in seeds]
    with scratch(place) as folder:
        return in_lanes(lambda trial: attempt(trial, place), trials, folder)
