"""API keys: long random texts of which the server keeps a digest alone.

The file of keys is JSON. It is read again when it changes, so a key that is taken out, or marked as revoked,
is refused from the next request on. A file that cannot be read then changes nothing, and the log says so:

    {"keys": [{"id": "k1", "sha256": "…", "tenant": "acme", "user": "ann"}]}
"""

import hmac
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, AwareDatetime, Field, ValidationError

from windlass import Rejected
from windlass.parts import Clock, new_id
from windlass_protocol import CodecError, decode
from windlass_server.principal import KEPT_USERS, NAME_PATTERN, Principal, Role
from windlass_server.settings import refused
from windlass_server.wire import Text, Wire

_LOG: Final = logging.getLogger("windlass.server")
_KEY: Final = re.compile(r"wl_([a-z0-9]{1,64})_([0-9a-f]{64})")
_NOBODY: Final = sha256(b"nobody").hexdigest()
"""What an unknown key is compared with, so that it takes as long as a known one."""
_Name = Annotated[Text, Field(pattern=NAME_PATTERN)]


def _not_kept(user: str) -> str:
    if user in KEPT_USERS:
        raise ValueError("this name is kept for the server: no user is called so")
    return user


class KeyEntry(Wire):
    """One key, as the file has it."""

    id: Annotated[Text, Field(pattern=r"^[a-z0-9]{1,64}$")]
    sha256: Annotated[Text, Field(pattern=r"^[0-9a-f]{64}$")]
    tenant: _Name
    user: Annotated[_Name, AfterValidator(_not_kept)]
    expires_at: AwareDatetime | None = None
    revoked: bool = False
    operator: bool = False
    """Whether its holder may read the metrics of the whole server."""
    roles: tuple[Role, ...] = ()
    """What else its holder may do in the tenant."""


class KeyFile(Wire):
    """The file of keys."""

    keys: tuple[KeyEntry, ...]


@dataclass(frozen=True, slots=True)
class _Read:
    stamp: tuple[int, int, int]
    entries: Mapping[str, KeyEntry]


class ApiKeys:
    """Knows who holds a key.

    Raises:
        Rejected: the file of keys cannot be read.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._read = self._load()

    def principal(self, token: str) -> Principal | None:
        """Return who holds a key; None if it is unknown, wrong, expired or revoked."""
        found = _KEY.fullmatch(token)
        key_id, secret = ("", token) if found is None else found.groups()
        entry = self._entries().get(key_id)
        known = _NOBODY if entry is None else entry.sha256
        is_right = hmac.compare_digest(digest(secret), known)
        if entry is None or not is_right or entry.revoked or _is_past(entry.expires_at, self._clock.now()):
            return None
        return Principal(entry.tenant, entry.user, is_operator=entry.operator, roles=frozenset(entry.roles))

    def _entries(self) -> Mapping[str, KeyEntry]:
        stamp = _stamp(self._path)
        if stamp != self._read.stamp:
            try:
                self._read = self._load()
            except Rejected as error:
                # Somebody is writing it, or made a mistake: who had a key has it until the file says else.
                _LOG.error("%s; the keys that it held before go on to count", error.message)
                self._read = replace(self._read, stamp=stamp)
        return self._read.entries

    def _load(self) -> _Read:
        stamp = _stamp(self._path)
        try:
            entries = decode(KeyFile, self._path.read_bytes()).keys
        except FileNotFoundError:
            # Who takes the file away takes all keys away.
            return _Read(stamp, {})
        except CodecError as error:
            problem = error.message
        except OSError as error:
            problem = error.strerror or type(error).__name__
        else:
            return _Read(stamp, {entry.id: entry for entry in entries})
        raise refused(f"the file of keys {self._path} cannot be read: {problem}")


def new_key(key_id: str, tenant: str, *, user: str) -> tuple[str, KeyEntry]:
    """Return a new key and its entry in the file.

    The key is given to its holder and kept nowhere.

    Raises:
        Rejected: no key can be called so.
    """
    # Of each id 128 bits are random; the time before them is left out.
    secret = new_id()[-32:] + new_id()[-32:]
    given = {"id": key_id, "sha256": digest(secret), "tenant": tenant, "user": user}
    try:
        return f"wl_{key_id}_{secret}", KeyEntry.model_validate(given)
    except ValidationError:
        pass
    raise refused(
        "an id is small letters and digits, and tenant and user are names of 1 to 256 characters "
        f"(no user is called {' or '.join(KEPT_USERS)})"
    )


def digest(secret: str) -> str:
    """Return what the file keeps of a key."""
    return sha256(secret.encode("utf-8", "replace")).hexdigest()


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except FileNotFoundError:
        return (0, 0, 0)
    except OSError:
        return (-1, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _is_past(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and moment <= now
