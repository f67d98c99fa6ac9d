"""The bodies of requests and answers about proposals."""

from typing import Annotated, Literal

from pydantic import Field, Strict

from windlass.ledger import ProposalStatus
from windlass_protocol import (
    Proposal,
    ProposalAppliedData,
    ProposalCheck,
    ProposalSettledData,
)
from windlass_server.models import Name
from windlass_server.wire import Maybe, Shown, Text, Wire


class NewProposal(Wire):
    """What a change is wanted for."""

    goal: Annotated[Name, Field(description="A goal that the server was given.")]
    agent: Annotated[Name | None, Field(description="The one of the newest run when left out.")] = None


class CheckWish(Wire):
    """What a proposal is tried on."""

    run_ids: Annotated[
        tuple[Name, ...] | None, Field(min_length=1, max_length=100, description="Runs; some when left out.")
    ] = None
    repeats: Annotated[int, Strict(), Field(ge=1, le=20, description="Attempts at each run.")] = 1


class Ruling(Wire):
    """What a person says to a proposal."""

    reason: Annotated[Text, Field(max_length=4_000)] = ""
    fingerprint: Annotated[
        Text | None, Field(description="Of the version that you have read; another one is then refused.")
    ] = None


class WorkView(Shown):
    """A proposal that is being made or tried, or could not be."""

    proposal_id: str
    kind: Literal["propose", "check"]
    status: Literal["working", "failed"]
    problem: Annotated[Maybe[str], Field(description="Why it failed.")] = None
    started_at: str
    goal_id: Maybe[str] = None
    agent_id: Maybe[str] = None


class ProposalView(Shown):
    """A proposal and all that happened to it."""

    proposal: Annotated[Proposal, Field(description="The change, as a difference of packages, and why.")]
    status: ProposalStatus
    check: Annotated[Maybe[ProposalCheck], Field(description="How it did on recorded runs.")] = None
    settled: Annotated[Maybe[ProposalSettledData], Field(description="Who said yes or no, and why.")] = None
    settled_at: Maybe[str] = None
    applied: Maybe[ProposalAppliedData] = None
    applied_at: Maybe[str] = None
    work: tuple[WorkView, ...] = ()


class ProposalList(Shown):
    """Proposals, the newest first, and what is being worked on."""

    proposals: tuple[ProposalView, ...]
    work: tuple[WorkView, ...]


class ProposalAccepted(Shown):
    """Work that was taken; read the proposal to see what came of it."""

    proposal_id: str
