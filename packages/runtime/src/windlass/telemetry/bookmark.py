"""How far the journal has been exported, kept in a file.

Whoever has the file locked exports; others that were given the same file stand by until it is free, which the
kernel sees to when a process ends.
"""

import os
from pathlib import Path

from windlass.adapters.journals.locks import take_lock


class Bookmark:
    """A position in a file; without a path it is kept in memory alone."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock: int | None = None

    def claim(self) -> bool:
        """Return whether this is who exports, from now on until `release`.

        Raises:
            OSError: there is no such folder, or it cannot be written.
        """
        if self._path is not None and self._lock is None:
            self._lock = take_lock(self._path.with_name(f"{self._path.name}.lock"))
        return self._path is None or self._lock is not None

    def load(self) -> int | None:
        """Return the position that was kept; None if there is none to be read."""
        if self._path is None:
            return None
        try:
            text = self._path.read_text(encoding="ascii")
        except (OSError, UnicodeError):
            return None
        return int(text) if text.strip().isdecimal() else None

    def save(self, position: int) -> None:
        """Keep a position, all of it or nothing.

        Raises:
            OSError: it could not be written.
        """
        if self._path is None:
            return
        fresh = self._path.with_name(f"{self._path.name}.new")
        fresh.write_text(f"{position}\n", encoding="ascii")
        fresh.replace(self._path)

    def release(self) -> None:
        """Let somebody else export."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
