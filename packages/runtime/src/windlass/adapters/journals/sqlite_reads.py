"""What readers ask of the tables: each question is one look at the database."""

import json
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import cast

from windlass.adapters.journals.codec import content_hash
from windlass.adapters.journals.faults import corrupt, rejected
from windlass.adapters.journals.rules import in_turns
from windlass.adapters.journals.sqlite_counted import CountReads
from windlass.adapters.journals.sqlite_integrity import (
    APPEND_COLUMNS,
    ITEM_COLUMNS,
    SESSION_COLUMNS,
    START,
    STORE,
    Link,
    StoredSession,
    StoreKey,
    damaged,
)
from windlass.adapters.journals.sqlite_listed import IndexReads
from windlass.adapters.journals.sqlite_schema import OPEN_RUN, Connection
from windlass.ports.store import Arrivals, InboxItem, RunRow, SessionRow, StoredAppend
from windlass_protocol import Record, RunStatus

_SESSION = f"SELECT {SESSION_COLUMNS} FROM sessions WHERE session_key = ?"
_HAS_APPENDS = "SELECT 1 FROM appends WHERE session_key = ? LIMIT 1"
_BEFORE = """SELECT last_seq, chain FROM appends WHERE session_key = ? AND last_seq <= ?
    ORDER BY last_seq DESC LIMIT 1"""
_APPENDS = f"SELECT {APPEND_COLUMNS} FROM appends WHERE session_key = ? AND last_seq > ? ORDER BY last_seq"
_TIMELINE = f"""SELECT {APPEND_COLUMNS}, session_key FROM appends WHERE last_position > ?
    ORDER BY last_position"""
_PENDING = f"""SELECT {ITEM_COLUMNS} FROM inbox WHERE session_key = ? AND consumed_seq IS NULL AND number > ?
    ORDER BY number LIMIT ?"""
_NEWEST_ITEM = "SELECT coalesce(max(number), 0) FROM inbox"
_ARRIVED = """SELECT DISTINCT s.session_id FROM inbox i JOIN sessions s USING (session_key)
    WHERE i.number > ? AND i.consumed_seq IS NULL"""
_SESSIONS = (
    f"SELECT session_key, {SESSION_COLUMNS} FROM sessions WHERE session_id > ? ORDER BY session_id LIMIT ?"
)
_RUN = """SELECT r.run_id, s.session_id, r.agent_id, r.fingerprint, r.status, r.first_seq
    FROM runs r JOIN sessions s USING (session_key) WHERE r.run_id = ?"""
_AGENT = f"""(SELECT agent_id FROM runs r WHERE r.session_key = s.session_key AND {OPEN_RUN}
    AND status {{}} ORDER BY item LIMIT 1)"""
# The agent of the run under way, or else of the oldest that waits; the parameters are agents, limit and now.
_IS_OURS = f"""(?1 IS NULL
    OR coalesce({_AGENT.format("!= 'pending'")}, {_AGENT.format("= 'pending'")}, '')
    IN (SELECT value FROM json_each(?1)))"""
_RUNNING = f"""SELECT session_id FROM sessions s WHERE standing = 'running' AND owner_id IS NULL
    AND {_IS_OURS} ORDER BY last_position LIMIT ?2"""
_WOKEN = f"""SELECT session_id FROM sessions s
    WHERE standing = 'waiting' AND wake_at_ms IS NOT NULL AND wake_at_ms <= ?3 AND owner_id IS NULL
    AND {_IS_OURS} ORDER BY wake_at_ms, session_id LIMIT ?2"""
_CALLED = f"""SELECT s.session_id FROM inbox i JOIN sessions s USING (session_key)
    WHERE i.consumed_seq IS NULL AND s.owner_id IS NULL AND NOT (i.kind = 'start' AND s.standing = 'waiting')
    AND (i.kind = 'cancel' OR {_IS_OURS}) GROUP BY i.session_key ORDER BY min(i.number) LIMIT ?2"""
_UNFINISHED = f"SELECT agent_id, count(*) FROM runs WHERE {OPEN_RUN} GROUP BY agent_id"
_NEXT_WAKE = "SELECT min(wake_at_ms) FROM sessions WHERE standing = 'waiting' AND wake_at_ms IS NOT NULL"
_OWNERS = "SELECT owner_id, beat_at_ms FROM owners"
_SNAPSHOT = """SELECT p.seq, p.seal, p.state FROM snapshots p JOIN sessions s USING (session_key)
    WHERE p.session_key = ? AND p.seq <= s.last_seq"""
_HOLES = """SELECT first_position, last_position, seal FROM holes
    WHERE last_position > ? AND first_position < ? ORDER BY last_position"""
_CONTENT = "SELECT content FROM contents WHERE hash = ?"


def find_session(connection: Connection, key: StoreKey, *, session_id: str) -> StoredSession | None:
    """Return a session; None if there is none.

    Raises:
        Corrupt: its row is damaged, or missing while its records are there.
    """
    session_key = key.session_key(session_id)
    columns = connection.execute(_SESSION, (session_key,)).fetchone()
    if columns is not None:
        return key.read_session(session_key, columns)
    if connection.execute(_HAS_APPENDS, (session_key,)).fetchone() is not None:
        raise corrupt(f"the row of session {session_id} is missing", session_id)
    return None


def last_position(connection: Connection, key: StoreKey) -> int:
    """Return the position of the newest record, as the store says it."""
    return key.read_store(connection.execute(STORE).fetchall())


class Reads:
    """A connection that only reads."""

    def __init__(self, connection: Connection, key: StoreKey) -> None:
        self._connection = connection
        self._key = key
        self.index = IndexReads(connection, key)
        self.counts = CountReads(connection)

    def appends(self, session_id: str, *, after: int, limit: int) -> tuple[StoredAppend, ...]:
        """Return the appends of a session that end behind a record, verified."""
        with self._look():
            return self.appends_now(session_id, after=after, limit=limit)

    def appends_now(self, session_id: str, *, after: int, limit: int) -> tuple[StoredAppend, ...]:
        """The same, for whoever has begun a transaction."""
        session = find_session(self._connection, self._key, session_id=session_id)
        if session is None or session.row.last_seq <= after:
            return ()
        before = self._connection.execute(_BEFORE, (session.key, after)).fetchone()
        link = START if before is None else Link(*cast("tuple[int, bytes]", before))
        found: list[StoredAppend] = []
        for columns in self._connection.execute(_APPENDS, (session.key, link.last_seq)):
            link, records = self._key.read_append((session.key, session_id), columns, before=link)
            found.append(StoredAppend(records, cast("int", columns[2]), cast("bytes", columns[4])))
            if len(found) >= limit:
                break
        _check_end(session, link, len(found) >= limit)
        return tuple(found)

    def records(self, session_id: str, *, after: int, limit: int) -> tuple[Record, ...]:
        """Return the records of a session from `after + 1`, verified up to the last."""
        with self._look():
            session = find_session(self._connection, self._key, session_id=session_id)
            if session is None or session.row.last_seq <= after:
                return ()
            before = self._connection.execute(_BEFORE, (session.key, after)).fetchone()
            link = START if before is None else Link(*cast("tuple[int, bytes]", before))
            records: list[Record] = []
            has_more = False
            for columns in self._connection.execute(_APPENDS, (session.key, link.last_seq)):
                link, more = self._key.read_append((session.key, session_id), columns, before=link)
                records += more
                has_more = link.last_seq - after >= limit
                if has_more:
                    break
        _check_end(session, link, has_more)
        return _behind(records, records[0].seq, after)

    def timeline(self, after: int, limit: int) -> tuple[Record, ...]:
        """Return the records of all sessions behind a position, none missing."""
        with self._look():
            end = last_position(self._connection, self._key)
            if end <= after:
                return ()
            links: dict[int, tuple[str, Link]] = {}
            records: list[Record] = []
            for *columns, session_key in self._connection.execute(_TIMELINE, (after,)):
                number, seq = cast("int", session_key), cast("int", columns[1])
                session_id, link = links.get(number) or self._link(number, seq)
                link, more = self._key.read_append((number, session_id), columns, before=link)
                links[number] = (session_id, link)
                self._check_gap(position_of(records[-1]) if records else after, position_of(more[0]))
                records += more
                if position_of(more[-1]) - after >= limit:
                    break
            else:
                self._check_gap(position_of(records[-1]) if records else after, end + 1)
        return _behind(records, position_of(records[0]), after) if records else ()

    def pending(self, session_id: str, *, after: int, limit: int) -> tuple[InboxItem, ...]:
        """Return the items of a session that nobody consumed."""
        session_key = self._key.session_key(session_id)
        rows = self._connection.execute(_PENDING, (session_key, after, limit)).fetchall()
        return tuple(self._key.read_item((session_key, session_id), columns) for columns in rows)

    def arrivals(self, after: int) -> Arrivals:
        """Return the sessions with items behind a number, and the newest number."""
        with self._look():
            [(newest,)] = self._connection.execute(_NEWEST_ITEM).fetchall()
            rows = self._connection.execute(_ARRIVED, (after,)).fetchall() if newest != after else ()
        return Arrivals(cast("int", newest), frozenset(cast("str", name) for (name,) in rows))

    def run(self, run_id: str) -> RunRow | None:
        """Return a run of the catalogue."""
        columns = self._connection.execute(_RUN, (run_id,)).fetchone()
        if columns is None:
            return None
        run, session_id, agent_id, fingerprint, status, first_seq = cast(
            "tuple[str, str, str, str, str, int]", columns
        )
        try:
            return RunRow(run, session_id, agent_id, fingerprint, RunStatus(status), first_seq)
        except ValueError:
            pass
        raise corrupt(f"the row of run {run_id} is damaged")

    def session(self, session_id: str) -> SessionRow | None:
        """Return a session of the catalogue."""
        with self._look():
            session = find_session(self._connection, self._key, session_id=session_id)
        return None if session is None else session.row

    def sessions(self, after: str | None, limit: int) -> tuple[SessionRow, ...]:
        """Return sessions in the order of their ids."""
        rows = self._connection.execute(_SESSIONS, (after or "", limit)).fetchall()
        return tuple(self._key.read_session(cast("int", key), columns).row for key, *columns in rows)

    def due(self, now_ms: int, limit: int, *, agents: Collection[str] | None) -> tuple[str, ...]:
        """Return sessions without an owner that somebody should drive now."""
        ours = None if agents is None else json.dumps(["", *agents])
        with self._look():
            queues = [
                [cast("str", name) for (name,) in self._connection.execute(sql, parameters)]
                for sql, parameters in (
                    (_RUNNING, (ours, limit)),
                    (_WOKEN, (ours, limit, now_ms)),
                    (_CALLED, (ours, limit)),
                )
            ]
        return in_turns(queues, limit)

    def unfinished(self) -> Mapping[str, int]:
        """Return how many runs of each agent have not ended."""
        return dict(cast("tuple[str, int]", tuple(row)) for row in self._connection.execute(_UNFINISHED))

    def next_wake_ms(self) -> int | None:
        """Return the earliest time that a waiting session named."""
        [(time,)] = self._connection.execute(_NEXT_WAKE).fetchall()
        return cast("int | None", time)

    def owners(self) -> tuple[tuple[str, int], ...]:
        """Return the enlisted owners, and when each was last heard of."""
        return tuple(cast("tuple[str, int]", tuple(row)) for row in self._connection.execute(_OWNERS))

    def last_position(self) -> int:
        """Return the position of the newest record."""
        return last_position(self._connection, self._key)

    def snapshot(self, session_id: str) -> tuple[int, bytes] | None:
        """Return the newest state; None also if it is damaged, for it is only a cache."""
        session_key = self._key.session_key(session_id)
        columns = self._connection.execute(_SNAPSHOT, (session_key,)).fetchone()
        if columns is None or not self._key.is_snapshot(columns, session_key):
            return None
        seq, _, state = cast("tuple[int, bytes, bytes]", columns)
        return seq, state

    def content(self, digest: str) -> bytes:
        """Return bytes by their hash."""
        columns = self._connection.execute(_CONTENT, (digest,)).fetchone()
        if columns is None:
            raise rejected(f"there is no content {digest}")
        content = columns[0]
        if not isinstance(content, bytes) or content_hash(content) != digest:
            raise corrupt(f"content {digest} is damaged")
        return content

    def data_version(self) -> int:
        """Return a number that changes whenever somebody else has written."""
        [(version,)] = self._connection.execute("PRAGMA data_version").fetchall()
        return cast("int", version)

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()

    def _check_gap(self, last: int, first: int) -> None:
        """See to it that whatever is missing between two positions was deleted."""
        if first <= last + 1:
            return
        for columns in self._connection.execute(_HOLES, (last, first)):
            start, end = self._key.read_hole(columns)
            if start > last + 1:
                break
            last = end
        if first > last + 1:
            raise corrupt(f"a record before position {first:,} is missing")

    def _link(self, session_key: int, last_seq: int) -> tuple[str, Link]:
        """Return the id of a session, and the append before the one named."""
        columns = self._connection.execute(_SESSION, (session_key,)).fetchone()
        if columns is None:
            raise corrupt(f"the row of a session with {last_seq:,} records is missing")
        session = self._key.read_session(session_key, columns)
        before = self._connection.execute(_BEFORE, (session_key, last_seq - 1)).fetchone()
        return session.row.session_id, START if before is None else Link(*cast("tuple[int, bytes]", before))

    @contextmanager
    def _look(self) -> Generator[None]:
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("COMMIT")


def position_of(record: Record) -> int:
    """Return the position of a record that was read from a store, where each has one."""
    return cast("int", record.position)


def _check_end(session: StoredSession, link: Link, has_more: bool) -> None:
    is_end = link == Link(session.row.last_seq, session.chain)
    if not is_end and (not has_more or link.last_seq >= session.row.last_seq):
        raise damaged(session.row.session_id, link.last_seq + 1)


def _behind(records: Sequence[Record], first: int, after: int) -> tuple[Record, ...]:
    # A reader may stop inside an append; the next read begins with the rest of it.
    return tuple(records[max(0, after + 1 - first) :])
