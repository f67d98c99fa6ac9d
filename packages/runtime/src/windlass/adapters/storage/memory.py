"""A storage in memory, for tests and for sidecars that keep nothing."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import nlargest, nsmallest
from typing import TypeVar

from pydantic import BaseModel

from windlass.adapters.storage.document_storage import DocumentStorage
from windlass.adapters.storage.documents import (
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
    is_same,
)
from windlass.adapters.storage.refusals import conflict, rejected
from windlass.ports.storage import Deleted

T = TypeVar("T", bound=BaseModel)
Key = tuple[Column, ...]
Group = dict[Key, dict[str, Column]]


class InMemoryStorage(DocumentStorage):
    """A `StorageAdapter` that forgets everything when the process ends."""

    def __init__(self) -> None:
        super().__init__(_MemoryTables())


@dataclass(slots=True)
class _MemoryTables:
    """Rows by shape, group and key; no method waits, so each is one step."""

    groups: defaultdict[str, defaultdict[Column, Group]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(dict))
    )
    last_position: int = 0

    async def write(self, shape: Shape[T], rows: Sequence[Row]) -> None:
        if shape.is_traced and (rows[0]["trace_id"],) not in self.groups[TRACE.name][""]:
            raise rejected("no such trace: expected one that is stored")
        group = self.groups[shape.name][_group_of(shape, rows[0])]
        changed: Group = {}
        for row in rows:
            key = tuple(row[name] for name in shape.key)
            known = changed.get(key) or group.get(key)
            if known is None:
                self.last_position += 1
                changed[key] = {**row, "position": self.last_position}
            elif shape.is_replaced:
                changed[key] = {**row, "position": known["position"]}
            elif not is_same(str(known["body"]), str(row["body"])):
                raise conflict(f"another {shape.name} has the same id")
        group.update(changed)

    async def find(self, shape: Shape[T], key: Sequence[str]) -> Stored | None:
        row = self.groups[shape.name][""].get(tuple(key))
        return None if row is None else _stored(shape, row)

    async def scan(self, scan: Scan[T]) -> Sequence[Stored]:
        found = [
            stored
            for row in self._candidates(scan)
            if all(row[name] == value for name, value in scan.where.items())
            and all(word in str(row["search_text"]) for word in scan.words)
            and _is_behind(stored := _stored(scan.shape, row), scan)
        ]
        pick = nlargest if scan.is_backward else nsmallest
        return pick(scan.limit, found, key=_place)

    async def delete_session(self, session_id: str) -> Deleted:
        sessions = self.groups[SESSION.name][""]
        session = sessions.pop((session_id,), None)
        messages = 0
        if session is not None and all(row["chat_id"] != session["chat_id"] for row in sessions.values()):
            messages = len(self.groups[MESSAGE.name].pop(session["chat_id"], ()))
        traces = self.groups[TRACE.name][""]
        gone = [key for key, row in traces.items() if row["session_id"] == session_id]
        for key in gone:
            del traces[key]
        return Deleted(
            sessions=0 if session is None else 1,
            messages=messages,
            traces=len(gone),
            spans=sum(len(self.groups[SPAN.name].pop(key[0], ())) for key in gone),
            events=sum(len(self.groups[EVENT.name].pop(key[0], ())) for key in gone),
        )

    async def aclose(self) -> None:
        self.groups.clear()

    def _candidates(self, scan: Scan[T]) -> Iterable[dict[str, Column]]:
        groups = self.groups[scan.shape.name]
        if scan.shape.group is None or scan.shape.group in scan.where:
            return groups.get(_group_of(scan.shape, scan.where), {}).values()
        return (row for group in groups.values() for row in group.values())


def _group_of(shape: Shape[T], row: Row) -> Column:
    return "" if shape.group is None else row[shape.group]


def _stored(shape: Shape[T], row: Row) -> Stored:
    return Stored(tuple(int(row[name]) for name in shape.order), str(row["body"]))


def _place(stored: Stored) -> tuple[int, ...]:
    return stored.place


def _is_behind(stored: Stored, scan: Scan[T]) -> bool:
    if scan.after is None:
        return True
    return stored.place < scan.after if scan.is_backward else stored.place > scan.after
