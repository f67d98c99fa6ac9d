"""`ctx.sleep` and `ctx.wait_for` in tools: the tool ends, the run is a row, and the tool is run again."""

from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.runtime.runtime_rig import play, until

from windlass import Agent, AgentRuntime, ToolContext, ToolFailed, tool
from windlass.parts import Machine
from windlass.testing import (
    FakeClock,
    ScriptedModel,
    by_history,
    call,
    crash_everywhere,
    run_in_fake_time,
    say,
    seeded_random,
    sequential_ids,
)
from windlass.tools import EffectName, Tool
from windlass_protocol import JsonObject, RunStatus


@dataclass
class Payment:
    amount: int


LONG = timedelta(minutes=2)


class Shop:
    """A tool that waits for a payment and for a while, and ships then; it counts how often each part ran."""

    def __init__(self, effect: EffectName = "idempotent", *, delay: timedelta = LONG) -> None:
        self.ran: Counter[str] = Counter()
        self.keys: set[str] = set()

        @tool(mode="safe_write", effect=effect)
        async def ship(order: str, ctx: ToolContext) -> str:
            """Ship an order."""
            self.ran["begun"] += 1
            payment = await ctx.wait_for("paid", Payment, timeout=timedelta(minutes=5))
            if payment is None:
                return "not paid"
            await ctx.sleep(delay)
            self.ran["shipped"] += 1
            self.keys.add(ctx.idempotency_key)
            return f"{order} for {payment.amount}"

        self.tool: Tool[..., object] = ship
        model = ScriptedModel(by_history([call("ship", {"order": "lamp"}), say("done")]))
        self.agent = Agent("desk", model=model, tools=[ship])


def machine(clock: FakeClock) -> Machine:
    return Machine(clock, sequential_ids(), seeded_random(1))


def waiting(function: Tool[..., object], arguments: JsonObject | None = None) -> Agent:
    script = [call(function.name, arguments or {}), say("done")]
    return Agent("desk", model=ScriptedModel(by_history(script)), tools=[function])


def result_in_fake_time(agent: Agent) -> str:
    """The result of the only call of a run."""

    async def story() -> str:
        async with AgentRuntime.in_memory([agent], machine=machine(clock)) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1")
            assert (await handle.wait()).status is RunStatus.COMPLETED
            results = [event.data async for event in handle.events() if event.type == "action.result"]
            (result,) = [data for data in results if "parentCallId" not in data]
            error = result.get("error")
            value = result["result"]
            assert isinstance(value, dict)
            return str(error["message"] if isinstance(error, dict) else value["output"])

    clock = FakeClock()
    return run_in_fake_time(story(), clock=clock)


def test_a_tool_that_waits_is_a_row_over_restarts_and_goes_on_with_what_came(tmp_path: Path) -> None:
    async def story() -> None:
        path, delay = tmp_path / "app.db", timedelta(milliseconds=50)
        shop = Shop("once", delay=delay)
        async with AgentRuntime.open(path, agents=[shop.agent]) as runtime:
            handle = await runtime.start_run(shop.agent, "go", run_id="r1")
            await until(handle, "run.waiting")
        assert shop.ran == {"begun": 1}
        again = Shop("once", delay=delay)
        async with AgentRuntime.open(path, agents=[again.agent]) as runtime:
            handle = runtime.handle("r1")
            await handle.send("paid", {"amount": 40}, key="payment-1")
            assert (await handle.wait(timeout=300)).output == "done"
            events = [event async for event in handle.events()]
        assert again.ran == {"begun": 2, "shipped": 1}
        assert isinstance(again.agent.model, ScriptedModel)
        assert again.agent.model.requests[-1].messages[-1].content == "lamp for 40"
        kinds = [event.type for event in events]
        assert "recovery.started" not in kinds, "a tool that waits cannot be interrupted"
        assert (kinds.count("program.paused"), kinds.count("action.started")) == (2, 3)

    play(story())


def test_a_tool_sleeps_for_a_while() -> None:
    clock = FakeClock()
    began_at = clock.now()

    @tool(mode="read")
    async def nap(ctx: ToolContext) -> str:
        """Sleep."""
        await ctx.sleep(timedelta(minutes=2))
        return "awake"

    async def story() -> None:
        agent = waiting(nap)
        async with AgentRuntime.in_memory([agent], machine=machine(clock)) as runtime:
            await (await runtime.start_run(agent, "go")).wait()

    run_in_fake_time(story(), clock=clock)
    assert clock.now() - began_at >= timedelta(minutes=2)


@pytest.mark.slow
def test_crashes_anywhere_take_each_event_once_and_wait_no_longer() -> None:
    shop = Shop(delay=timedelta(seconds=40))
    for crash in crash_everywhere(shop.agent, "go", send={"paid": {"amount": 40}}):
        assert crash.result.output == "done", crash
        assert len(shop.keys) == 1, crash
        shop.keys.clear()


def test_the_timeout_of_an_event_returns_none() -> None:
    assert result_in_fake_time(Shop().agent) == "not paid"


def test_a_tool_sleeps_until_a_time_and_an_earlier_one_has_come() -> None:
    @tool(mode="read")
    async def nap(ctx: ToolContext) -> str:
        """Sleep."""
        await ctx.sleep_until(datetime(2020, 1, 1, tzinfo=UTC))
        await ctx.sleep(0.5)
        return "awake"

    assert result_in_fake_time(waiting(nap)) == "awake"


def test_a_tool_that_waits_for_something_else_after_a_restart_fails() -> None:
    names = iter(["first", "second"])

    @tool(mode="read")
    async def odd(ctx: ToolContext) -> str:
        """Wait for another event each time."""
        await ctx.wait_for(next(names), timeout=1)
        return "never"

    assert "its wait 1 is not the one of before" in result_in_fake_time(waiting(odd))


def test_data_of_another_type_fails_the_call() -> None:
    @tool(mode="read")
    async def receive(ctx: ToolContext) -> str:
        """Wait for a payment."""
        return str(await ctx.wait_for("paid", Payment))

    async def story() -> None:
        agent = waiting(receive)
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go")
            await handle.send("paid", "much")
            assert (await handle.wait(timeout=300)).output == "done"
        assert isinstance(agent.model, ScriptedModel)
        assert "the data of event paid is not Payment" in agent.model.requests[-1].messages[-1].content

    play(story())


def test_a_wait_that_is_not_valid_is_refused() -> None:
    async def story() -> None:
        ctx = ToolContext[object]("s1", "r1", "call-1")
        waits: list[tuple[Awaitable[object], str]] = [
            (ctx.sleep("long"), "expected seconds or a timedelta"),  # pyright: ignore[reportArgumentType]
            (ctx.sleep_until(datetime(2030, 1, 1)), "a time with a time zone"),  # noqa: DTZ001 - refused
            (ctx.wait_for("paid", timeout=-2), "a timeout must not be negative"),
            (ctx.wait_for(""), "the name of an event has 1 to"),
        ]
        for wait, problem in waits:
            with pytest.raises((TypeError, ValueError), match=problem):
                await wait

    play(story())


def test_a_tool_that_no_run_calls_cannot_wait() -> None:
    async def story() -> None:
        for wait in (ToolContext("s", "r", "c").sleep(1), ToolContext("s", "r", "c").wait_for("paid")):
            with pytest.raises(ToolFailed, match="Only a tool that an agent calls in a run"):
                await wait

    play(story())
