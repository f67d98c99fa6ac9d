"""What the errors of databases mean to whoever uses a storage.

The text of a database error can hold values of the row, so none of it is passed on.
"""

from sqlite3 import Error as SqliteError
from typing import Final

from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    ProgrammingError,
    SQLAlchemyError,
)

from windlass.adapters.storage.refusals import (
    ambiguous,
    conflict,
    corrupt,
    misconfigured,
    rejected,
    unavailable,
)
from windlass.errors import AgentError

ForeignError = SQLAlchemyError | SqliteError | OSError
FOREIGN_ERRORS: Final = (SQLAlchemyError, SqliteError, OSError)
"""Everything that a driver raises of its own accord, busy pools included."""

_SQLITE_BUSY: Final = frozenset({5, 6})  # SQLITE_BUSY, SQLITE_LOCKED
_SQLITE_DAMAGED: Final = frozenset({11, 26})  # SQLITE_CORRUPT, SQLITE_NOTADB
_SQLITE_UNWRITABLE: Final = frozenset({3, 8, 23})  # SQLITE_PERM, SQLITE_READONLY, SQLITE_AUTH

# By the first two characters of an SQLSTATE, https://www.postgresql.org/docs/current/errcodes-appendix.html
_POSTGRES_CONSTRAINT: Final = "23"
_POSTGRES_DATA: Final = "22"
_POSTGRES_SETUP: Final = frozenset({"0A", "25", "28", "3D", "3F", "42"})
_POSTGRES_DAMAGED: Final = frozenset({"XX001", "XX002"})


def translate(error: ForeignError, *, is_committing: bool = False) -> AgentError:
    """Return the error to raise instead, without text and values of the foreign one.

    `is_committing` says that the work was done and the database was asked to keep it.
    """
    meaning = _meaning(error)
    if is_committing and meaning.code == "unavailable" and not _is_rolled_back(error):
        return ambiguous("the connection to the database was lost while it made a change durable")
    return meaning


def _meaning(error: ForeignError) -> AgentError:
    match _code(error):
        case int(sqlite_code):
            return _sqlite_meaning(sqlite_code)
        case str(sqlstate):
            return _postgres_meaning(sqlstate)
        case _:
            return _meaning_of_class(error)


def _meaning_of_class(error: ForeignError) -> AgentError:
    match error:
        case IntegrityError():
            return conflict("the database refused a change that breaks a constraint")
        case DataError():
            return rejected("the database cannot hold one of the values")
        case ProgrammingError():
            return misconfigured("the database has not the expected tables: open it with migrate=True")
        case OperationalError() | InterfaceError():
            return unavailable("the database cannot be reached")
        case _:
            return unavailable("the database did not answer as expected")


def _sqlite_meaning(code: int) -> AgentError:
    if code in _SQLITE_BUSY:
        return unavailable("the database is busy: another process writes to it")
    if code in _SQLITE_DAMAGED:
        return corrupt("the database file is damaged, or no SQLite database")
    if code in _SQLITE_UNWRITABLE:
        return misconfigured("the database file cannot be written: check its permissions")
    if code == 19:  # SQLITE_CONSTRAINT
        return conflict("the database refused a change that breaks a constraint")
    if code == 18:  # SQLITE_TOOBIG
        return rejected("the database cannot hold one of the values")
    if code == 1:  # SQLITE_ERROR: the statement does not fit the schema
        return misconfigured("the database has not the expected tables: open it with migrate=True")
    return unavailable(f"the database file cannot be used now: SQLite error {code}")


def _postgres_meaning(sqlstate: str) -> AgentError:
    if sqlstate.startswith(_POSTGRES_CONSTRAINT):
        return conflict("the database refused a change that breaks a constraint")
    if sqlstate.startswith(_POSTGRES_DATA):
        return rejected("the database cannot hold one of the values")
    if sqlstate[:2] in _POSTGRES_SETUP:
        return misconfigured(f"the database refuses to work for us: PostgreSQL error {sqlstate}")
    if sqlstate in _POSTGRES_DAMAGED:
        return corrupt("the database is damaged")
    return unavailable(f"the database cannot answer now: PostgreSQL error {sqlstate}")


def _is_rolled_back(error: ForeignError) -> bool:
    """Return whether the database itself said that it did not commit."""
    code = _code(error)
    return code in _SQLITE_BUSY or (isinstance(code, str) and code.startswith("40"))


def _code(error: ForeignError) -> int | str | None:
    """Return the primary code of SQLite, the SQLSTATE of PostgreSQL, or None."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    sqlite_code: object = getattr(cause, "sqlite_errorcode", None)
    sqlstate: object = getattr(cause, "sqlstate", None)
    if isinstance(sqlite_code, int):
        return sqlite_code & 0xFF
    return sqlstate if isinstance(sqlstate, str) else None
