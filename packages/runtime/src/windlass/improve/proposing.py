"""From what a model wrote to a proposal that can be tried."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from windlass.agent import Agent
from windlass.definitions import wrong
from windlass.improve.changes import Draft, apply_changes, package_differences, version_of, wire_changes
from windlass.improve.criteria import Check, Contains, Criterion, Exact, FitsSchema, Goal, Judge, Limit
from windlass.recorder.query import BuilderQuery
from windlass_protocol import Proposal, canonical

ATTEMPTS_MAX: Final = 3
"""Answers of the Builder's model that are looked at; what is wrong with each is told to it."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a proposal comes from."""

    proposal_id: str
    run_id: str
    at: str


def made_of(draft: Draft, agent: Agent, *, goal: Goal, query: BuilderQuery, origin: Origin) -> Proposal:
    """Return the proposal of a draft.

    Raises:
        Rejected: a change cannot be made, changes nothing, or its evidence is not there; the words are for
            whoever wrote the draft.
    """
    _check_evidence(draft.evidence, query, goal.goal_id)
    changes = wire_changes(draft, agent)
    new = apply_changes(agent, changes)
    found = package_differences(agent, new)
    if not found:
        raise wrong("the proposal changes nothing: the agent is like that already")
    return Proposal(
        id=origin.proposal_id,
        goal_id=goal.goal_id,
        agent_id=agent.agent_id,
        base_fingerprint=version_of(agent),
        fingerprint=version_of(new),
        changes=changes,
        differences=found,
        rationale=draft.rationale,
        evidence=tuple(dict.fromkeys(draft.evidence)),
        run_id=origin.run_id,
        at=origin.at,
    )


def criteria_of(goal: Goal) -> str:
    """Return in words what a run has to do to reach a goal."""
    told = [_told(one) for one in goal.criteria]
    told += [f"{_told(one)} (must hold)" for one in goal.constraints]
    return "; ".join(told)


def _told(criterion: Criterion) -> str:
    match criterion:
        case Exact():
            return f"answering exactly {canonical(criterion.expected).decode()}"
        case Contains():
            return f"an answer that contains {', '.join(map(repr, criterion.wanted))}"
        case FitsSchema():
            return f"an answer that fits the JSON Schema {canonical(criterion.json_schema).decode()}"
        case Limit():
            return f"at most {criterion.most:,} {criterion.measure}"
        case Check():
            return f"a check of the host, {criterion.name}"
        case Judge():
            return f"the judgement of a model: {criterion.question}"


def _check_evidence(run_ids: Iterable[str], query: BuilderQuery, goal_id: str) -> None:
    for run_id in run_ids:
        found = query.get_run_summary(run_id)
        if found is None or found.goal_id != goal_id:
            raise wrong(f"there is no run {run_id} of goal {goal_id}: name runs that you have read")
