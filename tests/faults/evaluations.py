"""An evaluation whose process is killed: it goes on, and pays for nothing that has ended again.

Every model call appends a line to a file before it answers, and the process kills itself at a counted call,
in the middle of several. A call that a kill interrupted has no result and is made again; that of an attempt
or a judgement that had ended must not be.
"""

import os
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.faults.forks import run_story

from windlass import Agent, AgentRuntime, LLMMessage, LLMUsage
from windlass.evals import Case, Contains, Dataset, Exact, Experiment, ExperimentResult, Judge, Results
from windlass.testing import Answer, ScriptedModel, say
from windlass_protocol import RunStatus

KILLS: Final = 3
AT_ONCE: Final = 8
USAGE: Final = LLMUsage(input_tokens=8, output_tokens=2, cost_micros=50)
_ID: Final = "eval"


class Meter:
    """Counts the model calls of one process in a file that outlives it, and kills the process at one."""

    def __init__(self, file: Path, *, kill_at: int | None) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._left = kill_at

    def count(self, what: str) -> None:
        os.write(self._file, f"{what}\n".encode())
        if self._left is not None:
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)


def _scene(meter: Meter, cases: int) -> tuple[Agent, Experiment]:
    def answers(messages: Sequence[LLMMessage]) -> Answer:
        word = messages[-1].content
        meter.count(f"answer {word}")
        return say(f"{word} is {'odd' if int(word) % 2 else 'even'}", usage=USAGE)

    def judges(messages: Sequence[LLMMessage]) -> Answer:
        word = messages[-1].content.split('"task":"')[1].split('"')[0]
        meter.count(f"judge {word}")
        good = int(word) % 7 != 0
        return say(f'{{"score": {1 if good else 0.1}, "why": "I looked at {word}."}}', usage=USAGE)

    agent = Agent("clerk", model=ScriptedModel(answers))
    data = Dataset(
        "numbers",
        # Every fifth expected answer is wrong.
        [Case(f"n{n}", str(n), f"{n} is {'odd' if n % 2 and n % 5 else 'even'}") for n in range(cases)],
        scorers=[Exact(), Contains("is"), Judge("Is it so?", ScriptedModel(judges))],
    )
    return agent, Experiment(data, agent, experiment_id=_ID, at_once=AT_ONCE)


def _shown(result: ExperimentResult) -> list[Any]:
    """What must be the same: everything but times."""
    return [
        one.model_dump(mode="json", exclude={"duration_ms"})
        for one in sorted(result.cases, key=lambda one: one.run_id)
    ]


def killed_evaluation(folder: Path, *, cases: int) -> dict[str, Any]:
    """Kill the process of an evaluation three times; return what is wrong."""
    store, log = folder / "store.db", folder / "calls"

    async def life(kill_at: int | None) -> list[Any]:
        agent, plan = _scene(Meter(log, kill_at=kill_at), cases)
        async with AgentRuntime.open(store, agents=[agent], durability="process") as runtime:
            return _shown(await plan.run(runtime))

    async def ended() -> list[str]:
        """The runs that have ended, read by a process that drives none."""
        found: list[str] = []
        async with AgentRuntime.open(store, agents=[], durability="process") as runtime:
            after: str | None = None
            while True:
                page = await runtime.sessions.runs(status=RunStatus.COMPLETED, after=after, limit=200)
                found += [one.run_id for one in page.items]
                after = page.next
                if after is None:
                    return found

    async def undisturbed() -> list[Any]:
        agent, plan = _scene(Meter(folder / "undisturbed", kill_at=None), cases)
        async with AgentRuntime.in_memory([agent]) as runtime:
            return _shown(await plan.run(runtime))

    async def kept() -> list[Any]:
        async with AgentRuntime.open(store, agents=[], durability="process") as runtime:
            return _shown(await Results(runtime).read(_ID))

    wrong: list[str] = []
    done: set[str] = set()
    repeated, last = 0, None
    for number in range(KILLS + 1):
        before = _lines(log)
        kill_at = cases // 2 + number if number < KILLS else None
        end = run_story(lambda kill_at=kill_at: life(kill_at), folder / "last")
        fresh, last = Counter(_lines(log)[len(before) :]), end.report
        if end.is_killed is (kill_at is None):
            wrong.append(f"process {number} ended otherwise: {end.status} {end.signal}")
        wrong += [f"paid twice: {one}" for one, times in fresh.items() if one in done or times > 1]
        repeated += len(fresh.keys() & set(before))
        done = {_label(one) for one in run_story(ended, folder / "ended").report}
    calls = Counter(_lines(log))
    if set(calls) != {f"{what} {n}" for what in ("answer", "judge") for n in range(cases)} or done != set(
        calls
    ):
        wrong.append("a case was not asked or not judged")
    if calls.total() > 2 * cases + KILLS * AT_ONCE:
        wrong.append(f"{calls.total()} calls for {cases} cases, {KILLS} kills and {AT_ONCE} at once")
    if last is None or last != run_story(undisturbed, folder / "undisturbed.json").report:
        wrong.append("the result differs from that of an undisturbed evaluation")
    if last != run_story(kept, folder / "kept.json").report:
        wrong.append("the store keeps another result")
    return {"trials": cases, "kills": KILLS, "repeated": repeated, "wrong": len(wrong), "violations": wrong}


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def _label(run_id: str) -> str:
    """Return the line of the model call of a run: `eval/n5/1`, or `eval/n5/1/judge/…`."""
    parts = run_id.split("/")
    return f"{'judge' if 'judge' in parts else 'answer'} {parts[1].removeprefix('n')}"
