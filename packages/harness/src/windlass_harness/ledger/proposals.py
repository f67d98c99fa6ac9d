"""Proposals: the fold of their records, and their status."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Final

from pydantic import JsonValue

from windlass_harness.record import Record
from windlass_harness.views.fold import START, Handlers, Position, fold
from windlass_protocol import (
    PackageDifference,
    Proposal,
    ProposalAppliedData,
    ProposalCheck,
    ProposalSettledData,
)
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import records


class ProposalStatus(StrEnum):
    """The state of a proposal."""

    OPEN = "open"
    """Neither approved nor refused."""
    ACCEPTED = "accepted"
    REFUSED = "refused"
    APPLIED = "applied"


@sealed
class ProposalState:
    """A proposal with its history."""

    proposal: Proposal
    status: ProposalStatus = ProposalStatus.OPEN
    check: ProposalCheck | None = None
    """The newest check."""
    settled: ProposalSettledData | None = None
    """The newest approval or refusal."""
    settled_at: str | None = None
    applied: ProposalAppliedData | None = None
    applied_at: str | None = None


@sealed
class ProposalsState:
    """Proposals by id, in the order of their creation."""

    position: Position = START
    proposals: Mapping[str, ProposalState] = field(default_factory=dict[str, ProposalState])


def fold_proposals(entries: Iterable[Record], state: ProposalsState | None = None) -> ProposalsState:
    """Fold records into proposals; records about unknown proposals are ignored.

    A later approval or refusal replaces the one before. An applied proposal stays applied.

    Raises:
        Gap: a record is not the next one of the session.
    """
    return fold(_Draft(state or ProposalsState()), entries)


_ON: Final = Handlers["_Draft", Record, [], None]()


class _Draft:
    def __init__(self, state: ProposalsState) -> None:
        self.position = state.position
        self._proposals = dict(state.proposals)

    def freeze(self) -> ProposalsState:
        return ProposalsState(self.position, dict(self._proposals))

    def apply(self, record: Record) -> None:
        handle = _ON.by_type.get(record.type)
        if handle is not None:
            handle(self, record, record.body)

    @_ON.on(records.ProposalMade)
    def made(self, record: Record, body: records.ProposalMade) -> None:
        proposal = body.proposal
        self._proposals.setdefault(proposal.id, ProposalState(proposal))

    @_ON.on(records.ProposalChecked)
    def checked(self, record: Record, body: records.ProposalChecked) -> None:
        proposal = self._proposals.get(body.proposal_id)
        if proposal is not None:
            self._proposals[body.proposal_id] = replace(proposal, check=body.check)

    @_ON.on(records.ProposalSettled)
    def settled(self, record: Record, body: records.ProposalSettled) -> None:
        proposal = self._proposals.get(body.proposal_id)
        if proposal is not None and proposal.status is not ProposalStatus.APPLIED:
            status = ProposalStatus.ACCEPTED if body.is_accepted else ProposalStatus.REFUSED
            settled = ProposalSettledData.model_validate(record.data)
            self._proposals[body.proposal_id] = replace(
                proposal, status=status, settled=settled, settled_at=record.at
            )

    @_ON.on(records.ProposalApplied)
    def applied(self, record: Record, body: records.ProposalApplied) -> None:
        proposal = self._proposals.get(body.proposal_id)
        if proposal is not None and proposal.status is ProposalStatus.ACCEPTED:
            applied = ProposalAppliedData.model_validate(record.data)
            self._proposals[body.proposal_id] = replace(
                proposal, status=ProposalStatus.APPLIED, applied=applied, applied_at=record.at
            )


def differences(before: JsonValue, after: JsonValue) -> tuple[PackageDifference, ...]:
    """Return every path at which two values differ; a missing side is absent."""
    return tuple(_differ(before, after, ""))


def _differ(before: JsonValue, after: JsonValue, path: str) -> Iterator[PackageDifference]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            inner_path = f"{path}/{_escape_key(key)}"
            if key not in after:
                yield PackageDifference(path=inner_path, before=before[key])
            elif key not in before:
                yield PackageDifference(path=inner_path, after=after[key])
            else:
                yield from _differ(before[key], after[key], inner_path)
    elif isinstance(before, list) and isinstance(after, list):
        shared = min(len(before), len(after))
        for at in range(shared):
            yield from _differ(before[at], after[at], f"{path}/{at}")
        for at in range(shared, len(before)):
            yield PackageDifference(path=f"{path}/{at}", before=before[at])
        for at in range(shared, len(after)):
            yield PackageDifference(path=f"{path}/{at}", after=after[at])
    elif before != after or type(before) is not type(after):
        yield PackageDifference(path=path, before=before, after=after)


def _escape_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
