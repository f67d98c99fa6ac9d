"""Killed processes: every acknowledged record is there once."""

import signal
from pathlib import Path

import pytest
from tests.ledger.samples import GOAL, child, decide, record

from windlass.ledger import BuilderQuery, Run, RunStatus, Runtime, query
from windlass.sqlite.spool import Spool

CALLS = """
import os, signal, sys
from pathlib import Path
from windlass.ledger import Runtime, DecisionEvaluation

folder, last, durability = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
runtime = Runtime(folder / "store", durability=durability)
options = [{"id": "a", "description": "A"}, {"id": "b", "description": "B"}]
calls = [
    lambda: runtime.start_run("goal"),
    lambda: runtime.set_node("node"),
    lambda: runtime.decide("first", options, "a", "why"),
    lambda: runtime.record_outcome("dec_0", True, {"n": 1}),
    lambda: runtime.quick_decision("second", "act", "why"),
    lambda: runtime.record_outcome("dec_1", False, error="no"),
    lambda: runtime.report_problem("critical", "bad", "dec_1"),
    lambda: runtime.decide_and_execute("third", options, "b", "why", lambda: 3),
    lambda: runtime.record_outcome("dec_1", True),
    lambda: runtime.record_evaluation("dec_2", DecisionEvaluation(outcome_quality=0.9)),
    lambda: len(runtime.current_run.decisions),
    lambda: runtime.decide("fourth", options, "a", "why"),
    lambda: runtime.end_run(True),
]
for number, call in enumerate(calls):
    call()
    if number == last:
        os.kill(os.getpid(), signal.SIGKILL)
"""
CALL_COUNT = 13
DECISIONS_AFTER = (0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4)
MANY = """
import os, signal, sys
from windlass.ledger import Runtime

runtime = Runtime(sys.argv[1])
runtime.start_run("goal")
for _ in range(int(sys.argv[2])):
    runtime.quick_decision("again", "act", "why")
os.kill(os.getpid(), signal.SIGKILL)
"""
WRITER = """
import sys
from windlass.ledger import Runtime

runtime = Runtime(sys.argv[1], strict=True)
for number in range(int(sys.argv[2])):
    runtime.start_run("goal")
    for _ in range(3):
        runtime.record_outcome(runtime.quick_decision("intent", "act", "why"), True)
    runtime.end_run(True)
"""


def keep(spool: Spool) -> None:
    """Do nothing, as if the process had been killed before the spool was cleared."""


def only_run(folder: Path) -> Run:
    reader = BuilderQuery(folder)
    [short] = reader.list_runs_for_goal("goal")
    run = reader.get_full_run(short.run_id)
    assert run is not None
    assert short.status is run.status
    return run


def check(run: Run, after: int) -> None:
    """Hold a run against the calls that returned."""
    assert len(run.decisions) == DECISIONS_AFTER[after]
    first, second, third = (*run.decisions, None, None, None)[:3]
    if after >= 3 and first is not None:
        assert first.outcome is not None
        assert first.outcome.result == {"n": 1}
    if after >= 5 and second is not None:
        assert second.was_successful is (after >= 8)
    assert len(run.problems) == (after >= 6)
    if after >= 9 and third is not None:
        assert third.evaluation is not None
    assert run.status is (RunStatus.COMPLETED if after == CALL_COUNT - 1 else RunStatus.RUNNING)


@pytest.mark.promise("J1")
@pytest.mark.parametrize("last", range(CALL_COUNT))
def test_after_a_kill_behind_any_call_everything_acknowledged_is_there(tmp_path: Path, last: int) -> None:
    process = child(CALLS, tmp_path, str(last), "process")
    _, errors = process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL, errors.decode()
    run = only_run(tmp_path / "store")
    check(run, last)
    # A second query and a new recorder in the same folder give the same.
    record(Runtime(tmp_path / "store"))
    assert only_run(tmp_path / "store") == run
    left = [path for path in (tmp_path / "store").glob("recorder.db-spool/*") if path.stat().st_size]
    assert left == []


@pytest.mark.promise("J1")
def test_everything_acknowledged_is_there_after_a_kill_with_durability_power(tmp_path: Path) -> None:
    process = child(CALLS, tmp_path, "7", "power")
    process.communicate(timeout=300)
    check(only_run(tmp_path / "store"), 7)


@pytest.mark.promise("J1")
@pytest.mark.parametrize("count", [97, 98, 99, 300])
def test_a_kill_around_a_transaction_loses_nothing_and_repeats_nothing(tmp_path: Path, count: int) -> None:
    process = child(MANY, tmp_path, str(count))
    process.communicate(timeout=300)
    assert len(only_run(tmp_path).decisions) == count


def test_a_run_of_a_dead_process_is_stuck_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = child(MANY, tmp_path, "2")
    process.communicate(timeout=300)
    run = only_run(tmp_path)
    assert run.status is RunStatus.RUNNING
    last_ms = int(run.decisions[-1].timestamp.timestamp() * 1000)
    monkeypatch.setattr(query, "now_ms", lambda: last_ms + query.STUCK_AFTER_MS - 1)
    assert only_run(tmp_path).status is RunStatus.RUNNING
    monkeypatch.setattr(query, "now_ms", lambda: last_ms + query.STUCK_AFTER_MS)
    assert only_run(tmp_path).status is RunStatus.STUCK
    analysis = BuilderQuery(tmp_path).analyze_failure(run.id)
    assert analysis is not None
    assert analysis.root_cause == "The process that recorded the run is gone; 2 decisions had no outcome"


def test_a_run_that_is_silent_but_alive_is_not_stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime(tmp_path)
    runtime.start_run("goal")
    monkeypatch.setattr(query, "now_ms", lambda: 10**14)
    assert only_run(tmp_path).status is RunStatus.RUNNING
    runtime.close()
    assert only_run(tmp_path).status is RunStatus.STUCK


def test_a_record_in_both_journal_and_spool_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A process that dies between its commit and the emptying of its spool leaves records in both.
    monkeypatch.setattr(Spool, "clear", keep)
    runtime = Runtime(tmp_path)
    run_id = runtime.start_run(GOAL)
    decide(runtime)
    assert runtime.current_run is not None
    decide(runtime)
    assert len(BuilderQuery(tmp_path).get_decision_trace(run_id)) == 2


@pytest.mark.promise("J3")
def test_a_torn_line_hides_no_other(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path)
    run_id = runtime.start_run(GOAL)
    decide(runtime)
    [spool] = (tmp_path / "recorder.db-spool").iterdir()
    with spool.open("ab") as file:
        file.write(b'0badc0de 5 run_x ["decision.recorded","2026')
    assert len(BuilderQuery(tmp_path).get_decision_trace(run_id)) == 1
    decide(runtime)
    assert len(BuilderQuery(tmp_path).get_decision_trace(run_id)) == 2


def test_four_processes_lose_no_run(tmp_path: Path) -> None:
    processes = [child(WRITER, tmp_path, "50") for _ in range(4)]
    reader = BuilderQuery(tmp_path)
    while any(process.poll() is None for process in processes):
        reader.find_patterns("goal")
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors.decode()
    runs = reader.list_runs_for_goal("goal")
    assert len(runs) == 200
    assert {run.decision_count for run in runs} == {3}
    assert len(list((tmp_path / "runs").iterdir())) == 200
    patterns = reader.find_patterns("goal")
    assert patterns is not None
    assert (patterns.run_count, patterns.success_rate) == (200, 1.0)
