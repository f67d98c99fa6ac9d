"""`windlass limits`, and `[limits]` in windlass.toml."""

import json
from pathlib import Path

import pytest
from tests.cli.commands import run_here

AGENTS = """from windlass import Agent
from windlass.testing import ScriptedModel, say

clerk = Agent("clerk", model=ScriptedModel([say("done")] * 9), prices={"*": {"input": 0, "output": 1_000}})
"""
TOML = """agents = "shop.py"

[limits.people]
per = "month"
max_cost_micros = 500_000
owner = "*"
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(AGENTS, encoding="utf-8")
    (tmp_path / "windlass.toml").write_text(TOML, encoding="utf-8")
    return tmp_path


def test_limits_of_the_project_hold_and_show_what_is_left(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_here(capsys, "run", "Hello.").code == 0
    shown = json.loads(run_here(capsys, "limits", "list", "--json").out)
    assert (shown["name"], shown["subject"], shown["heldMicros"]) == ("people", "local", 0)
    assert shown["costMicrosLeft"] == 500_000 - shown["costMicros"]
    listed = run_here(capsys, "limits", "list").out
    assert all(word in listed for word in ("people", "month", "local", "$0."))
    assert run_here(capsys, "limits", "list", "--owner", "ann").out.count("local") == 0


def test_a_limit_is_set_shown_and_removed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "windlass.toml").write_text('agents = "shop.py"\n', encoding="utf-8")
    assert run_here(capsys, "run", "Hello.").code == 0
    assert "No limits. Set one:" in run_here(capsys, "limits", "list").err
    more = ("--per", "day", "--dollars", "2.5", "--tokens", "1000000", "--timezone", "Europe/Berlin")
    assert run_here(capsys, "limits", "set", "house", *more).code == 0
    shown = json.loads(run_here(capsys, "limits", "list", "--json").out)
    assert (shown["maxCostMicros"], shown["maxTokens"], shown["timezone"]) == (
        2_500_000,
        1_000_000,
        "Europe/Berlin",
    )
    assert "$2.5000, 1,000,000 tokens" in run_here(capsys, "limits", "list").out
    assert run_here(capsys, "limits", "remove", "house").code == 0
    gone = run_here(capsys, "limits", "remove", "house")
    assert (gone.code != 0, "unknown limit: house" in gone.err) == (True, True)
    for dollars in ("-1", "inf", "nan"):
        refused = run_here(capsys, "limits", "set", "x", "--per", "day", "--dollars", dollars)
        assert (refused.code, "'--dollars': Input should be" in refused.err) == (2, True)
    assert "needs max_cost_micros" in run_here(capsys, "limits", "set", "x", "--per", "day").err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '[limits.a]\nper = "week"\nmax_tokens = 1',
            "limits.a: per of limit a must be one of run, day, month",
        ),
        ('[limits.a]\nper = "day"\nmax = 1', "limits.a: it takes per, max_cost_micros"),
        ("limits = 5", "a table of limits by name"),
        ("[limits]\na = 5", "a table of limits by name"),
    ],
)
def test_a_limit_of_the_project_that_is_not_valid_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    (here / "windlass.toml").write_text(f'agents = "shop.py"\n{text}\n', encoding="utf-8")
    refused = run_here(capsys, "run", "Hello.")
    assert refused.code != 0
    assert words in refused.err
