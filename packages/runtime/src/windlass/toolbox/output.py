"""What a call shows of much: the first lines, and that there was more."""

from windlass.toolbox.limits import OUTPUT_BYTES_MAX, OUTPUT_LINES_MAX


class Listing:
    """Lines of one result, as many as the limits allow."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._bytes = 0
        self.is_full = False
        """Whether a line was left out; no further one is taken then."""

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, line: str) -> None:
        """Add a line, if there is room."""
        self._bytes += len(line.encode("utf-8", "replace")) + 1
        self.is_full |= len(self._lines) >= OUTPUT_LINES_MAX or self._bytes > OUTPUT_BYTES_MAX
        if not self.is_full:
            self._lines.append(line)

    def text(self, *notes: str) -> str:
        """Return all lines, and notes behind them."""
        return "\n".join([*self._lines, *(f"[{note}]" for note in notes if note)])
