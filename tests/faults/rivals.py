"""Processes that compete for one run, and an owner that is frozen while it is replaced."""

import asyncio
import os
import random
import signal
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from tests.faults.forks import End, fork, in_lanes, run_story, wait
from tests.faults.kills import CHOICES, SIX_STEPS, Outcome, Trial, scratch
from tests.faults.rig import WAIT_S, Life, Plot, Trace, live, make_agent, read_back, read_trace, runtime_on
from tests.faults.verdict import judge

from windlass.errors import Conflict
from windlass.limits import OWNER_LEASE_MS
from windlass.sqlite.store import SqliteStore
from windlass.testing import Failpoints

RUN: Final = Plot("s1", "r1", ("look", "pay", "note+send"))
LATER_S: Final = OWNER_LEASE_MS / 1000 + 10
"""A clock this far ahead makes a live owner look dead."""


# the same run from many processes


def start_together(place: str | None, *, processes: int, starts: int) -> dict[str, Any]:
    """Start one run from several processes at once, each of them many times."""
    with scratch(place) as folder:
        run_story(lambda: read_back(folder, ()))
        gate, opener = os.pipe()
        reports = [folder / f"rival-{number}" for number in range(processes)]

        def rival() -> dict[str, Any]:
            os.close(opener)
            os.read(gate, 1)
            return asyncio.run(_start_many(folder, starts))

        pids = [fork(rival, report) for report in reports]
        os.close(opener)
        os.close(gate)
        ends = [wait(pid, report) for pid, report in zip(pids, reports, strict=True)]
        wrong = [f"broke: {end}" for end in ends if not end.is_fine]
        told = [end.report for end in ends if end.is_fine]
        wrong += [f"other input was not refused: {one}" for one in told if not one["is_refused"]]
        outputs = {output for one in told for output in one["outputs"]}
        if len(outputs) != 1:
            wrong.append(f"the handles tell {len(outputs)} results")
        end = run_story(lambda: read_back(folder, [RUN.session_id]), folder / "report")
        traces = {name: read_trace(folder / name) for name in ("acks", "ledger")}
        found, _ = judge(end.report, [RUN.run_id], acks=traces["acks"], ledger=traces["ledger"])
        effects = len(traces["ledger"])
        if effects != sum(len(step.split("+")) for step in RUN.steps):
            wrong.append(f"there were {effects} effects")
        return {"starts": processes * starts, "violations": [*wrong, *map(str, found)]}


async def _start_many(folder: Path, starts: int) -> dict[str, Any]:
    acks, ledger = Trace(folder / "acks"), Trace(folder / "ledger")
    agent = make_agent(Failpoints(), ledger)
    store = await SqliteStore.open(folder / "app.db", durability="process")
    async with asyncio.timeout(WAIT_S), runtime_on(store, [agent]) as runtime:
        handles = await asyncio.gather(
            *(
                runtime.start_run(agent, RUN.message, session_id=RUN.session_id, run_id=RUN.run_id)
                for _ in range(starts)
            )
        )
        acks.write(what="start", run=RUN.run_id)
        try:
            await runtime.start_run(agent, "r1: pay", session_id=RUN.session_id, run_id=RUN.run_id)
            is_refused = False
        except Conflict:
            is_refused = True
        results = await asyncio.gather(*(handle.wait(timeout=WAIT_S) for handle in handles))
    return {"is_refused": is_refused, "outputs": [result.output for result in results]}


# an owner that slept


def awake(trial: Trial, place: str | None) -> dict[str, Any]:
    """Freeze a process, let another take over and finish, then wake the first."""
    with scratch(place) as folder:
        return asdict(_awake(trial, folder))


def _awake(trial: Trial, folder: Path) -> Outcome:
    outcome = Outcome(lives=2)
    life = replace(trial.life, folder=folder)
    sleeper = fork(lambda: asyncio.run(live(replace(life, at=trial.kills[0], act="stop"))))
    _, status = os.waitpid(sleeper, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        outcome.violations = () if status == 0 else (f"broke: the sleeper ended with {status}",)
        return outcome
    outcome.kills = 1
    started = frozenset(ack["run"] for ack in read_trace(folder / "acks") if ack["what"] == "start")
    heir = run_story(lambda: live(replace(life, started=started, ahead_s=LATER_S)))
    os.kill(sleeper, signal.SIGCONT)
    end = wait(sleeper)
    broken = [f"broke: {one} in {trial}" for one in (heir, end) if not one.is_fine]
    told = run_story(lambda: read_back(folder, {plot.session_id for plot in life.plots}), folder / "report")
    outcome.violations = (*broken, *_judged(outcome, told, life, folder, sleeper))
    return outcome


def _judged(outcome: Outcome, told: End, life: Life, folder: Path, sleeper: int) -> list[str]:
    traces = {name: read_trace(folder / name) for name in ("acks", "ledger")}
    runs = [plot.run_id for plot in life.plots]
    found, tally = judge(told.report, runs, acks=traces["acks"], ledger=traces["ledger"])
    outcome.repeated, outcome.parked = tally.repeated, tally.parked
    return [str(one) for one in found]


def sleepers(seeds: range, place: str | None, *, mutant: str = "") -> list[dict[str, Any]]:
    """Put one process to sleep for each seed."""
    trials = [_sleeper(seed, mutant) for seed in seeds]
    with scratch(place) as folder:
        return in_lanes(lambda trial: awake(trial, place), trials, folder)


def _sleeper(seed: int, mutant: str) -> Trial:
    chance = random.Random(seed)
    plots = (Plot("s1", "r1", SIX_STEPS), Plot("s2", "r2", SIX_STEPS[::-1]))
    life = Life(Path(), plots, detail="calls", choice=chance.choice(CHOICES), mutant=mutant)
    # Behind the points of opening and starting, before those of the last step.
    return Trial(life, (chance.randint(50, 170),), seed)
