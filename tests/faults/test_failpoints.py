"""Failpoints are counted: the same number is the same place."""

import asyncio
import inspect
import os
import signal
from pathlib import Path

import pytest
from tests.contracts.stores import NOW_MS, claim, numbers, write

from windlass.adapters.journals.memory import MemoryStore
from windlass.ports.store import Store
from windlass.sqlite.store import SqliteStore
from windlass.testing import Failpoints, FailpointStore
from windlass.testing.stores import WrappedStore


def test_a_failpoint_number_is_found_by_counting() -> None:
    seen: list[str] = []
    points = Failpoints(2, act=seen.append)
    for name in ("one", "two", "three"):
        points.hit(name)
    assert seen == ["two"]
    assert points.passed == ["one", "two", "three"]


def test_without_a_number_points_are_only_counted() -> None:
    points = Failpoints()
    points.hit("one")
    assert points.passed == ["one"]


def test_there_is_no_point_before_the_first() -> None:
    with pytest.raises(ValueError, match="failpoints are numbered from 1, found 0"):
        Failpoints(0)


def test_a_process_is_killed_at_its_failpoint_without_output(tmp_path: Path) -> None:
    kills: list[tuple[int, int]] = []

    def note(pid: int, number: int) -> None:
        kills.append((pid, number))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "kill", note)
        Failpoints(1).hit("now")
    assert kills == [(os.getpid(), signal.SIGKILL)]


def test_every_call_of_a_store_passes_three_points() -> None:
    async def main() -> list[str]:
        store = FailpointStore(MemoryStore(), points := Failpoints())
        await store.enlist("o1", now_ms=NOW_MS)
        await asyncio.sleep(0)
        await store.session("s1")
        await asyncio.sleep(0)
        return points.passed

    told = ["enlist asked", "enlist done", "enlist told", "session asked", "session done", "session told"]
    assert asyncio.run(main()) == told


def test_a_wrapped_store_hands_everything_on(tmp_path: Path) -> None:
    async def main() -> None:
        inner = await SqliteStore.open(tmp_path / "app.db", durability="process")
        store = WrappedStore(inner)
        mine = await claim(store)
        await write(store, mine, 1, 2)
        assert numbers(await store.read("s1")) == numbers(await store.read_all()) == [1, 2]
        assert await store.last_position() == 2
        assert (await store.post("s1", kind="answer", key="k", body={})).is_new
        assert len(await store.pending("s1")) == 1
        assert await store.run("r1") is None
        assert await store.session("s1") == await inner.session("s1")
        assert [row.session_id for row in await store.sessions()] == ["s1"]
        assert await store.due(now_ms=NOW_MS) == ()
        assert await store.next_wake_ms() is None
        await store.save("s1", 2, state=b"state")
        assert await store.load("s1") == (2, b"state")
        assert await store.get(await store.put(b"content")) == b"content"
        assert await store.change_token() == await inner.change_token()
        await store.retire("o1")
        await store.aclose()

    asyncio.run(main())
    assert asyncio.run(WrappedStore(MemoryStore()).change_token()) == 0


def test_a_wrapped_store_has_every_method_of_a_store() -> None:
    for name, method in inspect.getmembers(Store, inspect.isfunction):
        if not name.startswith("_"):
            found = inspect.signature(getattr(WrappedStore, name))
            assert found == inspect.signature(method), name
