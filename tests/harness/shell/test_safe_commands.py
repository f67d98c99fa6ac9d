"""Commands graded safe are run in a sandbox: they write nothing, run nothing else and connect nowhere."""

from pathlib import Path

import pytest
from tests.harness.shell.corpus import rows
from tests.harness.shell.safe_runs import BWRAP, STRACE, effects, safe_commands

from windlass_harness.shell import classify_shell_command

GENERATED = 300
pytestmark = [
    pytest.mark.slow,
    pytest.mark.uncounted,
    pytest.mark.skipif(not (BWRAP and STRACE), reason="bubblewrap or strace is not installed"),
]


def test_the_witness_notices_writes_programs_connections_and_endless_commands(tmp_path: Path) -> None:
    found = {
        command: effects([command], tmp_path)
        for command in (
            "echo x > made",
            "rm a.txt",
            "chmod 600 a.txt",
            "touch ~/x",
            "sort -o b.txt a.txt",
            "perl -e 1",
            "./evil.sh",
            "printf 'x%n' PATH; ls",
            "exec 3<>/dev/tcp/127.0.0.1/9",
            "kill -0 $PPID",
        )
    }
    assert [command for command, seen in found.items() if not seen] == []
    assert effects(["ls", "cat a.txt"], tmp_path) == []


@pytest.mark.promise("S2")
@pytest.mark.parametrize("name", ["corpus.tsv", "more.tsv", "unseen.tsv", "attacks.tsv", "everyday.tsv"])
def test_graded_commands_that_are_safe_only_read(name: str, tmp_path: Path) -> None:
    safe = [row.command for row in rows(name) if classify_shell_command(row.command).severity == "safe"]
    assert safe
    assert effects([one for one in safe if "sleep" not in one], tmp_path) == []


@pytest.mark.promise("S2")
def test_generated_commands_that_are_safe_only_read(tmp_path: Path) -> None:
    assert effects(safe_commands(GENERATED), tmp_path) == []
