"""Rules and errors that all stores share."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice, zip_longest
from types import MappingProxyType
from typing import Final

from pydantic_core import from_json, to_json

from windlass.errors import Ambiguous, Conflict, Corrupt, Denied, Rejected, Unavailable
from windlass.limits import DOCUMENT_BYTES_MAX, INBOX_ITEMS_MAX, INBOX_STARTS_MAX, OWNER_LEASE_MS
from windlass.ports.catalog import SessionRow
from windlass.ports.documents import Document
from windlass.ports.inbox import NewRun
from windlass.ports.journal import Batch
from windlass.ports.listing import NO_USAGE, RunFilter, RunInfo, causes_of
from windlass_harness.loop.events import Draft
from windlass_harness.loop.subagents import START
from windlass_harness.record import Post
from windlass_harness.views.listing import ListedRun, RunNews, SessionNews
from windlass_harness.views.runs import RUN_ENDS
from windlass_harness.views.usage import add_usage, subtract_usage
from windlass_protocol import (
    CausalIds,
    ErrorKind,
    InputOutcome,
    RetryClass,
    RunStatus,
    SessionStatus,
    Usage,
)
from windlass_protocol.frozen import frozen
from windlass_protocol.generated.records import InputResolved

ENDED: Final = frozenset(RUN_ENDS.values())
"""Statuses of an ended run."""


def status_after(facts: SessionNews, before: SessionStatus = SessionStatus.IDLE) -> SessionStatus:
    """Return the session status after an append.

    A run that never started does not change the status of a session in which another run is active.
    """
    is_new = before in (SessionStatus.IDLE, SessionStatus.PENDING)
    counted = [run for run in facts.runs if is_new or not run.is_unstarted]
    return SessionStatus(counted[-1].status.value) if counted else before


_NOT_COUNTED: Final[Mapping[str, Usage | None]] = MappingProxyType({})


def total_usage(
    usage: Usage, runs: Iterable[RunNews], *, before: Mapping[str, Usage | None] = _NOT_COUNTED
) -> Usage:
    """Return the usage of a session with the new usage of its runs; `before` is counted already."""
    for run_id, used in {run.run_id: run.usage for run in runs if run.usage is not None}.items():
        usage = add_usage(usage, used)
        counted = before.get(run_id)
        if counted is not None:
            usage = subtract_usage(usage, counted)
    return usage


@frozen
class Settlement:
    """How a request was closed."""

    outcome: InputOutcome
    option_id: str | None
    responder: str | None
    at: str
    run_id: str


def settlements_in(drafts: Iterable[Draft]) -> dict[str, Settlement]:
    """Return how records close requests of their own session, by request id."""
    settlements: dict[str, Settlement] = {}
    for draft in drafts:
        # A calling session has the resolutions of its subagents too.
        body = draft.body if draft.type == InputResolved.TYPE else None
        if isinstance(body, InputResolved) and body.child_session_id is None:
            for resolution in body.resolutions:
                response = resolution.response
                settlements[resolution.request_id] = Settlement(
                    resolution.outcome,
                    None if response is None else response.option_id,
                    None if response is None else response.responder,
                    draft.at,
                    draft.run_id or "",
                )
    return settlements


def settle_unresolved(run_id: str, *, at: str) -> Settlement:
    """Return the settlement of a request that an append closes without a resolution."""
    return Settlement(InputOutcome.CANCELLED, None, None, at, run_id)


def dump_usage(usage: Usage | None) -> str:
    """Return usage as stored text."""
    return "{}" if usage is None else to_json(usage.model_dump(mode="json", by_alias=True)).decode()


def load_usage(text: str | None) -> Usage:
    """Return stored usage; zero if there is none."""
    return Usage.model_validate(from_json(text), by_alias=True) if text and text != "{}" else NO_USAGE


CLOSED: Final = "the store is closed; unfinished runs continue when a runtime opens it again"


def too_large(what: str, size: int, *, limit: int, unit: str = "bytes") -> Rejected:
    """Return the error of a value over its limit."""
    return rejection(f"{what} too large: {size:,} {unit}, limit {limit:,}")


def rejection(message: str) -> Rejected:
    """Return the error of an invalid request."""
    return Rejected(message, kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.NOT_RETRYABLE)


def misconfiguration(message: str) -> Rejected:
    """Return the error of a wrong configuration."""
    return Rejected(
        message, kind=ErrorKind.HOST_CONFIGURATION_NEEDED, retry=RetryClass.HOST_CONFIGURATION_NEEDED
    )


def conflict(message: str, session_id: str | None = None) -> Conflict:
    """Return the error of a request that expected another state."""
    return Conflict(
        message,
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.NOT_RETRYABLE,
        causal_ids=_ids(session_id),
    )


def driving_conflict(session_id: str) -> Conflict:
    """Return the error of a request that must wait until the session is not driven."""
    return Conflict(
        f"session {session_id} is being driven: try again",
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.RETRYABLE,
        causal_ids=_ids(session_id),
    )


def in_use(session_id: str) -> Conflict:
    """Return the error of a deletion of old sessions that finds one in use."""
    return conflict(f"session {session_id} has changed since, or has an open request or an item", session_id)


def not_owned(session_id: str) -> Denied:
    """Return the error of a caller who does not own the session."""
    return Denied(
        "the session belongs to another owner: the owner of a session cannot change",
        kind=ErrorKind.POLICY_DENIAL,
        retry=RetryClass.NOT_RETRYABLE,
        causal_ids=_ids(session_id),
    )


def deletion_conflict(session_id: str) -> Conflict:
    """Return the error of a deleted session id."""
    return conflict(f"session {session_id} was deleted, and its id is not used again", session_id)


def unavailable(message: str) -> Unavailable:
    """Return the error of a store that wrote nothing and can be retried."""
    return Unavailable(message, kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.RETRYABLE)


def store_stopped(message: str) -> Unavailable:
    """Return the error of a store that wrote nothing and must be opened again."""
    return Unavailable(message, kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.REPAIR_NEEDED)


def ambiguous(message: str) -> Ambiguous:
    """Return the error of a write with an unknown outcome."""
    return Ambiguous(message, kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.REPAIR_NEEDED)


def corrupt(message: str, session_id: str | None = None) -> Corrupt:
    """Return the error of damaged data."""
    return Corrupt(
        message,
        kind=ErrorKind.RECOVERY_REPAIR_NEEDED,
        retry=RetryClass.USER_ACTION_NEEDED,
        causal_ids=_ids(session_id),
    )


def _ids(session_id: str | None) -> CausalIds | None:
    # Not validated: an error about an invalid id must not fail on that id.
    return None if session_id is None else CausalIds.model_construct(session_id=session_id)


OPEN: Final = frozenset({RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.CANCELLING})
"""Statuses of an unfinished run."""


def facts_of(info: RunInfo) -> ListedRun:
    """Return the facts of a run that lists show."""
    return ListedRun(
        info.status,
        info.agent_id,
        info.package_fingerprint,
        info.started_at,
        info.ended_at,
        None if info.status not in ENDED and info.usage == NO_USAGE else info.usage,
        info.input,
        info.output or info.error_message or info.waits_for or "",
        info.waits_on,
        info.error,
        info.crashes,
        info.tags,
        info.rating,
    )


def is_run_wanted(info: RunInfo, filters: RunFilter) -> bool:
    """Return whether a run matches a filter, apart from its words."""
    return (
        filters.session_id in (None, info.session_id)
        and (not filters.run_ids or info.run_id in filters.run_ids)
        and filters.agent_id in (None, info.agent_id)
        and filters.status in (None, info.status)
        and filters.owner in (None, info.owner)
        and not (filters.root_only and not (info.is_root or info.is_playground))
        and (filters.playground or filters.session_id is not None or not info.is_playground)
        and (filters.waits_on is None or info.waits_on in causes_of(filters.waits_on))
        and filters.fingerprint in (None, info.package_fingerprint)
        and (filters.error is None or (info.error is not None and filters.error in ("", info.error)))
        and (filters.tag is None or filters.tag in info.tags)
        and filters.rating in (None, info.rating)
        and filters.has_crashed in (None, info.crashes > 0)
        and (filters.since is None or info.at >= filters.since)
        and (filters.until is None or info.at < filters.until)
        and is_within(info.cost_micros, filters.cost_micros)
        and is_within(info.duration_ms, filters.duration_ms)
    )


def is_within(value: int, span: tuple[int | None, int | None]) -> bool:
    least, most = span
    return (least is None or value >= least) and (most is None or value <= most)


def check_fence(row: SessionRow, batch: Batch) -> None:
    """Reject a writer that is not the owner, or that expects another last record."""
    claim = batch.claim
    if row.epoch != claim.epoch or row.owner_id != claim.owner_id:
        mismatch = f"epoch {claim.epoch:,}, the session is at {row.epoch:,}"
        raise conflict(f"the claim on session {row.session_id} is stale: {mismatch}", row.session_id)
    if row.last_seq != batch.expected_seq:
        mismatch = f"ends at {row.last_seq:,}, expected {batch.expected_seq:,}"
        raise conflict(f"session {row.session_id} {mismatch}", row.session_id)


def check_revision(document: Document, stored: int, *, expected: int) -> None:
    """Refuse to write or delete a document that is not at the expected revision; 0 means: there is none."""
    if stored != expected:
        state = f"is at revision {stored}" if stored else "does not exist"
        raise conflict(f"{document.kind} {document.name} {state}, not at {expected}: read it again")


def document_json(document: Document) -> str:
    """Return the body of a document as text; Rejected if it is too large."""
    raw = to_json(document.body)
    if len(raw) > DOCUMENT_BYTES_MAX:
        raise too_large(f"{document.kind} {document.name}", len(raw), limit=DOCUMENT_BYTES_MAX)
    return raw.decode()


def check_room(waiting: int, *, kind: str) -> None:
    """Reject an item if the inbox is full; starts leave room for other items."""
    limit = INBOX_STARTS_MAX if kind == START else INBOX_ITEMS_MAX
    if waiting >= limit:
        raise too_large("inbox", waiting + 1, limit=limit, unit="items")


class Leases:
    """Judges owners by their last heartbeats.

    A heartbeat from the future was written before the clock was set back. Its owner may be alive and renew it
    soon, so it expires when it was seen for the time of a lease without a change.
    """

    def __init__(self) -> None:
        self._ahead: dict[str, tuple[int, int]] = {}
        """Heartbeats from the future, and the time at which each was seen first."""

    def is_valid(self, owner_id: str, *, beat_at_ms: int, now_ms: int) -> bool:
        """Return whether the lease of an owner is valid."""
        if beat_at_ms <= now_ms:
            self._ahead.pop(owner_id, None)
            return now_ms - beat_at_ms < OWNER_LEASE_MS
        last_beat_at_ms, since_ms = self._ahead.get(owner_id, (beat_at_ms, now_ms))
        if last_beat_at_ms != beat_at_ms or now_ms < since_ms:
            since_ms = now_ms
        self._ahead[owner_id] = beat_at_ms, since_ms
        return now_ms - since_ms < OWNER_LEASE_MS


def in_turns(queues: Sequence[Iterable[str]], limit: int) -> tuple[str, ...]:
    """Return session ids round-robin over the queues, each once.

    The queues (interrupted work, due wake-ups, new items, starts) order by different units. Round-robin keeps
    the order inside each queue and starves none.
    """
    names = (name for name in chain.from_iterable(zip_longest(*queues)) if name is not None)
    return tuple(islice(dict.fromkeys(names), limit))


def new_run_ids(batch: Batch) -> set[str]:
    """Return the run ids that a batch adds to the catalogue."""
    return {run.run_id for run, _ in batch.new_runs}


def run_of_start(post: Post) -> NewRun | None:
    """Return the run that an item for another session starts."""
    if post.kind != START:
        return None
    body = post.body
    return NewRun(str(body.get("runId")), str(body.get("agentId")), str(body.get("packageFingerprint")))
