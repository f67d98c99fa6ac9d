"""Everything in a folder, in order, within limits; links are not followed."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final

from windlass.toolbox.folder import Place, open_folder
from windlass.toolbox.limits import WALK_ENTRIES_MAX, WALK_LEVELS_MAX
from windlass.tools import ToolFailed

IGNORED: Final = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})
"""Folders that a search enters only if it begins inside them."""


class Kind(StrEnum):
    """What is under a name."""

    FILE = "file"
    FOLDER = "folder"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that a search came by."""

    parent: int
    """The handle of its folder; good until the next entry is asked for."""
    name: str
    path: str
    kind: Kind


@dataclass(slots=True)
class Search:
    """One walk through a folder."""

    is_cancelled: Callable[[], bool]
    seen: int = 0
    is_cut: bool = False
    """Whether there was more than the limits allow."""

    def entries(self, place: Place) -> Iterator[Entry]:
        """Yield what is in a folder, and in the folders in it, by name."""
        prefix = f"{place.path}/" if place.path else ""
        yield from self._inside(place.parent, prefix, level=0)

    def _inside(self, handle: int, prefix: str, *, level: int) -> Iterator[Entry]:
        for name, kind in self._listed(handle):
            if self.is_cancelled():
                raise ToolFailed("the search was stopped")
            self.seen += 1
            yield Entry(handle, name, prefix + name, kind)
            if kind is Kind.FOLDER and name not in IGNORED:
                yield from self._below(handle, name, prefix, level=level + 1)

    def _below(self, parent: int, name: str, prefix: str, *, level: int) -> Iterator[Entry]:
        if level > WALK_LEVELS_MAX:
            self.is_cut = True
            return
        try:
            handle = open_folder(name, parent)
        except OSError:  # gone, swapped for a link, or closed to us: there is nothing to see
            return
        try:
            yield from self._inside(handle, f"{prefix}{name}/", level=level)
        finally:
            os.close(handle)

    def _listed(self, handle: int) -> list[tuple[str, Kind]]:
        room = WALK_ENTRIES_MAX - self.seen
        with os.scandir(handle) as entries:
            found = [(entry.name, _kind(entry)) for entry in islice(entries, max(0, room) + 1)]
        if len(found) > room:
            self.is_cut = True
            del found[room:]
        return sorted(found)


def _kind(entry: os.DirEntry[str]) -> Kind:
    try:
        if entry.is_dir(follow_symlinks=False):
            return Kind.FOLDER
        return Kind.FILE if entry.is_file(follow_symlinks=False) else Kind.OTHER
    except OSError:
        return Kind.OTHER
