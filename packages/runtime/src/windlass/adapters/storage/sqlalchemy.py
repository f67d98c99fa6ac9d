"""A storage in SQLite or PostgreSQL.

SQLite needs `windlass[sql]`, PostgreSQL `windlass[postgres]`.
"""

from asyncio import CancelledError, Lock, ensure_future, shield, to_thread, wait
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

from pydantic import BaseModel
from sqlalchemy import ColumnElement, Delete, Select, delete, func, select, text, tuple_
from sqlalchemy.dialects.postgresql import Insert as PostgresInsert
from sqlalchemy.dialects.sqlite import Insert as SqliteInsert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from windlass.adapters.storage.document_storage import DocumentStorage
from windlass.adapters.storage.documents import (
    EVENT,
    MESSAGE,
    SESSION,
    SPAN,
    TRACE,
    Column,
    Row,
    Scan,
    Shape,
    Stored,
    is_same,
)
from windlass.adapters.storage.migrations import check
from windlass.adapters.storage.migrations import migrate as migrate_tables
from windlass.adapters.storage.refusals import conflict, rejected
from windlass.adapters.storage.sql_engine import IS_WRITE, engine_for, prepare_file
from windlass.adapters.storage.sql_errors import FOREIGN_ERRORS, translate
from windlass.adapters.storage.tables import TABLES
from windlass.ports.storage import Deleted

T = TypeVar("T", bound=BaseModel)
R = TypeVar("R")
Work = Callable[[AsyncConnection], Awaitable[R]]

_MIGRATION_LOCK: Final = 0x77696E646C617373
"""Of all processes that open one PostgreSQL database, one migrates it."""


class SqlAlchemyStorage(DocumentStorage):
    """A `StorageAdapter` in a database; use `open`.

    A write returns once it is durable: SQLite runs with synchronous FULL, PostgreSQL as its owner set it up.
    """

    @classmethod
    async def open(cls, url: str, *, migrate: bool = True) -> Self:
        """Open a database: `sqlite:///app.db` or `postgresql://user@host/name`.

        An older one is migrated first, once, whoever else opens it at the same time; a SQLite file is made
        if there is none.

        Raises:
            Rejected: the address or the driver is no good; the database is newer than this version; or it is
                older and `migrate` is false. The message names both revisions.
            Unavailable: the database cannot be reached.
            Corrupt: the file is no SQLite database.
        """
        tables = _SqlTables.over(engine_for(url))
        try:
            await tables.prepare_file()
            await tables.prepare(migrate=migrate)
        except BaseException:
            await tables.aclose()
            raise
        return cls(tables)


@dataclass(frozen=True, slots=True)
class _SqlTables:
    reader: AsyncEngine
    writer: AsyncEngine
    insert: type[SqliteInsert | PostgresInsert]
    turn: AbstractAsyncContextManager[object]
    """One writer at a time: those of a SQLite file would otherwise push past each other without any order."""

    @classmethod
    def over(cls, engine: AsyncEngine) -> Self:
        writer = engine.execution_options(**{IS_WRITE: True})
        if engine.dialect.name == "sqlite":
            return cls(engine, writer, SqliteInsert, Lock())
        # A single select needs no transaction, and its two round trips.
        reader = engine.execution_options(isolation_level="AUTOCOMMIT")
        return cls(reader, writer, PostgresInsert, nullcontext())

    @property
    def is_sqlite(self) -> bool:
        return self.insert is SqliteInsert

    async def prepare_file(self) -> None:
        """Make the file of a SQLite database."""
        if not self.is_sqlite:
            return None
        try:
            return await to_thread(prepare_file, self.writer)
        except FOREIGN_ERRORS as error:
            failure = translate(error)
        raise failure

    async def prepare(self, *, migrate: bool) -> None:
        """Check the schema, and migrate it if need be."""

        async def found(connection: AsyncConnection) -> bool:
            return await connection.run_sync(lambda sync: check(sync, is_older_fine=migrate))

        async def change(connection: AsyncConnection) -> None:
            await connection.begin()
            if not self.is_sqlite:
                await connection.execute(text("SET LOCAL statement_timeout = 0"))
                await connection.execute(select(func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
            await connection.run_sync(migrate_tables)

        if not await self._read(found):
            await self._write(change)

    async def write(self, shape: Shape[T], rows: Sequence[Row]) -> None:
        async def work(connection: AsyncConnection) -> None:
            if shape.is_traced:
                await _lock_trace(connection, rows[0]["trace_id"])
            done = await connection.execute(self._put(shape), [dict(row) for row in rows])
            if not shape.is_replaced and done.rowcount != len(rows):
                await _check_same(connection, shape, rows)

        await self._write(work)

    async def find(self, shape: Shape[T], key: Sequence[str]) -> Stored | None:
        found = _select(shape).where(*_equal(shape, dict(zip(shape.key, key, strict=True))))
        rows = await self._select(shape, found)
        return rows[0] if rows else None

    async def scan(self, scan: Scan[T]) -> Sequence[Stored]:
        table, shape = TABLES[scan.shape.name], scan.shape
        order = [table.c[name] for name in shape.order]
        found = _select(shape).where(*_equal(shape, scan.where)).limit(scan.limit)
        for word in scan.words:
            found = found.where(table.c.search_text.contains(word, autoescape=True))
        if scan.after is not None:
            place = tuple_(*order)
            found = found.where(place < scan.after if scan.is_backward else place > scan.after)
        found = found.order_by(*(column.desc() if scan.is_backward else column for column in order))
        return await self._select(shape, found)

    async def delete_session(self, session_id: str) -> Deleted:
        async def work(connection: AsyncConnection) -> Deleted:
            return await _delete_session(connection, session_id)

        return await self._write(work)

    async def aclose(self) -> None:
        await self.writer.dispose()

    def _put(self, shape: Shape[T]) -> SqliteInsert | PostgresInsert:
        table = TABLES[shape.name]
        put = self.insert(table).inline()
        if not shape.is_replaced:
            return put.on_conflict_do_nothing(index_elements=shape.key)
        kept = {"position", *shape.key}
        changed = {name: put.excluded[name] for name in table.c.keys() if name not in kept}  # noqa: SIM118 - columns, not names
        return put.on_conflict_do_update(index_elements=shape.key, set_=changed)

    async def _select(self, shape: Shape[T], statement: Select[*tuple[Any, ...]]) -> list[Stored]:
        async def work(connection: AsyncConnection) -> list[Stored]:
            rows = (await connection.execute(statement)).all()
            return [Stored(tuple(row[1:]), row[0]) for row in rows]

        return await self._read(work)

    async def _read(self, work: Work[R]) -> R:
        async def call() -> R:
            async with self.reader.connect() as connection:
                return await work(connection)

        try:
            return await (_settled(call()) if self.is_sqlite else call())
        except FOREIGN_ERRORS as error:
            failure = translate(error)
        # Raised out here: inside the handler the foreign error, which holds values, would be its context.
        raise failure

    async def _write(self, work: Work[R]) -> R:
        is_committing = False

        async def call() -> R:
            nonlocal is_committing
            async with self.writer.connect() as connection:
                result = await work(connection)
                is_committing = True
                await connection.commit()
                return result

        try:
            async with self.turn:
                return await (_settled(call()) if self.is_sqlite else call())
        except FOREIGN_ERRORS as error:
            failure = translate(error, is_committing=is_committing)
        raise failure


async def _settled(call: Coroutine[object, object, R]) -> R:
    """Return what the call returns; one who is cancelled waits until it has ended.

    The SQLite driver has a thread that goes on with a cancelled call, and would keep the file locked.
    """
    task = ensure_future(call)
    try:
        return await shield(task)
    except CancelledError:
        while not task.done():
            with suppress(CancelledError):
                await wait([task])
        with suppress(CancelledError):
            task.exception()  # nobody is left to hear of it
        raise


def _select(shape: Shape[T]) -> Select[*tuple[Any, ...]]:
    table = TABLES[shape.name]
    return select(table.c.body, *(table.c[name] for name in shape.order))


def _equal(shape: Shape[T], where: Mapping[str, Column]) -> list[ColumnElement[bool]]:
    table = TABLES[shape.name]
    return [table.c[name] == value for name, value in where.items()]


async def _lock_trace(connection: AsyncConnection, trace_id: Column) -> None:
    """Let nobody else append to the trace: rows are numbered as transactions end."""
    table = TABLES[TRACE.name]
    found = await connection.execute(
        select(table.c.position).where(table.c.trace_id == trace_id).with_for_update()
    )
    if found.first() is None:
        raise rejected("no such trace: expected one that is stored")


async def _check_same(connection: AsyncConnection, shape: Shape[T], rows: Sequence[Row]) -> None:
    """Compare rows of one group with those that were there before."""
    table, (group, name) = TABLES[shape.name], shape.key
    known = await connection.execute(
        select(table.c[name], table.c.body).where(
            table.c[group] == rows[0][group], table.c[name].in_([row[name] for row in rows])
        )
    )
    bodies = {key: str(body) for key, body in known}
    if not all(is_same(bodies[row[name]], str(row["body"])) for row in rows):
        raise conflict(f"another {shape.name} has the same id")


async def _delete_session(connection: AsyncConnection, session_id: str) -> Deleted:
    sessions, messages, traces = TABLES[SESSION.name], TABLES[MESSAGE.name], TABLES[TRACE.name]
    own_chat = select(sessions.c.chat_id).where(sessions.c.session_id == session_id).scalar_subquery()
    # All sessions of the chat are locked, in one order: of two that are deleted at the same time, the second
    # sees that it is the last one.
    shared = select(sessions.c.session_id, sessions.c.chat_id).where(sessions.c.chat_id == own_chat)
    users = (await connection.execute(shared.order_by(sessions.c.position).with_for_update())).all()
    own_traces = select(traces.c.trace_id).where(traces.c.session_id == session_id)
    gone: dict[str, int] = {}
    for name, shape in (("spans", SPAN), ("events", EVENT)):
        table = TABLES[shape.name]
        gone[name] = await _count(connection, delete(table).where(table.c.trace_id.in_(own_traces)))
    gone["traces"] = await _count(connection, delete(traces).where(traces.c.session_id == session_id))
    gone["sessions"] = await _count(connection, delete(sessions).where(sessions.c.session_id == session_id))
    if [row.session_id for row in users] == [session_id]:
        gone["messages"] = await _count(
            connection, delete(messages).where(messages.c.chat_id == users[0].chat_id)
        )
    return Deleted(**gone)


async def _count(connection: AsyncConnection, statement: Delete) -> int:
    return (await connection.execute(statement)).rowcount
