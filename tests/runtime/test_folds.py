"""Reads of a run cost what is new since the last read, and are right for any writer, in any process."""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.stores import (
    AT,
    NOW_MS,
    AnyStore,
    Play,
    claim,
    play_in_memory,
    play_on_sqlite,
)
from tests.golden.journal import JOURNALS
from tests.golden.journal import read as read_journal
from tests.harness.views.journal import Journal, at, request, sessions
from tests.runtime.runtime_rig import look, mail, play, until

from windlass.adapters.journals.memory import MemoryStore
from windlass.adapters.system import SystemClock
from windlass.agent import Agent
from windlass.agent.policy import allow_start
from windlass.engine.writing.folds import (
    RUN_BYTES,
    SESSION_BYTES,
    FoldCache,
    JournalFolds,
    RunFold,
    SessionFold,
)
from windlass.errors import Conflict
from windlass.feed import Feed
from windlass.ledger.decisions import DecisionFolds
from windlass.ports.catalog import RunRow
from windlass.ports.journal import Batch, Claim
from windlass.ports.store import Store
from windlass.runtime.compose import AgentRuntime
from windlass.sqlite.store import SqliteStore
from windlass.testing import ScriptedModel, by_history, call, say
from windlass_harness.loop.state import LoopState
from windlass_harness.record import Record
from windlass_harness.views import fold_decisions, fold_runs
from windlass_protocol import RunStatus

ROW = RunRow("r1", "s1", "helper", "sha256:1", RunStatus.RUNNING, 1, last_seq=1, owner=None)
GOLDEN = sorted(JOURNALS.glob("*/*.gz"))


@pytest.fixture(params=["memory", "sqlite"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    if request.param == "memory":
        return play_in_memory
    return lambda story: play_on_sqlite(story, tmp_path / "journal.db")


class CountingStore(MemoryStore):
    """Counts the records that are read."""

    count = 0

    async def read(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        found = await super().read(session_id, after=after, limit=limit)
        self.count += len(found)
        return found

    async def milestones(self, session_id: str, *, after: int = 0, limit: int = 512) -> tuple[Record, ...]:
        found = await super().milestones(session_id, after=after, limit=limit)
        self.count += len(found)
        return found


async def append(store: AnyStore, owner: Claim, records: Sequence[Record], after: int) -> None:
    """Append records of a journal, with the open requests if they change, as the writer of a session does."""
    state = LoopState()
    state.apply_all(await store.read(owner.session_id, limit=100_000))
    before = {**state.session.requests}
    for number, record in enumerate(records, after + 1):
        state.apply(replace(record, session_id=owner.session_id, seq=number))
    asked = state.session.requests
    changed = None if asked.keys() == before.keys() else tuple(asked.values())
    await store.append(Batch(owner, after, tuple(records), asked=changed))


def facts(state: LoopState | SessionFold) -> object:
    """Return the facts of a session that readers look at."""
    session = state.session if isinstance(state, LoopState) else state
    people = {**session.requests}, {**session.family.proxied}, {**session.family.children}
    return state.run, people, {**session.authored}, state.deliveries


class Folds(JournalFolds):
    """All folds of a runtime; sessions and runs are read in short pages."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._sessions = FoldCache[SessionFold](store.milestones, 1_000_000, records_per_read=3)
        self._runs = FoldCache[RunFold](store.milestones, 1_000_000, records_per_read=2)
        self.decisions = DecisionFolds(store).read


async def assert_up_to_date(folds: Folds, records: Sequence[Record]) -> None:
    """Check every view of a session with one run, r1, against a fold of all its records."""
    whole = LoopState()
    whole.apply_all(records)
    assert facts(await folds.session("s1")) == facts(whole)
    run = fold_runs(records).runs.get("r1")
    assert await folds.run(ROW) == run
    assert (await folds.decisions(ROW)).run == fold_decisions(records).runs.get("r1")


async def folded(store: AnyStore) -> LoopState:
    state = LoopState()
    state.apply_all(await stored(store))
    return state


async def stored(store: AnyStore) -> tuple[Record, ...]:
    return await store.read("s1", limit=10_000)


def steps(first: int, count: int, journal: Journal) -> Journal:
    for step in range(first, first + count):
        journal.answer(f"c{step}", step=step).run(f"c{step}", step).result(f"c{step}")
    return journal


@settings(max_examples=40)
@given(records=sessions(max_steps=6), data=st.data())
def test_a_fold_that_goes_on_equals_a_fold_of_everything(records: list[Record], data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(records)), max_size=5).map(sorted))

    async def story(store: AnyStore, other: AnyStore) -> None:
        folds, owner, after = Folds(store), await claim(other), 0
        for end in (*cuts, len(records)):
            if end > after:
                await append(other, owner, records[after:end], after)
                after = end
            await assert_up_to_date(folds, await stored(store))

    play_in_memory(story)


@pytest.mark.parametrize("path", GOLDEN[::7], ids=lambda path: path.name)
def test_golden_journals_are_read_in_parts_as_at_once(path: Path) -> None:
    records = read_journal(path)
    started = [record for record in records if record.type == "run.started"]

    async def story(store: AnyStore, other: AnyStore) -> None:
        folds, owner = Folds(store), await claim(store)
        for after in range(0, len(records), 5):
            await append(store, owner, records[after : after + 5], after)
            known = await stored(store)
            whole = LoopState()
            whole.apply_all(known)
            assert facts(await folds.session("s1")) == facts(whole)
            for start in started:
                run_id = str(start.data["runId"])
                row = RunRow(
                    run_id, "s1", "a", "f", RunStatus.RUNNING, start.seq, last_seq=start.seq, owner=None
                )
                if start.seq <= len(known):
                    assert await folds.run(row) is not None
                    runs = fold_decisions(known).runs
                    assert (await folds.decisions(row)).run == runs.get(run_id)

    play_in_memory(story)


CLOSINGS = {
    "input.resolved": {"resolutions": [{"requestId": "q1", "outcome": "denied"}], **at(2)},
    "approval.settled": {"requestId": "q1", "outcome": "approved", **at(2)},
    "action.result": {
        "result": {"kind": "tool-result", "callId": "c2", "toolName": "look", "output": ""},
        "status": "failed",
        **at(2),
    },
    "recovery.effect_settled": {"callId": "c2", "choice": "skip", **at(2)},
    "run.completed": {"runId": "r1", "output": ""},
    "turn.cancelled": {"sequence": 0, "turnId": "t0"},
}


@pytest.mark.parametrize("kind", CLOSINGS)
def test_a_request_is_read_without_the_steps_before_it_until_it_is_closed(stores: Play, kind: str) -> None:
    journal = steps(0, 2, Journal().begin()).answer("c2", step=2)
    asked = Journal().add("input.requested", {"requests": [request("q1", "c2", kind="approval")], **at(2)})
    closing = Journal().add(kind, CLOSINGS[kind])

    async def story(store: AnyStore, other: AnyStore) -> None:
        folds, owner, after = Folds(store), await claim(other), 0
        for records, open_ in ((journal.records, []), (asked.records, ["q1"]), (closing.records, [])):
            for record in records:
                await append(other, owner, [record], after)
                after += 1
            for read in (folds, Folds(store)):
                state = await read.session("s1")
                assert [*state.requests] == open_
                assert facts(state) == facts(await folded(store))

    stores(story)


def test_a_fork_has_neither_deliveries_nor_subagents_of_the_session_that_it_was_copied_from() -> None:
    intent = {"deliveryId": "d1", "sinkId": "mail", "dedupeKey": "k1", "runId": "r1", "kind": "output"}
    called = {
        "callId": "c9",
        "name": "helper",
        "childSessionId": "s9",
        "sessionId": "s1",
        "toolName": "helper",
        "sequence": 0,
        "turnId": "t1",
    }
    journal = Journal().begin().add("delivery.intended", intent).add("subagent.called", called)

    async def story(store: AnyStore, other: AnyStore) -> None:
        folds, owner = Folds(store), await claim(store)
        await append(store, owner, journal.records, 0)
        state = await folds.session("s1")
        assert (len(state.deliveries.by_id), len(state.family.children)) == (1, 1)
        await assert_up_to_date(folds, await stored(store))
        forked = Record("session.forked", AT, {"predecessor": "s0", "predecessorSeq": 3})
        await append(store, owner, [forked], len(journal.records))
        state = await folds.session("s1")
        assert (len(state.deliveries.by_id), len(state.family.children)) == (0, 0)
        assert facts(state) == facts(await folded(store))

    play_in_memory(story)


def test_records_of_another_process_are_seen_at_the_next_read(stores: Play) -> None:
    journal = steps(0, 3, Journal().begin())

    async def story(store: AnyStore, other: AnyStore) -> None:
        folds, owner, after = Folds(store), await claim(other), 0
        for count in (4, 9, 1, len(journal.records) - 14):
            await append(other, owner, journal.records[after : after + count], after)
            after += count
            await assert_up_to_date(folds, await stored(other))

    stores(story)


def test_readers_at_the_same_time_see_the_same(stores: Play) -> None:
    journal = steps(0, 40, Journal().begin())

    async def story(store: AnyStore, other: AnyStore) -> None:
        folds, owner = Folds(store), await claim(other)
        for after in range(0, len(journal.records), 61):
            await append(other, owner, journal.records[after : after + 61], after)
            known = await stored(other)
            await asyncio.gather(*(assert_up_to_date(folds, known) for _ in range(5)))

    stores(story)


def test_a_deleted_session_has_no_facts_any_more(stores: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        folds = Folds(store)
        await append(other, await claim(other), steps(0, 3, Journal().begin()).records, 0)
        await assert_up_to_date(folds, await stored(store))
        await other.retire("o1")
        await other.delete("s1", now_ms=NOW_MS)
        for _ in range(2):
            assert facts(await folds.session("s1")) == facts(LoopState())
            assert await folds.run(ROW) is None
            assert (await folds.decisions(ROW)).run is None

    stores(story)


def test_a_record_that_cannot_be_applied_is_refused_at_each_read_and_spoils_nothing() -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        cache, row = FoldCache[RunFold](store.milestones, 1_000_000, records_per_read=64), ROW
        owner, begun = await claim(store), Journal().begin().records
        await append(store, owner, begun, 0)

        def begin() -> RunFold:
            return RunFold(row)

        assert (await cache.read("s1", "r1", begin)).run is not None
        broken = Record("run.completed", "2026-01-31T09:00:00.000Z", {"runId": "r1", "output": 3})
        await store.append(Batch(owner, len(begun), (broken,)))
        for _ in range(3):
            with pytest.raises(ValueError, match="output"):
                await cache.read("s1", "r1", begin)

    play_in_memory(story)


def test_readers_that_wait_together_are_all_refused_a_record_that_cannot_be_applied() -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        folds, owner, begun = Folds(store), await claim(store), Journal().begin().records
        await append(store, owner, begun, 0)
        assert await folds.run(ROW) is not None
        broken = Record("run.completed", "2026-01-31T09:00:00.000Z", {"runId": "r1", "output": 3})
        await store.append(Batch(owner, len(begun), (broken,)))
        found = await asyncio.gather(*(folds.run(ROW) for _ in range(3)), return_exceptions=True)
        assert [type(one).__name__ for one in found] == ["BodyError"] * 3

    play_in_memory(story)


def test_runs_of_one_id_in_two_sessions_are_read_apart(stores: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        folds = Folds(store)
        for name in ("s1", "s2"):
            row = replace(ROW, session_id=name)
            owner = await claim(store, name)
            await append(store, owner, steps(0, 2, Journal(name).begin()).records, 0)
            run, decided = await folds.run(row), (await folds.decisions(row)).run
            assert run is not None
            assert run.session_id == name
            assert decided is not None
            assert len(decided.decisions) > 0

    stores(story)


def test_the_size_of_all_folds_is_limited_and_the_newest_are_kept() -> None:
    async def main() -> None:
        store = CountingStore()
        for number in range(3):
            name = f"s{number}"
            owner = await claim(store, name)
            await append(store, owner, steps(0, 4, Journal(name).begin()).records, 0)

        def row(number: int, size: int) -> RunFold:
            fold = RunFold(
                RunRow("r1", f"s{number}", "helper", "f", RunStatus.RUNNING, 1, last_seq=1, owner=None)
            )
            fold.size = size
            return fold

        cache = FoldCache[RunFold](store.milestones, 100, records_per_read=64)

        async def read(number: int, size: int = 50) -> int:
            """Return how many records were read."""
            store.count = 0
            found = await cache.read(f"s{number}", f"r{number}", lambda: row(number, size))
            assert found.run is not None
            return store.count

        whole = await read(0)
        assert [await read(0), await read(1), await read(0)] == [1, whole, 1]
        assert [await read(2), await read(0), await read(1)] == [whole, 1, whole]  # 1 was read before 0
        assert [await read(2, size=101), await read(2, size=101)] == [whole, whole]
        assert [await read(0), await read(1)] == [1, 1]

    play(main())


def test_a_read_of_an_ended_run_does_not_grow_with_the_runs_after_it() -> None:
    async def main() -> None:
        store = CountingStore()
        folds, owner = Folds(store), await claim(store)
        ended = Journal().begin().add("run.completed", {"runId": "r1", "output": "done"}).records
        await append(store, owner, ended, 0)
        assert await folds.run(ROW) == fold_runs(ended).runs["r1"]
        await folds.decisions(ROW)
        for after in range(len(ended), len(ended) + 200):
            await append(store, owner, [Record("note.made", AT, {})], after)
        store.count = 0
        assert await folds.run(ROW) == fold_runs(ended).runs["r1"]
        assert (await folds.decisions(ROW)).run == fold_decisions(ended).runs["r1"]
        assert store.count == 2

    play(main())


# runs of a runtime


def walker(count: int) -> Agent:
    turns = [call("look", {"item": f"{step}"}, call_id=f"c{step}") for step in range(count)]
    turns.append(call("mail", {"to": "ann"}, call_id="asked"))
    return Agent("shop", model=ScriptedModel(by_history([*turns, say("done")])), tools=[look, mail])


def runtime_on(store: CountingStore, agent: Agent) -> AgentRuntime:
    bus = Feed(store, SystemClock())
    built = AgentRuntime.builder().options(start_policy=allow_start, is_attended=True)
    return built.journal(store).event_bus(bus).content(store).agent(agent).build()


async def read_all(runtime: AgentRuntime) -> list[object]:
    return [await runtime.handle("r1").decisions(), *await read_without_decisions(runtime)]


async def read_without_decisions(runtime: AgentRuntime) -> list[object]:
    handle = runtime.handle("r1")
    return [
        await runtime.run_snapshot("r1"),
        await handle.open_requests(),
        await runtime.handle("r1").deliveries(),
    ]


def test_reads_do_not_grow_with_the_run_and_equal_those_of_a_new_process() -> None:
    async def counts(steps: int) -> list[int]:
        """Return the records that reads of a run read: while it waits, and after its end.

        A pair each: those of the first reads but that of its decisions, which are as many as its steps; and
        those of all reads that follow.
        """
        store, agent = CountingStore(), walker(steps)
        found: list[int] = []
        async with runtime_on(store, agent) as runtime:
            reader = runtime_on(store, agent)  # another runtime: it sees the store alone
            handle = await runtime.start_run("shop", "go", run_id="r1")
            await until(handle, "run.waiting")
            [asked] = await runtime.handle("r1").open_requests()
            for status in (RunStatus.WAITING, RunStatus.COMPLETED):
                if status is RunStatus.COMPLETED:
                    await handle.answer(asked.request_id, "approve")
                    await handle.wait(timeout=300)
                store.count = 0
                await read_without_decisions(reader)
                found.append(store.count)
                first = await read_all(reader)
                assert (await reader.run_snapshot("r1")).status is status
                assert len(await reader.handle("r1").open_requests()) == (status is RunStatus.WAITING)
                assert len((await reader.handle("r1").decisions()).decisions) == steps + 1 + (
                    status is RunStatus.COMPLETED
                )
                store.count = 0
                assert await read_all(reader) == first
                found.append(store.count)
                assert await read_all(runtime_on(store, agent)) == first
        return found

    async def main() -> None:
        few, many = await counts(2), await counts(70)
        assert few == many
        assert max(many) <= READS * APPENDS_MAX * APPEND_RECORDS_MAX

    play(main())


READS = 4
APPENDS_MAX = 4
"""The milestones of such a run: its start, the request, the answer and the end."""
APPEND_RECORDS_MAX = 8


def test_a_run_of_a_deleted_session_is_unknown() -> None:
    async def main() -> None:
        store, agent = CountingStore(), walker(1)
        async with runtime_on(store, agent) as runtime:
            handle = await runtime.start_run("shop", "go", run_id="r1", session_id="s1")
            await until(handle, "run.waiting")
            await handle.cancel()
            await handle.wait(timeout=300)
            await read_all(runtime)
            await runtime.sessions.delete("s1")
            for read in (handle.status, handle.decisions, handle.open_requests):
                with pytest.raises(Conflict, match="unknown run"):
                    await read()

    play(main())


def test_a_large_output_and_a_large_state_count_for_the_size() -> None:
    journal = Journal().begin().add("session.state_changed", {"set": {"plan": "p" * 100_000}})
    session = SessionFold()
    session.apply(journal.records)
    assert session.size > SESSION_BYTES + 100_000
    run = RunFold(ROW)
    run.apply(journal.add("run.completed", {"runId": "r1", "output": "x" * 500_000}).records)
    assert run.size > RUN_BYTES + 500_000


def test_a_run_that_ended_is_read_whole_if_the_mark_of_its_end_is_lost(tmp_path: Path) -> None:
    async def main() -> None:
        store = await SqliteStore.open(tmp_path / "a.db")
        ended = steps(0, 2, Journal().begin()).add("run.completed", {"runId": "r1", "output": "done"}).records
        await append(store, await claim(store), ended, 0)
        with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as file:
            file.execute("UPDATE appends SET milestone = 0")
        run = await JournalFolds(store).run(replace(ROW, status=RunStatus.COMPLETED))
        assert run is not None
        assert run.status is RunStatus.COMPLETED
        await store.aclose()

    play(main())
