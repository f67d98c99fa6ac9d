"""Waits end with an error after a close, or when the disk has failed."""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.faults.rig import runtime_on
from tests.runtime.runtime_rig import play, shop

from windlass.errors import Unavailable
from windlass.ports.feed import EventStream
from windlass.runtime.compose import AgentRuntime
from windlass.sql.statements import Cursor, SqlConnection, Value
from windlass.sqlite.schema import connect
from windlass.sqlite.store import SqliteStore
from windlass.testing import Answer, ScriptedModel


def talker(gate: asyncio.Event) -> ScriptedModel:
    return ScriptedModel(lambda _: Answer("done", gate=gate))


@pytest.mark.parametrize("is_durable", [True, False])
def test_waits_and_streams_of_a_closed_runtime_raise_unavailable(tmp_path: Path, is_durable: bool) -> None:
    async def story() -> None:
        agent = shop(talker(asyncio.Event()))
        runtime = (
            await AgentRuntime.open(tmp_path / "store.db", agents=[agent], durability="process")
            if is_durable
            else AgentRuntime.in_memory([agent])
        )
        handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
        stream = runtime.sessions.subscribe("nobody")
        waits = [asyncio.ensure_future(handle.wait()), asyncio.ensure_future(anext(stream))]
        async for event in handle.events():
            if event.type == "step.started":
                break
        await runtime.aclose()
        for wait in waits:
            with pytest.raises(Unavailable):
                await wait
        with pytest.raises(Unavailable):
            await handle.wait()
        with pytest.raises(Unavailable):
            await anext(stream)

    play(story())


async def drain(stream: EventStream) -> None:
    async for _ in stream:
        pass


class Broken:
    """A connection that fails at a commit, once the test says so."""

    fails = False
    failed = threading.Event()

    def __init__(self, path: Path) -> None:
        self._inner = connect(path)
        self._writes = False

    def execute(self, sql: str, parameters: Sequence[Value] = (), /) -> Cursor:
        self._writes = self._writes or sql == "BEGIN IMMEDIATE"
        if self._writes and Broken.fails and sql == "COMMIT":
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_IOERR, "SQLITE_IOERR"
            Broken.failed.set()
            raise error
        return self._inner.execute(sql, parameters)

    def close(self) -> None:
        self._inner.close()


def broken(path: Path) -> SqlConnection:
    return Broken(path)


def test_waits_and_streams_go_on_when_a_disk_that_failed_works_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        gate = asyncio.Event()
        store = await SqliteStore.open(tmp_path / "store.db", durability="process", connect=broken)
        async with runtime_on(store, [shop(talker(gate))]) as runtime:
            handle = await runtime.start_run("shop", "go", session_id="s1", run_id="r1")
            stream = handle.events()
            while (await anext(stream)).type != "step.started":
                pass
            monkeypatch.setattr(Broken, "fails", True)
            gate.set()
            following = asyncio.create_task(drain(stream))
            waiting = asyncio.create_task(handle.wait())
            await asyncio.to_thread(Broken.failed.wait, 300)
            assert (await handle.status()).value == "running", "and what is there can be read"
            monkeypatch.setattr(Broken, "fails", False)
            await following
            assert (await waiting).status.value == "completed"

    with caplog.at_level(logging.WARNING, "windlass"):
        play(story())
    assert [message for message in caplog.messages if "cannot be written: the disk failed" in message]
    assert caplog.messages[-1].endswith("is written again")


@pytest.mark.parametrize("was_open", [True, False])
def test_a_runtime_that_was_closed_is_not_opened_again(was_open: bool) -> None:
    async def story() -> None:
        runtime = AgentRuntime.in_memory([shop()])
        if was_open:
            await runtime.core.resume()
        await runtime.aclose()
        with pytest.raises(Unavailable, match="opened on the same store"):
            await runtime.core.resume()
        with pytest.raises(Unavailable, match="opened on the same store"):
            async with runtime:
                pass
        with pytest.raises(Unavailable, match="opened on the same store"):
            await runtime.start_run("shop", "go")
        with pytest.raises(Unavailable, match=r"the store is closed; .* opens it again"):
            await runtime.handle("r1").status()

    play(story())
