"""The journal contract of a store, run against every adapter."""

import asyncio
from dataclasses import replace

import pytest
from tests.contracts.stores import (
    AT,
    NOW_MS,
    AnyStore,
    Play,
    claim,
    draft,
    drafts,
    numbers,
    post,
    write,
)

from windlass.errors import Conflict, Rejected, Unavailable
from windlass.limits import BATCH_RECORDS_MAX, OWNER_LEASE_MS, RECORD_BYTES_MAX
from windlass.ports.catalog import SessionRow, count_by_agent
from windlass.ports.inbox import NewRun
from windlass.ports.journal import Appended, Batch, Claim, Standing
from windlass.ports.store import Store
from windlass_harness.loop.events import Draft
from windlass_harness.loop.subagents import CANCEL, START
from windlass_harness.record import number
from windlass_protocol import RunStatus

# Appending and reading


@pytest.mark.promise("J3")
def test_records_are_numbered_from_one_without_gaps_over_all_appends(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await claim(store)
        assert await write(store, mine, 1, 2) == Appended(first_seq=1, first_position=1)
        assert await write(store, mine, 3, after=2) == Appended(first_seq=3, first_position=3)
        records = await other.read("s1")
        assert [record.seq for record in records] == [1, 2, 3]
        assert numbers(records) == [1, 2, 3]

    play(story)


def test_a_record_comes_back_as_it_was_written_with_its_numbers_and_epoch(play: Play) -> None:
    full = Draft("note.made", AT, {"a": [1, 2.5, None, True, "ü\n"]}, "r1", "a1", "t1", 3, 2)
    bare = Draft("note.made", AT, {})

    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await claim(store)
        await store.append(Batch(mine, 0, (full, bare)))
        expected = tuple(
            number(each, "s1", seq=seq, epoch=mine.epoch, position=seq)
            for seq, each in ((1, full), (2, bare))
        )
        assert await store.read("s1") == await other.read_all() == expected

    play(story)


def test_positions_run_over_all_sessions_in_the_order_of_the_appends(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        first, second = await claim(store, "s1"), await claim(other, "s2", "o2")
        await write(store, first, 1, 2)
        await write(other, second, 3)
        await write(store, first, 4, after=2)
        records = await store.read_all()
        assert [(each.session_id, each.seq, each.position) for each in records] == [
            ("s1", 1, 1),
            ("s1", 2, 2),
            ("s2", 1, 3),
            ("s1", 3, 4),
        ]
        assert await other.last_position() == 4

    play(story)


def test_an_empty_store_has_nothing_to_read(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        assert await store.read("nobody") == await store.read_all() == await store.sessions() == ()
        assert await store.last_position() == 0
        assert (
            await store.session("nobody") is await store.run("nothing") is await store.next_wake_ms() is None
        )
        assert await store.pending("nobody") == await store.due(now_ms=NOW_MS) == ()

    play(story)


@pytest.mark.uncounted
@pytest.mark.parametrize("after", range(9))
@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_reading_in_pages_gives_every_record_once(play: Play, after: int, limit: int) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine, theirs = await claim(store), await claim(store, "s2")
        await write(store, mine, 1, 2, 3)
        await write(store, theirs, 0, 0)
        await write(store, mine, 4, after=3)
        await write(store, mine, 5, 6, 7, 8, after=4)
        found: list[object] = []
        while page := await other.read("s1", after=after + len(found), limit=limit):
            assert len(page) >= min(limit, 8 - after - len(found))
            found += numbers(page)
        assert found == list(range(after + 1, 9))
        positions: list[int] = []
        last = after
        while page := await other.read_all(after=last, limit=limit):
            positions += [record.position or 0 for record in page]
            last = positions[-1]
        assert positions == list(range(after + 1, 11))

    play(story)


STEP = tuple(Draft(kind, AT, {}) for kind in ("action.started", "action.result", "step.started"))
ENDED = Draft("run.completed", AT, {"runId": "r1"})


def test_milestones_are_all_records_but_those_of_appends_of_steps(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await claim(store)
        await write(store, mine, 1, 2)
        for after in range(2, 32, 3):
            await store.append(Batch(mine, after, STEP))
        await store.append(Batch(mine, 32, (STEP[1], ENDED)))
        await store.append(Batch(mine, 34, STEP, asked=()))  # its result closed a request
        await store.append(Batch(mine, 37, STEP))
        found = await other.milestones("s1")
        assert [record.seq for record in found] == [1, 2, 33, 34, 35, 36, 37]
        assert found == tuple(record for record in await store.read("s1") if record in found)
        assert await other.milestones("s1", after=37) == await other.milestones("unknown") == ()

    play(story)


@pytest.mark.uncounted
@pytest.mark.parametrize("after", range(14))
@pytest.mark.parametrize("limit", [1, 3, 100])
def test_reading_milestones_in_pages_gives_every_record_once(play: Play, after: int, limit: int) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await claim(store)
        await write(store, mine, 1, 2, 3)
        await store.append(Batch(mine, 3, STEP))
        await write(store, mine, 7, 8, after=6)
        await store.append(Batch(mine, 8, STEP))
        await write(store, mine, 12, after=11)
        expected = [seq for seq in (1, 2, 3, 7, 8, 12) if seq > after]
        found: list[int] = []
        while page := await other.milestones("s1", after=found[-1] if found else after, limit=limit):
            assert len(page) >= min(limit, len(expected) - len(found))
            found += [record.seq for record in page]
        assert found == expected

    play(story)


def test_an_append_without_records_changes_the_standing_alone(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await claim(store)
        await write(store, mine, 1)
        moved = await write(store, mine, after=1, standing=Standing.WAITING, wake_at_ms=5)
        assert moved == Appended(first_seq=2, first_position=2)
        assert await other.session("s1") == SessionRow("s1", Standing.WAITING, 1, mine.epoch, 5, "o1")
        assert len(await other.read("s1")) == await other.last_position() == 1

    play(story)


def test_standing_none_leaves_the_standing_and_the_time_as_they_are(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await claim(store)
        await write(store, mine, 1, standing=Standing.WAITING, wake_at_ms=5)
        await write(store, mine, 2, after=1, wake_at_ms=9)
        row = await store.session("s1")
        assert row
        assert (row.standing, row.wake_at_ms, row.last_seq) == (Standing.WAITING, 5, 2)

    play(story)


# The fence


@pytest.mark.promise("J4")
@pytest.mark.parametrize("expected_seq", [0, 1, 3])
def test_an_append_behind_another_record_than_the_last_is_a_conflict(play: Play, expected_seq: int) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await claim(store)
        await write(store, mine, 1, 2)
        with pytest.raises(Conflict, match=f"ends at 2, expected {expected_seq}"):
            await write(store, mine, 9, after=expected_seq)
        assert numbers(await store.read("s1")) == [1, 2]

    play(story)


@pytest.mark.promise("J4")
def test_an_owner_that_lost_its_claim_gets_a_conflict_at_its_next_append(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        stale = await claim(store)
        await write(store, stale, 1)
        await other.enlist("o2", now_ms=NOW_MS + OWNER_LEASE_MS)
        fresh = await other.claim("s1", "o2", now_ms=NOW_MS + OWNER_LEASE_MS)
        assert fresh == Claim("s1", "o2", epoch=stale.epoch + 1, last_seq=1)
        with pytest.raises(Conflict, match="stale"):
            await write(store, stale, 9, after=1)
        await write(other, fresh, 2, after=1)
        assert numbers(await store.read("s1")) == [1, 2]

    play(story)


def test_a_session_of_a_living_owner_cannot_be_claimed(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await claim(store)
        await other.enlist("o2", now_ms=NOW_MS)
        with pytest.raises(Conflict, match="belongs to owner o1"):
            await other.claim("s1", "o2", now_ms=NOW_MS + OWNER_LEASE_MS - 1)
        await write(store, mine, 1)

    play(story)


def test_an_owner_may_claim_again_and_its_older_claim_is_stale(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        first = await claim(store)
        second = await claim(store)
        assert second.epoch == first.epoch + 1
        with pytest.raises(Conflict):
            await write(store, first, 1)
        await write(store, second, 1)

    play(story)


@pytest.mark.parametrize("lie", ["epoch", "owner"])
def test_a_claim_that_was_never_given_is_refused(play: Play, lie: str) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await claim(store)
        forged = replace(mine, epoch=2) if lie == "epoch" else replace(mine, owner_id="o2")
        with pytest.raises(Conflict):
            await write(store, forged, 1)
        with pytest.raises(Rejected, match="unknown session: s9"):
            await write(store, replace(mine, session_id="s9"), 1)

    play(story)


def test_claiming_makes_a_session(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await store.enlist("o1", now_ms=NOW_MS)
        assert await store.session("s1") is None
        assert await store.claim("s1", "o1", now_ms=NOW_MS) == Claim("s1", "o1", epoch=1, last_seq=0)
        assert await other.session("s1") == SessionRow("s1", Standing.IDLE, 0, 1, None, "o1")
        assert (await store.claim("s1", "o1", now_ms=NOW_MS)).epoch == 2

    play(story)


def test_only_an_enlisted_owner_can_claim(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        with pytest.raises(Rejected, match="o1 is not enlisted"):
            await store.claim("s1", "o1", now_ms=NOW_MS)
        assert await store.session("s1") is None

    play(story)


def test_an_owner_lets_go_with_its_last_append(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await claim(store)
        await write(store, mine, 1, is_last=True)
        row = await store.session("s1")
        assert row
        assert row.owner_id is None
        with pytest.raises(Conflict):
            await write(store, mine, 2, after=1)
        theirs = await claim(other, owner_id="o2")
        await write(other, theirs, 2, after=1)

    play(story)


def test_a_retired_owner_frees_its_sessions_at_once(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await claim(store)
        await write(store, mine, 1, standing=Standing.RUNNING)
        assert await store.due(now_ms=NOW_MS) == ()
        await store.retire("o1")
        await store.retire("nobody")
        assert await other.due(now_ms=NOW_MS) == ("s1",)
        with pytest.raises(Conflict):
            await write(store, mine, 2, after=1)
        await claim(other, owner_id="o2")

    play(story)


def test_owners_live_until_they_retire_or_their_lease_ends(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        assert await store.living(now_ms=NOW_MS) == frozenset()
        for owner_id in ("o1", "o2"):
            await store.enlist(owner_id, now_ms=NOW_MS)
        await other.enlist("o3", now_ms=NOW_MS)
        await store.retire("o2")
        assert await store.living(now_ms=NOW_MS) == {"o1", "o3"}
        await store.enlist("o1", now_ms=NOW_MS + OWNER_LEASE_MS - 1)
        assert await other.living(now_ms=NOW_MS + OWNER_LEASE_MS) == {"o1"}

    play(story)


def test_an_owner_that_renews_its_lease_keeps_its_sessions(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await write(store, await claim(store), 1, standing=Standing.RUNNING)
        later = NOW_MS + OWNER_LEASE_MS
        await store.enlist("o1", now_ms=later - 1)
        assert await other.due(now_ms=later) == ()
        assert await other.due(now_ms=later + OWNER_LEASE_MS - 1) == ("s1",)

    play(story)


DAY_MS = 86_400_000


@pytest.mark.promise("J4")
def test_a_heartbeat_from_the_future_expires_unless_it_is_renewed(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await write(store, await claim(store), 1, standing=Standing.RUNNING)
        await store.enlist("o1", now_ms=NOW_MS + 2 * DAY_MS)
        # The clock is set back by a day. An owner that lives renews its heartbeat.
        back = NOW_MS + DAY_MS
        assert await other.due(now_ms=back) == ()
        assert await other.due(now_ms=back + OWNER_LEASE_MS - 1) == ()
        await store.enlist("o1", now_ms=back + OWNER_LEASE_MS - 1)
        assert await other.due(now_ms=back + OWNER_LEASE_MS) == ()
        # Again, and the owner is stopped.
        again = NOW_MS
        assert await other.due(now_ms=again + 1) == ()
        assert await other.due(now_ms=again) == ()
        assert await other.due(now_ms=again + OWNER_LEASE_MS - 1) == ()
        assert await other.due(now_ms=again + OWNER_LEASE_MS) == ("s1",)
        await other.enlist("o2", now_ms=again + OWNER_LEASE_MS)
        await other.claim("s1", "o2", now_ms=again + OWNER_LEASE_MS)

    play(story)


# Due sessions


async def start(store: Store, session_id: str, run_id: str, *, agent_id: str) -> int:
    run = NewRun(run_id, agent_id, "sha256:1")
    return (await store.post(session_id, kind=START, key=run_id, body={}, run=run)).number


def test_a_session_with_a_cancel_is_due_for_all(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await start(store, "a", "a1", agent_id="A")
        await start(store, "b", "b1", agent_id="B")
        assert await other.due(now_ms=NOW_MS, agents=("A",)) == ("a",)
        await store.post("b", kind=CANCEL, key="cancel", body={})
        assert await other.due(now_ms=NOW_MS, agents=("A",)) == ("b", "a"), "any process can end a run"
        mine = await claim(store, "b")
        assert await other.due(now_ms=NOW_MS, agents=("A",)) == ("a",)
        await write(store, mine, 1, standing=Standing.RUNNING)

    play(story)


def test_due_leaves_out_sessions_with_next_work_for_another_agent(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        first = await start(store, "mixed", "m1", agent_id="A")
        second = await start(store, "mixed", "m2", agent_id="B")
        await start(store, "b", "b1", agent_id="B")
        await post(store, "k1", "free")

        async def due(*agents: str) -> tuple[str, ...]:
            return await other.due(now_ms=NOW_MS, agents=agents)

        assert await other.due(now_ms=NOW_MS) == ("free", "mixed", "b"), "no queue of starts delays others"
        assert await due("A") == ("free", "mixed"), "its oldest start is of A"
        assert await due("B") == ("free", "b")
        assert await due() == ("free",)
        assert await other.due(now_ms=NOW_MS, agents=("A",), limit=1) == ("free",)
        mine = await claim(store, "mixed")
        began = Batch(mine, 0, drafts(1), consumes=(first,), runs=(("m1", RunStatus.RUNNING),), is_last=True)
        await store.append(replace(began, standing=Standing.RUNNING))
        assert await due("A") == ("mixed", "free"), "the run under way is of A"
        assert await due("B") == ("free", "b")
        assert count_by_agent(await other.open_runs()) == {"A": 1, "B": 2}
        mine = await claim(store, "mixed")
        ended = Batch(mine, 1, drafts(2), runs=(("m1", RunStatus.COMPLETED),), is_last=True)
        await store.append(replace(ended, standing=Standing.IDLE))
        assert await due("A") == ("free",)
        assert await due("B") == ("free", "mixed", "b"), "its turn has come"
        assert count_by_agent(await other.open_runs()) == {"B": 2}
        mine = await claim(store, "mixed")
        await store.append(Batch(mine, 2, drafts(3), consumes=(second,), runs=(("m2", RunStatus.WAITING),)))
        await store.append(Batch(mine, 3, (), standing=Standing.WAITING, wake_at_ms=5, is_last=True))
        assert await due("A") == ("free",), "also when a time has come"
        assert await due("B") == ("mixed", "free", "b")

    play(story)


def test_running_sessions_without_an_owner_are_due_oldest_first(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        for name in ("c", "a", "b"):
            mine = await claim(store, name)
            await write(store, mine, 1, standing=Standing.RUNNING, is_last=True)
        await write(store, await claim(store, "idle"), 1, standing=Standing.IDLE, is_last=True)
        await write(store, await claim(store, "owned"), 1, standing=Standing.RUNNING)
        assert await other.due(now_ms=NOW_MS) == ("c", "a", "b")
        assert await other.due(now_ms=NOW_MS, limit=2) == ("c", "a")

    play(story)


def test_waiting_sessions_are_due_when_their_time_has_come_the_earliest_first(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        for name, wake_at_ms in (("late", 30), ("never", None), ("early", 10), ("middle", 20)):
            mine = await claim(store, name)
            await write(store, mine, 1, standing=Standing.WAITING, wake_at_ms=wake_at_ms, is_last=True)
        await write(store, await claim(store, "busy"), 1, standing=Standing.RUNNING, wake_at_ms=1)
        assert await other.next_wake_ms() == 10
        assert await other.due(now_ms=9) == ()
        assert await other.due(now_ms=20) == ("early", "middle")
        again = await store.claim("early", "o1", now_ms=NOW_MS)
        await write(store, again, 2, after=1, standing=Standing.IDLE, is_last=True)
        assert await other.due(now_ms=20) == ("middle",)
        assert await other.next_wake_ms() == 20

    play(story)


def test_sessions_with_items_are_due_in_the_order_of_their_oldest_item(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        for key, name in (("1", "b"), ("2", "a"), ("3", "b"), ("4", "c")):
            await post(store, key, name)
        assert await other.due(now_ms=NOW_MS) == ("b", "a", "c")
        mine = await claim(store, "b")
        assert await other.due(now_ms=NOW_MS) == ("a", "c")
        await store.append(Batch(mine, 0, drafts(1), consumes=(1,), is_last=True))
        assert await other.due(now_ms=NOW_MS) == ("a", "b", "c")
        mine = await claim(store, "b")
        await store.append(Batch(mine, 1, drafts(2), consumes=(3,), is_last=True))
        assert await other.due(now_ms=NOW_MS) == ("a", "c")

    play(story)


def test_a_start_in_the_inbox_of_a_waiting_session_waits_as_well(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await claim(store, "s1")
        await write(store, mine, 1, standing=Standing.WAITING, is_last=True)
        await store.post("s1", kind=START, key="r2", body={}, run=NewRun("r2", "a1", "sha256:1"))
        assert await other.due(now_ms=NOW_MS) == ()
        await post(store, "answer")
        assert await other.due(now_ms=NOW_MS) == ("s1",)
        mine = await claim(store, "s1")
        await store.append(Batch(mine, 1, drafts(2), consumes=(2,), standing=Standing.IDLE, is_last=True))
        assert await other.due(now_ms=NOW_MS) == ("s1",), "its turn has come"

    play(story)


def test_no_kind_of_work_starves_another_and_a_session_is_named_once(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        for name in ("r1", "r2", "r3"):
            await write(store, await claim(store, name), 1, standing=Standing.RUNNING, is_last=True)
        for name in ("w1", "w2"):
            mine = await claim(store, name)
            await write(store, mine, 1, standing=Standing.WAITING, wake_at_ms=5, is_last=True)
        for key, name in (("1", "i1"), ("2", "r3"), ("3", "w1")):
            await post(store, key, name)
        assert await other.due(now_ms=NOW_MS) == ("r1", "w1", "i1", "r2", "w2", "r3")
        assert await other.due(now_ms=NOW_MS, limit=3) == ("r1", "w1", "i1")

    play(story)


# The catalogue


def test_sessions_are_listed_in_the_order_of_their_ids_in_pages(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        for name in ("b", "ä", "a", "B", "🌍"):
            await claim(store, name)
        page = await other.sessions(limit=2)
        assert [row.session_id for row in page] == ["B", "a"]
        rest = await other.sessions(after="a")
        assert [row.session_id for row in rest] == ["b", "ä", "🌍"]
        assert rest[0] == await store.session("b")

    play(story)


def test_a_run_is_in_the_catalogue_from_its_post_to_its_end(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        item = await post(store, "k1", run_id="r1")
        row = await other.run("r1")
        assert row
        assert (row.run_id, row.session_id, row.agent_id, row.fingerprint) == ("r1", "s1", "a1", "sha256:1")
        assert (row.status, row.first_seq) == (RunStatus.PENDING, 0)
        mine = await claim(store)
        await write(store, mine, 1, 2)
        started = Batch(mine, 2, drafts(3), consumes=(item,), runs=(("r1", RunStatus.RUNNING),))
        await store.append(started)
        assert await other.run("r1") == replace(row, status=RunStatus.RUNNING, first_seq=3, last_seq=3)
        await store.append(Batch(mine, 3, drafts(4), runs=(("r1", RunStatus.COMPLETED),)))
        assert await other.run("r1") == replace(row, status=RunStatus.COMPLETED, first_seq=3, last_seq=4)

    play(story)


def test_a_run_that_was_not_started_in_the_session_cannot_change(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await post(store, "k1", "elsewhere", run_id="r1")
        mine = await claim(store)
        for run_id in ("r1", "r9"):
            with pytest.raises(Rejected, match=f"{run_id} was not started in session s1"):
                await store.append(Batch(mine, 0, drafts(1), runs=((run_id, RunStatus.RUNNING),)))
        assert await store.read("s1") == ()

    play(story)


def test_a_run_named_without_records_is_still_without_a_first_one(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        await post(store, "k1", run_id="r1")
        mine = await claim(store)
        await store.append(Batch(mine, 0, (), runs=(("r1", RunStatus.CANCELLED),)))
        row = await other.run("r1")
        assert row
        assert (row.status, row.first_seq) == (RunStatus.CANCELLED, 0)

    play(story)


# Limits and bad input


def record_of(size: int) -> Draft:
    """Return a draft that takes as many bytes in the journal."""
    empty = len('["note.made","2026-01-31T09:30:00.250Z",{"number":0,"text":""},"r1"]')
    return draft(size=size - empty)


@pytest.mark.promise("L1")
def test_a_record_may_be_as_large_as_the_limit_and_not_one_byte_larger(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await claim(store)
        await store.append(Batch(mine, 0, (record_of(RECORD_BYTES_MAX), draft(1))))
        with pytest.raises(Rejected, match="record too large: 1,048,577 bytes, limit 1,048,576"):
            await store.append(Batch(mine, 2, (draft(2), record_of(RECORD_BYTES_MAX + 1))))
        assert numbers(await other.read("s1")) == [0, 1]

    play(story)


@pytest.mark.promise("L1")
def test_a_batch_may_have_as_many_records_as_the_limit_and_not_one_more(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await claim(store)
        await write(store, mine, *range(BATCH_RECORDS_MAX))
        with pytest.raises(Rejected, match="batch too large: 1,025 records, limit 1,024"):
            await write(store, mine, *range(BATCH_RECORDS_MAX + 1), after=BATCH_RECORDS_MAX)
        assert await other.last_position() == BATCH_RECORDS_MAX

    play(story)


def nested(depth: int) -> Draft:
    data: dict[str, object] = {}
    for _ in range(depth):
        data = {"in": data}
    return Draft("note.made", AT, data)  # pyright: ignore[reportArgumentType] # the type cannot say how deep


@pytest.mark.parametrize(
    "bad",
    [
        Draft("note.made", AT, {"text": "\ud800"}),
        Draft("note.made", AT, {"number": 10**5000}),
        nested(210),
        nested(400),
    ],
    ids=["surrogate", "huge integer", "deep", "deeper"],
)
def test_a_record_that_json_cannot_carry_is_rejected(play: Play, bad: Draft) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await claim(store)
        with pytest.raises(Rejected, match="JSON cannot carry"):
            await store.append(Batch(mine, 0, (bad,)))
        await store.append(Batch(mine, 0, (nested(150),)))
        assert len(await other.read("s1")) == 1

    play(story)


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "x" * 513, "\ud800"])
def test_a_name_that_the_wire_would_refuse_is_refused(play: Play, name: str) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        with pytest.raises(Rejected):
            await store.enlist(name, now_ms=NOW_MS)
        mine = await claim(store)
        with pytest.raises(Rejected):
            await store.claim(name, "o1", now_ms=NOW_MS)
        with pytest.raises(Rejected):
            await post(store, "k1", name)
        with pytest.raises(Rejected):
            await post(store, name)
        with pytest.raises(Rejected):
            await post(store, "k1", run_id=name)
        with pytest.raises(Rejected):
            await write(store, replace(mine, session_id=name), 1)
        await claim(store, "x" * 512)

    play(story)


@pytest.mark.parametrize("number", [-1, 2**63])
def test_a_time_that_no_store_can_keep_is_refused(play: Play, number: int) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await claim(store)
        with pytest.raises(Rejected):
            await write(store, mine, 1, standing=Standing.WAITING, wake_at_ms=number)
        with pytest.raises(Rejected):
            await store.enlist("o1", now_ms=number)
        with pytest.raises(Rejected):
            await store.claim("s1", "o1", now_ms=number)
        with pytest.raises(Rejected):
            await store.due(now_ms=number)

    play(story)


def test_a_closed_store_is_unavailable_and_may_be_closed_again(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await claim(store)
        await store.aclose()
        await store.aclose()
        with pytest.raises(Unavailable):
            await write(store, mine, 1)
        with pytest.raises(Unavailable):
            await store.read("s1")

    play(story)


def test_many_sessions_may_write_at_the_same_time(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        stores = (store, other)
        owners = [await claim(stores[n % 2], f"s{n}", f"o{n % 2}") for n in range(20)]

        async def drive(index: int) -> None:
            for seq in range(10):
                await write(stores[index % 2], owners[index], seq, after=seq)

        await asyncio.gather(*(drive(index) for index in range(20)))
        for index in range(20):
            assert numbers(await store.read(f"s{index}")) == list(range(10))
        positions = [record.position for record in await other.read_all(limit=1_000)]
        assert positions == list(range(1, 201))

    play(story)


def test_of_many_writers_with_the_same_claim_one_wins_each_number(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        mine = await claim(store)
        attempts = (write(each, mine, n) for n, each in enumerate((store, other) * 10))
        results = await asyncio.gather(*attempts, return_exceptions=True)
        assert sum(isinstance(result, Appended) for result in results) == 1
        assert sum(isinstance(result, Conflict) for result in results) == 19
        assert len(await store.read("s1")) == 1

    play(story)
