"""Checksums that detect changed, lost or misplaced rows.

Each append is chained to the previous one of its session, and the session row holds the end of the chain. All
sums are keyed with the store id, so a row of another store never matches.
"""

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple, Self, cast

from pydantic_core import from_json

from windlass.adapters.journals.codec import decode_item, decode_records
from windlass.adapters.journals.rules import corrupt
from windlass.errors import Corrupt
from windlass.ports.catalog import SessionRow
from windlass.ports.documents import Document
from windlass.ports.inbox import InboxItem
from windlass.ports.journal import Standing
from windlass_harness.record import Record
from windlass_protocol.frozen import frozen

SESSION_KEYS_MAX: Final = 4_096
"""Session keys that are cached."""
_SEAL_BYTES: Final = 8
_CHAIN_BYTES: Final = 16
_WRONG_TYPES: Final = (TypeError, ValueError, AttributeError, OverflowError, KeyError, struct.error)
_FOUR: Final = struct.Struct(">4q")
_FIVE: Final = struct.Struct(">5q")
_STANDINGS: Final = {standing: standing.value for standing in Standing}
"""The values of the enumeration: its own attribute is a call."""


@frozen
class StoredSession:
    """A session row, with the end of its chain."""

    key: int
    row: SessionRow
    last_position: int
    chain: bytes


@frozen
class ChainLink:
    """The end of an append, and the checksum of the session up to it."""

    last_seq: int
    chain: bytes


START: Final = ChainLink(0, bytes(_CHAIN_BYTES))
"""The link before the first append of a session."""
STORE: Final = "SELECT store_id, last_position, seal FROM store"
SESSION_COLUMNS: Final = (
    "session_id, epoch, last_seq, last_position, chain, standing, wake_at_ms, owner_id, seal"
)
APPEND_COLUMNS: Final = "last_position, last_seq, epoch, chain, body"
_AppendRow = tuple[int, int, int, bytes, bytes]
"""The values of `APPEND_COLUMNS`."""
ITEM_COLUMNS: Final = "number, kind, key, digest, body, seal"
CONSUMED_COLUMNS: Final = "number, session_key, kind, key, digest, consumed_seq, seal"
RUN_COLUMNS: Final = (
    "run_id, session_key, agent_id, fingerprint, status, first_seq, item, started_at, ended_at, used, at, "
    "owner, is_root, input, output, waits_on, error, crashes, tags, tokens, cost_micros, duration_ms, "
    "rating, seal"
)
CATALOG_COLUMNS: Final = (
    "number, session_key, title, agent_id, status, owner, created_at, updated_at, usage, parent, root, "
    "predecessor, predecessor_seq, seal"
)
ASKED_COLUMNS: Final = "session_key, request_id, run_id, agent_id, owner, asked_at, request, seal"
SETTLED_COLUMNS: Final = "request_id, session_key, run_id, owner, outcome, option_id, responder, at, seal"
REFUSED_COLUMNS: Final = (
    "session_key, at, run_id, session_id, agent_id, owner, source, code, kind, retry, message, seal"
)
CONTENT_COLUMNS: Final = "hash, media_type, seal"
DOCUMENT_COLUMNS: Final = "kind, name, revision, body, due_at_ms, seal"
INDEX: Final = {
    "runs": RUN_COLUMNS,
    "catalog": CATALOG_COLUMNS,
    "asked": ASKED_COLUMNS,
    "settled": SETTLED_COLUMNS,
    "refused": REFUSED_COLUMNS,
    "contents": CONTENT_COLUMNS,
    "tombstones": "session_key, seal",
    "documents": DOCUMENT_COLUMNS,
}
"""The tables of the index, with the columns that their seals cover; the seal is the last."""
_ROW_NAMES: Final = {
    "runs": "run {}",
    "catalog": "a session",
    "asked": "a request",
    "settled": "request {}",
    "refused": "a refused start",
    "contents": "content {}",
    "tombstones": "a deleted session",
    "documents": "{} document",
}
_KINDS: Final[dict[type, bytes]] = {int: b"i", str: b"s", bytes: b"b", type(None): b"n"}


def columns_of(alias: str, columns: str) -> str:
    """Return a list of columns of a table with an alias."""
    return ", ".join(f"{alias}.{name}" for name in columns.split(", "))


class AppendPosition(NamedTuple):
    """Where an append is stored, and under which owner."""

    session_key: int
    last_seq: int
    last_position: int
    epoch: int


class StoreKey:
    """The id of a store, and its keyed checksums."""

    def __init__(self, store_id: bytes) -> None:
        self.store_id = store_id
        self._keyed = blake2b(digest_size=_CHAIN_BYTES, key=store_id)
        """The start of every chain sum: a copy costs less than a new one, which hashes the key."""
        self.session_key = lru_cache(SESSION_KEYS_MAX)(self._session_key)
        """Maps a session id to its key, without a table: damage cannot hide a session."""

    @classmethod
    def load(cls, rows: Sequence[Sequence[object]]) -> Self:
        """Return the key from the store row; Corrupt if the row is damaged."""
        store_id = rows[0][0] if rows else None
        if not isinstance(store_id, bytes) or len(store_id) > blake2b.MAX_KEY_SIZE:
            store_id = b""
        key = cls(store_id)
        key.read_store(rows)
        return key

    @property
    def public_id(self) -> str:
        """A name of the store that other systems may see; it does not tell the key."""
        return self._sum(b"public id", 8).hex()

    def read_store(self, rows: Sequence[Sequence[object]]) -> int:
        """Return the newest position from the store row; Corrupt if it is damaged."""
        try:
            [(store_id, last_position, seal)] = cast("Sequence[tuple[bytes, int, bytes]]", rows)
            if store_id == self.store_id and self.store_seal(last_position) == seal:
                return last_position
        except _WRONG_TYPES:
            pass
        raise corrupt("the row that describes the store is damaged")

    def store_seal(self, last_position: int) -> bytes:
        """Return the checksum of the store row."""
        return self._sum(struct.pack(">q", last_position), _SEAL_BYTES)

    def chain(self, before: bytes, position: AppendPosition, *, body: bytes) -> bytes:
        """Return the checksum of an append and all before it."""
        checksum = self._keyed.copy()
        # Joined: a second call of the hash costs more than the copy.
        checksum.update(before + _FOUR.pack(*position) + body)
        return checksum.digest()

    def session_seal(self, session: StoredSession) -> bytes:
        """Return the checksum of a session row without its owner, which changes outside of appends."""
        row = session.row
        wake_at_ms = -1 if row.wake_at_ms is None else row.wake_at_ms
        numbers = _FIVE.pack(session.key, row.epoch, row.last_seq, session.last_position, wake_at_ms)
        text = f"{_STANDINGS[row.standing]}\0{row.session_id}".encode()
        return self._sum(numbers + session.chain + text, _SEAL_BYTES)

    def item_seal(self, position: tuple[int, int], *, kind: str, key: str, rest: bytes) -> bytes:
        """Return the checksum of an item at (number, session key); `rest` is digest and body."""
        head = struct.pack(">2q", *position) + f"{kind}\0{key}\0".encode()
        return self._sum(head + rest, _SEAL_BYTES)

    def consumption_seal(
        self, position: tuple[int, int], *, kind: str, key: str, digest: bytes, consumed_seq: int
    ) -> bytes:
        """Return the checksum of a consumed item, which has no body any more."""
        return self.item_seal(position, kind=kind, key=key, rest=digest + b"%d" % consumed_seq)

    def check_consumed(self, columns: Sequence[object]) -> None:
        """Check a consumed item; the columns are `CONSUMED_COLUMNS`.

        Raises:
            Corrupt: it is not what was written.
        """
        number, session_key, kind, key, digest, consumed_seq, seal = cast(
            "tuple[int, int, str, str, bytes, int, bytes]", tuple(columns)
        )
        try:
            position = (number, session_key)
            true = self.consumption_seal(
                position, kind=kind, key=key, digest=digest, consumed_seq=consumed_seq
            )
            if true == seal:
                return
        except _WRONG_TYPES:
            pass
        raise corrupt(f"inbox item {number} is damaged: restore a backup")

    def hole_seal(self, first: int, last: int) -> bytes:
        """Return the checksum of a range of deleted positions."""
        return self._sum(struct.pack(">2q", first, last), _SEAL_BYTES)

    def read_hole(self, columns: Sequence[object]) -> tuple[int, int]:
        """Return (first, last) of a range of deleted positions; Corrupt if the row is damaged."""
        first, last, seal = cast("tuple[int, int, bytes]", tuple(columns))
        try:
            if self.hole_seal(first, last) == seal:
                return first, last
        except _WRONG_TYPES:
            pass
        raise corrupt("a row that says what was deleted is damaged")

    def snapshot_seal(self, session_key: int, seq: int, *, state: bytes) -> bytes:
        """Return the checksum of a snapshot."""
        return self._sum(struct.pack(">2q", session_key, seq) + state, _SEAL_BYTES)

    def is_snapshot(self, columns: Sequence[object], session_key: int) -> bool:
        """Return whether (seq, seal, state) match their checksum."""
        seq, seal, state = cast("tuple[int, bytes, bytes]", columns)
        try:
            return self.snapshot_seal(session_key, seq, state=state) == seal
        except _WRONG_TYPES:
            return False

    def row_seal(self, table: str, values: Sequence[object]) -> bytes:
        """Return the checksum of an index row."""
        data = bytearray(table.encode())
        for value in values:
            raw = value if isinstance(value, bytes) else str(value).encode(errors="surrogatepass")
            data += b"%b%d:%b" % (_KINDS[type(value)], len(raw), raw)
        return self._sum(bytes(data), _SEAL_BYTES)

    def check_row(self, table: str, columns: Sequence[object]) -> None:
        """Check an index row; the columns are those of `INDEX`.

        Raises:
            Corrupt: the row is not what was written.
        """
        try:
            if self.row_seal(table, columns[:-1]) == columns[-1]:
                return
        except _WRONG_TYPES:
            pass
        row = _ROW_NAMES[table].format(columns[0])
        raise corrupt(f"the row of {row} in the index is damaged: restore a backup")

    def read_session(self, session_key: int, columns: Sequence[object]) -> StoredSession:
        """Return a session from its columns, in the order of `SESSION_COLUMNS`.

        Raises:
            Corrupt: the row is not what was written.
        """
        session_id, epoch, last_seq, last_position, chain, standing, wake_at_ms, owner_id, seal = cast(
            "tuple[str, int, int, int, bytes, str, int | None, str | None, bytes]", columns
        )
        try:
            row = SessionRow(session_id, Standing(standing), last_seq, epoch, wake_at_ms, owner_id)
            session = StoredSession(session_key, row, last_position, chain)
            if self.session_seal(session) == seal and self.session_key(session_id) == session_key:
                return session
        except _WRONG_TYPES:
            pass
        raise corrupt("the row of a session is damaged", str(session_id))

    def read_append(
        self, session: tuple[int, str], columns: Sequence[object], *, before: ChainLink
    ) -> tuple[ChainLink, tuple[Record, ...]]:
        """Return the records of an append that follows another.

        The columns are `APPEND_COLUMNS`.

        Raises:
            Corrupt: it is not what was written, or something between the two is missing.
        """
        link, records = self.read_appends(session, (columns,), before=before, until=0)
        return link, tuple(records)

    def read_appends(
        self, session: tuple[int, str], rows: Iterable[Sequence[object]], *, before: ChainLink, until: int
    ) -> tuple[ChainLink, list[Record]]:
        """Return the records of appends that follow another, up to the append with a record number.

        Raises:
            Corrupt: an append is not what was written, or something between two of them is missing.
        """
        session_key, session_id = session
        end, chain = before.last_seq, before.chain
        records: list[Record] = []
        for columns in rows:
            last_position, last_seq, epoch, sealed, body = cast("_AppendRow", columns)
            is_sound = False
            try:
                chain = self.chain(
                    chain, AppendPosition(session_key, last_seq, last_position, epoch), body=body
                )
                if chain == sealed:
                    records += decode_records(
                        body, session_id, last_seq=last_seq, last_position=last_position, epoch=epoch
                    )
                    is_sound = True
            except _WRONG_TYPES:
                pass
            if not is_sound:
                # Raised outside of the handler, so that the error does not carry the body.
                raise damage_error(session_id, end + 1)
            end = last_seq
            if end >= until:
                break
        return ChainLink(end, chain), records

    def read_document(self, row: Sequence[object]) -> Document:
        """Return a document from its `DOCUMENT_COLUMNS`; Corrupt if it is damaged."""
        self.check_row("documents", row)
        kind, name, revision, body, due_at_ms = cast("tuple[str, str, int, str, int | None]", row[:-1])
        return Document(kind, name, revision, from_json(body), due_at_ms)

    def read_item(self, session: tuple[int, str], columns: Sequence[object]) -> InboxItem:
        """Return an item from its `ITEM_COLUMNS`; Corrupt if it is damaged."""
        session_key, session_id = session
        number, kind, key, digest, body, seal = cast("tuple[int, str, str, bytes, bytes, bytes]", columns)
        try:
            if self.item_seal((number, session_key), kind=kind, key=key, rest=digest + body) == seal:
                return InboxItem(number, session_id, kind, key, decode_item(body))
        except _WRONG_TYPES:
            pass
        raise corrupt(f"inbox item {number} of session {session_id} is damaged", session_id)

    def _session_key(self, session_id: str) -> int:
        return int.from_bytes(self._sum(session_id.encode(errors="surrogatepass"), 8)) >> 1

    def _sum(self, data: bytes, size: int) -> bytes:
        return blake2b(data, digest_size=size, key=self.store_id).digest()


def damage_error(session_id: str, seq: int) -> Corrupt:
    """Return the error of an altered or missing record."""
    return corrupt(f"record {seq:,} of session {session_id} is damaged or missing", session_id)
