"""Lists of runs in a large store: `python -m benchmarks.runs_list`.

A SQLite store gets a million rows in its index, as a year of runs would leave them, and answers the questions
of the page of runs: pages, filters, orders and rare combinations. The table has wall-clock milliseconds of a
first page of 50 runs with their checksums verified; `--rows` makes a smaller store.
"""

import argparse
import asyncio
import random
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Final

from windlass.ports.inbox import NewRun
from windlass.ports.listing import RunFilter, RunOrder, RunSort
from windlass.sql.integrity import RUN_COLUMNS, STORE, StoreKey
from windlass.sql.listing import RunColumns, new_run
from windlass.sqlite.store import SqliteStore
from windlass_harness.times import stamp_of
from windlass_protocol import JsonObject, RunStatus

ROWS: Final = 1_000_000
ROUNDS: Final = 20
PAGE: Final = 50
FIRST_MS: Final = 1_767_225_600_000
APART_MS: Final = 30_000
SESSION: Final = "s1"
_INSERT: Final = f"INSERT INTO runs ({RUN_COLUMNS}) VALUES ({', '.join('?' * len(RUN_COLUMNS.split(', ')))})"
_KINDS: Final = ("provider_failure", "tool_failure", "budget_exhausted")


def questions(rows: int) -> dict[str, tuple[RunFilter, RunOrder]]:
    """The questions of the page of runs."""
    newest, day = RunOrder(), stamp_of(FIRST_MS + (rows - 2_880) * APART_MS)
    middle = (stamp_of(FIRST_MS + rows // 2 * APART_MS), rows // 2)
    ann = RunFilter(owner="ann", root_only=True)
    return {
        "the first page": (ann, newest),
        "a page in the middle": (ann, RunOrder(after=middle)),
        "the last day": (RunFilter(owner="ann", since=day), newest),
        "one agent": (RunFilter(owner="ann", agent_id="agent-3"), newest),
        "a rare agent": (RunFilter(owner="ann", agent_id="agent-rare"), newest),
        "failed": (RunFilter(owner="ann", status=RunStatus.FAILED), newest),
        "waits for a person": (RunFilter(owner="ann", waits_on="input"), newest),
        "any error, dear": (RunFilter(owner="ann", error="", cost_micros=(900_000, None)), newest),
        "survived a crash": (RunFilter(owner="ann", has_crashed=True), newest),
        "one version": (RunFilter(owner="ann", fingerprint=f"sha256:{7:064x}"), newest),
        "a tag": (RunFilter(owner="ann", tag="beta"), newest),
        "thumb down": (RunFilter(owner="ann", rating=-1), newest),
        "nothing fits": (RunFilter(owner="ann", agent_id="nobody", duration_ms=(1, 2)), newest),
        "an owner with few runs": (RunFilter(owner="bob", status=RunStatus.FAILED), newest),
        "the dearest of the last day": (RunFilter(owner="ann", since=day), RunOrder(RunSort.COST)),
        "the dearest of all": (ann, RunOrder(RunSort.COST)),
        "the longest of all": (ann, RunOrder(RunSort.DURATION)),
        "the cheapest of an agent": (
            RunFilter(owner="ann", agent_id="agent-3"),
            RunOrder(RunSort.COST, is_ascending=True),
        ),
    }


def made(
    count: int, session_key: int, chance: random.Random, owner: str = "ann", first_ms: int = FIRST_MS
) -> Iterator[RunColumns]:
    """Rows as runs leave them."""
    for number in range(2, count + 1):
        at = first_ms + number * APART_MS
        took, cost, tokens = (
            chance.randrange(200, 90_000),
            chance.randrange(1_000_000),
            chance.randrange(90_000),
        )
        is_rare, is_failed = number % 50_021 == 0, number % 23 == 0
        is_waiting = number % 40_009 == 0
        status = RunStatus.WAITING if is_waiting else RunStatus.FAILED if is_failed else RunStatus.COMPLETED
        row = new_run(
            f"{at:012x}{chance.getrandbits(80):020x}",
            session_key,
            agent_id="agent-rare" if is_rare else f"agent-{number % 8}",
            fingerprint=f"sha256:{number % 40:064x}",
            item=number,
            at=stamp_of(at),
            owner="bob" if number % 1_009 == 0 else owner,
            rank=int(number % 9 != 0),
            input=f"Refund order {number}, the lamp arrived broken and the customer is waiting",
        )
        yield row._replace(
            status=status.value,
            first_seq=1,
            started_at=stamp_of(at),
            ended_at=None if is_waiting else stamp_of(at + took),
            used=None if is_waiting else f'{{"inputTokens":{tokens},"costMicros":{cost}}}',
            output=f"Refunded 49.90 for order {number}, the receipt is on its way",
            waits_on="input" if is_waiting else None,
            error=_KINDS[number % 3] if is_failed else None,
            crashes=int(number % 5_003 == 0),
            tags='["beta"]' if number % 997 == 0 else "[]",
            tokens=0 if is_waiting else tokens,
            cost_micros=0 if is_waiting else cost,
            duration_ms=0 if is_waiting else took,
            rating=-1 if number % 3_001 == 0 else 0,
        )


async def prepare(path: Path, count: int) -> None:
    """Make a store, and write the rows of its runs into the index."""
    store = await SqliteStore.open(path, durability="process")
    body: JsonObject = {
        "runId": "r1",
        "agentId": "a1",
        "packageFingerprint": "f1",
        "message": "The first",
        "owner": "ann",
    }
    run = NewRun("r1", "a1", "f1", at=stamp_of(FIRST_MS))
    await store.post(SESSION, kind="start", key="start:r1", body=body, run=run)
    await store.aclose()
    fill(path, count, SESSION)


def fill(path: Path, count: int, session_id: str, *, owner: str = "ann", first_ms: int = FIRST_MS) -> None:
    """Write rows of runs into the index of a store that is closed, as runs of one of its sessions."""
    connection = sqlite3.connect(path, isolation_level=None)
    key = StoreKey.load(connection.execute(STORE).fetchall())
    # The indexes of a million rows do not fit into the usual two megabytes.
    connection.execute("PRAGMA cache_size = -800000")
    connection.execute("BEGIN")
    for row in made(count, key.session_key(session_id), random.Random(1), owner, first_ms):
        connection.execute(_INSERT, (*row, key.row_seal("runs", row)))
        if row.tags != "[]":
            connection.execute("INSERT INTO run_tags VALUES ('beta', ?, ?)", (row.run_id, row.session_key))
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()


async def measure(path: Path, count: int) -> list[tuple[str, int, float, float]]:
    """Return for each question the runs of its page, and the median and 95th percentile in milliseconds."""
    store = await SqliteStore.open(path, durability="process")
    found: list[tuple[str, int, float, float]] = []
    for name, (wanted, order) in questions(count).items():
        times: list[float] = []
        size = 0
        for _ in range(ROUNDS):
            began = perf_counter()
            size = len(await store.list_runs(wanted, order=order, limit=PAGE))
            times.append((perf_counter() - began) * 1_000)
        times.sort()
        found.append((name, size, times[ROUNDS // 2], times[ROUNDS * 95 // 100 - 1]))
    await store.aclose()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    rows: int = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        asyncio.run(prepare(path, rows))
        write = sys.stdout.write
        write(
            f"{rows:,} runs, {path.stat().st_size / 1e6:,.0f} MB\n\n| question | runs | p50 ms | p95 ms |\n"
        )
        write("|---|---:|---:|---:|\n")
        for name, size, median, high in asyncio.run(measure(path, rows)):
            write(f"| {name} | {size} | {median:.1f} | {high:.1f} |\n")


if __name__ == "__main__":
    main()
