"""A process is killed at every append of a run with a program: calls at once, approvals, agents at work."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from tests.code_mode.interpreters import OtherRelease
from tests.depth import some, some_of
from tests.faults.forks import in_lanes, run_story
from tests.faults.rig import runtime_on
from tests.faults.scene import KillingStore, ends_of, records_of

from windlass import Agent, Approval, tool
from windlass.code_mode.monty import MontyInterpreter
from windlass.runtime.handle import RunHandle
from windlass.sqlite.store import SqliteStore
from windlass.testing import ScriptedModel, by_history, call, say
from windlass.tools.context import ToolContext
from windlass_harness.loop.outage import ISOLATED_INTERRUPTIONS_MAX
from windlass_protocol.generated.event_data import ActionResultData

WAIT_S: Final = 300.0
SOURCE: Final = """
import asyncio, random
lucky = random.random()
found = await asyncio.gather(put("a"), put("b"), pay(1), put("c"), pay(2))
print(len(found), "are done")
last = await put(f"{found} {lucky}")
{"found": found, "last": last}
"""
APPENDS: Final = 16
"""More than there are, so that the last lives are whole."""
LIVES_MAX: Final = 5
"""Processes of a chain, before the one that is let through."""
FLOW_APPENDS: Final = 20
FLOW_POINTS: Final = some_of(
    [(number, is_durable) for number in range(1, FLOW_APPENDS + 1) for is_durable in (False, True)]
)
POINTS: Final = some_of(
    [(number, is_durable) for number in range(1, APPENDS + 1) for is_durable in (False, True)]
)


def buyer(ledger: Path, *, keeps: bool = False) -> Agent:
    def enter(context: ToolContext, what: str) -> str:
        with ledger.open("a") as file:
            file.write(f"{context.call_id}\n")
        return f"{what} is done"

    @tool(mode="safe_write", effect="idempotent")
    async def put(item: str, context: ToolContext) -> str:
        """Put a thing down."""
        return enter(context, item[:1])

    @tool(mode="external", effect="idempotent")
    async def pay(cents: int, context: ToolContext) -> str:
        """Pay."""
        return enter(context, f"{cents}")

    script = [call("run_code", {"code": SOURCE}), say("all done")]
    mode = "session" if keeps else True
    return Agent("buyer", model=ScriptedModel(by_history(script)), tools=[put, pay], code_mode=mode)


async def approve_all(handle: RunHandle) -> None:
    """Approve all requests of a run, until it ends."""
    async for request in handle.requests():
        assert isinstance(request, Approval)
        await request.approve()


async def live(
    folder: Path, number: int, is_durable: bool, is_other: bool, keeps: bool = False
) -> dict[str, Any]:
    """Drive the run, and report the outcome."""
    ledger = folder / "ledger"
    store = KillingStore(await SqliteStore.open(folder / "p.db"), number, is_durable=is_durable)
    agent = buyer(ledger, keeps=keeps)
    earlier = [record.data for record in await records_of(store) if record.type == "action.result"]
    before = {ActionResultData.model_validate(data).result.call_id for data in earlier}
    lines = len(ledger.read_text().splitlines()) if ledger.exists() else 0
    interpreter = OtherRelease() if is_other else MontyInterpreter()
    async with runtime_on(store, [agent], interpreter=interpreter) as runtime:
        handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
        await approve_all(handle)
        result = await handle.wait(timeout=WAIT_S)
        records = await records_of(store)
    made = ledger.read_text().splitlines()
    program = [one for one in records if one.type == "action.result"][-1]
    return {
        "output": result.output,
        "ends": ends_of(records),
        "value": program.data["result"],
        "repeated": [one for one in made[lines:] if one in before],
        "made": made,
        "types": [record.type for record in records],
    }


def killed_and_resumed(folder: Path, point: tuple[int, bool], *, is_other: bool) -> dict[str, Any]:
    home = folder / f"{point[0]}-{point[1]}"
    home.mkdir()
    first = run_story(lambda: live(home, *point, is_other=False), home / "first")
    second = run_story(lambda: live(home, 0, is_durable=True, is_other=is_other), home / "second")
    return {"killed": first.is_killed, "fine": second.is_fine, "told": second.report}


@pytest.mark.parametrize("is_other", [False, True], ids=["snapshot", "from its source"])
def test_a_program_survives_a_kill_at_every_append(tmp_path: Path, is_other: bool) -> None:
    lives = in_lanes(lambda point: killed_and_resumed(tmp_path, point, is_other=is_other), POINTS, tmp_path)
    assert sum(life["killed"] for life in lives) >= some(20), "there is something to kill"
    values: set[str] = set()
    for point, life in zip(POINTS, lives, strict=True):
        assert life["fine"], (point, life)
        told = life["told"]
        assert told["output"] == "all done", point
        assert told["ends"] == ["run.completed"], point
        assert told["repeated"] == [], (point, told)
        assert set(told["made"]) == {f"call-1/{number}" for number in range(6)}, (point, told)
        # A call that the kill interrupted is made once more, under the same key.
        assert len(told["made"]) <= 11, (point, told)
        values.add(str(told["value"]["output"]))
        assert told["types"].count("input.requested") <= 4, point
    assert len(values) == 1, "the program goes the same way, whatever happens to its process"


def chain(seed: int, folder: Path) -> dict[str, Any]:
    """Kill a few processes of one run at random appends, each of a random release; then let one through."""
    chance, kills, keeps = Random(seed), 0, bool(seed % 2)
    home = folder / str(seed)
    home.mkdir()
    for number in range(chance.randint(1, LIVES_MAX)):
        point, is_durable, is_other = chance.randint(1, 8), chance.random() < 0.5, chance.random() < 0.5
        end = run_story(
            lambda point=point, is_durable=is_durable, is_other=is_other: live(
                home, point, is_durable=is_durable, is_other=is_other, keeps=keeps
            ),
            home / f"life-{number}",
        )
        kills += end.is_killed
    is_other = chance.random() < 0.5
    last = run_story(lambda: live(home, 0, is_durable=True, is_other=is_other, keeps=keeps), home / "last")
    told: dict[str, Any] = last.report or {}
    wrong = [] if last.is_fine else [f"seed {seed}: the last process ended with {last}"]
    wrong += [f"seed {seed}: repeated {one}" for one in told.get("repeated", ())]
    if set(told.get("made", ())) != {f"call-1/{number}" for number in range(6)}:
        wrong.append(f"seed {seed}: calls were lost: {told}")
    if told.get("ends") != ["run.completed"] or told.get("output") != "all done":
        wrong.append(f"seed {seed}: the run ended with {told}")
    again = len(told.get("made", ())) - 6
    return {
        "kills": kills,
        "repeated": again,
        "parked": 0,
        "violations": wrong,
        "value": str(told.get("value")),
    }


def test_a_program_survives_chains_of_kills(tmp_path: Path) -> None:
    lives = in_lanes(lambda seed: chain(seed, tmp_path), range(6), tmp_path)
    assert [wrong for one in lives for wrong in one["violations"]] == []
    assert sum(one["kills"] for one in lives) > 6
    assert len({one["value"] for one in lives}) == 1


async def ask(folder: Path) -> None:
    """Run the program until it waits for both approvals, and die."""
    agent = buyer(folder / "ledger")
    async with runtime_on(
        await SqliteStore.open(folder / "p.db"), [agent], interpreter=MontyInterpreter()
    ) as runtime:
        handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
        async for event in handle.events():
            if event.type == "run.waiting" and len(await handle.open_requests()) == 2:
                os.kill(os.getpid(), signal.SIGKILL)


async def approve(folder: Path) -> int:
    """Answer in a process that has neither the agent nor an interpreter."""
    async with runtime_on(await SqliteStore.open(folder / "p.db"), []) as runtime:
        handle = runtime.handle("r1")
        requests = await handle.open_requests()
        for request in requests:
            await handle.answer(request.request_id, "approve")
        return len(requests)


def test_another_process_answers_and_a_process_of_another_release_goes_on(tmp_path: Path) -> None:
    assert run_story(lambda: ask(tmp_path)).is_killed
    assert (tmp_path / "ledger").read_text().splitlines() == [f"call-1/{at}" for at in (0, 1, 3)]
    assert run_story(lambda: approve(tmp_path), tmp_path / "answered").report == 2
    last = run_story(lambda: live(tmp_path, 0, is_durable=True, is_other=True), tmp_path / "last").report
    assert last["output"] == "all done"
    assert last["made"] == [f"call-1/{at}" for at in (0, 1, 3, 2, 4, 5)], "each call once"
    assert last["value"]["output"]["result"]["found"][2:] == ["1 is done", "c is done", "2 is done"]


FLOW: Final = """
import asyncio
notes = await asyncio.gather(*[researcher(f"Write about {topic}.") for topic in ("a", "b", "c")])
" ".join(notes)
"""


def boss(ledger: Path, *, meets: bool) -> Agent:
    """An agent whose workflow has three researchers; they go on when all three are at work."""
    all_three = asyncio.Barrier(3)

    @tool(mode="safe_write", effect="idempotent")
    async def note(context: ToolContext) -> str:
        """Write a note."""
        if meets:
            await all_three.wait()
        with ledger.open("a") as file:
            file.write(f"{context.session_id}\n")
        return "noted"

    researcher = Agent(
        "researcher", model=ScriptedModel(by_history([call("note"), say("A note.")])), tools=[note]
    )
    model = ScriptedModel(by_history([call("run_workflow", {"code": FLOW}), say("all done")]))
    return Agent("boss", model=model, subagents=[researcher], workflow=True)


async def direct(folder: Path, number: int, is_durable: bool, is_other: bool) -> dict[str, Any]:
    """Drive the family of the boss, and report the outcome."""
    store = KillingStore(await SqliteStore.open(folder / "w.db"), number, is_durable=is_durable)
    agent = boss(folder / "ledger", meets=not is_other)
    interpreter = OtherRelease() if is_other else MontyInterpreter()
    async with runtime_on(store, [agent], interpreter=interpreter) as runtime:
        handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
        result = await handle.wait(timeout=WAIT_S)
        below = await runtime.sessions.descendants("s1")
        ends = [ends_of(await records_of(store, one.session_id), one.run_id or "") for one in below]
        records = await records_of(store)
    values = [one.data["result"] for one in records if one.type == "action.result"]
    return {"output": result.output, "ends": [*ends, ends_of(records)], "value": values[-1]}


def test_three_agents_of_a_workflow_work_at_once_and_survive_a_kill_at_every_append(tmp_path: Path) -> None:
    def life(point: tuple[int, bool]) -> dict[str, Any]:
        home = tmp_path / f"{point[0]}-{point[1]}"
        home.mkdir()
        first = run_story(lambda: direct(home, *point, is_other=False), home / "first")
        second = run_story(lambda: direct(home, 0, is_durable=True, is_other=True), home / "second")
        notes = (home / "ledger").read_text().splitlines()
        return {"killed": first.is_killed, "fine": second.is_fine, "told": second.report, "notes": notes}

    lives = in_lanes(life, FLOW_POINTS, tmp_path)
    assert sum(one["killed"] for one in lives) >= some(20), "there is something to kill"
    assert not lives[-1]["killed"], "the three have met in a life that was not killed"
    for point, one in zip(FLOW_POINTS, lives, strict=True):
        assert one["fine"], (point, one)
        told = one["told"]
        assert told["output"] == "all done", point
        assert told["ends"] == [["run.completed"]] * 4, (point, told)
        assert told["value"]["output"] == "A note. A note. A note.", point
        assert len(set(one["notes"])) == 3, (point, one)
        assert len(one["notes"]) <= 6, "a note is made once more if the kill interrupted it"


BOMB: Final = """
import asyncio, os, signal, sys
from windlass import Agent, AgentRuntime, tool
from windlass.testing import ScriptedModel, by_history, call, say
from windlass.testing.interpreter import WaveInterpreter, waves

class Bomb(WaveInterpreter):
    "An interpreter that ends its process when a program takes its first result."
    async def run(self, program, outcomes, *, snapshot=None):
        if outcomes and program.source == BAD:
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().run(program, outcomes, snapshot=snapshot)

@tool(mode="read")
async def look(item: str) -> str:
    "Look at a thing."
    await asyncio.sleep(0)
    return item

BAD = waves([("look", {"item": "bomb"})])
GOOD = waves([("look", {"item": "a"})], [("look", {"item": "b"})])

def coder(name, source):
    script = by_history([call("run_code", {"code": source}), say("done")])
    return Agent(name, model=ScriptedModel(script), tools=[look], code_mode=True)

async def main():
    agents = [coder("bad", BAD), coder("good", GOOD)]
    async with AgentRuntime.open(
        sys.argv[1], agents=agents, interpreter=Bomb(), durability="process"
    ) as runtime:
        handles = [await runtime.start_run("bad", "go", session_id="bad", run_id="bad")]
        for n in range(3):
            handles.append(await runtime.start_run("good", "go", session_id=f"s{n}", run_id=f"s{n}"))
        results = [await handle.wait() for handle in handles]
        print([result.status.value for result in results], results[0].error.details["reason"])

asyncio.run(main())
"""


def test_a_program_that_ends_every_process_fails_alone_and_the_others_complete(tmp_path: Path) -> None:
    store, report, lives = tmp_path / "a.db", "", 0
    while not report:
        lives += 1
        assert lives < 60, "the processes end for ever"
        process = subprocess.run(
            [sys.executable, "-c", BOMB, str(store)], capture_output=True, text=True, check=False
        )
        assert process.returncode in (0, -signal.SIGKILL), process.stderr
        report = process.stdout.strip()
    assert report == "['failed', 'completed', 'completed', 'completed'] interrupted_too_often"
    assert lives == ISOLATED_INTERRUPTIONS_MAX + 1
