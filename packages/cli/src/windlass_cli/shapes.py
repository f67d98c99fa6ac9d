"""Values as people and machines read them: JSON, tables, times and costs."""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Final, cast

import pydantic
from rich.text import Text

from windlass_cli.terminal import Terminal, plain

if TYPE_CHECKING:
    from windlass_protocol import Usage

MICROS: Final = 1_000_000
CELL_CHARS: Final = 80


def to_json(value: object) -> str:
    """Return a value as one line of JSON, with the names that it has on the wire."""
    return json.dumps(_data(value), ensure_ascii=False)


def _data(value: object) -> object:
    if isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, Enum):
        return cast(object, value.value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {_camel(field.name): getattr(value, field.name) for field in dataclasses.fields(value)}
        return {name: _data(one) for name, one in fields.items() if one is not None}
    if isinstance(value, Mapping):
        return {str(name): _data(one) for name, one in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_data(one) for one in cast("Sequence[object]", value)]
    return value


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.title() for word in others)


def show_table(terminal: Terminal, header: Sequence[str], rows: Iterable[Sequence[str]]) -> int:
    """Write a table, cut on the right to fit a terminal; return how many rows it has.

    What begins a row is copied into the next command, so it is never cut.
    """
    cells = [[short(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    for at, row in enumerate([header, *cells] if cells else []):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        room = max(terminal.out.width, widths[0]) if terminal.out.is_terminal else len(line)
        terminal.out.print(Text(line[:room], style="" if at else "bold"))
    return len(cells)


def short(text: str, chars: int = CELL_CHARS) -> str:
    """Return a text as one short line that cannot move the cursor."""
    line = plain(" ".join(text.split()))
    return line if len(line) <= chars else f"{line[: chars - 1]}…"


def when(text: str | None) -> str:
    """Return a time as it is here."""
    return "–" if text is None else f"{moment(text).astimezone():%m-%d %H:%M:%S}"


def moment(text: str) -> datetime:
    """Return a time of the journal."""
    return datetime.fromisoformat(text)


def lasted(start: str | None, end: str | None) -> str:
    """Return how long something took."""
    return "–" if start is None or end is None else seconds((moment(end) - moment(start)).total_seconds())


def seconds(number: float) -> str:
    """Return a span of time in the unit that suits it."""
    if number < 1:
        return f"{number * 1000:.0f} ms"
    if number < 120:
        return f"{number:.1f} s"
    return f"{number / 60:.0f} min" if number < 7200 else f"{number / 3600:.1f} h"


def tokens(usage: "Usage") -> str:
    """Return how many tokens were used, in and out."""
    return f"{usage.input_tokens or 0:,}/{usage.output_tokens or 0:,}"


def cost(usage: "Usage") -> str:
    """Return what was paid; nothing is said of what nobody knows."""
    return "–" if usage.cost_micros is None else f"${usage.cost_micros / MICROS:.4f}"
