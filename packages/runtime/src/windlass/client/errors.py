"""What a server refuses, and connections that break, as errors of Windlass.

    Rejected      NotFound         it is not there, or not yours
                  NotWindlass      what answers is no server of Windlass
                  CursorExpired    start the feed again without a cursor
    Denied        Unauthenticated  send a valid key
    Unavailable   RateLimited      wait; the client has done so several times
                  Unreachable      nobody answers; nothing was sent
    Ambiguous     Broken           the connection broke: the request may have arrived

What is not named here is one of the six classes itself. No message holds a key or a body.
"""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue, ValidationError

from windlass.errors import AgentError, Ambiguous, Conflict, Corrupt, Denied, Rejected, Unavailable
from windlass.ports.feed import CursorExpired
from windlass_protocol import CausalIds, CodecError, ErrorKind, RetryClass, parse

DETAIL_CHARS_MAX: Final = 1_000
ISSUES_MAX: Final = 3
"""Places of a request that do not fit, as an error names them."""
_EXPIRED: Final = "cursor_expired: "
_SERVER_FAILS: Final = 500


class NotFound(Rejected):
    """It is not there, or not yours: nobody can tell which."""


class NotWindlass(Rejected):
    """What answers is no server of Windlass: look at the address."""

    def __init__(self, message: str) -> None:
        super().__init__(
            message,
            kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
            retry=RetryClass.HOST_CONFIGURATION_NEEDED,
        )


class Unauthenticated(Denied):
    """The server does not know the key, or wants one."""


class RateLimited(Unavailable):
    """Too many requests; `retry_after_ms` says how long to wait."""


class Unreachable(Unavailable):
    """Nobody answers at the address; nothing was sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind=ErrorKind.EXTENSION_FAILURE, retry=RetryClass.RETRYABLE)


class Broken(Ambiguous):
    """The connection broke before the answer was there: it may have arrived."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind=ErrorKind.TIMEOUT, retry=RetryClass.NOT_RETRYABLE)


_Made = tuple[type[AgentError], ErrorKind, RetryClass]
_BY_CODE: Final[Mapping[str, _Made]] = {
    "not_found": (NotFound, ErrorKind.HOST_CONFIGURATION_NEEDED, RetryClass.NOT_RETRYABLE),
    "unauthenticated": (
        Unauthenticated,
        ErrorKind.HOST_CONFIGURATION_NEEDED,
        RetryClass.HOST_CONFIGURATION_NEEDED,
    ),
    "denied": (Denied, ErrorKind.POLICY_DENIAL, RetryClass.USER_ACTION_NEEDED),
    "conflict": (Conflict, ErrorKind.INVALID_STATE_TRANSITION, RetryClass.NOT_RETRYABLE),
    "rate_limited": (RateLimited, ErrorKind.EXTENSION_FAILURE, RetryClass.RETRYABLE),
    "unavailable": (Unavailable, ErrorKind.EXTENSION_FAILURE, RetryClass.RETRYABLE),
    "timeout": (Unavailable, ErrorKind.TIMEOUT, RetryClass.RETRYABLE),
    "ambiguous": (Ambiguous, ErrorKind.TIMEOUT, RetryClass.NOT_RETRYABLE),
    "internal": (Ambiguous, ErrorKind.EXTENSION_FAILURE, RetryClass.NOT_RETRYABLE),
    "corrupt": (Corrupt, ErrorKind.RECOVERY_REPAIR_NEEDED, RetryClass.REPAIR_NEEDED),
}
"""What the codes of the server mean here; any other one is Rejected."""
_BY_STATUS: Final[Mapping[int, str]] = {
    401: "unauthenticated",
    403: "denied",
    404: "not_found",
    408: "timeout",
    409: "conflict",
    410: "cursor_expired",
    429: "rate_limited",
    502: "ambiguous",
    503: "unavailable",
    504: "ambiguous",
}
"""What is made of an answer without a code: something before the server answered."""


def error_of(status: int, raw: bytes, *, retry_after_ms: int | None = None) -> AgentError:
    """Return the error of an answer that is no success; its body may be anything."""
    problem = _problem(raw)
    named = problem.get("code")
    code = named if isinstance(named, str) else _code_of(status)
    message = _told(problem, status)[:DETAIL_CHARS_MAX]
    if code == "cursor_expired":
        return CursorExpired(message.removeprefix(_EXPIRED))
    made, kind, retry = _BY_CODE.get(
        code, (Rejected, ErrorKind.HOST_CONFIGURATION_NEEDED, RetryClass.NOT_RETRYABLE)
    )
    return made(
        message, kind=kind, retry=retry, causal_ids=_ids(problem.get("ids")), retry_after_ms=retry_after_ms
    )


def _told(problem: Mapping[str, JsonValue], status: int) -> str:
    detail, issues = problem.get("detail"), problem.get("issues")
    told = detail if isinstance(detail, str) and detail else f"the server answered {status}"
    found = [one for one in issues if isinstance(one, dict)] if isinstance(issues, list) else []
    named = "; ".join(f"{one.get('path')}: {one.get('message')}" for one in found[:ISSUES_MAX])
    return f"{told}: {named}" if named else told


def stream_error(raw: str) -> AgentError:
    """Return the error that a stream ends with: a problem document."""
    status = _problem(raw.encode("utf-8", "replace")).get("status")
    return error_of(status if isinstance(status, int) else _SERVER_FAILS, raw.encode("utf-8", "replace"))


def _code_of(status: int) -> str:
    return _BY_STATUS.get(status, "internal" if status >= _SERVER_FAILS else "rejected")


def _problem(raw: bytes) -> Mapping[str, JsonValue]:
    try:
        found = parse(raw)
    except CodecError:
        # The status alone says enough.
        return {}
    return found if isinstance(found, dict) else {}


def _ids(value: JsonValue) -> CausalIds | None:
    try:
        return CausalIds.model_validate(value) if isinstance(value, dict) and value else None
    except ValidationError:
        return None


def is_passing(error: AgentError) -> bool:
    """Whether nothing has happened, and the same request may succeed later."""
    return isinstance(error, Unavailable) and error.retry is RetryClass.RETRYABLE
