"""Processes that come and go in the middle of one model call."""

import asyncio
from typing import Final

from tests.faults.scene import Scene, agent_of, records_of

from windlass.testing import Answer, ScriptedModel, say
from windlass.testing.stores import WrappedStore
from windlass_harness.loop.rules import INTERRUPTIONS_MAX
from windlass_protocol import RunStatus

REDEPLOYS: Final = 3 * INTERRUPTIONS_MAX


class KeptStore(WrappedStore):
    """A store that outlives its runtimes."""

    async def aclose(self) -> None:
        pass


def test_a_run_survives_any_number_of_orderly_redeploys_in_one_model_call() -> None:
    async def story(scene: Scene) -> tuple[str, list[str]]:
        inner = scene.store
        scene.store = KeptStore(inner)
        slow = agent_of(ScriptedModel([Answer("never", gate=asyncio.Event())]))
        async with scene.runtime([slow]) as runtime:
            await runtime.start(slow, "go", session_id="s1", run_id="r1")
            await scene.clock.sleep(1)
        for _ in range(REDEPLOYS):
            slow = agent_of(ScriptedModel([Answer("never", gate=asyncio.Event())]))
            async with scene.runtime([slow]):
                await scene.clock.sleep(1)
        agent = agent_of(ScriptedModel([say("done")]))
        async with scene.runtime([agent]) as runtime:
            result = await runtime.handle("r1").wait(timeout=300)
        retries = [one for one in await records_of(inner) if one.type == "step.retrying"]
        return result.status, [str(one.data["code"]) for one in retries]

    status, codes = Scene().play(story)
    assert status == RunStatus.COMPLETED
    assert codes == ["handed_over"] * (REDEPLOYS + 1)
