"""The lines of a file, some of them kept, the file never as a whole."""

import codecs
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from windlass.toolbox.limits import (
    CHUNK_BYTES,
    LINE_CHARS_MAX,
    OUTPUT_BYTES_MAX,
    SNIFF_BYTES,
)

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
LOST: Final = "\ufffd"
"""Stands for bytes that are no text."""


def encoding_of(beginning: bytes) -> str | None:
    """Return the encoding that the first bytes of a file tell; None if it is binary."""
    for bom, encoding in _BOMS:
        if beginning.startswith(bom):
            return encoding
    return None if b"\0" in beginning[:SNIFF_BYTES] else "utf-8"


@dataclass(slots=True)
class Window:
    """Lines from `first` on, at most `most` of them, each cut to its limit."""

    first: int
    most: int
    lines: list[str] = field(default_factory=list[str])
    number: int = 1
    """Of the line that is being read."""
    is_full: bool = False
    has_lost: bool = False
    has_returns: bool = False
    _parts: list[str] = field(default_factory=list[str])
    _chars: int = 0
    _bytes: int = 0

    def feed(self, text: str) -> None:
        """Take the next piece of text."""
        if LOST in text:
            self.has_lost = True
        first, *others = text.split("\n")
        self._add(first)
        for piece in others:
            self._end()
            self._add(piece)

    def finish(self) -> int:
        """Take what is left as the last line; return how many lines there were."""
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
    """Read a file into a window; return how many lines it has.

    None if it was not read to its end. `read` gives the next bytes and none at the end. `take` sees all of
    them, and says whether it wants more when the window is full.

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
