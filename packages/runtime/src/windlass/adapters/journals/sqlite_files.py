"""Whether what is written still reaches the files that others would open."""

from collections.abc import Sequence
from os import stat, stat_result
from os.path import samestat
from pathlib import Path


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
