"""The simulator with subagents: callers and their helpers, through every crash."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.simulator import SimulationReport, simulate

from windlass_harness.loop import subagents as family
from windlass_harness.loop.events import Draft

SEEDS = range(30)
BUG_SEEDS = range(200)


def called(report: SimulationReport) -> int:
    return sum(one.type == "subagent.called" for records in report.journals.values() for one in records)


def test_no_seed_breaks_a_promise_when_runs_have_subagents() -> None:
    reports = [simulate(seed, has_family=True) for seed in SEEDS]
    assert [report.text() for report in reports if report.problems] == []
    assert sum(called(report) for report in reports) > len(SEEDS), "most runs call one"
    assert sum(report.crashes for report in reports) > len(SEEDS) // 4


def test_a_family_that_forgets_everything_after_each_commit_goes_on_the_same_way() -> None:
    for seed in SEEDS[:10]:
        usual, forgetful = (simulate(seed, has_family=True, forgets=one) for one in (False, True))
        assert forgetful.digest == usual.digest, f"seed {seed}"


def loses_reports(told: Callable[..., Any]) -> Callable[..., Any]:
    def lost(run: Any, ended: Any, **more: Any) -> Any:
        return ended

    return lost


def reports_another_end(told: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(run: Any, ended: Any, **more: Any) -> Any:
        found = told(run, ended, **more)
        posts = tuple(replace(post, body={**post.body, "status": "completed"}) for post in found.posts)
        return replace(found, posts=posts)

    return wrong


def starts_no_subagent(call: Callable[..., Any]) -> Callable[..., Any]:
    def alone(*given: Any, **more: Any) -> Any:
        found: Any = call(*given, **more)
        return replace(found, posts=()) if isinstance(found, Draft) else found

    return alone


@pytest.mark.parametrize(
    ("name", "bug", "words"),
    [
        ("report_end", loses_reports, "did not end"),
        ("report_end", reports_another_end, "is reported as completed"),
        ("call_subagent", starts_no_subagent, "was called and never began"),
    ],
)
def test_a_planted_bug_between_callers_and_subagents_is_found(
    name: str, bug: Callable[..., Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(family, name, bug(getattr(family, name)))
    found = (simulate(seed, has_family=True).problems for seed in BUG_SEEDS)
    assert any(words in problem for problems in found for problem in problems)
