"""Live deltas: the text of answers in progress, kept until their message is durable."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from pydantic import JsonValue

from windlass.feed.cursors import LIVE_BYTES_MAX, LIVE_CHARS_MAX, LIVE_PIECES_MAX
from windlass_harness.record import Record, to_delta
from windlass_protocol import Event, JsonObject
from windlass_protocol.bodies import Part, data_of
from windlass_protocol.frozen import frozen


class PublishedRecord(NamedTuple):
    """A record and its event."""

    record: Record
    event: Event
    weight: int
    """Bytes, about."""


PART_BYTES: Final = 64
"""Approximate bytes of a value without its text, and of an event without its data."""
_WIDE: Final = 4
"""Bytes per character of a text that is not ASCII."""


def weight(value: JsonValue) -> int:
    """Return the approximate size of a value in memory, in bytes.

    Texts are not scanned, so the cost depends on the number of values only.
    """
    total, values = 0, [value]
    while values:
        item = values.pop()
        total += PART_BYTES
        if isinstance(item, str):
            total += len(item) if item.isascii() else _WIDE * len(item)
        elif isinstance(item, dict):
            total += sum(map(len, item))
            values += item.values()
        elif isinstance(item, list):
            values += item
    return total


@frozen
class _Kind:
    """A kind of text delta; deltas of one kind and call are joined."""

    type: str
    field: str
    so_far: str


_TEXT: Final = _Kind("message.appended", "messageDelta", "messageSoFar")
_REASONING: Final = _Kind("reasoning.appended", "reasoningDelta", "reasoningSoFar")
_INPUT: Final = _Kind("action.input.appended", "inputDelta", "inputSoFar")
"""Bytes of the widest character."""
Call = tuple[str, str | None]
Joined = tuple[_Kind, Call | None, str]
"""A text delta: its kind, its call, its text."""
Newest = tuple[str, JsonObject]
"""A delta that replaces the previous one of its kind: its type and data."""


class StepDeltas:
    """Deltas of a step since its last message.

    The index of a delta is its position here plus `base`.
    """

    __slots__ = ("_bytes", "_chars", "_last", "_newest", "_pieces", "base", "seq", "started")

    def __init__(self, started: Record, base: int = 0) -> None:
        self.started: Final = started
        """The record that began the step."""
        self.base = base
        self._pieces: list[Joined | Newest | None] = []
        self._newest: dict[tuple[str, str], int] = {}
        self._chars = 0
        self._bytes = 0
        """Bytes of the deltas added with `replace`."""
        self._last: tuple[int, int, list[Event]] | None = None
        self.seq = started.seq
        """Number of the last record of the session that was published."""

    def follow(self, seq: int) -> None:
        """Move after a later record of the session, so that a reader resuming there gets no repeats."""
        if seq > self.seq:
            self.seq = seq
            self._last = None

    @property
    def next_index(self) -> int:
        """Index of the next delta."""
        return self.base + len(self._pieces)

    @property
    def weight(self) -> int:
        """Approximate size in bytes."""
        return _WIDE * min(self._chars, LIVE_CHARS_MAX) + PART_BYTES * len(self._pieces) + self._bytes

    def join(self, kind: _Kind, delta: str, *, call: Call | None = None) -> bool:
        """Add a text delta; False if the answer exceeds the limit."""
        pieces = self._pieces
        self._chars += len(delta)
        if self._chars > LIVE_CHARS_MAX or (len(pieces) >= LIVE_PIECES_MAX and not self._trim()):
            return False
        pieces.append((kind, call, delta))
        return True

    def replace(self, event_type: str, key: str, *, data: JsonObject) -> bool:
        """Add a delta in place of the previous one of its key; False if there is no room."""
        self.forget(event_type, key)
        size = weight(data)
        if self._bytes + size > LIVE_BYTES_MAX:
            return False
        if len(self._pieces) >= LIVE_PIECES_MAX and not self._trim():
            return False
        self._bytes += size
        self._newest[event_type, key] = self.next_index
        self._pieces.append((event_type, data))
        return True

    def forget(self, event_type: str, key: str) -> None:
        """Remove a delta added with `replace`; other indexes do not change."""
        index = self._newest.pop((event_type, key), None)
        if index is not None:
            piece = self._pieces[index - self.base]
            assert piece is not None, "it is forgotten once"
            self._bytes -= weight(piece[1]) if len(piece) == 2 else 0
            self._pieces[index - self.base] = None
            self._last = None

    def since(self, index: int, now: Callable[[], str]) -> list[Event]:
        """Return the deltas from an index on; adjacent texts are joined.

        Readers at the same index share the events.
        """
        end, last = self.base + len(self._pieces), self._last
        if last is None or last[0] != index or last[1] != end:
            first = max(index, self.base)
            last = self._last = (index, end, list(self._events(first - self.base, now())))
        return last[2]

    def _trim(self) -> bool:
        """Free the removed deltas at the beginning."""
        count = next((at for at, piece in enumerate(self._pieces) if piece is not None), len(self._pieces))
        del self._pieces[:count]
        self.base += count
        return count > 0

    def _events(self, at_piece: int, at: str) -> Iterator[Event]:
        # A reader that starts at the beginning may have seen deltas before, if its cursor does not count
        # them: the first delta of each text also carries the text so far, which replaces the reader's text.
        begun: set[tuple[str, Call | None]] | None = set() if self.base + at_piece == 0 else None
        pieces = self._pieces
        while at_piece < len(pieces):
            piece = pieces[at_piece]
            at_piece += 1
            if piece is None:
                continue
            seq = self.started.seq
            if len(piece) == 2:
                # Progress arrives late in a step: a reader that resumes after it must get no repeats.
                (event_type, data), seq = piece, self.seq
            else:
                kind, call, delta = piece
                texts = [delta]
                while at_piece < len(pieces) and (more := _same(pieces[at_piece], piece)) is not None:
                    texts.append(more)
                    at_piece += 1
                event_type, data = kind.type, self._text_data(kind, call, texts)
                if begun is not None and (kind.type, call) not in begun:
                    begun.add((kind.type, call))
                    data[kind.so_far] = data[kind.field]
            index = self.base + at_piece - 1
            yield to_delta(self.started, event_type, data=data, position=(seq, index), at=at)

    def _text_data(self, kind: _Kind, call: Call | None, texts: list[str]) -> JsonObject:
        data: JsonObject = {kind.field: "".join(texts), **place_of(self.started)}
        if call is not None:
            data |= call_fields(call)
        return data


def _same(piece: Joined | Newest | None, first: Joined) -> str | None:
    """Return the text of a delta that continues the first one; None if it does not."""
    if piece is None or len(piece) == 2 or piece[0] is not first[0] or piece[1] != first[1]:
        return None
    return piece[2]


def place_of(started: Record) -> JsonObject:
    """Return the step coordinates that every delta carries."""
    data = started.data
    return {name: data[name] for name in ("sequence", "stepIndex", "turnId") if name in data}


class _CallFields(Part, frozen=True, kw_only=True):
    call_id: str
    tool_name: str | None = None


def call_fields(call: Call) -> JsonObject:
    """Return the call fields that a delta carries."""
    call_id, tool_name = call
    return data_of(_CallFields(call_id=call_id, tool_name=tool_name))


class LiveStep:
    """A step in progress; see `LiveAnswer`."""

    __slots__ = ("_on_change", "_on_close", "pieces", "stamp", "started")

    def __init__(
        self,
        started: Record,
        *,
        on_change: "Callable[[LiveStep], None]",
        on_close: "Callable[[LiveStep], None]",
    ) -> None:
        self.started = started
        self.pieces: StepDeltas | None = StepDeltas(started)
        """None after `close`."""
        self.stamp = 0
        self._on_change = on_change
        self._on_close = on_close

    def text(self, delta: str) -> None:
        """Show a delta of the answer."""
        pieces = self.pieces
        if delta and pieces is not None and pieces.join(_TEXT, delta):
            self._on_change(self)

    def reasoning(self, delta: str) -> None:
        """Show a delta of the reasoning."""
        pieces = self.pieces
        if delta and pieces is not None and pieces.join(_REASONING, delta):
            self._on_change(self)

    def tool_input(self, call_id: str, delta: str, *, tool_name: str | None = None) -> None:
        """Show a delta of the arguments of a call."""
        pieces = self.pieces
        if delta and pieces is not None and pieces.join(_INPUT, delta, call=(call_id, tool_name)):
            self._on_change(self)

    def partial(self, call_id: str, output: JsonValue, *, tool_name: str | None = None) -> None:
        """Show a partial result of a running call."""
        data: JsonObject = {"output": output, **place_of(self.started), **call_fields((call_id, tool_name))}
        self._replace("action.partial", call_id, data)

    def show(self, event_type: str, data: JsonObject) -> None:
        """Show an event of any other type; only the newest of its type is kept."""
        self._replace(event_type, "", data)

    def close(self) -> None:
        """Discard the live state of the step."""
        self.pieces = None
        self._on_close(self)

    def _replace(self, event_type: str, key: str, data: JsonObject) -> None:
        if self.pieces is not None and self.pieces.replace(event_type, key, data=data):
            self._on_change(self)
