"""Processes on one store: each drives the runs of its agents and blocks no other."""

import asyncio
import logging
from collections.abc import Collection, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

import pytest
from tests.faults.rig import runtime_on
from tests.faults.scene import Scene, records_of

from windlass import Agent, AgentRuntime, LLMProvider, tool
from windlass.agent.package import compile_package
from windlass.agent.policy import allow_start
from windlass.engine.clocks import PauseClock
from windlass.engine.driving.engine import SWEEP_S, SWEPT_MAX
from windlass.engine.effects import Effects
from windlass.errors import Conflict
from windlass.feed import Feed
from windlass.limits import OWNER_LEASE_MS
from windlass.ports.journal import Claim, Standing
from windlass.ports.machine import Machine
from windlass.runtime.handle import RunHandle
from windlass.testing import Answer, FakeClock, ScriptedModel, call, say, seeded_random, sequential_ids
from windlass.testing.stores import WrappedStore
from windlass_harness.loop.rules import DEFAULT_RULES, Rules
from windlass_protocol import ErrorKind, RetryClass, RunRequest, RunStatus, RuntimePackage

WAIT_S: Final = 100.0


class SharedStore(WrappedStore):
    """A store that outlives each of its runtimes."""

    async def aclose(self) -> None:
        pass


class IdleStore(SharedStore):
    """A store for a process that takes orders and does nothing."""

    async def claim(self, session_id: str, owner_id: str, *, now_ms: int) -> Claim:
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
        self.store: SharedStore = SharedStore(scene.store)
        self._count = 0

    def machine(self) -> Machine:
        self._count += 1
        return Machine(self.scene.clock, sequential_ids(f"p{self._count}"), seeded_random(1))

    def process(self, agents: Iterable[Agent]) -> AgentRuntime:
        return runtime_on(self.store, agents, machine=self.machine())

    async def pause(self, sweeps: int = 3) -> None:
        await self.scene.clock.sleep(sweeps * SWEEP_S)

    async def leave(self, *starts: tuple[str, str, str]) -> None:
        """Acknowledge runs and end before anything is done for them."""
        agents = [talks(agent_id) for agent_id in sorted({start[0] for start in starts})]
        async with runtime_on(IdleStore(self.scene.store), agents) as runtime:
            for agent_id, session_id, run_id in starts:
                await runtime.start_run(agent_id, "go", session_id=session_id, run_id=run_id)


async def waiting(handle: RunHandle) -> str:
    """Wait until a run asks; return what."""
    async for event in handle.events():
        if event.type == "run.waiting":
            break
    (request,) = await handle.open_requests()
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
            assert await one.handle("b1").status() is RunStatus.PENDING
            async with street.process([talks("B")]) as two:
                assert (await two.handle("b1").wait(timeout=WAIT_S)).output == "B says"
                handle = await one.start_run("A", "go", session_id="s", run_id="a1")
                request_id = await waiting(handle)
                # Acknowledged by a process that cannot go on with it.
                await two.handle("a1").answer(request_id, "approve")
                assert (await handle.wait(timeout=WAIT_S)).output == "A is done"

    Scene().play(story)


def test_an_answer_that_waits_for_the_agent_is_shown_as_one_and_no_other_is_taken() -> None:
    async def story(scene: Scene) -> None:
        street = Street(scene)
        async with street.process([asks("A")]) as one:
            request_id = await waiting(await one.start_run("A", "go", session_id="s", run_id="a1"))
            (request,) = await one.sessions.open_requests("s")
            assert request.is_answered is None
        async with street.process([talks("B")]) as two:
            await two.handle("a1").answer(request_id, "approve")
            (request,) = await two.sessions.open_requests("s")
            assert request.is_answered
            (request,) = await two.handle("a1").open_requests()
            assert request.is_answered
            words = r"answered already \(approve\), at \S+; the answer waits for a process with agent A"
            with pytest.raises(Conflict, match=words):
                await two.handle("a1").answer(request_id, "deny")
        async with street.process([asks("A")]) as one:
            assert (await one.handle("a1").wait(timeout=WAIT_S)).output == "A is done"

    Scene().play(story)


async def speak(scene: Scene, agent_id: str) -> None:
    """Acknowledge words to an empty session and end before anything is done."""
    await scene.store.enlist("founder", now_ms=0)
    await scene.store.claim("s", "founder", now_ms=0)
    await scene.store.retire("founder")
    async with runtime_on(IdleStore(scene.store), [talks(agent_id)]) as gone:
        await gone.steer(agent_id, "do not forget me", session_id="s", message_id="m1")


def test_a_message_that_starts_a_run_waits_for_a_process_with_its_agent() -> None:
    async def story(scene: Scene) -> None:
        street = Street(scene)
        await speak(scene, "B")
        async with street.process([talks("A")]):
            await street.pause(100)
            row = await street.store.session("s")
            assert row is not None
            assert (row.last_seq, row.owner_id) == (0, None)
            assert row.epoch <= 6, "and it is not looked at again and again"
            async with street.process([talks("B")]) as two:
                await street.pause()
                words = two.handle("steer/s/m1")
                assert (await words.wait(timeout=WAIT_S)).output == "B says"

    Scene().play(story)


def test_a_message_for_an_agent_of_another_process_blocks_no_run_and_reaches_it() -> None:
    async def story(scene: Scene) -> None:
        street = Street(scene)
        await speak(scene, "B")
        async with street.process([talks("A")]) as one:
            queued = await one.start_run("A", "go", session_id="s", run_id="a1")
            assert (await queued.wait(timeout=WAIT_S)).output == "A says"
            said = [one.data for one in await records_of(scene.store, "s") if one.type == "message.received"]
            assert [(one["message"], one.get("delivery")) for one in said] == [
                ("go", None),
                ("do not forget me", "steer"),
            ]

    Scene().play(story)


def test_a_run_of_an_unavailable_agent_can_be_cancelled_and_blocks_no_other() -> None:
    async def story(scene: Scene) -> None:
        street = Street(scene)
        async with street.process([asks("A")]) as one:
            await waiting(await one.start_run("A", "go", session_id="s", run_id="a1"))
            await one.start_run("A", "go", session_id="s", run_id="a2")
        async with street.process([talks("B")]) as two:
            await two.start_run("B", "go", session_id="s", run_id="b1")
            await two.handle("a1").cancel(by="ann")
            await two.handle("a2").cancel()
            await street.pause(5)
            row = await street.store.run("a1")
            assert row is not None
            assert row.status is RunStatus.WAITING, "another process may have the agent"
        async with street.process([talks("B")]) as two:
            assert (await two.handle("a1").wait(timeout=WAIT_S)).status is RunStatus.CANCELLED
            assert (await two.handle("a2").wait(timeout=WAIT_S)).status is RunStatus.CANCELLED
            assert (await two.handle("b1").wait(timeout=WAIT_S)).output == "B says"

    Scene().play(story)


def test_a_cancel_shows_at_once_while_no_process_has_the_agent() -> None:
    async def story(scene: Scene) -> None:
        street = Street(scene)
        async with street.process([asks("A")]) as one:
            request_id = await waiting(await one.start_run("A", "go", session_id="s", run_id="a1"))
            await one.start_run("A", "go", session_id="s", run_id="a2")
        async with street.process([talks("B")]) as two:
            for run_id in ("a1", "a2"):
                handle = two.handle(run_id)
                await handle.cancel()
                snapshot = await two.run_snapshot(run_id)
                assert (snapshot.status, snapshot.cancellation_requested) == (RunStatus.CANCELLING, True)
                assert await handle.status() is RunStatus.CANCELLING
            assert await two.handle("a1").open_requests() == ()
            with pytest.raises(Conflict, match="the run was cancelled, which closed its requests"):
                await two.handle("a1").answer(request_id, "approve")
        async with street.process([asks("A")]) as one:
            assert (await one.handle("a1").wait(timeout=WAIT_S)).status is RunStatus.CANCELLED
            assert (await one.run_snapshot("a1")).status is RunStatus.CANCELLED
            assert await one.handle("a1").status() is RunStatus.CANCELLED

    Scene().play(story)


def test_cancelling_a_queued_run_does_not_end_the_run_of_an_unavailable_agent_before_it() -> None:
    async def story(scene: Scene) -> None:
        street = Street(scene)
        async with street.process([asks("A")]) as one:
            request_id = await waiting(await one.start_run("A", "go", session_id="s", run_id="a1"))
            await one.start_run("A", "go", session_id="s", run_id="a2")
        async with street.process([talks("B")]) as two:
            await two.handle("a2").cancel()
            await street.pause(100)
            row = await street.store.session("s")
            assert row is not None
            assert row.epoch <= 8, "and it is not looked at again and again"
        async with street.process([asks("A")]) as one:
            assert (await one.handle("a2").wait(timeout=WAIT_S)).status is RunStatus.CANCELLED
            await one.handle("a1").answer(request_id, "approve")
            assert (await one.handle("a1").wait(timeout=WAIT_S)).output == "A is done"

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
            request_id = await waiting(await one.start_run("A", "go", session_id="s", run_id="a1"))
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


def test_runs_that_wait_for_an_unavailable_agent_are_logged_once(
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
    assert caplog.messages == ["2 unfinished runs wait for agent A, which this process does not have"]


def test_a_process_without_agents_only_answers_and_is_not_warned(caplog: pytest.LogCaptureFixture) -> None:
    async def story(scene: Scene) -> None:
        street = Street(scene)
        async with street.process([asks("A")]) as one:
            await waiting(await one.start_run("A", "go", session_id="s", run_id="a1"))
        with caplog.at_level(logging.INFO):
            async with street.process([]):
                await street.pause()

    Scene().play(story)
    told = [(one.levelname, one.message) for one in caplog.records if "unfinished" in one.message]
    assert told == [("INFO", "1 unfinished run waits for agent A, which this process does not have")]


class Shelf:
    """A resolver that has the package of one agent."""

    def __init__(self, agent: Agent) -> None:
        self._package = compile_package(agent)

    def resolve(self, package_id: str) -> RuntimePackage:
        return self._package


def test_a_process_without_the_model_does_not_block_the_session_for_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(scene: Scene) -> None:
        street, shelf = Street(scene), Shelf(Agent("A", model="lab/model"))

        def process(name: str, providers: dict[str, LLMProvider]) -> AgentRuntime:
            builder = AgentRuntime.builder().journal(street.store).content(street.store)
            builder.event_bus(Feed(street.store, scene.clock)).policy(allow_start).package_resolver(shelf)
            builder.options(clock=scene.clock, ids=sequential_ids(name), random=seeded_random(1))
            return builder.providers(providers).build()

        gate = asyncio.Event()
        async with process("without", {}):
            async with process("one", {"lab": ScriptedModel(lambda _: Answer("x", gate=gate))}) as one:
                package_id = shelf.resolve("").package_id
                asked = RunRequest(
                    run_id="r", agent_id="A", input="go", session_id="s", package_id=package_id
                )
                await one.start_run(asked)
                await street.pause()
            await street.pause(100)
            row = await street.store.session("s")
            assert row is not None
            assert row.owner_id is None
            assert row.epoch <= 6, "and it does not look again and again"
            async with process("again", {"lab": ScriptedModel(lambda _: say("done"))}) as again:
                assert (await again.handle("r").wait(timeout=WAIT_S)).output == "done"

    with caplog.at_level(logging.WARNING, "windlass"):
        Scene().play(story)
    (told,) = caplog.messages
    assert told.startswith(
        "session s waits for another process: missing provider adapter for package route lab; "
    )


class Till:
    """A tool that takes its time, one call after another."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.gate = asyncio.Event()

    def agent(self) -> Agent:
        @tool(mode="safe_write", effect="once", concurrency=1)
        async def pay(number: int) -> str:
            """Pay a bill."""
            self.begun.append(number)
            await self.gate.wait()
            return "paid"

        def write(messages: Any) -> Any:
            asked = call("pay", {"number": 1}) + call("pay", {"number": 2})
            return say("done") if messages[-1].role == "tool" else asked

        return Agent("A", model=ScriptedModel(write), tools=[pay])

    async def stop(self, scene: Scene) -> None:
        """Suspend a process during its first call for longer than its lease."""
        while not self.begun:
            await scene.clock.sleep(0.01)
        scene.clock.jump(OWNER_LEASE_MS / 1000 + 1)


async def turns(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_an_owner_that_was_replaced_while_it_stood_still_begins_nothing_more() -> None:
    async def story(scene: Scene) -> None:
        street, till = Street(scene), Till()
        async with street.process([till.agent()]) as one:
            await one.start_run("A", "go", session_id="s", run_id="r")
            await till.stop(scene)
            now_ms = int(scene.clock.now().timestamp() * 1000)
            await street.store.enlist("rival", now_ms=now_ms)
            assert await street.store.due(now_ms=now_ms) == ("s",)
            await street.store.claim("s", "rival", now_ms=now_ms)
            till.gate.set()
            await turns()
            assert till.begun == [1]
            await street.pause()
            assert till.begun == [1]
            row = await street.store.session("s")
            assert row is not None
            assert row.owner_id == "rival"
            feed: Any = one.events()
            assert list(feed.live_steps("s", -1)) == [], "and shows nothing more of it"

    Scene().play(story)


def test_an_owner_that_stood_still_and_was_not_replaced_goes_on() -> None:
    async def story(scene: Scene) -> None:
        street, till = Street(scene), Till()
        async with street.process([till.agent()]) as one:
            handle = await one.start_run("A", "go", session_id="s", run_id="r")
            await till.stop(scene)
            till.gate.set()
            await turns()
            assert till.begun == [1], "not before its ownership is confirmed"
            assert (await handle.wait(timeout=WAIT_S)).output == "done"
            assert till.begun == [1, 2]

    Scene().play(story)


class SlowStore(SharedStore):
    """A store with delayed lease renewals, if the test says so."""

    gate: asyncio.Event | None = None

    async def enlist(self, owner_id: str, *, now_ms: int) -> None:
        if self.gate is not None:
            await self.gate.wait()
        await self.inner.enlist(owner_id, now_ms=now_ms)


def test_an_owner_with_a_delayed_renewal_starts_no_effect_in_a_session_taken_by_another() -> None:
    async def story(scene: Scene) -> None:
        street, thought, begun = Street(scene), asyncio.Event(), list[str]()
        street.store = slow = SlowStore(scene.store)

        @tool(mode="read")
        async def look() -> str:
            """Look at something."""
            begun.append("look")
            return "seen"

        model = ScriptedModel(lambda _: replace(call("look"), gate=thought))
        async with street.process([Agent("A", model=model, tools=[look])]) as one:
            await one.start_run("A", "go", session_id="s", run_id="r")
            await turns()
            # The renewal is sent in time, and reaches the store after the lease has ended.
            slow.gate = gate = asyncio.Event()
            await scene.clock.sleep(0.3 * OWNER_LEASE_MS / 1_000)
            scene.clock.jump(0.8 * OWNER_LEASE_MS / 1_000)
            thought.set()
            await turns()
            assert begun == [], "not before its ownership is confirmed"
            now_ms = int(scene.clock.now().timestamp() * 1000)
            await slow.inner.enlist("rival", now_ms=now_ms)
            await slow.inner.claim("s", "rival", now_ms=now_ms)
            gate.set()
            await turns()
            assert begun == []

    Scene().play(story)


class OddStore(SharedStore):
    """A store with a defect that shows once."""

    is_odd = False

    async def due(
        self, *, now_ms: int, limit: int = 100, agents: Collection[str] | None = None
    ) -> tuple[str, ...]:
        if self.is_odd:
            raise ZeroDivisionError
        return await super().due(now_ms=now_ms, limit=limit, agents=agents)


def test_an_exception_while_looking_for_work_does_not_stop_the_sweep(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(scene: Scene) -> None:
        street = Street(scene)
        street.store = store = OddStore(scene.store)
        async with street.process([talks("A")]) as one:
            store.is_odd = True
            await street.pause(5)
            store.is_odd = False
            await street.leave(("A", "s", "a1"))
            assert (await one.handle("a1").wait(timeout=WAIT_S)).output == "A says"

    with caplog.at_level(logging.WARNING, "windlass"):
        Scene().play(story)
    assert caplog.messages == ["store unreachable, sessions not swept: ZeroDivisionError"]


def test_an_item_of_a_newer_release_is_left_for_it(caplog: pytest.LogCaptureFixture) -> None:
    async def story(scene: Scene) -> None:
        street = Street(scene)
        async with street.process([talks("A")]) as one:
            await street.store.post("s", kind="sing", key="k1", body={})
            handle = await one.start_run("A", "go", session_id="s", run_id="a1")
            assert (await handle.wait(timeout=WAIT_S)).output == "A says"
            await street.pause(10)
            (item,) = await street.store.pending("s")
            assert item.kind == "sing"
            row = await street.store.session("s")
            assert row is not None
            assert row.epoch <= 3, "and it is not looked at again and again"

    with caplog.at_level(logging.WARNING, "windlass"):
        Scene().play(story)
    assert len(caplog.messages) == 1
    assert "unknown kind of inbox item" in caplog.messages[0]


def test_a_cancel_is_taken_by_its_own_run_among_similar_ids() -> None:
    async def story(scene: Scene) -> None:
        gate = asyncio.Event()
        async with Street(scene).process([talks("A", gate)]) as one:
            handle = await one.start_run("A", "go", session_id="s", run_id="x")
            long = await one.start_run("A", "go", session_id="s", run_id="y" * 512)
            await one.start_run("A", "go", session_id="s", run_id="cancel:x")
            await handle.cancel()
            assert (await handle.wait(timeout=WAIT_S)).status is RunStatus.CANCELLED
            await long.cancel()
            assert (await long.wait(timeout=WAIT_S)).status is RunStatus.CANCELLED

    Scene().play(story)


def same(rules: Rules) -> Rules:
    return rules


def test_a_run_that_is_delivered_and_the_next_one_are_both_bound_once() -> None:
    async def story() -> None:
        bound: list[str] = []

        async def bind(run: Any) -> Any:
            bound.append(run.run_id)
            return SimpleNamespace(rules_from=same, four_eyes=False, responders=None)

        unused: Any = SimpleNamespace(spend_limits=None)
        writer: Any = SimpleNamespace(session_id="s1")
        work = Effects(bind, writer, shared=unused, pause_clock=PauseClock(FakeClock(), {}))
        for run_id in ("r1", "r2", "r1", "r2", "r3", "r2"):
            run: Any = SimpleNamespace(run_id=run_id, budget=None)
            assert await work.rules(run, DEFAULT_RULES) == DEFAULT_RULES
        assert bound == ["r1", "r2", "r3"]

    asyncio.run(story())
