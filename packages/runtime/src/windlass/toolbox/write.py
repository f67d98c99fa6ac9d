"""write_file: atomic writes of whole files that the session has read."""

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from threading import Lock
from typing import Annotated, Final

from pydantic import Field

from windlass.toolbox.folder import FindFolder, Folder, Marks, PathTarget, shown_path
from windlass.toolbox.limits import CHUNK_BYTES, MARKED_FILE_BYTES_MAX, WRITE_CHARS_MAX
from windlass.toolbox.protected import is_protected, names_protected
from windlass.toolbox.read import Digest, PathText
from windlass.tools import Tool, ToolFailed, tool
from windlass.tools.calling import in_thread
from windlass.tools.context import ToolContext
from windlass_protocol import JsonObject
from windlass_protocol.frozen import sealed

_NEW_FLAGS: Final = (
    os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
)
_NEW_MODE: Final = 0o666
"""Permissions of a new file, before the umask."""
_KEPT_MODE: Final = 0o777
"""Permission bits that survive a write; set-user-id and set-group-id do not: the content is new."""


@sealed
class FileDraft:
    """The new content, and what the session has seen of the file."""

    content: bytes
    path: str
    """The target of the path when its mark was read."""
    seen: str | None
    key: str
    """Part of the temporary file's name: a call that is repeated after a crash finds its own file."""


@sealed
class Written:
    """The report on a write, and the path."""

    text: str
    path: str


def write_file_tool(folder_of: FindFolder, marks: Marks) -> Tool[..., object]:
    """Return the tool that writes files of a folder."""
    lock = Lock()

    def asks(arguments: JsonObject) -> bool | str:
        # Each of these files is read by other programs: an approval of one does not cover the next.
        return "always" if names_protected(str(arguments.get("path"))) else False

    @tool(mode="safe_write", effect="idempotent", approval=asks)
    async def write_file(
        path: PathText, content: Annotated[str, Field(max_length=WRITE_CHARS_MAX)], ctx: ToolContext
    ) -> str:
        """Write a text file of the workspace as a whole; folders on the way are made.

        A file that is there already must have been read before, in the content that it has now. A file that
        makes other programs run code, such as Makefile or package.json, needs the consent of a person.

        Args:
            path: The file, relative to the workspace.
            content: All of its new text.
        """
        try:
            body = content.encode("utf-8")
        except UnicodeEncodeError:
            raise ToolFailed("the content contains a lone surrogate; write it in UTF-8") from None
        folder = await folder_of(ctx)
        where = await in_thread(partial(_where, folder, path))
        seen = marks.digest_of(ctx.state, where)
        # Hashed: a key may contain characters that a file name must not.
        key = sha256(ctx.idempotency_key.encode()).hexdigest()[:32]
        draft = FileDraft(body, where, seen, key)
        written = await in_thread(partial(write, folder, path, draft=draft, lock=lock))
        marks.note(ctx.state, written.path, digest=sha256(body).hexdigest())
        return written.text

    return write_file.with_options(is_outbound=False)


def _where(folder: Folder, path: str) -> str:
    """Return the target of a path, without links and dots; create nothing."""
    try:
        with folder.walk(path) as place:
            return place.path
    except ToolFailed:
        # Perhaps only folders are missing; any other problem is reported by the write.
        return path


def write(folder: Folder, path: str, *, draft: FileDraft, lock: Lock) -> Written:
    """Write a file if the session may.

    Raises:
        ToolFailed: the session may not, or the file cannot be written; the file is unchanged.
    """
    # One writer at a time in this process: the checked content is the one that is replaced.
    with lock, folder.walk(path, is_writing=True) as place:
        if place.is_folder:
            raise ToolFailed(f"{shown_path(path)} is a folder; give the path of a file")
        if is_protected(place.path.split("/")) and not names_protected(path):
            # The consent was not asked for: the path leads there through a link.
            raise ToolFailed(
                f"{shown_path(path)} is {shown_path(place.path)}, which makes other programs run code; "
                "write it by that name, so that a person is asked"
            )
        name, size = shown_path(place.path), len(draft.content)
        if place.status is None:
            _replace(place, draft)
            return Written(f"wrote {name}, a new file of {size:,} bytes", place.path)
        if not _may_replace(folder, place, draft):
            return Written(f"{name} has this content already; nothing was written", place.path)
        _replace(place, draft)
        return Written(f"wrote {name}: {size:,} bytes in place of {place.status.st_size:,}", place.path)


def _may_replace(folder: Folder, place: PathTarget, draft: FileDraft) -> bool:
    """Return whether there is anything to write.

    Refuse to overwrite content that the session has not seen.
    """
    name, present = shown_path(place.path), _digest(folder, place)
    if present is None:
        raise ToolFailed(
            f"{name} is too large to be overwritten: limit {MARKED_FILE_BYTES_MAX:,} bytes; "
            "write another file, or remove it first"
        )
    if present == sha256(draft.content).hexdigest():
        return False
    if draft.seen is None or place.path != draft.path:
        raise ToolFailed(f"{name} exists and was not read in this session; read_file it first")
    if present != draft.seen:
        raise ToolFailed(f"{name} has changed since it was read; read_file it again, then write")
    return True


def _digest(folder: Folder, place: PathTarget) -> str | None:
    handle = folder.open_file(place)
    try:
        digest = Digest()
        while chunk := os.read(handle, CHUNK_BYTES):
            if not digest.take(chunk):
                break
        return digest.text
    finally:
        os.close(handle)


def _replace(place: PathTarget, draft: FileDraft) -> None:
    """Replace a file atomically: a reader sees the old content or the new one."""
    with _temporary(place, draft.key) as (name, handle):
        if place.status is not None:
            with suppress(OSError):  # only its owner or root can restore the owner
                os.fchown(handle, place.status.st_uid, place.status.st_gid)
            os.fchmod(handle, stat.S_IMODE(place.status.st_mode) & _KEPT_MODE)
        view = memoryview(draft.content)
        while view:
            view = view[os.write(handle, view) :]
        os.fsync(handle)
        os.rename(name, place.name, src_dir_fd=place.parent, dst_dir_fd=place.parent)
    with suppress(OSError):  # some file systems cannot sync a folder
        os.fsync(place.parent)


@contextmanager
def _temporary(place: PathTarget, key: str) -> Generator[tuple[str, int]]:
    """Hold a temporary file in a folder; it is removed at the end, unless it was renamed."""
    name = f".windlass-{key}.tmp"
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=place.parent)
    handle = os.open(name, _NEW_FLAGS, _NEW_MODE, dir_fd=place.parent)
    try:
        yield name, handle
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=place.parent)
        raise
    finally:
        os.close(handle)
