"""A folder that paths cannot escape: each component is opened from a handle.

A path is walked name by name. Each name is opened relative to the handle of its folder and never through a
symbolic link; links are read and walked like the rest of the path, and `..` returns to a handle that is
already open. So there is no moment between check and open in which another process could swap a folder or a
link.
"""

import os
import stat
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import field
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
from windlass.toolbox.protected import plain_name
from windlass.tools import ToolFailed
from windlass.tools.context import CompactionContext, SessionValues, ToolContext, ToolState
from windlass_protocol.frozen import mutable, sealed

_SEEN: Final = ("/", "workspace")
"""The folder, as commands in a sandbox see it."""
GUARDED: Final = ".git"
"""Files in it can make harmless commands run programs, so nothing is written there."""


def parts_of(path: str, folder: str) -> tuple[str, ...]:
    """Return the names in a path relative to a folder, `..` included.

    An absolute path is accepted if it begins with the folder, or with `/workspace`. Nothing is looked up: the
    walk over the names enforces the folder.

    Raises:
        ToolFailed: the path cannot be inside the folder.
    """
    if len(path) > PATH_CHARS_MAX:
        raise ToolFailed(f"the path is too long: {len(path):,} characters, limit {PATH_CHARS_MAX:,}")
    if "\0" in path:
        raise ToolFailed("the path contains a NUL character; leave it out")
    if path.startswith("~"):
        raise ToolFailed("~ is not supported; write a path relative to the workspace")
    if path.startswith("/"):
        path = _inside(path, folder)
    parts = tuple(part for part in path.split("/") if part not in {"", "."})
    if len(parts) > PATH_PARTS_MAX:
        raise ToolFailed(f"the path has too many parts: {len(parts):,}, limit {PATH_PARTS_MAX}")
    for part in parts:
        check_name(part)
    return parts


def check_name(name: str) -> None:
    """Refuse a name that is not valid in a file system."""
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        raise ToolFailed("the path contains a lone surrogate; write it in UTF-8") from None
    if size > NAME_BYTES_MAX:
        raise ToolFailed(f"a name in the path is too long: {size:,} bytes, limit {NAME_BYTES_MAX}")


def is_guarded(name: str) -> bool:
    """Whether some file system treats a name as that of Git's own folder."""
    return plain_name(name) in {GUARDED, "git~1"}


def outside(path: str) -> ToolFailed:
    """Return the error for a path that leaves the workspace."""
    return ToolFailed(f"{shown_path(path)} is outside of the workspace; use a path inside it")


def shown_path(path: str) -> str:
    """Return a path for a message: on one line, and cut."""
    text = "".join(char if char.isprintable() else "\ufffd" for char in path[:200])
    return repr(text + ("…" if len(path) > 200 else ""))


def _inside(path: str, folder: str) -> str:
    # Whole names are compared: /root-evil is not inside /root.
    names, root = PurePosixPath(path).parts, PurePosixPath(folder).parts
    if names[:2] == _SEEN:
        return "/".join(names[2:])
    if names[: len(root)] != root:
        raise outside(path)
    return "/".join(names[len(root) :])


PENDING_PARTS_MAX: Final = 1_024
"""Names that symbolic links may add to one path."""
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


@sealed
class PathTarget:
    """The target of a path: a name in an open folder."""

    parent: int
    """The handle of the folder; valid until the end of the walk."""
    name: str
    """Empty for the folder itself."""
    path: str
    """The path from the workspace, without links and dots."""
    status: os.stat_result | None
    """None if the name does not exist."""

    @property
    def is_folder(self) -> bool:
        return not self.name


class Folder:
    """The folder that tools are confined to.

    `allows_hard_links` allows files with several names: another name may be outside of the folder, which
    cannot be checked.
    """

    def __init__(self, path: str | Path, *, allows_hard_links: bool = False) -> None:
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise wrong("a workspace needs an operating system with openat: Linux or macOS")
        try:
            real = Path(path).resolve(strict=True)
            status = real.stat()
        except (OSError, RuntimeError, ValueError):
            raise wrong(f"the folder of a workspace must exist, found no {path}; create it first") from None
        if not stat.S_ISDIR(status.st_mode):
            raise wrong(f"the folder of a workspace must be one, found another kind of file at {path}")
        self.path: Final = str(real)
        self._identity = status.st_dev, status.st_ino
        self._allows_hard_links = allows_hard_links

    def open_root(self) -> int:
        """Return a handle of the folder; the caller closes it.

        Raises:
            ToolFailed: the folder was removed or replaced.
        """
        try:
            handle = os.open(self.path, _FOLDER_FLAGS)
        except OSError:
            raise ToolFailed("the folder of the workspace does not exist any more") from None
        status = os.fstat(handle)
        if (status.st_dev, status.st_ino) != self._identity:
            os.close(handle)
            raise ToolFailed("the folder of the workspace was replaced; the workspace must be opened again")
        return handle

    @contextmanager
    def walk(self, path: str, *, is_writing: bool = False) -> Generator[PathTarget]:
        """Walk a path and hold its target; see `PathTarget`.

        With `is_writing`, missing folders are created, and Git's own folder is refused.

        Raises:
            ToolFailed: the path leaves the folder, goes through a file, or does not exist.
        """
        parts = deque(parts_of(path, self.path))
        walk = _Walk(path, [self.open_root()], parts, is_writing)
        try:
            yield walk.go()
        except OSError as error:
            raise failure_of(error, path) from None
        finally:
            walk.close()

    def open_file(self, place: PathTarget) -> int:
        """Return a handle to read a regular file; the caller closes it.

        Fifos, devices and sockets are refused without opening them.

        Raises:
            ToolFailed: it does not exist, or is not a regular file.
            OSError: it cannot be opened.
        """
        if place.is_folder:
            raise ToolFailed(f"{shown_path(place.path or '.')} is a folder; use glob to see what is in it")
        if place.status is None:
            raise ToolFailed(f"there is no file {shown_path(place.path)}; use glob to see what there is")
        # Checked before it is opened, because opening a device may act on it; and again after opening.
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
            raise ToolFailed(f"{shown_path(path)} is not a regular file (a pipe, device or socket)")
        if status.st_nlink > 1 and not self._allows_hard_links:
            raise ToolFailed(
                f"{shown_path(path)} is a hard link, and its other name may be outside of the workspace, "
                "so it is not opened"
            )


FindFolder = Callable[[ToolContext], Awaitable[Folder]]
"""Returns the folder that a call works in."""


def open_folder(name: str, parent: int) -> int:
    """Return a handle of a folder in a folder, never through a symbolic link."""
    return os.open(name, _FOLDER_FLAGS, dir_fd=parent)


def failure_of(error: OSError, path: str) -> ToolFailed:
    """Return the error of a file system failure, for the model."""
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


@mutable
class _Walk:
    """One walk: the handles of the parent folders, and the remaining names."""

    path: str
    handles: list[int]
    pending: deque[str]
    is_writing: bool
    names: list[str] = field(default_factory=list[str])
    links: int = 0

    def go(self) -> PathTarget:
        while self.pending:
            name = self.pending.popleft()
            if name == "..":
                self._back()
                continue
            if self.is_writing and is_guarded(name):
                raise ToolFailed(f"writing into {GUARDED} is not allowed; use git itself")
            status = self._look(name)
            is_last = not self.pending
            if status is None and not is_last:
                status = self._missing(name)
            if status is None or not self._enter(name, status):
                if not is_last:
                    raise ToolFailed(f"{shown_path(self.path)} goes through something that is not a folder")
                return PathTarget(self.handles[-1], name, "/".join([*self.names, name]), status)
        return PathTarget(self.handles[-1], "", "/".join(self.names), os.fstat(self.handles[-1]))

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
        """Enter a folder or follow a link; return whether the name was one."""
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
            raise ToolFailed(
                f"{shown_path(self.path)} goes through too many symbolic links: limit {LINKS_MAX}"
            )


IGNORED: Final = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})
"""Folders that a search enters only if it starts inside them."""


class Kind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    OTHER = "other"


@sealed
class FolderEntry:
    """A name that a search visits."""

    parent: int
    """The handle of its folder; valid until the next entry."""
    name: str
    path: str
    kind: Kind


@mutable
class Search:
    """One walk through a folder."""

    is_cancelled: Callable[[], bool]
    seen: int = 0
    is_cut: bool = False
    """Whether the limits cut the walk off."""

    def entries(self, place: PathTarget) -> Iterator[FolderEntry]:
        """Yield the entries of a folder and of its subfolders, by name."""
        prefix = f"{place.path}/" if place.path else ""
        yield from self._inside(place.parent, prefix, level=0)

    def _inside(self, handle: int, prefix: str, *, level: int) -> Iterator[FolderEntry]:
        for name, kind in self._entries(handle):
            if self.is_cancelled():
                raise ToolFailed("the search was stopped")
            self.seen += 1
            yield FolderEntry(handle, name, prefix + name, kind)
            if kind is Kind.FOLDER and name not in IGNORED:
                yield from self._below(handle, name, prefix, level=level + 1)

    def _below(self, parent: int, name: str, prefix: str, *, level: int) -> Iterator[FolderEntry]:
        if level > WALK_LEVELS_MAX:
            self.is_cut = True
            return
        try:
            handle = open_folder(name, parent)
        except OSError:  # removed, replaced by a link, or not accessible
            return
        try:
            yield from self._inside(handle, f"{prefix}{name}/", level=level)
        finally:
            os.close(handle)

    def _entries(self, handle: int) -> list[tuple[str, Kind]]:
        room = WALK_ENTRIES_MAX - self.seen
        with os.scandir(handle) as entries:
            listed = [(entry.name, _kind(entry)) for entry in islice(entries, max(0, room) + 1)]
        if len(listed) > room:
            self.is_cut = True
            del listed[room:]
        return sorted(listed)


def _kind(entry: os.DirEntry[str]) -> Kind:
    try:
        if entry.is_dir(follow_symlinks=False):
            return Kind.FOLDER
        return Kind.FILE if entry.is_file(follow_symlinks=False) else Kind.OTHER
    except OSError:
        return Kind.OTHER


PREFIX: Final = "windlass.file."
"""The prefix of the keys of marks."""


class Marks:
    """The hashes of file contents that a session has seen, in the session's state.

    Each file has its own key, so that concurrent calls do not overwrite each other's marks. With too many
    files the oldest marks are dropped; such a file has to be read again.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._place = sha256(folder.encode("utf-8", "surrogateescape")).hexdigest()[:8]

    def digest_of(self, state: SessionValues, path: str) -> str | None:
        """Return the hash of the content of a file that the session saw last."""
        mark = state.get(self._key(path))
        digest = mark.get("sha256") if isinstance(mark, dict) else None
        return digest if isinstance(digest, str) else None

    def note(self, state: ToolState, path: str, *, digest: str) -> None:
        """Remember the content of a file that the session has seen."""
        key, mark = self._key(path), _mark(path, digest)
        if state.get(key) == mark:
            return
        # Removed first, so that it becomes the newest.
        state.pop(key, None)
        paths = [path for path in state if path.startswith(PREFIX)]
        for old in paths[: len(paths) + 1 - MARKS_MAX] if len(paths) >= MARKS_MAX else ():
            del state[old]
        state.keep_own(key, mark)

    def reminder(self, context: CompactionContext) -> list[str]:
        """Return the reminder after a compaction: the files that were seen."""
        own = (mark for key, mark in context.state.items() if key.startswith(f"{PREFIX}{self._place}."))
        paths = sorted({str(mark["path"]) for mark in own if isinstance(mark, dict) and mark.get("path")})
        if not paths:
            return []
        return ["Files that you have read or written so far; read again what you need:\n" + "\n".join(paths)]

    def _key(self, path: str) -> str:
        # Hashed, because a path may contain any character. A session may use several workspaces.
        hashed = sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        return f"{PREFIX}{self._place}.{hashed}"


def _mark(path: str, digest: str) -> JsonValue:
    return {"path": shown_path(path) if len(path) <= MARKED_PATH_CHARS_MAX else "", "sha256": digest}
