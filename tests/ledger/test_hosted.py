"""Recording into the journal of a runtime that drives agents."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from tests.ledger.samples import GOAL, decide, record

from windlass import Agent, AgentRuntime
from windlass.ledger import BuilderQuery, RecordingError, RunStatus, Runtime
from windlass.ledger.spool import FileLocation
from windlass.ports.recorded import NumberedRow
from windlass.sqlite.recorded import take_in_left
from windlass.testing import ScriptedModel, say

WHERE = ["memory", "file"]


@asynccontextmanager
async def opened(where: str, folder: Path, *, secrets: tuple[str, ...] = ()) -> AsyncGenerator[AgentRuntime]:
    agent = Agent("clerk", model=ScriptedModel([say("Hello.")]), instructions="Be kind.")
    if where == "memory":
        runtime = AgentRuntime.in_memory([agent], secrets=secrets)
    else:
        runtime = await AgentRuntime.open(folder / "app.db", agents=[agent], secrets=secrets)
    async with runtime:
        handle = await runtime.start_run("clerk", "Hi.", session_id="chat")
        await handle.wait(timeout=300)
        yield runtime


@pytest.mark.parametrize("where", WHERE)
def test_records_are_in_the_journal_of_the_runtime(tmp_path: Path, where: str) -> None:
    async def work() -> None:
        async with opened(where, tmp_path) as host:
            runtime = Runtime(runtime=host, strict=True)
            run_id = runtime.start_run(GOAL)
            runtime.record_outcome(decide(runtime), True)
            store = host.core.ports.store
            assert store is not None
            assert [record.type for record in await store.read(run_id)] == [
                "session.started", "run.started", "decision.recorded", "decision.outcome"
            ]  # fmt: skip
            await asyncio.to_thread(decide, runtime)
            runtime.end_run(True)
            with BuilderQuery(runtime=host) as query:
                run = query.get_full_run(run_id)
                assert run is not None
                assert (run.status, len(run.decisions)) == (RunStatus.COMPLETED, 2)
                assert [each.run_id for each in query.list_runs_for_goal(GOAL)] == [run_id]
                patterns = await asyncio.to_thread(query.find_patterns, GOAL)
                assert patterns is not None
                assert patterns.run_count == 1
            runtime.close()

    asyncio.run(work())


@pytest.mark.parametrize("where", WHERE)
def test_many_threads_record_while_the_loop_runs(tmp_path: Path, where: str) -> None:
    async def work() -> None:
        async with opened(where, tmp_path) as host:
            runtime = Runtime(runtime=host, strict=True)
            await asyncio.gather(
                *(asyncio.to_thread(record, runtime, goal_id=f"g{n % 4}") for n in range(20))
            )
            with BuilderQuery(runtime=host) as query:
                assert [len(query.list_runs_for_goal(f"g{n}")) for n in range(4)] == [5, 5, 5, 5]
            runtime.close()

    asyncio.run(work())


@pytest.mark.parametrize("where", WHERE)
def test_the_secrets_of_the_runtime_are_masked(tmp_path: Path, where: str) -> None:
    async def work() -> None:
        async with opened(where, tmp_path, secrets=("hunter2-hunter2",)) as host:
            runtime = Runtime(runtime=host)
            runtime.start_run(GOAL)
            decide(runtime, "Say hunter2-hunter2")
            run = runtime.current_run
            assert run is not None
            assert run.decisions[0].intent == "Say [redacted]"
            with pytest.raises(RecordingError, match="registered with the runtime"):
                Runtime(runtime=host, secrets=["another-secret"])
            runtime.close()

    asyncio.run(work())


def test_a_run_of_an_agent_is_found_too(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened("file", tmp_path) as host:
            with BuilderQuery(runtime=host) as query:
                [run] = query.list_runs_for_goal("")
                assert run.status is RunStatus.COMPLETED

    asyncio.run(work())


def test_a_closed_store_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with opened("memory", tmp_path) as host:
            runtime = Runtime(runtime=host)
            runtime.start_run(GOAL)
        assert decide(runtime) == ""
        assert "not recorded: the store is closed" in caplog.text

    asyncio.run(work())


def test_a_store_that_answers_later_cannot_be_asked_on_its_own_loop(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened("memory", tmp_path) as host:
            store = host.core.ports.store
            assert store is not None
            real = store.enlist

            async def later(owner_id: str, *, now_ms: int) -> None:
                await asyncio.sleep(0)
                await real(owner_id, now_ms=now_ms)

            store.enlist = later
            runtime = Runtime(runtime=host, strict=True)
            with pytest.raises(RecordingError, match=r"record in a thread, with asyncio\.to_thread"):
                runtime.start_run(GOAL)
            assert await asyncio.to_thread(runtime.start_run, GOAL)

    asyncio.run(work())


def test_a_runtime_in_memory_is_recorded_into_from_its_loop_on(tmp_path: Path) -> None:
    host = AgentRuntime.in_memory([])
    with pytest.raises(RecordingError, match="on the event loop of the runtime"):
        Runtime(runtime=host)


def test_a_storage_path_and_a_runtime_together_are_refused(tmp_path: Path) -> None:
    host = AgentRuntime.in_memory([])
    with pytest.raises(RecordingError, match="either storage_path or runtime"):
        Runtime(tmp_path, runtime=host)


def test_a_runtime_without_a_journal_is_refused() -> None:
    with pytest.raises(RecordingError, match="the runtime has no journal"):
        Runtime(runtime=AgentRuntime.builder().build())


def test_opening_the_runtime_imports_the_spool_of_a_recorder(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened("file", tmp_path):
            pass
        location = FileLocation(tmp_path / "app.db", "process")
        spool = location.spool()
        spool.write(NumberedRow("run_1", 1, b'["session.started", "2026-01-01T00:00:00.000Z", {}, "run_1"]'))
        spool.abandon()
        async with opened("file", tmp_path) as host:
            store = host.core.ports.store
            assert store is not None
            assert [record.type for record in await store.read("run_1")] == ["session.started"]
        assert not (tmp_path / "app.db-spool").exists()

    asyncio.run(work())


def test_an_unreadable_spool_is_logged_and_the_runtime_opens(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        (tmp_path / "app.db-spool").mkdir()
        (tmp_path / "app.db-spool" / "left").write_bytes(b"")
        real = os.open

        def refuse(path: str | Path, flags: int, mode: int = 0o777) -> int:
            if Path(path).name == "left":
                raise PermissionError(13, "Permission denied", "left")
            return real(path, flags, mode)

        with patch.object(os, "open", refuse):
            await asyncio.to_thread(take_in_left, tmp_path / "app.db", durability="process")

    asyncio.run(work())
    assert "app.db are not in the journal yet: [Errno 13] Permission denied" in caplog.text
