"""`fan_out`: many tasks as one durable job."""

import asyncio
from pathlib import Path

import pytest
from tests.runtime.runtime_rig import play

from windlass import Agent, AgentRuntime, tool
from windlass.errors import Conflict, Rejected
from windlass.testing import ScriptedModel, by_history, call, say


def worker(*script: str) -> Agent:
    return Agent("worker", model=ScriptedModel(by_history([say(text) for text in script or ("done",)])))


def test_a_job_is_continued_and_repeats_nothing(tmp_path: Path) -> None:
    begun: list[str] = []

    @tool(mode="safe_write", effect="idempotent")
    async def note(text: str) -> str:
        """Note a text."""
        begun.append(text)
        return text

    def noting() -> Agent:
        return Agent(
            "worker",
            model=ScriptedModel(by_history([call("note", {"text": "x"}), say("done")])),
            tools=[note],
        )

    async def job(names: str) -> list[str | None]:
        agent = noting()
        async with AgentRuntime.open(tmp_path / "app.db", agents=[agent]) as runtime:
            results = await runtime.fan_out({name: (agent, f"do {name}") for name in names}, job_id="j")
            assert [*results] == [*names]
            return [result.output for result in results.values()]

    assert play(job("ab")) == ["done"] * 2
    assert play(job("abc")) == ["done"] * 3
    assert len(begun) == 3, "the tasks of the first call are not run again"


def test_no_more_tasks_run_at_once_than_asked() -> None:
    under_way = most = 0

    @tool(mode="read")
    async def work() -> str:
        """Work."""
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return "worked"

    async def story() -> None:
        agent = Agent("worker", model=ScriptedModel(by_history([call("work"), say("done")])), tools=[work])
        async with AgentRuntime.in_memory([agent]) as runtime:
            await runtime.fan_out({f"{at}": (agent, "go") for at in range(6)}, job_id="j", at_once=2)

    play(story())
    assert most <= 2


def test_bad_tasks_are_refused_before_anything_starts() -> None:
    async def story() -> None:
        agent = worker()
        async with AgentRuntime.in_memory([agent]) as runtime:
            with pytest.raises(Rejected, match="run_id cannot be set"):
                await runtime.fan_out({"a": (agent, "go")}, job_id="j", run_id="r")
            with pytest.raises(Rejected, match="at_once"):
                await runtime.fan_out({"a": (agent, "go")}, job_id="j", at_once=0)
            with pytest.raises(Rejected):
                await runtime.fan_out({"a": (agent, "go"), "b": ("unknown", "go")}, job_id="j")
            assert (await runtime.sessions.runs()).items == ()
            await runtime.fan_out({"a": (agent, "go")}, job_id="j")
            with pytest.raises(Conflict):
                await runtime.fan_out({"a": (agent, "another")}, job_id="j")
            assert await runtime.fan_out({}, job_id="empty") == {}

    play(story())
