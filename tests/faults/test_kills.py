"""Killed processes lose nothing acknowledged and repeat nothing finished.

The processes are forked, so this happens in a program of its own that has no threads: `torture.py`.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from tests.depth import DEEP, some, some_of

ROOT: Final = Path(__file__).parents[2]
WAIT_S: Final = 280
TRIALS: Final = some(45)
LOGS: Final = some(240)
BITS: Final = some(250)


def torture(*options: str) -> dict[str, Any]:
    """Run a part of the torture; return its report."""
    command = [sys.executable, "-m", "tests.faults.torture", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.stdout, done.stderr[-4_000:]
    return json.loads(done.stdout)


@pytest.mark.promise("J1")
@pytest.mark.promise("J5")
@pytest.mark.promise("J6")
def test_a_run_killed_at_any_failpoint_completes_without_loss_or_repeat() -> None:
    # Not a divisor of the choices that take turns: each is tried.
    told = torture("every-point", "--every", "1" if DEEP else "5")
    assert told["wrong"] == 0, told
    assert told["trials"] >= (60 if DEEP else 12)
    assert told["kills"] >= told["trials"] - 2
    assert told["repeated"] > (10 if DEEP else 1)
    assert told["parked"] > (10 if DEEP else 1)


@pytest.mark.promise("J1")
@pytest.mark.promise("J5")
@pytest.mark.promise("J6")
def test_kills_of_several_sessions_lose_and_repeat_nothing() -> None:
    told = torture("kills", "--first", "20260201", "--trials", str(TRIALS), "--durability", "power")
    assert told["wrong"] == 0, told
    assert told["kills"] >= TRIALS * 2


@pytest.mark.promise("J5")
def test_an_evaluation_that_is_killed_three_times_pays_for_no_case_twice_and_has_the_same_result() -> None:
    told = torture("evaluations", "--trials", "24")
    assert told["wrong"] == 0, told
    assert told["kills"] == 3
    assert told["repeated"] > 0, "calls that a kill interrupted are made again"


# Threads take turns as they like, so that a few kills at counted points may all miss the middle of an effect;
# killed at every point, a run is killed in the middle of each effect that it has.
MUTANTS: Final = {
    "a store that acknowledges too early": ("kills", "--trials", "12", "early", "lost: "),
    "an engine that repeats blindly": ("every-point", "--steps", "pay", "blind", "repeated: "),
    "a store that lets former owners write": ("zombies", "--trials", "2", "fenceless", "repeated: "),
}


@pytest.mark.parametrize(
    ("part", "option", "value", "mutant", "found"),
    some_of([*MUTANTS.values()]),
    ids=some_of([*MUTANTS]),
)
def test_the_torture_test_finds_each_planted_bug(
    part: str, option: str, value: str, mutant: str, found: str
) -> None:
    told = torture(part, option, value, "--mutant", mutant)
    assert told["wrong"] > 2
    assert any(one.startswith(found) for one in told["violations"]), told


@pytest.mark.promise("J1")
def test_a_log_that_was_lost_cut_or_garbled_after_a_kill_is_never_taken_for_an_older_truth() -> None:
    lives = -(-LOGS // 20)
    told = torture("logs", "--trials", str(LOGS), "--first", "20260201")
    assert told["wrong"] == 0, told
    assert told["trials"] == LOGS
    assert told["kills"] == lives + lives // 2, "every other life has two processes"
    assert told["noticed"] > LOGS * 3 // 10


@pytest.mark.promise("J3")
def test_a_bit_that_flipped_in_a_database_is_never_silent() -> None:
    told = torture("bits", "--trials", str(BITS), "--first", "20260201")
    assert told["wrong"] == 0, told
    assert told["told"] > BITS // 5
    assert told["audited"] > BITS // 50


@pytest.mark.promise("J4")
def test_one_run_that_many_processes_start_at_once_is_one_run() -> None:
    told = torture("starts", "--processes", "3", "--starts", "20")
    assert told["wrong"] == 0, told


@pytest.mark.promise("J4")
def test_a_frozen_owner_that_was_replaced_is_refused() -> None:
    told = torture("zombies", "--trials", "6")
    assert told["wrong"] == 0, told
    assert told["kills"] >= 4
