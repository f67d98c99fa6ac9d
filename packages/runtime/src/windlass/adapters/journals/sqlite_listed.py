"""The index of sessions, runs and open requests: what reads it.

Each question is answered from the tables of the index, in pages; no record is read.
"""

from typing import Final, cast

from pydantic_core import from_json

from windlass.adapters.journals.listing_rules import load_usage
from windlass.adapters.journals.sqlite_integrity import StoreKey
from windlass.adapters.journals.sqlite_schema import Connection, Row, Value
from windlass.ports.store import (
    KeptItem,
    OpenRequest,
    RunFilter,
    RunInfo,
    SessionFilter,
    SessionInfo,
    SessionStatus,
    SettledRequest,
)
from windlass_protocol import ContentRef, InputOutcome, InputRequest, RunStatus

_SESSION: Final = """SELECT s.session_id, c.title, c.agent_id, c.status, c.owner, c.created_at, c.updated_at,
    (SELECT count(*) FROM runs r WHERE r.session_key = c.session_key),
    (SELECT count(*) FROM asked a WHERE a.session_key = c.session_key),
    c.usage, c.parent, c.root, c.predecessor, c.predecessor_seq, c.number
    FROM catalog c JOIN sessions s USING (session_key)"""
_RUN: Final = """SELECT r.run_id, s.session_id, r.agent_id, r.fingerprint, r.status, r.started_at, r.ended_at,
    r.usage, r.first_seq, r.item FROM runs r JOIN sessions s USING (session_key)"""
_REQUEST: Final = """SELECT s.session_id, c.root, a.run_id, a.agent_id, a.owner, a.asked_at, a.body, a.number
    FROM asked a JOIN sessions s USING (session_key) LEFT JOIN catalog c USING (session_key)"""
REQUEST: Final = f"{_REQUEST} WHERE a.request_id = ? ORDER BY a.number DESC LIMIT 1"
SETTLED: Final = """SELECT t.request_id, s.session_id, t.run_id, t.owner, t.outcome, t.option_id, t.responder,
    t.at FROM settled t JOIN sessions s USING (session_key) WHERE t.request_id = ?"""
_ITEMS: Final = """SELECT i.kind, i.key, i.digest, i.consumed_seq, r.run_id, i.number FROM inbox i
    LEFT JOIN runs r ON r.item = i.number
    WHERE i.session_key = ? AND i.consumed_seq IS NOT NULL AND i.number > ? ORDER BY i.number LIMIT ?"""
_CONTENTS: Final = """SELECT c.hash, c.media_type, length(c.content) FROM content_uses u
    JOIN contents c USING (hash) WHERE u.session_key = ? ORDER BY c.hash"""
_WORD_END: Final = "\U0010ffff"


class IndexReads:
    """The tables of the index, for a connection that only reads."""

    def __init__(self, connection: Connection, key: StoreKey) -> None:
        self._connection = connection
        self._key = key

    def sessions(self, wanted: SessionFilter, *, before: int | None, limit: int) -> tuple[SessionInfo, ...]:
        """Return sessions, newest first."""
        sql, parameters = sessions_query(wanted, before=before, limit=limit)
        return tuple(_session(row) for row in self._connection.execute(sql, parameters))

    def session(self, session_id: str) -> SessionInfo | None:
        """Return a session."""
        sql = f"{_SESSION} WHERE c.session_key = ?"
        row = self._connection.execute(sql, (self._key.session_key(session_id),)).fetchone()
        return None if row is None else _session(row)

    def runs(self, wanted: RunFilter, *, before: int | None, limit: int) -> tuple[RunInfo, ...]:
        """Return runs, newest first."""
        key = None if wanted.session_id is None else self._key.session_key(wanted.session_id)
        sql, parameters = runs_query(wanted, key, before=before, limit=limit)
        return tuple(_run(row) for row in self._connection.execute(sql, parameters))

    def requests(self, owner: str | None, *, after: int, limit: int) -> tuple[OpenRequest, ...]:
        """Return open requests, oldest first."""
        sql, parameters = requests_query(owner, after=after, limit=limit)
        return tuple(_request(row) for row in self._connection.execute(sql, parameters))

    def request(self, request_id: str) -> OpenRequest | SettledRequest | None:
        """Return a request, open or settled."""
        row = self._connection.execute(REQUEST, (request_id,)).fetchone()
        if row is not None:
            return _request(row)
        row = self._connection.execute(SETTLED, (request_id,)).fetchone()
        return None if row is None else _settled(row)

    def items(self, session_id: str, *, after: int, limit: int) -> tuple[KeptItem, ...]:
        """Return items of a session that were consumed."""
        rows = self._connection.execute(_ITEMS, (self._key.session_key(session_id), after, limit))
        return tuple(
            KeptItem(*cast("tuple[str, str, bytes, int, str | None, int]", tuple(row))) for row in rows
        )

    def contents(self, session_id: str) -> tuple[ContentRef, ...]:
        """Return what was put for a session."""
        rows = self._connection.execute(_CONTENTS, (self._key.session_key(session_id),)).fetchall()
        return tuple(
            ContentRef(content_id=digest, hash=digest, media_type=kind, size_bytes=size)
            for digest, kind, size in cast("list[tuple[str, str, int]]", rows)
        )


def sessions_query(wanted: SessionFilter, *, before: int | None, limit: int) -> tuple[str, tuple[Value, ...]]:
    """Return the question for a page of sessions."""
    where: list[str] = []
    parameters: list[Value] = []
    plus = ""
    for column in ("owner", "agent_id", "status"):
        value = cast("str | None", getattr(wanted, column))
        if value is not None:
            where.append(f"{plus}c.{column} = ?")
            parameters.append(str(value))
            # The first of them has the fewest sessions: the sign keeps the index of the others out of it.
            plus = "+"
    for word in wanted.words:
        where.append("c.number IN (SELECT number FROM catalog_words WHERE word BETWEEN ? AND ?)")
        parameters += (word, word + _WORD_END)
    if wanted.root_only:
        where.append("c.parent IS NULL")
    if before is not None:
        where.append("c.number < ?")
        parameters.append(before)
    condition = f" WHERE {' AND '.join(where)}" if where else ""
    return f"{_SESSION}{condition} ORDER BY c.number DESC LIMIT ?", (*parameters, limit)


def runs_query(
    wanted: RunFilter, session_key: int | None, *, before: int | None, limit: int
) -> tuple[str, tuple[Value, ...]]:
    """Return the question for a page of runs."""
    where: list[str] = []
    parameters: list[Value] = []
    if session_key is not None:
        where.append("r.session_key = ?")
        parameters.append(session_key)
    if wanted.agent_id is not None:
        where.append("r.agent_id = ?")
        parameters.append(wanted.agent_id)
    if wanted.status is not None:
        where.append("r.status = ?")
        parameters.append(wanted.status.value)
    if wanted.owner is not None:
        where.append("(SELECT c.owner FROM catalog c WHERE c.session_key = r.session_key) = ?")
        parameters.append(wanted.owner)
    if before is not None:
        where.append("r.item < ?")
        parameters.append(before)
    condition = f" WHERE {' AND '.join(where)}" if where else ""
    return f"{_RUN}{condition} ORDER BY r.item DESC LIMIT ?", (*parameters, limit)


def requests_query(owner: str | None, *, after: int, limit: int) -> tuple[str, tuple[Value, ...]]:
    """Return the question for a page of open requests."""
    condition = "" if owner is None else "a.owner = ? AND "
    given = () if owner is None else (owner,)
    return f"{_REQUEST} WHERE {condition}a.number > ? ORDER BY a.number LIMIT ?", (*given, after, limit)


def _session(row: Row) -> SessionInfo:
    (name, title, agent_id, status, owner, created, updated, runs, requests, usage, parent, root) = cast(
        "tuple[str, str, str, str, str | None, str, str, int, int, str, str | None, str | None]",
        tuple(row[:12]),
    )
    predecessor, predecessor_seq, number = cast("tuple[str | None, int | None, int]", tuple(row[12:]))
    return SessionInfo(
        session_id=name,
        title=title,
        agent_id=agent_id,
        status=SessionStatus(status),
        owner=owner,
        created_at=created,
        updated_at=updated,
        run_count=runs,
        request_count=requests,
        usage=load_usage(usage),
        parent_session_id=parent,
        root_session_id=root or name,
        predecessor_id=predecessor,
        predecessor_seq=predecessor_seq,
        number=number,
    )


def _run(row: Row) -> RunInfo:
    run_id, session_id, agent_id, fingerprint, status, started, ended, usage, first_seq, number = cast(
        "tuple[str, str, str, str, str, str | None, str | None, str | None, int, int]", tuple(row)
    )
    return RunInfo(
        run_id=run_id,
        session_id=session_id,
        agent_id=agent_id,
        package_fingerprint=fingerprint,
        status=RunStatus(status),
        started_at=started,
        ended_at=ended,
        usage=load_usage(usage),
        first_seq=first_seq,
        number=number,
    )


def _request(row: Row) -> OpenRequest:
    session_id, root, run_id, agent_id, owner, at, body, number = cast(
        "tuple[str, str | None, str, str, str | None, str, bytes, int]", tuple(row)
    )
    request = InputRequest.model_validate(from_json(body), by_alias=True)
    return OpenRequest(session_id, root or session_id, run_id, agent_id, owner, at, request, number)


def _settled(row: Row) -> SettledRequest:
    request_id, session_id, run_id, owner, outcome, option_id, responder, at = cast(
        "tuple[str, str, str, str | None, str, str | None, str | None, str]", tuple(row)
    )
    return SettledRequest(
        request_id, session_id, run_id, owner, InputOutcome(outcome), option_id, responder, at
    )
