"""Frames: one JSON message on each line, never more of it than a limit."""

from collections.abc import Iterator
from dataclasses import dataclass

from windlass_sidecar.limits import FRAME_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Refused:
    """A line that is not looked at."""

    reason: str


Frame = bytes | Refused


class LineReader:
    """Cuts what comes into lines; it keeps the beginning of one line at most."""

    def __init__(self, bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._begun = bytearray()
        self._is_skipping = False

    @property
    def is_half(self) -> bool:
        """Whether a line has begun and not ended."""
        return bool(self._begun)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the lines that are whole now; one that is too long is told of once.

        Lines of white space are passed over.
        """
        at = 0
        while (end := data.find(b"\n", at)) >= 0:
            yield from self._take(data[at:end])
            yield from self._ended()
            at = end + 1
        yield from self._take(data[at:])

    def end(self) -> Iterator[Frame]:
        """Yield what is left when nothing more comes: a last line needs no end."""
        yield from self._ended()

    def give_up(self) -> Refused:
        """Forget the line that has begun; the next byte begins another."""
        size = len(self._begun)
        self._begun.clear()
        return Refused(f"half a frame: {size:,} bytes came without a line feed, and then nothing")

    def _take(self, piece: bytes) -> Iterator[Frame]:
        if self._is_skipping:
            return
        if len(self._begun) + len(piece) <= self._bytes_max:
            self._begun += piece
            return
        self._is_skipping = True
        self._begun = bytearray()
        yield Refused(f"frame too long: limit {self._bytes_max:,} bytes")

    def _ended(self) -> Iterator[Frame]:
        line = bytes(self._begun)
        self._begun = bytearray()
        is_skipped, self._is_skipping = self._is_skipping, False
        if not is_skipped and line.strip(b" \t\r"):
            yield line
