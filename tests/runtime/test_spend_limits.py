"""Limits for people and teams: what their runs spend together, and what happens when nothing is left."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from tests.runtime.engine.compaction_rig import Guide, walk_tool
from tests.story import play

from windlass import Agent, AgentRuntime, Denied, LLMUsage, Rejected, RunResult, RunStatus
from windlass.engine.spending.spend_limits import LimitUse
from windlass.parts import ModelPrice, SpendLimit
from windlass.testing import ScriptedModel, call, say
from windlass.tools import tool

PRICE: Final = {"*": ModelPrice(0, 10)}
"""Ten millionths of a dollar for each token of an answer."""
ANSWER: Final = LLMUsage(5, 300)
COST: Final = 3_000


def clerk(name: str = "clerk", **options: object) -> Agent:
    model = ScriptedModel(lambda _: say("Done.", usage=ANSWER), model_id=name)
    return Agent(name, model=model, prices=PRICE, **options)  # pyright: ignore[reportArgumentType]


async def ask(runtime: AgentRuntime, agent: Agent, owner: str | None = "ann") -> RunResult:
    return await (await runtime.start_run(agent, "Hi", owner=owner)).wait()


def spent(uses: Sequence[LimitUse]) -> dict[str, tuple[int, int]]:
    """Return what was spent and is held, in money, by the subject of each purse."""
    return {use.subject: (use.state.cost_micros, use.state.held_micros) for use in uses}


def test_runs_of_all_owners_draw_on_one_purse_and_a_new_run_is_refused_when_it_is_used_up() -> None:
    agent = clerk()
    limit = SpendLimit("house", "month", max_cost_micros=2 * COST)

    async def story() -> None:
        async with AgentRuntime.in_memory([agent], limits=[limit]) as runtime:
            for owner in ("ann", "bob"):
                assert (await ask(runtime, agent, owner)).status is RunStatus.COMPLETED
            with pytest.raises(Denied) as caught:
                await ask(runtime, agent, "eve")
            (use,) = await runtime.sessions.limits.uses()
            assert (use.state.cost_micros, use.state.held_micros, use.cost_micros_left) == (2 * COST, 0, 0)
            assert caught.value.message == (
                f"limit house for {use.period} is used up: 6,000 of 6,000 millionths of a dollar are spent "
                f"and 0 set aside for calls under way; it begins anew at {use.ends_at}: start the run then, "
                "or ask an operator to raise the limit"
            )

    play(story())


def test_each_owner_has_a_purse_of_a_limit_for_each() -> None:
    agent = clerk()
    limit = SpendLimit("people", "day", max_cost_micros=COST, owner="*")

    async def story() -> None:
        async with AgentRuntime.in_memory([agent], limits=[limit]) as runtime:
            for owner in ("ann", "bob", None):
                assert (await ask(runtime, agent, owner)).status is RunStatus.COMPLETED
            with pytest.raises(Denied, match="limit people of ann"):
                await ask(runtime, agent, "ann")
            # A run without an owner counts for no owner.
            assert (await ask(runtime, agent, None)).status is RunStatus.COMPLETED
            assert spent(await runtime.sessions.limits.uses()) == {"ann": (COST, 0), "bob": (COST, 0)}
            assert spent(await runtime.sessions.limits.uses(owner="bob")) == {"bob": (COST, 0)}

    play(story())


def test_a_run_without_an_owner_in_the_session_of_one_counts_for_them() -> None:
    agent = clerk()
    limit = SpendLimit("people", "day", max_cost_micros=2 * COST, owner="*")

    async def story() -> None:
        async with AgentRuntime.in_memory([agent], limits=[limit]) as runtime:
            handle = await runtime.start_run(agent, "Hi", owner="ann")
            await handle.wait()
            session_id = await handle.session_id()
            await (await runtime.start_run(agent, "Hi", session_id=session_id)).wait()
            assert spent(await runtime.sessions.limits.uses()) == {"ann": (2 * COST, 0)}
            with pytest.raises(Denied, match="limit people of ann"):
                await runtime.start_run(agent, "Hi", session_id=session_id)

    play(story())


def test_a_run_under_way_ends_before_an_answer_that_does_not_fit() -> None:
    @tool(mode="read")
    async def look() -> str:
        """Look."""
        return "seen"

    model = ScriptedModel([call("look"), say("Yes.", usage=ANSWER)])
    agent = Agent("clerk", model=model, tools=[look], prices=PRICE)
    # The shortest answer takes 256 tokens.
    limit = SpendLimit("house", "month", max_cost_micros=2_569)

    async def story() -> RunResult:
        async with AgentRuntime.in_memory([agent], limits=[limit]) as runtime:
            return await ask(runtime, agent)

    result = play(story())
    assert result.status is RunStatus.BUDGET_EXHAUSTED
    assert len(model.requests) == 1
    assert result.error is not None
    assert result.error.message.startswith("The limit house for 20")
    assert result.error.details is not None
    details = result.error.details
    assert (details["reason"], details["limit"], details["per"]) == ("limit_reached", "house", "month")
    assert details["budgets"] == [{"name": "cost", "limit": 2_569, "used": 10}]
    assert (details["held"], details["needed"], details["subject"]) == (0, 2_560, "")


def test_a_run_that_a_limit_of_each_run_ends_names_the_limit() -> None:
    agent = clerk()
    limits = [
        SpendLimit("house", "run", max_cost_micros=9_000),
        SpendLimit("people", "run", max_cost_micros=2_000, owner="*"),
    ]

    async def story() -> RunResult:
        async with AgentRuntime.in_memory([agent], limits=limits) as runtime:
            return await ask(runtime, agent)

    result = play(story())
    assert result.status is RunStatus.BUDGET_EXHAUSTED
    assert result.error is not None
    assert "0 of 2,000 millionths of a dollar of limit people of ann for each run" in result.error.message
    assert result.error.details is not None
    assert (result.error.details["limit"], result.error.details["subject"]) == ("people", "ann")


def test_a_limit_in_tokens_needs_no_price() -> None:
    model = ScriptedModel(lambda _: say("Done.", usage=ANSWER))
    agent = Agent("clerk", model=model)

    async def story() -> None:
        limit = SpendLimit("house", "month", max_tokens=600)
        async with AgentRuntime.in_memory([agent], limits=[limit]) as runtime:
            assert (await ask(runtime, agent)).status is RunStatus.COMPLETED
            assert (await ask(runtime, agent)).status is RunStatus.COMPLETED
            with pytest.raises(Denied):
                await ask(runtime, agent)
            (use,) = await runtime.sessions.limits.uses()
            assert (use.state.tokens, use.state.held_tokens, use.tokens_left) == (610, 0, 0)

    play(story())


@pytest.mark.parametrize("per", ["run", "day"])
def test_a_limit_in_money_refuses_a_model_without_a_price(per: str) -> None:
    model = ScriptedModel([say("no")])
    agent = Agent("clerk", model=model)

    async def story() -> None:
        limit = SpendLimit("people", per, max_cost_micros=1_000, owner="*")  # pyright: ignore[reportArgumentType]
        async with AgentRuntime.in_memory([agent], limits=[limit]) as runtime:
            with pytest.raises(Rejected, match="limit people is in money, and model scripted/"):
                await ask(runtime, agent)

    play(story())
    assert not model.requests


def test_a_limit_of_each_run_lowers_its_budget() -> None:
    model = ScriptedModel([say("no")])
    agent = Agent("clerk", model=model, prices=PRICE)

    async def story() -> RunResult:
        limit = SpendLimit("runs", "run", max_cost_micros=100)
        async with AgentRuntime.in_memory([agent], limits=[limit]) as runtime:
            return await ask(runtime, agent)

    assert play(story()).status is RunStatus.BUDGET_EXHAUSTED
    assert not model.requests


def test_a_subagent_counts_for_the_owner_and_for_its_own_name() -> None:
    helper = clerk("helper", description="Helps.")
    model = ScriptedModel([call("helper", {"message": "x"}), say("Done.", usage=LLMUsage(5, 100))])
    agent = Agent("clerk", model=model, subagents=[helper], prices=PRICE)
    limits = [
        SpendLimit("agents", "day", max_cost_micros=10**9, agent="*"),
        SpendLimit("ann", "day", max_cost_micros=10**9, owner="ann"),
    ]

    async def story() -> dict[str, tuple[int, int]]:
        async with AgentRuntime.in_memory([agent, helper], limits=limits) as runtime:
            await ask(runtime, agent)
            return spent(await runtime.sessions.limits.uses())

    uses = play(story())
    own = uses["clerk"][0]
    assert uses == {"clerk": (own, 0), "helper": (COST, 0), "": (own + COST, 0)}


def test_a_summary_counts_for_the_limits_of_its_run() -> None:
    guide = Guide(30, 3_000)
    model = ScriptedModel(lambda messages: replace(guide(messages), usage=LLMUsage(output_tokens=10)))
    agent = Agent("walker", model=model, tools=[walk_tool()], compaction=3_000)
    limit = SpendLimit("house", "month", max_tokens=10**9)

    async def story() -> tuple[RunResult, LimitUse]:
        async with AgentRuntime.in_memory([agent], limits=[limit]) as runtime:
            result = await ask(runtime, agent)
            (use,) = await runtime.sessions.limits.uses()
            return result, use

    result, use = play(story())
    assert result.status is RunStatus.COMPLETED
    assert guide.summaries > 0
    assert result.usage is not None
    assert use.state.tokens == result.usage.output_tokens == 10 * len(model.requests)
    assert use.state.held_tokens == 0


@pytest.mark.parametrize("where", ["run", "month"])
def test_a_summary_that_does_not_fit_a_limit_is_not_made(where: str) -> None:
    guide = Guide(30, 3_000)
    model = ScriptedModel(lambda messages: replace(guide(messages), usage=LLMUsage(output_tokens=10)))
    summaries = ScriptedModel(lambda _: say("They walked.", usage=LLMUsage(5_000, 10)), model_id="dear")
    agent = Agent(
        "walker",
        model=model,
        tools=[walk_tool()],
        compaction=3_000,
        compaction_model=summaries,
        prices={"dear": ModelPrice(1_000, 1_000), "*": ModelPrice(0, 0)},
    )
    # The shortest summary alone may cost 256,000.
    limit = SpendLimit("house", where, max_cost_micros=300_000)  # pyright: ignore[reportArgumentType]

    async def story() -> tuple[RunResult, tuple[LimitUse, ...]]:
        async with AgentRuntime.in_memory([agent], limits=[limit]) as runtime:
            return await ask(runtime, agent), await runtime.sessions.limits.uses()

    result, uses = play(story())
    assert result.status is RunStatus.BUDGET_EXHAUSTED
    assert result.error is not None
    assert result.error.message.startswith("A summary of the history is due")
    assert result.error.details is not None
    assert (result.error.details["limit"], result.error.details["per"]) == ("house", where)
    assert not summaries.requests
    assert [(use.state.cost_micros, use.state.held_micros) for use in uses] == [(0, 0)] * (where == "month")


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_many_runs_at_once_never_spend_more_than_the_limit(kind: str, tmp_path: Path) -> None:
    agent = clerk()
    limit = SpendLimit("house", "month", max_cost_micros=20 * COST + 1)

    async def one(runtime: AgentRuntime) -> RunStatus | None:
        try:
            return (await ask(runtime, agent)).status
        except Denied:
            return None

    async def story() -> tuple[list[RunStatus | None], LimitUse]:
        opened = (
            AgentRuntime.in_memory([agent], limits=[limit])
            if kind == "memory"
            else await AgentRuntime.open(tmp_path / "app.db", agents=[agent], limits=[limit])
        )
        async with opened as runtime:
            ends = await asyncio.gather(*(one(runtime) for _ in range(60)))
            (use,) = await runtime.sessions.limits.uses()
            return ends, use

    ends, use = play(story())
    paid = sum(end is RunStatus.COMPLETED for end in ends) * COST
    assert use.state.cost_micros == paid <= 20 * COST + 1
    assert use.state.held_micros == use.state.held_tokens == 0


def test_limits_of_options_replace_those_of_earlier_processes_and_leave_those_of_operators(
    tmp_path: Path,
) -> None:
    agent, path = clerk(), tmp_path / "app.db"
    first, second, own = (SpendLimit(name, "day", max_tokens=9_000) for name in ("a", "b", "own"))

    async def names(**options: Sequence[SpendLimit]) -> list[str]:
        async with await AgentRuntime.open(path, agents=[agent], **options) as runtime:  # pyright: ignore[reportArgumentType]
            if options == {"limits": [first]}:
                await runtime.sessions.limits.set(own)
            return [limit.name for limit in await runtime.sessions.limits.list()]

    async def story() -> None:
        assert await names(limits=[first]) == ["a", "own"]
        assert await names() == ["a", "own"]
        assert await names(limits=[second]) == ["b", "own"]
        async with await AgentRuntime.open(path, agents=[agent]) as runtime:
            await runtime.sessions.limits.remove("own")
            assert [limit.name for limit in await runtime.sessions.limits.list()] == ["b"]

    play(story())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SpendLimit("a/b", "day", max_tokens=1), "must not have a slash"),
        (lambda: SpendLimit("a", "week", max_tokens=1), "must be one of run, day, month"),  # pyright: ignore[reportArgumentType]
        (lambda: SpendLimit("a", "day"), "needs max_cost_micros, max_tokens, or both"),
        (lambda: SpendLimit("a", "day", max_tokens=0), "must be 1 to"),
        (lambda: SpendLimit("a", "day", max_tokens=1, timezone="Mars"), "timezone of limit a is unknown"),
    ],
)
def test_a_limit_that_says_nothing_sensible_is_refused(make: Callable[[], SpendLimit], message: str) -> None:
    with pytest.raises(Rejected, match=message):
        make()
