"""Settings of a server, and every limit with its unit."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Self

from windlass import LLMProvider, Rejected
from windlass.ledger.goals import Goal
from windlass.refusals import check_items
from windlass_protocol import ErrorKind, RetryClass
from windlass_protocol.frozen import sealed
from windlass_protocol.limits import MESSAGE_BYTES_MAX, OUTPUT_REPAIRS
from windlass_server.options import (
    BACKLOG_MAX,
    BYTES_BURST,
    BYTES_PER_S,
    CPU_BURST_S,
    CPU_PER_S,
    DELTA_MS,
    FAILURES_BURST,
    FAILURES_PER_S,
    LOG_LEVELS,
    OPTIONS,
    REQUESTS_BURST,
    REQUESTS_PER_S,
    STREAMS_PER_PRINCIPAL_MAX,
    Setting,
)

BODY_BYTES_MAX: Final = MESSAGE_BYTES_MAX
"""The body of one request."""
BODY_DISCARD_BYTES_MAX: Final = 8 * 1_048_576
"""Bytes of a body beyond the limit that are read and discarded, so that the client sees the response."""
BODY_VALUES_MAX: Final = 20_000
"""Values in the body of one request, counted by its commas and opening brackets."""
BODY_S_MAX: Final = 10.0
"""How long a client may take to send a body, seconds."""
HEADER_BYTES_MAX: Final = 16_384
"""All headers of one request together."""
LINGER_S: Final = 2.0
"""How long a connection stays open for a client that is still sending a refused body, seconds."""
HEAD_S_MAX: Final = 10.0
"""How long a client may take to send the request line and the headers, seconds."""
TARGET_BYTES_MAX: Final = 8_192
"""Path and query of one request."""
KEY_CHARS_MAX: Final = 255
"""An idempotency key."""
FILES_MAX: Final = 65_536
"""Files that the process lets itself open, if the system allows so many."""
FILES_PER_CONNECTION: Final = 2
"""Files that the process keeps for each connection that it accepts, its socket among them."""
REQUESTS_MAX: Final = 256
"""Concurrent requests; open streams do not count."""
REQUESTS_PER_PRINCIPAL_MAX: Final = REQUESTS_MAX // 4
"""Concurrent requests of one user; further ones wait."""
WAITING_MAX: Final = 4_096
"""Requests that wait for a slot."""
WAIT_S_MAX: Final = 5.0
"""How long a request waits for a slot before it is refused, seconds."""
STREAMS_MAX: Final = 20_000
"""Open streams of the whole server."""
METERS_MAX: Final = 10_000
"""Users and addresses in a rate limiter; the least recent is forgotten."""
TENANTS_OPEN_MAX: Final = 256
"""Tenants that are open at the same time."""
SESSIONS_EMPTY_MAX: Final = 1_000
"""Reserved sessions of one user that have no message yet."""
SCHEDULES_MAX: Final = 100
"""Schedules of one user: their runs do not count for the rate limits."""
KEYS_KEPT_S: Final = 7 * 86_400
"""How long an idempotency key is remembered at least, with the answer to its request, seconds."""
ANSWER_KEPT_BYTES_MAX: Final = 131_072
"""An answer that is kept with its key; the request of a larger one is carried out again."""
HEARTBEAT_S: Final = 15.0
"""Silence on a stream before a heartbeat, seconds."""
BATCH_BYTES: Final = 65_536
"""Bytes of events that are sent in one chunk."""
SEND_S_MAX: Final = 30.0
"""How long a client may not read before it is disconnected, seconds."""
TRANSPORT_EVENTS_MAX: Final = 256
"""Unsent events of a `FastAPISseTransport` before `emit` waits."""
RECONNECT_MS: Final = 1_000
"""Delay before a client reconnects, milliseconds."""
RETRY_MS: Final = 1_000
"""The default of Retry-After, milliseconds."""
PAGE_MAX: Final = 200
"""Items on one page of a list."""
PAGE_DEFAULT: Final = 50
FRAMES_MAX: Final = 1_024
"""Encoded events that are cached for streams of the same event."""
FRAMES_BYTES_MAX: Final = 8 * 1_048_576
"""Bytes of that cache; an event larger than a chunk is not cached."""
OWNERS_KNOWN_MAX: Final = 4_096
"""Owners of sessions that a feed over all sessions remembers."""
OWNED_READ_AHEAD_MAX: Final = 256
"""Events that such a feed reads ahead."""
TYPES_MAX: Final = 64
"""Event types in the filter of such a feed."""
REPLAY_PAUSE_S: Final = 5.0
"""The default of the longest pause in a replay, seconds."""
REPLAY_PAUSE_S_MAX: Final = 60.0
"""The largest value of it, seconds."""
WORKS_MAX: Final = 4
"""Proposals of a tenant that are made or checked at the same time."""
WORKS_KEPT_MAX: Final = 100
"""Of those and of failed ones, the number that is remembered."""
THREAD_MESSAGES_MAX: Final = 4_000
"""Messages in one request of a chat client; only the last one is used."""
THREAD_ANSWERS_MAX: Final = 64
"""Answers in one request of a chat client."""
THREAD_REWINDS_MAX: Final = 64
"""Regenerated answers and edited messages of one chat."""
THREAD_GAP_MAX: Final = 4
"""Deleted sessions in a row of one chat after which later ones are still found."""
THREAD_RUNS_SEARCHED_MAX: Final = 5
"""Newest runs of a session that are searched for the request that a chat client answers."""
REQUESTS_END_S: Final = 5
"""How long a shutdown waits for open requests after the drain, seconds."""


SLOW_S: Final = 1.0
"""Requests that take longer are logged, streams excepted, seconds."""


@sealed
class JwtSettings:
    """The issuer of tokens, and the claims with tenant, user and roles.

    Raises:
        Rejected: an algorithm has no public keys.
    """

    issuer: str
    audience: str
    jwks: str
    """A file, or an `https` address, with the public keys of the issuer."""
    tenant_claim: str = "tenant"
    user_claim: str = "sub"
    roles_claim: str | None = None
    """The claim with the roles of the user; None gives no roles."""
    algorithms: Sequence[str] = ("RS256", "ES256", "EdDSA")

    def __post_init__(self) -> None:
        # The keys are published: with HMAC, all who read them could make tokens.
        shared = [name for name in self.algorithms if name.upper().startswith("HS") or name.lower() == "none"]
        if shared:
            raise settings_error(
                f"the algorithm {shared[0]} of tokens has no public keys; use RS256, ES256 or EdDSA, which do"
            )


@sealed
class ImproveSettings:
    """The model and the goals for proposals to change agents; see `windlass.ledger`.

    Raises:
        Rejected: an item of `goals` is not a Goal.
    """

    model: str | LLMProvider | None = None
    """The model that proposes changes; without one the server proposes none."""
    goals: Sequence[Goal] = ()
    """The goals that proposals can be made and checked for."""

    def __post_init__(self) -> None:
        check_items(self.goals, Goal, what="goals", words="Goals")


@sealed
class Limits:
    """The limits that a host may choose."""

    body_bytes_max: int = BODY_BYTES_MAX
    body_s_max: float = BODY_S_MAX
    requests_max: int = REQUESTS_MAX
    requests_per_principal_max: int = REQUESTS_PER_PRINCIPAL_MAX
    waiting_max: int = WAITING_MAX
    wait_s_max: float = WAIT_S_MAX
    requests_per_s: float = REQUESTS_PER_S
    requests_burst: int = REQUESTS_BURST
    bytes_per_s: float = BYTES_PER_S
    bytes_burst: int = BYTES_BURST
    cpu_per_s: float = CPU_PER_S
    cpu_burst_s: float = CPU_BURST_S
    failures_per_s: float = FAILURES_PER_S
    failures_burst: int = FAILURES_BURST
    streams_max: int = STREAMS_MAX
    streams_per_principal_max: int = STREAMS_PER_PRINCIPAL_MAX
    tenants_open_max: int = TENANTS_OPEN_MAX
    heartbeat_s: float = HEARTBEAT_S
    send_s_max: float = SEND_S_MAX
    reconnect_ms: int = RECONNECT_MS
    delta_ms: int = DELTA_MS
    """The least time between two frames with live deltas on a stream; 0 sends each at once."""
    output_repairs_max: int = OUTPUT_REPAIRS
    """How often an answer that misses the `outputSchema` of a request goes back to the model."""
    backlog_max: int = BACKLOG_MAX
    """Queued runs of a tenant at which further starts are refused."""


@sealed
class Settings:
    """The settings of a server: its address and its authentication.

    Raises:
        Rejected: the address is not a loopback address and there are neither keys nor tokens, the key file
            does not exist, the CORS origins contain `*`, or the log level is unknown.
    """

    host: str = "127.0.0.1"
    port: int = 8700
    keys: Path | None = None
    """The key file, see `windlass_server.auth`."""
    jwt: JwtSettings | None = None
    cors_origins: Sequence[str] = ()
    """Origins of web pages that may call the server."""
    own_approvals: bool = False
    """Whether users without the role approver may approve calls of their own sessions.

    A server without keys and tokens has one user, who may.
    """
    private_push: bool = False
    """Whether A2A clients may give any address for push notifications.

    Otherwise an address is https on the public internet; a server without keys and tokens also takes
    addresses of this machine.
    """
    log_level: str = "info"
    """The least level of `LOG_LEVELS` that `serve` logs."""
    ready_delay_s: float = 0.0
    """How long connections and streams go on after SIGTERM while `/v1/ready` is 503."""
    limits: Limits = field(default_factory=Limits)
    improve: ImproveSettings = field(default_factory=ImproveSettings)

    def __post_init__(self) -> None:
        if self.keys is None and self.jwt is None and not is_loopback(self.host):
            raise settings_error(
                f"{self.host} is reachable from other machines, and there are neither keys nor tokens: give "
                "a key file, the issuer of tokens, or bind to 127.0.0.1"
            )
        if self.keys is not None and not self.keys.is_file():
            raise settings_error(
                f"there is no key file {self.keys}: make a key with windlass keys add ID USER --tenant TENANT"
            )
        if "*" in self.cors_origins:
            raise settings_error(
                "cors_origins lists origins such as https://app.example.com; * is not allowed"
            )
        if self.log_level not in LOG_LEVELS:
            raise settings_error(f"log_level is one of {', '.join(LOG_LEVELS)}, found {self.log_level!r}")

    @classmethod
    def read(
        cls, values: Mapping[str, str], *, folder: Path | None = None, goals: Sequence[Goal] = ()
    ) -> Self:
        """Return the settings that texts give, by the names of `OPTIONS`; an empty text is the default.

        `folder` is where a relative path of the key file starts; the working directory when left out.

        Raises:
            Rejected: a value cannot be used, or only a part of what tokens need is given.
        """
        texts = {option.name: _read_text(option, values.get(option.name) or "") for option in OPTIONS}
        return cls(
            host=texts["host"],
            port=int(texts["port"]),
            keys=(folder or Path()) / texts["keys"] if texts["keys"] else None,
            jwt=_jwt(texts),
            cors_origins=tuple(filter(None, texts["cors_origins"].split(","))),
            own_approvals=texts["own_approvals"] == "true",
            private_push=texts["private_push"] == "true",
            log_level=texts["log_level"],
            ready_delay_s=float(texts["ready_delay_s"]),
            limits=_limits(texts),
            improve=ImproveSettings(texts["builder_model"] or None, goals),
        )

    @property
    def is_open(self) -> bool:
        """Whether the server asks for no credentials."""
        return self.keys is None and self.jwt is None


def _read_text(option: Setting, text: str) -> str:
    try:
        return option.read(text or option.default)
    except ValueError as error:
        problem = str(error)
    raise settings_error(f"{option.name} is {problem}, found {text!r}")


def _limits(texts: Mapping[str, str]) -> Limits:
    """Return the limits with the rates that are given."""
    return Limits(
        requests_per_s=float(texts["requests_per_s"]),
        requests_burst=int(texts["requests_burst"]),
        bytes_per_s=float(texts["bytes_per_s"]),
        bytes_burst=int(texts["bytes_burst"]),
        cpu_per_s=float(texts["cpu_per_s"]),
        cpu_burst_s=float(texts["cpu_burst_s"]),
        failures_per_s=float(texts["failures_per_s"]),
        failures_burst=int(texts["failures_burst"]),
        streams_per_principal_max=int(texts["streams_per_user"]),
        delta_ms=int(texts["delta_ms"]),
        backlog_max=int(texts["backlog_max"]),
        output_repairs_max=int(texts["output_repairs_max"]),
    )


def _jwt(texts: Mapping[str, str]) -> JwtSettings | None:
    needed = ("jwt_issuer", "jwt_audience", "jwt_jwks")
    missing = [name for name in needed if not texts[name]]
    if len(missing) == len(needed):
        return None
    if missing:
        raise settings_error(f"tokens need all of {', '.join(needed)}: {' and '.join(missing)} not given")
    return JwtSettings(
        *(texts[name] for name in needed),
        tenant_claim=texts["jwt_tenant_claim"],
        user_claim=texts["jwt_user_claim"],
        roles_claim=texts["jwt_roles_claim"] or None,
    )


def is_loopback(host: str) -> bool:
    """Whether an address is a loopback address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def settings_error(message: str) -> Rejected:
    """Return the error of settings that cannot be used."""
    return Rejected(
        message, kind=ErrorKind.HOST_CONFIGURATION_NEEDED, retry=RetryClass.HOST_CONFIGURATION_NEEDED
    )
