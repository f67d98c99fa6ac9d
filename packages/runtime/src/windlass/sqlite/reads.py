"""Reads of the SQLite store that depend on SQLite."""

from typing import Final, cast

from windlass.sql.integrity import SESSION_COLUMNS, STORE, StoreKey
from windlass.sql.queries import Reads
from windlass.sql.statements import Dialect, SqlConnection
from windlass.sqlite.schema import SESSION_COST, wait_at_most
from windlass.sqlite.search import SESSIONS_WITH, SearchIndex

DIALECT: Final = Dialect(
    # Julian days are exact to a twentieth of a millisecond, so the rounded value is exact.
    milliseconds="CAST(round((julianday({1}) - julianday({0})) * 86400000.0) AS INTEGER)",
    usage="json_extract(r.used, '$.{}')",
    values="SELECT value FROM json_each(?1)",
    sessions_with=SESSIONS_WITH,
    # Quoted, so that no word is an operator; the star asks for words that begin so.
    prefix='"{}"*',
    session_cost=SESSION_COST,
    unindexed="+",
    by_milestones="INDEXED BY milestones",
    runs_by="INDEXED BY runs_by_{}",
    sessions_by="INDEXED BY catalog_by_{}",
    by_table="NOT INDEXED",
)
_NEWEST_OWNED = f"""SELECT max(last_position), session_key, {SESSION_COLUMNS}
    FROM sessions INDEXED BY sessions_owned WHERE owner_id IS NOT NULL"""


def last_position(connection: SqlConnection, key: StoreKey) -> int:
    """Return the position of the newest record.

    The store row has it, unless a session that has an owner was appended to since: then its own row has it.
    So an append writes one page less, and this reads a row of every session that has an owner.

    Raises:
        Corrupt: the row that has it is damaged.
    """
    # In this order: a session that is released between the two reads brings its position to the store row.
    newest, session_key, *columns = connection.execute(_NEWEST_OWNED).fetchall()[0]
    stored = key.read_store(connection.execute(STORE).fetchall())
    if newest is None or (isinstance(newest, int) and newest <= stored):
        return stored
    return key.read_session(cast("int", session_key), columns).last_position


class SqliteReads(Reads):
    """Reads on a read-only connection, verified by checksums."""

    def __init__(self, connection: SqlConnection, key: StoreKey) -> None:
        super().__init__(connection, key, DIALECT)
        self.search = SearchIndex(connection)

    def wait_at_most(self, timeout_ms: int) -> None:
        """Set how long a read waits while the database is busy."""
        wait_at_most(self._connection, timeout_ms)

    def last_position(self) -> int:
        """Return the position of the newest record."""
        return last_position(self._connection, self._key)

    def data_version(self) -> int:
        """Return a number that changes with every write of another connection."""
        [(version,)] = self._connection.execute("PRAGMA data_version").fetchall()
        return cast("int", version)
