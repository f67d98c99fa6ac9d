"""The index of runs in numbers: counts, sums and times, without reading records.

Nothing is kept for it: a look goes through the rows of the runs, a few microseconds each.
"""

from typing import Final, cast

from windlass.adapters.journals.sqlite_schema import Connection, Value
from windlass.ports.store import CountFilter, RunCell, RunCounts, RunTimes, Waiting
from windlass_protocol import RunStatus

_DAY_MS: Final = 86_400_000.0
# A Julian day is exact to a twentieth of a millisecond, so what is rounded is exact.
_BUCKET: Final = f"CAST(round((julianday(r.started_at) - julianday(?)) * {_DAY_MS}) AS INTEGER) / ?"
_TOOK: Final = f"CAST(round((julianday(r.ended_at) - julianday(r.started_at)) * {_DAY_MS}) AS INTEGER)"
_FROM: Final = """FROM runs r JOIN catalog c USING (session_key)
    WHERE r.started_at >= ? AND r.started_at < ?"""
_SUMS: Final = ", ".join(
    f"coalesce(sum(json_extract(r.usage, '$.{name}')), 0)"
    for name in ("inputTokens", "outputTokens", "costMicros")
)
_CELLS: Final = f"""SELECT {_BUCKET} AS bucket, r.status, count(*), {_SUMS} {_FROM}{{}}
    GROUP BY bucket, r.status ORDER BY bucket, r.status"""
_TIMES: Final = f"""SELECT bucket, max(CASE WHEN n = (c * 50 + 99) / 100 THEN took END),
    max(CASE WHEN n = (c * 95 + 99) / 100 THEN took END) FROM (
        SELECT bucket, took, row_number() OVER part AS n, count(*) OVER (PARTITION BY bucket) AS c
        FROM (SELECT {{}} AS bucket, {_TOOK} AS took {_FROM}{{}} AND r.ended_at IS NOT NULL)
        WINDOW part AS (PARTITION BY bucket ORDER BY took)
    ) GROUP BY bucket ORDER BY bucket"""
_WAITING: Final = """SELECT count(*) FROM runs r JOIN catalog c USING (session_key)
    WHERE r.status = 'waiting'"""
_ASKED: Final = "SELECT count(*), min(a.asked_at) FROM asked a WHERE true"


class CountReads:
    """The runs of the index in numbers, for a connection that only reads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def runs(self, wanted: CountFilter) -> RunCounts:
        """Return runs in numbers."""
        more, given = _criteria(wanted)
        parts: tuple[Value, ...] = (wanted.start, wanted.bucket_ms)
        span: tuple[Value, ...] = (wanted.start, wanted.end, *given)
        execute = self._connection.execute
        cells = execute(_CELLS.format(more), (*parts, *span)).fetchall()
        times = execute(_TIMES.format(_BUCKET, more), (*parts, *span)).fetchall()
        total = execute(_TIMES.format("NULL", more), span).fetchall()
        return RunCounts(
            tuple(
                RunCell(bucket, RunStatus(status), *numbers)
                for bucket, status, *numbers in cast("list[tuple[int, str, int, int, int, int]]", cells)
            ),
            tuple(RunTimes(*row) for row in cast("list[tuple[int | None, int, int]]", [*times, *total])),
        )

    def waiting(self, owner: str | None, agent_id: str | None) -> Waiting:
        """Return how much waits for people; runs of subagents count for their agent alone."""
        runs, requests = _WAITING, _ASKED
        given: list[Value] = []
        if owner is not None:
            runs, requests = f"{runs} AND c.owner = ?", f"{requests} AND a.owner = ?"
            given.append(owner)
        if agent_id is None:
            runs = f"{runs} AND c.parent IS NULL"
        else:
            runs, requests = f"{runs} AND r.agent_id = ?", f"{requests} AND a.agent_id = ?"
            given.append(agent_id)
        [(count,)] = cast("list[tuple[int]]", self._connection.execute(runs, given).fetchall())
        found = self._connection.execute(requests, given).fetchall()
        [(asked, oldest)] = cast("list[tuple[int, str | None]]", found)
        return Waiting(count, asked, oldest)


def _criteria(wanted: CountFilter) -> tuple[str, tuple[Value, ...]]:
    """What else is asked of a run, and the values of it."""
    where, given = "", list[Value]()
    if wanted.agent_id is None:
        where += " AND c.parent IS NULL"
    else:
        where += " AND r.agent_id = ?"
        given.append(wanted.agent_id)
    if wanted.owner is not None:
        where += " AND c.owner = ?"
        given.append(wanted.owner)
    return where, tuple(given)
