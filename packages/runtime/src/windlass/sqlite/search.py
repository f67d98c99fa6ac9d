"""Search index: the words of all sessions, in an FTS5 table.

An append writes nothing here. A search first reads the appends since the last one, in short transactions, and
so does the writer while it is idle. The row `search_state` says how far the index is. It changes in the
transaction that adds the words, so a killed process loses and repeats nothing.

A row has the words that one transaction adds for one session: those of its appends, under the position of the
last one, and of its title. A session without a started run has only a title: it is under the negative
number of the session in the catalogue. The words are normalised, without duplicates, and separated by blanks.
The tokenizer `ascii` splits them at the blanks alone.

Nothing else depends on the index. A damaged one is dropped and made anew, and so is one of another version. A
statement that fails on a damaged one may have ended the transaction, so the caller repairs it in another.
"""

import sqlite3
from typing import Final, NamedTuple, cast

from windlass.adapters.journals.codec import words_of_append
from windlass.adapters.journals.rules import misconfiguration
from windlass.sql.statements import SqlConnection
from windlass.sqlite.schema import primary_code
from windlass_harness.views.listing import words_in

SEARCH_VERSION: Final = 1
"""Increased whenever the words of a record or the tables change."""
BATCH_ROWS_MAX: Final = 256
"""The most appends, and the most titles, of one transaction."""
BATCH_BYTES_MAX: Final = 262_144
"""Stored bytes of appends of one transaction, and about as many bytes of log; one append may be larger."""
MERGE_PAGES: Final = 64
"""Pages of the index that one transaction merges; a page has up to 4,050 bytes."""
BACKLOG_RECORDS_MIN: Final = 1_024
"""Records that are not indexed when a store is opened, from which on the writer indexes them while idle."""

_CREATE: Final = """CREATE VIRTUAL TABLE search USING fts5(
    session_key UNINDEXED, words, tokenize = 'ascii', detail = 'none', columnsize = 0)"""
_SHADOWS: Final = ("data", "idx", "content", "docsize", "config")
"""The tables in which FTS5 stores its data, after the name of the index."""
_STATE: Final = "SELECT version, position, number, has_deleted FROM search_state"
_SAVE: Final = "INSERT OR REPLACE INTO search_state VALUES (1, ?, ?, ?, ?)"
_APPENDS: Final = """SELECT last_position, session_key, body FROM appends WHERE last_position > ?
    ORDER BY last_position"""
_TITLES: Final = """SELECT number, session_key, title FROM catalog WHERE number > ? ORDER BY number
    LIMIT ?"""
_ADD: Final = "INSERT INTO search (rowid, session_key, words) VALUES (?, ?, ?)"
_END: Final = (
    "SELECT coalesce(max(last_position), 0), (SELECT coalesce(max(number), 0) FROM catalog) FROM appends"
)
_REMOVE: Final = """DELETE FROM search WHERE rowid IN (
    SELECT last_position FROM appends WHERE session_key = ?1
    UNION ALL SELECT -number FROM catalog WHERE session_key = ?1)"""
_MERGE: Final = f"INSERT INTO search (search, rank) VALUES ('merge', -{MERGE_PAGES})"

SESSIONS_WITH: Final = """SELECT w.c0 FROM search JOIN search_content w ON w.id = search.rowid
    WHERE search MATCH ?"""
# FTS5 itself would read the whole row of its table `search_content` to return the session key.


class IndexState(NamedTuple):
    """The columns of `search_state`."""

    version: int = 0
    position: int = 0
    """The last position of the journal whose words are there."""
    number: int = 0
    """The last number of the catalogue with its title."""
    has_deleted: int = 0
    """1 if segments have words of deleted sessions."""


class End(NamedTuple):
    """The end of the journal, and of the catalogue."""

    position: int
    number: int


class SearchIndex:
    """The search index.

    For writes, the caller has begun a transaction in which SQLite overwrites what it deletes.
    """

    def __init__(self, connection: SqlConnection) -> None:
        self._connection = connection

    def end_ahead(self) -> End | None:
        """Return the end of the journal and of the catalogue; None if the index is there already."""
        state, end = self._state(), self._end()
        is_current = state.version == SEARCH_VERSION
        is_there = is_current and end.position <= state.position and end.number <= state.number
        return None if is_there else end

    def has_backlog(self) -> bool:
        """Return whether there is enough to do that the writer should begin before a search does."""
        state = self._state()
        backlog = self._end().position - state.position
        return bool(state.has_deleted) or backlog >= BACKLOG_RECORDS_MIN

    def has_deleted(self) -> bool:
        """Return whether the segments of the index have words of deleted sessions."""
        return bool(self._state().has_deleted)

    def advance(self, until: End | None = None) -> bool:
        """Index the next appends and titles; return whether more are left, up to an end if one is given.

        Raises:
            Rejected: SQLite was compiled without FTS5.
        """
        try:
            return self._advance(until)
        except sqlite3.OperationalError as error:
            if "no such module" not in str(error):
                raise
        raise misconfiguration(
            f"a search for text needs FTS5, and SQLite {sqlite3.sqlite_version} of this Python was compiled "
            "without it: use another build of SQLite"
        )

    def _advance(self, until: End | None) -> bool:
        version, position, number, has_deleted = self._state()
        if version != SEARCH_VERSION:
            self.drop()
            self._connection.execute(_CREATE)
            position = number = has_deleted = 0
        titles = cast(
            "list[tuple[int, int, str]]",
            self._connection.execute(_TITLES, (number, BATCH_ROWS_MAX)).fetchall(),
        )
        appends = self._next_appends(position)
        rows: dict[int, tuple[int, dict[str, None]]] = {}
        for number, key, title in titles:
            rows[key] = (-number, dict.fromkeys(words_in(title)))
        for position, key, body in appends:
            new = words_of_append(body)
            if new:
                row_before = rows.get(key)
                row_words = dict[str, None]() if row_before is None else row_before[1]
                row_words.update(dict.fromkeys(new))
                rows[key] = (position, row_words)
        # In the order of the rows: FTS5 writes a segment whenever that is broken.
        for row, key in sorted((row, key) for key, (row, row_words) in rows.items() if row_words):
            self._connection.execute(_ADD, (row, key, " ".join(rows[key][1])))
        if titles or appends or version != SEARCH_VERSION:
            self._flush()
            self._save(IndexState(SEARCH_VERSION, position, number, has_deleted))
        if until is None:
            is_full = sum(len(body) for _, _, body in appends) >= BATCH_BYTES_MAX
            return is_full or max(len(appends), len(titles)) >= BATCH_ROWS_MAX
        # A row may have been deleted since: nothing was found to the end.
        return (position < until.position and bool(appends)) or (number < until.number and bool(titles))

    def _next_appends(self, position: int) -> list[tuple[int, int, bytes]]:
        appends: list[tuple[int, int, bytes]] = []
        size_bytes = 0
        for row in self._connection.execute(_APPENDS, (position,)):
            append = cast("tuple[int, int, bytes]", row)
            appends.append(append)
            size_bytes += len(append[2])
            if len(appends) >= BATCH_ROWS_MAX or size_bytes >= BATCH_BYTES_MAX:
                break
        return appends

    def _flush(self) -> None:
        """Let FTS5 write its changes now: if the index is damaged, the commit must not fail.

        FTS5 keeps changes in memory until a commit or a savepoint.
        """
        self._connection.execute("SAVEPOINT words")
        self._connection.execute("RELEASE words")

    def remove(self, session_key: int) -> None:
        """Remove the words of a session, before its rows are deleted.

        They are not found any more, but stay in the segments of the index until `clean` has merged these.
        """
        state = self._state()
        if state.version != SEARCH_VERSION:
            self.drop()
            return
        self._connection.execute(_REMOVE, (session_key,))
        [(count,)] = cast("list[tuple[int]]", self._connection.execute("SELECT changes()").fetchall())
        self._flush()
        self._save(state._replace(has_deleted=state.has_deleted or int(count > 0)))

    def renumber(self) -> None:
        """Continue with the newest number of the catalogue: after a deletion it may be used again."""
        state, newest = self._state(), self._end().number
        if newest < state.number:
            self._save(state._replace(number=newest))

    def clean(self) -> bool:
        """Merge some segments of the index, so that no deleted words stay; return whether more are left."""
        state = self._state()
        if not state.has_deleted or state.version != SEARCH_VERSION:
            return False
        before = self._changes()
        self._connection.execute(_MERGE)
        # The statement counts as one change, and each change of the tables of FTS5 as another.
        is_left = self._changes() - before > 1
        if not is_left:
            self._save(state._replace(has_deleted=0))
        return is_left

    def drop(self) -> None:
        """Drop the index; the next search makes it anew."""
        self._save(IndexState())
        try:
            self._connection.execute("DROP TABLE IF EXISTS search")
        except sqlite3.DatabaseError as error:
            if primary_code(error) not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
                raise
        else:
            return
        # FTS5 opens a table to drop it, which fails if the table is damaged or FTS5 is missing.
        for name in _SHADOWS:
            self._connection.execute(f"DROP TABLE IF EXISTS search_{name}")
        self._connection.execute("PRAGMA writable_schema = ON").fetchall()
        try:
            self._connection.execute("DELETE FROM sqlite_schema WHERE name = 'search'")
        finally:
            self._connection.execute("PRAGMA writable_schema = RESET").fetchall()

    def _end(self) -> End:
        [row] = self._connection.execute(_END).fetchall()
        return End(*cast("tuple[int, int]", row))

    def _state(self) -> IndexState:
        # A lost or damaged row means a new index.
        rows = self._connection.execute(_STATE).fetchall()
        is_sound = len(rows) == 1 and all(isinstance(value, int) for value in rows[0])
        return IndexState(*cast("tuple[int, int, int, int]", rows[0])) if is_sound else IndexState()

    def _save(self, state: IndexState) -> None:
        self._connection.execute(_SAVE, state)

    def _changes(self) -> int:
        [(count,)] = cast("list[tuple[int]]", self._connection.execute("SELECT total_changes()").fetchall())
        return count
