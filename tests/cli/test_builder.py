"""`builder`: reports of the ledger, and proposals that people settle."""

import asyncio
import json
from pathlib import Path
from typing import cast

import pytest
from tests.cli.commands import run_here

from windlass import Agent, AgentRuntime, tool
from windlass.ledger import Builder, Goal
from windlass.loading import load, load_agents
from windlass.testing import ScriptedModel, by_history, call, say
from windlass_cli.commands.builder import sparkline

AGENT = """
import json
from windlass import Agent
from windlass.ledger import Contains, Goal
from windlass.testing import ScriptedModel, say

def answers(messages):
    return say("9900 crowns" if "crowns" in messages[0].content else "9900")

agent = Agent("clerk", model=ScriptedModel(answers), instructions="Tell prices.")
goals = [Goal("prices", "People learn prices in crowns.", criteria=[Contains("crowns")])]
"""
Row = dict[str, object]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDLASS_DURABILITY", "process")
    monkeypatch.setenv("WINDLASS_AGENTS", "shop.py:agent")
    monkeypatch.setenv("WINDLASS_STORE", "shop.db")
    monkeypatch.setenv("WINDLASS_USER", "ann")
    (tmp_path / "shop.py").write_text(AGENT, encoding="utf-8")


@pytest.fixture
def proposal_id(tmp_path: Path) -> str:
    """Runs that miss their goal, and a proposal that would mend it."""
    [agent] = load_agents("shop.py:agent", tmp_path)

    goals = load("shop.py:goals", Goal, folder=tmp_path)
    change = {"part": "instructions", "text": "Tell prices in crowns."}
    draft = {"changes": [change], "rationale": "Nobody says crowns.", "evidence": ["run-0"]}
    thinker = ScriptedModel(by_history([call("read_run", {"run_id": "run-0"}), say(json.dumps(draft))]))

    async def story() -> str:
        runtime = await AgentRuntime.open("shop.db", agents=[agent], durability="process")
        async with runtime, Builder(thinker, runtime=runtime, goals=goals) as builder:
            for number in range(3):
                handle = await runtime.start_run(agent, "How much?", run_id=f"run-{number}", goal_id="prices")
                await handle.wait()
            await builder.evaluate("prices")
            return (await builder.propose("prices", proposal_id="proposal-1")).id

    return asyncio.run(story())


def data(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[Row]:
    ran = run_here(capsys, "builder", *arguments, "--json")
    assert ran.code in {0, 1}, ran.err
    return [cast(Row, json.loads(line)) for line in ran.out.splitlines()]


def test_reports_of_a_goal_and_of_a_run(proposal_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = run_here(capsys, "builder", "report", "prices")
    assert told.code == 0, told.err
    assert "Goal prices: 3 runs ended" in told.out
    assert "success   ▁▁▁  0% (0% to 56%)" in told.out
    assert [line.split()[:2] for line in told.out.splitlines() if line.startswith("goal_missed")] == [
        ["goal_missed", "3"]
    ]
    assert "goal_missed" in run_here(capsys, "builder", "failures", "prices").out
    assert data(capsys, "failures", "prices")[0]["failed"] == 3
    assert data(capsys, "report", "prices")[0]["runs"] == 3
    assert "run-0" in run_here(capsys, "builder", "run", "run-0").out


def test_two_versions_are_compared_in_a_table(
    proposal_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    better = AGENT.replace("Tell prices.", "Tell prices in crowns.")
    (tmp_path / "better.py").write_text(better, encoding="utf-8")
    [agent] = load_agents("better.py:agent", tmp_path)
    goals = load("better.py:goals", Goal, folder=tmp_path)

    async def story() -> None:
        async with AgentRuntime.open("shop.db", agents=[agent], durability="process") as runtime:
            for number in range(3):
                await (
                    await runtime.start_run(agent, "How much?", run_id=f"new-{number}", goal_id="prices")
                ).wait()
            async with Builder(None, runtime=runtime, goals=goals) as builder:
                await builder.evaluate("prices")

    asyncio.run(story())
    compared = run_here(capsys, "builder", "compare", "prices")
    assert compared.code == 0, compared.err
    rows = {line.split()[0]: line for line in compared.out.splitlines()}
    assert "+100% (" in rows["success"]
    assert "100% (44% to 100%)" in rows["success"]
    assert rows["cost"].split()[1:] == ["–", "–", "–"]
    assert compared.out.endswith(
        "It is unclear whether the new version is better: 3 and 3 runs, at least 5 of each are needed.\n"
    )


def test_a_sparkline_goes_from_its_lowest_to_its_highest() -> None:
    assert sparkline([]) == ""
    assert sparkline([5, 5]) == "▁▁"
    assert sparkline([0, 0.5, 1], low=0, high=1) == "▁▅█"
    assert sparkline([-5, 50], low=0, high=10) == "▁█"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("report", "nothing"), "no runs with the goal nothing"),
        (("failures", "nothing"), "goal_id"),
        (("compare", "prices"), "a comparison needs runs of two versions"),
        (("compare", "prices", "one"), "Name both"),
        (("run", "nobody"), "windlass runs list"),
        (("proposals", "show", "nobody"), "windlass builder proposals list"),
        (("proposals", "approve", "nobody"), "unknown proposal: nobody"),
        (("proposals", "check", "proposal-1", "--goals", "shop.py:nothing"), "has no nothing: it has goals"),
    ],
)
def test_unknown_goals_runs_and_proposals_are_reported_with_a_hint(
    proposal_id: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str
) -> None:
    ran = run_here(capsys, "builder", *arguments)
    assert ran.code == 2
    assert told in ran.err


def test_a_proposal_is_listed_shown_checked_approved_and_refused(
    proposal_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = run_here(capsys, "builder", "proposals", "list")
    assert proposal_id in listed.out
    assert "open" in listed.out
    assert data(capsys, "proposals", "list", "--goal", "others") == []
    assert "Nobody says crowns." in run_here(capsys, "builder", "proposals", "show", proposal_id).out
    unnamed = run_here(capsys, "builder", "proposals", "check", proposal_id)
    assert unnamed.code == 2
    assert "Name them: --goals app.py:goals" in unnamed.err
    checked = run_here(capsys, "builder", "proposals", "check", proposal_id, "--goals", "shop.py:goals")
    assert checked.code == 0, checked.err
    [state] = [cast(Row, one["state"]) for one in data(capsys, "proposals", "show", proposal_id)]
    assert cast(Row, state["check"])["fixed"] == 3
    assert "accepted, by ann" in run_here(capsys, "builder", "proposals", "approve", proposal_id).err
    refused = run_here(capsys, "builder", "proposals", "refuse", proposal_id, "--reason", "too dear")
    assert "refused, by ann" in refused.err
    [row] = data(capsys, "proposals", "list")
    assert row["status"] == "refused"
    assert cast(Row, row["settled"])["reason"] == "too dear"


STUCK = """
from windlass import tool
from windlass.testing import call

@tool(mode="read", name="wait")
async def wait() -> str:
    open("driven", "w").close()
    return "over"

stuck = Agent("stuck", model=ScriptedModel(lambda _: call("wait")), tools=[wait])
agents = [agent, stuck]
"""


def test_a_check_does_not_drive_unfinished_runs(
    proposal_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "more.py").write_text(f"{AGENT}{STUCK}", encoding="utf-8")
    monkeypatch.setenv("WINDLASS_AGENTS", "more.py:agents")

    async def leave() -> None:
        begun = asyncio.Event()

        @tool(mode="read", name="wait")
        async def wait() -> str:
            begun.set()
            await asyncio.Event().wait()
            return "never"

        stuck = Agent("stuck", model=ScriptedModel(lambda _: call("wait")), tools=[wait])
        async with AgentRuntime.open("shop.db", agents=[stuck], durability="process") as runtime:
            await runtime.start_run(stuck, "Wait.", run_id="left")
            await begun.wait()

    def stored() -> str:
        return run_here(capsys, "runs", "tail", "left", "--no-follow", "--json").out

    asyncio.run(leave())
    before = stored()
    checked = run_here(capsys, "builder", "proposals", "check", proposal_id, "--goals", "more.py:goals")
    assert checked.code == 0, checked.err
    assert not (tmp_path / "driven").exists()
    assert stored() == before
