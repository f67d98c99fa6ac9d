"""Confidence intervals, and two versions side by side."""

from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass_harness.ledger import (
    Sample,
    compare_attempts,
    compare_versions,
    differences,
    mean,
    mean_difference,
    paired_difference,
    rate,
    rate_difference,
    tally,
)
from windlass_harness.ledger.versions import t_quantile
from windlass_protocol import Estimate, JsonObject, VersionVerdict

TRIALS = st.integers(1, 500).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total)))
VALUES = st.lists(st.floats(0, 1e6), min_size=2, max_size=30)


def ends(estimate: Estimate | None) -> tuple[float, float, float]:
    assert estimate is not None
    assert estimate.low is not None
    assert estimate.high is not None
    return round(estimate.value, 4), round(estimate.low, 4), round(estimate.high, 4)


def test_rates_have_the_intervals_of_wilson() -> None:
    # E. B. Wilson 1927; the values of R. G. Newcombe 1998, table I, method 3.
    assert ends(rate(81, 263)) == (0.308, 0.2553, 0.3662)
    assert ends(rate(15, 148)) == (0.1014, 0.0624, 0.1605)
    assert ends(rate(0, 20)) == (0, 0, 0.1611)
    assert ends(rate(1, 29)) == (0.0345, 0.0061, 0.1718)
    assert ends(rate(29, 29)) == (1, 0.883, 1)
    assert rate(0, 0) is None


def test_differences_of_rates_have_the_intervals_of_newcombe() -> None:
    # R. G. Newcombe, Statistics in Medicine 17 (1998), table II, method 10; here new comes second.
    assert ends(rate_difference((48, 80), (56, 70))) == (0.2, 0.0524, 0.3339)
    assert ends(rate_difference((3, 10), (9, 10))) == (0.6, 0.1705, 0.8090)
    assert ends(rate_difference((0, 10), (0, 20))) == (0, -0.2775, 0.1611)
    assert ends(rate_difference((0, 10), (10, 10))) == (1, 0.6075, 1)
    assert rate_difference((0, 0), (1, 1)) is None
    assert rate_difference((1, 1), (0, 0)) is None


@given(TRIALS, TRIALS)
def test_intervals_hold_their_values_and_turn_with_them(old: tuple[int, int], new: tuple[int, int]) -> None:
    for found in (rate(*old), rate_difference(old, new)):
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        assert -1 <= found.low <= found.value <= found.high <= 1
    there, back = ends(rate_difference(old, new)), ends(rate_difference(new, old))
    assert isclose(there[1], -back[2], abs_tol=2e-4)


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [
        (1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (5, 2.5706), (7, 2.3646), (10, 2.2281),
        (15, 2.1314), (30, 2.0423), (60, 2.0003), (120, 1.9799), (1_000, 1.9623), (10**7, 1.96),
    ],
)  # fmt: skip
def test_quantiles_of_student_are_those_of_the_tables(freedom: int, expected: float) -> None:
    assert round(t_quantile(freedom), 4) == expected


def test_means_have_intervals_by_student_and_welch() -> None:
    assert mean([]) is None
    assert mean([3]) == Estimate(value=3)
    assert ends(mean([1, 2, 3, 4])) == (2.5, 0.4457, 4.5543)
    assert mean_difference([], [1]) is None
    assert mean_difference([1], []) is None
    assert mean_difference([1], [4, 5]) == Estimate(value=3.5)
    assert mean_difference([1, 1], [4]) == Estimate(value=3)
    assert ends(mean_difference([1, 1], [4, 4])) == (3, 3, 3)
    # By hand: a standard error of sqrt(1 / 3 + 8.75 / 12), and 4.85 degrees of freedom.
    assert ends(mean_difference([1, 2, 3], [4, 6, 8, 7])) == (4.25, 1.5754, 6.9246)


@given(VALUES, VALUES)
def test_a_difference_of_means_turns_with_its_parts(old: list[float], new: list[float]) -> None:
    there, back = mean_difference(old, new), mean_difference(new, old)
    assert there is not None
    assert back is not None
    assert isclose(there.value, -back.value, abs_tol=1e-6)


def samples(succeeded: int, total: int, **facts: float) -> list[Sample]:
    return [Sample(at < succeeded, **facts) for at in range(total)]


def test_a_comparison_has_counts_means_and_differences() -> None:
    old = samples(1, 4, cost_micros=10, duration_ms=100, tokens=5)
    new = [*samples(4, 4, cost_micros=30, duration_ms=50), Sample(True)]
    found = compare_versions(("a", old), ("b", new))
    assert (found.old.runs, found.old.succeeded, found.new.runs, found.new.succeeded) == (4, 1, 5, 5)
    assert ends(found.cost_micros) == (20, 20, 20)
    assert ends(found.duration_ms) == (-50, -50, -50)
    assert found.tokens is None
    assert found.new.tokens is None
    assert tally("a", []).success_rate is None


SHARES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=40)


def test_pairs_have_the_interval_of_bonett_and_price() -> None:
    assert paired_difference([], []) is None
    # By hand: 5 of 10 won and 1 lost, (6 - 2) / 12 and 1.96 * sqrt((8 / 12 - 1 / 9) / 12).
    old, new = [1.0] + [0.0] * 9, [0.0] + [1.0] * 5 + [0.0] * 4
    assert ends(paired_difference(old, new)) == (0.4, -0.0884, 0.7551)
    # 1 / 3 - 1.959964 * sqrt(8 / 27); its other end is past 1.
    assert ends(paired_difference([0], [1])) == (1, -0.7335, 1)


@given(SHARES)
def test_a_paired_difference_is_within_its_interval_and_antisymmetric(
    shares: list[tuple[float, float]],
) -> None:
    old, new = [one for one, _ in shares], [other for _, other in shares]
    value, low, high = ends(paired_difference(old, new))
    assert -1 <= low <= value <= high <= 1
    back = ends(paired_difference(new, old))
    assert isclose(low, -back[2], abs_tol=2e-4)


def test_attempts_at_one_run_are_one_run() -> None:
    def verdict(runs: int, attempts: int) -> VersionVerdict:
        old, new = [samples(0, attempts)] * runs, [samples(attempts, attempts)] * runs
        return compare_attempts(("a", old), ("b", new)).verdict

    assert [verdict(1, 20), verdict(3, 20)] == [VersionVerdict.UNCLEAR] * 2
    assert [verdict(6, 1), verdict(10, 1)] == [VersionVerdict.BETTER] * 2


def test_runs_that_both_versions_did_are_compared_one_by_one() -> None:
    old = [[Sample(False, 10, 5), Sample(True, 30)], [Sample(False, 100)], [Sample(False)]]
    new = [[Sample(True, 21)], [Sample(False, 101, 7)], [Sample(False, 7)]]
    found = compare_attempts(("a", old), ("b", new))
    assert (found.old.runs, found.old.succeeded, found.new.succeeded) == (3, 0, 1)
    assert found.old.success_rate is not None
    assert isclose(found.old.success_rate.value, 0.5 / 3)
    assert ends(found.cost_micros) == (1, 1, 1)
    assert (found.duration_ms, found.tokens) == (None, None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab/~", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSON, JSON)
def test_values_differ_where_they_differ(before: JsonObject, after: JsonObject) -> None:
    is_same = (before, type(before)) == (after, type(after)) and repr(before) == repr(after)
    if is_same:
        assert differences(before, after) == ()
    assert differences(before, before) == ()


def test_differences_are_named_by_json_pointer() -> None:
    before: JsonObject = {"a": 1, "b": {"x/y": [1, 2, 3]}, "gone": True, "same": [1]}
    after: JsonObject = {"a": True, "b": {"x/y": [1, 5]}, "~new": None, "same": [1, 2]}
    found = {one.path: (one.before, one.after) for one in differences(before, after)}
    assert found == {
        "/a": (1, True),
        "/b/x~1y/1": (2, 5),
        "/b/x~1y/2": (3, None),
        "/gone": (True, None),
        "/same/1": (None, 2),
        "/~0new": (None, None),
    }
    assert differences(1, 2)[0].path == ""
