"""bash: real processes, their output and their end."""

import asyncio
import os
import resource
import shutil
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
from tests.toolbox.rig import Failed, gone, play, tool_of, use

from windlass.toolbox import Workspace
from windlass.toolbox.folder import Folder
from windlass.toolbox.limits import COMMAND_CHARS_MAX, OUTPUT_BYTES_MAX, OUTPUT_LINES_MAX
from windlass.toolbox.shell import PASSED, Shell, Streamed, command_environment, run_command
from windlass.tools.context import ToolControl

if sys.platform != "linux":
    pytest.skip("the ends of processes are watched by means of Linux", allow_module_level=True)

STUBBORN = (
    "trap '' TERM HUP INT; (trap '' TERM HUP INT; echo $BASHPID > born; while :; do sleep 0.1; done) & wait"
)
"""A command with a child that ignores every signal that can be ignored."""

GIB = 1_073_741_824


async def bash(folder: Path, command: str, *, timeout_s: int = 120) -> dict[str, object]:
    tool = tool_of(Workspace(folder), "bash")
    told = await use(tool, {"command": command, "timeout_s": timeout_s})
    return cast(dict[str, object], told)


def run(folder: Path, command: str, *, timeout_s: int = 120) -> dict[str, object]:
    return play(bash(folder, command, timeout_s=timeout_s))


async def read_fifo(fifo: Path) -> str:
    """Return the text written into a fifo, after waiting for it."""
    return (await asyncio.to_thread(fifo.read_text)).strip()


def test_a_command_runs_in_the_folder_and_returns_output_and_exit_code(tmp_path: Path) -> None:
    assert run(tmp_path, "pwd; echo wrong >&2; exit 3") == {"exit_code": 3, "output": f"{tmp_path}\nwrong\n"}
    assert run(tmp_path, "cat; echo end") == {"exit_code": 0, "output": "end\n"}
    assert run(tmp_path, "kill -9 $$")["exit_code"] == -signal.SIGKILL
    assert run(tmp_path, "no-such-program-here")["exit_code"] == 127


def test_a_command_gets_a_few_variables_and_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-1")
    monkeypatch.setenv("OPENAI_API_KEY", "canary-2")
    monkeypatch.setenv("BASH_ENV", "/tmp/canary-3")
    monkeypatch.setenv("BASH_FUNC_ls%%", "() { echo canary-4; }")
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setenv("HTTPS_PROXY", "http://canary-5")
    output = str(run(tmp_path, "env; ls; cat /proc/self/environ")["output"])
    assert "canary" not in output
    names = {line.partition("=")[0] for line in output.split("\0")[0].splitlines()}
    own = {"TERM", "PAGER", "HOME", "PWD", "SHLVL", "_", "OLDPWD"}
    assert {name for name in names if not name.startswith("GIT_")} <= {*PASSED, *own}
    assert f"HOME={tmp_path}" in output


def test_the_host_can_give_variables_and_relative_search_paths_are_dropped(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    host = {"PATH": f".:bin:/usr/bin::{tmp_path}/x", "SECRET": "x"}
    made = command_environment(folder, host, given={"TOKEN": "t", "HOME": "/home/me"})
    assert made["PATH"] == f"/usr/bin:{tmp_path}/x"
    assert (made["TOKEN"], made["HOME"]) == ("t", "/home/me")
    assert "SECRET" not in made
    tool = tool_of(Workspace(tmp_path, environment={"TOKEN": "t"}), "bash")
    told = cast(Mapping[str, object], play(use(tool, {"command": "echo $TOKEN"})))
    assert told["output"] == "t\n"


def test_processes_in_the_background_end_with_the_command(tmp_path: Path) -> None:
    async def story() -> None:
        told = await bash(tmp_path, "sleep 1000 & echo $!")
        assert told["exit_code"] == 0
        await gone(int(str(told["output"])))

    play(story())


def test_a_timed_out_command_is_killed_with_all_its_children(tmp_path: Path) -> None:
    async def story() -> None:
        os.mkfifo(tmp_path / "born")
        task = asyncio.create_task(bash(tmp_path, f"echo before; {STUBBORN}", timeout_s=3))
        pid = int(await read_fifo(tmp_path / "born"))
        told = await task
        assert told["exit_code"] is None
        assert told["output"] == "before\n"
        assert "timeout of 3 seconds" in str(told["note"])
        await gone(pid)

    play(story())


def test_a_command_may_clean_up_when_its_time_is_over(tmp_path: Path) -> None:
    told = run(tmp_path, "trap 'echo cleaned; exit' TERM; while :; do sleep 0.05; done", timeout_s=3)
    assert str(told["output"]).endswith("cleaned\n")


def test_a_cancelled_command_is_ended_with_all_its_children(tmp_path: Path) -> None:
    async def story() -> None:
        os.mkfifo(tmp_path / "born")
        task = asyncio.create_task(bash(tmp_path, STUBBORN))
        pid = int(await read_fifo(tmp_path / "born"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await gone(pid)

    play(story())


def test_a_child_in_another_process_group_does_not_hold_the_call(tmp_path: Path) -> None:
    async def story() -> None:
        told = await bash(
            tmp_path, "mkfifo f; setsid sh -c 'echo > f; exec sleep 1000' & echo $!; read x < f"
        )
        try:
            assert told["exit_code"] == 0
        finally:
            os.kill(int(str(told["output"])), signal.SIGKILL)

    play(story())


def test_much_output_is_shown_at_both_ends_and_fills_no_memory(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told = run(tmp_path, f"echo first; yes {'x' * 99} | head -c {GIB}; echo; echo last", timeout_s=60)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    output = str(told["output"])
    assert output.startswith("first\nxxx")
    assert output.endswith("xxx\nlast\n")
    assert f"the middle is left out: {GIB + 12:,} bytes in all" in output
    assert len(output) <= OUTPUT_BYTES_MAX + 100
    assert grown_kib < 64 * 1_024


def test_many_lines_are_shown_at_both_ends(tmp_path: Path) -> None:
    assert "left out" not in str(run(tmp_path, f"seq {OUTPUT_LINES_MAX - 1}")["output"])
    output = str(run(tmp_path, f"seq {OUTPUT_LINES_MAX + 5}")["output"])
    assert output.startswith("1\n2\n")
    assert output.endswith(f"\n{OUTPUT_LINES_MAX + 5}\n")
    assert len(output.split("\n")) == OUTPUT_LINES_MAX + 1


def test_output_that_is_no_text_is_shown_as_far_as_it_is(tmp_path: Path) -> None:
    assert run(tmp_path, r"printf 'a\xffb\0c'")["output"] == "a\ufffdb\0c"


def test_output_is_reported_while_the_command_runs(tmp_path: Path) -> None:
    async def story() -> None:
        seen: list[object] = []
        reported = asyncio.Event()

        def report(value: object) -> None:
            seen.append(value)
            reported.set()

        os.mkfifo(tmp_path / "go")
        tool = tool_of(Workspace(tmp_path), "bash")
        command = {"command": "echo working; read x < go"}
        task = asyncio.create_task(use(tool, command, control=ToolControl(report)))
        await reported.wait()
        assert seen == [{"output": "working\n", "bytes": 8}]
        await asyncio.to_thread((tmp_path / "go").write_text, "\n")
        assert cast(Mapping[str, object], await task)["exit_code"] == 0

    play(story())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"command": ""}, "command"),
        ({"command": "x" * (COMMAND_CHARS_MAX + 1)}, "command"),
        ({"command": "ls\0"}, "NUL"),
        ({"command": "ls", "timeout_s": 0}, "timeout_s"),
        ({"command": "ls", "timeout_s": 1_801}, "timeout_s"),
    ],
)
def test_unrunnable_commands_are_refused_with_a_message(
    arguments: dict[str, object], words: str, tmp_path: Path
) -> None:
    with pytest.raises(Failed, match=words):
        play(use(tool_of(Workspace(tmp_path), "bash"), arguments))


def test_a_folder_that_looks_like_a_bare_repository_makes_git_run_no_command(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    run(tmp_path, "git init -q --bare bare")
    settings = 'repositoryformatversion = 0\nbare = false\nworktree = .\nfsmonitor = "touch ../ran; false"\n'
    (tmp_path / "bare" / "config").write_text(f"[core]\n{settings}")
    run(tmp_path, "cd bare && git status")
    assert not (tmp_path / "ran").exists()
    trusting = tool_of(Workspace(tmp_path, environment={"GIT_CONFIG_VALUE_0": "all"}), "bash")
    play(use(trusting, {"command": "cd bare && git status"}))
    assert (tmp_path / "ran").exists(), "git would not have run it anyway: nothing was proved"


def test_no_handle_and_no_child_is_left(tmp_path: Path) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("only Linux lists the handles of a process")

    async def story() -> None:
        shell = Shell(Folder(tmp_path), command_environment(Folder(tmp_path), {}, given={}))

        async def once(command: str, timeout_s: float) -> None:
            output = Streamed(lambda _: None, asyncio.get_running_loop().time)
            await run_command(shell, command, timeout_s=timeout_s, output=output)

        await once("true", 10)
        before = set(os.listdir("/proc/self/fd"))
        for _ in range(5):
            await once("echo x; exit 1", 10)
            await once("sleep 100", 0.05)
        assert len(set(os.listdir("/proc/self/fd"))) <= len(before)

    play(story())
