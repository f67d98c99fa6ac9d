"""`doctor` reports failed checks with a hint, and changes nothing."""

from pathlib import Path

import pytest
from tests.cli.commands import run_here


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("WINDLASS_SERVER_PORT", "0")


def test_all_checks_pass_in_an_empty_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = run_here(capsys, "doctor")
    assert ran.code == 0, ran.out
    assert "✓ agents: demo" in ran.out
    assert list(tmp_path.iterdir()) == []


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


def test_an_existing_store_is_opened(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_here(capsys, "run", "hello").code == 0
    assert "✓ store" in run_here(capsys, "doctor").out


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
