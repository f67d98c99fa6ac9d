"""Goals: criteria, and the score made of their verdicts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue
from tests.harness.ledger.samples import answer, decision, run

from windlass_harness.ledger import Attempt, CriterionVerdict, run_facts
from windlass_harness.ledger.goals import (
    EXPLANATION_CHARS_MAX,
    Measure,
    Order,
    contains,
    equals,
    evaluation,
    follows,
    is_near,
    judged_decision,
    keeps_within,
    measure_run,
    obeys,
    score,
)
from windlass_harness.ledger.tapes import MadeCall
from windlass_protocol import (
    DecisionEvaluation,
    DecisionRunStatus,
    FailureKind,
    JsonObject,
    RunMetrics,
    Usage,
)

DONE = DecisionRunStatus.COMPLETED


def attempt(output: str = "", value: object = None) -> Attempt:
    return Attempt(run(answer(), status=DONE), "", output, value)  # pyright: ignore[reportArgumentType] any parts


def test_equals_compares_texts_and_json_values() -> None:
    assert equals(attempt(" Oslo\n"), "Oslo") == (1, "")
    assert equals(attempt("Bergen"), "Oslo") == (0, "expected 'Oslo', found 'Bergen'")
    assert equals(attempt(value={"b": 1, "a": [1.0]}), {"a": [1], "b": 1}) == (1, "")
    assert equals(attempt(value=None), 42)[0] == 0
    assert equals(attempt("x" * 100), "y")[1].endswith("…'")


def test_contains_scores_the_share_of_the_expected_texts() -> None:
    assert contains(attempt("Booked in OSLO."), ["oslo", "booked"], is_case_sensitive=False) == (1, "")
    assert contains(attempt("Booked in OSLO."), ["oslo", "Booked"], is_case_sensitive=True) == (
        0.5, "not in it: 'oslo'"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("measure", "used"),
    [
        ("cost_micros", 9),
        ("tokens", 42),
        ("duration_ms", 7),
        ("decisions", 2),
        ("failed_decisions", 1),
        ("steps", 3),
    ],
)
def test_a_run_keeps_within_a_limit_or_not(measure: Measure, used: int) -> None:
    usage = Usage(input_tokens=40, output_tokens=2, cost_micros=9)
    made = run(decision("d0", error="no"), answer(), status=DONE, usage=usage, duration_ms=7)
    found = Attempt(made, steps=3)
    assert keeps_within(found, measure, most=used) == (1, "")
    assert keeps_within(found, measure, most=used - 1) == (0, f"{used} {measure}, limit {used - 1}")
    assert measure_run(Attempt(run()), measure) == 0


def test_a_cost_that_is_not_known_stays_within_no_limit() -> None:
    why = "the cost is not known: a model has no price"
    for usage in (None, Usage(input_tokens=40, output_tokens=2)):
        made = run(answer(), status=DONE, usage=usage)
        assert keeps_within(Attempt(made, steps=1), "cost_micros", most=10**9) == (0, why)
        assert keeps_within(Attempt(made, steps=0), "cost_micros", most=0) == (1, "")


def test_tokens_of_a_recorded_run_are_those_of_its_decisions() -> None:
    counted = run().metrics.model_copy(update={"total_tokens": 11})
    assert isinstance(counted, RunMetrics)
    assert measure_run(Attempt(run(metrics=counted)), "tokens") == 11


def test_a_goal_is_reached_if_all_constraints_hold_and_enough_criteria_are_met() -> None:
    good, half = CriterionVerdict("a", 1), CriterionVerdict("b", 0.5, "not all", weight=3)
    broken = CriterionVerdict("c", 0, "too much", is_required=True)
    done = attempt()
    assert score(done, [], pass_score=1).is_reached
    assert score(done, [good], pass_score=1).is_reached
    found = score(done, [good, half], pass_score=0.6)
    assert (found.is_reached, found.score, found.explanation) == (True, 0.625, "b: not all")
    assert not score(done, [good, half], pass_score=0.7).is_reached
    found = score(done, [good, broken], pass_score=0)
    assert (found.is_reached, found.score, found.explanation) == (False, 0, "c: too much")


def test_a_run_that_did_not_complete_reaches_nothing() -> None:
    found = score(Attempt(run()), [CriterionVerdict("a", 1)], pass_score=0)
    assert (found.is_reached, found.score) == (False, 0)
    assert found.explanation == "completed: the run is failed"
    found = score(Attempt(run(), error="no key"), [], pass_score=0)
    assert found.explanation == "completed: the run is failed: no key"


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 10))))
def test_a_score_is_between_0_and_1(parts: list[tuple[float, float]]) -> None:
    verdicts = [CriterionVerdict("v", value, weight=weight) for value, weight in parts]
    assert 0 <= score(attempt(), verdicts, pass_score=1).score <= 1 + 1e-9


def test_a_judgement_is_about_the_answer_or_the_decision_to_blame() -> None:
    assert judged_decision(run(decision("d0", error="no"), answer(), status=DONE)) == "end"
    assert judged_decision(run(decision("d0", error="no"), decision("d1"))) == "d0"
    assert judged_decision(run(decision("d0"), decision("d1"))) == "d1"
    assert judged_decision(run()) is None


def test_a_score_is_kept_as_the_judgement_of_a_decision() -> None:
    found = evaluation(score(attempt(), [CriterionVerdict("a", 0.5)], pass_score=1))
    assert (found.goal_aligned, found.outcome_quality, found.explanation) == (False, 0.5, "a: not met")
    assert evaluation(score(attempt(), [], pass_score=1)).explanation == "All criteria are met."
    long = score(attempt(), [CriterionVerdict("a", 0, "x" * 9_999)], pass_score=1)
    assert len(long.explanation) == EXPLANATION_CHARS_MAX


def test_a_run_in_numbers_succeeds_by_its_judgement() -> None:
    missed = answer(evaluation=DecisionEvaluation(goal_aligned=False))
    found = run_facts(run(missed, status=DONE, package_fingerprint="sha256:a", agent_id="clerk"))
    assert (found.has_succeeded, found.is_judged, found.failure) == (False, True, FailureKind.GOAL_MISSED)
    assert (found.fingerprint, found.agent_id, found.decision_id) == ("sha256:a", "clerk", "end")
    usage = Usage(input_tokens=1, output_tokens=1, cost_micros=3)
    found = run_facts(run(answer(), status=DONE, usage=usage))
    assert (found.has_succeeded, found.is_judged) == (True, False)
    assert (found.sample.succeeded, found.sample.cost_micros, found.sample.tokens) == (True, 3, 2)
    assert not run_facts(run(status=DecisionRunStatus.RUNNING)).has_succeeded


@pytest.mark.parametrize(
    ("output", "value", "why"),
    [
        ("It costs 1,204.5 crowns.", None, ""),
        ("-1e3", None, "expected 1204 ± 1, found -1000"),
        ("no number", None, "expected an answer with one number, found 0"),
        ("1204 or 1205", None, "expected an answer with one number, found 2"),
        ("text", 1203, ""),
        ("true", True, "expected an answer with one number, found 0"),
    ],
)
def test_the_number_of_an_answer_is_near_enough_or_not(output: str, value: JsonValue, why: str) -> None:
    assert is_near(Attempt(run(), "", output, value), 1204, tolerance=1) == (float(not why), why)


CALLS = (MadeCall("find", {"city": "Oslo", "n": 1}), MadeCall("pay", {"cents": 5}), MadeCall("say", "text"))


FOLLOWED: list[tuple[list[tuple[str, JsonObject]], Order, tuple[float, str]]] = [
    ([("find", {}), ("pay", {"cents": 5})], "in_order", (1, "")),
    ([("pay", {}), ("find", {})], "in_order", (0.5, "not called: find")),
    ([("pay", {}), ("find", {"n": 1.0})], "any_order", (1, "")),
    ([("pay", {}), ("pay", {"cents": 5})], "any_order", (0.5, 'not called: pay {"cents":5}')),
    ([("pay", {"cents": 6})], "any_order", (0, 'not called: pay {"cents":6}')),
    ([("say", {"x": None})], "any_order", (0, 'not called: say {"x":null}')),
    ([("find", {}), ("pay", {}), ("say", {})], "exact", (1, "")),
    ([("find", {})], "exact", (0, "expected 1 calls, found 3: find, pay, say")),
    ([], "any_order", (1, "")),
]


@pytest.mark.parametrize(("expected", "order", "found"), FOLLOWED)
def test_calls_are_compared_with_those_expected(
    expected: list[tuple[str, JsonObject]], order: Order, found: tuple[float, str]
) -> None:
    assert follows(Attempt(run(), made=CALLS), expected, order=order) == found


def test_the_decisions_of_the_policy_are_compared_with_those_expected() -> None:
    made = (MadeCall("pay", {}, "ask"), MadeCall("pay", {}), MadeCall("find", {}, "allow"))
    found = Attempt(run(), made=made)
    assert obeys(found, {"find": "allow", "delete": "deny"}) == (1, "")
    assert obeys(found, {"pay": "ask"}) == (0, "pay: expected ask, found no decision")
