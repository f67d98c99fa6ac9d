"""Sessions of a store that is older than its index: read once, on opening."""

from typing import Final, cast

from windlass.adapters.journals.sqlite_integrity import StoreKey
from windlass.adapters.journals.sqlite_listing import IndexWrites
from windlass.adapters.journals.sqlite_reads import Reads
from windlass.adapters.journals.sqlite_schema import Connection
from windlass_harness.views.listing import Told, content_hashes, told_by
from windlass_harness.views.session import SessionDraft, SessionState

_UNLISTED: Final = """SELECT u.session_key, s.session_id FROM unlisted u JOIN sessions s USING (session_key)
    ORDER BY (SELECT min(item) FROM runs r WHERE r.session_key = u.session_key)"""
_AGENT: Final = "SELECT agent_id FROM runs WHERE session_key = ? ORDER BY item LIMIT 1"
_USE: Final = """INSERT INTO content_uses SELECT ?, hash FROM contents WHERE hash = ?
    ON CONFLICT DO NOTHING"""


def list_unlisted(connection: Connection, key: StoreKey) -> None:
    """Put sessions into the index that are not in it; all of them or none.

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
