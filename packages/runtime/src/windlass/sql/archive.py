"""Import and deletion of whole sessions, each in one transaction."""

from collections.abc import Iterator
from typing import Final, cast

from windlass.adapters.journals.codec import family_of
from windlass.adapters.journals.rules import conflict, driving_conflict, facts_of, in_use, status_after
from windlass.ports.archive import SessionCopy
from windlass.ports.catalog import SessionRow
from windlass.ports.documents import OF_RUNS
from windlass.ports.journal import Standing
from windlass.sql.integrity import START, AppendPosition, StoredSession
from windlass.sql.listing import new_run
from windlass.sql.statements import NEW_APPEND, OPEN_RUN
from windlass.sql.writes import Transaction
from windlass_harness.ledger.names import evaluation_session, is_notes

_ITEM: Final = "INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, ?, NULL)"
_HAS_RUN: Final = "SELECT 1 FROM runs WHERE run_id = ?"
_CHILDREN: Final = """SELECT s.session_id FROM catalog c JOIN sessions s USING (session_key)
    WHERE c.parent = ? AND c.parent IS NOT NULL ORDER BY c.number"""
_RUNS_OF: Final = "SELECT run_id FROM runs WHERE session_key = ?"
_OPEN: Final = f"SELECT run_id FROM runs WHERE session_key = ? AND {OPEN_RUN} LIMIT 1"
_USED: Final = """SELECT 1 FROM catalog WHERE session_key = ?1 AND updated_at >= ?2
    UNION ALL SELECT 1 FROM asked WHERE session_key = ?1
    UNION ALL SELECT 1 FROM items WHERE session_key = ?1 AND consumed_seq IS NULL LIMIT 1"""
_PLACES: Final = "SELECT last_position, last_seq FROM appends WHERE session_key = ? ORDER BY last_seq"
_HOLE: Final = "INSERT INTO holes VALUES (?, ?, ?)"
_UNUSED: Final = """DELETE FROM contents WHERE hash IN (SELECT u.hash FROM content_uses u
    WHERE u.session_key = ?1 AND NOT EXISTS
    (SELECT 1 FROM content_uses o WHERE o.hash = u.hash AND o.session_key != ?1))"""
_UNSEAT: Final = """UPDATE items SET session_key = 0, kind = '', key = '', digest = ?2, consumed_seq = 0,
    seal = ?2, body = NULL WHERE session_key = ?1 AND number = (SELECT max(number) FROM items)"""
_OF_RUNS: Final = ", ".join(f"'{kind}'" for kind in OF_RUNS)
_DELETE_DOCUMENTS: Final = f"""DELETE FROM documents WHERE kind IN ({_OF_RUNS}) AND name IN
    (SELECT run_id FROM runs WHERE session_key = ?)"""
_TABLES: Final = (
    "appends",
    "items",
    "runs",
    "run_tags",
    "snapshots",
    "asked",
    "asked_of",
    "settled",
    "catalog",
    "content_uses",
    "sessions",
)


class ArchiveTransaction(Transaction):
    """A transaction that can also import and delete sessions."""

    def keep(self, copy: SessionCopy) -> None:
        """Import a session; its appends are encoded already."""
        session_id = copy.session_id
        if self._find(session_id) is not None:
            raise conflict(f"session {session_id} exists already", session_id)
        for run in copy.runs:
            if self._connection.execute(_HAS_RUN, (run.run_id,)).fetchone() is not None:
                raise conflict(f"run {run.run_id} exists already", session_id)
        if copy.copied_from is not None:
            self._require_session(copy.copied_from)
        key = self._new_session(session_id).key
        position, chain = self._keep_appends(key, copy)
        row = SessionRow(session_id, Standing.IDLE, copy.last_seq, copy.epoch, None, None)
        self._save(StoredSession(key, row, position, chain))
        self._keep_runs(key, copy)
        for content in copy.contents:
            self.put(content.ref, content.content, session_id=session_id if content.is_own else None)
        for digest in copy.uses:
            self._use(key, digest)
        self._index.enter(key, copy.news, status=status_after(copy.news))
        self._index.ask(key, copy.asked, at=copy.news.at)

    def _keep_appends(self, key: int, copy: SessionCopy) -> tuple[int, bytes]:
        """Append after all other records; return the last position and the chain."""
        count = sum(len(append.records) for append in copy.appends)
        position, chain = self._take_positions(count) - 1, START.chain
        for append in copy.appends:
            last_seq = append.records[-1].seq
            position += len(append.records)
            chain = self._key.chain(
                chain, AppendPosition(key, last_seq, position, append.epoch), body=append.body
            )
            # Not examined: it counts as a milestone.
            columns = (position, key, last_seq, append.epoch, chain, append.body, 1)
            self._connection.execute(NEW_APPEND, columns)
        return position, chain

    def _keep_runs(self, key: int, copy: SessionCopy) -> None:
        first = self._take_items(len(copy.items)) if copy.items else 0
        items: dict[str, int] = {}
        for number, item in enumerate(copy.items, first):
            seal = self._key.consumption_seal(
                (number, key),
                kind=item.kind,
                key=item.key,
                digest=item.digest,
                consumed_seq=item.consumed_seq,
            )
            columns = (number, key, item.kind, item.key, item.digest, item.consumed_seq, seal)
            self._connection.execute(_ITEM, columns)
            if item.run_id is not None:
                items[item.run_id] = number
        for run in copy.runs:
            row = new_run(
                run.run_id,
                key,
                agent_id=run.agent_id,
                fingerprint=run.package_fingerprint,
                item=items.get(run.run_id, 0),
                at=run.at,
                owner=copy.news.owner,
                rank=self._index.rank(copy.news),
            )
            row = row._replace(status=run.status.value, first_seq=run.first_seq)
            self._index.begin_run(row.with_facts(facts_of(run)))

    def delete(self, session_id: str, *, now_ms: int, idle_since: str | None = None) -> tuple[str, ...]:
        """Delete a session and its subagent sessions."""
        family = [self._require_session(name) for name in family_of(session_id, self._below)]
        for session in family:
            self._check_idle(session, now_ms)
            since = (session.key, idle_since)
            if idle_since is not None and self._connection.execute(_USED, since).fetchone():
                raise in_use(session.row.session_id)
        self._save_end_at_commit()
        self._erase()
        for session in family:
            self._remove(session)
        self._sessions.clear()
        return tuple(session.row.session_id for session in family)

    def _require_session(self, session_id: str) -> StoredSession:
        session = self._find(session_id)
        if session is None:
            raise conflict(f"unknown session: {session_id}", session_id)
        return session

    def _below(self, session_id: str) -> list[str]:
        """The sessions that are deleted with one: its children, and the evaluations of its runs."""
        key = self._require_session(session_id).key
        below = [cast("str", child) for (child,) in self._connection.execute(_CHILDREN, (session_id,))]
        # Evaluations of its runs quote them.
        runs = self._connection.execute(_RUNS_OF, (key,)).fetchall()
        notes = [evaluation_session(cast("str", run_id)) for (run_id,) in runs]
        return below + [note for note in notes if self._find(note) is not None]

    def _check_idle(self, session: StoredSession, now_ms: int) -> None:
        row = session.row
        if self._connection.execute(_OPEN, (session.key,)).fetchone() is not None:
            raise conflict(f"a run is under way in session {row.session_id}: cancel it first", row.session_id)
        is_owned = row.owner_id is not None and self.is_alive(row.owner_id, now_ms)
        if is_owned or row.standing is not Standing.IDLE:
            raise driving_conflict(row.session_id)

    def _remove(self, session: StoredSession) -> None:
        key, execute = session.key, self._connection.execute
        for first, last in self._places(key):
            execute(_HOLE, (last, first, self._key.hole_seal(first, last)))
        execute(_UNUSED, (key,))
        self._forget(session)
        # Keep the highest item number, so that no later item reuses it.
        execute("DELETE FROM items WHERE session_key = 0 AND number < (SELECT max(number) FROM items)")
        execute(_UNSEAT, (key, b""))
        execute(_DELETE_DOCUMENTS, (key,))
        # SQLite deletes refused starts of the session and its runs by triggers, PostgreSQL in `_forget`.
        for table in _TABLES:
            execute(f"DELETE FROM {table} WHERE session_key = ?", (key,))
        if not is_notes(session.row.session_id):
            # Evaluations are not tombstoned: a new run may have the id of a deleted one and be evaluated.
            execute("INSERT INTO tombstones VALUES (?, ?)", (key, self._key.row_seal("tombstones", (key,))))

    def _forget(self, session: StoredSession) -> None:
        """Delete rows of a session that only this database has, before the others."""

    def _places(self, key: int) -> Iterator[tuple[int, int]]:
        """Return the positions of a session as (first, last) of contiguous ranges."""
        before, piece = 0, (0, 0)
        rows = cast("list[tuple[int, int]]", self._connection.execute(_PLACES, (key,)).fetchall())
        for position, last_seq in rows:
            first, before = position - (last_seq - before) + 1, last_seq
            if piece[1] == first - 1 and piece[0]:
                piece = (piece[0], position)
                continue
            if piece[0]:
                yield piece
            piece = (first, position)
        if piece[0]:
            yield piece
