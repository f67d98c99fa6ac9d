"""A feed over every store: the same events, including records of other processes."""

import asyncio

import pytest
from tests.contracts.stores import AnyStore, Play
from tests.runtime.feed.scene import FixedClock, Reader, World, draft, ended, said, started, texts

from windlass.feed import Feed
from windlass.ports.feed import EventFilter, StreamOptions

BEGIN = draft("run.started", {"runId": "r1", "agentId": "helper"})
STORED = StreamOptions(follow=False)


@pytest.mark.promise("F1")
def test_readers_that_join_at_any_time_see_the_whole_run(play: Play) -> None:
    async def story(store: AnyStore, _: AnyStore) -> None:
        world = World(store)
        await world.begin()
        first = world.feed.subscribe_run("r1", until_terminal=True)
        await first.open()
        readers = [Reader(first)]
        await world.append(BEGIN)
        for step in range(5):
            readers.append(Reader(world.feed.subscribe_run("r1", until_terminal=True)))
            await world.append(started(step))
            world.live().text("one ")
            readers.append(Reader(world.feed.subscribe_run("r1", until_terminal=True)))
            world.live().text("two")
            await world.append(said("one two", step))
        await world.append(ended())
        await asyncio.gather(*[reader.task for reader in readers])
        assert all(reader.seqs == [*range(1, 13)] for reader in readers)
        assert all(set(texts(reader.events).values()) <= {"one two"} for reader in readers)
        assert len(texts(readers[0].events)) == 5

    play(story)


@pytest.mark.promise("F1")
@pytest.mark.parametrize("is_row_given", [False, True])
def test_a_reader_that_opens_again_at_its_cursor_after_each_event_misses_none(
    play: Play, is_row_given: bool
) -> None:
    async def story(store: AnyStore, _: AnyStore) -> None:
        world, seen = World(store), list[int | None]()
        await world.begin()

        async def write() -> None:
            await world.append(BEGIN)
            for count in range(40):
                await world.append(*[draft("x.any") for _ in range(count % 3 + 1)])
            await world.append(ended())

        async def follow() -> None:
            # The row is read after the record was published, so its session ends at the cursor or later.
            cursor = None
            while True:
                row = await store.run("r1") if is_row_given else None
                stream = world.feed.subscribe_run("r1", cursor, until_terminal=True, row=row)
                event = await anext(stream)
                cursor = stream.cursor
                await stream.aclose()
                seen.append(event.seq)
                if event.type == "run.completed":
                    return

        await asyncio.gather(write(), follow())
        assert seen == [*range(1, len(world.records) + 1)]

    play(story)


@pytest.mark.promise("F1")
def test_a_feed_of_another_process_shows_the_same_records(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        world, far = World(store), Feed(other, FixedClock())
        await world.begin()
        reader = Reader(far.subscribe_run("r1", until_terminal=True))
        for one in (BEGIN, started(), said("hello"), draft("x.more"), ended()):
            await world.append(one)
            far.notify()
        await reader.task
        assert reader.seqs == [1, 2, 3, 4, 5]
        last = await far.latest_terminal_event("r1")
        assert last is not None
        assert last.type == "run.completed"
        for stream in (
            far.subscribe_all(options=STORED),
            far.subscribe_agent("helper", options=STORED),
            far.subscribe_filtered(EventFilter(run_ids=["r1"]).compile(), options=STORED),
            far.subscribe_session("s1", options=STORED),
            far.replay_run_from_cursor("r1"),
        ):
            assert [event.seq async for event in stream] == [1, 2, 3, 4, 5]

    play(story)


@pytest.mark.promise("F1")
def test_sessions_that_write_at_once_are_shown_in_one_order(play: Play) -> None:
    async def story(store: AnyStore, _: AnyStore) -> None:
        world = World(store)
        live = world.feed.subscribe_all()
        await live.open()

        async def drive(session_id: str) -> None:
            for _ in range(10):
                await world.append(draft("x.one"), draft("x.two"), session_id=session_id)

        await asyncio.gather(*[drive(f"s{number}") for number in range(8)])
        last = await store.last_position()
        seen = [(await anext(live)).meta.position for _ in range(last)]
        late = [event.meta.position async for event in world.feed.subscribe_all(options=STORED)]
        assert seen == late == [*range(1, last + 1)]

    play(story)
