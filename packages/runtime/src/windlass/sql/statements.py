"""Connections, and the statements in which databases differ."""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from windlass_protocol.frozen import frozen

Value = int | str | bytes | None
Row = Sequence[object]


class Cursor(Protocol):
    """The cursor of a statement."""

    def fetchone(self) -> Row | None: ...
    def fetchall(self) -> Sequence[Row]: ...
    def __iter__(self) -> Iterator[Row]: ...


class SqlConnection(Protocol):
    """A connection without implicit transactions.

    A parameter is written `?`, or all of a statement `?1`, `?2` … if one is used twice.
    """

    def execute(self, sql: str, parameters: Sequence[Value] = ..., /) -> Cursor: ...
    def close(self) -> None: ...


@frozen
class Dialect:
    """Parts of statements that differ between databases."""

    milliseconds: str
    """Whole milliseconds between two times; `{0}` is the start and `{1}` the end."""
    usage: str
    """A number of the column `r.used`; `{}` is its name."""
    values: str
    """A query for the values of the JSON array `?1`."""
    sessions_with: str
    """A query for the keys of sessions with a word that begins with a text, as `prefix` writes it."""
    prefix: str
    """The parameter of `sessions_with`; `{}` is the text."""
    session_cost: str
    """The cost of a session; `{}` is the prefix of its columns."""
    unindexed: str = ""
    """Before a column, so that the planner does not use its index."""
    by_milestones: str = ""
    """After a table, so that the planner uses the index of milestones."""
    runs_by: str = ""
    """After the table of runs, so that the planner uses an index of `RUN_INDEXES`; `{}` is its name."""
    sessions_by: str = ""
    """After the table of sessions, so that the planner uses one of its indexes; `{}` is its name."""
    by_table: str = ""
    """After a table, so that the planner uses no index."""


OPEN_RUN: Final = "status IN ('pending', 'running', 'waiting', 'cancelling')"
"""An unfinished run; repeat this text exactly, or SQLite does not use the index."""
NEW_APPEND: Final = """INSERT INTO appends
    (last_position, session_key, last_seq, epoch, chain, body, milestone) VALUES (?, ?, ?, ?, ?, ?, ?)"""
RUN_INDEXES: Final = (
    # All columns that runs are filtered by, but for the long ones: a page that few runs fit is found by
    # reading this index from the newest run on.
    """CREATE INDEX runs_by_time ON runs (at, item, owner, agent_id, status, waits_on, is_root, error,
        crashes, rating, cost_micros, duration_ms)""",
    "CREATE INDEX runs_by_version ON runs (fingerprint, at, item)",
    """CREATE INDEX runs_by_agent ON runs (agent_id, at, item, owner, status, is_root, error, crashes, rating,
        cost_micros, duration_ms)""",
    "CREATE INDEX runs_by_owner ON runs (owner, at, item) WHERE owner IS NOT NULL",
    # Few runs are in these.
    "CREATE INDEX runs_by_status ON runs (status, at, item) WHERE status != 'completed'",
    "CREATE INDEX runs_by_error ON runs (error, at, item) WHERE error IS NOT NULL",
    "CREATE INDEX runs_by_crash ON runs (at, item) WHERE crashes > 0",
    "CREATE INDEX runs_by_rating ON runs (rating, at, item) WHERE rating != 0",
    # Orders.
    "CREATE INDEX runs_by_cost ON runs (cost_micros, item)",
    "CREATE INDEX runs_by_duration ON runs (duration_ms, item)",
)
SESSIONS_BY_UPDATE: Final = """CREATE INDEX catalog_by_update ON catalog (updated_at, number, owner, agent_id,
    status, parent)"""
"""With the columns that sessions are filtered by: see `runs_by_time`."""
SESSIONS_BY_COST: Final = """CREATE INDEX catalog_by_cost ON catalog ({}, number, owner, agent_id, status,
    parent)"""
"""`{}` is the cost of a session, as `Dialect.session_cost` says."""
PLACE_RUNS: Final = """UPDATE runs SET at = coalesce(runs.started_at, runs.ended_at,
    (SELECT c.created_at FROM catalog c WHERE c.session_key = runs.session_key), '')"""
"""Gives the runs of an older schema their time."""
