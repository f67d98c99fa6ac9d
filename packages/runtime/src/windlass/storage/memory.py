"""`InMemoryStorage`: the storage port without a database, for tests and for processes that keep nothing."""

from collections.abc import Sequence
from heapq import nlargest, nsmallest
from typing import TypeVar

from pydantic import BaseModel

from windlass.storage.documents import (
    EVENT,
    MESSAGE,
    SESSION,
    SPAN,
    TRACE,
    Column,
    DocumentKind,
    DocumentStorage,
    Row,
    Scan,
    Stored,
    conflicts,
    no_trace,
    other_document,
)

T = TypeVar("T", bound=BaseModel)
Rows = dict[tuple[Column, ...], dict[str, Column]]


class InMemoryStorage(DocumentStorage):
    """A `StorageAdapter` that loses everything when the process ends.

    A list reads all documents of its kind.
    """

    def __init__(self) -> None:
        super().__init__(_MemoryTables())


class _MemoryTables:
    """Rows by kind and key. No method awaits, so each is atomic."""

    def __init__(self) -> None:
        self._rows: dict[str, Rows] = {}
        self._last_position = 0

    async def write(self, kind: DocumentKind[T], rows: Sequence[Row]) -> None:
        if kind.is_traced and (rows[0]["trace_id"],) not in self._table(TRACE):
            raise no_trace()
        table, changed = self._table(kind), Rows()
        for row in rows:
            key = tuple(row[name] for name in kind.key)
            row_before = changed.get(key) or table.get(key)
            if row_before is None:
                self._last_position += 1
                changed[key] = {**row, "position": self._last_position}
            elif conflicts(kind, str(row_before["body"]), row):
                raise other_document(kind)
            elif kind.is_replaced:
                changed[key] = {**row, "position": row_before["position"]}
        table.update(changed)

    async def scan(self, scan: Scan[T]) -> Sequence[Stored]:
        rows = (
            Stored(tuple(int(row[name]) for name in scan.kind.order), str(row["body"]))
            for row in self._table(scan.kind).values()
            if all(row[name] == value for name, value in scan.where.items())
        )
        after = scan.after
        if scan.is_backward:
            remaining = (stored for stored in rows if after is None or stored.position < after)
            return nlargest(scan.limit, remaining, key=lambda stored: stored.position)
        remaining = (stored for stored in rows if after is None or stored.position > after)
        return nsmallest(scan.limit, remaining, key=lambda stored: stored.position)

    async def delete_session(self, session_id: str) -> bool:
        sessions = self._table(SESSION)
        session = sessions.pop((session_id,), None)
        if session is not None and all(row["chat_id"] != session["chat_id"] for row in sessions.values()):
            self._drop(MESSAGE.name, "chat_id", {session["chat_id"]})
        traces = {row["trace_id"] for row in self._table(TRACE).values() if row["session_id"] == session_id}
        for name in (TRACE.name, SPAN.name, EVENT.name):
            self._drop(name, "trace_id", traces)
        return session is not None

    async def aclose(self) -> None:
        self._rows.clear()

    def _table(self, kind: DocumentKind[T]) -> Rows:
        return self._rows.setdefault(kind.name, {})

    def _drop(self, name: str, column: str, values: set[Column]) -> None:
        rows = self._rows.get(name, {})
        self._rows[name] = {key: row for key, row in rows.items() if row[column] not in values}
