"""Schema of the PostgreSQL store: tables, migrations, version checks.

The tables are those of the SQLite store, with the same rows and seals, with two differences. Positions
and item numbers come from sequences, so that transactions of many processes commit side by side. Rows with
such numbers have a horizon: the highest id of a transaction that had taken numbers when the row got its own.
Once the oldest running transaction is younger than the horizon, no lower number can appear any more.
"""

import json
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeVar, cast

from windlass.adapters.journals.rules import misconfiguration
from windlass.postgres.link import FAILURES, PostgresAddress, PostgresLink, translate
from windlass.postgres.reads import SESSION_COST, PostgresReads
from windlass.sql.integrity import RUN_COLUMNS, STORE, StoreKey
from windlass.sql.listing import fill_runs, name_all_asked
from windlass.sql.statements import (
    OPEN_RUN,
    PLACE_RUNS,
    RUN_INDEXES,
    SESSIONS_BY_COST,
    SESSIONS_BY_UPDATE,
)

T = TypeVar("T")

SCHEMA: Final = "windlass"
"""The schema of the tables, unless another is named."""
SERVER_VERSION_MIN: Final = 140_000
"""PostgreSQL 14, the oldest maintained release; the tests run on version 18 alone."""
COPYING: Final = -1
"""The version of a store that is not whole yet: `windlass copy` has not ended."""
_ALLOWED: Final = """SELECT pg_has_role(CURRENT_USER, ?2, 'MEMBER') AND has_schema_privilege(?2, ?1, 'USAGE')
    AND (SELECT bool_and(CASE WHEN c.relkind = 'S' THEN has_sequence_privilege(?2, c.oid, 'UPDATE')
        ELSE has_table_privilege(?2, c.oid, 'DELETE') END)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ?1 AND c.relkind IN ('r', 'S'))"""
_LOCK: Final = 0x574C5331
"""Key of the advisory lock under which tables are made."""
NUMBERS_LOCK: Final = 0x574C5332
"""Key of the advisory lock under which numbers are given."""
PURSES_LOCK: Final = 0x574C5333
"""Key of the advisory lock under which calls are held in purses."""

_TEXT: Final = 'TEXT COLLATE "C"'
_HORIZON: Final = "horizon BIGINT NOT NULL DEFAULT currval('horizons')"
_VERSION_1: Final = tuple(
    statement.replace("TEXT", _TEXT)
    for statement in (
        "CREATE SEQUENCE horizons MINVALUE 0 START 0",
        "CREATE SEQUENCE positions MINVALUE 0 START 0",
        "CREATE SEQUENCE item_numbers MINVALUE 0 START 0",
        "CREATE SEQUENCE session_numbers",
        "SELECT setval('horizons', 0), setval('positions', 0), setval('item_numbers', 0)",
        """CREATE TABLE store (
            one INTEGER PRIMARY KEY, store_id BYTEA NOT NULL, last_position BIGINT NOT NULL,
            seal BYTEA NOT NULL, version INTEGER NOT NULL)""",
        """CREATE TABLE sessions (
            session_key BIGINT PRIMARY KEY, session_id TEXT NOT NULL UNIQUE, epoch BIGINT NOT NULL,
            last_seq BIGINT NOT NULL, last_position BIGINT NOT NULL, chain BYTEA NOT NULL,
            standing TEXT NOT NULL, wake_at_ms BIGINT, owner_id TEXT, seal BYTEA NOT NULL)
            WITH (fillfactor = 80)""",
        "CREATE INDEX sessions_owned ON sessions (owner_id) WHERE owner_id IS NOT NULL",
        """CREATE INDEX sessions_running ON sessions (session_key)
            WHERE standing = 'running' AND owner_id IS NULL""",
        """CREATE INDEX sessions_waiting ON sessions (wake_at_ms)
            WHERE standing = 'waiting' AND wake_at_ms IS NOT NULL""",
        f"""CREATE TABLE appends (
            last_position BIGINT PRIMARY KEY, session_key BIGINT NOT NULL, last_seq BIGINT NOT NULL,
            epoch BIGINT NOT NULL, chain BYTEA NOT NULL, body BYTEA NOT NULL, milestone INTEGER NOT NULL,
            {_HORIZON})""",
        "ALTER TABLE appends ALTER COLUMN body SET STORAGE EXTERNAL",
        "CREATE UNIQUE INDEX appends_by_session ON appends (session_key, last_seq)",
        "CREATE INDEX milestones ON appends (session_key, last_seq) WHERE milestone = 1",
        f"""CREATE TABLE items (
            number BIGINT PRIMARY KEY, session_key BIGINT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL,
            digest BYTEA NOT NULL, consumed_seq BIGINT, seal BYTEA NOT NULL, body BYTEA, {_HORIZON})""",
        "CREATE UNIQUE INDEX items_by_key ON items (session_key, key)",
        "CREATE INDEX items_pending ON items (session_key, number) WHERE consumed_seq IS NULL",
        """CREATE TABLE runs (
            run_id TEXT PRIMARY KEY, session_key BIGINT NOT NULL, agent_id TEXT NOT NULL,
            fingerprint TEXT NOT NULL, status TEXT NOT NULL, first_seq BIGINT NOT NULL, item BIGINT NOT NULL,
            started_at TEXT, ended_at TEXT, usage TEXT, seal BYTEA NOT NULL)""",
        f"CREATE INDEX runs_open ON runs (session_key, item) WHERE {OPEN_RUN}",
        "CREATE INDEX runs_by_item ON runs (item)",
        "CREATE INDEX runs_by_session ON runs (session_key, item)",
        "CREATE INDEX runs_by_start ON runs (started_at)",
        "CREATE TABLE leases (owner_id TEXT PRIMARY KEY, beat_at_ms BIGINT NOT NULL)",
        """CREATE TABLE contents (
            hash TEXT PRIMARY KEY, media_type TEXT NOT NULL, content BYTEA NOT NULL, seal BYTEA NOT NULL)""",
        """CREATE TABLE content_uses (
            session_key BIGINT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (session_key, hash))""",
        "CREATE INDEX content_uses_of ON content_uses (hash)",
        """CREATE TABLE snapshots (
            session_key BIGINT PRIMARY KEY, seq BIGINT NOT NULL, seal BYTEA NOT NULL,
            state BYTEA NOT NULL)""",
        """CREATE TABLE catalog (
            number BIGINT PRIMARY KEY, session_key BIGINT NOT NULL UNIQUE, title TEXT NOT NULL,
            agent_id TEXT NOT NULL, status TEXT NOT NULL, owner TEXT, created_at TEXT NOT NULL,
            updated_at TEXT NOT NULL, usage TEXT NOT NULL, parent TEXT, root TEXT, predecessor TEXT,
            predecessor_seq BIGINT, seal BYTEA NOT NULL)""",
        "CREATE INDEX catalog_roots ON catalog (number) WHERE parent IS NULL",
        "CREATE INDEX catalog_by_owner ON catalog (owner, number)",
        "CREATE INDEX catalog_by_agent ON catalog (agent_id, number)",
        "CREATE INDEX catalog_by_status ON catalog (status, number)",
        "CREATE INDEX catalog_children ON catalog (parent) WHERE parent IS NOT NULL",
        """CREATE TABLE asked (
            number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, session_key BIGINT NOT NULL,
            request_id TEXT NOT NULL, run_id TEXT NOT NULL, agent_id TEXT NOT NULL, owner TEXT,
            asked_at TEXT NOT NULL, body BYTEA NOT NULL, seal BYTEA NOT NULL)""",
        "CREATE UNIQUE INDEX asked_by_session ON asked (session_key, request_id)",
        "CREATE INDEX asked_by_owner ON asked (owner, number)",
        "CREATE INDEX asked_by_request ON asked (request_id)",
        """CREATE TABLE settled (
            request_id TEXT PRIMARY KEY, session_key BIGINT NOT NULL, run_id TEXT NOT NULL, owner TEXT,
            outcome TEXT NOT NULL, option_id TEXT, responder TEXT, at TEXT NOT NULL, seal BYTEA NOT NULL)""",
        "CREATE INDEX settled_by_session ON settled (session_key)",
        """CREATE TABLE refused (
            number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, session_key BIGINT, at TEXT NOT NULL,
            run_id TEXT, session_id TEXT, agent_id TEXT, owner TEXT, source TEXT, code TEXT NOT NULL,
            kind TEXT NOT NULL, retry TEXT NOT NULL, message TEXT NOT NULL, seal BYTEA NOT NULL)""",
        "CREATE INDEX refused_by_session ON refused (session_key) WHERE session_key IS NOT NULL",
        "CREATE INDEX refused_by_run ON refused (run_id)",
        "CREATE INDEX refused_by_owner ON refused (owner, number)",
        "CREATE TABLE tombstones (session_key BIGINT PRIMARY KEY, seal BYTEA NOT NULL)",
        """CREATE TABLE holes (
            last_position BIGINT PRIMARY KEY, first_position BIGINT NOT NULL, seal BYTEA NOT NULL,
            horizon BIGINT NOT NULL DEFAULT pg_sequence_last_value('horizons'))""",
        """CREATE TABLE documents (
            kind TEXT NOT NULL, name TEXT NOT NULL, revision BIGINT NOT NULL, body TEXT NOT NULL,
            due_at_ms BIGINT, seal BYTEA NOT NULL, PRIMARY KEY (kind, name))""",
        "CREATE INDEX documents_due ON documents (kind, due_at_ms) WHERE due_at_ms IS NOT NULL",
        # The search index: words of appends and titles, as far as `search_state` says.
        """CREATE TABLE words (
            number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, session_key BIGINT NOT NULL,
            words TSVECTOR NOT NULL)""",
        "CREATE INDEX words_of_session ON words (session_key)",
        "CREATE INDEX words_found ON words USING GIN (words)",
        """CREATE TABLE search_state (
            one INTEGER PRIMARY KEY, version INTEGER NOT NULL, position BIGINT NOT NULL,
            number BIGINT NOT NULL)""",
    )
)
_VERSION_2: Final = tuple(
    statement.replace("TEXT", _TEXT)
    for statement in (
        # Columns of lists; `at` is when a run started, or was asked for. `fill_runs` fills the others.
        "ALTER TABLE runs RENAME COLUMN usage TO used",
        """ALTER TABLE runs ADD COLUMN at TEXT NOT NULL DEFAULT '', ADD COLUMN owner TEXT,
            ADD COLUMN is_root BIGINT NOT NULL DEFAULT 1, ADD COLUMN input TEXT NOT NULL DEFAULT '',
            ADD COLUMN output TEXT NOT NULL DEFAULT '', ADD COLUMN waits_on TEXT, ADD COLUMN error TEXT,
            ADD COLUMN crashes BIGINT NOT NULL DEFAULT 0, ADD COLUMN tags TEXT NOT NULL DEFAULT '[]',
            ADD COLUMN tokens BIGINT NOT NULL DEFAULT 0, ADD COLUMN cost_micros BIGINT NOT NULL DEFAULT 0,
            ADD COLUMN duration_ms BIGINT NOT NULL DEFAULT 0, ADD COLUMN rating BIGINT NOT NULL DEFAULT 0""",
        PLACE_RUNS,
        "DROP INDEX runs_by_start",
        *RUN_INDEXES,
        """CREATE TABLE run_tags (
            tag TEXT NOT NULL, run_id TEXT NOT NULL, session_key BIGINT NOT NULL,
            PRIMARY KEY (tag, run_id))""",
        "CREATE INDEX run_tags_by_session ON run_tags (session_key)",
    )
)
_VERSION_3: Final = (
    # The people that open questions name; see `name_all_asked`.
    "ALTER TABLE asked RENAME COLUMN body TO request",
    f"""CREATE TABLE asked_of (
        name {_TEXT} NOT NULL, number BIGINT NOT NULL, session_key BIGINT NOT NULL,
        PRIMARY KEY (name, number))""",
    "CREATE INDEX asked_of_by_session ON asked_of (session_key)",
)
_VERSION_4: Final = (SESSIONS_BY_UPDATE, SESSIONS_BY_COST.format(f"({SESSION_COST.format('')})"))
LISTED_VERSION: Final = 2
"""The first version with the columns of runs that lists filter by."""
NAMED_VERSION: Final = 3
"""The first version with the people that questions name."""
MIGRATIONS: Final[tuple[Iterable[str], ...]] = (_VERSION_1, _VERSION_2, _VERSION_3, _VERSION_4)
"""Statements from each version to the next, from an empty schema on. Released versions never change."""

MIN_COMPATIBLE: Final = len(MIGRATIONS)
"""The oldest version whose releases can use these tables.

It is lower than the newest if later migrations only add what older releases do not look at: then these run
beside newer ones, and may come back. A migration that takes something away raises it to its own version, in a
release after the one that no longer needs it.
"""
COMPATIBLE: Final = ("schema", "min-compatible")
"""The kind and the name of the document that says so to older releases."""
_VERSION_FIELD: Final = "version"
_NEW_STORE: Final = "INSERT INTO store (one, store_id, last_position, seal, version) VALUES (1, ?, 0, ?, ?)"
_WITH_RUNS: Final = """SELECT session_key, session_id FROM sessions s
    WHERE EXISTS (SELECT 1 FROM runs r WHERE r.session_key = s.session_key)"""
UNLIMITED: Final = "SELECT set_config('statement_timeout', '0', true)"
"""Ends the time limit of statements in a transaction, for those that go over whole tables."""
_AHEAD: Final = """SELECT CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT) FROM horizons
    WHERE last_value > CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT)"""


def prepare(address: PostgresAddress) -> StoreKey:
    """Make the tables, or check their version.

    Raises:
        Rejected: the server is too old, the tables are of another version, or the user lacks a right.
        Corrupt: the row that describes the store is damaged.
        Unavailable: the database cannot be reached.
    """

    def work(link: PostgresLink) -> StoreKey:
        version = _check_whole(read_version(link, address), address)
        if 0 < version < len(MIGRATIONS):
            first = "" if version >= MIN_COMPATIBLE else "stop all processes that use it, "
            raise misconfiguration(
                f"{address.name} has schema version {version}, this release needs {len(MIGRATIONS)}: {first}"
                "copy it with pg_dump, and run windlass migrate"
            )
        _advance(link, address, version)
        _allow(link, address)
        return _key(link)

    return in_transaction(address, work)


def migrate_tables(address: PostgresAddress, *, is_trial: bool) -> tuple[int, int]:
    """Bring the tables to this version, unless it is a trial; return the version found, and this one.

    An empty database has version 0: its tables are made.

    Raises:
        Rejected: the tables are of a newer version, or the user lacks a right.
        Unavailable: the database cannot be reached.
    """

    def work(link: PostgresLink) -> int:
        version = _check_whole(read_version(link, address), address)
        if not is_trial:
            _advance(link, address, version)
            _allow(link, address)
            _key(link)
        return version

    return in_transaction(address, work), len(MIGRATIONS)


def inspect_tables(address: PostgresAddress) -> tuple[int, int, int | None]:
    """Return the version of the tables, the clock of the server, and the newest heartbeat of an owner.

    The version is 0 if there are no tables. Times are milliseconds since 1970. Nothing is changed.

    Raises:
        Rejected: the tables are of a newer version, or the server refuses the user.
        Unavailable: the database cannot be reached.
    """

    def work(link: PostgresLink) -> tuple[int, int, int | None]:
        version = _check_whole(read_version(link, address), address)
        beat = "(SELECT max(beat_at_ms) FROM leases)" if version else "NULL"
        sql = f"SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT), {beat}"
        [(now_ms, beat_ms)] = cast("Sequence[tuple[int, int | None]]", link.execute(sql).fetchall())
        return version, now_ms, beat_ms

    return in_transaction(address, work)


def schemas_at(address: PostgresAddress) -> tuple[str, ...]:
    """Return the schemas of a database that hold a store.

    Raises:
        Rejected: the server refuses the user.
        Unavailable: the database cannot be reached.
    """

    def work(link: PostgresLink) -> tuple[str, ...]:
        rows = link.execute("""SELECT CAST(n.nspname AS TEXT) FROM pg_namespace n JOIN pg_class c
            ON c.relnamespace = n.oid AND c.relname = 'item_numbers' AND c.relkind = 'S' ORDER BY 1""")
        return tuple(cast("str", name) for (name,) in rows.fetchall())

    return in_transaction(address, work)


def in_transaction(address: PostgresAddress, work: Callable[[PostgresLink], T]) -> T:
    """Run a function as the user of the address, while no other process changes the tables."""
    link = PostgresLink(replace(address, role=""))
    try:
        link.begin(locks=(_LOCK,))
        result = work(link)
        link.commit()
    except FAILURES as error:
        failure = translate(error, address.name, is_opening=True)
    else:
        return result
    finally:
        link.close()
    # Raised outside of the handler, so that the error does not carry values.
    raise failure


def _check_whole(version: int, address: PostgresAddress) -> int:
    if version == COPYING:
        raise misconfiguration(f"{address.name} holds a part of a copy: run windlass copy again, to its end")
    return version


def read_version(link: PostgresLink, address: PostgresAddress) -> int:
    """Return the version of the tables; 0 if there are none, `COPYING` if they are not whole."""
    [(server, has_store)] = cast(
        "Sequence[tuple[int, bool]]",
        link.execute(
            """SELECT CAST(current_setting('server_version_num') AS INTEGER),
            to_regclass(? || '.store') IS NOT NULL""",
            (address.schema,),
        ).fetchall(),
    )
    if server < SERVER_VERSION_MIN:
        raise misconfiguration(
            f"{address.name} is PostgreSQL {server // 10_000}: version 14 or newer is needed"
        )
    rows = link.execute("SELECT version FROM store").fetchall() if has_store else ()
    version = cast("int", rows[0][0]) if rows else 0
    if version > len(MIGRATIONS) and _min_compatible(link, version) > len(MIGRATIONS):
        raise misconfiguration(
            f"{address.name} has schema version {version}, this release knows up to {len(MIGRATIONS)}: use a "
            "newer release"
        )
    return version


def _min_compatible(link: PostgresLink, version: int) -> int:
    """Return the oldest version whose releases can use tables of a newer one."""
    rows = link.execute("SELECT body FROM documents WHERE kind = ? AND name = ?", COMPATIBLE).fetchall()
    return cast("int", json.loads(cast("str", rows[0][0]))[_VERSION_FIELD]) if rows else version


def _declare_compatible(link: PostgresLink, key: StoreKey) -> None:
    columns = (*COMPATIBLE, 1, json.dumps({_VERSION_FIELD: MIN_COMPATIBLE}), None)
    link.execute("DELETE FROM documents WHERE kind = ? AND name = ?", COMPATIBLE)
    if len(MIGRATIONS) > MIN_COMPATIBLE:
        link.execute(
            "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?)", (*columns, key.row_seal("documents", columns))
        )


def make_tables(link: PostgresLink, address: PostgresAddress, key: StoreKey, *, version: int) -> None:
    """Make the tables of a store, and its schema unless that is there."""
    # Not IF NOT EXISTS, which needs the right to make schemas also for one that is there.
    if not link.execute("SELECT 1 FROM pg_namespace WHERE nspname = ?", (address.schema,)).fetchall():
        link.execute(f'CREATE SCHEMA "{address.schema}"')
    for statements in MIGRATIONS:
        for statement in statements:
            link.execute(statement)
    link.execute(_NEW_STORE, (key.store_id, key.store_seal(0), version))
    _declare_compatible(link, key)


def _advance(link: PostgresLink, address: PostgresAddress, version: int) -> None:
    """Bring the tables from a version to this one."""
    if not version:
        make_tables(link, address, StoreKey(secrets.token_bytes(16)), version=len(MIGRATIONS))
        return
    if version >= len(MIGRATIONS):
        return
    link.execute(UNLIMITED)
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            link.execute(statement)
    if version < LISTED_VERSION:
        _fill(link)
    if version < NAMED_VERSION:
        name_all_asked(link)
    link.execute("UPDATE store SET version = ?", (len(MIGRATIONS),))
    _declare_compatible(link, _key(link))


def _allow(link: PostgresLink, address: PostgresAddress) -> None:
    """Make the role of the store, if the address asks for one, and give it rights on this schema alone."""
    if not address.role:
        return
    # The names are plain: see `address_of`. Some are words of SQL.
    schema, role = f'"{address.schema}"', f'"{address.role}"'
    if link.execute("SELECT 1 FROM pg_roles WHERE rolname = ?", (address.role,)).fetchone() is None:
        link.execute(f"CREATE ROLE {role} NOLOGIN")
    [(is_allowed,)] = link.execute(_ALLOWED, (address.schema, address.role)).fetchall()
    if not is_allowed:
        for statement in (
            f"GRANT {role} TO CURRENT_USER",
            f"GRANT USAGE ON SCHEMA {schema} TO {role}",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
            f"GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}",
        ):
            link.execute(statement)


def _fill(link: PostgresLink) -> None:
    """Seal the runs of an older version, and fill the columns of lists from the records."""
    key = _key(link)
    for row in link.execute(f"SELECT {RUN_COLUMNS} FROM runs").fetchall():
        seal = key.row_seal("runs", row[:-1])
        link.execute("UPDATE runs SET seal = ? WHERE run_id = ?", (seal, cast("str", row[0])))
    reads = PostgresReads(link, key)
    for row in link.execute(_WITH_RUNS).fetchall():
        fill_runs(link, key, reads, session=cast("tuple[int, str]", tuple(row)))


def _key(link: PostgresLink) -> StoreKey:
    """Return the key of the store; repair its horizons if another cluster gave them."""
    if link.execute(_AHEAD).fetchall():
        # Another process probably took numbers after this transaction got its id. Take a new id while the
        # lock stops that.
        link.commit()
        link.begin(locks=(_LOCK, NUMBERS_LOCK))
        link.execute(UNLIMITED)
        for (number,) in link.execute(_AHEAD).fetchall():
            # A restore into another cluster, or a failover to a replica that lags: transaction ids began
            # again lower. Every transaction that took numbers is older than this one.
            for table in ("appends", "items", "holes"):
                link.execute(f"UPDATE {table} SET horizon = ?1 WHERE horizon > ?1", (cast("int", number),))
            link.execute("SELECT setval('horizons', ?)", (cast("int", number),))
    return StoreKey.load(link.execute(STORE).fetchall())
