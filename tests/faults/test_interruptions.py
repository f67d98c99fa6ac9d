"""Processes that come and go in the middle of one model call."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.faults.scene import Scene, agent_of, records_of

from windlass.testing import Answer, ScriptedModel, say
from windlass.testing.stores import WrappedStore
from windlass_harness.loop.outage import ISOLATED_INTERRUPTIONS_MAX
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
            await runtime.start_run(slow, "go", session_id="s1", run_id="r1")
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


CRASHING: Final = """
import asyncio, os, sys
from windlass import Agent, AgentRuntime
from windlass.testing import ScriptedModel, say

class Bomb(ScriptedModel):
    "A model that ends its process."
    async def stream(self, messages, **options):
        os._exit(9)
        yield

class Slow(ScriptedModel):
    "A model that takes a moment."
    async def stream(self, messages, **options):
        await asyncio.sleep(0.2)
        async for chunk in super().stream(messages, **options):
            yield chunk

async def main():
    bomb = Agent("bomb", model=Bomb([]))
    slow = Agent("slow", model=Slow(lambda _: say("done")))
    async with AgentRuntime.open(sys.argv[1], agents=[bomb, slow], durability="process") as runtime:
        handles = [await runtime.start_run("bomb", "go", session_id="bomb", run_id="bomb")]
        for n in range(3):
            handles.append(await runtime.start_run("slow", "go", session_id=f"s{n}", run_id=f"s{n}"))
        results = [await handle.wait() for handle in handles]
        print([result.status.value for result in results])

asyncio.run(main())
"""


def test_a_run_that_ends_every_process_fails_alone_and_the_others_complete(tmp_path: Path) -> None:
    store, said, lives = tmp_path / "a.db", "", 0
    while not said:
        lives += 1
        assert lives < 60, "the processes end for ever"
        done = subprocess.run(
            [sys.executable, "-c", CRASHING, str(store)], capture_output=True, text=True, check=False
        )
        assert done.returncode in (0, 9), done.stderr
        said = done.stdout.strip()
    assert said == "['failed', 'completed', 'completed', 'completed']"
    assert lives == ISOLATED_INTERRUPTIONS_MAX + 1
