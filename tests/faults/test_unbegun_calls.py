"""A call that never began is distinguished from one that may have taken effect."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import JsonValue
from tests.runtime.runtime_rig import play, until

from windlass import Agent, AgentRuntime, ToolContext, tool
from windlass.runtime.handle import RunHandle
from windlass.testing import Answer, ScriptedModel, by_history, call, say
from windlass_harness.policy import CallFacts
from windlass_protocol import AllowDecision, DenyDecision, PolicyDecision

CALLS: Final = 4
NO_MORE: Final = "Not executed: the work was ended before this call began."


class Policy:
    """A policy that takes its time, call by call."""

    version = "1"

    def __init__(self, is_slow_from: int = 0) -> None:
        self.asked, self.go_on, self.calls = asyncio.Event(), asyncio.Event(), 0
        self.is_slow_from = is_slow_from

    async def before(self, call: CallFacts, *, is_attended: bool) -> PolicyDecision:
        self.calls += 1
        if self.calls > self.is_slow_from:
            self.asked.set()
            await self.go_on.wait()
        return AllowDecision(code="ok", reason="fine", policy_refs=())

    async def after(self, call: CallFacts, output: JsonValue) -> PolicyDecision:
        return AllowDecision(code="ok", reason="fine", policy_refs=())


class Bank:
    """A tool that pays, one call at a time, when the test releases it."""

    def __init__(self) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self.paid: list[tuple[int, int]] = []

    def agent(self) -> Agent:
        @tool(mode="external", effect="once", concurrency=1)
        async def pay(number: int, ctx: ToolContext) -> str:
            """Pay."""
            self.begun.set()
            await self.go_on.wait()
            self.paid.append((number, ctx.attempt))
            return "paid"

        asked = sum((_pay(number) for number in range(1, CALLS)), _pay(0))
        return Agent("clerk", model=ScriptedModel(by_history([asked, say("done")])), tools=[pay])


def _pay(number: int) -> Answer:
    return call("pay", {"number": number}, call_id=f"c{number}")


def types(events: Iterable[Any]) -> list[str]:
    return [event.type for event in events]


async def finished(handle: RunHandle) -> list[str]:
    """Wait for the end; return the recorded types."""
    result = await handle.wait(timeout=300)
    assert result.status == "completed"
    return types([event async for event in handle.events()])


@pytest.mark.promise("J5")
@pytest.mark.parametrize("is_slow_from", range(CALLS))
def test_a_close_during_policy_decisions_does_not_wait_and_leaves_no_ambiguous_call(
    tmp_path: Path, is_slow_from: int
) -> None:
    async def story() -> None:
        bank, policy = Bank(), Policy(is_slow_from)
        runtime = await AgentRuntime.open(tmp_path / "a.db", agents=[bank.agent()], tool_policy=policy)
        await runtime.start_run("clerk", "go", session_id="s", run_id="r")
        await policy.asked.wait()
        await asyncio.wait_for(runtime.aclose(), 300)
        assert policy.calls == is_slow_from + 1, "it is not asked about the next one"
        assert bank.paid == []
        bank.go_on.set()
        policy = Policy(100)
        async with AgentRuntime.open(tmp_path / "a.db", agents=[bank.agent()], tool_policy=policy) as again:
            recorded = await finished(again.handle("r"))
        assert "recovery.started" not in recorded
        assert "input.requested" not in recorded
        assert [number for number, _ in bank.paid] == list(range(CALLS))

    play(story())


@pytest.mark.promise("J5")
def test_calls_that_wait_for_their_turn_when_a_runtime_is_closed_are_made_by_the_next_one(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        bank, policy = Bank(), Policy(100)
        runtime = await AgentRuntime.open(tmp_path / "a.db", agents=[bank.agent()], tool_policy=policy)
        await runtime.start_run("clerk", "go", session_id="s", run_id="r")
        await bank.begun.wait()
        closing = asyncio.create_task(runtime.aclose())
        await asyncio.sleep(0)
        bank.go_on.set()
        await closing
        begun = len(bank.paid)
        async with AgentRuntime.open(
            tmp_path / "a.db", agents=[bank.agent()], tool_policy=Policy(100)
        ) as again:
            recorded = await finished(again.handle("r"))
        assert recorded.count("recovery.effect_found") == CALLS - begun
        assert "input.requested" not in recorded
        assert [number for number, _ in bank.paid] == list(range(CALLS))

    play(story())


def test_a_call_that_never_began_and_is_denied_by_the_next_owner_says_so(tmp_path: Path) -> None:
    class Never(Policy):
        async def before(self, call: CallFacts, *, is_attended: bool) -> PolicyDecision:
            return DenyDecision(code="no", reason="Not any more.", policy_refs=())

    async def story() -> None:
        bank = Bank()
        runtime = await AgentRuntime.open(tmp_path / "a.db", agents=[bank.agent()], tool_policy=Policy(100))
        await runtime.start_run("clerk", "go", session_id="s", run_id="r")
        await bank.begun.wait()
        bank.go_on.set()
        await runtime.aclose()
        async with AgentRuntime.open(tmp_path / "a.db", agents=[bank.agent()], tool_policy=Never()) as again:
            handle = again.handle("r")
            await finished(handle)
            told = [event.data["error"] async for event in handle.events() if "error" in event.data]
        assert told == [{"code": "no", "message": "Not any more."}] * (CALLS - len(bank.paid))

    play(story())


def test_a_cancelled_run_names_only_the_calls_that_had_begun() -> None:
    async def story() -> None:
        bank = Bank()
        async with AgentRuntime.in_memory([bank.agent()], tool_policy=Policy(100)) as runtime:
            handle = await runtime.start_run("clerk", "go", session_id="s", run_id="r")
            await until(handle, "action.started")
            await bank.begun.wait()
            await handle.cancel()
            result = await handle.wait(timeout=300)
            assert result.error is not None
            assert result.error.message.count("pay") == 1
            results: list[Any] = [one.data async for one in handle.events() if one.type == "action.result"]
            told = {one["result"]["callId"]: one["error"]["code"] for one in results}
            assert told == {"c0": "outcome_unknown", "c1": "cancelled", "c2": "cancelled", "c3": "cancelled"}
            assert results[1]["error"]["message"] == NO_MORE

    play(story())


@pytest.mark.parametrize("is_slow_from", range(CALLS))
def test_a_run_that_is_cancelled_while_its_calls_are_judged_ends_at_once(is_slow_from: int) -> None:
    async def story() -> None:
        bank, policy = Bank(), Policy(is_slow_from)
        async with AgentRuntime.in_memory([bank.agent()], tool_policy=policy) as runtime:
            handle = await runtime.start_run("clerk", "go", session_id="s", run_id="r")
            await policy.asked.wait()
            await runtime.steer("clerk", "well", session_id="s")
            await handle.cancel()
            result = await handle.wait(timeout=300)
            assert (result.status, result.error) == ("cancelled", None)
            assert policy.calls == is_slow_from + 1
            assert bank.paid == []

    play(story())


def test_policy_decisions_are_not_interrupted_by_a_cancel_of_another_run() -> None:
    async def story() -> None:
        bank, policy = Bank(), Policy()
        bank.go_on.set()
        async with AgentRuntime.in_memory([bank.agent()], tool_policy=policy) as runtime:
            handle = await runtime.start_run("clerk", "go", session_id="s", run_id="r")
            await policy.asked.wait()
            await runtime.start_run("clerk", "next", session_id="s", run_id="r2")
            await runtime.handle("r2").cancel()
            policy.go_on.set()
            assert (await runtime.handle("r2").wait(timeout=300)).status == "cancelled"
            assert (await handle.wait(timeout=300)).status == "completed"
            assert policy.calls == CALLS

    play(story())
