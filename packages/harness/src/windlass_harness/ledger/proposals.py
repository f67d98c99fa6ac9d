"""Proposals: the fold of their records, and their status."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Final

from pydantic import JsonValue

from windlass_harness.record import Record
from windlass_harness.views.fold import START, Position, fold, read
from windlass_protocol import (
    PackageDifference,
    Proposal,
    ProposalAppliedData,
    ProposalCheck,
    ProposalCheckedData,
    ProposalMadeData,
    ProposalSettledData,
)
from windlass_protocol.frozen import sealed


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


def fold_proposals(records: Iterable[Record], state: ProposalsState | None = None) -> ProposalsState:
    """Fold records into proposals; records about unknown proposals are ignored.

    A later approval or refusal replaces the one before. An applied proposal stays applied.

    Raises:
        Gap: a record is not the next one of the session.
    """
    return fold(_Draft(state or ProposalsState()), records)


class _Draft:
    def __init__(self, state: ProposalsState) -> None:
        self.position = state.position
        self._proposals = dict(state.proposals)

    def freeze(self) -> ProposalsState:
        return ProposalsState(self.position, dict(self._proposals))

    def apply(self, record: Record) -> None:
        handle = _HANDLERS.get(record.type)
        if handle is not None:
            handle(self, record)

    def made(self, record: Record) -> None:
        proposal = read(ProposalMadeData, record.data).proposal
        self._proposals.setdefault(proposal.id, ProposalState(proposal))

    def checked(self, record: Record) -> None:
        data = read(ProposalCheckedData, record.data)
        known = self._proposals.get(data.proposal_id)
        if known is not None:
            self._proposals[data.proposal_id] = replace(known, check=data.check)

    def settled(self, record: Record) -> None:
        data = read(ProposalSettledData, record.data)
        known = self._proposals.get(data.proposal_id)
        if known is not None and known.status is not ProposalStatus.APPLIED:
            status = ProposalStatus.ACCEPTED if data.is_accepted else ProposalStatus.REFUSED
            self._proposals[data.proposal_id] = replace(
                known, status=status, settled=data, settled_at=record.at
            )

    def applied(self, record: Record) -> None:
        data = read(ProposalAppliedData, record.data)
        known = self._proposals.get(data.proposal_id)
        if known is not None and known.status is ProposalStatus.ACCEPTED:
            self._proposals[data.proposal_id] = replace(
                known, status=ProposalStatus.APPLIED, applied=data, applied_at=record.at
            )


_HANDLERS: Final[dict[str, Callable[[_Draft, Record], None]]] = {
    "proposal.made": _Draft.made,
    "proposal.checked": _Draft.checked,
    "proposal.settled": _Draft.settled,
    "proposal.applied": _Draft.applied,
}


def differences(before: JsonValue, after: JsonValue) -> tuple[PackageDifference, ...]:
    """Return every path at which two values differ; a missing side is absent."""
    return tuple(_differ(before, after, ""))


def _differ(before: JsonValue, after: JsonValue, path: str) -> Iterator[PackageDifference]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            place = f"{path}/{_escaped(key)}"
            if key not in after:
                yield PackageDifference(path=place, before=before[key])
            elif key not in before:
                yield PackageDifference(path=place, after=after[key])
            else:
                yield from _differ(before[key], after[key], place)
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


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
