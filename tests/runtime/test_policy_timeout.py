"""Policy timeouts: a hanging host policy denies in time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest
from pydantic import JsonValue

from windlass import Agent, AgentRuntime, Denied, Rejected, tool
from windlass.limits import POLICY_TIMEOUT_MS
from windlass.ports.machine import Machine
from windlass.testing import (
    FakeClock,
    ScriptedModel,
    call,
    run_in_fake_time,
    say,
    seeded_random,
    sequential_ids,
)
from windlass_harness.policy import CallFacts
from windlass_protocol import AllowDecision, PolicyDecision, PolicyKind, PolicyRef, RunRequest, RuntimePackage

ALLOW: Final = AllowDecision(code="ok", reason="Yes.", policy_refs=(PolicyRef(kind=PolicyKind.HOST, id="p"),))
Wait = Callable[[], Awaitable[None]]


async def at_once() -> None:
    pass


async def hang() -> None:
    await asyncio.Event().wait()


async def deaf() -> None:
    """Not even cancelling ends it, for a long time."""
    for _ in range(100):
        try:
            await asyncio.sleep(1_000)
        except asyncio.CancelledError:
            continue


class Slow:
    """A policy that waits before it allows."""

    version = "1"

    def __init__(self, *, before: Wait = at_once, after: Wait = at_once) -> None:
        self._before, self._after = before, after

    async def before(self, call: CallFacts, *, is_attended: bool) -> PolicyDecision:
        await self._before()
        return ALLOW

    async def after(self, call: CallFacts, output: JsonValue) -> PolicyDecision:
        await self._after()
        return ALLOW


def played(policy: Slow, **options: int) -> tuple[float, list[str], dict[str, Any]]:
    """Return the duration of a run, its effects, and the result of its call."""
    clock, sent = FakeClock(), list[str]()

    @tool(mode="safe_write", effect="once")
    async def send() -> str:
        """Send something."""
        sent.append("sent")
        return "a result"

    async def story() -> tuple[float, list[str], dict[str, Any]]:
        agent = Agent("shop", model=ScriptedModel([call("send"), say("done")]), tools=[send])
        machine = Machine(clock, sequential_ids("id"), seeded_random(1))
        given: Any = {"tool_policy": policy, "machine": machine, **options}
        async with AgentRuntime.in_memory([agent], **given) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1")
            assert (await handle.wait(timeout=1_000)).status == "completed"
            (found,) = [event.data async for event in handle.events() if event.type == "action.result"]
            return clock.monotonic(), sent, found

    return run_in_fake_time(story(), clock=clock)


@pytest.mark.parametrize("wait", [hang, deaf])
def test_a_call_is_denied_if_its_policy_times_out(wait: Wait) -> None:
    took_s, sent, result = played(Slow(before=wait))
    assert sent == []
    assert (result["status"], result["error"]["code"]) == ("rejected", "policy.timeout")
    assert POLICY_TIMEOUT_MS / 1_000 <= took_s < POLICY_TIMEOUT_MS / 1_000 + 5


def test_a_result_is_withheld_if_its_policy_times_out() -> None:
    _, sent, result = played(Slow(after=hang))
    assert sent == ["sent"]
    assert (result["status"], result["error"]["code"]) == ("failed", "policy.timeout")
    assert "so the model does not get it" in result["error"]["message"]
    assert "a result" not in str(result)


def test_the_time_can_be_set_and_is_not_used_up_by_one_that_decides() -> None:
    took_s, sent, result = played(Slow(before=hang), policy_timeout_ms=50)
    assert (sent, result["error"]["code"]) == ([], "policy.timeout")
    assert took_s < POLICY_TIMEOUT_MS / 1_000
    assert played(Slow(before=lambda: asyncio.sleep(0.04)), policy_timeout_ms=50)[1] == ["sent"]


def test_a_start_is_denied_if_its_policy_times_out() -> None:
    async def policy(request: RunRequest, package: RuntimePackage) -> PolicyDecision:
        await hang()
        return ALLOW

    async def story() -> None:
        agent = Agent("shop", model=ScriptedModel([say("done")]))
        async with AgentRuntime.in_memory([agent], start_policy=policy, policy_timeout_ms=20) as runtime:
            with pytest.raises(Denied, match=r"policy\.timeout"):
                await runtime.start_run(agent, "go", run_id="r1")

    run_in_fake_time(story(), clock=FakeClock())


def test_an_error_of_a_policy_that_was_waited_for_is_still_its_own() -> None:
    async def fails() -> None:
        raise TimeoutError

    _, sent, result = played(Slow(before=fails))
    assert (sent, result["error"]["code"]) == ([], "policy.failed")


@pytest.mark.parametrize("after_ms", [0, -1])
def test_no_time_at_all_is_refused(after_ms: int) -> None:
    with pytest.raises(Rejected, match="policy_timeout_ms must be 1 or more"):
        AgentRuntime.builder().options(policy_timeout_ms=after_ms)
