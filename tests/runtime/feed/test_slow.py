"""Readers that are slow, stuck, gone, or very many."""

import asyncio
import gc
from collections.abc import Iterable
from weakref import ref

import pytest
from tests.runtime.feed.scene import (
    ENOUGH,
    Reader,
    WatchedStore,
    World,
    draft,
    run,
    said,
    started,
    texts,
    ticks,
)

from windlass.feed import Feed
from windlass.feed import subscription as topic_module
from windlass.feed.cursors import EVENTS_PER_READ, TAILS_MAX
from windlass.feed.live import PART_BYTES, LiveStep, weight
from windlass.feed.subscription import EVERYTHING
from windlass.ports.feed import StreamOptions


def test_a_slow_reader_is_caught_up_from_the_journal() -> None:
    async def main() -> None:
        world = World(WatchedStore(1), events_max=4)
        stream = world.feed.subscribe_session("s1")
        await world.append(draft("x.first"))
        got = [(await anext(stream)).seq]
        for _ in range(300):
            await world.append(draft("x.more"))
        assert world.feed.topic("s1").held == 4
        got += [(await anext(stream)).seq for _ in range(300)]
        assert got == [*range(1, 302)]

    run(main)


@pytest.mark.promise("L1")
def test_the_buffer_of_a_slow_reader_is_limited_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    large = weight({"text": "x" * 1_000})
    monkeypatch.setattr(topic_module, "RING_BYTES_MAX", 5 * large)

    async def main() -> None:
        world = World(WatchedStore(1))
        stream = world.feed.subscribe_session("s1")
        await world.append(draft("x.first"))
        got = [(await anext(stream)).seq]
        topic = world.feed.topic("s1")
        for _ in range(50):
            await world.append(draft("x.large", {"text": "x" * 1_000}))
            assert topic.held_bytes <= 5 * large
        assert (topic.held, topic.held_bytes) == (5, 5 * large), "and not less than fits"
        await world.append(*(draft("x.large", {"text": "x" * 1_000}) for _ in range(9)))
        assert topic.held == 5
        await world.append(draft("x.huge", {"text": "x" * 100_000}))
        assert (topic.held, topic.held_bytes) == (0, 0)
        await world.append(draft("x.small"))
        assert topic.held == 1
        got += [(await anext(stream)).seq for _ in range(61)]
        assert got == [*range(1, 63)], "all of it is in the journal"

    run(main)


def test_a_reader_that_keeps_up_never_asks_the_journal_again() -> None:
    async def main() -> None:
        store = WatchedStore()
        world = World(store)
        reader = Reader(world.feed.subscribe_session("s1"))
        await ticks(ENOUGH)
        before = store.reads
        for step in range(20):
            await world.append(started(step))
            for _ in range(20):
                world.live().text("word ")
                await ticks(2)
        assert reader.seqs == [*range(1, 21)]
        assert store.reads == before == 1
        await reader.stop()

    run(main)


def test_a_read_takes_no_more_than_its_limit() -> None:
    async def main() -> None:
        store = WatchedStore()
        world = World(store)
        for _ in range(3 * EVENTS_PER_READ):
            await world.write(draft("x.old"))
        stream = world.feed.subscribe_all(options=StreamOptions(follow=False))
        assert len([event async for event in stream]) == 3 * EVENTS_PER_READ
        assert store.reads == 3

    run(main)


@pytest.mark.promise("F3")
def test_a_reader_that_never_reads_costs_the_others_nothing() -> None:
    """The other readers do the same work, and the buffer of the stuck one is bounded."""

    async def work(*, with_stuck: bool) -> tuple[int, list[int]]:
        store = WatchedStore()
        world = World(store, events_max=8)
        stuck = world.feed.subscribe_session("s1")
        if with_stuck:
            await stuck.open()
        reader = Reader(world.feed.subscribe_session("s1"))
        await ticks(ENOUGH)
        for step in range(200):
            await world.append(started(step))
            world.live().text("word ")
            await world.append(said("word ", step))
            await ticks(ENOUGH)
            topic = world.feed.topic("s1")
            assert topic.held <= 8
            assert len(topic.tails) <= TAILS_MAX
        await reader.stop()
        assert len(texts(reader.events)) == 200
        if with_stuck:
            later: list[int] = []
            while len(later) < 400:
                event = await anext(stuck)
                later += [event.seq or 0] if event.index is None else []
            assert later == reader.seqs
        return store.reads, reader.seqs

    reads, seqs = run(lambda: work(with_stuck=False))
    reads_beside_stuck, seqs_beside_stuck = run(lambda: work(with_stuck=True))
    assert seqs == seqs_beside_stuck == [*range(1, 401)]
    assert reads == 1
    assert reads_beside_stuck - reads <= 400 // 2 + 2, "only the stuck reader pages through the journal"


def test_nothing_is_held_for_readers_that_have_seen_everything() -> None:
    async def main() -> None:
        world = World()
        readers = [Reader(world.feed.subscribe_session("s1")) for _ in range(3)]
        await ticks(ENOUGH)
        await world.append(started())
        world.live().text("word")
        await world.append(said("word"))
        assert world.feed.topic("s1").held == 2
        await ticks(ENOUGH)
        assert world.feed.topic("s1").held == 0
        assert not world.feed.topic("s1").tails
        assert [reader.seqs for reader in readers] == [[1, 2]] * 3
        for reader in readers:
            await reader.stop()

    run(main)


@pytest.mark.uncounted
@pytest.mark.parametrize("way", ["cancel", "aclose", "forget"])
def test_a_reader_that_goes_away_leaves_nothing_behind(way: str) -> None:
    async def main() -> None:
        world = World()
        tasks = len(asyncio.all_tasks())
        for join in (world.feed.subscribe_all, lambda: world.feed.subscribe_session("s1")):
            stream = join()
            gone = ref(stream)
            if way == "forget":
                await stream.open()
            else:
                reader = Reader(stream)
                await ticks(ENOUGH)
                await reader.stop()
                assert world.feed.topic_count == 1
                if way == "aclose":
                    await stream.aclose()
                    assert world.feed.topic_count == 0
                    assert [event async for event in stream] == []
                del reader
                await ticks(1)
            del stream
            gc.collect()
            assert gone() is None
            assert world.feed.topic_count == 0
        assert len(asyncio.all_tasks()) == tasks
        await world.append(draft("x.any"))

    run(main)


def test_nothing_is_held_for_a_stream_that_was_dropped_without_closing_it() -> None:
    async def main() -> None:
        world = World()
        reader, dropped = Reader(world.feed.subscribe_session("s1")), world.feed.subscribe_session("s1")
        await dropped.open()
        await ticks(ENOUGH)
        await world.append(draft("x.first"))
        await ticks(ENOUGH)
        assert world.feed.topic("s1").held == 1, "the second stream is behind"
        del dropped
        gc.collect()
        await world.append(draft("x.more"))
        await ticks(ENOUGH)
        assert (world.feed.topic("s1").held, reader.seqs) == (0, [1, 2])
        await reader.stop()

    run(main)


def test_a_delta_costs_a_waiting_reader_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    look = Feed.live_steps

    def counted(feed: Feed, key: str, stamp: int) -> Iterable[LiveStep]:
        nonlocal looks
        looks += 1
        return look(feed, key, stamp)

    async def main() -> None:
        nonlocal looks
        world = World()
        readers = [Reader(world.feed.subscribe_session("s1")) for _ in range(3)]
        await world.append(started())
        await ticks(ENOUGH)
        looks = 0
        for word in ("one ", "two "):
            world.live().text(word)
            await ticks(ENOUGH)
        assert [list(texts(reader.events).values()) for reader in readers] == [["one two "]] * 3
        assert looks == 2 * 3
        events = readers[0].events[-1]
        assert all(reader.events[-1] is events for reader in readers), "readers share an event"
        for reader in readers:
            await reader.stop()

    monkeypatch.setattr(Feed, "live_steps", counted)
    run(main)


def test_a_wait_that_was_given_up_can_be_taken_up_again() -> None:
    async def main() -> None:
        world = World()
        stream = world.feed.subscribe_session("s1")
        for seq in (1, 2, 3):
            waiting = asyncio.create_task(stream.__anext__())
            await ticks(ENOUGH)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await world.append(draft("x.any"))
            assert (await anext(stream)).seq == seq

    run(main)


def test_a_reader_cancelled_as_it_is_woken_loses_nothing() -> None:
    async def main() -> None:
        world = World()
        stream = world.feed.subscribe_session("s1")
        waiting = asyncio.create_task(stream.__anext__())
        await ticks(ENOUGH)
        waiting.cancel()
        await world.append(draft("x.any"))
        await asyncio.gather(waiting, return_exceptions=True)
        assert (await anext(stream)).seq == 1

    run(main)


@pytest.mark.uncounted
def test_a_thousand_readers_of_one_session_share_the_work() -> None:
    async def main() -> None:
        store = WatchedStore()
        world = World(store)
        readers = [Reader(world.feed.subscribe_session("s1")) for _ in range(1_000)]
        await ticks(ENOUGH)
        joined = store.reads
        for step in range(3):
            await world.append(started(step))
            for _ in range(5):
                world.live().text("word ")
                await ticks(3)
            await world.append(said("word " * 5, step))
            await ticks(3)
        assert store.reads == joined
        assert all(reader.seqs == [*range(1, 7)] for reader in readers)
        # Each event was made once, deltas too.
        assert len({id(event) for reader in readers for event in reader.events}) == len(readers[0].events)
        assert world.clock.asked == sum(event.index is not None for event in readers[0].events)
        assert [*texts(readers[0].events).values()] == ["word " * 5] * 3
        for reader in readers:
            await reader.stop()

    run(main)


def test_a_reader_of_everything_looks_only_at_answers_that_changed() -> None:
    async def main() -> None:
        world = World()
        for number in range(50):
            await world.append(started(), session_id=f"s{number}")
        reader = Reader(world.feed.subscribe_all())
        await ticks(ENOUGH)
        for _ in range(3):
            world.live("s7").text("a")
            world.live("s9").text("b")
            changed = {
                step.started.session_id for step in world.feed.live_steps(EVERYTHING, world.feed.stamp - 2)
            }
            assert changed == {"s7", "s9"}
            await ticks(ENOUGH)
        shown = {key[0]: text for key, text in texts(reader.events).items()}
        assert shown == {"s7": "aaa", "s9": "bbb"}
        await reader.stop()

    run(main)


def test_the_number_of_ended_answers_held_for_a_reader_is_limited() -> None:
    async def main() -> None:
        world = World()
        stream = world.feed.subscribe_all()
        await stream.open()
        for step in range(TAILS_MAX + 5):
            await world.append(started(step))
            world.live().text("word")
            await world.append(said("word", step))
        assert len(world.feed.topic(EVERYTHING).tails) == TAILS_MAX
        got = [await anext(stream) for _ in range(2 * (TAILS_MAX + 5) + TAILS_MAX)]
        assert len(texts(got)) == TAILS_MAX

    run(main)


def test_ended_answers_that_wait_for_a_reader_are_bounded_in_bytes_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic_module, "TAIL_BYTES_MAX", 10_000)

    async def main() -> None:
        world = World()
        stream = world.feed.subscribe_all()
        await stream.open()
        for step in range(10):
            await world.append(started(step))
            world.live().text("w" * 1_000)
            await world.append(said("word", step))
            tails = world.feed.topic(EVERYTHING).tails.values()
            assert sum(one.weight for one in tails) <= 10_000
        assert len(world.feed.topic(EVERYTHING).tails) == 2

    run(main)


def test_a_weight_is_about_that_of_its_texts_and_parts() -> None:
    assert weight(None) == weight(1) == weight({}) == PART_BYTES
    assert weight("abc") == PART_BYTES + 3
    assert weight("äbc") == PART_BYTES + 12
    assert weight({"ab": ["c", {"d": True}]}) == 5 * PART_BYTES + 4
