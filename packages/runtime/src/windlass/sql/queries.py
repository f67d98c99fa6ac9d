"""Queries of a store; each reads one consistent state of the database."""

import json
from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar, Final, cast

from pydantic_core import from_json, to_json

from windlass.adapters.journals.codec import content_hash, measure_unpacked
from windlass.adapters.journals.rules import corrupt, in_turns, load_usage, rejection
from windlass.ports.archive import KeptItem, StoredAppend
from windlass.ports.catalog import OpenRuns, RunRow, SessionRow
from windlass.ports.documents import Document
from windlass.ports.inbox import Arrivals, InboxItem
from windlass.ports.listing import (
    NEWEST_FIRST,
    NEWEST_SESSIONS,
    NO_USAGE,
    CountFilter,
    OpenRequest,
    RefusedStart,
    RunCell,
    RunCounts,
    RunFilter,
    RunInfo,
    RunOrder,
    RunSort,
    RunTimes,
    SessionFilter,
    SessionInfo,
    SessionOrder,
    SessionSort,
    SettledRequest,
    Waiting,
    causes_of,
)
from windlass.sql.integrity import (
    APPEND_COLUMNS,
    ASKED_COLUMNS,
    CATALOG_COLUMNS,
    CONSUMED_COLUMNS,
    CONTENT_COLUMNS,
    DOCUMENT_COLUMNS,
    ITEM_COLUMNS,
    REFUSED_COLUMNS,
    RUN_COLUMNS,
    SESSION_COLUMNS,
    SETTLED_COLUMNS,
    START,
    ChainLink,
    StoredSession,
    StoreKey,
    columns_of,
    damage_error,
)
from windlass.sql.listing import PLAYGROUND, ROOT, read_run
from windlass.sql.statements import OPEN_RUN, Dialect, Row, SqlConnection, Value
from windlass_harness.record import Record
from windlass_protocol import (
    ContentRef,
    ErrorCode,
    ErrorKind,
    InputOutcome,
    InputRequest,
    JsonObject,
    JsonValue,
    PolicyRef,
    RetryClass,
    RunStatus,
    SessionStatus,
    SourceRef,
)

_FROM: Final = "FROM runs r {} WHERE r.at >= ? AND r.at < ? AND r.started_at IS NOT NULL"
_COUNTED: Final = ("inputTokens", "outputTokens", "costMicros", "cacheReadTokens")
_GROUPS: Final = {
    None: "''",
    "agent": "r.agent_id",
    "version": "r.fingerprint",
    "owner": "coalesce(r.owner, '')",
}
_CELLS: Final = """SELECT {} AS bucket, r.status, count(*), {}, {} AS part {}
    GROUP BY part, bucket, r.status ORDER BY part, bucket, r.status"""
_TIMES: Final = """SELECT bucket, max(CASE WHEN n = (c * 50 + 99) / 100 THEN took END),
    max(CASE WHEN n = (c * 95 + 99) / 100 THEN took END), part FROM (
        SELECT part, bucket, took, row_number() OVER slowest AS n,
        count(*) OVER (PARTITION BY part, bucket) AS c
        FROM (SELECT {} AS part, {} AS bucket, {} AS took
            {} AND r.ended_at IS NOT NULL) AS ended
        WINDOW slowest AS (PARTITION BY part, bucket ORDER BY took)
    ) AS numbered GROUP BY part, bucket ORDER BY part, bucket"""
_WAITING: Final = "SELECT count(*) FROM runs r {} WHERE r.status = 'waiting' AND r.status != 'completed'"
"""The second condition repeats that of the partial index, so that the planner can use it."""
_ASKED: Final = "SELECT count(*), min(a.asked_at) FROM asked a WHERE true"


class CountReads:
    """Counts over the run index, on a read-only connection."""

    def __init__(self, connection: SqlConnection, dialect: Dialect) -> None:
        self._connection = connection
        self._runs_by = dialect.runs_by
        self._bucket = f"{dialect.milliseconds.format('?', 'r.started_at')} / ?"
        self._took = dialect.milliseconds.format("r.started_at", "r.ended_at")
        self._sums = ", ".join(
            f"CAST(coalesce(sum({dialect.usage.format(name)}), 0) AS BIGINT)" for name in _COUNTED
        )

    def runs(self, filters: CountFilter) -> RunCounts:
        """Return counts and durations of runs."""
        conditions, more_parameters = _count_criteria(filters)
        # Otherwise SQLite may begin with all sessions of the owner, and read every run of theirs.
        index = self._runs_by.format("time" if filters.agent_id is None else "agent")
        source = _FROM.format(index) + conditions
        parts: tuple[Value, ...] = (filters.start, filters.bucket_ms)
        span: tuple[Value, ...] = (filters.start, filters.end, *more_parameters)
        group = _GROUPS[filters.split]
        execute = self._connection.execute
        cells = execute(_CELLS.format(self._bucket, self._sums, group, source), (*parts, *span)).fetchall()
        times = execute(_TIMES.format(group, self._bucket, self._took, source), (*parts, *span)).fetchall()
        total = execute(_TIMES.format(group, "NULL", self._took, source), span).fetchall()
        counted = cast("list[tuple[int, str, int, int, int, int, int, str]]", cells)
        return RunCounts(
            tuple(
                RunCell(bucket, RunStatus(status), count, *used, group=name)
                for bucket, status, count, *used, name in counted
            ),
            tuple(RunTimes(*row) for row in cast("list[tuple[int | None, int, int, str]]", [*times, *total])),
        )

    def waiting(self, owner: str | None, agent_id: str | None) -> Waiting:
        """Return counts of waiting runs and requests: see `Store.waiting`."""
        runs, requests = _WAITING.format(self._runs_by.format("status")), _ASKED
        parameters: list[Value] = []
        if owner is not None:
            runs, requests = f"{runs} AND r.owner = ?", f"{requests} AND a.owner = ?"
            parameters.append(owner)
        if agent_id is None:
            runs = f"{runs} AND r.is_root = {ROOT}"
        else:
            runs = f"{runs} AND r.agent_id = ? AND r.is_root < {PLAYGROUND}"
            requests = f"{requests} AND a.agent_id = ?"
            parameters.append(agent_id)
        [(count,)] = cast("list[tuple[int]]", self._connection.execute(runs, parameters).fetchall())
        rows = self._connection.execute(requests, parameters).fetchall()
        [(request_count, oldest)] = cast("list[tuple[int, str | None]]", rows)
        return Waiting(count, request_count, oldest)


def _count_criteria(filters: CountFilter) -> tuple[str, tuple[Value, ...]]:
    """Return further SQL conditions on runs, and their parameters."""
    where, parameters = "", list[Value]()
    if filters.agent_id is None:
        where += f" AND r.is_root = {ROOT}"
    else:
        where += f" AND r.agent_id = ? AND r.is_root < {PLAYGROUND}"
        parameters.append(filters.agent_id)
    if filters.owner is not None:
        where += " AND r.owner = ?"
        parameters.append(filters.owner)
    return where, tuple(parameters)


_IS_LISTED: Final = "SELECT 1 FROM catalog {} WHERE session_key = ?"
_CATALOG: Final = columns_of("c", CATALOG_COLUMNS)
_CATALOG_WIDTH: Final = len(CATALOG_COLUMNS.split(", "))
# A session with its newest run that has started; `{}` says which sessions, and then their order.
_LISTED_SESSION: Final = f"""
    WITH page AS (SELECT {_CATALOG}, s.session_id,
    (SELECT count(*) FROM runs r WHERE r.session_key = c.session_key) AS runs,
    (SELECT count(*) FROM asked a WHERE a.session_key = c.session_key) AS requests,
    (SELECT CAST(coalesce(sum(r.crashes), 0) AS BIGINT) FROM runs r
        WHERE r.session_key = c.session_key) AS crashes,
    (SELECT r.run_id FROM runs r WHERE r.session_key = c.session_key AND r.started_at IS NOT NULL
        ORDER BY r.item DESC LIMIT 1) AS newest
    FROM catalog c JOIN sessions s USING (session_key) WHERE {{}})
    SELECT page.*, {columns_of("l", RUN_COLUMNS)}
    FROM page LEFT JOIN runs l ON l.run_id = page.newest {{}}"""
_LISTED_RUN: Final = f"""
    SELECT {columns_of("r", RUN_COLUMNS)}, s.session_id FROM runs r JOIN sessions s USING (session_key)"""
_REQUEST: Final = f"""SELECT {_CATALOG}, {columns_of("a", ASKED_COLUMNS)}, s.session_id, a.number
    FROM asked a JOIN sessions s USING (session_key) LEFT JOIN catalog c USING (session_key)"""
REQUEST: Final = f"{_REQUEST} WHERE a.request_id = ? ORDER BY a.number DESC LIMIT 1"
SETTLED: Final = f"""SELECT {columns_of("t", SETTLED_COLUMNS)}, s.session_id
    FROM settled t JOIN sessions s USING (session_key) WHERE t.request_id = ?"""
_NAMED: Final = """SELECT * FROM (
    SELECT n.number FROM asked_of n WHERE n.name = ? AND n.number > ? ORDER BY n.number LIMIT ?) AS page"""
_REFUSED: Final = f"SELECT {REFUSED_COLUMNS}, number FROM refused"
_ITEMS: Final = f"""SELECT {columns_of("i", CONSUMED_COLUMNS)}, r.run_id FROM items i
    LEFT JOIN runs r ON r.item = i.number
    WHERE i.session_key = ? AND i.consumed_seq IS NOT NULL AND i.number > ? ORDER BY i.number LIMIT ?"""
_CONTENTS: Final = f"""SELECT {columns_of("c", CONTENT_COLUMNS)}, length(c.content) FROM content_uses u
    JOIN contents c USING (hash) WHERE u.session_key = ? ORDER BY c.hash"""


class IndexReads:
    """Reads of the index, on a read-only connection."""

    def __init__(self, connection: SqlConnection, key: StoreKey, dialect: Dialect) -> None:
        self._connection = connection
        self._key = key
        self._dialect = dialect
        self._is_listed = _IS_LISTED.format(dialect.by_table)

    def check_catalog_row(self, session_key: int, listed: Row) -> Row:
        """Return the `CATALOG_COLUMNS` of a session, each None if it is not listed, after a check.

        Raises:
            Corrupt: the row is damaged, or only an index of the database does not find it.
        """
        if listed[0] is not None:
            self._key.check_row("catalog", listed)
        elif self._connection.execute(self._is_listed, (session_key,)).fetchone() is not None:
            # Without the row, the session would seem to have no owner.
            raise corrupt("the index of sessions is damaged: restore a backup")
        return listed

    def sessions(self, filters: SessionFilter, *, order: SessionOrder, limit: int) -> tuple[SessionInfo, ...]:
        """Return sessions in an order."""
        has_few = self._has_few(_HAS_MANY_SESSIONS, filters.owner)
        sql, parameters = sessions_query(
            filters, self._dialect, order=order, limit=limit, owner_has_few=has_few
        )
        return tuple(self._session(row) for row in self._connection.execute(sql, parameters))

    def count_sessions(self, filters: SessionFilter, *, most: int) -> int:
        """Return how many sessions match a filter, up to a bound."""
        has_few = self._has_few(_HAS_MANY_SESSIONS, filters.owner)
        select, parameters = _select_sessions(
            filters, self._dialect, order=_COUNTED_ORDER, owner_has_few=has_few
        )
        return self._count(select.format("1"), (*parameters, most))

    def _has_few(self, has_many: str, owner: str | None) -> bool:
        """Return whether an owner has so few rows that they are filtered one by one."""
        return owner is not None and self._connection.execute(has_many, (owner, OWN_FEW)).fetchone() is None

    def _count(self, select: str, parameters: Sequence[Value]) -> int:
        sql = f"SELECT count(*) FROM ({select} LIMIT ?) AS page"
        [(count,)] = self._connection.execute(sql, parameters).fetchall()
        return cast("int", count)

    def session(self, session_id: str) -> SessionInfo | None:
        """Return a session."""
        sql = _LISTED_SESSION.format("c.session_key = ?", "")
        row = self._connection.execute(sql, (self._key.session_key(session_id),)).fetchone()
        return None if row is None else self._session(row)

    def runs(self, filters: RunFilter, *, order: RunOrder, limit: int) -> tuple[RunInfo, ...]:
        """Return runs in an order."""
        key = None if filters.session_id is None else self._key.session_key(filters.session_id)
        has_few = self._has_few(_HAS_MANY_RUNS, filters.owner)
        sql, parameters = runs_query(
            filters, key, self._dialect, order=order, limit=limit, owner_has_few=has_few
        )
        return tuple(self._run(row) for row in self._connection.execute(sql, parameters))

    def count_runs(self, filters: RunFilter, *, most: int) -> int:
        """Return how many runs match a filter, up to a bound."""
        key = None if filters.session_id is None else self._key.session_key(filters.session_id)
        has_few = self._has_few(_HAS_MANY_RUNS, filters.owner)
        where, parameters = _run_criteria(filters, key, self._dialect)
        index = _run_index(filters, RunSort.STARTED, owner_has_few=has_few)
        return self._count(_select_runs("1", index, where, self._dialect), (*parameters, most))

    def requests(
        self, owner: str | None, responders: Collection[str] = (), *, after: int, limit: int
    ) -> tuple[OpenRequest, ...]:
        """Return open requests, oldest first: see `Store.list_requests`."""
        sql, parameters = requests_query(owner, after=after, limit=limit)
        of_owner = [self._request(row) for row in self._connection.execute(sql, parameters)]
        if owner is None or not responders:
            return tuple(of_owner)
        sql, parameters = responder_query(responders, after=after, limit=limit)
        rows = self._connection.execute(sql, parameters)
        of_responders = (
            request
            for row in rows
            if (request := self._request(row)).owner != owner and request.asks(responders)
        )
        return tuple(sorted([*of_owner, *of_responders], key=lambda request: request.number)[:limit])

    def request(self, request_id: str) -> OpenRequest | SettledRequest | None:
        """Return a request, open or settled."""
        row = self._connection.execute(REQUEST, (request_id,)).fetchone()
        if row is not None:
            return self._request(row)
        row = self._connection.execute(SETTLED, (request_id,)).fetchone()
        return None if row is None else self._settlement(row)

    def refusals(
        self, owner: str | None, agent_id: str | None, *, before: int | None, limit: int
    ) -> tuple[RefusedStart, ...]:
        """Return refused starts, newest first."""
        conditions = {"owner = ?": owner, "agent_id = ?": agent_id, "number < ?": before}
        values = {clause: value for clause, value in conditions.items() if value is not None}
        condition = f" WHERE {' AND '.join(values)}" if values else ""
        sql = f"{_REFUSED}{condition} ORDER BY number DESC LIMIT ?"
        return tuple(self._refusal(row) for row in self._connection.execute(sql, (*values.values(), limit)))

    def items(self, session_id: str, *, after: int, limit: int) -> tuple[KeptItem, ...]:
        """Return consumed items of a session."""
        rows = self._connection.execute(_ITEMS, (self._key.session_key(session_id), after, limit))
        items: list[KeptItem] = []
        for *columns, run_id in rows:
            self._key.check_consumed(columns)
            number, _, kind, key, digest, consumed_seq = cast(
                "tuple[int, int, str, str, bytes, int]", tuple(columns[:-1])
            )
            items.append(KeptItem(kind, key, digest, consumed_seq, cast("str | None", run_id), number))
        return tuple(items)

    def contents(self, session_id: str) -> tuple[ContentRef, ...]:
        """Return the contents of a session."""
        rows = self._connection.execute(_CONTENTS, (self._key.session_key(session_id),)).fetchall()
        for *columns, _ in rows:
            self._key.check_row("contents", columns)
        return tuple(
            ContentRef(content_id=digest, hash=digest, media_type=kind, size_bytes=size)
            for digest, kind, _, size in cast("list[tuple[str, str, bytes, int]]", rows)
        )

    def _name(self, session_key: object, name: object) -> str:
        """Return the id of a session; Corrupt if it has another key."""
        if not isinstance(name, str) or self._key.session_key(name) != session_key:
            raise corrupt("the row of a session is damaged", str(name))
        return name

    def _session(self, row: Row) -> SessionInfo:
        listed, (name, runs, requests, crashes, newest, *columns) = row[:_CATALOG_WIDTH], row[_CATALOG_WIDTH:]
        self._key.check_row("catalog", listed)
        if newest is not None:
            self._key.check_row("runs", columns)
        run = None if newest is None else read_run(columns)
        number, session_key, title, agent_id, status, owner, created, updated, usage = cast(
            "tuple[int, int, str, str, str, str | None, str, str, str]", listed[:9]
        )
        parent, root, predecessor, predecessor_seq = cast(
            "tuple[str | None, str | None, str | None, int | None]", listed[9:-1]
        )
        session_id = self._name(session_key, name)
        return SessionInfo(
            session_id=session_id,
            title=title,
            agent_id=agent_id,
            status=SessionStatus(status),
            owner=owner,
            created_at=created,
            updated_at=updated,
            run_count=cast("int", runs),
            request_count=cast("int", requests),
            usage=load_usage(usage),
            parent_session_id=parent,
            root_session_id=root or session_id,
            predecessor_id=predecessor,
            predecessor_seq=predecessor_seq,
            number=number,
            output="" if run is None else run.facts.answer,
            error_message=None if run is None else run.facts.error_message,
            waits_for=None if run is None else run.facts.waits_for,
            waits_on=None if run is None else run.waits_on,
            error=None if run is None else run.error,
            crashes=cast("int", crashes),
        )

    def _run(self, row: Row) -> RunInfo:
        *columns, name = row
        self._key.check_row("runs", columns)
        run = read_run(columns)
        facts = run.facts
        return RunInfo(
            run_id=run.run_id,
            session_id=self._name(run.session_key, name),
            agent_id=run.agent_id,
            package_fingerprint=run.fingerprint,
            status=facts.status,
            started_at=run.started_at,
            ended_at=run.ended_at,
            usage=facts.usage or NO_USAGE,
            first_seq=run.first_seq,
            number=run.item,
            at=run.at,
            owner=run.owner,
            is_root=run.rank == ROOT,
            is_playground=run.rank == PLAYGROUND,
            input=run.input,
            output=facts.answer,
            error_message=facts.error_message,
            waits_for=facts.waits_for,
            waits_on=run.waits_on,
            error=run.error,
            crashes=run.crashes,
            tags=facts.tags,
            rating=run.rating,
        )

    def _request(self, row: Row) -> OpenRequest:
        listed, (*columns, name, number) = row[:_CATALOG_WIDTH], row[_CATALOG_WIDTH:]
        self._key.check_row("asked", columns)
        session_key, _, run_id, agent_id, owner, at, body = cast(
            "tuple[int, str, str, str, str | None, str, bytes]", columns[:-1]
        )
        root = cast("str | None", self.check_catalog_row(session_key, listed)[10])
        session_id = self._name(session_key, name)
        request = InputRequest.model_validate(from_json(body), by_alias=True)
        return OpenRequest(
            session_id, root or session_id, run_id, agent_id, owner, at, request, cast("int", number)
        )

    def _settlement(self, row: Row) -> SettledRequest:
        *columns, name = row
        self._key.check_row("settled", columns)
        request_id, session_key, run_id, owner, outcome, option_id, responder, at = cast(
            "tuple[str, int, str, str | None, str, str | None, str | None, str]", columns[:-1]
        )
        session_id = self._name(session_key, name)
        return SettledRequest(
            request_id, session_id, run_id, owner, InputOutcome(outcome), option_id, responder, at
        )

    def _refusal(self, row: Row) -> RefusedStart:
        *columns, number = row
        self._key.check_row("refused", columns)
        at, run_id, session_id, agent_id, owner, source, code, kind, retry, message = cast(
            "tuple[str, str | None, str | None, str | None, str | None, str | None, str, str, str, str]",
            tuple(columns[1:-1]),
        )
        facts = cast(JsonObject, {} if source is None else from_json(source))
        policy = cast(JsonObject, facts.pop(POLICY, {}))
        return RefusedStart(
            at,
            run_id,
            session_id,
            agent_id,
            owner,
            SourceRef.model_validate(facts, by_alias=True) if facts else None,
            ErrorCode(code),
            ErrorKind(kind),
            RetryClass(retry),
            message,
            policy_code=cast("str | None", policy.get("code")),
            policy_refs=tuple(
                PolicyRef.model_validate(ref, by_alias=True)
                for ref in cast("list[JsonObject]", policy.get("refs", []))
            ),
            number=cast("int", number),
        )


POLICY: Final = "policy"
"""The key of the decision of a policy in the source of a refused start."""


def source_text(refused: RefusedStart) -> str | None:
    """Return the column `source` of a refused start: where it came from, and the policy that refused it."""
    facts: JsonObject = {}
    if refused.source is not None:
        facts = refused.source.model_dump(mode="json", by_alias=True)
    if refused.policy_code is not None or refused.policy_refs:
        refs: list[JsonValue] = [ref.model_dump(mode="json", by_alias=True) for ref in refused.policy_refs]
        facts[POLICY] = {"code": refused.policy_code, "refs": refs}
    return to_json(facts).decode() if facts else None


def sessions_query(
    filters: SessionFilter,
    dialect: Dialect,
    *,
    order: SessionOrder = NEWEST_SESSIONS,
    limit: int,
    owner_has_few: bool = False,
) -> tuple[str, tuple[Value, ...]]:
    """Return the SQL of a page of sessions; the page is found first, before the other columns are read."""
    select, parameters = _select_sessions(filters, dialect, order=order, owner_has_few=owner_has_few)
    column, way = _session_column(order.by, dialect), "ASC" if order.is_ascending else "DESC"
    page = f"{select.format('c.number')} ORDER BY {column.format('c.')} {way}, c.number {way} LIMIT ?"
    sorted_ = f"ORDER BY {column.format('page.')} {way}, page.number {way}"
    return _LISTED_SESSION.format(f"c.number IN ({page})", sorted_), (*parameters, limit)


_COUNTED_ORDER: Final = SessionOrder(SessionSort.UPDATED)
"""The order with an index that holds the columns that sessions are filtered by."""


def _session_column(by: SessionSort, dialect: Dialect) -> str:
    """Return what sessions are sorted by; `{}` is the prefix of a column."""
    match by:
        case SessionSort.CREATED:
            return "{}number"
        case SessionSort.UPDATED:
            return "{}updated_at"
        case SessionSort.COST:
            return dialect.session_cost


def _select_sessions(
    filters: SessionFilter, dialect: Dialect, *, order: SessionOrder, owner_has_few: bool
) -> tuple[str, list[Value]]:
    """Return a query for sessions behind a place, without an order; `{}` is what it returns of each."""
    where, parameters = list[str](), list[Value]()
    index = _session_index(filters, order.by, owner_has_few=owner_has_few)
    # Few sessions have a run that fits: the planner begins with them.
    plus = "" if filters.run is None else dialect.unindexed
    for column in ("owner", "agent_id", "status"):
        value = cast("str | None", getattr(filters, column))
        if value is not None:
            where.append(f"{plus}c.{column} = ?")
            parameters.append(str(value))
            # Only the first column, the most selective, uses its index.
            plus = dialect.unindexed
    cost = dialect.session_cost.format("c.")
    limits: dict[str, Value] = {
        "c.updated_at >= ?": filters.since,
        "c.updated_at < ?": filters.until,
        f"{cost} >= ?": filters.cost_micros[0],
        f"{cost} <= ?": filters.cost_micros[1],
    }
    for clause, value in limits.items():
        if value is not None:
            where.append(clause)
            parameters.append(value)
    for word in filters.words:
        where.append(f"c.session_key IN ({dialect.sessions_with})")
        parameters.append(dialect.prefix.format(word))
    if filters.run is not None:
        of_runs = replace(filters.run, playground=True)
        conditions, more = _run_criteria(of_runs, None, dialect)
        runs = _run_index(of_runs, RunSort.STARTED, owner_has_few=False)
        select = _select_runs("r.session_key", runs, conditions, dialect)
        where.append(f"c.session_key IN ({select})")
        parameters += more
    if filters.root_only:
        where.append("c.parent IS NULL")
    if order.after is not None:
        past = ">" if order.is_ascending else "<"
        if order.by is SessionSort.CREATED:
            where.append(f"c.number {past} ?")
            parameters.append(order.after[1])
        else:
            column = _session_column(order.by, dialect).format("c.")
            # Not a comparison of rows, for which SQLite does not use an index of an expression.
            where.append(f"{column} {past}= ? AND ({column} {past} ? OR c.number {past} ?)")
            parameters += (order.after[0], *order.after)
    by = "" if index is None else dialect.sessions_by.format(index)
    condition = f" WHERE {' AND '.join(where)}" if where else ""
    return f"SELECT {{}} FROM catalog c {by}{condition}", parameters


def _session_index(filters: SessionFilter, by: SessionSort, *, owner_has_few: bool) -> str | None:
    """Return the index with the fewest sessions that are not wanted; None if that is for the planner."""
    if filters.words or filters.run is not None:
        return None
    if owner_has_few:
        return "owner"
    has_time = filters.since is not None or filters.until is not None
    if filters.cost_micros != (None, None) or (by is SessionSort.COST and not has_time):
        return "cost"
    return "update" if has_time or by is SessionSort.UPDATED else None


OWN_FEW: Final = 2_000
"""Rows of an owner that are filtered one by one; beyond, the index that covers the filters is read."""
_HAS_MANY_RUNS: Final = "SELECT 1 FROM runs WHERE owner = ? LIMIT 1 OFFSET ?"
_HAS_MANY_SESSIONS: Final = "SELECT 1 FROM catalog WHERE owner = ? LIMIT 1 OFFSET ?"
_SORTED: Final = {
    RunSort.STARTED: "at",
    RunSort.DURATION: "duration_ms",
    RunSort.COST: "cost_micros",
}


def runs_query(
    filters: RunFilter,
    session_key: int | None,
    dialect: Dialect,
    *,
    order: RunOrder = NEWEST_FIRST,
    limit: int,
    owner_has_few: bool = False,
) -> tuple[str, tuple[Value, ...]]:
    """Return the SQL of a page of runs; the page is found first, in one index."""
    where, parameters = _run_criteria(filters, session_key, dialect)
    column = _SORTED[order.by]
    if session_key is not None and order.by is RunSort.STARTED:
        column = "item"
    index = _run_index(filters, order.by, owner_has_few=owner_has_few)
    way, past = ("ASC", ">") if order.is_ascending else ("DESC", "<")
    if order.after is not None:
        where.append(f"(r.{column}, r.item) {past} (?, ?)")
        parameters += order.after
    sorted_ = f"ORDER BY r.{column} {way}, r.item {way}"
    page = f"{_select_runs('r.run_id', index, where, dialect)} {sorted_} LIMIT ?"
    return f"{_LISTED_RUN} WHERE r.run_id IN ({page}) {sorted_}", (*parameters, limit)


def _select_runs(what: str, index: str | None, where: Sequence[str], dialect: Dialect) -> str:
    """Return a query for runs, without an order."""
    by = "" if index is None else dialect.runs_by.format(index)
    condition = f" WHERE {' AND '.join(where)}" if where else ""
    return f"SELECT {what} FROM runs r {by}{condition}"


def _run_index(filters: RunFilter, by: RunSort, *, owner_has_few: bool) -> str | None:
    """Return the index with the fewest runs that are not wanted; None if that is for the planner to say."""
    if filters.session_id is not None or filters.words or filters.tag is not None or filters.run_ids:
        return None
    has_rare_status = filters.waits_on is not None or filters.status not in (None, RunStatus.COMPLETED)
    rare = {
        "owner": owner_has_few,
        "rating": filters.rating not in (None, 0),
        "crash": filters.has_crashed is True,
        "error": bool(filters.error),
        "status": has_rare_status,
        "version": filters.fingerprint is not None,
    }
    index = next((name for name, is_wanted in rare.items() if is_wanted), None)
    if index is not None:
        return index
    plain = replace(filters, owner=None, root_only=False, playground=False)
    if by is not RunSort.STARTED and plain == _ANY:
        return by.value
    return "time" if filters.agent_id is None else "agent"


_ANY: Final = RunFilter()


def _run_criteria(
    filters: RunFilter, session_key: int | None, dialect: Dialect
) -> tuple[list[str], list[Value]]:
    """Return SQL conditions on runs, and their parameters."""
    values: dict[str, Value] = {
        "r.session_key = ?": session_key,
        "r.agent_id = ?": filters.agent_id,
        "r.status = ?": None if filters.status is None else filters.status.value,
        "r.owner = ?": filters.owner,
        "r.is_root >= ?": ROOT if filters.root_only else None,
        "r.is_root < ?": None if filters.playground or filters.session_id is not None else PLAYGROUND,
        "r.fingerprint = ?": filters.fingerprint,
        "r.error = ?": filters.error or None,
        "r.rating = ?": filters.rating,
        "r.at >= ?": filters.since,
        "r.at < ?": filters.until,
        "r.cost_micros >= ?": filters.cost_micros[0],
        "r.cost_micros <= ?": filters.cost_micros[1],
        "r.duration_ms >= ?": filters.duration_ms[0],
        "r.duration_ms <= ?": filters.duration_ms[1],
        "r.run_id IN (SELECT t.run_id FROM run_tags t WHERE t.tag = ?)": filters.tag,
    }
    where = [clause for clause, value in values.items() if value is not None]
    parameters: list[Value] = [value for value in values.values() if value is not None]
    if filters.has_crashed is not None:
        where.append("r.crashes > 0" if filters.has_crashed else "r.crashes = 0")
    # SQLite uses a partial index if its condition is repeated.
    if filters.rating not in (None, 0):
        where.append("r.rating != 0")
    if filters.status not in (None, RunStatus.COMPLETED) or filters.waits_on is not None:
        where.append("r.status != 'completed'")
    if filters.waits_on is not None:
        causes = causes_of(filters.waits_on)
        where.append(f"r.status = 'waiting' AND r.waits_on IN ({', '.join('?' * len(causes))})")
        parameters += causes
    if filters.error == "":
        where.append("r.error IS NOT NULL")
    if filters.run_ids:
        where.append(f"r.run_id IN ({', '.join('?' * len(filters.run_ids))})")
        parameters += filters.run_ids
    for word in filters.words:
        where.append(f"r.session_key IN ({dialect.sessions_with})")
        parameters.append(dialect.prefix.format(word))
    return where, parameters


def requests_query(owner: str | None, *, after: int, limit: int) -> tuple[str, tuple[Value, ...]]:
    """Return the SQL of a page of open requests."""
    condition = "" if owner is None else "a.owner = ? AND "
    owner_parameters = () if owner is None else (owner,)
    return f"{_REQUEST} WHERE {condition}a.number > ? ORDER BY a.number LIMIT ?", (
        *owner_parameters,
        after,
        limit,
    )


def responder_query(responders: Collection[str], *, after: int, limit: int) -> tuple[str, tuple[Value, ...]]:
    """Return the SQL of a page of the open questions that name one of these as a responder."""
    pages = " UNION ".join(_NAMED for _ in responders)
    parameters = tuple(parameter for name in responders for parameter in (name, after, limit))
    return f"{_REQUEST} WHERE a.number IN ({pages}) ORDER BY a.number LIMIT ?", (*parameters, limit)


SHORT_BYTES_MAX: Final = 65_536
"""Bytes of JSON that an event loop reads itself."""
_SESSION = f"SELECT {SESSION_COLUMNS} FROM sessions WHERE session_key = ?"
_HAS_APPENDS = "SELECT 1 FROM appends WHERE session_key = ? LIMIT 1"
_BEFORE = """SELECT last_seq, chain FROM appends WHERE session_key = ? AND last_seq <= ?
    ORDER BY last_seq DESC LIMIT 1"""
# An append has a record at least, so a page of records needs no more appends than records.
_APPENDS = f"""SELECT {APPEND_COLUMNS} FROM appends WHERE session_key = ? AND last_seq > ?
    ORDER BY last_seq LIMIT ?"""
_MILESTONES = f"""SELECT {APPEND_COLUMNS} FROM appends {{}}
    WHERE session_key = ? AND last_seq > ? AND milestone = 1 ORDER BY last_seq LIMIT ?"""
_BODIES_AFTER = "SELECT body FROM appends WHERE session_key = ? AND last_seq > ?"
_TIMELINE = f"""SELECT {APPEND_COLUMNS}, session_key FROM appends
    WHERE last_position > ? AND last_position <= ? ORDER BY last_position LIMIT ?"""
_PENDING = f"""SELECT {ITEM_COLUMNS} FROM items WHERE session_key = ? AND consumed_seq IS NULL AND number > ?
    ORDER BY number LIMIT ?"""
NEWEST_ITEM = "SELECT coalesce(max(number), 0) FROM items"
ARRIVED = """SELECT DISTINCT s.session_id FROM items i JOIN sessions s USING (session_key)
    WHERE i.number > ? AND i.consumed_seq IS NULL"""
_SESSIONS = (
    f"SELECT session_key, {SESSION_COLUMNS} FROM sessions WHERE session_id > ? ORDER BY session_id LIMIT ?"
)
_RUN = f"""SELECT {_CATALOG}, {columns_of("r", RUN_COLUMNS)}, {columns_of("s", SESSION_COLUMNS)}
    FROM runs r JOIN sessions s USING (session_key) LEFT JOIN catalog c USING (session_key)
    WHERE r.run_id = ?"""
_SESSION_WIDTH: Final = len(SESSION_COLUMNS.split(", "))
_AGENT = f"""(SELECT agent_id FROM runs r WHERE r.session_key = s.session_key AND {OPEN_RUN}
    AND status {{}} ORDER BY item LIMIT 1)"""
# The agent of the current run, or else of the oldest pending one; parameters: agents, limit, now.
_IS_OURS = f"""(CAST(?1 AS TEXT) IS NULL
    OR coalesce({_AGENT.format("!= 'pending'")}, {_AGENT.format("= 'pending'")}, '')
    IN ({{}}))"""
_RUNNING = f"""SELECT session_id FROM sessions s WHERE standing = 'running' AND owner_id IS NULL
    AND {_IS_OURS} ORDER BY last_position LIMIT ?2"""
_WOKEN = f"""SELECT session_id FROM sessions s
    WHERE standing = 'waiting' AND wake_at_ms IS NOT NULL AND wake_at_ms <= ?3 AND owner_id IS NULL
    AND {_IS_OURS} ORDER BY wake_at_ms, session_id LIMIT ?2"""
_CALLED = f"""SELECT min(s.session_id) FROM items i JOIN sessions s USING (session_key)
    WHERE i.consumed_seq IS NULL AND s.owner_id IS NULL AND i.kind != 'start'
    AND (i.kind = 'cancel' OR {_IS_OURS}) GROUP BY i.session_key ORDER BY min(i.number) LIMIT ?2"""
_STARTED = f"""SELECT min(s.session_id) FROM items i JOIN sessions s USING (session_key)
    WHERE i.consumed_seq IS NULL AND s.owner_id IS NULL AND i.kind = 'start' AND s.standing != 'waiting'
    AND {_IS_OURS} GROUP BY i.session_key ORDER BY min(i.number) LIMIT ?2"""
_OPEN_RUNS = f"""SELECT agent_id, fingerprint, status, count(*), min(at) FROM runs WHERE {OPEN_RUN}
    GROUP BY agent_id, fingerprint, status ORDER BY agent_id, fingerprint, status"""
_NEXT_DOCUMENT = "SELECT min(due_at_ms) FROM documents WHERE kind = ? AND due_at_ms IS NOT NULL"
_NEXT_WAKE = "SELECT min(wake_at_ms) FROM sessions WHERE standing = 'waiting' AND wake_at_ms IS NOT NULL"
OWNERS = "SELECT owner_id, beat_at_ms FROM leases"
_SNAPSHOT = """SELECT p.seq, p.seal, p.state FROM snapshots p JOIN sessions s USING (session_key)
    WHERE p.session_key = ? AND p.seq <= s.last_seq"""
_HOLES = """SELECT first_position, last_position, seal FROM holes
    WHERE last_position > ? AND first_position < ? ORDER BY last_position"""
_CONTENT = "SELECT content FROM contents WHERE hash = ?"
_IS_DELETED: Final = "SELECT 1 FROM tombstones WHERE session_key = ?"


def is_deleted(connection: SqlConnection, session_key: int) -> bool:
    """Return whether the session with a key was deleted."""
    return connection.execute(_IS_DELETED, (session_key,)).fetchone() is not None


def find_session(
    connection: SqlConnection, key: StoreKey, *, session_id: str, lock: str = ""
) -> StoredSession | None:
    """Return a session; None if there is none. `lock` is the clause that locks its row.

    Raises:
        Corrupt: its row is damaged, or missing while its records are there.
    """
    session_key = key.session_key(session_id)
    columns = connection.execute(f"{_SESSION}{lock}", (session_key,)).fetchone()
    if columns is not None:
        return key.read_session(session_key, columns)
    if connection.execute(_HAS_APPENDS, (session_key,)).fetchone() is not None:
        raise corrupt(f"the row of session {session_id} is missing", session_id)
    return None


class Reads:
    """Reads on a read-only connection, verified by checksums.

    A database says in a subclass where its newest position is.
    """

    BEGIN: ClassVar = "BEGIN"
    """Begins a transaction that reads one state."""

    def __init__(self, connection: SqlConnection, key: StoreKey, dialect: Dialect) -> None:
        self._connection = connection
        self._key = key
        self.index = IndexReads(connection, key, dialect)
        self.counts = CountReads(connection, dialect)
        self._milestones = _MILESTONES.format(dialect.by_milestones)
        # What is under way has its own turns: no queue of starts delays it.
        self._due = tuple(sql.format(dialect.values) for sql in (_RUNNING, _WOKEN, _CALLED, _STARTED))

    def last_position(self) -> int:
        """Return the position of the newest record."""
        raise NotImplementedError

    def appends(self, session_id: str, *, after: int, limit: int) -> tuple[StoredAppend, ...]:
        """Return the appends of a session that end after a record, verified."""
        with self._look():
            return self.appends_now(session_id, after=after, limit=limit)

    def appends_now(self, session_id: str, *, after: int, limit: int) -> tuple[StoredAppend, ...]:
        """The same, for a caller that has begun a transaction."""
        session = find_session(self._connection, self._key, session_id=session_id)
        if session is None or session.row.last_seq <= after:
            return ()
        link = self._link_at(session.key, after)
        appends: list[StoredAppend] = []
        for columns in self._connection.execute(_APPENDS, (session.key, link.last_seq, limit)):
            link, records = self._key.read_append((session.key, session_id), columns, before=link)
            appends.append(StoredAppend(records, cast("int", columns[2]), cast("bytes", columns[4])))
            if len(appends) >= limit:
                break
        _check_end(session, link, len(appends) >= limit)
        return tuple(appends)

    def records(
        self, session_id: str, *, after: int, limit: int, bytes_max: int | None = None
    ) -> tuple[Record, ...] | None:
        """Return the records of a session from `after + 1`, verified up to the last.

        None if the appends after that record have more than `bytes_max` bytes of JSON.
        """
        with self._look():
            session = find_session(self._connection, self._key, session_id=session_id)
            if session is None or session.row.last_seq <= after:
                return ()
            if bytes_max is not None:
                for (body,) in self._connection.execute(_BODIES_AFTER, (session.key, after)):
                    bytes_max -= measure_unpacked(body, bytes_max + 1) if isinstance(body, bytes) else 0
                    if bytes_max < 0:
                        return None
            link = self._link_at(session.key, after)
            rows = self._connection.execute(_APPENDS, (session.key, link.last_seq, limit))
            link, records = self._key.read_appends(
                (session.key, session_id), rows, before=link, until=after + limit
            )
            _check_end(session, link, link.last_seq - after >= limit)
        return _behind(records, records[0].seq, after)

    def milestones(self, session_id: str, *, after: int, limit: int) -> tuple[Record, ...]:
        """Return the records of milestones from `after + 1`.

        Each append is verified together with the one before it, and the end of the session with its row.
        """
        records: list[Record] = []
        with self._look():
            session = find_session(self._connection, self._key, session_id=session_id)
            if session is None or session.row.last_seq <= after:
                return ()
            _check_end(session, self._link_at(session.key, session.row.last_seq), has_more=False)
            for columns in self._connection.execute(self._milestones, (session.key, after, limit)):
                before = self._link_at(session.key, cast("int", columns[1]) - 1)
                _, more = self._key.read_append((session.key, session_id), columns, before=before)
                records += more if records else _behind(more, more[0].seq, after)
                if len(records) >= limit:
                    break
        return tuple(records)

    def timeline(self, after: int, limit: int) -> tuple[Record, ...]:
        """Return the records of all sessions after a position, without gaps."""
        with self._look():
            end = self.last_position()
            if end <= after:
                return ()
            links: dict[int, tuple[str, ChainLink]] = {}
            records: list[Record] = []
            for *columns, session_key in self._connection.execute(_TIMELINE, (after, end, limit)):
                number, seq = cast("int", session_key), cast("int", columns[1])
                session_id, link = links.get(number) or self._link(number, seq)
                link, more = self._key.read_append((number, session_id), columns, before=link)
                links[number] = (session_id, link)
                self.check_gap(position_of(records[-1]) if records else after, position_of(more[0]))
                records += more
                if position_of(more[-1]) - after >= limit:
                    break
            else:
                self.check_gap(position_of(records[-1]) if records else after, end + 1)
        return _behind(records, position_of(records[0]), after) if records else ()

    def pending(
        self, session_id: str, *, after: int, limit: int, bytes_max: int | None = None
    ) -> tuple[InboxItem, ...] | None:
        """Return the unconsumed items of a session; None if they have more than `bytes_max` bytes."""
        session_key, rows = self._key.session_key(session_id), list[Row]()
        for columns in self._connection.execute(_PENDING, (session_key, after, limit)):
            if bytes_max is not None:
                bytes_max -= len(columns[4]) if isinstance(columns[4], bytes) else 0
                if bytes_max < 0:
                    return None
            rows.append(columns)
        return tuple(self._key.read_item((session_key, session_id), columns) for columns in rows)

    def arrivals(self, after: int) -> Arrivals:
        """Return the sessions with items after a number, and the newest number."""
        with self._look():
            [(newest,)] = self._connection.execute(NEWEST_ITEM).fetchall()
            rows = self._connection.execute(ARRIVED, (after,)).fetchall() if newest != after else ()
        return Arrivals(cast("int", newest), frozenset(cast("str", name) for (name,) in rows))

    def run(self, run_id: str) -> RunRow | None:
        """Return a run of the catalogue."""
        row = self._connection.execute(_RUN, (run_id,)).fetchone()
        if row is None:
            return None
        listed, columns = row[:_CATALOG_WIDTH], row[_CATALOG_WIDTH:-_SESSION_WIDTH]
        self._key.check_row("runs", columns)
        run, session_key, agent_id, fingerprint, status, first_seq = cast(
            "tuple[str, int, str, str, str, int]", columns[:6]
        )
        session = self._key.read_session(session_key, row[-_SESSION_WIDTH:]).row
        owner = self.index.check_catalog_row(session_key, listed)[5]
        return RunRow(
            run,
            session.session_id,
            agent_id,
            fingerprint,
            RunStatus(status),
            first_seq,
            session.last_seq,
            cast("str | None", owner),
        )

    def session(self, session_id: str) -> SessionRow | None:
        """Return a session of the catalogue."""
        with self._look():
            session = find_session(self._connection, self._key, session_id=session_id)
        return None if session is None else session.row

    def is_deleted(self, session_id: str) -> bool:
        """Return whether a session was deleted."""
        return is_deleted(self._connection, self._key.session_key(session_id))

    def sessions(self, after: str | None, limit: int) -> tuple[SessionRow, ...]:
        """Return sessions in the order of their ids."""
        rows = self._connection.execute(_SESSIONS, (after or "", limit)).fetchall()
        return tuple(self._key.read_session(cast("int", key), columns).row for key, *columns in rows)

    def due(self, now_ms: int, limit: int, *, agents: Collection[str] | None) -> tuple[str, ...]:
        """Return sessions without an owner that are due."""
        ours = None if agents is None else json.dumps(["", *agents])
        with self._look():
            queues = [
                [cast("str", name) for (name,) in self._connection.execute(sql, parameters)]
                for sql, parameters in zip(
                    self._due,
                    ((ours, limit), (ours, limit, now_ms), (ours, limit), (ours, limit)),
                    strict=True,
                )
            ]
        return in_turns(queues, limit)

    def open_runs(self) -> tuple[OpenRuns, ...]:
        """Return the unfinished runs, counted."""
        rows = cast("Iterable[tuple[str, str, str, int, str]]", self._connection.execute(_OPEN_RUNS))
        return tuple(
            OpenRuns(agent_id, fingerprint, RunStatus(status), count, at)
            for agent_id, fingerprint, status, count, at in rows
        )

    def documents(self, where: str, parameters: Sequence[Value]) -> tuple[Document, ...]:
        """Return the documents of a condition."""
        sql = f"SELECT {DOCUMENT_COLUMNS} FROM documents WHERE {where}"
        return tuple(self._key.read_document(row) for row in self._connection.execute(sql, parameters))

    def next_document_ms(self, kind: str) -> int | None:
        """Return when the next document of a kind is due."""
        [(time,)] = self._connection.execute(_NEXT_DOCUMENT, (kind,)).fetchall()
        return cast("int | None", time)

    def next_wake_ms(self) -> int | None:
        """Return the earliest wake-up time of a waiting session."""
        [(time,)] = self._connection.execute(_NEXT_WAKE).fetchall()
        return cast("int | None", time)

    def owners(self) -> tuple[tuple[str, int], ...]:
        """Return the owners with their last heartbeats."""
        return tuple(cast("tuple[str, int]", tuple(row)) for row in self._connection.execute(OWNERS))

    def snapshot(self, session_id: str) -> tuple[int, bytes] | None:
        """Return the newest snapshot; None also if it is damaged, because it is a cache."""
        session_key = self._key.session_key(session_id)
        columns = self._connection.execute(_SNAPSHOT, (session_key,)).fetchone()
        if columns is None or not self._key.is_snapshot(columns, session_key):
            return None
        seq, _, state = cast("tuple[int, bytes, bytes]", columns)
        return seq, state

    def content(self, digest: str) -> bytes:
        """Return bytes by their hash."""
        columns = self._connection.execute(_CONTENT, (digest,)).fetchone()
        if columns is None:
            raise rejection(f"unknown content: {digest}")
        content = columns[0]
        if not isinstance(content, bytes) or content_hash(content) != digest:
            raise corrupt(f"content {digest} is damaged")
        return content

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def check_gap(self, last: int, first: int) -> None:
        """Check that all positions between two records were deleted; Corrupt otherwise."""
        if first <= last + 1:
            return
        for columns in self._connection.execute(_HOLES, (last, first)):
            start, end = self._key.read_hole(columns)
            if start > last + 1:
                break
            last = end
        if first > last + 1:
            raise corrupt(f"a record before position {first:,} is missing")

    def _link(self, session_key: int, last_seq: int) -> tuple[str, ChainLink]:
        """Return the id of a session, and the append before the given one."""
        columns = self._connection.execute(_SESSION, (session_key,)).fetchone()
        if columns is None:
            raise corrupt(f"the row of a session with {last_seq:,} records is missing")
        session = self._key.read_session(session_key, columns)
        return session.row.session_id, self._link_at(session_key, last_seq - 1)

    def _link_at(self, session_key: int, seq: int) -> ChainLink:
        """Return the last append of a session that ends at a record or before it."""
        row = self._connection.execute(_BEFORE, (session_key, seq)).fetchone()
        return START if row is None else ChainLink(*cast("tuple[int, bytes]", row))

    @contextmanager
    def _look(self) -> Generator[None]:
        self._connection.execute(self.BEGIN)
        try:
            yield
        finally:
            self._connection.execute("COMMIT")


def position_of(record: Record) -> int:
    """Return the position of a stored record."""
    return cast("int", record.position)


def _check_end(session: StoredSession, link: ChainLink, has_more: bool) -> None:
    is_end = link == ChainLink(session.row.last_seq, session.chain)
    if not is_end and (not has_more or link.last_seq >= session.row.last_seq):
        raise damage_error(session.row.session_id, link.last_seq + 1)


def _behind(records: Sequence[Record], first: int, after: int) -> tuple[Record, ...]:
    # A reader may stop inside an append; its next read starts with the rest of that append.
    return tuple(records[max(0, after + 1 - first) :])
