"""Every error of a driver becomes one of the six, without any of its text."""

import asyncio
import sqlite3
from pathlib import Path

import psycopg
import psycopg.errors
import pytest
import sqlalchemy.exc
from sqlalchemy.exc import DBAPIError

from windlass.errors import AgentError, Ambiguous, Conflict, Corrupt, Rejected, Unavailable
from windlass.storage.sqlalchemy import FOREIGN_ERRORS, ForeignError, SqlAlchemyStorage, translate
from windlass_protocol import ErrorKind

SECRET = "s3cret-of-a-row"


def wrapped(cause: Exception) -> DBAPIError:
    """A driver's error as SQLAlchemy raises it."""
    return DBAPIError(f"INSERT {SECRET}", {"body": SECRET}, cause)


def sqlite_error(code: int) -> DBAPIError:
    cause = sqlite3.OperationalError(SECRET)
    cause.sqlite_errorcode = code
    return wrapped(cause)


def is_clean(error: AgentError) -> bool:
    return SECRET not in error.message and error.__cause__ is None and error.__context__ is None


POSTGRES = {
    value.sqlstate: value
    for value in vars(psycopg.errors).values()
    if isinstance(value, type) and issubclass(value, psycopg.Error) and value.sqlstate is not None
}
SQLITE = {
    name: value
    for name, value in vars(sqlite3).items()
    if name.startswith("SQLITE_") and isinstance(value, int) and value > 0
}


def test_a_folder_that_is_missing_is_told_as_that(tmp_path: Path) -> None:
    async def story() -> None:
        with pytest.raises(Unavailable, match="check that its folder exists"):
            await SqlAlchemyStorage.open(f"sqlite:///{tmp_path}/gone/app.db")

    asyncio.run(story())


def test_there_are_many_foreign_errors_to_feed() -> None:
    assert len(POSTGRES) > 200
    assert len(SQLITE) > 80


@pytest.mark.parametrize(("sqlstate", "kind"), POSTGRES.items())
def test_every_error_of_postgresql_has_a_meaning(sqlstate: str, kind: type[psycopg.Error]) -> None:
    error = translate(wrapped(kind(SECRET)))
    expected = {
        "22": Rejected,
        "23": Conflict,
        "08": Unavailable,
        "40": Unavailable,
        "53": Unavailable,
        "55": Unavailable,
        "57": Unavailable,
        "28": Rejected,
        "42": Rejected,
        "3D": Rejected,
    }.get(sqlstate[:2])
    assert expected is None or type(error) is expected
    assert is_clean(error)


def test_every_error_of_sqlite_has_a_meaning() -> None:
    expected = {
        "SQLITE_BUSY": Unavailable,
        "SQLITE_BUSY_SNAPSHOT": Unavailable,
        "SQLITE_LOCKED": Unavailable,
        "SQLITE_FULL": Unavailable,
        "SQLITE_IOERR": Unavailable,
        "SQLITE_CANTOPEN": Unavailable,
        "SQLITE_CORRUPT": Corrupt,
        "SQLITE_NOTADB": Corrupt,
        "SQLITE_CONSTRAINT": Conflict,
        "SQLITE_CONSTRAINT_UNIQUE": Conflict,
        "SQLITE_TOOBIG": Rejected,
        "SQLITE_READONLY": Rejected,
        "SQLITE_ERROR": Rejected,
    }
    for name, code in SQLITE.items():
        error = translate(sqlite_error(code))
        assert is_clean(error)
        assert name not in expected or type(error) is expected[name], name


def test_damaged_pages_of_postgresql_are_corrupt() -> None:
    assert type(translate(wrapped(psycopg.errors.DataCorrupted(SECRET)))) is Corrupt
    assert type(translate(wrapped(psycopg.errors.IndexCorrupted(SECRET)))) is Corrupt


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (sqlalchemy.exc.IntegrityError, Conflict),
        (sqlalchemy.exc.DataError, Rejected),
        (sqlalchemy.exc.ProgrammingError, Rejected),
        (sqlalchemy.exc.OperationalError, Unavailable),
        (sqlalchemy.exc.InterfaceError, Unavailable),
        (sqlalchemy.exc.InternalError, Unavailable),
        (sqlalchemy.exc.NotSupportedError, Unavailable),
    ],
)
def test_an_error_without_a_code_is_understood_by_its_class(
    kind: type[DBAPIError], expected: type[AgentError]
) -> None:
    error = translate(kind("SELECT", {"body": SECRET}, Exception(SECRET)))
    assert type(error) is expected
    assert is_clean(error)


@pytest.mark.parametrize(
    "foreign",
    [
        sqlalchemy.exc.TimeoutError(SECRET),
        sqlalchemy.exc.InvalidRequestError(SECRET),
        ConnectionRefusedError(SECRET),
        TimeoutError(SECRET),
        sqlite3.Error(SECRET),
    ],
)
def test_a_full_pool_and_a_lost_network_are_unavailable(foreign: ForeignError) -> None:
    assert isinstance(foreign, FOREIGN_ERRORS)
    error = translate(foreign)
    assert type(error) is Unavailable
    assert error.kind is ErrorKind.JOURNAL_FAILURE
    assert is_clean(error)


def test_a_cancelled_call_is_no_error_of_the_database() -> None:
    assert not isinstance(asyncio.CancelledError(), FOREIGN_ERRORS)


def test_a_connection_lost_during_a_commit_is_ambiguous_unless_the_database_said_that_it_did_not() -> None:
    lost = [wrapped(psycopg.OperationalError(SECRET)), wrapped(psycopg.errors.AdminShutdown(SECRET))]
    lost += [sqlite_error(sqlite3.SQLITE_IOERR)]
    for foreign in lost:
        assert type(translate(foreign)) is Unavailable
        assert type(translate(foreign, is_committing=True)) is Ambiguous
        assert is_clean(translate(foreign, is_committing=True))
    assert type(translate(ConnectionResetError(SECRET), is_committing=True)) is Ambiguous
    undone = [wrapped(psycopg.errors.SerializationFailure(SECRET)), sqlite_error(sqlite3.SQLITE_BUSY)]
    for foreign in undone:
        assert type(translate(foreign, is_committing=True)) is Unavailable
    violated = wrapped(psycopg.errors.UniqueViolation(SECRET))
    assert type(translate(violated, is_committing=True)) is Conflict
