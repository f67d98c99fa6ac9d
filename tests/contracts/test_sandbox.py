"""The contract of sandboxes, which every adapter passes."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.sandbox.rig import BUBBLEWRAP, require_bwrap
from tests.toolbox.rig import let_pass, play

from windlass.limits import SANDBOX_FILE_BYTES_MAX
from windlass.ports.sandbox import Ended, Sandbox, SandboxAdapter, SandboxFailed
from windlass.sandboxes.bubblewrap import BubblewrapSandboxes, Cgroup
from windlass.sandboxes.none import HostSandboxes
from windlass_protocol import SandboxSpec

if sys.platform != "linux":
    pytest.skip("the ends of processes are watched by means of Linux", allow_module_level=True)

Story = Callable[[SandboxAdapter, SandboxSpec], Coroutine[object, object, None]]
Play = Callable[[Story], None]


@pytest.fixture(params=["none", "bubblewrap"])
def on(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    """Plays a story with an adapter."""
    if request.param == "bubblewrap":
        require_bwrap()

    def play_it(story: Story) -> None:
        async def main() -> None:
            made = {"none": HostSandboxes, "bubblewrap": BubblewrapSandboxes}[request.param](
                tmp_path / "root"
            )
            try:
                await story(made, SandboxSpec(adapter=request.param))
            finally:
                await made.aclose()

        play(main())

    return play_it


async def run(
    sandbox: Sandbox, command: str, *, timeout_s: float = 60, stdin: bytes | None = None, **variables: str
) -> tuple[Ended, str]:
    output = bytearray()
    ended = await sandbox.run(
        command, timeout_s=timeout_s, output=output.extend, environment=variables, stdin=stdin
    )
    return ended, output.decode()


def test_a_command_runs_in_the_folder_and_returns_output_and_exit_code(on: Play) -> None:
    async def story(adapter: SandboxAdapter, spec: SandboxSpec) -> None:
        await adapter.check(spec)
        sandbox = await adapter.open(spec, key="a/../b")
        assert await run(sandbox, "echo out; echo err >&2; exit 3") == (Ended(3), "out\nerr\n")
        assert await run(sandbox, "cat; echo $A", A="variable") == (Ended(0), "variable\n")
        assert await run(sandbox, "tr a-z A-Z; touch made", stdin=b"x" * 200_000) == (Ended(0), "X" * 200_000)
        assert [one.name for one in sandbox.folder.iterdir()] == ["made"]
        assert sandbox.folder.stat().st_mode & 0o777 == 0o700
        assert sandbox.snapshot() == {"adapter": spec.adapter, "folder": str(sandbox.folder)}

    on(story)


def test_a_key_has_one_folder_and_a_given_folder_replaces_it(on: Play, tmp_path: Path) -> None:
    async def story(adapter: SandboxAdapter, spec: SandboxSpec) -> None:
        first = await adapter.open(spec, key="s1")
        assert (await adapter.open(spec, key="s1")).folder == first.folder
        assert (await adapter.open(spec, key="s2")).folder != first.folder
        given = await adapter.open(spec, key="s1", folder=tmp_path)
        await run(given, "touch here")
        assert (tmp_path / "here").exists()
        assert [*first.folder.iterdir()] == []

    on(story)


def test_home_and_temporary_folder_are_private_and_empty(on: Play) -> None:
    async def story(adapter: SandboxAdapter, spec: SandboxSpec) -> None:
        sandbox = await adapter.open(spec, key="s1")
        look = 'ls -A "$HOME" "$TMPDIR" | grep -v :; echo x > "$HOME/x"; echo x > "$TMPDIR/x"; '
        look += '[ "$HOME" != "$PWD" ]'
        for _ in range(2):
            ended, output = await run(sandbox, look)
            assert (ended, output.strip()) == (Ended(0), "")

    on(story)


@pytest.mark.slow
def test_files_are_read_and_written_as_a_command_would(on: Play) -> None:
    async def story(adapter: SandboxAdapter, spec: SandboxSpec) -> None:
        sandbox = await adapter.open(spec, key="s1")
        content = bytes(range(256)) * 4_096
        await sandbox.write("a b/'c'.bin", content)
        assert await sandbox.read("a b/'c'.bin") == content
        await sandbox.write("-n", b"")
        assert await sandbox.read("-n") == b""
        sizes = {"most": SANDBOX_FILE_BYTES_MAX, "more": SANDBOX_FILE_BYTES_MAX + 1}
        await run(
            sandbox, "; ".join(["mkfifo f", *(f"truncate -s {size} {one}" for one, size in sizes.items())])
        )
        assert len(await sandbox.read("most")) == SANDBOX_FILE_BYTES_MAX
        for path in ("more", "none", "f", "a b", "/proc/self/mem"):
            with pytest.raises(SandboxFailed, match="too large" if path == "more" else "cannot be read"):
                await sandbox.read(path)
        with pytest.raises(SandboxFailed, match="cannot be written"):
            await sandbox.write("a b", b"x")

    on(story)


def test_a_timed_out_and_a_cancelled_command_are_ended(on: Play) -> None:
    async def story(adapter: SandboxAdapter, spec: SandboxSpec) -> None:
        sandbox, said = await adapter.open(spec, key="s1"), asyncio.Queue[bytes]()
        command = "trap '' TERM; echo begun; sleep 1000"
        task = asyncio.create_task(sandbox.run(command, timeout_s=60, output=said.put_nowait))
        assert await said.get() == b"begun\n"
        let_pass(60)
        assert await task == Ended(None, "terminated after its timeout of 60 seconds")
        task = asyncio.create_task(sandbox.run(command, timeout_s=60, output=said.put_nowait))
        assert await said.get() == b"begun\n"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    on(story)


def test_a_spawned_command_is_ended_by_stop(on: Play) -> None:
    async def story(adapter: SandboxAdapter, spec: SandboxSpec) -> None:
        sandbox, said = await adapter.open(spec, key="s1"), asyncio.Queue[bytes]()
        first = await sandbox.spawn("echo begun; sleep 1000", output=said.put_nowait)
        assert await said.get() == b"begun\n"
        await sandbox.stop()
        assert (await first.wait()).exit_code != 0
        second = await sandbox.spawn("exit 4", output=said.put_nowait)
        assert await second.wait() == Ended(4)

    on(story)


def test_no_handle_is_left(on: Play) -> None:
    async def story(adapter: SandboxAdapter, spec: SandboxSpec) -> None:
        sandbox = await adapter.open(spec, key="s1")
        await run(sandbox, "true")
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            await run(sandbox, "sleep 1000", timeout_s=0.2)
            await run(sandbox, "cat", stdin=b"x")
        assert len(os.listdir("/proc/self/fd")) <= before

    on(story)


def test_a_folder_that_is_gone_is_told(on: Play) -> None:
    async def story(adapter: SandboxAdapter, spec: SandboxSpec) -> None:
        sandbox = await adapter.open(spec, key="s1")
        sandbox.folder.rmdir()
        with pytest.raises(SandboxFailed, match=r"not there|could not be started"):
            await run(sandbox, "true")

    on(story)


def test_bubblewrap_is_checked_for_what_it_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from windlass.errors import Rejected  # noqa: PLC0415 - for this test alone

    def refusal() -> str:
        with pytest.raises(Rejected) as error:
            play(BubblewrapSandboxes(tmp_path).check(BUBBLEWRAP))
        return error.value.message

    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    broken.chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setenv("PATH", str(tmp_path))
        assert "No permissions to create new namespace" in refusal()
        assert "unprivileged_userns_clone" in refusal()
        patched.setattr("os.geteuid", lambda: 0)
        patched.setattr("windlass.sandboxes.bubblewrap._CGROUPS", tmp_path)
        assert "cgroup" in refusal()
        patched.setenv("PATH", "/nowhere")
        assert "apt-get install bubblewrap" in refusal()
        patched.setattr("sys.platform", "darwin")
        assert "needs Linux" in refusal()
        patched.setattr("sys.platform", "linux")
        patched.setenv("PATH", str(tmp_path))
        patched.setattr("os.uname", lambda: SimpleNamespace(machine="riscv64"))
        assert "known for x86_64 and aarch64, and this machine is riscv64" in refusal()


@pytest.mark.parametrize("place", ["", "app.service", "app.service/main"])
def test_a_control_group_of_version_2_is_made_where_the_kernel_allows_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    # A folder with the files of the kernel. A group with processes that is not the root has no file that lets
    # it bound the groups in it: the kernel would refuse to write it.
    delegated = tmp_path if place == "" else tmp_path / "app.service"
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    (tmp_path / "cgroup.controllers").touch()
    if place != "app.service":
        (delegated / "cgroup.subtree_control").touch()
    (tmp_path / "own").write_text(f"0::/{place}\n")
    mkdir, made = Path.mkdir, list[Path]()

    def make(self: Path) -> None:
        mkdir(self)
        made.append(self)
        control = self.parent / "cgroup.subtree_control"
        enabled = control.read_text() if control.exists() else ""
        for name in ("cgroup.procs", *(f"{one}.max" for one in ("pids", "memory") if f"+{one}" in enabled)):
            (self / name).touch()

    monkeypatch.setattr("windlass.sandboxes.bubblewrap._CGROUPS", tmp_path)
    monkeypatch.setattr("windlass.sandboxes.bubblewrap._OWN_CGROUPS", tmp_path / "own")
    monkeypatch.setattr(Path, "mkdir", make)
    monkeypatch.setattr(Path, "rmdir", shutil.rmtree)
    group = Cgroup.make(SandboxSpec(adapter="bubblewrap", processes=7, memory_bytes=4_096))
    (folder,) = made
    assert (group is None) == (place == "app.service") == (not folder.exists())
    if group is not None:
        assert folder.parent == delegated
        assert (folder / "pids.max").read_text() == "10", "with bwrap and the shell"
        assert (folder / "memory.max").read_text() == "4096"
        subprocess.run(group.around(["/bin/true"]), check=True)
        assert (folder / "cgroup.procs").read_text() == "0\n"
        assert group.remove()
        assert not folder.exists()
