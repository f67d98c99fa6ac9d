"""Rules that every store keeps alike."""

from collections.abc import Iterable, Sequence
from itertools import chain, islice, zip_longest
from typing import Final

from windlass.adapters.journals.faults import conflict, too_large
from windlass.limits import INBOX_ITEMS_MAX, INBOX_STARTS_MAX, OWNER_LEASE_MS
from windlass.ports.store import START, Batch, NewRun, SessionRow
from windlass_harness.loop.drafts import Post
from windlass_protocol import RunStatus

OPEN: Final = frozenset({RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.CANCELLING})
"""Where a run is that has not ended."""


def check_fence(row: SessionRow, batch: Batch) -> None:
    """Refuse a writer that is not the owner or does not know the last record."""
    claim = batch.claim
    if row.epoch != claim.epoch or row.owner_id != claim.owner_id:
        found = f"epoch {claim.epoch:,}, the session is at {row.epoch:,}"
        raise conflict(f"the claim on session {row.session_id} is stale: {found}", row.session_id)
    if row.last_seq != batch.expected_seq:
        found = f"ends at {row.last_seq:,}, expected {batch.expected_seq:,}"
        raise conflict(f"session {row.session_id} {found}", row.session_id)


def check_room(waiting: int, *, kind: str) -> None:
    """Refuse an item if the inbox is full; it keeps room for what is no start."""
    limit = INBOX_STARTS_MAX if kind == START else INBOX_ITEMS_MAX
    if waiting >= limit:
        raise too_large("inbox", waiting + 1, limit=limit, unit="items")


def is_in_lease(beat_at_ms: int, now_ms: int) -> bool:
    """Tell whether an owner was heard of recently enough."""
    return now_ms - beat_at_ms < OWNER_LEASE_MS


def in_turns(queues: Sequence[Iterable[str]], limit: int) -> tuple[str, ...]:
    """Return the first of each queue, then the second of each …, every name once.

    The queues (work that stopped, times that came, items that arrived) measure waiting in units of their own;
    taking turns keeps the order inside each and lets none of them starve another.
    """
    names = (name for name in chain.from_iterable(zip_longest(*queues)) if name is not None)
    return tuple(islice(dict.fromkeys(names), limit))


def new_run_ids(batch: Batch) -> set[str]:
    """Return the runs that a batch itself enters into the catalogue."""
    return {run.run_id for run, _ in batch.new_runs}


def started_by(post: Post) -> NewRun | None:
    """Return the run that an item of another session starts."""
    if post.kind != START:
        return None
    body = post.body
    return NewRun(str(body.get("runId")), str(body.get("agentId")), str(body.get("packageFingerprint")))
