"""Trying a proposal on recorded runs, beside the version that it changes."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from windlass.agent import Agent
from windlass.definitions import wrong
from windlass.improve.changes import version_of
from windlass.improve.criteria import Goal
from windlass.improve.replaying import Replay, Take, replay
from windlass.improve.scoring import Models
from windlass.recorder.query import BuilderQuery
from windlass_harness.ledger.versions import Sample, compare_attempts
from windlass_protocol import DecisionRunStatus, Proposal, ProposalCheck, canonical

CheckReport = ProposalCheck
"""What `Builder.check` returns."""
CHECKED_RUNS: Final = 10
"""Runs that a proposal is tried on when nobody names others."""
CHECKED_RUNS_MAX: Final = 100
REPEATS_MAX: Final = 20
RUNS_LOOKED_AT_MAX: Final = 1_000
REPLAYS_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class Trial:
    """What a check does."""

    goal: Goal
    run_ids: Sequence[str]
    repeats: int
    models: Models


def chosen_runs(query: BuilderQuery, proposal: Proposal) -> list[str]:
    """Return runs to try a proposal on.

    These are its evidence, then failures and successes by turns. Those of the version that it changes come
    first. A change that only helps where things went wrong is no good if it breaks what went well, so both
    are there.
    """
    facts = [
        one
        for one in query.get_facts(proposal.goal_id, RUNS_LOOKED_AT_MAX)
        if one.has_ended and one.agent_id == proposal.agent_id
    ]
    facts.sort(key=lambda one: one.fingerprint != proposal.base_fingerprint)
    known = {one.run_id for one in facts}
    failed = [one.run_id for one in facts if not one.has_succeeded]
    succeeded = [one.run_id for one in facts if one.has_succeeded]
    found = dict.fromkeys(run_id for run_id in proposal.evidence if run_id in known)
    for at in range(max(len(failed), len(succeeded))):
        found |= dict.fromkeys((*failed[at : at + 1], *succeeded[at : at + 1]))
    return list(found)[:CHECKED_RUNS]


async def try_both(old: Agent, new: Agent, *, trial: Trial, query: BuilderQuery) -> ProposalCheck:
    """Do recorded runs again with both versions of an agent, and compare how they do.

    Raises:
        Rejected: a run is not there or has not ended, or nothing was named.
        AgentError: an agent cannot be replayed, or a model cannot be reached.
    """
    takes = [await asyncio.to_thread(_take, query, run_id) for run_id in dict.fromkeys(trial.run_ids)]
    if not takes:
        raise wrong("there are no runs to try the proposal on: name some in run_ids")
    gate = asyncio.Semaphore(REPLAYS_AT_ONCE)

    async def one(agent: Agent, version: str, take: Take) -> Replay:
        async with gate:
            return await replay(agent, take, version=version, goal=trial.goal, models=trial.models)

    repeated = [take for take in takes for _ in range(trial.repeats)]
    versions = version_of(old), version_of(new)
    before = [asyncio.ensure_future(one(old, versions[0], take)) for take in repeated]
    after = [asyncio.ensure_future(one(new, versions[1], take)) for take in repeated]
    try:
        await asyncio.gather(*before, *after)
    finally:
        # The first that fails decides; nobody leaves the others running.
        for task in (*before, *after):
            task.cancel()
        await asyncio.gather(*before, *after, return_exceptions=True)
    done = [[task.result() for task in tasks] for tasks in (before, after)]
    return _check(versions, done[0], after=done[1], repeats=trial.repeats)


def _check(
    versions: tuple[str, str], before: Sequence[Replay], *, after: Sequence[Replay], repeats: int
) -> ProposalCheck:
    old, new = _by_run(before, repeats), _by_run(after, repeats)
    gains = [_succeeded(others) - _succeeded(ones) for ones, others in zip(old, new, strict=True)]
    return ProposalCheck(
        comparison=compare_attempts((versions[0], old), (versions[1], new)),
        replays=tuple(one.run for one in (*before, *after)),
        fixed=sum(gain > 0 for gain in gains),
        broken=sum(gain < 0 for gain in gains),
        diverged=sum(one.run.diverged > 0 for one in (*before, *after)),
    )


def _by_run(replays: Sequence[Replay], repeats: int) -> list[list[Sample]]:
    """Return the attempts at each run."""
    samples = [one.sample for one in replays]
    return [samples[at : at + repeats] for at in range(0, len(samples), repeats)]


def _succeeded(attempts: Sequence[Sample]) -> int:
    return sum(one.succeeded for one in attempts)


def _take(query: BuilderQuery, run_id: str) -> Take:
    tape, run = query.get_tape(run_id), query.get_decision_run(run_id)
    if tape is None or run is None:
        raise wrong(f"there is no run {run_id}: it cannot be done again")
    if run.status is DecisionRunStatus.RUNNING:
        raise wrong(f"run {run_id} has not ended: do it again when it has")
    message = tape.message
    if not message and run.input_data is not None:
        message = canonical(run.input_data).decode()
    return Take(tape, query.get_records(run_id, is_before=True), message)
