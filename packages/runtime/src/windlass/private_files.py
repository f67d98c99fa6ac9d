"""Private files and folders: only their owner can use them, whatever the umask."""

import logging
import os
import shutil
import subprocess
from contextlib import suppress
from errno import EINVAL
from pathlib import Path
from stat import S_IFREG, S_IMODE, S_ISDIR, S_ISREG
from typing import Final

_LOG: Final = logging.getLogger("windlass.store")
FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
_OTHERS: Final = 0o077
"""The permissions of the group and of everybody."""


def open_private(path: str | Path, flags: int) -> int:
    """Return a file descriptor; others than the owner cannot use the file, whatever the umask.

    Raises:
        OSError: the file cannot be opened, or is a device or a pipe, which keeps its rights.
    """
    handle = os.open(path, flags, FILE_MODE)
    status = os.fstat(handle).st_mode
    if not S_ISREG(status):
        os.close(handle)
        raise OSError(EINVAL, "it is not a regular file", str(path))
    mode = S_IMODE(status)
    if mode & _OTHERS or mode & FILE_MODE != FILE_MODE:
        # The umask can take rights away from a new file; an existing file can have too many.
        with suppress(OSError):
            os.fchmod(handle, mode & ~_OTHERS | FILE_MODE)
            if mode & _OTHERS:
                _tell(path, mode, mode & ~_OTHERS | FILE_MODE)
    return handle


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner can use; OSError if that failed."""
    with os.fdopen(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
        file.write(data)


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that is in it, as far as that is possible; no link is followed.

    Commands of models fill such folders: they may be nested deeper than Python can follow, or be closed even
    to their owner.
    """
    with suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        for program in (("chmod", "-R", "u+rwX"), ("rm", "-rf")):
            with suppress(OSError):
                subprocess.run([*program, "--", folder], check=False, capture_output=True)


def make_database(path: Path) -> None:
    """Make an empty database file that only its owner can use; an existing file is left as it is."""
    # The target of a link, if it is one.
    real = os.path.realpath(path)
    # SQLite reports what cannot be made.
    with suppress(OSError):
        try:
            os.mknod(real, S_IFREG | FILE_MODE)
        except PermissionError:
            # Some systems let only the administrator make nodes.
            os.close(os.open(real, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE_MODE))
        os.chmod(real, FILE_MODE)


def tighten_database(path: Path) -> None:
    """Take the rights of other users on a database away, which the caller knows to be one of Windlass.

    SQLite gives its log and its index the permissions of the database. The files are not opened: closing one
    would release the locks that SQLite holds in this process.
    """
    real = os.path.realpath(path)
    for end in ("", "-wal", "-shm"):
        tighten(f"{real}{end}")


def make_folder(folder: Path, *, parents: bool = False) -> None:
    """Make a folder that only its owner can use, whatever the umask; an existing one is left as it is.

    Raises:
        OSError: it cannot be made.
    """
    try:
        folder.mkdir(FOLDER_MODE)
    except FileExistsError:
        if not folder.is_dir():
            raise
    except FileNotFoundError:
        if not parents:
            raise
        make_folder(folder.parent, parents=True)
        make_folder(folder)
    else:
        # Another process may have removed the empty folder again.
        with suppress(FileNotFoundError):
            folder.chmod(FOLDER_MODE)


def tighten(path: str | Path) -> None:
    """Take the rights of the group and of everybody away, and log it; a missing file is left alone.

    Only for paths that Windlass names; a folder that the user chose keeps its permissions.
    """
    try:
        status = os.stat(path)
    except OSError:
        return
    mode = S_IMODE(status.st_mode)
    if not mode & _OTHERS:
        return
    what = "folder" if S_ISDIR(status.st_mode) else "file"
    try:
        os.chmod(path, mode & ~_OTHERS)
    except OSError as error:
        _LOG.warning("other users can use the %s %s (mode %o): %s", what, path, mode, error.strerror)
        return
    _tell(path, mode, mode & ~_OTHERS)


def _tell(path: str | Path, before: int, after: int) -> None:
    _LOG.warning("other users could use %s: its mode was %o and is %o now", path, before, after)


_BY_KERNEL: Final = os.access in os.supports_effective_ids
"""Whether `os.access` can check effective ids."""


def may_make_files(folder: Path) -> bool:
    """Return whether this process may create files in a folder."""
    return os.access(folder, os.W_OK | os.X_OK, effective_ids=_BY_KERNEL)


def may_change(path: Path) -> bool:
    """Return whether this process may read and write a file."""
    return os.access(path, os.R_OK | os.W_OK, effective_ids=_BY_KERNEL)
