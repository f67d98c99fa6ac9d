"""Synchronous SQLite journal of the recorder and its readers."""

import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Final, TypeVar, cast

from windlass.adapters.journals.codec import pack
from windlass.adapters.journals.rules import conflict
from windlass.errors import AgentError, Conflict
from windlass.ports.recorded import NumberedRow, by_session
from windlass.private_files import make_database
from windlass.sql.integrity import AppendPosition, StoredSession
from windlass.sql.statements import NEW_APPEND
from windlass.sqlite.marks import StoreMarks
from windlass.sqlite.reads import SqliteReads
from windlass.sqlite.run_index import SqliteRunIndex
from windlass.sqlite.schema import (
    FAILURES,
    PAGE_BYTES,
    Durability,
    connect,
    file_error,
    forbidden,
    prepare,
    translate,
)
from windlass.sqlite.spool import Leftover, is_living, leftovers, spool_folder
from windlass.sqlite.transaction import OwnerLocks, SqliteTransaction
from windlass.sqlite.writer import CHECKPOINT_BYTES, JOB_PAGES
from windlass_harness.record import Record

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)

_CHANGED: Final = """SELECT DISTINCT s.session_id, s.last_position
    FROM appends a JOIN sessions s USING (session_key) WHERE a.last_position > ?"""
READ_RECORDS: Final = 1_024
"""Records held in memory while a long run is read."""


class _Takes(SqliteTransaction):
    """A transaction that also accepts records with numbers of their own."""

    def take_in(self, session_id: str, rows: Sequence[NumberedRow]) -> int:
        """Append the new records of a session; return their bytes.

        Raises:
            Conflict: the session has an owner, or a record in between is missing.
        """
        session = self._find(session_id) or self._new_session(session_id)
        row = session.row
        if row.epoch:
            raise conflict(f"session {session_id} is driven by a runtime: recording refused", session_id)
        new = sorted({record.seq: record.body for record in rows if record.seq > row.last_seq}.items())
        if not new:
            return 0
        last_seq = row.last_seq + len(new)
        if new[0][0] != row.last_seq + 1 or new[-1][0] != last_seq:
            raise conflict(f"session {session_id} ends at {row.last_seq:,}, found {new[0][0]:,}", session_id)
        body = pack(b"[%s]" % b",".join(body for _, body in new))
        position = self._take_positions(len(new)) + len(new) - 1
        append_position = AppendPosition(session.key, last_seq, position, row.epoch)
        chain = self._key.chain(session.chain, append_position, body=body)
        # Not examined: it counts as a milestone.
        columns = (position, session.key, last_seq, row.epoch, chain, body, 1)
        self._connection.execute(NEW_APPEND, columns)
        self._save(StoredSession(session.key, replace(row, last_seq=last_seq), position, chain))
        return len(body)


def _unbroken(rows: Sequence[NumberedRow]) -> list[NumberedRow]:
    """Return the records of a session up to the first missing number."""
    return [row for index, row in enumerate(rows) if row.seq == rows[0].seq + index]


class RecordedStore:
    """A journal and its run index, for one thread at a time.

    Raises:
        Rejected: the file is not a store, was written by a newer version, or is read-only.
        Corrupt: the database is damaged.
        Unavailable: the database cannot be reached now; nothing was written.
    """

    def __init__(self, path: Path, *, durability: Durability = "process") -> None:
        self._folder = spool_folder(path)
        make_database(path)
        with ExitStack() as failed:
            try:
                self._marks = StoreMarks(path, durability=durability)
                failed.callback(self._marks.close)
                self._connection = connect(path)
                failed.callback(self._connection.close)
                key = prepare(self._connection, path, durability=durability)
                self._marks.begin(self._connection, key)
            except FAILURES as error:
                raise forbidden(path) or translate(error) from error
            except OSError as error:
                raise forbidden(path) or file_error(error) from error
            failed.pop_all()
        self._transaction = _Takes(self._connection, key, locks=OwnerLocks(path), marks=self._marks)
        self._reads = SqliteReads(self._connection, key)
        self._logged_bytes = 0
        self.index = SqliteRunIndex(self._connection)

    def take_in(self, rows: Iterable[NumberedRow]) -> None:
        """Append records to the journal; those already there are skipped."""
        sessions = by_session(rows)
        if sessions:
            self.write(lambda: self._take_all(sessions))

    def write(self, work: Callable[[], T]) -> T:
        """Run a function in one transaction."""
        transaction = self._transaction

        def attempt() -> T:
            transaction.begin()
            try:
                result = work()
                transaction.finish()
                transaction.commit()
            except BaseException:
                with suppress(sqlite3.Error):
                    transaction.rollback()
                raise
            return result

        result = translating(attempt)
        self._tidy()
        return result

    def drain(self) -> None:
        """Append what the writers of all processes have spooled so far."""
        for left in leftovers(self._folder):
            is_taken_in = False
            try:
                is_taken_in = self._take_in_left(left)
            finally:
                left.settle(is_taken_in=is_taken_in)

    def _take_in_left(self, left: Leftover) -> bool:
        """Append the records of a spool file; of a damaged file, those that are readable."""
        try:
            self.take_in(left.rows)
        except Conflict:
            _LOG.warning("%s is damaged: records after the damage are skipped", left.path)
            for rows in by_session(sorted(left.rows, key=attrgetter("seq"))).values():
                with suppress(Conflict):
                    self.take_in(_unbroken(rows))
            left.set_aside()
            return False
        return True

    def is_living(self, writer: str) -> bool:
        """Return whether a recording process is alive."""
        return is_living(self._folder, writer)

    def records(self, session_id: str) -> Iterator[Record]:
        """Yield all records of a session in order; Corrupt if they are damaged."""
        after = 0
        while more := translating(partial(self._reads.records, session_id, after=after, limit=READ_RECORDS)):
            yield from more
            after = more[-1].seq

    def last_position(self) -> int:
        """Return the position of the newest record."""
        return translating(self._reads.last_position)

    def sessions_after(self, after: int) -> Mapping[str, int]:
        """Return the sessions with records after a position, and their last positions."""
        rows = translating(lambda: self._connection.execute(_CHANGED, (after,)).fetchall())
        return dict(cast("Sequence[tuple[str, int]]", rows))

    def close(self) -> None:
        """Close the database."""
        self._connection.close()
        self._marks.close()

    def _take_all(self, sessions: Mapping[str, Sequence[NumberedRow]]) -> None:
        for session_id, rows in sessions.items():
            self._logged_bytes += self._transaction.take_in(session_id, rows) + JOB_PAGES * PAGE_BYTES

    def _tidy(self) -> None:
        """Checkpoint the write-ahead log when it has grown."""
        if self._logged_bytes >= CHECKPOINT_BYTES:
            self._logged_bytes = 0
            with suppress(sqlite3.Error):
                self._transaction.checkpoint()


def take_in_left(path: Path, *, durability: Durability) -> None:
    """Append the spool files beside a database to its journal.

    A file that cannot be appended now is logged and left for the next attempt.
    """
    if not spool_folder(path).is_dir():
        return
    try:
        store = RecordedStore(path, durability=durability)
        try:
            store.drain()
        finally:
            store.close()
    except (AgentError, OSError) as error:
        _LOG.warning("spool files beside %s are not in the journal yet: %s", path, error)


def translating(work: Callable[[], T]) -> T:
    """Call a function that uses SQLite; translate its errors."""
    try:
        return work()
    except FAILURES as error:
        raise translate(error) from error
