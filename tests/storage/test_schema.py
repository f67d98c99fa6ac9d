"""Opening a database creates the tables of the storage, or refuses tables of another schema."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
from sqlalchemy import Connection, create_engine, inspect, make_url, text
from sqlalchemy.pool import NullPool
from tests.contracts.storage_samples import run, session

from windlass.errors import AgentError, Rejected
from windlass.storage.sqlalchemy import METADATA, SCHEMA_VERSION, SqlAlchemyStorage
from windlass_protocol import ErrorKind

T = TypeVar("T")


def within(url: str, work: Callable[[Connection], T]) -> T:
    """Do something in one transaction of a database, without a storage."""
    address = make_url(url)
    if address.drivername == "postgresql":
        address = address.set(drivername="postgresql+psycopg")
    with create_engine(address, poolclass=NullPool).begin() as connection:
        return work(connection)


def execute(url: str, *statements: str) -> None:
    within(url, lambda connection: [connection.execute(text(one)) for one in statements])


def open_and_close(url: str) -> None:
    async def work() -> None:
        async with await SqlAlchemyStorage.open(url):
            pass

    run(work())


def tables_of(url: str) -> set[str]:
    return within(url, lambda connection: set(inspect(connection).get_table_names()))


def test_a_new_database_gets_the_tables_once(new_url: str) -> None:
    for _ in range(2):
        open_and_close(new_url)
        assert tables_of(new_url) == {*METADATA.tables}
        versions = within(
            new_url, lambda it: it.execute(text("SELECT version FROM windlass_storage")).scalars().all()
        )
        assert versions == [SCHEMA_VERSION]


def test_another_schema_version_is_refused_and_left_alone(new_url: str) -> None:
    open_and_close(new_url)
    execute(new_url, "UPDATE windlass_storage SET version = 99")
    with pytest.raises(Rejected, match="found schema version 99, expected version 1") as caught:
        open_and_close(new_url)
    assert caught.value.kind is ErrorKind.HOST_CONFIGURATION_NEEDED
    assert within(new_url, lambda it: it.execute(text("SELECT version FROM windlass_storage")).scalar()) == 99


def test_tables_without_a_schema_version_are_refused_and_left_alone(new_url: str) -> None:
    execute(new_url, "CREATE TABLE windlass_session (mine TEXT)")
    with pytest.raises(Rejected, match="found the tables windlass_session without a schema version"):
        open_and_close(new_url)
    assert tables_of(new_url) == {"windlass_session"}


def test_a_creation_that_fails_leaves_the_database_as_it_was(new_url: str) -> None:
    # The name of one of the last indexes is taken.
    execute(new_url, "CREATE TABLE mine (a TEXT)", "CREATE INDEX windlass_trace_event_trace_id ON mine (a)")
    with pytest.raises(AgentError):
        open_and_close(new_url)
    assert tables_of(new_url) == {"mine"}
    execute(new_url, "DROP INDEX windlass_trace_event_trace_id")
    open_and_close(new_url)
    assert tables_of(new_url) == {*METADATA.tables, "mine"}


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
        async with await SqlAlchemyStorage.open(new_url) as storage:
            return len(await storage.list_sessions())

    assert run(count()) == openers


def test_other_tables_of_the_database_are_left_alone(new_url: str) -> None:
    execute(new_url, "CREATE TABLE alembic_version (v TEXT)", "INSERT INTO alembic_version VALUES ('theirs')")
    open_and_close(new_url)
    found = within(new_url, lambda it: it.execute(text("SELECT * FROM alembic_version")).scalar())
    assert found == "theirs"
    assert tables_of(new_url) == {*METADATA.tables, "alembic_version"}
