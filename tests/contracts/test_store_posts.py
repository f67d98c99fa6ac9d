"""The contract of a store for items posted together with another session's records."""

import asyncio
from dataclasses import replace

import pytest
from tests.contracts.stores import (
    NOW_MS,
    AnyStore,
    Play,
    claim,
    draft,
    numbers,
    post,
)

from windlass.errors import Conflict, Rejected
from windlass.limits import INBOX_ITEM_BYTES_MAX, INBOX_ITEMS_MAX
from windlass.ports.catalog import RunRow
from windlass.ports.inbox import InboxItem, NewRun
from windlass.ports.journal import Batch
from windlass_harness.loop.events import Draft
from windlass_harness.loop.subagents import START
from windlass_harness.record import Post
from windlass_protocol import JsonObject, RunStatus

BODY: JsonObject = {"runId": "r2", "agentId": "a2", "packageFingerprint": "sha256:2"}
STARTS = Post("s2", START, "start:r2", BODY)


def telling(*posts: Post, number: int = 1) -> Draft:
    return replace(draft(number), posts=posts)


def test_records_and_posts_to_other_sessions_become_durable_together(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        held = await claim(store)
        told = Post("s3", "ask", "k1", {"n": 1})
        await store.append(Batch(held, 0, (telling(STARTS, told),)))
        assert numbers(await other.read("s1")) == [1]
        (first,) = await other.pending("s2")
        (second,) = await other.pending("s3")
        assert first == InboxItem(first.number, "s2", START, "start:r2", BODY)
        assert (second.kind, second.body) == ("ask", {"n": 1})
        assert await other.run("r2") == RunRow(
            "r2", "s2", "a2", "sha256:2", RunStatus.PENDING, 0, last_seq=0, owner=None
        )
        assert set(await other.due(now_ms=NOW_MS)) == {"s2", "s3"}

    play(story)


def test_a_refused_append_posts_nothing(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        held = await claim(store)
        with pytest.raises(Conflict):
            await store.append(Batch(held, 7, (telling(STARTS),)))
        large = Post("s2", "ask", "k", {"text": "x" * INBOX_ITEM_BYTES_MAX})
        with pytest.raises(Rejected):
            await store.append(Batch(held, 0, (telling(large),)))
        assert await other.pending("s2") == ()
        assert await other.session("s2") is None
        assert await other.read("s1") == ()

    play(story)


def test_a_post_with_a_known_key_does_not_replace_the_item(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await other.post("s2", kind="cancel", key="cancel:r2", body={"by": "ann"})
        held = await claim(store)
        await store.append(Batch(held, 0, (telling(Post("s2", "cancel", "cancel:r2", {"by": "bob"})),)))
        (item,) = await other.pending("s2")
        assert item.body == {"by": "ann"}
        assert numbers(await other.read("s1")) == [1]

    play(story)


def test_a_run_id_that_another_session_has_refuses_the_append(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await other.post("s9", kind=START, key="start:r2", body={}, run=NewRun("r2", "a9", "sha256:9"))
        held = await claim(store)
        with pytest.raises(Conflict):
            await store.append(Batch(held, 0, (telling(STARTS),)))
        assert await other.pending("s2") == ()
        assert await other.read("s1") == ()

    play(story)


def test_a_session_that_is_there_already_refuses_a_post_that_starts_it(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        run = NewRun("r2", "a2", "sha256:2", request={"n": 9})
        await other.post("s2", kind=START, key="start:r2", body={}, run=run)
        await other.post("s3", kind="ask", key="k", body={})
        held = await claim(store)
        for taken in (STARTS, Post("s3", START, "start:r3", {**BODY, "runId": "r3"})):
            with pytest.raises(Conflict):
                await store.append(Batch(held, 0, (telling(taken),)))
        assert await other.read("s1") == ()
        assert len(await other.pending("s2")) == len(await other.pending("s3")) == 1

    play(story)


def test_a_post_of_another_session_is_taken_by_a_full_inbox(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await asyncio.gather(*(post(store, f"k{number}", "s2") for number in range(INBOX_ITEMS_MAX)))
        with pytest.raises(Rejected):
            await post(store, "one too many", "s2")
        held = await claim(store)
        await store.append(Batch(held, 0, (telling(Post("s2", "ask", "k", {})),)))
        items = await other.pending("s2", limit=INBOX_ITEMS_MAX + 1)
        assert len(items) == INBOX_ITEMS_MAX + 1

    play(story)
