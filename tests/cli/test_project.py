"""`init` creates a project that runs, and overwrites nothing."""

from pathlib import Path

import pytest
from tests.cli.commands import run_apart, run_here


def test_a_new_project_runs(tmp_path: Path) -> None:
    made = run_apart(tmp_path, "init", "shop")
    assert made.code == 0, made.err
    assert "cd shop && windlass run" in made.err
    ran = run_apart(tmp_path / "shop", "run", "what is the weather in Oslo?")
    assert ran.code == 0, ran.err
    assert "Rain all day" in ran.out
    assert (tmp_path / "shop" / "windlass-data" / "local.db").is_file()


def test_existing_files_are_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "agent.py").write_text("mine", encoding="utf-8")
    ran = run_here(capsys, "init", str(tmp_path))
    assert ran.code == 2
    assert "exists already" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["agent.py"]
    assert (tmp_path / "agent.py").read_text(encoding="utf-8") == "mine"


def test_an_existing_project_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_here(capsys, "init", "shop").code == 0
    again = run_here(capsys, "init", "shop")
    assert again.code == 2
    assert "is a project already" in again.err
    assert "Run it: cd shop && windlass run" in again.err


def test_an_existing_gitignore_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".gitignore").write_text("mine", encoding="utf-8")
    assert run_here(capsys, "init", str(tmp_path)).code == 0
    assert (tmp_path / ".gitignore").read_text(encoding="utf-8") == "mine"


def test_a_folder_that_cannot_be_written_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    ran = run_here(capsys, "init", str(tmp_path / "file" / "below"))
    assert ran.code == 2
    assert "cannot write" in ran.err
