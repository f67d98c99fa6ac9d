"""`retry_run`: a run that continues a failed one, in the same session."""

from asyncio import gather
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import BaseModel, field_validator
from tests.runtime.runtime_rig import play

from windlass import (
    Agent,
    AgentRuntime,
    Budget,
    Conflict,
    Denied,
    LLMUsage,
    Rejected,
    RunHandle,
    ToolContext,
    tool,
)
from windlass.parts import ModelPrice, SpendLimit
from windlass.runtime.options import RunOptions
from windlass.testing import ScriptedModel, call, fail, say
from windlass_protocol import JsonObject, RunStatus, SessionCapabilities, SourceKind, SourceRef

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


class Trip(BaseModel):
    """What a start wants, in place of the output of its agent."""

    city: str
    days: int

    @field_validator("days")
    @classmethod
    def is_short(cls, days: int) -> int:
        if days > 30:
            raise ValueError("a trip has at most 30 days")
        return days


class Price(BaseModel):
    cents: int


@dataclass(frozen=True)
class Notes:
    """Dependencies without a factory."""

    name: str


OPTIONS: Final[RunOptions] = {
    "session_id": "s1",
    "run_id": "r1",
    "turn_id": "first-turn",
    "mode": "task",
    "capabilities": SessionCapabilities(request_input=False),
    "budget": Budget(max_steps=9, max_cost_micros=900_000_000),
    "batch": "off",
    "output": Trip,
    "context": ["It is Friday."],
    "metadata": {"ticket": "7"},
    "source": SourceRef(kind=SourceKind.USER, id="ann"),
    "owner": "ann",
    "goal_id": "travel",
    "goal_description": "A trip is booked.",
}
KEPT: Final = {
    "mode": "mode",
    "capabilities": "capabilities",
    "batch": "batch",
    "metadata": "metadata",
    "source": "source",
    "owner": "owner",
    "goal_id": "goalId",
    "goal_description": "goalDescription",
    "output": "hasOwnOutput",
}
"""Options that a run which continues another one has too, by their fields of `run.started`."""
CHANGED: Final = ("session_id", "run_id", "turn_id", "budget", "context")
"""It has the session and an id of its own, a turn of its own, what is left of the budget, and the history."""


def test_every_option_of_a_start_is_kept_or_changed_on_purpose_by_a_retry() -> None:
    assert {*KEPT, *CHANGED} == {*OPTIONS} == {*RunOptions.__annotations__}

    @tool(mode="read")
    async def name(ctx: ToolContext[Notes]) -> str:
        """Return the name."""
        return ctx.deps.name

    usage = LLMUsage(10, 5)
    answers = [
        call("name") + say("", usage=usage),
        fail(BROKEN),
        call("name"),
        say('{"city": "Oslo", "days": 99}'),
        say('{"city": "Oslo", "days": 3}'),
    ]
    model = ScriptedModel([replace(answer, usage=answer.usage or usage) for answer in answers])
    agent = Agent(
        "desk",
        model=model,
        tools=[name],
        output=Price,
        deps=Notes,
        batch="within 24h",
        prices={"*": ModelPrice(1, 1)},
    )

    async def story() -> None:
        async with AgentRuntime.in_memory([agent]) as runtime:
            failed = await runtime.start_run(agent, "Book.", deps=Notes("first"), **OPTIONS)
            assert (await failed.wait()).status is RunStatus.FAILED
            with pytest.raises(Rejected, match="agent desk needs dependencies"):
                await failed.retry()
            again = await failed.retry(deps=Notes("second"))
            result = await again.wait()
            assert result.output == Trip(city="Oslo", days=3), "the type of the start checks it, too"
            facts = {handle.run_id: await started(handle) for handle in (failed, again)}
            first, second = facts["r1"], facts["retry:r1"]
            for option, field in KEPT.items():
                assert first["run.started"][field] == second["run.started"][field], option
            assert first["output.requested"]["contract"] == second["output.requested"]["contract"]
            assert await again.session_id() == "s1"
            assert first["turn.started"]["turnId"] == "first-turn" != second["turn.started"]["turnId"]
            # Each of the two calls is a step; what was set aside for the one that failed counts as spent.
            budget = second["run.started"]["budget"]
            assert isinstance(budget, dict)
            assert budget["maxSteps"] == 7
            assert isinstance(budget["maxCostMicros"], int)
            assert budget["maxCostMicros"] < 900_000_000 - 15
            prompt = [str(message.content) for message in model.requests[-1].messages]
            assert sum("It is Friday." in text for text in prompt) == 1
            assert [text for text in prompt if text in ("first", "second")] == ["first", "second"]
            assert model.batches == []

    play(story())


async def started(handle: RunHandle[Any]) -> dict[str, JsonObject]:
    """Return the data of the first records of a run, by their types."""
    data: dict[str, JsonObject] = {}
    async for event in handle.events():
        data.setdefault(event.type, event.data or {})
    return data


@pytest.mark.parametrize("own", [None, Price], ids=["text", "typed"])
def test_a_run_of_another_process_keeps_its_output_contract(tmp_path: Path, own: type[Price] | None) -> None:
    async def story() -> None:
        answers = [fail(BROKEN), say("It is Oslo."), say('{"city": "Oslo", "days": 3}')]
        agent = Agent("desk", model=ScriptedModel(answers), output=own)
        async with AgentRuntime.open(tmp_path / "app.db", agents=[agent]) as runtime:
            failed = await runtime.start_run(agent, "Book.", run_id="r1", output=Trip)
            assert (await failed.wait()).status is RunStatus.FAILED
        async with AgentRuntime.open(tmp_path / "app.db", agents=[agent]) as runtime:
            again = await runtime.handle("r1").retry()
            assert (await again.wait()).structured_output == {"city": "Oslo", "days": 3}

    play(story())


def test_a_retry_has_the_output_of_its_agent_as_it_is_now(tmp_path: Path) -> None:
    async def story() -> None:
        model = ScriptedModel([fail(BROKEN), say('{"city": "Oslo", "days": 3}')])
        agent = Agent("desk", model=model, output=Price)
        async with AgentRuntime.open(tmp_path / "app.db", agents=[agent]) as runtime:
            await (await runtime.start_run(agent, "Book.", run_id="r1")).wait()
        async with AgentRuntime.open(tmp_path / "app.db", agents=[replace(agent, output=Trip)]) as runtime:
            again = await runtime.handle("r1").retry()
            assert (await again.wait()).structured_output == {"city": "Oslo", "days": 3}

    play(story())


def test_a_retry_has_the_prices_of_today_and_counts_for_limits() -> None:
    async def story() -> None:
        usage = LLMUsage(0, 1_000)
        answers = [replace(call("book"), usage=usage), fail(BROKEN), say("It is booked.", usage=usage)]
        desk = Desk(*answers)
        agent = replace(desk.agent, prices={"*": ModelPrice(0, 1)})
        limit = SpendLimit("people", "month", max_cost_micros=1_000_000, owner="*")
        async with AgentRuntime.in_memory([agent], limits=[limit]) as runtime:
            failed = await runtime.start_run(agent, "Book.", run_id="r1", owner="ann")
            assert (await failed.wait()).status is RunStatus.FAILED
            limits = runtime.sessions.limits
            # What was set aside for the call that failed counts as spent: an answer of 32,768 tokens.
            await limits.set(replace(limit, max_cost_micros=1_000))
            with pytest.raises(Denied, match=r"limit people of ann .* is used up: 33,768 of 1,000 mill"):
                await failed.retry()
            await limits.set(limit)
            assert (await (await failed.retry()).wait()).output == "It is booked."
            (use,) = await limits.uses(owner="ann")
            assert use.state.cost_micros == 33_768 + 1_000

    play(story())
