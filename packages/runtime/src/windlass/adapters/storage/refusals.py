"""The errors of storages, each with its kind and whether trying again can help."""

from windlass.errors import Ambiguous, Conflict, Corrupt, Rejected, Unavailable
from windlass_protocol import ErrorKind, RetryClass


def rejected(message: str) -> Rejected:
    """The request is wrong."""
    return Rejected(message, kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.NOT_RETRYABLE)


def misconfigured(message: str) -> Rejected:
    """The database is not one that this version can work with."""
    return Rejected(
        message,
        kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
    )


def conflict(message: str) -> Conflict:
    """What is stored is not what the request assumed."""
    return Conflict(message, kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.NOT_RETRYABLE)


def unavailable(message: str) -> Unavailable:
    """Nothing happened, and a later try may succeed."""
    return Unavailable(message, kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.RETRYABLE)


def ambiguous(message: str) -> Ambiguous:
    """It may have happened."""
    return Ambiguous(message, kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.REPAIR_NEEDED)


def corrupt(message: str) -> Corrupt:
    """What is stored is damaged."""
    return Corrupt(message, kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.REPAIR_NEEDED)
