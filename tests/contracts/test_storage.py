"""The contract of `StorageAdapter`, kept by every storage."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue
from tests.contracts.storage_samples import (
    AT,
    Place,
    agent,
    event,
    everything,
    message,
    moment,
    postgres_place,
    run,
    session,
    span,
    sqlite_place,
    trace,
)

from windlass.errors import Conflict, Rejected
from windlass.limits import (
    STORAGE_BATCH_ITEMS_MAX,
    STORAGE_CURSOR_CHARS_MAX,
    STORAGE_DOCUMENT_BYTES_MAX,
    STORAGE_ID_BYTES_MAX,
    STORAGE_PAGE_ITEMS_MAX,
)
from windlass.storage.adapter import DocumentPage, StorageAdapter
from windlass_protocol import AgentSession, ChatAgent, ChatMessage, HarnessTrace
from windlass_protocol.codec import encode


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Each storage in turn, empty."""
    match request.param:
        case "memory":
            return Place("memory", None)
        case "sqlite":
            return sqlite_place(tmp_path)
        case _:
            return postgres_place(request.getfixturevalue("postgres"))


Test = Callable[[StorageAdapter], Awaitable[None]]


def check(place: Place, test: Test) -> None:
    """Run a test with an empty storage."""

    async def work() -> None:
        async with place.open() as storage:
            await test(storage)

    run(work())


# Documents


NULLS_AND_STRANGERS: dict[str, JsonValue] = {
    "nextStage": None,
    "stageData": {"n": 1, "f": 1.5, "deep": [{"a": [None, True]}], "text": "a\u0000b \U0001f9f0 \\ % _ '"},
    "title": "kept",
    "x-extra": {"list": [1, 2]},
}


def test_a_session_comes_back_as_it_was_given_with_unknown_fields_and_nulls(place: Place) -> None:
    async def test(storage: StorageAdapter) -> None:
        given_session = session(**NULLS_AND_STRANGERS)
        assert await storage.upsert_session(given_session) == given_session
        found = await storage.get_session("s1")
        assert found is not None
        assert encode(found) == encode(given_session)
        assert b'"nextStage":null' in encode(found)
        assert b"projectId" not in encode(found)

    check(place, test)


def test_every_other_document_comes_back_with_its_unknown_fields(place: Place) -> None:
    strange: dict[str, JsonValue] = {"x-extra": {"list": [1, None]}}

    async def test(storage: StorageAdapter) -> None:
        given_agent = agent(skillIds=["a", "b"], sortOrder=-3, **strange)
        assert await storage.upsert_agent(given_agent) == given_agent == await storage.get_agent("a1")
        call: JsonValue = {"id": "k", "name": "read", "arguments": {"path": "x"}}
        given_message = message(role="assistant", toolCalls=[call], **strange)
        assert await storage.append_message(given_message) == given_message
        assert await storage.list_messages("c1") == [given_message]
        given_trace = trace(endedAt=AT, outcome="ok", **strange)
        assert await storage.upsert_trace(given_trace) == given_trace == await storage.get_trace("t1")
        given_span = span(endAt=AT, parentId="p0", attrs={"tokens": 3}, **strange)
        await storage.append_spans("t1", [given_span])
        assert await storage.list_spans("t1") == [given_span]
        given_event = event(attrs={"why": "no"}, **strange)
        await storage.append_events("t1", [given_event])
        assert await storage.list_events("t1") == [given_event]

    check(place, test)


def test_missing_documents_are_none_or_an_empty_list(place: Place) -> None:
    async def test(storage: StorageAdapter) -> None:
        assert await storage.get_session("s") is None
        assert await storage.get_agent("s") is None
        assert await storage.get_trace("s") is None
        lists: list[
            DocumentPage[AgentSession]
            | DocumentPage[ChatAgent]
            | DocumentPage[ChatMessage]
            | DocumentPage[HarnessTrace]
        ] = [
            await storage.list_sessions(),
            await storage.list_agents(),
            await storage.list_messages("c"),
            await storage.list_traces("s"),
        ]
        assert all(page == [] and page.next_cursor is None for page in lists)
        assert await storage.list_spans("t") == []
        assert await storage.list_events("t") == []
        assert not await storage.delete_session("s")

    check(place, test)


def test_a_document_with_a_known_id_takes_the_place_of_the_other(place: Place) -> None:
    async def test(storage: StorageAdapter) -> None:
        await storage.upsert_session(session(title="old", userId="bob"))
        await storage.upsert_session(session(isActive=False))
        assert await storage.list_sessions() == [session(isActive=False)]
        assert await storage.list_sessions(user_id="bob") == []
        assert await storage.list_sessions(active_only=True) == []
        await storage.upsert_agent(agent(name="old"))
        await storage.upsert_agent(agent(name="new"))
        assert [found.name for found in await storage.list_agents()] == ["new"]
        await storage.upsert_trace(trace(sessionId="s0"))
        await storage.upsert_trace(trace(outcome="ok"))
        assert await storage.list_traces("s0") == []
        assert await storage.list_traces("s1") == [trace(outcome="ok")]

    check(place, test)


def test_changing_a_document_after_a_write_does_not_change_the_storage(place: Place) -> None:
    async def test(storage: StorageAdapter) -> None:
        mine = session(stageData={"n": 1})
        stored = await storage.upsert_session(mine)
        for document in (mine, stored):
            assert document.stage_data is not None
            document.stage_data["n"] = 2
        assert await storage.get_session("s1") == session(stageData={"n": 1})

    check(place, test)


# Lists


def test_sessions_are_listed_newest_first_independent_of_write_order_and_time_zone(place: Place) -> None:
    times = {
        "second": "2026-01-31T10:00:00.5Z",
        "first": "2026-01-31T13:00:00+03:30",
        "last": "2026-01-31T09:00:00.000001-01:00",
        "third": "2026-01-31T10:00:00.999999999Z",
    }

    async def test(storage: StorageAdapter) -> None:
        for name, created in times.items():
            await storage.upsert_session(session(name, createdAt=created))
        await storage.upsert_session(session("tie", createdAt=times["third"]))
        await storage.upsert_session(session("first", createdAt=times["first"], updatedAt=moment(1)))
        listed = [found.session_id for found in await storage.list_sessions()]
        assert listed == ["tie", "third", "second", "last", "first"]

    check(place, test)


def test_sessions_are_filtered_by_user_chat_and_activity(place: Place) -> None:
    async def test(storage: StorageAdapter) -> None:
        for number, (user, chat, active) in enumerate(
            [("ada", "c1", True), ("ada", "c2", False), ("bob", "c1", True), ("bob", "c2", True)]
        ):
            await storage.upsert_session(session(f"s{number}", userId=user, chatId=chat, isActive=active))

        async def ids(**filters: str | bool) -> set[str]:
            page = await storage.list_sessions(**filters)  # pyright: ignore[reportArgumentType] names of filters with their values
            return {found.session_id for found in page}

        assert await ids(user_id="ada") == {"s0", "s1"}
        assert await ids(chat_id="c2") == {"s1", "s3"}
        assert await ids(active_only=True) == {"s0", "s2", "s3"}
        assert await ids(user_id="ada", chat_id="c2", active_only=True) == set()
        assert await ids(user_id="") == set()

    check(place, test)


def test_agents_are_listed_by_sort_order_and_archived_ones_only_when_asked_for(place: Place) -> None:
    async def test(storage: StorageAdapter) -> None:
        await storage.upsert_agent(agent("late", createdAt=moment(9)))
        await storage.upsert_agent(agent("early", createdAt=moment(1)))
        await storage.upsert_agent(agent("two", sortOrder=2))
        await storage.upsert_agent(agent("negative", sortOrder=-1, isArchived=False))
        await storage.upsert_agent(agent("gone", sortOrder=1, isArchived=True))
        listed = [found.id for found in await storage.list_agents()]
        assert listed == ["negative", "two", "early", "late"]
        listed = [found.id for found in await storage.list_agents(include_archived=True)]
        assert listed == ["negative", "gone", "two", "early", "late"]

    check(place, test)


def test_the_newest_messages_of_a_chat_come_oldest_first_in_the_order_of_appending(place: Place) -> None:
    async def test(storage: StorageAdapter) -> None:
        for number in range(5):
            # The clock of the writer went backwards; the conversation did not.
            await storage.append_message(message(f"m{number}", createdAt=moment(50 - number)))
            await storage.append_message(message(f"m{number}", chatId="c2"))
        assert [found.id for found in await storage.list_messages("c1", 2)] == ["m3", "m4"]
        assert [found.id for found in await storage.list_messages("c1")] == ["m0", "m1", "m2", "m3", "m4"]
        pages = await everything(lambda cursor: storage.list_messages("c1", 2, cursor=cursor))
        assert [[found.id for found in page] for page in pages] == [["m3", "m4"], ["m1", "m2"], ["m0"]]

    check(place, test)


def test_spans_and_events_keep_the_order_in_which_they_were_appended(place: Place) -> None:
    async def test(storage: StorageAdapter) -> None:
        await storage.upsert_trace(trace())
        await storage.upsert_trace(trace("t2"))
        names = [str(number) for number in random.Random(7).sample(range(1000), 40)]
        for start in range(0, 40, 8):
            part = names[start : start + 8]
            await storage.append_spans("t1", [span(name) for name in part])
            await storage.append_spans("t2", [span(name) for name in reversed(part)])
            await storage.append_events("t1", [event(name) for name in part])
        await storage.append_spans("t1", [])
        await storage.append_events("t1", [])
        spans = await everything(lambda cursor: storage.list_spans("t1", limit=7, cursor=cursor))
        assert [found.span_id for page in spans for found in page] == names
        events = await everything(lambda cursor: storage.list_events("t1", limit=7, cursor=cursor))
        assert [found.event_id for page in events for found in page] == names

    check(place, test)


def test_a_span_that_ended_takes_the_place_of_the_one_that_began(place: Place) -> None:
    async def test(storage: StorageAdapter) -> None:
        await storage.upsert_trace(trace())
        await storage.append_spans("t1", [span("a"), span("b"), span("a", attrs={"n": 1})])
        await storage.append_spans("t1", [span("c"), span("a", endAt=AT)])
        assert await storage.list_spans("t1") == [span("a", endAt=AT), span("b"), span("c")]

    check(place, test)


def test_the_same_message_or_event_again_changes_nothing_and_another_with_its_id_is_a_conflict(
    place: Place,
) -> None:
    async def test(storage: StorageAdapter) -> None:
        for _ in range(2):
            await storage.append_message(message(title="x", **{"x-a": 1}))
        # The same fields in another order are the same message.
        await storage.append_message(message(**{"x-a": 1}, title="x"))
        with pytest.raises(Conflict):
            await storage.append_message(message(content="another"))
        assert await storage.list_messages("c1") == [message(title="x", **{"x-a": 1})]
        await storage.upsert_trace(trace())
        for _ in range(2):
            await storage.append_events("t1", [event("a"), event("b"), event("a")])
        for batch in ([event("c"), event("b", name="other")], [event("d"), event("d", name="other")]):
            with pytest.raises(Conflict):
                await storage.append_events("t1", batch)
        assert await storage.list_events("t1") == [event("a"), event("b")]

    check(place, test)


def test_spans_and_events_need_their_trace_first(place: Place) -> None:
    async def test(storage: StorageAdapter) -> None:
        with pytest.raises(Rejected, match="unknown trace"):
            await storage.append_spans("t1", [span()])
        with pytest.raises(Rejected, match="unknown trace"):
            await storage.append_events("t1", [event()])
        assert await storage.list_spans("t1") == []

    check(place, test)


# Cursors

ops = st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=12)


@given(before=st.lists(st.integers(0, 30), min_size=1, max_size=12), during=ops, limit=st.integers(1, 5))
@settings(
    max_examples=15,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    database=None,
)
def test_paging_lists_each_session_once_while_sessions_are_added(
    place: Place, before: list[int], during: list[tuple[int, bool]], limit: int
) -> None:
    async def test(storage: StorageAdapter) -> None:
        for found in await storage.list_sessions():
            await storage.delete_session(found.session_id)
        for number, second in enumerate(before):
            await storage.upsert_session(session(f"s{number}", createdAt=moment(second)))
        expected = [
            f"s{number}" for number, _ in sorted(enumerate(before), key=lambda item: (item[1], item[0]))
        ][::-1]
        seen: list[str] = []
        todo = list(enumerate(during))
        cursor: str | None = None
        while True:
            page = await storage.list_sessions(limit=limit, cursor=cursor)
            assert len(page) <= limit
            seen += [found.session_id for found in page]
            if page.next_cursor is None:
                break
            cursor = page.next_cursor
            if todo:
                number, (second, is_new) = todo.pop()
                name = f"new{number}" if is_new else f"s{number % len(before)}"
                kept = moment(second if is_new else before[number % len(before)])
                await storage.upsert_session(session(name, createdAt=kept, updatedAt=moment(59)))
        assert [name for name in seen if not name.startswith("new")] == expected
        assert len(seen) == len(set(seen))

    check(place, test)


def test_every_list_can_be_walked_in_pages_and_ends_without_a_cursor(place: Place) -> None:
    async def test(storage: StorageAdapter) -> None:
        names = [f"n{number}" for number in range(6)]
        for name in names:
            await storage.upsert_session(session(name))
            await storage.upsert_agent(agent(name))
            await storage.append_message(message(name))
            await storage.upsert_trace(trace(name, sessionId="n0"))
        sessions = await everything(lambda at: storage.list_sessions(limit=3, cursor=at))
        assert [[found.session_id for found in page] for page in sessions] == [names[:2:-1], names[2::-1]]
        agents = await everything(lambda at: storage.list_agents(limit=3, cursor=at))
        assert [[found.id for found in page] for page in agents] == [names[:3], names[3:]]
        messages = await everything(lambda at: storage.list_messages("c1", 6, cursor=at))
        assert [[found.id for found in page] for page in messages] == [names]
        traces = await everything(lambda at: storage.list_traces("n0", limit=5, cursor=at))
        assert [[found.trace_id for found in page] for page in traces] == [names[:0:-1], names[:1]]

    check(place, test)


BAD_CURSORS = [
    "",
    "x",
    "no cursor",
    "é" * 8,
    "\ud800",
    "bnVsbA",  # null
    "WyJ4IiwxXQ",  # ["x",1]
    "WzEsMl0",  # [1,2]
    "a" * STORAGE_CURSOR_CHARS_MAX,
    "a" * (STORAGE_CURSOR_CHARS_MAX + 1),
]


@pytest.mark.parametrize("cursor", BAD_CURSORS, ids=range(len(BAD_CURSORS)))
def test_an_invalid_cursor_is_rejected(cursor: str) -> None:
    async def test(storage: StorageAdapter) -> None:
        with pytest.raises(Rejected, match="cursor"):
            await storage.list_sessions(cursor=cursor)

    check(Place("memory", None), test)


def test_a_cursor_of_another_list_or_of_other_filters_is_rejected(place: Place) -> None:
    async def test(storage: StorageAdapter) -> None:
        for number in range(3):
            await storage.upsert_session(session(f"s{number}"))
            await storage.append_message(message(f"m{number}"))
            await storage.upsert_agent(agent(f"a{number}", createdAt="9999-12-31T23:59:59-23:59"))
        cursor = (await storage.list_sessions(user_id="ada", limit=1)).next_cursor
        others: list[Callable[[], Awaitable[object]]] = [
            partial(storage.list_sessions, cursor=cursor),
            partial(storage.list_sessions, user_id="bob", cursor=cursor),
            partial(storage.list_sessions, user_id="ada", active_only=True, cursor=cursor),
            partial(storage.list_messages, "c1", cursor=cursor),
            partial(storage.list_agents, cursor=cursor),
            partial(storage.list_spans, "t1", cursor=cursor),
        ]
        for other in others:
            with pytest.raises(Rejected, match="cursor of another list"):
                await other()
        assert await storage.list_sessions(user_id="ada", cursor=cursor)
        # The largest numbers that a cursor can hold.
        cursor = (await storage.list_agents(limit=2)).next_cursor
        assert [found.id for found in await storage.list_agents(cursor=cursor)] == ["a2"]

    check(place, test)


# Limits


@pytest.mark.parametrize("limit", [-1, 0, STORAGE_PAGE_ITEMS_MAX + 1])
def test_a_list_gives_from_one_item_to_its_limit(place: Place, limit: int) -> None:
    async def test(storage: StorageAdapter) -> None:
        lists: list[Callable[[], Awaitable[object]]] = [
            partial(storage.list_sessions, limit=limit),
            partial(storage.list_agents, limit=limit),
            partial(storage.list_messages, "c1", limit),
            partial(storage.list_traces, "s1", limit=limit),
            partial(storage.list_spans, "t1", limit=limit),
            partial(storage.list_events, "t1", limit=limit),
        ]
        for rejected in lists:
            with pytest.raises(Rejected, match="limit"):
                await rejected()

    check(place, test)


@pytest.mark.uncounted
def test_a_batch_may_be_as_large_as_its_limit_and_a_page_holds_all_of_it(place: Place) -> None:
    async def test(storage: StorageAdapter) -> None:
        await storage.upsert_trace(trace())
        spans = [span(f"p{number}") for number in range(STORAGE_BATCH_ITEMS_MAX + 1)]
        events = [event(f"e{number}") for number in range(STORAGE_BATCH_ITEMS_MAX + 1)]
        with pytest.raises(Rejected, match=r"1,001, limit 1,000"):
            await storage.append_spans("t1", spans)
        with pytest.raises(Rejected, match=r"1,001, limit 1,000"):
            await storage.append_events("t1", events)
        for _ in range(2):
            await storage.append_spans("t1", spans[:-1])
            await storage.append_events("t1", events[:-1])
        assert await storage.list_spans("t1") == spans[:-1]
        page = await storage.list_events("t1")
        assert page == events[:-1]
        assert page.next_cursor is None

    check(place, test)


def test_a_document_may_be_as_large_as_its_limit_and_not_one_byte_larger(place: Place) -> None:
    async def test(storage: StorageAdapter) -> None:
        room = STORAGE_DOCUMENT_BYTES_MAX - len(encode(message(content="")))
        largest = message(content="x" * room)
        await storage.append_message(largest)
        assert await storage.list_messages("c1") == [largest]
        with pytest.raises(Rejected, match="too large: more than 1,048,576 bytes"):
            await storage.append_message(message("m2", content="x" * (room + 1)))

    check(place, test)


def test_identifiers_may_reach_their_length_limit_and_hold_any_text(place: Place) -> None:
    longest = "".join(chr(0x10000 + number) for number in range(STORAGE_ID_BYTES_MAX // 4))

    async def test(storage: StorageAdapter) -> None:
        await storage.append_message(message(longest, chatId=longest[::-1]))
        assert [found.id for found in await storage.list_messages(longest[::-1])] == [longest]
        await storage.upsert_session(session(longest, userId=longest, chatId=longest))
        assert await storage.list_sessions(user_id=longest) == [
            session(longest, userId=longest, chatId=longest)
        ]
        for odd in ("", " ", "'; drop table windlass_session; --", "a\nb", "%"):
            await storage.upsert_session(session(odd))
            assert await storage.get_session(odd) == session(odd)

    check(place, test)


@pytest.mark.parametrize("bad", ["x" * (STORAGE_ID_BYTES_MAX + 1), "a\0b", "a\ud800"])
def test_identifiers_that_a_database_cannot_hold_are_rejected_everywhere(place: Place, bad: str) -> None:
    async def test(storage: StorageAdapter) -> None:
        calls: list[Callable[[], Awaitable[object]]] = [
            partial(storage.upsert_session, session(bad)),
            partial(storage.upsert_session, session(userId=bad)),
            partial(storage.upsert_session, session(chatId=bad)),
            partial(storage.get_session, bad),
            partial(storage.list_sessions, user_id=bad),
            partial(storage.list_sessions, chat_id=bad),
            partial(storage.delete_session, bad),
            partial(storage.upsert_agent, agent(bad)),
            partial(storage.get_agent, bad),
            partial(storage.append_message, message(bad)),
            partial(storage.append_message, message(chatId=bad)),
            partial(storage.list_messages, bad),
            partial(storage.upsert_trace, trace(bad)),
            partial(storage.upsert_trace, trace(sessionId=bad)),
            partial(storage.get_trace, bad),
            partial(storage.list_traces, bad),
            partial(storage.append_spans, bad, [span()]),
            partial(storage.list_spans, bad),
            partial(storage.append_events, bad, [event()]),
            partial(storage.list_events, bad),
            partial(storage.append_spans, "t1", [span(bad)]),
            partial(storage.append_events, "t1", [event(bad)]),
        ]
        await storage.upsert_trace(trace())
        for call in calls:
            with pytest.raises(Rejected) as caught:
                await call()
            assert bad not in str(caught.value)
        assert await storage.list_sessions() == []

    check(place, test)


def test_a_message_without_a_chat_and_a_document_that_is_none_are_rejected_without_their_content(
    place: Place,
) -> None:
    async def test(storage: StorageAdapter) -> None:
        no_chat = ChatMessage.model_validate(
            {"id": "m", "role": "user", "content": "s3cret", "createdAt": AT}
        )
        with pytest.raises(Rejected, match="chatId"):
            await storage.append_message(no_chat)
        unchecked = message().model_copy(update={"created_at": "s3cret"})
        with pytest.raises(Rejected, match="the message cannot be stored") as caught:
            await storage.append_message(unchecked)
        assert "s3cret" not in str(caught.value)
        assert caught.value.__context__ is None
        assert await storage.list_messages("c1") == []

    check(place, test)


# Deletion


async def fill(storage: StorageAdapter, *, sessions: int, each: int) -> None:
    """Sessions with chats of their own, and messages, traces, spans and events."""
    for number in range(sessions):
        await storage.upsert_session(session(f"s{number}", chatId=f"c{number}", title="Ünïcode \0"))
        for item in range(each):
            await storage.append_message(message(f"m{item}", chatId=f"c{number}", content="é\n"))
        for run_number in range(2):
            name = f"t{number}-{run_number}"
            await storage.upsert_trace(trace(name, sessionId=f"s{number}", startedAt=moment(9 - run_number)))
            await storage.append_spans(name, [span(f"p{item}") for item in range(each)])
            await storage.append_events(name, [event(f"e{item}") for item in range(each)])


def test_deleting_a_session_takes_all_that_belongs_to_it_and_nothing_else(place: Place) -> None:
    async def test(storage: StorageAdapter) -> None:
        await fill(storage, sessions=2, each=3)
        assert await storage.delete_session("s0")
        assert await storage.get_session("s0") is None
        assert await storage.list_messages("c0") == []
        assert await storage.list_traces("s0") == []
        assert await storage.get_trace("t0-0") is None
        assert await storage.list_spans("t0-0") == []
        assert await storage.list_events("t0-1") == []
        assert await storage.get_session("s1") is not None
        assert len(await storage.list_messages("c1")) == 3
        assert len(await storage.list_traces("s1")) == 2
        for name in ("t1-0", "t1-1"):
            assert (len(await storage.list_spans(name)), len(await storage.list_events(name))) == (3, 3)
        assert not await storage.delete_session("s0")
        # The ids are free again, and nothing of the old comes back with them.
        await storage.upsert_trace(trace("t0-0", sessionId="s0"))
        assert await storage.list_spans("t0-0") == []
        # A trace is deleted with its session, also if the session itself was never stored.
        assert not await storage.delete_session("s0")
        assert await storage.get_trace("t0-0") is None

    check(place, test)


def test_messages_of_a_chat_stay_until_its_last_session_is_deleted(place: Place) -> None:
    async def test(storage: StorageAdapter) -> None:
        await storage.upsert_session(session("one"))
        await storage.upsert_session(session("two"))
        await storage.append_message(message())
        assert await storage.delete_session("one")
        assert await storage.list_messages("c1") == [message()]
        assert await storage.delete_session("two")
        assert await storage.list_messages("c1") == []

    check(place, test)


# Many at once


def test_many_writers_of_one_document_leave_one_of_their_versions(place: Place) -> None:
    async def test(storage: StorageAdapter) -> None:
        versions = [session(stageData={"n": number, "same": str(number) * 50}) for number in range(60)]
        await asyncio.gather(*(storage.upsert_session(version) for version in versions))
        [found] = await storage.list_sessions()
        assert found in versions
        await asyncio.gather(*(storage.append_message(message()) for _ in range(40)))
        assert await storage.list_messages("c1") == [message()]

    check(place, test)


@pytest.mark.uncounted
def test_many_writers_of_different_documents_lose_nothing(place: Place) -> None:
    async def test(storage: StorageAdapter) -> None:
        await storage.upsert_trace(trace())
        names = [f"n{number:02}" for number in range(40)]
        await asyncio.gather(
            *(storage.upsert_session(session(name)) for name in names),
            *(storage.upsert_agent(agent(name)) for name in names),
            *(storage.append_message(message(name)) for name in names),
            *(storage.append_spans("t1", [span(name), span("shared", attrs={"by": name})]) for name in names),
            *(storage.append_events("t1", [event(name), event("shared")]) for name in names),
            *(storage.list_sessions() for _ in names),
        )
        assert {found.session_id for found in await storage.list_sessions()} == {*names}
        assert {found.id for found in await storage.list_agents()} == {*names}
        assert {found.id for found in await storage.list_messages("c1")} == {*names}
        assert {found.span_id for found in await storage.list_spans("t1")} == {*names, "shared"}
        assert {found.event_id for found in await storage.list_events("t1")} == {*names, "shared"}

    check(place, test)


async def awaited(call: Awaitable[object]) -> None:
    await call


def test_calls_that_are_cancelled_leave_whole_documents_or_none_and_a_storage_that_works(
    place: Place,
) -> None:
    async def test(storage: StorageAdapter) -> None:
        await storage.upsert_trace(trace())
        chance = random.Random(11)
        for number in range(30):
            batch = [event(f"{number}-a"), event(f"{number}-b")]
            calls: list[Awaitable[object]] = [storage.append_events("t1", batch), storage.list_events("t1")]
            tasks = [asyncio.ensure_future(awaited(call)) for call in calls]
            for _ in range(chance.randrange(60)):
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        found = [item.event_id for item in await storage.list_events("t1")]
        assert len(found) % 2 == 0
        assert {name[:-1] + "b" for name in found} <= {*found}
        await storage.upsert_session(session())
        assert await storage.get_session("s1") == session()

    check(place, test)
