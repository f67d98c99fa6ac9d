"""A process is killed at every append of a run with several jobs under way."""

from collections import Counter
from pathlib import Path
from typing import Any, Final

from tests.depth import some, some_of
from tests.faults.forks import in_lanes, run_story
from tests.faults.rig import runtime_on
from tests.faults.scene import KillingStore, ends_of, records_of

from windlass import Agent, tool
from windlass.agent import Background
from windlass.sqlite.store import SqliteStore
from windlass.testing import ScriptedModel, by_history, call, say

WAIT_S: Final = 300.0
APPENDS: Final = 24
"""Of the run and its jobs; more than there are, so that the last lives are whole."""
POINTS: Final = some_of(
    [(number, is_durable) for number in range(1, APPENDS + 1) for is_durable in (False, True)]
)
JOBS: Final = 4


def lead(ledger: Path) -> Agent:
    """An agent with three calls of a tool and a subagent in the background; the tool writes into a ledger."""

    @tool(mode="safe_write", effect="idempotent", background=True)
    async def put(item: str) -> str:
        """Put a thing down."""
        with ledger.open("a") as file:
            file.write(f"{item}\n")
        return f"{item} is down"

    reader = Agent("reader", model=ScriptedModel(by_history([say("It is tea.")])))
    begun = call("put", {"item": "a"}) + call("put", {"item": "b"}) + call("put", {"item": "c"})
    # Results come one by one or together: each is followed by an answer.
    answers = [say(f"answer {number}") for number in range(JOBS + 1)]
    model = ScriptedModel(by_history([begun + call("reader", {"message": "What is it?"}), *answers]))
    return Agent("lead", model=model, tools=[put], subagents=[Background(reader)], wait_for_jobs=True)


async def live(folder: Path, number: int, is_durable: bool) -> dict[str, Any]:
    """Drive the run and its jobs, and report the outcome."""
    store = KillingStore(await SqliteStore.open(folder / "f.db"), number, is_durable=is_durable)
    agent = lead(folder / "ledger")
    async with runtime_on(store, [agent]) as runtime:
        handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
        result = await handle.wait(timeout=WAIT_S)
        below = await runtime.sessions.descendants("s1")
        ends = {"r1": ends_of(await records_of(store))}
        for child in below:
            ends[child.run_id or ""] = ends_of(await records_of(store, child.session_id), child.run_id or "")
        records = await records_of(store)
    brought = [record.data.get("job") for record in records if record.data.get("delivery") == "job"]
    return {
        "status": result.status.value,
        "ends": ends,
        "brought": brought,
        "types": [record.type for record in records],
    }


def killed_and_resumed(folder: Path, point: tuple[int, bool]) -> dict[str, Any]:
    """One life that is killed, and another that is not."""
    home = folder / f"{point[0]}-{point[1]}"
    home.mkdir()
    first = run_story(lambda: live(home, *point), home / "first")
    second = run_story(lambda: live(home, 0, is_durable=True), home / "second")
    lines = (home / "ledger").read_text().splitlines()
    return {"killed": first.is_killed, "fine": second.is_fine, "told": second.report, "lines": lines}


def test_jobs_survive_a_kill_at_every_append(tmp_path: Path) -> None:
    lives = in_lanes(lambda point: killed_and_resumed(tmp_path, point), POINTS, tmp_path)
    assert sum(life["killed"] for life in lives) >= some(20), "there is something to kill"
    for point, life in zip(POINTS, lives, strict=True):
        assert life["fine"], (point, life)
        told = life["told"]
        assert told["status"] == "completed", point
        assert len(told["ends"]) == JOBS + 1, point
        assert all(ends == ["run.completed"] for ends in told["ends"].values()), (point, told["ends"])
        assert told["types"].count("subagent.called") == JOBS, point
        assert told["types"].count("subagent.completed") == JOBS, point
        assert sorted(told["brought"]) == [f"job_{number + 1}" for number in range(JOBS)], point
        # Each of three puts is made once, and once more if the kill interrupted it.
        made: Counter[str] = Counter(life["lines"])
        assert sorted(made) == ["a", "b", "c"], (point, made)
        assert max(made.values()) <= 2, (point, made)
