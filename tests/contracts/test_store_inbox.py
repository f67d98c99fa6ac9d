"""The contract of a store for its inbox, contents and snapshots."""

import asyncio

import pytest
from tests.contracts.stores import (
    NOW_MS,
    AnyStore,
    Play,
    claim,
    drafts,
    numbers,
    post,
    write,
)

from windlass.errors import Conflict, Rejected
from windlass.limits import CONTENT_BYTES_MAX, INBOX_ITEM_BYTES_MAX, INBOX_ITEMS_MAX, INBOX_STARTS_MAX
from windlass.ports.catalog import RunRow
from windlass.ports.inbox import Arrivals, InboxItem, NewRun, Posted
from windlass.ports.journal import Batch, Standing
from windlass_harness.loop.subagents import START
from windlass_protocol import ContentRef, JsonObject, RunStatus

RUN = NewRun("r1", "a1", "sha256:1")


# The inbox


def test_items_wait_in_the_order_in_which_they_came(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        first = await store.post("s1", kind="message", key="k1", body={"text": "hello"})
        await other.post("s2", kind="message", key="k2", body={})
        last = await other.post("s1", kind="cancel", key="k3", body={})
        assert first.is_new
        assert last.number > first.number
        assert await store.pending("s1") == (
            InboxItem(first.number, "s1", "message", "k1", {"text": "hello"}),
            InboxItem(last.number, "s1", "cancel", "k3", {}),
        )

    play(story)


def test_items_are_read_in_pages(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        items = [await post(store, f"k{index}") for index in range(5)]
        await post(store, "k9", "s2")

        async def page(after: int, limit: int) -> list[int]:
            return [item.number for item in await other.pending("s1", after=after, limit=limit)]

        assert await page(0, 2) == items[:2]
        assert await page(items[1], 2) == items[2:4]
        assert await page(items[3], 2) == items[4:]
        assert await page(items[4], 2) == []
        await store.append(Batch(await claim(store), 0, drafts(1), consumes=(items[1],)))
        assert await page(0, 2) == [items[0], items[2]]

    play(story)


def test_arrivals_name_the_sessions_with_new_items(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        assert await other.arrivals(after=0) == Arrivals(0, frozenset())
        first, second = await post(store, "k1"), await post(store, "k2", "s2")
        assert await other.arrivals(after=0) == Arrivals(second, frozenset({"s1", "s2"}))
        assert await other.arrivals(after=first) == Arrivals(second, frozenset({"s2"}))
        assert await other.arrivals(after=second) == Arrivals(second, frozenset())
        await store.append(Batch(await claim(store), 0, drafts(1), consumes=(first,)))
        assert await other.arrivals(after=0) == Arrivals(second, frozenset({"s2"}))
        assert await other.arrivals(after=2**53 - 1) == Arrivals(second, frozenset())

    play(story)


@pytest.mark.promise("L1")
def test_an_inbox_that_is_full_of_starts_has_room_for_answers_and_cancels(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        keys = [f"k{index}" for index in range(INBOX_STARTS_MAX)]
        await asyncio.gather(*(store.post("s1", kind=START, key=key, body={}) for key in keys))
        with pytest.raises(Rejected, match="inbox too large: 901 items, limit 900"):
            await other.post("s1", kind=START, key="more", body={})
        await other.post("s1", kind="cancel", key="cancel", body={})

    play(story)


def test_a_post_makes_its_session_and_wakes_it(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await post(store, "k1")
        row = await other.session("s1")
        assert row
        assert (row.standing, row.last_seq, row.epoch, row.owner_id) == (Standing.IDLE, 0, 0, None)
        assert await other.due(now_ms=NOW_MS) == ("s1",)

    play(story)


def test_the_same_post_is_the_same_item_also_after_it_was_consumed(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        body: JsonObject = {"a": 1, "b": [{"c": 2, "d": 3}]}
        same: JsonObject = {"b": [{"d": 3, "c": 2}], "a": 1}
        first = await store.post("s1", kind="message", key="k1", body=body)
        assert await other.post("s1", kind="message", key="k1", body=same) == Posted(
            first.number, is_new=False
        )
        mine = await claim(store)
        await store.append(Batch(mine, 0, drafts(1), consumes=(first.number,)))
        assert await other.pending("s1") == ()
        assert await other.post("s1", kind="message", key="k1", body=body) == Posted(
            first.number, is_new=False
        )
        assert await other.pending("s1") == ()

    play(story)


@pytest.mark.parametrize(
    ("kind", "body", "run"),
    [("cancel", {"a": 1}, None), ("message", {"a": 2}, None), ("message", {"a": 1}, RUN)],
)
def test_a_key_that_was_used_for_something_else_is_a_conflict(
    play: Play, kind: str, body: JsonObject, run: NewRun | None
) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await store.post("s1", kind="message", key="k1", body={"a": 1})
        with pytest.raises(Conflict, match="key k1 was used"):
            await other.post("s1", kind=kind, key="k1", body=body, run=run)
        assert len(await store.pending("s1")) == 1
        assert await store.run("r1") is None
        assert (await other.post("s2", kind=kind, key="k1", body=body)).is_new

    play(story)


@pytest.mark.promise("J4")
def test_a_run_id_is_taken_once_for_the_whole_store(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        first = await store.post("s1", kind="start", key="k1", body={"a": 1}, run=RUN)
        again = await other.post(
            "s1", kind="start", key="k2", body={"a": 1}, run=NewRun("r1", "a1", "sha256:2")
        )
        assert again == Posted(first.number, is_new=False)
        for session_id, body in (("s2", {"a": 1}), ("s1", {"a": 2})):
            with pytest.raises(Conflict, match="run id r1 was used"):
                await other.post(session_id, kind="start", key="k3", body={**body}, run=RUN)
        assert await store.session("s2") is None
        row = await store.run("r1")
        assert row
        assert row.fingerprint == "sha256:1"

    play(story)


def test_an_item_counts_once(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        item, elsewhere = await post(store, "k1"), await post(store, "k2", "s2")
        mine = await claim(store)
        for consumes in ((item, item), (elsewhere,), (item, 99)):
            with pytest.raises(Conflict, match="unknown or already consumed"):
                await store.append(Batch(mine, 0, drafts(9), consumes=consumes))
        await store.append(Batch(mine, 0, drafts(1), consumes=(item,)))
        with pytest.raises(Conflict):
            await store.append(Batch(mine, 1, drafts(2), consumes=(item,)))
        assert numbers(await other.read("s1")) == [1]
        assert [each.number for each in await other.pending("s2")] == [elsewhere]

    play(story)


@pytest.mark.promise("L1")
def test_an_item_may_be_as_large_as_the_limit_and_not_one_byte_larger(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        fits: JsonObject = {"t": "x" * (INBOX_ITEM_BYTES_MAX - len('{"t":""}'))}
        over: JsonObject = {"t": "x" * (INBOX_ITEM_BYTES_MAX - len('{"t":""}') + 1)}
        await store.post("s1", kind="message", key="k1", body=fits)
        with pytest.raises(Rejected, match="inbox item too large: 1,040,385 bytes, limit 1,040,384"):
            await store.post("s1", kind="message", key="k2", body=over)
        assert [item.body for item in await other.pending("s1")] == [fits]

    play(story)


@pytest.mark.slow
@pytest.mark.promise("L1")
def test_an_inbox_may_hold_as_many_items_as_the_limit_and_not_one_more(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await asyncio.gather(*(post(store, f"k{index}") for index in range(INBOX_ITEMS_MAX)))
        with pytest.raises(Rejected, match="inbox too large: 1,001 items, limit 1,000"):
            await post(store, "more", run_id="r1")
        assert await other.run("r1") is None
        await post(store, "k1")
        mine, [first] = await claim(store), await store.pending("s1", limit=1)
        await store.append(Batch(mine, 0, drafts(1), consumes=(first.number,)))
        await post(store, "more", run_id="r1")

    play(story)


def test_an_item_that_is_no_json_is_refused(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        with pytest.raises(Rejected, match="an inbox item holds a value"):
            await store.post("s1", kind="message", key="k1", body={"text": "\ud800"})
        assert await other.session("s1") is None

    play(story)


# Contents


def test_content_is_kept_once_under_its_hash(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        ref = await store.put(b"hello", media_type="text/plain")
        assert ref.hash == "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
        assert (ref.size_bytes, ref.media_type) == (5, "text/plain")
        assert (await other.put(b"hello")).hash == ref.hash
        assert await other.get(ref) == b"hello"
        assert await other.get(await store.put(b"")) == b""

    play(story)


def test_content_that_is_not_there_is_refused(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        missing = "sha256:" + "0" * 64
        with pytest.raises(Rejected, match="unknown content: sha256:000"):
            await store.get(ContentRef(content_id=missing, hash=missing, size_bytes=1))

    play(story)


@pytest.mark.slow
@pytest.mark.promise("L1")
def test_content_may_be_as_large_as_the_limit_and_not_one_byte_larger(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        content = bytes(CONTENT_BYTES_MAX)
        assert len(await store.get(await store.put(content))) == CONTENT_BYTES_MAX
        with pytest.raises(Rejected, match="content too large: 67,108,865 bytes, limit 67,108,864"):
            await store.put(content + b"x")

    play(story)


# Snapshots


def test_a_snapshot_is_replaced_by_a_newer_one_and_not_by_an_older_one(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await write(store, await claim(store), 1, 2, 3)
        assert await store.load("s1") is None
        await store.save("s1", 2, state=b"two")
        assert await other.load("s1") == (2, b"two")
        await store.save("s1", 1, state=b"one")
        assert await other.load("s1") == (2, b"two")
        await store.save("s1", 2, state=b"deux")
        assert await other.load("s1") == (2, b"deux")
        await store.save("s1", 3, state=b"three")
        assert await other.load("s1") == (3, b"three")

    play(story)


def test_a_snapshot_of_records_that_are_not_there_is_dropped(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await write(store, await claim(store), 1)
        await store.save("s1", 2, state=b"two")
        await store.save("nobody", 1, state=b"one")
        assert await other.load("s1") is await other.load("nobody") is None

    play(story)


@pytest.mark.promise("L1")
def test_a_snapshot_over_the_limit_is_dropped(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("adapters.journals.memory", "sql.store"):
        monkeypatch.setattr(f"windlass.{name}.SNAPSHOT_BYTES_MAX", 4)

    async def story(store: AnyStore, other: AnyStore) -> None:
        await write(store, await claim(store), 1)
        await store.save("s1", 1, state=b"12345")
        assert await other.load("s1") is None
        await store.save("s1", 1, state=b"1234")
        assert await other.load("s1") == (1, b"1234")

    play(story)


def test_a_repeated_start_is_compared_by_its_request_alone(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        first = NewRun("r1", "a1", "f1", request={"input": "go"})
        await store.post("s1", kind="start", key="r1", body={"package": 1}, run=first)
        changed = NewRun("r1", "a1", "f2", request={"input": "go"})
        again = await other.post("s1", kind="start", key="r1", body={"package": 2}, run=changed)
        assert not again.is_new
        assert (await store.pending("s1"))[0].body == {"package": 1}
        another = NewRun("r1", "a1", "f1", request={"input": "stop"})
        with pytest.raises(Conflict):
            await other.post("s1", kind="start", key="r1", body={"package": 1}, run=another)

    play(story)


def test_a_batch_may_begin_a_run_with_an_item_that_did_not_say_so(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await claim(store, "s1")
        posted = await store.post("s1", kind="steer", key="steer:m1", body={"message": "hello"})
        assert await other.run("r9") is None
        run = NewRun("r9", "agent", "sha256:1")
        batch = Batch(
            mine,
            0,
            drafts(1),
            consumes=(posted.number,),
            runs=(("r9", RunStatus.RUNNING),),
            new_runs=((run, posted.number),),
        )
        await store.append(batch)
        assert await other.run("r9") == RunRow(
            "r9", "s1", "agent", "sha256:1", RunStatus.RUNNING, 1, last_seq=1, owner=None
        )
        assert await other.pending("s1") == ()
        taken = await store.post("s1", kind="steer", key="steer:m2", body={"message": "again"})
        with pytest.raises(Conflict):
            await store.append(Batch(mine, 1, drafts(2), new_runs=((run, taken.number),)))
        assert len(await other.read("s1")) == 1

    play(story)
