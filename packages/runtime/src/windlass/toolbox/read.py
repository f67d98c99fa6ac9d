"""read_file: numbered lines of a file."""

import codecs
import os
from collections.abc import Callable
from dataclasses import field
from functools import partial
from hashlib import sha256
from typing import Annotated, Final

from pydantic import Field

from windlass.toolbox.folder import FindFolder, Folder, Marks, shown_path
from windlass.toolbox.limits import (
    CHUNK_BYTES,
    LINE_CHARS_MAX,
    MARKED_FILE_BYTES_MAX,
    OUTPUT_BYTES_MAX,
    OUTPUT_LINES_MAX,
    PATH_CHARS_MAX,
    SCAN_BYTES_MAX,
    SNIFF_BYTES,
)
from windlass.tools import Tool, ToolFailed, tool
from windlass.tools.calling import in_thread
from windlass.tools.context import ToolContext
from windlass_harness.shell.credentials import is_secret
from windlass_protocol import JsonObject
from windlass_protocol.frozen import mutable, sealed

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
LOST: Final = "\ufffd"
"""Replaces bytes that are not text."""


def encoding_of(beginning: bytes) -> str | None:
    """Return the encoding by the first bytes of a file; None if it is binary."""
    for bom, encoding in _BOMS:
        if beginning.startswith(bom):
            return encoding
    return None if b"\0" in beginning[:SNIFF_BYTES] else "utf-8"


@mutable
class Window:
    """Lines from `first` on, at most `most` of them, each cut to its limit."""

    first: int
    most: int
    lines: list[str] = field(default_factory=list[str])
    number: int = 1
    """Characters of the current line."""
    is_full: bool = False
    has_lost: bool = False
    has_returns: bool = False
    _parts: list[str] = field(default_factory=list[str])
    _chars: int = 0
    _bytes: int = 0

    def feed(self, text: str) -> None:
        """Add the next chunk of text."""
        if LOST in text:
            self.has_lost = True
        first, *others = text.split("\n")
        self._add(first)
        for piece in others:
            self._end()
            self._add(piece)

    def finish(self) -> int:
        """End the last line; return the number of lines."""
        if self._chars:
            self._end()
        return self.number - 1

    def _add(self, piece: str) -> None:
        if not piece:
            return
        if self.number >= self.first and not self.is_full and self._chars < LINE_CHARS_MAX:
            self._parts.append(piece[: LINE_CHARS_MAX - self._chars])
        self._chars += len(piece)

    def _end(self) -> None:
        if self.number >= self.first and not self.is_full:
            self._keep("".join(self._parts))
        self._parts.clear()
        self._chars = 0
        self.number += 1

    def _keep(self, line: str) -> None:
        if self._chars > LINE_CHARS_MAX:
            line = f"{line} [… {self._chars - LINE_CHARS_MAX:,} characters left out]"
        elif line.endswith("\r"):
            line, self.has_returns = line[:-1], True
        self._bytes += len(line.encode("utf-8", "replace")) + 8
        if len(self.lines) >= self.most or (self.lines and self._bytes > OUTPUT_BYTES_MAX):
            self.is_full = True
            return
        self.lines.append(line)


def read_window(
    window: Window,
    read: Callable[[int], bytes],
    *,
    take: Callable[[bytes], bool],
    is_cancelled: Callable[[], bool],
) -> int | None:
    """Read a file into a window; return the number of its lines, None if it was not read to its end.

    `read` returns the next bytes, empty at the end. `take` gets all of them and returns whether it wants more
    when the window is full.

    Raises:
        ValueError: the file is binary.
    """
    chunk = read(CHUNK_BYTES)
    encoding = encoding_of(chunk)
    if encoding is None:
        raise ValueError("binary")
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    while chunk:
        wants_more = take(chunk)
        window.feed(decoder.decode(chunk))
        if is_cancelled() or (window.is_full and not wants_more):
            return None
        chunk = read(CHUNK_BYTES)
    window.feed(decoder.decode(b"", final=True))
    return window.finish()


PathText = Annotated[str, Field(min_length=1, max_length=PATH_CHARS_MAX)]


@sealed
class Excerpt:
    """A part of a file."""

    text: str
    path: str
    digest: str | None
    """The hash of the whole content; None if the file is too large for that."""


def asks_for_secrets(arguments: JsonObject) -> str:
    """Say when a tool that shows files asks: always, if a path of its arguments is that of credentials."""
    paths = arguments.get("paths", [arguments.get("path", ".")])
    if not isinstance(paths, list):
        return "policy"  # They are refused.
    # An approval of one does not cover the next.
    return "always" if any(is_secret(str(path)) for path in paths) else "policy"


def check_secret(path: str, target: str) -> None:
    """Refuse a path that leads to credentials, if its own text did not say so: no person was asked.

    Raises:
        ToolFailed: it leads there.
    """
    if is_secret(target) and not is_secret(path):
        raise ToolFailed(
            f"{shown_path(path)} is {shown_path(target)}, which has the name of credentials; "
            "read it by that name, so that a person is asked"
        )


def read_file_tool(folder_of: FindFolder, marks: Marks) -> Tool[..., object]:
    """Return the tool that reads files of a folder."""

    @tool(mode="read", approval=asks_for_secrets)
    async def read_file(
        path: PathText,
        ctx: ToolContext,
        offset: Annotated[int, Field(ge=1)] = 1,
        limit: Annotated[int, Field(ge=1, le=OUTPUT_LINES_MAX)] = OUTPUT_LINES_MAX,
    ) -> str:
        """Read a text file of the workspace; one with the name of credentials needs the consent of a person.

        Every line is shown behind its number and a tab.

        Args:
            path: The file, relative to the workspace.
            offset: The first line to show; 1 is the first of the file.
            limit: How many lines to show at most.
        """
        window, folder = Window(offset, limit), await folder_of(ctx)
        excerpt = await in_thread(
            partial(read_excerpt, folder, path, window=window, is_cancelled=lambda: ctx.is_cancelled)
        )
        if excerpt.digest is not None:
            marks.note(ctx.state, excerpt.path, digest=excerpt.digest)
        return excerpt.text

    return read_file.with_options(is_outbound=False, reads="untrusted", on_compaction=marks.reminder)


def read_excerpt(folder: Folder, path: str, *, window: Window, is_cancelled: Callable[[], bool]) -> Excerpt:
    """Read a part of a file.

    Raises:
        ToolFailed: it cannot be read as text.
    """
    with folder.walk(path) as place:
        check_secret(path, place.path)
        handle = folder.open_file(place)
        try:
            digest = Digest()
            total = read_window(window, partial(os.read, handle), take=digest.take, is_cancelled=is_cancelled)
        except ValueError:
            size = os.fstat(handle).st_size
            raise ToolFailed(f"{shown_path(path)} is not text ({size:,} bytes of binary data)") from None
        finally:
            os.close(handle)
        return Excerpt(_window_text(window, total), place.path, digest.text if total is not None else None)


class Digest:
    """The hash of a content up to a size limit."""

    def __init__(self) -> None:
        self.size = 0
        self._hash = sha256()

    def take(self, chunk: bytes) -> bool:
        """Add bytes; return whether more are wanted."""
        self.size += len(chunk)
        if self.size > SCAN_BYTES_MAX:
            raise ToolFailed(f"the file is too large to read further: limit {SCAN_BYTES_MAX:,} bytes")
        if self.size > MARKED_FILE_BYTES_MAX:
            return False
        self._hash.update(chunk)
        return True

    @property
    def text(self) -> str | None:
        """The hash; None if the content was too large."""
        return None if self.size > MARKED_FILE_BYTES_MAX else self._hash.hexdigest()


def _window_text(window: Window, total: int | None) -> str:
    if total == 0:
        return "[the file is empty]"
    if total is not None and window.first > total:
        raise ToolFailed(f"the file has {total:,} lines; offset {window.first:,} is past its end")
    shown = [f"{window.first + at:>6}\t{line}" for at, line in enumerate(window.lines)]
    last = window.first + len(window.lines) - 1
    if window.is_full:
        total_text = "more" if total is None else f"{total:,} in all"
        shown.append(f"[lines {window.first:,} to {last:,}, {total_text}; go on with offset={last + 1}]")
    if window.has_returns:
        shown.append("[the lines end with CR LF]")
    if window.has_lost:
        shown.append("[some bytes are not text in the encoding of the file and are shown as \ufffd]")
    return "\n".join(shown)


class FolderListing:
    """Lines of one result, up to the output limits."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._bytes = 0
        self.is_full = False
        """Whether a line was left out; further lines are ignored then."""

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, line: str) -> None:
        """Add a line, if there is room."""
        self._bytes += len(line.encode("utf-8", "replace")) + 1
        self.is_full |= len(self._lines) >= OUTPUT_LINES_MAX or self._bytes > OUTPUT_BYTES_MAX
        if not self.is_full:
            self._lines.append(line)

    def text(self, *notes: str) -> str:
        """Return all lines, followed by notes."""
        return "\n".join([*self._lines, *(f"[{note}]" for note in notes if note)])
