"""Queued runs: read once, kept in bounded memory, and cancelled at any place of the queue."""

import asyncio
from typing import Final

import pytest
from tests.faults.scene import Scene, agent_of

from windlass.adapters.journals.memory import MemoryStore
from windlass.adapters.system import SystemClock
from windlass.engine.driving.engine import SWEEP_S
from windlass.engine.driving.inbox import PAGE_ITEMS, Intake, Mailbox
from windlass.engine.writing.writer import Lost
from windlass.limits import INBOX_STARTS_MAX
from windlass.ports.inbox import InboxItem
from windlass.ports.journal import Batch
from windlass.testing import Answer, FakeClock, ScriptedModel, run_in_fake_time
from windlass.testing.stores import WrappedStore
from windlass_harness.loop.subagents import START
from windlass_protocol import JsonObject, RunStatus

WAIT_S: Final = 100.0


class ReadStore(WrappedStore):
    """A store that counts the items read, and that another process writes to."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.read_item_count = 0
        self.looks: list[str] = []
        self.changes = 0

    async def pending(self, session_id: str, *, after: int = 0, limit: int = 64) -> tuple[InboxItem, ...]:
        items = await super().pending(session_id, after=after, limit=limit)
        self.read_item_count += len(items)
        self.looks.append(session_id)
        return items

    async def change_token(self) -> int:
        self.changes += 1
        return self.changes


def talker(gate: asyncio.Event) -> ScriptedModel:
    return ScriptedModel(lambda messages: Answer(f"heard {len(messages[-1].content)}", gate=gate))


def test_a_drive_reads_each_item_of_the_inbox_once() -> None:
    async def story(scene: Scene) -> None:
        store, gate = ReadStore(), asyncio.Event()
        scene.store = store
        async with scene.runtime([agent_of(talker(gate))]) as runtime:
            handle = await runtime.start_run("shop", "x", session_id="s1")
            gate.set()
            assert (await handle.wait(timeout=WAIT_S)).status is RunStatus.COMPLETED
        assert store.read_item_count == 1

    Scene().play(story)


def test_of_the_runs_that_are_queued_only_the_next_one_is_held_whole() -> None:
    async def story() -> None:
        store, clock = MemoryStore(), FakeClock()
        for index in range(2 * PAGE_ITEMS):
            body = {"runId": f"r{index}", "agentId": "a", "input": "x" * 1_000}
            await store.post("s1", kind=START, key=f"k{index}", body={**body})
        await store.post("s1", kind="cancel", key="cancel", body={"runId": "r7"})
        mailbox = Mailbox(store, "s1", clock=clock, has_agent=lambda _: True)
        await mailbox.read()
        mail = await mailbox.take(Intake.MESSAGES)
        whole = [item.body["runId"] for item in mail.left if "input" in item.body]
        assert whole == ["r0"]
        assert len(mail.left) == 2 * PAGE_ITEMS - 1, "one was cancelled"
        assert "'input': 'xxx" in repr(mail.events), "and its end says what it would have begun with"
        assert (await mailbox.take(Intake.STARTS)).taken == [1]
        second = await mailbox.take(Intake.STARTS)
        assert second.taken == [2]
        assert "'input': 'xxx" in repr(second.events)

    run_in_fake_time(story(), clock=FakeClock())


def test_items_are_not_read_again_and_again() -> None:
    async def story(scene: Scene) -> None:
        store, gate = ReadStore(), asyncio.Event()
        scene.store = store
        async with scene.runtime([agent_of(talker(gate))]) as runtime:
            handles = [
                await runtime.start_run("shop", "x" * index, session_id="s1", run_id=f"r{index}")
                for index in range(1, 41)
            ]
            await scene.clock.sleep(10 * SWEEP_S)
            assert store.read_item_count <= 2 * len(handles)
            await handles[-1].cancel()
            assert (await handles[-1].wait(timeout=WAIT_S)).status is RunStatus.CANCELLED
            gate.set()
            for index, handle in enumerate(handles[:-1], 1):
                assert (await handle.wait(timeout=WAIT_S)).output == f"heard {index}"

    Scene().play(story)


def test_a_driver_looks_into_its_inbox_only_when_there_is_something_in_it() -> None:
    async def story(scene: Scene) -> None:
        store, gate = ReadStore(), asyncio.Event()
        scene.store = store
        async with scene.runtime([agent_of(talker(gate))]) as runtime:
            handle = await runtime.start_run("shop", "x", session_id="s1", run_id="r1")
            await scene.clock.sleep(2 * SWEEP_S)
            store.looks.clear()
            await scene.clock.sleep(10 * SWEEP_S)
            assert store.looks == [], "despite concurrent writes"
            await store.post("s1", kind="cancel", key="by another process", body={"runId": "r1"})
            assert (await handle.wait(timeout=WAIT_S)).status is RunStatus.CANCELLED

    Scene().play(story)


def test_a_run_with_a_full_queue_behind_it_can_be_cancelled() -> None:
    async def story(scene: Scene) -> None:
        gate = asyncio.Event()
        async with scene.runtime([agent_of(talker(gate))]) as runtime:
            first = await runtime.start_run("shop", "x", session_id="s1", run_id="first")
            while await first.status() is RunStatus.PENDING:
                await scene.clock.sleep(0.01)
            for index in range(INBOX_STARTS_MAX):
                await scene.store.post("s1", kind=START, key=f"k{index}", body={"runId": f"q{index}"})
            await first.cancel()
            assert (await first.wait(timeout=WAIT_S)).status is RunStatus.CANCELLED

    Scene().play(story)


def test_a_start_consumed_by_another_owner_raises_lost() -> None:
    async def story() -> None:
        store = MemoryStore()
        for number in range(2):
            body: JsonObject = {"runId": f"r{number}", "agentId": "a"}
            await store.post("s1", kind=START, key=f"r{number}", body=body)
        box = Mailbox(store, "s1", clock=SystemClock(), has_agent=lambda _: True)
        await box.read()
        assert len((await box.take(Intake.STARTS)).events) == 1
        await store.enlist("o2", now_ms=1)
        claim = await store.claim("s1", "o2", now_ms=1)
        await store.append(Batch(claim, 0, (), consumes=(1, 2)))
        with pytest.raises(Lost):
            await box.take(Intake.STARTS)

    asyncio.run(story())
