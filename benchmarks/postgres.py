"""The cost of parked sessions in PostgreSQL: `python -m benchmarks.postgres 1000 10000 100000`.

Sessions that wait for a person are made through the store, in a server that this program starts. The section
is a part of RESULTS.md: `python -m benchmarks --only shared`.
"""

import argparse
import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Final

import psycopg

from benchmarks.peers.report import table
from tools.postgres import Postgres, running_postgres
from windlass.ports.documents import SCHEDULE
from windlass.ports.inbox import NewRun
from windlass.ports.journal import Batch, Standing
from windlass.postgres.store import PostgresStore
from windlass_harness.loop.events import Draft
from windlass_harness.loop.subagents import START
from windlass_protocol import JsonObject, RunStatus

AT: Final = "2026-01-31T09:30:00.250Z"
NOW_MS: Final = 1_000_000
AT_ONCE: Final = 200
NUMBERS: Final = (1_000, 10_000, 100_000)
INTRO: Final = """### Parked sessions on PostgreSQL

Each session has a run that waits for a person: rows, and neither a task nor a timer. A look is all that an
idle process asks the database, once a second: its duration, its CPU in that process and in the server, the
mean of {looks}. Rows and bytes have the indexes in them."""
_SIZE: Final = """SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n
    ON n.oid = c.relnamespace WHERE n.nspname = 'windlass' AND c.relkind = 'r'"""
_ROWS: Final = """SELECT sum(n_live_tup) FROM pg_stat_user_tables WHERE schemaname = 'windlass'"""


async def park(store: PostgresStore, number: int) -> None:
    """Make a session whose run waits for a person."""
    name, run_id = f"session-{number}", f"run-{number}"
    body: JsonObject = {
        "runId": run_id,
        "agentId": "clerk",
        "packageFingerprint": "sha256:1",
        "input": {"text": "Please refund the order that I placed last week." * 4},
    }
    posted = await store.post(
        name, kind=START, key=run_id, body=body, run=NewRun(run_id, "clerk", "sha256:1", at=AT)
    )
    claim = await store.claim(name, "maker", now_ms=NOW_MS)
    text = "The order was found, and its refund needs the consent of a person. " * 8
    drafts = (
        Draft("run.started", AT, {"runId": run_id, "agentId": "clerk"}, run_id, "clerk"),
        Draft("message.completed", AT, {"message": text}, run_id, "clerk"),
        Draft("run.waiting", AT, {"runId": run_id}, run_id, "clerk"),
    )
    await store.append(
        Batch(
            claim,
            0,
            drafts,
            consumes=(posted.number,),
            runs=((run_id, RunStatus.WAITING),),
            standing=Standing.WAITING,
            is_last=True,
        )
    )


async def look(store: PostgresStore) -> None:
    """Ask what an idle process asks every second."""
    await store.change_token()
    await store.arrivals(after=2**53 - 1)
    await store.due(now_ms=NOW_MS, agents=("clerk",))
    await store.next_wake_ms()
    await store.next_document_ms(SCHEDULE)


def server_cpu_s(server: Postgres) -> float:
    """Return the CPU time of the server, with its backends."""
    main = int((server.folder / "data/postmaster.pid").read_text().split()[0])
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(path.parent.name) == main:
            ticks += sum(map(int, fields[11:15]))
        elif int(fields[1]) == main:
            ticks += sum(map(int, fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


async def _rows(numbers: Sequence[int], looks: int) -> list[list[str]]:
    """Return a row for each number of parked sessions."""
    rows: list[list[str]] = []
    with running_postgres() as server:
        address = server.new_database()
        store = await PostgresStore.open(address)
        await store.enlist("maker", now_ms=NOW_MS)
        made = 0
        for count in numbers:
            for first in range(made, count, AT_ONCE):
                await asyncio.gather(*(park(store, one) for one in range(first, min(first + AT_ONCE, count))))
            made = count
            with psycopg.connect(address, autocommit=True) as admin:
                admin.execute("VACUUM ANALYZE")
                [(size,)] = admin.execute(_SIZE.encode()).fetchall()
                [(found,)] = admin.execute(_ROWS.encode()).fetchall()
            await look(store)
            before, cpu_before, since = server_cpu_s(server), process_time(), perf_counter()
            for _ in range(looks):
                await look(store)
            spent = (perf_counter() - since, process_time() - cpu_before, server_cpu_s(server) - before)
            times = [f"{one * 1_000 / looks:.1f}" for one in spent]
            rows.append([f"{count:,}", f"{found / count:.1f}", f"{size / count:,.0f}", *times])
            print(rows[-1], flush=True)
        await store.aclose()
    return rows


def report(numbers: Sequence[int], looks: int = 50) -> str:
    """Measure; return the section."""
    header = (
        "parked sessions",
        "rows each",
        "bytes each",
        "a look, ms",
        "its CPU, ms",
        "… of the server, ms",
    )
    return f"{INTRO.format(looks=looks)}\n\n{table(header, asyncio.run(_rows(numbers, looks)))}\n"


def main() -> None:
    """Read the numbers and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", type=int, nargs="*", default=NUMBERS)
    print(report(parser.parse_args().numbers))


if __name__ == "__main__":
    main()
