"""McpServer and its options, limits and errors."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, Self, TypedDict, Unpack
from urllib.parse import urlsplit

from windlass.errors import check_whole, wrong
from windlass.ports.host import ElicitationHandler
from windlass.tools import ApprovalCheck
from windlass_harness.redact import SECRET_CHARS_MAX, SECRET_CHARS_MIN, Redactor
from windlass_protocol import ApprovalRule, EffectClass, ToolMode

SERVERS_MAX: Final = 32
SERVER_NAME_CHARS_MAX: Final = 32
TOOLS_PER_SERVER_MAX: Final = 256
PAGES_MAX: Final = 64
"""Pages of one listing of tools."""
DEFINITION_BYTES_MAX: Final = 131_072
"""All that a server says of one tool, as canonical JSON."""
DEFINITION_LEVELS_MAX: Final = 64
APPROVED_BYTES_MAX: Final = 64 * 1_048_576
"""The file of approved tools."""
MESSAGE_BYTES_MAX: Final = 8 * 1_048_576
"""One message of a server."""
MESSAGES_UNASKED_MAX: Final = 10_000
"""Notifications and requests of a server since we last asked it something."""
MESSAGES_WAITING_MAX: Final = 256
"""Messages to a server that does not read them."""
GARBAGE_LINES_MAX: Final = 1_000
"""Lines of one server that are no messages."""
INPUT_ROUNDS_MAX: Final = 8
"""Times that a server may ask for input in one call."""
ERROR_CHARS_MAX: Final = 500
"""What the model is told of an error, in the words of a server."""
START_TIMEOUT_MS: Final = 60_000
START_TIMEOUT_MS_MAX: Final = 600_000
LIST_TIMEOUT_MS: Final = 30_000
STOP_GRACE_S: Final = 2.0
"""For a process to end by itself after its input was closed, and again after it was told to end."""
RECONNECT_DELAY_S: Final = 1.0
"""After the second failure in a row; twice as long after each further one."""
RECONNECT_DELAY_S_MAX: Final = 60.0

_NAME: Final = re.compile(r"[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*")


class McpToolOptions(TypedDict, total=False):
    """What the host says of one tool; it beats what the server says."""

    mode: ToolMode | str
    """external when left out: the policy asks a person."""
    effect: EffectClass | str
    """once when left out: a call that a crash interrupted is not made again by itself."""
    approval: ApprovalRule | str | ApprovalCheck
    timeout_ms: int
    concurrency: int
    is_outbound: bool


class McpOptions(TypedDict, total=False):
    """What a host may say of a server."""

    trust_hints: bool
    """Whether to believe what the server says of its tools: that one only reads, say, or may be repeated."""
    tools: Mapping[str, McpToolOptions]
    """What the host says of tools, by the names that the server gives them."""
    start_timeout_ms: int
    """The longest time until the server has said which tools it has."""
    on_elicitation: ElicitationHandler
    """Asks a person what the server wants to know; everything is declined when left out."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class McpServer:
    """One MCP server: a process that is started, or an address.

    Make it with `stdio` or `http`. Arguments, environment, headers and address may hold secrets: they are
    never shown.
    """

    name: str
    _: KW_ONLY
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    options: McpOptions = field(default_factory=McpOptions)

    def __post_init__(self) -> None:
        if len(self.name) > SERVER_NAME_CHARS_MAX or not _NAME.fullmatch(self.name):
            raise wrong(
                "the name of an MCP server is letters and digits, with single _ or - between them, at most "
                f"{SERVER_NAME_CHARS_MAX} characters; found {self.name!r}"
            )
        unknown = sorted(self.options.keys() - McpOptions.__annotations__.keys())
        if unknown:
            raise wrong(f"MCP server {self.name} does not know {', '.join(unknown)}")
        check_whole(
            self.start_timeout_ms, f"MCP server {self.name}: start_timeout_ms", most=START_TIMEOUT_MS_MAX
        )

    @classmethod
    def stdio(
        cls,
        name: str,
        command: str,
        *,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        **options: Unpack[McpOptions],
    ) -> Self:
        """Name a server that is a process, started without a shell.

        It gets `env`, and of our environment only what every program needs: the path, the home, the language.
        """
        if not command or "\0" in command:
            raise wrong(f"MCP server {name}: the command is the name or path of a program")
        return cls(name, command=command, args=tuple(args), env=dict(env or {}), cwd=cwd, options=options)

    @classmethod
    def http(
        cls, name: str, url: str, *, headers: Mapping[str, str] | None = None, **options: Unpack[McpOptions]
    ) -> Self:
        """Name a server that is reached over streamable HTTP; secrets go into headers."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise wrong(f"MCP server {name}: the address begins with https:// or http:// and has a host")
        if parts.username is not None or parts.password is not None:
            raise wrong(f"MCP server {name}: put the credentials into headers, not into the address")
        return cls(name, url=url, headers=dict(headers or {}), options=options)

    def __repr__(self) -> str:
        return f"McpServer({self.name!r}, {'http' if self.url else 'stdio'})"

    @property
    def start_timeout_ms(self) -> int:
        """The longest time until the server has said which tools it has."""
        return self.options.get("start_timeout_ms", START_TIMEOUT_MS)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What the host gave to this server and nobody else should see."""
        parts = [part for value in self.headers.values() for part in (value, *value.split())]
        known = dict.fromkeys([*parts, *self.env.values()])
        return tuple(one for one in known if SECRET_CHARS_MIN <= len(one) <= SECRET_CHARS_MAX)

    @property
    def redactor(self) -> Redactor:
        """Masks the secrets in what the server says."""
        return Redactor(self.secrets)


class Trouble(Exception):
    """A request that came to nothing.

    When it `is_lost`, the connection broke or the answer cannot be read: whether the server did anything is
    not known. Otherwise the server said no.
    """

    def __init__(self, message: str, *, is_lost: bool) -> None:
        super().__init__(message)
        self.message = message
        self.is_lost = is_lost
