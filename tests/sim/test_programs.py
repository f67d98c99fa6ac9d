"""The simulator with programs: the model makes its calls in code, through every crash."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.simulator import SimulationReport, simulate

from windlass_harness.loop import programs

SEEDS = range(30)
BUG_SEEDS = range(200)


def counted(reports: list[SimulationReport]) -> Counter[str]:
    return Counter(one.type for report in reports for records in report.journals.values() for one in records)


def test_no_seed_breaks_a_promise_when_calls_are_made_in_programs() -> None:
    reports = [simulate(seed, in_programs=True, has_family=seed % 4 == 0) for seed in SEEDS]
    assert [report.text() for report in reports if report.problems] == []
    found = counted(reports)
    assert found["program.paused"] > len(SEEDS)
    assert found["recovery.effect_found"] > 0
    assert sum(report.crashes for report in reports) > len(SEEDS) // 4


def test_programs_that_forget_everything_after_each_commit_go_on_the_same_way() -> None:
    for seed in SEEDS[:10]:
        usual, forgetful = (simulate(seed, in_programs=True, forgets=one) for one in (False, True))
        assert forgetful.digest == usual.digest, f"seed {seed}"


def takes_a_result_twice(due: Callable[..., Any]) -> Callable[..., Any]:
    def again(*given: Any) -> Any:
        effect = due(*given)
        return effect and replace(effect, taken=max(0, effect.taken - 1))

    return again


def forgets_its_calls(paused: Callable[..., Any]) -> Callable[..., Any]:
    def silent(state: Any, event: Any, **more: Any) -> Any:
        return [draft for draft in paused(state, event, **more) if draft.type != "actions.requested"]

    return silent


def mixes_up_results(due: Callable[..., Any]) -> Callable[..., Any]:
    def mixed(*given: Any) -> Any:
        effect = due(*given)
        results = () if effect is None else effect.results
        outputs = [one.output for one in results]
        turned = zip(results, [*outputs[1:], *outputs[:1]], strict=True)
        return effect and replace(
            effect, results=tuple(replace(one, output=output) for one, output in turned)
        )

    return mixed


@pytest.mark.parametrize(
    ("name", "bug", "words"),
    [
        ("due", takes_a_result_twice, "went another way"),
        ("take_pause", forgets_its_calls, "did not end"),
        ("due", mixes_up_results, "has the result"),
    ],
)
def test_a_planted_bug_in_programs_is_found(
    name: str, bug: Callable[..., Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, name, bug(getattr(programs, name)))
    found = (simulate(seed, in_programs=True).problems for seed in BUG_SEEDS)
    assert any(words in problem for problems in found for problem in problems)
