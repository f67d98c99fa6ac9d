"""The runbook of docs/operations.md: its commands, against a database that was dumped and restored."""

import asyncio
import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest
from tests.cli.commands import WAIT_S_MAX, run_here

from tools.postgres import Postgres
from windlass import AgentRuntime
from windlass.demo import agent


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def restored(postgres: Postgres, source: str, dump: Path) -> str:
    """Dump a database, and restore it into an empty one."""
    target = postgres.new_database()
    for name, *arguments in (("pg_dump", "-Fc", "-f", dump, source), ("pg_restore", "-d", target, dump)):
        own = postgres.programs / name
        program = own if own.exists() else shutil.which(name)
        assert program is not None, f"{name} is missing"
        subprocess.run([program, *arguments], check=True, timeout=WAIT_S_MAX)
    return target


async def waiting(address: str) -> tuple[str, str]:
    """Let a run wait for a person, and end the process; return the run and its request."""
    async with AgentRuntime.open(address, agents=[agent]) as runtime:
        run = await runtime.start_run(agent, "Use weather, then pay.")
        async for event in run.events():
            if event.type == "run.waiting":
                break
        [request] = await run.open_requests()
        return run.run_id, request.request_id


def test_a_restored_database_is_verified_and_its_runs_go_on(
    postgres: Postgres, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source = postgres.new_database()
    run_id, request_id = asyncio.run(waiting(source))
    assert "up to date" in run_here(capsys, "--store", source, "migrate", "--dry-run").out
    address = restored(postgres, source, tmp_path / "dump")

    def ran(*arguments: str, code: int = 0) -> str:
        done = run_here(capsys, "--store", address, *arguments)
        assert done.code == code, (arguments, done.out, done.err)
        return " ".join(f"{done.out} {done.err}".split())

    assert "with their sessions and runs as they were written" in ran("doctor", "--deep")
    assert "waiting for input" in ran("runs", "list")
    assert "Run pay?" in ran("runs", "show", run_id)
    assert "only a failed run is continued" in ran("runs", "retry", run_id, code=5)
    assert ran("sessions", "prune", "--days", "1", "--yes").split()[0] == "0"
    ran("approvals", "answer", request_id, "approve")
    assert "paid 1 cents" in ran("runs", "resume", run_id)
    assert "completed" in ran("runs", "list")
    with psycopg.connect(address) as admin:
        admin.execute("UPDATE windlass.appends SET body = body || 'x'::bytea")
    assert "is damaged or missing" in ran("doctor", "--deep", code=1)
