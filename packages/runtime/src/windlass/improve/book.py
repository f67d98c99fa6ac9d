"""Where proposals and judgements are kept: in the journal of the runtime."""

from collections.abc import Callable, Iterable
from typing import Final

from pydantic import BaseModel

from windlass.errors import Conflict
from windlass.recorder.hosted import hosted_ledger
from windlass.recorder.notes import Notes
from windlass.recorder.query import BuilderQuery
from windlass.runtime import CoreRuntime
from windlass_harness.ledger.evaluations import EVALUATED, evaluation_session
from windlass_harness.ledger.names import PROPOSALS
from windlass_harness.ledger.proposals import ProposalState, fold_proposals
from windlass_protocol import (
    DecisionEvaluation,
    ErrorKind,
    JsonObject,
    Proposal,
    ProposalAppliedData,
    ProposalCheckedData,
    ProposalMadeData,
    ProposalSettledData,
    Record,
    RetryClass,
)

Allows = Callable[[ProposalState], bool]
"""Looks at a proposal as it is when a record is added: False leaves the record out, as an error does."""

SESSION: Final = PROPOSALS
"""The session of all proposals of a store."""


class Book:
    """Questions and notes about runs; everything may be called in any thread.

    With a store that is not a SQLite file, make it on the event loop of the runtime.
    """

    def __init__(self, runtime: CoreRuntime) -> None:
        self.query = BuilderQuery(runtime=runtime)
        self._notes = Notes(hosted_ledger(runtime, durability="power", secrets=()))

    def close(self) -> None:
        """Let go of the files."""
        self.query.close()
        self._notes.close()

    def now(self) -> str:
        """Return the time, as records have it."""
        return self._notes.now()

    def judge(self, run_id: str, decision_id: str, *, evaluation: DecisionEvaluation) -> None:
        """Keep a judgement of a decision."""
        data: JsonObject = {"decisionId": decision_id, "evaluation": _plain(evaluation)}
        self._notes.add(evaluation_session(run_id), EVALUATED, data=data, run_id=run_id)

    def proposals(self) -> tuple[ProposalState, ...]:
        """Return all proposals, newest first."""
        found = fold_proposals(self._notes.read(SESSION)).proposals.values()
        return tuple(reversed(tuple(found)))

    def find(self, proposal_id: str) -> ProposalState | None:
        """Return a proposal; None if there is none."""
        return fold_proposals(self._notes.read(SESSION)).proposals.get(proposal_id)

    def proposal(self, proposal_id: str) -> ProposalState:
        """Return a proposal.

        Raises:
            Conflict: there is none of this id.
        """
        return _found(self._notes.read(SESSION), proposal_id)

    def made(self, proposal: Proposal) -> None:
        """Keep a proposal."""
        self._add("proposal.made", ProposalMadeData(proposal=proposal), proposal)

    def checked(self, data: ProposalCheckedData, proposal: Proposal) -> None:
        """Keep how a proposal did."""
        self._add("proposal.checked", data, proposal)

    def settled(self, data: ProposalSettledData, proposal: Proposal, *, allows: Allows) -> None:
        """Keep what a person said of a proposal."""
        self._add("proposal.settled", data, proposal, allows=allows)

    def applied(self, data: ProposalAppliedData, proposal: Proposal, *, allows: Allows) -> None:
        """Keep that a proposal was made into an agent."""
        self._add("proposal.applied", data, proposal, allows=allows)

    def _add(self, type_: str, data: BaseModel, proposal: Proposal, *, allows: Allows | None = None) -> None:
        def looks(records: Iterable[Record]) -> bool:
            return allows is None or allows(_found(records, proposal.id))

        run_id = proposal.run_id or proposal.id
        self._notes.add(SESSION, type_, data=_plain(data), run_id=run_id, allows=looks)


def _found(records: Iterable[Record], proposal_id: str) -> ProposalState:
    found = fold_proposals(records).proposals.get(proposal_id)
    if found is None:
        raise Conflict(
            "there is no such proposal: list them with proposals()",
            kind=ErrorKind.INVALID_STATE_TRANSITION,
            retry=RetryClass.NOT_RETRYABLE,
        )
    return found


def _plain(model: BaseModel) -> JsonObject:
    return model.model_dump(mode="json", by_alias=True)
