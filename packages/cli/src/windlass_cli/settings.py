"""What the command is told: by options, variables, windlass.toml, or by nobody."""

import difflib
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

from windlass_cli.problems import Problem

FILE: Final = "windlass.toml"
LOCAL: Final = "local.db"
"""The store of whoever uses this machine."""
OWNER: Final = "local"
"""Whose the sessions of this machine are, and their tenant: the server shows them if nobody logs in."""
KEY: Final = "WINDLASS_KEY"
"""The variable with the key for a server; it is in no file and no option, where others could read it."""
FILE_BYTES_MAX: Final = 1_048_576
PORT_MAX: Final = 65_535
DURABILITIES: Final = ("power", "process")

Durability = Literal["power", "process"]
Environment = Mapping[str, str]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a text")
    return value


def _durability(value: object) -> str:
    if value not in DURABILITIES:
        raise ValueError(f"one of {', '.join(DURABILITIES)}")
    return cast(str, value)


def _port(value: object) -> str:
    words = f"a number from 0 to {PORT_MAX:,}; 0 takes a free one"
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(words)
    digits = str(value)
    if not digits.isascii() or not digits.isdigit() or int(digits[:6]) > PORT_MAX:
        raise ValueError(words)
    return str(int(digits))


@dataclass(frozen=True, slots=True)
class Setting:
    """Something that can be set, in three places under one name."""

    key: str
    default: str
    words: str
    read: Callable[[object], str] = _text

    @property
    def variable(self) -> str:
        """The variable of the environment."""
        return "WINDLASS_" + self.key.replace(".", "_").upper()


SETTINGS: Final = (
    Setting("agents", "windlass.demo:agent", "your agents: module:name or file.py:name"),
    Setting("goals", "", "what runs are for, as the Builder wants it: module:name or file.py:name"),
    Setting("data", "windlass-data", "the folder that keeps everything"),
    Setting("store", "", "a file of its own; that of the folder when empty"),
    Setting(
        "durability", "power", "power: survives a crash of the machine; process: of the process", _durability
    ),
    Setting("user", "", "who you are when you answer requests; the name you are logged in by when empty"),
    Setting("server", "", "the address of a server that keeps everything instead of a store here"),
    Setting("server.host", "127.0.0.1", "where the server listens"),
    Setting("server.port", "8700", "the port of the server; 0 takes a free one", _port),
    Setting("server.keys", "", "a file of API keys; nobody has to log in when empty"),
    Setting("server.jwt_issuer", "", "whose tokens are taken"),
    Setting("server.jwt_audience", "", "whom tokens must be for"),
    Setting("server.jwt_jwks", "", "the public keys of the issuer: a file or an https address"),
    Setting("server.jwt_tenant_claim", "tenant", "the claim of tokens with the tenant"),
    Setting("server.jwt_user_claim", "sub", "the claim of tokens with the user"),
    Setting("server.jwt_roles_claim", "", "the claim of tokens with the roles approver and improver"),
    Setting("server.builder_model", "", "the model that proposes changes to agents; nobody does when empty"),
    Setting("server.cors_origins", "", "web pages that may call the server, with commas between them"),
)
_BY_KEY: Final = {setting.key: setting for setting in SETTINGS}


@dataclass(frozen=True, slots=True)
class Value:
    """A setting as it was found."""

    setting: Setting
    value: str
    source: str
    is_from_file: bool = False
    """Whether a file says so, which may be somebody else's."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, and the folder that paths among them begin in."""

    values: Mapping[str, Value]
    folder: Path

    @property
    def agents(self) -> str:
        """Where the agents are."""
        return self.values["agents"].value

    @property
    def store(self) -> Path:
        """The file of the journal, and of a server where nobody has to log in."""
        named = self.values["store"].value
        return self.folder / named if named else self.data / LOCAL

    @property
    def data(self) -> Path:
        """The folder of all files."""
        return self.folder / self.values["data"].value

    @property
    def durability(self) -> Durability:
        """What an acknowledged write survives."""
        return cast(Durability, self.values["durability"].value)

    @property
    def user(self) -> str:
        """Who answers; empty if nobody said."""
        return self.values["user"].value

    @property
    def server(self) -> str:
        """The address of the server that is asked; empty if the store here is."""
        return self.values["server"].value

    def text(self, key: str) -> str:
        """Return a setting as it was written; empty if nobody did."""
        return self.values[key].value

    @property
    def host(self) -> str:
        """Where the server listens."""
        return self.values["server.host"].value

    @property
    def port(self) -> int:
        """The port of the server."""
        return int(self.values["server.port"].value)


def load_settings(
    options: Mapping[str, str | None], environment: Environment, *, file: Path | None
) -> Settings:
    """Put the settings together: options, then variables, the file, the defaults.

    Paths begin in the folder of the file, so that the same file means the same wherever the command is run.

    Raises:
        Problem: the file cannot be read, a name is not known, or a value cannot be used.
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
        raise Problem(f"{setting.key} is {error}, found {found!r}", f"Change it: {source}.") from None
    if "\0" in value:
        raise Problem(f"{setting.key} holds a character that no setting has", f"Change it: {source}.")
    return value


def _read_file(path: Path, *, is_needed: bool) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        if is_needed:
            raise Problem(f"there is no file {path}", "Make one with: windlass init") from None
        return {}
    except OSError as error:
        raise Problem(f"{path} cannot be read: {error.strerror}") from None
    if len(raw) > FILE_BYTES_MAX:
        raise Problem(f"{path} is larger than {FILE_BYTES_MAX:,} bytes", "It holds settings only.")
    try:
        table = tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Problem(f"{path} is no TOML: {error}") from None
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
    hint = f"Did you mean {near[0]}?" if near else f"It knows {', '.join(_BY_KEY)}."
    return Problem(f"{path}: there is no setting {key}", hint)
