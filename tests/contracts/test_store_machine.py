"""Every store against a model made of lists: the same operations give the same answers."""

import asyncio
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as play_machine
from tests.contracts.stores import NOW_MS, AnyStore, PostgresStores, draft
from tests.depth import some

from windlass.adapters.journals.memory import MemoryStore
from windlass.errors import Conflict
from windlass.ports.inbox import Posted
from windlass.ports.journal import Appended, Batch, Claim, Standing
from windlass.postgres.store import PostgresStore
from windlass.sqlite.store import SqliteStore
from windlass_harness.loop.subagents import START

T = TypeVar("T")

EXAMPLES: Final = some(135)
POSTGRES_EXAMPLES: Final = 6
"""Fewer, for a step is a hundred times as slow."""
STEPS: Final = 80
"""Rules of one example at most: a little over 10,000 steps for each store in all."""

SESSIONS = st.sampled_from(["s1", "s2", "s3"])
OWNERS = st.sampled_from(["o1", "o2"])
PLACES = st.integers(0, 30)
LIMITS = st.sampled_from([1, 2, 7, 100])


@dataclass
class Model:
    """A session as lists."""

    facts: list[int] = field(default_factory=list[int])
    positions: list[int] = field(default_factory=list[int])
    epoch: int = 0
    owner_id: str | None = None
    standing: Standing = Standing.IDLE
    wake_at_ms: int | None = None
    snapshot: tuple[int, bytes] | None = None


@dataclass
class Item:
    """An inbox item of the model."""

    number: int
    session_id: str
    key: str
    body: int
    is_pending: bool = True


def kind_of(key: str) -> str:
    """Every kind but one wakes a session that waits."""
    return START if key in "ab" else "message"


class StoreMachine(RuleBasedStateMachine):
    """The operations of callers, and their expected results."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.store: AnyStore = self.wait(self.opened())
        self.sessions: dict[str, Model] = {}
        self.timeline: list[tuple[str, int]] = []
        self.items: list[Item] = []
        self.claims: list[Claim] = []
        self.fact = 0

    async def opened(self) -> AnyStore:
        raise NotImplementedError

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        async def guarded() -> T:
            async with asyncio.timeout(300):
                return await work

        return self.loop.run_until_complete(guarded())

    def teardown(self) -> None:
        self.wait(self.store.aclose())
        self.loop.close()
        self.folder.cleanup()

    @initialize()
    def owners_enlist(self) -> None:
        for owner_id in ("o1", "o2"):
            self.wait(self.store.enlist(owner_id, now_ms=NOW_MS))

    @rule(session_id=SESSIONS, owner_id=OWNERS)
    def claim(self, session_id: str, owner_id: str) -> None:
        model = self.sessions.get(session_id, Model())
        if model.owner_id not in (None, owner_id):
            with pytest.raises(Conflict):
                self.wait(self.store.claim(session_id, owner_id, now_ms=NOW_MS))
            return
        claim = self.wait(self.store.claim(session_id, owner_id, now_ms=NOW_MS))
        model.epoch += 1
        model.owner_id = owner_id
        self.sessions[session_id] = model
        assert claim == Claim(session_id, owner_id, model.epoch, len(model.facts))
        self.claims.append(claim)

    @precondition(lambda self: self.claims)
    @rule(
        choice=st.integers(0, 5),
        count=st.integers(0, 4),
        slip=st.sampled_from([0, 0, 0, 0, -1, 1]),
        takes=st.integers(0, 2),
        standing=st.sampled_from([None, *Standing]),
        wake_at_ms=st.none() | st.integers(NOW_MS - 2, NOW_MS + 2),
        is_last=st.booleans(),
    )
    def append(
        self,
        choice: int,
        count: int,
        slip: int,
        takes: int,
        standing: Standing | None,
        wake_at_ms: int | None,
        is_last: bool,
    ) -> None:
        claim = self.claims[-1 - choice % len(self.claims)]
        model = self.sessions[claim.session_id]
        expected = len(model.facts) + slip
        waiting = [item for item in self.items if item.is_pending and item.session_id == claim.session_id]
        facts = list(range(self.fact, self.fact + count))
        self.fact += count
        batch = Batch(
            claim,
            expected,
            tuple(draft(fact) for fact in facts),
            consumes=tuple(item.number for item in waiting[:takes]),
            standing=standing,
            wake_at_ms=wake_at_ms,
            is_last=is_last,
        )
        if slip or (model.epoch, model.owner_id) != (claim.epoch, claim.owner_id):
            with pytest.raises(Conflict):
                self.wait(self.store.append(batch))
            return
        first = Appended(len(model.facts) + 1, len(self.timeline) + 1)
        assert self.wait(self.store.append(batch)) == first
        model.facts += facts
        model.positions += range(first.first_position, first.first_position + count)
        self.timeline += [(claim.session_id, fact) for fact in facts]
        for item in waiting[:takes]:
            item.is_pending = False
        if standing is not None:
            model.standing, model.wake_at_ms = standing, wake_at_ms
        if is_last:
            model.owner_id = None

    @rule(session_id=SESSIONS, key=st.sampled_from("abcdef"), body=st.integers(0, 1))
    def post(self, session_id: str, key: str, body: int) -> None:
        known = [item for item in self.items if (item.session_id, item.key) == (session_id, key)]
        posting = self.store.post(session_id, kind=kind_of(key), key=key, body={"body": body})
        if known and known[0].body != body:
            with pytest.raises(Conflict):
                self.wait(posting)
            return
        number = known[0].number if known else len(self.items) + 1
        assert self.wait(posting) == Posted(number, is_new=not known)
        if not known:
            self.items.append(Item(number, session_id, key, body))
            self.sessions.setdefault(session_id, Model())

    @rule(session_id=SESSIONS, after=PLACES, limit=LIMITS)
    def read(self, session_id: str, after: int, limit: int) -> None:
        records = self.wait(self.store.read(session_id, after=after, limit=limit))
        model = self.sessions.get(session_id, Model())
        facts = model.facts[after:]
        assert len(records) >= min(limit, len(facts))
        assert [record.data["number"] for record in records] == facts[: len(records)]
        assert [record.seq for record in records] == list(range(after + 1, after + 1 + len(records)))
        assert [record.position for record in records] == model.positions[after : after + len(records)]

    @rule(after=PLACES, limit=LIMITS)
    def read_all(self, after: int, limit: int) -> None:
        records = self.wait(self.store.read_all(after=after, limit=limit))
        rest = self.timeline[after:]
        assert len(records) >= min(limit, len(rest))
        assert [(record.session_id, record.data["number"]) for record in records] == rest[: len(records)]
        assert [record.position for record in records] == list(range(after + 1, after + 1 + len(records)))

    @rule(owner_id=OWNERS)
    def retire(self, owner_id: str) -> None:
        self.wait(self.store.retire(owner_id))
        self.wait(self.store.enlist(owner_id, now_ms=NOW_MS))
        for model in self.sessions.values():
            if model.owner_id == owner_id:
                model.owner_id = None

    @rule(session_id=SESSIONS, seq=st.integers(0, 12), state=st.binary(max_size=4))
    def snapshot(self, session_id: str, seq: int, state: bytes) -> None:
        self.wait(self.store.save(session_id, seq, state=state))
        model = self.sessions.get(session_id)
        if model and seq <= len(model.facts) and (model.snapshot is None or model.snapshot[0] <= seq):
            model.snapshot = (seq, state)

    @rule()
    def reopen(self) -> None:
        self.store = self.wait(self.reopened())

    async def reopened(self) -> AnyStore:
        return self.store

    @rule(now_ms=st.integers(NOW_MS - 3, NOW_MS + 3))
    def due(self, now_ms: int) -> None:
        free = {name: model for name, model in self.sessions.items() if model.owner_id is None}
        waiting = {item.session_id for item in self.items if item.is_pending and kind_of(item.key) != START}
        starting = {item.session_id for item in self.items if item.is_pending and kind_of(item.key) == START}
        expected = {
            name
            for name, model in free.items()
            if name in waiting
            or (name in starting and model.standing is not Standing.WAITING)
            or model.standing is Standing.RUNNING
            or (model.standing is Standing.WAITING and (model.wake_at_ms or now_ms + 1) <= now_ms)
        }
        found = self.wait(self.store.due(now_ms=now_ms))
        assert set(found) == expected
        assert len(found) == len(expected)

    @invariant()
    def the_catalogue_agrees(self) -> None:
        rows = self.wait(self.store.sessions())
        assert {row.session_id: (row.last_seq, row.epoch, row.owner_id, row.standing) for row in rows} == {
            name: (len(model.facts), model.epoch, model.owner_id, model.standing)
            for name, model in self.sessions.items()
        }

    @rule(session_id=SESSIONS)
    def the_rest_agrees(self, session_id: str) -> None:
        items = self.wait(self.store.pending(session_id))
        assert [(item.number, item.key, item.body) for item in items] == [
            (item.number, item.key, {"body": item.body})
            for item in self.items
            if item.is_pending and item.session_id == session_id
        ]
        assert self.wait(self.store.load(session_id)) == self.sessions.get(session_id, Model()).snapshot
        assert self.wait(self.store.last_position()) == len(self.timeline)
        times = [m.wake_at_ms for m in self.sessions.values() if m.standing is Standing.WAITING]
        assert self.wait(self.store.next_wake_ms()) == min((t for t in times if t is not None), default=None)


class MemoryMachine(StoreMachine):
    async def opened(self) -> AnyStore:
        return MemoryStore()


class SqliteMachine(StoreMachine):
    async def opened(self) -> AnyStore:
        return await SqliteStore.open(Path(self.folder.name) / "store.db", durability="process")

    async def reopened(self) -> AnyStore:
        # Two connections are open for a moment, as during an overlapping restart.
        store = await self.opened()
        await self.store.aclose()
        for owner_id in ("o1", "o2"):
            await store.enlist(owner_id, now_ms=NOW_MS)
        for model in self.sessions.values():
            model.owner_id = None
        return store


@pytest.mark.promise("J3")
@pytest.mark.parametrize("machine", [MemoryMachine, SqliteMachine])
def test_a_store_behaves_as_a_list_of_records_for_each_session(
    machine: type[StoreMachine],
) -> None:
    play(machine, EXAMPLES)


@pytest.mark.promise("J3")
def test_postgres_behaves_as_a_list_of_records_for_each_session(postgres_stores: PostgresStores) -> None:
    class PostgresMachine(SqliteMachine):
        def __init__(self) -> None:
            postgres_stores.clean()
            super().__init__()

        async def opened(self) -> AnyStore:
            address, schema = postgres_stores.place
            return await PostgresStore.open(address, schema=schema)

    play(PostgresMachine, POSTGRES_EXAMPLES)


def play(machine: type[StoreMachine], examples: int) -> None:
    play_machine(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            derandomize=True,
            database=None,
            suppress_health_check=[
                HealthCheck.too_slow,
                HealthCheck.filter_too_much,
                HealthCheck.data_too_large,
            ],
        ),
    )
