"""`windlass keys`: the key file of a server is changed at once, and holds no key."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.cli.commands import COMMAND, WAIT_S_MAX, run_here

from windlass.testing import FakeClock
from windlass_server.auth import ApiKeys, Principal


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "keys.json"


def test_a_new_key_is_shown_once_and_authenticates_until_it_is_revoked(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    added = run_here(capsys, "keys", "add", "k1", "ann", "--tenant", "acme", "--role", "approver")
    key = added.out.strip()
    assert (added.code, key in added.err) == (0, False)
    assert 'keys = "keys.json" under [server]' in added.err
    assert key.rpartition("_")[2] not in file.read_text(encoding="utf-8")
    assert file.stat().st_mode & 0o777 == 0o600
    clock = FakeClock()
    assert ApiKeys(file, clock).principal(key) == Principal("acme", "ann", roles=frozenset({"approver"}))
    assert run_here(capsys, "keys", "revoke", "k1").code == 0
    assert ApiKeys(file, clock).principal(key) is None
    listed = run_here(capsys, "keys", "list").out
    assert all(word in listed for word in ("k1", "acme", "ann", "approver", "never", "revoked"))


def test_a_key_expires_at_the_given_day(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_here(capsys, "keys", "add", "k1", "ann", "--expires", "2020-01-02", "--operator").code == 0
    assert json.loads(file.read_text(encoding="utf-8"))["keys"][0]["expiresAt"] == "2020-01-02T00:00:00Z"
    listed = run_here(capsys, "keys", "list").out
    assert all(word in listed for word in ("local", "operator", "2020-01-02", "expired"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("add", "k1", "ben"), "the key k1 exists already"),
        (("add", "K 2", "ben"), "an id is lower case letters and digits"),
        (("add", "k2", "windlass-builder"), "reserved: windlass-builder"),
        (("add", "k2", "ben", "--role", "boss"), "unknown role: boss"),
        (("revoke", "k2"), "unknown key: k2"),
    ],
)
def test_a_refused_change_leaves_the_file_as_it_was(
    file: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    run_here(capsys, "keys", "add", "k1", "ann")
    before = file.read_bytes()
    refused = run_here(capsys, "keys", *arguments)
    assert refused.code == 2
    assert words in refused.err
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_file_that_is_none_is_not_replaced(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "No keys" in run_here(capsys, "keys", "list").err
    file.write_text("not keys", encoding="utf-8")
    refused = run_here(capsys, "keys", "add", "k1", "ann")
    assert (refused.code, file.read_text(encoding="utf-8")) == (2, "not keys")
    assert "cannot be read" in refused.err
    (file.parent / "windlass.toml").write_text('[server]\nkeys = "none/keys.json"\n', encoding="utf-8")
    assert "cannot be written" in run_here(capsys, "keys", "add", "k1", "ann").err


def test_keys_that_several_processes_add_at_once_are_all_there(file: Path) -> None:
    started = [
        subprocess.Popen([*COMMAND, "keys", "add", f"k{number}", "ann"], stdout=subprocess.DEVNULL)
        for number in range(4)
    ]
    assert [one.wait(WAIT_S_MAX) for one in started] == [0] * 4
    keys = json.loads(file.read_text(encoding="utf-8"))["keys"]
    assert {one["id"] for one in keys} == {"k0", "k1", "k2", "k3"}
