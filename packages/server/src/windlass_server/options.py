"""Settings as texts: one table for `windlass serve`, `python -m windlass_server` and the docs.

The command has more of them, in `windlass_cli.settings`. No other module is imported that takes time: each
command reads its settings.
"""

from collections.abc import Callable
from math import inf
from typing import Final, cast

from windlass_protocol.frozen import sealed
from windlass_protocol.limits import OUTPUT_REPAIRS

Read = Callable[[object], str]
"""Reads a value of a setting, of a file or a text; raises ValueError with the end of "expected …"."""
SECONDS_MAX: Final = 30 * 24 * 3_600
COUNT_MAX: Final = 10**12
_DIGITS_MAX: Final = 14
"""Digits of a number that are read; more are above every limit."""
STREAMS_PER_PRINCIPAL_MAX: Final = 2_000
REQUESTS_PER_S: Final = 50.0
"""Average request rate of one user, and of one address for what needs no credentials, per second."""
REQUESTS_BURST: Final = 200
"""Burst of such requests."""
BYTES_PER_S: Final = 1_048_576.0
"""Average rate of the bytes in bodies of one tenant, per second."""
BYTES_BURST: Final = 8 * 1_048_576
"""Burst of bytes in bodies of one tenant."""
CPU_PER_S: Final = 0.5
"""CPU time of the event loop that the requests of one tenant may use on average, seconds per second."""
CPU_BURST_S: Final = 10.0
"""Burst of that CPU time, seconds."""
FAILURES_PER_S: Final = 1.0
"""Average rate of requests without valid credentials from one address, per second."""
FAILURES_BURST: Final = 60
DELTA_MS: Final = 50
"""The least time between two frames with live deltas on a stream, milliseconds."""
DELTA_MS_MAX: Final = 10_000
BACKLOG_MAX: Final = 100_000
"""Queued runs of a tenant at which further starts are refused."""
PORT_MAX: Final = 65_535
LOG_LEVELS: Final = ("debug", "info", "warning", "error")


def read_text(value: object) -> str:
    """Read a text."""
    if not isinstance(value, str):
        raise ValueError("a string")
    return value


def whole_reader(expected: str, *, least: int = 0, most: int) -> Read:
    """Return a reader of whole numbers; `expected` says what a value must be, with `least` and `most`."""

    def read(value: object) -> str:
        digits = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
        is_number = digits.isascii() and digits.isdigit()
        if not is_number or not least <= int(digits[:_DIGITS_MAX]) <= most:
            raise ValueError(expected.format(least=f"{least:,}", most=f"{most:,}"))
        return str(int(digits))

    return read


def read_rate(value: object) -> str:
    """Read a number above 0."""
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else 0.0
    except ValueError:
        number = 0.0
    if not 0 < number < inf:
        raise ValueError("a number above 0")
    return f"{number:.15g}"


def read_flag(value: object) -> str:
    """Read true or false."""
    text = str(value).lower() if isinstance(value, bool) else value
    if text not in ("true", "false"):
        raise ValueError("true or false")
    return cast(str, text)


def read_level(value: object) -> str:
    """Read a level of `LOG_LEVELS`."""
    if value not in LOG_LEVELS:
        raise ValueError(f"one of {', '.join(LOG_LEVELS)}")
    return cast(str, value)


def read_names(value: object) -> str:
    """Read a list of texts, or texts that are separated by commas; return the latter."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list):
        raise ValueError("a list of texts")
    names: list[str] = []
    for item in cast("list[object]", items):
        if not isinstance(item, str) or "," in item:
            raise ValueError("a list of texts without commas")
        names.append(item.strip())
    return ",".join(name for name in names if name)


read_seconds = whole_reader("a whole number of seconds from {least} to {most}", most=SECONDS_MAX)
read_port = whole_reader("a number from {least} to {most}; 0 chooses a free port", most=PORT_MAX)
read_count = whole_reader("a whole number from {least} to {most}", least=1, most=COUNT_MAX)


@sealed
class Setting:
    """A setting: its name, its default and how a value is read."""

    key: str
    """Its name in windlass.toml; one of the server begins with `server.`."""
    default: str
    meaning: str
    read: Read = read_text
    form: str = "TEXT"
    """What the help of an option shows for the value."""
    page: str = ""
    """The page of the docs that says more."""

    @property
    def name(self) -> str:
        """Its name without that of its table."""
        return self.key.rpartition(".")[2]

    @property
    def option(self) -> str:
        """Its option of `python -m windlass_server`, which takes those of the server."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return "WINDLASS_" + self.key.replace(".", "_").upper()


OPTIONS: Final = (
    Setting("server.host", "127.0.0.1", "the address that the server listens on"),
    Setting("server.port", "8700", "the port of the server; 0 chooses a free port", read_port, "NUMBER"),
    Setting(
        "server.keys",
        "",
        "a file of API keys; without keys and JWTs the server is for this machine",
        form="FILE",
        page="access.md",
    ),
    Setting(
        "server.jwt_issuer", "", "the issuer of accepted JWTs; needs jwt_audience and jwt_jwks", form="URL"
    ),
    Setting("server.jwt_audience", "", "the audience of accepted JWTs", form="NAME"),
    Setting(
        "server.jwt_jwks",
        "",
        "the public keys of the issuer (JWKS): a file or an https address",
        form="FILE-OR-URL",
    ),
    Setting("server.jwt_tenant_claim", "tenant", "the claim of JWTs that holds the tenant", form="NAME"),
    Setting("server.jwt_user_claim", "sub", "the claim of JWTs that holds the user", form="NAME"),
    Setting(
        "server.jwt_roles_claim",
        "",
        "the claim of JWTs that holds the roles approver and improver",
        form="NAME",
    ),
    Setting(
        "server.builder_model",
        "",
        "the model that proposes changes to agents, such as openai/gpt-5; none when empty",
        form="MODEL",
        page="improve.md",
    ),
    Setting(
        "server.own_approvals",
        "false",
        "with keys or JWTs: whether users without the role approver approve calls of their own sessions",
        read_flag,
        "true|false",
    ),
    Setting(
        "server.private_push",
        "false",
        "whether A2A clients may have push notifications sent to private networks, and without TLS",
        read_flag,
        "true|false",
    ),
    Setting(
        "server.output_repairs_max",
        f"{OUTPUT_REPAIRS}",
        "how often an answer that misses the outputSchema of a request goes back to the model",
        whole_reader("a number from {least} to {most}", most=99),
        "NUMBER",
    ),
    Setting(
        "server.cors_origins",
        "",
        "origins of web pages that may call the server, as a list or separated by commas",
        read_names,
        "URLS",
    ),
    Setting(
        "server.requests_per_s",
        f"{REQUESTS_PER_S:g}",
        "average request rate of one user, and of one address without credentials, per second",
        read_rate,
        "NUMBER",
    ),
    Setting("server.requests_burst", f"{REQUESTS_BURST}", "burst of such requests", read_count, "NUMBER"),
    Setting(
        "server.bytes_per_s",
        f"{BYTES_PER_S:.0f}",
        "average rate of the bytes in bodies of one tenant, per second",
        read_rate,
        "NUMBER",
    ),
    Setting(
        "server.bytes_burst",
        f"{BYTES_BURST}",
        "burst of bytes in bodies of one tenant",
        read_count,
        "NUMBER",
    ),
    Setting(
        "server.cpu_per_s",
        f"{CPU_PER_S:g}",
        "CPU time of the requests of one tenant, seconds per second",
        read_rate,
        "NUMBER",
    ),
    Setting("server.cpu_burst_s", f"{CPU_BURST_S:g}", "burst of that CPU time, seconds", read_rate, "NUMBER"),
    Setting(
        "server.failures_per_s",
        f"{FAILURES_PER_S:g}",
        "average rate of requests without valid credentials from one address, per second",
        read_rate,
        "NUMBER",
    ),
    Setting("server.failures_burst", f"{FAILURES_BURST}", "burst of such requests", read_count, "NUMBER"),
    Setting(
        "server.streams_per_user",
        f"{STREAMS_PER_PRINCIPAL_MAX}",
        "open streams of one user at one server",
        read_count,
        "NUMBER",
    ),
    Setting(
        "server.delta_ms",
        f"{DELTA_MS}",
        "the least time between two frames with live deltas on a stream, milliseconds; 0 sends each at once",
        whole_reader("a number from {least} to {most}", most=DELTA_MS_MAX),
        "NUMBER",
    ),
    Setting(
        "server.ready_delay_s",
        "0",
        "how long connections and streams go on after SIGTERM while /v1/ready is 503, in seconds",
        read_seconds,
        "SECONDS",
        page="operations.md#a-deploy",
    ),
    Setting(
        "server.backlog_max",
        f"{BACKLOG_MAX}",
        "queued runs of a tenant at which further starts are refused with 429",
        read_count,
        "NUMBER",
    ),
    Setting(
        "server.log_level",
        "info",
        f"the least level that is logged: {', '.join(LOG_LEVELS)}",
        read_level,
        "LEVEL",
    ),
)
"""The settings of a server, `python -m windlass_server` and `[server]` of windlass.toml."""
