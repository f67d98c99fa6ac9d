"""Cursors: the position of a reader, as a value and as a short text."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from functools import lru_cache
from typing import Final, assert_never

from pydantic import ValidationError

from windlass.ports.feed import bad_subscription
from windlass_protocol import AgentCursor, AllCursor, Cursor, Event, FilterCursor, RunCursor, SessionCursor
from windlass_protocol.generated.records import StepStarted
from windlass_protocol.unchecked import changed

EVENTS_PER_READ: Final = 256
"""Records per read, from the topic or from the journal."""
RING_BYTES_MAX: Final = 16 * 1_048_576
"""Approximate bytes of events that a topic holds; slower readers read the journal."""
TAIL_BYTES_MAX: Final = 8 * 1_048_576
"""Approximate bytes of deltas that a topic holds of answers that have just ended."""
LIVE_BYTES_MAX: Final = 1_048_576
"""Approximate bytes of progress and other newest-only deltas of a step; further ones are not shown."""
LIVE_PIECES_MAX: Final = 32_768
PIECE_CHARS_MAX: Final = 1_000
"""Characters of one delta; a longer one counts as several, so that each fits a message to another process."""
LIVE_CHARS_MAX: Final = 1_048_576
"""Characters kept of an answer in progress; a longer one continues without deltas."""
TAILS_MAX: Final = 64
"""Ended answers with last deltas that are held for readers that are waking up."""
ENCODED_IDS_MAX: Final = 4_096
"""Ids with a cached cursor text: all events of a stream share one id."""
CURSOR_CHARS_MAX: Final = 3_000
"""Characters of a cursor as text; the longest id of 512 characters fits."""

_TEXT: Final = re.compile(
    r"(?P<scope>[asrgf])(?:\.(?P<name>[A-Za-z0-9_-]{2,}))?"
    r"\.(?P<place>0|[1-9][0-9]{0,15})(?:\.i(?P<index>0|[1-9][0-9]{0,15}))?"
)
_DIGEST: Final = "sha256:"


class ReaderPosition:
    """The position of a reader while it reads: a mutable cursor."""

    __slots__ = ("_cursor", "_index", "_is_by_seq", "order")

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._is_by_seq = False
        if isinstance(cursor, SessionCursor | RunCursor):
            self._is_by_seq = True
            self.order = cursor.seq
            self._index = cursor.index
        else:
            self.order = cursor.position
            self._index = None

    @property
    def index(self) -> int:
        """Number of deltas seen of the step that is open at `order`."""
        return self._index or 0

    def order_of(self, event: Event) -> int:
        """Return the number of an event in this scope; a delta has the number of its step."""
        order = event.seq if self._is_by_seq else event.meta.position
        return self.order if order is None else order

    def pass_by(self, event: Event) -> None:
        """Advance past an event."""
        # A delta has the number of its step; other records may have been read since.
        order = event.seq if self._is_by_seq else event.meta.position
        if order is not None and order > self.order:
            self.order = order
        if event.index is not None:
            self._index = event.index + 1
        elif event.type == StepStarted.TYPE:
            self._index = None

    def cursor(self, order: int) -> Cursor:
        """Return the position as a cursor; there are no events for the reader up to `order`."""
        if self._is_by_seq:
            return changed(self._cursor, {"seq": order, "index": self._index})
        return changed(self._cursor, {"position": order})


def cursor_of(event: Event, before: Cursor) -> Cursor:
    """Return the cursor after an event, for a reader that was at `before`.

    `before` names the scope; a new reader starts at number 0. Pass every event, in order.
    """
    position = ReaderPosition(before)
    position.pass_by(event)
    return position.cursor(position.order)


def encode_cursor(cursor: Cursor) -> str:
    """Return a cursor as a short text of letters, digits and `._-`, to store it.

    Every call that takes a cursor takes its text, also in another process and a later version; so do servers
    and their clients.
    """
    match cursor:
        case AllCursor():
            return f"a.{cursor.position}"
        case SessionCursor():
            return f"s.{_pack(cursor.session_id.encode())}.{cursor.seq}{_index(cursor.index)}"
        case RunCursor():
            return f"r.{_pack(cursor.run_id.encode())}.{cursor.seq}{_index(cursor.index)}"
        case AgentCursor():
            return f"g.{_pack(cursor.agent_id.encode())}.{cursor.position}"
        case FilterCursor():
            return f"f.{_pack(bytes.fromhex(cursor.fingerprint.removeprefix(_DIGEST)))}.{cursor.position}"
        case _:
            assert_never(cursor)


def decode_cursor(text: str) -> Cursor:
    """Return the cursor of a text.

    Raises:
        Rejected: it is not a text that `encode_cursor` returns.
    """
    if len(text) > CURSOR_CHARS_MAX:
        raise bad_subscription(f"cursor too long: {len(text):,} characters, limit {CURSOR_CHARS_MAX:,}")
    match = _TEXT.fullmatch(text)
    try:
        cursor = None if match is None else _read(match)
    except ValueError:
        cursor = None
    # Accept only the canonical text: each cursor has exactly one.
    if cursor is None or encode_cursor(cursor) != text:
        raise bad_subscription("not a cursor: expected the text that encode_cursor(stream.cursor) returned")
    return cursor


def id_cursor(make: Callable[[str], Cursor], name: str) -> Cursor:
    """Return a cursor for an id; Rejected if the id is invalid."""
    try:
        return make(name)
    except ValidationError:
        pass
    raise bad_subscription("not an id: expected 1 to 512 characters, none of them a control character")


def _read(match: re.Match[str]) -> Cursor | None:
    name = None if match["name"] is None else urlsafe_b64decode(match["name"] + "==")
    number = int(match["place"])
    index = None if match["index"] is None else int(match["index"])
    match match["scope"], name:
        case "a", None:
            return AllCursor(position=number)
        case "s", bytes():
            return SessionCursor(session_id=name.decode(), seq=number, index=index)
        case "r", bytes():
            return RunCursor(run_id=name.decode(), seq=number, index=index)
        case "g", bytes():
            return AgentCursor(agent_id=name.decode(), position=number)
        case "f", bytes():
            return FilterCursor(fingerprint=_DIGEST + name.hex(), position=number)
        case _:
            return None


@lru_cache(maxsize=ENCODED_IDS_MAX)
def _pack(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _index(index: int | None) -> str:
    return "" if index is None else f".i{index}"
