"""Settings of the command: options, environment variables, windlass.toml and defaults."""

import difflib
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, cast

from windlass_cli.output import Problem
from windlass_protocol.frozen import sealed

FILE: Final = "windlass.toml"
LOCAL: Final = "local.db"
"""The store of the user of this machine, in the data folder."""
OWNER: Final = "local"
"""Owner and tenant of the sessions of this machine; an open server shows the same tenant."""
KEY: Final = "WINDLASS_KEY"
"""The variable with the API key for a server. No file and no option holds it, where others could read it."""
FILE_BYTES_MAX: Final = 1_048_576
PORT_MAX: Final = 65_535
SECONDS_MAX: Final = 30 * 24 * 3_600
DURABILITIES: Final = ("power", "process")

Durability = Literal["power", "process"]
Environment = Mapping[str, str]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a string")
    return value


def _durability(value: object) -> str:
    if value not in DURABILITIES:
        raise ValueError(f"one of {', '.join(DURABILITIES)}")
    return cast(str, value)


def _seconds(value: object) -> str:
    words = f"a whole number of seconds from 0 to {SECONDS_MAX:,}"
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(words)
    digits = str(value)
    if not digits.isascii() or not digits.isdigit() or int(digits[:10]) > SECONDS_MAX:
        raise ValueError(words)
    return str(int(digits))


def _port(value: object) -> str:
    words = f"a number from 0 to {PORT_MAX:,}; 0 chooses a free port"
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(words)
    digits = str(value)
    if not digits.isascii() or not digits.isdigit() or int(digits[:6]) > PORT_MAX:
        raise ValueError(words)
    return str(int(digits))


@sealed
class Setting:
    """A setting: its name, its default and how a value is read."""

    key: str
    default: str
    words: str
    read: Callable[[object], str] = _text

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return "WINDLASS_" + self.key.replace(".", "_").upper()


SETTINGS: Final = (
    Setting("agents", "windlass.demo:agent", "your agents: module:name or file.py:name"),
    Setting("goals", "", "the goals of runs, for the Builder: module:name or file.py:name"),
    Setting("data", "windlass-data", "the folder of all stores"),
    Setting("store", "", "the file of the store, or postgresql://…; local.db in the data folder when empty"),
    Setting(
        "durability",
        "power",
        "what a stored record survives: power (loss of power) or process (a killed process)",
        _durability,
    ),
    Setting(
        "retry_for_s",
        "3600",
        "how long model calls are retried while the provider is away, in seconds",
        _seconds,
    ),
    Setting("user", "", "the name under which you answer requests; the login name when empty"),
    Setting("server", "", "the address of a server to use instead of a local store"),
    Setting("server.host", "127.0.0.1", "the address that the server listens on"),
    Setting("server.port", "8700", "the port of the server; 0 chooses a free port", _port),
    Setting("server.keys", "", "a file of API keys; without one the server is open to this machine"),
    Setting("server.jwt_issuer", "", "the issuer of accepted JWTs"),
    Setting("server.jwt_audience", "", "the audience of accepted JWTs"),
    Setting("server.jwt_jwks", "", "the public keys of the issuer (JWKS): a file or an https address"),
    Setting("server.jwt_tenant_claim", "tenant", "the claim of JWTs that holds the tenant"),
    Setting("server.jwt_user_claim", "sub", "the claim of JWTs that holds the user"),
    Setting("server.jwt_roles_claim", "", "the claim of JWTs that holds the roles approver and improver"),
    Setting("server.builder_model", "", "the model that proposes changes to agents; none when empty"),
    Setting("server.cors_origins", "", "origins of web pages that may call the server, separated by commas"),
    Setting("server.log_level", "info", "the least level that is logged: debug, info, warning or error"),
)
_BY_KEY: Final = {setting.key: setting for setting in SETTINGS}


@sealed
class Value:
    """The value of a setting and its source."""

    setting: Setting
    value: str
    source: str
    is_from_file: bool = False
    """Whether it comes from windlass.toml, which may have been written by others."""


@sealed
class Settings:
    """All settings, and the folder that relative paths start from."""

    values: Mapping[str, Value]
    folder: Path

    @property
    def agents(self) -> str:
        """The place of the agents: module:name or file.py:name."""
        return self.values["agents"].value

    @property
    def store(self) -> Path:
        """The file of the local store; an open server uses the same file."""
        named = self.values["store"].value
        return self.folder / named if named else self.data / LOCAL

    @property
    def address(self) -> str:
        """The address of the store in PostgreSQL; empty if the store is a file."""
        named = self.values["store"].value
        return named if named.startswith(("postgresql://", "postgres://")) else ""

    @property
    def data(self) -> Path:
        """The folder of all stores."""
        return self.folder / self.values["data"].value

    @property
    def durability(self) -> Durability:
        """The crash that a stored record survives: of the process, or of the machine."""
        return cast(Durability, self.values["durability"].value)

    @property
    def retry_for_ms(self) -> int:
        """How long model calls are retried while the provider is away."""
        return int(self.values["retry_for_s"].value) * 1_000

    @property
    def user(self) -> str:
        """The name under which requests are answered; may be empty."""
        return self.values["user"].value

    @property
    def server(self) -> str:
        """The address of the server to use; empty for the local store."""
        return self.values["server"].value

    def text(self, key: str) -> str:
        """Return the value of a setting; may be empty."""
        return self.values[key].value

    @property
    def host(self) -> str:
        """The address that the server listens on."""
        return self.values["server.host"].value

    @property
    def port(self) -> int:
        """The port of the server."""
        return int(self.values["server.port"].value)


def load_settings(
    options: Mapping[str, str | None], environment: Environment, *, file: Path | None
) -> Settings:
    """Return the settings; options win over variables, variables over the file, the file over defaults.

    Relative paths start from the folder of the file, so that they mean the same from every working directory.

    Raises:
        Problem: the file cannot be read, a setting is unknown, or a value is invalid.
    """
    path = file or Path(FILE)
    written = _read_file(path, is_needed=file is not None)
    values: dict[str, Value] = {}
    for setting in SETTINGS:
        given, source = options.get(setting.key), f"option --{setting.key.split('.')[-1]}"
        if given is None:
            given, source = environment.get(setting.variable), f"variable {setting.variable}"
        found: object = given
        is_from_file = found is None and setting.key in written
        if is_from_file:
            found, source = written[setting.key], str(path)
        if found is None:
            found, source = setting.default, "default"
        values[setting.key] = Value(
            setting, _checked(setting, found, source), source, is_from_file=is_from_file
        )
    return Settings(values, path.absolute().parent if written else Path.cwd())


def _checked(setting: Setting, found: object, source: str) -> str:
    try:
        value = setting.read(found)
    except ValueError as error:
        raise Problem(f"{setting.key} must be {error}, found {found!r}", f"Change it: {source}.") from None
    if "\0" in value:
        raise Problem(f"{setting.key} contains a NUL character", f"Change it: {source}.")
    return value


def _read_file(path: Path, *, is_needed: bool) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        if is_needed:
            raise Problem(f"the file {path} does not exist", "Create a project: windlass init") from None
        return {}
    except OSError as error:
        raise Problem(f"cannot read {path}: {error.strerror}") from None
    if len(raw) > FILE_BYTES_MAX:
        raise Problem(f"{path} is larger than {FILE_BYTES_MAX:,} bytes", "It should hold settings only.")
    try:
        table = tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Problem(f"{path} is not valid TOML: {error}") from None
    written = dict(_flat(table))
    for key in written:
        if key not in _BY_KEY:
            raise _unknown(key, path)
    return written


def _flat(table: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        key = f"{above}{name}"
        if isinstance(value, dict) and not above:
            yield from _flat(cast("dict[str, object]", value), f"{key}.")
        else:
            yield key, value


def _unknown(key: str, path: Path) -> Problem:
    near = difflib.get_close_matches(key, list(_BY_KEY), 1)
    hint = f"Did you mean {near[0]}?" if near else f"Known settings: {', '.join(_BY_KEY)}."
    return Problem(f"{path}: unknown setting {key}", hint)
