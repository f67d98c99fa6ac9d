"""Server address, credentials, limits and errors of the client."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import quote, urlsplit

from pydantic import JsonValue, ValidationError
from pydantic_core import to_json

from windlass import parts
from windlass.errors import AgentError, Ambiguous, Conflict, Corrupt, Denied, Rejected, Unavailable, kind_of
from windlass.ports.clock import Clock, IdFactory, Random
from windlass.ports.feed import CursorExpired
from windlass.refusals import bad_request
from windlass_harness.retry import RetryPolicy
from windlass_protocol import CausalIds, CodecError, CodecLimits, ErrorKind, JsonObject, RetryClass, parse
from windlass_protocol.frozen import sealed

Query = Mapping[str, str | int | bool | None]


@sealed
class ServerCall:
    """One request to a server."""

    method: str
    path: str
    """With the prefix of its version, such as `/v1/sessions`."""
    _: KW_ONLY
    query: Query | None = None
    body: JsonObject | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    key: str | None = None
    """The idempotency key."""
    is_repeatable: bool = True
    """Whether it may be repeated when it is unknown whether it arrived."""


DETAIL_CHARS_MAX: Final = 1_000
ISSUES_MAX: Final = 3
"""Invalid fields of a request that an error lists."""
_EXPIRED: Final = "cursor_expired: "
_SERVER_FAILS: Final = 500


class NotFound(Rejected):
    """The resource does not exist, or belongs to another owner."""


class NotWindlass(Rejected):
    """The server at the address is not a Windlass server."""

    def __init__(self, message: str) -> None:
        super().__init__(
            message,
            kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
            retry=RetryClass.HOST_CONFIGURATION_NEEDED,
        )


class Unauthenticated(Denied):
    """The server refused the key, or requires one."""


class RateLimited(Unavailable):
    """Too many requests; `retry_after_ms` is the delay that the server asks for."""


class Unreachable(Unavailable):
    """The server cannot be reached; nothing was sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind=ErrorKind.EXTENSION_FAILURE, retry=RetryClass.RETRYABLE)


class Broken(Ambiguous):
    """The connection broke before the answer arrived: the request may have taken effect."""

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
"""Error classes by the codes of the server; any other code is Rejected."""
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
"""Error classes for an answer without a code, for example of a proxy, by HTTP status."""


def error_of(status: int, raw: bytes, *, retry_after_ms: int | None = None) -> AgentError:
    """Return the error for an unsuccessful answer; its body may be anything."""
    problem = _problem(raw)
    named_code = problem.get("code")
    code = named_code if isinstance(named_code, str) else _code_of(status)
    message = _error_message(problem, status)[:DETAIL_CHARS_MAX]
    if code == "cursor_expired":
        return CursorExpired(message.removeprefix(_EXPIRED))
    error_class, kind, retry = _BY_CODE.get(
        code, (Rejected, ErrorKind.HOST_CONFIGURATION_NEEDED, RetryClass.NOT_RETRYABLE)
    )
    if named_code == "unavailable" and retry_after_ms is None:
        # A server that will be there soon says when; this one lacks something, such as the key of a model.
        kind, retry = ErrorKind.HOST_CONFIGURATION_NEEDED, RetryClass.HOST_CONFIGURATION_NEEDED
    policy_code = problem.get("policyCode")
    return error_class(
        message,
        kind=kind,
        retry=retry,
        causal_ids=_ids(problem.get("ids")),
        retry_after_ms=retry_after_ms,
        policy_code=policy_code[:DETAIL_CHARS_MAX] if isinstance(policy_code, str) else None,
    )


def _error_message(problem: Mapping[str, JsonValue], status: int) -> str:
    detail, issues = problem.get("detail"), problem.get("issues")
    message = detail if isinstance(detail, str) and detail else f"the server answered {status}"
    fields = [issue for issue in issues if isinstance(issue, dict)] if isinstance(issues, list) else []
    faults = [f"{field.get('path')}: {field.get('message')}" for field in fields[:ISSUES_MAX]]
    # The detail of our server has the first of them.
    return "; ".join([message, *(fault for fault in faults if fault not in message)])


def stream_error(raw: str) -> AgentError:
    """Return the error that ends a stream, from its problem document."""
    status = _problem(raw.encode("utf-8", "replace")).get("status")
    shown_status = status if isinstance(status, int) else _SERVER_FAILS
    # A stream has no header that says when to come back: at once.
    return error_of(shown_status, raw.encode("utf-8", "replace"), retry_after_ms=0)


def _code_of(status: int) -> str:
    return _BY_STATUS.get(status, "internal" if status >= _SERVER_FAILS else "rejected")


def _problem(raw: bytes) -> Mapping[str, JsonValue]:
    try:
        problem = parse(raw)
    except CodecError:
        # The HTTP status is enough.
        return {}
    return problem if isinstance(problem, dict) else {}


def _ids(value: JsonValue) -> CausalIds | None:
    try:
        return CausalIds.model_validate(value) if isinstance(value, dict) and value else None
    except ValidationError:
        return None


def is_passing(error: AgentError) -> bool:
    """Whether the request had no effect and may succeed later."""
    return isinstance(error, Unavailable) and error.retry is RetryClass.RETRYABLE


ANSWER_BYTES_MAX: Final = 64 * 1_048_576
"""Size of one answer: pages are larger than a message."""
ANSWER_LEVELS_MAX: Final = 96
ANSWER_VALUES_MAX: Final = 1_000_000
"""Values of one answer: a large one is read in a thread, which takes up to a fifth of a second."""
PROBLEM_BYTES_MAX: Final = 65_536
"""Size of an error answer that is read."""
EVENT_BYTES_MAX: Final = 2 * 1_048_576
"""Size of one event of a feed, with its SSE fields."""
LINE_CHARS_MAX: Final = 4 * 1_048_576
"""Length of one line of an export."""
URL_CHARS_MAX: Final = 2_048
KEY_CHARS_MAX: Final = 16_384
"""Length of an API key or a token."""
IDEMPOTENCY_KEY_CHARS_MAX: Final = 255
"""Length of an idempotency key, as servers accept it."""
KEYS_KEPT_MAX: Final = 16
"""The number of recently sent keys that are masked in answers."""
MASKED_CHARS_MIN: Final = 6
"""A shorter key is not masked: it may occur in any text."""
ADDRESSES_WARNED_MAX: Final = 1_000
"""Addresses with a logged warning about a key sent in plain text."""
ID_CHARS_MAX: Final = 512
CONNECT_S: Final = 10.0
"""Timeout of connecting to a server, in seconds."""
ANSWER_S: Final = 60.0
"""Timeout of the first byte of an answer, in seconds."""
IDLE_S: Final = 45.0
"""Timeout of a feed without data, in seconds; a server sends a heartbeat within a third of it."""
RETRY_WAIT_MS_MAX: Final = 60_000
"""The longest Retry-After that is honoured, in milliseconds."""
GAPS_MAX: Final = 3
"""Attempts to read a missing record: one gap may be a lost connection, repeated gaps are a fault."""
IDLE_CONNECTIONS_MAX: Final = 20
"""Idle connections that are kept for the next request."""

REQUESTS: Final = RetryPolicy(max_attempts=5, base_delay_ms=250, max_delay_ms=5_000)
"""The number of attempts of a request and the delays between them."""
FEEDS: Final = RetryPolicy(max_attempts=5, base_delay_ms=250, max_delay_ms=15_000)
"""The same for the connections of a feed; a feed that was open once reconnects without a limit."""

Key = str | Callable[[], str | None] | None
"""A key or a token, or a function that returns it before each request, so that it may be renewed."""

_WORDS: Final = "the address of a server, such as http://localhost:8700"


@sealed
class ServerAddress:
    """A server and its key; the key is never shown.

    Raises:
        Rejected: the URL is not valid or contains a password; the message quotes nothing of it.
    """

    url: str
    key: Key = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_url(self.url)
        if isinstance(self.key, str):
            _check_key(self.key)
        elif self.key is not None and not callable(self.key):
            raise bad_request(
                f"key must be a string or a function that returns one, found {kind_of(self.key)}"
            )

    @property
    def shown(self) -> str:
        """The address before all paths, also for error messages."""
        return self.url.rstrip("/")

    @property
    def is_open_to_others(self) -> bool:
        """Whether the key can be read in transit: no TLS, and another machine."""
        parts = urlsplit(self.url)
        return self.key is not None and parts.scheme == "http" and not _is_loopback(parts.hostname or "")

    def token(self) -> str | None:
        """Return the key to send with a request.

        Raises:
            Denied: the key function did not return a key.
        """
        if not callable(self.key):
            return self.key
        key = self.key()
        if key is None:
            raise Denied(
                f"no key for {self.shown}",
                kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
                retry=RetryClass.HOST_CONFIGURATION_NEEDED,
            )
        return _check_key(key)


def check_url(url: object) -> str:
    """Return a valid server URL.

    Raises:
        Rejected: it is not valid; the message quotes nothing of it.
    """
    if not isinstance(url, str) or len(url) > URL_CHARS_MAX or not url.isprintable():
        raise bad_request(f"url must be {_WORDS}")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise bad_request(f"url must be {_WORDS}") from None
    if parts.scheme not in {"http", "https"} or not host or parts.query or parts.fragment:
        raise bad_request(f"url must be {_WORDS}")
    if parts.username is not None or parts.password is not None:
        raise bad_request("url contains a user name or a password: pass the key as key=…")
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _check_key(key: str) -> str:
    if not key or len(key) > KEY_CHARS_MAX or not all("!" <= char <= "~" for char in key):
        raise bad_request(f"key must be 1 to {KEY_CHARS_MAX:,} ASCII characters without spaces")
    return key


def path_of(template: str, *ids: str) -> str:
    """Return a path with its ids in the places `{}`; ids may contain any character, even a slash.

    Raises:
        Rejected: an id is not valid.
    """
    return template.format(*map(_quote, ids))


def _quote(name: str) -> str:
    if not isinstance(name, str) or not 1 <= len(name) <= ID_CHARS_MAX:  # pyright: ignore[reportUnnecessaryIsInstance] callers may not be typed
        raise bad_request(f"an id must be a string of 1 to {ID_CHARS_MAX} characters")
    try:
        quoted = quote(name, safe="")
    except UnicodeEncodeError:
        raise bad_request("an id contains a lone surrogate") from None
    # `.` and `..` would be resolved as path segments.
    return {".": "%2E", "..": "%2E%2E"}.get(quoted, quoted)


MASK: Final = "[key]"


class KeyMask:
    """Masks the sent keys in everything that a server returns."""

    def __init__(self) -> None:
        self._keys: deque[str] = deque(maxlen=KEYS_KEPT_MAX)

    def add(self, key: str) -> None:
        """Remember a sent key; a very short one is not masked, because any text may contain it."""
        if len(key) >= MASKED_CHARS_MIN and key not in self._keys:
            self._keys.append(key)

    def text(self, text: str) -> str:
        """Return a text with the keys masked."""
        for key in tuple(self._keys):
            text = text.replace(key, MASK)
        return text

    def json(self, raw: bytes, limits: CodecLimits) -> bytes:
        """Return JSON with the keys masked, also where its strings use escapes."""
        # A thread may mask a large answer while a request adds a key.
        for key in tuple(self._keys):
            raw = raw.replace(key.encode(), MASK.encode())
        # A string with escapes differs from its bytes.
        if not self._keys or b"\\" not in raw:
            return raw
        try:
            value = parse(raw, limits)
        except CodecError:
            # It is not JSON and is not parsed further.
            return raw
        masked = self._value(value)
        return raw if masked == value else to_json(masked)

    def _value(self, value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(name): self._value(item) for name, item in value.items()}
        return value


@sealed
class Means:
    """Clock, id factory and random source."""

    clock: Clock = field(default_factory=parts.SystemClock)
    new_id: IdFactory = parts.new_id
    """Makes idempotency keys."""
    chance: Random = parts.chance
    """Random source for the jitter of delays."""
