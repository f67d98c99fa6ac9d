"""Why runs fail: a closed list of kinds, and one rule for each.

The rules are tried in the order of the list, and the first that fits decides:

- `cancelled`: somebody ended the run.
- `interrupted`: its process is gone and nobody goes on with it, or what came of a call is not known.
- `output_contract`: the run ended because its answers did not fit what it must return, or a hook sent them
  back.
- `denied`: a policy, a hook or a person stopped it.
- `timeout`: something took longer than it may.
- `provider`: a model call failed for good.
- `repeated_call`: it ended while the same calls were made over and over with the same results.
- `stall`: it ended after a stretch of decisions that brought nothing new.
- `budget`: it used up what it may use, and not because of a loop.
- `invalid_arguments`, `tool_error` and again `denied`, `timeout`, `interrupted`: by the decision that is to
  blame for a failure that nothing above explains.
- `goal_missed`: the run completed, and was judged not to have reached its goal.
- `unknown`: it failed, and nothing says why.

A failure by budget that is really a loop is told as the loop: more budget would not help.
"""

import re
from dataclasses import dataclass
from typing import Final, assert_never

from windlass_harness.ledger.loops import Loop, find_loops
from windlass_protocol import Decision, DecisionRun, DecisionRunStatus, FailureKind, Problem, ProblemSeverity

TOLD_CHARS_MAX: Final = 200
GONE: Final = "The process of the run is gone."

_KINDS: Final = {
    FailureKind.CANCELLED: ("cancelled", "cancellation"),
    FailureKind.INTERRUPTED: (
        "interrupted",
        "interrupted_too_often",
        "outcome_unknown",
        "skipped",
        "recovery_repair_needed",
    ),
    FailureKind.OUTPUT_CONTRACT: ("output_contract", "structured_output_failure", "sent_back"),
    FailureKind.DENIED: (
        "denied",
        "policy_denial",
        "approval_failure",
        "isolation_failure",
        "stream_rule_failure",
        "hook_failure",
        "expired",
        "ignored",
    ),
    FailureKind.TIMEOUT: ("timeout", "subagent_timeout"),
    FailureKind.PROVIDER: ("provider_failure", "context_overflow"),
    FailureKind.BUDGET: ("budget_exhausted",),
    FailureKind.INVALID_ARGUMENTS: ("invalid_arguments", "unknown_tool", "policy.bad_arguments"),
    FailureKind.TOOL_ERROR: ("failed", "tool_failure", "subagent_failure", "subagent_failed"),
}
_KIND_OF_CODE: Final = {code: kind for kind, codes in _KINDS.items() for code in codes}
_FAMILIES: Final = {
    "policy.": FailureKind.DENIED,
    "hook.": FailureKind.DENIED,
    "subagent_": FailureKind.TOOL_ERROR,
}
"""Codes that begin so."""
_WORDS: Final = (
    (re.compile(r"\btime[ds]?[ -]?out\b|\bdeadline exceeded\b", re.IGNORECASE), FailureKind.TIMEOUT),
    (
        re.compile(r"\b(?:denied|forbidden|unauthori[sz]ed|not (?:allowed|permitted))\b", re.IGNORECASE),
        FailureKind.DENIED,
    ),
    (
        re.compile(r"\brate limit|\boverloaded\b|\bcontext (?:length|window)\b", re.IGNORECASE),
        FailureKind.PROVIDER,
    ),
    (re.compile(r"\binvalid (?:argument|parameter|input)s?\b", re.IGNORECASE), FailureKind.INVALID_ARGUMENTS),
)
"""What errors say that people recorded without a code."""
_ENDS_RUNS: Final = frozenset(
    {FailureKind.OUTPUT_CONTRACT, FailureKind.DENIED, FailureKind.TIMEOUT, FailureKind.PROVIDER}
)
"""Kinds of a critical problem that no loop explains better."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run failed."""

    kind: FailureKind
    told: str
    """In one line, for people."""
    decision_id: str | None = None
    """The decision that is to blame, or the first of a loop."""


def classify(run: DecisionRun) -> Failure | None:
    """Return why a run failed; None if it did not, or goes on."""
    match run.status:
        case DecisionRunStatus.RUNNING:
            return None
        case DecisionRunStatus.COMPLETED:
            return _missed(run)
        case DecisionRunStatus.CANCELLED:
            return Failure(FailureKind.CANCELLED, "The run was cancelled.")
        case DecisionRunStatus.STUCK:
            return Failure(FailureKind.INTERRUPTED, GONE, _last_id(run))
        case DecisionRunStatus.FAILED:
            return _failed(run)
        case _:
            assert_never(run.status)


def kind_of_code(code: str | None, *, told: str = "") -> FailureKind:
    """Return the kind of a cause: by its code, or else by words in what is told of it."""
    if code is not None:
        if code in _KIND_OF_CODE:
            return _KIND_OF_CODE[code]
        for family, kind in _FAMILIES.items():
            if code.startswith(family):
                return kind
    text = f"{code or ''} {told}"
    return next((kind for pattern, kind in _WORDS if pattern.search(text)), FailureKind.UNKNOWN)


def blamed(run: DecisionRun) -> Decision | None:
    """Return the decision that a run failed by; None if none failed.

    It is one that a critical problem names, or else the first failure that no later success of the same node
    and intent made good, or else the last failure. A pending one has not failed.
    """
    failed = [one for one in run.decisions if one.outcome is not None and not one.outcome.success]
    named = {problem.decision_id for problem in run.problems if problem.severity is ProblemSeverity.CRITICAL}
    for decision in failed:
        if decision.id in named:
            return decision
    made_good: set[tuple[str, str]] = set()
    lasting: Decision | None = None
    for decision in reversed(run.decisions):
        key = (decision.node_id, decision.intent)
        if decision.outcome is not None and decision.outcome.success:
            made_good.add(key)
        elif decision.outcome is not None and key not in made_good:
            lasting = decision
    return lasting or (failed[-1] if failed else None)


def _missed(run: DecisionRun) -> Failure | None:
    """A run that completed failed only if its newest judged decision missed the goal."""
    judged = [one for one in run.decisions if one.evaluation is not None]
    evaluation = judged[-1].evaluation if judged else None
    if evaluation is None or evaluation.goal_aligned:
        return None
    told = evaluation.explanation or "The goal was not reached."
    return Failure(FailureKind.GOAL_MISSED, _line(told), judged[-1].id)


def _failed(run: DecisionRun) -> Failure:
    critical = [one for one in run.problems if one.severity is ProblemSeverity.CRITICAL]
    kinds = [(kind_of_code(one.root_cause, told=one.description), one) for one in reversed(critical)]
    for kind, problem in kinds:
        if kind in _ENDS_RUNS:
            return Failure(kind, _line(problem.description), problem.decision_id)
    for loop in find_loops(run):
        if loop.is_last:
            return Failure(loop.kind, _told(loop), loop.decision_ids[0])
    for kind, problem in kinds:
        if kind is FailureKind.BUDGET:
            return Failure(kind, _line(problem.description))
    return _by_decision(run) or _by_problem(kinds)


def _by_decision(run: DecisionRun) -> Failure | None:
    decision = blamed(run)
    if decision is None:
        return None
    error = (decision.outcome and decision.outcome.error) or ""
    codes = [one.root_cause for one in run.problems if one.decision_id == decision.id and one.root_cause]
    kind = kind_of_code(codes[-1] if codes else None, told=error)
    # A decision that failed for a reason that nobody knows is still what failed.
    kind = FailureKind.TOOL_ERROR if kind is FailureKind.UNKNOWN else kind
    return Failure(kind, _line(error or decision.intent), decision.id)


def _by_problem(kinds: list[tuple[FailureKind, Problem]]) -> Failure:
    for kind, problem in kinds:
        return Failure(kind, _line(problem.description), problem.decision_id)
    return Failure(FailureKind.UNKNOWN, "Nothing says why the run failed.")


def _told(loop: Loop) -> str:
    count = len(loop.decision_ids)
    if loop.kind is FailureKind.STALL:
        return f"The last {count} decisions brought nothing new."
    many = "the same call was made" if loop.cycle == 1 else f"the same {loop.cycle} calls were made"
    return f"At the end {many} over and over, {count} in all, with the same results."


def _last_id(run: DecisionRun) -> str | None:
    return run.decisions[-1].id if run.decisions else None


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= TOLD_CHARS_MAX else f"{line[: TOLD_CHARS_MAX - 1]}…"
