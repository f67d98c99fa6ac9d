"""Feedback of people: records of the session, filters of lists."""

import asyncio
from pathlib import Path

import pytest
from tests.runtime.catalog.rig import GUARD_S, PAYS, agent, opened, play, until

from windlass import AgentRuntime, Conflict, Rejected
from windlass.catalog import Feedback


async def given(runtime: AgentRuntime, run_id: str, count: int) -> tuple[Feedback, ...]:
    """Wait until there is so much feedback."""
    async with asyncio.timeout(GUARD_S):
        async for _ in runtime.subscribe_all():
            found = await runtime.sessions.feedback(run_id)
            if len(found) >= count:
                return found
    raise AssertionError("the feed does not end")


def test_feedback_on_an_ended_run_is_a_record_and_lists_filter_by_it(tmp_path: Path) -> None:
    async def story(runtime: AgentRuntime) -> None:
        done = await runtime.start_run("clerk", "Look", session_id="s1", run_id="r1")
        await done.wait()
        await (await runtime.start_run("clerk", "Look", session_id="s2", run_id="r2")).wait()
        await runtime.handle("r1").feedback(
            thumb="down", note="The amount is wrong.", tags=["wrong"], by="ann"
        )
        await given(runtime, "r1", 1)
        await runtime.handle("r1").feedback(score=0.5, step_index=0)
        first, second = await given(runtime, "r1", 2)
        assert (first.thumb, first.note, first.tags, first.by) == (
            "down",
            "The amount is wrong.",
            ("wrong",),
            "ann",
        )
        assert (second.thumb, second.score, second.step_index) == (None, 0.5, 0)
        assert await runtime.sessions.feedback("r2") == ()
        for wanted in ({"feedback": "down"}, {"tag": "wrong"}):
            page = await runtime.sessions.runs(**wanted)  # pyright: ignore[reportArgumentType] - filters by name
            assert [run.run_id for run in page.items] == ["r1"]
        [run] = (await runtime.sessions.runs(feedback="none")).items
        assert run.run_id == "r2"
        assert (await done.wait()).output == "done", "the result of the run stays"

    play(story, tmp_path / "a.db", agent())

    async def again() -> None:
        async with opened(tmp_path / "a.db", agent()) as runtime:
            assert len(await runtime.sessions.feedback("r1")) == 2

    asyncio.run(again())


def test_feedback_while_the_run_waits_changes_nothing_of_it(tmp_path: Path) -> None:
    async def story(runtime: AgentRuntime) -> None:
        handle = await runtime.start_run("clerk", "Pay", session_id="s1", run_id="r1")
        await until(handle, "run.waiting")
        await runtime.handle("r1").feedback(thumb="up")
        await given(runtime, "r1", 1)
        [request] = await handle.open_requests()
        await handle.answer(request.request_id, "approve")
        assert (await handle.wait()).output == "Paid."
        [run] = (await runtime.sessions.runs(feedback="up")).items
        assert run.status == "completed"

    play(story, tmp_path / "a.db", agent(*PAYS))


def test_feedback_that_says_nothing_or_too_much_is_refused_and_secrets_are_masked(tmp_path: Path) -> None:
    async def story(runtime: AgentRuntime) -> None:
        await (await runtime.start_run("clerk", "Look", run_id="r1")).wait()
        with pytest.raises(Rejected, match="needs a thumb, a score, a note or tags"):
            await runtime.handle("r1").feedback()
        for wrong in ({"score": 2}, {"thumb": "good"}, {"tags": ["x" * 65]}, {"tags": "x"}, {"note": ""}):
            with pytest.raises(Rejected):
                await runtime.handle("r1").feedback(**wrong)  # pyright: ignore[reportArgumentType] - wrong on purpose
        with pytest.raises(Conflict, match="unknown run"):
            await runtime.handle("r9").feedback(thumb="up")
        with pytest.raises(Conflict, match="unknown run"):
            await runtime.sessions.feedback("r9")
        secret = "sk-ant-api03-" + "a1B2c3D4" * 6
        await runtime.handle("r1").feedback(note=f"Its key is {secret}")
        [one] = await given(runtime, "r1", 1)
        assert one.note is not None
        assert secret not in one.note

    play(story, None, agent())
