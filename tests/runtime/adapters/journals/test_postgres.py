"""The PostgreSQL store beside the SQLite store: the same rows; and runtimes on it."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from tests.contracts.stores import AT, GUARD_S, NOW_MS, AnyStore, claim, post, write
from tests.contracts.test_store_catalog import ask_bob
from tests.postgres import Postgres

from windlass import Agent, AgentRuntime
from windlass.adapters.journals.postgres import schema as postgres_schema
from windlass.adapters.journals.postgres.link import (
    Link,
    _translated,  # pyright: ignore[reportPrivateUsage]
    address_of,
)
from windlass.adapters.journals.postgres.schema import MIGRATIONS, migrated
from windlass.adapters.journals.postgres.store import PostgresStore
from windlass.adapters.journals.sql.integrity import (
    APPEND_COLUMNS,
    CONSUMED_COLUMNS,
    INDEX,
    SESSION_COLUMNS,
)
from windlass.adapters.journals.sql.statements import Cursor, Value
from windlass.adapters.journals.sqlite import schema as sqlite_schema
from windlass.adapters.journals.sqlite.store import SqliteStore
from windlass.ports.store import START, Batch, NewRun, PermitAsk, RunFilter, SessionFilter
from windlass.testing import ScriptedModel, say
from windlass_harness.loop.events import Draft
from windlass_protocol import JsonObject, RunStatus

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
            result = await (await runtime.start(helper, "Hi", run_id="r1")).wait()
            assert result.output == "Hello"
        async with AgentRuntime.open(address, agents=[helper]) as again:
            # The same start is the same run: the model is not asked again.
            assert await (await again.start(helper, "Hi", run_id="r1")).wait() == result
            assert len(model.requests) == 1

    play(work)


PARKED: Final = 20_000
LARGE: Final = {
    "sessions",
    "appends",
    "items",
    "runs",
    "catalog",
    "snapshots",
    "asked",
    "asked_of",
    "settled",
}
"""Tables with rows for each session."""
_FILL: Final = (
    """INSERT INTO sessions SELECT n, 'parked' || n, 1, 3, n * 3, '\\x00', 'waiting',
        CASE WHEN n % 1000 = 0 THEN 5000000 + n END, NULL, '\\x00' FROM generate_series(1001, {0}) n""",
    """INSERT INTO appends SELECT n * 3, n, 3, 1, '\\x00', '\\x00', 1, 0 FROM generate_series(1001, {0}) n""",
    """INSERT INTO items SELECT n, n, 'start', 'k', '\\x00', 1, '\\x00', NULL, 0
        FROM generate_series(1001, {0}) n""",
    """INSERT INTO runs SELECT 'parked' || n, n, 'a1', 'f', CASE WHEN n % 10 = 0 THEN 'waiting' ELSE
        'completed' END, 1, n, '2026-01-01', NULL, NULL, '\\x00' FROM generate_series(1001, {0}) n""",
    """INSERT INTO catalog SELECT n, n, 't', 'a1', 'waiting', 'ann', '2026', '2026', '{{}}', NULL, NULL, NULL,
        NULL, '\\x00' FROM generate_series(1001, {0}) n""",
    """INSERT INTO snapshots SELECT n, 3, '\\x00', '\\x00' FROM generate_series(1001, {0}) n""",
    """INSERT INTO asked (session_key, request_id, run_id, agent_id, owner, asked_at, request, seal)
        SELECT n, 'q' || n, 'parked' || n, 'a1', 'ann', '2026', '\\x00', '\\x00'
        FROM generate_series(1001, {0}) n""",
    """INSERT INTO asked_of SELECT CASE WHEN number % 3 = 0 THEN 'ann' ELSE 'x' || number END, number,
        session_key FROM asked""",
    """INSERT INTO settled SELECT 's' || n, n, 'parked' || n, 'ann', 'answered', NULL, NULL, '2026', '\\x00'
        FROM generate_series(1001, {0}) n""",
    "SELECT setval('positions', {0} * 3), setval('item_numbers', {0}), setval('session_numbers', {0})",
)
"""Rows of sessions that wait for people, without valid seals: plans do not read them."""


def test_no_statement_of_a_large_store_reads_a_whole_table(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, schema = postgres.new_schema()
    seen: dict[str, tuple[object, ...]] = {}
    execute = Link.execute

    def noted(link: Link, sql: str, parameters: Sequence[Value] = (), /) -> Cursor:
        if sql.lstrip().startswith(("SELECT", "INSERT", "UPDATE", "DELETE")):
            seen[sql] = tuple(parameters)
        return execute(link, sql, parameters)

    async def work() -> None:
        store = await PostgresStore.open(address, schema=schema)
        monkeypatch.setattr(Link, "execute", noted)
        await story(store)
        await write(store, await claim(store, "gone"), 1, is_last=True)
        assert await store.due(now_ms=NOW_MS, agents=("a1",)) is not None
        assert await store.due(now_ms=NOW_MS) is not None
        await store.next_wake_ms()
        await store.arrivals(after=0)
        await store.last_position()
        await store.read_all(limit=10)
        await store.read("s1")
        await store.pending("s3")
        await store.run("r1")
        await store.session("s1")
        await store.listed(SessionFilter(), limit=10)
        await store.listed(SessionFilter(owner="ann"), limit=10)
        await store.listed_runs(RunFilter(), limit=10)
        await store.listed_requests(limit=10)
        await store.listed_requests(owner="ann", named=("ann", "support"), limit=10)
        await store.find_request("q1")
        await store.load("s1")
        await store.kept_items("s1")
        await store.delete("gone", now_ms=NOW_MS)
        await store.aclose()

    play(work)
    monkeypatch.undo()
    whole: dict[str, str] = {}
    with psycopg.connect(address, autocommit=True) as admin:
        admin.execute(f"SET search_path = {schema}".encode())
        for sql in _FILL:
            admin.execute(sql.format(PARKED).encode())
        admin.execute("ANALYZE")
        for sql, parameters in seen.items():
            given, text = parameters, _translated(sql)
            named = {str(number): one for number, one in enumerate(given, 1)} if "?1" in sql else given
            cursor = psycopg.ClientCursor(admin)
            [(plan,)] = cursor.execute(f"EXPLAIN (FORMAT JSON) {text}".encode(), named).fetchall()
            for node in nodes_of(plan[0]["Plan"]):
                if node["Node Type"] == "Seq Scan" and node["Relation Name"] in LARGE:
                    whole[" ".join(sql.split())] = node["Relation Name"]
    assert len(seen) > 50
    assert whole == {}


def test_questions_of_an_older_store_are_listed_for_those_whom_they_name(postgres: Postgres) -> None:
    address, schema = postgres.new_schema()

    async def work() -> None:
        store = await PostgresStore.open(address, schema=schema)
        await ask_bob(store)
        await store.aclose()
        with psycopg.connect(address, autocommit=True) as admin:
            admin.execute(f"SET search_path = {schema}".encode())
            assert admin.execute("SELECT name FROM asked_of").fetchall() == [("bob",)]
            # Revert the last version.
            admin.execute("DROP TABLE asked_of")
            admin.execute("ALTER TABLE asked RENAME COLUMN request TO body")
            admin.execute("UPDATE store SET version = 2")
        place = address_of(address, schema=schema)
        assert await asyncio.to_thread(migrated, place, is_trial=False) == (2, len(MIGRATIONS))
        store = await PostgresStore.open(address, schema=schema)
        [found] = await store.listed_requests(owner="u", named=("bob",))
        assert found.request_id == "q2"
        await store.aclose()

    play(work)


def test_calls_to_a_provider_are_counted_for_all_tenants_of_a_database(postgres: Postgres) -> None:
    address = postgres.new_database()

    async def work() -> None:
        given: list[int] = []
        stores = [
            await PostgresStore.open(address, schema=schema)
            for schema in ("windlass_t_acme", "windlass_t_zoo", "app")
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
