"""Versions of workflows: a run goes on in a process that has its version, while one lives."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from tests.faults.rig import runtime_on
from tests.faults.scene import Scene
from tests.runtime.engine.test_owners import WAIT_S, IdleStore, Street

from windlass import Interrupted, RunHandle, tool
from windlass.engine.driving.drives import LEFT_MS
from windlass.engine.driving.engine import SWEEP_S
from windlass.limits import OWNER_LEASE_MS
from windlass.ports.documents import WORKFLOWS, Document
from windlass.workflow import Workflow, WorkflowContext, workflow

DONE: list[str] = []


@tool(mode="safe_write", effect="idempotent")
async def note(words: str) -> str:
    """Note words."""
    DONE.append(words)
    return words


def job(version: str, *, first: str = "first") -> Workflow[Any, Any, Any]:
    @workflow(name="job", version=version, tools=[note])
    async def run_job(ctx: WorkflowContext) -> str:
        await ctx.call(note, first)
        answer = await ctx.ask("Go on?")
        return f"{version} after {answer}"

    return run_job


async def asked(run: RunHandle) -> Any:
    async for request in run.requests():
        return request
    raise AssertionError("it asks")


def play(story: Callable[[Scene, Street], Any]) -> None:
    async def scene_of(scene: Scene) -> None:
        DONE.clear()
        await story(scene, Street(scene))

    Scene().play(scene_of)


def test_a_run_is_left_to_a_living_process_with_its_version_by_one_with_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(scene: Scene, street: Street) -> None:
        async with street.process([job("1")]) as old:
            await old.start_run("job", "go", session_id="s", run_id="r")
            await asked(old.handle("r"))
            await street.pause()
            async with street.process([job("2")]) as new:
                # Its own process drives it first, and leaves it.
                await (await asked(new.handle("r"))).reply("yes")
                assert (await old.handle("r").wait(timeout=WAIT_S)).output == "1 after yes"
                # A start that the process with another version accepts is of that version.
                await new.start_run("job", "go", session_id="s2", run_id="r2")
                await (await asked(new.handle("r2"))).reply("yes")
                assert (await new.handle("r2").wait(timeout=WAIT_S)).output == "2 after yes"

    with caplog.at_level(logging.WARNING, "windlass"):
        play(story)
    told = [line for line in caplog.messages if "session s waits for another process" in line]
    assert told == [
        "session s waits for another process: it has a run of version job@1 of agent job, which "
        "another process has; this one has job@2"
    ]


def test_a_start_is_left_to_the_version_that_accepted_it_while_a_process_has_it() -> None:
    async def story(scene: Scene, street: Street) -> None:
        async with street.process([job("1")]) as old:
            async with runtime_on(IdleStore(scene.store), [job("2")], machine=street.machine()) as new:
                await new.start_run("job", "go", session_id="s", run_id="r")
                await street.pause(2 * LEFT_MS // 1000)
                assert DONE == []
            await (await asked(old.handle("r"))).reply("yes")
            assert (await old.handle("r").wait(timeout=WAIT_S)).output == "1 after yes"

    play(story)


def test_what_a_process_that_has_died_declared_keeps_no_run() -> None:
    async def story(scene: Scene, street: Street) -> None:
        async with street.process([job("1")]) as old:
            await old.start_run("job", "go", session_id="s", run_id="r")
            await asked(old.handle("r"))
        async with street.process([job("2")]) as new:
            await scene.store.put_document(Document(WORKFLOWS, "dead", 1, {"versions": ["job@1"]}))
            await (await asked(new.handle("r"))).reply("yes")
            assert (await new.handle("r").wait(timeout=SWEEP_S)).output == "2 after yes"

    play(story)


def test_a_run_is_taken_when_no_process_with_its_version_lives_and_its_records_decide() -> None:
    async def story(scene: Scene, street: Street) -> None:
        async with street.process([job("1")]) as old:
            for name in ("same", "other"):
                await old.start_run("job", "go", session_id=name, run_id=name)
                await asked(old.handle(name))
            async with street.process([job("2")]) as new:
                await (await asked(new.handle("same"))).reply("no")
                assert (await old.handle("same").wait(timeout=WAIT_S)).output == "1 after no"
        async with street.process([job("2", first="second")]) as new:
            await (await asked(new.handle("other"))).reply("yes")
            request = await asked(new.handle("other"))
            assert isinstance(request, Interrupted)
            assert 'Call 0 was note({"words":"first"}), and is note({"words":"second"})' in request.prompt
        async with street.process([job("3")]) as same:
            await (await asked(same.handle("other"))).retry(by="ann")
            assert (await same.handle("other").wait(timeout=WAIT_S)).output == "3 after yes"
        assert DONE == ["first", "first"]

    play(story)


def test_a_process_that_stood_still_declares_its_versions_again_and_what_the_dead_declared_is_removed() -> (
    None
):
    async def story(scene: Scene, street: Street) -> None:
        async def declared() -> list[object]:
            documents = await scene.store.documents(WORKFLOWS)
            return [document.body["versions"] for document in documents]

        async with street.process([job("1")]):
            assert await declared() == [["job@1"]]
            scene.clock.jump(OWNER_LEASE_MS / 1000 + 1)
            now_ms = int(scene.clock.now().timestamp() * 1000)
            await scene.store.enlist("rival", now_ms=now_ms)
            assert await scene.store.living(now_ms=now_ms) == {"rival"}
            async with street.process([job("2")]):
                await street.pause(LEFT_MS // 1000)
                assert sorted(map(str, await declared())) == ["['job@1']", "['job@2']"]
        assert await declared() == []

    play(story)
