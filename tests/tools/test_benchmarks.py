"""Every measurement of `make bench` that needs no package of others still runs, once and short."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.durable_step import CONTENDERS, WAITING, Contender
from benchmarks.http import APPROVAL, RUN, Command, Size, measure, running, write_key
from benchmarks.peers.environments import ROOT
from benchmarks.peers.results import Line, read_line
from benchmarks.peers.task import CRASHED, cpu_of, free_port

OURS = [contender for contender in CONTENDERS if contender.environment is None]


def measure_scenario(contender: Contender, scenario: str, folder: Path, **numbers: int) -> tuple[int, str]:
    """Run one scenario in a process of its own; return its exit code and the last line that it printed."""
    command = [sys.executable, "-m", f"benchmarks.peers.{contender.module}", scenario, f"--folder={folder}"]
    command += [f"--variant={contender.variant}", *(f"--{name}={value}" for name, value in numbers.items())]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, CRASHED), done.stderr
    return done.returncode, done.stdout.strip().rpartition("\n")[2]


@pytest.mark.slow
@pytest.mark.parametrize("contender", OURS, ids=lambda contender: contender.name)
def test_a_durable_step_is_measured(contender: Contender, tmp_path: Path) -> None:
    _, line = measure_scenario(contender, "concurrent", tmp_path, steps=2, runs=2)
    numbers = read_line(line)
    assert isinstance(numbers, Line)
    assert numbers["cpu_s"] > 0
    assert (numbers["stored"] > 0) is contender.stores


@pytest.mark.slow
@pytest.mark.parametrize("name", ["raw FULL", "Windlass, power"])
def test_a_resume_is_measured(name: str, tmp_path: Path) -> None:
    contender = next(contender for contender in OURS if contender.name == name)
    crashed, _ = measure_scenario(contender, "crash", tmp_path, steps=2)
    assert crashed == CRASHED
    _, line = measure_scenario(contender, "resume", tmp_path, steps=2)
    numbers = read_line(line)
    assert isinstance(numbers, Line)
    assert numbers["cpu_s"] > 0


@pytest.mark.slow
def test_parked_sessions_are_measured(tmp_path: Path) -> None:
    _, line = measure_scenario(WAITING, "parked", tmp_path, runs=4)
    numbers = read_line(line)
    assert isinstance(numbers, Line)
    assert numbers["sessions"] == 4


@pytest.mark.slow
def test_runs_and_approvals_over_http_are_measured(tmp_path: Path) -> None:
    key, port = write_key(tmp_path), free_port()
    command = Command(Path(sys.executable), ["-m", "benchmarks.http", "serve", str(tmp_path), str(port)])
    with running("windlass", command, key=key, port=port) as server:
        best = asyncio.run(measure({"windlass": server}, [RUN, APPROVAL], Size(runs=2, rounds=1)))
    assert [(best[contender.name].runs, best[contender.name].failed) for contender in (RUN, APPROVAL)] == [
        (2, 0),
        (2, 0),
    ]


def test_the_cpu_of_a_process_is_read_and_a_missing_process_is_named() -> None:
    assert cpu_of(os.getpid()) > 0
    with subprocess.Popen([sys.executable, "-c", "pass"]) as child:
        child.wait(300)
    with pytest.raises(OSError, match=f"process {child.pid}"):
        cpu_of(child.pid)
