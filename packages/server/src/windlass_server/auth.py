"""Who may come in: keys, tokens, or whoever is at this machine."""

from typing import Final

from windlass.parts import Clock
from windlass_server.keys import ApiKeys
from windlass_server.principal import LOCAL, Principal
from windlass_server.problems import Problem
from windlass_server.settings import Settings, is_loopback
from windlass_server.tokens import Tokens

_SCHEME: Final = "bearer"


class Doorman:
    """Tells who a request is of, by its headers."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._is_open = settings.is_open
        self._keys = None if settings.keys is None else ApiKeys(settings.keys, clock)
        self._tokens = None if settings.jwt is None else Tokens(settings.jwt, clock)

    async def principal(self, authorization: str, host: str) -> Principal:
        """Return who asks.

        Raises:
            Problem: nobody that is known; the answer is always the same.
        """
        if self._is_open:
            return _local(host)
        scheme, _, token = authorization.partition(" ")
        found = None
        if scheme.lower() == _SCHEME and token:
            found = None if self._keys is None else self._keys.principal(token)
            if found is None and self._tokens is not None:
                found = await self._tokens.principal(token)
        if found is None:
            raise unauthenticated()
        return found


def unauthenticated() -> Problem:
    """Return the answer for everybody who is not known, whatever the reason."""
    return Problem(
        401,
        "a valid key or token is needed: Authorization: Bearer …",
        headers={"www-authenticate": 'Bearer realm="windlass"'},
    )


def _local(host: str) -> Principal:
    """Return whoever is at this machine.

    A page of some web site can make a browser ask under the site's own name, which then leads here.
    """
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if not is_loopback(name.strip("[]")):
        raise Problem(403, "without keys the server answers to localhost alone")
    return LOCAL
