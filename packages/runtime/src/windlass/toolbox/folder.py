"""A folder that paths cannot escape: each component is opened from a handle.

A path is walked name by name. Each name is opened relative to the handle of the folder before it and never
through a symbolic link; links are read and walked like the rest of the path, and `..` goes back to a handle
that is already held. So there is no moment at which a name is checked and another thing is opened, whoever
swaps folders and links meanwhile.
"""

import os
import stat
import unicodedata
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from errno import EACCES, ELOOP, ENAMETOOLONG, ENOENT, ENOSPC, ENOTDIR, EPERM, EROFS
from hashlib import sha256
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final

from pydantic import JsonValue

from windlass.errors import wrong
from windlass.toolbox.limits import (
    LINKS_MAX,
    MARKED_PATH_CHARS_MAX,
    MARKS_MAX,
    NAME_BYTES_MAX,
    PATH_CHARS_MAX,
    PATH_PARTS_MAX,
    WALK_ENTRIES_MAX,
    WALK_LEVELS_MAX,
)
from windlass.tools import ToolFailed
from windlass.tools.context import CompactionContext, SessionValues, ToolState

GUARDED: Final = ".git"
"""What is in it can make harmless commands run programs, so nothing is written there."""


def parts_of(path: str, folder: str) -> tuple[str, ...]:
    """Return the names in a path that is relative to a folder, `..` among them.

    An absolute path is fine if it begins with the folder. Nothing is looked up: whoever walks the names stays
    inside the folder.

    Raises:
        ToolFailed: it cannot name anything in the folder.
    """
    if len(path) > PATH_CHARS_MAX:
        raise ToolFailed(f"the path is too long: {len(path):,} characters, limit {PATH_CHARS_MAX:,}")
    if "\0" in path:
        raise ToolFailed("the path has a NUL character in it; leave it out")
    if path.startswith("~"):
        raise ToolFailed("~ is not known here; write a path relative to the workspace")
    if path.startswith("/"):
        path = _inside(path, folder)
    parts = tuple(part for part in path.split("/") if part not in {"", "."})
    if len(parts) > PATH_PARTS_MAX:
        raise ToolFailed(f"the path has too many parts: {len(parts):,}, limit {PATH_PARTS_MAX}")
    for part in parts:
        check_name(part)
    return parts


def check_name(name: str) -> None:
    """Refuse a name that no file can have."""
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        raise ToolFailed("the path has half a character in it; write it in UTF-8") from None
    if size > NAME_BYTES_MAX:
        raise ToolFailed(f"a name in the path is too long: {size:,} bytes, limit {NAME_BYTES_MAX}")


def is_guarded(name: str) -> bool:
    """Whether some file system takes a name for that of Git's own folder."""
    plain = "".join(one for one in unicodedata.normalize("NFKC", name) if unicodedata.category(one) != "Cf")
    plain = plain.casefold().partition(":")[0].rstrip(" .")
    return plain in {GUARDED, "git~1"}


def outside(path: str) -> ToolFailed:
    """Return the refusal of a path that leaves the workspace."""
    return ToolFailed(f"{shown_path(path)} is outside of the workspace; use a path inside it")


def shown_path(path: str) -> str:
    """Return a path as it can be shown: on one line, and not too long."""
    text = "".join(one if one.isprintable() else "\ufffd" for one in path[:200])
    return repr(text + ("…" if len(path) > 200 else ""))


def _inside(path: str, folder: str) -> str:
    # By whole names: /root-evil does not begin with the folder /root.
    names, root = PurePosixPath(path).parts, PurePosixPath(folder).parts
    if names[: len(root)] != root:
        raise outside(path)
    return "/".join(names[len(root) :])


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


PREFIX: Final = "windlass.file."
"""What the keys of marks begin with."""


class Marks:
    """Which content of a file a session has seen, by the hash of the content.

    Each file has a key of its own: calls that run side by side do not overwrite each other's marks. Those of
    a session that has seen many files go when new ones come; then such a file has to be read once more.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._place = sha256(folder.encode("utf-8", "surrogateescape")).hexdigest()[:8]

    def seen(self, state: SessionValues, path: str) -> str | None:
        """Return the hash of what the session saw last of a file."""
        mark = state.get(self._key(path))
        found = mark.get("sha256") if isinstance(mark, dict) else None
        return found if isinstance(found, str) else None

    def note(self, state: ToolState, path: str, *, digest: str) -> None:
        """Remember that the session has seen a file with this content."""
        key, mark = self._key(path), _mark(path, digest)
        if state.get(key) == mark:
            return
        # Taken away first, so that it is the newest.
        state.pop(key, None)
        known = [one for one in state if one.startswith(PREFIX)]
        for old in known[: len(known) + 1 - MARKS_MAX] if len(known) >= MARKS_MAX else ():
            del state[old]
        state.keep_own(key, mark)

    def reminder(self, context: CompactionContext) -> list[str]:
        """Return the words that say after a compaction which files were seen."""
        own = (mark for key, mark in context.state.items() if key.startswith(f"{PREFIX}{self._place}."))
        paths = sorted({str(mark["path"]) for mark in own if isinstance(mark, dict) and mark.get("path")})
        if not paths:
            return []
        return ["Files that you have read or written so far; read again what you need:\n" + "\n".join(paths)]

    def _key(self, path: str) -> str:
        # Hashed: the path may hold anything. Several workspaces may be used in one session.
        hashed = sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        return f"{PREFIX}{self._place}.{hashed}"


def _mark(path: str, digest: str) -> JsonValue:
    return {"path": shown_path(path) if len(path) <= MARKED_PATH_CHARS_MAX else "", "sha256": digest}
