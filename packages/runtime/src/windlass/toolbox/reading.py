"""read_file: lines of a file, with their numbers."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Annotated

from pydantic import Field

from windlass.tool_context import ToolContext
from windlass.tool_thread import in_thread
from windlass.toolbox.folder import Folder
from windlass.toolbox.limits import MARKED_FILE_BYTES_MAX, OUTPUT_LINES_MAX, PATH_CHARS_MAX, SCAN_BYTES_MAX
from windlass.toolbox.lines import Window, read_window
from windlass.toolbox.paths import shown_path
from windlass.toolbox.state import Marks
from windlass.tools import Tool, ToolFailed, tool

PathText = Annotated[str, Field(min_length=1, max_length=PATH_CHARS_MAX)]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What was read of a file."""

    text: str
    path: str
    digest: str | None
    """Of the whole content; None if the file is too large for that."""


def read_file_tool(folder: Folder, marks: Marks) -> Tool[..., object]:
    """Return the tool that reads files of a folder."""

    @tool(mode="read", is_outbound=False, reads="untrusted", on_compaction=marks.reminder)
    async def read_file(
        path: PathText,
        ctx: ToolContext,
        offset: Annotated[int, Field(ge=1)] = 1,
        limit: Annotated[int, Field(ge=1, le=OUTPUT_LINES_MAX)] = OUTPUT_LINES_MAX,
    ) -> str:
        """Read a text file of the workspace.

        Every line is shown behind its number and a tab.

        Args:
            path: The file, relative to the workspace.
            offset: The first line to show; 1 is the first of the file.
            limit: How many lines to show at most.
        """
        window = Window(offset, limit)
        excerpt = await in_thread(
            partial(read_excerpt, folder, path, window=window, is_cancelled=lambda: ctx.is_cancelled)
        )
        if excerpt.digest is not None:
            marks.note(ctx.state, excerpt.path, digest=excerpt.digest)
        return excerpt.text

    return read_file


def read_excerpt(folder: Folder, path: str, *, window: Window, is_cancelled: Callable[[], bool]) -> Excerpt:
    """Read a part of a file.

    Raises:
        ToolFailed: it cannot be read as text.
    """
    with folder.walk(path) as place:
        handle = folder.open_file(place)
        try:
            digest = Digest()
            total = read_window(window, partial(os.read, handle), take=digest.take, is_cancelled=is_cancelled)
        except ValueError:
            size = os.fstat(handle).st_size
            raise ToolFailed(f"{shown_path(path)} is not text ({size:,} bytes of binary data)") from None
        finally:
            os.close(handle)
        return Excerpt(_shown(window, total), place.path, digest.text if total is not None else None)


class Digest:
    """The hash of a content, as long as it is small enough."""

    def __init__(self) -> None:
        self.size = 0
        self._hash = sha256()

    def take(self, chunk: bytes) -> bool:
        """Add bytes; say whether more are wanted."""
        self.size += len(chunk)
        if self.size > SCAN_BYTES_MAX:
            raise ToolFailed(f"the file is too large to look further: limit {SCAN_BYTES_MAX:,} bytes")
        if self.size > MARKED_FILE_BYTES_MAX:
            return False
        self._hash.update(chunk)
        return True

    @property
    def text(self) -> str | None:
        """The hash; None if the content was too large."""
        return None if self.size > MARKED_FILE_BYTES_MAX else self._hash.hexdigest()


def _shown(window: Window, total: int | None) -> str:
    if total == 0:
        return "[the file is empty]"
    if total is not None and window.first > total:
        raise ToolFailed(f"the file has {total:,} lines, and offset {window.first:,} is behind its end")
    shown = [f"{window.first + at:>6}\t{line}" for at, line in enumerate(window.lines)]
    last = window.first + len(window.lines) - 1
    if window.is_full:
        known = "more" if total is None else f"{total:,} in all"
        shown.append(f"[lines {window.first:,} to {last:,}, {known}; go on with offset={last + 1}]")
    if window.has_returns:
        shown.append("[the lines end with CR LF]")
    if window.has_lost:
        shown.append("[some bytes are not text in the encoding of the file and are shown as \ufffd]")
    return "\n".join(shown)
