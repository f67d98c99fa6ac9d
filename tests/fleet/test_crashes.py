"""Processes that end, stand still, are cut off or have a wrong clock: what becomes of the runs of others."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.fleet.shop import shop
from tests.story import play

from tools.postgres import Postgres
from windlass import AgentRuntime, Approval
from windlass.ports.documents import SURVIVED
from windlass_protocol import RunStatus

pytestmark = pytest.mark.slow
LEASE_MS = 3_000
ENDS_MAX = 3
"""Processes that a poison run may end."""


def calls(folder: Path) -> list[tuple[str, int]]:
    """Return the calls of tools so far: their runs and processes."""
    lines = (folder / "calls").read_text().splitlines() if (folder / "calls").exists() else []
    return [(run_id, int(pid)) for run_id, pid in map(str.split, lines)]


async def until(check: Callable[[], bool]) -> None:
    """Let others run until something is true."""
    while not check():  # noqa: ASYNC110 - other processes
        await asyncio.sleep(0.02)


@asynccontextmanager
async def member(store: str, folder: Path, *options: str) -> AsyncGenerator[Process]:
    """A process of the fleet that drives; it is killed at the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.fleet.shop", store, str(folder), *options), stdout=PIPE
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
            process.kill()
        await process.wait()


async def line(process: Process) -> str:
    """Return the next line that a process writes."""
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


class Wire:
    """A socket before that of PostgreSQL, which can be cut."""

    def __init__(self, postgres: Postgres, folder: Path) -> None:
        self._real = str(postgres.folder / ".s.PGSQL.5432")
        self._path = folder / ".s.PGSQL.5432"
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_cut = False

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Serve."""
        server = await asyncio.start_unix_server(self._accept, self._path)
        try:
            yield
        finally:
            self.cut()
            server.close()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """End all connections, and refuse new ones."""
        self.is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def mend(self) -> None:
        """Accept connections again."""
        self.is_cut = False

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_cut:
            writer.transport.abort()
            return
        there_reader, there = await asyncio.open_unix_connection(self._real)
        self._writers |= {writer, there}
        for source, target in ((reader, there), (there_reader, writer)):
            task = asyncio.create_task(self._pump(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                target.write(data)
                await target.drain()
        target.close()


Story = Callable[[str, AgentRuntime], Awaitable[None]]


def tell(postgres: Postgres, folder: Path, story: Story) -> None:
    """Play a story with a runtime that drives nothing."""

    async def main() -> None:
        store = postgres.new_database()
        async with AgentRuntime.open(store, agents=[shop(folder)], is_driving=False) as runtime:
            await story(store, runtime)

    play(main())


@pytest.mark.promise("J6")
def test_a_run_that_ends_its_process_ends_three_at_most_and_others_complete(
    postgres: Postgres, tmp_path: Path
) -> None:
    innocent = [f"r{number}" for number in range(5)]

    async def story(store: str, runtime: AgentRuntime) -> None:
        ends = 0
        is_over = asyncio.Event()

        async def tend() -> None:
            """Keep a process running, as a supervisor does."""
            nonlocal ends
            while not is_over.is_set():
                async with member(store, tmp_path) as process:
                    done, _ = await asyncio.wait(
                        [asyncio.ensure_future(process.wait()), asyncio.ensure_future(is_over.wait())],
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                    ends += process.returncode == -signal.SIGKILL
                    assert done

        for run_id in innocent:
            await runtime.start_run("shop", "work", run_id=run_id, session_id=run_id)
        await runtime.start_run("shop", "poison", run_id="poison", session_id="poison")
        tending = [asyncio.create_task(tend()) for _ in range(2)]
        for run_id in innocent:
            assert (await runtime.handle(run_id).wait()).output == "done"
        async for event in runtime.subscribe_run("poison"):
            if event.type == "input.requested":
                break
        asked = [request async for request in _requests(runtime, "poison")]
        assert ends <= ENDS_MAX, f"{ends} processes ended"
        assert "begun 3 times" in asked[0]
        is_over.set()
        await asyncio.gather(*tending)

    tell(postgres, tmp_path, story)


async def _requests(runtime: AgentRuntime, run_id: str) -> AsyncGenerator[str]:
    async for request in runtime.handle(run_id).requests():
        yield request.prompt
        return


@pytest.mark.parametrize("trouble", ["stopped", "cut"])
def test_a_run_whose_processes_stand_still_or_are_cut_off_does_not_fail(
    trouble: str, postgres: Postgres, tmp_path: Path
) -> None:
    rounds = 6

    async def story(store: str, runtime: AgentRuntime) -> None:
        async with AsyncExitStack() as stack:
            processes: dict[int, tuple[Process, Wire]] = {}
            for name in ("a", "b"):
                folder = tmp_path / name
                folder.mkdir()
                wire = Wire(postgres, folder)
                await stack.enter_async_context(wire.open())
                address = store.replace(f"host={postgres.folder}", f"host={folder}")
                options = ("--lease-ms", str(LEASE_MS))
                process = await stack.enter_async_context(member(address, tmp_path, *options))
                assert await line(process) == "open"
                processes[process.pid] = process, wire
            await runtime.start_run("shop", "wait", run_id="r", session_id="s")
            for number in range(1, rounds + 1):
                await until(lambda number=number: len(calls(tmp_path)) >= number)
                process, wire = processes[calls(tmp_path)[-1][1]]
                if trouble == "cut":
                    wire.cut()
                else:
                    os.kill(process.pid, signal.SIGSTOP)
                await until(lambda number=number: len(calls(tmp_path)) > number)
                wire.mend()
                os.kill(process.pid, signal.SIGCONT)
                # It says that it goes on.
                while not await _has_survived(runtime, number):  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.05)
            (tmp_path / "release").touch()
            assert (await runtime.handle("r").wait()).output == "done"
        assert len(calls(tmp_path)) > rounds

    tell(postgres, tmp_path, story)


async def _has_survived(runtime: AgentRuntime, times: int) -> bool:
    document = await runtime.core.store.document(SURVIVED, "r")
    epochs = None if document is None else document.body["epochs"]
    return isinstance(epochs, list) and len(epochs) >= times


def test_a_process_with_a_clock_that_is_ahead_expires_no_approval(postgres: Postgres, tmp_path: Path) -> None:
    async def story() -> None:
        store = postgres.new_database()
        agent = shop(tmp_path)
        async with AgentRuntime.open(store, agents=[agent], approval_expires_ms=300_000) as runtime:
            run = await runtime.start_run(agent, "pay", run_id="r")
            async for request in run.requests():
                async with member(store, tmp_path, "--ahead-s", "600") as process:
                    assert await line(process) == "open"
                    assert await line(process) == "swept"
                    assert await run.status() is RunStatus.WAITING
                    assert isinstance(request, Approval)
                    await request.approve()
                    assert (await run.wait()).output == "done"
                break
        assert len(calls(tmp_path)) == 1

    play(story())
