"""Authentication: API keys, tokens (JWT), or, without either, the user of this machine.

An API key is a long random text; the server stores its digest. The key file is JSON and is read again when it
changes, so a key that is removed or revoked is refused from the next request on. If the file cannot be read
then, the last good content stays valid and the log has an error:

    {"keys": [{"id": "k1", "sha256": "…", "tenant": "acme", "user": "ann"}]}
"""

import asyncio
import fcntl
import hmac
import logging
import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Annotated, Final, Literal, assert_never, cast, get_args
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
from pydantic import AfterValidator, AwareDatetime, Field, ValidationError

from windlass import Rejected
from windlass.parts import Clock, new_id
from windlass_harness.ledger.names import BUILDER
from windlass_protocol import CodecError, SourceKind, SourceRef, decode
from windlass_protocol.frozen import sealed
from windlass_server.models import Text, Who, WireModel
from windlass_server.problems import Problem
from windlass_server.settings import METERS_MAX, RETRY_MS, JwtSettings, Settings, is_loopback, settings_error

NAME_PATTERN: Final = r"^[^\x00-\x1f\x7f]{1,256}$"
"""The name of a tenant or a user."""
RESERVED_USERS: Final = frozenset({BUILDER})
"""Names that no user may have: their sessions quote those of other users."""

Role = Literal["approver", "improver"]
"""A right beyond one's own sessions.

An approver sees and answers the requests of all sessions in the tenant. An improver sees, makes, checks and
settles proposals to change its agents.
"""
ROLES: Final = frozenset[str](get_args(Role))


@sealed
class Principal:
    """A user of a tenant; tenants share nothing."""

    tenant: str
    user: str
    is_operator: bool = False
    roles: frozenset[str] = frozenset()
    is_claimed: bool = False
    """Whether a token names the tenant, so that it may be new; the host names those of keys."""

    @property
    def key(self) -> str:
        """A digest that identifies this user."""
        return _principal_key(self.tenant, self.user)

    def is_one_of(self, who: Who) -> bool:
        """Whether an operation for `who` is for this user."""
        match who:
            case "public" | "user":
                return True
            case "improver":
                return "improver" in self.roles
            case "operator":
                return self.is_operator
            case _:
                assert_never(who)

    @property
    def role_names(self) -> tuple[str, ...] | None:
        """The roles as an answer to a request names them; None without any."""
        return tuple(sorted(self.roles)) or None

    @property
    def source(self) -> SourceRef:
        """The user as the source of records."""
        return SourceRef(kind=SourceKind.USER, id=self.user)


@lru_cache(maxsize=METERS_MAX)
def _principal_key(tenant: str, user: str) -> str:
    return sha256(f"{len(tenant)}:{tenant}{user}".encode()).hexdigest()


LOCAL: Final = Principal("local", "local", is_operator=True, roles=ROLES)
"""The user of this machine, on a server without keys and tokens."""


_LOG: Final = logging.getLogger("windlass.server")
_KEY: Final = re.compile(r"wl_([a-z0-9]{1,64})_([0-9a-f]{64})")
_NO_KEY: Final = sha256(b"no key").hexdigest()
"""Compared with an unknown key, so that it takes as long as a known one."""
_KeyName = Annotated[Text, Field(pattern=NAME_PATTERN)]


def _check_unreserved(user: str) -> str:
    if user in RESERVED_USERS:
        raise ValueError("this name is reserved for the server")
    return user


class KeyEntry(WireModel):
    """A key in the key file."""

    id: Annotated[Text, Field(pattern=r"^[a-z0-9]{1,64}$")]
    sha256: Annotated[Text, Field(pattern=r"^[0-9a-f]{64}$")]
    tenant: _KeyName
    user: Annotated[_KeyName, AfterValidator(_check_unreserved)]
    expires_at: AwareDatetime | None = None
    revoked: bool = False
    operator: bool = False
    """Whether its holder may read the metrics of the whole server."""
    roles: tuple[Role, ...] = ()
    """Rights of its holder in the tenant."""


class KeyFile(WireModel):
    """The key file."""

    keys: tuple[KeyEntry, ...]


@sealed
class _Read:
    stamp: tuple[int, int, int]
    entries: Mapping[str, tuple[KeyEntry, Principal]]


class ApiKeys:
    """The keys of a key file.

    Raises:
        Rejected: the file cannot be read.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._read = self._load()

    def principal(self, token: str) -> Principal | None:
        """Return the holder of a key; None if it is unknown, wrong, expired or revoked."""
        match = _KEY.fullmatch(token)
        key_id, secret = ("", token) if match is None else match.groups()
        entry, principal = self._entries().get(key_id, (None, None))
        stored_digest = _NO_KEY if entry is None else entry.sha256
        is_right = hmac.compare_digest(digest(secret), stored_digest)
        if entry is None or not is_right or entry.revoked or _is_past(entry.expires_at, self._clock.now()):
            return None
        return principal

    def _entries(self) -> Mapping[str, tuple[KeyEntry, Principal]]:
        stamp = _stamp(self._path)
        if stamp != self._read.stamp:
            try:
                self._read = self._load()
            except Rejected as error:
                # The file may be half written, or wrong: the keys that were read before stay valid.
                _LOG.error("%s; the keys that were read before stay valid", error.message)
                self._read = replace(self._read, stamp=stamp)
        return self._read.entries

    def _load(self) -> _Read:
        stamp = _stamp(self._path)
        return _Read(stamp, {entry.id: (entry, _holder(entry)) for entry in read_keys(self._path)})


def read_keys(path: Path) -> tuple[KeyEntry, ...]:
    """Return the entries of a key file; none if it does not exist, so removing it revokes all keys.

    Raises:
        Rejected: the file cannot be read.
    """
    try:
        return decode(KeyFile, path.read_bytes()).keys
    except FileNotFoundError:
        return ()
    except CodecError as error:
        problem = error.message
    except OSError as error:
        problem = error.strerror or type(error).__name__
    raise settings_error(f"the key file {path} cannot be read: {problem}")


def change_keys(path: Path, change: Callable[[tuple[KeyEntry, ...]], tuple[KeyEntry, ...]]) -> None:
    """Replace the entries of a key file at once; changes of several processes wait for each other.

    Raises:
        Rejected: the file cannot be read or written.
    """
    new = path.with_name(f"{path.name}.new")
    try:
        # The file with the next entries is the lock: its name is only used under it.
        with os.fdopen(os.open(new, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_same(new, file.fileno()):
                return change_keys(path, change)  # another process has moved it to its place
            try:
                entries = change(read_keys(path))
                file.truncate()
                file.write(
                    KeyFile(keys=entries)
                    .model_dump_json(by_alias=True, exclude_defaults=True, indent=1)
                    .encode()
                )
                file.flush()
                os.fsync(file.fileno())
                new.replace(path)
            except BaseException:
                new.unlink(missing_ok=True)
                raise
    except OSError as error:
        problem = error.strerror or type(error).__name__
        raise settings_error(f"the key file {path} cannot be written: {problem}") from None


def _is_same(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _holder(entry: KeyEntry) -> Principal:
    return Principal(entry.tenant, entry.user, is_operator=entry.operator, roles=frozenset(entry.roles))


def new_key(key_id: str, tenant: str, *, user: str) -> tuple[str, KeyEntry]:
    """Return a new key and its entry in the key file; the key itself is not stored.

    Raises:
        Rejected: the id or a name cannot be used.
    """
    # Of each id 128 bits are random; the time before them is left out.
    secret = new_id()[-32:] + new_id()[-32:]
    fields = {"id": key_id, "sha256": digest(secret), "tenant": tenant, "user": user}
    try:
        return f"wl_{key_id}_{secret}", KeyEntry.model_validate(fields)
    except ValidationError:
        pass
    raise settings_error(
        "an id is lower case letters and digits, and tenant and user are names of 1 to 256 characters "
        f"(reserved: {', '.join(RESERVED_USERS)})"
    )


def key_id_of(authorization: str) -> str | None:
    """Return the id of an API key, which is no secret; None if the header holds none."""
    match = _KEY.fullmatch(authorization.removeprefix("Bearer "))
    return match and match.group(1)


def digest(secret: str) -> str:
    """Return the digest of a key."""
    return sha256(secret.encode("utf-8", "replace")).hexdigest()


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        state = path.stat()
    except FileNotFoundError:
        return (0, 0, 0)
    except OSError:
        return (-1, 0, 0)
    return (state.st_mtime_ns, state.st_size, state.st_ino)


def _is_past(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and moment <= now


JWKS_BYTES_MAX: Final = 1_048_576
JWKS_TIMEOUT_S: Final = 5.0
JWKS_FRESH_S: Final = 300.0
"""How long the keys of an issuer are used before they are fetched again, seconds."""
JWKS_RETRY_S: Final = 10.0
"""The shortest time between two fetches for tokens with an unknown key, seconds."""
LEEWAY_S: Final = 30
"""The largest difference to the clock of the issuer, seconds."""
TOKEN_CHARS_MAX: Final = 8_192
_NAME_RE: Final = re.compile(NAME_PATTERN)
_HALF: Final = re.compile(r"[\ud800-\udfff]")
"""An unpaired surrogate, which JSON can express and UTF-8 cannot."""


def _opener() -> OpenerDirector:
    """Return an opener that uses no proxies and follows no redirects."""
    opener = OpenerDirector()
    for handler in (HTTPHandler, HTTPSHandler, HTTPErrorProcessor, HTTPDefaultErrorHandler):
        opener.add_handler(handler())
    return opener


class KeySource:
    """The public keys of an issuer, from a file or an address."""

    def __init__(self, location: str, clock: Clock) -> None:
        self._location = location
        self._clock = clock
        self._keys: Mapping[str, PyJWK] = {}
        self._asked_at: float | None = None
        self._lock = asyncio.Lock()
        address = urlsplit(location)
        self._is_address = address.scheme in ("http", "https")
        self._is_known = not self._is_address
        """Whether the keys were ever read."""
        if address.scheme == "http" and not is_loopback(address.hostname or ""):
            raise settings_error(f"the keys of an issuer are fetched by https only, found {location}")
        if not self._is_address:
            self._keys = _key_file(Path(location))

    async def key(self, key_id: str) -> PyJWK | None:
        """Return a key; None if the issuer has no key of this id.

        Raises:
            Problem: the issuer was never reached.
        """
        # A token with an unknown key waits for a fetch that is under way: it may bring the key.
        is_asking = self._lock.locked() and key_id not in self._keys
        if self._is_address and (is_asking or self._is_due(key_id)):
            async with self._lock:
                if self._is_due(key_id):
                    await self._fetch()
        if not self._is_known:
            raise Problem(
                503,
                "tokens cannot be checked: the issuer is unreachable; retry later",
                retry_s=RETRY_MS // 1000,
            )
        return self._keys.get(key_id)

    def _is_due(self, key_id: str) -> bool:
        if self._asked_at is None:
            return True
        age_s = self._clock.monotonic() - self._asked_at
        # Tokens with made-up keys must not cause requests to the issuer.
        return age_s > (JWKS_FRESH_S if key_id in self._keys else JWKS_RETRY_S)

    async def _fetch(self) -> None:
        self._asked_at = self._clock.monotonic()
        try:
            async with asyncio.timeout(JWKS_TIMEOUT_S):
                self._keys = await asyncio.to_thread(self._download)
            self._is_known = True
        except (URLError, HTTPException, OSError, jwt.PyJWTError, ValueError):
            # The known keys stay valid while the issuer is unreachable.
            return

    def _download(self) -> Mapping[str, PyJWK]:
        with _opener().open(self._location, timeout=JWKS_TIMEOUT_S) as answer:
            return _key_set(answer.read(JWKS_BYTES_MAX))


def _key_file(path: Path) -> Mapping[str, PyJWK]:
    try:
        return _key_set(path.read_bytes())
    except (OSError, ValueError, jwt.PyJWTError) as error:
        problem = type(error).__name__
    raise settings_error(f"the keys of the issuer cannot be read from {path}: {problem}")


def _key_set(raw: bytes) -> Mapping[str, PyJWK]:
    return {key.key_id: key for key in PyJWKSet.from_json(raw.decode()).keys if key.key_id is not None}


class Tokens:
    """Reads the user from a signed token."""

    def __init__(self, settings: JwtSettings, clock: Clock) -> None:
        self._settings = settings
        self._source = KeySource(settings.jwks, clock)

    async def principal(self, token: str) -> Principal | None:
        """Return the user of a token; None if the token is not valid.

        Raises:
            Problem: the issuer was never reached.
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
        if not (_is_name(tenant) and _is_name(user)) or user in RESERVED_USERS:
            return None
        roles = (
            _roles(claims.get(settings.roles_claim)) if settings.roles_claim is not None else frozenset[str]()
        )
        return Principal(cast(str, tenant), cast(str, user), roles=roles, is_claimed=True)


def _roles(claim: object) -> frozenset[str]:
    """Return the known roles in a claim: a list, or a text with spaces."""
    names = claim.split() if isinstance(claim, str) else claim
    if not isinstance(names, list):
        return frozenset()
    return ROLES & {name for name in cast(list[object], names) if isinstance(name, str)}


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME_RE.fullmatch(value) is not None and _HALF.search(value) is None


_SCHEME: Final = "bearer"


@sealed
class RequestHeaders:
    """The headers of a request that matter for authentication."""

    method: str
    host: str
    authorization: str = ""
    origin: str = ""
    """The `Origin` header: the page that makes the request."""
    site: str = ""
    """The `Sec-Fetch-Site` header: `same-origin`, `cross-site`…"""


class Doorman:
    """Authenticates requests by their headers."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._is_open = settings.is_open
        self._origins = frozenset(settings.cors_origins)
        self._keys = None if settings.keys is None else ApiKeys(settings.keys, clock)
        self._tokens = None if settings.jwt is None else Tokens(settings.jwt, clock)

    async def principal(self, headers: RequestHeaders) -> Principal:
        """Return the user who makes a request.

        Raises:
            Problem: the credentials are not valid, with the same text for every reason; or the issuer of
                tokens is unreachable.
        """
        if self._is_open:
            _check_local(headers, self._origins)
            return LOCAL
        scheme, _, token = headers.authorization.partition(" ")
        principal = None
        if scheme.lower() == _SCHEME and token:
            principal = None if self._keys is None else self._keys.principal(token)
            if principal is None and self._tokens is not None:
                principal = await self._tokens.principal(token)
        if principal is None:
            raise credentials_problem()
        return principal

    async def is_still(self, headers: RequestHeaders, principal: Principal) -> bool:
        """Whether the credentials of a request are still valid, and still of the same user."""
        try:
            return await self.principal(headers) == principal
        except Problem as problem:
            # An unreachable issuer ends no stream.
            return problem.status == HTTPStatus.SERVICE_UNAVAILABLE


def credentials_problem() -> Problem:
    """Return the response to invalid credentials; it tells no reason."""
    return Problem(
        401,
        "a valid key or token is needed: Authorization: Bearer …",
        headers={"www-authenticate": 'Bearer realm="windlass"'},
    )


def _check_local(headers: RequestHeaders, origins: Collection[str]) -> None:
    """Refuse requests that a web page makes in the browser of the user.

    A page can reach this server under its own host name (DNS rebinding), and it can send requests that need
    no CORS permission, such as a POST without a body. It cannot read the answer to a GET, but many of them
    would use up the rate limit of the user. So every method is checked, before the request is counted.
    """
    host = headers.host
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if not is_loopback(name.strip("[]")):
        raise Problem(403, "without keys the server answers requests to localhost only")
    if headers.origin in origins:
        return
    is_own = not headers.origin or _netloc(headers.origin) == host.lower()
    if not is_own or headers.site not in ("", "same-origin", "none"):
        raise Problem(
            403, "without keys, requests of pages from other origins are refused; --cors-origins allows them"
        )


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
