"""Simulated histories of workflows: random functions, results in random orders, crashes, and changed code.

A function is a random tree of calls, gathers, races, timeouts, groups, failures and timers. Its results come
in a random order; at a crash it is removed from memory, and a new one takes the records. It must see the same
again, to the last random number. At a tenth of the crashes the code has changed: one recorded call has other
arguments, which must be told with its number before any other call is made.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any

from windlass.ports.interpreter import (
    CallError,
    CallValue,
    Diverged,
    ProgramCall,
    ProgramFault,
    ProgramStart,
    RecordedOutcome,
)
from windlass.workflow.replay import SLEEP, CallFailed, LiveWorkflow

AT = datetime(2026, 1, 31, 9, tzinfo=UTC)
CANCELLED = "The workflow cancelled itself."
"""A timeout and the failure of a group inside it at one time may end so in CPython."""
DEPTH_MAX = 3
DIVERGED_SHARE = 0.1
CRASH_SHARE = 0.3
FAILED_SHARE = 0.15
Op = dict[str, Any]


def make_plan(random: Random, numbers: list[int], depth: int = 0) -> Op:
    """Return a random function as a tree; each call has a number of its own."""
    kinds = ["call", "call", "sleep"]
    if depth < DEPTH_MAX:
        kinds += ["each", "gather", "first", "completed", "timeout", "group", "caught"]
    kind = random.choice(kinds) if depth else "each"
    if kind == "call":
        numbers.append(len(numbers))
        return {"kind": kind, "number": numbers[-1]}
    if kind == "sleep":
        return {"kind": kind, "seconds": random.randint(1, 90)}
    parts = [make_plan(random, numbers, depth + 1) for _ in range(random.randint(1, 4))]
    return {"kind": kind, "parts": parts, "seconds": random.randint(1, 60)}


async def execute(live: LiveWorkflow, plan: Op, seen: list[object], changed: int | None) -> object:
    """Run a plan as a function would be written, and note all that it sees."""
    begin = partial(execute, live, seen=seen, changed=changed)
    match plan["kind"]:
        case "call":
            number = plan["number"]
            value = await live.call("look", {"number": -1 if number == changed else number})
            seen.append((number, value, live.loop.now, live.random.random()))
            return value
        case "sleep":
            await asyncio.sleep(plan["seconds"])
        case "each":
            for part in plan["parts"]:
                try:
                    await begin(plan=part)
                except CallFailed as error:
                    seen.append(str(error))
        case "gather":
            values = await asyncio.gather(
                *(begin(plan=part) for part in plan["parts"]), return_exceptions=True
            )
            seen.append([str(value) for value in values])
        case "first":
            tasks = [asyncio.ensure_future(begin(plan=part)) for part in plan["parts"]]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            seen.append([tasks.index(task) for task in tasks if task in done])
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        case "completed":
            for future in asyncio.as_completed([begin(plan=part) for part in plan["parts"]]):
                try:
                    seen.append(await future)
                except CallFailed as error:
                    seen.append(str(error))
        case "timeout":
            try:
                async with asyncio.timeout(plan["seconds"]):
                    await begin(plan={**plan, "kind": "each"})
            except TimeoutError:
                seen.append("timeout")
            finally:
                seen.append("finally")
        case "group":
            try:
                async with asyncio.TaskGroup() as group:
                    for part in plan["parts"]:
                        group.create_task(begin(plan=part))
            except* CallFailed as errors:
                seen.append(sorted(map(str, errors.exceptions)))
        case _:
            try:
                await begin(plan=plan["parts"][0])
            except CallFailed as error:
                seen.append(str(error))
    return None


class World:
    """The records of one history, and the function that is in memory."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.seed = seed
        self.plan = make_plan(self.random, [])
        self.calls: list[ProgramCall] = []
        self.results: list[RecordedOutcome] = []
        self.now = AT
        self.crashes = 0
        self._cancelled: set[int] = set()
        self._live, self.seen = self.begin()

    def begin(self, changed: int | None = None) -> tuple[LiveWorkflow, list[object]]:
        seen: list[object] = []
        recorded = tuple((call.name, call.named) for call in self.calls)
        start = ProgramStart({}, at=AT, seed=str(self.seed), run_id="r", session_id="s", recorded=recorded)

        async def body(live: LiveWorkflow) -> object:
            return await execute(live, self.plan, seen, changed)

        return LiveWorkflow(start, body=body), seen

    async def play(self) -> list[str]:
        """Play the history; return what went wrong."""
        fresh: Sequence[RecordedOutcome] = ()
        while True:
            progress = await self._live.run(fresh)
            self._cancelled.update(progress.cancelled)
            self.calls += progress.calls
            if isinstance(progress.end, ProgramFault) and progress.end.message != CANCELLED:
                return [f"seed {self.seed}: {progress.end.message}"]
            if progress.end is not None:
                self._live.close()
                return await self._replay(self.seen)
            if self.random.random() < CRASH_SHARE:
                self._live.close()
                self.crashes += 1
                wrong = await self._replay(self.seen)
                if wrong:
                    return wrong
                if self.random.random() < DIVERGED_SHARE and (told := await self._diverge()) is not None:
                    return told
                self._live, self.seen = self.begin()
                await self._live.run(self.results)
            fresh = [self._result()]
            self.results += fresh

    def _result(self) -> RecordedOutcome:
        """Record the result of an open call: any call, or the timer that is due first."""
        ended = {result.number for result in self.results} | self._cancelled
        waiting = [number for number in range(len(self.calls)) if number not in ended]
        timers = [number for number in waiting if self.calls[number].name == SLEEP]
        others = [number for number in waiting if self.calls[number].name != SLEEP]
        if others and (not timers or self.random.random() < 0.7):
            number = self.random.choice(others)
            self.now += timedelta(seconds=self.random.randint(0, 5))
            is_failed = self.random.random() < FAILED_SHARE
            outcome = CallError("RuntimeError", f"no {number}") if is_failed else CallValue(number)
            return RecordedOutcome(number, outcome, self.now)
        number = min(timers, key=lambda timer: str(self.calls[timer].named["until"]))
        self.now = max(self.now, datetime.fromisoformat(str(self.calls[number].named["until"])))
        return RecordedOutcome(number, CallValue(None), self.now)

    async def _replay(self, seen: list[object]) -> list[str]:
        """Compare what a new function sees of the records with what the one before saw."""
        live, seen_again = self.begin()
        progress = await live.run(self.results)
        live.close()
        if seen_again != seen or len(progress.calls) != len(self.calls):
            return [f"seed {self.seed}: saw {seen_again}, and before {seen}"]
        return []

    async def _diverge(self) -> list[str] | None:
        """Change the code at a recorded call; None if none was recorded."""
        looks = [number for number, call in enumerate(self.calls) if call.name == "look"]
        if not looks:
            return None
        number = self.random.choice(looks)
        live, _ = self.begin(changed=int(str(self.calls[number].named["number"])))
        try:
            await live.run(self.results)
        except Diverged as error:
            is_right = f"Call {number} was look(" in str(error) and "histories.py, line" in str(error)
            return [] if is_right else [f"seed {self.seed}: told {error}, and call {number} differs"]
        finally:
            live.close()
        return [f"seed {self.seed}: call {number} differs, and nothing was told"]


def simulate(seeds: Sequence[int]) -> dict[str, Any]:
    """Play histories; return their counts and what went wrong."""

    async def main() -> dict[str, Any]:
        wrong: list[str] = []
        crashes = calls = 0
        for seed in seeds:
            world = World(seed)
            wrong += await world.play()
            crashes += world.crashes
            calls += len(world.calls)
        return {
            "trials": len(seeds),
            "kills": crashes,
            "calls": calls,
            "wrong": len(wrong),
            "violations": wrong,
        }

    return asyncio.run(main())
