"""Code of the application that cancels its own task, or ignores that it is cancelled."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from tests.faults.scene import Scene, records_of

from windlass import Agent, AgentRuntime, tool
from windlass.agent.policy import RulesPolicy
from windlass.engine.tasks import Tasks
from windlass.ports.model import LLMMessage, LLMStreamChunk
from windlass.testing import FakeClock, ScriptedModel, call, say
from windlass.tools import Tool
from windlass_harness.loop.events import (
    CallModel,
    CallReturned,
    Compact,
    CompactionBroken,
    ModelFailed,
    RunTool,
)
from windlass_harness.policy import PolicySet
from windlass_protocol import (
    AllowDecision,
    CompactionConfig,
    DenyDecision,
    JsonObject,
    PolicyKind,
    PolicyRef,
    RunStatus,
)

REFS = (PolicyRef(kind=PolicyKind.HOST, id="test", version="1"),)
ALLOWED = AllowDecision(code="ok", reason="ok", policy_refs=REFS)


def agent(model: Any, *tools: Tool[..., Any]) -> Agent:
    return Agent("a", model=model, tools=list(tools))


def sleeping(seconds: float) -> Any:
    """Return a coroutine that ignores cancellation for a time of the event loop."""

    async def stubborn() -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end:
            try:
                await asyncio.sleep(end - loop.time())
            except asyncio.CancelledError:
                continue

    return stubborn()


async def results(scene: Scene, session_id: str = "s1") -> list[JsonObject]:
    return [one.data for one in await records_of(scene.store, session_id) if one.type == "action.result"]


def cancel_at_once() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


def cancel_later() -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_later(0.05, task.cancel)


class SlowReview:
    """A policy that looks at results for a while."""

    version = "1"

    def before(self, call: Any, *, is_attended: bool) -> AllowDecision:
        return ALLOWED

    async def after(self, call: Any, output: Any) -> AllowDecision:
        await asyncio.sleep(1)
        return ALLOWED


@pytest.mark.parametrize("cancel", [cancel_at_once, cancel_later])
@pytest.mark.parametrize("policy", [RulesPolicy(PolicySet()), SlowReview()])
def test_a_tool_that_cancels_its_own_task_runs_once(cancel: Any, policy: Any) -> None:
    runs: list[int] = []

    @tool(mode="safe_write", approval="never")
    async def write() -> str:
        """Write."""
        runs.append(1)
        cancel()
        return "written"

    async def story() -> list[Any]:
        model = ScriptedModel([call("write"), say("ok")])
        async with AgentRuntime.in_memory([agent(model, write)], tool_policy=policy) as runtime:
            handle = await runtime.start_run("a", "go")
            result = await handle.wait()
            found = [one.data async for one in handle.events() if one.type == "action.result"]
            return [result.status, result.output, found[0]["status"]]

    assert asyncio.run(story()) == [RunStatus.COMPLETED, "ok", "completed"]
    assert runs == [1]


def test_a_tool_that_cancels_its_own_task_and_waits_has_a_result() -> None:
    runs: list[int] = []

    @tool(mode="safe_write", approval="never")
    async def write() -> str:
        """Write."""
        runs.append(1)
        cancel_at_once()
        await asyncio.sleep(1)
        return "written"

    async def story(scene: Scene) -> JsonObject:
        async with scene.runtime([agent(ScriptedModel([call("write"), say("ok")]), write)]) as runtime:
            handle = await runtime.start_run("a", "go", session_id="s1")
            assert (await handle.wait()).output == "ok"
            return (await results(scene))[0]

    error = Scene().play(story)["error"]
    assert error == {"code": "cancelled", "message": "write cancelled itself; its outcome is unknown"}
    assert runs == [1]


def test_a_provider_that_cancels_its_own_task_is_asked_once() -> None:
    calls: list[int] = []

    class Provider:
        async def stream(self, messages: Sequence[LLMMessage], **_: object) -> AsyncIterator[LLMStreamChunk]:
            calls.append(1)
            yield LLMStreamChunk(content_delta="hi")
            yield LLMStreamChunk(finish_reason="stop")
            cancel_at_once()

    async def story(scene: Scene) -> str | None:
        async with scene.runtime([agent(Provider())]) as runtime:
            return (await (await runtime.start_run("a", "go", session_id="s1")).wait()).output

    assert Scene().play(story) == "hi"
    assert calls == [1]


def test_a_tool_that_swallows_a_cancel_of_its_own_times_out() -> None:
    @tool(mode="read", timeout=1)
    async def wait() -> str:
        """Wait."""
        cancel_at_once()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        await asyncio.sleep(60)
        return ""

    async def story(scene: Scene) -> JsonObject:
        async with scene.runtime([agent(ScriptedModel([call("wait"), say("ok")]), wait)]) as runtime:
            await (await runtime.start_run("a", "go", session_id="s1")).wait()
            return (await results(scene))[0]

    assert Scene().play(story)["error"]["code"] == "timeout"


def test_a_stubborn_tool_of_a_cancelled_run_does_not_touch_the_next_run() -> None:
    @tool(mode="read", timeout=4)
    async def stubborn() -> str:
        """Ignore cancellation."""
        await sleeping(7)
        return ""

    @tool(mode="safe_write", approval="never", timeout=30)
    async def write() -> str:
        """Write."""
        await asyncio.sleep(4)
        return "written"

    async def story(scene: Scene) -> list[JsonObject]:
        script = [call("stubborn", call_id="c1"), call("write", call_id="c1"), say("ok")]
        async with scene.runtime([agent(ScriptedModel(script), stubborn, write)]) as runtime:
            first = await runtime.start_run("a", "one", session_id="s1")
            await asyncio.sleep(0.3)
            second = await runtime.start_run("a", "two", session_id="s1")
            await first.cancel()
            assert (await first.wait()).status is RunStatus.CANCELLED
            assert (await second.wait()).output == "ok"
            await asyncio.sleep(5)
            return await results(scene)

    found = Scene().play(story)
    assert [(one["status"], one["result"]["toolName"]) for one in found[-1:]] == [("completed", "write")]


def test_a_stubborn_tool_does_not_stop_the_time_limits_of_other_sessions() -> None:
    @tool(mode="read", timeout=3)
    async def stubborn() -> str:
        """Ignore cancellation."""
        await sleeping(8)
        return ""

    @tool(mode="read", timeout=3.6)
    async def slow() -> str:
        """Take long."""
        await asyncio.sleep(300)
        return ""

    async def story(scene: Scene) -> JsonObject:
        one = Agent("one", model=ScriptedModel([call("stubborn"), say("ok")]), tools=[stubborn])
        two = Agent("two", model=ScriptedModel([call("slow"), say("ok")]), tools=[slow])
        async with scene.runtime([one, two]) as runtime:
            first = await runtime.start_run("one", "go", session_id="s1")
            await asyncio.sleep(0.3)
            second = await runtime.start_run("two", "go", session_id="s2")
            await first.cancel()
            await first.wait()
            await second.wait()
            await asyncio.sleep(9)
            return (await results(scene, "s2"))[0]

    assert Scene().play(story)["error"]["code"] == "timeout"


def test_a_left_call_does_not_touch_a_later_call_with_the_same_id() -> None:
    seen: list[str] = []

    @tool(mode="read", timeout=0.5, concurrency=1)
    async def look(name: str) -> str:
        """Look."""
        seen.append(name)
        if name == "stubborn":
            await sleeping(1.5)
        if name == "other":
            await asyncio.sleep(0.4)
        return name

    async def story(scene: Scene) -> list[JsonObject]:
        script = [
            call("look", {"name": "stubborn"}, call_id="c1"),
            call("look", {"name": "next"}, call_id="c1"),
        ]
        one = Agent("one", model=ScriptedModel([*script, say("ok")]), tools=[look])
        two = Agent(
            "two", model=ScriptedModel([call("look", {"name": "other"}), say("ok")] * 9), tools=[look]
        )
        async with scene.runtime([one, two]) as runtime:
            first = await runtime.start_run("one", "go", session_id="s1")
            # Other sessions hold the one place of the tool until the left call has ended.
            await asyncio.sleep(0.9)
            others = [await runtime.start_run("two", "go", session_id=f"t{number}") for number in range(4)]
            for handle in (first, *others):
                assert (await handle.wait()).output == "ok"
            await asyncio.sleep(3)
            records = await records_of(scene.store, "s1")
            assert not [one.type for one in records if one.type.startswith("recovery.")]
            return await results(scene)

    found = Scene().play(story)
    assert [one.get("status") for one in found] == ["failed", "completed"]
    assert seen.count("next") == 1


def test_a_left_answer_does_not_change_the_arguments_of_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.engine.model_calls.model_call.MODEL_IDLE_TIMEOUT_MS", 500)
    paid: list[str] = []
    calls: list[int] = []

    class Provider:
        async def stream(self, messages: Sequence[LLMMessage], **_: object) -> AsyncIterator[LLMStreamChunk]:
            calls.append(1)
            number = len(calls)
            name = "mallory" if number == 1 else "alice"
            answer = call("pay", {"to": name}, call_id="c1") + call("rest", call_id="c2")
            answer = answer if number < 3 else say("ok")
            async for chunk in ScriptedModel([answer]).stream(messages):
                yield chunk
            if number == 1:
                await sleeping(2.5)

    @tool(mode="safe_write", approval="always")
    async def pay(to: str) -> str:
        """Pay."""
        paid.append(to)
        return to

    @tool(mode="read")
    async def rest() -> str:
        """Keep the session awake while the person is asked."""
        await asyncio.sleep(9)
        return ""

    async def story(scene: Scene) -> None:
        async with scene.runtime([agent(Provider(), pay, rest)]) as runtime:
            handle = await runtime.start_run("a", "go", session_id="s1")
            async for event in handle.events():
                if event.type == "input.requested":
                    break
            [asked] = await handle.open_requests()
            await asyncio.sleep(3)
            await handle.answer(asked.request_id, "approve")
            assert (await handle.wait()).output == "ok"

    Scene().play(story)
    assert paid == ["alice"]


def test_time_limits_hold_in_a_second_event_loop() -> None:
    @tool(mode="read", timeout=0.5)
    async def look(seconds: int) -> str:
        """Look."""
        await asyncio.sleep(seconds)
        return "seen"

    script = [call("look", {"seconds": 0}), say("one"), call("look", {"seconds": 5}), say("two")]
    runtime = AgentRuntime.in_memory([agent(ScriptedModel(script), look)])

    async def one() -> list[Any]:
        handle = await runtime.start_run("a", "go", session_id="s")
        await handle.wait()
        return [one.data["status"] async for one in handle.events() if one.type == "action.result"]

    # The first loop leaves a timer behind that never fires, and is earlier than every limit of the second.
    assert asyncio.run(one()) == ["completed"]
    assert asyncio.run(one()) == ["failed"]


def test_a_policy_of_the_application_is_asked_about_every_call() -> None:
    runs: list[str] = []

    @tool(mode="read")
    async def look(path: str) -> str:
        """Look."""
        runs.append(path)
        return path

    class ByArguments(RulesPolicy):
        def before(self, call: Any, *, is_attended: bool) -> Any:
            if "shadow" in str(call.arguments):
                return DenyDecision(code="no", reason="no", policy_refs=REFS)
            return super().before(call, is_attended=is_attended)

    async def story() -> None:
        script = [call("look", {"path": "/a"}), call("look", {"path": "/etc/shadow"}), say("ok")]
        policy = ByArguments(PolicySet())
        async with AgentRuntime.in_memory(
            [agent(ScriptedModel(script), look)], tool_policy=policy
        ) as runtime:
            await (await runtime.start_run("a", "go")).wait()

    asyncio.run(story())
    assert runs == ["/a"]


@pytest.mark.parametrize(
    ("effect", "kind"),
    [
        (RunTool("c1", "write", {}, "key", 0, 1), CallReturned),
        (CallModel(0, 1), ModelFailed),
        (Compact(CompactionConfig(threshold=1, recent_window_size=1), 0), CompactionBroken),
    ],
)
def test_an_effect_that_is_cancelled_from_outside_has_an_event(effect: Any, kind: type) -> None:
    async def cancelled(_: object) -> Any:
        raise asyncio.CancelledError

    async def story() -> list[Any]:
        tasks = Tasks(FakeClock(), "s-1")
        tasks.start(effect, cancelled)
        await asyncio.wait(tasks.under_way.values())
        return tasks.collect()

    # Without an event the effect would be performed again, and again.
    [event] = asyncio.run(story())
    assert isinstance(event, kind)
