"""Writes of the PostgreSQL store: transactions that run beside each other.

A transaction locks the rows of the sessions that it changes, in one order, before it reads them. All rows of
a session are read and changed under that lock. Of two transactions that make the same row for two sessions,
such as a run with the same id, a unique index refuses the second, which is repeated.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final, cast

from windlass.adapters.journals.codec import words_of_append
from windlass.adapters.journals.rules import Leases
from windlass.ports.documents import Document
from windlass.postgres.link import PostgresLink
from windlass.postgres.notifier import Notifier
from windlass.postgres.reads import LAST_POSITION, PRESENCE, SETTLED
from windlass.postgres.schema import NUMBERS_LOCK, PURSES_LOCK
from windlass.sql.archive import ArchiveTransaction
from windlass.sql.integrity import SESSION_COLUMNS, StoredSession, StoreKey
from windlass.sql.jobs import Job
from windlass.sql.listing import IndexWrites
from windlass_harness.views.listing import words_in

ABSENT_S: Final = 1.5
"""How long an owner must be seen without its lock; a living one connects again within a tenth of that."""
LOOKS_APART_S: Final = 5.0
"""Looks further apart than this do not count together: the database may have been away."""
SEARCH_VERSION: Final = 1
"""Increased whenever the words of a record change."""
WORDS_ROWS_MAX: Final = 256
"""The most appends, and the most titles, that one transaction adds to the search index."""
WORDS_PER_ROW_MAX: Final = 2_000
"""Words in a row of the search index; PostgreSQL stores a megabyte at most."""

_LOCK_SESSIONS: Final = f"""SELECT session_key, {SESSION_COLUMNS} FROM sessions
    WHERE session_key IN (SELECT CAST(value AS BIGINT) FROM unnest(string_to_array(?, ',')) AS value)
    ORDER BY session_key FOR UPDATE"""
# A transaction that is given numbers raises the horizon to its own number. Sequences are not undone, so the
# savepoint takes back the lock alone: other transactions get their numbers while this one goes on.
_TAKE: Final = """SELECT setval('positions', p.last_value + ?), setval('item_numbers', i.last_value + ?),
    setval('horizons', greatest(h.last_value, CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT)))
    FROM positions p, item_numbers i, horizons h"""
_FORGET_REFUSED: Final = """DELETE FROM refused WHERE session_key = ?1
    OR run_id IN (SELECT run_id FROM runs WHERE session_key = ?1)"""
_FREE_UNLOCKED: Final = """UPDATE sessions SET owner_id = NULL WHERE session_key IN
    (SELECT session_key FROM sessions WHERE owner_id = ? FOR UPDATE SKIP LOCKED)"""
_OWNS: Final = "SELECT 1 FROM sessions WHERE owner_id = ? LIMIT 1"
_IS_PRESENT: Final = "SELECT 1 FROM documents WHERE kind = ? AND name = ?"
_LEAVE: Final = "DELETE FROM documents WHERE kind = ? AND name = ?"
_FORGET_ABSENT: Final = """DELETE FROM documents d WHERE kind = ?
    AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.owner_id = d.name)"""
_SEARCH_STATE: Final = "SELECT version, position, number FROM search_state FOR UPDATE"
_SAVE_SEARCH: Final = """INSERT INTO search_state VALUES (1, ?, ?, ?) ON CONFLICT (one) DO UPDATE
    SET version = excluded.version, position = excluded.position, number = excluded.number"""
# Not a join: a planner may read the whole catalogue for it.
_TITLE: Final = "(SELECT title FROM catalog c WHERE c.session_key = {}.session_key)"
_APPENDS: Final = f"""SELECT a.last_position, a.session_key, a.body, {_TITLE.format("a")} FROM appends a
    WHERE a.last_position > ? AND a.last_position <= ? ORDER BY a.last_position LIMIT ?"""
# A session is listed with its first item, or with its records.
_TITLES: Final = f"""SELECT i.number, i.session_key, {_TITLE.format("i")} FROM items i WHERE i.number > ?
    AND i.number <= (SELECT coalesce(max(number), 0) FROM items WHERE {SETTLED})
    ORDER BY i.number LIMIT ?"""
_ADD_WORDS: Final = """INSERT INTO words (session_key, words)
    SELECT session_key, array_to_tsvector(string_to_array(?2, ' ')) FROM sessions WHERE session_key = ?1
    FOR KEY SHARE"""


class LeaseOwners:
    """Owners that are alive while they renew their leases, by the clock of the database.

    An owner that had a lock for its process, and has had none for `ABSENT_S`, is dead at once: the database
    lost its connection. A living owner that lost it has it again by then, or loses its sessions safely.
    """

    def __init__(self, notifier: Notifier | None = None) -> None:
        self._leases = Leases()
        self._notifier = notifier
        self._absent: dict[str, tuple[float, float]] = {}
        """Owners without their locks, with the times of the first and the last look that found it so."""
        self.held: set[str] = set()
        """The owners that were enlisted here."""

    def hold(self, owner_id: str) -> None:
        """Note that an owner was enlisted here."""
        self.held.add(owner_id)

    def is_dead(self, owner_id: str, *, beat_at_ms: int, now_ms: int) -> bool:
        """Return whether an owner let its lease expire, or its process has lost its lock."""
        first_s, last_s = self._absent.get(owner_id, (0.0, 0.0))
        if last_s - first_s >= ABSENT_S and owner_id not in self.held:
            return True
        return not self._leases.is_valid(owner_id, beat_at_ms=beat_at_ms, now_ms=now_ms)

    def note_absent(self, absent: frozenset[str], now_s: float) -> None:
        """Note which owners have no lock now; a look long after the last one begins anew."""
        before = {name: looks for name, looks in self._absent.items() if now_s - looks[1] < LOOKS_APART_S}
        self._absent = {name: (before.get(name, (now_s, now_s))[0], now_s) for name in absent}

    def is_present(self, owner_id: str) -> bool:
        """Return whether the database holds a lock for the process of an owner that was enlisted here."""
        return self._notifier is not None and self._notifier.holds(owner_id)


class _IndexWrites(IndexWrites):
    def _next_number(self) -> int:
        [(number,)] = self._connection.execute("SELECT nextval('session_numbers')").fetchall()
        return cast("int", number)


class PostgresTransaction(ArchiveTransaction):
    """A group of writes that become durable together, on one connection."""

    LOCK: ClassVar = " FOR UPDATE"
    LOCK_FREE: ClassVar = " FOR UPDATE SKIP LOCKED"

    def __init__(self, link: PostgresLink, key: StoreKey, *, owners: LeaseOwners) -> None:
        super().__init__(link, key, owners=owners, index=_IndexWrites(link, key))
        self._link = link
        self._leases = owners
        self.number = 0
        """The number of the transaction; 0 if it is not known."""
        self._wanted = (0, 0)
        """The most positions and item numbers that the group needs."""
        self._positions = range(0)
        self._items = range(0)
        """Numbers that were given to this transaction and are not used yet."""

    def begin(self, jobs: "Sequence[Job[PostgresTransaction]]") -> None:
        """Begin a transaction, and lock the sessions of its requests."""
        self.number = 0
        self._sessions.clear()
        self._enlisted.clear()
        self._positions = self._items = range(0)
        self._wanted = (sum(job.records for job in jobs), sum(job.items for job in jobs))
        keys = {self._key.session_key(name): name for job in jobs for name in job.sessions}
        numbered = self._link.begin()
        if keys:
            rows = self._link.execute(_LOCK_SESSIONS, (",".join(map(str, keys)),)).fetchall()
            for session_key, *columns in rows:
                self._cache(self._key.read_session(cast("int", session_key), columns))
        [(number, *_)] = numbered.fetchall()
        self.number = cast("int", number)

    def _take_positions(self, count: int) -> int:
        if not count:
            [(position,)] = self._connection.execute(LAST_POSITION).fetchall()
            return cast("int", position) + 1
        if len(self._positions) < count:
            self._take(max(count, self._wanted[0]), self._wanted[1])
        first, self._positions = self._positions[0], self._positions[count:]
        return first

    def _take_items(self, count: int) -> int:
        if len(self._items) < count:
            self._take(0 if self._positions else self._wanted[0], max(count, self._wanted[1]))
        first, self._items = self._items[0], self._items[count:]
        return first

    def _take(self, positions: int, items: int) -> None:
        """Get numbers that no other transaction has."""
        execute = self._link.execute
        execute("SAVEPOINT numbers")
        execute("SELECT pg_advisory_xact_lock(?)", (NUMBERS_LOCK,))
        numbers = execute(_TAKE, (positions, items))
        execute("ROLLBACK TO SAVEPOINT numbers")
        [(position, item, _)] = cast("Sequence[tuple[int, int, int]]", numbers.fetchall())
        if positions:
            self._positions = range(position - positions + 1, position + 1)
        if items:
            self._items = range(item - items + 1, item + 1)
        # The numbers of the whole group are given; a later call takes only its own.
        self._wanted = (0, 0)

    def renew(self, owner_id: str, now_ms: int) -> None:
        """Insert or renew an owner; note whether it has a lock for its process."""
        super().renew(owner_id, now_ms)
        is_noted = self._link.execute(_IS_PRESENT, (PRESENCE, owner_id)).fetchone() is not None
        is_present = self._leases.is_present(owner_id)
        if is_present and not is_noted:
            # An older release retires owners without deleting these documents.
            self._link.execute(_FORGET_ABSENT, (PRESENCE,))
            self.put_document(Document(PRESENCE, owner_id, revision=1, body={}), "{}")
        elif is_noted and not is_present:
            self._link.execute(_LEAVE, (PRESENCE, owner_id))

    def retire(self, owner_id: str) -> None:
        """Delete an owner and release its sessions."""
        super().retire(owner_id)
        self._link.execute(_LEAVE, (PRESENCE, owner_id))

    def _release(self, owner_id: str) -> bool:
        # The owner may be frozen in a transaction that has locked sessions: it stays until that has ended.
        self._link.execute(_FREE_UNLOCKED, (owner_id,))
        return self._link.execute(_OWNS, (owner_id,)).fetchone() is None

    def delete(self, session_id: str, *, now_ms: int, idle_since: str | None = None) -> tuple[str, ...]:
        """Delete a session and its subagent sessions."""
        # A content must not get a new user while it is found to have none.
        self._link.execute("LOCK TABLE content_uses IN SHARE ROW EXCLUSIVE MODE")
        return super().delete(session_id, now_ms=now_ms, idle_since=idle_since)

    def _forget(self, session: StoredSession) -> None:
        self._link.execute("DELETE FROM words WHERE session_key = ?", (session.key,))
        self._link.execute(_FORGET_REFUSED, (session.key,))

    def _lock_purses(self) -> None:
        self._link.execute("SELECT pg_advisory_xact_lock(?)", (PURSES_LOCK,))

    def index_words(self) -> bool:
        """Add the next words to the search index; return whether more are left.

        Other processes wait here. Records that committed late are not passed over: the index ends where the
        numbers are settled.
        """
        self._link.execute("INSERT INTO search_state VALUES (1, 0, 0, 0) ON CONFLICT DO NOTHING")
        [(version, position, number)] = cast(
            "Sequence[tuple[int, int, int]]", self._link.execute(_SEARCH_STATE).fetchall()
        )
        if version != SEARCH_VERSION:
            self._link.execute("DELETE FROM words")
            position = number = 0
        [(end,)] = self._link.execute(LAST_POSITION).fetchall()
        titles = cast(
            "Sequence[tuple[int, int, str | None]]",
            self._link.execute(_TITLES, (number, WORDS_ROWS_MAX)).fetchall(),
        )
        appends = cast(
            "Sequence[tuple[int, int, bytes, str | None]]",
            self._link.execute(_APPENDS, (position, cast("int", end), WORDS_ROWS_MAX)).fetchall(),
        )
        words_by_session: dict[int, dict[str, None]] = {}
        for _, key, title in titles:
            if key not in words_by_session:
                words_by_session[key] = dict.fromkeys(words_in(title or ""))
        for _, key, body, title in appends:
            if key not in words_by_session:
                words_by_session[key] = dict.fromkeys(words_in(title or ""))
            words_by_session[key].update(dict.fromkeys(words_of_append(body)))
        for key, session_words in words_by_session.items():
            for some in _pieces(tuple(session_words)):
                self._link.execute(_ADD_WORDS, (key, " ".join(some)))
        number = titles[-1][0] if titles else number
        position = appends[-1][0] if appends else position
        if titles or appends or version != SEARCH_VERSION:
            self._link.execute(_SAVE_SEARCH, (SEARCH_VERSION, position, number))
        return max(len(titles), len(appends)) >= WORDS_ROWS_MAX


def _pieces(search_words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for start in range(0, len(search_words), WORDS_PER_ROW_MAX):
        yield search_words[start : start + WORDS_PER_ROW_MAX]
