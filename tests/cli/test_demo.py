"""`demo`: a run that is killed with -9 while it waits, and resumed."""

import os
import re
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.commands import COMMAND, WAIT_S_MAX, Typed, run_apart, run_here


@contextmanager
def demo(folder: Path, *before: str) -> Generator["Demo"]:
    """The demo in a process of its own, which dies with the block."""
    command = [*COMMAND, *before, "demo", "--port", "0"]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            yield Demo(child)
        finally:
            child.kill()
            assert child.stderr is not None
            child.stderr.close()


class Demo:
    """The output of a demo."""

    def __init__(self, child: "subprocess.Popen[str]") -> None:
        self._child = child
        self.said = ""

    def until(self, pattern: str) -> str:
        """Read until something was said; return the part in brackets."""
        assert self._child.stderr is not None
        for line in self._child.stderr:
            self.said += line
            if found := re.search(pattern, line):
                return found[1]
        raise AssertionError(f"it ended without {pattern}:\n{self.said}")

    def end(self, number: int) -> int:
        """Send a signal; return how it ended."""
        self._child.send_signal(number)
        return self._child.wait(timeout=WAIT_S_MAX)


def test_a_demo_killed_while_waiting_resumes_the_same_run_and_pays_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with demo(tmp_path) as first:
        request = first.until(r"windlass approvals answer (\S+) approve")
        pid = first.until(r"kill -9 (\d+)")
        run = first.until(r"windlass runs resume (\S+)")
        os.kill(int(pid), signal.SIGKILL)
        assert first.end(signal.SIGKILL) == -signal.SIGKILL
    with demo(tmp_path) as second:
        assert second.until(r"Continuing run (\S+) from") == run
        assert second.until(r"windlass approvals answer (\S+) approve") == request
        # The request is answered by another process; the demo reads the answer from the store.
        assert run_apart(tmp_path, "approvals", "answer", request, "approve").code == 0
        second.until(r"(✓ pay)")
        second.until(r"(runs show)")
        assert second.end(signal.SIGINT) == 0
    again = run_here(capsys, "approvals", "answer", request, "approve")
    assert again.code == 5
    assert "resolved already: approve by" in again.err
    assert f"windlass runs show {run}" in again.err
    assert run_here(capsys, "runs", "tail", "--no-follow", run).err.count("✓ pay") == 1


def test_a_killed_demo_is_resumed_in_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "windlass.toml").write_text('agents = "mine.py:agent"\nstore = "mine.db"\n', encoding="utf-8")
    with demo(tmp_path) as killed:
        resume = killed.until(r"(windlass .*runs resume \S+)").split()[1:]
        assert killed.end(signal.SIGKILL) == -signal.SIGKILL
    assert resume[0] == "--agents"
    assert not (tmp_path / "mine.db").exists()
    typed = Typed(tmp_path, resume)
    typed.until("> ")
    typed.type("approve")
    typed.until("paid ")
    assert typed.end() == 0
