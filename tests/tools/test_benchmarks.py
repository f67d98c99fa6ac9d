"""Every measurement of `make bench` that needs no package of others still runs, once and short."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import __main__ as bench
from benchmarks.durable_step import CONTENDERS, Contender, run_scenario
from benchmarks.goals import GOALS, Goal
from benchmarks.inspector import CHROMIUM
from benchmarks.peers.environments import CACHE
from benchmarks.peers.results import read_line
from benchmarks.peers.task import cpu_of
from benchmarks.streams import delay_s, word_at

ROOT = Path(__file__).parents[2]
SLOWER = """
import asyncio

run = asyncio.Handle._run
asyncio.Handle._run = lambda handle: run(handle)
"""
"""One more call of a function in each turn of the event loop."""
BROWSER = "inspector"
HAS_BROWSER = (
    shutil.which("node") is not None
    and Path(os.environ.get("CHROMIUM", CHROMIUM)).exists()
    and (ROOT / "packages/server/src/windlass_server/inspector/dist/index.html").exists()
)
PEERS = [contender for contender in CONTENDERS if contender.environment is not None]


def ignore(title: str, text: str) -> None:
    """Keep no section."""


@pytest.mark.slow
def test_every_section_runs_and_measures_every_goal() -> None:
    sections = [section for section in bench.SECTIONS if section.name != BROWSER]
    outcome = bench.run(sections, is_quick=True, keep=ignore)
    assert outcome.failed == []
    assert set(outcome.numbers) == {goal.name for goal in GOALS if not goal.needs_peers}
    assert all("load average" in text for text in outcome.texts.values())


@pytest.mark.slow
@pytest.mark.skipif(
    not HAS_BROWSER and "CI" not in os.environ, reason="needs node, chromium and `make inspector`"
)
def test_the_inspector_is_measured_in_a_browser() -> None:
    sections = [section for section in bench.SECTIONS if section.name == BROWSER]
    outcome = bench.run(sections, is_quick=True, keep=ignore)
    assert outcome.failed == []
    assert outcome.numbers["interactive_s"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_peer_that_is_installed_does_the_task(peer: Contender, tmp_path: Path) -> None:
    python = CACHE / str(peer.environment) / "bin" / "python"
    if not python.exists():
        pytest.skip("needs `make bench`, which installs the peers")
    done = run_scenario(python, peer, "steps", tmp_path, os.environ, steps=2, source=10_000)
    assert done.returncode == 0, done.stderr
    assert read_line(done.stdout.strip().rpartition("\n")[2])["cpu_s"] > 0


def test_a_section_that_fails_is_named_and_the_others_are_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> tuple[str, dict[str, float]]:
        raise RuntimeError("the disk is full")

    broken = bench.Section("broken", "broken", fail, fail)
    sound = bench.Section("sound", "sound", fail, lambda: ("## Sound", {"calls": 450.0}))
    monkeypatch.setattr(bench, "SECTIONS", (broken, sound))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--quick"])
    assert bench.main() == 1
    shown = capsys.readouterr()
    assert "the disk is full" in shown.err
    assert shown.err.endswith("failed: broken\n")
    assert "## Sound" in shown.out


def test_a_section_is_written_beside_the_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report = tmp_path / "RESULTS.md"
    report.write_text("# Old\n\n<!-- recorder: begin -->\nkept\n<!-- recorder: end -->\n", "utf-8")
    monkeypatch.setattr(bench, "RESULTS", report)
    bench.write("parts", "first")
    bench.write("parts", "second")
    assert bench.texts_of(report.read_text("utf-8")) == {"parts": "second", "recorder": "kept"}


@pytest.mark.parametrize(
    ("goal", "number", "verdict"),
    [
        (Goal("g", "at most", 2), 2.0, "met"),
        (Goal("g", "at most", 2), 2.1, "missed"),
        (Goal("g", "at least", 2, is_minimum=True), 1.9, "missed"),
        (Goal("g", "no limit", None), 7.0, "reported"),
        (Goal("g", "at most", 2), None, "not measured"),
    ],
)
def test_a_goal_is_met_missed_or_reported(goal: Goal, number: float | None, verdict: str) -> None:
    assert goal.cells(number)[-1] == verdict


def test_a_streamed_word_tells_its_delay() -> None:
    letters = word_at(1_000.0).strip().removeprefix("zq").encode()
    assert delay_s(letters, 1_000.25) == pytest.approx(0.25)


def test_the_cpu_of_a_process_is_read_and_a_missing_process_is_named() -> None:
    assert cpu_of(os.getpid()) > 0
    with subprocess.Popen([sys.executable, "-c", "pass"]) as child:
        child.wait(300)
    with pytest.raises(OSError, match=f"process {child.pid}"):
        cpu_of(child.pid)


@pytest.mark.slow
def test_a_comparison_shows_that_the_sources_of_one_checkout_call_more_functions(tmp_path: Path) -> None:
    new = tmp_path / "new"
    for package in ROOT.glob("packages/*/src"):
        shutil.copytree(package, new / package.relative_to(ROOT), ignore=shutil.ignore_patterns("dist"))
    module = new / "packages/protocol/src/windlass_protocol/__init__.py"
    module.write_text(f"{module.read_text('utf-8')}\n{SLOWER}", "utf-8")
    command = [sys.executable, "-m", "benchmarks.compare", str(ROOT), str(new)]
    command += ["--rounds=1", "--steps=2", "--resume-steps=2"]
    done = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True, timeout=300)
    rows = [line.strip("| ").split("|") for line in done.stdout.splitlines()[2:] if line.startswith("|")]
    assert len(rows) == 6
    assert all(float(number) > 0 for row in rows for number in row[1:])
    [(_, few, many, *_)] = [row for row in rows if row[0].startswith("calls of Python")]
    assert float(many) > float(few)


def test_a_folder_without_sources_is_not_compared(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.compare", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "expected a checkout with packages/*/src" in done.stderr
