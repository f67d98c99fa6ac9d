"""The versions of SQLite stores, told before anybody opens and migrates them."""

import os
import sqlite3
import stat
import tempfile
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from windlass.adapters.journals.faults import corrupt, misconfigured
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

    The copy is for the same eyes as the store. It has its name once it is whole and durable: who is killed
    before leaves a file that ends in `.part`.

    Raises:
        Unavailable: it cannot be written.
        Corrupt: the store is damaged.
    """
    path = store.path
    part: Path | None = None
    try:
        part = _new_part(path)
        version = _copied(path, part)
        _make_durable(part, mode=stat.S_IMODE(path.stat().st_mode))
        copy = _named(part, path, version)
        _sync_folder(path.parent)
    except (*FAILURES, OSError) as error:
        raise refused(error) if isinstance(error, OSError) else translate(error) from error
    finally:
        if part is not None:
            part.unlink(missing_ok=True)
    return copy


def _new_part(path: Path) -> Path:
    # Until it is done it is for its owner alone.
    handle, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    return Path(name)


def _copied(path: Path, part: Path) -> int:
    """Copy a store; return the version of the copy, which may be newer."""
    with closing(_connect(path)) as source, closing(sqlite3.connect(part, isolation_level=None)) as target:
        source.backup(target)
        [(found,)] = target.execute("PRAGMA quick_check(1)").fetchall()
        if found != "ok":
            raise corrupt(f"{path} is damaged: restore it from a backup")
        return stored_version(target, path, known=len(MIGRATIONS))


def _make_durable(part: Path, *, mode: int) -> None:
    with part.open("rb") as file:
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


def _named(part: Path, path: Path, version: int) -> Path:
    for number in count(1):
        again = "" if number == 1 else f"-{number}"
        copy = path.with_name(f"{path.name}.v{version}{again}.bak")
        with suppress(FileExistsError):
            # Unlike a rename it takes no name that somebody has.
            copy.hardlink_to(part)
            return copy
    raise AssertionError("numbers do not end")


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _connect(path: Path) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(address, uri=True, timeout=BUSY_TIMEOUT_MS / 1000, isolation_level=None)
