"""One SQLite file used by several processes, some of which are killed."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from tests.contracts.stores import NOW_MS, claim, numbers, write
from tests.story import play

from windlass.errors import Conflict
from windlass.limits import OWNER_LEASE_MS
from windlass.ports.journal import Standing
from windlass.sqlite import transaction as sqlite_owners
from windlass.sqlite.store import SqliteStore

ROOT: Final = Path(__file__).parents[2]
WORKER: Final = """
import asyncio, sys
from tests.contracts.stores import NOW_MS, claim, write
from windlass.errors import Conflict
from windlass.ports.journal import Standing
from windlass.sqlite.store import SqliteStore

async def main(path, name, count):
    store = await SqliteStore.open(path)
    mine = await claim(store, name, "owner-of-" + name)
    for fact in range(count):
        await write(store, mine, fact, after=fact, standing=Standing.RUNNING)
    print("written", flush=True)
    if sys.stdin.read() == "more":
        try:
            await write(store, mine, 99, after=count)
        except Conflict:
            print("refused", flush=True)
    await store.aclose()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def test_a_folder_that_goes_away_while_an_owner_takes_its_lock_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, calls = sqlite_owners.take_lock, list[Path]()

    def take_lock(path: Path, *, is_new: bool = True) -> int | None:
        if not calls:
            path.parent.rmdir()
        calls.append(path)
        return lock(path, is_new=is_new)

    monkeypatch.setattr(sqlite_owners, "take_lock", take_lock)
    locks = sqlite_owners.OwnerLocks(tmp_path / "store.db")
    locks.hold("o1")
    assert len(calls) == 2
    assert not locks.is_dead("o1", beat_at_ms=0, now_ms=0)
    locks.close()


def worker(path: Path, name: str, count: int) -> "subprocess.Popen[str]":
    """Start a process that writes to a session and waits for its input to end."""
    command = [sys.executable, "-c", WORKER, str(path), name, str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def answer(process: "subprocess.Popen[str]") -> str:
    assert process.stdout
    return process.stdout.readline()


@pytest.mark.promise("J3")
def test_processes_write_at_once_without_gaps_or_repeats_in_the_order_of_all(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    workers = [worker(path, f"s{index}", 100) for index in range(3)]
    assert [answer(each) for each in workers] == ["written\n"] * 3
    for each in workers:
        each.communicate(timeout=300)

    async def story() -> None:
        store = await SqliteStore.open(path)
        for index in range(3):
            assert numbers(await store.read(f"s{index}")) == list(range(100))
        records = await store.read_all(limit=1_000)
        assert [record.position for record in records] == list(range(1, 301))
        assert (await store.due(now_ms=NOW_MS)) == tuple(
            sorted((f"s{index}" for index in range(3)), key=lambda name: last_of(records, name))
        )
        await store.aclose()

    play(story())
    assert not (tmp_path / "store.db-owners").exists()


def last_of(records: tuple[Any, ...], name: str) -> int:
    return max(record.position for record in records if record.session_id == name)


@pytest.mark.promise("J1")
def test_the_sessions_of_a_killed_process_are_free_at_once_and_have_all_it_acknowledged(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"
    process = worker(path, "s1", 10)
    assert answer(process) == "written\n"

    async def story() -> None:
        store = await SqliteStore.open(path)
        await store.enlist("o2", now_ms=NOW_MS)
        assert await store.due(now_ms=NOW_MS) == ()
        with pytest.raises(Conflict, match="belongs to owner owner-of-s1"):
            await store.claim("s1", "o2", now_ms=NOW_MS)
        process.kill()
        await asyncio.to_thread(process.wait)
        assert await store.due(now_ms=NOW_MS) == ("s1",)
        mine = await store.claim("s1", "o2", now_ms=NOW_MS)
        await write(store, mine, 10, after=10)
        assert numbers(await store.read("s1")) == list(range(11))
        # Only our own lock is left.
        assert len(list(os.scandir(tmp_path / "store.db-owners"))) == 1
        await store.aclose()

    play(story())
    process.communicate()


def written_by_a_killed_process(folder: Path) -> Path:
    """A store with a record of session s1; the owner of the session is dead."""
    path = folder / "store.db"
    process = worker(path, "s1", 1)
    assert answer(process) == "written\n"
    process.kill()
    process.communicate()
    return path


def test_a_session_of_a_killed_process_can_be_claimed_without_a_due_query(tmp_path: Path) -> None:
    path = written_by_a_killed_process(tmp_path)

    async def story() -> None:
        store = await SqliteStore.open(path)
        assert (await claim(store, "s1", "o2")).epoch == 2
        await store.aclose()

    play(story())


def test_an_owner_that_enlists_releases_the_sessions_of_a_dead_one(tmp_path: Path) -> None:
    path = written_by_a_killed_process(tmp_path)

    async def story() -> None:
        store = await SqliteStore.open(path)
        row = await store.session("s1")
        assert row
        assert row.owner_id is not None
        await store.enlist("o2", now_ms=NOW_MS)
        row = await store.session("s1")
        assert row
        assert row.owner_id is None
        assert len([*(tmp_path / "store.db-owners").iterdir()]) == 1, "the lock file of the dead one is gone"
        await store.aclose()

    play(story())


def test_a_clock_that_was_put_back_does_not_make_a_dead_owner_live_on(tmp_path: Path) -> None:
    """The owner was last seen in the future of the new clock; its released lock proves that it is gone."""
    path = tmp_path / "store.db"
    process = worker(path, "s1", 1)
    assert answer(process) == "written\n"

    async def story() -> None:
        before = NOW_MS - 20 * OWNER_LEASE_MS
        store = await SqliteStore.open(path)
        await store.enlist("o2", now_ms=before)
        assert await store.due(now_ms=before) == (), "it lives"
        process.kill()
        await asyncio.to_thread(process.wait)
        assert await store.due(now_ms=before) == ("s1",)
        assert (await store.claim("s1", "o2", now_ms=before)).epoch == 2
        await store.aclose()

    play(story())
    process.communicate()


@pytest.mark.promise("J4")
def test_a_frozen_process_is_replaced_after_its_lease_and_refused_when_it_wakes(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    process = worker(path, "s1", 1)
    assert answer(process) == "written\n"
    process.send_signal(signal.SIGSTOP)

    async def story() -> None:
        later = NOW_MS + OWNER_LEASE_MS
        store = await SqliteStore.open(path)
        await store.enlist("o2", now_ms=later - 1)
        assert await store.due(now_ms=later - 1) == ()
        assert await store.due(now_ms=later) == ("s1",)
        mine = await store.claim("s1", "o2", now_ms=later)
        process.send_signal(signal.SIGCONT)
        # It still holds its old claim, and no record was written meanwhile.
        assert (await asyncio.to_thread(process.communicate, "more"))[0] == "refused\n"
        await write(store, mine, 1, after=1, standing=Standing.IDLE)
        assert numbers(await store.read("s1")) == [0, 1]
        row = await store.session("s1")
        assert row
        assert row.owner_id == "o2"
        await store.aclose()

    play(story())
