"""An orderly close records tool results, whenever the tools end."""

import asyncio
from typing import Any, Final

import pytest
from tests.faults.scene import Scene, agent_of

from windlass import AgentRuntime, tool
from windlass.adapters.journals.memory import MemoryStore
from windlass.testing import ScriptedModel, call, say
from windlass.testing.models import by_history

WAIT_S: Final = 100.0


class KeptStore(MemoryStore):
    """A store that is closed, and opened again."""

    closes = 0

    async def aclose(self) -> None:
        self.closes += 1
        await super().aclose()

    def reopen(self) -> None:
        self._is_closed = False


class Payments:
    """A tool that ends when the test releases it."""

    def __init__(self) -> None:
        self.begun, self.go_on, self.made = asyncio.Event(), asyncio.Event(), 0

    def runtime(self, scene: Scene) -> AgentRuntime:
        @tool(mode="safe_write", effect="once")
        async def pay() -> str:
            """Pay."""
            self.begun.set()
            await self.go_on.wait()
            self.made += 1
            return "paid"

        return scene.runtime([agent_of(ScriptedModel(by_history([call("pay"), say("done")])), [pay])])


async def ended(scene: Scene, payments: Payments) -> tuple[str, int]:
    assert isinstance(scene.store, KeptStore)
    scene.store.reopen()
    async with payments.runtime(scene) as runtime:
        result = await runtime.handle("r1").wait(timeout=WAIT_S)
    return str(result.status), payments.made


@pytest.mark.promise("J5")
@pytest.mark.parametrize("turns", range(8))
def test_a_tool_that_ends_while_the_runtime_is_closed_is_recorded(turns: int) -> None:
    async def story(scene: Scene) -> None:
        payments = Payments()
        runtime = payments.runtime(scene)
        await runtime.start_run("shop", "go", session_id="s1", run_id="r1")
        await payments.begun.wait()
        closing = asyncio.create_task(runtime.aclose())
        for _ in range(turns):
            await asyncio.sleep(0)
        payments.go_on.set()
        await closing
        assert await ended(scene, payments) == ("completed", 1)

    Scene(store=KeptStore()).play(story)


@pytest.mark.promise("J5")
@pytest.mark.parametrize("turns", range(16))
def test_a_tool_that_ended_just_before_the_runtime_is_closed_is_recorded(turns: int) -> None:
    async def story(scene: Scene) -> None:
        payments = Payments()
        runtime = payments.runtime(scene)
        await runtime.start_run("shop", "go", session_id="s1", run_id="r1")
        await payments.begun.wait()
        payments.go_on.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        await runtime.aclose()
        assert await ended(scene, payments) == ("completed", 1)

    Scene(store=KeptStore()).play(story)


@pytest.mark.promise("J5")
def test_two_concurrent_closes_of_a_runtime_wait_for_the_same_end() -> None:
    async def story(scene: Scene) -> None:
        payments = Payments()
        runtime = payments.runtime(scene)
        await runtime.start_run("shop", "go", session_id="s1", run_id="r1")
        await payments.begun.wait()
        closing: list[Any] = [asyncio.create_task(runtime.aclose()) for _ in range(2)]
        await asyncio.sleep(0.5)
        payments.go_on.set()
        await asyncio.gather(*closing)
        assert isinstance(scene.store, KeptStore)
        assert scene.store.closes == 1
        assert await ended(scene, payments) == ("completed", 1)

    Scene(store=KeptStore()).play(story)
