"""Processes on one store: each does what it can and keeps nothing from others."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final

import pytest
from tests.faults.rig import runtime_on
from tests.faults.scene import Scene

from windlass import Agent, AgentRuntime, tool
from windlass.engine.engine import SWEEP_S, SWEPT_MAX
from windlass.errors import Conflict
from windlass.ports.journal import Claim, Standing
from windlass.run_handle import RunHandle
from windlass.runtime_ports import Machine
from windlass.testing import Answer, ScriptedModel, call, say, seeded_random, sequential_ids
from windlass.testing.wrapped_store import WrappedStore
from windlass_protocol import ErrorKind, RetryClass, RunStatus

WAIT_S: Final = 100.0


class SharedStore(WrappedStore):
    """A store that outlives each of its runtimes."""

    async def aclose(self) -> None:
        pass


class IdleStore(SharedStore):
    """A store for a process that takes orders and does nothing."""

    async def claim(self, session_id: str, owner_id: str, *, now_ms: int, must_exist: bool = False) -> Claim:
        raise Conflict("not now", kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.RETRYABLE)


@tool(mode="external")
async def mail() -> str:
    """Send a mail; the default policy asks first."""
    return "sent"


def talks(agent_id: str, gate: asyncio.Event | None = None) -> Agent:
    """An agent that only talks, when the gate lets it."""
    return Agent(agent_id, model=ScriptedModel(lambda _: Answer(f"{agent_id} says", gate=gate)))


def asks(agent_id: str) -> Agent:
    """An agent that asks before it mails."""

    def write(messages: Any) -> Any:
        return say(f"{agent_id} is done") if messages[-1].role == "tool" else call("mail")

    return Agent(agent_id, model=ScriptedModel(write), tools=[mail])


class Street:
    """Processes side by side, on one store and one clock."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.store = SharedStore(scene.store)
        self._count = 0

    def process(self, agents: Iterable[Agent]) -> AgentRuntime:
        self._count += 1
        machine = Machine(self.scene.clock, sequential_ids(f"p{self._count}"), seeded_random(1))
        return runtime_on(self.store, agents, machine=machine)

    async def pause(self, sweeps: int = 3) -> None:
        await self.scene.clock.sleep(sweeps * SWEEP_S)

    async def leave(self, *starts: tuple[str, str, str]) -> None:
        """Acknowledge runs and end before anything is done for them."""
        agents = [talks(agent_id) for agent_id in sorted({start[0] for start in starts})]
        async with runtime_on(IdleStore(self.scene.store), agents) as runtime:
            for agent_id, session_id, run_id in starts:
                await runtime.start(agent_id, "go", session_id=session_id, run_id=run_id)


async def waiting(handle: RunHandle) -> str:
    """Wait until a run asks; return what."""
    async for event in handle.events():
        if event.type == "run.waiting":
            break
    (request,) = await handle.requests()
    return request.request_id


def test_runs_of_two_agents_that_are_queued_in_one_session_are_done_by_the_processes_that_have_them() -> None:
    async def story(scene: Scene) -> None:
        street = Street(scene)
        await street.leave(("A", "s", "a1"), ("B", "s", "b1"), ("A", "s", "a2"))
        async with street.process([talks("A")]) as one, street.process([talks("B")]) as two:
            assert (await one.handle("a1").wait(timeout=WAIT_S)).output == "A says"
            assert (await two.handle("b1").wait(timeout=WAIT_S)).output == "B says"
            assert (await one.handle("a2").wait(timeout=WAIT_S)).output == "A says"

    Scene().play(story)


def test_a_session_that_was_another_agents_once_is_driven_when_its_turn_comes() -> None:
    async def story(scene: Scene) -> None:
        street = Street(scene)
        async with street.process([asks("A")]) as one:
            await street.leave(("B", "s", "b1"))
            await street.pause()
            assert await one.run_status("b1") is RunStatus.PENDING
            async with street.process([talks("B")]) as two:
                assert (await two.handle("b1").wait(timeout=WAIT_S)).output == "B says"
                handle = await one.start("A", "go", session_id="s", run_id="a1")
                request_id = await waiting(handle)
                # Acknowledged by a process that cannot go on with it.
                await two.handle("a1").answer(request_id, "approve")
                assert (await handle.wait(timeout=WAIT_S)).output == "A is done"

    Scene().play(story)


def test_sessions_of_agents_that_are_not_here_hide_no_others() -> None:
    async def story(scene: Scene) -> None:
        street = Street(scene)
        await street.leave(*(("B", f"b{number}", f"b{number}") for number in range(SWEPT_MAX)))
        await street.leave(("A", "mine", "mine"))
        async with street.process([talks("A")]) as one:
            assert (await one.handle("mine").wait(timeout=WAIT_S)).output == "A says"

    Scene().play(story)


def test_a_look_from_a_process_without_the_agent_changes_nothing() -> None:
    async def story(scene: Scene) -> None:
        street = Street(scene)
        async with street.process([asks("A")]) as one:
            request_id = await waiting(await one.start("A", "go", session_id="s", run_id="a1"))
            await street.pause()
        async with street.process([talks("B")]) as two:
            before = await street.store.session("s")
            assert before is not None
            await two.handle("a1").answer(request_id, "deny")
            await street.pause(10)
            after = await street.store.session("s")
            assert after is not None
            assert (after.standing, after.wake_at_ms, after.owner_id) == (Standing.WAITING, None, None)
            assert after.epoch <= before.epoch + 1, "and it is not looked at again and again"
        async with street.process([asks("A")]) as one:
            assert (await one.handle("a1").wait(timeout=WAIT_S)).output == "A is done"

    Scene().play(story)


def test_whose_runs_wait_for_a_process_that_has_their_agent_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(scene: Scene) -> None:
        street = Street(scene)
        await street.leave(("A", "s1", "a1"), ("A", "s2", "a2"), ("B", "s3", "b1"))
        async with street.process([talks("B")]) as two:
            await two.handle("b1").wait(timeout=WAIT_S)
            await two.handle("a1").cancel()
            await street.pause(10)

    with caplog.at_level(logging.WARNING, "windlass"):
        Scene().play(story)
    assert caplog.messages == ["2 unfinished runs wait for agent A, which is not here"]
