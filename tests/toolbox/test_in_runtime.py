"""The tools under a real runtime: approvals, denials and runs."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from tests.toolbox.rig import gone, play

from windlass import Agent, AgentRuntime, PolicySet, Rule, RunHandle
from windlass.testing import Answer, ScriptedModel, by_history, call, say
from windlass.toolbox import Workspace, todo_tool, web_fetch_tool

DANGEROUS = "rm -rf --no-preserve-root kept"


def agent_of(folder: Path, *calls: Answer, policy: PolicySet | None = None) -> Agent:
    tools = [
        *Workspace(folder).tools("read_file", "write_file", "glob", "grep", "bash"),
        web_fetch_tool(),
        todo_tool(),
    ]
    model = ScriptedModel(by_history([*calls, say("done")]))
    if policy is None:
        return Agent("helper", model=model, tools=tools)
    return Agent("helper", model=model, tools=tools, policy=policy)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one call."""

    tool: str
    status: str
    output: object
    error: str


async def outcomes(handle: RunHandle) -> list[Outcome]:
    found: list[Outcome] = []
    async for event in handle.events():
        if event.type == "action.result":
            data = cast(dict[str, Any], event.data)
            result, error = data["result"], data.get("error", {}).get("message", "")
            found.append(Outcome(result["toolName"], data["status"], result["output"], error))
    return found


def started(folder: Path) -> Path:
    (folder / "kept").mkdir()
    (folder / "kept" / "a.txt").write_text("one\n")
    return folder


@pytest.mark.promise("S2")
@pytest.mark.parametrize("command", ["ls", "touch made", DANGEROUS])
def test_a_command_runs_as_approved_after_a_request(command: str, tmp_path: Path) -> None:
    async def story() -> None:
        agent = agent_of(started(tmp_path), call("bash", {"command": command}))
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1")
            async for event in handle.events():
                if event.type == "input.requested":
                    break
            (request,) = await handle.open_requests()
            assert command in request.prompt
            assert (tmp_path / "kept").exists()
            assert not (tmp_path / "made").exists()
            await handle.answer(request.request_id, "approve")
            assert (await handle.wait()).output == "done"
            assert (tmp_path / "kept").exists() == (command != DANGEROUS)
            assert (tmp_path / "made").exists() == (command == "touch made")

    play(story())


@pytest.mark.promise("S2")
def test_a_file_that_makes_other_programs_run_code_is_written_after_a_request(tmp_path: Path) -> None:
    async def story() -> None:
        paths = [".gitconfig", "sub/MAKEFILE", "sub/.vscode/tasks.json", "kept/../package.json"]
        free = call("write_file", {"path": "kept/notes.md", "content": "x"})
        calls = [call("write_file", {"path": path, "content": "x"}) for path in paths]
        agent = agent_of(started(tmp_path), free, *calls)
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1")
            asked = list[str]()
            async for event in handle.events():
                if event.type != "input.requested":
                    continue
                (request,) = await handle.open_requests()
                path = paths[len(asked)]
                assert path in request.prompt
                assert not (tmp_path / path).exists()
                # An approval for the whole session is not offered.
                assert [option.id for option in request.options or ()] == ["approve", "deny"]
                asked.append(path)
                await handle.answer(request.request_id, "approve")
            assert asked == paths
            assert all((tmp_path / path).read_text() == "x" for path in [*paths, "kept/notes.md"])

    play(story())


@pytest.mark.promise("S2")
def test_in_an_unattended_runtime_commands_and_fetches_are_denied_and_files_are_not(tmp_path: Path) -> None:
    async def story() -> None:
        agent = agent_of(
            started(tmp_path),
            call("bash", {"command": "touch made"})
            + call("web_fetch", {"url": "https://example.com/"})
            + call("read_file", {"path": "kept/a.txt"})
            + call("grep", {"pattern": "one"}),
            call("write_file", {"path": "kept/a.txt", "content": "two\n"})
            + call("todo", {"items": [{"id": "1", "text": "rest"}]}),
        )
        async with AgentRuntime.in_memory([agent], is_attended=False) as runtime:
            handle = await runtime.start_run(agent, "go")
            assert (await handle.wait()).output == "done"
            told = {one.tool: one.status for one in await outcomes(handle)}
        assert told["bash"] != "completed"
        assert told["web_fetch"] != "completed"
        assert {name for name, status in told.items() if status == "completed"} == {
            "read_file",
            "grep",
            "write_file",
            "todo",
        }

    play(story())
    assert not (tmp_path / "made").exists()
    assert (tmp_path / "kept" / "a.txt").read_text() == "two\n"


@pytest.mark.promise("S2")
def test_a_rule_that_grants_safe_commands_lets_no_other_through(tmp_path: Path) -> None:
    policy = PolicySet((Rule("reads", "allow", tools=("bash",), max_shell="safe"),))
    commands = ["cat kept/a.txt", "touch made", DANGEROUS, "cat kept/a.txt; $(echo rm) -rf kept"]

    async def story() -> None:
        calls = [call("bash", {"command": command}) for command in commands]
        agent = agent_of(started(tmp_path), *calls, policy=policy)
        async with AgentRuntime.in_memory([agent], is_attended=False) as runtime:
            handle = await runtime.start_run(agent, "go")
            await handle.wait()
            told = await outcomes(handle)
        assert [one.status == "completed" for one in told] == [True, False, False, False]
        assert told[0].output == {"exit_code": 0, "output": "one\n"}

    play(story())
    assert sorted(os.listdir(tmp_path)) == ["kept"]


def test_a_cancelled_run_ends_the_command_that_it_waits_for(tmp_path: Path) -> None:
    policy = PolicySet((Rule("all", "allow", tools=("bash",), max_shell="dangerous"),))

    async def story() -> None:
        os.mkfifo(tmp_path / "born")
        command = "trap '' TERM; (trap '' TERM; echo $BASHPID > born; while :; do sleep 0.1; done) & wait"
        agent = agent_of(tmp_path, call("bash", {"command": command}), policy=policy)
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go")
            pid = int(await asyncio.to_thread((tmp_path / "born").read_text))
            await handle.cancel()
            assert str((await handle.wait()).status) == "cancelled"
        await gone(pid)

    if not hasattr(os, "pidfd_open"):
        pytest.skip("the ends of processes are watched by means of Linux")
    play(story())


def test_sessions_that_share_a_workspace_each_read_before_they_write(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")

    async def story() -> None:
        workspace = Workspace(tmp_path)
        reader = Agent(
            "reader",
            model=ScriptedModel(by_history([call("read_file", {"path": "a.txt"}), say("read")])),
            tools=workspace.tools("read_file"),
        )
        write = call("write_file", {"path": "a.txt", "content": "two\n"})
        writer = Agent(
            "writer",
            model=ScriptedModel(by_history([write, say("tried")])),
            tools=workspace.tools("write_file"),
        )
        async with AgentRuntime.in_memory([reader, writer]) as runtime:
            await (await runtime.start_run(reader, "go", session_id="s1")).wait()
            handle = await runtime.start_run(writer, "go", session_id="s2")
            await handle.wait()
            (told,) = await outcomes(handle)
        assert told.status == "failed"
        assert "was not read in this session" in told.error

    play(story())
    assert (tmp_path / "a.txt").read_text() == "one\n"
