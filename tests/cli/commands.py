"""Runs the command in this process, in its own process, or on a pseudo-terminal."""

import os
import pty
import select
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from windlass_cli.main import main

WAIT_S_MAX = 300
"""For a busy machine; no test waits so long when it passes."""
COMMAND = (sys.executable, "-m", "windlass_cli")


@dataclass(frozen=True)
class Ran:
    """Output and exit code of a command."""

    code: int
    out: str
    err: str


def run_here(capsys: pytest.CaptureFixture[str], *arguments: str) -> Ran:
    """Run a command in this process."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = capsys.readouterr()
    code = ended.value.code
    assert isinstance(code, int)
    return Ran(code, said.out, said.err)


def run_apart(folder: Path, *arguments: str, words: str = "") -> Ran:
    """Run a command in a process of its own."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        input=words,
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


class Typed:
    """A command on a pseudo-terminal, with typed input."""

    def __init__(self, folder: Path, arguments: Sequence[str]) -> None:
        self._mine, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.seen = ""

    def until(self, words: str) -> str:
        """Read until some words were shown."""
        while words not in self.seen:
            piece = self._read()
            assert piece, f"it ended without saying {words!r}:\n{self.seen}"
        return self.seen

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self._mine, f"{line}\n".encode())

    def signal(self, number: int) -> None:
        """Send a signal, as the terminal does for Ctrl-C."""
        self._process.send_signal(number)

    def end(self) -> int:
        """Read to the end; return the exit code."""
        while self._read():
            pass
        os.close(self._mine)
        return self._process.wait(timeout=WAIT_S_MAX)

    def hang_up(self) -> int:
        """Close the terminal; return the exit code."""
        os.close(self._mine)
        return self._process.wait(timeout=WAIT_S_MAX)

    def _read(self) -> str:
        ready, _, _ = select.select([self._mine], [], [], WAIT_S_MAX)
        assert ready, f"it says nothing more:\n{self.seen}"
        try:
            piece = os.read(self._mine, 4096).decode("utf-8", "replace")
        except OSError:  # the other side is closed
            return ""
        self.seen += piece
        return piece
