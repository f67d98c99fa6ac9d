"""Runs that turn in circles: the same call over and over, or nothing new.

What a decision did and what came of it is compared, never what the model said beside it. A call that is
repeated because its result changes, as one that waits for something, is no loop.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from windlass_protocol import Decision, DecisionRun, DecisionType, FailureKind, canonical

REPEATS_MIN: Final = 3
"""So many times in a row the same thing, with the same result, is a loop."""
CYCLE_DECISIONS_MAX: Final = 3
"""The longest cycle that is looked for: three different calls, over and over."""
STALL_DECISIONS_MIN: Final = 5
"""So many decisions in a row that bring nothing new are a stall."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A stretch of a run that got it nowhere."""

    kind: FailureKind
    """`repeated_call` or `stall`."""
    decision_ids: tuple[str, ...]
    cycle: int
    """How many different things were repeated; 0 for a stall."""
    is_last: bool
    """Whether the run ended in it; an answer without calls does not lead out of it."""


def find_loops(run: DecisionRun) -> tuple[Loop, ...]:
    """Return the loops of a run, in order: first those that repeat, then stalls.

    A stall is told only where nothing repeats. A decision without an outcome ends a stall: nobody knows what
    it brings.
    """
    acts = [one for one in run.decisions if one.decision_type is not DecisionType.TERMINATION]
    repeats = _repeats(acts)
    covered = {decision_id for loop in repeats for decision_id in loop.decision_ids}
    stalls = [loop for loop in _stalls(acts) if covered.isdisjoint(loop.decision_ids)]
    return (*repeats, *stalls)


def _repeats(acts: Sequence[Decision]) -> list[Loop]:
    deeds = [_deed(act) for act in acts]
    found: list[Loop] = []
    taken: set[int] = set()
    for cycle in range(1, CYCLE_DECISIONS_MAX + 1):
        for begin, end in _stretches(deeds, cycle):
            if taken.isdisjoint(range(begin, end)):
                taken.update(range(begin, end))
                found.append(_loop(FailureKind.REPEATED_CALL, acts, (begin, end), cycle=cycle))
    return sorted(found, key=lambda loop: _place(acts, loop))


def _stretches(deeds: Sequence[bytes], cycle: int) -> list[tuple[int, int]]:
    """Where deeds are the same as those one cycle before, often enough."""
    found: list[tuple[int, int]] = []
    begin = 0
    for at in range(1, len(deeds) + 1):
        is_same = at < len(deeds) and (at - begin < cycle or deeds[at] == deeds[at - cycle])
        if is_same:
            continue
        if at - begin >= cycle * REPEATS_MIN:
            found.append((begin, at))
        begin = max(begin + 1, at - cycle + 1)
    return found


def _stalls(acts: Sequence[Decision]) -> list[Loop]:
    found: list[Loop] = []
    seen: set[bytes] = set()
    begin = 0
    for at, act in enumerate(acts):
        deed, outcome = _deed(act), act.outcome
        is_new = outcome is None or (outcome.success and deed not in seen)
        seen.add(deed)
        if is_new:
            _add_stall(found, acts, (begin, at))
            begin = at + 1
    _add_stall(found, acts, (begin, len(acts)))
    return found


def _add_stall(found: list[Loop], acts: Sequence[Decision], stretch: tuple[int, int]) -> None:
    if stretch[1] - stretch[0] >= STALL_DECISIONS_MIN:
        found.append(_loop(FailureKind.STALL, acts, stretch, cycle=0))


def _loop(kind: FailureKind, acts: Sequence[Decision], stretch: tuple[int, int], *, cycle: int) -> Loop:
    begin, end = stretch
    ids = tuple(act.id for act in acts[begin:end])
    return Loop(kind, ids, cycle, is_last=end == len(acts))


def _place(acts: Sequence[Decision], loop: Loop) -> int:
    return next(at for at, act in enumerate(acts) if act.id == loop.decision_ids[0])


def _deed(decision: Decision) -> bytes:
    """What was done and what came of it, in one form."""
    chosen = next((one for one in decision.options if one.id == decision.chosen_option_id), None)
    params = None if chosen is None else chosen.action_params
    outcome = decision.outcome
    came = None if outcome is None else [outcome.success, outcome.result, outcome.error]
    return canonical([decision.node_id, decision.intent, decision.chosen_option_id, params, came])
