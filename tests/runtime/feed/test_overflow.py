"""Readers with a queue: dropped events, kept events, and overflow notices."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.feed.scene import ENOUGH, Reader, World, draft, ended, run, said, started, ticks

from windlass.errors import Rejected
from windlass.feed import OverflowQueue
from windlass.limits import SUBSCRIBER_EVENTS_MAX
from windlass.ports.feed import (
    TERMINAL_TYPES,
    EventFilter,
    Overflow,
    OverflowNotice,
    OverflowReason,
    QueueOptions,
    StreamOptions,
    SubscriberLagged,
    UnknownEvent,
)
from windlass_harness.record import number, to_event
from windlass_protocol import Event
from windlass_protocol.codec import encode

DELTA = "budget.updated"
GOLDEN = ["run.started", DELTA, DELTA, "actions.requested", DELTA, "run.completed"]
POLICIES = [policy for policy in Overflow if policy is not Overflow.BACKPRESSURE_CALLER]


def event(kind: str, seq: int) -> Event:
    return to_event(number(draft(kind), "s1", seq=seq, epoch=1))


def queue_of(overflow: Overflow, capacity: int = 3, reserve: int = 1) -> OverflowQueue:
    return OverflowQueue(QueueOptions(capacity, reserve, overflow), lambda one: one.seq or 0)


def pop_all(queue: OverflowQueue) -> list[tuple[int | None, tuple[object, ...] | None]]:
    """The events with the gap before each: dropped, first, last."""
    found: list[tuple[int | None, tuple[object, ...] | None]] = []
    while len(queue):
        one = queue.pop()
        told = (one.model_extra or {}).get("overflow")
        found.append((one.seq, None if told is None else (told["dropped"], told["gapStart"], told["gapEnd"])))
    return found


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        (Overflow.DROP_NON_TERMINAL, [(1, None), (2, None), (6, (3, 3, 5))]),
        (Overflow.DROP_PROGRESS, [(1, None), (4, (2, 2, 3)), (6, (1, 5, 5))]),
        (Overflow.SUMMARIZE_AND_CONTINUE, [(1, None), (5, (3, 2, 4)), (6, None)]),
    ],
)
def test_the_known_sequence_is_kept_as_the_policy_says(policy: Overflow, kept: list[object]) -> None:
    queue = queue_of(policy)
    for seq, kind in enumerate(GOLDEN, 1):
        assert queue.offer(event(kind, seq))
    assert pop_all(queue) == kept
    assert queue.failure is None


def test_a_failed_queue_keeps_the_events_before_the_overflow() -> None:
    queue = queue_of(Overflow.FAIL_SUBSCRIBER)
    for seq, kind in enumerate(GOLDEN[:3], 1):
        assert queue.offer(event(kind, seq))
    assert queue.failure == OverflowNotice(
        Overflow.FAIL_SUBSCRIBER, OverflowReason.SUBSCRIBER_QUEUE_FULL, 1, 3, 3, terminal_preserved=False
    )
    assert pop_all(queue) == [(1, None), (2, None)]


def test_a_terminal_event_takes_the_place_of_the_oldest_other_one() -> None:
    queue = queue_of(Overflow.DROP_NON_TERMINAL)
    for seq, kind in enumerate(["x.any", "x.any", "run.failed", "run.failed"], 1):
        assert queue.offer(event(kind, seq))
    assert pop_all(queue) == [(2, (1, 1, 1)), (3, None), (4, None)]


@pytest.mark.parametrize("policy", [Overflow.FAIL_SUBSCRIBER, Overflow.DROP_PROGRESS])
def test_a_terminal_event_waits_if_nothing_may_give_way(policy: Overflow) -> None:
    queue = queue_of(policy)
    for seq, kind in enumerate(["x.any", "x.any", "run.failed"], 1):
        assert queue.offer(event(kind, seq))
    assert not queue.offer(event("run.failed", 4))
    assert pop_all(queue) == [(1, None), (2, None), (3, None)]


def test_a_notice_says_why() -> None:
    queue = queue_of(Overflow.DROP_PROGRESS)
    for seq, kind in enumerate(GOLDEN, 1):
        queue.offer(event(kind, seq))
    queue.pop()
    first = queue.pop().model_copy(update={"type": "x.known_to_nobody"})
    assert json.loads(encode(first))["overflow"] == {
        "policy": "drop_progress",
        "reason": "policy_dropped_progress",
        "dropped": 2,
        "gapStart": 2,
        "gapEnd": 3,
        "terminalPreserved": True,
    }
    queue = queue_of(Overflow.DROP_NON_TERMINAL)
    for seq, kind in enumerate(GOLDEN, 1):
        queue.offer(event(kind, seq))
    told = [(queue.pop().model_extra or {}).get("overflow") for _ in range(3)][-1]
    assert told is not None
    assert told["reason"] == "policy_dropped_non_terminal"


@given(
    st.sampled_from(POLICIES),
    st.integers(2, 6).flatmap(lambda capacity: st.tuples(st.just(capacity), st.integers(1, capacity - 1))),
    st.lists(st.tuples(st.sampled_from(["x.any", DELTA, "run.completed", "run.failed"]), st.booleans())),
)
def test_gaps_are_reported_exactly_and_terminal_events_are_kept(
    policy: Overflow, size: tuple[int, int], steps: list[tuple[str, bool]]
) -> None:
    """Each step offers an event and may take one out before."""
    queue = queue_of(policy, *size)
    offered: list[Event] = []
    got: list[tuple[int | None, tuple[object, ...] | None]] = []
    for seq, (kind, takes) in enumerate(steps, 1):
        if takes and len(queue):
            got += [(one.seq, _gap(one)) for one in [queue.pop()]]
        one = event(kind, seq)
        while not queue.offer(one):
            got += [(first.seq, _gap(first)) for first in [queue.pop()]]
        assert len(queue) <= size[0]
        offered.append(one)
        if queue.failure is not None:
            break
    got += pop_all(queue)
    seqs = [seq for seq, _ in got]
    assert seqs == sorted({seq for seq in seqs if seq is not None})
    if queue.failure is None:
        assert {one.seq for one in offered if one.type in TERMINAL_TYPES} <= set(seqs)
    before = 0
    for seq, gap in got:
        assert seq is not None
        missing = [*range(before + 1, seq)]
        assert gap == ((len(missing), missing[0], missing[-1]) if missing else None)
        before = seq
    if policy is Overflow.DROP_PROGRESS:
        assert {one.seq for one in offered if one.type != DELTA} <= set(seqs)


def _gap(one: Event) -> tuple[object, ...] | None:
    told = (one.model_extra or {}).get("overflow")
    return None if told is None else (told["dropped"], told["gapStart"], told["gapEnd"])


@pytest.mark.parametrize(
    ("capacity", "reserve", "complaint"),
    [
        (1, 1, "capacity must be 2 to 1,024, found 1"),
        (SUBSCRIBER_EVENTS_MAX + 1, 1, "found 1,025"),
        (4, 0, "terminal_reserve must be 1 to 3, found 0"),
        (4, 4, "found 4"),
    ],
)
def test_an_invalid_queue_is_refused(capacity: int, reserve: int, complaint: str) -> None:
    with pytest.raises(Rejected, match=complaint):
        QueueOptions(capacity, reserve)
    QueueOptions(SUBSCRIBER_EVENTS_MAX, 1)
    QueueOptions(2, 1)


def test_backpressure_on_the_caller_is_refused() -> None:
    with pytest.raises(Rejected, match="backpressure_caller is not supported"):
        QueueOptions(overflow=Overflow.BACKPRESSURE_CALLER)


def with_queue(policy: Overflow = Overflow.DROP_NON_TERMINAL, capacity: int = 3) -> StreamOptions:
    return StreamOptions(queue=QueueOptions(capacity, overflow=policy))


@pytest.mark.parametrize("everything", [False, True])
def test_a_slow_reader_with_a_queue_gets_the_present_and_the_end(everything: bool) -> None:
    async def main() -> None:
        world = World(events_max=4)
        options = with_queue()
        feed = world.feed
        stream = (
            feed.subscribe_all(options=options)
            if everything
            else feed.subscribe_session("s1", options=options)
        )
        await stream.open()
        await world.append(draft("x.a"))
        assert (await anext(stream)).seq == 1
        for _ in range(50):
            await world.append(draft("x.b"))
        await world.append(ended())
        got = [await anext(stream) for _ in range(3)]
        assert [one.seq for one in got] == [2, 3, 52]
        assert (got[2].model_extra or {})["overflow"]["dropped"] == 48
        cursor = stream.cursor
        await world.append(draft("x.c"))
        again = feed.subscribe_all(cursor) if everything else feed.subscribe_session("s1", cursor)
        assert (await anext(again)).seq == 53
        assert (await anext(stream)).seq == 53

    run(main)


def test_terminal_events_wait_in_the_journal_when_the_queue_is_full_of_them() -> None:
    async def main() -> None:
        world = World()
        stream = world.feed.subscribe_all(options=with_queue(Overflow.SUMMARIZE_AND_CONTINUE))
        await stream.open()
        for count in range(20):
            await world.append(draft("x.a"), ended(run_id=f"r{count}"))
        got: list[int] = []
        while len(got) < 20:
            one = await anext(stream)
            got += [one.seq or 0] if one.type in TERMINAL_TYPES else []
        assert got == [*range(2, 41, 2)]

    run(main)


def test_a_reader_that_keeps_up_loses_nothing() -> None:
    async def main() -> None:
        world = World()
        await world.begin()
        options = with_queue(Overflow.FAIL_SUBSCRIBER)
        reader = Reader(world.feed.subscribe_run("r1", options=options, until_terminal=True))
        await ticks(ENOUGH)
        await world.append(started())
        await ticks(ENOUGH)
        for word in ("one ", "two"):
            world.live().text(word)
            await ticks(ENOUGH)
        await world.append(said("one two"))
        await ticks(ENOUGH)
        await world.append(ended())
        await reader.task
        assert [one.type for one in reader.events] == [
            "step.started",
            "message.appended",
            "message.appended",
            "message.completed",
            "run.completed",
        ]
        assert reader.stream.cursor.model_dump(exclude={"index"}) == {"scope": "run", "runId": "r1", "seq": 3}

    run(main)


def test_a_lagging_reader_gets_the_queued_events_fails_and_can_resume() -> None:
    async def main() -> None:
        world = World()
        stream = world.feed.subscribe_session("s1", options=with_queue(Overflow.FAIL_SUBSCRIBER))
        await stream.open()
        await world.append(*[draft("x.a")] * 9)
        assert [(await anext(stream)).seq for _ in range(2)] == [1, 2]
        with pytest.raises(SubscriberLagged, match="1 events did not fit") as caught:
            await anext(stream)
        assert caught.value.notice.gap_start == 3
        assert world.feed.topic_count == 0
        again = world.feed.subscribe_session("s1", stream.cursor)
        assert [(await anext(again)).seq for _ in range(7)] == [*range(3, 10)]

    run(main)


def test_a_queue_that_was_closed_ends() -> None:
    async def main() -> None:
        world = World()
        await world.append(*[draft("x.a")] * 5)
        stream = world.feed.subscribe_session("s1", options=with_queue())
        await anext(stream)
        await stream.aclose()
        assert [one async for one in stream] == []

    run(main)


def test_a_cursor_is_valid_with_any_queue_capacity() -> None:
    async def main() -> None:
        world = World()
        await world.append(*[draft("x.a")] * 4)
        chosen = EventFilter(families=[UnknownEvent("x")]).compile()
        stream = world.feed.subscribe_filtered(chosen, options=with_queue(capacity=8))
        await anext(stream)
        other = world.feed.subscribe_filtered(chosen, stream.cursor, options=with_queue(capacity=9))
        assert (await anext(other)).seq == 2

    run(main)
