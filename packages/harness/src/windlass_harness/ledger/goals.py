"""Goal scores: verdicts of criteria and constraints combined into one number.

A criterion measures how well the goal was reached, with a weight; a constraint has to hold in any case.
Checks that need the outside (a schema validator, a function, a model) are not here: the caller passes their
verdicts.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final, Literal, assert_never

from pydantic import JsonValue

from windlass_harness.ledger.failures import classify, find_culprit
from windlass_harness.ledger.tapes import MadeCall
from windlass_harness.ledger.versions import Sample
from windlass_harness.record import Record
from windlass_harness.views.decisions import RunDraft
from windlass_harness.views.payloads import token_count
from windlass_harness.views.runs import run_id_of
from windlass_protocol import (
    DecisionEvaluation,
    DecisionRun,
    DecisionRunStatus,
    DecisionType,
    FailureKind,
    JsonObject,
    canonical,
)
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import records

SHOWN_CHARS_MAX: Final = 80
EXPLANATION_CHARS_MAX: Final = 2_000
_NUMBER: Final = re.compile(r"-?[0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")

Measure = Literal["cost_micros", "tokens", "duration_ms", "steps", "decisions", "failed_decisions"]
"""The measures that a limit can use."""


@sealed
class Attempt:
    """A run as the input of criteria."""

    run: DecisionRun
    message: str = ""
    """The request."""
    output: str = ""
    """The complete answer."""
    value: JsonValue = None
    """The answer as JSON, if it is JSON."""
    made: tuple[MadeCall, ...] = ()
    """The calls of tools, in order."""
    steps: int = 0
    """Answered model calls."""
    expected: JsonValue = None
    """The expected answer of the case; None if it has none, or if the run is of no case."""
    metadata: JsonObject = field(default_factory=dict[str, JsonValue])
    """The metadata of the case."""
    error: str = ""
    """The reason why the run did not complete, if it is known."""

    @property
    def has_completed(self) -> bool:
        """Whether the run ended with an answer."""
        return self.run.status is DecisionRunStatus.COMPLETED


@sealed
class CriterionVerdict:
    """The result of one criterion."""

    name: str
    score: float
    """From 0 to 1."""
    why: str = ""
    weight: float = 1.0
    is_required: bool = False
    """Whether it is a constraint."""

    @property
    def is_met(self) -> bool:
        return self.score >= 1


@sealed
class GoalScore:
    """The combined result of all criteria."""

    is_reached: bool
    score: float
    """The weighted mean of the criteria, from 0 to 1; 0 if a constraint is broken."""
    verdicts: tuple[CriterionVerdict, ...] = ()

    @property
    def explanation(self) -> str:
        """Unmet criteria with their reasons; empty if all are met."""
        missing = (
            f"{verdict.name}: {verdict.why or 'not met'}" for verdict in self.verdicts if not verdict.is_met
        )
        return "; ".join(missing)[:EXPLANATION_CHARS_MAX]


def equals(attempt: Attempt, expected: JsonValue) -> tuple[float, str]:
    """Score whether an answer equals the expected value: as JSON, or as text without outer white space."""
    if isinstance(expected, str):
        actual: JsonValue = attempt.output.strip()
        is_same = actual == expected.strip()
    else:
        actual = attempt.value
        is_same = canonical(actual) == canonical(expected)
    return (1.0, "") if is_same else (0.0, f"expected {_value_text(expected)}, found {_value_text(actual)}")


def contains(attempt: Attempt, texts: Sequence[str], *, is_case_sensitive: bool) -> tuple[float, str]:
    """Score how many of the texts an answer contains."""
    output = attempt.output if is_case_sensitive else attempt.output.casefold()
    missing = [text for text in texts if (text if is_case_sensitive else text.casefold()) not in output]
    why = f"not in it: {', '.join(map(_value_text, missing))}" if missing else ""
    return 1 - len(missing) / len(texts), why


def keeps_within(attempt: Attempt, measure: Measure, *, most: float) -> tuple[float, str]:
    """Score whether a run stayed within a limit; a cost that is not known stays within none."""
    if measure == "cost_micros" and not is_priced(attempt):
        return 0.0, "the cost is not known: a model has no price"
    used = measure_run(attempt, measure)
    return (1.0, "") if used <= most else (0.0, f"{used:,} {measure}, limit {most:,}")


def is_near(attempt: Attempt, expected: float, *, tolerance: float) -> tuple[float, str]:
    """Score whether the only number of an answer is within a tolerance of the expected one."""
    if isinstance(attempt.value, int | float) and not isinstance(attempt.value, bool):
        numbers = [float(attempt.value)]
    else:
        numbers = [float(number.replace(",", "")) for number in _NUMBER.findall(attempt.output)]
    if len(numbers) != 1:
        return 0.0, f"expected an answer with one number, found {len(numbers)}"
    is_met = abs(numbers[0] - expected) <= tolerance
    return (1.0, "") if is_met else (0.0, f"expected {expected:g} ± {tolerance:g}, found {numbers[0]:g}")


Order = Literal["exact", "in_order", "any_order"]
"""How calls are compared: these calls and no others; among others, in order; among others, in any order."""


def follows(
    attempt: Attempt, expected: Sequence[tuple[str, JsonObject]], *, order: Order
) -> tuple[float, str]:
    """Score whether a run made the expected calls, each a tool and some of its arguments.

    The score is the share of expected calls that were made; with `exact`, other calls fail it.
    """
    made, at, missing = list(attempt.made), 0, list[str]()
    for tool, arguments in expected:
        position = next((i for i in range(at, len(made)) if _is_call(made[i], tool, arguments)), None)
        if position is None:
            missing.append(f"{tool} {canonical(arguments).decode()}" if arguments else tool)
        elif order == "any_order":
            del made[position]
        else:
            at = position + 1
    if missing:
        return 1 - len(missing) / len(expected), f"not called: {', '.join(missing)}"[:EXPLANATION_CHARS_MAX]
    if order == "exact" and len(made) != len(expected):
        names = ", ".join(call.tool for call in made)
        return 0.0, f"expected {len(expected)} calls, found {len(made)}: {names}"[:EXPLANATION_CHARS_MAX]
    return 1.0, ""


def _is_call(call: MadeCall, tool: str, arguments: JsonObject) -> bool:
    actual = call.arguments if isinstance(call.arguments, dict) else {}
    return call.tool == tool and all(
        name in actual and canonical(actual[name]) == canonical(value) for name, value in arguments.items()
    )


def obeys(attempt: Attempt, decisions: Mapping[str, str]) -> tuple[float, str]:
    """Score whether the policy decided about all calls of some tools as expected; no call is met too."""
    wrong = [
        f"{call.tool}: expected {decisions[call.tool]}, found {call.decision or 'no decision'}"
        for call in attempt.made
        if call.tool in decisions and call.decision != decisions[call.tool]
    ]
    return (0.0, "; ".join(wrong)[:EXPLANATION_CHARS_MAX]) if wrong else (1.0, "")


def is_priced(attempt: Attempt) -> bool:
    """Whether the cost of a run is known; a run without a model call costs nothing."""
    usage = attempt.run.usage
    return not attempt.steps or (usage is not None and usage.cost_micros is not None)


def measure_run(attempt: Attempt, measure: Measure) -> int:
    """Return a measure of a run; 0 if it was not measured."""
    run = attempt.run
    match measure:
        case "cost_micros":
            return 0 if run.usage is None else run.usage.cost_micros or 0
        case "tokens":
            return run_tokens(run) or 0
        case "duration_ms":
            return run.duration_ms or 0
        case "decisions":
            return run.metrics.total_decisions
        case "failed_decisions":
            return run.metrics.failed_decisions
        case "steps":
            return attempt.steps
        case _:
            assert_never(measure)


def run_tokens(run: DecisionRun) -> int | None:
    """Return the tokens of a run, by its model calls or else by its decisions; None if not counted."""
    usage = run.usage
    if usage is not None:
        return token_count(usage)
    return run.metrics.total_tokens or None


def score(attempt: Attempt, verdicts: Sequence[CriterionVerdict], *, pass_score: float) -> GoalScore:
    """Combine all verdicts.

    The goal is reached if the run completed, every constraint holds, and the weighted mean of the criteria is
    at least `pass_score`. Without criteria, completion alone counts.
    """
    criteria = [verdict for verdict in verdicts if not verdict.is_required]
    weight = sum(verdict.weight for verdict in criteria)
    mean = sum(verdict.score * verdict.weight for verdict in criteria) / weight if weight else 1.0
    why = f"the run is {attempt.run.status.value}{f': {attempt.error}' if attempt.error else ''}"
    done = CriterionVerdict("completed", float(attempt.has_completed), why)
    all_verdicts = (*verdicts,) if attempt.has_completed else (done, *verdicts)
    holds = attempt.has_completed and all(verdict.is_met for verdict in verdicts if verdict.is_required)
    return GoalScore(holds and mean >= pass_score, mean if holds else 0.0, all_verdicts)


def judged_decision(run: DecisionRun) -> str | None:
    """Return the decision that a judgement of a run refers to; None if the run has none.

    It is the one to blame for a failure, or else the answer, or else the last one.
    """
    culprit = None if run.status is DecisionRunStatus.COMPLETED else find_culprit(run)
    if culprit is not None:
        return culprit.id
    answers = [
        decision.id for decision in run.decisions if decision.decision_type is DecisionType.TERMINATION
    ]
    ids = answers or [decision.id for decision in run.decisions]
    return ids[-1] if ids else None


def evaluation(goal_score: GoalScore) -> DecisionEvaluation:
    """Return a score as the judgement of a decision."""
    return DecisionEvaluation(
        goal_aligned=goal_score.is_reached,
        alignment_score=goal_score.score,
        outcome_quality=goal_score.score,
        contributed_to_success=goal_score.is_reached,
        explanation=goal_score.explanation or "All criteria are met.",
    )


def _value_text(value: JsonValue) -> str:
    text = value if isinstance(value, str) else canonical(value).decode()
    return repr(text if len(text) <= SHOWN_CHARS_MAX else f"{text[: SHOWN_CHARS_MAX - 1]}…")


EVALUATED: Final = records.DecisionEvaluated.TYPE


def with_evaluations(run: DecisionRun, entries: Iterable[Record]) -> DecisionRun:
    """Return a run with the judgements from the records of its judgement session.

    The newest judgement of a decision counts; judgements of unknown decisions are ignored.
    """
    draft = RunDraft(run)
    is_judged = False
    for record in entries:
        body = record.body if record.type == EVALUATED else None
        if isinstance(body, records.DecisionEvaluated) and run_id_of(record) == run.id:
            is_judged = draft.judge(body.decision_id, body.evaluation) or is_judged
    return draft.freeze() if is_judged else run


@sealed
class RunFacts:
    """The measures of one run."""

    run_id: str
    status: DecisionRunStatus
    started_at: str
    goal_id: str = ""
    agent_id: str | None = None
    fingerprint: str | None = None
    """The version of the agent; None for a run that a program recorded."""
    duration_ms: int | None = None
    tokens: int | None = None
    cost_micros: int | None = None
    failure: FailureKind | None = None
    cause: str = ""
    """The reason of the failure."""
    decision_id: str | None = None
    """The decision to blame."""
    is_judged: bool = False
    """Whether the run was judged against its goal."""

    @property
    def has_ended(self) -> bool:
        """Whether it counts: an unfinished run is neither success nor failure."""
        return self.status is not DecisionRunStatus.RUNNING

    @property
    def has_succeeded(self) -> bool:
        """Whether it completed, and was not judged to have missed its goal."""
        return self.has_ended and self.failure is None

    @property
    def sample(self) -> Sample:
        """The run as the input of comparisons."""
        return Sample(self.has_succeeded, self.cost_micros, self.duration_ms, self.tokens)


def run_facts(run: DecisionRun) -> RunFacts:
    """Return the measures of a run."""
    failure = classify(run)
    return RunFacts(
        run_id=run.id,
        status=run.status,
        started_at=run.started_at,
        goal_id=run.goal_id,
        agent_id=run.agent_id,
        fingerprint=run.package_fingerprint,
        duration_ms=run.duration_ms,
        tokens=run_tokens(run),
        cost_micros=None if run.usage is None else run.usage.cost_micros,
        failure=None if failure is None else failure.kind,
        cause="" if failure is None else failure.told,
        decision_id=None if failure is None else failure.decision_id,
        is_judged=any(decision.evaluation is not None for decision in run.decisions),
    )
