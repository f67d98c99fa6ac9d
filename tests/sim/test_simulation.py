"""R9, R13, R14: the real engine with faults, crashes, clock jumps, and no memory."""

import pytest
from tests.depth import some
from tests.sim.runner import finish, start
from tests.simulator import simulate

SEEDS = some(1_000)
"""`make torture` plays twenty-five times as many."""
DIGEST_SEEDS = 20
FORGETFUL_SEEDS = 30
OUTAGE_SEEDS = 20
JUMPING_SEEDS = (0, 23, 24, 25, 28, 29, 30, 31, 41, 46, 48, 52, 58, 64, 65, 68, 71, 72, 75, 82, 433)
"""Seed 433 once waited for a day, because the clock was put back during a pause."""


@pytest.mark.promise("J4")
@pytest.mark.promise("J5")
@pytest.mark.promise("J6")
def test_no_seed_breaks_a_promise() -> None:
    jobs = [start(["--first", str(first), "--count", str(SEEDS // 2)]) for first in (0, SEEDS // 2)]
    ends = [finish(job) for job in jobs]
    assert [code for code, _ in ends] == [0, 0], "\n".join(text for _, text in ends)


def test_a_seed_gives_the_same_records_in_every_process() -> None:
    """Equal to the last id and millisecond, independent of the hash seed."""
    arguments = ["--first", "100", "--count", str(DIGEST_SEEDS), "--digests"]
    first, second = (finish(job)[1] for job in [start(arguments, hash_seed=one) for one in ("1", "2")])
    assert len(first.splitlines()) > DIGEST_SEEDS
    assert first == second


def test_another_seed_gives_other_records() -> None:
    assert simulate(1).digest != simulate(2).digest


def test_a_session_that_forgets_everything_after_each_commit_goes_on_the_same_way() -> None:
    for seed in range(FORGETFUL_SEEDS):
        usual, forgetful = simulate(seed), simulate(seed, forgets=True)
        assert forgetful.problems == (), forgetful.text()
        assert forgetful.digest == usual.digest, f"seed {seed}"


def test_timers_and_leases_hold_when_the_wall_clock_jumps() -> None:
    """By a day, in both directions; the world measures by the monotonic clock."""
    reports = [simulate(seed) for seed in JUMPING_SEEDS]
    assert all(report.jumps for report in reports)
    assert [report.text() for report in reports if report.problems] == []


def test_runs_wait_for_a_provider_that_is_away() -> None:
    """Every fourth seed has spans in which the model cannot be reached, of up to 400 s."""
    reports = [simulate(seed) for seed in range(2, 2 + 4 * OUTAGE_SEEDS, 4)]
    assert [report.text() for report in reports if report.problems] == []
    records = [one for report in reports for journal in report.journals.values() for one in journal]
    waits = [one for one in records if one.type == "run.waiting" and one.data["on"] == "provider"]
    assert len(waits) > OUTAGE_SEEDS
