"""A run can be cancelled at every moment of its life, and nothing is left of it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from tests.faults.scene import Scene, agent_of, ends_of, records_of

from windlass import Agent, AgentRuntime, ToolContext, tool
from windlass.engine.tasks import GRACE_S
from windlass.runtime.handle import RunHandle
from windlass.testing import ScriptedModel, by_history, call, say
from windlass.testing.stores import WrappedStore
from windlass_protocol import RunStatus

STEPS_MAX: Final = 2_000
"""Turns of the event loop that one run takes at most."""


@dataclass(slots=True)
class Shop:
    """An agent with tools that note how they end."""

    scene: Scene
    begun: list[str] = field(default_factory=list[str])
    done: list[str] = field(default_factory=list[str])
    told: list[str] = field(default_factory=list[str])
    on_begin: Callable[[str], None] = lambda name: None
    runtime: AgentRuntime = field(init=False)

    def agent(self) -> Agent:
        @tool(mode="safe_write", effect="once", description="Take your time.")
        async def work(ctx: ToolContext) -> str:
            self.begun.append(ctx.idempotency_key)
            self.on_begin("work")
            try:
                for _ in range(6):
                    await asyncio.sleep(0)
            except asyncio.CancelledError:
                self.told.append(ctx.idempotency_key)
                raise
            self.done.append(ctx.idempotency_key)
            return "worked"

        @tool(mode="read", effect="read", description="Look.")
        async def look() -> str:
            return "seen"

        @tool(mode="destructive", effect="once", description="Needs consent.")
        async def drop() -> str:
            self.done.append("drop")
            return "dropped"

        @tool(mode="safe_write", effect="once", description="Does not listen.")
        async def stubborn(ctx: ToolContext) -> str:
            self.begun.append(ctx.idempotency_key)
            self.on_begin("stubborn")
            until = self.scene.clock.monotonic() + 60
            while (left := until - self.scene.clock.monotonic()) > 0:
                with suppress(asyncio.CancelledError):
                    await self.scene.clock.sleep(left)
            self.done.append(ctx.idempotency_key)
            return "at last"

        return agent_of(ScriptedModel(self.answer, clock=self.scene.clock), [work, look, drop, stubborn])

    @staticmethod
    def answer(messages: Any) -> Any:
        """Call the tool that the last user message names."""
        at = max(index for index, message in enumerate(messages) if message.role == "user")
        names = str(messages[at].content).split()
        done = sum(message.role == "assistant" for message in messages[at:])
        if done == len(names):
            return say("done")
        parts = [call(name) for name in names[done].split("+")]
        return sum(parts[1:], parts[0])


PLOT: Final = "look work+look work"


async def finish(shop: Shop, runtime: AgentRuntime, agent: Agent, handle: RunHandle) -> str:
    """Check how a run ended, and that the session can be used afterwards."""
    result = await handle.wait(timeout=300)
    records = await records_of(shop.scene.store)
    assert ends_of(records) == [f"run.{result.status}"]
    assert result.status in (RunStatus.CANCELLED, RunStatus.COMPLETED)
    assert sorted([*shop.done, *shop.told]) == sorted(shop.begun), "a tool was not cancelled"
    assert len(shop.begun) == len(set(shop.begun)), "an effect was repeated"
    assert await handle.open_requests() == ()
    begun = len(shop.begun)
    again = await runtime.start_run(agent, "work look", session_id="s1", run_id="r2")
    assert (await again.wait(timeout=300)).status is RunStatus.COMPLETED
    assert len(shop.begun) == begun + 1, "what was cancelled goes on"
    return result.status


def cancel_when(arm: Callable[[Shop, Callable[[], None]], Coroutine[Any, Any, None] | None]) -> str:
    """Run the plot and cancel it when `arm` says so."""

    async def story(scene: Scene) -> str:
        shop = Shop(scene)
        agent = shop.agent()
        async with scene.runtime([agent]) as runtime:
            asked: list[asyncio.Task[None]] = []

            def cancel() -> None:
                asked.append(asyncio.create_task(runtime.cancel_run("r1")))

            shop.runtime = runtime
            waiting = arm(shop, cancel)
            handle = await runtime.start_run(agent, PLOT, session_id="s1", run_id="r1")
            watch = None if waiting is None else asyncio.create_task(waiting)
            status = await finish(shop, runtime, agent, handle)
            if watch is not None:
                await watch
            await asyncio.gather(*asked)
        return status

    return Scene().play(story)


def test_a_run_can_be_cancelled_at_every_turn_of_the_event_loop() -> None:
    ends: list[str] = []
    for turns in range(STEPS_MAX):

        def arm(shop: Shop, cancel: Callable[[], None], turns: int = turns) -> Coroutine[Any, Any, None]:
            async def later() -> None:
                for _ in range(turns):
                    await asyncio.sleep(0)
                cancel()

            return later()

        ends.append(cancel_when(arm))
        if ends[-1] == "completed":
            break
    assert ends[-1] == "completed"
    assert len(ends) > 20
    assert set(ends[:-1]) == {"cancelled"}


def test_a_run_can_be_cancelled_after_each_of_its_records() -> None:
    ends: list[str] = []
    while not ends or ends[-1] == "cancelled":

        def arm(
            shop: Shop, cancel: Callable[[], None], seq: int = len(ends) + 1
        ) -> Coroutine[Any, Any, None]:
            async def watch() -> None:
                stream = shop.runtime.sessions.subscribe("s1")
                async for event in stream:
                    if (event.seq or 0) >= seq:
                        cancel()
                        break
                await stream.aclose()

            return watch()

        ends.append(cancel_when(arm))
    assert len(ends) > 20


@pytest.mark.parametrize("count", [1, 2])
def test_a_run_can_be_cancelled_when_a_tool_has_just_begun(count: int) -> None:
    def arm(shop: Shop, cancel: Callable[[], None]) -> None:
        shop.on_begin = lambda name: cancel() if len(shop.begun) == count else None

    assert cancel_when(arm) == "cancelled"


def test_a_tool_that_ignores_cancellation_delays_the_run_by_the_grace_at_most() -> None:
    async def story(scene: Scene) -> None:
        shop = Shop(scene)
        agent = shop.agent()
        async with scene.runtime([agent]) as runtime:
            handle = await runtime.start_run(agent, "stubborn", session_id="s1", run_id="r1")
            begun = asyncio.Event()
            shop.on_begin = lambda name: begun.set()
            await begun.wait()
            asked = scene.clock.monotonic()
            await handle.cancel()
            assert (await handle.wait(timeout=300)).status is RunStatus.CANCELLED
            assert scene.clock.monotonic() - asked == pytest.approx(GRACE_S)
            assert shop.done == []
            again = await runtime.start_run(agent, "work", session_id="s1", run_id="r2")
            assert (await again.wait(timeout=300)).status is RunStatus.COMPLETED
            await scene.clock.sleep(100)
            assert ends_of(await records_of(scene.store)) == ["run.cancelled"]

    Scene().play(story)


def test_the_grace_of_a_cancelled_run_does_not_end_the_next_one() -> None:
    async def story(scene: Scene) -> None:
        shop = Shop(scene)
        slow = asyncio.Event()

        @tool(mode="safe_write", effect="once", description="Takes longer than the grace.")
        async def linger(ctx: ToolContext) -> str:
            shop.begun.append(ctx.idempotency_key)
            slow.set()
            await scene.clock.sleep(3 * GRACE_S)
            shop.done.append(ctx.idempotency_key)
            return "lingered"

        agent = agent_of(ScriptedModel(Shop.answer), [linger])
        async with scene.runtime([agent]) as runtime:
            first = await runtime.start_run(agent, "linger", session_id="s1", run_id="r1")
            second = await runtime.start_run(agent, "linger", session_id="s1", run_id="r2")
            await slow.wait()
            await first.cancel()
            assert (await first.wait(timeout=300)).status is RunStatus.CANCELLED
            assert (await second.wait(timeout=300)).status is RunStatus.COMPLETED
            assert shop.begun == ["r1/0/call-1", "r2/0/call-2"]
            third = await runtime.start_run(agent, "linger", session_id="s1", run_id="r3")
            slow.clear()
            await slow.wait()
            await third.cancel()
            assert (await third.wait(timeout=300)).status is RunStatus.CANCELLED
            assert shop.done == ["r2/0/call-2"]

    Scene().play(story)


def test_a_run_that_waits_for_consent_can_be_cancelled() -> None:
    async def story(scene: Scene) -> None:
        shop = Shop(scene)
        agent = shop.agent()
        async with scene.runtime([agent]) as runtime:
            handle = await runtime.start_run(agent, "drop", session_id="s1", run_id="r1")
            async for event in handle.events():
                if event.type == "run.waiting":
                    await handle.cancel(by="somebody", reason="no longer wanted")
            assert await finish(shop, runtime, agent, handle) == "cancelled"
            assert shop.done.count("drop") == 0

    Scene().play(story)


def test_a_run_that_is_queued_behind_another_can_be_cancelled() -> None:
    async def story(scene: Scene) -> None:
        shop = Shop(scene)
        agent = shop.agent()
        async with scene.runtime([agent]) as runtime:
            first = await runtime.start_run(agent, "work work", session_id="s1", run_id="r0")
            queued = await runtime.start_run(agent, "work", session_id="s1", run_id="r1")
            await queued.cancel()
            assert (await first.wait(timeout=300)).status is RunStatus.COMPLETED
            assert len(shop.begun) == 2
            assert await finish(shop, runtime, agent, queued) == "cancelled"

    Scene().play(story)


@pytest.mark.parametrize("is_waiting", [True, False], ids=["waiting", "running"])
def test_a_run_can_be_cancelled_after_a_restart(is_waiting: bool) -> None:
    async def story(scene: Scene) -> None:
        shop = Shop(scene)
        agent = shop.agent()
        store = scene.store
        scene.store = KeptStore(store)
        async with scene.runtime([agent]) as runtime:
            message = "drop" if is_waiting else "stubborn"
            begun = asyncio.Event()
            shop.on_begin = lambda name: begun.set()
            handle = await runtime.start_run(agent, message, session_id="s1", run_id="r1")
            if is_waiting:
                async for event in handle.events():
                    if event.type == "run.waiting":
                        break
            else:
                await begun.wait()
        shop.begun.clear()
        async with scene.runtime([agent]) as runtime:
            handle = runtime.handle("r1")
            await handle.cancel()
            assert await finish(shop, runtime, agent, handle) == "cancelled"
            await scene.clock.sleep(100)
            shop.done.clear()

    Scene().play(story)


def test_cancelling_twice_or_after_the_end_changes_nothing() -> None:
    async def story(scene: Scene) -> None:
        shop = Shop(scene)
        agent = shop.agent()
        async with scene.runtime([agent]) as runtime:
            handle = await runtime.start_run(agent, "work", session_id="s1", run_id="r1")
            await asyncio.gather(handle.cancel(by="a"), handle.cancel(by="b"), handle.cancel())
            assert await finish(shop, runtime, agent, handle) == "cancelled"
            await handle.cancel()
            assert ends_of(await records_of(scene.store)) == ["run.cancelled"]

    Scene().play(story)


def test_cancelling_signals_a_tool_in_a_thread_and_the_thread_ends() -> None:
    told, begun = threading.Event(), threading.Event()

    @tool(mode="safe_write", effect="once", description="Looks whether it is wanted.")
    def patient(ctx: ToolContext) -> str:
        begun.set()
        while not ctx.is_cancelled:
            threading.Event().wait(0.001)
        told.set()
        return "stopped"

    async def main() -> None:
        agent = agent_of(ScriptedModel(by_history([call("patient"), say("done")])), [patient])
        async with asyncio.timeout(300), AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            assert await asyncio.to_thread(begun.wait, 300)
            await handle.cancel()
            assert (await handle.wait(timeout=300)).status is RunStatus.CANCELLED
            assert await asyncio.to_thread(told.wait, 300)

    asyncio.run(main())


class KeptStore(WrappedStore):
    """A store that outlives the runtime that was opened on it."""

    async def aclose(self) -> None:
        """Keep it open."""
