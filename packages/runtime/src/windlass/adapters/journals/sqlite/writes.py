"""Writes inside a transaction: claims, appends, inbox items, owners, contents, snapshots, search words.

All checks precede the first write, so a refused request does not affect the others of its group.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Final, cast

from windlass.adapters.journals.codec import EncodedPost
from windlass.adapters.journals.rules import (
    Leases,
    check_fence,
    check_revision,
    check_room,
    conflict,
    deleted,
    new_run_ids,
    rejected,
    unavailable,
)
from windlass.adapters.journals.sqlite.files import take_lock
from windlass.adapters.journals.sqlite.integrity import (
    ITEM_COLUMNS,
    SESSION_KEYS_MAX,
    START,
    StoredSession,
    StoreKey,
)
from windlass.adapters.journals.sqlite.listing import IndexWrites
from windlass.adapters.journals.sqlite.marks import Marks, State
from windlass.adapters.journals.sqlite.queries import (
    NEWEST_ITEM,
    OWNERS,
    find_session,
    is_deleted,
    last_position,
)
from windlass.adapters.journals.sqlite.schema import NEW_APPEND, Connection
from windlass.adapters.journals.sqlite.search import End, SearchIndex
from windlass.ports.store import (
    Appended,
    Batch,
    Claim,
    Document,
    NewRun,
    Posted,
    RefusedStart,
    SessionRow,
    Standing,
)
from windlass.private_files import make_folder
from windlass_protocol import ContentRef, RunStatus

LOCK_TRIES_MAX: Final = 50
LOCK_PAUSE_S: Final = 0.01


class OwnerLocks:
    """Lock files of owners, beside a database."""

    def __init__(self, path: Path) -> None:
        self._folder = path.with_name(f"{path.name}-owners")
        self._held: dict[str, int] = {}
        self._leases = Leases()

    def hold(self, owner_id: str) -> None:
        """Take the lock of an owner, and hold it until `drop` or the end of the process.

        Raises:
            Conflict: another process, or another store in this process, has this owner id.
        """
        if self._is_in_place(owner_id):
            return
        try:
            for _ in range(LOCK_TRIES_MAX):
                handle = self._try(owner_id)
                if handle is not None:
                    self._let_go(owner_id)
                    self._held[owner_id] = handle
                    return
                # A process that checks whether an earlier owner of this id lives holds the lock for a moment.
                time.sleep(LOCK_PAUSE_S)
        except OSError as error:
            raise unavailable(f"the lock of owner {owner_id} cannot be taken: {error.strerror}") from error
        raise conflict(f"owner {owner_id} is enlisted elsewhere: every owner needs an id of its own")

    def _try(self, owner_id: str) -> int | None:
        make_folder(self._folder)
        try:
            return take_lock(self._path(owner_id))
        except FileNotFoundError:
            # Another process has just removed the folder on closing.
            return None

    def _is_in_place(self, owner_id: str) -> bool:
        """Whether the held lock is on the current file."""
        handle = self._held.get(owner_id)
        try:
            return handle is not None and os.path.samestat(os.fstat(handle), self._path(owner_id).stat())
        except FileNotFoundError:
            return False

    def drop(self, owner_id: str) -> None:
        """Release the lock of an owner; does nothing if it is not held here."""
        if owner_id in self._held:
            self.remove_lock(owner_id)
            self._let_go(owner_id)

    def _let_go(self, owner_id: str) -> None:
        handle = self._held.pop(owner_id, None)
        if handle is not None:
            os.close(handle)

    def remove_lock(self, owner_id: str) -> None:
        """Remove the lock file of a retired owner."""
        self._path(owner_id).unlink(missing_ok=True)

    def is_dead(self, owner_id: str, *, beat_at_ms: int, now_ms: int) -> bool:
        """Return whether an owner let its lease expire or has died: the kernel released its lock.

        A missing lock file proves nothing: it may have been removed while its owner lives. Neither does one
        that cannot be opened, such as when this process has no file descriptor left.
        """
        if not self._leases.is_valid(owner_id, beat_at_ms=beat_at_ms, now_ms=now_ms):
            return True
        if owner_id in self._held:
            return False
        try:
            handle = take_lock(self._path(owner_id), is_new=False)
        except OSError:
            return False
        if handle is None:
            return False
        os.close(handle)
        return True

    def owners(self) -> tuple[str, ...]:
        """Return the owners with a lock that is held here."""
        return tuple(self._held)

    def close(self) -> None:
        """Release every lock, and remove the folder if it is empty.

        The file of an owner that was not retired stays unlocked: it shows that the owner is dead.
        """
        for owner_id in self.owners():
            self._let_go(owner_id)
        try:
            self._folder.rmdir()
        except OSError:
            # Other locks are in the folder, or it was never created.
            return

    def _path(self, owner_id: str) -> Path:
        # Owners choose their ids; a digest is a safe file name.
        return self._folder / blake2b(owner_id.encode(), digest_size=16).hexdigest()


_NEW_SESSION: Final = "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_SAVE_SESSION: Final = """UPDATE sessions SET epoch = ?, last_seq = ?, last_position = ?, chain = ?,
    standing = ?, wake_at_ms = ?, owner_id = ?, seal = ? WHERE session_key = ?"""
_LENGTHEN_SESSION: Final = """UPDATE sessions SET last_seq = ?, last_position = ?, chain = ?, seal = ?
    WHERE session_key = ?"""
_SAVE_STORE: Final = "UPDATE store SET last_position = ?, seal = ?, saves = saves + 1"
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
    AND NOT EXISTS (SELECT 1 FROM content_uses WHERE hash = ?1)"""
_REFUSE: Final = "INSERT INTO refused VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_REVISION: Final = "SELECT revision FROM documents WHERE kind = ? AND name = ?"
_PUT_DOCUMENT: Final = "INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, ?, ?)"
_DROP_DOCUMENT: Final = "DELETE FROM documents WHERE kind = ? AND name = ?"
_FORGET_REFUSED: Final = "DELETE FROM refused WHERE number <= (SELECT max(number) FROM refused) - ?"
_SNAPSHOT: Final = """INSERT INTO snapshots VALUES (?, ?, ?, ?) ON CONFLICT (session_key) DO UPDATE
    SET seq = excluded.seq, seal = excluded.seal, state = excluded.state WHERE excluded.seq >= seq"""


class Transaction:
    """A group of writes that become durable together."""

    def __init__(
        self, connection: Connection, key: StoreKey, *, locks: OwnerLocks, marks: Marks | None = None
    ) -> None:
        self._connection = connection
        self._key = key
        self._marks = marks
        self._locks = locks
        self._index = IndexWrites(connection, key)
        self._search = SearchIndex(connection)
        self._is_erasing = False
        """Whether SQLite overwrites what this transaction deletes."""
        self._last_position: int | None = None
        self._must_save_end = False
        """Whether `finish` writes the newest position: perhaps no session with an owner has it."""
        self._must_count = False
        """Whether the transaction must leave a trace in the numbers of the store: see `marks`."""
        self._has_counted = False
        """Whether it has added a record or an item."""
        self._state: State | None = None
        """The state of the store after this transaction, if its numbers have changed."""
        self._sessions: dict[str, StoredSession] = {}
        """Cached session rows; this and what follows is valid while no other connection writes."""
        self._enlisted: set[str] = set()
        """Owners that are known to be enlisted."""
        self._newest_item: int | None = None
        self._saves: int | None = None
        self._version: object = None

    def begin(self) -> None:
        """Begin an exclusive write transaction."""
        self._must_save_end = self._must_count = self._has_counted = False
        self._state = None
        self._connection.execute("BEGIN IMMEDIATE")
        [(version,)] = self._connection.execute("PRAGMA data_version").fetchall()
        if version != self._version:
            self._drop_cache()
            self._version = version

    def finish(self) -> None:
        """Write the end of the journal to the store row if nothing else has it; `commit` follows."""
        if self._must_save_end or (self._must_count and not self._has_counted):
            position = self._end()
            self._connection.execute(_SAVE_STORE, (position, self._key.store_seal(position)))
            self._saves = None if self._saves is None else self._saves + 1
        elif not self._has_counted:
            return
        if self._saves is None:
            self._saves = self._number("SELECT saves FROM store")
        self._state = State(self._end(), self._last_item(), self._saves)

    def commit(self) -> None:
        """Make everything durable."""
        self._connection.execute("COMMIT")
        if self._state is not None and self._marks is not None:
            self._marks.note(self._state)
        if self._is_erasing:
            self._end_erasing()

    def rollback(self) -> None:
        """Undo everything since `begin`."""
        self._drop_cache()
        self._connection.execute("ROLLBACK")
        if self._is_erasing:
            self._end_erasing()

    def checkpoint(self) -> None:
        """Copy the log into the database, as far as no reader needs it; call it between transactions."""
        rows = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        is_busy, logged, copied = rows[0]
        if self._marks is not None and not is_busy and logged == copied:
            # All that was noted is on the disk.
            self._marks.sync()

    def _erase(self) -> None:
        """Overwrite what this transaction deletes: it must not remain readable in the file."""
        self._is_erasing = True
        self._connection.execute("PRAGMA secure_delete = ON").fetchall()

    def _end_erasing(self) -> None:
        self._is_erasing = False
        self._connection.execute("PRAGMA secure_delete = OFF").fetchall()

    def claim(self, session_id: str, owner_id: str, *, now_ms: int) -> Claim:
        """Make an owner the only writer of a session."""
        if owner_id not in self._enlisted:
            if self._connection.execute(_BEAT, (owner_id,)).fetchone() is None:
                raise rejected(f"owner {owner_id} is not enlisted")
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
            raise rejected(f"unknown session: {batch.claim.session_id}")
        check_fence(session.row, batch)
        if batch.consumes:
            self._check_consumes(session, batch)
        self._check_runs(session, batch)
        fresh = [one for one in posts if not self._is_known(one, batch.claim.session_id)] if posts else ()
        for run, number in batch.new_runs:
            self._begin_run(run, session.key, item=number)
        end, row, count, chain = self._end(), session.row, len(batch.drafts), session.chain
        appended = Appended(row.last_seq + 1, end + 1)
        if count:
            self._has_counted = True
            end = self._last_position = end + count
            place = (session.key, row.last_seq + count, end, row.epoch)
            chain = self._key.chain(chain, place, body=body)
            columns = (end, session.key, place[1], row.epoch, chain, body, int(batch.is_milestone))
            self._connection.execute(NEW_APPEND, columns)
        else:
            self._count_at_commit()
        for number in batch.consumes:
            self._consume(session, number, appended.first_seq)
        moved = end if count else session.last_position
        self._save(StoredSession(session.key, _after(row, batch), moved, chain), row)
        self._index.follow(session.key, batch, first_seq=appended.first_seq if count else 0)
        for one in fresh:
            self._keep(one)
        return appended

    def post(self, one: EncodedPost) -> Posted:
        """Insert an item, unless its key exists."""
        session_id, kind, key, run = one.post.session_id, one.post.kind, one.post.key, one.run
        session, known, what = self._find(session_id), None, f"key {key}"
        if session is not None:
            # A session that does not exist has no items.
            known = self._connection.execute(_BY_KEY, (session.key, key)).fetchone()
        if known is None and run is not None:
            known = self._connection.execute(_BY_RUN, (run.run_id,)).fetchone()
            what = f"run id {run.run_id}"
        if known is not None:
            if known[1] != one.digest:
                raise conflict(f"{what} was used for another request", session_id)
            return Posted(cast("int", known[0]), is_new=False)
        if session is not None:
            check_room(self._number(_COUNT_PENDING, session.key), kind=kind)
            if one.told is not None:
                self._index.check_owner(session.key, one.told, session_id=session_id)
        return Posted(self._keep(one), is_new=True)

    def _is_known(self, one: EncodedPost, session_id: str) -> bool:
        post, run = one.post, one.run
        key = self._key.session_key(post.session_id)
        if run is None:
            # The target session is deleted: skip the item.
            is_known = self._connection.execute(_BY_KEY, (key, post.key)).fetchone() is not None
            return is_known or self._is_deleted(key)
        if self._connection.execute(_BY_RUN, (run.run_id,)).fetchone() is not None:
            raise conflict(f"run id {run.run_id} was used for another request", session_id)
        if self._find(post.session_id) is not None or self._is_deleted(key):
            raise conflict(f"session {post.session_id} exists already", session_id)
        return False

    def _keep(self, one: EncodedPost) -> int:
        """Insert an item; return its number."""
        # `finish` needs it, and must not fail.
        self._end()
        post, number = one.post, self._last_item() + 1
        session_key = self._key.session_key(post.session_id)
        is_new = self._find(post.session_id) is None
        if is_new:
            self._new_session(post.session_id)
        rest = one.digest + one.raw
        seal = self._key.item_seal((number, session_key), kind=post.kind, key=post.key, rest=rest)
        row = (number, session_key, post.kind, post.key, one.digest, seal, one.raw)
        self._connection.execute(_NEW_ITEM, row)
        self._has_counted = True
        self._newest_item = number
        if one.run is not None:
            self._begin_run(one.run, session_key, item=number)
        if one.told is not None:
            self._index.enter(session_key, one.told, is_new=is_new)
        return number

    def _begin_run(self, run: NewRun, session_key: int, *, item: int) -> None:
        status = RunStatus.PENDING.value
        columns = (run.run_id, session_key, run.agent_id, run.fingerprint, status, 0, item)
        self._index.begin_run((*columns, None, None, None))

    def enlist(self, owner_id: str, now_ms: int) -> tuple[str, ...]:
        """Insert or renew an owner, and retire the dead ones; return these.

        The lock of the owner is taken first, since a row without a lock is a dead owner.
        """
        self._locks.hold(owner_id)
        self._connection.execute(_ENLIST, (owner_id, now_ms))
        return self.bury(now_ms)

    def retire(self, owner_id: str) -> None:
        """Delete an owner and release its sessions; its lock is released afterwards."""
        self._save_end_at_commit()
        self._connection.execute(_FREE, (owner_id,))
        self._connection.execute(_STRIKE, (owner_id,))
        self._sessions.clear()
        self._enlisted.discard(owner_id)

    def bury(self, now_ms: int) -> tuple[str, ...]:
        """Delete the dead owners and release their sessions; return their ids."""
        rows = cast("list[tuple[str, int]]", self._connection.execute(OWNERS).fetchall())
        dead = tuple(
            owner_id
            for owner_id, beat_at_ms in rows
            if self._locks.is_dead(owner_id, beat_at_ms=beat_at_ms, now_ms=now_ms)
        )
        for owner_id in dead:
            self.retire(owner_id)
        return dead

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

    def refuse(self, one: RefusedStart, *, most: int) -> None:
        """Insert a refused start; only the newest `most` stay."""
        self._count_at_commit()
        source = None if one.source is None else one.source.model_dump_json(by_alias=True)
        columns = (
            None if one.session_id is None else self._key.session_key(one.session_id),
            one.at,
            one.run_id,
            one.session_id,
            one.agent_id,
            one.owner,
            source,
            one.code.value,
            one.kind.value,
            one.retry.value,
            one.message,
        )
        self._connection.execute(_REFUSE, (*columns, self._key.row_seal("refused", columns)))
        self._connection.execute(_FORGET_REFUSED, (most,))

    def put_document(self, one: Document, body: str) -> None:
        """Write a document in place of the revision before it."""
        self._check_revision(one, one.revision - 1)
        self._count_at_commit()
        columns = (one.kind, one.name, one.revision, body, one.due_at_ms)
        self._connection.execute(_PUT_DOCUMENT, (*columns, self._key.row_seal("documents", columns)))

    def drop_document(self, one: Document) -> None:
        """Delete a document."""
        self._check_revision(one, one.revision)
        self._count_at_commit()
        self._erase()
        self._connection.execute(_DROP_DOCUMENT, (one.kind, one.name))

    def _check_revision(self, one: Document, expected: int) -> None:
        row = self._connection.execute(_REVISION, (one.kind, one.name)).fetchone()
        check_revision(one, cast("int", row[0]) if row else 0, expected=expected)

    def save(self, session_id: str, seq: int, *, state: bytes) -> None:
        """Save a snapshot, unless a newer one exists or its records do not."""
        session = self._find(session_id)
        if session is not None and seq <= session.row.last_seq:
            seal = self._key.snapshot_seal(session.key, seq, state=state)
            self._connection.execute(_SNAPSHOT, (session.key, seq, seal, state))

    def index_words(self, until: End) -> bool:
        """Add the next words to the search index; return whether more are left up to an end."""
        self._erase()
        return self._search.advance(until)

    def drop_words(self) -> None:
        """Drop the search index."""
        self._erase()
        self._search.drop()

    def tend(self) -> bool:
        """Do a piece of work on the search index that no request waits for; return whether more is left."""
        self._erase()
        return self._search.advance() or self._search.clean()

    def has_unindexed_words(self) -> bool:
        """Return whether the search index needs so much work that it should begin before a search does.

        It needs no transaction.
        """
        return self._search.has_backlog()

    def has_deleted_words(self) -> bool:
        """Return whether the search index has words of deleted sessions; it needs no transaction."""
        return self._search.has_deleted()

    def clean(self) -> bool:
        """Remove deleted words from the search index, a piece of them; return whether more are left."""
        self._erase()
        return self._search.clean()

    def _find(self, session_id: str) -> StoredSession | None:
        session = self._sessions.get(session_id)
        if session is None:
            session = find_session(self._connection, self._key, session_id=session_id)
            if session is not None:
                self._know(session)
        return session

    def _know(self, session: StoredSession) -> None:
        if len(self._sessions) >= SESSION_KEYS_MAX:
            self._sessions.clear()
        self._sessions[session.row.session_id] = session

    def _drop_cache(self) -> None:
        self._sessions.clear()
        self._enlisted.clear()
        self._last_position = self._newest_item = self._saves = None
        self._index.drop_cache()

    def _last_item(self) -> int:
        """Return the number of the newest item."""
        if self._newest_item is None:
            self._newest_item = self._number(NEWEST_ITEM)
        return self._newest_item

    def _end(self) -> int:
        """Return the position of the newest record."""
        if self._last_position is None:
            self._last_position = last_position(self._connection, self._key)
        return self._last_position

    def _save_end_at_commit(self) -> None:
        """Make `finish` write the newest position to the store row: a session loses its owner."""
        self._end()
        self._must_save_end = True

    def _count_at_commit(self) -> None:
        """Make `finish` change the store row, unless the transaction adds a record or an item."""
        self._end()
        self._must_count = True

    def is_alive(self, owner_id: str, now_ms: int) -> bool:
        """Return whether an owner has a valid lease and a living process."""
        row = self._connection.execute(_BEAT, (owner_id,)).fetchone()
        if row is None:
            return False
        return not self._locks.is_dead(owner_id, beat_at_ms=cast("int", row[0]), now_ms=now_ms)

    def _is_deleted(self, session_key: int) -> bool:
        return is_deleted(self._connection, session_key)

    def _new_session(self, session_id: str) -> StoredSession:
        if self._is_deleted(self._key.session_key(session_id)):
            raise deleted(session_id)
        row = SessionRow(session_id, Standing.IDLE, last_seq=0, epoch=0, wake_at_ms=None, owner_id=None)
        session = StoredSession(self._key.session_key(session_id), row, last_position=0, chain=START.chain)
        seal = self._key.session_seal(session)
        columns = (session.key, session_id, 0, 0, 0, START.chain, row.standing.value, None, None, seal)
        self._connection.execute(_NEW_SESSION, columns)
        self._know(session)
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
            self._know(session)
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
        self._know(session)

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
        seal = self._key.consumed_seal(
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
        begun = new_run_ids(batch)
        for run_id in begun:
            if self._connection.execute(_RUN_SESSION, (run_id,)).fetchone() is not None:
                raise conflict(f"run id {run_id} was used for another request", session.row.session_id)
        for run_id in {run_id for run_id, _ in batch.runs} - begun:
            columns = self._connection.execute(_RUN_SESSION, (run_id,)).fetchone()
            if columns is None or columns[0] != session.key:
                raise rejected(f"run {run_id} was not started in session {session.row.session_id}")

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
