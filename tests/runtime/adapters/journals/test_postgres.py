"""The PostgreSQL store beside the SQLite store: the same rows; and runtimes on it."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import psycopg
import pytest
from tests.contracts.stores import AT, GUARD_S, NOW_MS, AnyStore, claim, post, write
from tests.postgres import Postgres

from windlass import Agent, AgentRuntime
from windlass.adapters.journals.postgres import schema as postgres_schema
from windlass.adapters.journals.postgres.store import PostgresStore
from windlass.adapters.journals.sql.integrity import (
    APPEND_COLUMNS,
    CONSUMED_COLUMNS,
    INDEX,
    SESSION_COLUMNS,
)
from windlass.adapters.journals.sqlite import schema as sqlite_schema
from windlass.adapters.journals.sqlite.store import SqliteStore
from windlass.ports.store import START, Batch, NewRun
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
