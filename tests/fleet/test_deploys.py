"""A deploy with real processes: calls under way end in the old ones, and the new ones continue the runs."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import pytest
from tests.fleet.deploys import AGENTS, journal_of

from tools.postgres import running_postgres
from windlass import AgentRuntime
from windlass_protocol import JsonObject

pytestmark = pytest.mark.slow
GUARD_S = 300.0
SESSIONS = 4


class Till:
    """A socket at which payments wait: it counts them, and ends them when the test says so."""

    def __init__(self) -> None:
        self.paid: Counter[str] = Counter()
        """How often each payment was made, by its idempotency key."""
        self.processes: dict[str, int] = {}
        self.is_open = asyncio.Event()
        self._serving: set[asyncio.Task[None]] = set()
        self._is_changed = asyncio.Condition()

    async def aclose(self) -> None:
        self.is_open.set()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.add(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        process, key = (await reader.readline()).decode().split()
        async with self._is_changed:
            self.paid[key] += 1
            self.processes[key] = int(process)
            self._is_changed.notify_all()
        await self.is_open.wait()
        writer.write(b"paid\n")
        writer.close()
        await writer.wait_closed()

    async def until(self, count: int) -> None:
        """Return once so many payments have begun."""
        async with self._is_changed:
            await self._is_changed.wait_for(lambda: self.paid.total() >= count)


class Company:
    """The processes of a fleet, and what they log."""

    def __init__(self, store: str, folder: Path, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._environment = {
            **os.environ,
            "WINDLASS_STORE": store,
            "WINDLASS_AGENTS": AGENTS,
            "WINDLASS_DATA": str(folder / "data"),
            "DEPLOY_TILL": str(folder / "till"),
        }

    async def start(self, *command: str) -> Process:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "windlass_cli", *command),
            env=self._environment,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        self._stack.push_async_callback(self._end, process)
        return process

    async def _end(self, process: Process) -> None:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def logged(process: Process, start: str) -> JsonObject:
    """Return the first log line with a message that starts so."""
    assert process.stderr is not None
    lines: list[str] = []
    async for line in process.stderr:
        lines.append(line.decode())
        found: JsonObject = json.loads(line) if line.startswith(b"{") else {}
        if str(found.get("message")).startswith(start):
            return found
    raise AssertionError(f"no line {start!r} in {lines}")


Story = Callable[[Till, str, Company], Awaitable[None]]


def play(story: Story, tmp_path: Path) -> None:
    async def main() -> None:
        with running_postgres() as postgres:
            async with asyncio.timeout(GUARD_S), AsyncExitStack() as stack:
                till, store = Till(), postgres.new_database()
                server = await asyncio.start_unix_server(till.accept, tmp_path / "till")
                stack.callback(server.close)
                stack.push_async_callback(till.aclose)
                await story(till, store, Company(store, tmp_path, stack))

    asyncio.run(main())


async def started(company: Company, count: int) -> list[str]:
    """Start a server that does not drive, and runs at it; return their ids."""
    server = await company.start("serve", "--no-drive", "--port", "0")
    address = str((await logged(server, "Windlass is running"))["address"])
    async with httpx2.AsyncClient() as client:
        answers = [
            await client.post(f"{address}/v1/sessions", json={"message": f"Pay {number}"})
            for number in range(count)
        ]
    return [answer.json()["runId"] for answer in answers]


@pytest.mark.promise("J5")
def test_a_rolling_restart_during_once_calls_asks_no_person_anything(tmp_path: Path) -> None:
    async def story(till: Till, store: str, company: Company) -> None:
        old = [await company.start("worker") for _ in range(2)]
        run_ids = await started(company, SESSIONS)
        await till.until(SESSIONS)
        assert set(till.processes.values()) <= {process.pid for process in old}
        for worker in old:
            worker.send_signal(signal.SIGTERM)
        busy = [worker for worker in old if worker.pid in till.processes.values()]
        for worker in busy:
            told = await logged(worker, "draining: ")
            assert str(told["message"]).endswith("under way, up to 50 s")
        new = [await company.start("worker") for _ in range(2)]
        for worker in new:
            await logged(worker, "worker started")
        assert [worker.returncode for worker in busy] == [None] * len(busy)
        till.is_open.set()
        async with AgentRuntime.open(store, agents=(), is_driving=False) as runtime:
            for run_id in run_ids:
                async for event in runtime.subscribe_run(run_id, until_terminal=True):
                    assert event.type != "input.requested", "a person is asked"
            assert await journal_of(runtime, run_ids) == ({"completed": SESSIONS}, 0)
        assert [await worker.wait() for worker in old] == [0, 0]
        # Two payments for each run: the second one is of the new workers.
        assert sorted(till.paid.values()) == [1] * (2 * SESSIONS)
        assert set(till.processes.values()) <= {process.pid for process in (*busy, *new)}

    play(story, tmp_path)


def test_the_same_signal_again_ends_a_worker_at_once(tmp_path: Path) -> None:
    async def story(till: Till, store: str, company: Company) -> None:
        worker = await company.start("worker", "--drain-s", "3600")
        run_ids = await started(company, 1)
        await till.until(1)
        worker.send_signal(signal.SIGINT)
        await logged(worker, "draining: 1 call under way, up to 3600 s")
        # Another kind of signal is not the same again.
        worker.send_signal(signal.SIGTERM)
        worker.send_signal(signal.SIGINT)
        told = await logged(worker, "session ")
        assert "handed over with calls under way" in str(told["message"])
        await worker.wait()
        async with AgentRuntime.open(store, agents=(), is_driving=False) as runtime:
            assert (await runtime.handle(run_ids[0]).status()).value == "running"

    play(story, tmp_path)


def test_a_server_that_drains_is_not_ready_and_still_answers(tmp_path: Path) -> None:
    async def story(till: Till, store: str, company: Company) -> None:
        server = await company.start("serve", "--port", "0")
        address = str((await logged(server, "Windlass is running"))["address"])
        async with httpx2.AsyncClient(base_url=f"{address}/v1") as client:
            assert (await client.get("/ready")).status_code == 200
            first = (await client.post("/sessions", json={"message": "Pay"})).json()
            await till.until(1)
            async with client.stream("GET", f"/sessions/{first['sessionId']}/events") as stream:
                server.send_signal(signal.SIGTERM)
                lines = [line async for line in stream.aiter_lines()]
            assert any(line.startswith("retry:") for line in lines), (
                "the stream ended, and tells to reconnect"
            )
            await logged(server, "draining: 1 call under way, up to 50 s")
            ready = await client.get("/ready")
            assert (ready.status_code, "retry-after" in ready.headers) == (503, True)
            assert ready.headers["connection"] == "close"
            health = await client.get("/health")
            assert (health.status_code, health.json()["status"]) == (200, "closing")
            eve = await client.get(f"{address}/eve/v1/health")
            assert (eve.status_code, eve.json()["ok"]) == (503, False)
            later = await client.post("/sessions", json={"message": "Pay later"})
            assert later.status_code < 300, "a start is an item for the next process"
            till.is_open.set()
            await server.wait()
        assert till.paid.total() == 1, "it begins nothing while it drains"
        await company.start("worker")
        run_ids = [first["runId"], later.json()["runId"]]
        async with AgentRuntime.open(store, agents=(), is_driving=False) as runtime:
            for run_id in run_ids:
                async for event in runtime.subscribe_run(run_id, until_terminal=True):
                    assert event.type != "input.requested", "a person is asked"
            assert await journal_of(runtime, run_ids) == ({"completed": 2}, 0)
        assert sorted(till.paid.values()) == [1] * 4

    play(story, tmp_path)
