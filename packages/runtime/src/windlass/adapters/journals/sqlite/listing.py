"""Index writes: rows of sessions, runs and open requests.

They are written in the transaction of the append that changes them. Most appends, those of steps, change
none.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, cast

from pydantic_core import to_json

from windlass.adapters.journals.rules import (
    ENDED,
    Settlement,
    dump_usage,
    load_usage,
    not_owned,
    settlements_in,
    status_after,
    total_usage,
    unresolved,
)
from windlass.adapters.journals.sqlite.integrity import StoreKey
from windlass.adapters.journals.sqlite.queries import Reads
from windlass.adapters.journals.sqlite.schema import Connection
from windlass.ports.store import NO_USAGE, Batch, SessionStatus
from windlass_harness.views.listing import Told, content_hashes, told_by
from windlass_harness.views.session import SessionDraft, SessionState
from windlass_protocol import InputRequest

_ROW: Final = "SELECT number, title, status, usage FROM catalog WHERE session_key = ?"
_OWNER: Final = "SELECT owner FROM catalog WHERE session_key = ?"
_LAST: Final = "SELECT coalesce(max(number), 0) FROM catalog"
_INSERT: Final = "INSERT INTO catalog VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_UPDATE: Final = """UPDATE catalog SET title = ?, agent_id = coalesce(?, agent_id),
    status = ?, created_at = CASE created_at WHEN '' THEN ? ELSE created_at END,
    updated_at = ?, usage = coalesce(?, usage) WHERE number = ?"""
_TOUCH: Final = "UPDATE catalog SET updated_at = ? WHERE session_key = ?"
_RUN_BEGAN: Final = "UPDATE runs SET started_at = ? WHERE run_id = ?"
_RUN_ENDED: Final = "UPDATE runs SET ended_at = ?, usage = ? WHERE run_id = ?"
_ASKED: Final = "SELECT request_id, run_id FROM asked WHERE session_key = ?"
_ASK: Final = "INSERT INTO asked VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)"
_SETTLE: Final = """INSERT OR REPLACE INTO settled
    VALUES (?, ?, ?, (SELECT owner FROM catalog WHERE session_key = ?), ?, ?, ?, ?)"""
_CLOSE: Final = "DELETE FROM asked WHERE session_key = ? AND request_id = ?"


class IndexWrites:
    """Writes index rows; the caller has begun a transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._last: int | None = None
        """The newest number of the index, valid while no other connection writes."""

    def drop_cache(self) -> None:
        """Drop what was read: another connection has written, or the transaction was rolled back."""
        self._last = None

    def check_owner(self, session_key: int, told: Told, *, session_id: str) -> None:
        """Refuse a run request of another owner than that of the session."""
        if told.owner is None:
            return
        row = self._connection.execute(_OWNER, (session_key,)).fetchone()
        if row is not None and row[0] != told.owner:
            raise not_owned(session_id)

    def enter(
        self,
        session_key: int,
        told: Told,
        *,
        status: SessionStatus = SessionStatus.PENDING,
        is_new: bool = False,
    ) -> None:
        """Add a session to the index, unless it is there; `is_new` skips the lookup."""
        if is_new or self._connection.execute(_OWNER, (session_key,)).fetchone() is None:
            self._insert(session_key, told, status)

    def follow(self, session_key: int, batch: Batch) -> None:
        """Apply an append to the index."""
        told = told_by(batch.drafts)
        if told is not None:
            self.take(session_key, told)
        if batch.asked is not None:
            at, closed = batch.drafts[-1].at if batch.drafts else "", settlements_in(batch.drafts)
            self.ask(session_key, batch.asked, at=at, closed=closed)

    def take(self, session_key: int, told: Told) -> None:
        """Update the rows of a session and of its runs."""
        for run in told.runs:
            if run.begins:
                self._connection.execute(_RUN_BEGAN, (run.at, run.run_id))
            elif run.status in ENDED:
                columns = (run.at, dump_usage(run.usage), run.run_id)
                self._connection.execute(_RUN_ENDED, columns)
        row = self._connection.execute(_ROW, (session_key,)).fetchone()
        if row is None:
            if told.runs:
                self._insert(session_key, told, status_after(told))
            return
        number, title, status, usage = cast("tuple[int, str, str, str]", tuple(row))
        ended = [run for run in told.runs if run.usage is not None]
        columns = (
            title or told.title,
            told.agent_id,
            status_after(told, SessionStatus(status)).value,
            told.since,
            told.at,
            dump_usage(total_usage(load_usage(usage), ended)) if ended else None,
            number,
        )
        self._connection.execute(_UPDATE, columns)

    def ask(
        self,
        session_key: int,
        asked: tuple[InputRequest, ...],
        *,
        at: str,
        closed: Mapping[str, Settlement] = MappingProxyType({}),
    ) -> None:
        """Replace the open requests of a session.

        `closed` are the resolutions of this append; they may close requests that the same append made.
        """
        known = dict(
            cast("list[tuple[str, str]]", self._connection.execute(_ASKED, (session_key,)).fetchall())
        )
        open_ = {request.request_id for request in asked}
        gone = {name: unresolved(run_id, at=at) for name, run_id in known.items() if name not in open_}
        for name, how in {**gone, **closed}.items():
            columns = (how.outcome.value, how.option_id, how.responder, how.at)
            self._connection.execute(_SETTLE, (name, session_key, how.run_id, session_key, *columns))
        for name in gone:
            self._connection.execute(_CLOSE, (session_key, name))
        new = [request for request in asked if request.request_id not in known]
        if new:
            run_id, agent_id, owner = self._asking(session_key)
            for request in new:
                body = to_json(request.model_dump(mode="json", by_alias=True))
                columns = (session_key, request.request_id, run_id, agent_id, owner, at, body)
                self._connection.execute(_ASK, columns)
        if at:
            self._connection.execute(_TOUCH, (at, session_key))

    def _asking(self, session_key: int) -> tuple[str, str, str | None]:
        """Return the current run of a session, its agent, and the owner."""
        row = self._connection.execute(_UNDER_WAY, (session_key,)).fetchone()
        return ("", "", None) if row is None else cast("tuple[str, str, str | None]", tuple(row))

    def _insert(self, session_key: int, told: Told, status: SessionStatus) -> None:
        if self._last is None:
            [(self._last,)] = cast("list[tuple[int]]", self._connection.execute(_LAST).fetchall())
        number = self._last = self._last + 1
        columns = (
            number,
            session_key,
            told.title,
            told.agent_id or "",
            status.value,
            told.owner,
            told.since,
            told.at,
            dump_usage(total_usage(NO_USAGE, told.runs) if told.runs else None),
            told.parent,
            told.root,
            told.predecessor,
            told.predecessor_seq,
        )
        self._connection.execute(_INSERT, columns)


_UNDER_WAY: Final = """SELECT r.run_id, r.agent_id, c.owner
    FROM runs r LEFT JOIN catalog c USING (session_key)
    WHERE r.session_key = ? AND r.status IN ('running', 'waiting', 'cancelling') ORDER BY r.item LIMIT 1"""

_UNLISTED: Final = """SELECT u.session_key, s.session_id FROM unlisted u JOIN sessions s USING (session_key)
    ORDER BY (SELECT min(item) FROM runs r WHERE r.session_key = u.session_key)"""
_AGENT: Final = "SELECT agent_id FROM runs WHERE session_key = ? ORDER BY item LIMIT 1"
_USE: Final = """INSERT INTO content_uses SELECT ?, hash FROM contents WHERE hash = ?
    ON CONFLICT DO NOTHING"""


def list_unlisted(connection: Connection, key: StoreKey) -> None:
    """Add the sessions of an older schema to the index; all of them or none.

    Raises:
        Corrupt: a session is damaged.
    """
    if connection.execute("SELECT 1 FROM unlisted LIMIT 1").fetchone() is None:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        rows = cast("list[tuple[int, str]]", connection.execute(_UNLISTED).fetchall())
        for session_key, session_id in rows:
            _list(connection, key, session=(session_key, session_id))
        connection.execute("DELETE FROM unlisted")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _list(connection: Connection, key: StoreKey, *, session: tuple[int, str]) -> None:
    session_key, session_id = session
    index, reads, draft = IndexWrites(connection), Reads(connection, key), SessionDraft(SessionState())
    at, after = "", 0
    while appends := reads.appends_now(session_id, after=after, limit=64):
        for append in appends:
            told = told_by(append.records)
            for record in append.records:
                draft.apply(record)
            if told is not None:
                index.take(session_key, told)
            for digest in content_hashes(append.records):
                connection.execute(_USE, (session_key, digest))
            at, after = append.records[-1].at, append.records[-1].seq
    [(agent_id,)] = cast("list[tuple[str]]", connection.execute(_AGENT, (session_key,)).fetchall())
    index.enter(session_key, Told(at, at, agent_id=agent_id))
    if draft.requests:
        index.ask(session_key, tuple(draft.requests.values()), at=at)
