"""R10: the simulator finds bugs that are there."""

from tests.sim.mutations import MUTATIONS
from tests.sim.runner import finish, start

from windlass.testing import simulate

MUTATIONS_MIN = 20


def test_every_planted_bug_is_found() -> None:
    names = list(MUTATIONS)
    assert len(names) >= MUTATIONS_MIN
    jobs = [start(["--mutations", *names[job::2]]) for job in (0, 1)]
    ends = [finish(job) for job in jobs]
    assert [code for code, _ in ends] == [0, 0], "\n".join(text for _, text in ends)


def test_a_finding_names_its_seed_and_shows_how_it_came_to_it() -> None:
    with MUTATIONS["a_run_ends_twice"]():
        report = simulate(0)
    assert report.problems
    assert report.text().startswith("seed 0: ")
    assert "run.started" in report.text()
