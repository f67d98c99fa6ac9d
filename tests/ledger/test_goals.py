"""Goals and their criteria, held against real runs."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.harness.ledger.samples import answer, run

from windlass import LLMMessage, LLMUsage, Rejected, Unavailable
from windlass.evals import Calls, Matches, Near, PolicyOutcome
from windlass.ledger import (
    Attempt,
    Check,
    Contains,
    Criterion,
    Exact,
    FitsSchema,
    Goal,
    GoalScore,
    Judge,
    Limit,
)
from windlass.ledger.builder import criteria_of
from windlass.ledger.goals import Models, score_attempt
from windlass.testing import ScriptedModel, say
from windlass.testing.models import Answer
from windlass_protocol import DecisionRunStatus, JsonObject

SCHEMA: JsonObject = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


def score(*criteria: Criterion, output: str = "", value: object = None, **more: object) -> GoalScore:
    status = DecisionRunStatus(str(more.pop("status", "completed")))
    attempt = Attempt(run(answer(), status=status), "the task", output, value)  # pyright: ignore[reportArgumentType] any parts
    goal = Goal("g", "The goal.", criteria=criteria, **more)  # pyright: ignore[reportArgumentType] any parts
    return asyncio.run(score_attempt(goal, attempt, models=Models({})))


def test_criteria_of_all_kinds_are_weighed_together() -> None:
    found = score(
        Exact("Oslo"),
        Contains(["os", "lo", "x"], weight=3),
        Limit("decisions", 5),
        output="Oslo",
        pass_score=0.5,
    )
    assert [(one.name, round(one.score, 2)) for one in found.verdicts] == [
        ("exact", 1), ("contains", 0.67), ("limit", 1)
    ]  # fmt: skip
    assert (found.is_reached, round(found.score, 2)) == (True, 0.8)
    assert found.explanation == "contains: not in it: 'x'"


def test_a_broken_constraint_beats_every_criterion() -> None:
    found = score(Contains("Oslo"), output="Oslo", constraints=[Limit("decisions", 0, name="short")])
    assert (found.is_reached, found.score, found.explanation) == (False, 0, "short: 1 decisions, limit 0")


def test_an_answer_is_held_against_a_schema_as_data_or_as_json() -> None:
    assert score(FitsSchema(SCHEMA), value={"n": 1}).is_reached
    assert score(FitsSchema(SCHEMA), output='{"n": 1}').is_reached
    assert score(FitsSchema(SCHEMA), output="one").explanation == "schema: the answer is no JSON"
    assert "/n" in score(FitsSchema(SCHEMA), value={"n": "1"}).explanation


def test_patterns_numbers_calls_and_decisions_of_the_policy_are_criteria() -> None:
    found = score(
        Matches(r"[0-9]+ crowns$"),
        Matches("^crowns"),
        Near(990, tolerance=5),
        Calls(["price"]),
        PolicyOutcome({"price": "allow"}),
        output="It is 992 crowns",
    )
    assert [(one.name, one.score, one.why) for one in found.verdicts] == [
        ("matches", 1, ""),
        ("matches", 0, "no match of '^crowns'"),
        ("near", 1, ""),
        ("calls", 0, "not called: price"),
        ("policy", 1, ""),
    ]


def test_a_check_function_returns_a_boolean_or_a_score() -> None:
    async def later(attempt: Attempt) -> tuple[float, str]:
        return 0.25, f"only {attempt.message}"

    assert score(Check(lambda attempt: attempt.output == "x"), output="x").is_reached
    assert score(Check(lambda attempt: 0.5)).score == 0.5
    assert score(Check(later)).explanation == "check: only the task"


@pytest.mark.parametrize("given", ["yes", 2, -1, float("nan"), None, (1,), (1, 2, 3), (0.5, 7)])
def test_a_check_function_with_an_invalid_result_counts_as_failed(given: object) -> None:
    found = score(Check(lambda attempt: given))  # pyright: ignore[reportArgumentType] any parts
    assert (found.score, "expected a bool" in found.explanation) == (0, True)


def test_a_raising_check_function_counts_as_failed_and_quotes_nothing() -> None:
    def broken(attempt: Attempt) -> bool:
        raise ValueError("hunter2")

    assert score(Check(broken)).explanation == "check: the check failed with ValueError"

    def stops(attempt: Attempt) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score(Check(stops))


def judge(*answers: str) -> tuple[Judge, ScriptedModel]:
    def script(messages: Sequence[LLMMessage]) -> Answer:
        said = sum(one.role == "assistant" for one in messages)
        return say(answers[min(said, len(answers) - 1)], usage=LLMUsage(input_tokens=1))

    model = ScriptedModel(script)
    return Judge("Is it polite?", model), model


def test_a_model_judges_by_the_question_and_sees_task_and_answer() -> None:
    criterion, model = judge('{"score": 0.4, "why": "It is rude."}')
    found = score(criterion, output="Go away.")
    assert (found.score, found.explanation) == (0.4, "judge: It is rude.")
    [request] = model.requests
    assert '"answer":"Go away."' in request.messages[-1].content
    assert '"question":"Is it polite?"' in request.messages[-1].content
    good, _ = judge('{"score": 0.8, "why": "Fine."}')
    assert score(good).is_reached, "from 0.7 on it is met"


def test_a_judge_without_a_verdict_is_an_error_and_not_a_score() -> None:
    criterion, _ = judge("I would rather not.")
    with pytest.raises(Rejected):
        score(criterion)
    with pytest.raises(Unavailable):
        score(Judge("Is it polite?", "nobody/here"))


def test_a_run_without_an_answer_is_not_sent_to_the_judge() -> None:
    criterion, model = judge('{"score": 1, "why": ""}')
    assert not score(criterion, status="failed").is_reached
    assert model.requests == []


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"goal_id": ""}, "a goal needs the goal_id"),
        ({"goal_id": "x" * 129}, "goal_id"),
        ({"criteria": ["Oslo"]}, "must be Exact, Contains, .*, Check, Judge; found str"),
        ({"constraints": [Exact("x")] * 101}, "found 101, limit 100"),
        ({"pass_score": float("inf")}, "pass_score must be a number from 0 to 1"),
    ],
)
def test_a_goal_that_cannot_be_used_is_refused(parts: dict[str, object], message: str) -> None:
    with pytest.raises(Rejected, match=message):
        Goal(**{"goal_id": "g", **parts})  # pyright: ignore[reportArgumentType] any parts


def test_a_goal_is_described_in_plain_text() -> None:
    goal = Goal(
        "g",
        criteria=[Exact({"n": 1}), Contains(["a", "b"]), FitsSchema(SCHEMA), Judge("Kind?", "a/b")],
        constraints=[
            Limit("tokens", 5_000),
            Check(bool, name="legal"),
            Matches("^a"),
            Near(5, tolerance=0.5),
            Calls(["find", {"tool": "pay", "arguments": {"cents": 5}}], order="any_order"),
            PolicyOutcome({"pay": "ask"}),
        ],
    )
    assert criteria_of(goal).split("; ") == [
        'answering exactly {"n":1}',
        "an answer that contains 'a', 'b'",
        'an answer that fits the JSON Schema {"properties":{"n":{"type":"integer"}},"required":["n"],'
        '"type":"object"}',
        "the judgement of a model: Kind?",
        "at most 5,000 tokens (must hold)",
        "a check of the host, legal (must hold)",
        "an answer that matches the regular expression ^a (must hold)",
        "an answer with the number 5 ± 0.5 (must hold)",
        'making the calls find {}, pay {"cents":5} (any order) (must hold)',
        "decisions of the policy: ask pay (must hold)",
    ]


def loose(value: object) -> Any:
    """A value that passes no type checker."""
    return value


WRONG_CRITERIA: dict[str, tuple[Callable[[], object], str]] = {
    "no text": (lambda: Contains([]), "Contains: it takes a text or a list of texts"),
    "an empty text": (lambda: Contains([""]), "Contains: it takes a text or a list of texts"),
    "a number": (lambda: Contains(loose(5)), "that the answer must contain, found int"),
    "no schema": (lambda: FitsSchema({"type": "unheard-of"}), "FitsSchema: "),
    "no function": (lambda: Check(loose("x")), "it takes a function, such as lambda attempt: "),
    "a function of nothing": (lambda: Check(loose(lambda: True)), "takes one argument, the attempt"),
    "no number": (lambda: Limit("tokens", loose("x")), "Limit: most is a number, found str"),
    "a near measure": (lambda: Limit(loose("cost"), 5), "is one of cost_micros, .*found 'cost'"),
    "no measure": (lambda: Limit(loose(5), 5), "the measure is one of cost_micros, .*found int"),
    "no share": (lambda: Judge("x", "a/b", pass_score=2), "pass_score must be a number from 0 to 1"),
    "no model": (lambda: Judge("q", loose(5)), 'a name such as "openai/gpt-5", or a provider; found int'),
    "half a model": (lambda: Judge("q", "gpt-5"), "found 'gpt-5'"),
    "no weight": (lambda: Exact("x", weight=0), "Exact: the weight of exact must be a number above 0"),
    "no pattern": (lambda: Matches("("), "Matches: the pattern is no regular expression: "),
    "a pattern of numbers": (lambda: Matches(loose(5)), "is a regular expression, found int"),
    "near a text": (lambda: Near(loose("x")), "Near: it takes the expected number, found str"),
    "a tolerance below 0": (lambda: Near(1, tolerance=-1), "tolerance is a number from 0 on, found -1"),
    "one call": (lambda: Calls("pay"), "Calls: it takes a list of calls, each the name of a tool or "),
    "a call without a tool": (lambda: Calls([{"arguments": {}}]), "it takes a list of calls"),
    "a call with more": (lambda: Calls([{"tool": "pay", "args": {}}]), "it takes a list of calls"),
    "an odd order": (lambda: Calls([], order=loose("odd")), "order is one of exact, in_order, any_order; "),
    "an odd decision": (lambda: PolicyOutcome({"pay": "maybe"}), "each one of allow, modify, ask, deny"),
    "nothing to compare with": (
        lambda: Goal("g", criteria=[Exact()]),
        r"no expected answer .*Exact\(value\)",
    ),
    "no texts to find": (lambda: Goal("g", constraints=[Contains()]), r"write Contains\(value\)"),
    "no list": (lambda: Goal("g", criteria=loose(Contains("x"))), r"write \[Contains\(…\)\]"),
    "a text for a list": (lambda: Goal("g", criteria=loose("x")), "criteria must be a list, found str"),
}


@pytest.mark.parametrize("name", WRONG_CRITERIA)
def test_a_criterion_that_could_not_rule_is_refused_where_it_is_written(name: str) -> None:
    make, words = WRONG_CRITERIA[name]
    with pytest.raises(Rejected, match=words):
        make()


def test_a_check_takes_a_function_without_a_readable_signature() -> None:
    assert Check(bool).function is bool
    assert Check(loose(min)).function is min
