"""Budgets: the shared cases, and properties of every spend."""

import json
import re
from dataclasses import FrozenInstanceError, asdict, astuple
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass_harness
from windlass_harness.budget import (
    Budget,
    BudgetState,
    Spend,
    consume_budget,
    exceeded,
    remaining,
    share,
    would_exceed,
)

Case = dict[str, Any]
CASES: list[Case] = json.loads(
    (Path(__file__).parents[2] / "conformance/cases/budget.json").read_text("utf-8")
)["cases"]

counts = st.integers(0, 2**53)
limits = st.builds(Budget, *[st.none() | counts] * 5)
states = st.builds(BudgetState, *[counts] * 5)
amounts = st.integers(-10, 2**53)
spends = st.builds(
    Spend, tokens=amounts, step=st.booleans(), tool_call=st.booleans(), cost_micros=amounts, wall_ms=amounts
)


def named(fields: Case) -> Case:
    """The fields of a case under their names in Python."""
    return {
        re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name): value for name, value in fields.items()
    }


def limits_of(fields: Case) -> Budget:
    values: Case = {}
    for name, value in named(fields).items():
        values[name] = float(value) if isinstance(value, str) else value
    return Budget(**values)


def spend_of(fields: Case) -> Spend:
    values: Case = {}
    for name, value in named(fields).items():
        values[name] = float(value) if isinstance(value, str) else value
    return Spend(**values)


def timeline(case: Case) -> list[list[object]]:
    state, rows = BudgetState(), list[list[object]]()
    for spend in case["spends"]:
        state, is_exhausted = consume_budget(state, limits_of(case["limits"]), **spend_of(spend))
        rows.append([*astuple(state), is_exhausted])
    return rows


def answer(case: Case) -> object:
    given, state = limits_of(case["limits"]), BudgetState(*case.get("state", ()))
    match case["call"]:
        case "consume_budget":
            return timeline(case)
        case "exceeded":
            return list(exceeded(state, given))
        case "would_exceed":
            return list(would_exceed(state, given, **spend_of(case["spend"])))
        case "remaining":
            return remaining(state, given)
        case "share":
            return share(state, given, parts=case["parts"])
        case call:
            raise AssertionError(call)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_shared_case_has_the_answer_of_every_language(case: Case) -> None:
    if "refused" in case:
        with pytest.raises(ValueError, match="must be"):
            answer(case)
    elif "output" in case:
        assert answer(case) == Budget(**named(case["output"]))
    else:
        assert answer(case) == case.get("timeline", case.get("names"))


def test_limits_are_declared_in_the_order_of_the_reference() -> None:
    assert Budget(1000, 5, 3) == Budget(max_tokens=1000, max_steps=5, max_tool_calls=3)


def test_a_refused_limit_is_named_with_its_range() -> None:
    with pytest.raises(
        ValueError,
        match="max_cost_micros must be a whole number, 0 or more, found -1; use None for no limit",
    ):
        Budget(max_cost_micros=-1)


@pytest.mark.parametrize("limit", [nan, inf, True, 1.5, 2.0, "5", -1])
def test_a_limit_that_is_no_whole_number_is_refused(limit: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(f"0 or more, found {limit!r}; use None for no limit")):
        Budget(max_tokens=limit)


@pytest.mark.parametrize("spend", [consume_budget, would_exceed])
def test_a_spend_with_an_unknown_name_is_an_error_and_not_lost(spend: Any) -> None:
    message = (
        f"^{spend.__name__}: unknown option token; it takes tokens, step, tool_call, cost_micros, wall_ms$"
    )
    with pytest.raises(TypeError, match=message):
        spend(BudgetState(), Budget(), token=5)


def test_state_and_limits_cannot_be_changed() -> None:
    for value, name in ((BudgetState(), "tokens_used"), (Budget(), "max_tokens")):
        with pytest.raises(FrozenInstanceError):
            setattr(value, name, 1)


def test_a_huge_amount_counts_in_full() -> None:
    assert consume_budget(BudgetState(), Budget(), tokens=10**400)[0].tokens_used == 10**400


@given(states, limits, spends)
def test_would_exceed_agrees_with_consume_budget(state: BudgetState, limit: Budget, spend: Spend) -> None:
    foretold = would_exceed(state, limit, **spend)
    after, is_exhausted = consume_budget(state, limit, **spend)
    assert foretold == exceeded(after, limit)
    assert is_exhausted == bool(foretold)


@given(states, limits, spends)
def test_a_spend_never_lowers_the_usage(state: BudgetState, limit: Budget, spend: Spend) -> None:
    after, _ = consume_budget(state, limit, **spend)
    assert all(new >= old for new, old in zip(astuple(after), astuple(state), strict=True))


@given(st.lists(spends, max_size=6), st.randoms())
def test_the_order_of_spends_does_not_matter(given_spends: list[Spend], random: Any) -> None:
    shuffled = given_spends[:]
    random.shuffle(shuffled)
    assert total(given_spends) == total(shuffled)


@given(states, limits, st.integers(1, 1000))
def test_all_shares_together_fit_into_the_remaining_budget(
    state: BudgetState, limit: Budget, parts: int
) -> None:
    left, part = asdict(remaining(state, limit)), asdict(share(state, limit, parts=parts))
    for name, whole in left.items():
        if whole is None or name == "max_wall_ms":
            assert part[name] == whole
        else:
            assert whole - parts < part[name] * parts <= whole


def total(given_spends: list[Spend]) -> BudgetState:
    state = BudgetState()
    for spend in given_spends:
        state, _ = consume_budget(state, Budget(), **spend)
    return state


def test_the_package_exports_the_budget_functions() -> None:
    assert (windlass_harness.exceeded, windlass_harness.remaining) == (exceeded, remaining)
