"""Signed tokens (JWT) of an issuer that the host trusts."""

import asyncio
import re
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Final, cast
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
)

import jwt
from jwt import PyJWK, PyJWKSet

from windlass.parts import Clock
from windlass_server.limits import RETRY_MS
from windlass_server.principal import KEPT_USERS, NAME_PATTERN, ROLES, Principal
from windlass_server.problems import Problem
from windlass_server.settings import JwtSettings, is_loopback, refused

JWKS_BYTES_MAX: Final = 1_048_576
JWKS_TIMEOUT_S: Final = 5.0
JWKS_FRESH_S: Final = 300.0
"""How long the keys of an issuer are taken for its present ones, seconds."""
JWKS_RETRY_S: Final = 10.0
"""How soon an issuer is asked again when a token names a key that is not known, seconds."""
LEEWAY_S: Final = 30
"""How far the clock of the issuer may be off, seconds."""
TOKEN_CHARS_MAX: Final = 8_192
_NAME: Final = re.compile(NAME_PATTERN)
_HALF: Final = re.compile(r"[\ud800-\udfff]")
"""Half a character: JSON can say it, and nothing can be called so."""


def _opener() -> OpenerDirector:
    """Return what asks an issuer itself: without proxies and redirects."""
    opener = OpenerDirector()
    for handler in (HTTPHandler, HTTPSHandler, HTTPErrorProcessor, HTTPDefaultErrorHandler):
        opener.add_handler(handler())
    return opener


class KeySource:
    """The public keys of an issuer, from a file or an address."""

    def __init__(self, place: str, clock: Clock) -> None:
        self._place = place
        self._clock = clock
        self._keys: Mapping[str, PyJWK] = {}
        self._asked_at: float | None = None
        self._lock = asyncio.Lock()
        address = urlsplit(place)
        self._is_address = address.scheme in ("http", "https")
        self._is_known = not self._is_address
        """Whether the issuer has ever said what its keys are."""
        if address.scheme == "http" and not is_loopback(address.hostname or ""):
            raise refused(f"the keys of an issuer are fetched by https, found {place}")
        if not self._is_address:
            self._keys = _key_file(Path(place))

    async def key(self, key_id: str) -> PyJWK | None:
        """Return a key; None if the issuer has none of this id.

        Raises:
            Problem: the issuer has never been reached, so nobody can tell.
        """
        # Who brings a key that is not known waits for the answer that may have it.
        is_asking = self._lock.locked() and key_id not in self._keys
        if self._is_address and (is_asking or self._is_due(key_id)):
            async with self._lock:
                if self._is_due(key_id):
                    await self._fetch()
        if not self._is_known:
            raise Problem(503, "tokens cannot be checked now: come back later", retry_s=RETRY_MS // 1000)
        return self._keys.get(key_id)

    def _is_due(self, key_id: str) -> bool:
        if self._asked_at is None:
            return True
        age_s = self._clock.monotonic() - self._asked_at
        # A token of an unknown key costs the issuer nothing, however many of them come.
        return age_s > (JWKS_FRESH_S if key_id in self._keys else JWKS_RETRY_S)

    async def _fetch(self) -> None:
        self._asked_at = self._clock.monotonic()
        try:
            async with asyncio.timeout(JWKS_TIMEOUT_S):
                self._keys = await asyncio.to_thread(self._download)
            self._is_known = True
        except (URLError, HTTPException, OSError, jwt.PyJWTError, ValueError):
            # The keys that are known go on to count: an issuer that is away locks nobody out.
            return

    def _download(self) -> Mapping[str, PyJWK]:
        with _opener().open(self._place, timeout=JWKS_TIMEOUT_S) as answer:
            return _key_set(answer.read(JWKS_BYTES_MAX))


def _key_file(path: Path) -> Mapping[str, PyJWK]:
    try:
        return _key_set(path.read_bytes())
    except (OSError, ValueError, jwt.PyJWTError) as error:
        problem = type(error).__name__
    raise refused(f"the keys of the issuer cannot be read from {path}: {problem}")


def _key_set(raw: bytes) -> Mapping[str, PyJWK]:
    return {key.key_id: key for key in PyJWKSet.from_json(raw.decode()).keys if key.key_id is not None}


class Tokens:
    """Knows who a token is of."""

    def __init__(self, settings: JwtSettings, clock: Clock) -> None:
        self._settings = settings
        self._source = KeySource(settings.jwks, clock)

    async def principal(self, token: str) -> Principal | None:
        """Return who a token is of; None if anything about it is wrong.

        Raises:
            Problem: the keys of its issuer are not known yet.
        """
        if len(token) > TOKEN_CHARS_MAX:
            return None
        settings = self._settings
        try:
            key_id = jwt.get_unverified_header(token).get("kid")
            key = await self._source.key(key_id) if isinstance(key_id, str) else None
            if key is None:
                return None
            claims = jwt.decode(
                token,
                key,
                algorithms=list(settings.algorithms),
                audience=settings.audience,
                issuer=settings.issuer,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud", settings.user_claim, settings.tenant_claim]},
            )
        except (jwt.PyJWTError, ValueError, RecursionError):
            return None
        tenant, user = claims.get(settings.tenant_claim), claims.get(settings.user_claim)
        if not (_is_name(tenant) and _is_name(user)) or user in KEPT_USERS:
            return None
        roles = (
            _roles(claims.get(settings.roles_claim)) if settings.roles_claim is not None else frozenset[str]()
        )
        return Principal(cast(str, tenant), cast(str, user), roles=roles)


def _roles(claim: object) -> frozenset[str]:
    """Return the roles of ours that a claim names, as a list or as words."""
    named = claim.split() if isinstance(claim, str) else claim
    if not isinstance(named, list):
        return frozenset()
    return ROLES & {one for one in cast(list[object], named) if isinstance(one, str)}


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None and _HALF.search(value) is None
