"""Marks: a store that ends before what it acknowledged is not opened."""

import asyncio
import errno
import fcntl
import itertools
import logging
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from tests.contracts.stores import claim, numbers, post, write

from windlass.errors import Corrupt
from windlass.ports.journal import Claim
from windlass.ports.recorded import NumberedRow
from windlass.sql.integrity import RUN_COLUMNS, STORE, StoreKey
from windlass.sqlite import marks as sqlite_marks
from windlass.sqlite.audit import problems_of
from windlass.sqlite.marks import (
    ACKNOWLEDGED,
    FILE_BYTES,
    SLOT_BYTES,
    StoreMarks,
    StoreState,
)
from windlass.sqlite.recorded import RecordedStore
from windlass.sqlite.schema import MIGRATIONS, Durability, connect, prepare
from windlass.sqlite.store import SqliteStore

FILES: Final = ("store.db", "store.db-wal", "store.db-mark")
Story = Callable[[SqliteStore, Claim], Awaitable[object]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def killed(path: Path, story: Story, *, durability: Durability = "process") -> Path:
    """Play a story; return the store as a process leaves it that is killed at its end."""
    copy = path.parent / "killed"
    copy.mkdir()

    async def main() -> None:
        store = await SqliteStore.open(path, durability=durability)
        await story(store, await claim(store))
        for name in FILES:
            shutil.copyfile(path.with_name(name), copy / name)
        await store.aclose()

    asyncio.run(main())
    return copy / path.name


async def three(store: SqliteStore, mine: Claim) -> None:
    for fact in range(3):
        await write(store, mine, fact, after=fact)


def found(path: Path) -> list[object]:
    """Open a store; return what a session has."""

    async def main() -> list[object]:
        store = await SqliteStore.open(path, durability="process")
        records = numbers(await store.read("s1"))
        await store.aclose()
        return records

    return asyncio.run(main())


def log_of(path: Path) -> Path:
    return path.with_name("store.db-wal")


def mark_of(path: Path) -> Path:
    return path.with_name("store.db-mark")


@pytest.mark.promise("J1")
def test_a_store_whose_log_is_gone_is_refused_with_words_and_left_as_it_is(path: Path) -> None:
    path = killed(path, three)
    log_of(path).rename(path.with_name("away"))
    before = path.read_bytes()
    with pytest.raises(Corrupt):
        found(path)
    with pytest.raises(Corrupt) as refused:
        found(path)
    for words in ("record 0", "record 3", "store.db-wal was lost", "Restore the log", "delete store.db-mark"):
        assert words in refused.value.message
    assert path.read_bytes() == before
    path.with_name("away").rename(log_of(path))
    assert found(path) == [0, 1, 2]


def test_a_loss_is_accepted_by_deleting_the_mark(path: Path) -> None:
    path = killed(path, three)
    log_of(path).unlink()
    mark_of(path).unlink()
    assert found(path) == []
    assert problems_of(path, is_deep=True) == ()


ACKNOWLEDGED_WRITES: dict[str, Story] = {
    "an append": lambda store, mine: write(store, mine, 1),
    "an item": lambda store, mine: post(store, "k1"),
    "a claim": lambda store, mine: store.claim("s2", "o1", now_ms=1_000_000),
    "a content": lambda store, mine: store.put(b"content"),
    "a release": lambda store, mine: store.retire("o1"),
}


@pytest.mark.parametrize("story", ACKNOWLEDGED_WRITES.values(), ids=ACKNOWLEDGED_WRITES)
def test_every_acknowledged_write_is_missed_when_its_log_is_cut(path: Path, story: Story) -> None:
    ends: list[int] = []

    async def told(store: SqliteStore, mine: Claim) -> None:
        ends.append(log_of(path).stat().st_size)
        await story(store, mine)

    copy = killed(path, told)
    log_of(copy).write_bytes(log_of(copy).read_bytes()[: ends[0]])
    with pytest.raises(Corrupt, match="had acknowledged"):
        found(copy)


def test_a_deletion_that_was_lost_is_missed(path: Path) -> None:
    ends: list[int] = []

    async def story(store: SqliteStore, mine: Claim) -> None:
        await write(store, mine, 1, is_last=True)
        ends.append(log_of(path).stat().st_size)
        await store.delete("s1", now_ms=1_000_000)

    copy = killed(path, story)
    log_of(copy).write_bytes(log_of(copy).read_bytes()[: ends[0]])
    with pytest.raises(Corrupt, match="had acknowledged"):
        found(copy)


def test_what_the_recorder_takes_in_is_missed(path: Path) -> None:
    store = RecordedStore(path)
    store.take_in([NumberedRow("s1", 1, b'["note.made","",{"number":1}]')])
    shutil.copyfile(path, path.with_name("copy.db"))
    shutil.copyfile(mark_of(path), path.with_name("copy.db-mark"))
    store.close()
    with pytest.raises(Corrupt, match="had acknowledged"):
        RecordedStore(path.with_name("copy.db"))


@pytest.mark.parametrize("size", [None, 0])
def test_an_empty_database_is_no_older_truth(path: Path, size: int | None) -> None:
    path = killed(path, three)
    path.unlink()
    log_of(path).unlink()
    if size is not None:
        path.write_bytes(b"")
    with pytest.raises(Corrupt, match="ends at record 0"):
        found(path)


def test_a_new_database_is_a_store_without_its_log(path: Path) -> None:
    async def nothing(store: SqliteStore, mine: Claim) -> None:
        return

    path = killed(path, nothing)
    log_of(path).unlink()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM store").fetchone() == (1,)


def test_another_store_in_the_place_of_one_is_refused(path: Path, tmp_path: Path) -> None:
    copy = killed(path, three)

    async def other() -> None:
        store = await SqliteStore.open(tmp_path / "other.db")
        mine = await claim(store)
        for fact in range(9):
            await write(store, mine, fact, after=fact)
        await store.aclose()

    asyncio.run(other())
    log_of(copy).unlink()
    shutil.copyfile(tmp_path / "other.db", copy)
    with pytest.raises(Corrupt, match="another file took its place"):
        found(copy)


def test_after_the_last_close_the_database_alone_is_complete(path: Path, tmp_path: Path) -> None:
    async def story() -> None:
        store, other = await SqliteStore.open(path), await SqliteStore.open(path)
        await three(store, await claim(store))
        await store.aclose()
        assert mark_of(path).exists()
        await other.aclose()

    asyncio.run(story())
    assert os.listdir(tmp_path) == ["store.db"]
    shutil.copyfile(path, tmp_path / "copy.db")
    assert found(tmp_path / "copy.db") == [0, 1, 2]
    path.unlink()
    assert found(path) == []


def test_a_copy_that_sqlite_makes_of_an_open_store_needs_no_mark(path: Path, tmp_path: Path) -> None:
    async def story(store: SqliteStore, mine: Claim) -> None:
        await three(store, mine)
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
            source.backup(copy)

    killed(path, story)
    assert found(tmp_path / "copy.db") == [0, 1, 2]


def test_a_tool_that_recovers_the_log_does_no_harm(path: Path) -> None:
    path = killed(path, three)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM")
    assert not log_of(path).exists()
    assert found(path) == [0, 1, 2]


@pytest.mark.parametrize("size", [1, SLOT_BYTES, 4_095, 4_097])
def test_a_mark_of_another_size_is_damaged(path: Path, size: int) -> None:
    path = killed(path, three)
    mark_of(path).write_bytes((mark_of(path).read_bytes() + b"\0")[:size])
    with pytest.raises(Corrupt, match=r"store\.db-mark is damaged"):
        found(path)


@pytest.mark.parametrize("target", ["device", "nothing", "pipe", "folder"])
def test_a_mark_that_is_no_file_of_its_own_is_damaged_and_its_target_keeps_its_rights(
    path: Path, tmp_path: Path, target: str
) -> None:
    store = killed(path, three)
    mark, other = store.with_name(FILES[2]), tmp_path / "other"
    mark.unlink()
    match target:
        case "device":
            # As the link of an attacker to /dev/null, of which only its file system is another.
            other.write_bytes(b"")
            other.chmod(0o666)
            mark.symlink_to(other)
        case "nothing":
            mark.symlink_to(tmp_path / "missing")
        case "pipe":
            os.mkfifo(mark, 0o666)
            mark.chmod(0o666)
        case _:
            mark.mkdir(0o777)
            mark.chmod(0o777)
    mode = mark.stat().st_mode if mark.exists() else None
    for _ in range(2):
        with pytest.raises(Corrupt, match=r"store\.db-mark is damaged"):
            found(store)
    assert (mark.stat().st_mode if mark.exists() else None) == mode


def test_a_mark_with_another_bit_is_damaged(path: Path) -> None:
    path = killed(path, three)
    whole = mark_of(path).read_bytes()
    for at, byte in enumerate(whole):
        if byte:
            mark_of(path).write_bytes(whole[:at] + bytes([byte ^ 4]) + whole[at + 1 :])
            with pytest.raises(Corrupt, match=r"store\.db-mark is damaged"):
                found(path)


def restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_marks, "boot_digest", lambda: b"restart!")


def test_after_a_loss_of_power_durability_process_may_have_lost_writes_and_tells_it_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = killed(path, three)
    log_of(path).unlink()
    restarted(monkeypatch)
    assert found(path) == []
    assert "lost its newest writes when the machine stopped" in caplog.text
    assert "record 0" in caplog.text
    assert "record 3" in caplog.text


def test_after_a_loss_of_power_garbled_marks_do_not_count(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = killed(path, three)
    whole = bytearray(mark_of(path).read_bytes())
    at = next(slot for slot in range(0, len(whole), SLOT_BYTES) if any(whole[slot : slot + SLOT_BYTES]))
    whole[at + 3] ^= 255
    mark_of(path).write_bytes(whole)
    restarted(monkeypatch)
    assert found(path) == [0, 1, 2]


def test_durability_power_loses_nothing_with_the_power(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = killed(path, three, durability="power")
    log_of(path).unlink()
    restarted(monkeypatch)
    with pytest.raises(Corrupt, match="had acknowledged record 3"):
        found(path)


def test_what_a_checkpoint_wrote_survives_a_loss_of_power(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(store: SqliteStore, mine: Claim) -> None:
        await three(store, mine)
        store._writer._transaction.checkpoint()  # pyright: ignore[reportPrivateUsage] - between two writes
        await write(store, mine, 3, after=3)

    path = killed(path, story)
    restarted(monkeypatch)
    whole = path.read_bytes(), mark_of(path).read_bytes()
    log_of(path).unlink()
    assert found(path) == [0, 1, 2]
    path.write_bytes(whole[0][: 2 * len(whole[0]) // 3])
    mark_of(path).write_bytes(whole[1])
    with pytest.raises(Corrupt):
        found(path)


def test_a_late_mark_does_not_replace_a_newer_one(path: Path) -> None:
    path = killed(path, three)
    marks = StoreMarks(path, durability="process")
    with closing(connect(path)) as connection:
        key = StoreKey.load(connection.execute(STORE).fetchall())
        marks.begin(connection, key)
    marks.note(StoreState(9, 0, 1))
    for late in range(1, ACKNOWLEDGED - 1):
        marks.note(StoreState(max(0, 9 - late), 0, 1))
    log_of(path).write_bytes(b"")
    marks.close()
    with pytest.raises(Corrupt, match="had acknowledged record 9"):
        found(path)


def test_a_mark_that_cannot_be_written_is_logged_once_and_writes_go_on(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        store = await SqliteStore.open(path)
        mine = await claim(store)

        def broken(handle: int, data: bytes, offset: int) -> int:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(sqlite_marks.os, "pwrite", broken)
        await three(store, mine)
        store._writer._transaction.checkpoint()  # pyright: ignore[reportPrivateUsage] - between two writes
        assert numbers(await store.read("s1")) == [0, 1, 2]
        await store.aclose()

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    assert caplog.text.count("a lost log would not be noticed") == 1


@pytest.mark.parametrize("size", [0, SLOT_BYTES, FILE_BYTES])
@pytest.mark.parametrize("database", [None, b""], ids=["no database", "an empty database"])
def test_a_blank_mark_file_without_a_store_is_damaged_and_deleting_it_begins_a_new_store(
    path: Path, size: int, database: bytes | None
) -> None:
    if database is not None:
        path.write_bytes(database)
    mark_of(path).write_bytes(bytes(size))
    for _ in range(2):
        with pytest.raises(Corrupt, match=r"restore a backup.* delete store\.db-mark"):
            found(path)
    assert mark_of(path).read_bytes() == bytes(size)
    mark_of(path).unlink()
    assert found(path) == []


@pytest.mark.parametrize("database", [None, b""], ids=["no database", "an empty database"])
def test_a_blank_mark_file_beside_a_store_that_was_taken_away_is_damaged(
    path: Path, database: bytes | None
) -> None:
    path = killed(path, three)
    path.unlink()
    log_of(path).unlink()
    if database is not None:
        path.write_bytes(database)
    mark_of(path).write_bytes(bytes(FILE_BYTES))
    with pytest.raises(Corrupt, match=r"delete store\.db-mark"):
        found(path)


@pytest.mark.slow
@pytest.mark.parametrize("has_log", [True, False], ids=["log", "no log"])
def test_a_mark_file_of_any_other_length_is_damaged(path: Path, has_log: bool) -> None:
    path = killed(path, three)
    whole = mark_of(path).read_bytes()
    if not has_log:
        log_of(path).unlink()
    for size in range(FILE_BYTES):
        os.truncate(mark_of(path), 0)
        mark_of(path).write_bytes(whole[:size])
        with pytest.raises(Corrupt, match=r"delete store\.db-mark"):
            StoreMarks(path, durability="process")


@pytest.mark.parametrize("has_log", [True, False], ids=["log", "no log"])
@pytest.mark.parametrize("size", [0, 1, SLOT_BYTES, FILE_BYTES])
def test_a_mark_file_of_zeros_is_damaged_and_deleting_it_accepts_what_is_left(
    path: Path, size: int, has_log: bool
) -> None:
    path = killed(path, three)
    if not has_log:
        log_of(path).unlink()
    mark_of(path).write_bytes(bytes(size))
    for _ in range(2):
        with pytest.raises(Corrupt, match=r"restore a backup.* delete store\.db-mark"):
            found(path)
    mark_of(path).unlink()
    assert found(path) == ([0, 1, 2] if has_log else [])


CALLS: Final = ("pwrite", "ftruncate", "fdatasync", "fsync", "rename", "flock")
"""Calls before which a process is killed; with them it changes files, or waits for others that do."""


def opens_until(path: Path, count: int) -> bool:
    """Open a store in another process, which is killed at a call of `CALLS`; False if it made fewer."""
    child = os.fork()
    if child == 0:
        left = iter(range(count))

        def before(real: Callable[..., object]) -> Callable[..., object]:
            def call(*arguments: object) -> object:
                if next(left, None) is None:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*arguments)

            return call

        for name in CALLS:
            module = fcntl if name == "flock" else os
            setattr(module, name, before(getattr(module, name)))
        RecordedStore(path)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("before", ["no store", "a closed store", "a store after a loss of power"])
def test_a_kill_at_any_call_while_a_store_is_opened_leaves_one_that_opens(
    path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    async def closed() -> None:
        store = await SqliteStore.open(path)
        await three(store, await claim(store))
        await store.aclose()

    if before == "a store after a loss of power":
        path = killed(path, three)
        log_of(path).unlink()
        restarted(monkeypatch)
    elif before == "a closed store":
        asyncio.run(closed())
    whole = {name: path.with_name(name).read_bytes() for name in FILES if path.with_name(name).exists()}
    count = 0
    while True:
        for name in (*FILES, "store.db-shm", "store.db-mark.new"):
            path.with_name(name).unlink(missing_ok=True)
        for name, content in whole.items():
            path.with_name(name).write_bytes(content)
        if not opens_until(path, count):
            break
        assert found(path) == ([0, 1, 2] if before == "a closed store" else [])
        assert not mark_of(path).exists()
        count += 1
    assert count >= 4


STRACE: Final = shutil.which("strace")
OPENING: Final = (
    "import sys; from pathlib import Path; "
    "from windlass.sqlite.recorded import RecordedStore; "
    "RecordedStore(Path(sys.argv[1])).close()"
)


def first_opening_killed_at(path: Path, call: str, number: int) -> bool:
    """Open a new store in a process that is killed in a system call; False if it made fewer of them."""
    kill = f"inject={call}:signal=SIGKILL:when={number}"
    watch = [str(STRACE), "-qq", "-o", os.devnull, "-e", f"trace={call}", "-e", kill]
    command = [*watch, sys.executable, "-c", OPENING, str(path)]
    ended = subprocess.run(command, capture_output=True, check=False, timeout=300)
    assert ended.returncode in {0, -signal.SIGKILL}, ended.stderr.decode()
    return ended.returncode != 0


@pytest.mark.slow
@pytest.mark.skipif(STRACE is None, reason="strace is not installed")
@pytest.mark.parametrize(
    ("call", "stride"),
    [("fdatasync", 1), ("fsync", 1), ("ftruncate", 1), ("rename", 1), ("unlink", 1), ("pwrite64", 16)],
)
def test_a_kill_in_any_system_call_of_the_first_opening_leaves_a_store_that_opens(
    tmp_path: Path, call: str, stride: int
) -> None:
    for number in itertools.count(1, stride):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / "store.db"
        if not first_opening_killed_at(path, call, number):
            assert number > 1, "the opening makes the call at least once"
            break
        if mark_of(path).exists():
            assert any(mark_of(path).read_bytes()), "a file without a mark is damaged"
        assert found(path) == []


def test_a_process_of_version_7_that_has_the_file_open_cannot_append_rows_without_seals(path: Path) -> None:
    old = connect(path)
    prepare(old, path, durability="process", migrations=MIGRATIONS[:7])
    old.execute("INSERT INTO runs VALUES ('r1', 5, 'a1', 'sha256:1', 'pending', 0, 0, NULL, NULL, NULL)")
    assert found(path) == []
    with pytest.raises(sqlite3.OperationalError, match="no column named is_milestone"):
        old.execute(
            "INSERT INTO appends (last_position, session_key, last_seq, epoch, chain, body, is_milestone) "
            "VALUES (1, 1, 1, 1, x'', x'', 1)"
        )
    key = StoreKey.load(old.execute(STORE).fetchall())
    [row] = old.execute(f"SELECT {RUN_COLUMNS} FROM runs").fetchall()
    key.check_row("runs", row)
    old.close()
