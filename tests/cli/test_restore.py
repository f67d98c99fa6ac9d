"""`windlass restore`: what was under way in a restored store is held until a person releases it."""

import asyncio
from pathlib import Path

import pytest
from tests.cli.commands import run_here

from windlass import Agent, AgentRuntime, tool
from windlass.testing import ScriptedModel, call, say


@tool(mode="external", effect="once")
async def pay() -> str:
    """Pay."""
    return "paid"


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store in which two runs wait for a person."""
    path = tmp_path / "till.db"

    async def fill() -> None:
        agent = Agent("till", model=ScriptedModel([call("pay"), call("pay"), say("done")]), tools=[pay])
        async with AgentRuntime.open(path, agents=[agent]) as runtime:
            for name in ("a", "b"):
                run = await runtime.start_run(agent, "Pay.", session_id=name)
                async for _ in run.requests():
                    break

    asyncio.run(fill())
    return str(path)


def test_sessions_are_held_listed_and_released(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    restore = ("--store", store, "restore")
    assert "No session is held" in run_here(capsys, *restore).err
    assert "2 sessions are held" in run_here(capsys, *restore, "--quarantine").err
    assert run_here(capsys, *restore).out.split() == ["a", "b"]
    assert "1 session is released" in run_here(capsys, *restore, "--release", "a").err
    assert run_here(capsys, *restore).out.split() == ["b"]
    assert "1 session is released" in run_here(capsys, *restore, "--release").err
    assert run_here(capsys, *restore).out == ""


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--quarantine", "--release"), "--quarantine holds all sessions"),
        (("--quarantine", "a"), "--quarantine holds all sessions"),
        (("a",), "sessions are named to release them"),
        (("--release", "nothing"), "not held: nothing"),
    ],
)
def test_what_cannot_be_meant_changes_nothing(
    store: str, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], problem: str
) -> None:
    done = run_here(capsys, "--store", store, "restore", *words)
    assert done.code == 2
    assert problem in done.err
    assert run_here(capsys, "--store", store, "restore").out == ""
