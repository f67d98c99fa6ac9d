"""Files of a store: syncs, lock files, and whether an open database file was replaced."""

import errno
import fcntl
import os
from contextlib import suppress
from os import stat
from pathlib import Path
from typing import Final

from windlass.private_files import open_private

_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)
_PIECE_BYTES: Final = 1_048_576
_NOT_SUPPORTED: Final = frozenset({errno.ENOTSUP, errno.ENOTTY, errno.EINVAL})


def sync_file(handle: int) -> None:
    """Write the content of a file to the disk; OSError if that failed."""
    if _FULL_SYNC is None:
        os.fdatasync(handle)
        return
    try:
        # On macOS, fsync leaves the data in the cache of the drive.
        fcntl.fcntl(handle, _FULL_SYNC)
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            raise
        os.fsync(handle)


def write_again(path: Path) -> None:
    """Write a file over itself and sync it; the caller sees to it that nothing else writes there.

    After a failed sync, the kernel takes what it could not write for written: another sync would do nothing.

    Raises:
        OSError: that failed. The file is as it was.
    """
    handle = os.open(path, os.O_RDWR)
    try:
        at = 0
        while piece := os.pread(handle, _PIECE_BYTES, at):
            at += os.pwrite(handle, piece, at)
        sync_file(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Write the names of new files in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class OpenFiles:
    """Detects removed or replaced database files: SQLite would keep writing into them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        log = path.with_name(f"{path.name}-wal")
        real = Path(f"{os.path.realpath(path)}-wal")
        self.log = real if real.exists() else None
        """The write-ahead log; None if there is no such file."""
        self._known: list[tuple[str, int, int]] = []
        for file in (path, log):
            # A connection without a file on disk has nothing to check.
            with suppress(FileNotFoundError):
                status = stat(file)
                self._known.append((str(file), status.st_dev, status.st_ino))

    @property
    def missing(self) -> str | None:
        """Return the name of the first file that was removed or replaced; None if there is none."""
        for path, device, inode in self._known:
            try:
                status = stat(path)
            except FileNotFoundError:
                return os.path.basename(path)
            if status.st_ino != inode or status.st_dev != device:
                return os.path.basename(path)
        return None


def take_lock(path: Path, *, is_new: bool = True) -> int | None:
    """Return a file descriptor with an exclusive lock; None if another process holds the lock.

    Raises:
        FileNotFoundError: the folder is missing; or the file is missing and `is_new` is False.
    """
    handle = open_private(path, os.O_RDWR | (os.O_CREAT if is_new else 0))
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The file may have been removed before the lock was taken; such a lock protects nothing.
        if os.path.samestat(os.fstat(handle), path.stat()):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(handle)
    return None
