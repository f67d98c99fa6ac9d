"""A folder that nobody gets out of: every step is taken from a handle.

A path is walked name by name. Each name is opened relative to the handle of the folder before it and never
through a symbolic link; links are read and walked like the rest of the path, and `..` goes back to a handle
that is already held. So there is no moment at which a name is checked and another thing is opened, whoever
swaps folders and links meanwhile.
"""

import os
import stat
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from errno import EACCES, ELOOP, ENAMETOOLONG, ENOENT, ENOSPC, ENOTDIR, EPERM, EROFS
from pathlib import Path
from typing import Final

from windlass.definitions import wrong
from windlass.toolbox.limits import LINKS_MAX, PATH_PARTS_MAX
from windlass.toolbox.paths import GUARDED, is_guarded, outside, parts_of, shown_path
from windlass.tools import ToolFailed

PENDING_PARTS_MAX: Final = 1_024
"""Names that links put into one path."""
_FOLDER_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
)
_FILE_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path leads: a name in a folder that is held open."""

    parent: int
    """The handle of the folder; good until the walk is left."""
    name: str
    """Empty for the folder itself."""
    path: str
    """From the workspace, without links and dots."""
    status: os.stat_result | None
    """None if there is nothing of that name."""

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return not self.name


class Folder:
    """The folder that tools are confined to.

    `allows_hard_links` says whether files that have another name too may be opened: that other name may be
    outside, and nobody can tell.
    """

    def __init__(self, path: str | Path, *, allows_hard_links: bool = False) -> None:
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise wrong("a workspace needs a system that opens files relative to a folder: Linux or macOS")
        try:
            real = Path(path).resolve(strict=True)
            status = real.stat()
        except (OSError, RuntimeError, ValueError):
            raise wrong("the folder of a workspace must exist; make it first") from None
        if not stat.S_ISDIR(status.st_mode):
            raise wrong("a workspace is a folder, found something else under that path")
        self.path: Final = str(real)
        self._identity = status.st_dev, status.st_ino
        self._allows_hard_links = allows_hard_links

    def open_root(self) -> int:
        """Return a handle of the folder; the caller closes it.

        Raises:
            ToolFailed: the folder is gone, or another one is in its place.
        """
        try:
            handle = os.open(self.path, _FOLDER_FLAGS)
        except OSError:
            raise ToolFailed("the folder of the workspace is not there any more") from None
        status = os.fstat(handle)
        if (status.st_dev, status.st_ino) != self._identity:
            os.close(handle)
            raise ToolFailed("another folder is in the place of the workspace; it has to be opened anew")
        return handle

    @contextmanager
    def walk(self, path: str, *, is_writing: bool = False) -> Generator[Place]:
        """Walk a path and hold where it leads; see `Place`.

        Whoever is writing has missing folders made, and does not get into Git's own.

        Raises:
            ToolFailed: it leads outside, through something that is no folder, or nowhere.
        """
        parts = deque(parts_of(path, self.path))
        walk = _Walk(path, [self.open_root()], parts, is_writing)
        try:
            yield walk.go()
        except OSError as error:
            raise told(error, path) from None
        finally:
            walk.close()

    def open_file(self, place: Place) -> int:
        """Return a handle to read a plain file; the caller closes it.

        Fifos, devices and sockets are refused, and nothing here waits for one.

        Raises:
            ToolFailed: it is not there, or not a plain file.
            OSError: it cannot be opened.
        """
        if place.is_folder:
            raise ToolFailed(f"{shown_path(place.path or '.')} is a folder; use glob to see what is in it")
        if place.status is None:
            raise ToolFailed(f"there is no file {shown_path(place.path)}; use glob to see what there is")
        # Looked at before it is opened, because opening a device may act on it; and again behind it.
        self._check(place.status, place.path)
        handle = os.open(place.name, _FILE_FLAGS, dir_fd=place.parent)
        try:
            self._check(os.fstat(handle), place.path)
        except BaseException:
            os.close(handle)
            raise
        return handle

    def _check(self, status: os.stat_result, path: str) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise ToolFailed(f"{shown_path(path)} is not a plain file (a pipe, device or socket)")
        if status.st_nlink > 1 and not self._allows_hard_links:
            raise ToolFailed(
                f"{shown_path(path)} has another name that may be outside of the workspace (a hard link), "
                "so it is not opened"
            )


def open_folder(name: str, parent: int) -> int:
    """Return a handle of a folder in a folder, never through a link."""
    return os.open(name, _FOLDER_FLAGS, dir_fd=parent)


def told(error: OSError, path: str) -> ToolFailed:
    """Return what a model is told of a failure of the file system."""
    reasons = {
        ENOENT: "is not there",
        ENOTDIR: "goes through something that is not a folder",
        ELOOP: "was changed while it was opened; try again",
        EACCES: "may not be opened (permission denied)",
        EPERM: "may not be opened (permission denied)",
        ENAMETOOLONG: "has a name that is too long",
        ENOSPC: "cannot be written: the disk is full",
        EROFS: "cannot be written: the disk is read-only",
    }
    code = error.errno or 0
    return ToolFailed(f"{shown_path(path)} {reasons.get(code, 'cannot be used: ' + os.strerror(code))}")


@dataclass(slots=True)
class _Walk:
    """One walk: the handles on the way back, and the names still to come."""

    path: str
    handles: list[int]
    pending: deque[str]
    is_writing: bool
    names: list[str] = field(default_factory=list[str])
    links: int = 0

    def go(self) -> Place:
        while self.pending:
            name = self.pending.popleft()
            if name == "..":
                self._back()
                continue
            if self.is_writing and is_guarded(name):
                raise ToolFailed(f"nothing is written into {GUARDED}; use git itself")
            status = self._look(name)
            is_last = not self.pending
            if status is None and not is_last:
                status = self._missing(name)
            if status is None or not self._enter(name, status):
                if not is_last:
                    raise ToolFailed(f"{shown_path(self.path)} goes through something that is not a folder")
                return Place(self.handles[-1], name, "/".join([*self.names, name]), status)
        return Place(self.handles[-1], "", "/".join(self.names), os.fstat(self.handles[-1]))

    def close(self) -> None:
        for handle in self.handles:
            os.close(handle)

    def _back(self) -> None:
        if len(self.handles) == 1:
            raise outside(self.path)
        os.close(self.handles.pop())
        self.names.pop()

    def _look(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self.handles[-1], follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _missing(self, name: str) -> os.stat_result | None:
        if not self.is_writing:
            raise ToolFailed(f"{shown_path(self.path)} is not there; use glob to see what there is")
        if ".." in self.pending:
            raise ToolFailed(f"{shown_path(self.path)} goes back from a folder that is not there")
        os.mkdir(name, dir_fd=self.handles[-1])
        return self._look(name)

    def _enter(self, name: str, status: os.stat_result) -> bool:
        """Go on into a folder or a link; say whether it was one."""
        if stat.S_ISLNK(status.st_mode):
            self._follow(name)
            return True
        if not stat.S_ISDIR(status.st_mode):
            return False
        if len(self.handles) > PATH_PARTS_MAX:
            raise ToolFailed(f"{shown_path(self.path)} is too deep: limit {PATH_PARTS_MAX} folders")
        self.handles.append(open_folder(name, self.handles[-1]))
        self.names.append(name)
        return True

    def _follow(self, name: str) -> None:
        self.links += 1
        target = os.readlink(name, dir_fd=self.handles[-1])
        if target.startswith("/"):
            raise outside(self.path)
        self.pending.extendleft(part for part in reversed(target.split("/")) if part not in {"", "."})
        if self.links > LINKS_MAX or len(self.pending) > PENDING_PARTS_MAX:
            raise ToolFailed(f"{shown_path(self.path)} goes through too many links: limit {LINKS_MAX}")
