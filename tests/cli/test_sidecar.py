"""`sidecar` is windlass-sidecar: its options, its frames, the store that is set."""

import json
from pathlib import Path

from tests.cli.commands import run_apart

PING = '{"jsonrpc": "2.0", "id": 1, "method": "system.ping"}\n'


def test_the_sidecar_answers_and_uses_the_store_of_the_settings(tmp_path: Path) -> None:
    ran = run_apart(tmp_path, "--store", "side.db", "sidecar", "--quiet-ready", words=PING)
    assert ran.code == 0, ran.err
    answers = [json.loads(line) for line in ran.out.splitlines()]
    assert [one["id"] for one in answers if "result" in one] == [1]
    assert (tmp_path / "side.db").is_file()


def test_options_and_help_are_those_of_the_sidecar(tmp_path: Path) -> None:
    assert run_apart(tmp_path, "sidecar", "--version").out == "0.1.0\n"
    assert "--frame-timeout" in run_apart(tmp_path, "sidecar", "--help").out
    assert run_apart(tmp_path, "sidecar", "--log-level", "loud").code == 2
    ran = run_apart(tmp_path, "sidecar", "--tools", "nothing_here")
    assert ran.code == 1
    assert "no module named nothing_here" in ran.err
