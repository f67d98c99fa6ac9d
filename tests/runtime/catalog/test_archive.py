"""Exports and imports: a session in another store, the same in every fold."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.golden.journal import JOURNALS, hashes
from tests.golden.journal import read as read_golden
from tests.runtime.catalog.rig import PAYS, agent, approve, lines_of, made, opened, play, sealed, until

from windlass import AgentRuntime
from windlass.adapters.journals.memory import MemoryStore
from windlass.catalog import Sessions, SessionStatus
from windlass.catalog import archive as importing
from windlass.catalog.archive import own_runs
from windlass.errors import Conflict, Rejected
from windlass.feed import Feed
from windlass.ports.archive import KeptItem, SessionCopy, StoredAppend
from windlass.ports.machine import Machine
from windlass.sqlite.store import SqliteStore
from windlass.testing import FakeClock, call, say, seeded_random, sequential_ids
from windlass.testing.stores import FullStore
from windlass_harness.record import Record
from windlass_harness.views.listing import SessionNews
from windlass_protocol import ContentRef, RunStatus

GOLDEN = sorted((JOURNALS / "0.1").glob("*.gz"))


@pytest.fixture(params=["memory", "sqlite"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "app.db"


def test_a_session_goes_to_another_store_with_its_runs_and_contents(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        handle = await runtime.start_run("clerk", "Read the book.", session_id="s1", run_id="r1", owner="ann")
        await handle.wait()
        lines = await lines_of(runtime)
        info, runs = await runtime.sessions.get("s1"), await runtime.sessions.runs()
        records = await runtime.sessions.records("s1")
        async with opened(None, clerk) as other:
            back = await other.sessions.import_(lines)
            assert back.title == info.title
            assert (back.owner, back.status, back.usage) == (info.owner, info.status, info.usage)
            [run], [old] = (await other.sessions.runs()).items, runs.items
            assert (run.run_id, run.status, run.usage, run.first_seq) == ("r1", old.status, old.usage, 1)
            assert hashes(await other.sessions.records("s1")) == hashes(records)
            assert (await lines_of(other))[1:-1] == lines[1:-1]
            assert (await other.handle("r1").wait()).output == "Long."
            # The start that made it is known here too.
            again = await other.start_run(
                "clerk", "Read the book.", session_id="s1", run_id="r1", owner="ann"
            )
            assert (await again.wait()).output == "Long."
            more = await other.start_run("clerk", "And?", session_id="s1", owner="ann")
            assert (await more.wait()).output == "So."
            assert made == []

    clerk = agent(call("look", {"item": "book"}), say("Long."), say("So."))
    play(story, path, clerk)


def test_consent_for_the_session_is_not_imported(path: Path | None) -> None:
    answers = (call("pay", {"cents": 1}), say("one"), call("pay", {"cents": 2}), say("two"))

    async def story(runtime: AgentRuntime) -> None:
        handle = await runtime.start_run("clerk", "go", session_id="s1", owner="ann")
        await until(handle, "run.waiting")
        [request] = await handle.open_requests()
        await handle.answer(request.request_id, "approve_session", responder="ann")
        await handle.wait()
        lines = await lines_of(runtime)
        assert any('"grant"' in line for line in lines)
        async with opened(None, agent(*answers)) as other:
            await other.sessions.import_(lines)
            asks = await other.start_run("clerk", "once more", session_id="s1", owner="ann")
            await until(asks, "run.waiting")
            assert made == []
            records = await other.sessions.records("s1", limit=1_000)
            assert "approve_session" in str([one.data for one in records if one.type == "input.resolved"])
            await asks.cancel()
            await asks.wait()

    play(story, path, agent(*answers))


def test_importing_an_existing_or_deleted_session_is_a_conflict(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        await (await runtime.start_run("clerk", "go", session_id="s1", run_id="r1")).wait()
        lines = await lines_of(runtime)
        with pytest.raises(Conflict, match="session s1 exists already"):
            await runtime.sessions.import_(lines)
        await runtime.sessions.delete("s1")
        with pytest.raises(Conflict, match="session s1 was deleted"):
            await runtime.sessions.import_(lines)

    play(story, path, agent())


def test_an_unfinished_run_is_not_driven_after_an_import_until_it_gets_input(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        handle = await runtime.start_run("clerk", "Pay.", session_id="s1", run_id="r1", owner="ann")
        await until(handle, "run.waiting")
        await runtime.start_run("clerk", "queued", session_id="s1", run_id="r2")
        lines = await lines_of(runtime)
        await handle.cancel()
        await handle.wait()
        async with opened(None, clerk) as other:
            back = await other.sessions.import_(lines)
            assert (back.status, back.request_count, back.run_count) == (SessionStatus.WAITING, 1, 1)
            [asked] = (await other.sessions.requests(owner="ann")).items
            assert asked.run_id == "r1"
            store = other.core.ports.store
            assert store is not None
            assert await store.due(now_ms=2**50) == ()
            await approve(other.handle("r1"))
            assert (await other.handle("r1").wait()).status is RunStatus.COMPLETED
            assert made == ["pay 9"]

    clerk = agent(*PAYS)
    play(story, path, clerk)


def test_a_fork_that_is_brought_in_is_still_a_fork_without_runs_of_its_own(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        handle = await runtime.start_run("clerk", "Pay.", session_id="old", run_id="r1")
        await until(handle, "run.waiting")
        fork = await runtime.sessions.fork("old", session_id_new="new")
        await handle.cancel()
        await handle.wait()
        lines = await lines_of(runtime, "new")
        async with opened(None, clerk) as other:
            back = await other.sessions.import_(lines)
            assert (back.predecessor_id, back.predecessor_seq) == ("old", fork.predecessor_seq)
            assert (back.status, back.run_count, back.usage) == (SessionStatus.IDLE, 0, fork.usage)
            assert back.created_at == fork.created_at

    clerk = agent(*PAYS)
    play(story, path, clerk)


def test_lines_that_are_torn_or_changed_anywhere_are_refused_and_leave_nothing() -> None:
    async def story(runtime: AgentRuntime) -> None:
        await (await runtime.start_run("clerk", "go", session_id="s1", run_id="r1")).wait()
        lines = await lines_of(runtime)
        broken: list[list[str]] = [lines[:cut] for cut in range(len(lines))]
        broken += [lines[:at] + lines[at + 1 :] for at in range(len(lines))]
        broken += [[*lines[:at], lines[at][:-5], *lines[at + 1 :]] for at in range(len(lines))]
        broken += [[*lines[:at], other_digit(lines[at]), *lines[at + 1 :]] for at in range(len(lines))]
        broken += [[*lines, lines[-1]], [*lines, ""], ["", *lines], ["[]"], ["3"], ['{"kind":"end"}']]
        async with opened(None, agent()) as other:
            for given in broken:
                with pytest.raises(Rejected):
                    await other.sessions.import_(given)
            assert (await other.sessions.list()).items == ()
            # Line ends are no part of a line, and lines may come as they are read.
            assert (await other.sessions.import_(late(f"{line}\r\n" for line in lines))).session_id == "s1"

    play(story, None, agent())


def other_digit(line: str) -> str:
    """The line with its first digit changed."""
    return re.sub(r"\d", lambda digit: str((int(digit[0]) + 1) % 10), line, count=1)


async def late(lines: Iterable[str]) -> AsyncIterator[str]:
    """The lines as a file gives them."""
    for line in lines:
        await asyncio.sleep(0)
        yield line


def test_lines_of_another_format_version_or_kind_are_refused_by_name() -> None:
    async def story(runtime: AgentRuntime) -> None:
        await (await runtime.start_run("clerk", "go", session_id="s1", run_id="r1")).wait()
        lines = await lines_of(runtime)

        def changed(at: int, **parts: object) -> list[str]:
            return [*lines[:at], json.dumps({**json.loads(lines[at]), **parts}), *lines[at + 1 :]]

        for told, words in (
            (changed(0, version=2), "not windlass-session version 1"),
            (changed(0, format="other"), "not windlass-session version 1"),
            (changed(1, kind="poem"), "line 2 has an unknown kind"),
            (changed(1, records=[]), "line 2 is not valid for its kind"),
            (changed(1, epoch="x"), "line 2 is not valid for its kind"),
            (changed(1, kind="header"), "the first line is not the header"),
        ):
            with pytest.raises(Rejected, match=words):
                await runtime.sessions.import_(told)

    play(story, None, agent())


def test_lines_beyond_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "IMPORT_BYTES_MAX", 300)

    async def story(runtime: AgentRuntime) -> None:
        await (await runtime.start_run("clerk", "go", session_id="s1", run_id="r1")).wait()
        with pytest.raises(Rejected, match="too large: limit 300 bytes"):
            await runtime.sessions.import_(await lines_of(runtime))

    play(story, None, agent())


def test_a_line_with_too_many_values_is_refused_and_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "LINE_VALUES_MAX", 200)

    async def story(runtime: AgentRuntime) -> None:
        await (await runtime.start_run("clerk", "go", session_id="s1", run_id="r1")).wait()
        lines = await lines_of(runtime)
        lines[1] = f"[{'1,' * 200}1]"
        with pytest.raises(Rejected, match="line 2 has too many values: limit 200"):
            await runtime.sessions.import_(lines)

    play(story, None, agent())


def test_a_package_stays_when_the_session_is_deleted_that_brought_it_in_as_its_own(path: Path | None) -> None:
    async def story(runtime: AgentRuntime) -> None:
        await (await runtime.start_run("clerk", "go", session_id="s1", run_id="r1")).wait()
        lines = await lines_of(runtime)
        assert '"isOwn":false' in lines[-2]
        async with opened(None, clerk) as other:
            await other.sessions.import_(sealed([*lines[:-2], lines[-2].replace("false", "true")]))
            [run] = (await other.sessions.runs()).items
            content, name = other.core.ports.content, run.package_fingerprint
            assert content is not None
            ref = ContentRef(content_id=name, hash=name, size_bytes=0, media_type="application/json")
            package = await content.get(ref)
            await other.sessions.delete("s1")
            assert await content.get(ref) == package

    clerk = agent()
    play(story, path, clerk)


# the property: out of one store, into another, the same in every fold


def catalogue(store: FullStore) -> Sessions:
    clock = FakeClock()
    machine = Machine(clock, sequential_ids(), seeded_random(1))
    return Sessions(store, Feed(store, clock), content=store, machine=machine)


def _plain(record: Record) -> Record:
    """Return a record as an import keeps it: approvals for the rest of the session are left out."""
    is_approval = record.type == "approval.settled"
    data = {name: value for name, value in record.data.items() if name != "grant" or not is_approval}
    return replace(record, position=None, data=data)


def cut(records: tuple[Record, ...], places: list[int]) -> tuple[StoredAppend, ...]:
    """The records as appends, cut at some places and wherever the owner changes."""
    appends: list[list[Record]] = []
    for record in records:
        is_new = not appends or record.seq - 1 in places or appends[-1][0].epoch != record.epoch
        if is_new:
            appends.append([])
        appends[-1].append(record)
    return tuple(StoredAppend(tuple(one), one[0].epoch or 0) for one in appends)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.sampled_from(GOLDEN), st.lists(st.integers(1, 80), max_size=6))
def test_a_random_session_folds_the_same_after_an_import(
    tmp_path: Path, journal: Path, places: list[int]
) -> None:
    records = read_golden(journal)
    name = records[0].session_id
    (tmp_path / "a.db").unlink(missing_ok=True)

    async def story() -> None:
        store, other = MemoryStore(), await SqliteStore.open(tmp_path / "a.db", durability="process")
        appends = cut(records, places)
        runs = own_runs(name, appends)
        items = [KeptItem("start", f"start:{run.run_id}", b"", run.first_seq, run.run_id) for run in runs]
        told = SessionNews(records[-1].at, records[0].at)
        await store.keep(SessionCopy(name, appends, told, runs=runs, items=tuple(items)))
        lines = [line async for line in catalogue(store).export(name)]
        await catalogue(other).import_(lines)
        back = await other.read(name, limit=10_000)
        kept = await store.read(name, limit=10_000)
        assert [replace(record, position=None) for record in back] == [_plain(record) for record in kept]
        assert hashes(back) == hashes([_plain(record) for record in records])
        again = [line async for line in catalogue(other).export(name)]
        if [_plain(record) for record in kept] == [replace(record, position=None) for record in kept]:
            assert again[1:-1] == lines[1:-1]
        await other.aclose()
        for suffix in ("", "-wal", "-shm"):
            (tmp_path / f"a.db{suffix}").unlink(missing_ok=True)

    asyncio.run(story())
