"""Failure classification, and loop detection."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.ledger.samples import answer, decision, problem, run

from windlass_harness.ledger import classify, find_culprit, find_loops, kind_of_code
from windlass_harness.ledger.failures import REPEATS_MIN, STALL_DECISIONS_MIN, TOLD_CHARS_MAX
from windlass_protocol import (
    Decision,
    DecisionEvaluation,
    DecisionRun,
    DecisionRunStatus,
    FailureKind,
    ProblemSeverity,
)

REPEATED, STALL = FailureKind.REPEATED_CALL, FailureKind.STALL


def calls(letters: str) -> list[Decision]:
    """A call for each letter; capital letters fail."""
    return [
        decision(f"d{at}", one.lower(), result=one, error="no" if one.isupper() else None)
        for at, one in enumerate(letters)
    ]


def loops(letters: str) -> list[tuple[FailureKind, str, int, bool]]:
    found = find_loops(run(*calls(letters)))
    return [
        (one.kind, "".join(letters[int(i[1:])] for i in one.decision_ids), one.cycle, one.is_last)
        for one in found
    ]


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ("", []),
        ("aa", []),
        ("aaa", [(REPEATED, "aaa", 1, True)]),
        ("xaaab", [(REPEATED, "aaa", 1, False)]),
        ("ababab", [(REPEATED, "ababab", 2, True)]),
        ("ababa", []),
        ("xabcabcabcy", [(REPEATED, "abcabcabc", 3, False)]),
        ("abcdabcdabcd", [(STALL, "abcdabcd", 0, True)]),
        ("aaabbb", [(REPEATED, "aaa", 1, False), (REPEATED, "bbb", 1, True)]),
        ("aaaxababab", [(REPEATED, "aaa", 1, False), (REPEATED, "ababab", 2, True)]),
        ("ABCDE", [(STALL, "ABCDE", 0, True)]),
        ("ABCD", []),
        ("xABCDEyABCDFz", [(STALL, "ABCDE", 0, False), (STALL, "ABCDF", 0, False)]),
        ("xAxBxC", [(STALL, "AxBxC", 0, True)]),
        ("ABCDAAA", [(REPEATED, "AAA", 1, True)]),
    ],
)
def test_repeated_equal_calls_are_a_loop(
    letters: str, expected: list[tuple[FailureKind, str, int, bool]]
) -> None:
    assert loops(letters) == expected


def test_repeated_calls_with_changing_results_are_not_a_loop() -> None:
    waiting = [decision(f"d{at}", "status", result=f"{at} %") for at in range(9)]
    assert find_loops(run(*waiting)) == ()
    stuck = [decision(f"d{at}", "status", result="0 %") for at in range(9)]
    assert [one.kind for one in find_loops(run(*stuck))] == [REPEATED]


def test_other_arguments_are_another_call_and_an_answer_is_none() -> None:
    several = [decision(f"d{at}", "look", {"page": at}) for at in range(9)]
    assert find_loops(run(*several)) == ()
    assert find_loops(run(*(answer(f"d{at}") for at in range(9)))) == ()
    [loop] = find_loops(run(*calls("aaa"), answer()))
    assert loop.is_last


def test_a_loop_is_found_when_the_choice_is_not_among_the_options() -> None:
    assert find_loops(run(*(decision(f"d{at}", is_known=False) for at in range(3))))


@given(st.text("abAB", max_size=40))
def test_loops_do_not_overlap_and_are_long_enough(letters: str) -> None:
    found = find_loops(run(*calls(letters)))
    ids = [one for loop in found for one in loop.decision_ids]
    assert len(ids) == len(set(ids))
    for loop in found:
        least = STALL_DECISIONS_MIN if loop.kind is STALL else REPEATS_MIN * loop.cycle
        assert len(loop.decision_ids) >= least


def kind(found: DecisionRun) -> FailureKind | None:
    failure = classify(found)
    return None if failure is None else failure.kind


def test_a_run_that_goes_on_or_completed_has_not_failed() -> None:
    assert kind(run(status=DecisionRunStatus.RUNNING)) is None
    assert kind(run(answer(), status=DecisionRunStatus.COMPLETED)) is None
    good = answer(evaluation=DecisionEvaluation(goal_aligned=True))
    assert kind(run(good, status=DecisionRunStatus.COMPLETED)) is None


def test_a_run_that_completed_and_missed_its_goal_has_failed() -> None:
    bad = answer(evaluation=DecisionEvaluation(goal_aligned=False, explanation="not in it: 'Oslo'"))
    failure = classify(run(bad, status=DecisionRunStatus.COMPLETED))
    assert failure is not None
    assert (failure.kind, failure.told, failure.decision_id) == (
        FailureKind.GOAL_MISSED, "not in it: 'Oslo'", "end"
    )  # fmt: skip
    silent = answer(evaluation=DecisionEvaluation(goal_aligned=False))
    assert kind(run(silent, status=DecisionRunStatus.COMPLETED)) is FailureKind.GOAL_MISSED


def test_the_newest_judgement_counts() -> None:
    bad = decision("d0", evaluation=DecisionEvaluation(goal_aligned=False))
    good = answer(evaluation=DecisionEvaluation(goal_aligned=True))
    assert kind(run(bad, good, status=DecisionRunStatus.COMPLETED)) is None


def test_cancelled_and_stuck_runs_say_so() -> None:
    assert kind(run(status=DecisionRunStatus.CANCELLED)) is FailureKind.CANCELLED
    failure = classify(run(decision("d0"), status=DecisionRunStatus.STUCK))
    assert failure is not None
    assert (failure.kind, failure.decision_id) == (FailureKind.INTERRUPTED, "d0")
    assert kind(run(status=DecisionRunStatus.STUCK)) is FailureKind.INTERRUPTED


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("provider_failure", FailureKind.PROVIDER),
        ("output_contract", FailureKind.OUTPUT_CONTRACT),
        ("sent_back", FailureKind.OUTPUT_CONTRACT),
        ("timeout", FailureKind.TIMEOUT),
        ("policy_denial", FailureKind.DENIED),
        ("policy.interrupted", FailureKind.DENIED),
        ("hook.failed", FailureKind.DENIED),
        ("budget_exhausted", FailureKind.BUDGET),
        ("journal_failure", FailureKind.UNKNOWN),
        ("recovery_repair_needed", FailureKind.INTERRUPTED),
        ("subagent_cancelled", FailureKind.TOOL_ERROR),
        ("policy.bad_arguments", FailureKind.INVALID_ARGUMENTS),
    ],
)
def test_a_critical_problem_says_why_by_its_code(code: str, expected: FailureKind) -> None:
    assert kind(run(problems=[problem(code)])) is expected


def test_a_loop_explains_a_budget_better_than_the_budget_does() -> None:
    spent = [problem("budget_exhausted", "The budget is used up: steps.")]
    assert kind(run(*calls("abc"), problems=spent)) is FailureKind.BUDGET
    assert kind(run(*calls("aaa"), problems=spent)) is FailureKind.REPEATED_CALL
    assert kind(run(*calls("ABCDE"), problems=spent)) is FailureKind.STALL
    assert kind(run(*calls("aaab"), problems=spent)) is FailureKind.BUDGET
    failure = classify(run(*calls("ababab"), problems=spent))
    assert failure is not None
    assert failure.told == (
        "At the end the same 2 calls were made over and over, 6 in all, with the same results."
    )


def test_a_provider_failure_outranks_earlier_loops() -> None:
    assert kind(run(*calls("aaa"), problems=[problem("provider_failure")])) is FailureKind.PROVIDER


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("failed", FailureKind.TOOL_ERROR),
        ("invalid_arguments", FailureKind.INVALID_ARGUMENTS),
        ("denied", FailureKind.DENIED),
        ("timeout", FailureKind.TIMEOUT),
        ("outcome_unknown", FailureKind.INTERRUPTED),
        ("nobody_knows", FailureKind.TOOL_ERROR),
    ],
)
def test_without_a_critical_problem_the_decision_to_blame_says_why(code: str, expected: FailureKind) -> None:
    warned = [problem(code, severity=ProblemSeverity.WARNING, decision_id="d0")]
    failure = classify(run(decision("d0", error="It broke."), answer(), problems=warned))
    assert failure is not None
    assert (failure.kind, failure.decision_id, failure.told) == (expected, "d0", "It broke.")


def test_a_failure_that_nothing_explains_is_unknown() -> None:
    assert kind(run(decision("d0"))) is FailureKind.UNKNOWN
    assert kind_of_code(None) is FailureKind.UNKNOWN
    failure = classify(run(problems=[problem(None, "Something odd.")]))
    assert failure is not None
    assert (failure.kind, failure.told) == (FailureKind.UNKNOWN, "Something odd.")


def test_the_text_of_a_failure_is_one_short_line() -> None:
    failure = classify(run(decision("d0", error="a\nb" * 200)))
    assert failure is not None
    assert len(failure.told) == TOLD_CHARS_MAX
    assert "\n" not in failure.told
    nameless = classify(run(decision("d0", "look", error="")))
    assert nameless is not None
    assert nameless.told == "call look"


def blame(found: DecisionRun) -> str | None:
    culprit = find_culprit(found)
    return None if culprit is None else culprit.id


def test_the_decision_to_blame_is_a_named_one_or_one_that_nothing_made_good() -> None:
    first, second = decision("d0", "a", error="no"), decision("d1", "b", error="no")
    good = decision("d2", "a")
    assert blame(run(first, second)) == "d0"
    assert blame(run(first, second, good)) == "d1"
    assert blame(run(first, second, problems=[problem(decision_id="d1")])) == "d1"
    assert blame(run(first, good)) == "d0"
    assert blame(run(decision("d3", is_pending=True))) is None
