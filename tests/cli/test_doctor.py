"""`doctor` reports failed checks with a hint, and changes nothing."""

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from tests.cli.commands import run_here

from windlass.sql.integrity import INDEX, StoreKey
from windlass.sql.integrity import STORE as STORE_ROW
from windlass.sqlite.schema import connect
from windlass.sqlite.store import SqliteStore

STORE: Final = Path("windlass-data/local.db")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("WINDLASS_SERVER_PORT", "0")


def test_all_checks_pass_in_an_empty_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = run_here(capsys, "doctor")
    assert ran.code == 0, ran.out
    assert "✓ agents: demo" in ran.out
    assert "windlass-server 0" in ran.out
    assert "windlass-sidecar 0" in ran.out
    assert list(tmp_path.iterdir()) == []


def test_a_limit_of_an_unknown_provider_is_told_by_config_doctor_and_serve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The server refuses to start for another reason, after it has told this one.
    text = '[providers.opnai]\nat_once = 3\n[providers.openai]\nat_once = 3\n[server]\njwt_issuer = "x"'
    (tmp_path / "windlass.toml").write_text(text, encoding="utf-8")
    for command in (("config",), ("doctor",), ("serve",)):
        ran = run_here(capsys, *command)
        assert ran.code == (2 if command == ("serve",) else 0), command
        assert "providers.opnai limits no provider that Windlass knows, did you mean openai?" in (
            ran.out + ran.err
        ), command


def test_a_budget_in_money_and_a_model_without_a_price_are_told_by_doctor_and_serve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "from windlass import Agent, Budget\n"
        "from windlass.testing import ScriptedModel, say\n"
        'model = ScriptedModel([say("Yes.")], model_id="ours")\n'
        'agent = Agent("clerk", model=model, budget=Budget(max_cost_micros=9_000))\n'
    )
    (tmp_path / "app.py").write_text(text, encoding="utf-8")
    # The server refuses to start for another reason, after it has told this one.
    (tmp_path / "windlass.toml").write_text('[server]\njwt_issuer = "x"', encoding="utf-8")
    for command in (("--agents", "app.py:agent", "doctor"), ("serve", "app.py:agent")):
        ran = run_here(capsys, *command)
        assert ran.code != 0, command
        expected = (
            "the budget of agent clerk is in money, and model scripted/ours of agent clerk has no price"
        )
        assert expected in ran.out + ran.err, command
    priced = text.replace("9_000)", '9_000), prices={"ours": 0}')
    (tmp_path / "app.py").write_text(priced, encoding="utf-8")
    assert run_here(capsys, "--agents", "app.py:agent", "doctor").code == 0


def test_a_price_that_cannot_be_used_is_told_by_config_and_doctor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = '[prices]\n"openai/gpt-5" = {inputs = 3}\n'
    (tmp_path / "windlass.toml").write_text(text, encoding="utf-8")
    for command, code in (("config", 0), ("doctor", 1)):
        ran = run_here(capsys, command)
        assert (ran.code, "openai/gpt-5 has no price inputs; it takes input" in ran.out + ran.err) == (
            code,
            True,
        ), command
        assert "windlass.toml" in ran.out + ran.err


@pytest.mark.parametrize("command", [("doctor",), ("run", "hi"), ("runs", "list")])
def test_an_option_behind_the_command_that_goes_before_it(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    ran = run_here(capsys, *command, "--agents", "app.py:agent")
    assert ran.code == 2
    assert "--agents goes before the command" in ran.err
    assert f"windlass --agents … {command[0]} …" in ran.err
    assert "goes before" not in run_here(capsys, *command, "--nowhere").err


def test_a_missing_key_a_broken_store_and_a_missing_module(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = 'from windlass import Agent\nagent = Agent("a", model="openai/gpt-5")\n'
    (tmp_path / "app.py").write_text(text, encoding="utf-8")
    (tmp_path / "windlass-data").mkdir()
    (tmp_path / "windlass-data" / "local.db").write_bytes(b"something else entirely" * 100)
    ran = run_here(capsys, "--agents", "app.py:agent", "doctor")
    assert ran.code == 1
    assert "✗ model of a" in ran.out
    assert "OPENAI_API_KEY" in ran.out
    assert "✗ store" in ran.out
    ran = run_here(capsys, "--agents", "nothing_here", "doctor")
    assert "no module named nothing_here" in ran.out


def test_the_models_of_subagents_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "from windlass import Agent\n"
        'helper = Agent("helper", description="Helps.", model="openai/gpt-5")\n'
        'agent = Agent("boss", model="demo/demo", subagents=[helper])\n'
    )
    (tmp_path / "app.py").write_text(text, encoding="utf-8")
    ran = run_here(capsys, "--agents", "app.py:agent", "doctor")
    assert (ran.code, "✗ model of helper: openai/gpt-5" in ran.out) == (1, True), ran.out


def test_the_keys_of_the_server_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_SERVER_KEYS", "keys.json")
    ran = run_here(capsys, "doctor")
    assert (ran.code, "windlass keys add" in ran.out) == (1, True)
    assert run_here(capsys, "keys", "add", "ann", "ann").code == 0
    ran = run_here(capsys, "doctor")
    assert (ran.code, "! keys" in ran.out, "No key has the role approver" in ran.out) == (0, True, True)
    with monkeypatch.context() as named:
        named.setenv("WINDLASS_APPROVALS_RESPONDERS", "ann")
        assert "✓ keys" in run_here(capsys, "doctor").out
    assert run_here(capsys, "keys", "add", "boss", "boss", "--role", "approver").code == 0
    assert f"✓ keys: {tmp_path / 'keys.json'}, 2 valid of 2" in run_here(capsys, "doctor").out
    for name in ("ann", "boss"):
        assert run_here(capsys, "keys", "revoke", name).code == 0
    ran = run_here(capsys, "doctor")
    assert (ran.code, "Every request is refused" in ran.out) == (1, True)
    (tmp_path / "keys.json").write_text("nonsense", encoding="utf-8")
    assert "✗ keys" in run_here(capsys, "doctor").out


def test_an_existing_store_is_opened(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_here(capsys, "run", "hello").code == 0
    assert "✓ store" in run_here(capsys, "doctor").out


def damage(*statements: str) -> None:
    with closing(sqlite3.connect(STORE, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def test_a_row_of_the_index_that_changed_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_here(capsys, "run", "hello").code == 0
    damage("UPDATE runs SET agent_id = 'other'")
    ran = run_here(capsys, "doctor")
    assert ran.code == 1
    assert "✗ store: the row of run" in ran.out
    assert "restore it from a backup" in ran.out


def test_a_page_that_changed_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_here(capsys, "run", "hello").code == 0
    damage("PRAGMA writable_schema = ON", "UPDATE sqlite_schema SET rootpage = 3 WHERE name = 'holes'")
    ran = run_here(capsys, "doctor")
    assert ran.code == 1
    assert "✗ store" in ran.out


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE appends SET body = zeroblob(9)", "is damaged or missing"),
        ("UPDATE contents SET content = x'00'", "content sha256:"),
        ("DELETE FROM runs", "is missing in the index"),
        ("DELETE FROM catalog", "is missing in the index"),
        ("DELETE FROM appends WHERE last_position = (SELECT max(last_position) FROM appends)", "missing"),
    ],
)
def test_only_deep_reads_the_records(statement: str, found: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_here(capsys, "run", "hello").code == 0
    assert run_here(capsys, "doctor", "--deep").code == 0
    damage(statement)
    ran = run_here(capsys, "doctor", "--deep")
    assert ran.code == 1
    assert found in ran.out


def test_rows_with_valid_seals_are_compared_with_the_records(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_here(capsys, "run", "hello").code == 0
    with closing(connect(STORE)) as connection:
        key = StoreKey.load(connection.execute(STORE_ROW).fetchall())
        for table, column in {"runs": 4, "catalog": 5}.items():
            [row] = connection.execute(f"SELECT {INDEX[table]} FROM {table}").fetchall()
            name = INDEX[table].split(", ")[column]
            changed = [*row[:column], "waiting", *row[column + 1 : -1]]
            seal = key.row_seal(table, changed)
            connection.execute(f"UPDATE {table} SET {name} = 'waiting', seal = ?", (seal,))
    assert run_here(capsys, "doctor").code == 0
    ran = run_here(capsys, "doctor", "--deep")
    assert ran.code == 1
    assert "status of run" in ran.out
    assert "the owner of session" in ran.out


def test_a_store_that_lost_its_log_is_refused_with_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_here(capsys, "run", "hello").code == 0
    whole = STORE.read_bytes()
    assert run_here(capsys, "run", "again").code == 0

    async def killed() -> None:
        # As a killed process leaves it: the mark is there.
        store = await SqliteStore.open(STORE)
        shutil.copyfile(f"{STORE}-mark", "mark")
        await store.aclose()

    asyncio.run(killed())
    shutil.copyfile("mark", f"{STORE}-mark")
    STORE.write_bytes(whole)
    ran = run_here(capsys, "doctor")
    assert ran.code == 1
    assert "delete local.db-mark" in ran.out
    Path(f"{STORE}-mark").unlink()
    assert run_here(capsys, "doctor").code == 0


def test_code_that_the_folder_names_is_not_run_without_being_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "from pathlib import Path\nfrom windlass.demo import agent\nPath('ran').touch()\n"
    (tmp_path / "app.py").write_text(code, encoding="utf-8")
    (tmp_path / "windlass.toml").write_text('agents = "app.py:agent"\n', encoding="utf-8")
    ran = run_here(capsys, "doctor")
    assert ran.code == 0, ran.out
    assert "! agents: app.py:agent, not loaded" in ran.out
    assert "windlass doctor --load" in ran.out
    assert not (tmp_path / "ran").exists()
    ran = run_here(capsys, "doctor", "--load")
    assert "✓ agents: demo, of app.py:agent" in ran.out
    assert (tmp_path / "ran").exists()
