"""The Builder: proposes changes, tries them, and makes those that people want."""

import asyncio
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Final, Self

from windlass.agent import Agent
from windlass.compose import AgentRuntime
from windlass.definitions import check_text, check_whole, wrong
from windlass.errors import Conflict, Denied, Rejected
from windlass.improve.book import Book
from windlass.improve.changes import Draft, apply_changes, version_of
from windlass.improve.checking import (
    CHECKED_RUNS_MAX,
    REPEATS_MAX,
    RUNS_LOOKED_AT_MAX,
    Trial,
    chosen_runs,
    try_both,
)
from windlass.improve.criteria import Goal
from windlass.improve.investigator import investigator, task_of
from windlass.improve.proposing import ATTEMPTS_MAX, Origin, criteria_of, made_of
from windlass.improve.scoring import Models, score_attempt
from windlass.ports.model import LLMProvider
from windlass.refusals import no_value
from windlass.registry import register_agent
from windlass.setup_check import check_items, check_part
from windlass_harness.budget import BudgetLimit
from windlass_harness.ledger.goals import Attempt, GoalScore, evaluation, judged_decision
from windlass_harness.ledger.names import BUILDER
from windlass_harness.ledger.proposals import ProposalState, ProposalStatus
from windlass_protocol import (
    DecisionRunStatus,
    ErrorKind,
    Proposal,
    ProposalAppliedData,
    ProposalCheck,
    ProposalCheckedData,
    ProposalSettledData,
    RetryClass,
    RunStatus,
)

BY_CHARS_MAX: Final = 256
REASON_CHARS_MAX: Final = 4_000
EVALUATED_RUNS_MAX: Final = 1_000
"""Runs of a goal that are judged by one call, the newest of those that wait for it."""


class Builder:
    """Improves agents of a runtime by what their runs show.

    Nothing is applied without a person's yes. `model` thinks; what it does is a run of an agent with tools
    that only read, in the same journal. With None for it nothing is proposed, and all else works. Goals that
    are given here need not be given again. Make it, and use it, on the event loop of the runtime.
    """

    def __init__(
        self,
        model: str | LLMProvider | None,
        *,
        runtime: AgentRuntime,
        goals: Iterable[Goal] = (),
        budget: BudgetLimit | None = None,
    ) -> None:
        self._runtime = check_part(runtime, AgentRuntime, what="runtime", words="an AgentRuntime")
        given = check_items(goals, Goal, what="goals", words="Goals")
        self._goals = {goal.goal_id: goal for goal in given}
        self._book = Book(runtime)
        self._agent = None
        if model is not None:
            registry = runtime.ports.registry
            self._agent = investigator(model, self._book.query, registry=registry, budget=budget)
        self._models = Models(runtime.ports.providers, runtime.ports.provider_source)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Let go of the files; the runtime stays open."""
        await asyncio.to_thread(self._book.close)

    # judging

    async def evaluate(
        self, goal: Goal | str, *, run_ids: Sequence[str] | None = None
    ) -> dict[str, GoalScore]:
        """Hold runs against a goal, and keep that as judgements of their decisions.

        Without `run_ids` these are the newest runs of the goal that have ended and that nobody has judged
        yet, at most 1,000: call it again for more.

        Raises:
            Rejected: the goal or a run is not known, or a run has not ended.
            AgentError: a model that has to judge did not; runs before that are judged.
        """
        known = self._goal(goal)
        if run_ids is None:
            facts = await asyncio.to_thread(self._book.query.get_facts, known.goal_id)
            waiting = [one.run_id for one in facts if one.has_ended and not one.is_judged]
            run_ids = waiting[:EVALUATED_RUNS_MAX]
        run_ids = check_items(run_ids, str, what="run_ids", words="ids of runs")
        return {run_id: await self._evaluate(known, run_id) for run_id in run_ids}

    async def _evaluate(self, goal: Goal, run_id: str) -> GoalScore:
        query = self._book.query
        run = await asyncio.to_thread(query.get_decision_run, run_id)
        tape = await asyncio.to_thread(query.get_tape, run_id)
        if run is None or tape is None:
            raise wrong(f"there is no run {run_id}: it cannot be judged")
        if run.status is DecisionRunStatus.RUNNING:
            raise wrong(f"run {run_id} has not ended: judge it when it has")
        attempt = Attempt(run, tape.message, tape.output, tape.value)
        found = await score_attempt(goal, attempt, models=self._models)
        decision_id = judged_decision(run)
        if decision_id is not None:
            await asyncio.to_thread(self._book.judge, run_id, decision_id, evaluation=evaluation(found))
        return found

    # the loop

    async def propose(
        self, goal: Goal | str, *, agent: Agent | str | None = None, proposal_id: str | None = None
    ) -> Proposal:
        """Ask the model for a change to the agent of a goal; return it once it is durable.

        The agent is the one that made the newest run of the goal. The same `proposal_id` again is the same
        proposal.

        Raises:
            Rejected: there is no model, the goal has no runs, the agent is not one of this runtime, or the
                model came up with nothing that can be used.
            Denied: somebody else has a session with the id of the proposal.
            AgentError: the run of the model failed.
        """
        known = self._goal(goal)
        proposal_id = proposal_id or f"proposal-{self._runtime.ports.machine.new_id()}"
        found = await asyncio.to_thread(self._book.find, proposal_id)
        if found is not None:
            return found.proposal
        subject = await self._subject(known, agent)
        return await self._draft(known, subject, proposal_id)

    async def _draft(self, goal: Goal, agent: Agent, proposal_id: str) -> Proposal:
        thinker = self._thinker()
        words = task_of(goal.goal_id, goal.description, agent_id=agent.agent_id, criteria=criteria_of(goal))
        problem = ""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            run_id = f"{proposal_id}/{attempt}"
            # The goal keeps it from what the Builder reads, the owner from sessions that somebody else has.
            handle = await self._runtime.start(
                thinker, words, session_id=proposal_id, run_id=run_id, goal_id=BUILDER, owner=BUILDER
            )
            result = await handle.wait()
            if result.status is not RunStatus.COMPLETED:
                raise no_value(result)
            draft = Draft.model_validate(result.structured_output)
            origin = Origin(proposal_id, run_id, self._book.now())
            try:
                proposal = await asyncio.to_thread(
                    made_of, draft, agent, goal=goal, query=self._book.query, origin=origin
                )
            except Rejected as error:
                problem = error.message
                words = f"Your proposal cannot be used: {problem}. Make another one."
                continue
            await asyncio.to_thread(self._book.made, proposal)
            # As it is kept: without secrets, and the first one if others make it at the same time.
            return (await self._state(proposal_id)).proposal
        raise wrong(f"the model made no proposal that can be used, in {ATTEMPTS_MAX} attempts: {problem}")

    async def check(
        self,
        proposal: Proposal | str,
        *,
        goal: Goal | None = None,
        run_ids: Sequence[str] | None = None,
        repeats: int = 1,
    ) -> ProposalCheck:
        """Do recorded runs again with both versions, and compare how they do.

        Nothing else happens: tools answer from the record. Without `run_ids` it takes the evidence of the
        proposal, and some runs that failed and some that did not. A model that is not sure of itself is
        asked `repeats` times; a run counts once all the same, with the mean of its attempts.

        Raises:
            Conflict: there is no such proposal, it says something else, or the agent is not the one any more
                that it changes.
            Rejected: the goal is not known here, a run is not there, or the agent cannot be replayed.
            AgentError: a model could not be reached.
        """
        state = await self._state(proposal)
        made = state.proposal
        known = self._goal(goal or made.goal_id)
        old = self._base(made)
        if run_ids is None:
            run_ids = await asyncio.to_thread(chosen_runs, self._book.query, made)
        run_ids = check_items(run_ids, str, what="run_ids", words="ids of runs")
        check_whole(repeats, "repeats", most=REPEATS_MAX)
        if len(run_ids) > CHECKED_RUNS_MAX:
            raise wrong(f"run_ids: found {len(run_ids):,}, limit {CHECKED_RUNS_MAX}")
        trial = Trial(known, run_ids, repeats, self._models)
        found = await try_both(old, apply_changes(old, made.changes), trial=trial, query=self._book.query)
        data = ProposalCheckedData(proposal_id=made.id, check=found)
        await asyncio.to_thread(self._book.checked, data, made)
        return found

    async def approve(self, proposal: Proposal | str, *, by: str, reason: str = "") -> ProposalState:
        """Keep a person's yes.

        It can be taken back with `refuse` until the change is made.

        Raises:
            Conflict: there is no such proposal, it says something else, or it was applied already.
        """
        return await self._settle(proposal, by=by, reason=reason, is_accepted=True)

    async def refuse(self, proposal: Proposal | str, *, by: str, reason: str = "") -> ProposalState:
        """Keep a person's no.

        Raises:
            Conflict: there is no such proposal, it says something else, or it was applied already.
        """
        return await self._settle(proposal, by=by, reason=reason, is_accepted=False)

    async def apply(self, proposal: Proposal | str, *, by: str) -> Agent:
        """Return the agent with the change; the one that there is stays as it is.

        Give it to the next runtime that you open, or start its runs in one that has it. Applying again gives
        the same agent.

        Raises:
            Denied: no person has said yes, or one said no since.
            Conflict: there is no such proposal, it says something else, or the agent is not the one any more
                that it changes.
        """
        who = _named(by)
        state = await self._state(proposal)
        made = state.proposal
        is_new = _may_apply(state)
        agent = apply_changes(self._base(made), made.changes)
        if version_of(agent) != made.fingerprint:
            raise _moved(made, "the change makes another version of it than the one that was approved")
        if is_new:
            data = ProposalAppliedData(proposal_id=made.id, by=who, fingerprint=made.fingerprint)
            await asyncio.to_thread(self._book.applied, data, made, allows=_may_apply)
        return agent

    async def proposals(self, goal_id: str | None = None) -> tuple[ProposalState, ...]:
        """Return the proposals, newest first; those of one goal if it is named."""
        found = await asyncio.to_thread(self._book.proposals)
        return tuple(one for one in found if goal_id is None or one.proposal.goal_id == goal_id)

    async def proposal(self, proposal_id: str) -> ProposalState:
        """Return a proposal and all that happened to it.

        Raises:
            Conflict: there is none of this id.
        """
        return await asyncio.to_thread(self._book.proposal, proposal_id)

    # small parts

    async def _settle(
        self, proposal: Proposal | str, *, by: str, reason: str, is_accepted: bool
    ) -> ProposalState:
        who = _named(by)
        check_text(reason, "reason", chars_max=REASON_CHARS_MAX)
        state = await self._state(proposal)
        facts = {"proposal_id": state.proposal.id, "is_accepted": is_accepted, "by": who}
        data = ProposalSettledData.model_validate({**facts, **({"reason": reason} if reason else {})})
        await asyncio.to_thread(self._book.settled, data, state.proposal, allows=_may_settle)
        return await self._state(proposal)

    async def _state(self, proposal: Proposal | str) -> ProposalState:
        if not isinstance(proposal, Proposal):
            return await asyncio.to_thread(self._book.proposal, proposal)
        found = await asyncio.to_thread(self._book.proposal, proposal.id)
        # Nobody says yes to something else than what they have read.
        if found.proposal.model_dump() != proposal.model_dump():
            raise _moved(proposal, "what was kept is not what you hold: read it with proposal(id)")
        return found

    def _goal(self, goal: Goal | str) -> Goal:
        if isinstance(goal, Goal):
            self._goals[goal.goal_id] = goal
            return goal
        found = self._goals.get(goal)
        if found is None:
            raise wrong(f"the Builder does not know the goal {goal}: give it a Goal(…) with its criteria")
        return found

    async def _subject(self, goal: Goal, agent: Agent | str | None) -> Agent:
        """The agent to be improved, as the runtime has it."""
        if agent is None:
            facts = await asyncio.to_thread(self._book.query.get_facts, goal.goal_id, RUNS_LOOKED_AT_MAX)
            agents = [one.agent_id for one in facts if one.agent_id and one.fingerprint is not None]
            if not agents:
                raise wrong(f"goal {goal.goal_id} has no run of an agent: start some with goal_id first")
            agent = agents[0]
        return self._registered(agent if isinstance(agent, str) else agent.agent_id)

    def _registered(self, agent_id: str) -> Agent:
        registered = self._runtime.ports.registry.agent(agent_id)
        if registered is None or registered.agent is None:
            raise wrong(f"the runtime has no agent {agent_id}: open it with the agent that is to be improved")
        return registered.agent

    def _base(self, proposal: Proposal) -> Agent:
        agent = self._registered(proposal.agent_id)
        if version_of(agent) != proposal.base_fingerprint:
            raise _moved(proposal, "the agent has changed since: make a new proposal")
        return agent

    def _thinker(self) -> Agent:
        """The Builder's own agent, which the runtime drives from now on."""
        if self._agent is None:
            raise wrong("the Builder has no model to propose with: give it one, such as openai/gpt-5")
        self._runtime.ports.registry.add(register_agent(self._agent), replace=True)
        return self._agent


def _named(by: object) -> str:
    name = check_text(by, "by", chars_max=BY_CHARS_MAX)
    if not name.strip():
        raise wrong("by names the person who says so; found nothing")
    return name


def _may_apply(state: ProposalState) -> bool:
    """Return whether applying is still to be noted; raise if it is not allowed."""
    if state.status not in (ProposalStatus.ACCEPTED, ProposalStatus.APPLIED):
        raise Denied(
            f"the proposal is {state.status.value}: a person has to approve it first",
            kind=ErrorKind.APPROVAL_FAILURE,
            retry=RetryClass.NOT_RETRYABLE,
        )
    return state.status is ProposalStatus.ACCEPTED


def _may_settle(state: ProposalState) -> bool:
    """Return that a yes or a no can be noted; raise if it comes too late."""
    if state.status is ProposalStatus.APPLIED:
        raise _moved(state.proposal, "it was applied already; propose another change to go back")
    return True


def _moved(proposal: Proposal, why: str) -> Conflict:
    return Conflict(
        f"proposal {proposal.id}: {why}",
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.NOT_RETRYABLE,
    )
