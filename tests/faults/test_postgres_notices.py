"""Notifications between processes on PostgreSQL: sent after commits, lost with connections and processes."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import psycopg
import pytest
from tests.contracts.stores import GUARD_S, claim, numbers, post, write
from tests.server.crowd import raise_limit

from tools.postgres import Postgres, running_postgres
from windlass import Agent, AgentRuntime, tool
from windlass.engine.driving import engine
from windlass.ports.inbox import InboxNotice
from windlass.postgres import notifier as postgres_notifier
from windlass.postgres.store import PostgresStore
from windlass.testing import ScriptedModel, call, say

ROOT: Final = Path(__file__).parents[2]
NEVER_S: Final = 1_000_000.0
"""A sweep that does not come: notifications alone wake."""
PGBOUNCER: Final = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")

ANSWER: Final = """
import asyncio, os, signal, sys
from windlass import AgentRuntime
from windlass.engine.driving import engine
from windlass.postgres.notifier import Notifier

address, run_id, way = sys.argv[1:]
if way == "killed":
    # Between the commit and its notification.
    Notifier.tell = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
if way == "heard":
    engine.SWEEP_S = 1_000_000.0

async def main():
    async with AgentRuntime.open(address, agents=[]) as runtime:
        handle = runtime.handle(run_id)
        async for request in handle.requests():
            await request.approve()
        print((await handle.wait()).output)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """A server of its own: its backends are ended."""
    with running_postgres() as server:
        yield server


class Ear:
    """Collects notices."""

    def __init__(self) -> None:
        self.heard: list[InboxNotice] = []
        self._more = asyncio.Event()

    def __call__(self, notice: InboxNotice) -> None:
        self.heard.append(notice)
        self._more.set()

    async def until(self, is_enough: Callable[[], bool]) -> None:
        while not is_enough():
            self._more.clear()
            await self._more.wait()

    @property
    def sessions(self) -> set[str]:
        return {name for one in self.heard for name in one.sessions or ()}


def play(postgres: Postgres, story: Callable[[PostgresStore, PostgresStore, Ear], object]) -> None:
    async def main() -> None:
        address, schema = postgres.new_schema()
        async with asyncio.timeout(GUARD_S):
            ours = await PostgresStore.open(address, schema=schema)
            theirs = await PostgresStore.open(address, schema=schema)
            ear = Ear()
            end = ours.listen(ear)
            # What was told before it listened is not known.
            await ear.until(lambda: bool(ear.heard))
            assert ear.heard == [InboxNotice(None, has_items=True)]
            ear.heard.clear()
            await story(ours, theirs, ear)  # pyright: ignore[reportGeneralTypeIssues]
            end()
            await ours.aclose()
            await theirs.aclose()

    asyncio.run(main())


def test_a_commit_is_told_to_other_stores_with_its_sessions_and_not_to_its_own(postgres: Postgres) -> None:
    async def story(ours: PostgresStore, theirs: PostgresStore, ear: Ear) -> None:
        await post(ours, "a", "mine")
        mine = await claim(theirs, "theirs")
        await write(theirs, mine, 1)
        await ear.until(lambda: "theirs" in ear.sessions)
        await post(theirs, "a", "last 'one'\\ \uf8ff")
        await ear.until(lambda: "last 'one'\\ \uf8ff" in ear.sessions)
        assert "mine" not in ear.sessions
        assert all(not one.has_items for one in ear.heard if one.sessions == {"theirs"})
        assert [one.has_items for one in ear.heard if "last 'one'\\ \uf8ff" in (one.sessions or ())] == [True]

    play(postgres, story)


def test_many_commits_share_notifications_and_what_is_too_long_is_told_as_any(postgres: Postgres) -> None:
    async def story(ours: PostgresStore, theirs: PostgresStore, ear: Ear) -> None:
        names = [f"{number}{'x' * 60}" for number in range(400)]
        await asyncio.gather(*(post(theirs, "a", name) for name in names))
        await post(theirs, "a", "last")
        await ear.until(lambda: ear.sessions >= {"last"} or any(one.sessions is None for one in ear.heard))
        if all(one.sessions is not None for one in ear.heard):
            await ear.until(lambda: ear.sessions >= {*names})
        assert len(ear.heard) < len(names) / 4

    play(postgres, story)


def test_a_payload_has_a_limit(monkeypatch: pytest.MonkeyPatch, postgres: Postgres) -> None:
    async def story(ours: PostgresStore, theirs: PostgresStore, ear: Ear) -> None:
        monkeypatch.setattr(postgres_notifier, "PAYLOAD_BYTES_MAX", 40)
        await post(theirs, "a", "s" * 100)
        await ear.until(lambda: bool(ear.heard))
        assert ear.heard[0] == InboxNotice(None, has_items=True)

    play(postgres, story)


def test_a_lost_connection_is_made_anew_and_everything_is_looked_at_then(
    monkeypatch: pytest.MonkeyPatch, postgres: Postgres
) -> None:
    monkeypatch.setattr(postgres_notifier, "RECONNECT_S", 0.01)

    async def story(ours: PostgresStore, theirs: PostgresStore, ear: Ear) -> None:
        with psycopg.connect(postgres.base, autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
                " OR query LIKE 'NOTIFY%'"
            )
        await ear.until(lambda: InboxNotice(None, has_items=True) in ear.heard)
        ear.heard.clear()
        await post(theirs, "a", "after")
        await ear.until(lambda: "after" in ear.sessions or None in {one.sessions for one in ear.heard})

    play(postgres, story)


def test_notifications_arrive_in_a_process_with_more_than_1024_open_files(postgres: Postgres) -> None:
    async def story(ours: PostgresStore, theirs: PostgresStore, ear: Ear) -> None:
        await post(theirs, "a", "s1")
        await ear.until(lambda: bool(ear.heard))
        assert ear.sessions == {"s1"}

    raise_limit()
    with Path(os.devnull).open() as nothing, ExitStack() as files:
        for _ in range(1_024):
            files.callback(os.close, os.dup(nothing.fileno()))
        play(postgres, story)


def test_a_foreign_notification_is_passed_over(postgres: Postgres) -> None:
    async def story(ours: PostgresStore, theirs: PostgresStore, ear: Ear) -> None:
        channel = ours._notifier._channel  # pyright: ignore[reportPrivateUsage]
        with psycopg.connect(postgres.base, autocommit=True) as admin:
            for payload in ("", "nonsense", "[]", "[1]", "{}", '["x", 1, 2]', '["x", [{}], []]'):
                admin.execute("SELECT pg_notify(%s, %s)", (channel, payload))
        await post(theirs, "a", "good")
        await ear.until(lambda: "good" in ear.sessions)
        assert len(ear.heard) == 1

    play(postgres, story)


async def answered(address: str, way: str) -> tuple[str, str]:
    """Park a run here, let another process approve it; return its output here and there."""
    done: list[str] = []

    @tool(approval="always")
    async def book(place: str) -> str:
        done.append(place)
        return "booked"

    model = ScriptedModel([call("book", {"place": "Lisbon"}), say("Done.")])
    clerk = Agent("clerk", model=model, tools=[book])
    async with asyncio.timeout(GUARD_S), AgentRuntime.open(address, agents=[clerk]) as runtime:
        handle = await runtime.start_run(clerk, "Book.", run_id="r1")
        async for _ in handle.requests():
            break
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", ANSWER, address, "r1", way, cwd=ROOT, stdout=subprocess.PIPE
        )
        try:
            said, _ = await process.communicate()
        finally:
            # Also if this test fails: the other process would wait for ever.
            if process.returncode is None:
                process.kill()
        assert process.returncode == (-signal.SIGKILL if way == "killed" else 0)
        output = str((await handle.wait()).output)
        assert done == ["Lisbon"]
        return output, said.decode().strip()


def test_processes_wake_and_follow_each_other_by_notifications_alone(
    monkeypatch: pytest.MonkeyPatch, postgres: Postgres
) -> None:
    monkeypatch.setattr(engine, "SWEEP_S", NEVER_S)
    assert asyncio.run(answered(postgres.new_database(), "heard")) == ("Done.", "Done.")


@pytest.mark.promise("J1")
def test_the_notification_of_a_killed_process_is_missing_and_polling_finds_its_write(
    postgres: Postgres,
) -> None:
    assert asyncio.run(answered(postgres.new_database(), "killed")) == ("Done.", "")


@contextmanager
def pgbouncer(server: Postgres) -> Generator[Path]:
    """Run PgBouncer in transaction mode before a server; yield the folder of its socket."""
    # Not below pytest's folder, which the user of the server may not enter.
    folder = server.folder / "pgbouncer"
    folder.mkdir()
    folder.chmod(0o777)
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        f"""[databases]
        * = host={server.folder} user=postgres
        [pgbouncer]
        pool_mode = transaction
        auth_type = any
        unix_socket_dir = {folder}
        listen_addr =
        listen_port = 6432
        default_pool_size = 3
        """
    )
    assert PGBOUNCER is not None
    user = server.user
    with subprocess.Popen(
        [PGBOUNCER, settings],
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        said = ""
        while "process up" not in said:
            line = process.stderr.readline()
            assert line, f"PgBouncer did not start: {said}"
            said += line
        yield folder
        process.terminate()
        process.stderr.read()


@pytest.mark.skipif(PGBOUNCER is None and "CI" not in os.environ, reason="needs pgbouncer")
def test_behind_pgbouncer_in_transaction_mode_writes_reads_and_wakes_work(postgres: Postgres) -> None:
    with pgbouncer(postgres) as folder:
        database = postgres.new_database()
        address = database.replace(f"host={postgres.folder}", f"host={folder}&port=6432")

        async def story() -> None:
            async with asyncio.timeout(GUARD_S):
                store = await PostgresStore.open(address, schema="app")
                other = await PostgresStore.open(address, schema="app")
                names = [f"s{number}" for number in range(20)]
                mine = [await claim(store, name) for name in names]
                await asyncio.gather(*(write(store, one, 1, 2) for one in mine))
                assert [numbers(await other.read(name)) for name in names] == [[1, 2]] * 20
                await store.aclose()
                await other.aclose()

        asyncio.run(story())
        assert asyncio.run(answered(address, "polled")) == ("Done.", "Done.")
