"""The stores under test, and short helpers to call one."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import psycopg

from tools.postgres import CLEAN, Postgres
from windlass.adapters.journals.memory import MemoryStore
from windlass.limits import REFUSED_STARTS_MAX
from windlass.ports.inbox import NewRun
from windlass.ports.journal import Appended, Batch, Claim, Standing
from windlass.ports.purses import PurseStore
from windlass.ports.store import ContentStore, Store
from windlass.sqlite.store import SqliteStore
from windlass_harness.loop.events import Draft
from windlass_harness.record import Record
from windlass_protocol import JsonObject

if TYPE_CHECKING:
    from windlass.postgres import PostgresStore

AT = "2026-01-31T09:30:00.250Z"
NOW_MS = 1_000_000
GUARD_S = 300


class AnyStore(Store, ContentStore, PurseStore, Protocol):
    """Every port that a store has."""


Story = Callable[[AnyStore, AnyStore], Awaitable[None]]
"""A story on a store; the second store is another connection to the same data, as of another process."""
Play = Callable[[Story], None]


def play_in_memory(story: Story, *, refusals_max: int = REFUSED_STARTS_MAX) -> None:
    async def main() -> None:
        async with asyncio.timeout(GUARD_S):
            store = MemoryStore(refusals_max=refusals_max)
            await story(store, store)
            await store.aclose()

    asyncio.run(main())


def play_on_sqlite(story: Story, path: Path, *, refusals_max: int = REFUSED_STARTS_MAX) -> None:
    async def main() -> None:
        async with asyncio.timeout(GUARD_S):
            # One is written by the event loop, one by a thread.
            store = await SqliteStore.open(path, durability="process", refusals_max=refusals_max)
            other = await SqliteStore.open(path, durability="power", refusals_max=refusals_max)
            await story(store, other)
            await store.aclose()
            await other.aclose()

    asyncio.run(main())


class PostgresStores:
    """Stores in one schema of a server, open for all tests of a run: to connect takes longer than a story."""

    def __init__(self, server: Postgres) -> None:
        self.place = server.new_schema()
        self._admin = psycopg.connect(self.place[0], autocommit=True)
        self._opened: dict[int, tuple[PostgresStore, PostgresStore]] = {}

    def clean(self) -> None:
        """Delete all rows."""
        self._admin.execute(CLEAN.replace("SCHEMA", self.place[1]).encode())

    def play(self, story: Story, *, refusals_max: int = REFUSED_STARTS_MAX) -> None:
        """Let a story happen to stores without rows."""

        async def main() -> None:
            async with asyncio.timeout(GUARD_S):
                self.clean()
                stores = await self._stores(refusals_max)
                await story(*stores)
                # What a failed story has used is left to the end of the process.
                self._opened[refusals_max] = stores

        asyncio.run(main())

    async def _stores(self, refusals_max: int) -> "tuple[PostgresStore, PostgresStore]":
        """Return the stores of the story before, unless it closed one."""
        from windlass.postgres import PostgresStore  # noqa: PLC0415 - the tests of core run without this room

        stores = self._opened.pop(refusals_max, ())
        if stores and not any(one._is_closed for one in stores):  # pyright: ignore[reportPrivateUsage]
            return stores
        for store in stores:
            await store.aclose()
        address, schema = self.place
        return (
            await PostgresStore.open(address, schema=schema, refusals_max=refusals_max),
            await PostgresStore.open(address, schema=schema, refusals_max=refusals_max),
        )

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()
        # Tests of other suites end the connections of the server.
        self._admin = psycopg.connect(self.place[0], autocommit=True)
        self.clean()
        for stores in self._opened.values():
            for store in stores:
                asyncio.run(store.aclose())
        self._admin.close()


def draft(number: int = 0, *, size: int = 0) -> Draft:
    """Return a draft with a number of its own."""
    data: JsonObject = {"number": number, "text": "x" * size}
    return Draft(type="note.made", at=AT, data=data, run_id="r1")


def drafts(*numbers: int) -> tuple[Draft, ...]:
    return tuple(draft(number) for number in numbers)


def numbers(records: tuple[Record, ...]) -> list[object]:
    """Return the numbers of the drafts."""
    return [record.data["number"] for record in records]


async def claim(store: Store, session_id: str = "s1", owner_id: str = "o1", *, now_ms: int = NOW_MS) -> Claim:
    """Enlist an owner and let it claim a session."""
    await store.enlist(owner_id, now_ms=now_ms)
    return await store.claim(session_id, owner_id, now_ms=now_ms)


async def write(
    store: Store,
    claim: Claim,
    *facts: int,
    after: int = 0,
    standing: Standing | None = None,
    wake_at_ms: int | None = None,
    is_last: bool = False,
) -> Appended:
    """Append facts behind the record named."""
    return await store.append(
        Batch(claim, after, drafts(*facts), standing=standing, wake_at_ms=wake_at_ms, is_last=is_last)
    )


async def post(store: Store, key: str, session_id: str = "s1", *, run_id: str | None = None) -> int:
    """Post an item with its key as its body."""
    run = None if run_id is None else NewRun(run_id, "a1", "sha256:1")
    posted = await store.post(session_id, kind="message", key=key, body={"key": key}, run=run)
    return posted.number
