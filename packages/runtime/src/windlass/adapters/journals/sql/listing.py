"""Index writes: rows of sessions, runs and open requests.

They are written in the transaction of the append that changes them. Most appends, those of steps, change
none.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, cast

from pydantic_core import to_json

from windlass.adapters.journals.rules import (
    ENDED,
    Settlement,
    dump_usage,
    load_usage,
    not_owned,
    settlements_in,
    status_after,
    total_usage,
    unresolved,
)
from windlass.adapters.journals.sql.integrity import (
    ASKED_COLUMNS,
    CATALOG_COLUMNS,
    RUN_COLUMNS,
    StoreKey,
)
from windlass.adapters.journals.sql.statements import Connection, Value
from windlass.ports.store import NO_USAGE, Batch, SessionStatus
from windlass_harness.views.listing import RunTold, Told, told_by
from windlass_protocol import InputRequest, RunStatus

_ROW: Final = f"SELECT {CATALOG_COLUMNS} FROM catalog WHERE session_key = ?"
_IS_LISTED: Final = "SELECT 1 FROM catalog WHERE session_key = ?"
_INSERT: Final = "INSERT INTO catalog VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_UPDATE: Final = """UPDATE catalog SET title = ?, agent_id = ?, status = ?, created_at = ?,
    updated_at = ?, usage = ?, seal = ? WHERE number = ?"""
_TOUCH: Final = "UPDATE catalog SET updated_at = ?, seal = ? WHERE number = ?"
_NEW_RUN: Final = "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_RUN: Final = f"SELECT {RUN_COLUMNS} FROM runs WHERE run_id = ?"
_CHANGE_RUN: Final = """UPDATE runs SET status = ?, first_seq = ?, started_at = ?, ended_at = ?, usage = ?,
    seal = ? WHERE run_id = ?"""
_ASKED: Final = "SELECT request_id, run_id FROM asked WHERE session_key = ?"
_ASK: Final = f"INSERT INTO asked ({ASKED_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_SETTLE: Final = """INSERT INTO settled VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (request_id) DO UPDATE
    SET session_key = excluded.session_key, run_id = excluded.run_id, owner = excluded.owner,
    outcome = excluded.outcome, option_id = excluded.option_id, responder = excluded.responder,
    at = excluded.at, seal = excluded.seal"""
_CLOSE: Final = "DELETE FROM asked WHERE session_key = ? AND request_id = ?"


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
    usage: str | None


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


_RunRow = tuple[str, int, str, str, str, int, int, str | None, str | None, str | None]
_CatalogRow = tuple[
    int, int, str, str, str, str | None, str, str, str, str | None, str | None, str | None, int | None
]


class IndexWrites:
    """Writes index rows with their seals; the caller has begun a transaction.

    A row is verified before it is changed: a seal must not make a damaged row good.
    """

    def __init__(self, connection: Connection, key: StoreKey) -> None:
        self._connection = connection
        self._key = key

    def _next_number(self) -> int:
        """Return the number of a new session: larger than every other."""
        raise NotImplementedError

    def check_owner(self, session_key: int, told: Told, *, session_id: str) -> None:
        """Refuse a run request of another owner than that of the session."""
        if told.owner is None:
            return
        row = self._listed(session_key)
        if row is not None and row.owner != told.owner:
            raise not_owned(session_id)

    def enter(
        self,
        session_key: int,
        told: Told,
        *,
        status: SessionStatus = SessionStatus.PENDING,
        is_new: bool = False,
    ) -> None:
        """Add a session to the index, unless it is there; `is_new` skips the lookup."""
        if is_new or self._connection.execute(_IS_LISTED, (session_key,)).fetchone() is None:
            self._insert(session_key, told, status)

    def begin_run(self, columns: tuple[Value, ...]) -> None:
        """Insert a run; the columns are `RUN_COLUMNS` without the seal."""
        self._connection.execute(_NEW_RUN, (*columns, self._key.row_seal("runs", columns)))

    def follow(self, session_key: int, batch: Batch, *, first_seq: int) -> None:
        """Apply an append to the index; `first_seq` is the number of its first record, or 0."""
        told = told_by(batch.drafts)
        if told is not None:
            self.take(session_key, told, moves=batch.runs, first_seq=first_seq)
        elif batch.runs:
            self._move_runs(batch.runs, (), first_seq)
        if batch.asked is not None:
            at, closed = batch.drafts[-1].at if batch.drafts else "", settlements_in(batch.drafts)
            self.ask(session_key, batch.asked, at=at, closed=closed)

    def take(
        self, session_key: int, told: Told, *, moves: Iterable[tuple[str, RunStatus]] = (), first_seq: int = 0
    ) -> None:
        """Update the rows of a session and of its runs; `moves` are runs with their new status."""
        self._move_runs(moves, told.runs, first_seq)
        row = self._listed(session_key)
        if row is None:
            if told.runs:
                self._insert(session_key, told, status_after(told))
            return
        ended = [run for run in told.runs if run.usage is not None]
        row = row._replace(
            title=row.title or told.title,
            agent_id=row.agent_id if told.agent_id is None else told.agent_id,
            status=status_after(told, SessionStatus(row.status)).value,
            created_at=row.created_at or told.since,
            updated_at=told.at,
            usage=dump_usage(total_usage(load_usage(row.usage), ended)) if ended else row.usage,
        )
        columns = (row.title, row.agent_id, row.status, row.created_at, row.updated_at, row.usage)
        seal = self._key.row_seal("catalog", row)
        self._connection.execute(_UPDATE, (*columns, seal, row.number))

    def _move_runs(
        self, moves: Iterable[tuple[str, RunStatus]], told: Iterable[RunTold], first_seq: int
    ) -> None:
        rows: dict[str, RunColumns] = {}
        for run_id, status in moves:
            row = rows.get(run_id) or self._run(run_id)
            if row is not None:
                rows[run_id] = row._replace(status=status.value, first_seq=row.first_seq or first_seq)
        for run in told:
            row = rows.get(run.run_id) or self._run(run.run_id)
            if row is not None and run.begins:
                rows[run.run_id] = row._replace(started_at=run.at)
            elif row is not None and run.status in ENDED:
                rows[run.run_id] = row._replace(ended_at=run.at, usage=dump_usage(run.usage))
        for run_id, row in rows.items():
            columns = (row.status, row.first_seq, row.started_at, row.ended_at, row.usage)
            self._connection.execute(_CHANGE_RUN, (*columns, self._key.row_seal("runs", row), run_id))

    def _run(self, run_id: str) -> "RunColumns | None":
        row = self._connection.execute(_RUN, (run_id,)).fetchone()
        if row is None:
            return None
        self._key.check_row("runs", row)
        return RunColumns(*cast("_RunRow", row[:-1]))

    def _listed(self, session_key: int) -> "CatalogColumns | None":
        row = self._connection.execute(_ROW, (session_key,)).fetchone()
        if row is None:
            return None
        self._key.check_row("catalog", row)
        return CatalogColumns(*cast("_CatalogRow", row[:-1]))

    def ask(
        self,
        session_key: int,
        asked: tuple[InputRequest, ...],
        *,
        at: str,
        closed: Mapping[str, Settlement] = MappingProxyType({}),
    ) -> None:
        """Replace the open requests of a session.

        `closed` are the resolutions of this append; they may close requests that the same append made.
        """
        known = dict(
            cast("list[tuple[str, str]]", self._connection.execute(_ASKED, (session_key,)).fetchall())
        )
        open_ = {request.request_id for request in asked}
        gone = {name: unresolved(run_id, at=at) for name, run_id in known.items() if name not in open_}
        row = self._listed(session_key)
        owner = None if row is None else row.owner
        for name, how in {**gone, **closed}.items():
            told = (how.outcome.value, how.option_id, how.responder, how.at)
            columns = (name, session_key, how.run_id, owner, *told)
            self._connection.execute(_SETTLE, (*columns, self._key.row_seal("settled", columns)))
        for name in gone:
            self._connection.execute(_CLOSE, (session_key, name))
        new = [request for request in asked if request.request_id not in known]
        if new:
            run_id, agent_id = self._asking(session_key)
            for request in new:
                body = to_json(request.model_dump(mode="json", by_alias=True))
                columns = (session_key, request.request_id, run_id, agent_id, owner, at, body)
                self._connection.execute(_ASK, (*columns, self._key.row_seal("asked", columns)))
        if at and row is not None:
            row = row._replace(updated_at=at)
            self._connection.execute(_TOUCH, (at, self._key.row_seal("catalog", row), row.number))

    def _asking(self, session_key: int) -> tuple[str, str]:
        """Return the current run of a session, and its agent."""
        row = self._connection.execute(_UNDER_WAY, (session_key,)).fetchone()
        run = None if row is None else self._run(cast("str", row[0]))
        return ("", "") if run is None else (run.run_id, run.agent_id)

    def _insert(self, session_key: int, told: Told, status: SessionStatus) -> None:
        columns = (
            self._next_number(),
            session_key,
            told.title,
            told.agent_id or "",
            status.value,
            told.owner,
            told.since,
            told.at,
            dump_usage(total_usage(NO_USAGE, told.runs) if told.runs else None),
            told.parent,
            told.root,
            told.predecessor,
            told.predecessor_seq,
        )
        self._connection.execute(_INSERT, (*columns, self._key.row_seal("catalog", columns)))


_UNDER_WAY: Final = """SELECT run_id FROM runs
    WHERE session_key = ? AND status IN ('running', 'waiting', 'cancelling') ORDER BY item LIMIT 1"""
