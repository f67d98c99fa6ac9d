"""Every example is short and runs by itself in an empty folder, without warnings."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.files import ROOT, repository_files

EXAMPLE_LINES_MAX = 60
RUN_TIMEOUT_S = 60
EXAMPLES = [path for path in repository_files() if path.parts[0] == "examples" and path.name != "README.md"]


def test_there_is_an_example() -> None:
    assert EXAMPLES, "examples/ is empty; `make dev` runs examples/tour.py"


@pytest.mark.parametrize("path", EXAMPLES, ids=str)
def test_an_example_is_one_python_file_that_fits_on_a_page(path: Path) -> None:
    assert path.suffix == ".py", f"{path}: an example is one Python file"
    assert len(path.parts) == 2, f"{path}: an example is one file, without a folder"
    lines = len((ROOT / path).read_text(encoding="utf-8").splitlines())
    assert lines <= EXAMPLE_LINES_MAX, f"{path}: found {lines} lines, limit {EXAMPLE_LINES_MAX}"


@pytest.mark.parametrize("path", EXAMPLES, ids=str)
def test_an_example_runs(path: Path, tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-I", "-W", "error", str(ROOT / path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert result.returncode == 0, f"{path}:\n{result.stdout}\n{result.stderr}"
    assert result.stdout.strip(), f"{path}: shows nothing; an example lets people see something"


def test_the_example_of_a_crash_makes_its_folder_and_ends_in_a_second_process(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    command = [sys.executable, "-I", str(ROOT / "examples" / "crash.py"), str(folder)]
    first, second = (
        subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
        for _ in range(2)
    )
    assert (first.returncode, first.stderr) == (-9, "")
    assert (second.returncode, second.stdout) == (0, "completed: Done.\n")
