"""Index of the runs of a journal, for the recorder: SQLite tables that can be dropped at any time."""

from collections.abc import Mapping, Sequence
from typing import Final, cast

from windlass.ports.recorded import Fact, IndexedRun, RunLook
from windlass.sql.statements import SqlConnection

INDEX_VERSION: Final = 4
"""Increased whenever the recorder tables or their counts change."""

_TABLES: Final = ("recorder_view", "recorder_runs", "recorder_facts", "recorder_totals", "recorder_stale")
_COUNTS: Final = "total, succeeded, failed, tokens, latency_ms"
_SCHEMA: Final = (
    "CREATE TABLE recorder_view (one INTEGER PRIMARY KEY, version INTEGER, position INTEGER)",
    """CREATE TABLE recorder_runs (
        run_key INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, session_id TEXT NOT NULL,
        goal_id TEXT NOT NULL, status TEXT NOT NULL, started_at TEXT NOT NULL, last_at TEXT NOT NULL,
        writer TEXT NOT NULL, position INTEGER NOT NULL, summary BLOB NOT NULL, owner TEXT NOT NULL,
        agent_id TEXT NOT NULL)""",
    "CREATE INDEX recorder_runs_goal ON recorder_runs (goal_id, started_at)",
    "CREATE INDEX recorder_runs_status ON recorder_runs (status, started_at)",
    "CREATE INDEX recorder_runs_start ON recorder_runs (started_at)",
    "CREATE INDEX recorder_runs_owner ON recorder_runs (owner, started_at)",
    "CREATE INDEX recorder_runs_session ON recorder_runs (session_id)",
    """CREATE TABLE recorder_facts (
        run_key INTEGER, kind TEXT, name TEXT, detail TEXT, total INTEGER, succeeded INTEGER, failed INTEGER,
        tokens INTEGER, latency_ms INTEGER, PRIMARY KEY (run_key, kind, name, detail)) WITHOUT ROWID""",
    """CREATE TABLE recorder_totals (
        goal_id TEXT, kind TEXT, name TEXT, detail TEXT, total INTEGER, succeeded INTEGER, failed INTEGER,
        tokens INTEGER, latency_ms INTEGER, example TEXT, PRIMARY KEY (goal_id, kind, name, detail))
        WITHOUT ROWID""",
    "CREATE INDEX recorder_totals_kind ON recorder_totals (kind, name)",
    "CREATE TABLE recorder_stale (session_id TEXT PRIMARY KEY, position INTEGER NOT NULL) WITHOUT ROWID",
    f"INSERT INTO recorder_view VALUES (1, {INDEX_VERSION}, 0)",
)
_MARK: Final = """INSERT INTO recorder_stale VALUES (?, ?)
    ON CONFLICT DO UPDATE SET position = max(position, excluded.position)"""
_SETTLE: Final = "DELETE FROM recorder_stale WHERE session_id = ? AND position <= ?"
_HAS_VIEW: Final = "SELECT 1 FROM sqlite_schema WHERE name = 'recorder_view'"
_RUN_COLUMNS: Final = (
    "run_id, session_id, goal_id, status, started_at, last_at, writer, summary, owner, agent_id"
)
_RUN_KEY: Final = "SELECT run_key, goal_id FROM recorder_runs WHERE run_id = ?"
_INSERT_RUN: Final = "INSERT INTO recorder_runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_TAKE_BACK: Final = """UPDATE recorder_totals AS t SET total = t.total - f.total,
    succeeded = t.succeeded - f.succeeded, failed = t.failed - f.failed, tokens = t.tokens - f.tokens,
    latency_ms = t.latency_ms - f.latency_ms FROM recorder_facts f
    WHERE f.run_key = ? AND t.goal_id = ? AND t.kind = f.kind AND t.name = f.name AND t.detail = f.detail"""
_INSERT_FACT: Final = "INSERT INTO recorder_facts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_ADD: Final = """INSERT INTO recorder_totals VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET total = total + excluded.total, succeeded = succeeded + excluded.succeeded,
    failed = failed + excluded.failed, tokens = tokens + excluded.tokens,
    latency_ms = latency_ms + excluded.latency_ms"""
_BY_GOAL: Final = f"""SELECT {_RUN_COLUMNS} FROM recorder_runs WHERE goal_id = ?
    ORDER BY started_at DESC, run_id DESC LIMIT ?"""
_BY_STATUS: Final = f"""SELECT {_RUN_COLUMNS} FROM recorder_runs WHERE status = ?
    ORDER BY started_at DESC, run_id DESC LIMIT ?"""
_BY_ID: Final = f"SELECT {_RUN_COLUMNS} FROM recorder_runs WHERE run_id = ?"
_TOTALS: Final = f"""SELECT kind, name, detail, {_COUNTS}, example FROM recorder_totals
    WHERE goal_id = ? AND kind = ? AND total > 0 ORDER BY total DESC, name, detail LIMIT ?"""
_OF_NAME: Final = f"""SELECT kind, name, detail, {_COUNTS}, example FROM recorder_totals
    WHERE kind = ? AND name = ? AND total > 0"""
_LOOKED_AT: Final = f"""SELECT {_RUN_COLUMNS} FROM recorder_runs r WHERE {{}}
    ORDER BY started_at DESC, run_id DESC LIMIT ?"""
_FAILING: Final = """SELECT f.kind, f.name, f.detail, sum(f.total), sum(f.succeeded), sum(f.failed) AS worst,
    sum(f.tokens), sum(f.latency_ms), '' FROM recorder_facts f JOIN recorder_runs r USING (run_key)
    WHERE {} AND f.kind = ? GROUP BY f.name, f.detail HAVING worst > 0
    ORDER BY sum(f.total) >= ? DESC, 1.0 * worst / sum(f.total) DESC, worst DESC, f.name, f.detail LIMIT ?"""
_MS: Final = "(strftime('%s', {0}) * 1000 + substr(strftime('%f', {0}), 4))"
"""A time in milliseconds."""
_OVER_TIME: Final = f"""SELECT f.kind, f.name, f.detail, sum(f.total), sum(f.succeeded), sum(f.failed),
    sum(f.tokens), sum(f.latency_ms), '',
    ({_MS.format("r.started_at")} - {_MS.format("?")}) / (? * 1000) AS bucket
    FROM recorder_facts f JOIN recorder_runs r USING (run_key)
    WHERE {{}} AND f.kind = ? GROUP BY f.name, f.detail, bucket ORDER BY f.name, f.detail, bucket"""
_POSITION: Final = "SELECT coalesce(max(position), 0) FROM recorder_runs WHERE session_id = ?"


class SqliteRunIndex:
    """The recorder index; the caller has begun a transaction for writes."""

    def __init__(self, connection: SqlConnection) -> None:
        self._connection = connection

    def prepare(self) -> int:
        """Create the tables if needed; return the position up to which runs are indexed."""
        if self._connection.execute(_HAS_VIEW).fetchone() is not None:
            rows = self._connection.execute("SELECT version, position FROM recorder_view").fetchall()
            if len(rows) == 1 and rows[0][0] == INDEX_VERSION:
                return cast("int", rows[0][1])
        self.drop()
        for statement in _SCHEMA:
            self._connection.execute(statement)
        return 0

    def drop(self) -> None:
        """Drop the index; it is rebuilt when needed."""
        for table in _TABLES:
            self._connection.execute(f"DROP TABLE IF EXISTS {table}")

    def advance(self, changed: Mapping[str, int], position: int) -> None:
        """Mark sessions with new records as stale, up to a position."""
        for session_id, end in changed.items():
            if self.position_of(session_id) < end:
                self._connection.execute(_MARK, (session_id, end))
        self._connection.execute("UPDATE recorder_view SET position = ?", (position,))

    def stale(self, limit: int) -> Mapping[str, int]:
        """Return stale sessions, with the position of their last record."""
        rows = self._connection.execute("SELECT * FROM recorder_stale LIMIT ?", (limit,)).fetchall()
        return dict(cast("Sequence[tuple[str, int]]", rows))

    def settle(self, read: Mapping[str, int]) -> None:
        """Note up to where sessions were indexed; those with newer records stay stale."""
        for session_id, position in read.items():
            self._connection.execute(_SETTLE, (session_id, position))

    def sessions(self) -> tuple[str, ...]:
        """Return the sessions of all indexed runs."""
        rows = self._connection.execute("SELECT DISTINCT session_id FROM recorder_runs").fetchall()
        return tuple(cast("str", name) for (name,) in rows)

    def position_of(self, session_id: str) -> int:
        """Return the position up to which a session is indexed."""
        [(position,)] = self._connection.execute(_POSITION, (session_id,)).fetchall()
        return cast("int", position)

    def put(self, run: IndexedRun, facts: Sequence[Fact], *, position: int) -> None:
        """Insert or replace a run, as of a position."""
        row = self._connection.execute(_RUN_KEY, (run.run_id,)).fetchone()
        run_key = None
        if row is not None:
            run_key, goal_id = cast("tuple[int, str]", row)
            self._connection.execute(_TAKE_BACK, (run_key, goal_id))
            self._connection.execute("DELETE FROM recorder_facts WHERE run_key = ?", (run_key,))
            self._connection.execute("DELETE FROM recorder_runs WHERE run_key = ?", (run_key,))
        columns = (
            run.run_id,
            run.session_id,
            run.goal_id,
            run.status,
            run.started_at,
            run.last_at,
            run.writer,
        )
        self._connection.execute(
            _INSERT_RUN, (run_key, *columns, position, run.summary, run.owner, run.agent_id)
        )
        [(run_key,)] = cast(
            "list[tuple[int]]",
            self._connection.execute(
                "SELECT run_key FROM recorder_runs WHERE run_id = ?", (run.run_id,)
            ).fetchall(),
        )
        for fact in facts:
            counts = (fact.total, fact.succeeded, fact.failed, fact.tokens, fact.latency_ms)
            key = (fact.kind, fact.name, fact.detail)
            self._connection.execute(_INSERT_FACT, (run_key, *key, *counts))
            self._connection.execute(_ADD, (run.goal_id, *key, *counts, fact.example))

    def run(self, run_id: str) -> IndexedRun | None:
        """Return a run; None if there is none."""
        return next(iter(self._runs(_BY_ID, run_id)), None)

    def of_goal(self, goal_id: str, limit: int) -> tuple[IndexedRun, ...]:
        """Return the runs of a goal, newest first."""
        return self._runs(_BY_GOAL, goal_id, limit)

    def of_status(self, status: str, limit: int) -> tuple[IndexedRun, ...]:
        """Return runs of a status, newest first."""
        return self._runs(_BY_STATUS, status, limit)

    def find_runs(self, look: RunLook, limit: int) -> tuple[IndexedRun, ...]:
        """Return runs that match the filter, newest first."""
        where, parameters = _criteria(look)
        return self._runs(_LOOKED_AT.format(where), *parameters, limit)

    def failing(self, look: RunLook, kind: str, *, enough: int, limit: int) -> tuple[Fact, ...]:
        """Return counts of failures over matching runs, the highest rate first."""
        where, parameters = _criteria(look)
        return self._facts(_FAILING.format(where), *parameters, kind, enough, limit)

    def over_time(self, look: RunLook, kind: str, *, bucket_s: int) -> tuple[tuple[int, Fact], ...]:
        """Return counts of matching runs by the interval of their start."""
        assert look.since is not None, "intervals begin somewhere"
        where, parameters = _criteria(look)
        rows = self._connection.execute(
            _OVER_TIME.format(where), (look.since, look.since, bucket_s, *parameters, kind)
        ).fetchall()
        return tuple(
            (cast("int", bucket), Fact(*cast("tuple[str, str, str, int, int, int, int, int, str]", counts)))
            for *counts, bucket in rows
        )

    def totals(self, goal_id: str, kind: str, *, limit: int) -> tuple[Fact, ...]:
        """Return counts over all runs of a goal, largest first."""
        return self._facts(_TOTALS, goal_id, kind, limit)

    def of_name(self, kind: str, name: str) -> tuple[Fact, ...]:
        """Return the counts of a name, per goal."""
        return self._facts(_OF_NAME, kind, name)

    def _runs(self, sql: str, *parameters: str | int) -> tuple[IndexedRun, ...]:
        rows = self._connection.execute(sql, parameters).fetchall()
        return tuple(
            IndexedRun(*cast("tuple[str, str, str, str, str, str, str, bytes, str, str]", row))
            for row in rows
        )

    def _facts(self, sql: str, *parameters: str | int) -> tuple[Fact, ...]:
        rows = self._connection.execute(sql, parameters).fetchall()
        return tuple(
            Fact(*cast("tuple[str, str, str, int, int, int, int, int, str]", tuple(row))) for row in rows
        )


def _criteria(look: RunLook) -> tuple[str, tuple[str, ...]]:
    """Return a SQL condition on runs, and its parameters."""
    conditions = {
        "r.owner = ?": look.owner,
        "r.agent_id = ?": look.agent_id,
        "r.started_at >= ?": look.since,
        "r.started_at < ?": look.until,
    }
    values = {clause: value for clause, value in conditions.items() if value is not None}
    return " AND ".join(values) or "true", tuple(values.values())
