"""Locks on files: the kernel lets go of them when their process ends."""

import fcntl
import os
from pathlib import Path


def take_lock(path: Path) -> int | None:
    """Return an open file with its lock; None if somebody else has it."""
    handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Somebody may have removed the file before the lock was taken: then it protects nothing.
        if os.path.samestat(os.fstat(handle), path.stat()):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(handle)
    return None
