"""Durable steps of several processes on one database: `python -m benchmarks --only shared`.

One, two and four processes share the same runs on one PostgreSQL, beside the peers. pydantic-ai with Temporal
has a Temporal server instead, on SQLite: its development server knows no other database.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.goals import Numbers
from benchmarks.peers.environments import ROOT, NotInstalled, last_line, make_cache, python_of
from benchmarks.peers.report import table
from benchmarks.peers.task import cpu_of, free_port
from benchmarks.postgres import NUMBERS as PARKED
from benchmarks.postgres import report as parked_report
from benchmarks.postgres import server_cpu_s
from tools.postgres import running_postgres

DURABLE: Final = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "autovacuum": "on",
    "shared_buffers": "128MB",
    "max_connections": "200",
}
WINDLASS: Final = "Windlass"
PEERS: Final[Mapping[str, tuple[str, str | None]]] = {
    WINDLASS: ("windlass_run", None),
    "LangGraph, Postgres saver": ("langgraph_run", "langgraph"),
    "pydantic-ai + DBOS": ("pydantic_dbos_run", "pydantic_dbos"),
    "pydantic-ai + Temporal": ("pydantic_temporal_run", "pydantic_temporal"),
}
"""The runner of each contender, and its environment."""
INTRO: Final = """## Durable steps on PostgreSQL, with several processes

{runs} runs of {steps} steps (one answer of a scripted model, one tool call) are shared by one, two and four
processes on one PostgreSQL with `fsync` and `synchronous_commit` on, and begin together after a warm-up. CPU
is that of all processes and, beside it, of the server, in one round. Temporal has its own server on SQLite
(`start-dev`); the CPU of that server is in the column of the server."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much to run."""

    workers: tuple[int, ...]
    runs: int
    steps: int
    contenders: Sequence[str]
    parked: Sequence[int]
    looks: int


FULL: Final = Size((1, 2, 4), 16, 20, tuple(PEERS), PARKED, 50)
QUICK: Final = Size((1,), 1, 2, (WINDLASS,), (10,), 2)


class Failed(Exception):
    """A contender did not do the task; says why."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one contender needed for all runs."""

    wall_s: float
    cpu_s: float
    server_cpu_s: float

    @property
    def whole_s(self) -> float:
        return self.cpu_s + self.server_cpu_s


@contextmanager
def _temporal(python: Path) -> Generator[tuple[dict[str, str], int]]:
    """Start a Temporal server with the settings of the runner, which says why they are so."""
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        port = free_port()
        command = [str(python.with_name("temporal")), "server", "start-dev", "--headless"]
        command += ["--log-level", "never", "--port", str(port), "--db-filename", f"{folder}/bench.db"]
        command += ["--sqlite-pragma=journal_mode=wal", "--sqlite-pragma=synchronous=full"]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield {"BENCH_TEMPORAL": f"127.0.0.1:{port}"}, server.pid
        finally:
            server.terminate()
            server.wait()


def _measured(name: str, workers: int, size: Size) -> Row:
    """Let processes share the runs; return what they used."""
    runner, environment = PEERS[name]
    python = python_of(environment)
    if environment == "pydantic_temporal":
        with _temporal(python) as (given, server):
            return _together(python, runner, workers, size, given, lambda: cpu_of(server))
    with running_postgres(**DURABLE) as postgres:
        given = {"BENCH_POSTGRES": postgres.new_database()}
        return _together(python, runner, workers, size, given, lambda: server_cpu_s(postgres))


def _together(
    python: Path,
    runner: str,
    workers: int,
    size: Size,
    given: Mapping[str, str],
    server_s: Callable[[], float],
) -> Row:
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder, ExitStack() as stack:
        children: list[subprocess.Popen[str]] = []
        for number in range(workers):
            place = Path(folder, str(number))
            place.mkdir()
            command = [str(python), "-m", f"benchmarks.peers.{runner}", "shared", "--folder", str(place)]
            command += [
                "--number",
                str(number),
                "--runs",
                str(size.runs // workers),
                "--steps",
                str(size.steps),
            ]
            child = stack.enter_context(
                subprocess.Popen(
                    command,
                    cwd=ROOT,
                    env={**os.environ, **given},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            stack.callback(child.kill)
            children.append(child)
            # One after the other: the first makes the tables.
            _line(child, "ready")
        before = server_s()
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        told = [json.loads(_line(child, "{")) for child in children]
        used = server_s() - before
    return Row(max(one["wall_s"] for one in told), sum(one["cpu_s"] for one in told), used)


def _line(child: subprocess.Popen[str], start: str) -> str:
    """Return the next line of a process that begins so."""
    assert child.stdout is not None
    for line in child.stdout:
        if line.startswith(start):
            return line
    raise Failed(last_line(child.communicate()[1]))


def report(size: Size = FULL) -> tuple[str, Numbers]:
    """Measure all contenders; return the section. No goal is about it."""
    make_cache()
    found: dict[tuple[str, int], Row] = {}
    problems: dict[str, str] = {}
    for workers in size.workers:
        for name in size.contenders:
            if name in problems:
                continue
            try:
                found[name, workers] = row = _measured(name, workers, size)
            except (Failed, NotInstalled) as error:
                if name == WINDLASS:
                    raise
                problems[name] = str(error)
                continue
            print(f"{name}, {workers}: {row}", flush=True)
    return _section(found, problems, size), {}


def _section(found: Mapping[tuple[str, int], Row], problems: Mapping[str, str], size: Size) -> str:
    steps = size.runs * size.steps
    rows: list[list[str]] = []
    for (name, workers), row in sorted(
        found.items(), key=lambda one: (list(PEERS).index(one[0][0]), one[0][1])
    ):
        ours = found.get((WINDLASS, workers))
        cells = [
            f"{steps / row.wall_s:.0f}",
            f"{row.cpu_s / steps * 1e3:.2f}",
            f"{row.server_cpu_s / steps * 1e3:.2f}",
        ]
        beside = "–" if ours is None else f"{row.whole_s / ours.whole_s:.2f}"
        rows.append([name, str(workers), *cells, beside])
    header = ("", "processes", "steps/s", "ms of CPU a step", "… of the server", "CPU, peer / ours")
    missing = "".join(f"\n- not measured: {name}: {why}" for name, why in problems.items())
    intro = INTRO.format(runs=size.runs, steps=size.steps)
    return f"{intro}\n\n{table(header, rows)}\n{missing}\n{parked_report(size.parked, size.looks)}"
