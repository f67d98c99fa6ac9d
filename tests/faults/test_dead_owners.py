"""Owners whose processes end, freeze, or lose their connection: who is taken over from, and when."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psycopg
import pytest
from tests.contracts.stores import NOW_MS, post, write
from tests.faults.busy_owner import lengthen_leases, worker
from tests.faults.test_postgres_notices import PGBOUNCER, pgbouncer
from tests.story import play

from tools.postgres import Postgres, running_postgres
from windlass import AgentRuntime
from windlass.adapters.journals import rules
from windlass.engine import clocks
from windlass.engine.driving import engine
from windlass.errors import Conflict
from windlass.postgres import link
from windlass.postgres.store import PostgresStore
from windlass.postgres.writes import ABSENT_S, LOOKS_APART_S, LeaseOwners


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture
def ended_leases(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make leases last an hour; return the owners whose leases ended all the same."""
    for module in (rules, clocks, engine):
        monkeypatch.setattr(module, "OWNER_LEASE_MS", rules.OWNER_LEASE_MS)
    lengthen_leases()
    judge, ended = rules.Leases.is_valid, list[str]()

    def is_valid(self: rules.Leases, owner_id: str, *, beat_at_ms: int, now_ms: int) -> bool:
        valid = judge(self, owner_id, beat_at_ms=beat_at_ms, now_ms=now_ms)
        if not valid:
            ended.append(owner_id)
        return valid

    monkeypatch.setattr(rules.Leases, "is_valid", is_valid)
    return ended


async def until(check: Callable[[], bool]) -> None:
    """Let others run until something is true."""
    while not check():
        await asyncio.to_thread(threading.Event().wait, 0.001)


@contextmanager
def process(*arguments: str) -> Generator[subprocess.Popen[bytes]]:
    """A process that runs a module; it is killed at the end, if it lives."""
    with subprocess.Popen([sys.executable, "-m", *arguments], stdout=subprocess.PIPE) as child:
        try:
            yield child
        finally:
            child.kill()


def owner(store: str, effects: Path) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """A process that works on a session."""
    return process("tests.faults.busy_owner", store, str(effects))


def is_at_work(effects: Path) -> bool:
    """Whether the tool of the owner has begun."""
    return effects.exists() and effects.stat().st_size > 0


async def absent(store: PostgresStore) -> frozenset[str]:
    return await store._read(lambda reads: reads.absent_owners())  # pyright: ignore[reportPrivateUsage]


def present(place: str) -> list[str]:
    """Return the owners that are noted to have a lock."""
    with psycopg.connect(place) as admin:
        rows = admin.execute(
            "SELECT name FROM windlass.documents WHERE kind = 'windlass.presence'"
        ).fetchall()
    return sorted(str(name) for (name,) in rows)


@pytest.mark.promise("J4")
@pytest.mark.parametrize("kind", ["postgres", "sqlite"])
def test_the_sessions_of_a_killed_process_are_free_long_before_its_lease_ends(
    kind: str, postgres: Postgres, tmp_path: Path, ended_leases: list[str]
) -> None:
    store = postgres.new_database() if kind == "postgres" else str(tmp_path / "app.db")
    effects = tmp_path / "effects"

    async def story() -> None:
        with owner(store, effects) as child:
            await until(lambda: is_at_work(effects))
            # Opened now: it would have driven the run itself otherwise.
            async with AgentRuntime.open(store, agents=[worker(effects)]) as runtime:
                child.kill()
                child.wait()
                result = await runtime.handle("r1").wait()
        assert result.output == "done"
        assert effects.read_bytes() == b"ww"
        assert ended_leases == []

    play(story())


def test_a_process_that_starts_after_the_kill_takes_over_as_well(
    postgres: Postgres, tmp_path: Path, ended_leases: list[str]
) -> None:
    store, effects = postgres.new_database(), tmp_path / "effects"

    async def story() -> None:
        with owner(store, effects) as child:
            await until(lambda: is_at_work(effects))
            child.kill()
            child.wait()
        async with AgentRuntime.open(store, agents=[worker(effects)]) as runtime:
            assert (await runtime.handle("r1").wait()).output == "done"
        assert ended_leases == []

    play(story())


def test_a_frozen_process_keeps_its_lock_so_its_lease_decides(postgres: Postgres, tmp_path: Path) -> None:
    place, effects = postgres.new_database(), tmp_path / "effects"

    async def story() -> None:
        with owner(place, effects) as child:
            await until(lambda: is_at_work(effects))
            store = await PostgresStore.open(place)
            os.kill(child.pid, signal.SIGSTOP)
            try:
                assert len(present(place)) == 1
                assert await absent(store) == frozenset()
            finally:
                os.kill(child.pid, signal.SIGCONT)
            await store.aclose()

    play(story())


def test_a_process_that_freezes_in_a_transaction_stops_no_other_and_writes_once_when_it_goes_on(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = postgres.new_database()
    monkeypatch.setattr(link, "STANDSTILL_MS", 200)

    async def story() -> None:
        store = await PostgresStore.open(place)
        with process("tests.faults.frozen_writer", place) as child:
            assert child.stdout is not None
            _, status = await asyncio.to_thread(os.waitpid, child.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            # All need locks that the frozen process holds.
            await store.enlist("o2", now_ms=NOW_MS)
            await post(store, "a")
            await write(store, await store.claim("s2", "o2", now_ms=NOW_MS), 1)
            assert await store.read("s1") == ()
            os.kill(child.pid, signal.SIGCONT)
            assert await asyncio.to_thread(child.stdout.read) == b"written\n"
        assert [record.seq for record in await store.read("s1")] == [1]
        await store.aclose()

    play(story())


def test_an_owner_that_lost_its_connection_has_its_lock_again(postgres: Postgres) -> None:
    place = postgres.new_database()

    async def story() -> None:
        store, other = await PostgresStore.open(place), await PostgresStore.open(place)
        await store.enlist("o1", now_ms=NOW_MS)
        held = store._notifier  # pyright: ignore[reportPrivateUsage]
        assert held.holds("o1")
        with psycopg.connect(place, autocommit=True) as admin:
            cut = """SELECT pg_terminate_backend(pid) FROM pg_locks
                WHERE locktype = 'advisory' AND mode = 'ShareLock'"""
            assert admin.execute(cut).fetchall() == [(True,)]
            await until(lambda: not held.holds("o1"))
            await until(lambda: held.holds("o1"))
        assert await absent(other) == frozenset()
        await store.enlist("o1", now_ms=NOW_MS)
        assert present(place) == ["o1"]
        await store.aclose()
        assert present(place) == []
        await other.aclose()

    play(story())


def test_an_owner_is_dead_once_it_was_seen_without_its_lock_for_a_while() -> None:
    owners = LeaseOwners()

    def is_dead(name: str = "o1") -> bool:
        return owners.is_dead(name, beat_at_ms=NOW_MS, now_ms=NOW_MS)

    gone = frozenset({"o1"})
    owners.note_absent(gone, 100.0)
    owners.note_absent(gone, 100.0 + ABSENT_S - 0.001)
    assert not is_dead()
    owners.note_absent(frozenset(), 100.0 + ABSENT_S)
    owners.note_absent(gone, 100.0 + ABSENT_S)
    assert not is_dead()
    # The database was away: all owners connect again.
    owners.note_absent(gone, 100.0 + ABSENT_S + LOOKS_APART_S)
    assert not is_dead()
    owners.note_absent(gone, 100.0 + 2 * ABSENT_S + LOOKS_APART_S)
    assert is_dead()
    assert not is_dead("o2")
    # A process does not bury itself: its heartbeat decides.
    owners.hold("o1")
    assert not is_dead()


def test_an_owner_that_is_buried_alive_is_refused_and_enlists_again(postgres: Postgres) -> None:
    place = postgres.new_database()

    async def story() -> None:
        store, other = await PostgresStore.open(place), await PostgresStore.open(place)
        await store.enlist("o1", now_ms=NOW_MS)
        mine = await store.claim("s1", "o1", now_ms=NOW_MS)
        await write(store, mine, 0)
        leases = other._leases  # pyright: ignore[reportPrivateUsage]
        leases.note_absent(frozenset({"o1"}), 100.0)
        leases.note_absent(frozenset({"o1"}), 100.0 + ABSENT_S)
        await other.enlist("o2", now_ms=NOW_MS)
        theirs = await other.claim("s1", "o2", now_ms=NOW_MS)
        with pytest.raises(Conflict):
            await write(store, mine, 1, after=1)
        await write(other, theirs, 1, after=1)
        await store.enlist("o1", now_ms=NOW_MS)
        assert present(place) == ["o1", "o2"]
        await store.aclose()
        await other.aclose()

    play(story())


@pytest.mark.skipif(PGBOUNCER is None and "CI" not in os.environ, reason="needs pgbouncer")
def test_behind_pgbouncer_there_are_no_locks_and_leases_decide(postgres: Postgres) -> None:
    place = postgres.new_database()

    async def story(address: str) -> None:
        direct, store = await PostgresStore.open(place), await PostgresStore.open(address)
        for _ in range(2):
            await store.enlist("o1", now_ms=NOW_MS)
            assert not store._notifier.holds("o1")  # pyright: ignore[reportPrivateUsage]
            assert present(place) == []
        await direct.enlist("o2", now_ms=NOW_MS)
        assert present(place) == ["o2"]
        await store.aclose()
        await direct.aclose()

    with pgbouncer(postgres) as folder:
        play(story(place.replace(f"host={postgres.folder}", f"host={folder}&port=6432")))
