"""Who is alive: an owner locks a file, and the kernel unlocks it at its death."""

import os
import time
from hashlib import blake2b
from pathlib import Path
from typing import Final

from windlass.adapters.journals.faults import conflict, unavailable
from windlass.adapters.journals.locks import take_lock

LOCK_TRIES_MAX: Final = 50
LOCK_PAUSE_S: Final = 0.01


class OwnerLocks:
    """The lock files beside a database."""

    def __init__(self, path: Path) -> None:
        self._folder = path.with_name(f"{path.name}-owners")
        self._held: dict[str, int] = {}

    def hold(self, owner_id: str) -> None:
        """Take the lock of an owner, and keep it until it is dropped or the process ends.

        Raises:
            Conflict: another process, or another store in this one, is that owner.
        """
        if owner_id in self._held:
            return
        try:
            for _ in range(LOCK_TRIES_MAX):
                handle = self._try(owner_id)
                if handle is not None:
                    self._held[owner_id] = handle
                    return
                # Whoever looks whether a former owner of that name lives holds the lock for a moment.
                time.sleep(LOCK_PAUSE_S)
        except OSError as error:
            raise unavailable(f"the lock of owner {owner_id} cannot be taken: {error.strerror}") from error
        raise conflict(f"owner {owner_id} is enlisted elsewhere: every owner needs an id of its own")

    def _try(self, owner_id: str) -> int | None:
        self._folder.mkdir(exist_ok=True)
        try:
            return take_lock(self._path(owner_id))
        except FileNotFoundError:
            # Whoever closed just now took the folder away.
            return None

    def drop(self, owner_id: str) -> None:
        """Let go of the lock of an owner; nothing if it is not held here."""
        handle = self._held.pop(owner_id, None)
        if handle is not None:
            self._path(owner_id).unlink(missing_ok=True)
            os.close(handle)

    def is_held(self, owner_id: str) -> bool:
        """Tell whether a process holds the lock; the file of a dead one is removed."""
        if owner_id in self._held:
            return True
        path = self._path(owner_id)
        if not path.exists():
            return False
        handle = take_lock(path)
        if handle is None:
            return True
        path.unlink(missing_ok=True)
        os.close(handle)
        return False

    def owners(self) -> tuple[str, ...]:
        """Return the owners whose locks are held here."""
        return tuple(self._held)

    def close(self) -> None:
        """Let go of every lock, and of the folder if nobody else uses it."""
        for owner_id in self.owners():
            self.drop(owner_id)
        try:
            self._folder.rmdir()
        except OSError:
            # Others still have their locks in it, or it was never made.
            return

    def _path(self, owner_id: str) -> Path:
        # Owners choose their ids; a digest is a safe file name for each of them.
        return self._folder / blake2b(owner_id.encode(), digest_size=16).hexdigest()
