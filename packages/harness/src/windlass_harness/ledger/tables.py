"""Text for a terminal: tables of at most a width, sparklines, and a form in ASCII."""

from collections.abc import Sequence
from typing import Final
from unicodedata import combining, east_asian_width

WIDTH: Final = 80
"""Columns of a terminal."""
_GAP: Final = "  "
_BARS: Final = "▁▂▃▄▅▆▇█"
_COLUMN_CHARS_MIN: Final = 8
"""What a column keeps of itself, however narrow the table is."""
_ASCII: Final = str.maketrans(
    {
        **dict(zip(_BARS, "_.:-=+*#", strict=True)),
        "✓": "+",
        "✗": "x",
        "…": "~",
        "→": "->",
        "·": "-",
        "±": "+-",
    }
)


def to_ascii(text: str) -> str:
    """Return a text that every terminal can show; what is unknown becomes ?."""
    return text.translate(_ASCII).encode("ascii", "replace").decode()


def sparkline(values: Sequence[float], *, low: float | None = None, high: float | None = None) -> str:
    """Return a small chart, a column for each value; `low` and `high` are its ends."""
    if not values:
        return ""
    bottom = min(values) if low is None else low
    top = max(values) if high is None else high
    spread = top - bottom
    steps = len(_BARS) - 1
    if spread <= 0:
        return _BARS[0] * len(values)
    return "".join(_BARS[round(min(max((one - bottom) / spread, 0), 1) * steps)] for one in values)


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), width: int = WIDTH
) -> list[str]:
    """Return the lines of a table; the last column is cut to what is left.

    `right` are the columns that are set to the right, as numbers are.
    """
    cells = [[clean(cell) for cell in row] for row in (head, *rows)]
    widths = [max(columns(row[at]) for row in cells) for at in range(len(head))]
    room = width - sum(widths[:-1]) - len(_GAP) * (len(head) - 1)
    widths[-1] = min(widths[-1], max(room, _COLUMN_CHARS_MIN))
    lines = [_line(row, widths, right) for row in cells]
    rule = _GAP.join("-" * one for one in widths)
    return [lines[0], rule, *lines[1:]]


def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> str:
    padded: list[str] = []
    for at, cell in enumerate(row):
        cell = shortened(cell, widths[at])
        space = " " * (widths[at] - columns(cell))
        padded.append(space + cell if at in right else cell + space)
    return _GAP.join(padded).rstrip()


def wrapped(text: str, *, indent: str = "", width: int = WIDTH) -> list[str]:
    """Return a text in lines of at most a width, broken between words."""
    lines: list[str] = []
    line = ""
    for word in clean(text).split(" "):
        joined = f"{line} {word}" if line else word
        if line and columns(indent) + columns(joined) > width:
            lines.append(indent + line)
            joined = word
        line = shortened(joined, width - columns(indent))
    return [*lines, indent + line]


def shortened(text: str, most: int) -> str:
    """Return a text, or as much of it as fits with a mark for the rest."""
    if columns(text) <= most:
        return text
    end = next(at for at in range(len(text)) if columns(text[: at + 1]) > most - 1)
    return f"{text[:end]}…"


def clean(text: str) -> str:
    """Return a text in one line, without what would move the cursor."""
    return "".join(one if one.isprintable() else " " for one in " ".join(text.split()))


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(0 if combining(one) else 2 if east_asian_width(one) in "WF" else 1 for one in text)
