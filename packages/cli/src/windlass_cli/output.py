"""Output of the command: the terminal, exit codes, JSON lines, tables and traces.

The result of a command goes to standard output, everything else to standard error. Text from models and tools
is not trusted: control characters never reach a terminal.
"""

import asyncio
import dataclasses
import json
import os
import sys
import termios
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Final, TextIO, TypeVar, cast

from pydantic import BaseModel
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

if TYPE_CHECKING:
    from windlass.catalog import Page, RunTrace
    from windlass.client import TraceInfo
    from windlass_protocol import TraceEvent, TraceSpan, Usage

T = TypeVar("T")
MICROS: Final = 1_000_000
CELL_CHARS: Final = 80
LINE_CHARS: Final = 400
FILE_COLUMNS: Final = 10_000
"""The width of output that is not written to a terminal."""
BAR_CHARS: Final = 40
NAME_CHARS: Final = 34
NO_VALUE: Final = "–"
_READ_BYTES: Final = 4096
_PLAIN_CONTROLS: Final = frozenset("\n\t")


class Exit(IntEnum):
    """The exit codes of the command."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    """The arguments or settings are wrong, or name something that does not exist."""
    WAITING = 3
    """The run waits for a person, and standard input is not a terminal."""
    CANCELLED = 4
    CONFLICT = 5
    """The state does not allow it: a request was answered already, or a run has not failed."""
    INTERRUPTED = 130
    """Ctrl-C. The run is stored and can be resumed."""


class CommandError(Exception):
    """Ends the command with a message, a hint that says what to do, and an exit code."""

    def __init__(self, message: str, hint: str = "", *, code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code


# the terminal


class Terminal:
    """Standard output for results, standard error for everything else, and a line of input."""

    def __init__(self, out: TextIO, err: TextIO, *, source: TextIO) -> None:
        self.out = Console(file=out, highlight=False, markup=False, soft_wrap=True)
        if not self.out.is_terminal:
            # A tree is cut at the right edge, which a file does not have.
            self.out.width = FILE_COLUMNS
        self.err = Console(file=err, highlight=False, markup=False, soft_wrap=True)
        self._source = source
        self._typed = b""
        """Bytes read from a terminal after the end of the last line."""

    @property
    def is_interactive(self) -> bool:
        """Whether a person can be asked."""
        return self._source.isatty() and self.err.is_terminal

    def say(self, text: str, style: str = "") -> None:
        """Write a message to standard error."""
        self.err.print(Text(plain(text), style=style))

    def show(self, text: str, style: str = "") -> None:
        """Write a line of the result for people."""
        self.out.print(Text(plain(text), style=style))

    def write(self, text: str) -> None:
        """Write a piece of the result as it arrives."""
        self.out.file.write(plain(text) if self.out.is_terminal else text)
        self.out.file.flush()

    def line(self, text: str) -> None:
        """Write a line for programs; on a terminal, control characters are escaped."""
        self.out.file.write(f"{escape_controls(text) if self.out.is_terminal else text}\n")
        self.out.file.flush()

    def forget(self) -> None:
        """Discard pending input, which was typed before the next question was shown."""
        if self._source.isatty():
            self._typed = b""
            with suppress(termios.error):  # the terminal is closed: no input is pending
                termios.tcflush(self._source.fileno(), termios.TCIFLUSH)

    async def ask(self, prompt: str) -> str | None:
        """Return the next line of input; None at its end."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str] = loop.create_future()

        def settle(line: str) -> None:
            if not answer.done():
                answer.set_result(line)

        def read() -> None:
            try:
                line = self._read_typed() if self._source.isatty() else self._source.readline()
            except (OSError, ValueError):  # the terminal is closed
                line = ""
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, line)

        self.err.file.write(plain(prompt))
        self.err.file.flush()
        # A daemon thread: after Ctrl-C the process must end without waiting for a key.
        threading.Thread(target=read, daemon=True).start()
        line = await answer
        return line.rstrip("\r\n") if line else None

    def _read_typed(self) -> str:
        """Read a line from a terminal without a stdio buffer, which `forget` could not empty."""
        while b"\n" not in self._typed:
            piece = os.read(self._source.fileno(), _READ_BYTES)
            self._typed += piece
            if not piece:
                break
        line, end, self._typed = self._typed.partition(b"\n")
        return (line + end).decode("utf-8", "replace")


def standard_terminal() -> Terminal:
    """Return the terminal of the process; it writes UTF-8 in every locale."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="replace")
    return Terminal(sys.stdout, sys.stderr, source=sys.stdin)


def plain(text: str) -> str:
    """Replace control characters and bidirectional overrides."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in _PLAIN_CONTROLS else "�" for char in text)


def escape_controls(text: str) -> str:
    """Return a line of JSON with escapes for the characters that `plain` replaces."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


# values


def to_json(value: object) -> str:
    """Return a value as one line of JSON with the field names of the wire."""
    return json.dumps(_data(value), ensure_ascii=False)


def _data(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, Enum):
        return cast(object, value.value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {_camel(field.name): getattr(value, field.name) for field in dataclasses.fields(value)}
        return {name: _data(field_value) for name, field_value in fields.items() if field_value is not None}
    if isinstance(value, Mapping):
        return {str(name): _data(item) for name, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_data(item) for item in cast("Sequence[object]", value)]
    return value


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.title() for word in others)


def short(text: str, chars: int = CELL_CHARS) -> str:
    """Return a text as one line of at most so many characters, without control characters."""
    line = plain(" ".join(text.split()))
    return line if len(line) <= chars else f"{line[: chars - 1]}…"


def when(text: str | None) -> str:
    """Return a timestamp in local time."""
    return NO_VALUE if text is None else f"{moment(text).astimezone():%m-%d %H:%M:%S}"


def moment(text: str) -> datetime:
    """Return a timestamp of the journal."""
    return datetime.fromisoformat(text)


def duration(start: str | None, end: str | None) -> str:
    """Return the duration between two timestamps."""
    return (
        NO_VALUE if start is None or end is None else seconds((moment(end) - moment(start)).total_seconds())
    )


def seconds(number: float) -> str:
    """Return a duration in a unit of its size."""
    if number < 1:
        return f"{number * 1000:.0f} ms"
    if number < 120:
        return f"{number:.1f} s"
    return f"{number / 60:.0f} min" if number < 7200 else f"{number / 3600:.1f} h"


def tokens(usage: "Usage") -> str:
    """Return the input and output tokens."""
    return f"{usage.input_tokens or 0:,}/{usage.output_tokens or 0:,}"


def cost(usage: "Usage") -> str:
    """Return the cost in dollars, or a dash if it is not known."""
    return NO_VALUE if usage.cost_micros is None else f"${usage.cost_micros / MICROS:.4f}"


# lists


def show_table(
    terminal: Terminal,
    header: Sequence[str],
    *,
    rows: Iterable[Sequence[str]],
    right: Sequence[int] = (),
) -> int:
    """Write a table, cut at the right edge of the terminal; return the number of rows.

    The first column is never cut: it holds the id that the next command needs. Columns in
    `right` are aligned to the right.
    """
    cells = [[short(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(header, *cells, strict=True)]
    for at, row in enumerate([header, *cells] if cells else []):
        padded = [
            " " * (width - cell_len(cell)) + cell if column in right else set_cell_size(cell, width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        line = Text("  ".join(padded).rstrip(), style="" if at else "bold")
        if terminal.out.is_terminal:
            line.truncate(max(terminal.out.width, widths[0]))
        terminal.out.print(line)
    return len(cells)


def show_page(
    terminal: Terminal,
    page: "Page[T]",
    *,
    show: Callable[[Sequence[T]], object],
    empty: str,
    as_json: bool,
) -> None:
    """Write a page of a list with `show`, or as a line of JSON for each item; `empty` if there are none."""
    if as_json:
        for item in page.items:
            terminal.line(to_json(item))
        return
    show(page.items)
    if not page.items:
        terminal.say(empty)
    elif page.next is not None:
        terminal.say(f"There are more than these {len(page.items)}: raise --limit.", "dim")


# traces


def show_tree(terminal: Terminal, trace: "RunTrace | TraceInfo", *, status: str) -> None:
    """Write the spans of a run as a tree in order of time, with durations, costs and failures."""
    first = trace.spans[0]
    tree = Tree(Text(f"{trace.trace.trace_id} {status}, {_duration_text(first)}"))
    branches = {first.span_id: tree}
    events = [event for event in trace.events if not event.name.startswith("policy.allowed")]
    for _, parent_id, item in _walk_spans(trace.spans, events):
        branch = branches.get(parent_id, tree)
        if isinstance(item, str):
            branch.add(Text(short(item, LINE_CHARS), style="dim"))
        else:
            branches[item.span_id] = branch.add(_branch(item))
    terminal.out.print(tree)


def _branch(span: "TraceSpan") -> Text:
    """Return the line of a span; a failed call has its error.

    The error of a model call is shown by `step.retrying` below it, or by the end of the run.
    """
    attrs = span.attrs or {}
    line = f"{short(span.name)}  {_duration_text(span)}{_usage_text(span)}"
    if "code" not in attrs or span.name == "turn":
        return Text(line)
    error = f": {short(str(attrs.get('message')), LINE_CHARS)}" if "status" in attrs else ""
    return Text(f"✗ {line}{error}", style="red")


def show_waterfall(terminal: Terminal, trace: "RunTrace | TraceInfo") -> None:
    """Write the spans of a run as bars on one time axis."""
    first = trace.spans[0]
    begin = moment(first.start_at)
    ends = [moment(span.end_at or span.start_at) for span in trace.spans]
    whole = max((max(ends) - begin).total_seconds(), 0.001)
    rows = [(0, first), *((depth, item) for depth, _, item in _walk_spans(trace.spans, ()))]
    for depth, span in rows:
        assert not isinstance(span, str), "no events were asked for"
        start = (moment(span.start_at) - begin).total_seconds()
        end = (moment(span.end_at) - begin).total_seconds() if span.end_at else whole
        left = min(int(start / whole * BAR_CHARS), BAR_CHARS - 1)
        width = max(1, min(round((end - start) / whole * BAR_CHARS), BAR_CHARS - left))
        bar = (" " * left + "█" * width).ljust(BAR_CHARS)
        name = "  " * depth + short(span.name, NAME_CHARS - 2 * depth)
        took = seconds(end - start) if span.end_at else "not ended"
        terminal.out.print(Text(f"{name.ljust(NAME_CHARS)} {bar} {took}{_usage_text(span)}"))


def _walk_spans(
    spans: "Sequence[TraceSpan]", events: "Sequence[TraceEvent]"
) -> "Iterator[tuple[int, str, TraceSpan | str]]":
    """Yield depth, parent and item of everything below the first span, depth first, by time."""
    first, span_ids = spans[0], {span.span_id for span in spans}
    below: dict[str, list[tuple[datetime, TraceSpan | str]]] = {}
    for span in spans[1:]:
        parent_id = span.parent_id if span.parent_id in span_ids else first.span_id
        below.setdefault(parent_id or first.span_id, []).append((moment(span.start_at), span))
    for event in events:
        if event.span_id != first.span_id:
            message = (event.attrs or {}).get("message")
            text = event.name if message is None else f"{event.name}: {message}"
            below.setdefault(event.span_id, []).append((moment(event.at), text))

    def walk(parent_id: str, depth: int) -> "Iterator[tuple[int, str, TraceSpan | str]]":
        # Times have milliseconds: an event stands before a span that starts in the same one.
        for _, item in sorted(
            below.get(parent_id, ()), key=lambda pair: (pair[0], not isinstance(pair[1], str))
        ):
            yield depth, parent_id, item
            if not isinstance(item, str):
                yield from walk(item.span_id, depth + 1)

    return walk(first.span_id, 1)


def _duration_text(span: "TraceSpan") -> str:
    return "not ended" if span.end_at is None else duration(span.start_at, span.end_at)


def _usage_text(span: "TraceSpan") -> str:
    attrs = span.attrs or {}
    parts: list[str] = []
    if "inputTokens" in attrs or "outputTokens" in attrs:
        parts.append(f"{attrs.get('inputTokens', 0)}/{attrs.get('outputTokens', 0)} tokens")
    micros = attrs.get("costMicros")
    if micros is not None:
        parts.append(f"${cast(int, micros) / MICROS:.4f}")
    return f"  ({', '.join(parts)})" if parts else ""
