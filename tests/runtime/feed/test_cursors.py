"""Cursors: invalid ones are refused by kind, and valid ones round-trip as text."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.feed.scene import World, draft, drain, ended, run, started, ticks

from windlass.errors import Rejected
from windlass.feed import decode_cursor, encode_cursor
from windlass.feed.cursors import CURSOR_CHARS_MAX
from windlass.ports.feed import CursorExpired, EventFilter, EventStream, StreamOptions
from windlass_harness.record import Record
from windlass_protocol import (
    AgentCursor,
    AllCursor,
    Cursor,
    ErrorCode,
    FilterCursor,
    RunCursor,
    SessionCursor,
)

FILTER = EventFilter(families=["run"]).compile()
OTHER_FILTER = EventFilter(families=["step"]).compile()
STORED = StreamOptions(follow=False)
HERE: dict[str, Cursor] = {
    "all": AllCursor(position=1),
    "session": SessionCursor(session_id="s1", seq=1),
    "run": RunCursor(run_id="r1", seq=1),
    "agent": AgentCursor(agent_id="helper", position=1),
    "filter": FilterCursor(fingerprint=FILTER.fingerprint, position=1),
}
ELSEWHERE: dict[str, Cursor] = {
    "session": SessionCursor(session_id="s2", seq=1),
    "run": RunCursor(run_id="r2", seq=1),
    "agent": AgentCursor(agent_id="other", position=1),
    "filter": FilterCursor(fingerprint=OTHER_FILTER.fingerprint, position=1),
}
FUTURE: dict[str, Cursor] = {
    "all": AllCursor(position=4),
    "session": SessionCursor(session_id="s1", seq=4),
    "run": RunCursor(run_id="r1", seq=4),
    "agent": AgentCursor(agent_id="helper", position=4),
    "filter": FilterCursor(fingerprint=FILTER.fingerprint, position=4),
}
JOIN: dict[str, Callable[[World, Cursor | None], EventStream]] = {
    "all": lambda w, c: w.feed.subscribe_all(c, options=STORED),
    "session": lambda w, c: w.feed.subscribe_session("s1", c, options=STORED),
    "run": lambda w, c: w.feed.subscribe_run("r1", c, options=STORED),
    "agent": lambda w, c: w.feed.subscribe_agent("helper", c, options=STORED),
    "filter": lambda w, c: w.feed.subscribe_filtered(FILTER, c, options=STORED),
}


async def three_records(**more: object) -> World:
    world = World(**more)  # pyright: ignore[reportArgumentType] the options of the world
    await world.begin()
    await world.append(
        draft("run.started", {"runId": "r1", "agentId": "helper"}), draft("run.waiting"), ended()
    )
    return world


@pytest.mark.promise("F1")
@pytest.mark.parametrize("scope", JOIN)
@pytest.mark.parametrize("found", HERE)
def test_a_cursor_of_another_scope_is_refused_at_once(scope: str, found: str) -> None:
    async def main() -> None:
        world = await three_records()
        if scope == found:
            assert [event.seq for event in await drain(JOIN[scope](world, HERE[found]))] == [2, 3]
            return
        with pytest.raises(Rejected, match=f"cursor of another scope: expected {scope}, found {found}"):
            JOIN[scope](world, HERE[found])

    run(main)


@pytest.mark.promise("F1")
@pytest.mark.parametrize("scope", ELSEWHERE)
def test_a_cursor_of_another_thing_of_the_same_scope_is_refused(scope: str) -> None:
    async def main() -> None:
        world = await three_records()
        with pytest.raises(Rejected, match=f"cursor of another {scope}"):
            JOIN[scope](world, ELSEWHERE[scope])

    run(main)


@pytest.mark.promise("F1")
@pytest.mark.parametrize("scope", FUTURE)
def test_a_cursor_from_the_future_is_refused_when_the_stream_is_opened(scope: str) -> None:
    async def main() -> None:
        world = await three_records()
        stream = JOIN[scope](world, FUTURE[scope])
        for _ in range(2):
            with pytest.raises(Rejected, match="it is after record 4, the last record is 3"):
                await stream.open()
        with pytest.raises(Rejected):
            await anext(stream)
        assert world.feed.topic_count == 0
        assert await drain(JOIN[scope](world, FUTURE[scope].model_copy(update=_at_end(scope)))) == []

    run(main)


def _at_end(scope: str) -> dict[str, int]:
    return {"seq" if scope in ("session", "run") else "position": 3}


def test_something_that_is_no_cursor_is_refused() -> None:
    async def main() -> None:
        world = await three_records()
        with pytest.raises(Rejected, match="not a cursor: expected the cursor of a stream, found str"):
            world.feed.subscribe_all("a.3")  # pyright: ignore[reportArgumentType] callers without a checker

    run(main)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 513])
def test_a_name_that_is_no_id_is_refused(name: str) -> None:
    async def main() -> None:
        world = World()
        for subscribe in (world.feed.subscribe_session, world.feed.subscribe_run, world.feed.subscribe_agent):
            with pytest.raises(Rejected, match="not an id"):
                subscribe(name)

    run(main)


class Trimmed(World):
    """A store that has deleted its oldest records."""

    kept_from = 1

    def __post_init__(self) -> None:
        read, read_all = self.store.read, self.store.read_all

        async def kept(session_id: str, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
            return tuple(
                r for r in await read(session_id, after=after, limit=limit) if r.seq >= self.kept_from
            )

        async def kept_all(*, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
            found = await read_all(after=after, limit=limit)
            return tuple(r for r in found if (r.position or 0) >= self.kept_from)

        async def floor() -> int:
            return self.kept_from - 1

        self.store.read, self.store.read_all, self.floor = kept, kept_all, floor
        super().__post_init__()


@pytest.mark.promise("F1")
@pytest.mark.parametrize("scope", HERE)
def test_a_cursor_older_than_the_kept_records_is_expired(scope: str) -> None:
    async def main() -> None:
        world = Trimmed()
        await world.begin()
        await world.append(draft("run.started", {"runId": "r1", "agentId": "helper"}))
        await world.append(*[draft("run.waiting")] * 5)
        world.kept_from = 4
        with pytest.raises(CursorExpired, match=r"^cursor_expired: ") as caught:
            await drain(JOIN[scope](world, HERE[scope]))
        assert caught.value.code is ErrorCode.REJECTED
        just_kept = HERE[scope].model_copy(update=_at_end(scope))
        assert [event.seq for event in await drain(JOIN[scope](world, just_kept))] == [4, 5, 6]
        # Without a cursor a stream begins with the oldest kept record.
        assert [event.seq for event in await drain(JOIN[scope](world, None))] == [4, 5, 6]
        world.kept_from = 100
        if scope in ("session", "run"):
            with pytest.raises(CursorExpired):
                await drain(JOIN[scope](world, just_kept))

    run(main)


@pytest.mark.promise("F1")
@pytest.mark.parametrize("scope", ["all", "session"])
def test_a_reader_overtaken_by_deletion_gets_cursor_expired(scope: str) -> None:
    async def main() -> None:
        world = Trimmed(events_max=2)
        await world.append(*[draft("x.any")] * 3)
        live = world.feed.subscribe_all if scope == "all" else lambda: world.feed.subscribe_session("s1")
        stream = live()
        assert [(await anext(stream)).seq for _ in range(3)] == [1, 2, 3]
        await world.append(*[draft("x.any")] * 5)
        world.kept_from = 6
        with pytest.raises(CursorExpired):
            await anext(stream)

    run(main)


def test_an_opening_that_was_cancelled_can_be_done_again() -> None:
    async def main() -> None:
        world = await three_records()
        held = asyncio.Event()
        session = world.store.session

        async def slow(session_id: str) -> object:
            await held.wait()
            return await session(session_id)

        world.store.session = slow  # pyright: ignore[reportAttributeAccessIssue] a slow one in its place
        stream = world.feed.subscribe_session("s1")
        opening = asyncio.create_task(stream.open())
        await ticks(3)
        assert world.feed.topic_count == 1
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        assert world.feed.topic_count == 0
        held.set()
        assert (await anext(stream)).seq == 1

    run(main)


NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=512)
COUNTS = st.integers(0, 2**53 - 1)
INDEXES = st.none() | COUNTS
CURSORS: st.SearchStrategy[Cursor] = st.one_of(
    COUNTS.map(lambda n: AllCursor(position=n)),
    st.tuples(NAMES, COUNTS, INDEXES).map(lambda v: SessionCursor(session_id=v[0], seq=v[1], index=v[2])),
    st.tuples(NAMES, COUNTS, INDEXES).map(lambda v: RunCursor(run_id=v[0], seq=v[1], index=v[2])),
    st.tuples(NAMES, COUNTS).map(lambda v: AgentCursor(agent_id=v[0], position=v[1])),
    st.tuples(st.binary(min_size=32, max_size=32), COUNTS).map(
        lambda v: FilterCursor(fingerprint=f"sha256:{v[0].hex()}", position=v[1])
    ),
)


@given(CURSORS)
def test_every_cursor_survives_as_text(cursor: Cursor) -> None:
    text = encode_cursor(cursor)
    assert decode_cursor(text) == cursor
    assert text.isascii()
    assert not set(text) & set(" \t\r\n;,\"'")
    assert len(text) <= CURSOR_CHARS_MAX


@pytest.mark.promise("F1")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "a",
        "a.",
        "a.-1",
        "a.01",
        "a.1 ",
        " a.1",
        "a.1\n",
        "a.1.i1",
        "a.9007199254740992",
        "a.99999999999999999",
        "a.czE.1",
        "b.1",
        "s.1",
        "s.czE",
        "s.czE=.1",
        "s.czF.1",  # the same bytes in another spelling
        "s.c.1",
        "s.czE.1.2",
        "s.czE.1.i",
        "s._w.1",  # not UTF-8
        "s.Cg.1",  # a line feed is no id
        "g.czE.1.i1",
        "f.czE.1",
        "s." + "A" * CURSOR_CHARS_MAX + ".1",
        "٣",
        "a.٣",
    ],
)
def test_garbage_is_refused(text: str) -> None:
    with pytest.raises(Rejected, match=r"not a cursor|cursor too long"):
        decode_cursor(text)


@pytest.mark.slow
@given(st.text(max_size=40) | st.from_regex(r"[asrgf](\.[A-Za-z0-9_-]{1,9})?\.[0-9]{1,18}(\.i[0-9]{1,3})?"))
def test_no_text_is_read_as_two_places_or_breaks_the_reader(text: str) -> None:
    try:
        cursor = decode_cursor(text)
    except Rejected:
        return
    assert encode_cursor(cursor) == text


def test_a_filter_cursor_is_after_every_examined_record() -> None:
    """A reader with a narrow filter need not examine the skipped records again."""

    async def main() -> None:
        world = World()
        stream = world.feed.subscribe_filtered(FILTER)
        assert stream.cursor == FilterCursor(fingerprint=FILTER.fingerprint, position=0)
        await world.append(draft("run.waiting"), *[draft("x.any")] * 9)
        waiting = asyncio.create_task(stream.__anext__())
        assert (await waiting).seq == 1
        assert stream.cursor == FilterCursor(fingerprint=FILTER.fingerprint, position=10)
        await world.append(draft("run.waiting"), draft("run.waiting"), started())
        await anext(stream)
        # One more event is ready and was not handed out.
        assert stream.cursor == FilterCursor(fingerprint=FILTER.fingerprint, position=11)

    run(main)
