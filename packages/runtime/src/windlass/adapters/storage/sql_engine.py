"""Engines: connections to SQLite and PostgreSQL, set up for a storage."""

import sqlite3
from contextlib import closing
from typing import Final

from sqlalchemy import URL, Connection, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from windlass.adapters.storage.refusals import misconfigured
from windlass.limits import (
    STORAGE_BUSY_TIMEOUT_MS,
    STORAGE_CONNECT_TIMEOUT_S,
    STORAGE_CONNECTIONS_MAX,
    STORAGE_POOL_TIMEOUT_S,
    STORAGE_STATEMENT_TIMEOUT_MS,
)

IS_WRITE: Final = "windlass_is_write"
"""The execution option of connections that write."""

_DRIVERS: Final = {
    "sqlite": "sqlite+aiosqlite",
    "sqlite+aiosqlite": "sqlite+aiosqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}


def engine_for(address: str) -> AsyncEngine:
    """Return an engine for `sqlite:///app.db`, `postgresql://host/name` and such.

    Raises:
        Rejected: it is no address of a database that we know, or its driver is not installed.
    """
    url = _url(address)
    is_sqlite = url.drivername.startswith("sqlite")
    arguments: dict[str, float]
    if is_sqlite:
        arguments = {"timeout": STORAGE_BUSY_TIMEOUT_MS / 1000}
    else:
        arguments = {"connect_timeout": STORAGE_CONNECT_TIMEOUT_S}
    try:
        engine = create_async_engine(
            url,
            connect_args=arguments,
            hide_parameters=True,
            pool_size=STORAGE_CONNECTIONS_MAX,
            max_overflow=0,
            pool_timeout=STORAGE_POOL_TIMEOUT_S,
            pool_pre_ping=not is_sqlite,
        )
    except ModuleNotFoundError as error:
        missing = error.name
    else:
        _listen(engine, is_sqlite=is_sqlite)
        return engine
    raise misconfigured(f"driver missing: {missing}; install windlass[{'sql' if is_sqlite else 'postgres'}]")


def prepare_file(engine: AsyncEngine) -> None:
    """Make a SQLite file if there is none, and keep a log beside it.

    With the log (WAL) readers and the writer do not wait for each other.

    Done without the asynchronous driver, whose thread does not end in order if the file cannot be opened.
    """
    names, options = engine.dialect.create_connect_args(engine.url)
    timeout_s, is_uri = STORAGE_BUSY_TIMEOUT_MS / 1000, bool(options.get("uri"))
    with closing(sqlite3.connect(names[0], timeout=timeout_s, uri=is_uri)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")


def _url(address: str) -> URL:
    try:
        url = make_url(address)
    except ArgumentError:
        url = None
    if url is None or url.drivername not in _DRIVERS:
        # The address itself may hold a password.
        raise misconfigured("unknown kind of database: expected sqlite:///… or postgresql://…")
    driver = _DRIVERS[url.drivername]
    if driver == "sqlite+aiosqlite" and (
        url.database in {None, "", ":memory:"} or url.query.get("mode") == "memory"
    ):
        raise misconfigured("SQLite in memory: expected a file; use InMemoryStorage to keep nothing")
    return url.set(drivername=driver)


def _listen(engine: AsyncEngine, *, is_sqlite: bool) -> None:
    if is_sqlite:
        event.listen(engine.sync_engine, "connect", _set_up_sqlite)
        event.listen(engine.sync_engine, "begin", _begin_sqlite)
    else:
        event.listen(engine.sync_engine, "connect", _set_up_postgres)


def _set_up_sqlite(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    # Python's driver would begin transactions by its own rules, and too late: a write must begin as one,
    # since a transaction that first reads cannot wait for another writer.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    if connection.get_execution_options().get(IS_WRITE):
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _set_up_postgres(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    cursor.execute(f"SET statement_timeout = {STORAGE_STATEMENT_TIMEOUT_MS}")
    cursor.close()
    connection.commit()
