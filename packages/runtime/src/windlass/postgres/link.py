"""A link to PostgreSQL: one connection in pipeline mode, which is made anew after it broke.

Every statement runs in an explicit transaction, and settings such as the schema and the timeout are set for
that transaction alone. Statements are not prepared under names. So a link works behind PgBouncer in
transaction mode.

In pipeline mode a statement is sent at once and its answer is awaited when it is needed: the writes of a
group cost one round trip.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import lru_cache
from typing import Any, Final, cast

import psycopg
from psycopg import errors as failures
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.string import TextBinaryLoader

from windlass.adapters.journals.rules import corrupt, misconfiguration, rejection, unavailable
from windlass.errors import AgentError
from windlass.sql.statements import Cursor, Value
from windlass_protocol.frozen import frozen

_LOG: Final = logging.getLogger("windlass.store")

APPLICATION: Final = "windlass"
DEFAULTS: Final = {
    "application_name": APPLICATION,
    "connect_timeout": 10,
    # A machine that lost power or its network is noticed within 25 s, and not after two hours.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
"""Parameters of a connection that an address may set otherwise."""
STATEMENT_TIMEOUT_MS: Final = 30_000
"""How long one statement may take, waiting for locks included."""
STANDSTILL_MS: Final = 5_000
"""A writer that waited so long for a lock ends transactions that have stood still for so long."""
WRITER_NAME: Final = "windlass writer"
"""The name of a connection during a transaction of a writer."""
REASON_CHARS_MAX: Final = 300
"""Characters of the reason why a connection was refused, in an error message."""
STATEMENTS_MAX: Final = 1_024
"""Statements that are kept in translation."""

FAILURES: Final = (psycopg.Error, ValueError, TypeError, OverflowError)
"""Exceptions of a statement: those of psycopg, and those of Python's value conversion."""
Failure = psycopg.Error | ValueError | TypeError | OverflowError

# A server that waits for the next statement of a pipeline calls the connection active, not idle: it takes no
# idle_in_transaction_session_timeout. The state changes with each statement. The list is made before the
# first is ended: the order of conditions is PostgreSQL's own.
TRANSACTION_TIMEOUT_MS: Final = 60_000
"""How long a transaction of a writer may take, if the server has such a limit: PostgreSQL 17 and later."""
_TRANSACTION_TIMEOUT_VERSION: Final = 170_000
_TRANSACTION_TIMEOUT: Final = "25P04"
_END_STANDSTILLS: Final = """WITH standing AS MATERIALIZED (SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND usename = session_user AND application_name = ? AND state <> 'idle'
    AND wait_event = 'ClientRead' AND state_change < clock_timestamp() - ? * interval '1 millisecond')
    SELECT pg_terminate_backend(pid) FROM standing"""

_PARAMETER: Final = re.compile(r"\?(\d*)")
# PostgreSQL cannot store the character U+0000 in a text. It is written as two others.
_ESCAPE: Final = "\uf8ff"
_ESCAPE_BYTES: Final = _ESCAPE.encode()
_NUL: Final = _ESCAPE + "0"
_ESCAPED: Final = _ESCAPE + "1"


class _Text(TextBinaryLoader):
    """Reads texts in which U+0000 was escaped."""

    def load(self, data: Any) -> str | bytes:
        raw = bytes(data)
        text = raw.decode()
        return text.replace(_NUL, "\0").replace(_ESCAPED, _ESCAPE) if _ESCAPE_BYTES in raw else text


@lru_cache(STATEMENTS_MAX)
def _translate_parameters(sql: str) -> str:
    """Return a statement with the parameters of psycopg."""
    return _PARAMETER.sub(lambda match: f"%({match[1]})s" if match[1] else "%s", sql)


def _value(value: Value) -> Value:
    if isinstance(value, str) and ("\0" in value or _ESCAPE in value):
        return value.replace(_ESCAPE, _ESCAPED).replace("\0", _NUL)
    return value


@frozen
class PostgresAddress:
    """Where a store is: the parameters of the connection, and the schema with its tables."""

    conninfo: str
    schema: str
    name: str
    """The address without its password, for messages."""
    role: str = ""
    """The role that transactions run as; empty for the user of the address."""


# PostgreSQL keeps names with pg_ to itself.
_SCHEMA: Final = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")


def parse_address(text: str, *, schema: str) -> PostgresAddress:
    """Return the parts of an address; one that names a schema, as `?schema=…`, has precedence.

    With `?roles=on`, transactions run as a role that has the name of the schema, and rights on it alone.

    Raises:
        Rejected: it is no address of PostgreSQL, or the schema is no plain name.
    """
    text, _, query = text.partition("?")
    authority, _, path = text.partition("://")[2].partition("/")
    if "@" in path or authority.count("@") > 1:
        # A part of the password would be taken for the host or the database, and shown in messages.
        raise misconfiguration(
            "the address is not valid: percent-encode the user and the password, @ as %40 and / as %2F"
        )
    options = query.split("&") if query else []
    for option in options:
        if option.startswith("schema="):
            schema = option.removeprefix("schema=")
    roles = [option.removeprefix("roles=") for option in options if option.startswith("roles=")]
    if rest := "&".join(option for option in options if not option.startswith(("schema=", "roles="))):
        text = f"{text}?{rest}"
    if not {*roles} <= {"on", "off"}:
        raise misconfiguration("roles of an address is on or off")
    if not _SCHEMA.fullmatch(schema):
        raise misconfiguration(
            "a schema has 1 to 63 small letters, digits and underscores, and does not begin with pg_; "
            f"found {len(schema)} characters"
        )
    try:
        parameters = conninfo_to_dict(text)
    except psycopg.Error:
        parameters = None
    if parameters is None:
        # Raised outside of the handler, so that the error does not carry a password.
        raise misconfiguration("the address is not valid: write postgresql://user@host/database")
    parameters = {**DEFAULTS, **parameters}
    host = parameters.get("host") or parameters.get("hostaddr") or "localhost"
    name = f"postgresql://{host}/{parameters.get('dbname') or ''}"
    if f"schema={schema}" in options:
        name = f"{name}?schema={schema}"
    return PostgresAddress(make_conninfo("", **parameters), schema, name, schema if "on" in roles else "")


class PostgresLink:
    """A connection, made when it is needed; for one thread at a time."""

    def __init__(self, address: PostgresAddress, *, is_writer: bool = False) -> None:
        """Connect to an address; the transactions of a writer hold locks for which others wait."""
        self._address = address
        self._is_writer = is_writer
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None
        self._pipeline: psycopg.Pipeline | None = None
        self._end = ExitStack()
        """Leaves the pipeline mode."""
        self._settings: Mapping[str, str] = {}
        """The settings of each transaction."""

    @property
    def is_broken(self) -> bool:
        """Whether the connection was lost, or not made yet."""
        return self._connection is None or self._connection.closed

    def connect(self) -> None:
        """Connect, unless the connection is open; psycopg.Error if that fails."""
        if not self.is_broken:
            return
        self.close()
        connection = psycopg.Connection[tuple[object, ...]].connect(
            self._address.conninfo, autocommit=True, prepare_threshold=None
        )
        connection.adapters.register_loader("text", _Text)
        self._settings = self._settings_of(connection.info.server_version)
        self._connection = connection
        self._pipeline = self._end.enter_context(connection.pipeline())

    def _settings_of(self, server_version: int) -> Mapping[str, str]:
        settings = {
            "search_path": self._address.schema,
            "statement_timeout": str(STATEMENT_TIMEOUT_MS),
        }
        if self._is_writer:
            settings |= {"application_name": WRITER_NAME, "lock_timeout": str(STANDSTILL_MS)}
            if server_version >= _TRANSACTION_TIMEOUT_VERSION:
                settings["transaction_timeout"] = str(TRANSACTION_TIMEOUT_MS)
        return settings | ({"role": self._address.role} if self._address.role else {})

    def begin(self, mode: str = "", *, locks: Sequence[int] = ()) -> Cursor:
        """Begin a transaction; return the cursor of its number, which a reader does not have.

        The transaction gets its number once it has its advisory locks.
        """
        self.connect()
        self.execute(f"BEGIN {mode}")
        for lock in locks:
            self.execute("SELECT pg_advisory_xact_lock(?)", (lock,))
        number = "NULL" if "READ ONLY" in mode else "CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT)"
        settings = ", ".join(f"set_config('{name}', ?, true)" for name in self._settings)
        return self.execute(f"SELECT {number}, {settings}", tuple(self._settings.values()))

    def execute(self, sql: str, parameters: Sequence[Value] = (), /) -> Cursor:
        """Send a statement; its errors may be raised by a later one."""
        connection = self._connection
        if connection is None:
            raise psycopg.OperationalError("not connected")
        values: Sequence[Value] | Mapping[str, Value] = [_value(value) for value in parameters]
        if "?1" in sql:
            values = {str(number): value for number, value in enumerate(values, 1)}
        # Our statements are texts of this package, and have no values in them.
        text = cast("Any", _translate_parameters(sql))
        # As text, bytes would be twice as long and decoded in Python.
        return cast("Cursor", connection.execute(text, values, binary=True))

    def end_standstills(self) -> None:
        """Undo the transaction, and end those of writers that send nothing.

        A process that is frozen in a transaction keeps its locks, and its machine keeps its connection. What
        it has not committed is undone; it repeats that with another connection if it goes on.
        """
        self.rollback()
        with suppress(*FAILURES):
            count = len(self.execute(_END_STANDSTILLS, (WRITER_NAME, STANDSTILL_MS)).fetchall())
            self.sync()
            if count:
                _LOG.warning(
                    "%s: %d transactions of processes that stood still were ended", self._address.name, count
                )

    def check(self) -> None:
        """Wait for the answers of all statements; psycopg.Error if one failed.

        Unlike `sync`, this also waits until all of a large statement was sent.
        """
        self.execute("SELECT 1").fetchall()

    def commit(self) -> None:
        """Commit; the answer to the last statement was read. psycopg.Error if that failed."""
        self.execute("COMMIT")
        self.sync()

    def sync(self) -> None:
        """End the present pipeline, which an error would have ended as well."""
        if self._pipeline is not None:
            self._pipeline.sync()

    def rollback(self) -> None:
        """Undo the transaction; a connection on which that fails is closed."""
        try:
            with suppress(psycopg.Error):
                # The errors of earlier statements were raised already.
                self.sync()
            self.execute("ROLLBACK")
            self.sync()
        except psycopg.Error:
            self.close()

    def close(self) -> None:
        """Close the connection; the next use makes another."""
        connection, self._connection, self._pipeline = self._connection, None, None
        if connection is not None:
            # First, so that nothing waits for a server that does not answer.
            connection.close()
            with suppress(psycopg.Error):
                self._end.close()


_DAMAGED: Final = (failures.DataCorrupted, failures.IndexCorrupted, failures.IntegrityError)
_REFUSED: Final = (psycopg.DataError, psycopg.ProgrammingError, ValueError, TypeError, OverflowError)
_HOST: Final = (
    failures.InsufficientPrivilege,
    failures.InvalidAuthorizationSpecification,
    failures.InvalidPassword,
    failures.InvalidCatalogName,
    failures.UndefinedTable,
    failures.UndefinedColumn,
)
_AGAIN: Final = (
    failures.SerializationFailure,
    failures.DeadlockDetected,
    # Two processes made the same row: the second finds it.
    failures.UniqueViolation,
    failures.LockNotAvailable,
)


def can_repeat(error: Failure) -> bool:
    """Return whether a transaction that failed so may succeed when it is repeated at once."""
    return isinstance(error, _AGAIN)


def is_locked_out(error: Failure | None) -> bool:
    """Return whether a transaction waited too long for a lock of another one."""
    return isinstance(error, failures.LockNotAvailable)


def is_lost(error: Failure | None) -> bool:
    """Return whether an error means that the connection or the server is gone."""
    if isinstance(error, failures.ReadOnlySqlTransaction):
        # A replica, or a server that became one: another connection may reach the one that took over.
        return True
    if error is not None and getattr(error, "sqlstate", None) == _TRANSACTION_TIMEOUT:
        # The server ends the connection with the transaction.
        return True
    if not isinstance(error, psycopg.OperationalError):
        return isinstance(error, psycopg.InterfaceError)
    if isinstance(error, failures.PipelineAborted):
        return False
    return error.sqlstate is None or (error.sqlstate[:2] in ("08", "57") and error.sqlstate != "57014")


def outage_of(error: Failure) -> str | None:
    """Return why the database cannot write now, with its code; None if it refused a request."""
    kind = getattr(error, "sqlstate", None) or type(error).__name__
    if isinstance(error, failures.DiskFull):
        return f"the disk of the database is full ({kind})"
    if isinstance(error, failures.ReadOnlySqlTransaction):
        return f"the database is a replica ({kind})"
    return f"the database cannot be reached ({kind})" if is_lost(error) else None


_REFUSALS: Final = (
    "authentication",
    "does not exist",
    "pg_hba.conf",
    "certificate",
    "does not support SSL",
    "connection is bad: invalid",
)
"""Parts of error texts of connections that fail until the address or the server is changed."""


def translate(error: Failure, name: str, *, is_opening: bool = False) -> AgentError:
    """Return our error for an error of psycopg; nothing was written.

    A refusal is Rejected while a store is opened. Later it is Unavailable: rights and certificates can be
    repaired, and runs then continue.
    """
    refusal = misconfiguration if is_opening else unavailable
    kind = getattr(error, "sqlstate", None) or type(error).__name__
    match error:
        case psycopg.errors.DiskFull():
            return unavailable(f"the disk of {name} is full, nothing was written: free some space")
        case psycopg.errors.TooManyConnections():
            return unavailable(f"{name} has no free connection ({kind}), nothing was written: try again")
        case psycopg.errors.QueryCanceled():
            return unavailable(
                f"a statement took longer than {STATEMENT_TIMEOUT_MS:,} ms, nothing was written: try again"
            )
        case psycopg.errors.ReadOnlySqlTransaction() | psycopg.errors.ObjectNotInPrerequisiteState():
            return unavailable(
                f"{name} is a replica ({kind}), nothing was written: add target_session_attrs=read-write"
            )
        case _ if isinstance(error, _AGAIN):
            return unavailable(f"{name} is busy ({kind}), nothing was written: try again")
        case _ if isinstance(error, _HOST):
            return refusal(
                f"{name} cannot be used ({kind}): check user, password, database and the rights of the user"
            )
        case _ if isinstance(error, _DAMAGED):
            return corrupt(f"the tables of {name} are damaged ({kind}): restore a backup")
        case _ if isinstance(error, _REFUSED):
            return rejection(f"the database cannot store a value ({kind})")
        case psycopg.OperationalError() if error.sqlstate is None:
            # The text of a refused or lost connection, which holds no values.
            text = " ".join(str(error).split())[:REASON_CHARS_MAX]
            if any(phrase in text for phrase in _REFUSALS):
                return refusal(f"{name} refuses the connection: {text}")
            return unavailable(f"{name} could not be reached, nothing was written: {text}")
        case _:
            return unavailable(f"{name} could not be reached ({kind}), nothing was written")
