"""Readers that join at any moment see the same events, once and in order."""

from collections.abc import Awaitable, Callable

import pytest
from tests.runtime.feed.scene import (
    ENOUGH,
    Reader,
    WatchedStore,
    World,
    draft,
    ended,
    result,
    run,
    said,
    started,
    texts,
    ticks,
)

from windlass.feed import cursor_of, decode_cursor, encode_cursor
from windlass.ports.feed import EventFilter, EventStream
from windlass_harness.loop.events import Draft
from windlass_protocol import Cursor, Event
from windlass_protocol.codec import decode, encode

Action = Callable[[World], Awaitable[object]]
Join = Callable[[World, Cursor | None], EventStream]
ANSWERS = ["Hello, world", "it is raining", "so take an umbrella", "bye for now"]


def show(piece: str) -> Action:
    async def action(world: World) -> None:
        world.live().text(piece)

    return action


def write(*drafts: Draft) -> Action:
    async def action(world: World) -> None:
        await world.append(*drafts)

    return action


def tell(kind: str) -> Action:
    async def action(world: World) -> None:
        live = world.live()
        match kind:
            case "reasoning":
                live.reasoning("hm ")
            case "input":
                live.tool_input("c1", '{"a"', tool_name="look")
            case _:
                live.partial("c1", "half")

    return action


def script() -> list[Action]:
    """A run of 30 records and four answers, with other records in the middle."""
    begin = draft("run.started", {"runId": "r1", "agentId": "helper"})
    actions = [write(begin, draft("x.turn"))]
    for step, answer in enumerate(ANSWERS):
        actions.append(write(draft("x.before"), started(step), draft("x.same")))
        actions += [tell("reasoning"), tell("reasoning")]
        for start in range(0, len(answer), 4):
            actions.append(show(answer[start : start + 4]))
            if start == 4:
                actions += [write(draft("x.steered")), tell("input")]
        actions += [write(said(answer, step), draft("x.done")), tell("partial")]
        if step < 3:
            actions.append(write(result("c1", step)))
    actions.append(write(ended()))
    return actions


async def perform(world: World, actions: list[Action], pause: int) -> None:
    for action in actions:
        await action(world)
        await ticks(pause)


FILTER = EventFilter(session_ids=["s1"]).compile()
SCOPES: dict[str, Join] = {
    "all": lambda w, c: w.feed.subscribe_all(c),
    "session": lambda w, c: w.feed.subscribe_session("s1", c),
    "run": lambda w, c: w.feed.subscribe_run("r1", c, until_terminal=True),
    "agent": lambda w, c: w.feed.subscribe_agent("helper", c),
    "filter": lambda w, c: w.feed.subscribe_filtered(FILTER, c),
}
EXPECTED = [*range(1, 31)]
STEPS = len(script())


def check_answers(events: list[Event]) -> set[str]:
    """Each text that was begun is the message that follows it."""
    messages = [str(e.data["message"]) for e in events if e.type == "message.completed"]
    shown = list(texts(events).values())
    assert shown == messages[len(messages) - len(shown) :], (shown, messages)
    return set(shown)


@pytest.mark.uncounted
@pytest.mark.promise("F1")
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(("pause", "delay"), [(0, 0), (1, 0), (1, 1), (1, 2), (2, 1), (3, 0), (ENOUGH, 3)])
def test_every_moment_of_joining_shows_the_same(scope: str, pause: int, delay: int) -> None:
    async def joined_at(moment: int) -> None:
        world = World(WatchedStore(delay))
        await world.begin()
        actions = script()
        await perform(world, actions[:moment], pause)
        answers_before = sum(record.type == "message.completed" for record in world.records)
        stream = SCOPES[scope](world, None)
        await stream.open()
        reader = Reader(stream)
        await ticks(pause)
        await perform(world, actions[moment:], pause)
        await ticks(ENOUGH)
        await reader.stop()
        assert reader.seqs == EXPECTED
        assert check_answers(reader.events) >= {*ANSWERS[answers_before:]}
        assert all(decode(Event, encode(event)) == event for event in reader.events)

    for moment in range(STEPS + 1):
        run(lambda moment=moment: joined_at(moment))


@pytest.mark.uncounted
@pytest.mark.promise("F1")
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("pause", [1, 2, ENOUGH])
def test_a_reader_that_comes_back_with_its_cursor_misses_and_repeats_nothing(scope: str, pause: int) -> None:
    async def away_at(moment: int) -> None:
        world = World(WatchedStore(1))
        await world.begin()
        actions = script()
        first = Reader(SCOPES[scope](world, None))
        await perform(world, actions[:moment], pause)
        await first.stop()
        text = encode_cursor(first.stream.cursor)
        await perform(world, actions[moment : moment + 1], pause)
        second = Reader(SCOPES[scope](world, decode_cursor(text)))
        await perform(world, actions[moment + 1 :], pause)
        await ticks(ENOUGH)
        await second.stop()
        assert first.seqs + second.seqs == EXPECTED
        shown = texts([*first.events, *second.events], may_repeat=scope not in ("session", "run"))
        whole = [text for text in shown.values() if text in ANSWERS]
        # The answer that ended while the reader was away is the only one it cannot have in full.
        assert len(whole) >= len(ANSWERS) - 1
        assert all(any(answer.startswith(text) for answer in ANSWERS) for text in shown.values())

    for moment in range(STEPS):
        run(lambda moment=moment: away_at(moment))


@pytest.mark.parametrize("scope", SCOPES)
def test_a_client_can_make_the_same_cursors_from_the_events_alone(scope: str) -> None:
    async def main() -> None:
        world = World()
        await world.begin()
        stream = SCOPES[scope](world, None)
        cursor = stream.cursor
        reader = Reader(stream)
        for action in script():
            seen = len(reader.events)
            await action(world)
            await ticks(ENOUGH)
            for event in reader.events[seen:]:
                cursor = cursor_of(event, cursor)
            assert cursor == stream.cursor
        await reader.stop()
        assert len(reader.events) > len(EXPECTED)

    run(main)


@pytest.mark.promise("F1")
def test_a_new_feed_over_the_same_store_goes_on_from_a_cursor() -> None:
    async def main() -> None:
        world = World()
        await world.begin()
        reader = Reader(world.feed.subscribe_run("r1"))
        await perform(world, script()[:12], ENOUGH)
        await reader.stop()
        again = World(world.store, records=world.records, claims=world.claims)
        later = Reader(again.feed.subscribe_run("r1", reader.stream.cursor, until_terminal=True))
        again.steps["s1"] = again.feed.live(
            next(record for record in reversed(world.records) if record.type == "step.started")
        )
        await perform(again, script()[12:], 1)
        await later.task
        assert reader.seqs + later.seqs == EXPECTED

    run(main)


@pytest.mark.promise("F2")
def test_nothing_is_shown_before_it_is_durable() -> None:
    """Every event that a reader has is in the journal at that moment."""

    async def main() -> None:
        world = World(WatchedStore(1))
        await world.begin()
        readers = [Reader(join(world, None)) for join in SCOPES.values()]
        for action in script():
            await action(world)
            for _ in range(ENOUGH):
                await ticks(1)
                row = await world.store.session("s1")
                last = 0 if row is None else row.last_seq
                assert all(max(reader.seqs, default=0) <= last for reader in readers)
        for reader in readers:
            await reader.stop()
            assert reader.seqs == EXPECTED

    run(main)
