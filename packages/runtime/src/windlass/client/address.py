"""Where a server is, and what opens its door."""

from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import quote, urlsplit

from windlass.client.limits import ID_CHARS_MAX, KEY_CHARS_MAX, URL_CHARS_MAX
from windlass.definitions import kind_of
from windlass.errors import Denied
from windlass.refusals import bad_request
from windlass_protocol import ErrorKind, RetryClass

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
