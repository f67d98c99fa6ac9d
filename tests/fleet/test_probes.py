"""Workers and servers as a platform sees them: probes, metrics, a database that is away, and the end."""

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx2
import pytest
from tests.fleet.test_crashes import Wire
from tests.fleet.test_deploys import logged
from tests.story import play

from tools.postgres import Postgres

pytestmark = pytest.mark.slow


@asynccontextmanager
async def command(store: str, folder: Path, *words: str, **settings: str) -> AsyncGenerator[Process]:
    """A process of the command; it is killed at the end, if it lives."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "windlass_cli", *words),
        env={**os.environ, "WINDLASS_STORE": store, "WINDLASS_DATA": str(folder / "data"), **settings},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=PIPE,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def number(metrics: str, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", metrics, re.MULTILINE)
    assert found is not None, metrics
    return float(found[1])


def test_a_worker_waits_for_its_database_and_answers_probes_meanwhile(
    postgres: Postgres, tmp_path: Path
) -> None:
    async def story() -> None:
        wire = Wire(postgres, tmp_path)
        wire.cut()
        store = postgres.new_database()
        away = store.replace(f"host={postgres.folder}", f"host={tmp_path}")
        async with wire.open(), command(away, tmp_path, "worker", "--port", "0") as worker:
            told = await logged(worker, "worker answers probes at ")
            await logged(worker, "the store cannot be opened, next attempt in 5 s: ")
            async with httpx2.AsyncClient(base_url=str(told["address"])) as client:
                assert (await client.get("/v1/health")).json()["status"] == "ok"
                assert (await client.get("/v1/ready")).status_code == 503
                assert (await client.get("/elsewhere")).status_code == 404
                wire.mend()
                await logged(worker, "worker started")
                assert (await client.get("/v1/ready")).status_code == 200
                async with command(store, tmp_path, "serve", "--no-drive", "--port", "0") as server:
                    address = (await logged(server, "Windlass is running"))["address"]
                    await client.post(f"{address}/v1/sessions", json={"message": "Hello"})
                metrics = (await client.get("/v1/metrics")).text
                assert 0 <= number(metrics, "windlass_lease_age_seconds") < 30
                assert number(metrics, "windlass_store_seconds") > 0
                assert number(metrics, "windlass_due_age_seconds") >= 0
                for name in ("runs_queued", "runs_running", "requests_open", "sessions_driven"):
                    assert number(metrics, f"windlass_{name}") >= 0
                assert "windlass_loop_stalls_total" in metrics
                worker.send_signal(signal.SIGTERM)
            assert await worker.wait() == 0

    play(story())


def test_a_worker_that_waits_for_its_database_ends_at_a_signal(postgres: Postgres, tmp_path: Path) -> None:
    async def story() -> None:
        away = f"postgresql://postgres@/app?host={tmp_path}"
        async with command(away, tmp_path, "worker") as worker:
            await logged(worker, "the store cannot be opened")
            worker.send_signal(signal.SIGTERM)
            assert await worker.wait() == 0

    play(story())


def test_a_server_serves_streams_and_connections_until_the_delay_is_over(
    postgres: Postgres, tmp_path: Path
) -> None:
    async def story() -> None:
        store, settings = postgres.new_database(), {"WINDLASS_SERVER_READY_DELAY_S": "3600"}
        async with command(store, tmp_path, "serve", "--port", "0", **settings) as server:
            address = str((await logged(server, "Windlass is running"))["address"])
            async with httpx2.AsyncClient(base_url=f"{address}/v1", timeout=60) as client:
                first = (await client.post("/sessions", json={"message": "Hello"})).json()
                path = f"/sessions/{first['sessionId']}/events"
                async with client.stream("GET", path) as stream:
                    lines = stream.aiter_lines()
                    await anext(lines)
                    server.send_signal(signal.SIGTERM)
                    while (await client.get("/ready")).status_code != 503:  # noqa: ASYNC110 - another process
                        await asyncio.sleep(0.02)
                    # New connections are accepted, and streams go on.
                    async with httpx2.AsyncClient(base_url=f"{address}/v1") as late:
                        assert (await late.get("/health")).json()["status"] == "closing"
                        message = await late.post("/sessions", json={"message": "Later"})
                        assert message.status_code < 300
                    assert server.returncode is None
                    server.send_signal(signal.SIGTERM)
                    rest = [line async for line in lines]
                assert any(line.startswith("retry:") for line in rest), "its readers are told to reconnect"
            assert await server.wait() == 0

    play(story())


def test_starts_are_refused_while_too_many_are_queued(postgres: Postgres, tmp_path: Path) -> None:
    async def story() -> None:
        store, settings = postgres.new_database(), {"WINDLASS_SERVER_BACKLOG_MAX": "2"}
        words = ("serve", "--no-drive", "--port", "0")
        async with command(store, tmp_path, *words, **settings) as server:
            address = str((await logged(server, "Windlass is running"))["address"])
            async with httpx2.AsyncClient(base_url=f"{address}/v1") as client:
                while True:
                    answer = await client.post("/sessions", json={"message": "Hello"})
                    if answer.status_code >= 400:
                        break
                    await asyncio.sleep(0.1)
                assert answer.status_code == 429
                assert answer.headers["retry-after"] == "10"
                assert "runs are queued, the limit is 2" in answer.json()["detail"]
                async with command(store, tmp_path, "worker"):
                    while (await client.post("/sessions", json={"message": "Hello"})).status_code == 429:  # noqa: ASYNC110 - another process
                        await asyncio.sleep(0.1)

    play(story())
