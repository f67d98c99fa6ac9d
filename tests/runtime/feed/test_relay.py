"""Deltas of steps that another process of the store drives."""

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pydantic import JsonValue
from tests.depth import some
from tests.runtime.feed.scene import (
    FixedClock,
    Reader,
    World,
    ended,
    result,
    run,
    said,
    started,
    texts,
    ticks,
)

from windlass.adapters.journals.memory import MemoryStore
from windlass.feed import Feed
from windlass.feed.cursors import PIECE_CHARS_MAX
from windlass.feed.relay import AGAIN_S, FLUSH_S, INTEREST_S, RENEW_S
from windlass.ports.store import Store
from windlass_harness.record import Record
from windlass_protocol import Event, SessionCursor


class HandClock(FixedClock):
    """Time that a test moves."""

    def __init__(self) -> None:
        super().__init__()
        self.time_s = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def monotonic(self) -> float:
        return self.time_s

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.time_s + seconds, future))
        await future

    async def pass_time(self, seconds: float) -> None:
        end_s = self.time_s + seconds
        await settle()
        while due := [sleeper for sleeper in self._sleepers if sleeper[0] <= end_s]:
            at_s, future = min(due, key=lambda sleeper: sleeper[0])
            self._sleepers.remove((at_s, future))
            self.time_s = max(self.time_s, at_s)
            if not future.done():
                future.set_result(None)
            await settle()
        self.time_s = end_s


async def settle() -> None:
    await ticks(60)


class Office:
    """Carries messages between mailboxes, and loses those that a test names."""

    def __init__(self) -> None:
        self.boxes: dict[str, Callable[[str], None]] = {}
        self.sent: list[tuple[str, str]] = []
        self.is_lost: Callable[[str], bool] = lambda message: False

    def deliver(self, sender: str, message: str, to: str | None) -> None:
        # PostgreSQL takes no more; what is for all goes with its sender.
        payload = message if to else json.dumps([sender, message], ensure_ascii=False)
        assert len(payload.encode()) <= 7_999
        self.sent.append((sender, message))
        if self.is_lost(message):
            return
        for address, listener in self.boxes.items():
            if address != sender and to in (None, address):
                asyncio.get_running_loop().call_soon(listener, message)


class Box:
    def __init__(self, office: Office, address: str) -> None:
        self.address = address
        self._office = office

    def send(self, message: str, *, to: str | None = None) -> None:
        self._office.deliver(self.address, message, to)

    def close(self) -> None:
        self._office.boxes.pop(self.address, None)


class Process(World):
    """A process of a store with several."""

    def __init__(self, memory: MemoryStore, office: Office, clock: HandClock, name: str) -> None:
        class OwnStore:
            def __getattr__(self, attribute: str) -> Any:
                return getattr(memory, attribute)

            def open_channel(self, listener: Callable[[str], None]) -> Box:
                office.boxes[name] = listener
                return Box(office, name)

        store: Any = OwnStore()
        super().__init__(store=store)
        self.clock = clock
        self.feed = Feed(store, clock)


class Fleet:
    """Processes of one store, which hear of each other's records."""

    def __init__(self, count: int = 2) -> None:
        self.clock, self.office = HandClock(), Office()
        memory = MemoryStore()
        self.processes = [
            Process(memory, self.office, self.clock, f"process-{number}") for number in range(count)
        ]
        self.driver, self.server = self.processes[:2]

    async def append(self, *drafts: Any, by: Process | None = None, session_id: str = "s1") -> list[Record]:
        writer = by or self.driver
        records = await writer.append(*drafts, session_id=session_id)
        for process in self.processes:
            if process is not writer:
                process.feed.notify({session_id})
        return records

    async def flush(self) -> None:
        await self.clock.pass_time(2 * FLUSH_S)


def shown(reader: Reader) -> list[tuple[str, JsonValue]]:
    fields = {
        "message.appended": "messageDelta",
        "action.partial": "output",
        "action.input.appended": "inputDelta",
    }
    return [(event.type, event.data.get(fields.get(event.type, "message"))) for event in reader.events]


def test_text_reaches_a_reader_at_a_process_that_does_not_drive() -> None:
    async def main() -> None:
        fleet = Fleet()
        reader = Reader(fleet.server.feed.subscribe_session("s1"))
        await fleet.flush()
        await fleet.append(started())
        for word in ("one ", "two ", "three"):
            fleet.driver.live().text(word)
            await fleet.flush()
        await fleet.append(said("one two three"))
        await fleet.flush()
        await reader.stop()
        assert shown(reader) == [
            ("step.started", None),
            ("message.appended", "one "),
            ("message.appended", "two "),
            ("message.appended", "three"),
            ("message.completed", "one two three"),
        ]
        assert [event.index for event in reader.events] == [None, 0, 1, 2, None]

    run(main)


def test_a_reader_that_comes_late_gets_the_text_so_far_and_one_that_moves_goes_on() -> None:
    async def main() -> None:
        fleet = Fleet(3)
        await fleet.append(started())
        fleet.driver.live().text("one ")
        fleet.driver.live().text("two ")
        reader = Reader(fleet.server.feed.subscribe_session("s1"))
        await fleet.flush()
        assert texts(reader.events) == {("s1", 1): "one two "}
        assert reader.events[1].data["messageSoFar"] == "one two "
        await reader.stop()
        cursor = reader.stream.cursor
        fleet.driver.live().text("three")
        moved = Reader(fleet.processes[2].feed.subscribe_session("s1", cursor))
        await fleet.flush()
        assert shown(moved) == [("message.appended", "three")]
        await moved.stop()

    run(main)


def test_every_kind_of_delta_keeps_its_index_and_large_ones_are_cut_or_left_out() -> None:
    async def main() -> None:
        fleet = Fleet()
        reader = Reader(fleet.server.feed.subscribe_session("s1"))
        here = Reader(fleet.driver.feed.subscribe_session("s1"))
        await fleet.flush()
        await fleet.append(started())
        live = fleet.driver.live()
        live.reasoning("why\ud83d")
        live.text("\x00é" * PIECE_CHARS_MAX)
        live.tool_input("c1", '{"a"', tool_name="look")
        live.partial("c1", {"done": 1}, tool_name="look")
        live.partial("c2", "x" * (PIECE_CHARS_MAX + 1))
        live.partial("c1", {"done": 2}, tool_name="look")
        await fleet.flush()
        types = ["reasoning.appended", "message.appended", "action.input.appended", "action.partial"]
        assert [event.type for event in reader.events][1:] == types
        assert [event.data for event in reader.events][2:] == [
            event.data for event in here.events if event.data.get("callId") != "c2"
        ][2:]
        assert reader.events[-1].index == here.events[-1].index
        await fleet.append(result("c1"))
        live.text("!")
        await fleet.flush()
        assert [shown(reader)[-1], reader.events[-1].index] == [
            ("message.appended", "!"),
            here.events[-1].index,
        ]
        await reader.stop()
        await here.stop()

    run(main)


def test_a_lost_message_is_made_good_with_the_text_so_far() -> None:
    async def main() -> None:
        fleet = Fleet()
        reader = Reader(fleet.server.feed.subscribe_session("s1"))
        await fleet.flush()
        await fleet.append(started())
        live = fleet.driver.live()
        live.text("one ")
        await fleet.flush()
        fleet.office.is_lost = lambda message: "two" in message
        live.text("two ")
        await fleet.flush()
        fleet.office.is_lost = lambda message: False
        await fleet.clock.pass_time(AGAIN_S)
        live.text("three")
        await fleet.flush()
        assert texts(reader.events) == {("s1", 1): "one two three"}
        await reader.stop()

    run(main)


@pytest.mark.parametrize("is_settled_first", [True, False])
def test_deltas_that_arrive_after_the_record_of_their_message_are_not_shown(is_settled_first: bool) -> None:
    async def main() -> None:
        fleet = Fleet()
        reader = Reader(fleet.server.feed.subscribe_session("s1"))
        await fleet.flush()
        await fleet.append(started())
        live = fleet.driver.live()
        live.text("one ")
        await fleet.flush()
        held: list[str] = []
        fleet.office.is_lost = lambda message: held.append(message) is None
        live.text("two")
        live.partial("c1", "half")
        await fleet.flush()
        fleet.office.is_lost = lambda message: False
        await fleet.append(said("one two"), result("c1"))
        if is_settled_first:
            await fleet.flush()
            live.text("next")
            await fleet.flush()
        for message in held:
            fleet.office.boxes["process-1"](message)
        live.text("more")
        await fleet.clock.pass_time(AGAIN_S)
        await fleet.flush()
        live.text(".")
        await fleet.flush()
        rest = shown(reader)[shown(reader).index(("message.completed", "one two")) + 1 :]
        assert [kind for kind, _ in rest if kind == "action.partial"] == []
        after = "".join(str(text) for kind, text in rest if kind == "message.appended")
        assert after == ("nextmore." if is_settled_first else "more.")
        await reader.stop()

    run(main)


def test_a_reader_of_everything_sees_all_sessions() -> None:
    async def main() -> None:
        fleet = Fleet()
        reader = Reader(fleet.server.feed.subscribe_all())
        await fleet.flush()
        for session_id in ("s1", "s2"):
            await fleet.append(started(), session_id=session_id)
            fleet.driver.live(session_id).text(f"text of {session_id}")
        await fleet.flush()
        assert texts(reader.events) == {("s1", 1): "text of s1", ("s2", 1): "text of s2"}
        await reader.stop()

    run(main)


def test_another_process_that_goes_on_with_the_session_is_followed() -> None:
    async def main() -> None:
        fleet = Fleet(3)
        reader = Reader(fleet.server.feed.subscribe_session("s1"))
        await fleet.flush()
        await fleet.append(started())
        fleet.driver.live().text("lost ")
        await fleet.flush()
        other = fleet.processes[2]
        other.claims = fleet.driver.claims
        await fleet.append(started(), by=other)
        other.live().text("again")
        fleet.driver.live().text("late")
        await fleet.flush()
        assert texts(reader.events) == {("s1", 1): "lost ", ("s1", 2): "again"}
        await fleet.append(said("again"), ended(), by=other)
        await fleet.flush()
        assert fleet.server.feed.open_step("s1") is None
        await reader.stop()

    run(main)


def test_nothing_is_sent_without_readers_elsewhere() -> None:
    async def main() -> None:
        fleet = Fleet()
        await fleet.append(started())
        fleet.driver.live().text("one ")
        await fleet.flush()
        assert [message for _, message in fleet.office.sent if "steps" in message] == []
        reader = Reader(fleet.server.feed.subscribe_session("s1"))
        await fleet.flush()
        assert len([message for _, message in fleet.office.sent if "steps" in message]) == 1
        await reader.stop()
        await reader.stream.aclose()
        await fleet.clock.pass_time(INTEREST_S + RENEW_S)
        fleet.driver.live().text("two ")
        await fleet.flush()
        assert len([message for _, message in fleet.office.sent if "steps" in message]) == 1
        assert fleet.server.feed.open_step("s1") is None

    run(main)


def test_many_readers_are_told_in_messages_that_fit() -> None:
    async def main() -> None:
        fleet = Fleet()
        readers = [Reader(fleet.server.feed.subscribe_session(f"{number:036}")) for number in range(400)]
        await fleet.flush()
        await fleet.clock.pass_time(RENEW_S)
        watched = [key for _, message in fleet.office.sent for key in json.loads(message).get("watch", ())]
        renewed = [key for _, message in fleet.office.sent for key in json.loads(message).get("keep", ())]
        assert watched == renewed == [f"{number:036}" for number in range(400)]
        for reader in readers:
            await reader.stop()

    run(main)


def test_a_reader_stays_watched_while_it_reads() -> None:
    async def main() -> None:
        fleet = Fleet()
        reader = Reader(fleet.server.feed.subscribe_session("s1"))
        await fleet.append(started())
        await fleet.clock.pass_time(4 * INTEREST_S)
        fleet.driver.live().text("still here")
        await fleet.flush()
        assert texts(reader.events) == {("s1", 1): "still here"}
        await reader.stop()

    run(main)


def test_messages_that_are_none_are_ignored() -> None:
    async def main() -> None:
        fleet = Fleet()
        reader = Reader(fleet.server.feed.subscribe_session("s1"))
        await fleet.flush()
        for message in ("", "{", "[]", '{"sender":1}', '{"sender":"x","steps":[["s1",1]]}'):
            fleet.office.boxes["process-1"](message)
        fleet.office.boxes["process-1"]('{"sender":"x","steps":[["s1",7,7,0,0,[["message.appended","no"]]]]}')
        await fleet.append(started())
        fleet.driver.live().text("yes")
        await fleet.flush()
        assert texts(reader.events) == {("s1", 1): "yes"}
        await reader.stop()

    run(main)


def check_prefixes(events: Sequence[Event], said_texts: dict[int, str]) -> None:
    """No delta repeats, and what was shown of an answer is a part of what it became."""
    for (_, seq), text in texts(events, may_repeat=True).items():
        assert said_texts[seq].startswith(text)
    over: set[int] = set()
    for event in events:
        if event.type == "message.completed":
            over.add(max(seq for seq in said_texts if seq < (event.seq or 0)))
        elif event.index is not None:
            assert event.seq not in over


@pytest.mark.parametrize("seed", range(some(60)))
def test_any_order_of_losses_readers_and_answers_shows_only_what_was_said(seed: int) -> None:
    async def main() -> None:
        chance = random.Random(seed)
        fleet = Fleet(3)
        fleet.office.is_lost = lambda message: chance.random() < 0.2
        readers: list[Reader] = []
        said_texts: dict[int, str] = {}
        for _ in range(4):
            [record] = await fleet.append(started())
            said_texts[record.seq] = ""
            for _ in range(chance.randrange(6)):
                word = f"{chance.randrange(100)} "
                fleet.driver.live().text(word)
                said_texts[record.seq] += word
                if chance.random() < 0.5:
                    await fleet.clock.pass_time(chance.choice((FLUSH_S, AGAIN_S)))
                if chance.random() < 0.3:
                    process = chance.choice(fleet.processes)
                    readers.append(Reader(process.feed.subscribe_session("s1")))
                if readers and chance.random() < 0.3:
                    left = readers[chance.randrange(len(readers))]
                    await left.stop()
                    cursor = left.stream.cursor
                    assert isinstance(cursor, SessionCursor)
                    process = chance.choice(fleet.processes)
                    readers.append(Reader(process.feed.subscribe_session("s1", cursor)))
                    readers[-1].events.extend(left.events)
            await fleet.append(said(said_texts[record.seq]))
        fleet.office.is_lost = lambda message: False
        [record] = await fleet.append(started())
        await fleet.clock.pass_time(INTEREST_S)
        fleet.driver.live().text("in the end")
        said_texts[record.seq] = "in the end"
        await fleet.clock.pass_time(RENEW_S)
        for reader in readers:
            if not reader.task.done():
                check_prefixes(reader.events, said_texts)
                assert texts(reader.events, may_repeat=True)["s1", record.seq] == "in the end"
            await reader.stop()

    run(main)


def test_a_feed_on_a_store_of_one_process_relays_nothing() -> None:
    store: Store = MemoryStore()
    feed = Feed(store, FixedClock())
    feed.watch("s1")
    assert list(feed.keys_with_readers()) == []
