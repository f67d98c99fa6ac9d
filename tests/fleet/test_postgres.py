"""The PostgreSQL store beside the SQLite store: the same rows; and runtimes on it."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg
import pytest
from tests.contracts.stores import AT, GUARD_S, NOW_MS, AnyStore, claim, post, write
from tests.contracts.test_store_catalog import ask_bob, begin, fact, names

from tools.postgres import Postgres
from windlass import Agent, AgentRuntime
from windlass.ports.archive import SessionCopy
from windlass.ports.documents import Document
from windlass.ports.inbox import NewRun
from windlass.ports.journal import Batch
from windlass.ports.listing import (
    CountFilter,
    RefusedStart,
    RunFilter,
    RunOrder,
    RunSort,
    SessionFilter,
    SessionOrder,
    SessionSort,
)
from windlass.ports.permits import PermitAsk
from windlass.ports.store import ContentStore, Store
from windlass.postgres import schema as postgres_schema
from windlass.postgres import writes as postgres_writes
from windlass.postgres.link import (
    PostgresLink,
    _translate_parameters,  # pyright: ignore[reportPrivateUsage]
    parse_address,
)
from windlass.postgres.schema import MIGRATIONS, migrate_tables
from windlass.postgres.store import PostgresStore
from windlass.sql.integrity import (
    APPEND_COLUMNS,
    CONSUMED_COLUMNS,
    INDEX,
    SESSION_COLUMNS,
)
from windlass.sql.statements import Cursor, Value
from windlass.sqlite import schema as sqlite_schema
from windlass.sqlite.store import SqliteStore
from windlass.testing import ScriptedModel, say
from windlass_harness.loop.events import Draft
from windlass_harness.loop.subagents import START
from windlass_harness.views.listing import SessionNews
from windlass_protocol import ErrorCode, ErrorKind, JsonObject, RetryClass, RunStatus, SessionStatus

TABLES: Final = {
    "sessions": SESSION_COLUMNS,
    "appends": f"{APPEND_COLUMNS}, milestone",
    "items": CONSUMED_COLUMNS,
    **INDEX,
}


async def story(store: AnyStore) -> None:
    """Write something to most tables."""
    body: JsonObject = {
        "runId": "r1",
        "agentId": "a1",
        "packageFingerprint": "sha256:1",
        "input": {"text": "Grüße"},
    }
    run = NewRun("r1", "a1", "sha256:1", at=AT)
    item = await store.post("s1", kind=START, key="r1", body=body, run=run)
    mine = await claim(store)
    begun = Draft("run.started", AT, {"runId": "r1", "agentId": "a1"}, "r1", "a1")
    await store.append(Batch(mine, 0, (begun,), consumes=(item.number,), runs=(("r1", RunStatus.RUNNING),)))
    await write(store, mine, *range(40), after=1)
    await write(store, await claim(store, "s2"), 1)
    done = Draft("run.completed", AT, {"runId": "r1", "output": "x"}, "r1", "a1")
    ended = Batch(mine, 41, (done,), runs=(("r1", RunStatus.COMPLETED),))
    await store.append(ended)
    await post(store, "a", "s3")
    await store.put(b"content", session_id="s1")
    await store.claim("s3", "o1", now_ms=NOW_MS)


def rows_of(execute: Callable[[str], Sequence[Sequence[object]]]) -> dict[str, list[tuple[object, ...]]]:
    return {
        table: sorted((tuple(row) for row in execute(f"SELECT {columns} FROM {table}")), key=repr)
        for table, columns in TABLES.items()
    }


@pytest.mark.promise("J3")
def test_both_databases_hold_the_same_rows_chains_and_seals(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def same(size: int) -> bytes:
        return bytes(range(size))

    monkeypatch.setattr(sqlite_schema.secrets, "token_bytes", same)
    assert postgres_schema.secrets is sqlite_schema.secrets
    address, schema = postgres.new_schema()

    async def main() -> None:
        async with asyncio.timeout(GUARD_S):
            for store in (
                await SqliteStore.open(tmp_path / "app.db"),
                await PostgresStore.open(address, schema=schema),
            ):
                await story(store)
                await store.aclose()

    asyncio.run(main())
    with sqlite3.connect(tmp_path / "app.db") as file:
        ours = rows_of(lambda sql: file.execute(sql).fetchall())
    with psycopg.connect(address) as connection:
        connection.execute(f"SET search_path = {schema}".encode())
        theirs = rows_of(lambda sql: connection.execute(sql.encode()).fetchall())
    file.close()
    assert all(ours[name] for name in ("sessions", "appends", "items", "runs", "catalog", "contents"))
    assert theirs == ours


def play(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(GUARD_S):
            await work()

    asyncio.run(main())


@pytest.mark.promise("J1")
def test_a_runtime_opens_a_database_by_its_address_and_another_reads_its_runs(postgres: Postgres) -> None:
    async def work() -> None:
        address = postgres.new_database()
        model = ScriptedModel([say("Hello")])
        helper = Agent("helper", model=model, instructions="Help.")
        async with AgentRuntime.open(address, agents=[helper]) as runtime:
            result = await (await runtime.start_run(helper, "Hi", run_id="r1")).wait()
            assert result.output == "Hello"
        async with AgentRuntime.open(address, agents=[helper]) as again:
            # The same start is the same run: the model is not asked again.
            assert await (await again.start_run(helper, "Hi", run_id="r1")).wait() == result
            assert len(model.requests) == 1

    play(work)


PARKED: Final = 20_000
LARGE: Final = {
    *("sessions", "appends", "items", "runs", "run_tags", "catalog", "snapshots", "asked", "asked_of"),
    *("settled", "contents", "content_uses", "tombstones", "holes", "documents", "words"),
}
"""Tables that grow with the number of sessions."""
_AT: Final = """to_char(timestamp '2026-01-01' + n * interval '1 minute', 'YYYY-MM-DD"T"HH24:MI:SS.000"Z"')"""
_FILL: Final = (
    """INSERT INTO sessions SELECT n, 'parked' || n, 1, 3, n * 3, '\\x00', 'waiting',
        CASE WHEN n % 1000 = 0 THEN 5000000 + n END, NULL, '\\x00' FROM generate_series(1001, {0}) n""",
    """INSERT INTO appends SELECT n * 3, n, 3, 1, '\\x00', '\\x00', 1, 0 FROM generate_series(1001, {0}) n""",
    """INSERT INTO items SELECT n, n, 'start', 'k', '\\x00', 1, '\\x00', NULL, 0
        FROM generate_series(1001, {0}) n""",
    """INSERT INTO runs (run_id, session_key, agent_id, fingerprint, status, first_seq, item, started_at,
        seal, at, owner, error, crashes, rating, cost_micros, duration_ms)
        SELECT 'parked' || n, n, 'a' || n % 50, 'f' || n % 50,
        CASE WHEN n % 100 = 0 THEN 'waiting' ELSE 'completed' END, 1, n, {1},
        '\\x00', {1}, 'user' || n % 500, CASE WHEN n % 100 = 1 THEN 'tool_failure' END,
        n % 100 / 99, n % 100 / 99, n, n FROM generate_series(1001, {0}) n""",
    """INSERT INTO run_tags SELECT 'tag' || n % 100, 'parked' || n, n FROM generate_series(1001, {0}) n""",
    """INSERT INTO catalog SELECT n, n, 't', 'a' || n % 50, CASE WHEN n % 100 = 0 THEN 'waiting' ELSE
        'completed' END, 'user' || n % 500, {1}, {1}, '{{"costMicros":' || n || '}}',
        CASE WHEN n % 5 = 0 THEN 'parked' || n - 1
        END, NULL, NULL, NULL, '\\x00' FROM generate_series(1001, {0}) n""",
    """INSERT INTO snapshots SELECT n, 3, '\\x00', '\\x00' FROM generate_series(1001, {0}) n""",
    """INSERT INTO asked (session_key, request_id, run_id, agent_id, owner, asked_at, request, seal)
        SELECT n, 'q' || n, 'parked' || n, 'a' || n % 50, 'user' || n % 500, '2026', '\\x00', '\\x00'
        FROM generate_series(1001, {0}) n""",
    """INSERT INTO asked_of SELECT CASE WHEN number % 3 = 0 THEN 'ann' ELSE 'x' || number END, number,
        session_key FROM asked""",
    """INSERT INTO settled SELECT 's' || n, n, 'parked' || n, 'ann', 'answered', NULL, NULL, '2026', '\\x00'
        FROM generate_series(1001, {0}) n""",
    """INSERT INTO contents SELECT 'sha256:' || n, 'x', '\\x00', '\\x00' FROM generate_series(1001, {0}) n""",
    """INSERT INTO content_uses SELECT n, 'sha256:' || n FROM generate_series(1001, {0}) n""",
    """INSERT INTO tombstones SELECT -n, '\\x00' FROM generate_series(1001, {0}) n""",
    """INSERT INTO holes SELECT n * 3 - 1, n * 3 - 1, '\\x00', 0 FROM generate_series(1001, {0}) n""",
    """INSERT INTO documents SELECT 'key', 'k' || n, 1, '{{}}', 5000000 + n, '\\x00'
        FROM generate_series(1001, {0}) n""",
    """INSERT INTO words (session_key, words) SELECT n, array_to_tsvector(ARRAY['w' || n % 1000])
        FROM generate_series(1001, {0}) n""",
    "SELECT setval('positions', {0} * 3), setval('item_numbers', {0}), setval('session_numbers', {0})",
)
"""Rows of sessions that ended or wait for people, without valid seals: plans do not read them."""
EARLY, LATE = "2026-01-01T17:30:00.000Z", "2026-01-14T12:00:00.000Z"
"""Few of the runs are before the first, and few are after the second."""
SESSION_FILTERS: Final[dict[str, Any]] = {
    "agent_id": "a1",
    "status": SessionStatus.WAITING,
    "owner": "user1",
    "words": ("w1",),
    "root_only": False,
    "since": LATE,
    "until": EARLY,
    "cost_micros": (19_990, None),
    "run": RunFilter(tag="tag1", has_crashed=True),
}
RUN_FILTERS: Final[dict[str, Any]] = {
    "session_id": "s1",
    "agent_id": "a1",
    "status": RunStatus.WAITING,
    "owner": "user1",
    "root_only": True,
    "playground": True,
    "waits_on": "person",
    "fingerprint": "f1",
    "error": "tool_failure",
    "tag": "tag1",
    "rating": 1,
    "has_crashed": True,
    "since": LATE,
    "until": EARLY,
    "cost_micros": (19_990, None),
    "duration_ms": (19_990, None),
    "words": ("w1",),
    "run_ids": ("parked1500", "parked1501"),
}
WHOLE: Final = {"run_counts", "open_runs", "waiting", "count_listed", "count_listed_runs"}
"""Methods that count: all runs of a time, all that is unfinished or waits, or rows up to a bound."""
ANEW: Final = "DELETE FROM words"
"""The search index of another release is made anew."""


class Caller:
    """Calls a store, and notes which method ran which statements."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self.called: set[str] = set()
        self.now = ""

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*given: Any, **named: Any) -> Any:
            self.called.add(name)
            self.now = name
            return await getattr(self._store, name)(*given, **named)

        return call


async def everything(store: Any) -> None:
    """Call every method of a store, and every filter of its lists by itself."""
    await story(store)
    await write(store, await claim(store, "gone"), 1, is_last=True)
    for agents in (("a1",), None):
        await store.due(now_ms=NOW_MS, agents=agents)
    for name in ("next_wake_ms", "last_position", "open_runs", "waiting"):
        await getattr(store, name)()
    await store.waiting(owner="user1", agent_id="a1")
    await store.living(now_ms=NOW_MS)
    await store.arrivals(after=0)
    await store.read_all(limit=10)
    for name in ("read", "milestones", "pending", "session", "is_deleted", "load", "session_info"):
        await getattr(store, name)("s1")
    for name in ("appends", "read_items", "contents_of"):
        await getattr(store, name)("s1")
    await store.sessions(after="parked1500", limit=10)
    await store.run("r1")
    await store.save("s1", 1, state=b"x")
    for named in ({}, *({name: value} for name, value in SESSION_FILTERS.items())):
        for by in SessionSort:
            for order in (SessionOrder(by), SessionOrder(by, is_ascending=True)):
                await store.list_sessions(SessionFilter(**named), order=order, limit=10)
        await store.count_listed(SessionFilter(**named), most=100)
    await store.list_sessions(SessionFilter(), order=SessionOrder(after=(15_000, 15_000)), limit=10)
    await store.list_sessions(
        SessionFilter(), order=SessionOrder(SessionSort.UPDATED, after=(EARLY, 1_050)), limit=10
    )
    for named in ({}, *({name: value} for name, value in RUN_FILTERS.items())):
        for by in RunSort:
            for order in (RunOrder(by), RunOrder(by, is_ascending=True)):
                await store.list_runs(RunFilter(**named), order=order, limit=10)
        await store.count_listed_runs(RunFilter(**named), most=100)
    after = RunOrder(is_ascending=True, after=(EARLY, 1_050))
    await store.list_runs(RunFilter(root_only=True, until=EARLY), order=after, limit=10)
    await store.list_requests(limit=10)
    await store.list_requests(owner="user1", responders=("user2",), limit=10)
    await store.find_request("q1")
    for split in (None, "agent", "owner", "version"):
        await store.run_counts(CountFilter(EARLY, LATE, 3_600_000, owner="user1", split=split))
    await store.record_refusal(
        RefusedStart(
            at=AT,
            run_id="r9",
            session_id="s1",
            agent_id="a1",
            owner="ann",
            source=None,
            code=ErrorCode.DENIED,
            kind=ErrorKind.POLICY_DENIAL,
            retry=RetryClass.NOT_RETRYABLE,
            message="no",
        )
    )
    for named in ({}, {"owner": "ann"}, {"agent_id": "a1"}):
        await store.list_refusals(**named, limit=10)
    first = Document("key", "one", 1, {}, 5)
    await store.put_document(first)
    await store.put_document(replace(first, revision=2))
    await store.document("key", "one")
    await store.documents("key", limit=10)
    await store.due_documents("key", now_ms=10, limit=10)
    await store.next_document_ms("key")
    await store.drop_document(replace(first, revision=2))
    ref = await store.put(b"content", session_id="s1")
    await store.get(ref)
    copied = (await store.appends("s2"))[0]
    told = SessionNews(AT, title="t", agent_id="a1")
    await store.keep(SessionCopy("kept", (copied,), told))
    await store.delete("gone", now_ms=NOW_MS)
    await store.delete("kept", now_ms=NOW_MS, idle_since="9")
    await store.retire("o1")


def test_no_statement_of_a_large_store_reads_a_whole_table(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, schema = postgres.new_schema()
    seen: dict[str, tuple[str, tuple[object, ...]]] = {}
    execute, callers = PostgresLink.execute, list[Caller]()

    def noted(link: PostgresLink, sql: str, parameters: Sequence[Value] = (), /) -> Cursor:
        if sql.lstrip().startswith(("SELECT", "WITH", "INSERT", "UPDATE", "DELETE")):
            seen[sql] = (callers[0].now, tuple(parameters))
        return execute(link, sql, parameters)

    async def work() -> None:
        store = await PostgresStore.open(address, schema=schema)
        callers.append(Caller(store))
        monkeypatch.setattr(PostgresLink, "execute", noted)
        await everything(callers[0])
        monkeypatch.undo()
        await store.aclose()

    play(work)
    methods = {name for port in (Store, ContentStore) for name in dir(port) if not name.startswith("_")}
    assert methods - callers[0].called == {"aclose"}
    assert {one.name for one in fields(SessionFilter)} == {*SESSION_FILTERS}
    assert {one.name for one in fields(RunFilter)} == {*RUN_FILTERS}
    whole: list[str] = []
    with psycopg.connect(address, autocommit=True) as admin:
        admin.execute(f"SET search_path = {schema}".encode())
        for sql in _FILL:
            admin.execute(sql.format(PARKED, _AT).encode())
        admin.execute("ANALYZE")
        for sql, (method, parameters) in seen.items():
            given, text = parameters, _translate_parameters(sql)
            named = {str(number): one for number, one in enumerate(given, 1)} if "?1" in sql else given
            cursor = psycopg.ClientCursor(admin)
            [(plan,)] = cursor.execute(f"EXPLAIN (FORMAT JSON) {text}".encode(), named).fetchall()
            for node in nodes_of(plan[0]["Plan"]):
                is_whole = node["Node Type"] == "Seq Scan" and node["Relation Name"] in LARGE
                if is_whole and method not in WHOLE and sql != ANEW:
                    whole.append(f"{method} of {node['Relation Name']}: {' '.join(sql.split())}")
    assert len(seen) > 150
    assert "\n".join(whole) == ""


def test_questions_of_an_older_store_are_listed_for_those_whom_they_name(postgres: Postgres) -> None:
    address, schema = postgres.new_schema()

    async def work() -> None:
        store = await PostgresStore.open(address, schema=schema)
        await ask_bob(store)
        await store.aclose()
        with psycopg.connect(address, autocommit=True) as admin:
            admin.execute(f"SET search_path = {schema}".encode())
            assert admin.execute("SELECT name FROM asked_of").fetchall() == [("bob",)]
            # Revert the last versions.
            admin.execute("DROP INDEX catalog_by_update, catalog_by_cost")
            admin.execute("DROP TABLE asked_of")
            admin.execute("ALTER TABLE asked RENAME COLUMN request TO body")
            admin.execute("UPDATE store SET version = 2")
        place = parse_address(address, schema=schema)
        assert await asyncio.to_thread(migrate_tables, place, is_trial=False) == (2, len(MIGRATIONS))
        store = await PostgresStore.open(address, schema=schema)
        [found] = await store.list_requests(owner="u", responders=("bob",))
        assert found.request_id == "q2"
        await store.aclose()

    play(work)


def test_rows_of_the_search_index_and_the_appends_of_one_transaction_have_limits(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_writes, "WORDS_ROWS_MAX", 2)
    monkeypatch.setattr(postgres_writes, "WORDS_PER_ROW_MAX", 3)
    address, schema = postgres.new_schema()

    async def work() -> None:
        store = await PostgresStore.open(address, schema=schema)
        mine = await begin(store, message="one two three four five six seven")
        answers = ("eight", "nine", "ten", "eleven", "twelve")
        for after, word in enumerate(answers, mine.last_seq + 2):
            await store.append(Batch(mine, after, (fact("message.completed", message=word),)))
        # The last first: one search indexes all appends before it looks.
        for word in (*reversed(answers), "one", "four", "seven"):
            assert await names(store, SessionFilter(words=(word,))) == ["s1"], word
        await store.aclose()
        with psycopg.connect(address) as admin:
            [(most,)] = admin.execute(f"SELECT max(length(words)) FROM {schema}.words".encode()).fetchall()
        assert most == 3

    play(work)


@pytest.mark.parametrize("roles", ["off", "on"])
def test_calls_to_a_provider_are_counted_for_all_tenants_of_a_database(
    postgres: Postgres, roles: str
) -> None:
    database = postgres.new_database()
    # Roles belong to the cluster, which tests share.
    name, address = urlsplit(database).path.removeprefix("/"), f"{database}&roles={roles}"

    async def work() -> None:
        given: list[int] = []
        stores = [
            await PostgresStore.open(address, schema=schema)
            for schema in (f"windlass_t_{name}_a", f"windlass_t_{name}_b", f"app_{name}")
        ]
        # All make the table at once.
        asks = [
            PermitAsk("acme", str(at), 1, at_once=3, per_minute=9, tokens_per_minute=None, held=0)
            for at in range(3)
        ]
        await asyncio.gather(*(store.take_permits(ask) for store, ask in zip(stores, asks, strict=True)))
        for number, store in enumerate(stores):
            ask = replace(asks[number], number=2, wants=2)
            given.append((await store.take_permits(ask)).count)
            await store.aclose()
        assert given == [2, 1, 2]

    play(work)


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes_of(below)
