"""The storage port over tables: all that does not depend on the database.

Limits, cursors, search and export are here once, so that no two storages can differ in them.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

from pydantic import BaseModel

from windlass.adapters.storage.cursors import read_cursor, scope_of, write_cursor
from windlass.adapters.storage.documents import (
    AGENT,
    EVENT,
    MESSAGE,
    SESSION,
    SPAN,
    TRACE,
    Column,
    Row,
    Scan,
    Shape,
    Stored,
    agent_row,
    checked_id,
    event_row,
    message_row,
    read,
    session_row,
    span_row,
    trace_row,
)
from windlass.adapters.storage.refusals import conflict, rejected
from windlass.adapters.storage.words import searched_words
from windlass.limits import STORAGE_BATCH_ITEMS_MAX, STORAGE_PAGE_ITEMS_MAX
from windlass.ports.storage import Deleted, Page
from windlass_protocol import AgentSession, ChatAgent, ChatMessage, HarnessTrace, TraceEvent, TraceSpan

T = TypeVar("T", bound=BaseModel)

_EXPORT_PAGE_ITEMS: Final = 64
"""Documents that an export holds in memory at a time."""
_EXPORT_HEAD: Final = b'{"format":"windlass.session","version":1,"session":'


class Tables(Protocol):
    """One table for each shape of document. Errors are those of the storage port."""

    async def write(self, shape: Shape[T], rows: Sequence[Row]) -> None:
        """Store rows of one group in order, all or none, as `Shape` says."""
        ...

    async def find(self, shape: Shape[T], key: Sequence[str]) -> Stored | None:
        """Return the document with that key."""
        ...

    async def scan(self, scan: Scan[T]) -> Sequence[Stored]:
        """Return documents in order, at most as many as the limit says."""
        ...

    async def delete_session(self, session_id: str) -> Deleted:
        """Delete a session as the port says."""
        ...

    async def aclose(self) -> None:
        """Let go of the database."""
        ...


class DocumentStorage:
    """A `StorageAdapter` over tables."""

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
        stored, row = session_row(session)
        await self._tables.write(SESSION, [row])
        return stored

    async def get_session(self, session_id: str) -> AgentSession | None:
        return await self._get(SESSION, checked_id("session id", session_id))

    async def list_sessions(
        self,
        *,
        user_id: str | None = None,
        chat_id: str | None = None,
        active_only: bool = False,
        limit: int = STORAGE_PAGE_ITEMS_MAX,
        cursor: str | None = None,
    ) -> Page[AgentSession]:
        where = _named(user_id=user_id, chat_id=chat_id) | ({"is_active": True} if active_only else {})
        return await self._page(Scan(SESSION, limit, where, is_backward=True), cursor)

    async def search_sessions(
        self,
        text: str,
        *,
        user_id: str | None = None,
        limit: int = STORAGE_PAGE_ITEMS_MAX,
        cursor: str | None = None,
    ) -> Page[AgentSession]:
        words = searched_words(text)
        return await self._page(
            Scan(SESSION, limit, _named(user_id=user_id), words=words, is_backward=True), cursor
        )

    async def delete_session(self, session_id: str) -> Deleted:
        return await self._tables.delete_session(checked_id("session id", session_id))

    async def export_session(self, session_id: str) -> AsyncIterator[bytes]:
        key = (checked_id("session id", session_id),)
        found = await self._tables.find(SESSION, key)
        if found is None:
            raise rejected("no such session: expected one that is stored")
        session = read(SESSION, found)
        yield _EXPORT_HEAD + found.body.encode()
        messages = Scan(MESSAGE, _EXPORT_PAGE_ITEMS, {"chat_id": session.chat_id})
        async for piece in self._array("messages", messages):
            yield piece
        yield b',"traces":['
        separator = b""
        traces = Scan(TRACE, _EXPORT_PAGE_ITEMS, {"session_id": session_id})
        async for trace, body in self._all(traces):
            yield separator + b'{"trace":' + body
            separator = b","
            where: Row = {"trace_id": trace.trace_id}
            async for piece in self._array("spans", Scan(SPAN, _EXPORT_PAGE_ITEMS, where)):
                yield piece
            async for piece in self._array("events", Scan(EVENT, _EXPORT_PAGE_ITEMS, where)):
                yield piece
            yield b"}"
        if await self._tables.find(SESSION, key) is None:
            raise conflict("the session was deleted while it was exported")
        yield b"]}"

    async def upsert_agent(self, agent: ChatAgent) -> ChatAgent:
        stored, row = agent_row(agent)
        await self._tables.write(AGENT, [row])
        return stored

    async def get_agent(self, agent_id: str) -> ChatAgent | None:
        return await self._get(AGENT, checked_id("agent id", agent_id))

    async def list_agents(
        self,
        *,
        include_archived: bool = False,
        limit: int = STORAGE_PAGE_ITEMS_MAX,
        cursor: str | None = None,
    ) -> Page[ChatAgent]:
        where: Row = {} if include_archived else {"is_archived": False}
        return await self._page(Scan(AGENT, limit, where), cursor)

    async def append_message(self, message: ChatMessage) -> ChatMessage:
        stored, row = message_row(message)
        await self._tables.write(MESSAGE, [row])
        return stored

    async def list_messages(
        self, chat_id: str, limit: int = STORAGE_PAGE_ITEMS_MAX, *, cursor: str | None = None
    ) -> Page[ChatMessage]:
        where = _named(chat_id=chat_id)
        page = await self._page(Scan(MESSAGE, limit, where, is_backward=True), cursor)
        page.reverse()
        return page

    async def search_messages(
        self,
        text: str,
        *,
        chat_id: str | None = None,
        limit: int = STORAGE_PAGE_ITEMS_MAX,
        cursor: str | None = None,
    ) -> Page[ChatMessage]:
        words = searched_words(text)
        return await self._page(
            Scan(MESSAGE, limit, _named(chat_id=chat_id), words=words, is_backward=True), cursor
        )

    async def upsert_trace(self, trace: HarnessTrace) -> HarnessTrace:
        stored, row = trace_row(trace)
        await self._tables.write(TRACE, [row])
        return stored

    async def get_trace(self, trace_id: str) -> HarnessTrace | None:
        return await self._get(TRACE, checked_id("trace id", trace_id))

    async def list_traces(
        self, session_id: str, *, limit: int = STORAGE_PAGE_ITEMS_MAX, cursor: str | None = None
    ) -> Page[HarnessTrace]:
        where = _named(session_id=session_id)
        return await self._page(Scan(TRACE, limit, where, is_backward=True), cursor)

    async def append_spans(self, trace_id: str, spans: Sequence[TraceSpan]) -> None:
        _check_batch(spans)
        checked_id("trace id", trace_id)
        if spans:
            await self._tables.write(SPAN, [span_row(trace_id, span) for span in spans])

    async def list_spans(
        self, trace_id: str, *, limit: int = STORAGE_PAGE_ITEMS_MAX, cursor: str | None = None
    ) -> Page[TraceSpan]:
        return await self._page(Scan(SPAN, limit, _named(trace_id=trace_id)), cursor)

    async def append_events(self, trace_id: str, events: Sequence[TraceEvent]) -> None:
        _check_batch(events)
        checked_id("trace id", trace_id)
        if events:
            await self._tables.write(EVENT, [event_row(trace_id, event) for event in events])

    async def list_events(
        self, trace_id: str, *, limit: int = STORAGE_PAGE_ITEMS_MAX, cursor: str | None = None
    ) -> Page[TraceEvent]:
        return await self._page(Scan(EVENT, limit, _named(trace_id=trace_id)), cursor)

    async def _get(self, shape: Shape[T], key: str) -> T | None:
        found = await self._tables.find(shape, (key,))
        return None if found is None else read(shape, found)

    async def _page(self, scan: Scan[T], cursor: str | None) -> Page[T]:
        limit, order = scan.limit, scan.shape.order
        if not 1 <= limit <= STORAGE_PAGE_ITEMS_MAX:
            raise rejected(f"bad limit: expected 1 to {STORAGE_PAGE_ITEMS_MAX:,}, found {limit:,}")
        scope = scope_of(scan.shape.name, {**scan.where, " words": scan.words})
        after = None if cursor is None else read_cursor(cursor, scope, parts=len(order))
        found = await self._tables.scan(replace(scan, limit=limit + 1, after=after))
        kept = found[:limit]
        next_cursor = write_cursor(scope, kept[-1].place) if len(found) > limit else None
        return Page((read(scan.shape, stored) for stored in kept), next_cursor)

    async def _all(self, scan: Scan[T]) -> AsyncIterator[tuple[T, bytes]]:
        """Yield each document with its text; the limit is how many are read at a time."""
        found = await self._tables.scan(scan)
        while found:
            for stored in found:
                yield read(scan.shape, stored), stored.body.encode()
            found = await self._tables.scan(replace(scan, after=found[-1].place))

    async def _array(self, name: str, scan: Scan[T]) -> AsyncIterator[bytes]:
        """Yield `,"name":[…]` in pieces."""
        yield f',"{name}":['.encode()
        separator = b""
        async for _, body in self._all(scan):
            yield separator + body
            separator = b","
        yield b"]"


def _named(**filters: str | None) -> dict[str, Column]:
    """Return the filters that are given."""
    return {
        name: checked_id(name.replace("_", " "), value)
        for name, value in filters.items()
        if value is not None
    }


def _check_batch(items: Sequence[object]) -> None:
    if len(items) > STORAGE_BATCH_ITEMS_MAX:
        raise rejected(f"too many at once: found {len(items):,}, limit {STORAGE_BATCH_ITEMS_MAX:,}")
