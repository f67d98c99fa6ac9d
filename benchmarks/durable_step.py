"""Durable agent steps side by side: ours and the peers, in one go on one machine.

Every measurement is a process of its own (benchmarks/peers/*_run.py) that does the task of
benchmarks/peers/task.py and prints one line of JSON. One contender that cannot be installed or fails is
shown as such; the others go on.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Literal

from benchmarks.goals import Numbers
from benchmarks.peers.environments import CACHE, ROOT, NotInstalled, last_line, make_cache, python_of
from benchmarks.peers.report import Shape, render
from benchmarks.peers.results import (
    MEMORY,
    NAMES,
    PEER,
    PROCESS,
    US,
    Line,
    Outcome,
    Problem,
    Results,
    cpu_ms,
    keep_best,
    ratio,
    read_line,
)
from benchmarks.peers.task import CRASHED

RUN_S_MAX = 240
RESUME_ROUNDS = 3
RESUME_AGAIN_S_MAX = 1.0
"""A slower resume is not repeated."""
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

    steps: tuple[int, int, int, int]
    rounds: int
    cell_s: float
    runs: int
    """Runs at once."""
    run_steps: int
    sources: tuple[int, ...]
    source_steps: int
    resume_steps: int
    parks_max: int
    import_rounds: int
    is_quick: bool = False
    """Whether the peers are left out, and of ours all but one where they differ in durability alone."""


FULL = Size(
    steps=(10, 50, 200, 500),
    rounds=5,
    cell_s=6.0,
    runs=200,
    run_steps=20,
    sources=(10_000, 60_000, 300_000),
    source_steps=10,
    resume_steps=500,
    parks_max=10_000,
    import_rounds=5,
)
QUICK = Size(
    steps=(2, 2, 2, 2),
    rounds=1,
    cell_s=1.0,
    runs=2,
    run_steps=2,
    sources=(10_000, 10_000, 10_000),
    source_steps=2,
    resume_steps=2,
    parks_max=4,
    import_rounds=1,
    is_quick=True,
)
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
    Contender(PROCESS, "windlass_run", None, "import windlass", "process"),
    Contender(US, "windlass_run", None, NAMES, "power"),
    Contender(MEMORY, "windlass_run", None, NAMES, "memory", stores=False),
    Contender(PEER, "langgraph_run", "langgraph", LANGGRAPH, parks=500),
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
)
WAITING = Contender("Windlass, waiting for consent", "windlass_run", None, "", "waiting", parks=10_000)
ROWS = Contender("Windlass, power, rows", "windlass_run", None, "", "rows")
COUNTED = next(each for each in CONTENDERS if each.name == MEMORY)
"""The contender that has its calls counted."""


def report(size: Size) -> tuple[str, Numbers]:
    """Run every contender in every scenario; return the section of RESULTS.md and its numbers."""
    contenders = [each for each in CONTENDERS if each.environment is None or not size.is_quick]
    results = _measure_all(contenders, size)
    shape = Shape(
        [contender.name for contender in contenders],
        size.steps,
        size.sources,
        size.source_steps,
        size.runs,
        size.run_steps,
        size.resume_steps,
    )
    _fail_if_ours_failed(results)
    return render(results, shape), _numbers(results, contenders, size)


def _fail_if_ours_failed(results: Results) -> None:
    """A peer may fail and is shown as such; a failure of ours is one of the benchmark."""
    ours = {
        name: why
        for name, why in results.problems().items()
        if "indlass" in name or name == "steps with rows"
    }
    if ours:
        raise RuntimeError("; ".join(f"{name}: {why}" for name, why in ours.items()))


def _numbers(results: Results, contenders: Sequence[Contender], size: Size) -> Numbers:
    """Return the numbers of the goals; one that could not be measured is left out."""
    short, middle, late, long = size.steps
    of = results.number
    long_lines = {US: results.steps[US, long]}
    stored, content = (of(long_lines, US, key=key) for key in ("stored", "content"))
    parked = of(results.parked, WAITING.name, key="per_session")
    resumed = of(results.resume, US, key="cpu_s")
    numbers: dict[str, float | None] = {
        "calls": of(results.calls, MEMORY, key="calls_a_step"),
        "resume_ms": resumed and resumed * 1e3,
        "growth": ratio(results.cpu_ms(US, long), results.cpu_ms(US, short)),
        "stored": ratio(stored, content),
        "parked_kib": None if parked is None else parked / 1024,
        "power_ratio": ratio(results.cpu_ms(US, middle), results.cpu_ms(PEER, middle)),
        "rows_60_ms": cpu_ms(results.rows),
    }
    for name, contender in (("memory_us", MEMORY), ("process_us", PROCESS), ("power_us", US)):
        cost = results.cpu_ms(contender, late)
        numbers[name] = cost and cost * 1e3
    peers = [each.name for each in contenders if each.environment is not None and each.stores]
    for name, source in zip((10, 60, 300), size.sources, strict=True):
        cost = cpu_ms(results.sources.get((US, source)))
        theirs = [cpu_ms(results.sources.get((peer, source))) for peer in peers]
        best = min((number for number in theirs if number is not None), default=None)
        numbers |= {f"source_{name}_ms": cost, f"source_{name}_ratio": ratio(cost, best)}
    return {name: number for name, number in numbers.items() if number is not None}


def _measure_all(contenders: Sequence[Contender], size: Size) -> Results:
    make_cache()
    results = Results()
    pythons = _pythons(contenders)
    _measure_cells(results.steps, contenders, pythons, size, "steps", size.steps)
    durable = [each for each in contenders if each.stores and each.name != PROCESS]
    _measure_cells(results.sources, durable, pythons, size, "source", size.sources)
    cells: dict[tuple[str, int], Outcome] = {}
    _measure_cells(cells, [ROWS], pythons, size, "source", size.sources[:1])
    results.rows = cells[ROWS.name, size.sources[0]]
    for contender in contenders:
        if contender.imports not in results.imports:
            python = pythons[contender.environment]
            results.imports[contender.imports] = import_cpu(python, contender.imports, size.import_rounds)
    results.imports |= {code: import_cpu(pythons[None], code, size.import_rounds) for code in HELLO}
    for contender in contenders:
        if contender.name == US or not size.is_quick:
            _measure_rest(results, pythons, contender, size)
    results.parked[WAITING.name] = _run(
        WAITING, pythons, "parked", None, runs=min(WAITING.parks, size.parks_max)
    )
    _tell(WAITING, "parked", results.parked[WAITING.name])
    results.calls[COUNTED.name] = _run(COUNTED, pythons, "calls", None)
    _tell(COUNTED, "calls", results.calls[COUNTED.name])
    return results


def _pythons(contenders: Sequence[Contender]) -> dict[str | None, Path | Problem]:
    found: dict[str | None, Path | Problem] = {}
    for environment in {contender.environment: None for contender in contenders}:
        try:
            found[environment] = python_of(environment)
        except NotInstalled as error:
            found[environment] = Problem(f"not installed: {error}")
    return found


def _measure_cells(
    cells: dict[tuple[str, int], Outcome],
    contenders: Sequence[Contender],
    pythons: Mapping[str | None, Path | Problem],
    size: Size,
    kind: Literal["steps", "source"],
    amounts: Sequence[int],
) -> None:
    """Measure steps in rounds: by their count, or with so much source code as results."""
    spent: dict[tuple[str, int], float] = {}
    for _ in range(size.rounds):
        for amount in dict.fromkeys(amounts):
            for contender in contenders:
                cell = (contender.name, amount)
                if spent.get(cell, 0.0) >= size.cell_s:
                    continue
                numbers = (
                    {"steps": amount} if kind == "steps" else {"steps": size.source_steps, "source": amount}
                )
                before = _children_cpu()
                outcome = _run(contender, pythons, "steps", None, **numbers)
                used = _children_cpu() - before if isinstance(outcome, Line) else size.cell_s
                spent[cell] = spent.get(cell, 0.0) + used
                keep_best(cells, cell, outcome)
                _tell(contender, f"{kind} {amount}", outcome)


def _measure_rest(
    results: Results, pythons: Mapping[str | None, Path | Problem], contender: Contender, size: Size
) -> None:
    name = contender.name
    if contender.has_crowd:
        found = _run(contender, pythons, "concurrent", None, steps=size.run_steps, runs=size.runs)
        results.concurrent[name] = found
        _tell(contender, f"{size.runs} runs at once", found)
    if contender.stores:
        results.resume[name] = _resume(contender, pythons, size)
        _tell(contender, "resume", results.resume[name])
    if contender.parks:
        results.parked[name] = _run(
            contender, pythons, "parked", None, runs=min(contender.parks, size.parks_max)
        )
        _tell(contender, "parked", results.parked[name])


def _resume(contender: Contender, pythons: Mapping[str | None, Path | Problem], size: Size) -> Outcome:
    folder = _fresh_folder(contender, "resume")
    crashed = _run(contender, pythons, "crash", folder, steps=size.resume_steps)
    if crashed != Problem(f"exit {CRASHED}"):
        return crashed if isinstance(crashed, Problem) else Problem("it finished instead of being cut off")
    best: Outcome = Problem("never ran")
    for number in range(1 if size.is_quick else RESUME_ROUNDS):
        copy = folder.with_name(f"{folder.name}-{number}")
        shutil.copytree(folder, copy)
        outcome = _run(contender, pythons, "resume", copy, steps=size.resume_steps)
        if isinstance(best, Problem) or (isinstance(outcome, Line) and outcome["cpu_s"] < best["cpu_s"]):
            best = outcome
        if isinstance(outcome, Problem) or outcome["cpu_s"] > RESUME_AGAIN_S_MAX:
            break
    shutil.rmtree(folder)
    return best


def run_scenario(
    python: Path,
    contender: Contender,
    scenario: str,
    folder: Path,
    surroundings: Mapping[str, str],
    /,
    **numbers: int,
) -> "subprocess.CompletedProcess[str]":
    """Run one scenario in a process of its own, with its database in `folder`."""
    command = [str(python), "-m", f"benchmarks.peers.{contender.module}", scenario, "--folder", str(folder)]
    command += [f"--{name}={value}" for name, value in numbers.items()]
    command += [f"--variant={contender.variant}"]
    return subprocess.run(
        command,
        check=False,
        cwd=ROOT,
        env={**surroundings, **QUIET},
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
    )


def _run(
    contender: Contender,
    pythons: Mapping[str | None, Path | Problem],
    scenario: str,
    folder: Path | None,
    /,
    **numbers: int,
) -> Outcome:
    """Run one scenario in a process of its own.

    A folder that is given is kept if the run is cut off.
    """
    python = pythons[contender.environment]
    if isinstance(python, Problem):
        return python
    place = folder or _fresh_folder(contender, scenario)
    try:
        done = run_scenario(python, contender, scenario, place, os.environ, **numbers)
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


def import_cpu(
    python: Path | Problem, code: str, rounds: int, surroundings: Mapping[str, str] | None = None
) -> Outcome:
    """Return the CPU that a fresh interpreter needs for some code, above an empty one."""
    if isinstance(python, Problem):
        return python
    try:
        empty, whole = (
            min(_child_cpu(python, one, surroundings or os.environ) for _ in range(rounds))
            for one in ("pass", code)
        )
    except subprocess.CalledProcessError as error:
        return Problem(f"failed: {last_line(error.stderr)}")
    return Line({"cpu_s": whole - empty})


def _child_cpu(python: Path, code: str, surroundings: Mapping[str, str]) -> float:
    # With bytecode, as an installed package has it.
    environment = {name: value for name, value in surroundings.items() if name != "PYTHONDONTWRITEBYTECODE"}
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
