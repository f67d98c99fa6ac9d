"""Processes that are killed in the middle of a fork, an import or a delete."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from tests.depth import DEEP
from tests.faults.forks import run_story
from tests.faults.rig import pointed_connect
from tests.golden.journal import hashes
from tests.runtime.catalog.rig import agent, opened
from tests.runtime.catalog.test_archive import catalogue

from windlass.sqlite.store import SqliteStore
from windlass.testing import call, say
from windlass.testing.stores import Failpoints, FailpointStore
from windlass_harness.record import Record

OTHERS: Final = "other"
STRIDE: Final = 1 if DEEP else 2
"""Points from one kill to the next."""
Act = Callable[[Any, list[str]], Awaitable[object]]
Check = Callable[[SqliteStore], Awaitable[str]]


async def prepare(path: Path) -> list[str]:
    """Make a store with some sessions; return another session as lines."""
    helper = agent(call("look", {"item": "book"}), say("There."), name="helper")
    boss = agent(call("helper", {"message": "Look."}), say("Seen."), name="boss", subagents=[helper])
    async with opened(path, boss, agent(call("look", {"item": "book"}), say("Long."))) as runtime:
        await (await runtime.start_run("boss", "Look at the book", session_id="top", run_id="r1")).wait()
        await (await runtime.start_run("clerk", "Read", session_id=OTHERS, run_id="r2")).wait()
    async with opened(None, agent(call("look", {"item": "book"}), say("Long."))) as runtime:
        await (await runtime.start_run("clerk", "Read", session_id="far", run_id="r3")).wait()
        return [line async for line in runtime.sessions.export("far")]


async def content_count(store: SqliteStore, session_id: str) -> int:
    for ref in await store.contents_of(session_id):
        await store.get(ref)
    return len(await store.contents_of(session_id))


async def forked(store: SqliteStore) -> str:
    info, records = await store.session_info("new"), await store.read("new")
    assert (info is None) == (not records) == (await store.session("new") is None)
    if info is None:
        return "nothing"
    assert records[info.predecessor_seq or 0].type == "session.forked"
    assert await content_count(store, "new") == 1
    return "all"


async def imported(store: SqliteStore) -> str:
    info, records = await store.session_info("far"), await store.read("far")
    assert (info is None) == (not records) == (await store.run("r3") is None)
    if info is None:
        return "nothing"
    assert await content_count(store, "far") == 1
    return "all"


async def deleted(store: SqliteStore) -> str:
    info, records = await store.session_info("top"), await store.read("top")
    assert (info is None) == (not records) == (await store.run("r1") is None)
    everything = [one async for one in _all(store)]
    names = {record.session_id for record in everything}
    assert len(names) == (1 if info is None else 3)
    assert len(await store.contents_of(OTHERS)) == 1
    return "all" if info is None else "nothing"


async def _all(store: SqliteStore) -> AsyncIterator[Record]:
    after = 0
    while page := await store.read_all(after=after, limit=7):
        for record in page:
            yield record
        after = page[-1].position or 0


WORK: Final[dict[str, tuple[Act, Check]]] = {
    "fork": (lambda catalogue, _: catalogue.fork(OTHERS, session_id_new="new"), forked),
    "import": (lambda catalogue, lines: catalogue.import_(lines), imported),
    "delete": (lambda catalogue, _: catalogue.delete("top"), deleted),
}


@pytest.mark.promise("J1")
@pytest.mark.parametrize("name", WORK)
def test_a_fork_import_or_delete_is_atomic_under_kills(name: str, tmp_path: Path) -> None:
    kill_everywhere(tmp_path, WORK[name])


def kill_everywhere(tmp_path: Path, work: tuple[Act, Check]) -> None:
    """Kill a process at each of its points in turn, until it comes to its end."""
    source = tmp_path / "source.db"
    lines = asyncio.run(prepare(source))
    ends: list[str] = []
    at, is_over = 1 - STRIDE, False
    while not is_over:
        at += STRIDE
        folder = tmp_path / str(at)
        folder.mkdir()
        path = folder / "app.db"
        shutil.copy(source, path)
        is_over = _is_done(path, at, work=work, lines=lines)
        ends.append(asyncio.run(_look(path, work=work, lines=lines, is_over=is_over)))
        shutil.rmtree(folder)
    # Up to the commit nothing of it is there, and from then on everything.
    assert ends == sorted(ends, reverse=True)
    assert len(ends) > 12 // STRIDE
    assert {"all", "nothing"} == set(ends)


def _is_done(path: Path, at: int, *, work: tuple[Act, Check], lines: list[str]) -> bool:
    """Let a process work that is killed at a point; whether it ended first."""

    async def story() -> None:
        points = Failpoints(at)
        connect = pointed_connect(points, "statements")
        store = await SqliteStore.open(path, durability="process", connect=connect)
        await work[0](catalogue(FailpointStore(store, points)), lines)
        await asyncio.sleep(0)

    end = run_story(story)
    assert end.is_killed or end.is_fine
    return end.is_fine


async def _look(path: Path, *, work: tuple[Act, Check], lines: list[str], is_over: bool) -> str:
    """Check the files of the killed process, then finish the work in another one."""
    store = await SqliteStore.open(path, durability="process")
    left = await work[1](store)
    assert left == "all" or not is_over
    others = await store.read(OTHERS)
    if left == "nothing":
        await work[0](catalogue(store), lines)
    assert await work[1](store) == "all"
    assert hashes(await store.read(OTHERS)) == hashes(others)
    await store.aclose()
    return left
