"""What a server can be told, and what it refuses to be."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from windlass import LLMProvider, Rejected
from windlass.ledger.goals import Goal
from windlass.refusals import check_items
from windlass_protocol import ErrorKind, RetryClass
from windlass_server import limits


@dataclass(frozen=True, slots=True)
class JwtSettings:
    """Whose tokens are taken, and what in them names the tenant and the user."""

    issuer: str
    audience: str
    jwks: str
    """A file, or an `https` address, with the public keys of the issuer."""
    tenant_claim: str = "tenant"
    user_claim: str = "sub"
    roles_claim: str | None = None
    """What in them names the roles of the user; None gives nobody any."""
    algorithms: Sequence[str] = ("RS256", "ES256", "EdDSA")


@dataclass(frozen=True, slots=True)
class ImproveSettings:
    """What proposals to change agents are made and tried with; see `windlass.ledger`.

    Raises:
        Rejected: a goal is none.
    """

    model: str | LLMProvider | None = None
    """Who thinks of changes; nobody when left out."""
    goals: Sequence[Goal] = ()
    """What runs are for: a proposal is made and tried for one of these."""

    def __post_init__(self) -> None:
        check_items(self.goals, Goal, what="goals", words="Goals")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that a host may choose; see `windlass_server.limits`."""

    body_bytes_max: int = limits.BODY_BYTES_MAX
    body_s_max: float = limits.BODY_S_MAX
    requests_max: int = limits.REQUESTS_MAX
    requests_per_principal_max: int = limits.REQUESTS_PER_PRINCIPAL_MAX
    waiting_max: int = limits.WAITING_MAX
    wait_s_max: float = limits.WAIT_S_MAX
    requests_per_s: float = limits.REQUESTS_PER_S
    requests_burst: int = limits.REQUESTS_BURST
    failures_per_s: float = limits.FAILURES_PER_S
    failures_burst: int = limits.FAILURES_BURST
    streams_max: int = limits.STREAMS_MAX
    streams_per_principal_max: int = limits.STREAMS_PER_PRINCIPAL_MAX
    tenants_open_max: int = limits.TENANTS_OPEN_MAX
    heartbeat_s: float = limits.HEARTBEAT_S
    send_s_max: float = limits.SEND_S_MAX
    reconnect_ms: int = limits.RECONNECT_MS


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server is reached, and by whom.

    Raises:
        Rejected: it would be open to everybody: neither keys nor tokens, and not bound to loopback; or the
            file of keys is not there.
    """

    host: str = "127.0.0.1"
    port: int = 8700
    keys: Path | None = None
    """A file of API keys, see `windlass_server.keys`."""
    jwt: JwtSettings | None = None
    cors_origins: Sequence[str] = ()
    """Web pages that may call the server; none when left out."""
    limits: Limits = field(default_factory=Limits)
    improve: ImproveSettings = field(default_factory=ImproveSettings)

    def __post_init__(self) -> None:
        if self.keys is None and self.jwt is None and not is_loopback(self.host):
            raise refused(
                f"{self.host} can be reached by others, and neither keys nor tokens are asked for: give a "
                "file of keys, the issuer of tokens, or bind to 127.0.0.1"
            )
        if self.keys is not None and not self.keys.is_file():
            raise refused(
                f"there is no file of keys {self.keys}: make a key with --new-key ID TENANT USER, and put "
                'what it says into the file, {"keys": [...]}'
            )
        if "*" in self.cors_origins:
            raise refused("cors_origins names pages, such as https://app.example.com; * would be everybody's")

    @property
    def is_open(self) -> bool:
        """Whether nobody is asked who they are."""
        return self.keys is None and self.jwt is None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def refused(message: str) -> Rejected:
    """Return the error of a server that cannot be set up so."""
    return Rejected(
        message, kind=ErrorKind.HOST_CONFIGURATION_NEEDED, retry=RetryClass.HOST_CONFIGURATION_NEEDED
    )
