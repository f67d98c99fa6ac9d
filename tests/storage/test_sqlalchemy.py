"""The SQLAlchemy storage: properties beyond the storage contract."""

import asyncio
import sqlite3
import subprocess
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from threading import Event

import psycopg
import pytest
from sqlalchemy import Connection
from tests.contracts.storage_samples import (
    Place,
    event,
    message,
    run,
    session,
    span,
    sqlite_place,
    trace,
)

from tools.postgres import Postgres
from windlass.errors import Ambiguous, Corrupt, Rejected, Unavailable
from windlass.storage.adapter import StorageAdapter
from windlass.storage.sqlalchemy import SqlAlchemyStorage

SECRET = "s3cret-of-a-row"
TERMINATE = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE"


def execute(place: Place, statement: str) -> None:
    """Change a database behind the back of its storage."""
    assert place.url is not None
    if place.name == "sqlite":
        with sqlite3.connect(place.url.removeprefix("sqlite:///")) as connection:
            connection.execute(statement)
        connection.close()
        return
    with psycopg.connect(place.url, autocommit=True) as connection:
        connection.execute(statement.encode())


def test_documents_are_there_when_the_database_is_opened_again(place: Place) -> None:
    async def work() -> None:
        async with place.open() as storage:
            await storage.upsert_session(session())
        async with place.open() as storage:
            assert await storage.get_session("s1") == session()

    run(work())


def test_a_sqlite_file_is_written_durably_and_keeps_its_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, found = sqlite_place(tmp_path), dict[str, object]()
    commit = Connection.commit

    def watched(connection: Connection) -> None:
        for name in ("journal_mode", "synchronous", "foreign_keys"):
            found[name] = connection.exec_driver_sql(f"PRAGMA {name}").scalar()
        commit(connection)

    async def work() -> None:
        async with place.open() as storage:
            monkeypatch.setattr(Connection, "commit", watched)
            await storage.upsert_session(session())

    run(work())
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


@pytest.mark.uncounted
def test_storages_on_one_database_wait_for_each_other_and_lose_nothing(place: Place) -> None:
    async def work() -> None:
        async with place.open() as one, place.open() as two, place.open() as three:
            storages: list[StorageAdapter] = [one, two, three]
            await one.upsert_trace(trace())
            names = [f"n{number:02}" for number in range(30)]
            await asyncio.gather(
                *(each.upsert_session(session(name)) for name in names for each in storages),
                *(
                    each.append_events("t1", [event(name), event(f"{name}+")])
                    for name in names
                    for each in storages
                ),
                *(
                    each.append_spans("t1", [span(name), span(f"{name}{number}")])
                    for name in names
                    for number, each in enumerate(storages)
                ),
            )
            assert {found.session_id for found in await two.list_sessions()} == {*names}
            assert len(await three.list_events("t1")) == 60
            assert len(await one.list_spans("t1")) == 120

    run(work())


def test_two_sessions_deleted_at_the_same_time_take_their_chat_with_them(place: Place) -> None:
    async def work() -> None:
        async with place.open() as one, place.open() as two:
            for number in range(20):
                chat = f"c{number}"
                await one.upsert_session(session("a", chatId=chat))
                await one.upsert_session(session("b", chatId=chat))
                await one.append_message(message(chatId=chat))
                assert await asyncio.gather(one.delete_session("a"), two.delete_session("b")) == [True, True]
                assert await one.list_messages(chat) == []

    run(work())


def test_spans_that_are_appended_while_their_session_is_deleted_go_with_it(place: Place) -> None:
    async def append(storage: StorageAdapter, number: int) -> None:
        with suppress(Rejected):  # the trace may be gone already
            await storage.append_spans("t1", [span(f"p{number}")])

    async def work() -> None:
        async with place.open() as one, place.open() as two:
            for number in range(15):
                await one.upsert_trace(trace())
                await asyncio.gather(append(one, number), two.delete_session("s1"), append(two, 99))
                assert await one.list_spans("t1") == []

    run(work())


def test_a_damaged_document_is_reported_and_never_served(place: Place) -> None:
    async def work() -> None:
        async with place.open() as storage:
            await storage.upsert_session(session())
            await storage.append_message(message())
            await storage.append_message(message("m2"))
            execute(place, f'UPDATE windlass_session SET body = \'{{"title": "{SECRET}"}}\'')
            execute(place, f"UPDATE windlass_message SET body = '{SECRET}' WHERE message_id = 'm1'")
            with pytest.raises(Corrupt, match="stored session in row") as caught:
                await storage.get_session("s1")
            assert SECRET not in "".join(traceback.format_exception(caught.value))
            with pytest.raises(Corrupt, match="stored message in row"):
                await storage.list_messages("c1")
            assert [found.id for found in await storage.list_messages("c1", 1)] == ["m2"]

    run(work())


def test_an_error_of_the_database_says_nothing_of_the_document(place: Place) -> None:
    async def work() -> None:
        async with place.open() as storage:
            rule = f"CHECK (title <> '{SECRET}')"
            execute(place, "ALTER TABLE windlass_session RENAME TO windlass_elsewhere")
            execute(place, f"CREATE TABLE windlass_session (title TEXT {rule})")
            try:
                with pytest.raises(Rejected) as caught:
                    await storage.upsert_session(session(title=SECRET))
                shown = "".join(traceback.format_exception(caught.value))
                assert SECRET not in shown
                assert "INSERT" not in shown
                with pytest.raises(Rejected) as caught:
                    await storage.get_session("s1")
                assert caught.value.__context__ is None
            finally:
                execute(place, "DROP TABLE windlass_session")
                execute(place, "ALTER TABLE windlass_elsewhere RENAME TO windlass_session")
            await storage.upsert_session(session())

    run(work())


def test_a_sqlite_file_that_another_process_writes_to_is_unavailable_until_it_is_done(tmp_path: Path) -> None:
    url = str(sqlite_place(tmp_path).url)

    async def work() -> None:
        async with await SqlAlchemyStorage.open(url, busy_timeout_ms=1) as storage:
            other = sqlite3.connect(tmp_path / "storage.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(Unavailable, match="busy"):
                await storage.upsert_session(session())
            assert await storage.get_session("s1") is None
            other.execute("ROLLBACK")
            other.close()
            await storage.upsert_session(session())

    run(work())


def test_a_cancelled_write_ends_before_its_caller_goes_on_and_leaves_nothing_locked(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, begun, may_end, ended = Connection.commit, Event(), Event(), list[bool]()

    def slow(connection: Connection) -> None:
        begun.set()
        assert may_end.wait(30)
        commit(connection)
        ended.append(True)

    async def work() -> None:
        async with place.open() as storage:
            await storage.upsert_trace(trace())
            monkeypatch.setattr(Connection, "commit", slow)
            task = asyncio.ensure_future(storage.append_events("t1", [event("a"), event("b")]))
            await asyncio.to_thread(begun.wait, 30)
            for _ in range(3):
                task.cancel()
                await asyncio.sleep(0)
            assert not task.done()
            may_end.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert ended == [True]
            monkeypatch.undo()
            await storage.append_events("t1", [event("a"), event("c")])
            assert await storage.list_events("t1") == [event("a"), event("b"), event("c")]

    run(work())


def test_a_call_that_waits_for_its_turn_can_be_cancelled_at_once(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path)

    async def work() -> None:
        async with place.open() as storage:
            tasks = [asyncio.ensure_future(storage.upsert_session(session(f"s{n}"))) for n in range(20)]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            found = {item.session_id for item in await storage.list_sessions()}
            assert 1 <= len(found) < 20
            assert {f"s{n}" for n, task in enumerate(tasks) if not task.cancelled()} <= found

    run(work())


def test_a_file_that_is_no_database_is_corrupt_and_left_alone(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path)
    (tmp_path / "storage.db").write_text("not a database " * 100, encoding="utf-8")

    async def work() -> None:
        with pytest.raises(Corrupt):
            async with place.open():
                pass

    run(work())
    assert (tmp_path / "storage.db").read_text(encoding="utf-8") == "not a database " * 100


@pytest.mark.parametrize("url", ["sqlite:////no/such/folder/x.db", "postgresql://u:s3cret@/x?host=/no/such"])
def test_a_database_that_cannot_be_reached_is_unavailable(url: str) -> None:
    async def work() -> None:
        with pytest.raises(Unavailable) as caught:
            await SqlAlchemyStorage.open(url)
        assert "s3cret" not in "".join(traceback.format_exception(caught.value))

    run(work())


@pytest.mark.parametrize(
    "url",
    [
        "",
        "app.db",
        "mysql://root:s3cret@host/x",
        "sqlite+pysqlite:///x.db",
        "postgresql+asyncpg://u:s3cret@/x",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x?mode=memory&uri=true",
    ],
)
def test_an_address_that_we_cannot_use_is_rejected_without_its_password(url: str) -> None:
    async def work() -> None:
        with pytest.raises(Rejected, match="expected") as caught:
            await SqlAlchemyStorage.open(url)
        assert "s3cret" not in "".join(traceback.format_exception(caught.value))

    run(work())


def test_a_missing_driver_is_named_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)

    async def work() -> None:
        with pytest.raises(Rejected, match=r"psycopg; pip install 'windlass-runtime\[postgres\]'"):
            await SqlAlchemyStorage.open("postgres://x/y")

    run(work())


def test_a_connection_that_broke_while_idle_is_reopened(postgres: Postgres) -> None:
    place = Place("postgres", postgres.new_database())

    async def work() -> None:
        async with place.open() as storage:
            await storage.upsert_session(session())
            execute(place, f"{TERMINATE} pid <> pg_backend_pid() AND backend_type = 'client backend'")
            assert await storage.get_session("s1") == session()

    run(work())


def test_a_connection_that_breaks_while_a_write_is_committed_leaves_an_open_question(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place("postgres", postgres.new_database())
    commit = Connection.commit

    def broken(connection: Connection) -> None:
        execute(place, f"{TERMINATE} state = 'idle in transaction'")
        commit(connection)

    async def work() -> None:
        async with place.open() as storage:
            monkeypatch.setattr(Connection, "commit", broken)
            with pytest.raises(Ambiguous) as caught:
                await storage.upsert_session(session(title=SECRET))
            assert SECRET not in "".join(traceback.format_exception(caught.value))
            monkeypatch.undo()
            # An ambiguous write may be repeated.
            await storage.upsert_session(session(title=SECRET))
            assert len(await storage.list_sessions()) == 1

    run(work())


def test_a_database_that_may_only_be_read_says_so(postgres: Postgres) -> None:
    place = Place("postgres", postgres.new_database())

    async def work() -> None:
        async with place.open():
            pass
        name = str(place.url).partition("@/")[2].partition("?")[0]
        execute(place, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        async with place.open() as storage:
            with pytest.raises(Rejected, match="25006"):
                await storage.upsert_session(session())
            assert await storage.list_sessions() == []

    run(work())


@pytest.mark.slow
def test_importing_windlass_or_the_storage_in_memory_loads_no_database_library() -> None:
    code = (
        "import sys, windlass, windlass.storage.adapter, windlass.storage.memory\n"
        "found = {'sqlalchemy', 'psycopg', 'sqlite3'} & {*sys.modules}\n"
        "sys.exit(str(found) if found else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
