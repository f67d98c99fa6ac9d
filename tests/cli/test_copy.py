"""`copy`: a store moves from a file to PostgreSQL, whole, and whatever interrupts it."""

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import psycopg
import pytest
from tests.cli.commands import run_here
from tests.contracts.stores import AT, NOW_MS, claim, drafts, numbers, post, write
from tests.fleet.test_postgres import story

from tools.postgres import Postgres
from windlass import Corrupt, Rejected
from windlass.ports.documents import Document
from windlass.ports.journal import Batch, Standing
from windlass.ports.listing import RefusedStart
from windlass.postgres import copying
from windlass.postgres.copying import copy_store
from windlass.postgres.store import PostgresStore
from windlass.sqlite.schema import MIGRATIONS, connect, prepare
from windlass.sqlite.store import SqliteStore
from windlass_protocol import ErrorCode, ErrorKind, RetryClass

ROOT: Final = Path(__file__).parents[2]
EMPTY: Final = {"leases", "asked", "asked_of", "settled", "run_tags"}
"""Tables in which the store of these tests has no rows."""

KILLED: Final = """
import asyncio, os, signal, sys
from pathlib import Path
from windlass.postgres import copying

copying.ROWS_MAX, batches, write = 2, [], copying._Copy._write

def killed(*arguments, **options):
    write(*arguments, **options)
    batches.append(1)
    if len(batches) == 3:
        os.kill(os.getpid(), signal.SIGKILL)

copying._Copy._write = killed
asyncio.run(copying.copy_store(Path(sys.argv[1]), sys.argv[2]))
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A store with rows in most tables."""
    path = tmp_path / "app.db"

    async def main() -> None:
        store = await SqliteStore.open(path)
        await story(store)
        mine = await claim(store, "s4")
        waits = Batch(mine, 0, drafts(1), standing=Standing.WAITING, wake_at_ms=NOW_MS, is_last=True)
        await store.append(waits)
        await store.save("s4", 1, state=b"state")
        await write(store, await claim(store, "gone"), 1, is_last=True)
        assert await store.delete("gone", now_ms=NOW_MS) == ("gone",)
        await post(store, "odd \uf8ff", "s5 \uf8ff0")
        await store.put(bytes(100_000), media_type="a\0b", session_id="s4")
        await store.put_document(Document("schedule", "nightly", revision=1, body={"a": 1}, due_at_ms=5))
        refused = RefusedStart(
            at=AT,
            run_id="r9",
            session_id=None,
            agent_id="a1",
            owner=None,
            source=None,
            code=ErrorCode.DENIED,
            kind=ErrorKind.POLICY_DENIAL,
            retry=RetryClass.USER_ACTION_NEEDED,
            message="closed",
        )
        await store.record_refusal(refused)
        await store.record_refusal(replace(refused, run_id="r10"))
        await store.aclose()

    asyncio.run(main())
    return path


def rows(execute: Callable[[str], list[tuple[object, ...]]]) -> dict[str, list[tuple[object, ...]]]:
    return {
        table.name: sorted(execute(f"SELECT {table.columns} FROM {table.name}"), key=repr)
        for table in copying._TABLES  # pyright: ignore[reportPrivateUsage]
    }


def rows_in(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as file:
        return rows(lambda sql: file.execute(sql).fetchall())


def rows_at(address: str) -> dict[str, list[tuple[object, ...]]]:
    def plain(value: object) -> object:
        # As the store reads texts.
        return (
            value.replace("\uf8ff0", "\0").replace("\uf8ff1", "\uf8ff") if isinstance(value, str) else value
        )

    with psycopg.connect(address) as connection:
        connection.execute("SET search_path = windlass")
        return rows(
            lambda sql: [tuple(map(plain, row)) for row in connection.execute(sql.encode()).fetchall()]
        )


def test_a_copy_has_every_row_of_its_source_which_stays_as_it_was_and_goes_on(
    postgres: Postgres, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address, before = postgres.new_database(), source.read_bytes()
    done = run_here(capsys, "copy", str(source), address, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert (told["sessions"], told["rows"]) == (5, sum(map(len, rows_in(source).values())))
    assert source.read_bytes() == before
    expected = rows_in(source)
    assert {name for name, found in expected.items() if not found} == EMPTY
    assert rows_at(address) == expected

    async def go_on() -> None:
        store = await PostgresStore.open(address)
        last, items = await store.last_position(), (await store.arrivals(after=0)).newest
        mine = await claim(store, "s2", "o2")
        appended = await write(store, mine, 2, after=mine.last_seq)
        assert appended.first_position == last + 1
        assert await post(store, "new", "s2") == items + 1
        assert numbers(await store.read("s2")) == [1, 2]
        assert "s4" in await store.due(now_ms=NOW_MS)
        await store.record_refusal((await store.list_refusals())[0])
        await store.aclose()

    asyncio.run(go_on())
    again = run_here(capsys, "copy", str(source), address)
    assert again.code == 2
    assert "holds this store already" in " ".join(again.err.split())


@pytest.mark.parametrize("is_written", [False, True], ids=["before a commit", "after a commit"])
def test_a_copy_that_is_interrupted_at_each_batch_goes_on_there_and_is_the_same(
    postgres: Postgres, source: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    address = postgres.new_database()
    monkeypatch.setattr(copying, "ROWS_MAX", 2)
    write, batches = copying._Copy._write, list[int]()  # pyright: ignore[reportPrivateUsage]

    def interrupted(*arguments: object, **options: object) -> None:
        if len(batches) % 2 == 0 or is_written:
            write(*arguments, **options)  # pyright: ignore[reportArgumentType, reportCallIssue]
        batches.append(1)
        if len(batches) % 2 == 0:
            raise InterruptedError

    monkeypatch.setattr(copying._Copy, "_write", interrupted)  # pyright: ignore[reportPrivateUsage]
    attempts = 0
    while True:
        attempts += 1
        try:
            asyncio.run(copy_store(source, address))
            break
        except InterruptedError:
            with pytest.raises(Rejected, match="holds a part of a copy: run windlass copy again"):
                asyncio.run(PostgresStore.open(address))
    assert attempts > 8
    assert rows_at(address) == rows_in(source)


def test_a_copy_whose_process_was_killed_goes_on(postgres: Postgres, source: Path) -> None:
    address, before = postgres.new_database(), source.read_bytes()
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, source, address], cwd=ROOT, timeout=300, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    steps: list[tuple[int, int]] = []
    asyncio.run(copy_store(source, address, on_progress=lambda done, total: steps.append((done, total))))
    assert rows_at(address) == rows_in(source)
    assert source.read_bytes() == before
    assert steps == sorted(steps)
    assert steps[-1][0] == steps[-1][1]


def test_a_source_that_is_in_use_or_changed_and_a_target_that_is_not_empty_are_refused(
    postgres: Postgres, source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address = postgres.new_database()

    async def main() -> None:
        store = await SqliteStore.open(source)
        with pytest.raises(Rejected, match="is in use, or was not closed"):
            await copy_store(source, address)
        await store.aclose()
        with monkeypatch.context() as patched:
            patched.setattr(copying._Check, "run", interrupted)  # pyright: ignore[reportPrivateUsage]
            with pytest.raises(InterruptedError):
                await copy_store(source, address)
        store = await SqliteStore.open(source)
        await post(store, "late", "s2")
        await store.aclose()
        with pytest.raises(Rejected, match="before it was written to: drop the schema windlass"):
            await copy_store(source, address)
        other = postgres.new_database()
        await (await PostgresStore.open(other)).aclose()
        with pytest.raises(Rejected, match="holds another store: name an empty database"):
            await copy_store(source, other)

    def interrupted(_: object) -> None:
        raise InterruptedError

    asyncio.run(main())
    old = source.with_name("old.db")
    with closing(connect(old)) as connection:
        prepare(connection, old, durability="process", migrations=MIGRATIONS[:1])
    for arguments, words in (
        ((str(source), "other.db"), "a store is copied to PostgreSQL"),
        ((str(source.with_name("missing.db")), address), "there is no store"),
        ((str(old), address), "run windlass migrate first"),
    ):
        ran = run_here(capsys, "copy", *arguments)
        assert ran.code == 2
        assert words in " ".join(ran.err.split())


DAMAGES: Final = (
    "UPDATE appends SET body = x'00' || substr(body, 2) WHERE last_seq = 1",
    "DELETE FROM appends WHERE last_position = (SELECT max(last_position) FROM appends)",
    "UPDATE contents SET content = content || x'00'",
    "UPDATE runs SET status = 'failed'",
    "UPDATE items SET digest = x'00' WHERE consumed_seq IS NOT NULL",
    "UPDATE items SET body = x'00' WHERE consumed_seq IS NULL",
    "UPDATE snapshots SET state = x'00'",
    "UPDATE holes SET first_position = first_position + 1",
    "UPDATE refused SET message = 'x'",
)


def test_a_damaged_row_is_found_and_the_copy_cannot_be_opened(postgres: Postgres, source: Path) -> None:
    address = postgres.new_database()
    for number, damage in enumerate(DAMAGES):
        path = source.with_name(f"damaged{number}.db")
        path.write_bytes(source.read_bytes())
        with closing(sqlite3.connect(path, isolation_level=None)) as file:
            file.execute(damage)
        with pytest.raises(Corrupt):
            asyncio.run(copy_store(path, address))
        with pytest.raises(Rejected, match="holds a part of a copy"):
            asyncio.run(PostgresStore.open(address))
        with psycopg.connect(address, autocommit=True) as admin:
            admin.execute("DROP SCHEMA windlass CASCADE")
