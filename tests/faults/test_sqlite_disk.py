"""The SQLite store on disks that are full, fail to sync, or lose writes."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import apsw
import pytest
from tests.contracts.stores import claim, numbers, write
from tests.depth import some
from tests.faults.disk import Disk, Mark, Platter, Sync, fault
from tests.faults.lossy import APPENDS, crashes, generations, recorded

from windlass import Agent, AgentRuntime
from windlass.adapters.journals.sqlite import transactions as sqlite_writer
from windlass.adapters.journals.sqlite.schema import Durability
from windlass.adapters.journals.sqlite.store import SqliteStore
from windlass.adapters.system import SystemClock
from windlass.errors import Ambiguous, Denied, Rejected, Unavailable
from windlass.feed import Feed
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


def run(story: Coroutine[Any, Any, None]) -> None:
    async def main() -> None:
        async with asyncio.timeout(300):
            await story

    asyncio.run(main())


@pytest.fixture
def disk() -> Iterator[Disk]:
    with Disk("windlass-test") as disk:
        yield disk


def is_full(name: str) -> None:
    raise fault(apsw.FullError, apsw.SQLITE_FULL)


def is_broken(name: str) -> None:
    raise fault(apsw.IOError, apsw.SQLITE_IOERR_FSYNC)


def is_fine(name: str) -> None:
    return


def after_some(count: int, fault: Fault) -> Fault:
    """Return a fault that lets some calls pass first."""
    calls = iter(range(count))
    return lambda name: None if next(calls, None) is not None else fault(name)


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

    run(story())
    assert refused >= APPENDS // 3


@pytest.mark.promise("J2")
@pytest.mark.parametrize("syncs", range(6))
def test_after_a_failed_sync_nothing_is_acknowledged_and_a_restart_has_all_that_was(
    disk: Disk, tmp_path: Path, syncs: int
) -> None:
    path = tmp_path / "store.db"

    async def story() -> None:
        store = await SqliteStore.open(path, connect=disk.connect)
        mine = await claim(store)
        disk.before_sync = after_some(syncs, is_broken)
        acknowledged = 0
        with suppress(Ambiguous):
            while True:
                await write(store, mine, acknowledged, after=acknowledged)
                acknowledged += 1
        disk.before_sync = is_fine
        for _ in range(2):
            with pytest.raises(Unavailable, match="open it again"):
                await write(store, mine, 99, after=acknowledged)
        assert numbers(await store.read("s1")) == list(range(acknowledged))
        await store.aclose()
        again = await SqliteStore.open(path)
        found = numbers(await again.read("s1"))
        assert found in (list(range(acknowledged)), list(range(acknowledged + 1)))
        await write(again, await claim(again, owner_id="o2"), 99, after=len(found))
        await again.aclose()

    run(story())


def test_a_checkpoint_that_cannot_sync_stops_writing_too(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        store = await SqliteStore.open(tmp_path / "store.db", connect=disk.connect)
        await write(store, await claim(store), 1)
        disk.before_sync = lambda name: is_broken(name) if name == "store.db" else None
        monkeypatch.setattr(sqlite_writer, "CHECKPOINT_BYTES", 1)
        monkeypatch.setattr(sqlite_writer, "GROUP_JOBS_MAX", 1)
        # The checkpoint follows the first request, or even the one before it; the others wait meanwhile.
        put = (store.put(b"%d" % number) for number in range(9))
        first, *others = await asyncio.gather(*put, return_exceptions=True)
        assert isinstance(first, ContentRef | Unavailable)
        for other in others:
            assert isinstance(other, Unavailable)
            assert "open it again" in other.message
        assert numbers(await store.read("s1")) == [1]
        await store.aclose()

    run(story())


# A disk that loses unsynced writes


@pytest.mark.promise("J2")
def test_acknowledged_records_survive_a_disk_that_loses_unsynced_writes(disk: Disk, tmp_path: Path) -> None:
    async def story() -> None:
        assert await generations(disk, tmp_path, trials=TRIALS, seed=SEED) == []

    run(story())


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

    run(story())


def test_a_loss_of_power_that_durability_process_allows_is_no_damage(disk: Disk, tmp_path: Path) -> None:
    async def story() -> None:
        happenings = await recorded(disk, tmp_path / "store.db", durability="process", first=0)
        chance = random.Random(SEED)
        wrong = await crashes(
            tmp_path, start=Platter(), happenings=happenings, trials=MUTANT_TRIALS, chance=chance
        )
        assert len(wrong) >= MUTANT_TRIALS // 2
        assert [one for one in wrong if "acknowledged, " not in one] == []

    run(story())


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
                await runtime.start("shop", "go", run_id="r1")
            with pytest.raises(Rejected, match="unknown agent: shpo"):
                await runtime.start("shpo", "go", run_id="r2")
            disk.before_write = disk.before_sync = is_fine
            # After a full disk the store goes on, and keeps what it can write.
            if fault is is_full:
                with pytest.raises(Denied, match=r"^closed: Closed"):
                    await runtime.start("shop", "go", run_id="r3")
                assert [one.run_id for one in await store.listed_refusals()] == ["r3"]

    run(story())
