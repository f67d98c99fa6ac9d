"""Disk usage of commands: the size of their folder, and the free space of the file system.

A folder is counted by the blocks of its files, each once: a sparse file counts what it has, and one with many
names counts once. Files that were removed while they are open are in no folder; the free space shows them.
"""

import asyncio
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from windlass.ports.sandbox import SandboxFailed
from windlass_protocol.frozen import frozen

if TYPE_CHECKING:
    from windlass.sandboxes.processes import Running

INTERVAL_S: Final = 0.25
"""Between two looks at the free space."""
PAUSE_TIMES: Final = 4
"""The pause before a folder is counted again, in times of the duration of the last count."""
HANDLES_MAX: Final = 200
"""Levels of folders that are open at once while a folder is counted."""
EXCESS_BYTES: Final = 1_073_741_824
EXCESS_FILES: Final = 50_000
"""How far above its limit a folder may be for commands to start, which may then read and delete."""
_GONE: Final = "ended: its folder is not there any more"
_BLOCK_BYTES: Final = 512
_OPEN_FOLDER: Final = (
    os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
)
_NAME_FOLDER: Final = _OPEN_FOLDER | getattr(os, "O_PATH", 0)


@frozen
class DiskUsage:
    """Disk usage of a folder, or its limit."""

    size: int
    """Bytes."""
    files: int
    """Names in it: of files, folders and others."""
    closed: int = 0
    """Folders that could not be counted: they cannot be opened, or were moved meanwhile."""

    def is_over(self, most: "DiskUsage") -> bool:
        """Whether it is more than a limit."""
        return self.size > most.size or self.files > most.files or self.closed > most.closed


class Count:
    """Counts a folder; it stops once a limit is passed."""

    def __init__(self, most: DiskUsage) -> None:
        self._most = most
        self._size = self._files = self._closed = 0
        self._linked: set[tuple[int, int]] = set()
        """Files with more than one name that were counted."""

    def of(self, folder: Path, *, opens: bool = False) -> DiskUsage:
        """Return the usage of a folder; commands may change it meanwhile.

        With `opens`, folders that their owner closed are opened again, so that nothing in them is left out.

        Raises:
            OSError: it is not there any more, or cannot be opened.
        """
        # Handles and not paths: a path can be too long, or be led elsewhere by a link.
        levels = [_Level(_open_folder(str(folder), None, opens=opens))]
        try:
            self._list(levels[0], opens=opens)
            while levels and not self.usage.is_over(self._most):
                if levels[-1].names:
                    self._enter(levels, opens=opens)
                else:
                    self._leave(levels)
        finally:
            for level in levels:
                level.close()
        return self.usage

    @property
    def usage(self) -> DiskUsage:
        """The usage that was counted so far."""
        return DiskUsage(self._size, self._files, self._closed)

    def _enter(self, levels: "list[_Level]", *, opens: bool) -> None:
        """Count the next folder of the last level, which becomes a level."""
        try:
            level = _Level(_open_folder(levels[-1].names.pop(), levels[-1].handle, opens=opens))
        except FileNotFoundError:
            return  # removed in the meantime
        except OSError:
            self._closed += 1
            return
        levels.append(level)
        if len(levels) > HANDLES_MAX:
            levels[-HANDLES_MAX - 1].close()
        self._list(level, opens=opens)

    def _leave(self, levels: "list[_Level]") -> None:
        """Go back to the level above the last one."""
        left = levels.pop()
        try:
            if levels and levels[-1].handle is None and not levels[-1].reopen(left):
                # Moved while it was counted: the rest of the levels above is not reached.
                self._closed += 1
                levels.clear()
        finally:
            left.close()

    def _list(self, level: "_Level", *, opens: bool) -> None:
        """Count the names of a level, and keep those of its folders."""
        assert level.handle is not None
        if opens and os.fstat(level.handle).st_mode & stat.S_IXUSR == 0:
            os.fchmod(level.handle, stat.S_IRWXU)
        with os.scandir(level.handle) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                except OSError:
                    self._closed += 1
                    return
                self._files += 1
                if self._files > self._most.files:
                    return
                if stat.S_ISDIR(status.st_mode):
                    level.names.append(entry.name)
                elif status.st_nlink > 1:
                    file = status.st_dev, status.st_ino
                    if file in self._linked:
                        continue
                    self._linked.add(file)
                self._size += status.st_blocks * _BLOCK_BYTES


class _Level:
    """A folder between the one that is counted and the place of the count, or that place."""

    def __init__(self, handle: int) -> None:
        self.handle: int | None = handle
        """None while it is too far above to be kept open."""
        self.names: list[str] = []
        """Folders in it that are not counted yet."""
        self._identity = _identity(handle)

    def close(self) -> None:
        """Close the handle."""
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None

    def reopen(self, below: "_Level") -> bool:
        """Open the handle again from the folder below; return whether that is still in the same folder."""
        try:
            handle = os.open("..", _OPEN_FOLDER, dir_fd=below.handle)
        except OSError:
            return False
        if _identity(handle) != self._identity:
            os.close(handle)
            return False
        self.handle = handle
        return True


def _identity(handle: int) -> tuple[int, int]:
    status = os.fstat(handle)
    return status.st_dev, status.st_ino


def _open_folder(name: str, parent: int | None, *, opens: bool) -> int:
    """Return the handle of a folder; with `opens` its owner gets the right to open it."""
    try:
        return os.open(name, _OPEN_FOLDER, dir_fd=parent)
    except PermissionError:
        if not opens:
            raise
    # A handle that needs no rights: the name may have become a link.
    handle = os.open(name, _NAME_FOLDER, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{handle}", stat.S_IRWXU)
    finally:
        os.close(handle)
    return os.open(name, _OPEN_FOLDER, dir_fd=parent)


class Disk:
    """The limits of one command; made before it starts.

    With `is_own`, the folder belongs to a session and has the limits as a whole, so that commands add up.
    Otherwise the application gave it: the limits are for the free space that is lost while the command runs.
    """

    def __init__(self, folder: Path, most: DiskUsage, *, is_own: bool) -> None:
        self._folder = folder
        self._limit = self._most = most
        self._ceiling = DiskUsage(most.size + max(most.size, EXCESS_BYTES), most.files + EXCESS_FILES)
        self._is_own = is_own
        self._used = Count(self._ceiling).of(folder, opens=True) if is_own else DiskUsage(0, 0)
        self._before = self._last = os.statvfs(folder)
        self.is_full = self._used.is_over(most)
        """Whether the folder has reached its limit: its commands may read and delete."""
        if self.is_full:
            self._limit = self._ceiling
        if self._used.is_over(self._ceiling):
            raise SandboxFailed(
                f"no command can run in this folder any more: {self._excess()}; empty it from outside, "
                "or delete the session"
            )

    def problem(self) -> str:
        """Count the folder; return why the command must be ended, or nothing."""
        # The free space is read first: what the command took of it is in the folder when that is counted.
        self._last = os.statvfs(self._folder)
        if self._is_own:
            self._used = Count(self._ceiling).of(self._folder)
            if self._used.is_over(self._limit):
                return self.note
        return self._free_space_problem(self._last)

    def has_lost_space(self) -> bool:
        """Whether the free space of the disk is a reason to end the command."""
        return bool(self._free_space_problem(os.statvfs(self._folder)))

    def _free_space_problem(self, now: os.statvfs_result) -> str:
        most = self._most
        if (self._before.f_bavail - now.f_bavail) * now.f_frsize > most.size:
            return f"ended: the disk lost more than {most.size:,} bytes of free space while it ran"
        if self._before.f_favail - now.f_favail > most.files:
            return f"ended: the disk lost room for more than {most.files:,} files while it ran"
        return ""

    def may_be_over(self) -> bool:
        """Whether the disk lost more, since the folder was counted, than was left to it."""
        now = os.statvfs(self._folder)
        size = (self._last.f_bavail - now.f_bavail) * now.f_frsize
        files = self._last.f_favail - now.f_favail
        return self._used.size + size > self._limit.size or self._used.files + files > self._limit.files

    @property
    def note(self) -> str:
        """A text for the caller of a command in a full folder; empty if it is not full."""
        if not self._used.is_over(self._most):
            return ""
        return (
            f"over the limit: {self._excess()}. Delete files: until then commands can read and delete, "
            "and every write fails"
        )

    def _excess(self) -> str:
        if self._used.size > self._most.size:
            return f"the folder takes {self._used.size:,} bytes of the disk, limit {self._most.size:,}"
        if self._used.files > self._most.files:
            return f"the folder has {self._used.files:,} files and folders, limit {self._most.files:,}"
        return f"{self._used.closed:,} folders cannot be counted: let their owner read them"


async def watch(disk: Disk, running: "Running") -> None:
    """End a command that passes a limit; it is cancelled when the command has ended."""
    loop = asyncio.get_running_loop()
    due, problem = loop.time(), ""
    while not problem:
        await asyncio.sleep(INTERVAL_S)
        try:
            if loop.time() >= due or disk.has_lost_space() or disk.may_be_over():
                began = loop.time()
                problem = await asyncio.to_thread(disk.problem)
                due = loop.time() + PAUSE_TIMES * (loop.time() - began)
        except OSError:
            problem = _GONE
    running.end(problem)


async def settle(disk: Disk, running: "Running") -> None:
    """Count once more after the end of a command, which may have been quicker than the watch."""
    try:
        problem = await asyncio.to_thread(disk.problem)
    except OSError:
        problem = _GONE
    running.reason = running.reason or problem
    running.note = disk.note
