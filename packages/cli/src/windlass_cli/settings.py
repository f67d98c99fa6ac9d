"""Settings of the command: options, environment variables, windlass.toml and defaults."""

import difflib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Required, TypedDict, cast

from windlass import parts
from windlass.limits import (
    DRAIN_S,
    DRAIN_S_MAX,
    RETENTION_DAYS_MAX,
    SERVICE_DRAIN_S,
    SESSIONS_DRIVEN_MAX,
)
from windlass_cli.output import CommandError
from windlass_protocol.frozen import sealed
from windlass_server.options import (
    OPTIONS,
    Setting,
    read_flag,
    read_names,
    read_port,
    read_seconds,
    whole_reader,
)

if TYPE_CHECKING:
    from windlass.prices import PriceValue
    from windlass.runtime.options import RuntimeOptions
    from windlass.runtime.registry import PackageChangeValue

FILE: Final = "windlass.toml"
LOCAL: Final = "local.db"
"""The store of the user of this machine, in the data folder."""
OWNER: Final = "local"
"""Owner and tenant of the sessions of this machine; an open server shows the same tenant."""
KEY: Final = "WINDLASS_KEY"
"""The variable with the API key for a server. No file and no option holds it, where others could read it."""
FILE_BYTES_MAX: Final = 1_048_576
ATTEMPTS_MAX: Final = 100
DURABILITIES: Final = ("power", "process")
PACKAGE_CHANGES: Final = ("continue", "move", "refuse", "wait")

Durability = Literal["power", "process"]
Environment = Mapping[str, str]


def _durability(value: object) -> str:
    if value not in DURABILITIES:
        raise ValueError(f"one of {', '.join(DURABILITIES)}")
    return cast(str, value)


def _drain(value: object) -> str:
    if value == "":
        return ""
    seconds = -1.0
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        with suppress(ValueError):
            seconds = float(value)
    if not 0 <= seconds <= DRAIN_S_MAX:
        raise ValueError(f"a number of seconds from 0 to {DRAIN_S_MAX:,g}")
    return f"{seconds:.15g}"


@cache
def _slots(most: int) -> parts.SessionSlots:
    """Return the slots that all runtimes of this process share."""
    return parts.SessionSlots(most)


def _optional_port(value: object) -> str:
    return "" if value == "" else read_port(value)


def _package_change(value: object) -> str:
    if value not in PACKAGE_CHANGES:
        raise ValueError(f"one of {', '.join(PACKAGE_CHANGES)}")
    return str(value)


def _limits(value: object) -> str:
    """Return the limits of providers as a TOML table in one line; a variable holds one as text."""
    expected = f"a table such as {_LIMITS_EXAMPLE}, with whole numbers from 1"
    table = value
    if isinstance(value, str):
        try:
            table = tomllib.loads(f"table = {value or '{}'}")["table"]
        except tomllib.TOMLDecodeError:
            raise ValueError(expected) from None
    if not isinstance(table, dict):
        raise ValueError(expected)
    entries: list[str] = []
    for route, fields in cast("dict[str, object]", table).items():
        if not _ROUTE.fullmatch(route) or not isinstance(fields, dict):
            raise ValueError(expected)
        limit = cast("dict[str, object]", fields)
        for name, number in limit.items():
            if name not in _LIMITS or type(number) is not int or number < 1:
                raise ValueError(expected)
        entries.append(f"{route} = {{{', '.join(f'{name} = {number}' for name, number in limit.items())}}}")
    return f"{{{', '.join(entries)}}}" if entries else ""


def _prices(value: object) -> str:
    """Return prices of models as JSON; a variable holds it as text. The runtime checks each price."""
    try:
        table = json.loads(value or "{}") if isinstance(value, str) else value
        text = json.dumps(table)
    except (ValueError, TypeError):
        table, text = None, ""
    if not isinstance(table, dict):
        raise ValueError(f"a table such as {_PRICES_EXAMPLE}")
    return text if table else ""


def _spend_limits(value: object) -> str:
    """Return limits for people and teams as JSON; a variable holds it as text. `SpendLimit` checks each."""
    try:
        table = json.loads(value or "{}") if isinstance(value, str) else value
        text = json.dumps(table)
    except (ValueError, TypeError):
        table, text = None, ""
    tables = cast("dict[str, object]", table) if isinstance(table, dict) else {"": None}
    if not all(isinstance(fields, dict) for fields in tables.values()):
        raise ValueError(f"a table of limits by name, such as {_SPEND_LIMITS_EXAMPLE}")
    return text if table else ""


def _declarations(value: object) -> str:
    """Return the location of declarations in Python, or tables and such locations by name as JSON."""
    if isinstance(value, str):
        return value
    tables = cast("dict[str, object]", value) if isinstance(value, dict) else {"": None}
    if not all(isinstance(table, dict | str) for table in tables.values()):
        raise ValueError("module:name or file.py:name, or a table of such places and of tables, by name")
    return json.dumps(value, default=str)


def _schedules(value: object) -> str:
    """Return schedules as JSON; a variable holds it as text."""
    expected = f"a table of schedules, such as {_SCHEDULE_EXAMPLE}, with {', '.join(_SCHEDULE_KEYS)}"
    try:
        table = json.loads(value or "{}") if isinstance(value, str) else value
        text = json.dumps(table)
    except (ValueError, TypeError):
        raise ValueError(expected) from None
    tables = cast("dict[str, object]", table) if isinstance(table, dict) else {"": None}
    for name, schedule in tables.items():
        if not isinstance(schedule, dict):
            raise ValueError(expected)
        for key in cast("dict[str, object]", schedule):
            if key not in _SCHEDULE_KEYS:
                near = difflib.get_close_matches(key, _SCHEDULE_KEYS, 1)
                hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(_SCHEDULE_KEYS)}"
                raise LookupError(f"schedules.{name} has an unknown key {key!r}; {hint}")
    return text if tables else ""


_SCHEDULE_KEYS: Final = (
    "agent",
    "message",
    "cron",
    "every_s",
    "at",
    "timezone",
    "missed",
    "overlap",
    "jitter_s",
    "session_id",
)
_SCHEDULE_EXAMPLE: Final = '[schedules.nightly] agent = "clerk", message = "Report.", cron = "0 3 * * *"'
_PRICES_EXAMPLE: Final = '{"ollama/*" = 0, "ours" = {input = 0.5, output = 2}, "gpt-*" = "openai"}'
_SPEND_LIMITS_EXAMPLE: Final = '[limits.people] per = "month", max_cost_micros = 5_000_000, owner = "*"'
_LIMITS: Final = ("at_once", "per_minute", "tokens_per_minute")
_LIMITS_EXAMPLE: Final = "{openai = {at_once = 8, per_minute = 500}}"
_ROUTE: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DECLARED: Final = ("webhooks", "notifications")
"""Settings that are declared in Python, as tables, or both."""
_TABLES: Final = ("limits", "prices", "providers", "schedules", *_DECLARED)
"""Settings that are a table in windlass.toml."""


class SpendLimitFields(TypedDict, total=False):
    """The options of a `SpendLimit`, without its name."""

    per: Required[Literal["run", "day", "month"]]
    max_cost_micros: int
    max_tokens: int
    owner: str
    agent: str
    timezone: str
    at_limit: Literal["refuse", "ask", "cheaper"]
    responders: tuple[str, ...]


SETTINGS: Final = (
    Setting("agents", "windlass.demo:agent", "your agents: module:name or file.py:name"),
    Setting(
        "goals", "", "the goals of runs, for the Builder: module:name or file.py:name", page="improve.md"
    ),
    Setting(
        "webhooks",
        "",
        "entry points for signed requests: module:name, file.py:name, or a table of those and of tables",
        _declarations,
        page="webhooks.md",
    ),
    Setting(
        "notifications",
        "",
        "endpoints that are notified of events: module:name, file.py:name, or a table of those and of tables",
        _declarations,
        page="notifications.md",
    ),
    Setting("data", "windlass-data", "the folder of all stores"),
    Setting(
        "store",
        "",
        "the file of the store, or postgresql://…; local.db in the data folder when empty",
        page="scale.md#how-to-move",
    ),
    Setting(
        "wakes",
        "",
        "what wakes workers: temporal://host:port/namespace; the workers look for themselves when empty",
        page="scale.md#who-drives",
    ),
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
        read_seconds,
    ),
    Setting(
        "retry_attempts",
        "3",
        "model calls that are made at least before a run fails, also when the time to retry is over",
        whole_reader("a whole number from {least} to {most}", least=1, most=ATTEMPTS_MAX),
    ),
    Setting(
        "providers",
        "",
        "limits of model calls, at_once, per_minute and tokens_per_minute: a table by provider",
        _limits,
        page="providers.md#limits",
    ),
    Setting(
        "prices",
        "",
        "prices of models in dollars per million tokens, before the price table: a table by name or pattern",
        _prices,
        page="cost.md#prices",
    ),
    Setting(
        "limits",
        "",
        "what people and teams may spend in a run, a day or a month, in money or tokens: a table by name",
        _spend_limits,
        page="cost.md#limits-for-people-and-teams",
    ),
    Setting(
        "retention_days",
        "0",
        "after how many days ended sessions are deleted, by servers and workers; 0 keeps all",
        whole_reader("a whole number from {least} to {most}", least=0, most=RETENTION_DAYS_MAX),
    ),
    Setting(
        "sessions_max",
        f"{SESSIONS_DRIVEN_MAX}",
        "how many sessions a server or worker drives at once; further starts wait, here or elsewhere",
        whole_reader("a whole number from {least} to {most}", least=1, most=SESSIONS_DRIVEN_MAX),
        page="scale.md#how-much-a-process-takes",
    ),
    Setting(
        "package_change",
        "continue",
        f"what happens to runs of an agent that has changed: {', '.join(PACKAGE_CHANGES)}",
        _package_change,
        page="operations.md#versions-side-by-side",
    ),
    Setting(
        "drain_s",
        "",
        "how long tool calls under way may take to end when the process is to end, in seconds; when empty "
        f"{SERVICE_DRAIN_S:g} for serve and worker, and {DRAIN_S:g} for other commands",
        _drain,
        page="operations.md#a-deploy",
    ),
    Setting(
        "schedules",
        "",
        "runs that start by themselves: a table by name",
        _schedules,
        page="schedules.md#in-windlasstoml",
    ),
    Setting(
        "worker.port",
        "",
        "the port at which a worker answers probes and metrics, 0 for a free one; none when empty",
        _optional_port,
        page="operations.md#metrics",
    ),
    Setting("worker.host", "127.0.0.1", "the address at which a worker answers them"),
    Setting("user", "", "the name under which you answer requests; the login name when empty"),
    Setting(
        "approvals.responders",
        "",
        "names of the users who may answer requests; anyone when empty",
        read_names,
        page="access.md#who-may-approve",
    ),
    Setting(
        "approvals.four_eyes",
        "false",
        "whether the user who started or steered a run may not approve its calls; needs responders",
        read_flag,
    ),
    Setting(
        "approvals.expires_s",
        "0",
        "how long an approval request stays open, in seconds; 0 is without end",
        read_seconds,
    ),
    Setting(
        "telemetry.capture_content",
        "false",
        "whether OpenTelemetry gets messages, arguments and results, not only names and numbers",
        read_flag,
    ),
    Setting("server", "", "the address of a server to use instead of a local store"),
    *OPTIONS,
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
class CommandSettings:
    """All settings, and the folder that relative paths start from."""

    values: Mapping[str, Value]
    folder: Path

    def with_options(self, options: Mapping[str, str | None]) -> "CommandSettings":
        """Return the settings with options of one command, by setting; None leaves a setting as it is.

        Raises:
            CommandError: a value is invalid.
        """
        values = dict(self.values)
        for key, option in options.items():
            if option is not None:
                setting, source = _BY_KEY[key], f"option --{key.replace('_', '-')}"
                values[key] = Value(setting, _check_value(setting, option, source), source)
        return replace(self, values=values)

    @property
    def agents(self) -> str:
        """The location of the agents: module:name or file.py:name."""
        return self.values["agents"].value

    @property
    def store(self) -> Path:
        """The file of the local store; an open server uses the same file."""
        store = self.values["store"].value
        return self.folder / store if store else self.data / LOCAL

    @property
    def address(self) -> str:
        """The address of the store in PostgreSQL, which may be wrong; empty if the store is a file."""
        store = self.values["store"].value
        return store if "://" in store else ""

    @property
    def data(self) -> Path:
        """The folder of all stores."""
        return self.folder / self.values["data"].value

    @property
    def durability(self) -> Durability:
        """The crash that a stored record survives: of the process, or of the machine."""
        return cast(Durability, self.values["durability"].value)

    @property
    def runtime_options(self) -> "RuntimeOptions":
        """The options of the runtimes that this command and its server open."""

        rules = parts.Rules()
        attempts = replace(rules.retry, max_attempts=int(self.values["retry_attempts"].value))
        options: RuntimeOptions = {
            "retry_for_ms": int(self.values["retry_for_s"].value) * 1_000,
            "rules": replace(rules, retry=attempts),
            "four_eyes": self.is_on("approvals.four_eyes"),
        }
        if names := self.values["approvals.responders"].value:
            options["responders"] = names.split(",")
        if days := int(self.values["retention_days"].value):
            options["retention_days"] = days
        options["sessions_max"] = _slots(int(self.values["sessions_max"].value))
        options["package_change"] = cast("PackageChangeValue", self.values["package_change"].value)
        if drain_s := self.values["drain_s"].value:
            options["drain_s"] = float(drain_s)
        if expires_s := int(self.values["approvals.expires_s"].value):
            options["approval_expires_ms"] = expires_s * 1_000
        return options

    def is_on(self, key: str) -> bool:
        """Whether a setting that is true or false is true."""
        return self.values[key].value == "true"

    @property
    def provider_limits(self) -> Mapping[str, Mapping[str, int]]:
        """How many model calls are sent to a provider at once and each minute, by provider."""
        return tomllib.loads(f"table = {self.values['providers'].value or '{}'}")["table"]

    @property
    def prices(self) -> "Mapping[str, PriceValue]":
        """Prices of models by name."""
        return json.loads(self.values["prices"].value or "{}")

    @property
    def limits(self) -> Mapping[str, SpendLimitFields]:
        """The limits for people and teams: options of `SpendLimit` by name."""
        return json.loads(self.values["limits"].value or "{}")

    @property
    def schedules(self) -> Mapping[str, Mapping[str, object]]:
        """The schedules of the project: options of `windlass.Schedule` by name."""
        return json.loads(self.values["schedules"].value or "{}")

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
) -> CommandSettings:
    """Return the settings; options win over variables, variables over the file, the file over defaults.

    Relative paths start from the folder of the file, so that they mean the same from every working directory.

    Raises:
        CommandError: the file cannot be read, a setting is unknown, or a value is invalid.
    """
    path = file or Path(FILE)
    written = _read_file(path, is_needed=file is not None)
    values: dict[str, Value] = {}
    for setting in SETTINGS:
        value: object = options.get(setting.key)
        source = f"option --{setting.key.split('.')[-1]}"
        if value is None:
            value, source = environment.get(setting.variable), f"variable {setting.variable}"
        is_from_file = value is None and setting.key in written
        if is_from_file:
            value, source = written[setting.key], str(path)
        if value is None:
            value, source = setting.default, "default"
        values[setting.key] = Value(
            setting, _check_value(setting, value, source), source, is_from_file=is_from_file
        )
    _check_together(values)
    return CommandSettings(values, path.absolute().parent if written else Path.cwd())


def _check_together(values: Mapping[str, Value]) -> None:
    four_eyes = values["approvals.four_eyes"]
    if four_eyes.value == "true" and not values["approvals.responders"].value:
        raise CommandError(
            "approvals.four_eyes needs approvals.responders: name two people or more",
            f"Change it: {four_eyes.source}.",
        )


def _check_value(setting: Setting, raw: object, source: str) -> str:
    try:
        value = setting.read(raw)
    except ValueError as error:
        raise CommandError(f"{setting.key} must be {error}, found {raw!r}", f"Change it: {source}.") from None
    except LookupError as error:
        raise CommandError(str(error), f"Change it: {source}.") from None
    if "\0" in value:
        raise CommandError(f"{setting.key} contains a NUL character", f"Change it: {source}.")
    return value


def _read_file(path: Path, *, is_needed: bool) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        if is_needed:
            raise CommandError(f"the file {path} does not exist", "Create a project: windlass init") from None
        return {}
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from None
    if len(raw) > FILE_BYTES_MAX:
        raise CommandError(f"{path} is larger than {FILE_BYTES_MAX:,} bytes", "It should hold settings only.")
    try:
        table = tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(
            f"{path} is not valid TOML: {error}", _twice_hint(raw.decode(errors="replace"))
        ) from None
    written = dict(_flat(table))
    for key in written:
        if key not in _BY_KEY:
            raise _unknown(key, path)
    return written


def _twice_hint(text: str) -> str:
    """Return what to write instead of a setting that is a text and a table too, which TOML does not allow."""
    for key in _DECLARED:
        if re.search(rf"(?m)^\s*{key}\s*=", text) and re.search(rf"(?m)^\s*\[{key}[.\]]", text):
            return (
                f"{key} is a text and a table. Write both as a table: a line such as "
                f'python = "app.py:{key}" below [{key}], beside [{key}.NAME].'
            )
    return ""


def _flat(table: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        key = f"{above}{name}"
        if isinstance(value, dict) and not above and name not in _TABLES:
            yield from _flat(cast("dict[str, object]", value), f"{key}.")
        else:
            yield key, value


def _unknown(key: str, path: Path) -> CommandError:
    near = difflib.get_close_matches(key, list(_BY_KEY), 1)
    hint = f"Did you mean {near[0]}?" if near else f"Known settings: {', '.join(_BY_KEY)}."
    return CommandError(f"{path}: unknown setting {key}", hint)
