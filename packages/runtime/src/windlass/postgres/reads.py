"""Reads of the PostgreSQL store: its dialect, the settled end of positions and item numbers, and changes."""

from collections.abc import Generator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Final, cast

from windlass.ports.inbox import Arrivals
from windlass.postgres.link import PostgresLink
from windlass.postgres.notifier import owner_lock
from windlass.sql.integrity import StoreKey
from windlass.sql.queries import ARRIVED, Reads
from windlass.sql.statements import Dialect

READ_ONLY: Final = "ISOLATION LEVEL REPEATABLE READ READ ONLY"
"""One state of the database for all statements of a read."""
SESSION_COST: Final = "coalesce(CAST(CAST({}usage AS JSONB) ->> 'costMicros' AS BIGINT), 0)"
"""The cost of a session; `{}` is the prefix of its columns."""
DIALECT: Final = Dialect(
    milliseconds="""CAST(round(extract(epoch FROM
        CAST({1} AS TIMESTAMPTZ) - CAST({0} AS TIMESTAMPTZ)) * 1000) AS BIGINT)""",
    usage="CAST(CAST(r.used AS JSONB) ->> '{}' AS BIGINT)",
    values="SELECT jsonb_array_elements_text(CAST(?1 AS JSONB))",
    sessions_with="SELECT w.session_key FROM words w WHERE w.words @@ CAST(? AS TSQUERY)",
    # A word has letters and digits only.
    prefix="'{}':*",
    session_cost=SESSION_COST,
)
SETTLED: Final = "horizon < (SELECT CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT))"
"""No transaction can commit a lower number than that of the row any more; see `schema`."""
LAST_POSITION: Final = f"""SELECT greatest(
    coalesce((SELECT last_position FROM appends WHERE {SETTLED} ORDER BY last_position DESC LIMIT 1), 0),
    coalesce((SELECT last_position FROM holes WHERE {SETTLED} ORDER BY last_position DESC LIMIT 1), 0))"""
NOW: Final = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"
PRESENCE: Final = "windlass.presence"
"""The kind of the documents that name the owners with a lock for their process."""
# PostgreSQL shows the halves of a number as two unsigned ones.
_OWNER_LOCKS: Final = """SELECT (CAST(classid AS BIGINT) << 32) | CAST(objid AS BIGINT) FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
LAST_ITEM: Final = f"""SELECT coalesce(
    (SELECT number FROM items WHERE {SETTLED} ORDER BY number DESC LIMIT 1), 0)"""


class PostgresReads(Reads):
    """Reads in a transaction that the caller has begun, verified by checksums."""

    def __init__(self, link: PostgresLink, key: StoreKey) -> None:
        super().__init__(link, key, DIALECT)

    def last_position(self) -> int:
        """Return the newest position below which no record can appear any more."""
        [(position,)] = self._connection.execute(LAST_POSITION).fetchall()
        return cast("int", position)

    def now_ms(self) -> int:
        """Return the time of the database in milliseconds since 1970."""
        [(now_ms,)] = self._connection.execute(NOW).fetchall()
        return cast("int", now_ms)

    def arrivals(self, after: int) -> Arrivals:
        """Return the sessions with items after a number, and the newest settled number."""
        newest = self._connection.execute(LAST_ITEM)
        rows = self._connection.execute(ARRIVED, (after,)).fetchall()
        [(number,)] = newest.fetchall()
        return Arrivals(cast("int", number), frozenset(cast("str", name) for (name,) in rows))

    def absent_owners(self) -> frozenset[str]:
        """Return the owners that had a lock for their process and have none now."""
        names = self._connection.execute("SELECT name FROM documents WHERE kind = ?", (PRESENCE,)).fetchall()
        if not names:
            return frozenset()
        # Read after the names: a lock is taken before its name is written.
        locks = {lock for (lock,) in self._connection.execute(_OWNER_LOCKS).fetchall()}
        owner_ids = (cast("str", name) for (name,) in names)
        return frozenset(
            owner_id for owner_id in owner_ids if owner_lock(self._key.store_id, owner_id) not in locks
        )

    def check_gap(self, last: int, first: int) -> None:
        """Accept any gap: a transaction that was undone leaves one. The chains show a missing record."""

    def change_token(self) -> int:
        """Return a number that changes when a transaction ends."""
        [(text,)] = self._connection.execute("SELECT CAST(pg_current_snapshot() AS TEXT)").fetchall()
        return int.from_bytes(blake2b(cast("str", text).encode(), digest_size=8).digest())

    @contextmanager
    def _look(self) -> Generator[None]:
        yield
