"""`worker`, `serve --no-drive` and the checks of a fleet by `doctor`."""

import asyncio
import gc
import signal
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from tests.cli.commands import COMMAND, WAIT_S_MAX, run_here

from tools.postgres import Postgres
from tools.temporal import free_port
from windlass import Agent, AgentRuntime
from windlass.adapters.loop_watch import SWITCH_S
from windlass.demo import agent as demo
from windlass.ledger.wall import now_ms
from windlass.ports.documents import Document
from windlass.postgres import PostgresStore
from windlass.testing import ScriptedModel, say
from windlass_server import Tenants
from windlass_server.tenants import TENANT

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDLASS_SERVER_PORT", "0")


def test_workers_need_a_store_in_postgresql(capsys: pytest.CaptureFixture[str]) -> None:
    for options in (("--no-drive",), ("--wakes", "temporal://localhost/default")):
        ran = run_here(capsys, "serve", *options)
        assert ran.code == 2
        assert "workers need a store in PostgreSQL" in ran.err
        assert "Name one: --store postgresql://" in ran.err
    ran = run_here(capsys, "worker", "--wakes", "temporal://localhost/default")
    assert (ran.code, "wakes need a store in PostgreSQL" in ran.err) == (2, True), ran.err
    ran = run_here(capsys, "worker", "nothing_here:agent")
    assert (ran.code, "no module named nothing_here" in ran.err) == (2, True), ran.err


def test_a_worker_drives_what_a_process_that_does_not_drive_has_started_and_parks_it_at_sigterm(
    postgres: Postgres, tmp_path: Path
) -> None:
    store = postgres.new_database()
    # Schemas that it comes upon before that of the tenant: one that cannot be used, and a copy of the tenant.
    with psycopg.connect(store) as connection:
        connection.execute("CREATE SCHEMA windlass_a; CREATE SEQUENCE windlass_a.item_numbers")
        connection.execute("CREATE TABLE windlass_a.store AS SELECT -1 AS version")
    asyncio.run(_backed_up(store))
    command = [*COMMAND, "worker", "windlass.demo:agent", "--store", store]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as worker:
        guard = threading.Timer(WAIT_S_MAX, worker.kill)
        guard.start()
        assert worker.stderr is not None
        assert '"message": "worker started"' in worker.stderr.readline()

        async def story() -> str:
            async with AgentRuntime.open(store, agents=[demo], is_driving=False) as runtime:
                run = await runtime.start_run(demo, "Hello.")
                return (await run.wait(timeout=WAIT_S_MAX)).status.value

        assert asyncio.run(story()) == "completed"

        async def of_a_tenant() -> str:
            tenants = Tenants(tmp_path / "data", [demo], address=store, is_driving=False)
            await tenants.start()
            async with tenants.use("acme") as tenant:
                run = await tenant.runtime.start_run("demo", "Hello.")
                status = (await run.wait(timeout=WAIT_S_MAX)).status.value
            await tenants.aclose()
            return status

        assert asyncio.run(of_a_tenant()) == "completed"
        with psycopg.connect(store) as connection:
            assert connection.execute("SELECT * FROM windlass_b.leases").fetchall() == []
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(WAIT_S_MAX) == 0
        guard.cancel()
    with psycopg.connect(store) as connection:
        assert connection.execute("SELECT * FROM windlass.leases").fetchall() == []


teller = Agent(
    "teller",
    model=ScriptedModel(
        lambda _: say(f"{sys.getswitchinterval() < 2 * SWITCH_S} {gc.get_freeze_count() > 0}")
    ),
)


def test_a_worker_takes_turns_quickly_and_collects_only_new_garbage(tmp_path: Path) -> None:
    store = str(tmp_path / "runs.db")
    command = [*COMMAND, "worker", f"{Path(__file__)}:teller", "--store", store]

    async def output() -> str:
        async with AgentRuntime.open(store, agents=[teller], is_driving=False) as runtime:
            return (await (await runtime.start_run(teller, "Tell.")).wait(timeout=WAIT_S_MAX)).output

    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as worker:
        guard = threading.Timer(WAIT_S_MAX, worker.kill)
        guard.start()
        assert worker.stderr is not None
        assert '"message": "worker started"' in worker.stderr.readline()
        assert asyncio.run(output()) == "True True"
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(WAIT_S_MAX) == 0
        guard.cancel()


async def _backed_up(store: str) -> None:
    opened = await PostgresStore.open(store, schema="windlass_b")
    await opened.put_document(Document(TENANT, TENANT, revision=1, body={"name": "acme"}))
    await opened.aclose()


def test_doctor_checks_database_tables_clocks_and_wakes_and_changes_nothing(
    postgres: Postgres, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = postgres.new_database()
    name = urlsplit(store).path.removeprefix("/")
    with psycopg.connect(store, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name}_reader LOGIN".encode())
    for look in (("doctor",), ("migrate", "--dry-run")):
        # Without the right to make a schema.
        ran = run_here(capsys, "--store", store.replace("postgres@", f"{name}_reader@", 1), *look)
        assert ran.code == 0, ran.out + ran.err
    ran = run_here(capsys, "--store", store, "doctor")
    assert (ran.code, "has no tables yet" in ran.out) == (0, True), ran.out
    with psycopg.connect(store) as connection:
        found = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'windlass'").fetchall()
    assert found == []

    async def use(address: str) -> None:
        async with AgentRuntime.open(address, agents=()):
            pass

    asyncio.run(use(store))
    port = free_port()
    monkeypatch.setenv("WINDLASS_WAKES", f"temporal://127.0.0.1:{port}/default")
    ran = run_here(capsys, "--store", store, "doctor")
    assert ran.code == 1
    assert "its tables are of this release" in ran.out
    assert "✓ clocks: this machine and PostgreSQL differ by" in ran.out
    assert f"Temporal cannot be reached at 127.0.0.1:{port}" in ran.out
    monkeypatch.delenv("WINDLASS_WAKES")
    with psycopg.connect(store, autocommit=True) as connection:
        ahead = now_ms() + 3_600_000
        connection.execute("INSERT INTO windlass.leases VALUES ('fast', %s)", (ahead,))
        ran = run_here(capsys, "--store", store, "doctor")
        assert (ran.code, "✗ clocks: a worker is +3" in ran.out) == (1, True), ran.out
        # The tables of a tenant are checked too.
        asyncio.run(use(f"{store}&schema=windlass_t_acme"))
        connection.execute("UPDATE windlass_t_acme.store SET version = 2")
    ran = run_here(capsys, "--store", store, "doctor")
    assert "?schema=windlass_t_acme has schema version 2, this release has" in ran.out


def test_doctor_tells_that_a_database_cannot_be_reached(capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = f"postgresql://user@127.0.0.1:{free_port()}/none"
    ran = run_here(capsys, "--store", nowhere, "doctor")
    assert ran.code == 1
    assert "✗ store: PostgreSQL" in ran.out
