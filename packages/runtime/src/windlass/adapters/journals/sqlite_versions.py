"""The versions of SQLite stores, told before anybody opens and migrates them."""

import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from windlass.adapters.journals.faults import misconfigured
from windlass.adapters.journals.sqlite_errors import FAILURES, forbidden, refused, translate
from windlass.adapters.journals.sqlite_schema import BUSY_TIMEOUT_MS, MIGRATIONS, stored_version


@dataclass(frozen=True, slots=True)
class StoreVersion:
    """A store, the version of its tables, and the one that this release makes of it."""

    path: Path
    found: int
    known: int

    @property
    def is_older(self) -> bool:
        """Whether opening it migrates it."""
        return self.found < self.known


def version_of(path: Path) -> StoreVersion:
    """Return the version of a store; nothing is changed.

    Raises:
        Rejected: it is no store, or of a newer release.
        Corrupt: it is damaged.
        Unavailable: it cannot be read now.
    """
    try:
        with closing(_connect(path)) as connection:
            found = stored_version(connection, path, known=len(MIGRATIONS))
    except FAILURES as error:
        failure = forbidden(path) or translate(error)
        raise type(failure)(f"{path}: {failure.message}", kind=failure.kind, retry=failure.retry) from error
    if found == 0:
        raise misconfigured(f"{path} is empty: it is no store")
    return StoreVersion(path, found, len(MIGRATIONS))


def back_up(store: StoreVersion) -> Path:
    """Copy a store beside itself, under a name that nobody has.

    It returns once the copy is durable.

    Raises:
        Unavailable: it cannot be written.
    """
    path, copy = store.path, _free_name(store)
    try:
        with closing(_connect(path)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        with copy.open("rb") as file:
            os.fsync(file.fileno())
    except (*FAILURES, OSError) as error:
        # Half a copy is worse than none.
        with suppress(OSError):
            copy.unlink()
        raise refused(error) if isinstance(error, OSError) else translate(error) from error
    return copy


def _free_name(store: StoreVersion) -> Path:
    for number in count(1):
        again = "" if number == 1 else f"-{number}"
        path = store.path.with_name(f"{store.path.name}.v{store.found}{again}.bak")
        with suppress(FileExistsError):
            # Whoever else looks for a name does not get this one.
            path.open("xb").close()
            return path
    raise AssertionError("numbers do not end")


def _connect(path: Path) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(address, uri=True, timeout=BUSY_TIMEOUT_MS / 1000, isolation_level=None)
