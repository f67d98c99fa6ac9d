"""Sandboxes of sessions under a real runtime: starts, state, files, attachments and subagents."""

import asyncio
import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import pytest
from tests.sandbox.rig import require_bwrap
from tests.steps.steps_rig import Stage
from tests.toolbox.rig import play

from windlass import Agent, AgentRuntime, Approval, LLMMessage, PolicySet, Rejected, Rule, ToolContext, tool
from windlass.agent import agent_tool
from windlass.agent.sandbox import Bubblewrap, NoSandbox
from windlass.evals import Case, Contains, Dataset, Experiment
from windlass.parts import MemoryStore, RulesPolicy
from windlass.ports.sandbox import SandboxFailed
from windlass.sandboxes import HostSandboxes
from windlass.sandboxes import session as session_sandbox
from windlass.testing import Answer, ScriptedModel, by_history, call, say
from windlass.toolbox import Workspace
from windlass_harness.views.session import SANDBOX_KEY, fold_session
from windlass_protocol import (
    FilePart,
    ImagePart,
    JsonObject,
    SandboxSpec,
    SandboxState,
    TextPart,
    UserContent,
)

ALL = PolicySet(
    (Rule("all", "allow", tools=("bash", "send_files", "fetch_files", "write_file"), max_shell="dangerous"),)
)
NAMES = ("bash", "read_file", "write_file", "glob", "grep", "send_files", "fetch_files")


def worker(name: str, *answers: Answer, sandbox: Any = None, subagents: tuple[Agent, ...] = ()) -> Agent:
    return Agent(
        name,
        model=ScriptedModel(by_history([*answers, say("done")])),
        tools=[*Workspace().tools(*NAMES), agent_tool],
        policy=ALL,
        sandbox=sandbox,
        subagents=subagents,
    )


def bash(command: str) -> Answer:
    return call("bash", {"command": command})


async def results(runtime: AgentRuntime, session_id: str) -> list[Any]:
    """The outputs of the calls of a session, or their errors."""
    found: list[Any] = []
    for record in await records(runtime, session_id):
        if record.type == "action.result":
            data = cast(dict[str, Any], record.data)
            output: Any = data["result"].get("output")
            shown: Any = (
                cast(dict[str, Any], output).get("output", output) if isinstance(output, dict) else output
            )
            found.append(data["error"]["message"] if "error" in data else shown)
    return found


async def records(runtime: AgentRuntime, session_id: str) -> tuple[Any, ...]:
    store = runtime.core.ports.store  # pyright: ignore[reportPrivateUsage] - the records as they are stored
    assert store is not None
    return await store.read(session_id, limit=512)


async def run(
    runtime: AgentRuntime, agent: Agent, message: UserContent = "go", session_id: str = "s1"
) -> list[Any]:
    handle = await runtime.start_run(agent, message, session_id=session_id)
    assert (await handle.wait(timeout=120)).output == "done"
    return await results(runtime, session_id)


def test_tools_of_a_session_share_one_folder_and_sessions_do_not() -> None:
    async def story() -> None:
        agent = worker(
            "a",
            bash("pwd; ls; echo one > a.txt"),
            call("read_file", {"path": "a.txt"}),
            call("write_file", {"path": "b/c.txt", "content": "two\n"}),
            bash("cat b/c.txt"),
            call("glob", {"pattern": "**"}),
            call("grep", {"pattern": "one"}),
            sandbox=NoSandbox(),
        )
        async with AgentRuntime.in_memory([agent]) as runtime:
            first, second = await run(runtime, agent), await run(runtime, agent, session_id="s2")
        where, *files = first[0].split()
        assert (files, second[0].split()[1:]) == ([], []), "a new folder is not empty"
        assert where != second[0].split()[0]
        assert first[1:4] == ["     1\tone", "wrote 'b/c.txt', a new file of 4 bytes", "two\n"]
        assert first[4].split() == ["a.txt", "b/", "b/c.txt"]
        assert "a.txt" in first[5]
        folders.append(Path(where))

    folders: list[Path] = []
    play(story())
    assert not folders[0].exists(), "a runtime in memory leaves no folders"


def test_a_workspace_without_a_folder_needs_an_agent_with_a_sandbox() -> None:
    async def story() -> list[Any]:
        agent = worker(
            "a", bash("touch x"), call("read_file", {"path": "x"}), call("send_files", {"paths": ["x"]})
        )
        async with AgentRuntime.in_memory([agent]) as runtime:
            return await run(runtime, agent)

    assert [str(one).split(";")[0] for one in play(story())] == [
        "this workspace has no folder",
        "this workspace has no folder",
        "files are handed over between sandboxes, and this agent has none",
    ]


def test_a_start_is_refused_where_the_sandbox_is_not_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    async def story() -> None:
        agent = worker("a", bash("true"), sandbox=Bubblewrap())
        async with AgentRuntime.in_memory([agent]) as runtime:
            with pytest.raises(
                Rejected, match="bwrap is not installed: install the package bubblewrap"
            ) as refused:
                await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            assert refused.value.causal_ids.run_id == "r1"
            assert await records(runtime, "s1") == ()

    play(story())


def test_a_start_is_refused_if_the_runtime_has_no_such_adapter() -> None:
    async def story() -> None:
        agent = worker("a", bash("true"), sandbox=SandboxSpec(adapter="moon"))
        async with AgentRuntime.in_memory([agent]) as runtime:
            with pytest.raises(Rejected, match="no sandbox adapter moon"):
                await runtime.start_run(agent, "go")

    play(story())


def test_a_subagent_whose_sandbox_is_not_to_be_had_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    async def story() -> list[Any]:
        child = worker("child", bash("touch outside"), sandbox=Bubblewrap())
        agent = worker("a", call("child", {"message": "x"}), sandbox=NoSandbox(), subagents=(child,))
        async with AgentRuntime.in_memory([agent]) as runtime:
            return await run(runtime, agent)

    (told,) = play(story())
    assert "bwrap is not installed" in told


def test_a_call_after_a_restart_does_not_run_outside_of_a_sandbox_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_bwrap()
    ran = tmp_path / "ran"

    async def story() -> list[Any]:
        asked = Agent(
            "a",
            model=ScriptedModel(by_history([bash(f"touch {ran}"), say("done")])),
            tools=Workspace(tmp_path).tools("bash"),
            sandbox=Bubblewrap(),
        )
        async with AgentRuntime.open(tmp_path / "a.db", agents=[asked]) as runtime:
            handle = await runtime.start_run(asked, "go", session_id="s1", run_id="r1")
            async for event in handle.events():
                if event.type == "input.requested":
                    break
        monkeypatch.setenv("PATH", "/nowhere")
        async with AgentRuntime.open(tmp_path / "a.db", agents=[asked]) as runtime:
            handle = runtime.handle("r1")
            (request,) = await handle.open_requests()
            await handle.answer(request.request_id, "approve")
            await handle.wait(timeout=120)
            return await results(runtime, "s1")

    (told,) = play(story())
    assert "bwrap is not installed" in told
    assert not ran.exists()


def test_the_state_is_recorded_with_each_call_and_shown_on_the_session() -> None:
    async def story() -> None:
        agent = worker("a", bash("echo 1 > n"), bash("true"), bash("echo 2 > n"), sandbox=NoSandbox())
        async with AgentRuntime.in_memory([agent]) as runtime:
            await run(runtime, agent)
            found = await records(runtime, "s1")
        states = [
            record.data["set"][SANDBOX_KEY]["session"]
            for record in found
            if record.type == "session.state_changed" and SANDBOX_KEY in record.data.get("set", {})
        ]
        assert [one["revision"] for one in states] == [1, 2], "a call that changes no file changes no state"
        assert {(one["adapter"], one["key"]) for one in states} == {("none", "s1")}
        session = fold_session(found).session
        assert session.sandbox_state == SandboxState(initialized=True, session=states[-1])
        assert SANDBOX_KEY not in (session.state or {})

    play(story())


FILES = (
    "mkdir -p sub && echo data > sub/f && ln -s sub/f l && "
    "printf '#!/bin/sh\\necho ran\\n' > run.sh && chmod 750 run.sh"
)


@pytest.mark.parametrize("sandbox", [NoSandbox(), Bubblewrap()], ids=["none", "bubblewrap"])
def test_a_session_goes_on_with_its_files_after_a_restart_and_on_another_machine(
    sandbox: Bubblewrap | NoSandbox, tmp_path: Path
) -> None:
    if isinstance(sandbox, Bubblewrap):
        require_bwrap()
    look = bash("find . | sort; cat l; ./run.sh; stat -c %a run.sh; echo more >> sub/f")
    shown = ".\n./l\n./run.sh\n./sub\n./sub/f\ndata\n{}ran\n750\n"

    async def story() -> None:
        agent = worker("a", bash(FILES), look, look, look, sandbox=sandbox)
        model = ScriptedModel(
            [bash(FILES), say("done"), look, say("done"), look, say("done"), look, say("done")]
        )
        agent = Agent("a", model=model, tools=agent.tools, policy=ALL, sandbox=sandbox)
        store, folders = tmp_path / "a.db", tmp_path / "a.db.sandboxes"
        told: list[Any] = []
        for turn in range(4):
            async with AgentRuntime.open(store, agents=[agent]) as runtime:
                told = await run(runtime, agent)
            assert folders.stat().st_mode & 0o777 == 0o700
            if turn == 1:
                # Another machine has the store, and not the folder.
                shutil.rmtree(folders)
            if turn == 2:
                # Back on a machine with an older folder.
                for mark in folders.glob("*.revision"):
                    mark.write_text("1")
                    (mark.with_suffix("") / "stale").write_text("x")
        assert told[1:] == [shown.format("more\n" * count) for count in range(3)]

    play(story())


def test_a_run_that_waits_goes_on_in_the_sandbox_that_its_agent_has_now(tmp_path: Path) -> None:
    """The package that a run began with may be older, or come with an import: it takes no wall down."""
    require_bwrap()

    def agent(sandbox: Bubblewrap | NoSandbox) -> Agent:
        model = ScriptedModel(by_history([bash("uname -n > n; cat n"), say("done")]))
        return Agent("a", model=model, tools=Workspace().tools("bash"), sandbox=sandbox)

    async def story() -> None:
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent(NoSandbox())]) as runtime:
            handle = await runtime.start_run("a", "go", session_id="s1", run_id="r1")
            async for _ in handle.requests():
                break
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent(Bubblewrap())]) as runtime:
            async for request in runtime.handle("r1").requests():
                assert isinstance(request, Approval)
                await request.approve(by="ann")
            assert await results(runtime, "s1") == ["sandbox\n"]

    play(story())


FORGED: dict[str, list[list[object]]] = {
    "absolute": [["{outside}/x", 0o644, "{body}"]],
    "upwards": [["../../x", 0o644, "{body}"]],
    "upwards inside": [["a/../../x", 0o644, "{body}"]],
    "through a link": [["l", "link", "{outside}"], ["l/x", "link", "y"]],
    "through a file": [["f", 0o644, "{body}"], ["f/x", 0o644, "{body}"]],
    "twice": [["f", 0o644, "{body}"], ["f", "link", "{outside}/x"]],
    "the folder itself": [[".", 0o644, "{body}"]],
    "no name": [["", 0o644, "{body}"]],
    "no byte of a name": [["a\0b", 0o644, "{body}"]],
    "too deep": [["/".join(["d"] * 102), 0o644, "{body}"]],
    "no entry": [["f", 0o644]],
    "too many": [[str(number), "link", "x"] for number in range(2_001)],
    "too large": [[str(number), 0o644, "{body}"] for number in range(1_000)],
}


@pytest.mark.parametrize("kind", FORGED)
def test_an_imported_session_writes_no_file_outside_of_its_folder(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of its files comes with the session, and a file of a session can be forged."""
    monkeypatch.setattr("windlass.sandboxes.session.SANDBOX_KEPT_BYTES_MAX", 1_000)
    outside = tmp_path / "outside"
    outside.mkdir()
    body = b"forged"
    listed = json.dumps(FORGED[kind]).replace("{outside}", str(outside))
    listed = listed.replace("{body}", f"sha256:{sha256(body).hexdigest()}")

    async def story() -> None:
        model = ScriptedModel([bash("echo 1 > n"), say("done"), bash("ls"), say("done")])
        agent = Agent("a", model=model, tools=Workspace().tools("bash"), policy=ALL, sandbox=NoSandbox())
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
            await run(runtime, agent)
            state = cast(dict[str, Any], (await runtime.sessions.state("s1"))[SANDBOX_KEY])
            lines = [line async for line in runtime.sessions.export("s1")]
        forged = _with_files(lines, state["session"]["files"], listed.encode(), body)
        async with AgentRuntime.open(tmp_path / "b" / "b.db", agents=[agent]) as runtime:
            await runtime.sessions.import_(forged)
            told = await run(runtime, agent)
        assert "the files of this session cannot be restored: the" in told[-1]

    (tmp_path / "b").mkdir()
    play(story())
    assert [*outside.iterdir()] == []
    assert not [*tmp_path.rglob("x")]


@pytest.mark.parametrize("own", [None, Bubblewrap()])
def test_an_imported_session_enters_neither_the_folder_nor_the_sandbox_of_another(
    own: Bubblewrap | None, tmp_path: Path
) -> None:
    """A subagent without a sandbox shares that of its caller, and the file says who that was."""
    require_bwrap()

    async def story() -> None:
        answers = by_history([bash("cat secret; uname -n"), say("done")])
        child = Agent("child", model=ScriptedModel(answers), tools=Workspace().tools("bash"))
        caller = worker("caller", call("child", {"message": "x"}), sandbox=NoSandbox(), subagents=(child,))
        async with AgentRuntime.open(tmp_path / "a.db", agents=[caller]) as runtime:
            handle = await runtime.start_run(caller, "go", session_id="s1")
            async for _ in handle.requests():
                break
            [session] = fold_session(await records(runtime, "s1")).children
            lines = [line async for line in runtime.sessions.export(session.session_id)]
        assert sum('"sandbox":{' in line and '"sessionId":"s1"' in line for line in lines) == 1
        forged = [line.replace('"sessionId":"s1"', '"sessionId":"victim"') for line in lines[:-1]]
        child = Agent("child", model=ScriptedModel(answers), tools=Workspace().tools("bash"), sandbox=own)
        caller = worker("caller", sandbox=NoSandbox(), subagents=(child,))
        victim = worker("victim", bash("echo hers > secret"), sandbox=NoSandbox())
        async with AgentRuntime.open(tmp_path / "b.db", agents=[caller, victim]) as runtime:
            await run(runtime, victim, session_id="victim")
            await runtime.sessions.import_(_sealed(forged))
            [waiting] = (await runtime.sessions.runs(session_id=session.session_id)).items
            async for request in runtime.handle(waiting.run_id).requests():
                assert isinstance(request, Approval)
                await request.approve(by="ann")
            [shown] = await results(runtime, session.session_id)
        assert "hers" not in shown
        assert "secret: No such file" in shown, "the command ran, in a folder without the file"
        assert ("\nsandbox\n" in shown) is (own is not None)

    play(story())


def _with_files(lines: list[str], before: str, listed: bytes, body: bytes) -> list[str]:
    """Return an exported session whose files are others."""
    changed = [line.replace(before, f"sha256:{sha256(listed).hexdigest()}") for line in lines[:-1]]
    own = [line for line in changed if json.loads(line)["kind"] != "content"]
    for content in (listed, body):
        data = {"hash": f"sha256:{sha256(content).hexdigest()}", "data": base64.b64encode(content).decode()}
        own.append(json.dumps({"kind": "content", "mediaType": "text/plain", "isOwn": True, **data}))
    return _sealed(own)


def _sealed(lines: list[str]) -> list[str]:
    """Return the lines of an exported session with the last one that fits them."""
    total = sha256("".join(f"{line}\n" for line in lines).encode())
    return [*lines, json.dumps({"kind": "end", "lines": len(lines), "sha256": total.hexdigest()})]


def test_the_folder_of_a_session_is_copied_by_a_fork_and_removed_with_the_session(tmp_path: Path) -> None:
    folders = tmp_path / "a.db.sandboxes"

    async def story() -> None:
        model = ScriptedModel([bash("echo 1 > n"), say("done"), bash("cat n; echo 2 > n"), say("done")])
        agent = Agent("a", model=model, tools=Workspace().tools("bash"), policy=ALL, sandbox=NoSandbox())
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
            await run(runtime, agent)
            fork = await runtime.sessions.fork("s1")
            assert (await run(runtime, agent, session_id=fork.session_id))[-1] == "1\n"
            assert sorted(one.read_text() for one in folders.glob("*/n")) == ["1\n", "2\n"]
        # A runtime that has no agents at all.
        async with AgentRuntime.open(tmp_path / "a.db", agents=[]) as runtime:
            await runtime.sessions.delete("s1")
        assert [one.read_text() for one in folders.glob("*/n")] == ["2\n"]
        assert len([*folders.glob("*.revision")]) == 1

    play(story())


def test_files_that_are_too_many_to_be_kept_are_not_restored_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.sandboxes.session.SANDBOX_KEPT_FILES_MAX", 3)

    async def story() -> None:
        model = ScriptedModel(
            [bash("touch a b c d"), say("done"), bash("ls"), say("done"), bash("ls"), say("done")]
        )
        agent = Agent("a", model=model, tools=Workspace().tools("bash"), policy=ALL, sandbox=NoSandbox())
        told: list[Any] = []
        for turn in range(3):
            async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
                told = await run(runtime, agent)
            if turn == 1:
                assert told[-1] == "a\nb\nc\nd\n"
                shutil.rmtree(tmp_path / "a.db.sandboxes")
        assert "on another machine" in told[-1]

    play(story())


def test_what_a_session_puts_into_the_content_store_is_bounded_over_all_its_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.sandboxes.session.SANDBOX_STORED_BYTES_MAX", 1_500)

    async def story() -> None:
        commands = ["head -c 500 /dev/urandom > f", "ls", "head -c 500 /dev/urandom > f", "ls"]
        commands += ["head -c 500 /dev/urandom > f", "rm f"]
        model = ScriptedModel(
            [
                *(answer for text in commands for answer in (bash(text), say("done"))),
                *(bash("head -c 700 /dev/zero > g"), call("send_files", {"paths": ["g"]}), say("done")),
            ]
        )
        tools = Workspace().tools("bash", "send_files")
        agent = Agent("a", model=model, tools=tools, policy=ALL, sandbox=NoSandbox())
        kept: list[tuple[int, bool]] = []
        told: list[Any] = []
        for _ in range(len(commands) + 1):
            # Another process each time: what is stored already does not count again.
            async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
                told = await run(runtime, agent)
                state = cast(dict[str, Any], (await runtime.sessions.state("s1"))[SANDBOX_KEY])
                kept.append((state["session"]["stored_bytes"], state["session"]["files"] is not None))
        sizes = [size for size, _ in kept]
        assert sizes == sorted(sizes)
        assert max(sizes) <= 1_500
        assert [is_kept for _, is_kept in kept] == [True, True, True, True, False, True, False]
        assert sizes[0] == sizes[1]
        assert sizes[2] == sizes[3] == sizes[4]
        assert "put too much into the content store" in told[-1], told

    play(story())


DEEP = "import os\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')"
HOSTILE = {
    "folders without end": f'{sys.executable} -c "{DEEP}"',
    "a link to no text": "ln -s $'\\xff' link",
    "a link with a name that is no text": "mkdir $'\\xfe'; ln -s x $'\\xfe/link'",
    "a file with a name that is no text": "touch $'\\xff'",
    "a closed folder": "mkdir -p a/b; touch a/b/c; chmod 0 a/b a",
    "a pipe, a link to itself and one to the root": "mkfifo pipe; ln -s self self; ln -s / root",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_session_goes_on_with_whatever_a_command_leaves_in_its_folder(kind: str, tmp_path: Path) -> None:
    async def story() -> None:
        model = ScriptedModel([bash(HOSTILE[kind]), say("done"), bash("echo still here"), say("done")])
        agent = Agent("a", model=model, tools=Workspace().tools("bash"), policy=ALL, sandbox=NoSandbox())
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
            await run(runtime, agent)
            assert (await run(runtime, agent))[-1] == "still here\n"
            await runtime.sessions.delete("s1")
        assert [*(tmp_path / "a.db.sandboxes").iterdir()] == []

    play(story())


def test_files_that_change_while_they_are_read_do_not_pass_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_sandbox, "SANDBOX_KEPT_BYTES_MAX", 1_000_000)
    change = """
import os, sys
files = [os.open(f"{sys.argv[1]}/f{at}", os.O_RDWR | os.O_CREAT) for at in range(3)]
print(flush=True)
while True:
    for size in (900_000, 0):
        for file in files:
            os.truncate(file, size)
"""
    with subprocess.Popen([sys.executable, "-c", change, tmp_path], stdout=subprocess.PIPE) as changing:
        try:
            assert changing.stdout is not None
            changing.stdout.readline()
            for _ in range(500):
                files = session_sandbox._read_changed(tmp_path, {})  # pyright: ignore[reportPrivateUsage]
                assert sum(len(file.body or b"") for file in files or ()) <= 1_000_000
        finally:
            changing.kill()


def test_attachments_are_files_in_the_folder() -> None:
    async def story() -> None:
        one = base64.b64encode(b"hello").decode()
        message = (
            TextPart(text="Look at these."),
            FilePart(data=f"data:text/plain;base64,{one}", media_type="text/plain", filename="../../x y.txt"),
            ImagePart(image="data:image/png;base64,iVBORw0KGgo=", media_type="image/png"),
            ImagePart(image="https://example.com/a.png"),
        )
        agent = worker(
            "a",
            bash("ls attachments; cat attachments/*.txt; rm attachments/*.txt"),
            bash("ls attachments"),
            sandbox=NoSandbox(),
        )
        assert "attachments" in agent.prompt
        async with AgentRuntime.in_memory([agent]) as runtime:
            told = await run(runtime, agent, message)
        assert told == ["2cf24dba-x_y.txt\n4c4b6a3b-image.png\nhello", "4c4b6a3b-image.png\n"]

    play(story())


def test_a_subagent_shares_the_sandbox_of_its_caller_unless_it_has_its_own() -> None:
    async def story() -> None:
        deep = worker("deep", bash("ls; touch by-deep"))
        shares = worker(
            "shares", bash("ls; touch by-shares"), call("deep", {"message": "x"}), subagents=(deep,)
        )
        own = worker(
            "own",
            bash("ls; touch by-own"),
            call("deep", {"message": "x"}),
            bash("ls"),
            sandbox=NoSandbox(),
            subagents=(deep,),
        )
        agent = worker(
            "a",
            bash("touch by-a"),
            call("shares", {"message": "x"}),
            call("own", {"message": "x"}),
            bash("ls"),
            sandbox=NoSandbox(),
            subagents=(shares, own),
        )
        async with AgentRuntime.in_memory([agent]) as runtime:
            told = await run(runtime, agent)
            family = [one.session_id for one in fold_session(await records(runtime, "s1")).children]
            of_own = await results(runtime, family[1])
        assert told[-1] == "by-a\nby-deep\nby-shares\n"
        assert (of_own[0], of_own[2]) == ("", "by-deep\nby-own\n")

    play(story())


def test_a_copy_of_an_agent_shares_its_sandbox() -> None:
    async def story() -> None:
        copied = [bash("touch by-a"), call("agent", {"message": "x"}), bash("ls"), say("done")]
        model = ScriptedModel([copied[0], copied[1], bash("ls; touch by-copy"), say("done"), *copied[2:]])
        agent = Agent(
            "a", model=model, tools=[*Workspace().tools("bash"), agent_tool], policy=ALL, sandbox=NoSandbox()
        )
        async with AgentRuntime.in_memory([agent]) as runtime:
            assert (await run(runtime, agent))[-1] == "by-a\nby-copy\n"

    play(story())


def test_files_are_handed_over_between_the_sandboxes_of_a_family_and_no_other(tmp_path: Path) -> None:
    ids: dict[str, str] = {}

    @tool(mode="read")
    async def note(ctx: ToolContext, path: str) -> str:
        """Send a file and note its id."""
        assert ctx.sandbox is not None
        ids[path] = await ctx.sandbox.send(await ctx.sandbox.open(), path)
        return ids[path]

    @tool(mode="read")
    async def take(ctx: ToolContext, path: str, name: str) -> int | str:
        """Fetch a file by its noted id."""
        assert ctx.sandbox is not None
        try:
            return await ctx.sandbox.fetch(await ctx.sandbox.open(), ids.get(name, name), path)
        except SandboxFailed as error:
            return str(error)

    def agent_of(name: str, *answers: Answer, **options: Any) -> Agent:
        tools = [*Workspace().tools("bash", "send_files", "fetch_files"), note, take]
        model = ScriptedModel(by_history([*answers, say("done")]))
        return Agent(name, model=model, tools=tools, policy=ALL, sandbox=NoSandbox(), **options)

    async def story() -> None:
        child = agent_of(
            "child",
            call("take", {"path": "in", "name": "out"}),
            bash("tr a-z A-Z < in > back"),
            call("note", {"path": "back"}),
        )
        agent = agent_of(
            "a",
            bash("echo hello > out"),
            call("note", {"path": "out"}),
            call("child", {"message": "x"}),
            call("take", {"path": "d/result", "name": "back"}),
            bash("cat d/result"),
            call("send_files", {"paths": ["out", "d/result"]}),
            call("send_files", {"paths": ["../a.db"]}),
            call("send_files", {"paths": ["none"]}),
            call("fetch_files", {"files": {"x": "sha256:" + "0" * 64}}),
            call("fetch_files", {"files": {"x": "no id"}}),
            subagents=[child],
        )
        stranger = agent_of("b", call("take", {"path": "in", "name": "out"}))
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent, stranger]) as runtime:
            told = await run(runtime, agent)
            fingerprint = (await records(runtime, "s1"))[0].data["runtime"]["packageFingerprint"]
            ids["package"] = fingerprint
            assert await run(runtime, stranger, session_id="s2") == [
                "no file was sent under this id in this family of sessions"
            ]
        assert told[3:5] == [6, "HELLO\n"]
        assert told[5] == {"out": ids["out"], "d/result": ids["back"]}
        assert "without `..`" in told[6]
        assert "cannot be read" in told[7]
        assert told[8] == told[9] == "no file was sent under this id in this family of sessions"

    play(story())


def test_a_spawned_command_runs_until_it_is_stopped_and_ends_with_the_runtime(tmp_path: Path) -> None:
    from tests.toolbox.rig import gone  # noqa: PLC0415 - Linux alone

    pids: list[int] = []

    @tool(mode="read")
    async def serve(ctx: ToolContext) -> str:
        """Start a server."""
        assert ctx.sandbox is not None
        sandbox, said = await ctx.sandbox.open(), asyncio.Queue[bytes]()
        await sandbox.spawn("echo $$; exec sleep 1000", output=said.put_nowait)
        pids.append(int(await said.get()))
        stopped = await sandbox.spawn("sleep 1000", output=said.put_nowait)
        await stopped.stop()
        assert (await stopped.wait()).exit_code != 0
        return "running"

    async def story() -> None:
        model = ScriptedModel([call("serve", {}), say("done")])
        agent = Agent("a", model=model, tools=[serve], sandbox=NoSandbox())
        async with AgentRuntime.in_memory([agent]) as runtime:
            assert await run(runtime, agent) == ["running"]
            os.kill(pids[0], 0)
        await gone(pids[0])

    play(story())


def test_steps_carry_the_state_of_the_sandbox_from_process_to_process(tmp_path: Path) -> None:
    def processes() -> Stage:
        stage = Stage(keeps=lambda steps: False)
        answers = [bash("echo 1 > n"), call("read_file", {"path": "n"}), bash("cat n"), say("done")]
        return stage.harness(
            ScriptedModel(answers),
            tools={one.name: one for one in Workspace().tools("bash", "read_file")},
            policy=RulesPolicy(ALL),
            sandbox=NoSandbox(),
            sandboxes={"none": HostSandboxes(tmp_path)},
            content=store,
        )

    store = MemoryStore()
    stage = processes()
    play(stage.send("go"))
    state = stage.session.sandbox_state
    assert state is not None
    assert state.initialized
    assert isinstance(state.session, dict)
    assert state.session["adapter"] == "none"
    assert SANDBOX_KEY not in (stage.session.state or {})
    outputs = [event.data["result"] for event in stage.events if event.type == "action.result"]
    assert cast(JsonObject, cast(JsonObject, outputs[-1])["output"])["output"] == "1\n"
    assert json.loads(stage.session.model_dump_json(by_alias=True))["sandboxState"]["initialized"] is True


def test_steps_without_the_adapter_or_the_program_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from windlass.sandboxes import BubblewrapSandboxes  # noqa: PLC0415 - for this test alone

    with pytest.raises(Rejected, match="the sandbox bubblewrap needs an adapter"):
        Stage().harness(ScriptedModel([]), sandbox=Bubblewrap())
    monkeypatch.setenv("PATH", "/nowhere")
    stage = Stage().harness(
        ScriptedModel([say("no")]),
        sandbox=Bubblewrap(),
        sandboxes={"bubblewrap": BubblewrapSandboxes(tmp_path)},
    )
    with pytest.raises(Rejected, match="bwrap is not installed"):
        play(stage.send("go"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"network": "api.example.com"}, "network must be a list of host names"),
        ({"network": [""]}, "network must be a list of host names"),
        ({"network": ["a.example"] * 65}, "network has 65 hosts, limit 64"),
        ({"memory_bytes": 0}, "memory_bytes must be 1 to"),
        ({"processes": True}, "processes must be a whole number"),
        ({"disk_bytes": "1"}, "disk_bytes must be a whole number"),
    ],
)
def test_a_sandbox_that_cannot_be_is_refused_where_it_is_declared(given: dict[str, Any], words: str) -> None:
    with pytest.raises(Rejected, match=words):
        Bubblewrap(**given)


def test_an_agent_takes_a_sandbox_and_nothing_else() -> None:
    with pytest.raises(Rejected, match="sandbox must be Bubblewrap"):
        Agent("a", model="openai/x", sandbox=cast(Any, True))


def test_the_sandbox_is_part_of_the_package() -> None:
    from windlass.agent.package import compile_package, fingerprint, package_difference  # noqa: PLC0415 - here alone

    model = ScriptedModel([])
    plain = compile_package(Agent("a", model=model))
    walled = compile_package(Agent("a", model=model, sandbox=Bubblewrap(network=["b.example", "a.example"])))
    assert walled.sandbox is not None
    assert walled.sandbox.network == ("a.example", "b.example")
    assert fingerprint(plain) != fingerprint(walled)
    assert "sandbox added" in package_difference(plain, walled)


def test_each_attempt_of_an_experiment_has_a_sandbox_of_its_own(tmp_path: Path) -> None:
    require_bwrap()

    def answer(messages: Sequence[LLMMessage]) -> Answer:
        last = messages[-1]
        return say(last.content) if last.role == "tool" else bash("ls; touch left; ls")

    agent = Agent(
        "w", model=ScriptedModel(answer), tools=Workspace().tools("bash"), policy=ALL, sandbox=Bubblewrap()
    )
    data = Dataset("d", [Case(name, "Go.") for name in "ab"], scorers=[Contains('"output":"left\\n"')])

    async def main() -> None:
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent], durability="process") as runtime:
            found = (await Experiment(data, agent, repeats=2).run(runtime)).experiment
            assert (found.passed, found.attempts) == (4, 4)

    asyncio.run(main())
