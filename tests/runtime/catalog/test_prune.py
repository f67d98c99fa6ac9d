"""Pruning: old sessions are deleted as a whole, and those in use stay."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import psycopg
import pytest
from tests.runtime.catalog.rig import GUARD_S, PAYS, agent, approve, opened, play, until

from tools.postgres import Postgres
from windlass import Agent, AgentRuntime, Rejected, Schedule
from windlass.parts import Machine
from windlass.testing import FakeClock, call, say, seeded_random, sequential_ids

LATER: Final = datetime(2100, 1, 1, tzinfo=UTC)
Count = Callable[[], Mapping[str, int]]


def busy() -> Agent:
    """An agent whose runs leave something in every table."""
    helper = agent(name="helper")
    script = (call("look", {"item": "book"}), call("pay", {"cents": 9}), call("helper", {"message": "check"}))
    return agent(*script, say("Paid."), subagents=[helper])


async def lived(runtime: AgentRuntime, session_id: str) -> None:
    """Let a session have contents, requests, subagents, tags, and words in the search index."""
    handle = await runtime.start_run("clerk", "Pay for the zebra.", session_id=session_id)
    await until(handle, "run.waiting")
    await approve(handle)
    await handle.wait()
    await runtime.handle(handle.run_id).feedback(thumb="up", tags=["fine"], by="ann")
    assert (await runtime.sessions.list(text="zebra")).items


async def pruned(runtime: AgentRuntime, count: int) -> None:
    """Prune until so many sessions are gone: drivers let go of them in their own time."""
    while count:
        count -= await runtime.sessions.prune(LATER)
        await asyncio.sleep(0)


async def fill_and_prune(runtime: AgentRuntime, count: Count) -> None:
    found: list[Mapping[str, int]] = []
    for batch in range(2):
        for number in range(2):
            await lived(runtime, f"s{batch}-{number}")
        full = count()
        assert min(full[table] for table in ("appends", "runs", "run_tags", "settled", "content_uses")) > 0
        await pruned(runtime, 2)
        assert (await runtime.sessions.list(text="zebra", root_only=False)).items == ()
        found.append(count())
    # A deleted session leaves its number, so that its id is not used again, and the place of its records.
    kept = {"tombstones", "holes"}
    assert {table: rows for table, rows in found[0].items() if table not in kept} == {
        table: rows for table, rows in found[1].items() if table not in kept
    }
    gone = ("sessions", "appends", "runs", "run_tags", "snapshots", "asked", "settled", "catalog")
    assert not any(found[1][table] for table in gone)


def test_no_table_keeps_a_row_of_a_pruned_session_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "app.db"

    def count() -> Mapping[str, int]:
        with closing(sqlite3.connect(path)) as db:
            rows = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
            # Tables of the search index itself: a search shows what is in it.
            virtual = tuple(name for name, sql in rows if "VIRTUAL" in sql)
            names = [name for name, _ in rows if not name.startswith(virtual)]
            return {name: db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}

    play(lambda runtime: fill_and_prune(runtime, count), path, busy())


def test_no_table_keeps_a_row_of_a_pruned_session_in_postgresql(postgres: Postgres) -> None:
    address = postgres.new_database()

    def count() -> Mapping[str, int]:
        with psycopg.connect(address) as admin:
            rows = admin.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'windlass'").fetchall()
            found: dict[str, int] = {}
            for (name,) in rows:
                [(number,)] = admin.execute(f"SELECT count(*) FROM windlass.{name}".encode()).fetchall()
                found[name] = number
            return found

    async def main() -> None:
        async with asyncio.timeout(GUARD_S), AgentRuntime.open(address, agents=[busy()]) as runtime:
            await fill_and_prune(runtime, count)

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_sessions_that_wait_or_are_too_young_stay(kind: str, tmp_path: Path) -> None:
    async def story(runtime: AgentRuntime) -> None:
        waiting = await runtime.start_run("clerk", "Pay.", session_id="waits")
        await until(waiting, "run.waiting")
        queued = await runtime.start_run("clerk", "Pay again.", session_id="waits")
        assert await runtime.sessions.prune(LATER) == 0
        await waiting.cancel()
        await queued.cancel()
        await waiting.wait()
        await queued.wait()
        now = datetime.now(UTC)
        assert await runtime.sessions.prune(now - timedelta(days=1)) == 0
        with pytest.raises(Rejected, match="before must be a datetime with a time zone"):
            await runtime.sessions.prune(LATER.replace(tzinfo=None))
        with pytest.raises(Rejected, match="limit must be 1 to"):
            await runtime.sessions.prune(LATER, limit=0)
        await pruned(runtime, 1)

    play(story, None if kind == "memory" else tmp_path / "app.db", agent(*PAYS))


def test_a_session_that_a_schedule_names_stays() -> None:
    async def story(runtime: AgentRuntime) -> None:
        for session_id in ("report", "other"):
            await (await runtime.start_run("clerk", "go", session_id=session_id)).wait()
        at = LATER + timedelta(days=1)
        await runtime.schedules.put(
            Schedule("monthly", "clerk", "go", at=at.isoformat(), session_id="report")
        )
        await pruned(runtime, 1)
        assert [one.session_id for one in (await runtime.sessions.list()).items] == ["report"]

    play(story, None, agent())


def past() -> tuple[FakeClock, Machine]:
    clock = FakeClock()
    return clock, Machine(clock, sequential_ids(), seeded_random(1))


def test_a_runtime_with_retention_deletes_what_is_old_enough_by_itself() -> None:
    async def main() -> None:
        clock, machine = past()
        async with AgentRuntime.in_memory([agent()], machine=machine, retention_days=30) as runtime:
            await (await runtime.start_run("clerk", "go", session_id="old")).wait()
            clock.advance(29 * 86_400)
            await (await runtime.start_run("clerk", "go", session_id="young")).wait()
            clock.advance(2 * 86_400)
            while len((await runtime.sessions.list()).items) > 1:  # noqa: ASYNC110 - other tasks go on
                await asyncio.sleep(0)
            assert [one.session_id for one in (await runtime.sessions.list()).items] == ["young"]

    async def limited(work: Awaitable[None]) -> None:
        async with asyncio.timeout(GUARD_S):
            await work

    asyncio.run(limited(main()))


@pytest.mark.slow
def test_a_prune_that_was_killed_is_finished_by_the_next(tmp_path: Path) -> None:
    """The command deletes a hundred sessions between two lines; it is killed after the first line."""
    path, total = tmp_path / "app.db", 250

    async def fill() -> None:
        opening = AgentRuntime.open(path, agents=[agent()], durability="process", machine=past()[1])
        async with opening as runtime:
            for number in range(total):
                await (await runtime.start_run("clerk", "go", session_id=f"s{number}")).wait()

    async def left() -> int:
        async with opened(path, agent()) as runtime:
            store = runtime.core.ports.store
            assert store is not None
            return len(await store.sessions(limit=total))

    asyncio.run(fill())
    command = [sys.executable, "-m", "windlass_cli", "--store", str(path), "sessions", "prune"]
    command += ["--days", "30", "--yes"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        assert "Deleted: 100 sessions" in child.stderr.readline()
        child.send_signal(signal.SIGKILL)
    after_kill = asyncio.run(left())
    assert 0 < after_kill <= total - 100
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == str(after_kill)
    assert asyncio.run(left()) == 0
