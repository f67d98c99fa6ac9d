"""Wakes by Temporal, on a real server: what becomes of each wake, and what Temporal keeps of it."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.common import SearchAttributeKey

from tools.temporal import Temporal, free_port
from windlass import AgentRuntime, Rejected, Unavailable
from windlass.ports.wakes import NotParked, Parked
from windlass.temporal import wakes as adapter
from windlass.temporal import wakes_at
from windlass.temporal.wakes import TemporalWakes

GUARD_S = 300
_NUMBERS = count(1)
PARKED = Parked(None, "clerk", "completed")
Answer = Callable[[str, int], Awaitable[Parked]]


class Workshop:
    """A worker and its client; `answer` stands for the engine: it gets a session and a count of drives."""

    def __init__(self, wakes: TemporalWakes, client: Client, answer: Answer) -> None:
        self.wakes, self.client = wakes, client
        self.driven: Counter[str] = Counter()
        self._answer = answer
        self._news = asyncio.Condition()

    async def drive(self, session_id: str) -> Parked:
        self.driven[session_id] += 1
        async with self._news:
            self._news.notify_all()
        return await self._answer(session_id, self.driven[session_id])

    async def seen(self, session_id: str, times: int) -> None:
        async with asyncio.timeout(GUARD_S), self._news:
            await self._news.wait_for(lambda: self.driven[session_id] >= times)

    def workflow(self, session_id: str) -> "WorkflowHandle[object, object]":
        return self.client.get_workflow_handle(self.wakes.workflow_id(session_id))

    async def ended(self, session_id: str) -> WorkflowExecutionStatus | None:
        """Wait until the workflow of a session has ended."""
        handle = self.workflow(session_id)
        async with asyncio.timeout(GUARD_S):
            while (status := (await handle.describe()).status) is WorkflowExecutionStatus.RUNNING:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.05)
        return status


@asynccontextmanager
async def workshop(server: Temporal, answer: Answer) -> AsyncGenerator[Workshop]:
    wakes = wakes_at(server.address, f"test{next(_NUMBERS)}", tenant="acme")
    shop = Workshop(wakes, await Client.connect(f"127.0.0.1:{server.port}"), answer)
    await wakes.open(shop.drive)
    try:
        yield shop
    finally:
        await wakes.aclose()


def play(server: Temporal, answer: Answer, story: Callable[[Workshop], Awaitable[None]]) -> None:
    async def main() -> None:
        async with workshop(server, answer) as shop:
            await story(shop)

    asyncio.run(main())


def test_a_wake_is_one_short_workflow_with_search_attributes(temporal: Temporal) -> None:
    async def park(session_id: str, number: int) -> Parked:
        return PARKED

    async def story(shop: Workshop) -> None:
        shop.wakes.wake("s")
        await shop.seen("s", 1)
        assert await shop.ended("s") is WorkflowExecutionStatus.COMPLETED
        history = await shop.workflow("s").fetch_history()
        assert len(history.events) <= 15
        found = (await shop.workflow("s").describe()).search_attributes
        told = {name: values for name, values in found.items() if name.startswith("Windlass")}
        assert told == {
            "WindlassAgent": ["clerk"],
            "WindlassStatus": ["completed"],
            "WindlassTenant": ["acme"],
        }

    play(temporal, park, story)


def test_a_wake_during_a_drive_leads_to_another_and_many_to_one_more(temporal: Temporal) -> None:
    gate = asyncio.Event()

    async def park(session_id: str, number: int) -> Parked:
        await gate.wait()
        return PARKED

    async def story(shop: Workshop) -> None:
        shop.wakes.wake("s")
        await shop.seen("s", 1)
        client = wakes_at(temporal.address, shop.wakes.task_queue.removeprefix("windlass/"))
        await client.open(None)
        for _ in range(5):
            shop.wakes.wake("s")
            client.wake("s")
        await client.aclose()
        gate.set()
        await shop.seen("s", 2)
        assert await shop.ended("s") is WorkflowExecutionStatus.COMPLETED
        assert shop.driven["s"] == 2

    play(temporal, park, story)


def test_a_session_that_waits_for_a_time_is_driven_then_and_earlier_if_it_is_woken(
    temporal: Temporal,
) -> None:
    day_ms = 24 * 3_600_000

    async def park(session_id: str, number: int) -> Parked:
        return Parked((100 if session_id == "soon" else day_ms) if number == 1 else None, "clerk", "waiting")

    async def story(shop: Workshop) -> None:
        shop.wakes.wake("soon")
        shop.wakes.wake("late")
        await shop.seen("soon", 2)
        await shop.seen("late", 1)
        async with asyncio.timeout(GUARD_S):
            # The pause is not a part of the history: the next workflow has only its first event.
            while (await shop.workflow("late").describe()).history_length != 1:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.05)
        assert (await shop.workflow("late").describe()).status is WorkflowExecutionStatus.RUNNING
        # Also by a wake that is repeated: nothing of the workflow is scheduled.
        shop.wakes.wake("late", is_lost=True)
        await shop.seen("late", 2)
        assert await shop.ended("late") is WorkflowExecutionStatus.COMPLETED

    play(temporal, park, story)


def test_a_wake_whose_session_did_not_park_is_not_acknowledged_and_tells_no_values(
    temporal: Temporal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "HELD_S", 0.01)

    async def park(session_id: str, number: int) -> Parked:
        if number == 1:
            raise NotParked("another owner has the session")
        if number == 2:
            raise ValueError("my password is hunter2")
        return PARKED

    async def story(shop: Workshop) -> None:
        shop.wakes.wake("s")
        await shop.seen("s", 3)
        assert await shop.ended("s") is WorkflowExecutionStatus.COMPLETED
        history = (await shop.workflow("s").fetch_history()).to_json()
        assert "hunter2" not in history
        started = json.loads(history)["events"]
        assert [one["eventType"] for one in started].count("EVENT_TYPE_ACTIVITY_TASK_SCHEDULED") == 1

    play(temporal, park, story)


def test_a_wake_that_only_seems_lost_adds_nothing_to_a_workflow_that_goes_on(temporal: Temporal) -> None:
    gate = asyncio.Event()

    async def park(session_id: str, number: int) -> Parked:
        await gate.wait()
        return PARKED

    async def story(shop: Workshop) -> None:
        shop.wakes.wake("s")
        await shop.seen("s", 1)
        sweeper = wakes_at(temporal.address, shop.wakes.task_queue.removeprefix("windlass/"))
        await sweeper.open(None)
        sweeper.wake("s", is_lost=True)
        await sweeper.aclose()
        gate.set()
        assert await shop.ended("s") is WorkflowExecutionStatus.COMPLETED
        assert shop.driven["s"] == 1

    play(temporal, park, story)


def test_cancelling_a_workflow_ends_the_wake_and_not_the_drive(temporal: Temporal) -> None:
    gate, parked = asyncio.Event(), asyncio.Event()

    async def park(session_id: str, number: int) -> Parked:
        await gate.wait()
        parked.set()
        return PARKED

    async def story(shop: Workshop) -> None:
        shop.wakes.wake("s")
        await shop.seen("s", 1)
        await shop.workflow("s").cancel()
        assert await shop.ended("s") is WorkflowExecutionStatus.CANCELED
        gate.set()
        async with asyncio.timeout(GUARD_S):
            await parked.wait()
        shop.wakes.wake("s")
        await shop.seen("s", 2)

    play(temporal, park, story)


def test_a_workflow_that_cannot_go_on_is_begun_again_by_a_wake_that_seems_lost(
    temporal: Temporal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after Temporal was started empty: the worker takes search attributes for known that are not."""
    monkeypatch.setattr(adapter, "TASK_ATTEMPTS_MAX", 2)

    async def park(session_id: str, number: int) -> Parked:
        return PARKED

    async def story(shop: Workshop) -> None:
        unknown = SearchAttributeKey.for_keyword("WindlassLost")
        monkeypatch.setattr(adapter, "_AGENT", unknown)
        monkeypatch.setattr(adapter, "ATTRIBUTES", (unknown,))
        shop.wakes.wake("s")
        await shop.seen("s", 1)
        async with asyncio.timeout(GUARD_S):
            while await attempts(shop) < adapter.TASK_ATTEMPTS_MAX:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.05)
        shop.wakes.wake("s", is_lost=True)
        await shop.seen("s", 2)
        assert await shop.ended("s") is WorkflowExecutionStatus.COMPLETED

    async def attempts(shop: Workshop) -> int:
        return (await shop.workflow("s").describe()).raw_description.pending_workflow_task.attempt

    play(temporal, park, story)


def test_a_process_that_only_wakes_opens_without_temporal_and_sends_when_it_is_there(
    tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    async def park(session_id: str, number: int) -> Parked:
        return PARKED

    async def story() -> None:
        server = Temporal(tmp_path_factory.mktemp("late"), free_port())
        client = wakes_at(server.address, "late")
        await client.open(None)
        client.wake("s")
        with pytest.raises(Unavailable, match="Temporal cannot be reached at 127"):
            await wakes_at(server.address, "late").open(lambda session_id: park(session_id, 1))
        await asyncio.to_thread(server.start)
        try:
            worker = wakes_at(server.address, "late")
            shop = Workshop(worker, await Client.connect(f"127.0.0.1:{server.port}"), park)
            await worker.open(shop.drive)
            await shop.seen("s", 1)
            await worker.aclose()
            await client.aclose()
        finally:
            await asyncio.to_thread(server.stop)

    asyncio.run(story())
    assert "wakes cannot be sent to Temporal" in caplog.text


def test_a_namespace_that_does_not_exist_and_addresses_of_another_form_are_refused(
    temporal: Temporal,
) -> None:
    strange = wakes_at(temporal.address.replace("/default", "/elsewhere"), "store")
    with pytest.raises(Rejected, match="has no namespace elsewhere: create it with `temporal operator"):
        asyncio.run(strange.check())
    for address in ("redis://x", "temporal://", "temporal://h:p/n", "temporal://u@h/n", "temporal://h/n?a=b"):
        with pytest.raises(Rejected, match=r"wakes must be temporal://host:port/namespace"):
            wakes_at(address, "store")
    with pytest.raises(Rejected, match="wakes need a store in PostgreSQL"):
        AgentRuntime.in_memory([], wakes=temporal.address)
    assert wakes_at("temporal://[::1]/n", "store").workflow_id("s") == "windlass/store/s"
    long = wakes_at("temporal://h", "store").workflow_id("ü" * 512)
    assert len(long) < 100


def test_the_client_of_temporal_is_imported_by_those_who_use_it() -> None:
    words = "import sys, windlass, windlass.temporal, windlass.runtime.compose"
    told = subprocess.run(
        [sys.executable, "-c", f"{words}; print('temporalio' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "False\n"
