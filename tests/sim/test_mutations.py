"""R10: the simulator finds planted bugs."""

from itertools import count

from tests.depth import some_of
from tests.sim.mutations import MUTATIONS
from tests.sim.runner import finish, start
from tests.simulator import simulate

MUTATIONS_MIN = 20


def test_every_planted_bug_is_found() -> None:
    assert len(MUTATIONS) >= MUTATIONS_MIN
    names = some_of([*MUTATIONS])
    jobs = [start(["--mutations", *names[job::2]]) for job in (0, 1)]
    ends = [finish(job) for job in jobs]
    assert [code for code, _ in ends] == [0, 0], "\n".join(text for _, text in ends)


def test_a_finding_names_its_seed_and_shows_how_it_came_to_it() -> None:
    with MUTATIONS["a_run_ends_twice"]():
        report = next(report for report in map(simulate, count()) if report.problems)
    assert report.text().startswith(f"seed {report.seed}: ")
    assert " run." in report.text()
