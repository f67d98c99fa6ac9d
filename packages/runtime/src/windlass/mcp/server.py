"""McpServer and its options, limits and errors."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, field
from pathlib import Path
from typing import Final, Self, TypedDict, Unpack
from urllib.parse import urlsplit

from windlass.errors import check_whole, wrong
from windlass.ports.host import ElicitationHandler
from windlass.tools import ApprovalCheck, ApprovalName, EffectName, ModeName
from windlass_harness.redact import SECRET_CHARS_MAX, SECRET_CHARS_MIN, Redactor
from windlass_protocol import ApprovalRule, EffectClass, ToolMode
from windlass_protocol.frozen import sealed

SERVERS_MAX: Final = 32
SERVER_NAME_CHARS_MAX: Final = 32
TOOLS_PER_SERVER_MAX: Final = 256
PAGES_MAX: Final = 64
"""Pages of one listing of tools."""
DEFINITION_BYTES_MAX: Final = 131_072
"""The whole description of one tool, as canonical JSON."""
DEFINITION_LEVELS_MAX: Final = 64
APPROVED_BYTES_MAX: Final = 64 * 1_048_576
"""The file of approved tools."""
MESSAGE_BYTES_MAX: Final = 8 * 1_048_576
"""One message of a server."""
MESSAGE_VALUES_MAX: Final = 100_000
"""Values in one message of a server, counted before they are read."""
RESULT_PARTS_MAX: Final = 1_000
"""Parts in the content of one result."""
RESULT_LEVELS_MAX: Final = 160
"""Levels of one result; a schema has two for each level of what it describes."""
MESSAGES_UNASKED_MAX: Final = 10_000
"""Unsolicited notifications and requests of a server since our last request."""
MESSAGES_WAITING_MAX: Final = 256
"""Queued messages to a server that does not read them."""
GARBAGE_LINES_MAX: Final = 1_000
"""Lines of one server that are not messages."""
INPUT_ROUNDS_MAX: Final = 8
"""Input requests of a server in one call."""
ERROR_CHARS_MAX: Final = 500
"""Characters of a server's error message that the model sees."""
START_TIMEOUT_MS: Final = 60_000
START_TIMEOUT_MS_MAX: Final = 600_000
LIST_TIMEOUT_MS: Final = 30_000
STOP_GRACE_S: Final = 2.0
"""How long a process may take to exit after its input was closed, and again after SIGTERM."""
RECONNECT_DELAY_S: Final = 1.0
"""Delay after the second failure in a row; it doubles with each further one."""
RECONNECT_DELAY_S_MAX: Final = 60.0

_NAME: Final = re.compile(r"[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*")


class McpToolOptions(TypedDict, total=False):
    """Options of one tool by the host application; they override those of the server."""

    mode: ToolMode | ModeName
    """Default external: the policy asks a person."""
    effect: EffectClass | EffectName
    """Default once: a call that a crash interrupted is not repeated automatically."""
    approval: ApprovalRule | ApprovalName | ApprovalCheck
    timeout: float
    """In seconds."""
    concurrency: int
    is_outbound: bool


class McpOptions(TypedDict, total=False):
    """Options of a server."""

    trust_hints: bool
    """Whether to trust the server's hints about its tools, such as read-only or idempotent."""
    tools: Mapping[str, McpToolOptions]
    """Options of tools, by the names that the server uses."""
    start_timeout_ms: int
    """Timeout until the server has listed its tools."""
    on_elicitation: ElicitationHandler
    """Asks a person the questions of the server; without it all are declined."""


@sealed(eq=False)
class McpServer:
    """One MCP server: a process to start, or an address.

    Create it with `stdio` or `http`. Arguments, environment, headers and address may hold secrets: they are
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
                "the name of an MCP server must be letters and digits, single _ or - between them, at most "
                f"{SERVER_NAME_CHARS_MAX} characters; found {self.name!r}"
            )
        unknown = sorted(self.options.keys() - McpOptions.__annotations__.keys())
        if unknown:
            raise wrong(f"MCP server {self.name}: unknown option {', '.join(unknown)}")
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
        """Return a server that is a process, started without a shell.

        It gets `env`, and of the environment of this process only the path, the home folder and the locale.
        """
        if not command or "\0" in command:
            raise wrong(f"MCP server {name}: the command must be the name or path of a program")
        return cls(name, command=command, args=tuple(args), env=dict(env or {}), cwd=cwd, options=options)

    @classmethod
    def http(
        cls, name: str, url: str, *, headers: Mapping[str, str] | None = None, **options: Unpack[McpOptions]
    ) -> Self:
        """Return a server that is reached over streamable HTTP; put secrets into headers."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise wrong(f"MCP server {name}: the address must begin with https:// or http:// and have a host")
        if parts.username is not None or parts.password is not None:
            raise wrong(f"MCP server {name}: put the credentials into headers, not into the address")
        return cls(name, url=url, headers=dict(headers or {}), options=options)

    def __repr__(self) -> str:
        return f"McpServer({self.name!r}, {'http' if self.url else 'stdio'})"

    @property
    def start_timeout_ms(self) -> int:
        """Timeout until the server has listed its tools."""
        return self.options.get("start_timeout_ms", START_TIMEOUT_MS)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets that the host application gave to this server."""
        parts = [part for value in self.headers.values() for part in (value, *value.split())]
        candidates = dict.fromkeys([*parts, *self.env.values()])
        return tuple(secret for secret in candidates if SECRET_CHARS_MIN <= len(secret) <= SECRET_CHARS_MAX)

    @property
    def redactor(self) -> Redactor:
        """Masks the secrets in messages of the server."""
        return Redactor(self.secrets)

    def mask_log(self, log: str) -> str:
        """Return the log of the process without its secrets.

        Its arguments may be secrets too, unless they are the names of options or of files.
        """
        values = [arg.partition("=")[2] if arg.startswith("-") else arg for arg in self.args]
        candidates = [value for value in values if SECRET_CHARS_MIN <= len(value) <= SECRET_CHARS_MAX]
        secrets = [value for value in candidates if not Path(self.cwd or ".", value).exists()]
        return Redactor((*self.secrets, *secrets)).text(log)


class Trouble(Exception):
    """A failed request.

    With `is_lost` the connection broke or the answer is not readable: the effect of the request is unknown.
    Otherwise the server refused it. `log` is the end of what a server process wrote to stderr: for the
    operator, not for the model.
    """

    def __init__(self, message: str, *, is_lost: bool, log: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.is_lost = is_lost
        self.log = log
