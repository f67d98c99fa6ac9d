"""Replay of a recorded run without side effects, to check a proposal.

Tools answer from the record, by their name and their arguments in canonical JSON. A call without a record
fails with an error for the model and is counted; it is never executed. Hooks and output sinks are omitted.
Questions and subagents answer from the record too, and approvals are given as recorded. An `approval`
function of a tool is not
called: all calls of the tool ask, and are approved.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from windlass.agent.agent import Agent, AnyAgent, subagent_tool
from windlass.errors import wrong
from windlass.ledger.changes import version_of
from windlass.ledger.goals import BorrowedSource, Goal, Models, attempt_of, score_attempt
from windlass.ledger.query import BuilderQuery
from windlass.limits import BATCH_RECORDS_MAX
from windlass.playground import Player
from windlass.ports.journal import Batch
from windlass.runtime.compose import AgentRuntime
from windlass.tools import Tool, with_function
from windlass.tools.context import ToolContext
from windlass_harness.ledger.failures import classify
from windlass_harness.ledger.goals import run_facts
from windlass_harness.ledger.tapes import Tape
from windlass_harness.ledger.versions import Sample, compare_attempts
from windlass_harness.loop.events import Draft
from windlass_harness.record import Record
from windlass_protocol import (
    DecisionRun,
    DecisionRunStatus,
    FailureKind,
    InputRequest,
    InputResponse,
    JsonObject,
    Proposal,
    ProposalCheck,
    ReplayedRun,
    canonical,
)
from windlass_protocol.frozen import sealed

REPLAY_TIMEOUT_S: Final = 600
"""Timeout of one replay."""
OUTPUT_CHARS_MAX: Final = 500
"""Characters of an answer that a check holds."""
_OWNER: Final = "replay"
_RUN: Final = "replay"


@sealed
class Take:
    """A recorded run, prepared for a replay."""

    tape: Tape
    before: Sequence[Record] = ()
    """The records of its session before the run."""
    message: str = ""


@sealed
class Replay:
    """Result of a replay."""

    run: ReplayedRun
    sample: Sample


class Approver:
    """Answers approval requests of a replay; no call has a side effect."""

    def __init__(self, player: Player) -> None:
        self._player = player

    async def dispatch(self, request: InputRequest, *, session_id: str, run_id: str) -> InputResponse | None:
        """Approve a call unless it was denied in the record."""
        action = request.action
        name = action.tool_name if action.kind == "tool-call" else action.kind
        option = "deny" if self._player.was_denied(name, action.input) else "approve"
        return InputResponse(request_id=request.request_id, option_id=option)


def rehearsal(
    agent: AnyAgent, player_of: Callable[[ToolContext], Player], *, name: str | None = None
) -> AnyAgent:
    """Return a copy of an agent with tools that answer from a tape, the one of their run.

    Raises:
        Rejected: the agent has dynamic parts, which cannot be replayed.
    """
    if agent.resolvers:
        raise wrong(f"{agent.name} has dynamic parts, which are resolved in each run: it cannot be replayed")
    subagents = [
        subagent_tool(subagent.name, subagent.description, package_id=subagent.name)
        for subagent in agent.subagents
    ]
    return Agent(
        name or agent.name,
        model=agent.model,
        instructions=agent.prompt,
        description=agent.description,
        version=agent.version,
        tools=[_tape_tool(tool, player_of) for tool in (*agent.offered_tools, *subagents)],
        policy=agent.policy,
        budget=agent.budget,
        output=agent.output,
        compaction=agent.compaction,
        compaction_model=agent.compaction_model,
        temperature=agent.temperature,
    )


def _tape_tool(tool: Tool[..., object], player_of: Callable[[ToolContext], Player]) -> Tool[..., object]:
    async def play(arguments: JsonObject, context: ToolContext) -> object:
        return player_of(context).answer(tool.name, arguments)

    return with_function(tool, play)


async def replay(agent: AnyAgent, take: Take, *, version: str, goal: Goal, models: Models) -> Replay:
    """Replay a recorded run with an agent, and score the result.

    Raises:
        AgentError: the agent cannot be replayed, its model cannot be reached, or a judge model fails.
    """
    player = Player(take.tape.calls)
    actor = rehearsal(agent, lambda _: player)
    runtime = AgentRuntime.in_memory(
        [actor],
        providers=models.providers,
        provider_source=BorrowedSource(models.source),
        approval_dispatcher=Approver(player),
    )
    async with runtime:
        session_id = await _restore_session(runtime, take.before)
        parts = take.tape.parts or take.message
        handle = await runtime.start_run(
            actor.name, parts, session_id=session_id, run_id=_RUN, context=list(take.tape.context)
        )
        is_late = False
        try:
            await handle.wait(timeout=REPLAY_TIMEOUT_S)
        except TimeoutError:
            is_late = True
            await handle.cancel(reason="The replay takes too long.")
        await handle.wait()
        attempt = await attempt_of(runtime, _RUN)
    run = attempt.run
    attempt = replace(attempt, message=take.message)
    goal_score = await score_attempt(goal, attempt, models=models)
    kind = FailureKind.TIMEOUT if is_late else _failure(run, is_reached=goal_score.is_reached)
    facts: dict[str, object] = {
        "run_id": take.tape.run_id,
        "fingerprint": version,
        "success": goal_score.is_reached,
        "score": min(max(goal_score.score, 0.0), 1.0),
        "diverged": player.diverged,
        "failure": kind,
        "explanation": goal_score.explanation or None,
        "output": attempt.output[:OUTPUT_CHARS_MAX] or None,
    }
    return Replay(
        ReplayedRun.model_validate({name: value for name, value in facts.items() if value is not None}),
        replace(run_facts(run).sample, succeeded=goal_score.is_reached),
    )


def _failure(run: DecisionRun, *, is_reached: bool) -> FailureKind | None:
    if is_reached:
        return None
    failure = classify(run)
    return FailureKind.GOAL_MISSED if failure is None else failure.kind


async def _restore_session(runtime: AgentRuntime, before: Sequence[Record]) -> str | None:
    """Import a session into a runtime as it was before a run; return its id."""
    if not any(record.type == "run.started" for record in before):
        return None
    store = runtime.core.ports.store
    assert store is not None, "a runtime in memory has a store"
    session_id = before[0].session_id
    drafts = tuple(
        Draft(record.type, record.at, dict(record.data), run_id=record.run_id) for record in before
    )
    await store.enlist(_OWNER, now_ms=0)
    claim = await store.claim(session_id, _OWNER, now_ms=0)
    for at in range(0, len(drafts), BATCH_RECORDS_MAX):
        some = drafts[at : at + BATCH_RECORDS_MAX]
        is_last = at + len(some) == len(drafts)
        await store.append(Batch(claim, claim.last_seq + at, some, is_last=is_last))
    return session_id


CheckReport = ProposalCheck
"""The result of `Builder.check`."""
CHECKED_RUNS: Final = 10
"""Number of runs of a check without `run_ids`."""
CHECKED_RUNS_MAX: Final = 100
REPEATS_MAX: Final = 20
RUNS_LOOKED_AT_MAX: Final = 1_000
REPLAYS_AT_ONCE: Final = 4


@sealed
class Trial:
    """The settings of a check."""

    goal: Goal
    run_ids: Sequence[str]
    repeats: int
    models: Models


def choose_runs(query: BuilderQuery, proposal: Proposal) -> list[str]:
    """Return the runs for a check of a proposal.

    These are its evidence, then failed and successful runs in turn; runs of the version that it changes come
    first. Successful runs are included because the change must not break them.
    """
    facts = [
        run
        for run in query.get_facts(proposal.goal_id, RUNS_LOOKED_AT_MAX)
        if run.has_ended and run.agent_id == proposal.agent_id
    ]
    facts.sort(key=lambda run: run.fingerprint != proposal.base_fingerprint)
    run_ids = {run.run_id for run in facts}
    failed = [run.run_id for run in facts if not run.has_succeeded]
    succeeded = [run.run_id for run in facts if run.has_succeeded]
    chosen = dict.fromkeys(run_id for run_id in proposal.evidence if run_id in run_ids)
    for at in range(max(len(failed), len(succeeded))):
        chosen |= dict.fromkeys((*failed[at : at + 1], *succeeded[at : at + 1]))
    return list(chosen)[:CHECKED_RUNS]


async def try_both(old: AnyAgent, new: AnyAgent, *, trial: Trial, query: BuilderQuery) -> ProposalCheck:
    """Replay recorded runs with both versions of an agent, and compare the scores.

    Raises:
        Rejected: a run is unknown or has not ended, or there is no run.
        AgentError: an agent cannot be replayed, or a model cannot be reached.
    """
    takes = [await asyncio.to_thread(_take, query, run_id) for run_id in dict.fromkeys(trial.run_ids)]
    if not takes:
        raise wrong("no runs to check the proposal with: name some in run_ids")
    gate = asyncio.Semaphore(REPLAYS_AT_ONCE)

    async def replay_one(agent: AnyAgent, version: str, take: Take) -> Replay:
        async with gate:
            return await replay(agent, take, version=version, goal=trial.goal, models=trial.models)

    repeated = [take for take in takes for _ in range(trial.repeats)]
    versions = version_of(old), version_of(new)
    before = [asyncio.ensure_future(replay_one(old, versions[0], take)) for take in repeated]
    after = [asyncio.ensure_future(replay_one(new, versions[1], take)) for take in repeated]
    try:
        await asyncio.gather(*before, *after)
    finally:
        # The first failure is raised, and the other replays are cancelled.
        for task in (*before, *after):
            task.cancel()
        await asyncio.gather(*before, *after, return_exceptions=True)
    replays = [[task.result() for task in tasks] for tasks in (before, after)]
    return _check(versions, replays[0], after=replays[1], repeats=trial.repeats)


def _check(
    versions: tuple[str, str], before: Sequence[Replay], *, after: Sequence[Replay], repeats: int
) -> ProposalCheck:
    old, new = _by_run(before, repeats), _by_run(after, repeats)
    gains = [
        _count_successes(new_samples) - _count_successes(old_samples)
        for old_samples, new_samples in zip(old, new, strict=True)
    ]
    return ProposalCheck(
        comparison=compare_attempts((versions[0], old), (versions[1], new)),
        replays=tuple(replay_result.run for replay_result in (*before, *after)),
        fixed=sum(gain > 0 for gain in gains),
        broken=sum(gain < 0 for gain in gains),
        diverged=sum(replay_result.run.diverged > 0 for replay_result in (*before, *after)),
    )


def _by_run(replays: Sequence[Replay], repeats: int) -> list[list[Sample]]:
    """Return the attempts at each run."""
    samples = [replay_result.sample for replay_result in replays]
    return [samples[at : at + repeats] for at in range(0, len(samples), repeats)]


def _count_successes(attempts: Sequence[Sample]) -> int:
    return sum(sample.succeeded for sample in attempts)


def _take(query: BuilderQuery, run_id: str) -> Take:
    tape, run = query.get_tape(run_id), query.get_decision_run(run_id)
    if tape is None or run is None:
        raise wrong(f"unknown run: {run_id}")
    if run.status is DecisionRunStatus.RUNNING:
        raise wrong(f"run {run_id} has not ended: replay it after its end")
    message = tape.message
    if not message and run.input_data is not None:
        message = canonical(run.input_data).decode()
    return Take(tape, query.get_records(run_id, is_before=True), message)
