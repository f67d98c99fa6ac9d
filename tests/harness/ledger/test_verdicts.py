"""A version is called better or worse only on evidence: exact tests, enough runs, and "unclear" otherwise."""

from fractions import Fraction
from itertools import product
from math import comb, isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass_harness.ledger import Sample, compare_attempts, compare_versions
from windlass_harness.ledger.reports import verdict_text
from windlass_harness.ledger.versions import RUNS_MIN, SIGNIFICANT, fisher_test, paired_test
from windlass_protocol import VersionComparison, VersionVerdict

Counts = tuple[int, int]
"""Successes and trials."""

BETTER, WORSE, UNCLEAR = VersionVerdict.BETTER, VersionVerdict.WORSE, VersionVerdict.UNCLEAR
COUNTS = st.integers(0, 200).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total)))
FEW = st.integers(0, 12).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total)))


def compared(old: Counts, new: Counts) -> VersionComparison:
    runs = [[Sample(at < succeeded) for at in range(total)] for succeeded, total in (old, new)]
    return compare_versions(("a", runs[0]), ("b", runs[1]))


def compared_in_pairs(*pairs: tuple[Counts, Counts]) -> VersionComparison:
    attempts = [
        [[Sample(at < pair[side][0]) for at in range(pair[side][1])] for pair in pairs] for side in (0, 1)
    ]
    return compare_attempts(("a", attempts[0]), ("b", attempts[1]))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # scipy.stats.fisher_exact (1.16) of [[successes, failures] of old, of new].
        ((0, 2), (2, 2), 0.3333333333333333),
        ((0, 3), (3, 3), 0.10000000000000002),
        ((0, 4), (4, 4), 0.028571428571428567),
        ((0, 5), (5, 5), 0.007936507936507938),
        ((1, 5), (5, 5), 0.047619047619047616),
        ((1, 9), (11, 14), 0.0027594561852200836),
        ((8, 10), (1, 6), 0.034965034965034975),
        ((3, 10), (9, 10), 0.019766611097880443),
        ((48, 80), (56, 70), 0.012521129749209152),
        ((0, 10), (0, 20), 1.0),
        ((0, 1), (39, 39), 0.025),
        ((10, 100), (23, 120), 0.061200452131789956),
        ((500, 1_000), (560, 1_000), 0.00819346102546032),
        ((4_900, 10_000), (5_100, 10_000), 0.004887352679200073),
    ],
)
def test_the_test_of_fisher_has_the_values_of_scipy(old: Counts, new: Counts, expected: float) -> None:
    assert isclose(fisher_test(old, new), expected, rel_tol=1e-9)


@given(FEW, FEW)
def test_the_test_of_fisher_is_the_sum_of_the_exact_probabilities(old: Counts, new: Counts) -> None:
    both = old[0] + new[0]

    def probability(succeeded: int) -> Fraction:
        ways = comb(old[1], succeeded) * comb(new[1], both - succeeded)
        return Fraction(ways, comb(old[1] + new[1], both))

    tables = range(max(0, both - new[1]), min(both, old[1]) + 1)
    exact = sum(probability(at) for at in tables if probability(at) <= probability(old[0]))
    assert isclose(fisher_test(old, new), exact, rel_tol=1e-9)


@given(COUNTS, COUNTS)
def test_the_test_of_fisher_is_a_probability_and_symmetric(old: Counts, new: Counts) -> None:
    found = fisher_test(old, new)
    assert 0 <= found <= 1
    assert isclose(found, fisher_test(new, old), rel_tol=1e-6)
    failures = [(total - succeeded, total) for succeeded, total in (old, new)]
    assert isclose(found, fisher_test(failures[0], failures[1]), rel_tol=1e-6)


@given(COUNTS, COUNTS)
def test_more_successes_on_the_better_side_are_more_evidence(old: Counts, new: Counts) -> None:
    # One success more for the better version and one less for the other; all successes together stay.
    if old[0] == 0 or new[0] == new[1] or old[0] * new[1] > new[0] * old[1]:
        return
    further = (old[0] - 1, old[1]), (new[0] + 1, new[1])
    assert fisher_test(*further) <= fisher_test(old, new) * (1 + 1e-6)
    if compared(old, new).verdict is BETTER:
        assert compared(*further).verdict is BETTER


def test_the_test_of_fisher_takes_many_runs_without_overflow() -> None:
    assert fisher_test((0, 10_000), (10_000, 10_000)) == 0
    assert fisher_test((5_000, 10_000), (5_000, 10_000)) == 1


@pytest.mark.parametrize(
    ("won", "lost", "expected"),
    [
        # scipy.stats.binomtest(won, won + lost), which is McNemar's exact test.
        (1, 0, 1.0),
        (5, 0, 0.0625),
        (6, 0, 0.03125),
        (7, 1, 0.0703125),
        (8, 1, 0.0390625),
        (10, 2, 0.03857421875),
        (12, 5, 0.143463134765625),
        (20, 8, 0.03569813817739487),
        (3, 3, 1.0),
    ],
)
@pytest.mark.parametrize("same", [0, 7])
def test_the_test_of_pairs_has_the_values_of_scipy(won: int, lost: int, expected: float, same: int) -> None:
    old = [(0, 1)] * won + [(1, 1)] * (lost + same)
    new = [(1, 1)] * won + [(0, 1)] * lost + [(1, 1)] * same
    assert isclose(paired_test(old, new), expected, rel_tol=1e-12)
    assert isclose(paired_test(new, old), expected, rel_tol=1e-12)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=7))
def test_the_test_of_pairs_counts_every_choice_of_signs(successes: list[tuple[int, int]]) -> None:
    old, new = [(one, 3) for one, _ in successes], [(other, 4) for _, other in successes]
    gains = [Fraction(other, 4) - Fraction(one, 3) for one, other in successes]
    sums = [
        abs(sum(sign * gain for sign, gain in zip(signs, gains, strict=True)))
        for signs in product((1, -1), repeat=len(gains))
    ]
    exact = sum(one >= abs(sum(gains)) for one in sums) / len(sums)
    assert isclose(paired_test(old, new), exact, rel_tol=1e-12)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ((0, 2), (2, 2), UNCLEAR),
        ((2, 2), (0, 2), UNCLEAR),
        ((0, 3), (3, 3), UNCLEAR),
        ((0, 4), (4, 4), UNCLEAR),
        ((0, 4), (40, 40), UNCLEAR),
        ((0, 1), (39, 39), UNCLEAR),
        ((39, 39), (0, 1), UNCLEAR),
        ((0, 5), (5, 5), BETTER),
        ((5, 5), (0, 5), WORSE),
        ((1, 5), (4, 5), UNCLEAR),
        ((3, 10), (9, 10), BETTER),
        ((48, 80), (56, 70), BETTER),
        ((10, 100), (23, 120), UNCLEAR),
        # Fisher's p is 0.0487, but the interval of the difference holds 0.
        ((25, 29), (31, 31), UNCLEAR),
        ((31, 31), (25, 29), UNCLEAR),
        ((0, 0), (5, 5), UNCLEAR),
        ((0, 0), (0, 0), UNCLEAR),
    ],
)
def test_a_version_is_better_only_with_enough_runs_and_by_the_exact_test(
    old: Counts, new: Counts, expected: VersionVerdict
) -> None:
    found = compared(old, new)
    assert found.verdict is expected
    assert found.p_value == (fisher_test(old, new) if old[1] and new[1] else None)


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([((0, 1), (1, 1))] * 2, UNCLEAR),
        ([((0, 20), (20, 20))] * 5, UNCLEAR),
        ([((0, 1), (1, 1))] * 6, BETTER),
        ([((1, 1), (0, 1))] * 6, WORSE),
        ([((0, 1), (1, 1))] * 6 + [((1, 1), (1, 1))] * 4, BETTER),
        ([((0, 1), (1, 1))] * 6 + [((1, 1), (0, 1))] * 2, UNCLEAR),
        # Few large gains and many small losses: the sum of gains counts, not the number of signs.
        ([((0, 100), (100, 100))] * 35 + [((100, 100), (99, 100))] * 65, BETTER),
        ([], UNCLEAR),
    ],
)
def test_runs_in_pairs_are_judged_by_the_exact_test_of_pairs(
    pairs: list[tuple[Counts, Counts]], expected: VersionVerdict
) -> None:
    found = compared_in_pairs(*pairs)
    assert found.verdict is expected
    counts = [one for one, _ in pairs], [other for _, other in pairs]
    assert found.p_value == (paired_test(*counts) if pairs else None)


@given(COUNTS, COUNTS)
def test_the_verdict_turns_with_its_versions(old: Counts, new: Counts) -> None:
    mirrored = {BETTER: WORSE, WORSE: BETTER, UNCLEAR: UNCLEAR}
    there, back = compared(old, new), compared(new, old)
    assert there.verdict is mirrored[back.verdict]
    if there.verdict is not UNCLEAR:
        assert there.p_value is not None
        assert there.p_value < SIGNIFICANT
        assert min(old[1], new[1]) >= RUNS_MIN


@pytest.mark.parametrize("runs", [(2, 2), (4, 4), (5, 5), (5, 20), (10, 10), (8, 13), (20, 20)])
def test_equal_versions_are_rarely_told_apart(runs: tuple[int, int]) -> None:
    # The probability of a verdict, for two versions with the same success rate, over all outcomes.
    told = [
        (one, other)
        for one, other in product(range(runs[0] + 1), range(runs[1] + 1))
        if compared((one, runs[0]), (other, runs[1])).verdict is not UNCLEAR
    ]

    def chance(rate: float, succeeded: int, total: int) -> float:
        return comb(total, succeeded) * rate**succeeded * (1 - rate) ** (total - succeeded)

    for rate in (at / 40 for at in range(41)):
        wrong = sum(chance(rate, one, runs[0]) * chance(rate, other, runs[1]) for one, other in told)
        assert wrong <= SIGNIFICANT


def test_a_verdict_is_told_in_a_sentence_with_its_reason() -> None:
    assert verdict_text(compared((0, 5), (5, 5))) == "The new version is better (exact test: p = 0.0079)."
    assert verdict_text(compared((50, 50), (0, 50))) == "The new version is worse (exact test: p < 0.001)."
    assert verdict_text(compared((0, 2), (2, 2))) == (
        "It is unclear whether the new version is better: 2 and 2 runs, at least 5 of each are needed."
    )
    assert verdict_text(compared((10, 100), (23, 120))) == (
        "It is unclear whether the new version is better: it may be chance (exact test: p = 0.061)."
    )
    for counts in (((25, 29), (31, 31)), ((31, 31), (25, 29))):
        assert verdict_text(compared(*counts)) == (
            "It is unclear whether the new version is better: the 95 % confidence interval of the difference "
            "of success rates contains 0, although the exact test has p = 0.049."
        )
    # Checks that were recorded before there was an exact test.
    recorded = [
        compared(*counts).model_copy(update={"p_value": None})
        for counts in (((0, 5), (5, 5)), ((9, 9), (9, 9)))
    ]
    assert [verdict_text(one) for one in recorded] == [
        "The new version is better.",
        "It is unclear whether the new version is better.",
    ]


def test_of_very_different_numbers_of_attempts_only_the_signs_count() -> None:
    """The exact sums would be a million millions."""
    primes = [one for one in range(2, 200) if all(one % two for two in range(2, one))][:40]
    old = [(0, attempts) for attempts in primes]
    new = [(1, attempts) for attempts in primes]
    signs = paired_test([(0, 1)] * len(primes), [(1, 1)] * len(primes))
    assert paired_test(old, new) == signs
