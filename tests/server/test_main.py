"""The command: refused options, loaded agents, and new keys."""

import json
from pathlib import Path
from socket import create_server

import pytest
from tests.server.rig import payer, talker

from windlass import Agent
from windlass.loading import load_agents
from windlass_server.app import main
from windlass_server.auth import KeyFile, new_key

one = talker()
several = [talker("a"), payer("b")]
misspelt = Agent("lost", model="opnai/gpt-5")
needy = Agent("needy", model="demo/demo", deps=Path)
none: list[object] = []
strange = ["no agent"]


def test_agents_are_found_by_the_name_of_their_module_and_their_own() -> None:
    assert load_agents("tests.server.test_main:one") == (one,)
    assert load_agents("tests.server.test_main:several") == tuple(several)


@pytest.mark.parametrize(
    "place",
    ["none", "strange", "missing", "Path"],
    ids=["empty", "others", "missing", "no agent"],
)
def test_a_reference_that_is_not_an_agent_is_refused_with_a_message(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--agents", f"tests.server.test_main:{place}"]) == 2
    assert f"--agents tests.server.test_main:{place}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0"], "neither keys nor tokens"),
        (["--agents", "no.such.module:x"], "no module named"),
        (["--agents", "json"], "holds no Agent"),
        (["--jwt-issuer", "https://issuer.example"], "tokens need all of"),
        (["--cors-origins", "https://a.example,*"], "cors_origins lists origins"),
        (["--keys", "missing.json"], "there is no key file missing.json: make a key with windlass keys add"),
        (["--agents", "tests.server.test_main:misspelt"], "agent lost: missing provider adapter"),
        (["--agents", "tests.server.test_main:needy"], "agent needy needs dependencies; give it a factory"),
        (["--goals", "tests.server.test_main:one"], "expected Goal"),
        (["--data", __file__], "is no folder"),
    ],
)
def test_a_command_that_cannot_be_served_says_why(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert words in capsys.readouterr().err


def test_a_file_of_keys_that_cannot_be_read_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text('{"keys": [{"id": "a"}]}', encoding="utf-8")
    assert main(["--keys", str(keys)]) == 2
    assert "cannot be read" in capsys.readouterr().err
    entry = {"id": "a", "sha256": "0" * 64, "tenant": "acme", "user": "windlass-builder"}
    keys.write_text(json.dumps({"keys": [entry]}), encoding="utf-8")
    assert main(["--keys", str(keys)]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert main(["--jwt-issuer", "i", "--jwt-audience", "a", "--jwt-jwks", str(tmp_path / "missing")]) == 2
    assert "missing" in capsys.readouterr().err


def test_no_two_keys_are_alike_and_the_file_holds_none() -> None:
    made = [new_key("k", "acme", user="ann") for _ in range(100)]
    assert len({key for key, _ in made}) == 100
    for key, entry in made:
        assert key.rpartition("_")[2] not in KeyFile(keys=(entry,)).model_dump_json()


def test_a_store_that_is_none_and_a_port_that_is_taken_are_refused_before_anything_is_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "local.db").write_text("not a database at all")
    assert main(["--data", str(tmp_path)]) == 2
    assert "local.db" in capsys.readouterr().err
    (tmp_path / "local.db").unlink()
    with create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["--data", str(tmp_path), "--port", str(port)]) == 2
    said = capsys.readouterr().err
    assert f"cannot listen on 127.0.0.1:{port}" in said
    assert "--port" in said
