"""Retries: the shared cases, and properties of every policy."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass_harness
from windlass_harness.retry import (
    DELAY_MS_MAX,
    RETRY_AFTER_CHARS_MAX,
    RETRY_AFTER_MS_MAX,
    ErrorFacts,
    RetryPolicy,
    classify_error,
    next_retry_delay_ms,
    parse_retry_after_ms,
    should_retry,
)
from windlass_protocol import RetryClass

Case = dict[str, Any]
CASES: list[Case] = json.loads(
    (Path(__file__).parents[2] / "conformance/cases/retry.json").read_text("utf-8")
)["cases"]
NOW = datetime(2024, 1, 1, tzinfo=UTC)

policies = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 100),
    base_delay_ms=st.integers(0, DELAY_MS_MAX),
    max_delay_ms=st.integers(0, DELAY_MS_MAX),
    jitter=st.booleans(),
)
fractions = st.floats(0, 1, exclude_max=True)


def policy_of(case: Case) -> RetryPolicy:
    fields = case.get("policy", {})
    return RetryPolicy(
        **{
            re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name): value
            for name, value in fields.items()
        }
    )


def delays(case: Case) -> list[int]:
    policy, random = policy_of(case), case.get("random")
    rng = None if random is None else lambda: random
    after = case.get("retryAfterMs")
    return [
        next_retry_delay_ms(policy, attempt, rng, retry_after_ms=after)
        for attempt in case.get("attempts", ())
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_shared_case_has_the_answer_of_every_language(case: Case) -> None:
    match case["call"]:
        case "next_retry_delay_ms" if "refused" in case:
            with pytest.raises(ValueError, match="must be"):
                delays(case)
        case "next_retry_delay_ms":
            assert delays(case) == case["delays"]
        case "should_retry":
            policy, retry_class = policy_of(case), RetryClass(case["retryClass"])
            answers = [should_retry(policy, attempt, retry_class=retry_class) for attempt in case["attempts"]]
            assert answers == case["answers"]
        case "parse_retry_after_ms":
            now = datetime.fromisoformat(case.get("now", "2024-01-01T00:00:00Z"))
            assert [parse_retry_after_ms(value, now=now) for value in case["values"]] == case["waits"]
        case "classify_error" if "refused" in case:
            with pytest.raises(ValueError, match="kind must be one of timeout, connection, truncated, "):
                ErrorFacts(**case["facts"][0])
        case "classify_error":
            assert {classify_error(ErrorFacts(**facts)) for facts in case["facts"]} == {case["class"]}
        case call:
            raise AssertionError(call)


def test_a_header_is_read_up_to_its_limit_and_not_past_it() -> None:
    assert parse_retry_after_ms("0" * RETRY_AFTER_CHARS_MAX, now=NOW) == 0
    assert parse_retry_after_ms("0" * (RETRY_AFTER_CHARS_MAX + 1), now=NOW) is None


@given(policies, st.integers(-5, 10**9), fractions)
def test_no_wait_is_above_the_maximum_or_below_zero(policy: RetryPolicy, attempt: int, random: float) -> None:
    assert 0 <= next_retry_delay_ms(policy, attempt, lambda: random) <= policy.max_delay_ms


@given(policies, st.integers(1, 100), fractions)
def test_jitter_stays_within_a_fifth(policy: RetryPolicy, attempt: int, random: float) -> None:
    plain = next_retry_delay_ms(policy, attempt)
    jittered = next_retry_delay_ms(policy, attempt, lambda: random)
    assert plain * 0.8 - 1 <= jittered <= plain * 1.2


@given(policies, st.integers(1, 100), fractions, st.integers(0, 2 * RETRY_AFTER_MS_MAX))
def test_the_server_is_never_asked_again_too_early(
    policy: RetryPolicy, attempt: int, random: float, after_ms: int
) -> None:
    delay_ms = next_retry_delay_ms(policy, attempt, lambda: random, retry_after_ms=after_ms)
    assert delay_ms >= min(after_ms, RETRY_AFTER_MS_MAX)


@given(st.text(max_size=80) | st.from_regex(r"[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT"))
def test_any_header_gives_a_wait_in_range_or_nothing(value: str) -> None:
    wait_ms = parse_retry_after_ms(value, now=NOW)
    assert wait_ms is None or 0 <= wait_ms <= DELAY_MS_MAX


@given(st.integers(-100, 700) | st.none(), st.text() | st.none())
def test_any_failure_has_a_class(status: int | None, code: str | None) -> None:
    assert classify_error(ErrorFacts(status, code)) in set(RetryClass)


def test_the_package_exports_should_retry() -> None:
    assert windlass_harness.should_retry is should_retry
