"""`SqlAlchemyStorage`: the storage port in SQLite (extra `sql`) or PostgreSQL (extra `postgres`).

Statements run in threads, over SQLAlchemy Core. There is one schema version; a database with another one is
refused.
"""

from asyncio import CancelledError, Semaphore, ensure_future, shield, to_thread, wait
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from sqlite3 import Error as SqliteError
from typing import Final, Self, TypeVar

from pydantic import BaseModel
from sqlalchemy import (
    URL,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Engine,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    create_engine,
    delete,
    event,
    func,
    insert,
    inspect,
    make_url,
    select,
    text,
    tuple_,
)
from sqlalchemy.dialects.postgresql import Insert as PostgresInsert
from sqlalchemy.dialects.sqlite import Insert as SqliteInsert
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    ProgrammingError,
    SQLAlchemyError,
)
from sqlalchemy.pool import ConnectionPoolEntry

from windlass.errors import AgentError, Ambiguous, Conflict, Corrupt, Rejected, Unavailable, install_hint
from windlass.limits import (
    STORAGE_BUSY_TIMEOUT_MS,
    STORAGE_CONNECT_TIMEOUT_S,
    STORAGE_CONNECTIONS_MAX,
    STORAGE_STATEMENT_TIMEOUT_MS,
)
from windlass.storage.documents import (
    AGENT,
    EVENT,
    MESSAGE,
    SESSION,
    SPAN,
    TRACE,
    DocumentKind,
    DocumentStorage,
    Row,
    Scan,
    Stored,
    conflicts,
    failure,
    no_trace,
    other_document,
)
from windlass_protocol import ErrorKind, RetryClass

T = TypeVar("T", bound=BaseModel)
R = TypeVar("R")
Work = Callable[[Connection], R]

SCHEMA_VERSION: Final = 1
METADATA: Final = MetaData()
_NUMBER: Final = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite numbers rows only in a column of type INTEGER."""
_IS_WRITE: Final = "windlass_is_write"
"""The execution option of transactions that write."""
_SCHEMA_LOCK: Final = 0x77696E646C617373
"""Advisory lock of PostgreSQL: one process at a time creates the tables."""
_DRIVERS: Final = {
    "sqlite": "sqlite+pysqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}


class SqlAlchemyStorage(DocumentStorage):
    """A `StorageAdapter` in a database; use `open`.

    A write returns once it is durable: SQLite runs with `synchronous = FULL`, PostgreSQL as the server is
    configured. A cancelled call waits for the end of its statement.
    """

    @classmethod
    async def open(cls, url: str, *, busy_timeout_ms: int = STORAGE_BUSY_TIMEOUT_MS) -> Self:
        """Open a database: `sqlite:///app.db` or `postgresql://user@host/name`.

        The tables are created if there are none.
        `busy_timeout_ms` is how long a write waits for another process that writes to the same SQLite file.

        Raises:
            Rejected: the address or the driver cannot be used, or the tables are of another schema version.
            Unavailable: the database cannot be reached.
            Corrupt: the file is not a SQLite database.
        """
        tables = _SqlTables(_engine(url, busy_timeout_ms))
        try:
            await tables.prepare()
        except BaseException:
            await tables.aclose()
            raise
        return cls(tables)


# tables


def _table(kind: DocumentKind[T], *lists: str) -> Table:
    """Return the table of a kind; `lists` are the columns that its lists filter by, each an index."""
    # `position` is never reused, so that a cursor cannot come to stand before a new row.
    columns: list[Column[int] | Column[str] | Column[bool]] = [Column("position", _NUMBER, primary_key=True)]
    for name in dict.fromkeys((*kind.key, *kind.others, *kind.order[:-1])):
        if name.startswith("is_"):
            columns.append(Column(name, Boolean, nullable=False))
        elif name.endswith(("_us", "_rank")):
            columns.append(Column(name, BigInteger, nullable=False))
        elif kind.is_traced and name == "trace_id":
            trace = ForeignKey("windlass_trace.trace_id", ondelete="CASCADE")
            columns.append(Column(name, Text, trace, nullable=False))
        else:
            columns.append(Column(name, Text, nullable=False))
    prefix = f"windlass_{kind.name}"
    return Table(
        prefix,
        METADATA,
        *columns,
        Column("body", Text, nullable=False),
        UniqueConstraint(*kind.key, name=f"{prefix}_key"),
        *(Index(f"{prefix}_{name or 'all'}", *filter(None, (name,)), *kind.order) for name in lists),
        sqlite_autoincrement=True,
    )


_VERSION: Final = Table("windlass_storage", METADATA, Column("version", Integer, nullable=False))
_TABLES: Final[dict[str, Table]] = {
    SESSION.name: _table(SESSION, "", "user_id", "chat_id"),
    AGENT.name: _table(AGENT, ""),
    MESSAGE.name: _table(MESSAGE, "chat_id"),
    TRACE.name: _table(TRACE, "session_id"),
    SPAN.name: _table(SPAN, "trace_id"),
    EVENT.name: _table(EVENT, "trace_id"),
}


def _has_schema(connection: Connection) -> bool:
    """Return whether the tables are there; refuse tables of another schema version."""
    names = {*inspect(connection).get_table_names()}
    if _VERSION.name in names:
        version = connection.execute(select(_VERSION.c.version)).scalar()
        if version == SCHEMA_VERSION:
            return True
        problem = f"schema version {version}"
    elif names & METADATA.tables.keys():
        problem = f"the tables {', '.join(sorted(names & METADATA.tables.keys()))} without a schema version"
    else:
        return False
    raise _misconfiguration(
        f"unknown schema of the storage: found {problem}, expected version {SCHEMA_VERSION}; "
        "open it with the release that made it, or use another database"
    )


def _create_schema(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(select(func.pg_advisory_xact_lock(_SCHEMA_LOCK)))
    if not _has_schema(connection):
        METADATA.create_all(connection)
        connection.execute(insert(_VERSION).values(version=SCHEMA_VERSION))


class _SqlTables:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._is_sqlite = engine.dialect.name == "sqlite"
        self._insert = SqliteInsert if self._is_sqlite else PostgresInsert
        self._connections = Semaphore(STORAGE_CONNECTIONS_MAX)
        # SQLite has one writer at a time and does not queue the others.
        self._writers = Semaphore(1 if self._is_sqlite else STORAGE_CONNECTIONS_MAX)

    async def prepare(self) -> None:
        """Create the tables if there are none."""

        def has_schema(connection: Connection) -> bool:
            if self._is_sqlite:
                # With a write-ahead log, readers and the writer do not wait for each other.
                connection.exec_driver_sql("PRAGMA journal_mode = WAL")
            return _has_schema(connection)

        if not await self._do(has_schema):
            await self._do(_create_schema, is_write=True)

    async def write(self, kind: DocumentKind[T], rows: Sequence[Row]) -> None:
        def work(connection: Connection) -> None:
            if kind.is_traced:
                _lock_trace(connection, str(rows[0]["trace_id"]))
            done = connection.execute(self._insertion(kind), [dict(row) for row in rows])
            if not kind.is_replaced and done.rowcount != len(rows):
                _check_equal(connection, kind, rows)

        await self._do(work, is_write=True)

    async def scan(self, scan: Scan[T]) -> Sequence[Stored]:
        table = _TABLES[scan.kind.name]
        order = [table.c[name] for name in scan.kind.order]
        query = select(table.c.body, *order).limit(scan.limit)
        query = query.where(*(table.c[name] == value for name, value in scan.where.items()))
        if scan.after is not None:
            position = tuple_(*order)
            query = query.where(position < scan.after if scan.is_backward else position > scan.after)
        query = query.order_by(*(column.desc() if scan.is_backward else column for column in order))

        def work(connection: Connection) -> list[Stored]:
            return [Stored(tuple(row[1:]), row[0]) for row in connection.execute(query)]

        return await self._do(work)

    async def delete_session(self, session_id: str) -> bool:
        return await self._do(lambda connection: _delete_session(connection, session_id), is_write=True)

    async def aclose(self) -> None:
        await to_thread(self._engine.dispose)

    def _insertion(self, kind: DocumentKind[T]) -> SqliteInsert | PostgresInsert:
        table = _TABLES[kind.name]
        insertion = self._insert(table).inline()
        if not kind.is_replaced:
            return insertion.on_conflict_do_nothing(index_elements=kind.key)
        unchanged = {"position", *kind.key}
        changed = {
            column.name: insertion.excluded[column.name] for column in table.c if column.name not in unchanged
        }
        return insertion.on_conflict_do_update(index_elements=kind.key, set_=changed)

    async def _do(self, work: Work[R], *, is_write: bool = False) -> R:
        """Run work in one transaction, in a thread."""
        is_committing = False

        def transaction() -> R:
            nonlocal is_committing
            with self._engine.connect().execution_options(**{_IS_WRITE: is_write}) as connection:
                result = work(connection)
                is_committing = is_write
                if is_write:
                    connection.commit()
                return result

        async with AsyncExitStack() as turn:
            if is_write:
                await turn.enter_async_context(self._writers)
            await turn.enter_async_context(self._connections)
            try:
                return await _await_end(to_thread(transaction))
            except FOREIGN_ERRORS as error:
                problem = translate(error, is_committing=is_committing)
        # Raised outside of the handler: the driver's error holds values of the document.
        raise problem


async def _await_end(call: Coroutine[object, object, R]) -> R:
    """Await a call that runs in a thread.

    A cancelled caller waits for its end, so that nothing stays locked.
    """
    task = ensure_future(call)
    try:
        return await shield(task)
    except CancelledError:
        while not task.done():
            with suppress(CancelledError):
                await wait([task])
        with suppress(CancelledError):
            task.exception()  # retrieved, so that asyncio does not log it
        raise


def _lock_trace(connection: Connection, trace_id: str) -> None:
    """Keep others from appending to a trace.

    Positions are given when rows are written, not when they are committed.
    """
    table = _TABLES[TRACE.name]
    query = select(table.c.position).where(table.c.trace_id == trace_id).with_for_update()
    if connection.execute(query).first() is None:
        raise no_trace()


def _check_equal(connection: Connection, kind: DocumentKind[T], rows: Sequence[Row]) -> None:
    """Compare rows of one group with those that were stored before."""
    table, (group, name) = _TABLES[kind.name], kind.key
    query = select(table.c[name], table.c.body).where(
        table.c[group] == rows[0][group], table.c[name].in_([row[name] for row in rows])
    )
    stored = {key: str(body) for key, body in connection.execute(query)}
    if any(conflicts(kind, stored[row[name]], row) for row in rows):
        raise other_document(kind)


def _delete_session(connection: Connection, session_id: str) -> bool:
    sessions, messages, traces = _TABLES[SESSION.name], _TABLES[MESSAGE.name], _TABLES[TRACE.name]
    chat = select(sessions.c.chat_id).where(sessions.c.session_id == session_id).scalar_subquery()
    # All sessions of the chat are locked in one order: of two deleted at once, the second sees that it is the
    # last one.
    query = select(sessions.c.session_id, sessions.c.chat_id).where(sessions.c.chat_id == chat)
    users = connection.execute(query.order_by(sessions.c.position).with_for_update()).all()
    # Spans and events go with their trace, by the foreign key.
    connection.execute(delete(traces).where(traces.c.session_id == session_id))
    deleted = connection.execute(delete(sessions).where(sessions.c.session_id == session_id)).rowcount
    if [row.session_id for row in users] == [session_id]:
        connection.execute(delete(messages).where(messages.c.chat_id == users[0].chat_id))
    return deleted > 0


# connections


def _engine(address: str, busy_timeout_ms: int) -> Engine:
    url = _url(address)
    is_sqlite = url.drivername.startswith("sqlite")
    arguments = (
        {"timeout": busy_timeout_ms / 1000} if is_sqlite else {"connect_timeout": STORAGE_CONNECT_TIMEOUT_S}
    )
    try:
        engine = create_engine(
            url,
            connect_args=arguments,
            hide_parameters=True,
            pool_size=STORAGE_CONNECTIONS_MAX,
            max_overflow=0,
            pool_pre_ping=not is_sqlite,
        )
    except ModuleNotFoundError as error:
        missing = error.name
    else:
        event.listen(engine, "connect", _set_up_sqlite if is_sqlite else _set_up_postgres)
        event.listen(engine, "begin", _begin)
        return engine
    raise _misconfiguration(f"database driver missing: {missing}; {install_hint('postgres')}")


def _url(address: str) -> URL:
    try:
        url = make_url(address)
    except ArgumentError:
        url = None
    if url is None or url.drivername not in _DRIVERS:
        # The address is not quoted: it may hold a password.
        raise _misconfiguration("unknown database address: expected sqlite:///… or postgresql://…")
    is_memory = url.database in {None, "", ":memory:"} or url.query.get("mode") == "memory"
    if url.drivername == "sqlite" and is_memory:
        raise _misconfiguration("SQLite in memory: expected a file; use InMemoryStorage to keep nothing")
    return url.set(drivername=_DRIVERS[url.drivername])


def _set_up_sqlite(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    # The driver would begin a transaction at the first write. A transaction that has read something cannot
    # wait for another writer, so `_begin` begins those that write.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def _set_up_postgres(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    cursor.execute(f"SET statement_timeout = {STORAGE_STATEMENT_TIMEOUT_MS}")
    cursor.close()
    connection.commit()


def _begin(connection: Connection) -> None:
    if connection.dialect.name == "sqlite" and connection.get_execution_options().get(_IS_WRITE):
        connection.exec_driver_sql("BEGIN IMMEDIATE")


# errors

ForeignError = SQLAlchemyError | SqliteError | OSError
FOREIGN_ERRORS: Final = (SQLAlchemyError, SqliteError, OSError)
"""Everything that a driver or its pool raises."""

_CONSTRAINT: Final = "the database refused a change that breaks a constraint"
_TOO_LARGE: Final = "the database cannot hold one of the values"
_NO_TABLES: Final = "the database does not have the expected tables"


def translate(error: ForeignError, *, is_committing: bool = False) -> AgentError:
    """Return the error to raise instead of a driver's, without its text: that may hold values of a row.

    `is_committing` says that the error came from the commit.
    """
    code = _code(error)
    match code:
        case int():
            problem = _sqlite_failure(code)
        case str():
            problem = _postgres_failure(code)
        case _:
            problem = _failure_of_class(error)
    is_rolled_back = code in {5, 6} or (isinstance(code, str) and code.startswith("40"))
    if is_committing and isinstance(problem, Unavailable) and not is_rolled_back:
        return failure(
            Ambiguous, "the connection to the database was lost during a commit", RetryClass.REPAIR_NEEDED
        )
    return problem


def _code(error: ForeignError) -> int | str | None:
    """Return the primary result code of SQLite, the SQLSTATE of PostgreSQL, or None."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    sqlite_code: object = getattr(cause, "sqlite_errorcode", None)
    sqlstate: object = getattr(cause, "sqlstate", None)
    if isinstance(sqlite_code, int):
        return sqlite_code & 0xFF
    return sqlstate if isinstance(sqlstate, str) else None


def _sqlite_failure(code: int) -> AgentError:
    match code:
        case 5 | 6:  # SQLITE_BUSY, SQLITE_LOCKED
            return _unavailable("the database is busy: another process writes to it")
        case 11 | 26:  # SQLITE_CORRUPT, SQLITE_NOTADB
            return _corrupt("the database file is damaged, or not a SQLite database")
        case 14:  # SQLITE_CANTOPEN: also if the process has too many open files
            return _unavailable("the database file cannot be opened: check that its folder exists")
        case 3 | 8 | 23:  # SQLITE_PERM, SQLITE_READONLY, SQLITE_AUTH
            return _misconfiguration("the database file cannot be written: check its permissions")
        case 19:  # SQLITE_CONSTRAINT
            return failure(Conflict, _CONSTRAINT)
        case 18:  # SQLITE_TOOBIG
            return failure(Rejected, _TOO_LARGE)
        case 1:  # SQLITE_ERROR: the statement does not fit the schema
            return _misconfiguration(_NO_TABLES)
        case _:
            return _unavailable(f"the database file cannot be used: SQLite error {code}")


def _postgres_failure(sqlstate: str) -> AgentError:
    # https://www.postgresql.org/docs/current/errcodes-appendix.html
    match sqlstate[:2]:
        case "22":
            return failure(Rejected, _TOO_LARGE)
        case "23":
            return failure(Conflict, _CONSTRAINT)
        case "0A" | "25" | "28" | "3D" | "3F" | "42":
            return _misconfiguration(f"the database refused the statement: PostgreSQL error {sqlstate}")
        case _ if sqlstate in {"XX001", "XX002"}:
            return _corrupt("the database is damaged")
        case _:
            return _unavailable(f"the database is not available: PostgreSQL error {sqlstate}")


def _failure_of_class(error: ForeignError) -> AgentError:
    match error:
        case IntegrityError():
            return failure(Conflict, _CONSTRAINT)
        case DataError():
            return failure(Rejected, _TOO_LARGE)
        case ProgrammingError():
            return _misconfiguration(_NO_TABLES)
        case _:
            return _unavailable("the database cannot be reached")


def _unavailable(message: str) -> Unavailable:
    return failure(Unavailable, message, RetryClass.RETRYABLE)


def _corrupt(message: str) -> Corrupt:
    return failure(Corrupt, message, RetryClass.REPAIR_NEEDED)


def _misconfiguration(message: str) -> Rejected:
    kind, retry = ErrorKind.HOST_CONFIGURATION_NEEDED, RetryClass.HOST_CONFIGURATION_NEEDED
    return Rejected(message, kind=kind, retry=retry)
