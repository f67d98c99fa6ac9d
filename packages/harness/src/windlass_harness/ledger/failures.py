"""Failure kinds of runs: a closed list, one rule each, and loop detection.

The rules are tried in the order of the list, and the first that fits decides:

- `cancelled`: the run was cancelled.
- `interrupted`: the process of the run is gone and no other continues it, or the result of a call is unknown.
- `output_contract`: the run ended because its answers violated its output contract, or a hook sent them back.
- `denied`: a policy, a hook or a person stopped it.
- `timeout`: an operation exceeded its timeout.
- `provider`: a model call failed for good.
- `repeated_call`: it ended while repeating the same calls with the same results.
- `stall`: it ended after a series of decisions with nothing new.
- `budget`: it used up its budget, and not because of a loop.
- `invalid_arguments`, `tool_error` and again `denied`, `timeout`, `interrupted`: by the decision to blame for
  a failure that no rule above explains.
- `goal_missed`: the run completed, and was judged not to have reached its goal.
- `unknown`: it failed without a recorded reason.

A budget failure that is caused by a loop is reported as the loop: a larger budget would not help.
"""

import re
from collections.abc import Sequence
from typing import Final, assert_never

from windlass_protocol import (
    Decision,
    DecisionRun,
    DecisionRunStatus,
    DecisionType,
    FailureKind,
    Problem,
    ProblemSeverity,
    canonical,
)
from windlass_protocol.frozen import sealed

CAUSE_CHARS_MAX: Final = 200
UNKNOWN: Final = "unknown"

# In this order: longer and more exact patterns come first.
_VARYING: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), word)
    for pattern, word in (
        (r"[a-z][a-z0-9+.-]*://[^\s\"'<>)]+", "<url>"),
        (
            r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}[t ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?"
            r"(?:z\b|[+-][0-9]{2}:?[0-9]{2})?",
            "<time>",
        ),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<id>"),
        (r"[\w.+-]+@[\w-]+\.[\w.]+", "<mail>"),
        (r"\"[^\"]{1,200}\"|'[^'\n]{1,200}'|`[^`]{1,200}`", "<value>"),
        (r"(?:[a-z]:)?(?:[\\/][\w.~-]+){2,}", "<path>"),
        (r"\b0x[0-9a-f]+\b|\b(?=[a-z_-]*[0-9])[0-9a-z_-]{12,}\b", "<id>"),
        # A status code identifies the error; other numbers are only amounts.
        (
            r"(?<!http )(?<!status )(?<!code )(?<!errno )(?<!error )[-+]?\b[0-9][0-9,._]*(?=[a-z%]{0,3}\b)",
            "<n>",
        ),
    )
)
_SPACE: Final = re.compile(r"\s+")


def cause_of(error: str | None) -> str:
    """Return an error without its variable parts: its first line, normalised.

    Numbers, ids, addresses, paths, times, quoted values, case and spaces are variable.
    """
    line = next((line for line in (error or "").strip().splitlines() if line.strip()), "")[:1_000]
    for pattern, word in _VARYING:
        line = pattern.sub(word, line)
    return _SPACE.sub(" ", line).strip(" .!:").casefold()[:CAUSE_CHARS_MAX] or UNKNOWN


REPEATS_MIN: Final = 3
"""Repetitions in a row, with the same result, that make a loop."""
CYCLE_DECISIONS_MAX: Final = 3
"""The length of the longest cycle that is detected: three different calls in turn."""
STALL_DECISIONS_MIN: Final = 5
"""Decisions in a row with nothing new that make a stall."""


@sealed
class Loop:
    """A part of a run without progress."""

    kind: FailureKind
    """`repeated_call` or `stall`."""
    decision_ids: tuple[str, ...]
    cycle: int
    """The number of different actions that were repeated; 0 for a stall."""
    is_last: bool
    """Whether the run ended in it; an answer without calls does not leave the loop."""


def find_loops(run: DecisionRun) -> tuple[Loop, ...]:
    """Return the loops of a run, in order: first the repetitions, then the stalls.

    A stall is reported only where nothing repeats. A decision without an outcome ends a stall: its result is
    unknown.
    """
    acts = [decision for decision in run.decisions if decision.decision_type is not DecisionType.TERMINATION]
    repeats = _repeats(acts)
    covered = {decision_id for loop in repeats for decision_id in loop.decision_ids}
    stalls = [loop for loop in _stalls(acts) if covered.isdisjoint(loop.decision_ids)]
    return (*repeats, *stalls)


def _repeats(acts: Sequence[Decision]) -> list[Loop]:
    deeds = [_deed(act) for act in acts]
    loops: list[Loop] = []
    taken: set[int] = set()
    for cycle in range(1, CYCLE_DECISIONS_MAX + 1):
        for begin, end in _stretches(deeds, cycle):
            if taken.isdisjoint(range(begin, end)):
                taken.update(range(begin, end))
                loops.append(_loop(FailureKind.REPEATED_CALL, acts, (begin, end), cycle=cycle))
    return sorted(loops, key=lambda loop: _place(acts, loop))


def _stretches(deeds: Sequence[bytes], cycle: int) -> list[tuple[int, int]]:
    """Yield the ranges in which actions equal those one cycle before, often enough."""
    stretches: list[tuple[int, int]] = []
    begin = 0
    for at in range(1, len(deeds) + 1):
        is_same = at < len(deeds) and (at - begin < cycle or deeds[at] == deeds[at - cycle])
        if is_same:
            continue
        if at - begin >= cycle * REPEATS_MIN:
            stretches.append((begin, at))
        begin = max(begin + 1, at - cycle + 1)
    return stretches


def _stalls(acts: Sequence[Decision]) -> list[Loop]:
    stalls: list[Loop] = []
    seen: set[bytes] = set()
    begin = 0
    for at, act in enumerate(acts):
        deed, outcome = _deed(act), act.outcome
        is_new = outcome is None or (outcome.success and deed not in seen)
        seen.add(deed)
        if is_new:
            _add_stall(stalls, acts, (begin, at))
            begin = at + 1
    _add_stall(stalls, acts, (begin, len(acts)))
    return stalls


def _add_stall(stalls: list[Loop], acts: Sequence[Decision], stretch: tuple[int, int]) -> None:
    if stretch[1] - stretch[0] >= STALL_DECISIONS_MIN:
        stalls.append(_loop(FailureKind.STALL, acts, stretch, cycle=0))


def _loop(kind: FailureKind, acts: Sequence[Decision], stretch: tuple[int, int], *, cycle: int) -> Loop:
    begin, end = stretch
    ids = tuple(act.id for act in acts[begin:end])
    return Loop(kind, ids, cycle, is_last=end == len(acts))


def _place(acts: Sequence[Decision], loop: Loop) -> int:
    return next(at for at, act in enumerate(acts) if act.id == loop.decision_ids[0])


def _deed(decision: Decision) -> bytes:
    """Return an action and its result in one comparable form."""
    chosen = next((option for option in decision.options if option.id == decision.chosen_option_id), None)
    params = None if chosen is None else chosen.action_params
    outcome = decision.outcome
    came = None if outcome is None else [outcome.success, outcome.result, outcome.error]
    return canonical([decision.node_id, decision.intent, decision.chosen_option_id, params, came])


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
"""Prefixes of codes."""
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
    (
        re.compile(r"\binvalid (?:argument|parameter|input)s?\b", re.IGNORECASE),
        FailureKind.INVALID_ARGUMENTS,
    ),
)
"""Patterns for errors that were recorded without a code."""
_ENDS_RUNS: Final = frozenset(
    {FailureKind.OUTPUT_CONTRACT, FailureKind.DENIED, FailureKind.TIMEOUT, FailureKind.PROVIDER}
)
"""Kinds of a critical problem that take precedence over a loop."""


@sealed
class Failure:
    """The reason why a run failed."""

    kind: FailureKind
    told: str
    """One line for people."""
    decision_id: str | None = None
    """The decision to blame, or the first of a loop."""


def classify(run: DecisionRun) -> Failure | None:
    """Return why a run failed; None if it succeeded or is unfinished."""
    match run.status:
        case DecisionRunStatus.RUNNING:
            return None
        case DecisionRunStatus.COMPLETED:
            return _missed_goal_failure(run)
        case DecisionRunStatus.CANCELLED:
            return Failure(FailureKind.CANCELLED, "The run was cancelled.")
        case DecisionRunStatus.STUCK:
            return Failure(FailureKind.INTERRUPTED, GONE, _last_id(run))
        case DecisionRunStatus.FAILED:
            return _failure_of(run)
        case _:
            assert_never(run.status)


def kind_of_code(code: str | None, *, message: str = "") -> FailureKind:
    """Return the kind of a cause, by its code or else by its message."""
    if code is not None:
        if code in _KIND_OF_CODE:
            return _KIND_OF_CODE[code]
        for family, kind in _FAMILIES.items():
            if code.startswith(family):
                return kind
    text = f"{code or ''} {message}"
    return next((kind for pattern, kind in _WORDS if pattern.search(text)), FailureKind.UNKNOWN)


def find_culprit(run: DecisionRun) -> Decision | None:
    """Return the decision that caused the failure of a run; None if no decision failed.

    It is one that a critical problem names, or else the first failure without a later success of the same
    node and intent, or else the last failure. A pending decision has not failed.
    """
    failed = [
        decision
        for decision in run.decisions
        if decision.outcome is not None and not decision.outcome.success
    ]
    blamed_ids = {
        problem.decision_id for problem in run.problems if problem.severity is ProblemSeverity.CRITICAL
    }
    for decision in failed:
        if decision.id in blamed_ids:
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


def _missed_goal_failure(run: DecisionRun) -> Failure | None:
    """A completed run failed only if its newest judged decision missed the goal."""
    judged = [decision for decision in run.decisions if decision.evaluation is not None]
    evaluation = judged[-1].evaluation if judged else None
    if evaluation is None or evaluation.goal_aligned:
        return None
    explanation = evaluation.explanation or "The goal was not reached."
    return Failure(FailureKind.GOAL_MISSED, _line(explanation), judged[-1].id)


def _failure_of(run: DecisionRun) -> Failure:
    critical = [problem for problem in run.problems if problem.severity is ProblemSeverity.CRITICAL]
    kinds = [
        (kind_of_code(problem.root_cause, message=problem.description), problem)
        for problem in reversed(critical)
    ]
    for kind, problem in kinds:
        if kind in _ENDS_RUNS:
            return Failure(kind, _line(problem.description), problem.decision_id)
    for loop in find_loops(run):
        if loop.is_last:
            return Failure(loop.kind, _loop_text(loop), loop.decision_ids[0])
    for kind, problem in kinds:
        if kind is FailureKind.BUDGET:
            return Failure(kind, _line(problem.description))
    return _by_decision(run) or _by_problem(kinds)


def _by_decision(run: DecisionRun) -> Failure | None:
    decision = find_culprit(run)
    if decision is None:
        return None
    error = (decision.outcome and decision.outcome.error) or ""
    codes = [
        problem.root_cause
        for problem in run.problems
        if problem.decision_id == decision.id and problem.root_cause
    ]
    kind = kind_of_code(codes[-1] if codes else None, message=error)
    # A decision that failed for an unknown reason is still the one to blame.
    kind = FailureKind.TOOL_ERROR if kind is FailureKind.UNKNOWN else kind
    return Failure(kind, _line(error or decision.intent), decision.id)


def _by_problem(kinds: list[tuple[FailureKind, Problem]]) -> Failure:
    for kind, problem in kinds:
        return Failure(kind, _line(problem.description), problem.decision_id)
    return Failure(FailureKind.UNKNOWN, "Nothing says why the run failed.")


def _loop_text(loop: Loop) -> str:
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
