"""docs/cli.md: its commands work, and its tables are complete."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.cli.commands import WAIT_S_MAX
from typer.main import get_command

from tools.doc_blocks import blocks
from tools.files import ROOT
from windlass_cli.main import app
from windlass_cli.output import Exit

PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


def test_the_commands_of_the_page_work(tmp_path: Path) -> None:
    commands = "\n".join(block.code for block in blocks(PAGE) if block.language == "bash")
    script = f'set -euo pipefail\nwindlass() {{ "{sys.executable}" -m windlass_cli "$@"; }}\n{commands}\n'
    python = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{python}:{os.environ['PATH']}", "WINDLASS_SERVER_PORT": "0"}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX * 3,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "it waits" in done.stdout
    assert "paid 1 cents" in done.stdout
    assert "tool.dispatch:weather" in done.stdout


def test_the_page_lists_every_exit_code() -> None:
    codes = re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)
    assert codes == [str(code.value) for code in Exit]


def leaves(command: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """The commands with the words that lead to them, and their help."""
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(path), str(getattr(command, "help", ""))
        return
    for name, one in below.items():
        yield from leaves(one, (*path, name))


def test_every_command_is_on_the_page_and_has_an_example() -> None:
    found = dict(leaves(get_command(app)))
    assert {"demo", "builder proposals check", "migrate", "sidecar"} <= found.keys()
    assert [name for name, words in found.items() if "Example" not in words] == []
    families = {" ".join(name.split()[:2]) for name in found}
    told = PAGE.replace("`, `", "` `")
    missing = [name for name in families if not any(word in told for word in _spelt(name))]
    assert missing == []


def _spelt(name: str) -> tuple[str, ...]:
    """Notations of a command on a page: alone, in full, or in a list of its family."""
    last = name.split()[-1]
    return (f"`{name}", f"windlass {name}", f" `{last}`")
