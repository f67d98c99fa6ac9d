"""Outages of PostgreSQL under load: a replica takes over, and disks fill up.

    python -m tests.faults.torture outages --trials 10 --first 1

The load is writers, runs with tools and a reader of everything, on two stores. It is wrong if an acknowledged
record is not there, one is there twice, a run does not end, or the reader misses or repeats a record.
"""

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any, Final, TypeVar

import psycopg
from tests.contracts.stores import draft

from tools.postgres import Postgres, running_postgres
from windlass import Agent, AgentRuntime, ToolContext, tool
from windlass.errors import Ambiguous, Conflict, Unavailable
from windlass.ports.journal import Batch, Claim
from windlass.postgres.store import PostgresStore
from windlass.testing import ScriptedModel, by_history, call, say
from windlass_harness.record import Record

T = TypeVar("T")

GUARD_S: Final = 600.0
LOOK_S: Final = 0.02
BEAT_S: Final = 5.0
WRITERS: Final = 3
"""Of each store, each with a session of its own."""
LANES: Final = 3
"""Runs of each store at the same time."""
STEPS: Final = 4
"""Tool calls of a run."""
TEXT_BYTES: Final = 2_000
"""Of a record of a writer, in letters that cannot be packed."""
MORE: Final = 20
"""Records of each writer before and after an outage."""
REFUSALS: Final = 12
"""Refused writes of a full disk before room is made."""
DISK_BYTES: Final = {"data": 64 << 20, "log-of-writes": 32 << 20}
PASSING: Final = (Ambiguous, Unavailable)


@dataclass(slots=True)
class Load:
    """What goes on during an outage, and what it knows."""

    address: str
    chance: random.Random
    records: int = MORE
    """How many each writer adds before and after an outage."""
    acked: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """When each record of a writer was acknowledged, or found after doubt."""
    refusals: Counter[str] = field(default_factory=Counter[str])
    effects: list[str] = field(default_factory=list[str])
    ended: Counter[str] = field(default_factory=Counter[str])
    """Runs that ended, by their status."""
    seen: list[Record] = field(default_factory=list[Record])
    """What the reader of everything got."""
    wrong: list[str] = field(default_factory=list[str])
    is_over: bool = False

    async def play(self, outage: Callable[["Load"], Awaitable[None]]) -> None:
        """Let an outage happen to the load, and compare what is there with what was acknowledged."""
        async with AsyncExitStack() as stack:
            tasks: list[asyncio.Task[None]] = []
            for place in ("a", "b"):
                store = await PostgresStore.open(self.address)
                stack.push_async_callback(store.aclose)
                tasks.append(asyncio.create_task(self.beat(store, place)))
                tasks += [asyncio.create_task(self.write(store, place, number)) for number in range(WRITERS)]
                agent = self.agent()
                opened = AgentRuntime.open(self.address, agents=[agent])
                runtime = await stack.enter_async_context(opened)
                tasks += [asyncio.create_task(self.run(runtime, agent)) for _ in range(LANES)]
            reader = await PostgresStore.open(self.address)
            stack.push_async_callback(reader.aclose)
            reading = asyncio.create_task(self.read(reader))
            await self.more()
            await outage(self)
            await self.more()
            self.is_over = True
            await asyncio.gather(*tasks)
            while await reader.open_runs():  # noqa: ASYNC110 - nothing tells of all runs
                await asyncio.sleep(LOOK_S)
            await reading
            await self.compare(reader)

    def agent(self) -> Agent:
        """An agent whose tool notes its effects."""

        @tool(mode="read", effect="idempotent")
        async def look(ctx: ToolContext) -> str:
            """Look something up."""
            self.effects.append(ctx.idempotency_key)
            return "seen"

        answers = [*([call("look")] * STEPS), say("done")]
        return Agent("clerk", model=ScriptedModel(by_history(answers)), tools=[look])

    async def beat(self, store: PostgresStore, owner: str) -> None:
        """Renew the lease of an owner."""
        while not self.is_over:
            await self.insist(lambda: store.enlist(owner, now_ms=_now_ms()))
            await asyncio.sleep(BEAT_S)

    async def write(self, store: PostgresStore, owner: str, number: int) -> None:
        """Append one record after the other."""
        name = f"writer-{owner}-{number}"
        known = self.acked[name] = []

        async def claim() -> Claim:
            await store.enlist(owner, now_ms=_now_ms())
            return await store.claim(name, owner, now_ms=_now_ms())

        mine = await self.insist(claim)
        while not self.is_over:
            one = replace(
                draft(len(known)),
                data={"number": len(known), "text": self.chance.randbytes(TEXT_BYTES).hex()},
            )
            try:
                await store.append(Batch(mine, len(known), (one,)))
            except (*PASSING, Conflict) as error:
                self.refusals[str(error)] += 1
                mine = await self.insist(claim)
                if mine.last_seq == len(known):
                    continue
                if mine.last_seq != len(known) + 1:
                    self.wrong.append(f"{name} has {mine.last_seq} records, {len(known)} were acknowledged")
                    return
            known.append(time.monotonic())

    async def run(self, runtime: AgentRuntime, agent: Agent) -> None:
        """Start one run after the other, and wait for each."""
        while not self.is_over:
            begun = await self.insist(lambda: runtime.start_run(agent, "Go"))
            self.ended[(await self.insist(begun.wait)).status.value] += 1

    async def read(self, store: PostgresStore) -> None:
        """Read all records of all sessions as they come."""
        is_last = False
        while True:
            after = self.seen[-1].position or 0 if self.seen else 0
            more: Sequence[Record] = ()
            with suppress(*PASSING):
                more = await store.read_all(after=after)
            self.seen += more
            if not more:
                if is_last:
                    return
                # One look after the last run has ended finds the rest.
                is_last = self.is_over and not await self.insist(store.open_runs)
                await asyncio.sleep(LOOK_S)

    async def insist(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do something until the database lets it happen."""
        while True:
            try:
                return await work()
            except (*PASSING, Conflict) as error:
                self.refusals[str(error)] += 1
                await asyncio.sleep(LOOK_S)

    async def more(self, records: int | None = None) -> None:
        """Return when every writer has more records, and more runs have ended."""
        records = self.records if records is None else records
        wanted = {name: len(times) + records for name, times in self.acked.items()}
        runs = self.ended.total() + LANES
        while (  # noqa: ASYNC110 - as above
            len(self.acked) < 2 * WRITERS
            or any(len(self.acked[name]) < count for name, count in wanted.items())
            or self.ended.total() < runs
        ):
            await asyncio.sleep(LOOK_S)

    async def refused(self, words: str, count: int) -> None:
        """Return when so many more writes were refused with these words."""
        before = self._refused(words)
        while self._refused(words) < before + count:  # noqa: ASYNC110 - as above
            await asyncio.sleep(LOOK_S)

    def _refused(self, words: str) -> int:
        return sum(times for text, times in self.refusals.items() if words in text)

    def back_s(self, since: float, promoted: float) -> float:
        """Return the time from an outage until every writer had written again."""
        return max(min(at for at in times if at > promoted) for times in self.acked.values()) - since

    async def compare(self, store: PostgresStore) -> None:
        """Compare the journal with what writers, tools and the reader know."""
        whole: list[Record] = []
        results: Counter[str] = Counter()
        async for name in _sessions(store):
            records = await _records(store, name)
            if [one.seq for one in records] != list(range(1, len(records) + 1)):
                self.wrong.append(f"{name} has a gap")
            if name in self.acked:
                numbers = [one.data["number"] for one in records]
                if numbers != list(range(len(self.acked[name]))):
                    self.wrong.append(f"{name} has {len(numbers)}, {len(self.acked[name])} were acknowledged")
            results.update(_results(records))
            whole += records
        if self.ended.keys() - {"completed"}:
            self.wrong.append(f"runs ended: {dict(self.ended)}")
        self.wrong += [f"{times} results of {key}" for key, times in results.items() if times > 1]
        self.wrong += [f"{key} has no result" for key in set(self.effects) - results.keys()]
        told = [(one.position, one.session_id, one.seq) for one in self.seen]
        kept = sorted((one.position, one.session_id, one.seq) for one in whole)
        if told != kept:
            self.wrong.append(f"the reader got {len(told)} records, {len(set(told))} of {len(kept)}")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _results(records: Iterable[Record]) -> list[str]:
    found: list[str] = []
    for record in records:
        if record.type == "action.result":
            data: Any = record.data
            found.append(f"{record.run_id}/{data['stepIndex']}/{data['result']['callId']}")
    return found


async def _sessions(store: PostgresStore) -> AsyncGenerator[str]:
    after: str | None = None
    while rows := await store.sessions(after=after):
        for row in rows:
            yield row.session_id
        after = rows[-1].session_id


async def _records(store: PostgresStore, session_id: str) -> list[Record]:
    found: list[Record] = []
    while more := await store.read(session_id, after=found[-1].seq if found else 0):
        found += more
    return found


def _told(load: Load) -> dict[str, Any]:
    return {
        "records": len(load.seen),
        "runs": load.ended.total(),
        "repeated": len(load.effects) - len(set(load.effects)),
        "refused": load.refusals.total(),
        "wrong": load.wrong,
    }


def failover(seed: int, *, records: int = MORE) -> dict[str, Any]:
    """Stop, crash or kill a server, and let its synchronous replica take over."""
    times: list[float] = []

    async def story(first: Postgres, second: Postgres) -> Load:
        hosts = f"{first.folder},{second.folder}"
        address = f"postgresql://postgres@/postgres?host={hosts}&target_session_attrs=read-write"
        load = Load(address, random.Random(seed), records)

        async def outage(load: Load) -> None:
            await load.more(load.chance.randrange(load.records))
            began = time.monotonic()
            end = (first.kill, lambda: first.stop("immediate"), lambda: first.stop("fast"))[seed % 3]
            await asyncio.to_thread(end)
            await asyncio.to_thread(second.promote)
            promoted = time.monotonic()
            await load.more(1)
            times.extend((promoted - began, load.back_s(began, promoted)))

        async with asyncio.timeout(GUARD_S):
            await load.play(outage)
        return load

    with (
        running_postgres(synchronous_commit="on") as first,
        running_postgres(first, synchronous_commit="on") as second,
    ):
        with psycopg.connect(first.base, autocommit=True) as admin:
            admin.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            admin.execute("SELECT pg_reload_conf()")
        told = _told(asyncio.run(story(first, second)))
    return {**told, "promoted_s": times[0], "back_s": times[1]}


def full_disk(seed: int) -> dict[str, Any]:
    """Fill the disk of the tables, or that of the write-ahead log, and make room again."""
    name = sorted(DISK_BYTES)[seed % 2]

    async def story(server: Postgres) -> Load:
        async def outage(load: Load) -> None:
            await load.more(load.chance.randrange(load.records))
            filler = server.folder / name / "filler"
            _fill(filler)
            # Without room for its log the server ends: it cannot say why.
            words = (
                "is full, nothing was written: free some space" if name == "data" else "nothing was written"
            )
            await load.refused(words, REFUSALS)
            filler.unlink()
            while not await asyncio.to_thread(lambda: server.is_running):
                with suppress(CalledProcessError):
                    await asyncio.to_thread(server.start)

        load = Load(server.base, random.Random(seed))
        async with asyncio.timeout(GUARD_S):
            await load.play(outage)
        return load

    with running_postgres(
        DISK_BYTES, synchronous_commit="on", min_wal_size="2MB", max_wal_size="8MB"
    ) as server:
        return _told(asyncio.run(story(server)))


def _fill(path: Path) -> None:
    """Write a file that takes all room of its disk."""
    block = bytes(1 << 12)
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(block)


def outages(seeds: Iterable[int]) -> dict[str, Any]:
    """Play failovers, and full disks if this user may mount some."""
    taken: list[dict[str, Any]] = []
    for seed in seeds:
        taken.append(failover(seed))
        if os.geteuid() == 0:
            taken.append(full_disk(seed))
    failovers = [one for one in taken if "back_s" in one]
    wrong = [words for one in taken for words in one["wrong"]]
    return {
        "trials": len(taken),
        "kills": len(taken),
        "repeated": sum(one["repeated"] for one in taken),
        "records": sum(one["records"] for one in taken),
        "runs": sum(one["runs"] for one in taken),
        "refused": sum(one["refused"] for one in taken),
        "promoted_ms": [round(1_000 * one["promoted_s"]) for one in failovers],
        "back_ms": [round(1_000 * one["back_s"]) for one in failovers],
        "wrong": len(wrong),
        "violations": wrong[:10],
    }
