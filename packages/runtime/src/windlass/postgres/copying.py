"""Copying a store from a SQLite file to PostgreSQL: every row as it is, with its checksums.

The copy has the id of its source, so chains and seals stay valid. A batch of rows commits together with the
note how far the copy is; after a kill it goes on there. The copy cannot be opened as a store until all of it
was verified.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from threading import Event
from typing import Final, cast

from windlass.adapters.journals.codec import content_hash
from windlass.adapters.journals.rules import corrupt, misconfiguration
from windlass.errors import AgentError
from windlass.postgres.link import (
    FAILURES,
    PostgresAddress,
    PostgresLink,
    parse_address,
    translate,
)
from windlass.postgres.reads import READ_ONLY
from windlass.postgres.schema import (
    COPYING,
    MIGRATIONS,
    SCHEMA,
    UNLIMITED,
    in_transaction,
    make_tables,
    read_version,
)
from windlass.sql.integrity import (
    ASKED_COLUMNS,
    CATALOG_COLUMNS,
    DOCUMENT_COLUMNS,
    INDEX,
    REFUSED_COLUMNS,
    RUN_COLUMNS,
    SESSION_COLUMNS,
    SETTLED_COLUMNS,
    START,
    STORE,
    AppendPosition,
    StoredSession,
    StoreKey,
    damage_error,
)
from windlass.sql.statements import Row, SqlConnection, Value
from windlass.sqlite.marks import MARK_SUFFIX, read_state
from windlass.sqlite.schema import FAILURES as SQLITE_FAILURES
from windlass.sqlite.schema import check_reachable, connect_to_read, version_of
from windlass.sqlite.schema import translate as translate_sqlite
from windlass.sqlite.spool import spool_folder
from windlass_protocol.frozen import frozen

ROWS_MAX: Final = 500
BYTES_MAX: Final = 4 * 1_048_576
"""The most rows, and about the most bytes, of one transaction."""

Progress = Callable[[int, int], None]
"""Called in a thread with the steps done and their total: two for each row, copied and verified."""


@frozen
class _Table:
    name: str
    key: str
    """The columns that identify a row; rows are copied in their order."""
    columns: str

    @property
    def start(self) -> tuple[Value, ...]:
        """A key before that of every row."""
        return tuple("" if name in _TEXTS else -1 for name in self.key.split(", "))


_TEXTS: Final = frozenset({"run_id", "owner_id", "hash", "request_id", "kind", "name", "tag"})
_TABLES: Final = (
    _Table("sessions", "session_key", f"session_key, {SESSION_COLUMNS}"),
    _Table("appends", "last_position", "last_position, session_key, last_seq, epoch, chain, body, milestone"),
    _Table("items", "number", "number, session_key, kind, key, digest, consumed_seq, seal, body"),
    _Table("runs", "run_id", RUN_COLUMNS),
    _Table("run_tags", "tag, run_id", "tag, run_id, session_key"),
    _Table("leases", "owner_id", "owner_id, beat_at_ms"),
    _Table("contents", "hash", "hash, media_type, content, seal"),
    _Table("content_uses", "session_key, hash", "session_key, hash"),
    _Table("snapshots", "session_key", "session_key, seq, seal, state"),
    _Table("catalog", "number", CATALOG_COLUMNS),
    _Table("asked", "number", f"number, {ASKED_COLUMNS}"),
    _Table("asked_of", "name, number", "name, number, session_key"),
    _Table("settled", "request_id", SETTLED_COLUMNS),
    _Table("refused", "number", f"number, {REFUSED_COLUMNS}"),
    _Table("tombstones", "session_key", "session_key, seal"),
    _Table("holes", "last_position", "last_position, first_position, seal"),
    _Table("documents", "kind, name", DOCUMENT_COLUMNS),
)
_SETTLED: Final = ("appends", "items", "holes")
"""Tables with a horizon: it is 0 in a copy, since no transaction can commit a lower number later."""
_NOTES: Final = "CREATE TABLE copying (name TEXT PRIMARY KEY, note TEXT NOT NULL)"
_NOTE: Final = """INSERT INTO copying VALUES (?, ?)
    ON CONFLICT (name) DO UPDATE SET note = EXCLUDED.note"""
_NUMBERS: Final = """SELECT setval('positions', greatest(?,
        (SELECT coalesce(max(last_position), 0) FROM appends),
        (SELECT coalesce(max(last_position), 0) FROM holes))),
    setval('item_numbers', (SELECT coalesce(max(number), 0) FROM items)),
    setval('session_numbers', (SELECT coalesce(max(number), 0) + 1 FROM catalog), false),
    setval(pg_get_serial_sequence('asked', 'number'),
        (SELECT coalesce(max(number), 0) + 1 FROM asked), false),
    setval(pg_get_serial_sequence('refused', 'number'),
        (SELECT coalesce(max(number), 0) + 1 FROM refused), false)"""


@frozen
class Copied:
    """The outcome of a copy."""

    target: str
    """The address without user and password."""
    sessions: int
    rows: int


async def copy_store(
    source: Path, target: str, *, on_progress: Progress = lambda done, total: None
) -> Copied:
    """Copy a SQLite store that no process has open to an empty database in PostgreSQL.

    A copy that was interrupted goes on. The source is not changed.

    Raises:
        Rejected: the source is in use, of an older release or was written to since the copy began, or the
            target is not empty.
        Corrupt: a row of the source is damaged.
        Unavailable: the database cannot be reached; what was copied stays.
    """
    stop = Event()
    copying = asyncio.ensure_future(asyncio.to_thread(_Copy(source, _owner(target), on_progress, stop).run))
    try:
        return await asyncio.shield(copying)
    except asyncio.CancelledError:
        stop.set()
        with suppress(AgentError):
            await copying
        raise


def _owner(target: str) -> PostgresAddress:
    """Return the address for the user that owns the tables: a role gets its rights when a store is opened."""
    return replace(parse_address(target, schema=SCHEMA), role="")


class _Copy:
    """One copy, in one thread."""

    def __init__(self, source: Path, target: PostgresAddress, on_progress: Progress, stop: Event) -> None:
        self._path = source
        self._target = target
        self._tell = on_progress
        self._stop = stop
        self._done = 0
        self._total = 0

    def run(self) -> Copied:
        _check_closed(self._path)
        version = version_of(self._path)
        if version.is_older:
            raise misconfiguration(f"{self._path} is of an older release: run windlass migrate first")
        try:
            with closing(connect_to_read(self._path)) as source:
                # One state of the file for all of the copy.
                source.execute("BEGIN")
                return self._run(source)
        except SQLITE_FAILURES as error:
            failure = translate_sqlite(error)
        raise failure

    def _run(self, source: SqlConnection) -> Copied:
        key = StoreKey.load(source.execute(STORE).fetchall())
        state = json.dumps(read_state(source, key))
        counts = {table.name: _count(source, table) for table in _TABLES}
        self._total = 2 * sum(counts.values())
        link = PostgresLink(self._target)
        try:
            in_transaction(self._target, lambda link: self._begin(link, key, state))
            for table in _TABLES:
                self._copy(source, link, table)
            _Check(link, key, self._step).run()
            _check_closed(self._path)
            in_transaction(self._target, lambda link: self._end(link, counts, json.loads(state)[0]))
        except FAILURES as error:
            failure: AgentError = translate(error, self._target.name)
        else:
            return Copied(self._target.name, counts["sessions"], sum(counts.values()))
        finally:
            link.close()
        # Raised outside of the handler, so that the error does not carry values.
        raise failure

    def _step(self, rows: int) -> None:
        if self._stop.is_set():
            raise misconfiguration(
                "the copy was interrupted: run windlass copy again, it goes on where it ended"
            )
        self._done += rows
        self._tell(min(self._done, self._total), self._total)

    def _begin(self, link: PostgresLink, key: StoreKey, state: str) -> None:
        """Make the tables, or check that they hold a part of this copy."""
        version, name = read_version(link, self._target), self._target.name
        if version == 0:
            make_tables(link, self._target, key, version=COPYING)
            link.execute(_NOTES)
            link.execute(_NOTE, ("source", state))
            return
        is_same = StoreKey.load(link.execute(STORE).fetchall()).store_id == key.store_id
        if version != COPYING:
            store = "this store already" if is_same else "another store"
            raise misconfiguration(
                f"{name} holds {store}: name an empty database, or drop the schema {self._target.schema}"
            )
        if not is_same or _note(link, "source") != state:
            raise misconfiguration(
                f"{name} holds a part of a copy of another store, or of this one before it was written to: "
                f"drop the schema {self._target.schema}, and copy again"
            )

    def _copy(self, source: SqlConnection, link: PostgresLink, table: _Table) -> None:
        """Copy the rows of a table that are not there yet."""
        link.begin(READ_ONLY)
        before = _note(link, table.name)
        link.commit()
        after: Sequence[Value] = table.start if before is None else json.loads(before)
        places = ", ".join("?" for _ in table.start)
        done = cast(
            "tuple[int]",
            source.execute(
                f"SELECT count(*) FROM {table.name} WHERE ({table.key}) <= ({places})", after
            ).fetchone(),
        )[0]
        self._step(done if before is not None else 0)
        rows = source.execute(
            f"SELECT {table.columns} FROM {table.name} WHERE ({table.key}) > ({places}) ORDER BY {table.key}",
            after,
        )
        names = table.columns.split(", ")
        key_indexes = [names.index(name) for name in table.key.split(", ")]
        for batch in _batches(iter(rows)):
            last = json.dumps([batch[-1][index] for index in key_indexes])
            self._write(link, table, batch, notes=(before, last))
            before = last
            self._step(len(batch))

    def _write(
        self, link: PostgresLink, table: _Table, batch: Sequence[Row], *, notes: tuple[str | None, str]
    ) -> None:
        columns, fixed = table.columns, ""
        if table.name in _SETTLED:
            columns, fixed = f"{columns}, horizon", ", 0"
        places = ", ".join("?" for _ in table.columns.split(", "))
        insert = f"INSERT INTO {table.name} ({columns}) OVERRIDING SYSTEM VALUE VALUES ({places}{fixed})"
        link.begin()
        try:
            link.execute("SELECT 1 FROM copying WHERE name = 'source' FOR UPDATE")
            if _note(link, table.name) != notes[0]:
                raise misconfiguration(f"another process copies to {self._target.name}: let it end")
            for row in batch:
                link.execute(insert, cast("Sequence[Value]", row))
            link.execute(_NOTE, (table.name, notes[1]))
            link.check()
            link.commit()
        except BaseException:
            # If only the answer to the COMMIT was lost, the next try finds the note of this batch.
            link.close()
            raise

    def _end(self, link: PostgresLink, counts: dict[str, int], last_position: int) -> None:
        """Let the copy be opened as a store."""
        link.execute(UNLIMITED)
        for table in _TABLES:
            if (count := _count(link, table)) != counts[table.name]:
                raise corrupt(
                    f"{self._target.name} has {count:,} rows in {table.name}, expected "
                    f"{counts[table.name]:,}: drop the schema {self._target.schema}, and copy again"
                )
        link.execute(_NUMBERS, (last_position,)).fetchall()
        link.execute("DROP TABLE copying")
        link.execute("UPDATE store SET version = ?", (len(MIGRATIONS),))
        link.check()


class _Check:
    """Verifies every row of a copy."""

    def __init__(self, link: PostgresLink, key: StoreKey, step: Callable[[int], None]) -> None:
        self._link = link
        self._key = key
        self._step = step

    def run(self) -> None:
        """Read all rows; Corrupt if one is not what was written."""
        self._check_chains()
        for table in _TABLES:
            if table.name not in ("sessions", "appends"):
                for batch in self._batches(table.name, table.columns, table.key, table.start):
                    for row in batch:
                        self._check(table.name, row)

    def _batches(
        self, table: str, columns: str, key: str, start: tuple[Value, ...]
    ) -> Iterator[Sequence[Row]]:
        """Return the rows of a table in the order of a key, which is among its first columns."""
        names = columns.split(", ")
        key_indexes, after = [names.index(name) for name in key.split(", ")], start
        places = ", ".join("?" for _ in start)
        # Contents are large: few of them fit.
        limit = 1 if table == "contents" else ROWS_MAX
        while True:
            self._link.begin(READ_ONLY)
            batch = self._link.execute(
                f"SELECT {columns} FROM {table} WHERE ({key}) > ({places}) ORDER BY {key} LIMIT {limit}",
                after,
            ).fetchall()
            self._link.commit()
            if not batch:
                return
            yield batch
            self._step(len(batch))
            after = tuple(cast("Value", batch[-1][index]) for index in key_indexes)

    def _check_chains(self) -> None:
        """Follow the chain of each session to its end."""
        columns = "session_key, last_seq, last_position, epoch, chain, body"
        appends = chain.from_iterable(self._batches("appends", columns, "session_key, last_seq", (-1, -1)))
        append = next(appends, None)
        sessions = self._batches("sessions", f"session_key, {SESSION_COLUMNS}", "session_key", (-1,))
        for session_key, *rest in chain.from_iterable(sessions):
            session = self._key.read_session(cast("int", session_key), rest)
            checksum, end = START.chain, 0
            while append is not None and append[0] == session_key:
                checksum, end = self._follow(session, checksum, append), cast("int", append[1])
                append = next(appends, None)
            if checksum != session.chain or end != session.row.last_seq:
                raise damage_error(session.row.session_id, end + 1)
        if append is not None:
            raise corrupt("records of an unknown session were found")

    def _follow(self, session: StoredSession, before: bytes, append: Row) -> bytes:
        key, last_seq, last_position, epoch, sealed, body = cast(
            "tuple[int, int, int, int, bytes, bytes]", tuple(append)
        )
        checksum = self._key.chain(before, AppendPosition(key, last_seq, last_position, epoch), body=body)
        if checksum != sealed:
            raise damage_error(session.row.session_id, last_seq)
        return checksum

    def _check(self, table: str, row: Row) -> None:
        match table:
            case "items":
                number, session_key, kind, name, digest, consumed_seq, seal, body = cast(
                    "tuple[int, int, str, str, bytes, int | None, bytes, bytes | None]", tuple(row)
                )
                if session_key == 0:
                    # It only keeps the number of a deleted item from being used again.
                    return
                if consumed_seq is not None:
                    self._key.check_consumed((number, session_key, kind, name, digest, consumed_seq, seal))
                elif (
                    self._key.item_seal(
                        (number, session_key), kind=kind, key=name, rest=digest + (body or b"")
                    )
                    != seal
                ):
                    raise corrupt(f"inbox item {number} is damaged")
            case "contents":
                name, media_type, content, seal = cast("tuple[str, str, bytes, bytes]", tuple(row))
                self._key.check_row(table, (name, media_type, seal))
                if content_hash(content) != name:
                    raise corrupt(f"content {name} is damaged")
            case "snapshots":
                if not self._key.is_snapshot(row[1:], cast("int", row[0])):
                    raise corrupt("a snapshot is damaged")
            case "holes":
                self._key.read_hole((row[1], row[0], row[2]))
            case "asked" | "refused":
                self._key.check_row(table, row[1:])
            case _ if table in INDEX:
                self._key.check_row(table, row)
            case _:
                # Leases and uses of contents have no checksums.
                pass


def _check_closed(path: Path) -> None:
    """Refuse a store that a process has open, or that was not closed."""
    check_reachable(path)
    if not path.is_file():
        raise misconfiguration(f"there is no store {path}")
    if path.with_name(f"{path.name}{MARK_SUFFIX}").exists() or spool_folder(path).is_dir():
        raise misconfiguration(
            f"{path} is in use, or was not closed: end its processes; if there are none, "
            f"windlass --store {path} runs list closes it"
        )


def _count(connection: SqlConnection, table: _Table) -> int:
    return cast("int", connection.execute(f"SELECT count(*) FROM {table.name}").fetchall()[0][0])


def _note(link: PostgresLink, name: str) -> str | None:
    rows = link.execute("SELECT note FROM copying WHERE name = ?", (name,)).fetchall()
    return cast("str", rows[0][0]) if rows else None


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch, size = list[Row](), 0
    for row in rows:
        batch.append(row)
        size += sum(len(value) for value in row if isinstance(value, bytes | str))
        if len(batch) >= ROWS_MAX or size >= BYTES_MAX:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
