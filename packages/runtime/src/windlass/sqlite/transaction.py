"""Transactions of the SQLite store, one at a time per connection, and the lock files of owners."""

import os
import time
from hashlib import blake2b
from pathlib import Path
from typing import Final

from windlass.adapters.journals.rules import Leases, conflict, unavailable
from windlass.private_files import make_folder, tighten
from windlass.sql.archive import ArchiveTransaction
from windlass.sql.integrity import StoredSession, StoreKey
from windlass.sql.queries import NEWEST_ITEM
from windlass.sql.statements import SqlConnection
from windlass.sqlite.files import take_lock, write_again
from windlass.sqlite.listing import SqliteIndexWrites
from windlass.sqlite.marks import StoreMarks, StoreState, read_state
from windlass.sqlite.reads import last_position
from windlass.sqlite.run_index import SqliteRunIndex
from windlass.sqlite.search import End, SearchIndex

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
        tighten(self._folder)
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


_SAVE_STORE: Final = "UPDATE store SET last_position = ?, seal = ?, saves = saves + 1"
_IS_RECORDED: Final = "SELECT 1 FROM sqlite_schema WHERE name = 'recorder_runs'"
_RECORDED: Final = """SELECT 1 FROM recorder_runs WHERE session_id = ?1 UNION ALL
    SELECT 1 FROM recorder_stale WHERE session_id = ?1"""


class SqliteTransaction(ArchiveTransaction):
    """A group of writes that become durable together; no other connection writes meanwhile."""

    def __init__(
        self, connection: SqlConnection, key: StoreKey, *, locks: OwnerLocks, marks: StoreMarks | None = None
    ) -> None:
        self._numbers = SqliteIndexWrites(connection, key)
        super().__init__(connection, key, owners=locks, index=self._numbers)
        self._marks = marks
        self._search = SearchIndex(connection)
        self._is_erasing = False
        """Whether SQLite overwrites what this transaction deletes."""
        self._last_position: int | None = None
        """This and what follows is valid while no other connection writes."""
        self._newest_item: int | None = None
        self._saves: int | None = None
        self._version: object = None
        self._must_save_end = False
        """Whether `finish` writes the newest position: perhaps no session with an owner has it."""
        self._must_count = False
        """Whether the transaction must leave a trace in the numbers of the store: see `marks`."""
        self._has_counted = False
        """Whether it has added a record or an item."""
        self._state: StoreState | None = None
        """The state of the store after this transaction, if its numbers have changed."""

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
        self._state = StoreState(self._end(), self._last_item(), self._saves)

    def commit(self) -> None:
        """Make everything durable."""
        self._connection.execute("COMMIT")
        if self._state is not None and self._marks is not None:
            self._marks.note(self._state)
        if self._is_erasing:
            self._end_erasing()

    @property
    def state(self) -> StoreState | None:
        """The state of the store after this transaction; None if it does not change the numbers."""
        return self._state

    def replace_failed(self, doubted: StoreState | None, *, log: Path | None) -> bool:
        """Commit a change of the store row after a failed commit; return whether that one may be there.

        `doubted` is the state after the failed commit. The new commit takes its place in the log: if its
        state is not reached now, it never will be. `log` is written again, if it is given.
        """
        self.begin()
        if log is not None:
            # No other process writes: the transaction is exclusive.
            write_again(log)
        is_reached = doubted is not None and read_state(self._connection, self._key).reaches(doubted)
        self._count_at_commit()
        self.finish()
        self.commit()
        return is_reached

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
        self._connection.execute("PRAGMA secure_delete = FAST").fetchall()

    def delete(self, session_id: str, *, now_ms: int, idle_since: str | None = None) -> tuple[str, ...]:
        """Delete a session and its subagent sessions."""
        session_ids = super().delete(session_id, now_ms=now_ms, idle_since=idle_since)
        self._search.renumber()
        return session_ids

    def _forget(self, session: StoredSession) -> None:
        self._search.remove(session.key)
        execute = self._connection.execute
        is_indexed = execute(_IS_RECORDED).fetchone() is not None
        if is_indexed and execute(_RECORDED, (session.row.session_id,)).fetchone() is not None:
            # The recorder index is rebuilt at the next query.
            SqliteRunIndex(self._connection).drop()

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

    def _take_positions(self, count: int) -> int:
        first = self._end() + 1
        if count:
            self._has_counted = True
            self._last_position = first + count - 1
        return first

    def _take_items(self, count: int) -> int:
        # `finish` needs it, and must not fail.
        self._end()
        first = self._last_item() + 1
        self._has_counted = True
        self._newest_item = first + count - 1
        return first

    def _drop_cache(self) -> None:
        self._sessions.clear()
        self._enlisted.clear()
        self._last_position = self._newest_item = self._saves = None
        self._numbers.drop_cache()

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
