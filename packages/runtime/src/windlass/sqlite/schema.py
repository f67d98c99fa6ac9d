"""Schema of the SQLite store: tables, migrations, version checks and error translation."""

import errno
import os
import secrets
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Final, Literal, cast

from windlass.adapters.journals.rules import ambiguous, corrupt, misconfiguration, rejection, unavailable
from windlass.errors import AgentError, Rejected
from windlass.private_files import FILE_MODE, may_change, may_make_files, tighten_database
from windlass.sql.integrity import CONSUMED_COLUMNS, INDEX, STORE, StoreKey
from windlass.sql.listing import name_all_asked
from windlass.sql.statements import (
    OPEN_RUN,
    PLACE_RUNS,
    RUN_INDEXES,
    SESSIONS_BY_COST,
    SESSIONS_BY_UPDATE,
    SqlConnection,
    Value,
)
from windlass.sqlite.files import sync_folder
from windlass_protocol.frozen import frozen

APPLICATION_ID: Final = 0x574C5331
"""Application id in the file header: WLS1."""
PAGE_BYTES: Final = 2_048
"""An append changes about four pages, so small pages halve the log compared to 4,096 bytes. With still
smaller pages, most would hold a single append, half empty."""
BUSY_TIMEOUT_MS: Final = 30_000
"""How long a write waits for the lock of another process."""
WAL_ATTEMPTS_MAX: Final = 1_000
WAL_PAUSE_S: Final = 0.01

Durability = Literal["power", "process"]
Connect = Callable[[Path], SqlConnection]

_VERSION_1: Final = (
    """CREATE TABLE store (
        one INTEGER PRIMARY KEY, store_id BLOB NOT NULL, last_position INTEGER NOT NULL,
        seal BLOB NOT NULL)""",
    """CREATE TABLE sessions (
        session_key INTEGER PRIMARY KEY, session_id TEXT NOT NULL UNIQUE, epoch INTEGER NOT NULL,
        last_seq INTEGER NOT NULL, last_position INTEGER NOT NULL, chain BLOB NOT NULL,
        standing TEXT NOT NULL, wake_at_ms INTEGER, owner_id TEXT, seal BLOB NOT NULL)""",
    "CREATE INDEX sessions_owned ON sessions (owner_id) WHERE owner_id IS NOT NULL",
    """CREATE INDEX sessions_running ON sessions (last_position)
        WHERE standing = 'running' AND owner_id IS NULL""",
    """CREATE INDEX sessions_waiting ON sessions (wake_at_ms)
        WHERE standing = 'waiting' AND wake_at_ms IS NOT NULL""",
    """CREATE TABLE appends (
        last_position INTEGER PRIMARY KEY, session_key INTEGER NOT NULL, last_seq INTEGER NOT NULL,
        epoch INTEGER NOT NULL, chain BLOB NOT NULL, body BLOB NOT NULL)""",
    "CREATE UNIQUE INDEX appends_by_session ON appends (session_key, last_seq)",
    """CREATE TABLE inbox (
        number INTEGER PRIMARY KEY, session_key INTEGER NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL,
        digest BLOB NOT NULL, consumed_seq INTEGER, seal BLOB NOT NULL, body BLOB)""",
    "CREATE UNIQUE INDEX inbox_by_key ON inbox (session_key, key)",
    "CREATE INDEX inbox_pending ON inbox (session_key, number) WHERE consumed_seq IS NULL",
    """CREATE TABLE runs (
        run_id TEXT PRIMARY KEY, session_key INTEGER NOT NULL, agent_id TEXT NOT NULL,
        fingerprint TEXT NOT NULL, status TEXT NOT NULL, first_seq INTEGER NOT NULL,
        item INTEGER NOT NULL) WITHOUT ROWID""",
    "CREATE TABLE owners (owner_id TEXT PRIMARY KEY, beat_at_ms INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE contents (hash TEXT PRIMARY KEY, media_type TEXT NOT NULL, content BLOB NOT NULL)",
    """CREATE TABLE snapshots (
        session_key INTEGER PRIMARY KEY, seq INTEGER NOT NULL, seal BLOB NOT NULL, state BLOB NOT NULL)""",
)
_VERSION_2: Final = (
    f"CREATE INDEX runs_open ON runs (session_key, status, item, agent_id) WHERE {OPEN_RUN}",
)
_VERSION_3: Final = (
    """CREATE TABLE catalog (
        number INTEGER PRIMARY KEY, session_key INTEGER NOT NULL, title TEXT NOT NULL,
        agent_id TEXT NOT NULL, status TEXT NOT NULL, owner TEXT, created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL, usage TEXT NOT NULL, parent TEXT, root TEXT, predecessor TEXT,
        predecessor_seq INTEGER)""",
    "CREATE UNIQUE INDEX catalog_by_session ON catalog (session_key)",
    "CREATE INDEX catalog_roots ON catalog (number) WHERE parent IS NULL",
    "CREATE INDEX catalog_by_owner ON catalog (owner, number)",
    "CREATE INDEX catalog_by_agent ON catalog (agent_id, number)",
    "CREATE INDEX catalog_by_status ON catalog (status, number)",
    "CREATE INDEX catalog_children ON catalog (parent) WHERE parent IS NOT NULL",
    """CREATE TABLE catalog_words (
        word TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (word, number)) WITHOUT ROWID""",
    """CREATE TABLE asked (
        number INTEGER PRIMARY KEY AUTOINCREMENT, session_key INTEGER NOT NULL, request_id TEXT NOT NULL,
        run_id TEXT NOT NULL, agent_id TEXT NOT NULL, owner TEXT, asked_at TEXT NOT NULL,
        body BLOB NOT NULL)""",
    "CREATE UNIQUE INDEX asked_by_session ON asked (session_key, request_id)",
    "CREATE INDEX asked_by_owner ON asked (owner, number)",
    "ALTER TABLE runs ADD COLUMN started_at TEXT",
    "ALTER TABLE runs ADD COLUMN ended_at TEXT",
    "ALTER TABLE runs ADD COLUMN usage TEXT",
    "CREATE INDEX runs_by_item ON runs (item)",
    "CREATE INDEX runs_by_session ON runs (session_key, item)",
    """CREATE TABLE content_uses (
        session_key INTEGER NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (session_key, hash))
        WITHOUT ROWID""",
    "CREATE INDEX content_uses_of ON content_uses (hash)",
    "CREATE TABLE deleted (session_key INTEGER PRIMARY KEY)",
    """CREATE TABLE holes (
        last_position INTEGER PRIMARY KEY, first_position INTEGER NOT NULL, seal BLOB NOT NULL)""",
    # Indexed when the store is next opened; see `list_unlisted`.
    "CREATE TABLE unlisted (session_key INTEGER PRIMARY KEY)",
    "INSERT INTO unlisted SELECT DISTINCT session_key FROM runs",
)
_VERSION_4: Final = (
    "CREATE INDEX asked_by_request ON asked (request_id)",
    """CREATE TABLE settled (
        request_id TEXT PRIMARY KEY, session_key INTEGER NOT NULL, run_id TEXT NOT NULL, owner TEXT,
        outcome TEXT NOT NULL, option_id TEXT, responder TEXT, at TEXT NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX settled_by_session ON settled (session_key)",
)
_VERSION_5: Final = (
    "ALTER TABLE store ADD COLUMN saves INTEGER NOT NULL DEFAULT 0",
    # A process of an older release that has the file open would give positions anew: it is refused.
    """CREATE TRIGGER store_saved BEFORE UPDATE ON store WHEN NEW.saves = OLD.saves
        BEGIN SELECT RAISE(ABORT, 'the store was migrated: use a newer release'); END""",
)
"""From here on an append of an owner does not change the store row: see `last_position`."""
_VERSION_6: Final = (
    # Appends of older releases are not examined: each counts as a milestone.
    "ALTER TABLE appends ADD COLUMN is_milestone INTEGER NOT NULL DEFAULT 1",
    "CREATE INDEX milestones ON appends (session_key, last_seq) WHERE is_milestone = 1",
    # A process of an older release that has the file open cannot append, and must not consume items or keep
    # its sessions: it looks for these tables under their old names.
    "ALTER TABLE inbox RENAME TO items",
    "ALTER TABLE owners RENAME TO leases",
)
_VERSION_7: Final = (
    # Refused starts. Triggers delete them with their session.
    """CREATE TABLE refused (
        number INTEGER PRIMARY KEY AUTOINCREMENT, session_key INTEGER, at TEXT NOT NULL, run_id TEXT,
        session_id TEXT, agent_id TEXT, owner TEXT, source TEXT, code TEXT NOT NULL, kind TEXT NOT NULL,
        retry TEXT NOT NULL, message TEXT NOT NULL)""",
    "CREATE INDEX refused_by_session ON refused (session_key) WHERE session_key IS NOT NULL",
    "CREATE INDEX refused_by_run ON refused (run_id)",
    "CREATE INDEX refused_by_owner ON refused (owner, number)",
    """CREATE TRIGGER refused_of_session AFTER DELETE ON sessions
        BEGIN DELETE FROM refused WHERE session_key = OLD.session_key; END""",
    """CREATE TRIGGER refused_of_run AFTER DELETE ON runs
        BEGIN DELETE FROM refused WHERE run_id = OLD.run_id; END""",
    # Titles are found by the search index; deleting a session later must not leave their words in free pages.
    "PRAGMA secure_delete = ON",
    "DROP TABLE catalog_words",
    "PRAGMA secure_delete = OFF",
    # How far the search index is; see `search`. Its own table is made by the first search: it needs FTS5.
    """CREATE TABLE search_state (
        one INTEGER PRIMARY KEY, version INTEGER NOT NULL, position INTEGER NOT NULL,
        number INTEGER NOT NULL, has_deleted INTEGER NOT NULL)""",
    "INSERT INTO search_state VALUES (1, 0, 0, 0, 0)",
    # A process of an older release that has the file open must not delete: it would leave words in the search
    # index. It looks for this table under its old name.
    "ALTER TABLE deleted RENAME TO tombstones",
)
_ROW_IDS: Final = {
    "runs": "run_id",
    "catalog": "number",
    "asked": "number",
    "settled": "request_id",
    "refused": "number",
    "contents": "hash",
    "tombstones": "session_key",
}
"""Tables that version 8 seals, with the columns that name their rows."""
_VERSION_8: Final = (
    # Seals of the index; see `_seal`.
    *(f"ALTER TABLE {table} ADD COLUMN seal BLOB" for table in _ROW_IDS),
    # A process of an older release that has the file open must not change rows without their seals: it names
    # this column when it appends.
    "ALTER TABLE appends RENAME COLUMN is_milestone TO milestone",
)
_VERSION_9: Final = (
    """CREATE TABLE documents (
        kind TEXT NOT NULL, name TEXT NOT NULL, revision INTEGER NOT NULL, body TEXT NOT NULL,
        due_at_ms INTEGER, seal BLOB NOT NULL, PRIMARY KEY (kind, name)) WITHOUT ROWID""",
    "CREATE INDEX documents_due ON documents (kind, due_at_ms) WHERE due_at_ms IS NOT NULL",
)
_VERSION_10: Final = (
    # What lists show of runs; `at` is when a run started, or was asked for. The rest is read from the records
    # when the store is next opened; see `fill_runs`. A process of an older release that has the file open
    # must not change rows without these columns: it names `usage` when it changes a run.
    "ALTER TABLE runs RENAME COLUMN usage TO used",
    "ALTER TABLE runs ADD COLUMN at TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE runs ADD COLUMN owner TEXT",
    "ALTER TABLE runs ADD COLUMN is_root INTEGER NOT NULL DEFAULT 1",
    "ALTER TABLE runs ADD COLUMN input TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE runs ADD COLUMN output TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE runs ADD COLUMN waits_on TEXT",
    "ALTER TABLE runs ADD COLUMN error TEXT",
    "ALTER TABLE runs ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE runs ADD COLUMN tags TEXT NOT NULL DEFAULT '[]'",
    "ALTER TABLE runs ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE runs ADD COLUMN cost_micros INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE runs ADD COLUMN duration_ms INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE runs ADD COLUMN rating INTEGER NOT NULL DEFAULT 0",
    PLACE_RUNS,
    *RUN_INDEXES,
    """CREATE TABLE run_tags (
        tag TEXT NOT NULL, run_id TEXT NOT NULL, session_key INTEGER NOT NULL, PRIMARY KEY (tag, run_id))
        WITHOUT ROWID""",
    "CREATE INDEX run_tags_by_session ON run_tags (session_key)",
    "CREATE TABLE unfilled (session_key INTEGER PRIMARY KEY)",
    "INSERT INTO unfilled SELECT DISTINCT session_key FROM runs",
)
_VERSION_11: Final = (
    # Whom open questions ask; see `name_all_asked`. A process of an older release that has the file open must
    # not ask without it: it names the column `body`.
    "ALTER TABLE asked RENAME COLUMN body TO request",
    """CREATE TABLE asked_of (
        name TEXT NOT NULL, number INTEGER NOT NULL, session_key INTEGER NOT NULL,
        PRIMARY KEY (name, number)) WITHOUT ROWID""",
    "CREATE INDEX asked_of_by_session ON asked_of (session_key)",
)
SESSION_COST: Final = "coalesce(json_extract({}usage, '$.costMicros'), 0)"
"""The cost of a session; `{}` is the prefix of its columns."""
_VERSION_12: Final = (SESSIONS_BY_UPDATE, SESSIONS_BY_COST.format(SESSION_COST.format("")))
MARKED_VERSION: Final = 8
"""The first version with seals in the index, and with marks; see `marks`."""
LISTED_VERSION: Final = 10
"""The first version whose runs have the columns that lists filter by."""
NAMED_VERSION: Final = 11
"""The first version that has whom questions ask."""
MIGRATIONS: Final[tuple[Iterable[str], ...]] = (
    _VERSION_1,
    _VERSION_2,
    _VERSION_3,
    _VERSION_4,
    _VERSION_5,
    _VERSION_6,
    _VERSION_7,
    _VERSION_8,
    _VERSION_9,
    _VERSION_10,
    _VERSION_11,
    _VERSION_12,
)
"""Statements from each version to the next, from an empty file on. Released versions never change."""
_NEW_STORE: Final = "INSERT INTO store (one, store_id, last_position, seal) VALUES (1, ?, 0, ?)"


class Connection(sqlite3.Connection):
    """A standard-library connection that takes the parameters of `SqlConnection`."""

    def execute(  # pyright: ignore[reportIncompatibleMethodOverride] that of SqlConnection
        self, sql: str, parameters: Sequence[Value] = (), /
    ) -> sqlite3.Cursor:
        """Carry out a statement; to SQLite `?1` is a name, and Python 3.14 takes a mapping for names."""
        if "?1" in sql:
            names = {str(number): value for number, value in enumerate(parameters, 1)}
            return super().execute(sql, names)
        return super().execute(sql, parameters)


def connect(path: Path) -> SqlConnection:
    """Open a standard-library connection without implicit transactions."""
    return sqlite3.connect(
        path,
        isolation_level=None,
        check_same_thread=False,
        timeout=BUSY_TIMEOUT_MS / 1000,
        factory=Connection,
    )


def wait_at_most(connection: SqlConnection, timeout_ms: int) -> None:
    """Set how long a connection waits while the database is busy."""
    connection.execute(f"PRAGMA busy_timeout = {timeout_ms}").fetchall()


def prepare(
    connection: SqlConnection,
    path: Path,
    *,
    durability: Durability,
    migrations: Sequence[Iterable[str]] = MIGRATIONS,
) -> StoreKey:
    """Create, check or migrate the tables, and configure the connection for writing.

    Raises:
        Rejected: the file is another database, or of a newer version.
        Corrupt: the row that describes the store is damaged.
    """
    version = read_version(connection, path, newest=len(migrations))
    tighten_database(path)
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    _write_ahead(connection)
    connection.execute(f"PRAGMA synchronous = {'FULL' if durability == 'power' else 'NORMAL'}")
    if durability == "power":
        # On macOS, fsync leaves the data in the cache of the drive; elsewhere this changes nothing.
        connection.execute("PRAGMA fullfsync = ON").fetchall()
        connection.execute("PRAGMA checkpoint_fullfsync = ON").fetchall()
    # The writer checkpoints the log itself, after it has answered.
    connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
    connection.execute("PRAGMA cell_size_check = ON")
    if version < len(migrations):
        _migrate(connection, path, migrations)
        # From here on the database is a store without its log too: without its tables it would pass for new.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    # A row that grows moves in its page: without this, the words of its old copy outlive their session.
    connection.execute("PRAGMA secure_delete = FAST").fetchall()
    return StoreKey.load(connection.execute(STORE).fetchall())


def read_version(connection: SqlConnection, path: Path, *, newest: int) -> int:
    """Return the schema version of a file; 0 if it has no tables.

    Raises:
        Rejected: the file is another database, or of a newer version.
    """
    # In one transaction: another process may be creating the file now.
    connection.execute("BEGIN")
    try:
        version = _version(connection, path)
    finally:
        with suppress(sqlite3.Error):
            connection.execute("COMMIT")
    _check_version(version, newest, path)
    return version


def _write_ahead(connection: SqlConnection) -> None:
    """Enable the write-ahead log; wait for another process that is enabling it."""
    for attempt in range(WAL_ATTEMPTS_MAX):
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
        except sqlite3.OperationalError as error:
            # SQLite does not wait here, despite the timeout, because two waiters could deadlock.
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or attempt + 1 == WAL_ATTEMPTS_MAX:
                raise
            time.sleep(WAL_PAUSE_S)
        else:
            return


def _migrate(connection: SqlConnection, path: Path, migrations: Sequence[Iterable[str]]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Checked again: another process may have migrated meanwhile.
        version = _version(connection, path)
        _check_version(version, len(migrations), path)
        for statements in migrations[version:]:
            for statement in statements:
                connection.execute(statement).fetchall()
        if version == 0:
            key = StoreKey(secrets.token_bytes(16))
            connection.execute(_NEW_STORE, (key.store_id, key.store_seal(0)))
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        elif version < MARKED_VERSION <= len(migrations):
            _seal(connection, _ROW_IDS)
        elif version < LISTED_VERSION <= len(migrations):
            _seal(connection, ("runs",))
        if version < NAMED_VERSION <= len(migrations):
            name_all_asked(connection)
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        # A disk that failed has ended the transaction; the error of the disk is raised, not that of ROLLBACK.
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _seal(connection: SqlConnection, tables: Iterable[str]) -> None:
    """Seal the rows of tables of the index and the consumed items of an older version."""
    key = StoreKey.load(connection.execute(STORE).fetchall())
    for table in tables:
        row_id = _ROW_IDS[table]
        rows = connection.execute(f"SELECT {INDEX[table]}, {row_id} FROM {table}").fetchall()
        for *values, _, name in rows:
            seal = key.row_seal(table, values)
            connection.execute(f"UPDATE {table} SET seal = ? WHERE {row_id} = ?", (seal, cast("Value", name)))
    consumed = "consumed_seq IS NOT NULL AND session_key != 0"
    for row in connection.execute(f"SELECT {CONSUMED_COLUMNS} FROM items WHERE {consumed}").fetchall():
        number, session_key, kind, name, digest, seq = cast("tuple[int, int, str, str, bytes, int]", row[:-1])
        seal = key.consumption_seal(
            (number, session_key), kind=kind, key=name, digest=digest, consumed_seq=seq
        )
        connection.execute("UPDATE items SET seal = ? WHERE number = ?", (seal, number))


def _version(connection: SqlConnection, path: Path) -> int:
    """Return the schema version; 0 for a file without tables."""
    mark, version, tables = (
        _number(connection, sql)
        for sql in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_schema")
    )
    if mark != APPLICATION_ID and (mark or version or tables):
        raise misconfiguration(f"{path} is the database of another application: choose another file")
    return version


def _check_version(stored: int, newest: int, path: Path) -> None:
    if stored > newest:
        raise misconfiguration(
            f"{path} has schema version {stored}, this release knows up to {newest}: use a newer release"
        )


def _number(connection: SqlConnection, sql: str) -> int:
    [row] = connection.execute(sql).fetchall()
    number = row[0]
    assert isinstance(number, int)
    return number


Failure = sqlite3.Error | ValueError | TypeError | OverflowError
"""Exceptions of a SQLite call: SQLite's own, and those of Python's value conversion."""
FAILURES: Final = (sqlite3.Error, ValueError, TypeError, OverflowError)

_PRIMARY: Final = 0xFF
_DAMAGED: Final = frozenset(
    # Our statements match our tables: a failing one means that the tables were changed.
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_ERROR}
)
_REFUSED: Final = frozenset(
    {sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_RANGE, sqlite3.SQLITE_MISUSE}
)
_REFUSALS: Final = (
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    sqlite3.DataError,
    ValueError,
    TypeError,
    OverflowError,
)
_HOST: Final = frozenset({sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_READONLY})


_DISK: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN})
_CAUSES: Final = {
    sqlite3.SQLITE_FULL: "disk full",
    sqlite3.SQLITE_CANTOPEN: "a file cannot be opened",
    sqlite3.SQLITE_IOERR_READ: "a read from the disk failed",
    sqlite3.SQLITE_IOERR_SHORT_READ: "a read from the disk failed",
    sqlite3.SQLITE_IOERR_WRITE: "a write to the disk failed",
    sqlite3.SQLITE_IOERR_TRUNCATE: "a write to the disk failed",
    sqlite3.SQLITE_IOERR_FSYNC: "a sync of the disk failed",
    sqlite3.SQLITE_IOERR_DIR_FSYNC: "a sync of the disk failed",
    sqlite3.SQLITE_IOERR_SHMOPEN: "the index of the log cannot be made",
    sqlite3.SQLITE_IOERR_SHMSIZE: "the index of the log cannot be made",
    sqlite3.SQLITE_IOERR_SHMMAP: "the index of the log cannot be made",
}
"""Causes of disk failures, by SQLite's extended codes."""


def is_disk_failure(error: Failure) -> bool:
    """Return whether the disk failed, or is full."""
    return primary_code(error) in _DISK


def cause_of(error: Failure | OSError) -> str:
    """Return why a file could not be used, with the name of the code."""
    if isinstance(error, OSError):
        name = errno.errorcode.get(error.errno or 0, type(error).__name__)
        return f"{error.strerror or 'the file cannot be used'} ({name})"
    code: object = getattr(error, "sqlite_errorcode", 0)
    name = str(getattr(error, "sqlite_errorname", "") or type(error).__name__)
    cause = _CAUSES.get(code) if isinstance(code, int) else None
    return f"{cause or _CAUSES.get(primary_code(error), 'the disk failed')} ({name})"


def primary_code(error: Failure) -> int:
    """Return the primary SQLite code; 0 if Python's layer raised the error."""
    code: object = getattr(error, "sqlite_errorcode", 0)
    return code & _PRIMARY if isinstance(code, int) else 0


def is_busy(error: Failure) -> bool:
    """Return whether another connection holds the lock."""
    return primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def translate(error: Failure, *, is_commit: bool = False) -> AgentError:
    """Return our error for a SQLite error.

    Outside of a commit nothing was written; inside one, it may have been. A full disk is the exception:
    SQLite writes the commit frame last, so a commit that ran out of space wrote nothing.
    """
    code, name = primary_code(error), str(getattr(error, "sqlite_errorname", "") or type(error).__name__)
    if code == sqlite3.SQLITE_FULL:
        return unavailable(f"the disk is full ({name}), nothing was written: free some space and try again")
    if is_commit:
        return ambiguous(f"the commit failed ({name}): it may or may not have been written")
    if code == sqlite3.SQLITE_NOTADB:
        return misconfiguration(
            "the file is not a database: choose another file, or restore this one from a backup"
        )
    if code in _DAMAGED or _is_undecodable(error):
        first = "free some space on its disk if that is full, else " if code == sqlite3.SQLITE_ERROR else ""
        return corrupt(f"the database is damaged ({name}): {first}restore it from a backup")
    if code in _HOST:
        return misconfiguration(f"the database may not be written ({name}): check its permissions")
    if is_busy(error):
        return unavailable(f"the database is busy ({name}), nothing was written: try again")
    if code in _REFUSED or (code == 0 and isinstance(error, _REFUSALS)):
        return rejection(f"the database cannot store a value ({name})")
    if is_disk_failure(error):
        return unavailable(f"{cause_of(error)}: nothing was written")
    return unavailable(f"the database could not be reached ({name}), nothing was written")


def is_of_one(error: Failure) -> bool:
    """Return whether an error concerns only its own request."""
    return primary_code(error) in _DAMAGED | _REFUSED or primary_code(error) == 0


def _is_undecodable(error: Failure) -> bool:
    # Python's layer reports text that is not UTF-8, also in messages of SQLite, without a code.
    is_told = primary_code(error) == 0 and "decode to UTF-8" in str(error)
    return is_told or isinstance(error, UnicodeDecodeError)


def forbidden(path: Path) -> Rejected | None:
    """Return the permission error of a database path; None if it can be opened."""
    folder = path.parent
    if not may_make_files(folder):
        return misconfiguration(
            f"the folder {folder} may not be written to by this process, and {path.name} needs files beside "
            "it: change the permissions of the folder, or choose another"
        )
    if path.exists() and not may_change(path):
        return misconfiguration(f"{path} may not be written to by this process: change its permissions")
    return None


def check_reachable(path: Path) -> None:
    """Refuse a database in a folder that this process may not enter, such as one of another user.

    Raises:
        Rejected: the folder, or one above it, is closed.
    """
    try:
        path.stat()
    except PermissionError as error:
        raise forbidden(path) or file_error(error) from None
    except OSError:
        # Missing, or unusable in another way: the opener says how.
        pass


def file_error(error: OSError) -> AgentError:
    """Return our error for an unusable file; nothing was written."""
    where, why = error.filename or "a file", error.strerror or type(error).__name__
    if isinstance(error, PermissionError):
        return misconfiguration(
            f"{where} may not be used by this process ({why}): give it the right to write there, which "
            "readers need as well"
        )
    return unavailable(f"{where} cannot be used now ({why}), nothing was written")


@frozen
class StoreVersion:
    """A store, its schema version, and the version of this release."""

    path: Path
    found: int
    known: int

    @property
    def is_older(self) -> bool:
        """Whether opening the store migrates it."""
        return self.found < self.known


def version_of(path: Path) -> StoreVersion:
    """Return the schema version of a store; nothing is changed.

    Raises:
        Rejected: it is not a store, or of a newer release.
        Corrupt: it is damaged.
        Unavailable: it cannot be read now.
    """
    try:
        with closing(connect_to_read(path)) as connection:
            version = read_version(connection, path, newest=len(MIGRATIONS))
    except FAILURES as error:
        failure = forbidden(path) or translate(error)
        raise type(failure)(f"{path}: {failure.message}", kind=failure.kind, retry=failure.retry) from error
    if version == 0:
        raise misconfiguration(f"{path} is empty: not a Windlass store")
    return StoreVersion(path, version, len(MIGRATIONS))


def back_up(store: StoreVersion) -> Path:
    """Copy a store beside itself, under an unused name.

    Only its owner can use the copy. It gets its name when it is complete and durable; a killed
    process leaves a file that ends in `.part`.

    Raises:
        Unavailable: it cannot be written.
        Corrupt: the store is damaged.
    """
    path = store.path
    part: Path | None = None
    try:
        part = _new_part(path)
        version = _copy_store(path, part)
        _make_durable(part)
        copy = _name_copy(part, path, version)
        sync_folder(path.parent)
    except (*FAILURES, OSError) as error:
        raise file_error(error) if isinstance(error, OSError) else translate(error) from error
    finally:
        if part is not None:
            part.unlink(missing_ok=True)
    return copy


def _new_part(path: Path) -> Path:
    # Readable by its owner only, until it is complete.
    handle, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    return Path(name)


def _copy_store(path: Path, part: Path) -> int:
    """Copy a store; return the schema version of the copy, which may be newer."""
    with (
        closing(connect_to_read(path)) as source,
        closing(sqlite3.connect(part, isolation_level=None, factory=Connection)) as target,
    ):
        source.backup(target)
        [(answer,)] = target.execute("PRAGMA quick_check(1)").fetchall()
        if answer != "ok":
            raise corrupt(f"{path} is damaged: restore it from a backup")
        return read_version(target, path, newest=len(MIGRATIONS))


def _make_durable(part: Path) -> None:
    with part.open("rb") as file:
        os.fchmod(file.fileno(), FILE_MODE)
        os.fsync(file.fileno())


def _name_copy(part: Path, path: Path, version: int) -> Path:
    for number in count(1):
        again = "" if number == 1 else f"-{number}"
        copy = path.with_name(f"{path.name}.v{version}{again}.bak")
        with suppress(FileExistsError):
            # Unlike a rename, a hard link never replaces an existing file.
            copy.hardlink_to(part)
            return copy
    raise AssertionError("numbers do not end")


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open a connection that cannot write."""
    address = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(
        address, uri=True, timeout=BUSY_TIMEOUT_MS / 1000, isolation_level=None, factory=Connection
    )
