"""The index of the SQLite store: numbers of sessions, and the sessions of an older schema."""

from typing import Final, cast

from windlass.sql.integrity import StoreKey
from windlass.sql.listing import IndexWrites, fill_runs
from windlass.sql.statements import SqlConnection
from windlass.sqlite.reads import SqliteReads
from windlass_harness.views.listing import SessionNews, content_hashes, news_of
from windlass_harness.views.session import SessionDraft, SessionState

_LAST: Final = "SELECT coalesce(max(number), 0) FROM catalog"


class SqliteIndexWrites(IndexWrites):
    """Writes index rows with their seals; the caller has begun a transaction."""

    def __init__(self, connection: SqlConnection, key: StoreKey) -> None:
        super().__init__(connection, key)
        self._last: int | None = None
        """The newest number of the index, valid while no other connection writes."""

    def drop_cache(self) -> None:
        """Drop what was read: another connection has written, or the transaction was rolled back."""
        self._last = None

    def _next_number(self) -> int:
        if self._last is None:
            [(self._last,)] = cast("list[tuple[int]]", self._connection.execute(_LAST).fetchall())
        self._last += 1
        return self._last


_UNLISTED: Final = """SELECT u.session_key, s.session_id FROM unlisted u JOIN sessions s USING (session_key)
    ORDER BY (SELECT min(item) FROM runs r WHERE r.session_key = u.session_key)"""
_UNFILLED: Final = "SELECT u.session_key, s.session_id FROM unfilled u JOIN sessions s USING (session_key)"
_HAS_OLD: Final = "SELECT 1 FROM unlisted UNION ALL SELECT 1 FROM unfilled LIMIT 1"
_AGENT: Final = "SELECT agent_id FROM runs WHERE session_key = ? ORDER BY item LIMIT 1"
_USE: Final = """INSERT INTO content_uses SELECT ?, hash FROM contents WHERE hash = ?
    ON CONFLICT DO NOTHING"""


def list_unlisted(connection: SqlConnection, key: StoreKey) -> None:
    """Add the sessions and the runs of an older schema to the index; all of them or none.

    Raises:
        Corrupt: a session is damaged.
    """
    if connection.execute(_HAS_OLD).fetchone() is None:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for row in connection.execute(_UNLISTED).fetchall():
            _list(connection, key, session=cast("tuple[int, str]", tuple(row)))
        reads = SqliteReads(connection, key)
        for row in connection.execute(_UNFILLED).fetchall():
            fill_runs(connection, key, reads, session=cast("tuple[int, str]", tuple(row)))
        connection.execute("DELETE FROM unlisted")
        connection.execute("DELETE FROM unfilled")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _list(connection: SqlConnection, key: StoreKey, *, session: tuple[int, str]) -> None:
    session_key, session_id = session
    index, reads, draft = (
        SqliteIndexWrites(connection, key),
        SqliteReads(connection, key),
        SessionDraft(SessionState()),
    )
    at, after = "", 0
    while appends := reads.appends_now(session_id, after=after, limit=64):
        for append in appends:
            facts = news_of(append.records)
            for record in append.records:
                draft.apply(record)
            if facts is not None:
                index.take(session_key, facts)
            for digest in content_hashes(append.records):
                connection.execute(_USE, (session_key, digest))
            at, after = append.records[-1].at, append.records[-1].seq
    [(agent_id,)] = cast("list[tuple[str]]", connection.execute(_AGENT, (session_key,)).fetchall())
    index.enter(session_key, SessionNews(at, at, agent_id=agent_id))
    if draft.requests:
        index.ask(session_key, tuple(draft.requests.values()), at=at)
