"""A disk that loses unsynced writes, and a store that is crashed on it."""
# pyright: reportPrivateUsage=false

import random
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import count as count_up
from pathlib import Path
from typing import Final
from unittest.mock import patch

from tests.contracts.stores import NOW_MS, claim, numbers, write
from tests.faults.disk import Disk, Happening, Mark, Platter, Sync, Write, get_files, put_files

from windlass.errors import AgentError
from windlass.limits import OWNER_LEASE_MS
from windlass.sqlite import marks
from windlass.sqlite import writer as sqlite_writer
from windlass.sqlite.marks import SLOT_BYTES, StoreMarks, StoreState
from windlass.sqlite.schema import Durability
from windlass.sqlite.store import SqliteStore

APPENDS: Final = 40
GENERATIONS: Final = 4
"""Times that a store is crashed, recovered and written to again."""
_BOOTS: Final = count_up()
CHECKPOINT_BYTES: Final = 120_000
"""Few, so that there are checkpoints among the appends."""


async def generations(disk: Disk, folder: Path, *, trials: int, seed: int) -> list[str]:
    """Crash a store repeatedly, and continue with the remaining files.

    Return the violations; `trials` is the number of all crashes.
    """
    chance, wrong = random.Random(seed), list[str]()
    left: dict[str, bytearray] = {}
    first = 0
    for _ in range(GENERATIONS):
        put_files(folder, left)
        disk.happenings.clear()
        happenings = await recorded(disk, folder / "store.db", durability="power", first=first)
        base = Platter({name: bytearray(content) for name, content in left.items()})
        tries = trials // GENERATIONS
        wrong += await crashes(folder, start=base, happenings=happenings, trials=tries, chance=chance)
        # The next generation continues from the files that the last crash left.
        left = base.crashed(chance)
        put_files(folder, left)
        first = await count(folder)
        left = get_files(folder)
    return wrong


async def recorded(disk: Disk, path: Path, *, durability: Durability, first: int) -> list[Happening]:
    """Write to a store; return the operations of its disk, and each acknowledgement."""
    with patch.object(sqlite_writer, "CHECKPOINT_BYTES", CHECKPOINT_BYTES), _marks_on(disk):
        store = await SqliteStore.open(path, durability=durability, connect=disk.connect)
        # The lock file of the last owner may be lost with the disk; its lease proves that it is dead.
        mine = await claim(store, owner_id=f"o{first}", now_ms=NOW_MS + first * OWNER_LEASE_MS)
        disk.happenings.append(Mark(first))
        for fact in range(first, first + APPENDS):
            await write(store, mine, fact, after=fact)
            disk.happenings.append(Mark(fact + 1))
        happenings = list(disk.happenings)
        await store.aclose()
    return happenings


async def complaint(folder: Path, acknowledged: int, written: int) -> str | None:
    """Open the files after a crash; return the violation, or None."""
    try:
        store = await _restarted(folder)
        try:
            found = numbers(await store.read("s1", limit=10_000))
            everything = numbers(await store.read_all(limit=10_000))
        finally:
            await store.aclose()
    except AgentError as error:
        return f"{type(error).__name__}: {error.message}"
    if found != list(range(len(found))) or everything != found:
        return "a wrong record"
    if not acknowledged <= len(found) <= written:
        return f"{acknowledged} acknowledged, {len(found)} found"
    return None


async def crashes(
    folder: Path, *, start: Platter, happenings: Sequence[Happening], trials: int, chance: random.Random
) -> list[str]:
    """Crash at random moments of a recording; return the violations."""
    marks = [index for index, each in enumerate(happenings) if isinstance(each, Mark)]
    moments = sorted(chance.randrange(marks[0], len(happenings)) + 1 for _ in range(trials))
    wrong: list[str] = []
    acknowledged = done = 0
    for moment in moments:
        for happening in happenings[done:moment]:
            start.happen(happening)
            acknowledged = happening.count if isinstance(happening, Mark) else acknowledged
        done = moment
        put_files(folder, start.crashed(chance))
        found = await complaint(folder, acknowledged, acknowledged + 1)
        wrong += [] if found is None else [f"after {moment}: {found}"]
    return wrong


@contextmanager
def _marks_on(disk: Disk) -> Generator[None]:
    """Record the writes and syncs of the file of marks, which SQLite does not make."""
    write, make, name = StoreMarks._write, StoreMarks._make, "store.db-mark"

    def written(self: StoreMarks, state: StoreState, slot: int, kind: bytes) -> None:
        write(self, state, slot, kind)
        at = slot * SLOT_BYTES
        content = self._path.read_bytes()
        disk.happenings.append(Write(name, at, content[at : at + SLOT_BYTES]))

    def made(self: StoreMarks, state: StoreState) -> tuple[int, bool]:
        handle, is_made = make(self, state)
        # It gets its name when it is on the disk.
        disk.happenings += [Write(name, 0, self._path.read_bytes()), Sync(name)]
        return handle, is_made

    def synced(handle: int) -> None:
        disk.happenings.append(Sync(name))

    with (
        patch.object(StoreMarks, "_write", written),
        patch.object(StoreMarks, "_make", made),
        patch.object(marks, "sync_file", synced),
    ):
        yield


async def _restarted(folder: Path) -> SqliteStore:
    """Open a store after the machine was started again."""
    with patch.object(marks, "boot_digest", lambda: b"%08d" % next(_BOOTS)):
        return await SqliteStore.open(folder / "store.db", durability="process")


async def count(folder: Path) -> int:
    store = await _restarted(folder)
    found = len(await store.read("s1", limit=10_000))
    await store.aclose()
    return found
