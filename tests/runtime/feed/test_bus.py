"""Runs, other processes, and appends that are published out of order."""

import asyncio
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from tests.harness.views.journal import streams
from tests.runtime.feed.scene import ENOUGH, Reader, WatchedStore, World, draft, drain, ended, run, ticks

from windlass.errors import Conflict, Unavailable
from windlass.feed.bus import DOUBTED_AT_ONCE
from windlass.ports.feed import EventBus, StreamOptions
from windlass_harness.record import Record, to_event
from windlass_protocol import ErrorKind, RetryClass, RunCursor, SessionCursor

BEGIN = draft("run.started", {"runId": "r1", "agentId": "helper"})


def test_the_feed_is_an_event_bus() -> None:
    bus: EventBus = World().feed
    bus.publish([])
    bus.notify()


@given(streams())
def test_a_record_is_shown_as_the_event_that_the_harness_makes(records: list[Record]) -> None:
    for record in records:
        assert to_event(record) == to_event(record)
        assert to_event(record).model_dump_json() == to_event(record).model_dump_json()


def test_a_run_is_shown_alone_and_ends_with_its_terminal_event() -> None:
    async def main() -> None:
        world = World()
        await world.begin()
        await world.append(draft("run.started", {"runId": "r0"}, run_id="r0"), ended(run_id="r0"))
        reader = Reader(world.feed.subscribe_run("r1", until_terminal=True))
        await ticks(ENOUGH)
        await world.append(BEGIN, draft("x.other", run_id="r2"))
        await world.append(draft("x.mine"), ended(), draft("x.after"))
        await reader.task
        assert [event.type for event in reader.events] == ["run.started", "x.mine", "run.completed"]
        assert world.feed.topic_count == 0

    run(main)


@pytest.mark.parametrize("seq", [0, 1, 2, 3, 4])
def test_a_run_that_is_over_is_shown_without_waiting(seq: int) -> None:
    async def main() -> None:
        world = World()
        await world.begin()
        await world.append(draft("x.before", run_id="r0"), BEGIN, ended())
        await world.append(draft("x.after", run_id="r2"))
        cursor = RunCursor(run_id="r1", seq=seq)
        events = await drain(world.feed.subscribe_run("r1", cursor, until_terminal=True))
        assert [event.seq for event in events] == [s for s in (2, 3) if s > seq]

    run(main)


def test_a_run_that_is_only_posted_is_waited_for() -> None:
    async def main() -> None:
        store = WatchedStore()
        world = World(store)
        await world.append(*[draft("x.old", run_id="r0")] * 3)
        await world.begin()
        reads = store.reads
        reader = Reader(world.feed.subscribe_run("r1", until_terminal=True))
        await ticks(ENOUGH)
        await world.append(BEGIN, ended())
        await reader.task
        assert reader.seqs == [4, 5]
        assert store.reads == reads + 1

    run(main)


def test_an_unknown_run_is_refused() -> None:
    async def main() -> None:
        world = World()
        with pytest.raises(Conflict, match="unknown run: r9"):
            await world.feed.subscribe_run("r9").open()
        with pytest.raises(Conflict, match="unknown run: r9"):
            await world.feed.latest_terminal_event("r9")

    run(main)


def test_a_replay_ends_with_the_records_stored_at_its_start() -> None:
    async def main() -> None:
        world = World()
        await world.begin()
        await world.append(BEGIN, draft("step.started"))
        world.live().text("not stored")
        replay = world.feed.replay_run_from_cursor("r1")
        first = await anext(replay)
        await world.append(draft("x.later"))
        assert [first.seq, *[event.seq for event in await drain(replay)]] == [1, 2]
        after = world.feed.replay_run_from_cursor("r1", replay.cursor)
        assert [event.seq for event in await drain(after)] == [3]

    run(main)


def test_the_event_that_ended_a_run_is_found() -> None:
    async def main() -> None:
        world = World()
        await world.append(draft("x.old"))
        await world.begin()
        assert await world.feed.latest_terminal_event("r1") is None
        await world.append(BEGIN, *[draft("x.any")] * 600)
        assert await world.feed.latest_terminal_event("r1") is None
        await world.append(ended(run_id="r2"))
        await world.append(ended("run.failed"))
        event = await world.feed.latest_terminal_event("r1")
        assert event is not None
        assert (event.type, event.seq) == ("run.failed", 604)

    run(main)


def test_a_wait_for_the_end_of_a_run_gets_one_event_and_holds_no_topic() -> None:
    async def main() -> None:
        world = World()
        await world.begin()
        waiting = asyncio.gather(*(world.feed.terminal_event("r1") for _ in range(3)))
        given_up = asyncio.ensure_future(world.feed.terminal_event("r1"))
        await ticks(ENOUGH)
        given_up.cancel()
        await world.append(BEGIN, ended(run_id="r2"))
        await ticks(ENOUGH)
        assert not waiting.done()
        assert world.feed.topic_count == 0
        await world.append(ended("run.failed"), draft("x.after"))
        assert {(event.type, event.seq) for event in await waiting} == {("run.failed", 3)}
        assert (await world.feed.terminal_event("r1")).seq == 3

    run(main)


@pytest.mark.promise("F1")
def test_the_end_of_a_run_written_by_another_process_is_seen_after_a_notice() -> None:
    async def main() -> None:
        world = World()
        await world.begin()
        waiting = asyncio.ensure_future(world.feed.terminal_event("r1"))
        await ticks(ENOUGH)
        await world.write(BEGIN, ended())
        await ticks(ENOUGH)
        assert not waiting.done()
        world.feed.notify()
        assert (await waiting).type == "run.completed"

    run(main)


def test_the_end_of_an_earlier_run_of_a_long_session_is_found() -> None:
    async def main() -> None:
        world = World()
        await world.begin()
        await world.append(BEGIN, ended(), *[draft("x.any", run_id="r2")] * 600)
        assert (await world.feed.terminal_event("r1")).seq == 2

    run(main)


def test_a_catalogue_that_is_ahead_of_the_journal_is_not_believed() -> None:
    async def main() -> None:
        world = World()
        await world.begin()
        await world.append(BEGIN, draft("run.completed", {"runId": "another"}))
        assert await world.feed.latest_terminal_event("r1") is None

    run(main)


@pytest.mark.promise("F1")
@pytest.mark.parametrize("everything", [False, True])
def test_many_readers_share_a_read_of_what_another_process_wrote(everything: bool) -> None:
    async def main() -> None:
        store = WatchedStore(delay=3)
        world = World(store=store)
        await world.append(draft("x.mine"))
        streams = [
            world.feed.subscribe_all() if everything else world.feed.subscribe_session("s1")
            for _ in range(50)
        ]
        readers = [Reader(stream) for stream in streams]
        await ticks(ENOUGH)
        before = store.reads
        await world.write(draft("x.theirs"), draft("x.theirs"))
        world.feed.notify()
        await ticks(3)
        # One that leaves does not end the read of the others, and what is written during it is not missed.
        await readers[0].stop()
        await world.write(draft("x.late"))
        world.feed.notify()
        await ticks(4 * ENOUGH)
        assert {tuple(reader.seqs) for reader in readers[1:]} == {(1, 2, 3, 4)}
        assert store.reads - before <= 5
        assert len({id(reader.events[1]) for reader in readers[1:]}) == 1
        for reader in readers[1:]:
            await reader.stop()

    run(main)


@pytest.mark.promise("F1")
def test_a_reader_that_comes_while_others_read_misses_nothing_that_was_there_when_it_began() -> None:
    async def main() -> None:
        store = WatchedStore(delay=10)
        world = World(store=store)
        await world.append(draft("x.mine"))
        readers = [Reader(world.feed.subscribe_session("s1")) for _ in range(2)]
        await ticks(10 * ENOUGH)
        world.feed.notify()
        await ticks(14)
        # The others have read to the end, and do not know it yet. The next record is durable, not published.
        await world.write(draft("x.late"))
        readers.append(Reader(world.feed.subscribe_session("s1", SessionCursor(session_id="s1", seq=1))))
        await ticks(10 * ENOUGH)
        assert readers[2].seqs == [2]
        for reader in readers:
            await reader.stop()

    run(main)


@pytest.mark.promise("F1")
@pytest.mark.parametrize("everything", [False, True])
def test_records_of_another_process_are_delivered_after_a_notice(everything: bool) -> None:
    async def main() -> None:
        world = World()
        await world.append(draft("x.mine"))
        reader = Reader(world.feed.subscribe_all() if everything else world.feed.subscribe_session("s1"))
        await ticks(ENOUGH)
        await world.write(draft("x.theirs"))
        await ticks(ENOUGH)
        assert reader.seqs == [1]
        world.feed.notify()
        await ticks(ENOUGH)
        assert reader.seqs == [1, 2]
        # Also when it is only noticed by the hole before the next append.
        await world.write(draft("x.theirs"))
        await world.append(draft("x.mine"))
        await ticks(ENOUGH)
        assert reader.seqs == [1, 2, 3, 4]
        await reader.stop()

    run(main)


@pytest.mark.promise("F1")
def test_appends_published_out_of_order_are_shown_in_order() -> None:
    async def main() -> None:
        world = World()
        readers = [Reader(world.feed.subscribe_all()), Reader(world.feed.subscribe_session("b"))]
        await ticks(ENOUGH)
        for _ in range(3):
            first = await world.write(draft("x.one"), draft("x.two"), session_id="a")
            second = await world.write(draft("x.three"), session_id="b")
            third = await world.write(draft("x.four"), session_id="c")
            for records in (third, second, first):
                world.feed.publish(records)
                await ticks(1)
            await ticks(ENOUGH)
        positions = [event.meta.position for event in readers[0].events]
        assert positions == [*range(1, 13)]
        assert readers[1].seqs == [1, 2, 3]
        for reader in readers:
            await reader.stop()

    run(main)


def test_records_without_a_position_send_readers_to_the_journal() -> None:
    async def main() -> None:
        world = World()
        reader = Reader(world.feed.subscribe_all())
        await ticks(ENOUGH)
        [record] = await world.write(draft("x.any"))
        world.feed.publish([replace(record, position=None)])
        await ticks(ENOUGH)
        await reader.stop()
        assert [event.meta.position for event in reader.events] == [1]

    run(main)


@pytest.mark.promise("F1")
@pytest.mark.parametrize("everything", [False, True])
def test_a_record_published_while_the_journal_is_read_is_not_missed(everything: bool) -> None:
    """The journal is found empty, and before the reader can wait there is something."""

    async def main() -> None:
        world = World()
        read, read_all = world.store.read, world.store.read_all
        written: list[Record] = []

        async def before_empty(found: tuple[Record, ...]) -> tuple[Record, ...]:
            if not found and len(written) < 3:
                written.extend(await world.append(draft("x.sudden")))
            return found

        async def late(session_id: str, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
            return await before_empty(await read(session_id, after=after, limit=limit))

        async def late_all(*, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
            return await before_empty(await read_all(after=after, limit=limit))

        world.store.read, world.store.read_all = late, late_all
        reader = Reader(world.feed.subscribe_all() if everything else world.feed.subscribe_session("s1"))
        await ticks(ENOUGH)
        world.feed.notify()
        await ticks(ENOUGH)
        world.feed.notify()
        await ticks(ENOUGH)
        await reader.stop()
        assert reader.seqs == [1, 2, 3]

    run(main)


def test_a_store_that_fails_for_a_moment_ends_nothing() -> None:
    async def main() -> None:
        world = World()
        await world.append(draft("x.any"), draft("x.any"))
        read = world.store.read
        failures = [1, 2]

        async def failing(session_id: str, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
            if failures:
                failures.pop()
                raise Unavailable("gone", kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.RETRYABLE)
            return await read(session_id, after=after, limit=limit)

        world.store.read = failing
        stream = world.feed.subscribe_session("s1")
        for _ in range(2):
            with pytest.raises(Unavailable):
                await anext(stream)
        assert [(await anext(stream)).seq for _ in range(2)] == [1, 2]

    run(main)


def test_a_bounded_stream_ends_where_the_journal_ended() -> None:
    async def main() -> None:
        world = World()
        listener = Reader(world.feed.subscribe_all())
        await ticks(ENOUGH)
        await world.append(draft("x.any"), draft("x.any"))
        stream = world.feed.subscribe_all(options=StreamOptions(follow=False))
        await stream.open()
        await world.append(draft("x.later"))
        assert [event.seq for event in await drain(stream)] == [1, 2]
        assert await drain(stream) == []
        assert await drain(world.feed.subscribe_session("none", options=StreamOptions(follow=False))) == []
        await listener.stop()

    run(main)


def test_a_bounded_stream_ends_even_if_the_journal_has_less_than_it_said() -> None:
    async def main() -> None:
        world = World()
        await world.append(draft("x.any"))

        async def boasting() -> int:
            return 5

        world.store.last_position = boasting
        stream = world.feed.subscribe_all(options=StreamOptions(follow=False))
        assert [event.seq for event in await drain(stream)] == [1]

    run(main)


def test_readers_of_many_sessions_read_the_journal_again_in_several_turns() -> None:
    async def main() -> None:
        store, count = WatchedStore(), 5 * DOUBTED_AT_ONCE
        world = World(store)
        for number in range(count):
            await world.append(draft("x.old"), session_id=f"s{number}")
        readers = [Reader(world.feed.subscribe_session(f"s{number}")) for number in range(count)]
        await ticks(ENOUGH)
        for number in range(count):
            await world.write(draft("x.elsewhere"), session_id=f"s{number}")
        world.feed.notify()
        most, before = 0, store.reads
        for _ in range(ENOUGH):
            reads = store.reads
            await ticks(1)
            most = max(most, store.reads - reads)
        assert all(reader.seqs == [1, 2] for reader in readers)
        assert store.reads - before >= count
        # A reader reads what is new, and in a later turn that there is no more.
        assert 0 < most <= 3 * DOUBTED_AT_ONCE
        for reader in readers:
            await reader.stop()

    run(main)


def test_callers_that_wait_for_many_runs_look_again_in_several_turns() -> None:
    async def main() -> None:
        store, count = WatchedStore(), 3 * DOUBTED_AT_ONCE
        world = World(store)
        for number in range(count):
            await world.begin(f"r{number}", f"s{number}")
        waits = [asyncio.create_task(world.feed.terminal_event(f"r{number}")) for number in range(count)]
        await ticks(ENOUGH)
        for number in range(count):
            await world.write(ended(run_id=f"r{number}"), session_id=f"s{number}")
        world.feed.notify([f"s{number}" for number in range(count)])
        done = [0]
        while done[-1] < count:
            await ticks(1)
            done.append(sum(wait.done() for wait in waits))
        assert max(after - before for before, after in pairwise(done)) <= DOUBTED_AT_ONCE

    run(main)
