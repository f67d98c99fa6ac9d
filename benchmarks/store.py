"""The SQLite store beside raw SQLite: an append, a group of them, a read.

`python -m benchmarks.store` prints more than the table holds: other page sizes and the bytes written.
"""

import asyncio
import json
import sqlite3
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Final
from unittest.mock import patch

from benchmarks.measure import Row
from benchmarks.samples import TEXT
from windlass.adapters.journals.sqlite import schema as sqlite_schema
from windlass.adapters.journals.sqlite.schema import Durability
from windlass.adapters.journals.sqlite.store import SqliteStore
from windlass.ports.store import Batch
from windlass_harness.loop.events import Draft
from windlass_protocol import JsonObject

APPENDS: Final = 1_000
SESSIONS: Final = 50
ROUNDS: Final = 5
NOW_MS: Final = 1_000_000
AT: Final = "2026-01-31T09:30:00.250Z"


def batch(index: int) -> tuple[Draft, ...]:
    """Return the records of a model's answer, about a kilobyte."""
    step: JsonObject = {"sequence": 0, "turnId": "t1", "stepIndex": index}
    request: JsonObject = {
        "kind": "tool-call",
        "callId": f"c{index}",
        "toolName": "look",
        "input": {"n": index},
    }
    usage: JsonObject = {"inputTokens": 900, "outputTokens": 40}
    facts: list[tuple[str, JsonObject]] = [
        ("message.completed", {**step, "message": TEXT * 5, "finishReason": "tool-calls"}),
        ("actions.requested", {**step, "actions": [request]}),
        ("step.completed", {**step, "finishReason": "tool-calls", "usage": usage}),
    ]
    return tuple(Draft(type_, AT, data, "r1", "a1", "t1", index) for type_, data in facts)


def body(index: int) -> bytes:
    """Return the same records as raw SQLite gets them."""
    return json.dumps(
        [[each.type, each.at, each.data, "r1", "a1", "t1", index] for each in batch(index)]
    ).encode()


def written_bytes() -> int:
    """Return the bytes that this process has written so far."""
    lines = Path("/proc/self/io").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


def raw(folder: Path, durability: Durability) -> sqlite3.Connection:
    """Return a database with the least that an append needs: a row and an index."""
    connection = sqlite3.connect(folder / "raw.db", isolation_level=None)
    for sql in (
        f"PRAGMA page_size = {sqlite_schema.PAGE_BYTES}",
        "PRAGMA journal_mode = WAL",
        f"PRAGMA synchronous = {'FULL' if durability == 'power' else 'NORMAL'}",
        "CREATE TABLE IF NOT EXISTS appends (position INTEGER PRIMARY KEY, session, seq, body BLOB)",
        "CREATE UNIQUE INDEX IF NOT EXISTS by_session ON appends (session, seq)",
    ):
        connection.execute(sql).fetchall()
    return connection


def raw_appends(connection: sqlite3.Connection) -> None:
    for index in range(APPENDS):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO appends VALUES (?, 1, ?, ?)", (index, index, body(index)))
        connection.execute("COMMIT")


async def our_appends(store: SqliteStore, session_id: str, *, count: int) -> None:
    claim = await store.claim(session_id, "o1", now_ms=NOW_MS)
    for index in range(count):
        await store.append(Batch(claim, 3 * index, batch(index)))


async def in_store(durability: Durability, work: Callable[[SqliteStore, Path], Awaitable[float]]) -> float:
    """Return the result of work on a fresh store."""
    with tempfile.TemporaryDirectory() as folder:
        store = await SqliteStore.open(Path(folder) / "store.db", durability=durability)
        await store.enlist("o1", now_ms=NOW_MS)
        result = await work(store, Path(folder))
        await store.aclose()
    return result


async def append_cost(store: SqliteStore, folder: Path) -> float:
    began = process_time()
    await our_appends(store, "s1", count=APPENDS)
    return (process_time() - began) / APPENDS * 1e6


async def append_bytes(store: SqliteStore, folder: Path) -> float:
    began = written_bytes()
    await our_appends(store, "s1", count=APPENDS)
    return (written_bytes() - began) / APPENDS


async def group_cost(store: SqliteStore, folder: Path) -> float:
    began = process_time()
    each = APPENDS // SESSIONS
    await asyncio.gather(*(our_appends(store, f"s{index}", count=each) for index in range(SESSIONS)))
    return (process_time() - began) / APPENDS * 1e6


async def group_rate(store: SqliteStore, folder: Path) -> float:
    began = perf_counter()
    await group_cost(store, folder)
    return 3 * APPENDS / (perf_counter() - began)


async def read_cost(store: SqliteStore, folder: Path) -> float:
    await our_appends(store, "s1", count=APPENDS)
    began = process_time()
    assert len(await store.read("s1", limit=10 * APPENDS)) == 3 * APPENDS
    return (process_time() - began) * 1e6


def raw_append_cost(durability: Durability) -> float:
    with tempfile.TemporaryDirectory() as folder:
        connection = raw(Path(folder), durability)
        began = process_time()
        raw_appends(connection)
        cost = (process_time() - began) / APPENDS * 1e6
        connection.close()
    return cost


def raw_read_cost() -> float:
    with tempfile.TemporaryDirectory() as folder:
        connection = raw(Path(folder), "process")
        raw_appends(connection)
        began = process_time()
        rows = connection.execute("SELECT body FROM appends WHERE session = 1 ORDER BY seq").fetchall()
        parsed = [json.loads(row[0]) for row in rows]
        cost = (process_time() - began) * 1e6
        assert len(parsed) == APPENDS
        connection.close()
    return cost


def best(work: Callable[[], float]) -> float:
    return min(work() for _ in range(ROUNDS))


def store_rows() -> list[Row]:
    """Return the lines of the table."""
    rows: list[Row] = []
    durabilities: tuple[Durability, ...] = ("power", "process")
    for durability in durabilities:
        floor = best(lambda d=durability: raw_append_cost(d))
        for what, work in (
            (f"append of 1 KB, {durability}", append_cost),
            (f"… with {SESSIONS} sessions at once", group_cost),
        ):
            cost = best(lambda d=durability, w=work: asyncio.run(in_store(d, w)))
            rows.append(Row(what, cost, "µs", "raw SQLite insert and commit", cost / floor))
    floor, cost = best(raw_read_cost), best(lambda: asyncio.run(in_store("process", read_cost)))
    rows.append(Row(f"read of {APPENDS:,} appends", cost, "µs", "raw SELECT and json.loads", cost / floor))
    return rows


def main() -> int:
    for row in store_rows():
        print(f"{row.what}: {row.cost:.1f} {row.unit}, {row.ratio:.2f} x {row.baseline}")
    rate = max(asyncio.run(in_store("power", group_rate)) for _ in range(ROUNDS))
    print(f"{SESSIONS} sessions at once, power: {rate:,.0f} records/s")
    size = sum(len(body(index)) for index in range(APPENDS)) / APPENDS
    for page_bytes in (1_024, 2_048, 4_096):
        with patch.object(sqlite_schema, "PAGE_BYTES", page_bytes):
            written = asyncio.run(in_store("process", append_bytes))
        print(f"pages of {page_bytes:,} bytes: {written:,.0f} bytes written for {size:,.0f} of content")
    return 0


if __name__ == "__main__":
    sys.exit(main())
