"""The contract of documents, in every store."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contracts.stores import AnyStore, Play

from windlass.errors import Conflict, Corrupt, Rejected
from windlass.limits import DOCUMENT_BYTES_MAX
from windlass.ports.documents import Document
from windlass.sqlite.schema import connect
from windlass.sqlite.store import SqliteStore

FIRST = Document("schedule", "nightly", 1, {"cron": "0 3 * * *", "ü": [1, None, "é\u2028"]}, 5_000)


def test_a_document_is_read_as_it_was_written_and_replaced_as_a_whole(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        assert await store.document("schedule", "nightly") is None
        await store.put_document(FIRST)
        assert await other.document("schedule", "nightly") == FIRST
        second = replace(FIRST, revision=2, body={}, due_at_ms=None)
        await other.put_document(second)
        assert await store.document("schedule", "nightly") == second
        assert await store.document("webhook", "nightly") is None

    play(story)


def test_a_write_that_does_not_know_the_stored_revision_is_refused(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        with pytest.raises(Conflict, match="schedule nightly does not exist, not at 1"):
            await store.put_document(replace(FIRST, revision=2))
        with pytest.raises(Conflict, match="does not exist"):
            await store.drop_document(FIRST)
        await store.put_document(FIRST)
        await other.put_document(replace(FIRST, revision=2))
        for revision in (1, 2, 4):
            with pytest.raises(Conflict, match="is at revision 2"):
                await store.put_document(replace(FIRST, revision=revision))
        with pytest.raises(Conflict, match="is at revision 2, not at 1: read it again"):
            await store.drop_document(FIRST)
        assert await store.document("schedule", "nightly") == replace(FIRST, revision=2)

    play(story)


def test_of_two_first_revisions_at_once_one_is_written(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        for number in range(40):
            pair = [Document("key", f"k{number}", 1, {"by": by}) for by in ("store", "other")]
            done = await asyncio.gather(
                store.put_document(pair[0]), other.put_document(pair[1]), return_exceptions=True
            )
            assert sorted(type(one).__name__ for one in done) == ["Conflict", "NoneType"]
            assert await store.document("key", f"k{number}") == pair[done.index(None)]

    play(story)


def test_a_dropped_document_is_gone_and_its_name_is_free(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await store.put_document(FIRST)
        await other.drop_document(FIRST)
        assert await store.documents("schedule") == ()
        assert await store.next_document_ms("schedule") is None
        await store.put_document(FIRST)

    play(story)


def test_documents_are_listed_by_name_and_by_time(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        for name, due_at_ms in (("c", 30), ("a", 40), ("d", None), ("b", 30)):
            await store.put_document(Document("schedule", name, 1, {}, due_at_ms))
        await store.put_document(Document("webhook", "z", 1, {}, 1))
        named = await other.documents("schedule", limit=3)
        assert [one.name for one in named] == ["a", "b", "c"]
        assert [one.name for one in await other.documents("schedule", after="c")] == ["d"]
        assert [one.name for one in await other.due_documents("schedule", now_ms=40)] == ["b", "c", "a"]
        assert [one.name for one in await other.due_documents("schedule", now_ms=30, limit=1)] == ["b"]
        assert await other.due_documents("schedule", now_ms=29) == ()
        assert await other.next_document_ms("schedule") == 30
        assert await other.next_document_ms("feed") is None

    play(story)


def test_a_document_that_is_too_large_is_refused(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        with pytest.raises(Rejected, match="schedule nightly"):
            await store.put_document(replace(FIRST, body={"text": "x" * DOCUMENT_BYTES_MAX}))
        assert await other.documents("schedule") == ()

    play(story)


def test_a_reader_may_change_what_it_got(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await store.put_document(FIRST)
        found = await other.document("schedule", "nightly")
        assert found is not None
        found.body.clear()
        assert await other.document("schedule", "nightly") == FIRST

    play(story)


def test_a_damaged_document_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def write() -> None:
        store = await SqliteStore.open(path)
        await store.put_document(FIRST)
        await store.aclose()

    async def read() -> None:
        store = await SqliteStore.open(path)
        try:
            with pytest.raises(Corrupt, match="schedule document"):
                await store.document("schedule", "nightly")
        finally:
            await store.aclose()

    asyncio.run(write())
    connection = connect(path)
    connection.execute("UPDATE documents SET due_at_ms = 6000").fetchall()
    connection.close()
    asyncio.run(read())
