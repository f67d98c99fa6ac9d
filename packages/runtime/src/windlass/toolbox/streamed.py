"""Output that comes in pieces and without end: both ends of it are kept."""

from collections.abc import Callable
from typing import Final

from windlass.toolbox.limits import (
    OUTPUT_BYTES_MAX,
    OUTPUT_LINES_MAX,
    PROGRESS_CHARS_MAX,
    PROGRESS_INTERVAL_S,
)

_HALF_BYTES: Final = OUTPUT_BYTES_MAX // 2
_HALF_LINES: Final = OUTPUT_LINES_MAX // 2


class Streamed:
    """The output of a command: its beginning and its end, and live what comes in."""

    def __init__(self, report: Callable[[object], None], now: Callable[[], float]) -> None:
        self._report = report
        self._now = now
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0
        self._reported_at = float("-inf")

    def feed(self, chunk: bytes) -> None:
        """Take the next piece."""
        self._size += len(chunk)
        room = _HALF_BYTES - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:] if room > 0 else chunk
        if len(self._tail) > 2 * _HALF_BYTES:
            del self._tail[:-_HALF_BYTES]
        now = self._now()
        if now - self._reported_at >= PROGRESS_INTERVAL_S:
            self._reported_at = now
            self._report({"output": _decoded(chunk[-PROGRESS_CHARS_MAX:]), "bytes": self._size})

    def text(self) -> str:
        """Return the output, or both ends of it with what is missing between them."""
        tail = self._tail[-_HALF_BYTES:]
        if len(self._head) + len(tail) == self._size:
            lines = _decoded(bytes(self._head + tail)).split("\n")
            if len(lines) <= OUTPUT_LINES_MAX:
                return "\n".join(lines)
            first, last = lines, lines
        else:
            # Cut at the ends of lines: half a line could hold half a secret, which nobody would recognise.
            first = _decoded(bytes(self._head.rpartition(b"\n")[0] or self._head)).split("\n")
            last = _decoded(bytes(tail.partition(b"\n")[2] or tail)).split("\n")
        gap = f"[… the middle is left out: {self._size:,} bytes in all …]"
        return "\n".join([*first[:_HALF_LINES], gap, *last[-_HALF_LINES:]])


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")
