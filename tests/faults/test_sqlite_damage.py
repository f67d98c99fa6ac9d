"""Files that were cut, altered or mixed: the right records, or an error."""

import asyncio
import re
import shutil
import sqlite3
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from tests.contracts.stores import AT, AnyStore, claim, numbers, post, write
from tests.depth import DEEP, some_of
from tests.faults.damage import fill, sight_of, wrong_reads
from tests.story import play

from windlass.errors import Corrupt, Rejected
from windlass.ports.journal import Batch, Standing
from windlass.sqlite.schema import PAGE_BYTES
from windlass.sqlite.store import SqliteStore
from windlass_harness.loop.events import Draft
from windlass_protocol import ContentRef

HEAD_BYTES: Final = 24
"""The beginning of each page, where every byte is flipped: headers and the places of cells."""
STRIDE: Final = 7 if DEEP else 23
"""Elsewhere every 23rd byte is; every seventh meets every field of every row in some page."""
FREE: Final = re.compile(rb"\0{64,}")
FREE_STRIDE: Final = 97
"""Space of a page that holds nothing is all zeros; there every 97th byte is."""
FRAME_BYTES: Final = 24 + PAGE_BYTES

FIRST, SECOND = list(range(12)), list(range(100, 105))
TIMELINE: list[object] = [*FIRST[:6], *SECOND, *FIRST[6:]]


async def filled(path: Path) -> ContentRef:
    """Make a store with something of everything in it."""
    store = await SqliteStore.open(path, durability="process")
    mine, theirs = await claim(store, "s1"), await claim(store, "s2")
    await write(store, mine, *FIRST[:4], standing=Standing.RUNNING)
    await write(store, mine, *FIRST[4:6], after=4)
    await write(store, theirs, *SECOND)
    await write(store, mine, *FIRST[6:], after=6)
    await post(store, "k1", run_id="r1")
    await store.save("s1", 6, state=b"state of six")
    ref = await store.put(b"content")
    await store.aclose()
    return ref


async def look(store: AnyStore, ref: ContentRef) -> None:
    """Look at everything; each look shows the truth or raises."""
    for session_id, facts in (("s1", FIRST), ("s2", SECOND)):
        with suppress(Corrupt, Rejected):
            assert numbers(await store.read(session_id)) == facts
        with suppress(Corrupt, Rejected):
            # The mark of a milestone is an index entry: damage may hide an append, not show a wrong one.
            assert {*numbers(await store.milestones(session_id))} <= {*facts}
    with suppress(Corrupt, Rejected):
        assert numbers(await store.read_all()) == TIMELINE
        assert await store.last_position() == len(TIMELINE)
    with suppress(Corrupt, Rejected):
        assert [item.body for item in await store.pending("s1")] in ([], [{"key": "k1"}])
        assert await store.load("s1") in (None, (6, b"state of six"))
        assert await store.get(ref) == b"content"


@pytest.mark.promise("J3")
def test_a_byte_that_changed_anywhere_is_found_before_a_record_of_it_is_served(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def story() -> None:
        ref = await filled(path)
        whole = path.read_bytes()
        found = 0
        free = {at for space in FREE.finditer(whole) for at in range(*space.span()) if at % FREE_STRIDE}
        for offset in range(len(whole)):
            if offset % PAGE_BYTES >= HEAD_BYTES and (offset % STRIDE or offset in free):
                continue
            damaged = bytearray(whole)
            damaged[offset] ^= 0xFF if offset % 2 else 1 << offset % 8
            path.write_bytes(damaged)
            try:
                store = await SqliteStore.open(path, durability="process")
            except (Corrupt, Rejected):
                found += 1
                continue
            await look(store, ref)
            await store.aclose()
            (tmp_path / "store.db-wal").unlink(missing_ok=True)
        assert found

    play(story())


@pytest.mark.promise("J2")
def test_a_log_that_was_cut_has_everything_before_the_cut(tmp_path: Path) -> None:
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    log = tmp_path / "copy.db-wal"

    async def story() -> None:
        store = await SqliteStore.open(path)
        mine = await claim(store)
        for fact in range(5):
            await write(store, mine, fact, after=fact)
        short = (tmp_path / "store.db-wal").stat().st_size
        await write(store, mine, 5, after=5)
        content = (tmp_path / "store.db-wal").read_bytes()
        last = len(content) - FRAME_BYTES
        cuts = [*range(short, last, 97), *range(last, len(content))]
        for cut in (*some_of(cuts), len(content)):
            shutil.copyfile(path, copy)
            log.write_bytes(content[:cut])
            again = await SqliteStore.open(copy, durability="process")
            kept = 6 if cut == len(content) else 5
            assert numbers(await again.read("s1")) == numbers(await again.read_all()) == list(range(kept))
            await again.aclose()
        await store.aclose()

    play(story())


def test_a_byte_that_changed_in_the_log_never_makes_a_wrong_record(tmp_path: Path) -> None:
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    log = tmp_path / "copy.db-wal"

    async def story() -> None:
        store = await SqliteStore.open(path)
        mine = await claim(store)
        for fact in range(5):
            await write(store, mine, fact, after=fact)
        content = (tmp_path / "store.db-wal").read_bytes()
        for offset in some_of(range(0, len(content), 53)):
            shutil.copyfile(path, copy)
            damaged = bytearray(content)
            damaged[offset] ^= 0xFF
            log.write_bytes(damaged)
            # SQLite takes the log up to the first frame that is not whole, as after a crash.
            again = await SqliteStore.open(copy, durability="process")
            found = numbers(await again.read("s1"))
            assert found == numbers(await again.read_all()) == list(range(len(found)))
            await again.aclose()
        await store.aclose()

    play(story())


def test_a_database_that_lost_its_end_is_found(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def story() -> None:
        ref = await filled(path)
        whole = path.read_bytes()
        # SQLite takes a file of a single byte for an empty one.
        for size in some_of(range(2, len(whole), 251)):
            path.write_bytes(whole[:size])
            try:
                store = await SqliteStore.open(path, durability="process")
            except (Corrupt, Rejected):
                continue
            await look(store, ref)
            await store.aclose()
            (tmp_path / "store.db-wal").unlink(missing_ok=True)

    play(story())


TAMPERING = {
    "the last append is gone": "DELETE FROM appends WHERE last_seq = 12",
    "a middle append is gone": "DELETE FROM appends WHERE last_seq = 6",
    "the first append is gone": "DELETE FROM appends WHERE last_seq = 4",
    "all appends are gone": "DELETE FROM appends",
    "a body is another": "UPDATE appends SET body = zeroblob(length(body)) WHERE last_seq = 6",
    "a body is text": "UPDATE appends SET body = '[]' WHERE last_seq = 6",
    "a body is nothing": "UPDATE appends SET body = 7 WHERE last_seq = 6",
    "an epoch is another": "UPDATE appends SET epoch = 2 WHERE last_seq = 6",
    "a number is another": "UPDATE appends SET last_seq = 7 WHERE last_seq = 6",
    "a chain is another": "UPDATE appends SET chain = zeroblob(16) WHERE last_seq = 6",
    "a position is another": "UPDATE appends SET last_position = 99 WHERE last_seq = 12",
    "the session is gone": "DELETE FROM sessions WHERE session_id = 's1'",
    "the session ends earlier": "UPDATE sessions SET last_seq = 6 WHERE session_id = 's1'",
    "the session has another chain": "UPDATE sessions SET chain = zeroblob(16) WHERE session_id = 's1'",
    "the session has no standing": "UPDATE sessions SET standing = 'lost' WHERE session_id = 's1'",
    "the session has another name": "UPDATE sessions SET session_id = 's9' WHERE session_id = 's1'",
}


@pytest.mark.promise("J3")
@pytest.mark.parametrize("sql", TAMPERING.values(), ids=TAMPERING.keys())
def test_rows_that_were_altered_or_lost_are_named_and_not_served(tmp_path: Path, sql: str) -> None:
    path = tmp_path / "store.db"

    async def story() -> None:
        await filled(path)
        tamper(path, sql)
        store = await SqliteStore.open(path)
        with pytest.raises(Corrupt) as caught:
            await store.read("s1")
        assert caught.value.causal_ids.session_id in ("s1", "s9")
        with pytest.raises(Corrupt):
            await store.read_all()
        await store.aclose()

    play(story())


def test_an_append_that_nothing_follows_in_its_session_is_missed_in_the_order_of_all(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def story() -> None:
        await filled(path)
        tamper(path, "DELETE FROM appends WHERE last_seq = 5")
        store = await SqliteStore.open(path)
        for after in (0, 6, 8):
            with pytest.raises(Corrupt, match="before position 12 is missing"):
                await store.read_all(after=after)
        assert numbers(await store.read("s1")) == FIRST
        await store.aclose()

    play(story())


def test_the_end_of_all_records_is_missed_while_its_session_has_an_owner(tmp_path: Path) -> None:
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"

    async def story() -> None:
        store = await SqliteStore.open(path, durability="process")
        mine, theirs = await claim(store), await claim(store, "s2")
        await write(store, theirs, 100)
        await write(store, mine, 0, 1)
        await write(store, mine, 2, 3, after=2)
        # The files of a process that is killed now.
        shutil.copyfile(path, copy)
        shutil.copyfile(tmp_path / "store.db-wal", tmp_path / "copy.db-wal")
        await store.aclose()
        tamper(copy, "DELETE FROM appends WHERE last_seq = 4")
        again = await SqliteStore.open(copy)
        assert await again.last_position() == 5
        for after in (0, 3):
            with pytest.raises(Corrupt, match="before position 6 is missing"):
                await again.read_all(after=after)
        with pytest.raises(Corrupt, match="record 3 of session s1"):
            await again.read("s1")
        for position in ("9", "'odd'"):
            tamper(copy, f"UPDATE sessions SET last_position = {position} WHERE session_id = 's1'")
            with pytest.raises(Corrupt, match="the row of a session is damaged"):
                await again.last_position()
            with pytest.raises(Corrupt, match="the row of a session is damaged"):
                await claim(again, "s3", "o3")
        await again.aclose()

    play(story())


def test_other_rows_that_were_altered_are_found(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def story() -> None:
        ref = await filled(path)
        tamper(
            path,
            "UPDATE items SET body = '{}'",
            "UPDATE runs SET status = 'odd'",
            "UPDATE contents SET content = 'odd'",
            "UPDATE snapshots SET state = 'odd'",
        )
        store = await SqliteStore.open(path)
        with pytest.raises(Corrupt, match="inbox item 1 of session s1"):
            await store.pending("s1")
        with pytest.raises(Corrupt, match="run r1"):
            await store.run("r1")
        with pytest.raises(Corrupt, match="content sha256:"):
            await store.get(ref)
        assert await store.load("s1") is None
        tamper(path, "UPDATE snapshots SET state = zeroblob(3)")
        assert await store.load("s1") is None
        tamper(path, "UPDATE store SET last_position = 5, saves = saves + 1")
        with pytest.raises(Corrupt, match="describes the store"):
            await claim(store, "s3", "o3")
        with pytest.raises(Corrupt, match="describes the store"):
            await store.last_position()
        await store.aclose()
        with pytest.raises(Corrupt, match="describes the store"):
            await SqliteStore.open(path)
        tamper(path, "UPDATE store SET store_id = zeroblob(65), saves = saves + 1")
        with pytest.raises(Corrupt, match="describes the store"):
            await SqliteStore.open(path)
        tamper(path, "DELETE FROM store")
        with pytest.raises(Corrupt, match="describes the store"):
            await SqliteStore.open(path)

    play(story())


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE appends SET epoch = epoch + 1 WHERE last_seq = 8",
        "UPDATE appends SET chain = x'00' WHERE last_seq = 7",
        "DELETE FROM appends WHERE last_seq = 7",
        "DELETE FROM appends WHERE last_seq = 10",
    ],
    ids=["itself", "the chain before it", "the append before it", "the end"],
)
def test_a_milestone_is_verified_with_the_append_before_it_and_the_end(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "store.db"

    async def story() -> None:
        store = await SqliteStore.open(path)
        mine = await claim(store)
        for after in range(10):
            kind = "note.made" if after in (0, 7) else "step.started"
            await store.append(Batch(mine, after, (Draft(kind, AT, {}),)))
        assert [record.seq for record in await store.milestones("s1")] == [1, 8]
        await store.aclose()
        tamper(path, damage)
        store = await SqliteStore.open(path)
        with pytest.raises(Corrupt, match="of session s1 is damaged or missing"):
            await store.milestones("s1")
        await store.aclose()

    play(story())


def test_a_row_that_breaks_a_rule_of_the_tables_harms_its_own_request_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def story() -> None:
        await filled(path)
        # A row in the way of the next append of s1; another session writes in the same moment.
        tamper(path, "UPDATE appends SET last_seq = 13 WHERE last_seq = 6")
        store = await SqliteStore.open(path)
        mine, theirs = await claim(store, "s1", "o3"), await claim(store, "s2", "o3")
        first, second = await asyncio.gather(
            write(store, mine, 99, after=12), write(store, theirs, 105, after=5), return_exceptions=True
        )
        assert isinstance(first, Corrupt)
        assert not isinstance(second, BaseException)
        assert numbers(await store.read("s2")) == [*SECOND, 105]
        await store.aclose()

    play(story())


@pytest.mark.promise("J3")
@pytest.mark.parametrize("origin", ["another store", "a copy that went on by itself"])
def test_records_of_one_store_cannot_be_put_into_another(tmp_path: Path, origin: str) -> None:
    ours, theirs = tmp_path / "ours.db", tmp_path / "theirs.db"

    async def story() -> None:
        await filled(ours)
        if origin == "another store":
            await filled(theirs)
        else:
            shutil.copyfile(ours, theirs)
        for path, fact in ((ours, 12), (theirs, 13)):
            store = await SqliteStore.open(path)
            mine = await claim(store, "s1", "o3")
            await write(store, mine, fact, after=12)
            await write(store, mine, 14, after=13)
            await store.aclose()
        tamper(
            ours,
            f"ATTACH '{theirs}' AS theirs",
            "DELETE FROM appends WHERE last_seq = 13",
            "INSERT INTO appends SELECT * FROM theirs.appends WHERE last_seq = 13",
        )
        store = await SqliteStore.open(ours)
        # A record of a copy fits the common prefix, and not the records after it in this file.
        with pytest.raises(Corrupt, match=r"record 1[34] of session s1"):
            await store.read("s1")
        with pytest.raises(Corrupt):
            await store.read_all()
        assert numbers(await store.read("s1", limit=12)) == FIRST
        await store.aclose()

    play(story())


def tamper(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_a_request_at_another_place_of_the_list_is_the_same_request(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "store.db"
        await fill(path)
        truth = (await sight_of(path, ())).shown
        with sqlite3.connect(path) as database:
            database.execute("UPDATE asked SET number = number + 100 WHERE run_id = 'p2'")
        database.close()
        shown = (await sight_of(path, ())).shown
        assert shown["requests"] != truth["requests"]
        assert wrong_reads(shown, truth) == []
        changed = tuple(replace(request, owner="eve") for request in truth["requests"])
        assert wrong_reads({"requests": changed}, truth) == ["requests"]

    asyncio.run(main())


def test_a_session_without_the_row_of_its_run_shows_less_of_the_run_and_nothing_else(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "store.db"
        await fill(path)
        truth = (await sight_of(path, ())).shown
        with sqlite3.connect(path) as database:
            database.execute("DELETE FROM runs WHERE run_id IN ('p0', 'p2')")
        database.close()
        shown = (await sight_of(path, ())).shown
        assert shown["session_info pay2"] != truth["session_info pay2"]
        assert wrong_reads(shown, truth) == []
        info = truth["session_info pay2"]
        assert wrong_reads({"listed": (replace(info, owner="eve"),)}, truth) == ["listed"]

    asyncio.run(main())
