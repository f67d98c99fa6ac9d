"""Durable agent steps side by side.

Ours, the raw floor, and the peers, in one go on one machine.

Every measurement is a process of its own (benchmarks/peers/*_run.py) that does the task of
benchmarks/peers/task.py and prints one line of JSON. One contender that cannot be installed or fails is
shown as such; the others go on.
"""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import process_time

from benchmarks.peers.environments import CACHE, ROOT, NotInstalled, last_line, make_cache, python_of
from benchmarks.peers.goals import MEMORY, NAMES
from benchmarks.peers.report import render
from benchmarks.peers.results import Line, Outcome, Problem, Results, read_line
from benchmarks.peers.task import CRASHED

RUN_S_MAX = 600
RESUME_STEPS = 500
RESUME_ROUNDS = 3
RESUME_AGAIN_S_MAX = 1.0
"""A slower resume is not repeated."""
FILE_READ_ROUNDS = 3
QUIET = {"LANGSMITH_TRACING": "false", "OTEL_SDK_DISABLED": "true", "OPENAI_AGENTS_DISABLE_TRACING": "1"}


@dataclass(frozen=True, slots=True)
class Contender:
    """One row of the tables."""

    name: str
    module: str
    environment: str | None
    imports: str
    variant: str = ""
    stores: bool = True
    parks: int = 0
    """How many parked sessions to make; 0 leaves it out."""
    has_crowd: bool = True
    """Whether many runs at once are measured; a very slow peer is left out."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much to run.

    A cell is repeated, in rounds, until its processes have used their budget of CPU.
    """

    steps: tuple[int, ...]
    rounds: int
    cell_s: float
    runs: int
    """Concurrent runs; 0 leaves out everything but the steps and the imports."""
    run_steps: int = 20
    import_rounds: int = 5


FULL = Size(steps=(10, 50, 200, 500), rounds=5, cell_s=6.0, runs=200)
SHORT = Size(steps=(10, 50), rounds=2, cell_s=1.0, runs=0, import_rounds=1)
HELLO = tuple(f"from benchmarks.peers.hello import {name}; {name}()" for name in ("in_memory", "on_sqlite"))
"""Complete programs, timed with the imports of the others."""
LANGGRAPH = (
    "from langchain.agents import create_agent; from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver"
)
DBOS = "from dbos import DBOS; from pydantic_ai.durable_exec.dbos import DBOSDurability"
TEMPORAL = (
    "from temporalio.client import Client; from pydantic_ai.durable_exec.temporal import TemporalDurability"
)
ADK = (
    "from google.adk.runners import Runner; "
    "from google.adk.sessions.sqlite_session_service import SqliteSessionService"
)
CONTENDERS = (
    Contender("raw NORMAL", "raw_run", None, "import sqlite3", "normal"),
    Contender("raw FULL", "raw_run", None, "import sqlite3", "full"),
    Contender("Windlass, process", "windlass_run", None, "import windlass", "process"),
    Contender("Windlass, power", "windlass_run", None, NAMES, "power"),
    Contender("Windlass (memory)", "windlass_run", None, NAMES, "memory", stores=False),
    Contender("LangGraph", "langgraph_run", "langgraph", LANGGRAPH, parks=500),
    Contender("LangGraph, delta", "langgraph_run", "langgraph", LANGGRAPH, "delta"),
    Contender(
        "OpenAI Agents",
        "openai_agents_run",
        "openai_agents",
        "from agents import Agent, Runner, SQLiteSession",
        parks=500,
    ),
    Contender("Google ADK", "adk_run", "adk", ADK, parks=500),
    Contender("pydantic-ai + DBOS", "pydantic_dbos_run", "pydantic_dbos", DBOS, parks=500),
    Contender(
        "pydantic-ai + Temporal",
        "pydantic_temporal_run",
        "pydantic_temporal",
        TEMPORAL,
        parks=100,
        has_crowd=False,
    ),
    Contender(
        "agent-framework (memory)",
        "agent_framework_run",
        "agent_framework",
        "from agent_framework import Agent",
        stores=False,
        parks=500,
    ),
)
WAITING = Contender("Windlass, waiting for consent", "windlass_run", None, "", "waiting", parks=10_000)
DECODED = Contender("raw FULL, decoded", "raw_run", None, "", "decoded")
COUNTED = next(each for each in CONTENDERS if each.name == MEMORY)
"""The contender that has its calls counted."""


def measure_all(size: Size) -> Results:
    """Run every contender in every scenario of that size."""
    make_cache()
    results = Results()
    pythons = _pythons()
    _measure_steps(results, pythons, size)
    for contender in CONTENDERS:
        if contender.imports not in results.imports:
            python = pythons[contender.environment]
            results.imports[contender.imports] = _import_cpu(python, contender.imports, size.import_rounds)
    results.imports |= {code: _import_cpu(pythons[None], code, size.import_rounds) for code in HELLO}
    if size.runs:
        for contender in CONTENDERS:
            _measure_rest(results, pythons, contender, size)
        results.parked[WAITING.name] = _run(WAITING, pythons, "parked", runs=WAITING.parks)
        _tell(WAITING, "parked", results.parked[WAITING.name])
        results.resume[DECODED.name] = _resume(results, DECODED, pythons)
        results.calls[COUNTED.name] = _run(COUNTED, pythons, "calls")
        _tell(COUNTED, "calls", results.calls[COUNTED.name])
    return results


def section(results: Results, size: Size) -> str:
    """Return the tables as the section of RESULTS.md that they are."""
    return render(results, [contender.name for contender in CONTENDERS], counts=size.steps)


def _pythons() -> dict[str | None, Path | Problem]:
    found: dict[str | None, Path | Problem] = {}
    for environment in {contender.environment: None for contender in CONTENDERS}:
        try:
            found[environment] = python_of(environment)
        except NotInstalled as error:
            found[environment] = Problem(f"not installed: {error}")
    return found


def _measure_steps(results: Results, pythons: Mapping[str | None, Path | Problem], size: Size) -> None:
    spent: dict[tuple[str, int], float] = {}
    for _ in range(size.rounds):
        for count in size.steps:
            for contender in CONTENDERS:
                cell = (contender.name, count)
                if spent.get(cell, 0.0) >= size.cell_s:
                    continue
                before = _children_cpu()
                outcome = _run(contender, pythons, "steps", steps=count)
                used = _children_cpu() - before if isinstance(outcome, Line) else size.cell_s
                spent[cell] = spent.get(cell, 0.0) + used
                results.keep_best(contender.name, count, outcome=outcome)
                _tell(contender, f"{count} steps", outcome)


def _measure_rest(
    results: Results, pythons: Mapping[str | None, Path | Problem], contender: Contender, size: Size
) -> None:
    name = contender.name
    if contender.has_crowd:
        found = _run(contender, pythons, "concurrent", steps=size.run_steps, runs=size.runs)
        results.concurrent[name] = found
        _tell(contender, f"{size.runs} runs at once", found)
    if contender.stores:
        results.resume[name] = _resume(results, contender, pythons)
        _tell(contender, "resume", results.resume[name])
    if contender.parks:
        results.parked[name] = _run(contender, pythons, "parked", runs=contender.parks)
        _tell(contender, "parked", results.parked[name])


def _resume(results: Results, contender: Contender, pythons: Mapping[str | None, Path | Problem]) -> Outcome:
    folder = _fresh_folder(contender, "resume")
    crashed = _run(contender, pythons, "crash", folder=folder, steps=RESUME_STEPS)
    if crashed != Problem(f"exit {CRASHED}"):
        return crashed if isinstance(crashed, Problem) else Problem("it finished instead of being cut off")
    best: Outcome = Problem("never ran")
    for number in range(RESUME_ROUNDS):
        copy = folder.with_name(f"{folder.name}-{number}")
        shutil.copytree(folder, copy)
        outcome = _run(contender, pythons, "resume", folder=copy, steps=RESUME_STEPS)
        if isinstance(best, Problem) or (isinstance(outcome, Line) and outcome["cpu_s"] < best["cpu_s"]):
            best = outcome
        if isinstance(outcome, Problem) or outcome["cpu_s"] > RESUME_AGAIN_S_MAX:
            break
    results.file_read_s[contender.name] = min(
        _read_file(folder / "bench.db") for _ in range(FILE_READ_ROUNDS)
    )
    shutil.rmtree(folder)
    return best


def _run(
    contender: Contender,
    pythons: Mapping[str | None, Path | Problem],
    scenario: str,
    *,
    folder: Path | None = None,
    **numbers: int,
) -> Outcome:
    """Run one scenario in a process of its own.

    A folder that is given is kept if the run is cut off.
    """
    python = pythons[contender.environment]
    if isinstance(python, Problem):
        return python
    place = folder or _fresh_folder(contender, scenario)
    command = [str(python), "-m", f"benchmarks.peers.{contender.module}", scenario, "--folder", str(place)]
    command += [f"--{name}={value}" for name, value in numbers.items()]
    command += [f"--variant={contender.variant}"]
    try:
        done = subprocess.run(
            command,
            check=False,
            cwd=ROOT,
            env={**os.environ, **QUIET},
            capture_output=True,
            text=True,
            timeout=RUN_S_MAX,
        )
    except subprocess.TimeoutExpired:
        return Problem(f"took more than {RUN_S_MAX} s")
    if done.returncode == CRASHED:
        return Problem(f"exit {CRASHED}")
    shutil.rmtree(place)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        return Problem(f"failed: {last_line(done.stderr)}")
    return read_line(lines[-1])


def _fresh_folder(contender: Contender, scenario: str) -> Path:
    variant = f"-{contender.variant}" if contender.variant else ""
    folder = CACHE / "run" / f"{contender.module}{variant}-{scenario}"
    for old in folder.parent.glob(f"{folder.name}*"):
        shutil.rmtree(old)
    folder.mkdir(parents=True)
    return folder


def _read_file(path: Path) -> float:
    """Return the CPU that plain sqlite3 needs to read every row of the file."""
    began = process_time()
    with closing(sqlite3.connect(path)) as database:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for _ in database.execute(f'SELECT * FROM "{table}"'):
                pass
    return process_time() - began


def _import_cpu(python: Path | Problem, code: str, rounds: int) -> Outcome:
    if isinstance(python, Problem):
        return python
    try:
        empty, whole = (min(_child_cpu(python, one) for _ in range(rounds)) for one in ("pass", code))
    except subprocess.CalledProcessError as error:
        return Problem(f"failed: {last_line(error.stderr)}")
    return Line({"cpu_s": whole - empty})


def _child_cpu(python: Path, code: str) -> float:
    # With bytecode, as an installed package has it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [str(python), "-c", code]
    before = _children_cpu()
    subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, env=environment)
    return _children_cpu() - before


def _children_cpu() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _tell(contender: Contender, what: str, outcome: Outcome) -> None:
    match outcome:
        case Problem(why):
            text = why
        case Line(numbers) if "per_session" in numbers:
            text = f"{outcome['per_session'] / 1024:.2f} KiB a session"
        case Line(numbers) if "calls_a_step" in numbers:
            text = f"{outcome['calls_a_step']:.0f} calls of Python functions a step"
        case Line():
            text = f"{outcome['cpu_s'] * 1e3:.1f} ms of CPU"
    print(f"{contender.name}, {what}: {text}", flush=True)
