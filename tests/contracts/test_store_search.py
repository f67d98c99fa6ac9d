"""The search of a store: which sessions have the words of a text, in every store alike."""

import asyncio
import string
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue
from tests.contracts.stores import NOW_MS, AnyStore, Play, claim
from tests.contracts.test_store_catalog import AT, PARENT, begin, body, end, fact, names, start
from tests.depth import some

from windlass.adapters.journals.memory import MemoryStore
from windlass.ports.archive import SessionCopy, StoredAppend
from windlass.ports.journal import Batch, Claim
from windlass.ports.listing import SessionFilter, SessionOrder
from windlass.sqlite.store import SqliteStore
from windlass_harness.loop.events import Draft
from windlass_harness.loop.subagents import START
from windlass_harness.record import Post, Record
from windlass_harness.views.listing import SessionNews, news_of, title_of, words_in
from windlass_protocol import RunStatus, SessionStatus


def having(text: str, *, owner: str | None = None, agent_id: str | None = None) -> SessionFilter:
    """A filter for the sessions with the words of a text."""
    return SessionFilter(words=words_in(text), owner=owner, agent_id=agent_id)


def called(tool: str, **arguments: JsonValue) -> Draft:
    action: JsonValue = {"kind": "tool-call", "callId": "c1", "toolName": tool, "input": arguments}
    return fact("actions.requested", actions=[action])


async def append(store: AnyStore, mine: Claim, after: int, *drafts: Draft) -> None:
    await store.append(Batch(mine, after, drafts))


def test_every_message_answer_question_and_tool_name_of_a_session_is_found(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await begin(store, message="Pay the hotel")
        assert await names(other, having("hotel")) == ["s1"]
        await append(
            store, mine, 2, fact("message.completed", message="Which account?"), called("send_email")
        )
        result: JsonValue = {"kind": "tool-result", "callId": "c1", "toolName": "x", "output": "delivered"}
        await append(store, mine, 4, fact("action.result", result=result))
        asked: JsonValue = {"requestId": "q1", "kind": "question", "prompt": "Savings or checking?"}
        await append(store, mine, 5, fact("input.requested", requests=[asked]))
        answer: JsonValue = {"requestId": "q1", "response": {"requestId": "q1", "text": "The joint one"}}
        await append(store, mine, 6, fact("input.resolved", resolutions=[answer]))
        parts: JsonValue = [{"type": "text", "text": "Look here"}, {"type": "file", "data": "pixels"}]
        await append(store, mine, 7, fact("message.received", message="", parts=parts))
        for text in ("ACCOUNT", "send", "email", "send_email", "sav", "checking", "joint", "look"):
            assert await names(other, having(text)) == ["s1"], text
        for text in ("delivered", "pixels", "mail", "sendemail"):
            assert await names(other, having(text)) == [], text

    play(story)


def test_the_arguments_of_a_call_are_not_found(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await begin(store)
        await append(store, mine, 2, called("pay", account="offshore"))
        assert await names(other, having("pay")) == ["s1"]
        assert await names(other, having("offshore")) == []

    play(story)


def test_all_words_must_occur_in_a_session_and_not_in_one_message(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await begin(store, message="Pay the hotel")
        await append(store, mine, 2, fact("message.completed", message="The bill is paid"))
        await begin(store, "s2", "r2", message="Pay the taxi")
        assert await names(other, having("hot bil")) == ["s1"]
        assert await names(other, having("pay")) == ["s2", "s1"]
        assert await names(other, having("taxi bill")) == []

    play(story)


def test_a_search_goes_on_where_the_last_one_ended(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await begin(store)
        for number in range(3):
            text = f"word{number}"
            assert await names(other, having(text)) == []
            await append(store, mine, 2 + number, fact("message.completed", message=text))
            assert await names(other, having(text)) == ["s1"]
            assert await names(store, having(text)) == ["s1"]

    play(story)


def test_a_run_that_has_not_started_or_was_withdrawn_is_found_by_its_title(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        number = await start(store, message="Pay the hotel")
        assert await names(other, having("hotel")) == ["s1"]
        mine = await claim(store)
        gone = fact("run.cancelled", unstarted=body())
        runs = (("r1", RunStatus.CANCELLED),)
        await store.append(Batch(mine, 0, (gone,), consumes=(number,), runs=runs, is_last=True))
        assert await names(other, having("hotel")) == ["s1"]

    play(story)


def test_words_narrow_the_list_and_change_neither_its_order_nor_its_pages(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await claim(store, "unused")
        for number in range(7):
            owner = "ann" if number % 2 else "bob"
            mine = await begin(store, f"s{number}", f"r{number}", message=f"Pay bill{number}", owner=owner)
            if number < 3:
                await end(store, mine, f"r{number}")
        item = Post("c1", START, "start:rc", {**body("rc", message="Pay bill9"), "parent": PARENT})
        await append(store, mine, 2, replace(fact("subagent.called", "r6"), posts=(item,)))
        assert await names(other, having("bill")) == [f"s{number}" for number in (6, 5, 4, 3, 2, 1, 0)]
        assert await names(other, replace(having("bill"), root_only=False)) == [
            "c1",
            *(f"s{number}" for number in (6, 5, 4, 3, 2, 1, 0)),
        ]
        assert await names(other, having("bill9")) == []
        assert await names(other, having("bill", owner="ann")) == ["s5", "s3", "s1"]
        assert await names(other, having("bill5", owner="bob")) == []
        assert await names(other, having("bill", agent_id="a2")) == []
        assert await names(other, replace(having("bill"), status=SessionStatus.COMPLETED)) == [
            "s2",
            "s1",
            "s0",
        ]
        first = await other.list_sessions(having("pay"), limit=3)
        await begin(store, "s7", "r7", message="Pay bill7")
        rest = await other.list_sessions(
            having("pay"), order=SessionOrder(after=(first[-1].number, first[-1].number)), limit=9
        )
        assert [one.session_id for one in (*first, *rest)] == [
            f"s{number}" for number in (6, 5, 4, 3, 2, 1, 0)
        ]

    play(story)


def test_a_session_without_a_place_in_the_list_is_not_found(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await claim(store)
        await append(store, mine, 0, fact("message.received", message="Pay the hotel"))
        assert await names(other, having("hotel")) == []
        # Once a run puts it into the list, what was said before counts.
        await append(store, mine, 1, fact("run.started", agentId="a1"))
        assert await names(other, having("hotel")) == ["s1"]

    play(story)


def test_copied_sessions_are_found(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await end(store, await begin(store, message="Pay the hotel"))
        assert await names(other, having("hotel")) == ["s1"]
        appends = await store.appends("s1")
        told = news_of([record for one in appends for record in one.records])
        assert told is not None
        await store.keep(SessionCopy("s2", appends, told, copied_from="s1"))
        said = Record("message.completed", AT, {"message": "From elsewhere"}, session_id="s3", seq=1)
        await store.keep(SessionCopy("s3", (StoredAppend((said,), 1),), SessionNews(AT, AT)))
        assert await names(other, having("hotel")) == ["s2", "s1"]
        assert await names(other, having("elsewhere")) == ["s3"]

    play(story)


def test_a_deleted_session_is_not_found_and_its_place_in_the_list_can_be_used_again(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        for number in (1, 2):
            mine = await begin(store, f"s{number}", f"r{number}", message=f"Pay hotel{number}")
            await end(store, mine, f"r{number}")
        assert await names(other, having("hotel")) == ["s2", "s1"]
        await store.delete("s2", now_ms=NOW_MS)
        assert await names(other, having("hotel")) == ["s1"]
        await start(store, "s3", "r3", message="Pay hotel3")
        assert await names(other, having("hotel")) == ["s3", "s1"]
        assert await names(other, having("hotel2")) == []
        await store.delete("s1", now_ms=NOW_MS)
        assert await names(other, having("hotel")) == ["s3"]

    play(story)


OPERATORS = (
    "AND",
    "OR",
    "NOT",
    "NEAR",
    "NEAR(a b)",
    "*",
    '"',
    "^",
    ":",
    "words:",
    "-",
    "(",
    ")",
    "+",
    "'",
    "a_b",
)
TEXTS = st.text(max_size=20) | st.text(string.printable, max_size=20) | st.sampled_from(OPERATORS)
SAID = st.lists(st.tuples(st.sampled_from(["said", "answered", "called"]), TEXTS), max_size=4)
"""What happens in a session, one append each."""


@pytest.mark.slow
@settings(max_examples=some(150))
@given(sessions=st.lists(st.tuples(TEXTS, SAID), min_size=1, max_size=4), data=st.data())
def test_all_stores_find_the_same_sessions(
    sessions: list[tuple[str, list[tuple[str, str]]]], data: st.DataObject
) -> None:
    known = [
        {
            word
            for text in (title, title_of({"message": title}), *(text for _, text in said))
            for word in words_in(text)
        }
        for title, said in sessions
    ]
    there = sorted(set[str]().union(*known))
    prefixes = st.sampled_from(there).flatmap(
        lambda word: st.integers(1, len(word)).map(lambda size: word[:size])
    )
    queries = data.draw(
        st.lists(st.lists(prefixes | TEXTS if there else TEXTS, min_size=1, max_size=3), max_size=4)
    )

    async def found(store: AnyStore) -> list[list[str]]:
        for number, (title, said) in enumerate(sessions):
            mine = await begin(store, f"s{number}", f"r{number}", message=title)
            for index, (how, text) in enumerate(said):
                one = {
                    "said": fact("message.received", message=text),
                    "answered": fact("message.completed", message=text),
                    "called": called(text),
                }[how]
                await append(store, mine, 2 + index, one)
            if number == 0:
                await store.list_sessions(having("a"))
        return [await names(store, having(" ".join(texts))) for texts in queries if words_in(" ".join(texts))]

    async def both() -> tuple[list[list[str]], list[list[str]]]:
        with tempfile.TemporaryDirectory() as folder:
            memory, sqlite = (
                MemoryStore(),
                await SqliteStore.open(Path(folder) / "a.db", durability="process"),
            )
            try:
                return await found(memory), await found(sqlite)
            finally:
                await sqlite.aclose()

    in_memory, on_disk = asyncio.run(both())
    expected = [
        [
            f"s{number}"
            for number in reversed(range(len(sessions)))
            if all(any(one.startswith(word) for one in known[number]) for word in words)
        ]
        for texts in queries
        if (words := words_in(" ".join(texts)))
    ]
    assert in_memory == on_disk == expected
