"""File checks: lock files, permissions, and whether an open database file was replaced."""

import fcntl
import os
from collections.abc import Sequence
from os import stat, stat_result
from os.path import samestat
from pathlib import Path
from typing import Final


class OpenFiles:
    """Detects removed or replaced database files: SQLite would keep writing into them."""

    def __init__(self, path: Path) -> None:
        # A connection without a file on disk has nothing to check.
        found = ((one, _stat(one)) for one in (path, path.with_name(f"{path.name}-wal")))
        self._known: Sequence[tuple[Path, stat_result]] = [
            (one, known) for one, known in found if known is not None
        ]

    @property
    def missing(self) -> Path | None:
        """Return the first file that was removed or replaced; None if there is none."""
        for path, known in self._known:
            now = _stat(path)
            if now is None or not samestat(known, now):
                return path
        return None


def _stat(path: Path) -> stat_result | None:
    try:
        return stat(path)
    except FileNotFoundError:
        return None


def take_lock(path: Path, *, is_new: bool = True) -> int | None:
    """Return a file descriptor with an exclusive lock; None if another process holds the lock.

    Raises:
        FileNotFoundError: the folder is missing; or the file is missing and `is_new` is False.
    """
    handle = os.open(path, os.O_RDWR | (os.O_CREAT if is_new else 0), 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The file may have been removed before the lock was taken; such a lock protects nothing.
        if os.path.samestat(os.fstat(handle), path.stat()):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(handle)
    return None


_BY_KERNEL: Final = os.access in os.supports_effective_ids
"""Whether `os.access` can check effective ids."""


def may_make_files(folder: Path) -> bool:
    """Return whether this process may create files in a folder."""
    return os.access(folder, os.W_OK | os.X_OK, effective_ids=_BY_KERNEL)


def may_change(path: Path) -> bool:
    """Return whether this process may read and write a file."""
    return os.access(path, os.R_OK | os.W_OK, effective_ids=_BY_KERNEL)
