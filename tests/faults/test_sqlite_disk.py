"""The SQLite store on disks that are full, fail to sync, or lose writes."""

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import apsw
import pytest
from tests.contracts.stores import claim, numbers, write
from tests.depth import some
from tests.faults.disk import Disk, Mark, Platter, Sync, fault
from tests.faults.lossy import APPENDS, crashes, generations, recorded
from tests.story import play

from windlass import Agent, AgentRuntime
from windlass.adapters.system import SystemClock
from windlass.errors import Ambiguous, Denied, Rejected, Unavailable
from windlass.feed import Feed
from windlass.ports.recorded import NumberedRow
from windlass.sqlite import writer as sqlite_writer
from windlass.sqlite.marks import StoreState
from windlass.sqlite.recorded import RecordedStore
from windlass.sqlite.schema import Durability
from windlass.sqlite.store import SqliteStore
from windlass.sqlite.transaction import SqliteTransaction
from windlass.testing import ScriptedModel
from windlass_protocol import (
    ContentRef,
    DenyDecision,
    PolicyDecision,
    PolicyKind,
    PolicyRef,
    RunRequest,
    RuntimePackage,
)

TRIALS: Final = some(2_800)
"""Crashes that are tried out; `make torture` tries 10,000."""
MUTANT_TRIALS: Final = some(700)
SEED: Final = 20260131

Fault = Callable[[str], None]


@pytest.fixture
def disk() -> Iterator[Disk]:
    with Disk("windlass-test") as disk:
        yield disk


async def until(check: Callable[[], bool]) -> None:
    """Let others run until something is true."""
    while not check():
        await asyncio.to_thread(threading.Event().wait, 0.001)


def is_full(name: str) -> None:
    raise fault(apsw.FullError, apsw.SQLITE_FULL)


def is_broken(name: str) -> None:
    raise fault(apsw.IOError, apsw.SQLITE_IOERR_FSYNC)


def is_unwritable(name: str) -> None:
    raise fault(apsw.IOError, apsw.SQLITE_IOERR_WRITE)


def is_fine(name: str) -> None:
    return


def after_some(count: int, fault: Fault) -> Fault:
    """Return a fault that lets some calls pass first."""
    calls = iter(range(count))
    return lambda name: None if next(calls, None) is not None else fault(name)


def once_after(count: int, fault: Fault) -> Fault:
    """Return a fault of one call; some calls pass before it, and all after it."""
    calls = iter(range(count + 1))

    def check(name: str) -> None:
        if next(calls, None) == count:
            fault(name)

    return check


@pytest.mark.promise("J1")
def test_a_full_disk_loses_nothing_acknowledged_and_writing_goes_on_when_space_returns(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    monkeypatch.setattr(sqlite_writer, "CHECKPOINT_BYTES", 30_000)
    refused = 0

    async def story() -> None:
        nonlocal refused
        store = await SqliteStore.open(path, connect=disk.connect)
        mine = await claim(store)
        for fact in range(APPENDS):
            # The disk fills up at another write of each commit; the checkpoint after it may fail as well.
            disk.before_write = after_some(fact % 13, is_full)
            try:
                await write(store, mine, fact, after=fact)
            except Unavailable:
                assert numbers(await store.read("s1")) == list(range(fact))
                refused += 1
                disk.before_write = is_fine
                await write(store, mine, fact, after=fact)
            assert numbers(await store.read("s1")) == list(range(fact + 1))
        disk.before_write = is_fine
        await store.aclose()
        again = await SqliteStore.open(path)
        assert numbers(await again.read("s1")) == numbers(await again.read_all()) == list(range(APPENDS))
        await again.aclose()

    play(story())
    assert refused >= APPENDS // 3


@pytest.mark.promise("J2")
@pytest.mark.parametrize("durability", ["process", "power"])
@pytest.mark.parametrize("fault", [is_broken, is_unwritable])
@pytest.mark.parametrize("calls", range(6))
def test_after_a_failure_of_the_disk_nothing_is_lost_or_written_twice_and_writing_goes_on(
    disk: Disk, tmp_path: Path, calls: int, fault: Fault, durability: Durability
) -> None:
    path = tmp_path / "store.db"

    async def story() -> None:
        store = await SqliteStore.open(path, connect=disk.connect, durability=durability)
        mine = await claim(store)
        failing = after_some(calls, fault)
        if fault is is_broken and durability == "power":
            disk.before_sync = failing
        else:
            # With durability `process`, a commit syncs nothing.
            disk.before_write = failing
        acknowledged = 0
        with suppress(Ambiguous, Unavailable):
            while True:
                await write(store, mine, acknowledged, after=acknowledged)
                acknowledged += 1
        assert "SQLITE_IOERR" in (store.write_problem or "")
        with pytest.raises(Unavailable, match="nothing was written: the store tries again"):
            await write(store, mine, 99, after=acknowledged)
        assert numbers(await store.read("s1")) == list(range(acknowledged))
        disk.before_sync = disk.before_write = is_fine
        await write(store, mine, acknowledged, after=acknowledged)
        assert store.write_problem is None
        await store.aclose()
        again = await SqliteStore.open(path)
        assert numbers(await again.read("s1")) == list(range(acknowledged + 1))
        await again.aclose()

    play(story())


@pytest.mark.parametrize("durability", ["process", "power"])
@pytest.mark.parametrize("calls", range(6))
def test_a_commit_that_fails_once_is_made_again_and_its_caller_sees_nothing(
    disk: Disk, tmp_path: Path, calls: int, durability: Durability, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        store = await SqliteStore.open(tmp_path / "store.db", connect=disk.connect, durability=durability)
        mine = await claim(store)
        failing = once_after(calls, is_broken if durability == "power" else is_unwritable)
        if durability == "power":
            disk.before_sync = failing
        else:
            disk.before_write = failing
        for fact in range(9):
            await write(store, mine, fact, after=fact)
        assert numbers(await store.read("s1")) == list(range(9))
        assert store.write_problem is None
        await store.aclose()

    play(story())
    [failed, recovered] = [one.getMessage() for one in caplog.records if "written" in one.getMessage()]
    assert "store.db cannot be written: " in failed
    assert "SQLITE_IOERR" in failed
    assert "store.db is written again" in recovered


def test_a_commit_in_doubt_beside_commits_of_another_process_is_ambiguous(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    real = SqliteTransaction.replace_failed

    async def story() -> None:
        store, other = await SqliteStore.open(path, connect=disk.connect), RecordedStore(path)
        mine = await claim(store)

        def beside(self: SqliteTransaction, doubted: StoreState | None, *, log: Path | None) -> bool:
            other.take_in([NumberedRow("s9", 1, b'["note.made","",{"number":1}]')])
            return real(self, doubted, log=log)

        monkeypatch.setattr(SqliteTransaction, "replace_failed", beside)
        disk.before_sync = once_after(0, is_broken)
        with pytest.raises(Ambiguous, match="read it back"):
            await write(store, mine, 0)
        assert await store.read("s1") == ()
        await write(store, mine, 0)
        await store.aclose()
        other.close()

    play(story())


def test_the_thread_writes_again_by_itself_when_the_disk_works(disk: Disk, tmp_path: Path) -> None:
    async def story() -> None:
        store = await SqliteStore.open(tmp_path / "store.db", connect=disk.connect)
        mine = await claim(store)
        disk.before_sync = is_broken
        with pytest.raises(Ambiguous, match=r"a sync of the disk failed \(SQLITE_IOERR_FSYNC\)"):
            await write(store, mine, 0)
        assert store.write_problem == "a sync of the disk failed (SQLITE_IOERR_FSYNC)"
        disk.before_sync = is_fine
        await until(lambda: store.write_problem is None)
        await write(store, mine, 0)
        assert numbers(await store.read("s1")) == [0]
        await store.aclose()

    play(story())


def test_a_checkpoint_that_cannot_sync_stops_writing_until_it_can(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        store = await SqliteStore.open(tmp_path / "store.db", connect=disk.connect)
        await write(store, await claim(store), 1)
        disk.before_sync = lambda name: is_broken(name) if name == "store.db" else None
        with monkeypatch.context() as patch:
            patch.setattr(sqlite_writer, "CHECKPOINT_BYTES", 1)
            patch.setattr(sqlite_writer, "GROUP_JOBS_MAX", 1)
            # The checkpoint follows the first request, or even the one before it; the others wait meanwhile.
            put = (store.put(b"%d" % number) for number in range(9))
            first, *others = await asyncio.gather(*put, return_exceptions=True)
        assert isinstance(first, ContentRef | Unavailable)
        for other in others:
            assert isinstance(other, Unavailable)
            assert "a sync of the disk failed (SQLITE_IOERR_FSYNC)" in other.message
        disk.before_sync = is_fine
        ref = await store.put(b"later")
        assert await store.get(ref) == b"later"
        assert numbers(await store.read("s1")) == [1]
        await store.aclose()

    play(story())


@pytest.mark.parametrize("calls", range(0, 40, 3))
def test_a_disk_that_fails_while_a_store_is_opened_leaves_one_that_opens(
    disk: Disk, tmp_path: Path, calls: int
) -> None:
    path = tmp_path / "store.db"

    async def story() -> None:
        disk.before_write = after_some(calls, is_full)
        try:
            store = await SqliteStore.open(path, connect=disk.connect)
        except Unavailable as error:
            message = error.message
        else:
            message = "the disk is full (SQLITE_FULL)"
            await store.aclose()
        assert "the disk is full (SQLITE_FULL)" in message
        disk.before_write = is_fine
        again = await SqliteStore.open(path)
        await write(again, await claim(again), 1)
        await again.aclose()

    play(story())


# A disk that loses unsynced writes


@pytest.mark.promise("J2")
def test_acknowledged_records_survive_a_disk_that_loses_unsynced_writes(disk: Disk, tmp_path: Path) -> None:
    async def story() -> None:
        assert await generations(disk, tmp_path, trials=TRIALS, seed=SEED) == []

    play(story())


@pytest.mark.parametrize("mutant", ["no sync at all", "process"])
def test_the_lossy_disk_finds_a_store_that_does_not_sync(disk: Disk, tmp_path: Path, mutant: str) -> None:
    async def story() -> None:
        durability: Durability = "process" if mutant == "process" else "power"
        happenings = await recorded(disk, tmp_path / "store.db", durability=durability, first=0)
        if mutant == "no sync at all":
            opened = next(index for index, each in enumerate(happenings) if isinstance(each, Mark))
            kept = [each for each in happenings[opened:] if not isinstance(each, Sync)]
            happenings = [*happenings[:opened], *kept]
        chance = random.Random(SEED)
        wrong = await crashes(
            tmp_path, start=Platter(), happenings=happenings, trials=MUTANT_TRIALS, chance=chance
        )
        assert len(wrong) >= MUTANT_TRIALS * 3 // 4

    play(story())


def test_a_loss_of_power_that_durability_process_allows_is_no_damage(disk: Disk, tmp_path: Path) -> None:
    async def story() -> None:
        happenings = await recorded(disk, tmp_path / "store.db", durability="process", first=0)
        chance = random.Random(SEED)
        wrong = await crashes(
            tmp_path, start=Platter(), happenings=happenings, trials=MUTANT_TRIALS, chance=chance
        )
        assert len(wrong) >= MUTANT_TRIALS // 2
        assert [one for one in wrong if "acknowledged, " not in one] == []

    play(story())


@pytest.mark.parametrize("durability", ["process", "power"])
@pytest.mark.parametrize("fault", [is_full, is_broken])
def test_a_refused_start_gets_its_own_error_on_a_bad_disk(
    disk: Disk, tmp_path: Path, fault: Fault, durability: Durability
) -> None:
    def deny(request: RunRequest, package: RuntimePackage) -> PolicyDecision:
        refs = (PolicyRef(kind=PolicyKind.HOST, id="rule"),)
        return DenyDecision(code="closed", reason="Closed.", policy_refs=refs)

    async def story() -> None:
        store = await SqliteStore.open(tmp_path / "a.db", durability=durability, connect=disk.connect)
        builder = AgentRuntime.builder().journal(store).event_bus(Feed(store, SystemClock())).content(store)
        builder.agent(Agent("shop", model=ScriptedModel([]))).policy(deny)
        async with builder.build() as runtime:
            disk.before_write = disk.before_sync = fault
            with pytest.raises(Denied, match=r"^closed: Closed"):
                await runtime.start_run("shop", "go", run_id="r1")
            with pytest.raises(Rejected, match="unknown agent: shpo"):
                await runtime.start_run("shpo", "go", run_id="r2")
            disk.before_write = disk.before_sync = is_fine
            # After a full disk the store goes on, and keeps what it can write.
            if fault is is_full:
                with pytest.raises(Denied, match=r"^closed: Closed"):
                    await runtime.start_run("shop", "go", run_id="r3")
                assert [one.run_id for one in await store.list_refusals()] == ["r3"]

    play(story())
