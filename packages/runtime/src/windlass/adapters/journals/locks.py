"""Locks on files: the kernel lets go of them when their process ends."""

import fcntl
import os
from pathlib import Path


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
