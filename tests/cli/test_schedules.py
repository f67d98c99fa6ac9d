"""`windlass schedules`, on a store and on a server."""

import json
from pathlib import Path

import pytest
from tests.cli.commands import run_here

AGENTS = """from windlass import Agent
from windlass.testing import ScriptedModel, say

clerk = Agent("clerk", model=ScriptedModel([say("done")] * 9))
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(AGENTS, encoding="utf-8")
    (tmp_path / "windlass.toml").write_text('agents = "shop.py"\n', encoding="utf-8")
    assert run_here(capsys, "run", "Hello.").code == 0
    return tmp_path


def test_a_schedule_is_added_listed_paused_resumed_and_removed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cron = ("--cron", "0 3 * * *", "--timezone", "Europe/Berlin")
    added = run_here(capsys, "schedules", "add", "nightly", "Write the report.", *cron)
    assert (added.code, "nightly starts a run at " in added.err) == (0, True)
    listed = run_here(capsys, "schedules", "list").out
    assert all(
        word in listed for word in ("nightly", "0 3 * * * Europe/Berlin", "clerk", "Write the report.")
    )
    assert run_here(capsys, "schedules", "pause", "nightly").code == 0
    assert "paused" in run_here(capsys, "schedules", "list").out
    shown = json.loads(run_here(capsys, "schedules", "list", "--json").out)
    assert (shown["isPaused"], shown["owner"], shown["missed"]) == (True, "local", "once")
    assert run_here(capsys, "schedules", "resume", "nightly").code == 0
    assert run_here(capsys, "schedules", "add", "once", "Go.", "--at", "2020-01-01T00:00:00").err.startswith(
        "once has no tick in the future"
    )
    assert run_here(capsys, "schedules", "add", "often", "Go.", "--every", "300").code == 0
    assert "every 300 s" in run_here(capsys, "schedules", "list").out
    for name in ("nightly", "once", "often"):
        assert run_here(capsys, "schedules", "remove", name).code == 0
    assert "No schedules. Add one:" in run_here(capsys, "schedules", "list").err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("add", "x", "Go."), "needs one of cron, every_s and at, found none"),
        (("add", "x", "Go.", "--cron", "soon"), "Wrong number of fields"),
        (("add", "x", "Go.", "--every", "5", "--missed", "some"), "missed of schedule x is one of"),
        (("add", "x", "Go.", "--every", "5", "--overlap", "some"), "overlap of schedule x is one of"),
        (("add", "x", "Go.", "--every", "5", "--agent", "nobody"), "nobody"),
        (("pause", "x"), "unknown schedule: x"),
        (("remove", "x"), "unknown schedule: x"),
    ],
)
def test_a_mistake_is_named(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    refused = run_here(capsys, "schedules", *arguments)
    assert (refused.code, words in refused.err) == (2, True)


def test_schedules_of_the_project_are_made_when_a_command_drives_the_store(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = '[schedules.nightly]\nagent = "clerk"\nmessage = "Report."\ncron = "0 3 * * *"\n'
    (here / "windlass.toml").write_text(f'agents = "shop.py"\n{table}', encoding="utf-8")
    assert run_here(capsys, "run", "Hello again.").code == 0
    shown = json.loads(run_here(capsys, "schedules", "list", "--json").out)
    assert (shown["name"], shown["cron"], shown["owner"]) == ("nightly", "0 3 * * *", "local")
    begun = run_here(capsys, "schedules", "run", "nightly")
    assert (begun.code, "nightly has started the run schedule:nightly:" in begun.err) == (0, True)
    assert "schedule:nightly:" in run_here(capsys, "runs", "list").out
    wrong = {
        table.replace("cron", "corn"): "schedules.nightly has an unknown key 'corn'; did you mean cron?",
        table.replace("0 3 * * *", "x"): "schedules.nightly: cron of schedule nightly cannot be read",
        "[schedules.nightly]\n": "schedules.nightly: agent and message are needed",
        "schedules = 5\n": "schedules must be a table of schedules",
    }
    for text, words in wrong.items():
        (here / "windlass.toml").write_text(f'agents = "shop.py"\n{text}', encoding="utf-8")
        told = run_here(capsys, "run", "Hello.")
        assert (told.code, words in told.err) == (2, True), told.err


def test_a_schedule_of_the_project_with_an_unknown_agent_is_named(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = '[schedules.nightly]\nagent = "clrek"\nmessage = "Report."\ncron = "0 3 * * *"\n'
    (here / "windlass.toml").write_text(f'agents = "shop.py"\n{table}', encoding="utf-8")
    ran = run_here(capsys, "run", "Hello.")
    assert ran.code == 0
    assert "Schedule nightly starts no runs here: unknown agent clrek; known are clerk\n" in ran.err


def test_a_server_with_keys_takes_no_schedules_of_a_file(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = '[schedules.nightly]\nagent = "clerk"\nmessage = "Report."\nevery_s = 60\n'
    (here / "keys.json").write_text('{"keys": []}', encoding="utf-8")
    text = f'agents = "shop.py"\n{table}[server]\nkeys = "keys.json"\n'
    (here / "windlass.toml").write_text(text, encoding="utf-8")
    told = run_here(capsys, "serve", "--port", "0")
    assert (told.code, "belong to the user of this machine" in told.err) == (2, True), told.err
