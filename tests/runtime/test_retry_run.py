"""`retry_run`: a run that continues a failed one, in the same session."""

from asyncio import gather
from dataclasses import replace
from pathlib import Path

import pytest
from tests.runtime.runtime_rig import play

from windlass import Agent, AgentRuntime, Budget, Conflict, LLMUsage, RunHandle, ToolContext, tool
from windlass.parts import ModelPrice
from windlass.testing import ScriptedModel, call, fail, say
from windlass_protocol import RunStatus, SourceKind, SourceRef

BROKEN = ValueError("the provider has a bug")


class Desk:
    """An agent that books, fails once, and says so."""

    def __init__(self, *script: object) -> None:
        self.booked: list[str] = []

        @tool(mode="safe_write", effect="once")
        async def book(ctx: ToolContext) -> str:
            """Book a room."""
            self.booked.append(ctx.idempotency_key)
            return "booked"

        self.model = ScriptedModel(list(script) or [call("book"), fail(BROKEN), say("It is booked.")])  # pyright: ignore[reportArgumentType]
        self.agent = Agent("desk", model=self.model, tools=[book])


def test_a_failed_run_is_continued_and_its_finished_calls_are_not_repeated() -> None:
    async def story() -> None:
        desk = Desk()
        async with AgentRuntime.in_memory([desk.agent]) as runtime:
            source = SourceRef(kind=SourceKind.USER, id="ann")
            failed = await runtime.start_run(
                desk.agent, "Book.", session_id="s1", run_id="r1", source=source, owner="ann"
            )
            assert (await failed.wait()).status is RunStatus.FAILED
            again = await failed.retry()
            assert again.run_id == "retry:r1"
            result = await again.wait()
            assert (result.status, result.output, result.session_id) == (
                RunStatus.COMPLETED,
                "It is booked.",
                "s1",
            )
            assert len(desk.booked) == 1
            roles = [message.role for message in desk.model.requests[-1].messages]
            assert roles == ["user", "assistant", "tool"], "the history of the failed run, and no more"
            assert (await failed.retry()).run_id == again.run_id, "a second retry is the same run"
            assert (await runtime.run_snapshot("retry:r1")).source == source
            started = [event async for event in again.events() if event.type == "run.started"]
            assert (started[0].data or {})["retryOf"] == "r1"
            assert (await failed.wait()).status is RunStatus.FAILED, "its end stays"

    play(story())


def test_a_run_that_continues_a_failed_one_can_be_continued_itself() -> None:
    async def story() -> None:
        desk = Desk(fail(BROKEN), fail(BROKEN), say("done"))
        async with AgentRuntime.in_memory([desk.agent]) as runtime:
            handle = await runtime.start_run(desk.agent, "Book.", run_id="r1")
            await handle.wait()
            second = await handle.retry()
            assert (await second.wait()).status is RunStatus.FAILED
            assert (await (await second.retry()).wait()).output == "done"

    play(story())


def test_a_retry_of_a_run_that_used_up_its_budget_needs_a_larger_one() -> None:
    async def story() -> None:
        desk = Desk(call("book"), call("book"), say("done"))
        agent = replace(desk.agent, budget=Budget(max_steps=1, max_tokens=10_000))
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "Book.", run_id="r1")
            assert (await handle.wait()).status is RunStatus.BUDGET_EXHAUSTED
            for budget in (None, Budget(max_steps=1)):
                with pytest.raises(Conflict, match=r"nothing is left of its budget \(maxSteps\); .*larger"):
                    await handle.retry(budget=budget)
            assert len(desk.booked) == 1
            again = await handle.retry(budget=Budget(max_steps=3))
            assert (await again.wait()).output == "done"
            assert len(desk.booked) == 2
            [started] = [event async for event in again.events() if event.type == "run.started"]
            assert (started.data or {})["budget"] == {"maxSteps": 2}, "one of three steps was used"

    play(story())


def test_a_retry_without_the_money_for_an_answer_is_refused_before_it_starts() -> None:
    async def story() -> None:
        usage = LLMUsage(10, 5)
        desk = Desk(call("book") + say("", usage=usage), say("done", usage=usage))
        agent = replace(
            desk.agent, budget=Budget(max_cost_micros=400_000), prices={"*": ModelPrice(1, 1_000)}
        )
        async with AgentRuntime.in_memory([agent]) as runtime:
            limits = Budget(max_cost_micros=257_000)
            handle = await runtime.start_run(agent, "Book.", run_id="r1", budget=limits)
            assert (await handle.wait()).status is RunStatus.BUDGET_EXHAUSTED
            for budget in (None, Budget(max_cost_micros=257_001)):
                with pytest.raises(
                    Conflict, match=r"left of its budget \(maxCostMicros\).* may cost .*-cost-"
                ):
                    await handle.retry(budget=budget)
            assert len((await runtime.sessions.runs()).items) == 1
            again = await handle.retry(budget=Budget(max_cost_micros=600_000))
            assert (await again.wait()).output == "done"

    play(story())


def test_a_second_retry_with_another_budget_is_refused_and_says_what_is_there() -> None:
    async def story() -> None:
        desk = Desk(call("book"), fail(BROKEN), say("done"))
        async with AgentRuntime.in_memory([desk.agent]) as runtime:
            handle = await runtime.start_run(desk.agent, "Book.", run_id="r1", budget=Budget(max_steps=9))
            assert (await handle.wait()).status is RunStatus.FAILED
            again = await handle.retry(budget=Budget(max_steps=5))
            for _ in ("while it is queued or runs", "after its end"):
                assert (await handle.retry(budget=Budget(max_steps=5))).run_id == again.run_id
                assert (await handle.retry()).run_id == again.run_id, "it asks for no limits"
                words = "run retry:r1 continues it already, .* has maxSteps 3; .* would have maxSteps 38"
                with pytest.raises(Conflict, match=words):
                    await handle.retry(budget=Budget(max_steps=40))
                with pytest.raises(Conflict, match="would have no limits"):
                    await handle.retry(budget=Budget())
                assert (await again.wait()).output == "done"

    play(story())


def test_of_two_retries_at_once_with_other_budgets_one_is_refused() -> None:
    async def story() -> None:
        desk = Desk(fail(BROKEN), say("done"))
        async with AgentRuntime.in_memory([desk.agent]) as runtime:
            handle = await runtime.start_run(desk.agent, "Book.", run_id="r1")
            await handle.wait()
            budgets = (Budget(max_steps=5), Budget(max_steps=5), Budget(max_steps=6), None)
            told = await gather(*(handle.retry(budget=one) for one in budgets), return_exceptions=True)
            assert [type(one) for one in told] == [RunHandle, RunHandle, Conflict, RunHandle]
            assert "continues it already" in str(told[2])

    play(story())


def test_a_run_that_somebody_named_like_a_retry_is_not_taken_for_it() -> None:
    async def story() -> None:
        desk = Desk(say("mine"), fail(BROKEN))
        async with AgentRuntime.in_memory([desk.agent]) as runtime:
            await (await runtime.start_run(desk.agent, "Other.", session_id="s2", run_id="retry:r1")).wait()
            failed = await runtime.start_run(desk.agent, "Book.", session_id="s1", run_id="r1")
            await failed.wait()
            with pytest.raises(Conflict, match="another request: it does not continue the run"):
                await failed.retry()

    play(story())


def test_retries_share_one_budget() -> None:
    async def story() -> None:
        desk = Desk(call("book"), fail(BROKEN), call("book"), fail(BROKEN), say("never"))
        async with AgentRuntime.in_memory([desk.agent]) as runtime:
            limits = Budget(max_steps=4, max_tool_calls=9)
            first = await runtime.start_run(desk.agent, "Book.", run_id="r1", budget=limits)
            assert (await first.wait()).status is RunStatus.FAILED
            second = await first.retry()
            assert (await second.wait()).status is RunStatus.FAILED
            [started] = [event async for event in second.events() if event.type == "run.started"]
            assert (started.data or {})["budget"] == {"maxSteps": 2, "maxToolCalls": 8}
            with pytest.raises(Conflict, match="nothing is left of its budget"):
                await second.retry()

    play(story())


def test_a_retry_uses_the_agent_as_it_is_now(tmp_path: Path) -> None:
    async def story() -> None:
        desk = Desk(fail(BROKEN), say("done"))
        path = tmp_path / "app.db"
        async with AgentRuntime.open(path, agents=[desk.agent]) as runtime:
            handle = await runtime.start_run(desk.agent, "Book.", run_id="r1")
            assert (await handle.wait()).status is RunStatus.FAILED
        changed = replace(desk.agent, instructions="Be brief.")
        async with AgentRuntime.open(path, agents=[changed]) as runtime:
            assert (await (await runtime.handle("r1").retry()).wait()).output == "done"
        assert "Be brief." in str(desk.model.requests[-1].messages[0].content)

    play(story())


def test_only_the_failed_newest_run_of_a_session_is_continued() -> None:
    async def story() -> None:
        desk = Desk(say("fine"), fail(BROKEN), say("later"))
        async with AgentRuntime.in_memory([desk.agent]) as runtime:
            fine = await runtime.start_run(desk.agent, "One.", session_id="s1", run_id="r1")
            await fine.wait()
            with pytest.raises(Conflict, match="it is completed; only a failed run"):
                await fine.retry()
            failed = await runtime.start_run(desk.agent, "Two.", session_id="s1", run_id="r2")
            await failed.wait()
            await (await runtime.start_run(desk.agent, "Three.", session_id="s1", run_id="r3")).wait()
            with pytest.raises(Conflict, match="its session has gone on"):
                await failed.retry()
            with pytest.raises(Conflict, match="unknown run"):
                await runtime.handle("r9").retry()

    play(story())


def test_the_run_of_a_subagent_is_not_continued_by_itself() -> None:
    async def story() -> None:
        child = Agent("child", model=ScriptedModel([fail(BROKEN)]))
        root = Agent(
            "root", model=ScriptedModel([call("child", {"message": "go"}), say("ok")]), subagents=[child]
        )
        async with AgentRuntime.in_memory([root]) as runtime:
            await (await runtime.start_run(root, "go", run_id="r1")).wait()
            (row,) = [one for one in (await runtime.sessions.runs()).items if one.run_id != "r1"]
            with pytest.raises(Conflict, match="retry the run that called it"):
                await runtime.handle(row.run_id).retry()

    play(story())
