"""The files of a project, and whether they have changed."""

import os
from pathlib import Path
from typing import Final

_LEFT_OUT: Final = frozenset({"__pycache__", "node_modules", "site-packages", "windlass-data"})
FILES_MAX: Final = 5_000
"""More are not looked at: a project of that size has its own tools."""


class Files:
    """What the files looked like last time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen = self._look()

    def have_changed(self) -> bool:
        """Whether a file came, went or was written since the last time."""
        now = self._look()
        is_new = now != self._seen
        self._seen = now
        return is_new

    def _look(self) -> dict[Path, tuple[int, int]]:
        found: dict[Path, tuple[int, int]] = {}
        for root, folders, names in os.walk(self._folder):
            folders[:] = [name for name in folders if name not in _LEFT_OUT and not name.startswith(".")]
            for name in names:
                if name.endswith(".py") or name == "windlass.toml":
                    path = Path(root, name)
                    try:
                        state = path.stat()
                    except OSError:
                        continue  # it went away this very moment
                    found[path] = (state.st_mtime_ns, state.st_size)
                    if len(found) >= FILES_MAX:
                        return found
        return found
