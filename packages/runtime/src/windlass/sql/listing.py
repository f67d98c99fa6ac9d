"""Index writes: rows of sessions, runs and open requests.

They are written in the transaction of the append that changes them. Most appends, those of steps, change
none.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Self, cast

from pydantic_core import from_json, to_json

from windlass.adapters.journals.rules import (
    ENDED,
    Settlement,
    dump_usage,
    load_usage,
    not_owned,
    settle_unresolved,
    settlements_in,
    status_after,
    total_usage,
)
from windlass.ports.journal import Batch
from windlass.ports.listing import NO_USAGE
from windlass.sql.integrity import (
    ASKED_COLUMNS,
    CATALOG_COLUMNS,
    RUN_COLUMNS,
    StoreKey,
)
from windlass.sql.statements import Row, SqlConnection, Value
from windlass_harness.views.listing import ListedRun, RunsFold, SessionNews, news_of
from windlass_protocol import InputKind, InputRequest, RunStatus, SessionStatus, Usage

if TYPE_CHECKING:
    from windlass.sql.queries import Reads

_ROW: Final = f"SELECT {CATALOG_COLUMNS} FROM catalog WHERE session_key = ?"
_IS_LISTED: Final = "SELECT 1 FROM catalog WHERE session_key = ?"
_INSERT: Final = "INSERT INTO catalog VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_UPDATE: Final = """UPDATE catalog SET title = ?, agent_id = ?, status = ?, created_at = ?,
    updated_at = ?, usage = ?, seal = ? WHERE number = ?"""
_TOUCH: Final = "UPDATE catalog SET updated_at = ?, seal = ? WHERE number = ?"
_RUN_WIDTH: Final = len(RUN_COLUMNS.split(", "))
_NEW_RUN: Final = f"INSERT INTO runs ({RUN_COLUMNS}) VALUES ({', '.join('?' * _RUN_WIDTH)})"
_RUNS_OF: Final = f"SELECT {RUN_COLUMNS} FROM runs WHERE session_key = ?"
_RUN: Final = f"SELECT {RUN_COLUMNS} FROM runs WHERE run_id = ?"
_CHANGED: Final = tuple(
    name for name in RUN_COLUMNS.split(", ")[4:] if name not in ("item", "at", "owner", "is_root", "seal")
)
"""The columns of a run that change, besides `at`, which is in more indexes than the others."""
_CHANGE_RUN: Final = f"""UPDATE runs SET {", ".join(f"{name} = ?" for name in _CHANGED)}, seal = ?{{}}
    WHERE run_id = ?"""
_CHANGE_ALL: Final = _CHANGE_RUN.format(", at = ?")
_CHANGE_MOST: Final = _CHANGE_RUN.format("")
_PLACE_RUN: Final = "UPDATE runs SET owner = ?, is_root = ?, seal = ? WHERE run_id = ?"
_TAG: Final = "INSERT INTO run_tags VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_ASKED: Final = "SELECT request_id, run_id FROM asked WHERE session_key = ?"
_ASK: Final = f"INSERT INTO asked ({ASKED_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_SETTLE: Final = """INSERT INTO settled VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (request_id) DO UPDATE
    SET session_key = excluded.session_key, run_id = excluded.run_id, owner = excluded.owner,
    outcome = excluded.outcome, option_id = excluded.option_id, responder = excluded.responder,
    at = excluded.at, seal = excluded.seal"""
_CLOSE: Final = "DELETE FROM asked WHERE session_key = ? AND request_id = ?"
# Whom a question asks: an index over the JSON of requests.
_NAME: Final = """INSERT INTO asked_of SELECT ?3, number, session_key FROM asked
    WHERE session_key = ?1 AND request_id = ?2"""
_UNNAME: Final = """DELETE FROM asked_of WHERE session_key = ?1 AND number IN (
    SELECT number FROM asked WHERE session_key = ?1 AND request_id = ?2)"""


# Ranks of runs, in the column is_root. A subagent of a playground run has the rank of that run.
SUBAGENT: Final = 0
ROOT: Final = 1
PLAYGROUND: Final = 2


class RunColumns(NamedTuple):
    """The columns of a run that its seal covers."""

    run_id: str
    session_key: int
    agent_id: str
    fingerprint: str
    status: str
    first_seq: int
    item: int
    started_at: str | None
    ended_at: str | None
    used: str | None
    """The usage as JSON."""
    at: str
    owner: str | None
    rank: int
    """`SUBAGENT`, `ROOT` or `PLAYGROUND`; the column is_root."""
    input: str
    output: str
    waits_on: str | None
    error: str | None
    crashes: int
    tags: str
    """The tags as JSON."""
    tokens: int
    cost_micros: int
    duration_ms: int
    rating: int

    @property
    def facts(self) -> ListedRun:
        """What lists show of the run besides its ids."""
        status = RunStatus(self.status)
        return ListedRun(
            status,
            self.agent_id,
            self.fingerprint,
            self.started_at,
            self.ended_at,
            None if self.used is None or self.used == "{}" else load_usage(self.used),
            self.input,
            self.output,
            self.waits_on,
            self.error,
            self.crashes,
            tuple(cast("list[str]", from_json(self.tags))),
            self.rating,
        )

    def with_facts(self, facts: ListedRun) -> Self:
        """Return the columns with other facts; ids and status stay."""
        return self._replace(
            started_at=facts.started_at,
            ended_at=facts.ended_at,
            used=dump_usage(facts.usage) if facts.usage is not None or facts.status in ENDED else None,
            at=facts.started_at or self.at,
            input=facts.input,
            output=facts.output,
            waits_on=facts.waits_on,
            error=facts.error,
            crashes=facts.crashes,
            tags=to_json(facts.tags).decode(),
            tokens=facts.tokens,
            cost_micros=facts.cost_micros,
            duration_ms=facts.duration_ms,
            rating=facts.rating,
        )


def new_run(
    run_id: str,
    session_key: int,
    *,
    agent_id: str = "",
    fingerprint: str = "",
    item: int = 0,
    at: str = "",
    owner: str | None = None,
    rank: int = ROOT,
    input: str = "",  # noqa: A002 - the name of the column
) -> RunColumns:
    """Return the columns of a run that was asked for."""
    return RunColumns(
        run_id,
        session_key,
        agent_id,
        fingerprint,
        RunStatus.PENDING.value,
        first_seq=0,
        item=item,
        started_at=None,
        ended_at=None,
        used=None,
        at=at,
        owner=owner,
        rank=rank,
        input=input,
        output="",
        waits_on=None,
        error=None,
        crashes=0,
        tags="[]",
        tokens=0,
        cost_micros=0,
        duration_ms=0,
        rating=0,
    )


def read_run(row: Row) -> RunColumns:
    """Return a run from its `RUN_COLUMNS`, which are verified."""
    return RunColumns(*row[:-1])  # pyright: ignore[reportArgumentType] - checked by their seal


def fill_runs(connection: SqlConnection, key: StoreKey, reads: "Reads", *, session: tuple[int, str]) -> None:
    """Write what lists show of the runs of a session, from its records: for a store of an older schema.

    Raises:
        Corrupt: the session is damaged.
    """
    session_key, session_id = session
    fold, after, index = RunsFold(), 0, IndexWrites(connection, key)
    while appends := reads.appends_now(session_id, after=after, limit=64):
        for append in appends:
            fold.apply(append.records)
        after = appends[-1].records[-1].seq
    owner, rank = index.home(session_key)
    for columns in connection.execute(_RUNS_OF, (session_key,)).fetchall():
        key.check_row("runs", columns)
        row = read_run(columns)._replace(owner=owner, rank=rank)
        connection.execute(_PLACE_RUN, (row.owner, row.rank, key.row_seal("runs", row), row.run_id))
        facts = fold.runs.get(row.run_id)
        if facts is not None:
            index.change_run(row.with_facts(facts), row)


class CatalogColumns(NamedTuple):
    """The columns of a session in the index that its seal covers."""

    number: int
    session_key: int
    title: str
    agent_id: str
    status: str
    owner: str | None
    created_at: str
    updated_at: str
    usage: str
    parent: str | None
    root: str | None
    predecessor: str | None
    predecessor_seq: int | None


_CatalogRow = tuple[
    int, int, str, str, str, str | None, str, str, str, str | None, str | None, str | None, int | None
]


class IndexWrites:
    """Writes index rows with their seals; the caller has begun a transaction.

    A row is verified before it is changed: a seal must not make a damaged row good.
    """

    def __init__(self, connection: SqlConnection, key: StoreKey) -> None:
        self._connection = connection
        self._key = key

    def _next_number(self) -> int:
        """Return the number of a new session: larger than every other."""
        raise NotImplementedError

    def check_owner(self, session_key: int, facts: SessionNews, *, session_id: str) -> None:
        """Refuse a run request of another owner than that of the session."""
        if facts.owner is None:
            return
        row = self._catalog_row(session_key)
        if row is not None and row.owner != facts.owner:
            raise not_owned(session_id)

    def enter(
        self,
        session_key: int,
        facts: SessionNews,
        *,
        status: SessionStatus = SessionStatus.PENDING,
        is_new: bool = False,
    ) -> None:
        """Add a session to the index, unless it is there; `is_new` skips the lookup."""
        if is_new or self._connection.execute(_IS_LISTED, (session_key,)).fetchone() is None:
            self._insert(session_key, facts, status)

    def begin_run(self, row: RunColumns) -> None:
        """Insert a run."""
        self._connection.execute(_NEW_RUN, (*row, self._key.row_seal("runs", row)))
        self._tag(row)

    def home(self, session_key: int) -> tuple[str | None, int]:
        """Return the owner of a session, and the rank of its runs."""
        row = self._catalog_row(session_key)
        return (None, ROOT) if row is None else (row.owner, self.rank(row))

    def rank(self, session: "SessionNews | CatalogColumns") -> int:
        """Return the rank of the runs of a session."""
        if session.parent is None:
            return ROOT
        if session.parent == session.predecessor:
            # A subagent is no copy of its caller.
            return PLAYGROUND
        root = None if session.root is None else self._catalog_row(self._key.session_key(session.root))
        is_playground = root is not None and root.parent is not None and root.parent == root.predecessor
        return PLAYGROUND if is_playground else SUBAGENT

    def _tag(self, row: RunColumns) -> None:
        for tag in row.facts.tags if row.tags != "[]" else ():
            self._connection.execute(_TAG, (tag, row.run_id, row.session_key))

    def follow(self, session_key: int, batch: Batch, *, first_seq: int) -> None:
        """Apply an append to the index; `first_seq` is the number of its first record, or 0."""
        facts = news_of(batch.drafts)
        if facts is not None:
            self.take(session_key, facts, moves=batch.runs, first_seq=first_seq)
        elif batch.runs:
            self._move_runs(batch.runs, None, first_seq)
        if batch.asked is not None:
            at, closed = batch.drafts[-1].at if batch.drafts else "", settlements_in(batch.drafts)
            self.ask(session_key, batch.asked, at=at, closed=closed)

    def take(
        self,
        session_key: int,
        facts: SessionNews,
        *,
        moves: Iterable[tuple[str, RunStatus]] = (),
        first_seq: int = 0,
    ) -> None:
        """Update the rows of a session and of its runs; `moves` are runs with their new status."""
        before = self._move_runs(moves, facts, first_seq)
        row = self._catalog_row(session_key)
        if row is None:
            if facts.runs:
                self._insert(session_key, facts, status_after(facts))
            return
        row = row._replace(
            title=row.title or facts.title,
            agent_id=row.agent_id if facts.agent_id is None else facts.agent_id,
            status=status_after(facts, SessionStatus(row.status)).value,
            created_at=row.created_at or facts.since,
            updated_at=facts.at,
            usage=dump_usage(total_usage(load_usage(row.usage), facts.runs, before=before))
            if any(run.usage is not None for run in facts.runs)
            else row.usage,
        )
        columns = (row.title, row.agent_id, row.status, row.created_at, row.updated_at, row.usage)
        seal = self._key.row_seal("catalog", row)
        self._connection.execute(_UPDATE, (*columns, seal, row.number))

    def _move_runs(
        self, moves: Iterable[tuple[str, RunStatus]], facts: SessionNews | None, first_seq: int
    ) -> dict[str, Usage | None]:
        """Update runs; return the usage that each had before."""
        rows_before: dict[str, RunColumns] = {}
        rows: dict[str, RunColumns] = {}

        def load(run_id: str) -> RunColumns | None:
            if run_id not in rows:
                row = self._run(run_id)
                if row is not None:
                    rows_before[run_id] = rows[run_id] = row
            return rows.get(run_id)

        for run_id, status in moves:
            if (row := load(run_id)) is not None:
                rows[run_id] = row._replace(status=status.value, first_seq=row.first_seq or first_seq)
        if facts is not None:
            for run in facts.runs:
                if (row := load(run.run_id)) is not None:
                    rows[run.run_id] = row.with_facts(row.facts.after(run))
            for run_id in facts.noted:
                if (row := load(run_id)) is not None:
                    rows[run_id] = row.with_facts(row.facts.and_more(facts, run_id))
        for run_id, row in rows.items():
            self.change_run(row, rows_before[run_id])
        return {run_id: row.facts.usage for run_id, row in rows_before.items()}

    def change_run(self, row: RunColumns, before: RunColumns) -> None:
        """Write the changed columns of a run."""
        changed = [*(cast("Value", getattr(row, name)) for name in _CHANGED), self._key.row_seal("runs", row)]
        if row.at == before.at:
            self._connection.execute(_CHANGE_MOST, (*changed, row.run_id))
        else:
            self._connection.execute(_CHANGE_ALL, (*changed, row.at, row.run_id))
        if row.tags != before.tags:
            self._tag(row)

    def _run(self, run_id: str) -> "RunColumns | None":
        row = self._connection.execute(_RUN, (run_id,)).fetchone()
        if row is None:
            return None
        self._key.check_row("runs", row)
        return read_run(row)

    def _catalog_row(self, session_key: int) -> "CatalogColumns | None":
        row = self._connection.execute(_ROW, (session_key,)).fetchone()
        if row is None:
            return None
        self._key.check_row("catalog", row)
        return CatalogColumns(*cast("_CatalogRow", row[:-1]))

    def ask(
        self,
        session_key: int,
        requests: tuple[InputRequest, ...],
        *,
        at: str,
        closed: Mapping[str, Settlement] = MappingProxyType({}),
    ) -> None:
        """Replace the open requests of a session.

        `closed` are the resolutions of this append; they may close requests that the same append made.
        """
        runs_before = dict(
            cast("list[tuple[str, str]]", self._connection.execute(_ASKED, (session_key,)).fetchall())
        )
        open_ = {request.request_id for request in requests}
        settlements = {
            name: settle_unresolved(run_id, at=at)
            for name, run_id in runs_before.items()
            if name not in open_
        }
        row = self._catalog_row(session_key)
        owner = None if row is None else row.owner
        for name, settlement in {**settlements, **closed}.items():
            outcome = (settlement.outcome.value, settlement.option_id, settlement.responder, settlement.at)
            columns = (name, session_key, settlement.run_id, owner, *outcome)
            self._connection.execute(_SETTLE, (*columns, self._key.row_seal("settled", columns)))
        for name in settlements:
            self._connection.execute(_UNNAME, (session_key, name))
            self._connection.execute(_CLOSE, (session_key, name))
        new = [request for request in requests if request.request_id not in runs_before]
        if new:
            run_id, agent_id = self._asking(session_key)
            for request in new:
                body = to_json(request.model_dump(mode="json", by_alias=True))
                columns = (session_key, request.request_id, run_id, agent_id, owner, at, body)
                self._connection.execute(_ASK, (*columns, self._key.row_seal("asked", columns)))
                name_asked(self._connection, session_key, request)
        if at and row is not None:
            row = row._replace(updated_at=at)
            self._connection.execute(_TOUCH, (at, self._key.row_seal("catalog", row), row.number))

    def _asking(self, session_key: int) -> tuple[str, str]:
        """Return the current run of a session, and its agent."""
        row = self._connection.execute(_UNDER_WAY, (session_key,)).fetchone()
        run = None if row is None else self._run(cast("str", row[0]))
        return ("", "") if run is None else (run.run_id, run.agent_id)

    def _insert(self, session_key: int, facts: SessionNews, status: SessionStatus) -> None:
        columns = (
            self._next_number(),
            session_key,
            facts.title,
            facts.agent_id or "",
            status.value,
            facts.owner,
            facts.since,
            facts.at,
            dump_usage(total_usage(NO_USAGE, facts.runs) if facts.runs else None),
            facts.parent,
            facts.root,
            facts.predecessor,
            facts.predecessor_seq,
        )
        self._connection.execute(_INSERT, (*columns, self._key.row_seal("catalog", columns)))


def name_asked(connection: SqlConnection, session_key: int, request: InputRequest) -> None:
    """Note whom an open question asks."""
    if request.kind is InputKind.QUESTION:
        for name in dict.fromkeys(request.responders or ()):
            connection.execute(_NAME, (session_key, request.request_id, name))


def name_all_asked(connection: SqlConnection) -> None:
    """Note whom all open questions ask, in the store of an older version."""
    rows = connection.execute("SELECT session_key, request FROM asked").fetchall()
    for session_key, body in cast("Sequence[tuple[int, bytes]]", rows):
        name_asked(connection, session_key, InputRequest.model_validate(from_json(body), by_alias=True))


_UNDER_WAY: Final = """SELECT run_id FROM runs
    WHERE session_key = ? AND status IN ('running', 'waiting', 'cancelling') ORDER BY item LIMIT 1"""
