"""`init` creates a project that runs, and overwrites nothing."""

import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from tests.cli.commands import WAIT_S_MAX, run_apart, run_here
from tests.cli.test_serve import address, agents, serving

from tools.files import ROOT


def test_a_new_project_runs(tmp_path: Path) -> None:
    made = run_apart(tmp_path, "init", "shop")
    assert made.code == 0, made.err
    assert "cd shop && windlass run" in made.err
    ran = run_apart(tmp_path / "shop", "run", "what is the weather in Oslo?")
    assert ran.code == 0, ran.err
    assert "weather says: Rain all day in Oslo." in ran.out
    assert "Rain all day in Oslo." in run_apart(tmp_path / "shop", "run", "weather").out
    assert (tmp_path / "shop" / "windlass-data" / "local.db").is_file()
    checked = run_apart(tmp_path / "shop", "doctor", "--load")
    assert "✓ agents: helper" in checked.out


def test_the_tests_of_a_new_project_pass_and_dev_serves_it(tmp_path: Path) -> None:
    assert run_apart(tmp_path, "init", "My Shop").code == 0
    shop = tmp_path / "My Shop"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"],
        cwd=shop,
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
        check=False,
    )
    assert "3 passed" in done.stdout, done.stdout + done.stderr
    with serving(shop, "dev", "--port", "0", end=signal.SIGTERM) as child:
        assert agents(address(child)) == ["helper"]
    image, readme = ((shop / name).read_text(encoding="utf-8") for name in ("Dockerfile", "README.md"))
    for command in (
        "docker build -t my-shop .",
        "docker run --rm -v my-shop-data:/data my-shop windlass keys add ann ann --role approver",
        "docker run -p 8700:8700 -v my-shop-data:/data my-shop",
    ):
        assert command in image
        assert command in readme
    copied = [line.split()[1] for line in image.splitlines() if line.startswith("COPY")]
    assert all((shop / path).exists() for path in copied), "a build copies what init made"
    assert "wheels/" in readme
    assert tomllib.loads((shop / "windlass.toml").read_text(encoding="utf-8"))["agents"] == "agent.py:agent"
    workflow = yaml.safe_load((shop / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    assert {"run": "pytest"} in workflow["jobs"]["test"]["steps"]


def test_the_requirements_of_a_new_project_are_the_wheels_of_this_release(tmp_path: Path) -> None:
    assert run_apart(tmp_path, "init", "shop").code == 0
    named = (tmp_path / "shop" / "requirements.txt").read_text(encoding="utf-8")
    for package in ("protocol", "harness", "runtime", "server", "sidecar", "cli"):
        project = tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text(encoding="utf-8"))[
            "project"
        ]
        wheel = f"{project['name'].replace('-', '_')}-{project['version']}-py3-none-any.whl"
        assert f"\nwheels/{wheel}\n" in named


def test_existing_files_are_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "agent.py").write_text("mine", encoding="utf-8")
    ran = run_here(capsys, "init", str(tmp_path))
    assert ran.code == 2
    assert "exists already" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["agent.py"]
    assert (tmp_path / "agent.py").read_text(encoding="utf-8") == "mine"


def test_the_next_command_quotes_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "cd 'my shop' && windlass run" in run_here(capsys, "init", "my shop").err


def test_an_existing_project_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_here(capsys, "init", "shop").code == 0
    again = run_here(capsys, "init", "shop")
    assert again.code == 2
    assert "is a project already" in again.err
    assert "Run it: cd shop && windlass run" in again.err


def test_other_files_that_exist_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tests").mkdir()
    mine = [".gitignore", "README.md", "tests/test_agent.py", "Dockerfile"]
    for name in mine:
        (tmp_path / name).write_text("mine", encoding="utf-8")
    ran = run_here(capsys, "init", str(tmp_path))
    assert (ran.code, ran.err.count("was there, and is kept")) == (0, len(mine))
    assert {(tmp_path / name).read_text(encoding="utf-8") for name in mine} == {"mine"}


def test_a_folder_that_cannot_be_written_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    ran = run_here(capsys, "init", str(tmp_path / "file" / "below"))
    assert ran.code == 2
    assert "cannot write" in ran.err
