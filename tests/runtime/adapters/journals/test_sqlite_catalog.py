"""The index of a SQLite store: its cost, how it is read, where it comes from."""

import asyncio
import re
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest
from tests.contracts.stores import AT, NOW_MS, claim
from tests.contracts.test_store_catalog import ask_bob, begin, end, fact, start
from tests.runtime.catalog.rig import PAYS, agent, approve, opened, until

from windlass.adapters.journals.codec import encode_post
from windlass.catalog import Sessions
from windlass.errors import Corrupt
from windlass.limits import OWNER_LEASE_MS
from windlass.ports.archive import SessionCopy
from windlass.ports.inbox import NewRun
from windlass.ports.journal import Batch
from windlass.ports.listing import (
    CountFilter,
    RunFilter,
    RunOrder,
    RunSort,
    SessionFilter,
    SessionOrder,
    SessionSort,
)
from windlass.ports.recorded import NumberedRow
from windlass.sql.integrity import RUN_COLUMNS
from windlass.sql.queries import (
    REQUEST,
    SETTLED,
    CountReads,
    requests_query,
    responder_query,
    runs_query,
    sessions_query,
)
from windlass.sql.statements import RUN_INDEXES, Cursor, SqlConnection, Value
from windlass.sqlite import schema as sqlite_schema
from windlass.sqlite.reads import DIALECT
from windlass.sqlite.recorded import RecordedStore
from windlass.sqlite.schema import connect, prepare, translate
from windlass.sqlite.store import SqliteStore
from windlass.sqlite.transaction import OwnerLocks, SqliteTransaction
from windlass_harness.loop.events import Draft
from windlass_harness.record import Post
from windlass_harness.views.listing import SessionNews
from windlass_protocol import RunStatus, SessionStatus


@dataclass(slots=True)
class RecordingConnection:
    """A connection that records its statements."""

    inner: SqlConnection
    statements: list[str]

    def execute(self, sql: str, parameters: Sequence[Value] = (), /) -> Cursor:
        self.statements.append(sql)
        return self.inner.execute(sql, parameters)

    def close(self) -> None:
        self.inner.close()


@dataclass(slots=True)
class RecordingConnections:
    """Opens connections that record their statements."""

    statements: list[str] = field(default_factory=list[str])

    def __call__(self, path: Path) -> SqlConnection:
        return RecordingConnection(connect(path), self.statements)

    def writes(self) -> list[str]:
        """The tables that were written to since the last time, in order."""
        words = [sql.split() for sql in self.statements]
        self.statements.clear()
        at = {"INSERT": 2, "UPDATE": 1, "DELETE": 2}
        return [one[at[one[0]]] for one in words if one[0] in at]


def test_the_appends_of_a_step_write_no_row_of_the_index(tmp_path: Path) -> None:
    async def story() -> None:
        ear = RecordingConnections()
        store = await SqliteStore.open(tmp_path / "a.db", durability="process", connect=ear)
        ear.writes()
        await start(store, "s0", "r0")
        assert sorted(ear.writes()) == ["catalog", "items", "runs", "sessions"]
        mine = await begin(store)
        ear.writes()
        steps = ("message.completed", "actions.requested", "step.completed", "policy.decided")
        await store.append(Batch(mine, 2, tuple(fact(kind) for kind in steps)))
        assert ear.writes() == ["appends", "sessions"]
        await store.append(Batch(mine, 6, (fact("action.result"), fact("step.started"))))
        assert ear.writes() == ["appends", "sessions"]
        await end(store, mine, after=8)
        assert sorted(ear.writes()) == ["appends", "catalog", "runs", "sessions", "store"]
        await store.aclose()

    asyncio.run(story())


SESSIONS = (
    SessionFilter(),
    SessionFilter(root_only=False),
    SessionFilter(owner="u1"),
    SessionFilter(agent_id="a1"),
    SessionFilter(status=SessionStatus.COMPLETED),
    SessionFilter(owner="u1", agent_id="a1", status=SessionStatus.COMPLETED),
    SessionFilter(words=("pay",)),
    SessionFilter(words=("pay", "hotel"), owner="u1"),
)
PAGE = "SCAN page"
"""A subquery with a limit."""
RUNS = (RunFilter(), RunFilter(session_id="s1"), RunFilter(status=RunStatus.FAILED), RunFilter(owner="u1"))


def test_every_page_is_answered_by_an_index_and_no_journal_is_read(tmp_path: Path) -> None:
    asyncio.run(_made(tmp_path / "a.db", count=3))
    connection = sqlite3.connect(tmp_path / "a.db")
    questions = [
        *(
            sessions_query(one, DIALECT, order=SessionOrder(by, after=(9, 9)), limit=50)
            for one in SESSIONS
            for by in SessionSort
        ),
        *(runs_query(one, 5 if one.session_id else None, DIALECT, limit=50) for one in RUNS),
        *(requests_query(owner, after=9, limit=50) for owner in (None, "u1")),
        responder_query(["u1", "u2"], after=9, limit=50),
        (REQUEST, ("q1",)),
        (SETTLED, ("q1",)),
    ]
    for sql, parameters in questions:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)]
        # SQLite calls the use of the search index a scan; M is for MATCH. So it does with an index in order.
        scans = [step for step in plan if step.startswith("SCAN")]
        ordered = ("SCAN search VIRTUAL TABLE INDEX 0:M", "SCAN r USING COVERING INDEX runs_by_time", PAGE)
        assert all(step.startswith(ordered) for step in scans), plan
        assert "appends" not in sql
        assert "snapshots" not in sql
    [sql, parameters] = responder_query(["u1", "u2"], after=9, limit=50)
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)]
    assert plan.count("SEARCH n USING PRIMARY KEY (name=? AND number>?)") == plan.count(PAGE) == 2
    assert "SEARCH a USING INTEGER PRIMARY KEY (rowid=?)" in plan
    [sql, parameters] = sessions_query(SESSIONS[5], DIALECT, order=SessionOrder(after=(9, 9)), limit=50)
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)]
    assert "SEARCH c USING INDEX catalog_by_owner (owner=? AND number<?)" in plan
    connection.close()


DAY = RunFilter(since="2026-01-30T00:00:00.000Z")


@pytest.mark.parametrize(
    ("wanted", "sort", "step"),
    [
        (RunFilter(), "started", "SCAN r USING COVERING INDEX runs_by_time"),
        (DAY, "started", "SEARCH r USING COVERING INDEX runs_by_time (at>?)"),
        (replace(DAY, agent_id="a1"), "cost", "COVERING INDEX runs_by_agent (agent_id=? AND at>?)"),
        (RunFilter(error="", cost_micros=(5, None)), "started", "SCAN r USING COVERING INDEX runs_by_time"),
        (RunFilter(agent_id="a1"), "started", "SEARCH r USING COVERING INDEX runs_by_agent (agent_id=?)"),
        (RunFilter(agent_id="a1", cost_micros=(5, None)), "started", "INDEX runs_by_agent (agent_id=?)"),
        (RunFilter(status=RunStatus.FAILED), "started", "INDEX runs_by_status (status=?)"),
        (RunFilter(waits_on="person"), "started", "INDEX runs_by_status (status=?)"),
        (RunFilter(error="tool_failure"), "started", "INDEX runs_by_error (error=?)"),
        (RunFilter(has_crashed=True), "started", "INDEX runs_by_crash"),
        (RunFilter(rating=-1), "cost", "INDEX runs_by_rating (rating=?)"),
        (RunFilter(root_only=True), "cost", "SCAN r USING INDEX runs_by_cost"),
        (RunFilter(), "duration", "SCAN r USING INDEX runs_by_duration"),
        (RunFilter(playground=True), "duration", "SCAN r USING COVERING INDEX runs_by_duration"),
        (RunFilter(fingerprint="f1"), "started", "INDEX runs_by_version (fingerprint=?)"),
        (RunFilter(tag="beta"), "started", "SEARCH t USING PRIMARY KEY (tag=?)"),
        (RunFilter(session_id="s1"), "started", "runs_by_session (session_key=?)"),
        (RunFilter(words=("pay",)), "started", "runs_by_session (session_key=?)"),
    ],
)
def test_runs_are_found_in_an_index_that_holds_what_they_are_filtered_by(
    tmp_path: Path, wanted: RunFilter, sort: str, step: str
) -> None:
    asyncio.run(_made(tmp_path / "a.db", count=3))
    connection = sqlite3.connect(tmp_path / "a.db")
    order, key = RunOrder(RunSort(sort)), 5 if wanted.session_id else None
    sql, parameters = runs_query(wanted, key, DIALECT, order=order, limit=50)
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)]
    assert any(step in one for one in plan), plan
    assert "SEARCH r USING PRIMARY KEY (run_id=?)" in plan, "only the rows of the page are read"
    few, parameters = runs_query(RunFilter(owner="u1"), None, DIALECT, limit=50, owner_has_few=True)
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {few}", parameters)]
    assert "SEARCH r USING INDEX runs_by_owner (owner=?)" in plan
    connection.close()


@pytest.mark.parametrize(("agent_id", "index"), [(None, "time (at>? AND at<?)"), ("a1", "agent (agent_id=?")])
def test_runs_are_counted_by_the_index_of_their_time_and_no_session_is_read(
    tmp_path: Path, agent_id: str | None, index: str
) -> None:
    asyncio.run(_made(tmp_path / "a.db", count=3))
    connection, plans = sqlite3.connect(tmp_path / "a.db"), list[str]()

    class Explaining:
        def execute(self, sql: str, parameters: Sequence[Value] = ()) -> Cursor:
            if not sql.startswith("SELECT count(*), min("):
                plans.extend(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters))
            return cast("Cursor", connection.execute(sql, parameters))

    reads = CountReads(cast("SqlConnection", Explaining()), DIALECT)
    reads.runs(CountFilter(AT, "2027-01-01T00:00:00.000Z", 60_000, agent_id=agent_id, owner="u1"))
    found = [plan for plan in plans if " r " in plan or " c " in plan]
    assert len(found) == 3
    assert all(f"SEARCH r USING INDEX runs_by_{index}" in plan for plan in found), found
    plans.clear()
    reads.waiting("u1", agent_id)
    assert plans == ["SEARCH r USING INDEX runs_by_status (status=?)"]
    connection.close()


def test_listing_fifty_of_many_looks_at_few_rows(tmp_path: Path) -> None:
    def cost(connection: sqlite3.Connection, wanted: SessionFilter) -> int:
        """The number of database instructions of a page, in hundreds."""
        ticks: list[int] = []
        connection.set_progress_handler(lambda: ticks.append(1), 100)
        sql, parameters = sessions_query(wanted, DIALECT, limit=50)
        rows = connection.execute(sql, parameters).fetchall()
        connection.set_progress_handler(None, 0)
        assert rows
        return len(ticks)

    counts: list[list[int]] = []
    for count in (100, 1_000):
        path = tmp_path / f"{count}.db"
        asyncio.run(_made(path, count=count))
        connection = sqlite3.connect(path)
        wanted = (SessionFilter(), SessionFilter(owner="u1"), SessionFilter(words=("w77",)))
        counts.append([cost(connection, one) for one in wanted])
        connection.close()
    few, many = counts
    assert many[0] <= few[0] + 1
    assert many[1] <= 80
    assert many[2] <= 80


async def _made(path: Path, *, count: int) -> None:
    store = await SqliteStore.open(path, durability="process")
    for number in range(count):
        words, owner = f"w{number} pay the hotel", f"u{number % 25}"
        await start(store, f"s{number}", f"r{number}", message=words, owner=owner)
    await store.list_sessions(SessionFilter(words=("w",)))
    await store.aclose()


# older files


def revert_12(connection: sqlite3.Connection) -> None:
    for name in ("update", "cost"):
        connection.execute(f"DROP INDEX catalog_by_{name}")


def version_2(path: Path) -> None:
    """Revert the schema versions after the second."""
    connection = sqlite3.connect(path)
    for name in ("refused_of_session", "refused_of_run"):
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("ALTER TABLE items RENAME TO inbox")
    connection.execute("ALTER TABLE leases RENAME TO owners")
    for name in (
        "documents",
        "refused",
        "catalog",
        "search_state",
        "asked",
        "asked_of",
        "settled",
        "content_uses",
        "tombstones",
        "holes",
        "unlisted",
        "unfilled",
        "run_tags",
    ):
        connection.execute(f"DROP TABLE {name}")
    made = (statement.split()[2] for statement in RUN_INDEXES)
    for name in ("runs_by_item", "runs_by_session", *made):
        connection.execute(f"DROP INDEX {name}")
    for name in RUN_COLUMNS.split(", ")[7:]:
        connection.execute(f"ALTER TABLE runs DROP COLUMN {name}")
    connection.execute("ALTER TABLE contents DROP COLUMN seal")
    connection.execute("DROP INDEX milestones")
    connection.execute("ALTER TABLE appends DROP COLUMN milestone")
    connection.execute("DROP TABLE IF EXISTS search")
    connection.execute("DROP TRIGGER store_saved")
    connection.execute("ALTER TABLE store DROP COLUMN saves")
    connection.execute("PRAGMA user_version = 2")
    connection.commit()
    connection.close()


def test_a_file_without_an_index_gets_one_when_it_is_opened_and_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    clerk = agent(*PAYS)

    async def before() -> list[object]:
        async with opened(path, clerk) as runtime:
            done = await runtime.start_run(
                "clerk", "Pay the hotel", session_id="s1", run_id="r1", owner="ann"
            )
            await until(done, "run.waiting")
            await approve(done)
            await done.wait()
            waits = await runtime.start_run(
                "clerk", "Pay the taxi", session_id="s2", run_id="r2", owner="bob"
            )
            await until(waits, "run.waiting")
            return await look(runtime.sessions)

    async def look(catalogue: Sessions) -> list[object]:
        sessions = (await catalogue.list()).items
        runs, requests = (await catalogue.runs()).items, (await catalogue.requests()).items
        words = (await catalogue.list(text="hotel")).items
        return [
            [(one.title, one.owner, one.status, one.usage, one.run_count) for one in sessions],
            # Without the place in the list, which counts sessions anew.
            [replace(one, number=0) for one in runs],
            [(one.session_id, one.run_id, one.owner, one.request) for one in requests],
            [one.session_id for one in words],
        ]

    async def after() -> list[object]:
        async with opened(path, clerk) as runtime:
            return await look(runtime.sessions)

    statements = asyncio.run(before())
    version_2(path)
    assert asyncio.run(after()) == statements
    assert asyncio.run(after()) == statements


def test_a_run_that_only_waits_in_an_older_file_is_listed_as_pending(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    asyncio.run(_made(path, count=2))
    version_2(path)

    async def story() -> None:
        store = await SqliteStore.open(path)
        found = await store.list_sessions(SessionFilter())
        assert [(one.session_id, one.status, one.agent_id) for one in found] == [
            ("s1", SessionStatus.PENDING, "a1"),
            ("s0", SessionStatus.PENDING, "a1"),
        ]
        await store.aclose()

    asyncio.run(story())


def test_a_file_of_the_first_version_still_opens_with_its_records(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = connect(path)
    prepare(connection, path, durability="process", migrations=sqlite_schema.MIGRATIONS[:1])
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    connection.close()

    async def story() -> None:
        store = await SqliteStore.open(path, durability="process")
        await end(store, await begin(store))
        assert len(await store.list_sessions(SessionFilter())) == 1
        await store.aclose()

    asyncio.run(story())


def test_questions_of_an_older_file_are_listed_for_those_whom_they_name(tmp_path: Path) -> None:
    path = tmp_path / "a.db"

    async def story() -> None:
        store = await SqliteStore.open(path, durability="process")
        await ask_bob(store)
        await store.aclose()
        connection = sqlite3.connect(path)
        assert connection.execute("SELECT name, number FROM asked_of").fetchall() == [("bob", 2)]
        # Revert the last versions.
        revert_12(connection)
        connection.execute("DROP TABLE asked_of")
        connection.execute("ALTER TABLE asked RENAME COLUMN request TO body")
        connection.execute("PRAGMA user_version = 10")
        connection.close()
        store = await SqliteStore.open(path, durability="process")
        [found] = await store.list_requests(owner="u", responders=("bob",))
        assert found.request_id == "q2"
        await store.aclose()

    asyncio.run(story())


def test_all_appends_of_an_older_file_count_as_milestones(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    step = (Draft("step.started", AT, {}),)

    async def story() -> None:
        store = await SqliteStore.open(path, durability="process")
        mine = await claim(store)
        await store.append(Batch(mine, 0, (Draft("note.made", AT, {}),)))
        await store.append(Batch(mine, 1, step))
        assert [record.seq for record in await store.milestones("s1")] == [1]
        await store.aclose()
        version_2(path)
        store = await SqliteStore.open(path, durability="process")
        assert [record.seq for record in await store.milestones("s1")] == [1, 2]
        await store.append(Batch(await claim(store), 2, step))
        assert [record.seq for record in await store.milestones("s1")] == [1, 2]
        await store.aclose()

    asyncio.run(story())


def test_all_appends_of_an_import_and_of_a_recording_count_as_milestones(tmp_path: Path) -> None:
    path = tmp_path / "a.db"

    async def story() -> None:
        store = await SqliteStore.open(path, durability="process")
        await store.append(Batch(await claim(store), 0, (Draft("step.started", AT, {}),)))
        assert await store.milestones("s1") == ()
        await store.keep(SessionCopy("s2", await store.appends("s1"), SessionNews(AT, AT)))
        assert [record.seq for record in await store.milestones("s2")] == [1]
        recorded = RecordedStore(path)
        recorded.take_in([NumberedRow("s3", 1, b'["step.started", "2026-01-31T09:30:00.250Z", {}]')])
        recorded.close()
        assert [record.seq for record in await store.milestones("s3")] == [1]
        await store.aclose()

    asyncio.run(story())


def test_a_process_of_an_older_release_that_has_the_file_open_cannot_append(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    old = connect(path)
    prepare(old, path, durability="process", migrations=sqlite_schema.MIGRATIONS[:4])

    async def story() -> None:
        store = await SqliteStore.open(path, durability="process")
        await end(store, await begin(store))
        with pytest.raises(sqlite3.IntegrityError, match="the store was migrated"):
            # The statement of each append before version 5.
            old.execute("UPDATE store SET last_position = 1, seal = x'00'")
        await end(store, await begin(store, "s2", "r2"), "r2")
        assert len(await store.list_sessions(SessionFilter())) == 2
        await store.aclose()

    asyncio.run(story())
    old.close()


@dataclass(slots=True)
class Version5Connection:
    """A connection that names the tables as a release with schema version 5 does."""

    inner: SqlConnection

    def execute(self, sql: str, parameters: Sequence[Value] = (), /) -> Cursor:
        for name, before in (("items", "inbox"), ("leases", "owners"), ("tombstones", "deleted")):
            sql = re.sub(rf"\b{name}\b", before, sql)
        if sql.startswith("INSERT INTO runs"):
            sql, parameters = f"INSERT INTO runs VALUES ({', '.join('?' * 10)})", parameters[:10]
        if sql.startswith("INSERT INTO catalog"):
            # Without the seal.
            sql, parameters = sql.replace(", ?)", ")"), parameters[:-1]
        return self.inner.execute(sql, parameters)

    def close(self) -> None:
        self.inner.close()


def test_a_process_of_an_older_release_that_has_the_file_open_cannot_take_items_or_keep_its_sessions(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.db"
    connection, locks = Version5Connection(connect(path)), OwnerLocks(path)
    key = prepare(connection, path, durability="process", migrations=sqlite_schema.MIGRATIONS[:5])
    old = SqliteTransaction(connection, key, locks=locks)
    item = encode_post(Post("s1", "message", "k1", {}), NewRun("r1", "a1", "sha256:1"), at=AT)
    old.begin()
    old.enlist("old", NOW_MS)
    number = old.post(item).number
    mine = old.claim("s1", "old", now_ms=NOW_MS)
    old.finish()
    old.commit()
    works: list[Callable[[], object]] = [
        lambda: old.enlist("old", NOW_MS + 1),
        lambda: old.claim("s1", "old", now_ms=NOW_MS),
        lambda: old.append(Batch(mine, 0, (), consumes=(number,)), b"[]"),
        lambda: old.post(item),
        # The statements of version 5 that change no other table.
        lambda: connection.execute("UPDATE inbox SET consumed_seq = 1, body = NULL WHERE number = 1"),
        lambda: connection.execute("INSERT INTO appends VALUES (1, 1, 1, 1, x'00', x'00')"),
    ]

    async def story() -> None:
        store = await SqliteStore.open(path, durability="process")
        for work in works:
            old.begin()
            with pytest.raises(sqlite3.OperationalError) as refused:
                work()
            old.rollback()
            assert "the database is damaged" in translate(refused.value).message
        # Its process lives and has its lock, but its lease is not renewed.
        assert await store.due(now_ms=NOW_MS) == ()
        later_ms = NOW_MS + OWNER_LEASE_MS
        assert await store.due(now_ms=later_ms) == ("s1",)
        taken = await claim(store, owner_id="new", now_ms=later_ms)
        assert [one.number for one in await store.pending("s1")] == [number]
        begun = (Draft("note.made", AT, {}, run_id="r1"),)
        await store.append(Batch(taken, 0, begun, consumes=(number,), runs=(("r1", RunStatus.RUNNING),)))
        row = await store.run("r1")
        assert row is not None
        assert row.status is RunStatus.RUNNING
        assert await store.pending("s1") == ()
        await store.aclose()

    asyncio.run(story())
    connection.close()
    locks.close()


# damage


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM holes",
        "UPDATE holes SET first_position = first_position + 1",
        "UPDATE holes SET seal = x'00'",
        "UPDATE holes SET first_position = 'x'",
    ],
)
def test_records_that_are_missing_without_having_been_deleted_are_damage(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.db"

    async def story() -> None:
        store = await SqliteStore.open(path, durability="process")
        for name in ("s1", "s2", "s3"):
            await end(store, await begin(store, name, f"r{name}"), f"r{name}")
        await store.delete("s2", now_ms=NOW_MS)
        assert len(await store.read_all()) == 6
        connection = sqlite3.connect(path)
        connection.execute(damage)
        connection.commit()
        connection.close()
        with pytest.raises(Corrupt):
            await store.read_all()
        await store.aclose()

    asyncio.run(story())
