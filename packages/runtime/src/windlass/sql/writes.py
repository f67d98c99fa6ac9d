"""Writes inside a transaction: claims, appends, inbox items, owners, contents, snapshots.

All checks precede the first write, so a refused request does not affect the others of its group.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Final, Protocol, cast

from pydantic_core import to_json

from windlass.adapters.journals.codec import EncodedPost
from windlass.adapters.journals.purses import hold_call, read_purses, settle_calls
from windlass.adapters.journals.rules import (
    check_fence,
    check_revision,
    check_room,
    conflict,
    deletion_conflict,
    new_run_ids,
    rejection,
)
from windlass.ports.catalog import SessionRow
from windlass.ports.documents import Document
from windlass.ports.inbox import NewRun, Posted
from windlass.ports.journal import Appended, Batch, Claim, Standing
from windlass.ports.listing import RefusedStart
from windlass.ports.purses import CallAsk, CallGrant, CallRefusal, PurseState
from windlass.sql.integrity import (
    DOCUMENT_COLUMNS,
    ITEM_COLUMNS,
    REFUSED_COLUMNS,
    SESSION_KEYS_MAX,
    START,
    AppendPosition,
    StoredSession,
    StoreKey,
)
from windlass.sql.listing import IndexWrites, new_run
from windlass.sql.queries import OWNERS, find_session, is_deleted, source_text
from windlass.sql.statements import NEW_APPEND, SqlConnection
from windlass_harness.views.listing import SessionNews
from windlass_protocol import ContentRef, JsonObject

_NEW_SESSION: Final = "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_SAVE_SESSION: Final = """UPDATE sessions SET epoch = ?, last_seq = ?, last_position = ?, chain = ?,
    standing = ?, wake_at_ms = ?, owner_id = ?, seal = ? WHERE session_key = ?"""
_LENGTHEN_SESSION: Final = """UPDATE sessions SET last_seq = ?, last_position = ?, chain = ?, seal = ?
    WHERE session_key = ?"""
_IS_PENDING: Final = "SELECT 1 FROM items WHERE number = ? AND session_key = ? AND consumed_seq IS NULL"
_ITEM: Final = f"SELECT {ITEM_COLUMNS} FROM items WHERE number = ?"
_CONSUME: Final = "UPDATE items SET consumed_seq = ?, seal = ?, body = NULL WHERE number = ?"
_COUNT_PENDING: Final = "SELECT count(*) FROM items WHERE session_key = ? AND consumed_seq IS NULL"
_BY_KEY: Final = "SELECT number, digest FROM items WHERE session_key = ? AND key = ?"
_BY_RUN: Final = "SELECT i.number, i.digest FROM runs r JOIN items i ON i.number = r.item WHERE r.run_id = ?"
_NEW_ITEM: Final = "INSERT INTO items VALUES (?, ?, ?, ?, ?, NULL, ?, ?)"
_RUN_SESSION: Final = "SELECT session_key FROM runs WHERE run_id = ?"
_BEAT: Final = "SELECT beat_at_ms FROM leases WHERE owner_id = ?"
_ENLIST: Final = """INSERT INTO leases VALUES (?, ?)
    ON CONFLICT (owner_id) DO UPDATE SET beat_at_ms = excluded.beat_at_ms"""
_FREE: Final = "UPDATE sessions SET owner_id = NULL WHERE owner_id = ?"
_STRIKE: Final = "DELETE FROM leases WHERE owner_id = ?"
_KEEP: Final = "INSERT INTO contents VALUES (?, ?, ?, ?) ON CONFLICT (hash) DO NOTHING"
_USE: Final = "INSERT INTO content_uses VALUES (?, ?) ON CONFLICT DO NOTHING"
_SHARE: Final = """INSERT INTO content_uses SELECT 0, hash FROM contents WHERE hash = ?1
    AND NOT EXISTS (SELECT 1 FROM content_uses WHERE hash = ?1) ON CONFLICT DO NOTHING"""
_REFUSE: Final = f"INSERT INTO refused ({REFUSED_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_DOCUMENTS: Final = f"SELECT {DOCUMENT_COLUMNS} FROM documents"
_REVISION: Final = "SELECT revision FROM documents WHERE kind = ? AND name = ?"
# Of two first revisions at once the index refuses the second, which is repeated and finds the first.
_NEW_DOCUMENT: Final = "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?)"
_PUT_DOCUMENT: Final = """UPDATE documents SET revision = ?3, body = ?4, due_at_ms = ?5, seal = ?6
    WHERE kind = ?1 AND name = ?2"""
_DROP_DOCUMENT: Final = "DELETE FROM documents WHERE kind = ? AND name = ?"
_FORGET_REFUSED: Final = "DELETE FROM refused WHERE number <= (SELECT max(number) FROM refused) - ?"
_SNAPSHOT: Final = """INSERT INTO snapshots VALUES (?, ?, ?, ?) ON CONFLICT (session_key) DO UPDATE
    SET seq = excluded.seq, seal = excluded.seal, state = excluded.state
    WHERE excluded.seq >= snapshots.seq"""


class Owners(Protocol):
    """Which owners are alive, beyond their leases."""

    def hold(self, owner_id: str) -> None:
        """Show that an owner is alive; Conflict if another process has this owner id."""
        ...

    def is_dead(self, owner_id: str, *, beat_at_ms: int, now_ms: int) -> bool:
        """Return whether an owner let its lease expire, or its process has ended."""
        ...


class Transaction:
    """A group of writes that become durable together.

    A database says in a subclass how numbers are given, and how a transaction begins and ends.
    """

    LOCK: ClassVar = ""
    """The clause that locks the row of a session until the end of the transaction."""
    LOCK_FREE: ClassVar = ""
    """The clause that locks rows, and passes over those that another transaction has locked."""

    def __init__(
        self, connection: SqlConnection, key: StoreKey, *, owners: Owners, index: IndexWrites
    ) -> None:
        self._connection = connection
        self._key = key
        self._owners = owners
        self._index = index
        self._sessions: dict[str, StoredSession] = {}
        """Cached session rows; this and what follows is valid while no other connection can change them."""
        self._enlisted: set[str] = set()
        """Owners that are known to be enlisted."""

    def _take_positions(self, count: int) -> int:
        """Return the first of as many new positions; the next position if none is wanted."""
        raise NotImplementedError

    def _take_items(self, count: int) -> int:
        """Return the first of as many new item numbers."""
        raise NotImplementedError

    def _save_end_at_commit(self) -> None:
        """A session loses its owner."""

    def _count_at_commit(self) -> None:
        """Something of value changes that is neither a record nor an item."""

    def _erase(self) -> None:
        """Overwrite deleted rows of this transaction in the file."""

    def claim(self, session_id: str, owner_id: str, *, now_ms: int) -> Claim:
        """Make an owner the only writer of a session."""
        if owner_id not in self._enlisted:
            if self._connection.execute(_BEAT, (owner_id,)).fetchone() is None:
                raise rejection(f"owner {owner_id} is not enlisted")
            self._enlisted.add(owner_id)
        session = self._find(session_id)
        if session is None:
            session = self._new_session(session_id)
        row = session.row
        if row.owner_id not in (None, owner_id) and self.is_alive(row.owner_id or "", now_ms):
            raise conflict(f"session {session_id} belongs to owner {row.owner_id}", session_id)
        self._count_at_commit()
        self._save(replace(session, row=replace(row, owner_id=owner_id, epoch=row.epoch + 1)))
        return Claim(session_id, owner_id, epoch=row.epoch + 1, last_seq=row.last_seq)

    def append(self, batch: Batch, body: bytes, *, posts: tuple[EncodedPost, ...] = ()) -> Appended:
        """Write a batch; its records and items are encoded already."""
        session = self._find(batch.claim.session_id)
        if session is None:
            raise rejection(f"unknown session: {batch.claim.session_id}")
        check_fence(session.row, batch)
        if batch.consumes:
            self._check_consumes(session, batch)
        self._check_runs(session, batch)
        fresh = [post for post in posts if not self._is_posted(post, batch.claim.session_id)] if posts else ()
        for run, number in batch.new_runs:
            self._begin_run(run, session.key, item=number)
        row, count, chain, end = session.row, len(batch.drafts), session.chain, session.last_position
        appended = Appended(row.last_seq + 1, self._take_positions(count))
        if count:
            end = appended.first_position + count - 1
            position = AppendPosition(session.key, row.last_seq + count, end, row.epoch)
            chain = self._key.chain(chain, position, body=body)
            columns = (end, session.key, position.last_seq, row.epoch, chain, body, int(batch.is_milestone))
            self._connection.execute(NEW_APPEND, columns)
        else:
            self._count_at_commit()
        for number in batch.consumes:
            self._consume(session, number, appended.first_seq)
        self._save(StoredSession(session.key, _after(row, batch), end, chain), row)
        self._index.follow(session.key, batch, first_seq=appended.first_seq if count else 0)
        for post in fresh:
            self._keep(post)
        if batch.calls is not None:
            settle_calls(self, session.row.session_id, batch.calls)
        return appended

    def hold_call(self, ask: CallAsk) -> CallGrant | CallRefusal:
        """Hold a model call in its purses, if the caller still owns its session."""
        session = self._find(ask.claim.session_id)
        if session is None or session.row.epoch != ask.claim.epoch:
            raise conflict("the session has another owner", ask.claim.session_id)
        self._lock_purses()
        self._count_at_commit()
        return hold_call(self, ask)

    def purses(self, names: Sequence[str]) -> tuple[PurseState, ...]:
        """Return the states of purses, with all calls that have ended."""
        self._lock_purses()
        self._count_at_commit()
        return read_purses(self, names)

    def _lock_purses(self) -> None:
        """Wait until no other transaction changes purses."""

    def read_row(self, kind: str, name: str) -> JsonObject | None:
        """Return the body of a document; see `PurseRows`."""
        rows = self._documents(f"kind = ? AND name = ?{self.LOCK}", (kind, name))
        return rows[0].body if rows else None

    def write_row(
        self, kind: str, name: str, body: JsonObject | None, *, due_at_ms: int | None = None
    ) -> None:
        """Write the body of a document; see `PurseRows`."""
        if body is None:
            self._connection.execute(_DROP_DOCUMENT, (kind, name))
            return
        row = self._connection.execute(_REVISION, (kind, name)).fetchone()
        revision = 1 if row is None else cast("int", row[0]) + 1
        columns = (kind, name, revision, to_json(body).decode(), due_at_ms)
        sql = _NEW_DOCUMENT if row is None else _PUT_DOCUMENT
        self._connection.execute(sql, (*columns, self._key.row_seal("documents", columns)))

    def due_rows(self, kind: str) -> list[tuple[str, JsonObject]]:
        """Return the documents that are due; see `PurseRows`."""
        due = self._documents(f"kind = ? AND due_at_ms <= 0{self.LOCK_FREE}", (kind,))
        return [(document.name, document.body) for document in due]

    def _documents(self, where: str, parameters: Sequence[str]) -> list[Document]:
        rows = self._connection.execute(f"{_DOCUMENTS} WHERE {where}", parameters).fetchall()
        return [self._key.read_document(row) for row in rows]

    def post(self, encoded_post: EncodedPost) -> Posted:
        """Insert an item, unless its key exists."""
        post, run = encoded_post.post, encoded_post.run
        session_id, kind, key = post.session_id, post.kind, post.key
        session, item_before, what = self._find(session_id), None, f"key {key}"
        if session is not None:
            # A session that does not exist has no items.
            item_before = self._connection.execute(_BY_KEY, (session.key, key)).fetchone()
        if item_before is None and run is not None:
            item_before = self._connection.execute(_BY_RUN, (run.run_id,)).fetchone()
            what = f"run id {run.run_id}"
        if item_before is not None:
            if item_before[1] != encoded_post.digest:
                raise conflict(f"{what} was used for another request", session_id)
            return Posted(cast("int", item_before[0]), is_new=False)
        if session is not None:
            check_room(self._number(_COUNT_PENDING, session.key), kind=kind)
            if encoded_post.facts is not None:
                self._index.check_owner(session.key, encoded_post.facts, session_id=session_id)
        return Posted(self._keep(encoded_post), is_new=True)

    def _is_posted(self, encoded_post: EncodedPost, session_id: str) -> bool:
        post, run = encoded_post.post, encoded_post.run
        key = self._key.session_key(post.session_id)
        if run is None:
            # The target session is deleted: skip the item.
            is_posted = self._connection.execute(_BY_KEY, (key, post.key)).fetchone() is not None
            return is_posted or self._is_deleted(key)
        if self._connection.execute(_BY_RUN, (run.run_id,)).fetchone() is not None:
            raise conflict(f"run id {run.run_id} was used for another request", session_id)
        if self._find(post.session_id) is not None or self._is_deleted(key):
            raise conflict(f"session {post.session_id} exists already", session_id)
        return False

    def _keep(self, encoded_post: EncodedPost) -> int:
        """Insert an item; return its number."""
        post, number = encoded_post.post, self._take_items(1)
        session_key = self._key.session_key(post.session_id)
        is_new = self._find(post.session_id) is None
        if is_new:
            self._new_session(post.session_id)
        rest = encoded_post.digest + encoded_post.raw
        seal = self._key.item_seal((number, session_key), kind=post.kind, key=post.key, rest=rest)
        row = (number, session_key, post.kind, post.key, encoded_post.digest, seal, encoded_post.raw)
        self._connection.execute(_NEW_ITEM, row)
        if encoded_post.run is not None:
            self._begin_run(
                encoded_post.run, session_key, item=number, facts=encoded_post.facts, is_new=is_new
            )
        if encoded_post.facts is not None:
            self._index.enter(session_key, encoded_post.facts, is_new=is_new)
        return number

    def _begin_run(
        self,
        run: NewRun,
        session_key: int,
        *,
        item: int,
        facts: SessionNews | None = None,
        is_new: bool = False,
    ) -> None:
        if facts is not None and is_new:
            owner, rank = facts.owner, self._index.rank(facts)
        else:
            owner, rank = self._index.home(session_key)
        row = new_run(
            run.run_id,
            session_key,
            agent_id=run.agent_id,
            fingerprint=run.fingerprint,
            item=item,
            at=run.at if facts is None else facts.at,
            owner=owner,
            rank=rank,
            input="" if facts is None else facts.title,
        )
        self._index.begin_run(row)

    def enlist(self, owner_id: str, now_ms: int) -> tuple[str, ...]:
        """Insert or renew an owner, and retire the dead ones; return these.

        The lock of the owner is taken first, since a row without a lock is a dead owner.
        """
        self.renew(owner_id, now_ms)
        return self.bury(now_ms)

    def renew(self, owner_id: str, now_ms: int) -> None:
        """Insert or renew an owner."""
        self._owners.hold(owner_id)
        self._connection.execute(_ENLIST, (owner_id, now_ms))

    def retire(self, owner_id: str) -> None:
        """Delete an owner and release its sessions; its lock is released afterwards."""
        self._save_end_at_commit()
        self._connection.execute(_FREE, (owner_id,))
        self._connection.execute(_STRIKE, (owner_id,))
        self._sessions.clear()
        self._enlisted.discard(owner_id)

    def bury(self, now_ms: int) -> tuple[str, ...]:
        """Delete the dead owners and release their sessions; return their ids.

        Nothing is waited for: an owner whose row is locked is buried later.
        """
        rows = cast("list[tuple[str, int]]", self._connection.execute(OWNERS).fetchall())
        dead = [owner_id for owner_id, beat_at_ms in rows if self._is_dead(owner_id, beat_at_ms, now_ms)]
        return tuple(owner_id for owner_id in dead if self._bury_owner(owner_id, now_ms))

    def _bury_owner(self, owner_id: str, now_ms: int) -> bool:
        """Release the sessions of an owner that is still dead, and delete it; return whether it is gone."""
        row = self._connection.execute(f"{_BEAT}{self.LOCK_FREE}", (owner_id,)).fetchone()
        if row is None or not self._is_dead(owner_id, cast("int", row[0]), now_ms):
            return False
        if not self._release(owner_id):
            return False
        self.retire(owner_id)
        return True

    def _release(self, owner_id: str) -> bool:
        """Release the sessions of a dead owner that can be had at once; return whether none is left."""
        return True

    def _is_dead(self, owner_id: str, beat_at_ms: int, now_ms: int) -> bool:
        return self._owners.is_dead(owner_id, beat_at_ms=beat_at_ms, now_ms=now_ms)

    def put(self, ref: ContentRef, content: bytes, *, session_id: str | None = None) -> None:
        """Store bytes by hash, for a session, or permanently if there is none."""
        self._count_at_commit()
        # Content without a session, such as packages, stays when a session that also uses it is deleted.
        self._connection.execute(_SHARE, (ref.hash,))
        seal = self._key.row_seal("contents", (ref.hash, ref.media_type))
        self._connection.execute(_KEEP, (ref.hash, ref.media_type, content, seal))
        key = 0 if session_id is None else self._key.session_key(session_id)
        self._connection.execute(_USE, (key, ref.hash))

    def _use(self, session_key: int, digest: str) -> None:
        """Record that a session uses a content, if that exists."""
        self._connection.execute(_SHARE, (digest,))
        self._connection.execute(_USE, (session_key, digest))

    def refuse(self, refusal: RefusedStart, *, most: int) -> None:
        """Insert a refused start; only the newest `most` stay."""
        self._count_at_commit()
        source = source_text(refusal)
        columns = (
            None if refusal.session_id is None else self._key.session_key(refusal.session_id),
            refusal.at,
            refusal.run_id,
            refusal.session_id,
            refusal.agent_id,
            refusal.owner,
            source,
            refusal.code.value,
            refusal.kind.value,
            refusal.retry.value,
            refusal.message,
        )
        self._connection.execute(_REFUSE, (*columns, self._key.row_seal("refused", columns)))
        self._connection.execute(_FORGET_REFUSED, (most,))

    def put_document(self, document: Document, body: str) -> None:
        """Write a document in place of the revision before it."""
        self._check_revision(document, document.revision - 1)
        self._count_at_commit()
        columns = (document.kind, document.name, document.revision, body, document.due_at_ms)
        sql = _PUT_DOCUMENT if document.revision > 1 else _NEW_DOCUMENT
        self._connection.execute(sql, (*columns, self._key.row_seal("documents", columns)))

    def drop_document(self, document: Document) -> None:
        """Delete a document."""
        self._check_revision(document, document.revision)
        self._count_at_commit()
        self._erase()
        self._connection.execute(_DROP_DOCUMENT, (document.kind, document.name))

    def _check_revision(self, document: Document, expected: int) -> None:
        row = self._connection.execute(f"{_REVISION}{self.LOCK}", (document.kind, document.name)).fetchone()
        check_revision(document, cast("int", row[0]) if row else 0, expected=expected)

    def save(self, session_id: str, seq: int, *, state: bytes) -> None:
        """Save a snapshot, unless a newer one exists or its records do not."""
        session = self._find(session_id)
        if session is not None and seq <= session.row.last_seq:
            seal = self._key.snapshot_seal(session.key, seq, state=state)
            self._connection.execute(_SNAPSHOT, (session.key, seq, seal, state))

    def _find(self, session_id: str) -> StoredSession | None:
        session = self._sessions.get(session_id)
        if session is None:
            session = find_session(self._connection, self._key, session_id=session_id, lock=self.LOCK)
            if session is not None:
                self._cache(session)
        return session

    def _cache(self, session: StoredSession) -> None:
        if len(self._sessions) >= SESSION_KEYS_MAX:
            self._sessions.clear()
        self._sessions[session.row.session_id] = session

    def is_alive(self, owner_id: str, now_ms: int) -> bool:
        """Return whether an owner has a valid lease and a living process."""
        row = self._connection.execute(_BEAT, (owner_id,)).fetchone()
        return row is not None and not self._is_dead(owner_id, cast("int", row[0]), now_ms)

    def _is_deleted(self, session_key: int) -> bool:
        return is_deleted(self._connection, session_key)

    def _new_session(self, session_id: str) -> StoredSession:
        if self._is_deleted(self._key.session_key(session_id)):
            raise deletion_conflict(session_id)
        row = SessionRow(session_id, Standing.IDLE, last_seq=0, epoch=0, wake_at_ms=None, owner_id=None)
        session = StoredSession(self._key.session_key(session_id), row, last_position=0, chain=START.chain)
        seal = self._key.session_seal(session)
        columns = (session.key, session_id, 0, 0, 0, START.chain, row.standing.value, None, None, seal)
        self._connection.execute(_NEW_SESSION, columns)
        self._cache(session)
        return session

    def _save(self, session: StoredSession, before: SessionRow | None = None) -> None:
        row, seal = session.row, self._key.session_seal(session)
        if (
            before is not None
            and row.standing is before.standing
            and row.wake_at_ms == before.wake_at_ms
            and row.owner_id == before.owner_id
        ):
            # SQLite updates an index for every column that a statement names, changed or not.
            columns = (row.last_seq, session.last_position, session.chain, seal, session.key)
            self._connection.execute(_LENGTHEN_SESSION, columns)
            self._cache(session)
            return
        if row.owner_id is None:
            self._save_end_at_commit()
        self._connection.execute(
            _SAVE_SESSION,
            (
                row.epoch,
                row.last_seq,
                session.last_position,
                session.chain,
                row.standing.value,
                row.wake_at_ms,
                row.owner_id,
                seal,
                session.key,
            ),
        )
        self._cache(session)

    def _check_consumes(self, session: StoredSession, batch: Batch) -> None:
        is_repeated = len(set(batch.consumes)) != len(batch.consumes)
        if is_repeated or any(
            self._connection.execute(_IS_PENDING, (number, session.key)).fetchone() is None
            for number in batch.consumes
        ):
            raise conflict("an inbox item is unknown or already consumed", batch.claim.session_id)

    def _consume(self, session: StoredSession, number: int, seq: int) -> None:
        """Mark an item as consumed; its body is deleted, so its seal is made anew."""
        columns = cast("Sequence[object]", self._connection.execute(_ITEM, (number,)).fetchone())
        item = self._key.read_item((session.key, session.row.session_id), columns)
        seal = self._key.consumption_seal(
            (number, session.key),
            kind=item.kind,
            key=item.key,
            digest=cast("bytes", columns[3]),
            consumed_seq=seq,
        )
        self._connection.execute(_CONSUME, (seq, seal, number))

    def _check_runs(self, session: StoredSession, batch: Batch) -> None:
        if not batch.runs and not batch.new_runs:
            return
        new_ids = new_run_ids(batch)
        for run_id in new_ids:
            if self._connection.execute(_RUN_SESSION, (run_id,)).fetchone() is not None:
                raise conflict(f"run id {run_id} was used for another request", session.row.session_id)
        for run_id in {run_id for run_id, _ in batch.runs} - new_ids:
            columns = self._connection.execute(_RUN_SESSION, (run_id,)).fetchone()
            if columns is None or columns[0] != session.key:
                raise rejection(f"run {run_id} was not started in session {session.row.session_id}")

    def _number(self, sql: str, *parameters: int) -> int:
        [(number,)] = self._connection.execute(sql, parameters).fetchall()
        return cast("int", number)


def _after(row: SessionRow, batch: Batch) -> SessionRow:
    is_moved = batch.standing is not None
    return SessionRow(
        row.session_id,
        batch.standing or row.standing,
        row.last_seq + len(batch.drafts),
        row.epoch,
        batch.wake_at_ms if is_moved else row.wake_at_ms,
        None if batch.is_last else row.owner_id,
    )
