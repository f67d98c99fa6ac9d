"""A database is brought up to date when it is opened, or refused."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest
from alembic.autogenerate import compare_metadata
from alembic.operations import Operations
from sqlalchemy import Connection, inspect, text
from tests.contracts.storage_samples import message, run, session

from windlass.adapters.storage import r0002_search
from windlass.adapters.storage.migrations import NEWEST, REVISIONS, VERSION_TABLE, context_of, migrate
from windlass.adapters.storage.sql_engine import IS_WRITE, engine_for
from windlass.adapters.storage.sqlalchemy import SqlAlchemyStorage
from windlass.adapters.storage.tables import METADATA
from windlass.errors import AgentError, Rejected
from windlass_protocol import ErrorKind
from windlass_protocol.codec import encode

T = TypeVar("T")


def within(url: str, work: Callable[[Connection], T]) -> T:
    """Do something in one transaction of a database, as if there were no storage."""

    async def transaction() -> T:
        engine = engine_for(url)
        try:
            async with engine.execution_options(**{IS_WRITE: True}).begin() as connection:
                return await connection.run_sync(work)
        finally:
            await engine.dispose()

    return run(transaction())


def set_revision(url: str, revision: str) -> None:
    within(url, lambda it: it.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'")))


def open_and_close(url: str, *, is_migrating: bool = True) -> None:
    async def work() -> None:
        async with await SqlAlchemyStorage.open(url, migrate=is_migrating):
            pass

    run(work())


def revision_of(url: str) -> str | None:
    return within(url, lambda connection: context_of(connection).get_current_revision())


def tables_of(url: str) -> set[str]:
    return within(url, lambda connection: set(inspect(connection).get_table_names()))


def test_revisions_follow_one_another() -> None:
    assert [module.revision for module in REVISIONS] == ["r0001", "r0002"]
    assert [module.down_revision for module in REVISIONS] == [None, "r0001"]


def test_a_new_database_gets_the_newest_schema_and_keeps_it(new_url: str) -> None:
    for _ in range(2):
        open_and_close(new_url)
        assert revision_of(new_url) == NEWEST


def test_migrations_and_tables_agree(new_url: str) -> None:
    open_and_close(new_url)
    difference = within(new_url, lambda connection: compare_metadata(context_of(connection), METADATA))
    assert difference == []


def test_a_difference_between_migrations_and_tables_is_seen(new_url: str) -> None:
    within(new_url, lambda connection: migrate(connection, target="r0001"))
    difference = within(new_url, lambda connection: compare_metadata(context_of(connection), METADATA))
    assert {(change[0], change[2], change[3].name) for change in difference} == {
        ("add_column", "windlass_session", "search_text"),
        ("add_column", "windlass_message", "search_text"),
    }


ROWS = 250
"""More than a migration holds in memory at a time."""


def test_a_database_of_the_first_revision_is_migrated_with_everything_in_it(new_url: str) -> None:
    def first(connection: Connection) -> None:
        migrate(connection, target="r0001")
        columns = "session_id, user_id, chat_id, is_active, created_us, body"
        insert = text(f"INSERT INTO windlass_session ({columns}) VALUES (:id, 'ada', 'c1', :on, 1, :body)")
        old = encode(session("old", title="Überschrift")).decode()
        for session_id, body in (("old", old), ("damaged", "{"), ("odd", "[]")):
            connection.execute(insert, {"id": session_id, "on": True, "body": body})
        insert = text("INSERT INTO windlass_message (chat_id, message_id, body) VALUES (:chat, :id, :body)")
        for number in range(ROWS):
            body = encode(message(f"m{number}", content=f"No. {number:03}!")).decode()
            connection.execute(insert, {"chat": "c1", "id": f"m{number}", "body": body})
        connection.execute(insert, {"chat": "c2", "id": "odd", "body": '{"content": 1}'})

    within(new_url, first)
    assert revision_of(new_url) == "r0001"

    async def work() -> None:
        async with await SqlAlchemyStorage.open(new_url) as storage:
            assert await storage.get_session("old") == session("old", title="Überschrift")
            assert await storage.search_sessions("ÜBERschrift") == [session("old", title="Überschrift")]
            assert len(await storage.list_messages("c1")) == ROWS
            assert [found.id for found in await storage.search_messages("no. 249!")] == ["m249"]
            await storage.append_message(message("new"))

    run(work())
    assert revision_of(new_url) == NEWEST


def test_a_newer_database_is_refused_and_left_alone(new_url: str) -> None:
    open_and_close(new_url)
    set_revision(new_url, "r9999")
    for is_migrating in (True, False):
        with pytest.raises(Rejected, match=rf"newer database: found .* r9999, .* knows {NEWEST}") as caught:
            open_and_close(new_url, is_migrating=is_migrating)
        assert caught.value.kind is ErrorKind.HOST_CONFIGURATION_NEEDED
    assert revision_of(new_url) == "r9999"


def test_a_newer_database_is_refused_also_if_it_became_newer_at_the_last_moment(new_url: str) -> None:
    open_and_close(new_url)
    set_revision(new_url, "r9999")
    with pytest.raises(Rejected, match="newer database"):
        within(new_url, migrate)


def test_an_older_database_is_refused_and_left_alone_if_nobody_may_migrate(new_url: str) -> None:
    with pytest.raises(Rejected, match=f"old database: found schema revision none, expected {NEWEST}"):
        open_and_close(new_url, is_migrating=False)
    assert tables_of(new_url) == set()
    within(new_url, lambda connection: migrate(connection, target="r0001"))
    with pytest.raises(Rejected, match=f"found schema revision r0001, expected {NEWEST}.*migrate=True"):
        open_and_close(new_url, is_migrating=False)
    assert revision_of(new_url) == "r0001"
    open_and_close(new_url)
    open_and_close(new_url, is_migrating=False)


def test_a_migration_that_fails_in_its_last_step_leaves_the_database_as_it_was(
    new_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrade = r0002_search.upgrade

    def fail_at_the_end(op: Operations) -> None:
        upgrade(op)
        op.execute("SELECT no_such_column FROM windlass_session")

    monkeypatch.setattr(r0002_search, "upgrade", fail_at_the_end)
    with pytest.raises(AgentError):
        open_and_close(new_url)
    assert tables_of(new_url) == set()
    monkeypatch.undo()
    open_and_close(new_url)
    assert revision_of(new_url) == NEWEST


def test_a_migration_that_fails_leaves_the_database_as_it_was(new_url: str) -> None:
    within(new_url, lambda connection: connection.execute(text("CREATE TABLE windlass_span (mine TEXT)")))
    with pytest.raises(AgentError):
        open_and_close(new_url)
    assert tables_of(new_url) == {"windlass_span"}
    within(new_url, lambda connection: connection.execute(text("DROP TABLE windlass_span")))
    open_and_close(new_url)
    assert revision_of(new_url) == NEWEST


def test_many_processes_may_open_a_new_database_at_once(new_url: str) -> None:
    openers = 8
    together = threading.Barrier(openers, timeout=300)

    def open_in_a_thread(number: int) -> None:
        async def work() -> None:
            together.wait()
            async with await SqlAlchemyStorage.open(new_url) as storage:
                await storage.upsert_session(session(f"s{number}"))

        run(work())

    with ThreadPoolExecutor(openers) as pool:
        list(pool.map(open_in_a_thread, range(openers)))

    async def count() -> int:
        async with await SqlAlchemyStorage.open(new_url, migrate=False) as storage:
            return len(await storage.list_sessions())

    assert run(count()) == openers


def test_two_databases_can_be_migrated_in_one_loop(new_url: str, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path / 'other.db'}"

    async def work() -> None:
        for storage in await asyncio.gather(SqlAlchemyStorage.open(new_url), SqlAlchemyStorage.open(other)):
            await storage.upsert_session(session())
            await storage.aclose()

    run(work())


def test_other_tables_of_the_database_are_nobodys_business(new_url: str) -> None:
    within(new_url, lambda it: it.execute(text("CREATE TABLE alembic_version (version_num TEXT)")))
    within(new_url, lambda it: it.execute(text("INSERT INTO alembic_version VALUES ('theirs')")))
    open_and_close(new_url)
    found = within(new_url, lambda it: it.execute(text("SELECT * FROM alembic_version")).scalar())
    assert found == "theirs"
    ours = {name for name in tables_of(new_url) if name.startswith("windlass_")}
    assert ours == {*METADATA.tables, VERSION_TABLE}
