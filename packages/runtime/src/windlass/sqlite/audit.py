"""Audit of a store: every row compared with its checksum, and the index with the journal.

Reads of the store verify the rows that they use. A row that no read finds any more, because a byte of a key
has changed, is found only here.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import field, replace
from pathlib import Path
from typing import Final, cast

from pydantic_core import from_json

from windlass.adapters.journals.codec import content_hash
from windlass.adapters.journals.rules import Settlement, settlements_in, status_after
from windlass.errors import Corrupt
from windlass.sql.integrity import (
    CONSUMED_COLUMNS,
    INDEX,
    ITEM_COLUMNS,
    SESSION_COLUMNS,
    STORE,
    StoreKey,
)
from windlass.sql.listing import CatalogColumns, RunColumns, read_run
from windlass.sql.statements import Row, SqlConnection
from windlass.sqlite.reads import SqliteReads, last_position
from windlass.sqlite.schema import (
    FAILURES,
    MIGRATIONS,
    connect_to_read,
    read_version,
    translate,
)
from windlass_harness.record import Record
from windlass_harness.views.listing import RunsFold, news_of
from windlass_harness.views.session import SessionDraft, SessionState
from windlass_protocol import InputRequest, SessionStatus, Usage
from windlass_protocol.frozen import mutable
from windlass_protocol.generated.records import RunStarted, SessionForked

PROBLEMS_MAX: Final = 100
"""Problems that are told; there may be more."""
_APPENDS_PER_READ: Final = 64
_SESSIONS: Final = f"SELECT session_key, {SESSION_COLUMNS} FROM sessions"
_ITEMS: Final = f"""SELECT {ITEM_COLUMNS}, session_key FROM items WHERE consumed_seq IS NULL
    AND session_key != 0"""
_CONSUMED: Final = f"""SELECT {CONSUMED_COLUMNS} FROM items WHERE consumed_seq IS NOT NULL
    AND session_key != 0"""
_KNOWN: Final = "(SELECT session_key FROM sessions)"
_STRAYS: Final = {
    "a session belongs to an owner that does not exist": """SELECT 1 FROM sessions
        WHERE owner_id IS NOT NULL AND owner_id NOT IN (SELECT owner_id FROM leases)""",
    "a content is used by a session that does not exist": f"""SELECT 1 FROM content_uses
        WHERE session_key != 0 AND session_key NOT IN {_KNOWN}""",
    "a content that is used does not exist": """SELECT 1 FROM content_uses
        WHERE hash NOT IN (SELECT hash FROM contents)""",
    "an inbox item belongs to a session that does not exist": f"""SELECT 1 FROM items
        WHERE session_key != 0 AND session_key NOT IN {_KNOWN}""",
    "a run has no inbox item": """SELECT 1 FROM runs
        WHERE item != 0 AND item NOT IN (SELECT number FROM items)""",
}
"""Rows that name rows which do not exist."""
_TOLD: Final = (
    "status",
    "started_at",
    "ended_at",
    "output",
    "waits_on",
    "error",
    "crashes",
    "tags",
    "rating",
)
"""The facts of a run that its records tell."""
_PLACES: Final = "SELECT last_position, last_seq, session_key FROM appends ORDER BY last_position"
_OF_SESSION: Final = {
    table: f"SELECT {INDEX[table]} FROM {table} WHERE session_key = ?"
    for table in ("runs", "catalog", "asked", "settled")
}


def problems_of(path: Path, *, is_deep: bool) -> tuple[str, ...]:
    """Return what is wrong with a store, without payloads; nothing is changed.

    Only `is_deep` reads the records and contents, and compares the index with them.

    Raises:
        Rejected: the file is no store of this version.
        Unavailable: it cannot be read now.
    """
    problems: list[str] = []
    try:
        with closing(connect_to_read(path)) as connection:
            if read_version(connection, path, newest=len(MIGRATIONS)) != len(MIGRATIONS):
                return ("it was made by an older release: open it once, or run windlass migrate",)
            # One state of the store, while other processes write.
            connection.execute("BEGIN")
            for problem in _Audit(connection).problems(is_deep=is_deep):
                problems.append(problem)
                if len(problems) >= PROBLEMS_MAX:
                    break
    except FAILURES as error:
        failure = translate(error)
        if not isinstance(failure, Corrupt):
            raise failure from error
        problems.append(failure.message)
    except Corrupt as error:
        problems.append(error.message)
    return tuple(dict.fromkeys(problems))


@mutable
class _Truth:
    """What the records of a session say about its rows in the index."""

    fold: RunsFold = field(default_factory=RunsFold)
    agent_id: str | None = None
    owner: str | None = None
    has_begun: bool = False
    """Whether a run has started here, not in the session that this one was copied from."""
    status: SessionStatus = SessionStatus.IDLE
    copied: set[str] = field(default_factory=set[str])
    """Runs of the session that this one was copied from."""
    settled: dict[str, Settlement] = field(default_factory=dict[str, Settlement])
    requests: SessionDraft = field(default_factory=lambda: SessionDraft(SessionState()))

    def apply(self, records: Sequence[Record]) -> None:
        facts = news_of(records)
        for record in records:
            self.requests.apply(record)
            if record.type == SessionForked.TYPE:
                self.copied |= self.fold.runs.keys()
                self.has_begun = False
            elif not self.has_begun and isinstance(record.body, RunStarted):
                self.has_begun, self.owner = True, record.body.owner
        self.fold.apply(records)
        self.settled |= settlements_in(records)
        if facts is not None:
            self.agent_id = facts.agent_id or self.agent_id
            own = tuple(run for run in facts.runs if run.run_id not in self.copied)
            self.status = status_after(replace(facts, runs=own), self.status)


class _Audit:
    def __init__(self, connection: SqlConnection) -> None:
        self._connection = connection
        self._key = StoreKey.load(connection.execute(STORE).fetchall())
        self._reads = SqliteReads(connection, self._key)

    def problems(self, *, is_deep: bool) -> Iterator[str]:
        check = "integrity_check" if is_deep else "quick_check"
        for (problem,) in self._connection.execute(f"PRAGMA {check}({PROBLEMS_MAX})").fetchall():
            if problem != "ok":
                yield f"SQLite: {str(problem).splitlines()[0]}"
        names: dict[int, str] = {}
        for session_key, *columns in self._connection.execute(_SESSIONS).fetchall():
            try:
                session = self._key.read_session(cast("int", session_key), columns)
                names[session.key] = session.row.session_id
            except Corrupt as error:
                yield error.message
        yield from self._rows(names)
        if not is_deep:
            return
        yield from self._positions()
        yield from self._contents()
        for session_key, session_id in names.items():
            try:
                yield from self._session(session_key, session_id)
            except Corrupt as error:
                yield error.message
            except ValueError:
                yield f"the records of session {session_id} are not those of a runtime"

    def _rows(self, names: dict[int, str]) -> Iterator[str]:
        """Check the rows of the index, and the items that wait."""
        for table, columns in INDEX.items():
            for row in self._connection.execute(f"SELECT {columns} FROM {table}").fetchall():
                try:
                    self._key.check_row(table, row)
                except Corrupt as error:
                    yield error.message
        for *columns, session_key in self._connection.execute(_ITEMS).fetchall():
            try:
                name = names.get(cast("int", session_key), "that is missing")
                self._key.read_item((cast("int", session_key), name), columns)
            except Corrupt as error:
                yield error.message
        for row in self._connection.execute(_CONSUMED).fetchall():
            try:
                self._key.check_consumed(row)
            except Corrupt as error:
                yield error.message
        for name, sql in _STRAYS.items():
            if self._connection.execute(sql).fetchone() is not None:
                yield f"{name}: the index is damaged"

    def _positions(self) -> Iterator[str]:
        """Check that no append is missing in the order of the whole store."""
        end, ends = 0, dict[object, int]()
        for row in self._connection.execute(_PLACES).fetchall():
            position, last_seq, session_key = cast("tuple[int, int, int]", tuple(row))
            first = position - (last_seq - ends.get(session_key, 0)) + 1
            ends[session_key] = last_seq
            yield from self._gap(end, first)
            end = position
        yield from self._gap(end, last_position(self._connection, self._key) + 1)

    def _gap(self, last: int, first: int) -> Iterator[str]:
        try:
            self._reads.check_gap(last, first)
        except Corrupt as error:
            yield error.message

    def _contents(self) -> Iterator[str]:
        for digest, content in self._connection.execute("SELECT hash, content FROM contents"):
            if not isinstance(content, bytes) or content_hash(content) != digest:
                yield f"content {digest} is damaged"
        rows = self._connection.execute("SELECT session_key, seq, seal, state FROM snapshots")
        if not all(self._key.is_snapshot(columns, cast("int", key)) for key, *columns in rows):
            yield "a snapshot is damaged: it is not used"

    def _session(self, session_key: int, session_id: str) -> Iterator[str]:
        """Compare the rows of a session with its records."""
        truth, after = _Truth(), 0
        while appends := self._reads.appends_now(session_id, after=after, limit=_APPENDS_PER_READ):
            for append in appends:
                truth.apply(append.records)
            after = appends[-1].records[-1].seq
        rows = {
            table: self._connection.execute(sql, (session_key,)).fetchall()
            for table, sql in _OF_SESSION.items()
        }
        runs = {run.run_id: run for run in (read_run(row) for row in rows["runs"])}
        yield from _run_problems(runs, truth)
        if rows["catalog"]:
            listed = CatalogColumns(*rows["catalog"][0][:-1])  # pyright: ignore[reportArgumentType] - the same
            yield from _catalog_problems(session_id, listed, truth)
        elif runs:
            yield f"session {session_id} is missing in the index"
        yield from _request_problems(session_id, rows["asked"], rows["settled"], truth)


def _run_problems(runs: dict[str, RunColumns], truth: _Truth) -> Iterator[str]:
    """Compare the runs in the index with the records."""
    for run_id in truth.fold.runs.keys() - runs.keys():
        yield f"run {run_id} is missing in the index"
    for run_id, row in runs.items():
        true = truth.fold.runs.get(run_id)
        if true is None:
            if row.status != "pending":
                yield f"run {run_id} is {row.status} in the index, and has no records"
            continue
        facts = row.facts
        names = [*_TOLD]
        if true.started_at is not None:
            names += ["agent_id", "fingerprint"]
        if true.input:
            names.append("input")
        for name in names:
            if getattr(facts, name) != getattr(true, name):
                yield f"{name} of run {run_id} in the index is not that of its records"
        if (facts.usage or Usage()) != (true.usage or Usage()):
            yield f"usage of run {run_id} in the index is not that of its records"
        if (row.tokens, row.cost_micros, row.duration_ms) != (
            true.tokens,
            true.cost_micros,
            true.duration_ms,
        ):
            yield f"the counts of run {run_id} in the index are not those of its records"


def _catalog_problems(session_id: str, row: CatalogColumns, truth: _Truth) -> Iterator[str]:
    if truth.has_begun and row.owner != truth.owner:
        yield f"the owner of session {session_id} in the index is not that of its records"
    if truth.has_begun and row.agent_id != truth.agent_id:
        yield f"the agent of session {session_id} in the index is not that of its records"
    if truth.has_begun and row.status != truth.status.value:
        yield f"the status of session {session_id} in the index is not that of its records"


def _request_problems(
    session_id: str, open_rows: Sequence[Row], settled_rows: Sequence[Row], truth: _Truth
) -> Iterator[str]:
    open_requests = {
        row[1]: InputRequest.model_validate(from_json(cast("bytes", row[6]))) for row in open_rows
    }
    if open_requests != dict(truth.requests.requests):
        yield f"the open requests of session {session_id} in the index are not those of its records"
    for row in settled_rows:
        settlement = truth.settled.get(cast("str", row[0]))
        if settlement is None:
            continue
        outcome = (settlement.outcome.value, settlement.option_id, settlement.responder, settlement.at)
        if row[4:8] != outcome:
            yield f"request {row[0]} of session {session_id} was settled in another way than the index says"
