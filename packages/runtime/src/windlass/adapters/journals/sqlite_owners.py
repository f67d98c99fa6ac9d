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
        if self._is_in_place(owner_id):
            return
        try:
            for _ in range(LOCK_TRIES_MAX):
                handle = self._try(owner_id)
                if handle is not None:
                    self._let_go(owner_id)
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

    def _is_in_place(self, owner_id: str) -> bool:
        """Whether a lock is held here, in the file that others look at."""
        handle = self._held.get(owner_id)
        try:
            return handle is not None and os.path.samestat(os.fstat(handle), self._path(owner_id).stat())
        except FileNotFoundError:
            return False

    def drop(self, owner_id: str) -> None:
        """Let go of the lock of an owner; nothing if it is not held here."""
        if owner_id in self._held:
            self.forget(owner_id)
            self._let_go(owner_id)

    def _let_go(self, owner_id: str) -> None:
        handle = self._held.pop(owner_id, None)
        if handle is not None:
            os.close(handle)

    def forget(self, owner_id: str) -> None:
        """Remove the file of an owner that is no more."""
        self._path(owner_id).unlink(missing_ok=True)

    def is_free(self, owner_id: str) -> bool:
        """Tell whether the owner has died: the kernel has unlocked its file.

        A file that is missing says nothing. Somebody may have tidied it away, and its owner lives.
        """
        if owner_id in self._held:
            return False
        try:
            handle = take_lock(self._path(owner_id), is_new=False)
        except FileNotFoundError:
            return False
        if handle is None:
            return False
        os.close(handle)
        return True

    def owners(self) -> tuple[str, ...]:
        """Return the owners whose locks are held here."""
        return tuple(self._held)

    def close(self) -> None:
        """Let go of every lock, and of the folder if nobody else uses it.

        The file of an owner that was not struck off stays, unlocked: it tells that the owner is no more.
        """
        for owner_id in self.owners():
            self._let_go(owner_id)
        try:
            self._folder.rmdir()
        except OSError:
            # Others still have their locks in it, or it was never made.
            return

    def _path(self, owner_id: str) -> Path:
        # Owners choose their ids; a digest is a safe file name for each of them.
        return self._folder / blake2b(owner_id.encode(), digest_size=16).hexdigest()
