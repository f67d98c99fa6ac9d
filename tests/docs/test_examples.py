"""Every example is short and runs by itself in an empty folder, without warnings."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from threading import Timer

import pytest

from tools.doc_blocks import blocks
from tools.files import ROOT, repository_files

EXAMPLE_LINES_MAX = 60
RUN_TIMEOUT_S = 300
EXAMPLES = [path for path in repository_files() if path.parts[0] == "examples" and path.name != "README.md"]
README = blocks((ROOT / "README.md").read_text(encoding="utf-8"))
SHOWN = {
    before.code.split()[1]: after.code
    for before, after in pairwise(README)
    if before.code.startswith("python examples/") and after.language == "text"
}
"""The output of an example on the README."""


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
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert result.returncode == 0, f"{path}:\n{result.stdout}\n{result.stderr}"
    assert result.stdout.strip(), f"{path}: shows nothing; an example lets people see something"
    assert result.stdout == SHOWN.get(str(path), result.stdout), "README.md shows something else"


@pytest.mark.parametrize(
    ("name", "module", "words"),
    [
        ("mcp_tool.py", "mcp", "windlass-runtime[mcp]"),
        ("code.py", "pydantic_monty", "windlass-runtime[code]"),
        ("workflow.py", "pydantic_monty", "windlass-runtime[code]"),
        ("remote.py", "httpx2", "windlass-runtime[client]"),
        ("remote.py", "windlass_server", "windlass-server"),
    ],
)
def test_an_example_without_its_extra_says_what_to_install(
    name: str, module: str, words: str, tmp_path: Path
) -> None:
    path = ROOT / "examples" / name
    assert words in path.read_text(encoding="utf-8").split('"""')[1], "the first lines name the extra"
    run_it = f"runpy.run_path({str(path)!r}, run_name='__main__')"
    code = f"import runpy, sys\nsys.modules[{module!r}] = None\n{run_it}"
    result = subprocess.run(
        [sys.executable, "-I", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_the_example_with_two_servers_ends_when_the_other_server_does(tmp_path: Path) -> None:
    (tmp_path / "windlass_server.py").write_text("raise SystemExit('no server today')\n", encoding="utf-8")
    result = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "remote.py")],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert result.returncode == 1
    assert "The server of the pilot ended with code 1" in result.stderr


def test_the_readme_shows_the_output_of_its_example() -> None:
    assert SHOWN.keys() == {"examples/crash.py"}


def test_the_example_of_a_crash_makes_its_folder_and_ends_in_a_second_process(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    command = [sys.executable, "-I", str(ROOT / "examples" / "crash.py"), str(folder)]
    first, second = (
        subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
        for _ in range(2)
    )
    assert (first.returncode, first.stderr) == (-9, "")
    assert (second.returncode, second.stdout) == (0, "completed: Done.\n")


def test_every_program_of_the_readme_is_an_example_word_for_word() -> None:
    programs = {(ROOT / path).read_text(encoding="utf-8") for path in EXAMPLES}
    strange = [block.line for block in README if block.language == "python" and block.code not in programs]
    assert not strange, f"README.md: the programs at lines {strange} are in no file of examples/"


def talk(folder: Path, words: str, *, until: str) -> str:
    """Say something to the example of a chat, and kill it once it has answered."""
    command = [sys.executable, "-I", "-u", str(ROOT / "examples" / "chat.py")]
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # errors are printed, too
        text=True,
    ) as chat:
        assert chat.stdin is not None
        assert chat.stdout is not None
        patience = Timer(RUN_TIMEOUT_S, chat.kill)
        patience.start()
        chat.stdin.write(words)
        chat.stdin.flush()
        heard = ""
        while not heard.endswith(until) and (character := chat.stdout.read(1)):
            heard += character
        patience.cancel()
        chat.kill()
    assert heard.endswith(until), heard
    return heard


def test_the_example_of_a_chat_asks_again_after_it_was_killed_at_its_question(tmp_path: Path) -> None:
    first = talk(tmp_path, "mail Ada\n", until="[y/n] ")
    second = talk(tmp_path, "", until="[y/n] ")
    assert first == f"> {second}"  # except the prompt, which is in the journal by now
    third = talk(tmp_path, "y\n", until="> ")
    assert third == f"{second}agent: mail says: sent\n> "
