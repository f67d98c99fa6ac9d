"""The search index of a SQLite store: when it is written, what deletes it, and that nothing depends on it."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from tests.contracts.stores import NOW_MS, claim
from tests.contracts.test_store_catalog import begin, end, fact, names, start
from tests.contracts.test_store_search import having

from tools.files import ROOT
from windlass.errors import Rejected, Unavailable
from windlass.ports.journal import Batch
from windlass.sql.integrity import INDEX, RUN_COLUMNS
from windlass.sql.statements import (
    RUN_INDEXES,
    SESSIONS_BY_COST,
    SESSIONS_BY_UPDATE,
    Cursor,
    SqlConnection,
    Value,
)
from windlass.sqlite import schema as sqlite_schema
from windlass.sqlite import search as sqlite_search
from windlass.sqlite import writer as sqlite_writer
from windlass.sqlite.schema import Durability, connect, prepare
from windlass.sqlite.search import End, SearchIndex
from windlass.sqlite.store import SqliteStore
from windlass.sqlite.transaction import SqliteTransaction
from windlass_protocol import RunStatus

SESSIONS = 12
Story = Callable[[SqliteStore], Awaitable[None]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture(params=["process", "power"])
def durability(request: pytest.FixtureRequest) -> Durability:
    return request.param


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Index one append at a time."""
    monkeypatch.setattr(sqlite_search, "BATCH_ROWS_MAX", 1)


def run(story: Coroutine[Any, Any, None]) -> None:
    async def main() -> None:
        async with asyncio.timeout(300):
            await story

    asyncio.run(main())


def connect_plainly(path: Path) -> SqlConnection:
    """Open a connection that leaves what it deletes in the file; some builds of SQLite do not by default."""
    connection = connect(path)
    connection.execute("PRAGMA secure_delete = OFF").fetchall()
    return connection


def play(path: Path, story: Story, *, durability: Durability = "process") -> None:
    """Let a story happen to an open store."""

    async def main() -> None:
        store = await SqliteStore.open(path, durability=durability, connect=connect_plainly)
        try:
            await story(store)
        finally:
            await store.aclose()

    run(main())


def word(number: int) -> str:
    """A word that shares no beginning with another: the index does not store common beginnings twice."""
    return f"{chr(ord('a') + number % 26)}{number}zqxj"


async def fill(store: SqliteStore, count: int = SESSIONS) -> None:
    """Write sessions with one message each."""
    for number in range(count):
        mine = await begin(store, f"s{number}", f"r{number}", message=f"Pay {word(number)}")
        await end(store, mine, f"r{number}")


async def nothing(store: SqliteStore) -> None:
    """Only open and close a store."""


async def check(store: SqliteStore, *deleted: int, count: int = SESSIONS) -> None:
    """Check that a search finds every session, and no deleted one."""
    left = [number for number in range(count) if number not in deleted]
    assert await names(store, having("pay"), limit=count) == [f"s{number}" for number in reversed(left)]
    for number in range(count):
        assert await names(store, having(word(number))) == ([f"s{number}"] if number in left else [])


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in ("PRAGMA secure_delete = ON", *statements):
            connection.execute(statement)


def indexed(path: Path) -> set[str | None]:
    """The sessions with words in a sound index; None for one that does not exist."""
    change(path, "INSERT INTO search (search) VALUES ('integrity-check')")
    sql = "SELECT s.session_id FROM search w LEFT JOIN sessions s USING (session_key)"
    return {name for (name,) in rows(path, sql)}


def words_left(path: Path) -> list[int]:
    """The numbers of the sessions that have their word in a closed file."""
    assert not path.with_name(f"{path.name}-wal").exists()
    content = path.read_bytes()
    return [number for number in range(SESSIONS) if word(number).encode() in content]


# when it is written


def test_a_search_indexes_each_append_once(path: Path, durability: Durability) -> None:
    async def story(store: SqliteStore) -> None:
        await fill(store)
        assert rows(path, "SELECT version, position, number FROM search_state") == [(0, 0, 0)]
        await check(store)
        [(position,)] = rows(path, "SELECT max(last_position) FROM appends")
        assert rows(path, "SELECT version, position, number FROM search_state") == [(1, position, SESSIONS)]
        # One transaction, so one row of each session: its title is its message, and its end has no words.
        assert rows(path, "SELECT rowid, words FROM search ORDER BY rowid") == [
            (3 * number + 2, f"pay {word(number)}") for number in range(SESSIONS)
        ]
        assert indexed(path) == {f"s{number}" for number in range(SESSIONS)}

    play(path, story, durability=durability)


@dataclass(slots=True)
class CountedConnection:
    """A connection that counts its commits."""

    inner: SqlConnection
    commits: list[str]

    def execute(self, sql: str, parameters: Sequence[Value] = (), /) -> Cursor:
        if sql == "COMMIT":
            self.commits.append(sql)
        return self.inner.execute(sql, parameters)

    def close(self) -> None:
        self.inner.close()


@pytest.mark.parametrize(("name", "limit"), [("BATCH_ROWS_MAX", 2), ("BATCH_BYTES_MAX", 300)])
def test_a_large_backlog_is_indexed_in_short_transactions(
    path: Path, monkeypatch: pytest.MonkeyPatch, name: str, limit: int
) -> None:
    monkeypatch.setattr(sqlite_search, name, limit)
    commits = list[str]()

    async def story() -> None:
        store = await SqliteStore.open(path, connect=lambda path: CountedConnection(connect(path), commits))
        await fill(store)
        commits.clear()
        await names(store, having("pay"))
        # Two appends of each session, two at a time; or as many as have 300 bytes.
        assert SESSIONS / 2 <= len(commits) <= 2 * SESSIONS
        commits.clear()
        await check(store)
        assert commits == []
        await store.aclose()

    run(story())


@pytest.mark.usefixtures("small_batches")
def test_an_append_does_not_wait_for_the_whole_backlog(path: Path, durability: Durability) -> None:
    async def story(store: SqliteStore) -> None:
        await fill(store)
        mine = await begin(store, "new", "r-new")
        search = asyncio.create_task(store.list_sessions(having("pay"), limit=99))
        await asyncio.sleep(0)
        for number in range(5):
            await store.append(Batch(mine, 2 + number, (fact("message.completed", message=f"n{number}"),)))
            assert not search.done()
        assert len(await search) == SESSIONS + 1
        assert await names(store, having("n4")) == ["new"]

    play(path, story, durability=durability)


@pytest.mark.usefixtures("small_batches")
def test_closing_a_store_interrupts_a_search_and_the_next_one_goes_on(
    path: Path, durability: Durability, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_words, calls = SqliteTransaction.index_words, list[End]()

    async def story() -> None:
        store, loop = await SqliteStore.open(path, durability=durability), asyncio.get_running_loop()
        await fill(store)
        closing_ = list[asyncio.Task[None]]()

        def close_at_third(transaction: SqliteTransaction, until: End) -> bool:
            calls.append(until)
            if len(calls) == 3:
                loop.call_soon_threadsafe(lambda: closing_.append(loop.create_task(store.aclose())))
            return index_words(transaction, until)

        monkeypatch.setattr(SqliteTransaction, "index_words", close_at_third)
        with pytest.raises(Unavailable, match="the store is closed"):
            await store.list_sessions(having("pay"))
        await asyncio.gather(*closing_)

    run(story())
    assert len(calls) == 3
    monkeypatch.undo()
    play(path, check)


@pytest.mark.usefixtures("small_batches")
def test_two_connections_that_index_at_once_index_each_append_once(path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        await fill(store)
        other = await SqliteStore.open(path)
        await asyncio.gather(check(store), check(other))
        assert indexed(path) == {f"s{number}" for number in range(SESSIONS)}
        await other.aclose()

    play(path, story)


DIES = """
import asyncio, os, signal, sys
from tests.contracts.test_store_search import having
from windlass.sqlite import search
from windlass.sqlite.store import SqliteStore

save, saved = search.SearchIndex._save, []

def save_or_die(self, state):
    save(self, state)
    saved.append(state)
    if len(saved) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

async def story():
    store = await SqliteStore.open(sys.argv[1])
    await store.list_sessions(having("pay"))

search.BATCH_ROWS_MAX = 1
search.SearchIndex._save = save_or_die
asyncio.run(story())
"""


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 2, 6])
def test_a_process_that_is_killed_while_it_indexes_loses_and_repeats_nothing(path: Path, at: int) -> None:
    play(path, fill)
    died = subprocess.run([sys.executable, "-c", DIES, path, str(at)], cwd=ROOT, check=False)
    assert died.returncode == -signal.SIGKILL
    [(version, position, number)] = rows(path, "SELECT version, position, number FROM search_state")
    assert version == int(at > 2)
    if version:
        # The words and how far they go were written together. The second of three records has a message.
        told = {f"s{one}" for one in range(SESSIONS) if one < number or 3 * one + 2 <= position}
        assert indexed(path) == told
        assert 0 < len(told) < SESSIONS
    play(path, check)
    assert indexed(path) == {f"s{number}" for number in range(SESSIONS)}


@dataclass(slots=True)
class Idle:
    """The search index is tended as soon as nothing is written."""

    committed: Event = field(default_factory=Event)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for a state of the file."""
        while not is_so():
            assert await asyncio.to_thread(self.committed.wait, 60)
            self.committed.clear()


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> Idle:
    found, tend, commit = Idle(), SqliteTransaction.tend, SqliteTransaction.commit
    tended = list[bool]()

    def watched(transaction: SqliteTransaction) -> bool:
        tended.append(tend(transaction))
        return tended[-1]

    def committing(transaction: SqliteTransaction) -> None:
        commit(transaction)
        if tended:
            tended.clear()
            found.committed.set()

    monkeypatch.setattr(sqlite_writer, "IDLE_S", 0.001)
    monkeypatch.setattr(SqliteTransaction, "tend", watched)
    monkeypatch.setattr(SqliteTransaction, "commit", committing)
    return found


@pytest.mark.usefixtures("small_batches")
def test_a_large_backlog_is_indexed_after_opening_while_nothing_is_written(
    path: Path, idle: Idle, monkeypatch: pytest.MonkeyPatch, durability: Durability
) -> None:
    play(path, fill)
    [(last,)] = rows(path, "SELECT max(last_position) FROM appends")
    monkeypatch.setattr(sqlite_search, "BACKLOG_RECORDS_MIN", last + 1)
    play(path, nothing)
    assert rows(path, "SELECT position FROM search_state") == [(0,)]
    monkeypatch.setattr(sqlite_search, "BACKLOG_RECORDS_MIN", last)

    async def story(store: SqliteStore) -> None:
        await idle.until(
            lambda: rows(path, "SELECT position, number FROM search_state") == [(last, SESSIONS)]
        )
        await check(store)

    play(path, story, durability=durability)


def test_what_many_appends_wrote_is_indexed_while_nothing_is_written(
    path: Path, idle: Idle, monkeypatch: pytest.MonkeyPatch, durability: Durability
) -> None:
    monkeypatch.setattr(sqlite_writer, "CHECKPOINT_BYTES", 50_000)

    async def story(store: SqliteStore) -> None:
        await fill(store)
        await idle.until(lambda: rows(path, "SELECT position > 0 FROM search_state") == [(1,)])
        await check(store)

    play(path, story, durability=durability)


# deletion


def test_deleted_words_leave_the_file_when_it_is_closed(path: Path, durability: Durability) -> None:
    async def story(store: SqliteStore) -> None:
        await fill(store)
        await check(store)
        for number in (0, 3, 4):
            await store.delete(f"s{number}", now_ms=NOW_MS)
        await check(store, 0, 3, 4)

    play(path, story, durability=durability)
    assert words_left(path) == [1, 2, *range(5, SESSIONS)]
    assert rows(path, "SELECT has_deleted FROM search_state") == [(0,)]
    assert indexed(path) == {f"s{number}" for number in (1, 2, *range(5, SESSIONS))}


def test_deleted_words_leave_the_index_while_nothing_is_written(path: Path, idle: Idle) -> None:
    def terms() -> set[str]:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, search, row)")
            return {term for (term,) in connection.execute("SELECT term FROM temp.terms")}

    async def story(store: SqliteStore) -> None:
        await fill(store)
        await check(store)
        assert word(3) in terms()
        await store.delete("s3", now_ms=NOW_MS)
        await idle.until(lambda: rows(path, "SELECT has_deleted FROM search_state") == [(0,)])
        blocks = b"".join(block for (block,) in rows(path, "SELECT block FROM search_data"))
        assert word(3).encode() not in blocks
        assert word(4).encode() in blocks
        assert terms() == {"pay", *(word(number) for number in range(SESSIONS) if number != 3)}

    play(path, story)


@pytest.mark.parametrize("is_damaged", [True, False])
def test_a_process_that_dies_before_it_has_removed_deleted_words_leaves_that_to_the_next(
    path: Path, monkeypatch: pytest.MonkeyPatch, is_damaged: bool
) -> None:
    async def story(store: SqliteStore) -> None:
        await fill(store)
        await check(store)
        await store.delete("s3", now_ms=NOW_MS)

    with monkeypatch.context() as patch:
        patch.setattr(sqlite_writer, "CLOSE_PIECES_MAX", 0)
        play(path, story)
    assert rows(path, "SELECT has_deleted FROM search_state") == [(1,)]
    assert 3 in words_left(path)
    if is_damaged:
        # An index that cannot be merged is dropped.
        change(path, "UPDATE search_config SET v = 99")
    play(path, nothing)
    assert rows(path, "SELECT version, has_deleted FROM search_state") == [(int(not is_damaged), 0)]
    assert 3 not in words_left(path)
    play(path, lambda store: check(store, 3))


def test_pages_that_the_index_gave_up_before_a_session_was_deleted_have_none_of_its_words(path: Path) -> None:
    # Compressed in the journal, so that only the search index has the words as they are.
    texts = [
        f"{word(number)} " + " ".join(f"{chr(97 + one % 26)}{number}x{one}" for one in range(400))
        for number in range(SESSIONS)
    ]

    def is_in_file(number: int) -> bool:
        return word(number).encode() in path.read_bytes()

    async def story(store: SqliteStore) -> None:
        for number, text in enumerate(texts):
            mine = await begin(store, f"s{number}", f"r{number}")
            await store.append(Batch(mine, 2, (fact("message.completed", f"r{number}", message=text),)))
            await end(store, mine, f"r{number}", after=3)
        assert not any(map(is_in_file, range(SESSIONS)))
        # Each search writes a segment, and FTS5 merges the first ones with the fourth.
        for number in range(9):
            await names(store, having("pay"))
            await end(store, await begin(store, f"n{number}", f"n{number}"), f"n{number}")
        for number in range(SESSIONS):
            await store.delete(f"s{number}", now_ms=NOW_MS)

    play(path, story)
    assert rows(path, "PRAGMA freelist_count") != [(0,)]
    assert words_left(path) == []


@pytest.mark.usefixtures("small_batches")
def test_a_session_that_is_deleted_during_a_search_leaves_no_words(
    path: Path, durability: Durability
) -> None:
    async def story(store: SqliteStore) -> None:
        await fill(store)
        search = asyncio.create_task(store.list_sessions(having("pay")))
        for number in (0, 5, SESSIONS - 1):
            await store.delete(f"s{number}", now_ms=NOW_MS)
        assert not search.done()
        await search
        await check(store, 0, 5, SESSIONS - 1)

    play(path, story, durability=durability)
    assert indexed(path) == {f"s{number}" for number in (1, 2, 3, 4, *range(6, SESSIONS - 1))}
    assert words_left(path) == [1, 2, 3, 4, *range(6, SESSIONS - 1)]


# older files


def version_6(path: Path) -> None:
    """Revert the schema versions after the sixth."""
    change(
        path,
        "DROP TABLE asked_of",
        "ALTER TABLE asked RENAME COLUMN request TO body",
        *(
            f"DROP INDEX {statement.split()[2]}"
            for statement in (*RUN_INDEXES, SESSIONS_BY_UPDATE, SESSIONS_BY_COST)
        ),
        *(f"ALTER TABLE runs DROP COLUMN {name}" for name in RUN_COLUMNS.split(", ")[10:-1]),
        "ALTER TABLE runs RENAME COLUMN used TO usage",
        "DROP TABLE run_tags",
        "DROP TABLE unfilled",
        *(f"ALTER TABLE {table} DROP COLUMN seal" for table in INDEX),
        "ALTER TABLE appends RENAME COLUMN milestone TO is_milestone",
        "DROP TABLE IF EXISTS search",
        "DROP TABLE search_state",
        "DROP TRIGGER refused_of_session",
        "DROP TRIGGER refused_of_run",
        "DROP TABLE refused",
        "DROP TABLE documents",
        "ALTER TABLE tombstones RENAME TO deleted",
        """CREATE TABLE catalog_words (
            word TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (word, number)) WITHOUT ROWID""",
        *(
            f"INSERT INTO catalog_words VALUES ('old{word(number)}', {number + 1})"
            for number in range(SESSIONS)
        ),
        "PRAGMA user_version = 6",
    )


def test_what_an_older_release_wrote_is_found_and_its_own_index_leaves_the_file(path: Path) -> None:
    play(path, fill)
    version_6(path)
    assert b"old" + word(3).encode() in path.read_bytes()
    play(path, check)
    assert rows(path, "PRAGMA user_version") == [(len(sqlite_schema.MIGRATIONS),)]
    assert b"old" + word(3).encode() not in path.read_bytes()


def test_a_process_of_an_older_release_that_has_the_file_open_can_neither_start_sessions_nor_delete(
    path: Path,
) -> None:
    old = connect(path)
    prepare(old, path, durability="process", migrations=sqlite_schema.MIGRATIONS[:6])

    async def story(store: SqliteStore) -> None:
        await fill(store)
        await check(store)
        # Statements of version 6, without which it commits neither.
        for sql in ("INSERT INTO catalog_words VALUES ('a', 1)", "INSERT INTO deleted VALUES (1)"):
            with pytest.raises(sqlite3.OperationalError, match="no such table"):
                old.execute(sql)
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            old.execute("SELECT 1 FROM deleted WHERE session_key = 1")
        await check(store)

    play(path, story)
    old.close()


# a damaged or lost index, and SQLite without FTS5


DAMAGE = [
    "DROP TABLE search",
    "DROP TABLE search_data",
    "DROP TABLE search_config",
    "DROP TABLE search_idx",
    "DROP TABLE search_content",
    "DELETE FROM search_data",
    "DELETE FROM search_config",
    "UPDATE search_config SET v = 99",
    "DELETE FROM search_state",
    "UPDATE search_state SET version = 0",
    "UPDATE search_state SET version = 2",
    "UPDATE search_state SET position = 'x', has_deleted = 'y'",
    "UPDATE search_state SET number = x'00'",
]


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("is_open", [True, False])
def test_a_damaged_index_is_made_anew_by_a_search(path: Path, damage: str, is_open: bool) -> None:
    async def filled(store: SqliteStore) -> None:
        await fill(store)
        await check(store)
        if is_open:
            change(path, damage)
            await check(store)

    async def again(store: SqliteStore) -> None:
        await end(store, await begin(store, "more", "r-more", message="Something else"), "r-more")
        await check(store)
        assert await names(store, having("something")) == ["more"]

    play(path, filled)
    if not is_open:
        change(path, damage)
    play(path, again)
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    change(path, "INSERT INTO search (search) VALUES ('integrity-check')")


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [*DAMAGE, "UPDATE search_data SET block = x'00'"],
)
def test_a_session_can_be_deleted_while_the_index_is_damaged_and_leaves_no_words(
    path: Path, damage: str
) -> None:
    async def filled(store: SqliteStore) -> None:
        await fill(store)
        await check(store)

    async def deletes(store: SqliteStore) -> None:
        await store.delete("s3", now_ms=NOW_MS)

    play(path, filled)
    change(path, damage)
    play(path, deletes)
    assert 3 not in words_left(path)
    play(path, lambda store: check(store, 3))


def test_an_append_that_is_damaged_hides_only_its_own_words(path: Path) -> None:
    play(path, fill)
    for number, value in ((3, "x'01ff'"), (4, "x'005b5b5d5d'"), (5, "x'00'"), (6, "''")):
        change(
            path,
            f"UPDATE appends SET body = {value} WHERE last_seq = 2 AND session_key = "
            f"(SELECT session_key FROM sessions WHERE session_id = 's{number}')",
        )
    # They are found by their titles.
    play(path, check)


@dataclass(slots=True)
class ConnectionWithoutFts5:
    """A connection of a SQLite that does not know the module: it is asked for one that does not exist."""

    inner: SqlConnection
    statements: list[str] = field(default_factory=list[str])

    def execute(self, sql: str, parameters: Sequence[Value] = (), /) -> Cursor:
        return self.inner.execute(sql.replace("fts5", "fts9"), parameters)

    def close(self) -> None:
        self.inner.close()


def lose_fts5(path: Path) -> None:
    """Let the index of a file belong to a module that does not exist."""
    change(
        path,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = replace(sql, 'fts5', 'fts9') WHERE name = 'search'",
        "PRAGMA writable_schema = RESET",
    )


@pytest.mark.parametrize("is_indexed", [True, False])
def test_without_fts5_everything_works_but_the_search_for_text(path: Path, is_indexed: bool) -> None:
    async def filled(store: SqliteStore) -> None:
        await fill(store)
        if is_indexed:
            await check(store)

    async def story() -> None:
        store = await SqliteStore.open(
            path, connect=lambda path: ConnectionWithoutFts5(connect_plainly(path))
        )
        mine = await begin(store, "more", "r-more")
        for _ in range(2):
            with pytest.raises(Rejected, match="a search for text needs FTS5, and SQLite"):
                await store.list_sessions(having("pay"))
        await end(store, mine, "r-more")
        assert len(await names(store, limit=99)) == SESSIONS + 1
        # The index is left to a process that has FTS5.
        assert rows(path, "SELECT version FROM search_state") == [(int(is_indexed),)]
        await store.delete("s3", now_ms=NOW_MS)
        assert (await claim(store, "free")).last_seq == 0
        await store.aclose()

    play(path, filled)
    if is_indexed:
        lose_fts5(path)
    run(story())
    assert 3 not in words_left(path)

    async def again(store: SqliteStore) -> None:
        await store.delete("more", now_ms=NOW_MS)
        await check(store, 3)

    play(path, again)


def test_the_title_of_a_queued_session_is_indexed_once_and_deleted_with_it(path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        number = await start(store, message=word(3))
        assert await names(store, having(word(3))) == ["s1"]
        assert rows(path, "SELECT rowid, words FROM search") == [(-1, word(3))]
        with closing(connect(path)) as connection:
            assert SearchIndex(connection).end_ahead() is None
        gone, runs = fact("run.cancelled", unstarted={}), (("r1", RunStatus.CANCELLED),)
        mine = await claim(store)
        await store.append(Batch(mine, 0, (gone,), consumes=(number,), runs=runs, is_last=True))
        assert await names(store, having(word(3))) == ["s1"]
        await store.delete("s1", now_ms=NOW_MS)
        assert rows(path, "SELECT rowid FROM search") == []

    play(path, story)
    assert words_left(path) == []
