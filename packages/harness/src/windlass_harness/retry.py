"""Retry rules: error classification, whether to retry, and the delay.

A retry class says only that another attempt *can* help. Whether it is *allowed* depends on the effect class
of the call: a tool with a non-repeatable effect is never repeated automatically.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import ceil, floor
from typing import Final, Literal, get_args

from windlass_protocol import RetryClass
from windlass_protocol.frozen import sealed

FailureKind = Literal["timeout", "connection", "truncated", "malformed", "invalid_output", "cancelled"]

DELAY_MS_MAX: Final = 2**31 - 1  # the longest wait that a timer of every platform can hold, about 24 days
RETRY_AFTER_MS_MAX: Final = 3_600_000
RETRY_AFTER_CHARS_MAX: Final = 64
_DOUBLINGS_MAX: Final = 31  # one millisecond doubled this often is above DELAY_MS_MAX


@sealed
class RetryPolicy:
    """The number of attempts and the growth of the delays.

    `jitter` spreads the delays of many callers. It needs a random source: without an `rng`,
    `next_retry_delay_ms` applies no jitter.

    Raises:
        ValueError: an attempt count under 1, or a delay that is negative or above `DELAY_MS_MAX`.
    """

    max_attempts: int = 3
    base_delay_ms: int = 200
    max_delay_ms: int = 5000
    jitter: bool = True

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError(f"max_attempts must be 1 or more, found {self.max_attempts}; 1 never retries")
        for name, delay_ms in (("base_delay_ms", self.base_delay_ms), ("max_delay_ms", self.max_delay_ms)):
            if not 0 <= delay_ms <= DELAY_MS_MAX:
                raise ValueError(f"{name} must be from 0 to {DELAY_MS_MAX}, found {delay_ms}")


@sealed
class ErrorFacts:
    """The facts of a failure that an adapter knows: HTTP status, provider's code, kind.

    Raises:
        ValueError: the kind is not in `FailureKind`.
    """

    status: int | None = None
    code: str | None = None
    kind: FailureKind | None = None

    def __post_init__(self) -> None:
        kinds: tuple[str, ...] = get_args(FailureKind)
        if self.kind is not None and self.kind not in kinds:
            raise ValueError(
                f"kind must be one of {', '.join(kinds)}, found {self.kind!r}; use None if none of them fits"
            )


def next_retry_delay_ms(
    policy: RetryPolicy,
    attempt: int,
    rng: Callable[[], float] | None = None,
    *,
    retry_after_ms: int | None = None,
) -> int:
    """Return the delay after failed attempt number `attempt` (from 1).

    The base delay doubles with each attempt up to the policy's maximum. Jitter multiplies it by 0.8 to 1.2
    and never lifts it above the maximum; `rng` returns a float in [0, 1), and without it there is no jitter.
    A server's Retry-After is a floor, even above the maximum, but only up to `RETRY_AFTER_MS_MAX`.
    """
    doublings = min(max(attempt, 1) - 1, _DOUBLINGS_MAX)
    delay_ms = min(policy.base_delay_ms * 2**doublings, policy.max_delay_ms)
    if policy.jitter and rng is not None:
        delay_ms = min(floor(delay_ms * (0.8 + 0.4 * rng())), policy.max_delay_ms)
    return max(delay_ms, min(retry_after_ms or 0, RETRY_AFTER_MS_MAX))


def should_retry(policy: RetryPolicy, attempt: int, *, retry_class: RetryClass) -> bool:
    """Return whether to try again after failed attempt number `attempt` (from 1)."""
    return retry_class == RetryClass.RETRYABLE and max(attempt, 1) < policy.max_attempts


def parse_retry_after_ms(value: str, *, now: datetime) -> int | None:
    """Parse a Retry-After header: seconds or an HTTP date; None if it is neither.

    Negative seconds and dates in the past are 0; the result is at most `DELAY_MS_MAX`. `now` must be aware.
    """
    text = value.strip(" \t")
    if len(text) > RETRY_AFTER_CHARS_MAX:
        return None
    if _SECONDS.fullmatch(text):
        return max(0, ceil(min(float(text) * 1000, DELAY_MS_MAX)))
    date = _http_date(text, now)
    if date is None:
        return None
    wait_ms = -((now - date) // timedelta(milliseconds=1))
    return min(max(0, wait_ms), DELAY_MS_MAX)


def classify_error(facts: ErrorFacts) -> RetryClass:
    """Return the retry class of a failure.

    The provider's code is the most exact and is used first, then the status, then the kind. Codes are
    compared whole, ignoring case. An unknown failure is not retryable.
    """
    by_code = _BY_CODE.get(facts.code.lower()) if facts.code else None
    by_status = _class_of_status(facts.status) if facts.status else None
    by_kind = _BY_KIND[facts.kind] if facts.kind else None
    return by_code or by_status or by_kind or RetryClass.NOT_RETRYABLE


def _class_of_status(status: int) -> RetryClass | None:
    """Ignore a status below 400: the failure came after it, and its kind classifies it."""
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= 500:
        return RetryClass.RETRYABLE
    return RetryClass.NOT_RETRYABLE if status >= 400 else None


def _http_date(text: str, now: datetime) -> datetime | None:
    """Parse the three date formats that RFC 9110 requires every recipient to accept."""
    match = _DATE.fullmatch(text) or _ASCTIME.fullmatch(text)
    if match is None or match["month"] not in _MONTHS:
        return None
    year = int(match["year"])
    if len(match["year"]) == 2:
        # RFC 9110: a two-digit year that seems more than 50 years ahead is in the past century.
        year += now.year // 100 * 100
        year -= 100 if year > now.year + 50 else 0
    month = _MONTHS.index(match["month"]) + 1
    second = min(int(match["second"]), 59)  # datetime has no leap second
    try:
        return datetime(
            year, month, int(match["day"]), int(match["hour"]), int(match["minute"]), second, tzinfo=UTC
        )
    except ValueError:
        return None


_SECONDS: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_TIME: Final = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-5][0-9]|60)"
_DATE: Final = re.compile(
    rf"[A-Z][a-z]{{2,8}}, (?P<day>[0-9]{{2}})[ -](?P<month>[A-Z][a-z]{{2}})[ -]"
    rf"(?P<year>[1-9][0-9]{{3}}|[0-9]{{2}}) {_TIME} GMT"
)
_ASCTIME: Final = re.compile(
    rf"[A-Z][a-z]{{2}} (?P<month>[A-Z][a-z]{{2}}) (?P<day>[ 0-9][0-9]) {_TIME} (?P<year>[1-9][0-9]{{3}})"
)
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_BY_KIND: Final[dict[FailureKind, RetryClass]] = {
    "timeout": RetryClass.RETRYABLE,
    "connection": RetryClass.RETRYABLE,
    "truncated": RetryClass.RETRYABLE,
    "malformed": RetryClass.RETRYABLE,
    "invalid_output": RetryClass.REPAIR_NEEDED,
    "cancelled": RetryClass.NOT_RETRYABLE,
}

_BY_STATUS: Final[dict[int, RetryClass]] = {
    401: RetryClass.HOST_CONFIGURATION_NEEDED,
    402: RetryClass.USER_ACTION_NEEDED,
    403: RetryClass.HOST_CONFIGURATION_NEEDED,
    407: RetryClass.HOST_CONFIGURATION_NEEDED,
    408: RetryClass.RETRYABLE,
    409: RetryClass.RETRYABLE,
    413: RetryClass.REPAIR_NEEDED,
    425: RetryClass.RETRYABLE,
    429: RetryClass.RETRYABLE,
}

_CODES: Final[dict[RetryClass, str]] = {
    RetryClass.RETRYABLE: """
        rate_limit_exceeded rate_limit_error overloaded overloaded_error server_error api_error timeout_error
        resource_exhausted unavailable deadline_exceeded internal aborted throttlingexception
        serviceunavailableexception internalserverexception modeltimeoutexception modelnotreadyexception
        modelerrorexception modelstreamerrorexception
        econnreset econnrefused econnaborted epipe etimedout ehostunreach enetunreach enotfound eai_again
    """,
    RetryClass.NOT_RETRYABLE: """
        invalid_request_error not_found_error model_not_found invalid_argument validationexception
        content_filter content_policy_violation
    """,
    RetryClass.REPAIR_NEEDED: """
        context_length_exceeded model_context_window_exceeded request_too_large string_above_max_length
        invalid_tool_arguments
    """,
    RetryClass.USER_ACTION_NEEDED: """
        insufficient_quota billing_error billing_hard_limit_reached billing_not_active
    """,
    RetryClass.HOST_CONFIGURATION_NEEDED: """
        invalid_api_key authentication_error permission_error permission_denied unauthenticated
        accessdeniedexception unrecognizedclientexception
    """,
}
_BY_CODE: Final[dict[str, RetryClass]] = {
    code: retry_class for retry_class, codes in _CODES.items() for code in codes.split()
}
