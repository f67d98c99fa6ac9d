"""Who may come in: keys, tokens, or whoever is at this machine."""

from collections.abc import Collection
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from windlass.parts import Clock
from windlass_server.keys import ApiKeys
from windlass_server.principal import LOCAL, Principal
from windlass_server.problems import Problem
from windlass_server.settings import Settings, is_loopback
from windlass_server.tokens import Tokens

_SCHEME: Final = "bearer"
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing; what they answer is shown to no page of another site."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request says of who makes it."""

    method: str
    host: str
    authorization: str = ""
    origin: str = ""
    """The page that makes it; browsers say so."""
    site: str = ""
    """What a browser says of that page: `same-origin`, `cross-site`…"""


class Doorman:
    """Tells who a request is of, by its headers."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._is_open = settings.is_open
        self._origins = frozenset(settings.cors_origins)
        self._keys = None if settings.keys is None else ApiKeys(settings.keys, clock)
        self._tokens = None if settings.jwt is None else Tokens(settings.jwt, clock)

    async def principal(self, asked: Asked) -> Principal:
        """Return who asks.

        Raises:
            Problem: nobody that is known, and the answer is always the same; or nobody can tell now.
        """
        if self._is_open:
            _check_local(asked, self._origins)
            return LOCAL
        scheme, _, token = asked.authorization.partition(" ")
        found = None
        if scheme.lower() == _SCHEME and token:
            found = None if self._keys is None else self._keys.principal(token)
            if found is None and self._tokens is not None:
                found = await self._tokens.principal(token)
        if found is None:
            raise unauthenticated()
        return found

    async def is_still(self, asked: Asked, principal: Principal) -> bool:
        """Whether who asked once would be let in again, as the same."""
        try:
            return await self.principal(asked) == principal
        except Problem as problem:
            # An issuer that is away locks nobody out.
            return problem.status == HTTPStatus.SERVICE_UNAVAILABLE


def unauthenticated() -> Problem:
    """Return the answer for everybody who is not known, whatever the reason."""
    return Problem(
        401,
        "a valid key or token is needed: Authorization: Bearer …",
        headers={"www-authenticate": 'Bearer realm="windlass"'},
    )


def _check_local(asked: Asked, origins: Collection[str]) -> None:
    """Refuse what whoever is at this machine did not ask for.

    A page of some web site can make a browser ask under the site's own name, which then leads here; and it
    can make it send what needs no permission, such as a POST without a body.
    """
    host = asked.host
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if not is_loopback(name.strip("[]")):
        raise Problem(403, "without keys the server answers to localhost alone")
    if asked.method in _READING or asked.origin in origins:
        return
    is_own = not asked.origin or _place(asked.origin) == host.lower()
    if not is_own or asked.site not in ("", "same-origin", "none"):
        raise Problem(403, "without keys pages of other sites may change nothing; --cors-origin names those")


def _place(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
