"""What SQLite's errors mean to whoever called the store."""

import sqlite3
from pathlib import Path
from typing import Final

from windlass.adapters.journals.faults import ambiguous, corrupt, misconfigured, rejected, unavailable
from windlass.adapters.journals.permissions import may_change, may_make_files
from windlass.errors import AgentError, Rejected

Failure = sqlite3.Error | ValueError | TypeError | OverflowError
"""What a call of SQLite may raise: its own errors, and those of Python's layer about values."""
FAILURES: Final = (sqlite3.Error, ValueError, TypeError, OverflowError)

_PRIMARY: Final = 0xFF
_DAMAGED: Final = frozenset(
    # Our statements fit our tables: one that fails tells of tables that are not ours any more.
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_ERROR}
)
_REFUSED: Final = frozenset(
    {sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_RANGE, sqlite3.SQLITE_MISUSE}
)
_REFUSALS: Final = (
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    sqlite3.DataError,
    ValueError,
    TypeError,
    OverflowError,
)
_HOST: Final = frozenset({sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_READONLY})


def primary_code(error: Failure) -> int:
    """Return SQLite's code without its extension; 0 if Python's layer raised it."""
    code: object = getattr(error, "sqlite_errorcode", 0)
    return code & _PRIMARY if isinstance(code, int) else 0


def is_busy(error: Failure) -> bool:
    """Tell whether somebody else uses the database."""
    return primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def translate(error: Failure, *, is_commit: bool = False) -> AgentError:
    """Return our error for one of SQLite.

    Outside a commit nothing happened, inside one it may have. A full disk is the exception: SQLite writes the
    frame that commits last, so a commit that ran out of space left nothing behind.
    """
    code, name = primary_code(error), str(getattr(error, "sqlite_errorname", "") or type(error).__name__)
    if code == sqlite3.SQLITE_FULL:
        return unavailable("the disk is full, nothing was written: free some space and try again")
    if is_commit:
        return ambiguous(f"the commit failed ({name}): it may or may not have been written")
    if code == sqlite3.SQLITE_NOTADB:
        return misconfigured("the file is not a database")
    if code in _DAMAGED or _is_undecodable(error):
        return corrupt(f"the database is damaged ({name}): restore it from a backup")
    if code in _HOST:
        return misconfigured(f"the database may not be written ({name}): check its permissions")
    if is_busy(error):
        return unavailable(f"the database is busy ({name}), nothing was written: try again")
    if code in _REFUSED or (code == 0 and isinstance(error, _REFUSALS)):
        return rejected(f"the database has no place for such a value ({name})")
    return unavailable(f"the database could not be reached ({name}), nothing was written")


def is_of_one(error: Failure) -> bool:
    """Tell whether an error concerns its own request alone."""
    return primary_code(error) in _DAMAGED | _REFUSED or primary_code(error) == 0


def _is_undecodable(error: Failure) -> bool:
    # Text that is not UTF-8, also in a message of SQLite, is found by Python's layer, which gives it no code.
    is_told = primary_code(error) == 0 and "decode to UTF-8" in str(error)
    return is_told or isinstance(error, UnicodeDecodeError)


def forbidden(path: Path) -> Rejected | None:
    """Return why a database cannot be opened here; None if nothing forbids it."""
    folder = path.parent
    if not may_make_files(folder):
        return misconfigured(
            f"the folder {folder} may not be written to by this process, and {path.name} needs files beside "
            "it: change the permissions of the folder, or choose another"
        )
    if path.exists() and not may_change(path):
        return misconfigured(f"{path} may not be written to by this process: change its permissions")
    return None


def refused(error: OSError) -> AgentError:
    """Return our error for a file that could not be used; nothing was written."""
    where, why = error.filename or "a file", error.strerror or type(error).__name__
    if isinstance(error, PermissionError):
        return misconfigured(
            f"{where} may not be used by this process ({why}): give it the right to write there, which "
            "readers need as well"
        )
    return unavailable(f"{where} cannot be used now ({why}), nothing was written")
