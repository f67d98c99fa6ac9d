"""The SQLite store: properties beyond the store contract."""

import asyncio
import errno
import os
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread, current_thread
from typing import Any, cast

import pytest
from pydantic_core import to_json
from tests.contracts.stores import NOW_MS, claim, draft, drafts, numbers, post, write
from tests.faults.disk import Disk
from tests.faults.test_sqlite_disk import until
from tests.permissions import open_folder, read_only
from tests.story import play

from tools.files import ROOT
from windlass.adapters.journals.codec import EncodedPost, encode_records, measure_unpacked
from windlass.errors import AgentError, Ambiguous, Conflict, Corrupt, Rejected, Unavailable
from windlass.limits import OWNER_LEASE_MS
from windlass.ports.inbox import Posted
from windlass.ports.journal import Batch, Claim, Standing
from windlass.sql.queries import SHORT_BYTES_MAX
from windlass.sql.statements import Cursor, SqlConnection, Value
from windlass.sqlite import files as locks_module
from windlass.sqlite import schema as sqlite_schema
from windlass.sqlite import transaction as sqlite_owners
from windlass.sqlite import writer as sqlite_writer
from windlass.sqlite.files import OpenFiles, sync_file
from windlass.sqlite.reads import last_position
from windlass.sqlite.schema import (
    APPLICATION_ID,
    BUSY_TIMEOUT_MS,
    Durability,
    connect,
    prepare,
    translate,
)
from windlass.sqlite.store import SqliteStore
from windlass.sqlite.transaction import SqliteTransaction
from windlass_harness.loop.events import Draft
from windlass_protocol import ContentRef, ErrorKind, JsonObject, RetryClass


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def disk() -> Iterator[Disk]:
    with Disk("windlass-test") as disk:
        yield disk


# Opening


def test_a_store_is_one_file_when_it_is_closed(path: Path) -> None:
    async def story() -> None:
        store = await SqliteStore.open(str(path))
        await claim(store)
        await store.aclose()

    play(story())
    assert [file.name for file in path.parent.iterdir()] == ["store.db"]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    async def story() -> None:
        with pytest.raises(Rejected, match=r"folder .*/nowhere does not exist") as caught:
            await SqliteStore.open(tmp_path / "nowhere" / "store.db")
        assert caught.value.kind is ErrorKind.HOST_CONFIGURATION_NEEDED

    play(story())


async def refused(path: Path, match: str, kind: type[AgentError] = Rejected) -> None:
    with pytest.raises(kind, match=match):
        await SqliteStore.open(path)


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"Dear diary, " * 100)
    path.chmod(0o644)
    play(refused(path, "store.db: the file is not a database: choose another file, or restore this one"))
    assert path.read_bytes() == b"Dear diary, " * 100
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_database_of_something_else_is_refused_and_left_alone(path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE diary (day TEXT)")
    other.close()
    before = path.read_bytes()
    play(refused(path, "store.db is the database of another application"))
    assert path.read_bytes() == before


def test_a_folder_in_the_place_of_the_file_is_refused(path: Path) -> None:
    path.mkdir()
    play(refused(path, "is a folder", Rejected))


def test_a_file_of_a_newer_version_is_refused_with_both_versions(path: Path) -> None:
    async def story() -> None:
        await (await SqliteStore.open(path)).aclose()
        newer = sqlite3.connect(path)
        known = len(sqlite_schema.MIGRATIONS)
        newer.execute(f"PRAGMA user_version = {known + 1}")
        newer.close()
        with pytest.raises(
            Rejected, match=rf"store.db has schema version {known + 1}, this release knows up to {known}:"
        ):
            await SqliteStore.open(path)

    play(story())


NEXT = ("CREATE TABLE extra (a)", "INSERT INTO extra VALUES (1)")


def test_an_older_file_is_migrated_in_one_transaction_and_keeps_its_records(path: Path) -> None:
    async def story() -> None:
        store = await SqliteStore.open(path)
        await write(store, await claim(store), 1, 2)
        await store.aclose()
        connection = connect(path)
        broken = (*sqlite_schema.MIGRATIONS, (*NEXT, "INSERT INTO nowhere VALUES (1)"))
        with pytest.raises(sqlite3.OperationalError):
            prepare(connection, path, durability="power", migrations=broken)
        assert connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'extra'").fetchone() == (
            0,
        )
        prepare(connection, path, durability="power", migrations=(*sqlite_schema.MIGRATIONS, NEXT))
        prepare(connection, path, durability="power", migrations=(*sqlite_schema.MIGRATIONS, NEXT))
        assert connection.execute("SELECT * FROM extra").fetchall() == [(1,)]
        known = len(sqlite_schema.MIGRATIONS)
        assert connection.execute("PRAGMA user_version").fetchone() == (known + 1,)
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        connection.execute(f"PRAGMA user_version = {known}")
        connection.close()
        store = await SqliteStore.open(path)
        assert numbers(await store.read("s1")) == [1, 2]
        await store.aclose()

    play(story())


def test_many_may_make_the_same_store_at_once(path: Path) -> None:
    async def story() -> None:
        stores = await asyncio.gather(*(SqliteStore.open(path) for _ in range(8)))
        mine = await claim(stores[0])
        await write(stores[0], mine, 1)
        assert [numbers(await store.read("s1")) for store in stores] == [[1]] * 8
        for store in stores:
            await store.aclose()

    play(story())


@pytest.mark.parametrize(("durability", "synchronous"), [("power", 2), ("process", 1)])
def test_durability_chooses_how_much_is_synced(path: Path, durability: Any, synchronous: int) -> None:
    connection = connect(path)
    prepare(connection, path, durability=durability)
    assert connection.execute("PRAGMA synchronous").fetchone() == (synchronous,)
    for pragma in ("fullfsync", "checkpoint_fullfsync"):
        assert connection.execute(f"PRAGMA {pragma}").fetchone() == (int(durability == "power"),)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


# Writing together

both_ways = pytest.mark.parametrize("durability", ["power", "process"])


def test_writes_of_one_turn_share_one_commit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commits: list[Thread] = []
    commit = SqliteTransaction.commit

    def noted(self: SqliteTransaction) -> None:
        commits.append(current_thread())
        commit(self)

    async def story() -> None:
        store = await SqliteStore.open(path)
        claims = [await claim(store, f"s{index}") for index in range(50)]
        monkeypatch.setattr(SqliteTransaction, "commit", noted)
        good = (write(store, each, 1) for each in claims)
        bad = (write(store, each, 1, after=7) for each in claims)
        results = await asyncio.gather(*good, *bad, return_exceptions=True)
        assert sum(isinstance(result, Conflict) for result in results) == 50
        assert len(commits) == 1
        assert commits[0] is not current_thread()
        assert await store.last_position() == 50
        await store.aclose()

    play(story())


class Groups:
    """Counts the requests of each transaction; the first one waits until `go_on`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        self.entered, self.go_on = Event(), Event()
        begin, post, put = SqliteTransaction.begin, SqliteTransaction.post, SqliteTransaction.put

        def begun(transaction: SqliteTransaction) -> None:
            self.sizes.append(0)
            self.entered.set()
            assert self.go_on.wait(60)
            begin(transaction)

        def posted(transaction: SqliteTransaction, one: EncodedPost) -> Posted:
            self.sizes[-1] += 1
            return post(transaction, one)

        def kept(
            transaction: SqliteTransaction, ref: ContentRef, content: bytes, *, session_id: str | None = None
        ) -> None:
            self.sizes[-1] += 1
            put(transaction, ref, content, session_id=session_id)

        monkeypatch.setattr(SqliteTransaction, "begin", begun)
        monkeypatch.setattr(SqliteTransaction, "post", posted)
        monkeypatch.setattr(SqliteTransaction, "put", kept)


async def queued(
    store: SqliteStore, groups: Groups, *, turns: int
) -> tuple["asyncio.Future[ContentRef]", list["asyncio.Future[int]"]]:
    """Requests that wait behind a large one, which the thread writes: three for each turn of the loop."""
    large = asyncio.ensure_future(store.put(b"x" * (sqlite_writer.QUICK_BYTES_MAX + 1)))
    assert await asyncio.to_thread(groups.entered.wait, 60)
    posts: list[asyncio.Future[int]] = []
    for turn in range(turns):
        posts += [asyncio.ensure_future(post(store, f"k{turn}-{index}")) for index in range(3)]
        for _ in range(3):
            await asyncio.sleep(0)
    return large, posts


@both_ways
def test_a_group_has_a_limit_and_the_rest_comes_next(
    durability: Durability, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "GROUP_JOBS_MAX", 4)

    async def story() -> None:
        store = await SqliteStore.open(path, durability=durability)
        groups = Groups(monkeypatch)
        large, posts = await queued(store, groups, turns=4)
        groups.go_on.set()
        await large
        assert await asyncio.gather(*posts) == [*range(1, 13)]
        assert groups.sizes == [1, 4, 4, 4]
        await store.aclose()

    play(story())


@both_ways
def test_a_crash_of_the_writer_thread_fails_the_rest_of_a_group(
    durability: Durability, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "GROUP_JOBS_MAX", 4)

    def defect(self: SqliteTransaction) -> None:
        raise KeyError

    def silent(args: object) -> None:
        return

    async def story() -> None:
        store = await SqliteStore.open(path, durability=durability)
        groups = Groups(monkeypatch)
        large, posts = await queued(store, groups, turns=2)
        real = SqliteTransaction.commit

        def committed(self: SqliteTransaction) -> None:
            real(self)
            monkeypatch.setattr(SqliteTransaction, "finish", defect)

        monkeypatch.setattr(SqliteTransaction, "commit", committed)
        groups.go_on.set()
        await large
        results = await asyncio.gather(*posts, return_exceptions=True)
        assert [type(result) for result in results] == [Ambiguous] * 6
        assert groups.sizes == [1, 4]
        await store.aclose()

    monkeypatch.setattr("threading.excepthook", silent)
    play(story())


def test_writes_that_wait_have_a_limit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_writer, "WAITING_JOBS_MAX", 2)

    async def story() -> None:
        store = await SqliteStore.open(path)
        posts = (post(store, f"k{index}") for index in range(3))
        *accepted, refused = await asyncio.gather(*posts, return_exceptions=True)
        assert accepted == [1, 2]
        assert isinstance(refused, Unavailable)
        assert "too many writes are waiting" in refused.message
        await store.aclose()

    play(story())


@both_ways
def test_a_caller_that_stops_waiting_leaves_the_write_and_the_others_alone(
    durability: Durability, path: Path
) -> None:
    async def story() -> None:
        store = await SqliteStore.open(path, durability=durability)
        first = asyncio.ensure_future(post(store, "k1"))
        second = asyncio.ensure_future(post(store, "k2"))
        await asyncio.sleep(0)
        first.cancel()
        await second
        assert [item.key for item in await store.pending("s1")] == ["k1", "k2"]
        await store.aclose()

    play(story())


@both_ways
def test_several_event_loops_may_use_one_store(durability: Durability, path: Path) -> None:
    opened = asyncio.run(SqliteStore.open(path, durability=durability))

    async def drive(name: str) -> None:
        mine = await claim(opened, name, name)
        for fact in range(20):
            await write(opened, mine, fact, after=fact)

    threads = [Thread(target=asyncio.run, args=(drive(f"s{index}"),)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)

    async def story() -> None:
        for index in range(4):
            assert numbers(await opened.read(f"s{index}")) == list(range(20))
        await opened.aclose()

    play(story())


@both_ways
def test_an_event_loop_closed_before_its_answer_does_not_harm_the_store(
    durability: Durability, path: Path
) -> None:
    store = asyncio.run(SqliteStore.open(path, durability=durability))
    loop = asyncio.new_event_loop()

    async def leave() -> None:
        task = asyncio.ensure_future(post(store, "k1"))
        await asyncio.sleep(0)
        task.cancel()

    loop.run_until_complete(leave())
    loop.close()

    async def story() -> None:
        assert await post(store, "k2") == 2
        await store.aclose()

    play(story())


@both_ways
def test_a_write_of_a_stopped_event_loop_is_done(durability: Durability, path: Path) -> None:
    store = asyncio.run(SqliteStore.open(path, durability=durability))
    loop = asyncio.new_event_loop()
    asking = loop.create_task(post(store, "k1"))
    loop.call_soon(loop.stop)
    loop.run_forever()

    numbers: list[int] = []

    async def story() -> None:
        numbers.append(await post(store, "k2"))
        await store.aclose()

    play(story())
    numbers.append(loop.run_until_complete(asking))
    loop.close()
    assert sorted(numbers) == [1, 2], "the order is not promised"


@both_ways
def test_a_value_that_the_database_cannot_keep_harms_its_own_request_alone(
    durability: Durability, path: Path
) -> None:
    async def story() -> None:
        store = await SqliteStore.open(path, durability=durability)
        mine = await claim(store)
        huge = store.append(Batch(mine, 0, drafts(1), consumes=(2**70,)))
        results = await asyncio.gather(huge, post(store, "k1"), return_exceptions=True)
        assert isinstance(results[0], Rejected)
        assert results[1] == 1
        assert await store.read("s1", after=2**70) == ()
        with pytest.raises(Rejected):
            await store.run("\ud800")
        await write(store, mine, 1)
        await store.aclose()

    play(story())


@both_ways
def test_a_crash_of_the_writer_thread_fails_its_pending_calls(
    durability: Durability, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def defect(self: SqliteTransaction) -> None:
        raise KeyError

    async def story() -> None:
        store = await SqliteStore.open(path, durability=durability)
        monkeypatch.setattr(SqliteTransaction, "finish", defect)
        monkeypatch.setattr(sqlite_writer, "GROUP_JOBS_MAX", 1)
        results = await asyncio.gather(post(store, "k1"), post(store, "k2"), return_exceptions=True)
        assert isinstance(results[0], Ambiguous)
        # A store that writes at once has stopped before the second request arrives.
        assert isinstance(results[1], Ambiguous if durability == "power" else Unavailable)
        with pytest.raises(Unavailable, match="open it again"):
            await post(store, "k3")
        await store.aclose()

    def silent(args: object) -> None:
        return

    monkeypatch.setattr("threading.excepthook", silent)
    play(story())


class Halt(BaseException):
    """An exception that no handler of errors takes."""


@pytest.mark.parametrize("error", [MemoryError, Halt])
@pytest.mark.parametrize("is_alone", [True, False])
def test_a_defect_in_a_write_of_the_event_loop_leaves_no_transaction_open(
    is_alone: bool, error: type[BaseException], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = SqliteTransaction.claim

    def defect(self: SqliteTransaction, session_id: str, owner_id: str, *, now_ms: int) -> Claim:
        real(self, session_id, owner_id, now_ms=now_ms)
        raise error

    def ignored(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        return

    async def story() -> None:
        store = await SqliteStore.open(path, durability="process")
        asyncio.get_running_loop().set_exception_handler(ignored)
        await store.enlist("o1", now_ms=NOW_MS)
        with monkeypatch.context() as patch:
            patch.setattr(SqliteTransaction, "claim", defect)
            # The first write of a turn is made at once, the next ones in the next turn.
            before = [] if is_alone else [asyncio.ensure_future(post(store, "k1", "s2"))]
            await asyncio.sleep(0)
            with pytest.raises((Ambiguous, Halt)):
                await store.claim("s1", "o1", now_ms=NOW_MS)
            assert await asyncio.gather(*before) == [1] * len(before)
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert other.execute("SELECT count(*) FROM sessions WHERE owner_id = 'o1'").fetchone() == (0,)
            other.execute("ROLLBACK")
        with pytest.raises(Unavailable, match="open it again"):
            await post(store, "k2")
        await store.aclose()

    play(story())


def test_small_writes_that_wait_for_no_disk_are_made_by_the_event_loop_together(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[Thread] = []
    commit = SqliteTransaction.commit

    def noted(self: SqliteTransaction) -> None:
        threads.append(current_thread())
        commit(self)

    async def story() -> None:
        store = await SqliteStore.open(path, durability="process")
        monkeypatch.setattr(SqliteTransaction, "commit", noted)
        await asyncio.gather(*(post(store, f"k{index}") for index in range(9)))
        # The first at once, those after it in the same turn in one transaction.
        assert threads == [current_thread()] * 2
        threads.clear()
        await store.put(b"x" * sqlite_writer.QUICK_BYTES_MAX)
        await store.put(b"y" * (sqlite_writer.QUICK_BYTES_MAX + 1))
        assert [each is current_thread() for each in threads] == [True, False]
        await store.aclose()

    play(story())


def test_an_event_loop_never_waits_for_another_process_that_writes(path: Path) -> None:
    async def story() -> None:
        store = await SqliteStore.open(path, durability="process")
        other = connect(path)
        other.execute("BEGIN IMMEDIATE")
        writing = asyncio.ensure_future(post(store, "k1"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not writing.done()
        other.execute("COMMIT")
        assert await writing == 1
        other.close()
        await store.aclose()

    play(story())


def test_closing_the_writer_waits_for_pending_writes(path: Path) -> None:
    async def story() -> None:
        connection, locks = connect(path), sqlite_owners.OwnerLocks(path)
        key = prepare(connection, path, durability="process")
        transaction = SqliteTransaction(connection, key, locks=locks)
        writer = sqlite_writer.SqliteWriter(connection, transaction, files=OpenFiles(path), is_quick=True)
        writing = asyncio.ensure_future(writer.do(lambda tx: tx.enlist("o1", NOW_MS)))
        await asyncio.sleep(0)
        await writer.aclose()
        await writing
        assert locks.owners() == ("o1",)
        locks.close()

    play(story())


def test_the_write_ahead_log_is_checkpointed_and_bounded(path: Path) -> None:
    async def story() -> None:
        store = await SqliteStore.open(path, durability="process")
        mine = await claim(store)
        for fact in range(600):
            await write(store, mine, fact, after=fact)
        sizes.update({file.name: file.stat().st_size for file in files})
        await store.aclose()

    sizes: dict[str, int] = {}
    files = [path, path.with_name("store.db-wal")]
    play(story())
    assert sizes["store.db-wal"] < 3 * sqlite_writer.CHECKPOINT_BYTES
    assert sizes["store.db"] > 30_000


def test_another_process_that_writes_for_too_long_makes_the_store_unavailable(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_schema, "BUSY_TIMEOUT_MS", 20)

    async def story() -> None:
        store = await SqliteStore.open(path)
        other = connect(path)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="busy"):
            await post(store, "k1")
        assert await store.read("s1") == ()
        other.execute("ROLLBACK")
        other.close()
        assert await post(store, "k1") == 1
        await store.aclose()

    play(story())


@pytest.mark.parametrize("durability", ["power", "process"])
def test_a_store_that_another_process_keeps_locked_says_so_until_it_is_free(
    path: Path, monkeypatch: pytest.MonkeyPatch, durability: Durability
) -> None:
    for module in (sqlite_schema, sqlite_writer):
        monkeypatch.setattr(module, "BUSY_TIMEOUT_MS", 20)
    monkeypatch.setattr(sqlite_writer, "LOCKED_AGAIN_MS", 20)

    async def story() -> None:
        store = await SqliteStore.open(path, durability=durability)
        with closing(connect(path)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(Unavailable, match="busy"):
                await post(store, "k1")
            assert store.write_problem == sqlite_writer.LOCKED
            with pytest.raises(Unavailable, match="another process keeps the database locked"):
                await post(store, "k1")
            assert store.write_problem == sqlite_writer.LOCKED
            other.execute("ROLLBACK")
        # It finds out by itself.
        await until(lambda: store.write_problem is None)
        assert await post(store, "k1") == 1
        await store.aclose()

    play(story())


# Positions


@pytest.mark.promise("J3")
@pytest.mark.parametrize("ending", ["owned", "released", "retired", "buried", "deleted"])
def test_positions_go_on_behind_the_newest_record_with_or_without_an_owner_of_its_session(
    path: Path, ending: str
) -> None:
    async def story() -> None:
        store = await SqliteStore.open(path)
        await write(store, await claim(store, "s0", "o0"), 1, is_last=True)
        mine, later_ms = await claim(store), NOW_MS + OWNER_LEASE_MS
        await write(store, mine, 2, 3)
        await write(store, mine, 4, after=2)
        match ending:
            case "released":
                await write(store, mine, after=3, is_last=True)
            case "retired":
                await store.retire("o1")
            case "buried":
                await store.due(now_ms=later_ms)
            case "deleted":
                await store.delete("s1", now_ms=later_ms)
            case _:
                pass
        other = await SqliteStore.open(path)
        assert await other.last_position() == await store.last_position() == 4
        theirs = await claim(other, "s2", "o2", now_ms=later_ms)
        assert (await write(other, theirs, 5)).first_position == 5
        kept = [1] if ending == "deleted" else [1, 2, 3, 4]
        assert numbers(await store.read_all()) == [*kept, 5]
        await other.aclose()
        await store.aclose()

    play(story())


def test_a_session_that_is_released_while_the_last_position_is_read_counts(path: Path) -> None:
    async def story() -> None:
        store = await SqliteStore.open(path)
        mine = await claim(store)
        await write(store, mine, 1, 2)
        loop = asyncio.get_running_loop()

        class Released:
            """A connection; before its second statement, the session is released."""

            statements = 0

            def execute(self, sql: str, parameters: Sequence[Value] = ()) -> Cursor:
                self.statements += 1
                if self.statements == 2:
                    end = write(store, mine, after=2, is_last=True)
                    asyncio.run_coroutine_threadsafe(end, loop).result(300)
                return connection.execute(sql, parameters)

        with closing(connect(path)) as connection:
            key = prepare(connection, path, durability="process")
            released = cast("SqlConnection", Released())
            assert await asyncio.to_thread(last_position, released, key) == 2
        await store.aclose()

    play(story())


# Owners


def test_two_stores_cannot_have_the_same_owner(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_owners, "LOCK_PAUSE_S", 0)

    async def story() -> None:
        store, other = await SqliteStore.open(path), await SqliteStore.open(path)
        await store.enlist("o1", now_ms=NOW_MS)
        await store.enlist("o1", now_ms=NOW_MS)
        with pytest.raises(Conflict, match="o1 is enlisted elsewhere"):
            await other.enlist("o1", now_ms=NOW_MS)
        await store.retire("o1")
        await other.enlist("o1", now_ms=NOW_MS)
        await store.aclose()
        await other.aclose()

    play(story())


def test_owners_that_cannot_have_a_lock_are_unavailable(path: Path) -> None:
    async def story() -> None:
        store = await SqliteStore.open(path)
        path.with_name("store.db-owners").write_text("in the way")
        with pytest.raises(Unavailable, match="lock of owner o1 cannot be taken"):
            await store.enlist("o1", now_ms=NOW_MS)
        await store.aclose()

    play(story())


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_lock_file_that_was_removed_meanwhile_is_made_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, is_replaced: bool
) -> None:
    real, removed = locks_module.fcntl.flock, list[int]()

    def flock(handle: int, operation: int) -> None:
        folder = path.with_name("store.db-owners")
        if not removed and folder.exists():
            removed.append(handle)
            for file in folder.iterdir():
                file.rename(path.with_name("away"))
                if is_replaced:
                    file.touch()
        real(handle, operation)

    monkeypatch.setattr(sqlite_owners, "LOCK_PAUSE_S", 0)
    monkeypatch.setattr(locks_module.fcntl, "flock", flock)

    async def story() -> None:
        store, other = await SqliteStore.open(path), await SqliteStore.open(path)
        mine = await claim(store)
        await write(store, mine, 1, standing=Standing.RUNNING)
        assert await other.due(now_ms=NOW_MS) == ()
        await store.aclose()
        assert await other.due(now_ms=NOW_MS) == ("s1",)
        await other.aclose()

    play(story())


def test_an_owner_without_its_lock_file_lives_until_its_lease_ends(path: Path) -> None:
    async def story() -> None:
        store, other = await SqliteStore.open(path), await SqliteStore.open(path)
        mine = await claim(store)
        await write(store, mine, 1, standing=Standing.RUNNING)
        shutil.rmtree(path.with_name("store.db-owners"))
        await other.enlist("o2", now_ms=NOW_MS)
        assert await other.due(now_ms=NOW_MS) == ()
        with pytest.raises(Conflict, match="belongs to owner"):
            await other.claim("s1", "o2", now_ms=NOW_MS)
        # At its next beat it has a lock again.
        await store.enlist(mine.owner_id, now_ms=NOW_MS)
        assert len([*path.with_name("store.db-owners").iterdir()]) == 2
        shutil.rmtree(path.with_name("store.db-owners"))
        # The owner does not renew its lease.
        later_ms = NOW_MS + OWNER_LEASE_MS
        await other.enlist("o2", now_ms=later_ms)
        assert await other.due(now_ms=later_ms) == ("s1",)
        await store.aclose()
        await other.aclose()

    play(story())


@contextmanager
def no_free_descriptor() -> Generator[None]:
    """Make every call fail that opens a file."""
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            os.open(os.devnull, os.O_RDONLY)
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))


@both_ways
def test_an_owner_renews_its_lease_while_no_file_can_be_opened(durability: Durability, path: Path) -> None:
    async def story() -> None:
        store, other = [await SqliteStore.open(path, durability=durability) for _ in range(2)]
        mine, theirs = await claim(store), await claim(other, "s2", "o2")
        await write(other, theirs, 1, standing=Standing.RUNNING)
        # The reading connection opens its files at its first read.
        assert await store.due(now_ms=NOW_MS) == ()
        with no_free_descriptor():
            # Whether the other owner lives cannot be found out.
            await store.enlist(mine.owner_id, now_ms=NOW_MS)
            assert await store.due(now_ms=NOW_MS) == ()
        await write(store, mine, 1)
        await write(other, theirs, 2, after=1)
        await store.aclose()
        await other.aclose()

    play(story())


@pytest.mark.parametrize("durability", ["power", "process"])
@pytest.mark.parametrize("gone", ["store.db", "store.db-wal"])
@pytest.mark.parametrize("is_replaced", [False, True])
def test_nothing_is_acknowledged_that_goes_into_a_removed_file(
    path: Path, gone: str, is_replaced: bool, durability: Durability
) -> None:
    async def story() -> None:
        store = await SqliteStore.open(path, durability=durability)
        mine = await claim(store)
        await write(store, mine, 1)
        file = path.with_name(gone)
        content = file.read_bytes()
        file.unlink()
        if is_replaced:
            file.write_bytes(content)
        for _ in range(2):
            with pytest.raises(Unavailable, match=f"{gone} was removed or replaced") as refused:
                await store.post("s1", kind="start", key="k", body={})
            assert refused.value.retry is RetryClass.REPAIR_NEEDED
        await store.aclose()

    play(story())


def test_an_owner_that_returns_before_its_cleanup_keeps_its_sessions(path: Path) -> None:
    connection, locks = connect(path), sqlite_owners.OwnerLocks(path)
    transaction = SqliteTransaction(connection, prepare(connection, path, durability="power"), locks=locks)
    transaction.begin()
    transaction.enlist("o1", NOW_MS)
    mine = transaction.claim("s1", "o1", now_ms=NOW_MS)
    assert transaction.bury(NOW_MS) == ()
    transaction.append(Batch(mine, 0, drafts(1)), b"[]")
    transaction.rollback()
    connection.close()
    locks.close()


DIES = """
import asyncio, os, signal, sys
from tests.contracts.stores import claim, write
from windlass.parts import SqliteStore
from windlass.ports.journal import Standing

async def story():
    store = await SqliteStore.open(sys.argv[1])
    await write(store, await claim(store), 1, standing=Standing.RUNNING)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(story())
"""


@pytest.mark.slow
def test_a_missed_cleanup_of_a_dead_owner_can_be_done_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        store = await SqliteStore.open(path)

        def fail(transaction: SqliteTransaction) -> None:
            raise sqlite3.OperationalError("disk I/O error")

        with monkeypatch.context() as patch:
            patch.setattr(SqliteTransaction, "finish", fail)
            with pytest.raises(AgentError):
                await store.due(now_ms=NOW_MS)
        # Its released lock proves that it is dead: the lease need not expire.
        assert await store.due(now_ms=NOW_MS) == ("s1",)
        assert [*path.with_name("store.db-owners").iterdir()] == []
        await store.aclose()

    died = subprocess.run([sys.executable, "-c", DIES, path], cwd=ROOT, check=False)
    assert died.returncode == -signal.SIGKILL
    play(story())


# Noticing the writes of others


def test_the_change_token_changes_after_any_write_and_only_then(path: Path) -> None:
    async def story() -> None:
        store, other = await SqliteStore.open(path), await SqliteStore.open(path)
        seen = {await store.change_token()}
        for writer in (store, other):
            await post(writer, f"k{len(seen)}")
            token = await store.change_token()
            assert token not in seen
            await store.pending("s1")
            assert await store.change_token() == token
            seen.add(token)
        await store.aclose()
        with pytest.raises(Unavailable, match="closed"):
            await store.change_token()
        await other.aclose()

    play(story())


# Syncs of own files


def test_a_sync_empties_the_cache_of_the_drive_where_the_system_can(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    answers: list[int] = [0, errno.ENOTSUP, errno.EIO]

    def control(handle: int, command: int) -> None:
        asked.append(command)
        code = answers[len(asked) - 1]
        if code:
            raise OSError(code, "the test says so")

    with path.open("wb") as file:
        sync_file(file.fileno())
        monkeypatch.setattr(locks_module, "_FULL_SYNC", 51)
        monkeypatch.setattr(locks_module.fcntl, "fcntl", control)
        sync_file(file.fileno())
        sync_file(file.fileno())
        with pytest.raises(OSError, match="says so"):
            sync_file(file.fileno())
    assert asked == [51] * 3


# Errors


def failure(name: str, kind: type[sqlite3.Error] = sqlite3.OperationalError) -> sqlite3.Error:
    error = kind("secret payload")
    error.sqlite_errorcode = getattr(sqlite3, name)
    error.sqlite_errorname = name
    return error


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SQLITE_FULL", Unavailable),
        ("SQLITE_BUSY", Unavailable),
        ("SQLITE_BUSY_RECOVERY", Unavailable),
        ("SQLITE_LOCKED", Unavailable),
        ("SQLITE_IOERR", Unavailable),
        ("SQLITE_IOERR_FSYNC", Unavailable),
        ("SQLITE_IOERR_SHORT_READ", Unavailable),
        ("SQLITE_CANTOPEN", Unavailable),
        ("SQLITE_NOMEM", Unavailable),
        ("SQLITE_INTERRUPT", Unavailable),
        ("SQLITE_PROTOCOL", Unavailable),
        ("SQLITE_CORRUPT", Corrupt),
        ("SQLITE_CORRUPT_INDEX", Corrupt),
        ("SQLITE_CONSTRAINT_UNIQUE", Corrupt),
        ("SQLITE_ERROR", Corrupt),
        ("SQLITE_NOTADB", Rejected),
        ("SQLITE_READONLY", Rejected),
        ("SQLITE_READONLY_DIRECTORY", Rejected),
        ("SQLITE_PERM", Rejected),
        ("SQLITE_TOOBIG", Rejected),
        ("SQLITE_MISUSE", Rejected),
    ],
)
def test_every_sqlite_error_maps_to_an_error_class_without_its_text(
    name: str, expected: type[AgentError]
) -> None:
    error = translate(failure(name))
    assert type(error) is expected
    assert "secret" not in error.message
    in_commit = translate(failure(name), is_commit=True)
    assert type(in_commit) is (Unavailable if name == "SQLITE_FULL" else Ambiguous)
    assert "secret" not in in_commit.message


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (sqlite3.OperationalError("Could not decode to UTF-8 column 'a'"), Corrupt),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), Corrupt),
        (sqlite3.ProgrammingError("Error binding parameter"), Rejected),
        (sqlite3.InterfaceError("bad parameter"), Rejected),
        (OverflowError("too large"), Rejected),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "bad"), Rejected),
        (sqlite3.OperationalError("something new"), Unavailable),
    ],
)
def test_errors_without_a_sqlite_code_are_mapped_too(error: Any, expected: type[AgentError]) -> None:
    assert type(translate(error)) is expected


def test_a_read_only_folder_is_named_and_not_retryable() -> None:
    async def story(path: Path) -> None:
        with pytest.raises(Rejected, match=f"the folder {path.parent} may not be written to") as info:
            await SqliteStore.open(path)
        assert info.value.retry is RetryClass.HOST_CONFIGURATION_NEEDED

    with open_folder() as folder:
        asyncio.run(_opened_once(folder / "old.db"))
        with read_only(folder):
            asyncio.run(story(folder / "new.db"))
            asyncio.run(story(folder / "old.db"))
        with read_only(folder, mode=0):
            asyncio.run(story(folder / "new.db"))
            asyncio.run(story(folder / "old.db"))
            asyncio.run(story(folder / "below" / "new.db"))


async def _opened_once(path: Path) -> None:
    await (await SqliteStore.open(path)).aclose()


# Reads on the event loop


@dataclass(slots=True)
class ReadConnection:
    """A connection that notes its reads with their threads, and can be busy or slow."""

    inner: SqlConnection
    reads: list[tuple[str, Thread]] = field(default_factory=list[tuple[str, Thread]])
    timeouts_ms: list[int] = field(default_factory=list[int])
    is_busy: bool = False
    is_slow: bool = False
    entered: Event = field(default_factory=Event)
    go_on: Event = field(default_factory=Event)

    def execute(self, sql: str, parameters: Sequence[Value] = (), /) -> Cursor:
        if sql.startswith("PRAGMA busy_timeout"):
            self.timeouts_ms.append(int(sql.split()[-1]))
        elif self.is_busy and self.timeouts_ms[-1] == 0:
            raise failure("SQLITE_BUSY")
        elif sql.startswith("SELECT"):
            self.reads.append((sql, current_thread()))
        if self.is_slow and "FROM appends" in sql:
            self.entered.set()
            assert self.go_on.wait(60)
        return self.inner.execute(sql, parameters)

    def close(self) -> None:
        self.inner.close()

    def take(self, *starts: str) -> list[Thread]:
        """Return the threads of the reads since the last call, of the statements that start so."""
        threads = [thread for sql, thread in self.reads if sql.startswith(starts or "SELECT")]
        self.reads.clear()
        return threads


def is_reader(thread: Thread) -> bool:
    return thread.name.startswith("windlass-sqlite-reader")


async def reading_store(path: Path) -> tuple[SqliteStore, ReadConnection]:
    made: list[ReadConnection] = []

    def made_by(path: Path) -> SqlConnection:
        made.append(ReadConnection(connect(path)))
        return made[-1]

    store = await SqliteStore.open(path, connect=made_by)
    return store, made[1]


def test_a_thread_waits_for_a_busy_database_instead_of_the_event_loop(path: Path) -> None:
    async def story() -> None:
        store, reads = await reading_store(path)
        await claim(store)
        reads.is_busy = True
        row = await store.session("s1")
        assert row
        assert row.session_id == "s1"
        assert reads.timeouts_ms == [0, BUSY_TIMEOUT_MS, 0]
        assert all(map(is_reader, reads.take()))
        await store.aclose()

    play(story())


def test_reads_of_every_session_are_made_by_a_thread(path: Path) -> None:
    async def story() -> None:
        store, reads = await reading_store(path)
        await claim(store)
        await post(store, "k1")
        assert (await store.arrivals(after=0)).session_ids == {"s1"}
        assert await store.last_position() == 0
        threads = reads.take()
        assert len(threads) == 4
        assert all(map(is_reader, threads))
        await store.aclose()

    play(story())


@pytest.mark.parametrize("over", [0, 1])
def test_the_event_loop_reads_up_to_a_limit_of_bytes_itself(path: Path, over: int) -> None:
    async def story() -> None:
        store, reads = await reading_store(path)
        mine = await claim(store)
        await write(store, mine, 1)
        # Two appends and two items. In the file the text takes few bytes: its unpacked size counts.
        size = SHORT_BYTES_MAX - 1_000
        size += SHORT_BYTES_MAX + over - json_bytes(draft(1)) - json_bytes(draft(2, size=size))
        await store.append(Batch(mine, 1, (draft(2, size=size),)))
        assert json_bytes(draft(1)) + json_bytes(draft(2, size=size)) == SHORT_BYTES_MAX + over
        assert numbers(await store.read("s1")) == [1, 2]
        assert [is_reader(thread) for thread in reads.take("SELECT last_seq, chain")] == [over == 1]
        assert numbers(await store.read("s1", after=1)) == [2]
        assert not any(map(is_reader, reads.take()))
        bodies: list[JsonObject] = [{"text": ""}, {"text": "x" * (SHORT_BYTES_MAX + over - 22)}]
        assert sum(len(to_json(body)) for body in bodies) == SHORT_BYTES_MAX + over
        for index, body in enumerate(bodies):
            await store.post("s1", kind="message", key=f"k{index}", body=body)
        assert [item.key for item in await store.pending("s1")] == ["k0", "k1"]
        assert [is_reader(thread) for thread in reads.take()] == [False, True][: over + 1]
        assert [item.key for item in await store.pending("s1", after=1)] == ["k1"]
        assert not any(map(is_reader, reads.take()))
        await store.aclose()

    play(story())


def json_bytes(one: Draft) -> int:
    """Return the size of an append of one record."""
    return measure_unpacked(encode_records((one,)), 2 * SHORT_BYTES_MAX)


def test_the_event_loop_does_not_wait_for_a_long_read(path: Path) -> None:
    async def story() -> None:
        store, reads = await reading_store(path)
        await write(store, await claim(store), 1)
        reads.is_slow = True
        long = asyncio.create_task(store.read_all())
        assert await asyncio.to_thread(reads.entered.wait, 60)
        row, records = asyncio.create_task(store.run("r1")), asyncio.create_task(store.read("s1"))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not row.done(), "it reads inside the transaction of the long one"
        assert not records.done()
        reads.go_on.set()
        assert len(await long) == 1
        assert await row is None
        assert numbers(await records) == [1]
        await store.aclose()

    play(story())


class LikePython314(sqlite3.Connection):
    """A connection that takes the values of names, and `?1` is one, from a mapping alone."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        if "?1" in sql and not hasattr(parameters, "keys"):
            raise sqlite3.ProgrammingError("named parameters, and values without names")
        return super().execute(sql, parameters)


class CheckedConnection(sqlite_schema.Connection, LikePython314):
    """Our connection on such a Python."""


def test_numbered_parameters_are_taken_from_a_sequence_on_every_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_schema, "Connection", CheckedConnection)
    with closing(sqlite_schema.connect(tmp_path / "any.db")) as connection:
        assert connection.execute("SELECT ?1 + ?1, ?2", (2, "two")).fetchall() == [(4, "two")]
        assert connection.execute("SELECT ?, ?", (2, "two")).fetchall() == [(2, "two")]
