"""Live deltas: the text of answers in progress, kept until their message is durable."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from msgspec import Struct, json
from pydantic import JsonValue

from windlass.feed.cursors import LIVE_BYTES_MAX, LIVE_CHARS_MAX, LIVE_PIECES_MAX, PIECE_CHARS_MAX
from windlass_harness.record import Record, to_delta
from windlass_harness.views.events import SHARED_FIELDS
from windlass_protocol import Event, JsonObject
from windlass_protocol.bodies import Part, data_of
from windlass_protocol.frozen import frozen
from windlass_protocol.generated.records import ActionResult


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
_KINDS: Final = {kind.type: kind for kind in (_TEXT, _REASONING, _INPUT)}
_STEP_FIELDS: Final = tuple(sorted(SHARED_FIELDS))
Call = tuple[str, str | None]
Joined = tuple[_Kind, Call | None, str]
"""A text delta: its kind, its call, its text."""
Newest = tuple[str, JsonObject]
"""A delta that replaces the previous one of its kind: its type and data."""


class SentPiece(Struct, array_like=True):
    """A delta on its way to another process."""

    type: str
    """The type of its event; empty for a delta that was replaced, or is too large to be sent."""
    text: str = ""
    """The text, or the data as JSON."""
    call_id: str = ""
    """The call that the delta belongs to."""
    tool_name: str | None = None


_NO_PIECE: Final = SentPiece("")


class StepUpdate(Struct, array_like=True):
    """New deltas of a step, for another process."""

    session_id: str
    started_seq: int
    """Number of the record that began the step."""
    last_seq: int
    """Number of the newest record of the session that the sender had published."""
    base: int
    """Index of the first delta that no record replaced."""
    index: int
    """Index of the first delta of this update."""
    pieces: list[SentPiece]


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
        while len(delta) > PIECE_CHARS_MAX:
            pieces.append((kind, call, delta[:PIECE_CHARS_MAX]))
            delta = delta[PIECE_CHARS_MAX:]
        pieces.append((kind, call, delta))
        return True

    def pieces_since(self, index: int) -> list[SentPiece]:
        """Return the deltas from an index on, one for each index, for another process."""
        return [self._piece_to_send(at) for at in range(index - self.base, len(self._pieces))]

    def take(self, sent: SentPiece) -> None:
        """Add a delta of another process under the next index."""
        index, kind = self.next_index, _KINDS.get(sent.type)
        if kind is not None:
            self.join(kind, sent.text, call=(sent.call_id, sent.tool_name) if sent.call_id else None)
        elif sent.type:
            self.replace(sent.type, sent.call_id, data=json.decode(sent.text))
        if self.next_index == index:
            # Indexes stay those of the sender.
            self._pieces.append(None)

    def drop_before(self, index: int) -> None:
        """Remove the deltas before an index, which a record replaced."""
        for key in [key for key, at in self._newest.items() if at < index]:
            self.forget(*key)
        del self._pieces[: index - self.base]
        self.base, self._last = max(self.base, index), None

    def _piece_to_send(self, at_piece: int) -> SentPiece:
        piece = self._pieces[at_piece]
        if piece is None:
            return _NO_PIECE
        if len(piece) == 3:
            kind, call, text = piece
            call_id, tool_name = call or ("", None)
            # Half of a surrogate pair cannot be sent.
            text = text if text.isascii() else text.encode("utf-8", "replace").decode()
            return SentPiece(kind.type, text, call_id, tool_name)
        event_type, data = piece
        [call_id] = [key for (_, key), index in self._newest.items() if index == self.base + at_piece]
        text = json.encode(data).decode()
        return SentPiece(event_type, text, call_id) if len(text) <= PIECE_CHARS_MAX else _NO_PIECE

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
        end, last = self.next_index, self._last
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
        data: JsonObject = {kind.field: "".join(texts), **step_fields(self.started)}
        if call is not None:
            data |= call_fields(call)
        return data


def _same(piece: Joined | Newest | None, first: Joined) -> str | None:
    """Return the text of a delta that continues the first one; None if it does not."""
    if piece is None or len(piece) == 2 or piece[0] is not first[0] or piece[1] != first[1]:
        return None
    return piece[2]


def step_fields(started: Record) -> JsonObject:
    """Return the step coordinates that every delta carries."""
    data = started.data
    return {name: data[name] for name in _STEP_FIELDS if name in data}


class _CallFields(Part, frozen=True, kw_only=True):
    call_id: str
    tool_name: str | None = None


def call_fields(call: Call) -> JsonObject:
    """Return the call fields that a delta carries."""
    call_id, tool_name = call
    return data_of(_CallFields(call_id=call_id, tool_name=tool_name))


class LiveStep:
    """A step in progress; see `LiveAnswer`."""

    __slots__ = (
        "_on_change",
        "_on_close",
        "_replaced_seq",
        "_result_seq",
        "is_followed",
        "pieces",
        "stamp",
        "started",
    )

    def __init__(
        self,
        started: Record,
        *,
        on_change: "Callable[[LiveStep], None]",
        on_close: "Callable[[LiveStep], None]",
        is_followed: bool = False,
    ) -> None:
        self.started = started
        self.pieces: StepDeltas | None = StepDeltas(started)
        """None after `close`."""
        self.stamp = 0
        self.is_followed = is_followed
        """Whether another process drives the step."""
        self._replaced_seq = 0
        """Number of the newest record that was read and replaces deltas, of a step that is followed."""
        self._result_seq = 0
        """Number of the newest result of a call that was read."""
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
        data: JsonObject = {
            "output": output,
            **step_fields(self.started),
            **call_fields((call_id, tool_name)),
        }
        self._replace("action.partial", call_id, data)

    def show(self, event_type: str, data: JsonObject) -> None:
        """Show an event of any other type; only the newest of its type is kept."""
        self._replace(event_type, "", data)

    def take(self, update: StepUpdate) -> bool:
        """Show deltas of the process that drives the step; False if some before them are missing."""
        pieces = self.pieces
        if pieces is None or update.last_seq < self._replaced_seq:
            # A record that was read has them.
            return True
        if update.base > pieces.base:
            if update.base > pieces.next_index:
                pieces = self.pieces = StepDeltas(self.started, update.base)
            else:
                pieces.drop_before(update.base)
        if update.index > pieces.next_index:
            return False
        pieces.follow(update.last_seq)
        for sent in update.pieces[pieces.next_index - update.index :]:
            is_stale = sent.type not in _KINDS and update.last_seq < self._result_seq
            pieces.take(_NO_PIECE if is_stale else sent)
        self._on_change(self)
        return True

    def note_read(self, record: Record, *, ends_step: bool) -> None:
        """Note that a reader has a record of a step that another process drives."""
        if not self.is_followed or record.seq <= self.started.seq:
            return
        if record.type == ActionResult.TYPE:
            self._result_seq = max(self._result_seq, record.seq)
        else:
            self._replaced_seq = max(self._replaced_seq, record.seq)
        if ends_step:
            self.close()

    def close(self) -> None:
        """Discard the live state of the step."""
        self.pieces = None
        self._on_close(self)

    def _replace(self, event_type: str, key: str, data: JsonObject) -> None:
        if self.pieces is not None and self.pieces.replace(event_type, key, data=data):
            self._on_change(self)
