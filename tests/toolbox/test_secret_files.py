"""The file tools show no file with the name of credentials unless a person consents."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import JsonValue
from tests.toolbox.rig import Failed, play, tool_of, use

from windlass import Agent, AgentRuntime, Approval
from windlass.testing import ScriptedModel, by_history, call, say
from windlass.toolbox import Workspace

pytestmark = pytest.mark.promise("S2")
SECRETS = (
    ".env",
    "src/deploy_key",
    ".ssh/config",
    "src/credentials/prod.json",
    "docs/.ENV.local",
    "./id_rsa",
)
FREE = ("README.md", "src/token.py", ".env.example", "docs/secrets.md", ".", "src", "keys.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    for name in (*SECRETS, *FREE):
        path = root / name
        if "." in name[1:] or name in SECRETS:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{'CANARY' if name in SECRETS else 'plain'} of {name}\n")
    (root / "notes.txt").symlink_to(".env")
    (root / "conf").symlink_to("src/credentials")
    return root


def rule(folder: Path, name: str, arguments: Mapping[str, JsonValue]) -> object:
    """When the call of a tool asks."""
    check = tool_of(Workspace(folder), name).approval
    assert callable(check)
    return check(dict(arguments))


def test_a_path_with_the_name_of_credentials_asks_a_person(folder: Path) -> None:
    for path in SECRETS:
        assert rule(folder, "read_file", {"path": path}) == "always", path
        assert rule(folder, "read_file", {"path": f"/workspace/{path}"}) == "always", path
        assert rule(folder, "grep", {"pattern": "x", "path": path}) == "always", path
        assert rule(folder, "send_files", {"paths": ["README.md", path]}) == "always", path
    for path in FREE:
        assert rule(folder, "read_file", {"path": path}) == "policy", path
        assert rule(folder, "grep", {"pattern": "x", "path": path}) == "policy", path
        assert rule(folder, "send_files", {"paths": [path]}) == "policy", path
    assert rule(folder, "grep", {"pattern": "x"}) == "policy"
    assert rule(folder, "send_files", {"paths": 1}) == "policy", "the arguments are refused later"


def test_a_file_that_makes_other_programs_run_code_is_not_fetched_without_consent(folder: Path) -> None:
    for path in (".git/hooks/pre-commit", "Makefile", "sub/../package.json"):
        assert rule(folder, "fetch_files", {"files": {"a.txt": "x", path: "y"}}) == "always", path
    harmless: tuple[JsonValue, ...] = ({"a.txt": "x"}, [], None)
    for files in harmless:
        assert rule(folder, "fetch_files", {"files": files}) == "policy"


def test_a_link_to_credentials_is_refused_with_their_name(folder: Path) -> None:
    for name, arguments in (
        ("read_file", {"path": "notes.txt"}),
        ("read_file", {"path": "conf/prod.json"}),
        ("grep", {"pattern": "CANARY", "path": "notes.txt"}),
        ("grep", {"pattern": "CANARY", "path": "conf"}),
    ):
        with pytest.raises(Failed, match="which has the name of credentials; read it by that name"):
            play(use(tool_of(Workspace(folder), name), arguments))


def test_a_search_leaves_credentials_out_and_says_so(folder: Path) -> None:
    tool = tool_of(Workspace(folder), "grep")
    text = str(play(use(tool, {"pattern": "of"})))
    assert "CANARY" not in text
    assert "plain of README.md" in text
    assert "plain of src/token.py" in text
    assert f"{len(SECRETS)} files with names of credentials were left out" in text
    assert "CANARY" not in str(play(use(tool, {"pattern": "of", "files": ".env*"})))
    assert "left out" not in str(play(use(tool, {"pattern": "of", "files": "*.md"})))
    # A person has consented.
    assert "CANARY of src/credentials/prod.json" in str(
        play(use(tool, {"pattern": "of", "path": "src/credentials"}))
    )
    assert "CANARY of .env" in str(play(use(tool, {"pattern": "of", "path": ".env"})))


def test_credentials_are_read_after_a_request_and_not_without_people(folder: Path) -> None:
    async def output(*, is_attended: bool) -> tuple[list[str], str]:
        model = ScriptedModel(by_history([call("read_file", {"path": ".env"}), say("done")]))
        agent = Agent("helper", model=model, tools=Workspace(folder).tools("read_file"))
        asked: list[str] = []
        async with AgentRuntime.in_memory([agent], is_attended=is_attended) as runtime:
            handle = await runtime.start_run(agent, "go")
            async for request in handle.requests():
                assert isinstance(request, Approval)
                asked.append(request.prompt)
                assert "approve_session" not in [option.id for option in request.data.options or ()]
                await request.approve(by="ada")
            await handle.wait()
        return asked, "".join(str(message.content) for message in model.requests[-1].messages)

    asked, shown = play(output(is_attended=True))
    assert len(asked) == 1
    assert ".env" in asked[0]
    assert "CANARY" in shown
    asked, shown = play(output(is_attended=False))
    assert asked == []
    assert "CANARY" not in shown
