"""The storage port over tables: columns of each kind of document, checks, cursors and pages.

Both adapters are this class over their own `Tables`, so that limits, order and cursors are the same in each.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from types import TracebackType
from typing import Final, Generic, Protocol, Self, TypeVar

from pydantic import BaseModel, JsonValue

from windlass.errors import AgentError, Conflict, Corrupt, Rejected
from windlass.limits import (
    STORAGE_BATCH_ITEMS_MAX,
    STORAGE_CURSOR_CHARS_MAX,
    STORAGE_DOCUMENT_BYTES_MAX,
    STORAGE_ID_BYTES_MAX,
    STORAGE_PAGE_ITEMS_MAX,
)
from windlass.storage.adapter import DocumentPage
from windlass_protocol import (
    AgentSession,
    ChatAgent,
    ChatMessage,
    ErrorKind,
    HarnessTrace,
    RetryClass,
    TraceEvent,
    TraceSpan,
)
from windlass_protocol.codec import CodecError, CodecLimits, canonical, decode, encode, parse
from windlass_protocol.frozen import sealed

T = TypeVar("T", bound=BaseModel)
E = TypeVar("E", bound=AgentError)

Column = str | int | bool
Row = Mapping[str, Column]
"""The columns of one document by name; `body` is the document as JSON text."""

_LIMITS: Final = CodecLimits(message_bytes_max=STORAGE_DOCUMENT_BYTES_MAX)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NO_SORT_ORDER: Final = 2**53
"""Larger than every `sortOrder` that the wire allows."""
_CURSOR_PART_MAX: Final = 2**63 - 1


def failure(kind: type[E], message: str, retry: RetryClass = RetryClass.NOT_RETRYABLE) -> E:
    """Return an error of a storage."""
    return kind(message, kind=ErrorKind.JOURNAL_FAILURE, retry=retry)


@sealed
class DocumentKind(Generic[T]):
    """A kind of document, and the columns that its table has beside `position` and `body`.

    The name of a column says its type: `is_…` is a boolean, `…_us` and `…_rank` are 64-bit integers, others
    are texts.
    """

    name: str
    model: type[T]
    key: tuple[str, ...]
    """The columns that identify one document."""
    columns: Callable[[T], Row]
    order: tuple[str, ...] = ("position",)
    """The integer columns that order a list; `position`, the number of the row, is last."""
    others: tuple[str, ...] = ()
    """Columns that are neither part of the key nor of the order."""
    is_replaced: bool = True
    """Whether a document replaces the one with its key; if not, both must be equal."""
    is_traced: bool = False
    """Whether its first key column names a stored trace."""


SESSION: Final = DocumentKind(
    "session",
    AgentSession,
    ("session_id",),
    lambda it: {
        "session_id": it.session_id,
        "user_id": it.user_id,
        "chat_id": it.chat_id,
        "is_active": it.is_active,
        "created_us": _microseconds(it.created_at),
    },
    order=("created_us", "position"),
    others=("user_id", "chat_id", "is_active"),
)
AGENT: Final = DocumentKind(
    "agent",
    ChatAgent,
    ("agent_id",),
    lambda it: {
        "agent_id": it.id,
        "is_archived": it.is_archived is True,
        "sort_rank": _NO_SORT_ORDER if it.sort_order is None else it.sort_order,
        "created_us": _microseconds(it.created_at),
    },
    order=("sort_rank", "created_us", "position"),
    others=("is_archived",),
)
MESSAGE: Final = DocumentKind(
    "message",
    ChatMessage,
    ("chat_id", "message_id"),
    lambda it: {"chat_id": it.chat_id or "", "message_id": it.id},
    is_replaced=False,
)
TRACE: Final = DocumentKind(
    "trace",
    HarnessTrace,
    ("trace_id",),
    lambda it: {
        "trace_id": it.trace_id,
        "session_id": it.session_id,
        "started_us": _microseconds(it.started_at),
    },
    order=("started_us", "position"),
    others=("session_id",),
)
SPAN: Final = DocumentKind(
    "span", TraceSpan, ("trace_id", "span_id"), lambda it: {"span_id": it.span_id}, is_traced=True
)
EVENT: Final = DocumentKind(
    "trace_event",
    TraceEvent,
    ("trace_id", "event_id"),
    lambda it: {"event_id": it.event_id},
    is_replaced=False,
    is_traced=True,
)


@sealed
class Stored:
    """A document as a table returns it."""

    position: tuple[int, ...]
    """The values of the columns in `Kind.order`."""
    body: str


@sealed
class Scan(Generic[T]):
    """A query for documents of one kind in their order."""

    kind: DocumentKind[T]
    limit: int
    where: Row = field(default_factory=dict[str, Column])
    """Values that columns must equal."""
    after: tuple[int, ...] | None = None
    """The position behind which to begin."""
    is_backward: bool = False


class Tables(Protocol):
    """One table for each kind of document. Errors are those of the storage port."""

    async def write(self, kind: DocumentKind[T], rows: Sequence[Row]) -> None:
        """Store rows in order, all or none, by the rules of their kind."""
        ...

    async def scan(self, scan: Scan[T]) -> Sequence[Stored]:
        """Return at most `scan.limit` documents in their order."""
        ...

    async def delete_session(self, session_id: str) -> bool:
        """Delete a session as the port describes."""
        ...

    async def aclose(self) -> None:
        """Close the database."""
        ...


class DocumentStorage:
    """A `StorageAdapter` over tables; it can be used with `async with`."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._tables.aclose()

    async def upsert_session(self, session: AgentSession) -> AgentSession:
        return await self._store(SESSION, session)

    async def get_session(self, session_id: str) -> AgentSession | None:
        return await self._get(SESSION, session_id=session_id)

    async def list_sessions(
        self,
        *,
        user_id: str | None = None,
        chat_id: str | None = None,
        active_only: bool = False,
        limit: int = STORAGE_PAGE_ITEMS_MAX,
        cursor: str | None = None,
    ) -> DocumentPage[AgentSession]:
        where = _present_filters(user_id=user_id, chat_id=chat_id)
        if active_only:
            where["is_active"] = True
        return await self._page(Scan(SESSION, limit, where, is_backward=True), cursor)

    async def delete_session(self, session_id: str) -> bool:
        return await self._tables.delete_session(_check_id("session id", session_id))

    async def upsert_agent(self, agent: ChatAgent) -> ChatAgent:
        return await self._store(AGENT, agent)

    async def get_agent(self, agent_id: str) -> ChatAgent | None:
        return await self._get(AGENT, agent_id=agent_id)

    async def list_agents(
        self,
        *,
        include_archived: bool = False,
        limit: int = STORAGE_PAGE_ITEMS_MAX,
        cursor: str | None = None,
    ) -> DocumentPage[ChatAgent]:
        where: Row = {} if include_archived else {"is_archived": False}
        return await self._page(Scan(AGENT, limit, where), cursor)

    async def append_message(self, message: ChatMessage) -> ChatMessage:
        if message.chat_id is None:
            raise failure(Rejected, "message without chatId: expected the id of its chat")
        return await self._store(MESSAGE, message)

    async def list_messages(
        self, chat_id: str, limit: int = STORAGE_PAGE_ITEMS_MAX, *, cursor: str | None = None
    ) -> DocumentPage[ChatMessage]:
        page = await self._page(
            Scan(MESSAGE, limit, _present_filters(chat_id=chat_id), is_backward=True), cursor
        )
        page.reverse()
        return page

    async def upsert_trace(self, trace: HarnessTrace) -> HarnessTrace:
        return await self._store(TRACE, trace)

    async def get_trace(self, trace_id: str) -> HarnessTrace | None:
        return await self._get(TRACE, trace_id=trace_id)

    async def list_traces(
        self, session_id: str, *, limit: int = STORAGE_PAGE_ITEMS_MAX, cursor: str | None = None
    ) -> DocumentPage[HarnessTrace]:
        return await self._page(
            Scan(TRACE, limit, _present_filters(session_id=session_id), is_backward=True), cursor
        )

    async def append_spans(self, trace_id: str, spans: Sequence[TraceSpan]) -> None:
        await self._append(SPAN, trace_id, spans)

    async def list_spans(
        self, trace_id: str, *, limit: int = STORAGE_PAGE_ITEMS_MAX, cursor: str | None = None
    ) -> DocumentPage[TraceSpan]:
        return await self._page(Scan(SPAN, limit, _present_filters(trace_id=trace_id)), cursor)

    async def append_events(self, trace_id: str, events: Sequence[TraceEvent]) -> None:
        await self._append(EVENT, trace_id, events)

    async def list_events(
        self, trace_id: str, *, limit: int = STORAGE_PAGE_ITEMS_MAX, cursor: str | None = None
    ) -> DocumentPage[TraceEvent]:
        return await self._page(Scan(EVENT, limit, _present_filters(trace_id=trace_id)), cursor)

    async def _store(self, kind: DocumentKind[T], document: T) -> T:
        stored, row = _encode_row(kind, document)
        await self._tables.write(kind, [row])
        return stored

    async def _get(self, kind: DocumentKind[T], **key: str) -> T | None:
        rows = await self._tables.scan(Scan(kind, 1, _present_filters(**key)))
        return _read(kind, rows[0]) if rows else None

    async def _append(self, kind: DocumentKind[T], trace_id: str, documents: Sequence[T]) -> None:
        if len(documents) > STORAGE_BATCH_ITEMS_MAX:
            raise failure(
                Rejected,
                f"too many documents in one append: {len(documents):,}, limit {STORAGE_BATCH_ITEMS_MAX:,}",
            )
        trace = _present_filters(trace_id=trace_id)
        if documents:
            await self._tables.write(kind, [trace | _encode_row(kind, document)[1] for document in documents])

    async def _page(self, scan: Scan[T], cursor: str | None) -> DocumentPage[T]:
        limit = scan.limit
        if not 1 <= limit <= STORAGE_PAGE_ITEMS_MAX:
            raise failure(Rejected, f"bad limit: expected 1 to {STORAGE_PAGE_ITEMS_MAX:,}, found {limit:,}")
        after = None if cursor is None else _parse_cursor(cursor, scan)
        rows = await self._tables.scan(replace(scan, limit=limit + 1, after=after))
        page = rows[:limit]
        next_cursor = _cursor_of(scan, page[-1].position) if len(rows) > limit else None
        return DocumentPage((_read(scan.kind, stored) for stored in page), next_cursor)


def conflicts(kind: DocumentKind[T], stored: str, row: Row) -> bool:
    """Return whether a row has the key of a stored document that it may not replace."""
    body = str(row["body"])
    if kind.is_replaced or stored == body:
        return False
    # The order of fields does not count.
    return canonical(parse(stored, _LIMITS), _LIMITS) != canonical(parse(body, _LIMITS), _LIMITS)


def other_document(kind: DocumentKind[T]) -> Conflict:
    """Return the error for a document that `conflicts`."""
    return failure(Conflict, f"another {kind.name} with this id is stored")


def no_trace() -> Rejected:
    """Return the error for spans and events of a trace that is not stored."""
    return failure(Rejected, "unknown trace: store it with upsert_trace first")


def _encode_row(kind: DocumentKind[T], document: T) -> tuple[T, dict[str, Column]]:
    """Return a document as it will be read, and its row."""
    try:
        raw = encode(document, _LIMITS)
        # Decoded at once: a model that was built without validation is refused now, not by the next reader.
        stored = decode(kind.model, raw, limits=_LIMITS)
    except CodecError as error:
        problem = error.message
    else:
        row: dict[str, Column] = {
            name: _check_id(name.replace("_", " "), value) if isinstance(value, str) else value
            for name, value in kind.columns(stored).items()
        }
        return stored, {**row, "body": raw.decode()}
    # Raised outside of the handler: the codec error holds values of the document.
    raise failure(Rejected, f"the {kind.name} cannot be stored: {problem}")


def _read(kind: DocumentKind[T], stored: Stored) -> T:
    try:
        return decode(kind.model, stored.body, limits=_LIMITS)
    except CodecError as error:
        problem = error.message
    message = f"the stored {kind.name} in row {stored.position[-1]} is damaged: {problem}"
    raise failure(Corrupt, message, RetryClass.REPAIR_NEEDED)


def _check_id(name: str, value: str) -> str:
    """Return an id that every database can hold."""
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        size = None
    if size is None or "\0" in value:
        raise failure(Rejected, f"bad {name}: expected text without NUL characters and lone surrogates")
    if size > STORAGE_ID_BYTES_MAX:
        raise failure(Rejected, f"{name} too long: {size:,} bytes, limit {STORAGE_ID_BYTES_MAX:,}")
    return value


def _present_filters(**filters: str | None) -> dict[str, Column]:
    """Return the filters that are not None."""
    return {
        name: _check_id(name.replace("_", " "), value) for name, value in filters.items() if value is not None
    }


def _microseconds(moment: str) -> int:
    return (datetime.fromisoformat(moment) - _EPOCH) // _MICROSECOND


def _scope_of(scan: Scan[T]) -> str:
    """Return a digest of a list and its filters."""
    text = json.dumps([scan.kind.name, sorted(scan.where.items())])
    return sha256(text.encode()).hexdigest()[:16]


def _cursor_of(scan: Scan[T], position: Sequence[int]) -> str:
    return urlsafe_b64encode(json.dumps([_scope_of(scan), *position]).encode()).decode().rstrip("=")


def _parse_cursor(cursor: str, scan: Scan[T]) -> tuple[int, ...]:
    parsed: JsonValue = None
    if len(cursor) <= STORAGE_CURSOR_CHARS_MAX:
        try:
            parsed = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        except ValueError:
            parsed = None
    match parsed:
        case [str(scope), *parts]:
            position = tuple(
                part for part in parts if isinstance(part, int) and abs(part) <= _CURSOR_PART_MAX
            )
            if scope == _scope_of(scan) and len(position) == len(parts) == len(scan.kind.order):
                return position
            raise failure(Rejected, "cursor of another list: expected one of the same list and filters")
        case _:
            raise failure(Rejected, "not a cursor: expected the next_cursor of a page")
