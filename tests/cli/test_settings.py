"""Settings: options, variables, windlass.toml and defaults, in this order."""

from pathlib import Path
from typing import Any, cast

import pytest
from tests.cli.commands import run_here

from windlass import Rejected
from windlass.client import Client
from windlass_cli.backend import Command, runtime_options
from windlass_cli.output import CommandError
from windlass_cli.settings import FILE_BYTES_MAX, SETTINGS, load_settings
from windlass_server.app import main as serve
from windlass_server.options import OPTIONS, Setting, read_names, read_text
from windlass_server.settings import Settings


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_options_win_over_variables_over_the_file_over_defaults() -> None:
    Path("windlass.toml").write_text('store = "file.db"\n', encoding="utf-8")
    variable = {"WINDLASS_STORE": "variable.db"}
    found = [
        load_settings({"store": "option.db"}, variable, file=None),
        load_settings({"store": None}, variable, file=None),
        load_settings({}, {}, file=None),
    ]
    Path("windlass.toml").unlink()
    found.append(load_settings({}, {}, file=None))
    assert [one.values["store"].value for one in found] == [
        "option.db",
        "variable.db",
        "file.db",
        "",
    ]
    sources = [one.values["store"].source for one in found]
    assert sources == ["option --store", "variable WINDLASS_STORE", "windlass.toml", "default"]


def test_relative_paths_start_from_the_folder_of_the_file(tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / "windlass.toml").write_text('store = "mine.db"\n', encoding="utf-8")
    assert load_settings({}, {}, file=other / "windlass.toml").store == other / "mine.db"


def test_values_of_the_file_are_typed() -> None:
    Path("windlass.toml").write_text(
        'durability = "process"\n[server]\nhost = "::1"\nport = 0\n', encoding="utf-8"
    )
    settings = load_settings({}, {}, file=None)
    assert (settings.durability, settings.host, settings.port) == ("process", "::1", 0)


def test_webhooks_are_declared_as_tables_or_in_python() -> None:
    Path("windlass.toml").write_text(
        '[webhooks.issues]\nagent = "triage"\nscheme = "github"\nsecrets = ["HUB"]\nmessage = "{event}"\n',
        encoding="utf-8",
    )
    Path("hooks.py").write_text(
        "from windlass.webhooks import Webhook\n"
        'all = [Webhook("pay", agent="a", scheme="stripe", secrets=("S",), message="x")]\n',
        encoding="utf-8",
    )
    found = [
        Command(load_settings({}, variables, file=None), cast(Any, None)).webhooks()
        for variables in ({}, {"WINDLASS_WEBHOOKS": "hooks.py:all"}, {"WINDLASS_WEBHOOKS": ""})
    ]
    assert [[(one.name, one.scheme, one.secrets) for one in some] for some in found] == [
        [("issues", "github", ("HUB",))],
        [("pay", "stripe", ("S",))],
        [],
    ]
    Path("windlass.toml").write_text("[webhooks]\nissues = 5\n", encoding="utf-8")
    with pytest.raises(CommandError, match="webhooks must be module:name"):
        load_settings({}, {}, file=None)


def test_webhooks_in_python_stand_beside_those_in_tables() -> None:
    table = '[webhooks.issues]\nagent = "triage"\nscheme = "github"\nsecrets = ["HUB"]\nmessage = "x"\n'
    Path("hooks.py").write_text(
        "from windlass.webhooks import Webhook\n"
        'pay = Webhook("pay", agent="a", scheme="stripe", secrets=("S",), message="x")\n'
        'all = [Webhook("build", agent="a", scheme="github", secrets=("S",), message="x")]\n',
        encoding="utf-8",
    )

    def declared(text: str) -> list[str]:
        Path("windlass.toml").write_text(text, encoding="utf-8")
        command = Command(load_settings({}, {}, file=None), cast(Any, None))
        return [one.name for one in command.webhooks()]

    python = '[webhooks]\nours = "hooks.py:pay"\nothers = "hooks.py:all"\n'
    assert declared(python + table) == ["pay", "build", "issues"]
    assert declared(python) == ["pay", "build"]
    with pytest.raises(Rejected, match="has no none"):
        declared('[webhooks]\nours = "hooks.py:none"\n' + table)


@pytest.mark.parametrize("key", ["webhooks", "notifications"])
def test_a_text_beside_tables_of_the_same_name_is_refused_with_what_to_write(key: str) -> None:
    Path("windlass.toml").write_text(f'{key} = "app.py:all"\n[{key}.issues]\na = 1\n', encoding="utf-8")
    with pytest.raises(CommandError, match="is not valid TOML") as caught:
        load_settings({}, {}, file=None)
    assert caught.value.hint == (
        f"{key} is a text and a table. Write both as a table: a line such as "
        f'python = "app.py:{key}" below [{key}], beside [{key}.NAME].'
    )
    Path("windlass.toml").write_text("agents = = 1\n", encoding="utf-8")
    with pytest.raises(CommandError, match="is not valid TOML") as caught:
        load_settings({}, {}, file=None)
    assert caught.value.hint == ""


def test_approvals_retries_and_rates_reach_the_runtime_and_the_server() -> None:
    Path("windlass.toml").write_text(
        "retry_for_s = 60\nretry_attempts = 5\n"
        '[approvals]\nresponders = ["boss", "dana"]\nfour_eyes = true\nexpires_s = 60\n'
        "[telemetry]\ncapture_content = true\n"
        "[server]\nown_approvals = true\nrequests_per_s = 2.5\nrequests_burst = 7\n"
        "streams_per_user = 11\n",
        encoding="utf-8",
    )
    settings = load_settings({}, {"WINDLASS_SERVER_BYTES_BURST": "9"}, file=None)
    found = settings.runtime_options
    assert found.get("responders") == ["boss", "dana"]
    assert (found.get("four_eyes"), found.get("approval_expires_ms")) == (True, 60_000)
    assert found.get("retry_for_ms") == 60_000
    assert "rules" in found
    assert found["rules"].retry.max_attempts == 5
    assert settings.is_on("telemetry.capture_content")
    values = {key.removeprefix("server."): one.value for key, one in settings.values.items()}
    served = Settings.read(values)
    assert served.own_approvals
    limits = served.limits
    assert (limits.requests_per_s, limits.requests_burst, limits.bytes_burst) == (2.5, 7, 9)
    assert limits.streams_per_principal_max == 11
    Path("windlass.toml").unlink()
    assert {"responders", "approval_expires_ms"}.isdisjoint(load_settings({}, {}, file=None).runtime_options)


def test_a_server_refuses_rates_and_flags_that_are_none() -> None:
    for given in ({"requests_per_s": "0"}, {"requests_per_s": "many"}, {"own_approvals": "maybe"}):
        with pytest.raises(Rejected, match=next(iter(given))):
            Settings.read(given)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('stroe = "x"', "Did you mean store?"),
        ("[server]\nprot = 1", "Did you mean server.port?"),
        ("zzzzzzzz = 1", "Known settings: agents, goals, webhooks, notifications, data"),
        ('durability = "ram"', "one of power, process"),
        ("store = 7", "store must be a string"),
        ("[store]\nx = 1", "unknown setting store.x"),
        ("[server]\nport = 70000", "a number from 0 to 65,535"),
        ("[server]\nport = true", "a number from 0 to 65,535"),
        ('[server]\nport = "٣"', "a number from 0 to 65,535"),
        ('[approvals]\nresponder = ["ann"]', "Did you mean approvals.responders?"),
        ("[approvals]\nresponders = [7]", "a list of texts without commas"),
        ("[approvals]\nresponders = 7", "a list of texts"),
        ('[approvals]\nfour_eyes = "yes"', "true or false"),
        ("[approvals]\nfour_eyes = true", "approvals.four_eyes needs approvals.responders"),
        ('[server]\nlog_level = "loud"', "server.log_level must be one of debug, info, warning, error"),
        ("retry_attempts = 0", "a whole number from 1 to 100"),
        ("[server]\nrequests_per_s = 0", "a number above 0"),
        ("[server]\nrequests_per_s = inf", "a number above 0"),
        ('[server]\nrequests_per_s = "fast"', "a number above 0"),
        ("[server.limits]\nx = 1", "unknown setting server.limits"),
        ('store = "a\\u0000b"', "contains a NUL character"),
        ("store = ", "is not valid TOML"),
        ("providers = 8", "providers must be a table such as {openai = {at_once = 8"),
        ("[providers]\nopenai = 8", "providers must be a table such as"),
        ("[providers.openai]\nat_once = 0", "whole numbers from 1"),
        ("[providers.openai]\nat_once = true", "whole numbers from 1"),
        ("[providers.openai]\nat_most = 8", "providers must be a table such as"),
        ('[providers."a b"]\nat_once = 8', "providers must be a table such as"),
    ],
)
def test_an_invalid_setting_is_refused_with_its_name(text: str, told: str) -> None:
    Path("windlass.toml").write_text(text, encoding="utf-8")
    with pytest.raises(CommandError) as refused:
        load_settings({}, {}, file=None)
    assert told in f"{refused.value.message} {refused.value.hint}"


def test_limits_of_providers_are_a_table_of_the_file_or_a_variable() -> None:
    Path("windlass.toml").write_text(
        "[providers.openai]\nat_once = 8\nper_minute = 500\ntokens_per_minute = 9\n"
        "[providers.my-own]\nat_once = 1\n",
        encoding="utf-8",
    )
    settings = load_settings({}, {}, file=None)
    assert settings.provider_limits == {
        "openai": {"at_once": 8, "per_minute": 500, "tokens_per_minute": 9},
        "my-own": {"at_once": 1},
    }
    told = "ProviderLimits({'openai': ProviderLimit(at_once=8, per_minute=500, tokens_per_minute=9)"
    assert repr(runtime_options(settings).get("provider_limits")).startswith(told)
    given = load_settings({}, {"WINDLASS_PROVIDERS": settings.values["providers"].value}, file=None)
    assert given.provider_limits == settings.provider_limits
    with pytest.raises(CommandError, match="providers must be a table"):
        load_settings({}, {"WINDLASS_PROVIDERS": "openai=8"}, file=None)
    with pytest.raises(CommandError, match="at_once must be 1 to 10,000"):
        runtime_options(load_settings({}, {"WINDLASS_PROVIDERS": "{a = {at_once = 10001}}"}, file=None))
    Path("windlass.toml").unlink()
    assert load_settings({}, {}, file=None).provider_limits == {}


def test_a_missing_binary_oversized_or_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="does not exist"):
        load_settings({}, {}, file=Path("other.toml"))
    Path("windlass.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(CommandError, match="not valid TOML"):
        load_settings({}, {}, file=None)
    Path("windlass.toml").write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    with pytest.raises(CommandError, match="larger than"):
        load_settings({}, {}, file=None)
    with pytest.raises(CommandError, match="cannot read"):
        load_settings({}, {}, file=tmp_path)


def test_config_shows_every_setting_and_its_source(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_SERVER_PORT", "9999")
    ran = run_here(capsys, "--store", "mine.db", "config")
    assert ran.code == 0
    for setting in SETTINGS:
        assert setting.key in ran.out
    assert "option --store" in " ".join(ran.out.split())
    assert "9999" in ran.out


def test_a_password_in_an_address_is_masked(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run_here(capsys, "--server", "https://ann:open-sesame@example.org", "config")
    assert ran.code == 0
    assert "example.org" in ran.out
    assert "open-sesame" not in ran.out


def test_a_key_is_not_sent_to_a_server_that_only_a_file_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    unreachable = "http://127.0.0.1:9"
    monkeypatch.setenv("WINDLASS_KEY", "wl_s3cret")
    monkeypatch.setattr(Client, "open", _unsent)
    Path("windlass.toml").write_text(f'server = "{unreachable}"\n', encoding="utf-8")
    ran = run_here(capsys, "runs", "list")
    assert ran.code == 2
    assert "the server is named by windlass.toml" in ran.err
    assert "--server or WINDLASS_SERVER" in ran.err
    assert "s3cret" not in ran.err
    for name_it in (
        lambda: ("--server", unreachable),
        lambda: monkeypatch.setenv("WINDLASS_SERVER", unreachable) or (),
    ):
        assert "would be sent" in run_here(capsys, *name_it(), "runs", "list").err
    monkeypatch.delenv("WINDLASS_SERVER")
    monkeypatch.delenv("WINDLASS_KEY")
    assert "would be sent" in run_here(capsys, "runs", "list").err


def _unsent(client: Client) -> None:
    raise CommandError("it would be sent")


def test_the_command_and_the_server_read_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert tuple(setting for setting in SETTINGS if setting.key.startswith("server.")) == OPTIONS
    with pytest.raises(SystemExit):
        serve(["--help"])
    words = " ".join(capsys.readouterr().out.split())
    for option in OPTIONS:
        assert f"{option.option} {option.form}" in words
    values = load_settings({}, {}, file=None)
    texts = {option.name: values.text(option.key) for option in OPTIONS}
    assert Settings.read(texts) == Settings.read({}) == Settings()


@pytest.mark.parametrize(
    "option", [option for option in OPTIONS if option.read not in (read_text, read_names)]
)
def test_the_command_and_the_server_refuse_a_value_with_the_same_words(option: Setting) -> None:
    with pytest.raises(CommandError) as by_command:
        load_settings({}, {option.variable: "?"}, file=None)
    with pytest.raises(Rejected) as by_server:
        Settings.read({option.name: "?"})
    words = str(by_command.value).removeprefix("server.").replace(" must be ", " is ")
    assert words == by_server.value.message
