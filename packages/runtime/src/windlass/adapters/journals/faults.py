"""The errors that every store raises, in the same words."""

from typing import Final

from windlass.errors import Ambiguous, Conflict, Corrupt, Denied, Rejected, Unavailable
from windlass_protocol import CausalIds, ErrorKind, RetryClass

CLOSED: Final = "the store is closed; what is unfinished goes on when a runtime is opened on it again"


def too_large(what: str, found: int, *, limit: int, unit: str = "bytes") -> Rejected:
    """Return the refusal of something over its limit."""
    return rejected(f"{what} too large: {found:,} {unit}, limit {limit:,}")


def rejected(message: str) -> Rejected:
    """Return a refusal that only another request can avoid."""
    return Rejected(message, kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.NOT_RETRYABLE)


def misconfigured(message: str) -> Rejected:
    """Return a refusal that whoever runs the host can avoid."""
    return Rejected(
        message, kind=ErrorKind.HOST_CONFIGURATION_NEEDED, retry=RetryClass.HOST_CONFIGURATION_NEEDED
    )


def conflict(message: str, session_id: str | None = None) -> Conflict:
    """Return the refusal of a request that assumed another state."""
    return Conflict(
        message,
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.NOT_RETRYABLE,
        causal_ids=_ids(session_id),
    )


def driven(session_id: str) -> Conflict:
    """Return the refusal of a request that has to wait until nobody drives a session."""
    return Conflict(
        f"session {session_id} is being driven: try again",
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.RETRYABLE,
        causal_ids=_ids(session_id),
    )


def not_owned(session_id: str) -> Denied:
    """Return the refusal of somebody who speaks to a session of somebody else."""
    return Denied(
        "the session belongs to somebody else: the owner of a session never changes",
        kind=ErrorKind.POLICY_DENIAL,
        retry=RetryClass.NOT_RETRYABLE,
        causal_ids=_ids(session_id),
    )


def deleted(session_id: str) -> Conflict:
    """Return the refusal of the id of a session that was deleted."""
    return conflict(f"session {session_id} was deleted, and its id is not used again", session_id)


def unavailable(message: str) -> Unavailable:
    """Return the error of a store that did nothing and may do it later."""
    return Unavailable(message, kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.RETRYABLE)


def stopped(message: str) -> Unavailable:
    """Return the error of a store that did nothing and never will any more."""
    return Unavailable(message, kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.REPAIR_NEEDED)


def ambiguous(message: str) -> Ambiguous:
    """Return the error of a write whose outcome nobody knows."""
    return Ambiguous(message, kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.REPAIR_NEEDED)


def corrupt(message: str, session_id: str | None = None) -> Corrupt:
    """Return the error of stored data that is not what was written."""
    return Corrupt(
        message,
        kind=ErrorKind.RECOVERY_REPAIR_NEEDED,
        retry=RetryClass.USER_ACTION_NEEDED,
        causal_ids=_ids(session_id),
    )


def _ids(session_id: str | None) -> CausalIds | None:
    # Built unchecked: an error about a strange id must not fail on it.
    return None if session_id is None else CausalIds.model_construct(session_id=session_id)
