"""A process is killed at every append of a run with subagents."""

from pathlib import Path
from typing import Any, Final

from tests.depth import some, some_of
from tests.faults.forks import in_lanes, run_story
from tests.faults.rig import runtime_on
from tests.faults.scene import KillingStore, ends_of, records_of

from windlass import Agent, tool
from windlass.sqlite.store import SqliteStore
from windlass.testing import Answer, ScriptedModel, by_history, call, say

WAIT_S: Final = 300.0
APPENDS: Final = 14
"""Of the whole family; more than there are, so that the last lives are whole."""
POINTS: Final = some_of(
    [(number, is_durable) for number in range(1, APPENDS + 1) for is_durable in (False, True)]
)


def family(ledger: Path) -> Agent:
    """Three levels: the lowest writes into a ledger outside."""

    @tool(mode="safe_write", effect="idempotent")
    async def put(item: str) -> str:
        """Put a thing down."""
        with ledger.open("a") as file:
            file.write(f"{item}\n")
        return "done"

    def model(*answers: Answer) -> ScriptedModel:
        return ScriptedModel(by_history(answers))

    low = Agent("low", model=model(call("put", {"item": "a"}), say("low is done")), tools=[put])
    mid = Agent("mid", model=model(call("low", {"message": "put"}), say("mid is done")), subagents=[low])
    both = call("mid", {"message": "go"}) + call("low", {"message": "put"})
    return Agent("top", model=model(both, say("top is done")), subagents=[mid, low])


async def live(folder: Path, number: int, is_durable: bool) -> dict[str, Any]:
    """Drive the runs of the family, and report the outcome."""
    store = KillingStore(await SqliteStore.open(folder / "f.db"), number, is_durable=is_durable)
    top = family(folder / "ledger")
    async with runtime_on(store, [top]) as runtime:
        handle = await runtime.start_run(top, "go", session_id="s1", run_id="r1")
        result = await handle.wait(timeout=WAIT_S)
        below = await runtime.sessions.descendants("s1")
        ends = {"r1": ends_of(await records_of(store))}
        for child in below:
            ends[child.run_id or ""] = ends_of(await records_of(store, child.session_id), child.run_id or "")
        records = await records_of(store)
    return {"output": result.output, "ends": ends, "types": [record.type for record in records]}


def killed_and_resumed(folder: Path, point: tuple[int, bool]) -> dict[str, Any]:
    """One life that is killed, and another that is not."""
    home = folder / f"{point[0]}-{point[1]}"
    home.mkdir()
    first = run_story(lambda: live(home, *point), home / "first")
    second = run_story(lambda: live(home, 0, is_durable=True), home / "second")
    lines = (home / "ledger").read_text().splitlines()
    return {"killed": first.is_killed, "fine": second.is_fine, "told": second.report, "lines": len(lines)}


def test_a_family_of_runs_survives_a_kill_at_every_append(tmp_path: Path) -> None:
    lives = in_lanes(lambda point: killed_and_resumed(tmp_path, point), POINTS, tmp_path)
    assert sum(life["killed"] for life in lives) >= some(20), "there is something to kill"
    for point, life in zip(POINTS, lives, strict=True):
        assert life["fine"], (point, life)
        told = life["told"]
        assert told["output"] == "top is done", point
        assert len(told["ends"]) == 4, point
        assert all(ends == ["run.completed"] for ends in told["ends"].values()), (point, told["ends"])
        assert told["types"].count("subagent.called") == 2, point
        assert told["types"].count("subagent.completed") == 2, point
        assert "recovery.effect_found" not in told["types"], "nothing of a subagent has to be recovered"
        # Each of two puts is made once, and once more if the kill interrupted it.
        assert 2 <= life["lines"] <= 3, (point, life["lines"])
