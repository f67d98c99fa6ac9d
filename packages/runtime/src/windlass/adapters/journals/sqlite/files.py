"""Whether what is written still reaches the files that others would open."""

import fcntl
import os
from collections.abc import Sequence
from os import stat, stat_result
from os.path import samestat
from pathlib import Path
from typing import Final


class OpenFiles:
    """The files of a database that is open: SQLite goes on writing into removed ones."""

    def __init__(self, path: Path) -> None:
        # A store that keeps its database elsewhere has no such files, and none can be missed.
        found = ((one, _stat(one)) for one in (path, path.with_name(f"{path.name}-wal")))
        self._known: Sequence[tuple[Path, stat_result]] = [
            (one, known) for one, known in found if known is not None
        ]

    @property
    def missing(self) -> Path | None:
        """The first file that was removed, or that another one has the place of."""
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
    """Return an open file with its lock; None if somebody else has it.

    Raises:
        FileNotFoundError: there is no such folder, or no such file and it must not be new.
    """
    handle = os.open(path, os.O_RDWR | (os.O_CREAT if is_new else 0), 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Somebody may have removed the file before the lock was taken: then it protects nothing.
        if os.path.samestat(os.fstat(handle), path.stat()):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(handle)
    return None


_BY_KERNEL: Final = os.access in os.supports_effective_ids
"""Whether one can ask for the rights that the kernel goes by."""


def may_make_files(folder: Path) -> bool:
    """Tell whether this process may make files in a folder."""
    return os.access(folder, os.W_OK | os.X_OK, effective_ids=_BY_KERNEL)


def may_change(path: Path) -> bool:
    """Tell whether this process may read and write a file."""
    return os.access(path, os.R_OK | os.W_OK, effective_ids=_BY_KERNEL)
