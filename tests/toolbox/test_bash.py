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
from tests.toolbox.rig import Failed, gone, let_pass, play, tool_of, use

from windlass.sandboxes.none import PASSED, HostSandbox
from windlass.toolbox import Workspace
from windlass.toolbox.limits import COMMAND_CHARS_MAX, OUTPUT_BYTES_MAX, OUTPUT_LINES_MAX
from windlass.tools.context import ToolControl
from windlass_harness.shell.reads import READS_PATH

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
    own = {READS_PATH, "TERM", "PAGER", "HOME", "TMPDIR", "PWD", "SHLVL", "_", "OLDPWD"}
    assert {name for name in names if not name.startswith(("GIT_", "XDG_"))} <= {*PASSED, *own}


def test_home_and_temporary_files_are_in_a_private_folder_that_is_gone_afterwards(tmp_path: Path) -> None:
    command = """
    for one in HOME TMPDIR XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_RUNTIME_DIR
    do echo "${!one}"; done; ls -A "$HOME"; stat -c %a "$HOME"; echo x > "$HOME/left"; mktemp >&2
    """
    *places, mode, made = str(run(tmp_path, command)["output"]).split()
    assert len(places) == 7, "the home folder is not empty"
    assert mode == "700"
    for place in (*places, made):
        assert not Path(place).is_relative_to(tmp_path)
        assert not Path(place).exists()


def test_the_host_can_give_variables_and_relative_search_paths_are_dropped(tmp_path: Path) -> None:
    async def story() -> list[str]:
        sandbox = HostSandbox(tmp_path, {"PATH": f".:bin:/usr/bin::{tmp_path}/x", "SECRET": "x"})
        output, given = bytearray(), {"TOKEN": "t", "HOME": "/home/me"}
        command = "echo ${PATH#*:} $TOKEN $HOME $SECRET"
        await sandbox.run(command, timeout_s=60, output=output.extend, environment=given)
        return output.decode().split()

    assert play(story()) == [f"/usr/bin:{tmp_path}/x", "t", "/home/me"]
    tool = tool_of(Workspace(tmp_path, environment={"TOKEN": "t"}), "bash")
    told = cast(Mapping[str, object], play(use(tool, {"command": "echo $TOKEN"})))
    assert told["output"] == "t\n"


def program(folder: Path, name: str, output: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\necho {output}\n")
    (folder / name).chmod(0o755)


@pytest.mark.promise("S2")
@pytest.mark.parametrize("way", ["process", "environment", "link"])
def test_a_safe_read_runs_no_program_of_the_folder(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, link = tmp_path / "work", tmp_path / "link"
    for name in ("ls", "git", "python3", "pip", "which", "mktemp", "rm"):
        program(work / ".venv" / "bin", name, f"CANARY-{name}")
    (work / "src").mkdir()
    link.symlink_to(work / ".venv")
    path = f"{link if way == 'link' else work / '.venv'}/bin:{os.environ['PATH']}"
    if way == "process":
        monkeypatch.setenv("PATH", path)
    tool = tool_of(Workspace(work, environment={} if way == "process" else {"PATH": path}), "bash")

    def shown(command: str) -> str:
        return str(cast(Mapping[str, object], play(use(tool, {"command": command})))["output"])

    for command in ("ls -a", "cd src; ls", "python3 --version", "git diff --stat", "git --version; ls *"):
        assert "CANARY" not in shown(command)
        assert ("CANARY" in shown(f"{command}; true &")) == ("git" not in command or "ls" in command)
    # What says where a program is, says where the others find it.
    assert shown("which python3") == shown("type -P python3") == shown("command -v python3") != ""
    assert str(tmp_path) in shown("which python3")
    assert shown("which -a python3").count("\n") > 1


@pytest.mark.promise("S2")
def test_a_host_that_sets_the_search_path_or_git_keeps_what_guards_reads(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    run(tmp_path, "git init -q; echo '*.txt filter=x' > .gitattributes; echo 1 > a.txt; git add .")
    with (tmp_path / ".git" / "config").open("a") as file:
        file.write(f'[filter "x"]\nclean = touch {tmp_path}/ran\n[core]\nfsmonitor = touch {tmp_path}/ran\n')
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin:relative",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "user.name",
        "GIT_CONFIG_VALUE_0": "Ada",
    }
    tool = tool_of(Workspace(tmp_path, environment=environment), "bash")
    command = "echo 2 > a.txt; git status; git diff; git config user.name; echo $PATH"
    output = str(play(use(tool, {"command": command})))
    assert "modified:   a.txt" in output
    assert "Ada" in output
    assert "relative" not in output
    assert not (tmp_path / "ran").exists()


def test_a_search_path_with_nothing_outside_of_the_folder_leads_to_the_programs_of_the_system(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    tool = tool_of(Workspace(tmp_path, environment={"PATH": f"{tmp_path}/bin"}), "bash")
    assert cast(Mapping[str, object], play(use(tool, {"command": "cat a.txt"})))["output"] == "one\n"


def test_processes_in_the_background_end_with_the_command(tmp_path: Path) -> None:
    async def story() -> None:
        told = await bash(tmp_path, "sleep 1000 & echo $!")
        assert told["exit_code"] == 0
        await gone(int(str(told["output"])))

    play(story())


def test_a_timed_out_command_is_killed_with_all_its_children(tmp_path: Path) -> None:
    async def story() -> None:
        os.mkfifo(tmp_path / "born")
        task = asyncio.create_task(bash(tmp_path, f"echo before; {STUBBORN}", timeout_s=60))
        pid = int(await read_fifo(tmp_path / "born"))
        let_pass(60)
        told = await task
        assert told["exit_code"] is None
        assert told["output"] == "before\n"
        assert "timeout of 60 seconds" in str(told["note"])
        await gone(pid)

    play(story())


def test_a_command_may_clean_up_when_its_time_is_over(tmp_path: Path) -> None:
    async def story() -> None:
        os.mkfifo(tmp_path / "born")
        command = "trap 'echo cleaned; exit' TERM; echo > born; while :; do sleep 0.05; done"
        task = asyncio.create_task(bash(tmp_path, command, timeout_s=60))
        await read_fifo(tmp_path / "born")
        let_pass(60)
        assert str((await task)["output"]).endswith("cleaned\n")

    play(story())


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


@pytest.mark.parametrize("end", ["true", "sleep 1000"])
def test_a_process_that_left_its_group_and_session_ends_with_the_command(end: str, tmp_path: Path) -> None:
    async def story() -> None:
        # A daemon: two forks, a session of its own, no parent but the supervisor.
        daemon = "setsid bash -c '(trap \"\" TERM HUP; echo $BASHPID > f; exec sleep 1000) & exit'"
        command = f"mkfifo f; {daemon} & read pid < f; echo $pid; echo > born; {end}"
        os.mkfifo(tmp_path / "born")
        task = asyncio.create_task(bash(tmp_path, command, timeout_s=60))
        await read_fifo(tmp_path / "born")
        if end != "true":
            let_pass(60)
        told = await task
        assert told["exit_code"] == (0 if end == "true" else None)
        await gone(int(str(told["output"])))

    play(story())


def test_a_command_that_kills_its_supervisor_is_ended_all_the_same(tmp_path: Path) -> None:
    async def story() -> None:
        os.mkfifo(tmp_path / "born")
        task = asyncio.create_task(bash(tmp_path, "echo $$ > born; kill -9 $PPID; sleep 1000"))
        pid = int(await read_fifo(tmp_path / "born"))
        assert (await task)["exit_code"] == -signal.SIGKILL
        await gone(pid)

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
    run(tmp_path, "cd bare && git status; true &")
    assert not (tmp_path / "ran").exists()
    trusting = tool_of(Workspace(tmp_path, environment={"GIT_CONFIG_COUNT": ""}), "bash")
    play(use(trusting, {"command": "cd bare && git status; true &"}))
    assert (tmp_path / "ran").exists(), "git would not have run it anyway: nothing was proved"


PROGRAMS = {
    "a hook": ("hooksPath = ../hooks", "git commit --allow-empty -qm x"),
    "a monitor of files": ('fsmonitor = "touch $RAN; false"', "git status"),
    "an external diff": ('[diff] external = "touch $RAN; true"', "git diff"),
    "an external diff, found by options before": (
        '[diff] external = "touch $RAN; true"',
        "git -C . --no-pager diff",
    ),
    "a text conversion": ('[diff "x"] textconv = "touch $RAN; cat"', "git log -p"),
    "a text conversion of a whole file": ('[diff "x"] textconv = "touch $RAN; cat"', "git blame a"),
    "a filter": ('[filter "x"] clean = "touch $RAN; cat"', "git status"),
    "a filter that must succeed": ('[filter "x"] clean = "touch $RAN; cat"\nrequired = true', "git diff"),
    "a filter that is a process": ('[filter "x"] process = "touch $RAN; cat"', "git ls-files -m"),
    "a filter with an odd name": ('[filter "x.y=\\"z"] clean = "touch $RAN; cat"', "git blame a"),
    "a check of signatures": ("[log] showSignature = true\n[gpg] program = ../sign", "git log"),
}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_git_runs_no_program_that_a_repository_names(kind: str, tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    setting, command = PROGRAMS[kind]
    ran = tmp_path / "ran"
    (tmp_path / "hooks").mkdir()
    for script in (tmp_path / "hooks" / "pre-commit", tmp_path / "sign"):
        script.write_text(f"#!/bin/sh\ntouch {ran}\n")
        script.chmod(0o755)
    who = "git -c user.name=a -c user.email=a@b.c"
    filtered = 'x.y="z' if "odd" in kind else "x"
    made = "git init -q r && cd r && echo 1 > a && git add ."
    assert run(tmp_path, f"{made} && {who} commit -qm x && echo 2 > a")["exit_code"] == 0
    (tmp_path / "r" / ".gitattributes").write_text(f"* diff=x filter={filtered}\n")
    commit = tmp_path / "r" / ".git"
    with (commit / "config").open("a") as file:
        file.write(f"[user]\nname = a\nemail = a@b.c\n[core]\n{setting.replace('$RAN', str(ran))}\n")
    if "signatures" in kind:
        signature = "s/^$/gpgsig -----BEGIN PGP SIGNATURE-----\\n/"
        signed = f"git cat-file commit HEAD | sed '{signature}' | git hash-object -t commit -w --stdin"
        assert run(tmp_path, f"cd r && git reset -q --soft $({signed})")["exit_code"] == 0
    told = run(tmp_path, f"cd r && {command}")
    assert not ran.exists(), told
    # The same, as git would do it.
    plain: dict[str, str] = dict.fromkeys(("GIT_CONFIG_COUNT", "GIT_CONFIG_NOSYSTEM"), "")
    unguarded = f'git() {{ {shutil.which("git")} "$@"; }}; cd r && {command}'
    play(use(tool_of(Workspace(tmp_path, environment=plain), "bash"), {"command": unguarded}))
    assert ran.exists(), "git would not have run it anyway: nothing was proved"


def test_a_gitconfig_in_the_workspace_is_not_read(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    (tmp_path / ".gitconfig").write_text(f'[core]\nfsmonitor = "touch {tmp_path}/ran; false"\n')
    (tmp_path / ".config" / "git").mkdir(parents=True)
    (tmp_path / ".config" / "git" / "config").write_text((tmp_path / ".gitconfig").read_text())
    assert run(tmp_path, "git init -q && git status && git config --global --list; true")["exit_code"] == 0
    assert not (tmp_path / "ran").exists()


def test_no_handle_and_no_child_is_left(tmp_path: Path) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("only Linux lists the handles of a process")

    async def story() -> None:
        sandbox = HostSandbox(tmp_path, {})

        async def once(command: str, timeout_s: float) -> None:
            await sandbox.run(command, timeout_s=timeout_s, output=lambda _: None)

        await once("true", 10)
        before = set(os.listdir("/proc/self/fd"))
        for _ in range(5):
            await once("echo x; exit 1", 10)
            await once("sleep 100", 0.05)
        assert len(set(os.listdir("/proc/self/fd"))) <= len(before)

    play(story())


@pytest.mark.promise("S2")
def test_a_version_is_asked_where_no_file_of_the_folder_is_read(tmp_path: Path) -> None:
    manager = tmp_path / "manager"
    manager.mkdir()
    (manager / "python").write_text("#!/bin/sh\ncat .python-version; echo Python 3.9; ./setup.sh\n")
    (manager / "python").chmod(0o755)
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    (work / ".env").write_text("CANARY\n")
    for folder in (work, work / "src"):
        (folder / ".python-version").symlink_to(work / ".env")
    path = f"{manager}:{os.environ['PATH']}"
    tool = tool_of(Workspace(work, environment={"PATH": path}), "bash")
    for command in (
        "python -V",
        "python --version 2>&1 | cat",
        "cd src && python -V",
        "ls; python -V < a || ls",
    ):
        (work / "a").touch()
        (work / "src" / "a").touch()
        answer = cast(Mapping[str, object], play(use(tool, {"command": command})))
        assert "Python 3.9" in str(answer["output"]), answer
        assert "CANARY" not in str(answer["output"])
        assert "outside of the folder" in str(answer["note"])
    assert "CANARY" in str(play(use(tool, {"command": "python -V; true &"})))
