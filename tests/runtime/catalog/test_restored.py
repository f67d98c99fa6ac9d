"""A restored store: what was under way is held until a person releases it."""

from tests.faults.scene import Scene
from tests.runtime.engine.test_owners import WAIT_S, Street

from windlass import Agent, Approval, tool
from windlass.catalog import restored
from windlass.engine.driving.drives import LEFT_MS
from windlass.testing import ScriptedModel, by_history, call, say
from windlass_protocol import RunStatus

PAUSE_S = 2 * LEFT_MS // 1_000


def test_nothing_that_was_under_way_begins_before_it_is_released() -> None:
    paid: list[str] = []

    @tool(mode="external", effect="once")
    async def pay() -> str:
        """Pay."""
        paid.append("paid")
        return "paid"

    agent = Agent("till", model=ScriptedModel(by_history([call("pay"), say("done")])), tools=[pay])

    async def story(scene: Scene) -> None:
        street = Street(scene)
        async with street.process([agent]) as runtime:
            for name in ("a", "b"):
                run = await runtime.start_run(agent, "go", run_id=name, session_id=name)
                async for _ in run.requests():
                    break
        await street.leave(("till", "queued", "queued"))
        # The store is restored from a backup that was made here.
        assert await restored.hold(scene.store) == 3
        assert await restored.hold(scene.store) == 3, "again changes nothing"
        assert await restored.list_held(scene.store) == ["a", "b", "queued"]
        async with street.process([agent]) as runtime:
            for name in ("a", "b"):
                async for request in runtime.handle(name).requests():
                    assert isinstance(request, Approval)
                    await request.approve()
                    break
            await street.pause(PAUSE_S)
            assert paid == []
            assert await runtime.handle("queued").status() is RunStatus.PENDING
            # New sessions go on.
            run = await runtime.start_run(agent, "go", run_id="new")
            async for request in run.requests():
                assert isinstance(request, Approval)
                await request.approve()
                break
            assert (await run.wait(timeout=WAIT_S)).output == "done"
            assert paid == ["paid"]
            await runtime.cancel_run("b")
            assert await restored.release(scene.store, ["a", "nothing"]) == 1
            assert (await runtime.handle("a").wait(timeout=2 * PAUSE_S)).output == "done"
            assert len(paid) == 2
            held = await restored.list_held(scene.store)
            assert held == ["b", "queued"]
            assert await restored.release(scene.store, held) == 2
            assert (await runtime.handle("b").wait(timeout=2 * PAUSE_S)).status is RunStatus.CANCELLED
            async for _ in runtime.handle("queued").requests():
                break
        assert len(paid) == 2

    Scene().play(story)
