"""How each type of the wire is stored: whole, with columns to find and order it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Generic, TypeVar

from pydantic import BaseModel

from windlass.adapters.storage.refusals import corrupt, rejected
from windlass.adapters.storage.words import fold, texts_in
from windlass.limits import STORAGE_DOCUMENT_BYTES_MAX, STORAGE_ID_BYTES_MAX
from windlass_protocol import AgentSession, ChatAgent, ChatMessage, HarnessTrace, TraceEvent, TraceSpan
from windlass_protocol.codec import CodecError, CodecLimits, canonical, decode, encode, parse

T = TypeVar("T", bound=BaseModel)

Column = str | int | bool
Row = Mapping[str, Column]
"""The columns of one document by their names; `body` is the document itself."""

_LIMITS: Final = CodecLimits(message_bytes_max=STORAGE_DOCUMENT_BYTES_MAX)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NO_SORT_ORDER: Final = 2**53
"""Behind every sort order that the wire allows."""


@dataclass(frozen=True, slots=True)
class Shape(Generic[T]):
    """One kind of document."""

    name: str
    model: type[T]
    key: tuple[str, ...]
    """The columns that name one document."""
    order: tuple[str, ...] = ("position",)
    """The columns that order a list, the number of the row last: all of them integers."""
    group: str | None = None
    """The column that every list of it is about, if there is one."""
    is_replaced: bool = True
    """Whether a later document with the same key takes the place of the first; else it must be the same."""
    is_traced: bool = False
    """Whether it lies in a trace, which must be there first."""


SESSION: Final = Shape("session", AgentSession, ("session_id",), order=("created_us", "position"))
AGENT: Final = Shape("agent", ChatAgent, ("agent_id",), order=("sort_key", "created_us", "position"))
MESSAGE: Final = Shape("message", ChatMessage, ("chat_id", "message_id"), group="chat_id", is_replaced=False)
TRACE: Final = Shape("trace", HarnessTrace, ("trace_id",), order=("started_us", "position"))
SPAN: Final = Shape("span", TraceSpan, ("trace_id", "span_id"), group="trace_id", is_traced=True)
EVENT: Final = Shape(
    "event", TraceEvent, ("trace_id", "event_id"), group="trace_id", is_replaced=False, is_traced=True
)


@dataclass(frozen=True, slots=True)
class Stored:
    """A document as it comes from a database."""

    place: tuple[int, ...]
    """The values of the columns that order it."""
    body: str


@dataclass(frozen=True, slots=True)
class Scan(Generic[T]):
    """A question for documents of one kind, in their order."""

    shape: Shape[T]
    limit: int
    where: Row = field(default_factory=dict[str, Column])
    """What columns must be equal to."""
    words: tuple[str, ...] = ()
    """What the searched text must hold, each of them."""
    after: tuple[int, ...] | None = None
    """The place behind which to begin."""
    is_backward: bool = False
    """From the end to the beginning."""


def session_row(session: AgentSession) -> tuple[AgentSession, Row]:
    """Return a session as it is stored, and its row."""
    stored, body = _written(SESSION, session)
    row: Row = {
        "session_id": checked_id("sessionId", stored.session_id),
        "user_id": checked_id("userId", stored.user_id),
        "chat_id": checked_id("chatId", stored.chat_id),
        "is_active": stored.is_active,
        "created_us": _microseconds(stored.created_at),
        "search_text": session_search_text(body),
        "body": body,
    }
    return stored, row


def agent_row(agent: ChatAgent) -> tuple[ChatAgent, Row]:
    """Return an agent as it is stored, and its row."""
    stored, body = _written(AGENT, agent)
    row: Row = {
        "agent_id": checked_id("id", stored.id),
        "is_archived": stored.is_archived is True,
        "sort_key": _NO_SORT_ORDER if stored.sort_order is None else stored.sort_order,
        "created_us": _microseconds(stored.created_at),
        "body": body,
    }
    return stored, row


def message_row(message: ChatMessage) -> tuple[ChatMessage, Row]:
    """Return a message as it is stored, and its row."""
    stored, body = _written(MESSAGE, message)
    if stored.chat_id is None:
        raise rejected("message without chatId: expected the chat that it belongs to")
    row: Row = {
        "chat_id": checked_id("chatId", stored.chat_id),
        "message_id": checked_id("id", stored.id),
        "search_text": fold(stored.content),
        "body": body,
    }
    return stored, row


def trace_row(trace: HarnessTrace) -> tuple[HarnessTrace, Row]:
    """Return a trace as it is stored, and its row."""
    stored, body = _written(TRACE, trace)
    row: Row = {
        "trace_id": checked_id("traceId", stored.trace_id),
        "session_id": checked_id("sessionId", stored.session_id),
        "started_us": _microseconds(stored.started_at),
        "body": body,
    }
    return stored, row


def span_row(trace_id: str, span: TraceSpan) -> Row:
    """Return the row of a span."""
    stored, body = _written(SPAN, span)
    return {"trace_id": trace_id, "span_id": checked_id("spanId", stored.span_id), "body": body}


def event_row(trace_id: str, event: TraceEvent) -> Row:
    """Return the row of an event."""
    stored, body = _written(EVENT, event)
    return {"trace_id": trace_id, "event_id": checked_id("eventId", stored.event_id), "body": body}


def session_search_text(body: str) -> str:
    """Return the searched text of a stored session: all of it but its dates."""
    document = parse(body, _LIMITS)
    if isinstance(document, dict):
        document = {name: value for name, value in document.items() if name not in {"createdAt", "updatedAt"}}
    return fold("\n".join(texts_in(document)))


def checked_id(name: str, value: str) -> str:
    """Return an identifier that every database can hold.

    Raises:
        Rejected: it is too long, or holds what a database cannot.
    """
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        size = None
    if size is None or "\0" in value:
        raise rejected(f"bad {name}: expected text without NUL and lone surrogates")
    if size > STORAGE_ID_BYTES_MAX:
        raise rejected(f"{name} too long: {size:,} bytes, limit {STORAGE_ID_BYTES_MAX:,}")
    return value


def read(shape: Shape[T], stored: Stored) -> T:
    """Return a stored document.

    Raises:
        Corrupt: it is not what this library writes.
    """
    try:
        return decode(shape.model, stored.body, limits=_LIMITS)
    except CodecError as error:
        problem = error.message
    raise corrupt(f"the stored {shape.name} in row {stored.place[-1]} is damaged: {problem}")


def is_same(one: str, other: str) -> bool:
    """Return whether two stored documents differ at most in the order of fields."""
    return one == other or canonical(parse(one, _LIMITS), _LIMITS) == canonical(
        parse(other, _LIMITS), _LIMITS
    )


def _written(shape: Shape[T], document: T) -> tuple[T, str]:
    """Return a document as it will be read, and its text."""
    try:
        raw = encode(document, _LIMITS)
        # Read back at once: whoever went around validation learns it now, not from the next reader.
        return decode(shape.model, raw, limits=_LIMITS), raw.decode()
    except CodecError as error:
        problem = error.message
    raise rejected(f"the {shape.name} cannot be stored: {problem}")


def _microseconds(moment: str) -> int:
    return (datetime.fromisoformat(moment) - _EPOCH) // _MICROSECOND
