"""Server address, credentials, limits and errors of the client."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from ipaddress import ip_address
from typing import Final, cast
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

Query = Mapping[str, str | int | bool | None]


@dataclass(frozen=True, slots=True)
class Call:
    """What is asked of a server."""

    method: str
    path: str
    _: KW_ONLY
    query: Query | None = None
    body: JsonObject | None = None
    key: str | None = None
    """The idempotency key."""
    is_repeatable: bool = True
    """Whether it may be sent again when nobody knows whether it arrived."""


def query_of(given: Mapping[str, object]) -> Query:
    """Return a typed dictionary of plain values as a query."""
    return cast(Query, given)


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


ANSWER_BYTES_MAX: Final = 64 * 1_048_576
"""One answer of a server: pages are larger than a message."""
ANSWER_LEVELS_MAX: Final = 96
PROBLEM_BYTES_MAX: Final = 65_536
"""What is read of an answer that refuses."""
EVENT_BYTES_MAX: Final = 2 * 1_048_576
"""One event of a feed, with what stands around it."""
LINE_CHARS_MAX: Final = 4 * 1_048_576
"""One line of an export."""
URL_CHARS_MAX: Final = 2_048
KEY_CHARS_MAX: Final = 16_384
"""An API key or a token."""
KEYS_KEPT_MAX: Final = 16
"""Keys that were sent, the last ones: they are taken out of what a server says."""
MASKED_CHARS_MIN: Final = 6
"""A shorter key is in any text."""
ADDRESSES_WARNED_MAX: Final = 1_000
"""Addresses of which the log has said that their keys can be read on the way."""
ID_CHARS_MAX: Final = 512
CONNECT_S: Final = 10.0
"""How long it may take to reach a server, seconds."""
ANSWER_S: Final = 60.0
"""How long a server may be silent before it has answered, seconds."""
IDLE_S: Final = 45.0
"""How long a feed may be silent, seconds; a server says within a third of it that it is alive."""
RETRY_WAIT_MS_MAX: Final = 60_000
"""A server that wants to be left alone for longer is not waited for, milliseconds."""
GAPS_MAX: Final = 3
"""A record that is missing may have been cut off; one that is missing so often in a row is not there."""
IDLE_CONNECTIONS_MAX: Final = 20
"""Connections that are kept for the next request."""

REQUESTS: Final = RetryPolicy(max_attempts=5, base_delay_ms=250, max_delay_ms=5_000)
"""How often a request is sent, and how the waits between grow."""
FEEDS: Final = RetryPolicy(max_attempts=5, base_delay_ms=250, max_delay_ms=15_000)
"""The same for the connections of a feed; one that was open once is opened again for as long as it takes."""

Key = str | Callable[[], str | None] | None
"""A key or a token, or a function that is asked for it before each request, so that it may be renewed."""

PREFIX: Final = "/v1"
_WORDS: Final = "the address of a server, such as http://localhost:8700"


@dataclass(frozen=True, slots=True)
class Address:
    """A server, and the key for it, which is shown nowhere.

    Raises:
        Rejected: it is no address, or holds a password; the message quotes nothing of it.
    """

    url: str
    key: Key = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_url(self.url)
        if isinstance(self.key, str):
            _check_key(self.key)
        elif self.key is not None and not callable(self.key):
            raise bad_request(f"key is a text or a function that returns one, found {kind_of(self.key)}")

    @property
    def base(self) -> str:
        """What the paths of all routes begin with."""
        return self.url.rstrip("/") + PREFIX

    @property
    def shown(self) -> str:
        """The address as errors name it."""
        return self.url.rstrip("/")

    @property
    def is_open_to_others(self) -> bool:
        """Whether whoever is on the way reads the key: no TLS, and another machine."""
        parts = urlsplit(self.url)
        return self.key is not None and parts.scheme == "http" and not _is_loopback(parts.hostname or "")

    def token(self) -> str | None:
        """Return what is sent along with a request.

        Raises:
            Denied: whoever has the key does not give it.
        """
        if not callable(self.key):
            return self.key
        given = self.key()
        if given is None:
            raise Denied(
                f"there is no key for {self.shown}",
                kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
                retry=RetryClass.HOST_CONFIGURATION_NEEDED,
            )
        return _check_key(given)


def check_url(url: object) -> str:
    """Return an address that requests can be sent to.

    Raises:
        Rejected: it is none; the message quotes nothing of it.
    """
    if not isinstance(url, str) or len(url) > URL_CHARS_MAX or not url.isprintable():
        raise bad_request(f"url is {_WORDS}")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise bad_request(f"url is {_WORDS}") from None
    if parts.scheme not in {"http", "https"} or not host or parts.query or parts.fragment:
        raise bad_request(f"url is {_WORDS}")
    if parts.username is not None or parts.password is not None:
        raise bad_request("url holds a name or a password: give the key as key=…")
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _check_key(key: str) -> str:
    if not key or len(key) > KEY_CHARS_MAX or not all("!" <= char <= "~" for char in key):
        raise bad_request(
            f"key is 1 to {KEY_CHARS_MAX:,} characters of ASCII without spaces, and this one is not"
        )
    return key


def path_of(kind: str, name: str, *rest: str) -> str:
    """Return the path of a thing; ids may hold anything, a slash too.

    Raises:
        Rejected: it is no id.
    """
    if not isinstance(name, str) or not 1 <= len(name) <= ID_CHARS_MAX:  # pyright: ignore[reportUnnecessaryIsInstance] callers may not be typed
        raise bad_request(f"an id is a text of 1 to {ID_CHARS_MAX} characters")
    try:
        quoted = quote(name, safe="")
    except UnicodeEncodeError:
        raise bad_request("an id holds half a character") from None
    # A dot alone, or two, would be taken for a place and not for a name.
    plain = {".": "%2E", "..": "%2E%2E"}.get(quoted, quoted)
    return "/".join(("", kind, plain, *rest))


MASK: Final = "[key]"


class KeyMask:
    """Takes the keys that were sent out of everything that comes back."""

    def __init__(self) -> None:
        self._keys: deque[str] = deque(maxlen=KEYS_KEPT_MAX)

    def add(self, key: str) -> None:
        """Keep a key that is sent; one so short that any text may hold it is no secret."""
        if len(key) >= MASKED_CHARS_MIN and key not in self._keys:
            self._keys.append(key)

    def text(self, said: str) -> str:
        """Return a text without the keys."""
        for key in self._keys:
            said = said.replace(key, MASK)
        return said

    def json(self, raw: bytes, limits: CodecLimits) -> bytes:
        """Return JSON without the keys, however its texts are written."""
        for key in self._keys:
            raw = raw.replace(key.encode(), MASK.encode())
        # A text with escapes is another one than its bytes say.
        if not self._keys or b"\\" not in raw:
            return raw
        try:
            said = parse(raw, limits)
        except CodecError:
            # Nobody reads it further.
            return raw
        masked = self._value(said)
        return raw if masked == said else to_json(masked)

    def _value(self, said: JsonValue) -> JsonValue:
        if isinstance(said, str):
            return self.text(said)
        if isinstance(said, list):
            return [self._value(one) for one in said]
        if isinstance(said, dict):
            return {self.text(name): self._value(one) for name, one in said.items()}
        return said


@dataclass(frozen=True, slots=True)
class Means:
    """Time, names and chance."""

    clock: Clock = field(default_factory=parts.SystemClock)
    new_id: IdFactory = parts.new_id
    """Makes idempotency keys."""
    chance: Random = parts.chance
    """Spreads the waits of many clients."""
