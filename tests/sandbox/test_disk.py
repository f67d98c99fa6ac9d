"""The disk is bounded: the folder of a session as a whole, under the real bwrap."""

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.sandbox.rig import GUARD_S, NOBODY, PYTHON, Outcome, command, require_bwrap
from tests.toolbox.rig import play

from windlass.ports.sandbox import SandboxFailed
from windlass.private_files import remove_tree
from windlass.sandboxes import bubblewrap, disk
from windlass.sandboxes.bubblewrap import BubblewrapSandboxes
from windlass.sandboxes.disk import Count, DiskUsage
from windlass_protocol import SandboxSpec

pytestmark = pytest.mark.promise("S3")
MIB = 1_048_576
SPEC = SandboxSpec(adapter="bubblewrap", disk_bytes=32 * MIB)
OVER = "bytes of the disk, limit 33,554,432. Delete files"
Run = Callable[[str], Awaitable[Outcome]]


@pytest.fixture(scope="module", autouse=True)
def needs_bwrap() -> None:
    require_bwrap()


@asynccontextmanager
async def session(tmp_path: Path) -> AsyncGenerator[tuple[Run, Path]]:
    """A session with a folder of its own."""
    sandboxes = BubblewrapSandboxes(tmp_path / "root")

    async def run(text: str) -> Outcome:
        return await command(sandboxes, text, spec=SPEC)

    try:
        yield run, (await sandboxes.open(SPEC, key="s1")).folder
    finally:
        await sandboxes.aclose()
        remove_tree(tmp_path / "root")  # deeper than pytest can remove


def python(source: str) -> str:
    return f"{PYTHON} - <<'END'\n{source}\nEND"


def test_space_cannot_be_reserved(tmp_path: Path) -> None:
    async def story() -> None:
        async with session(tmp_path) as (run, folder):
            for at in range(12):
                outcome = await run(f"fallocate -l 1G big{at}")
                assert outcome.exit_code == 1, outcome
                assert "not supported" in outcome.output
            reserve = """
import fcntl, os, struct
for request in (0x40305828, 0x4030582A, 0x40305839):
    with open("reserved", "wb") as file:
        try:
            fcntl.ioctl(file, request, struct.pack("hhqqiI16x", 0, 0, 0, 1 << 30, 0, 0))
            print("reserved")
        except OSError as error:
            print(error.strerror)
"""
            assert (await run(python(reserve))).output == "Operation not supported\n" * 3
            # As on a file system that cannot reserve, the C library writes instead.
            outcome = await run(python("import os; os.posix_fallocate(os.open('w', 65, 0o600), 0, 1 << 20)"))
            assert outcome == Outcome(0, "")
            assert (folder / "w").stat().st_size == MIB

    play(story())


@pytest.mark.parametrize(
    "text",
    [
        "head -c 40M /dev/zero > big",
        "mkdir -p a/b; for at in $(seq 40); do head -c 1M /dev/zero > a/b/f$at; done",
        "cat /dev/zero | head -c 40M | tee one > /dev/null; cp one two; rm one",
        python(
            "import os\nfor at in range(40):\n"
            "    os.pwrite(os.open(f's{at}', 65, 0o600), bytes(1 << 20), at << 24)"
        ),
        python(
            "import mmap, os\nfile = os.open('m', 66, 0o600)\nos.ftruncate(file, 40 << 20)\n"
            "held = mmap.mmap(file, 40 << 20)\nheld[:] = bytes(40 << 20)"
        ),
        "head -c 40M /dev/zero > ' hidden '; mkdir .x; mv ' hidden ' .x/.y",
    ],
)
def test_a_command_that_fills_its_folder_is_told_so_even_if_it_was_quick(tmp_path: Path, text: str) -> None:
    async def story() -> None:
        async with session(tmp_path) as (run, _):
            outcome = await run(text)
            assert outcome.exit_code is None
            assert OVER in outcome.reason, outcome

    play(story())


def test_commands_add_up_and_a_full_folder_can_be_read_and_emptied(tmp_path: Path) -> None:
    async def story() -> None:
        async with session(tmp_path) as (run, folder):
            for at in range(2):
                assert await run(f"head -c 12M /dev/zero > f{at}") == Outcome(0, "")
            third = await run("head -c 12M /dev/zero > f2")
            assert third.exit_code is None
            assert OVER in third.reason
            before = {one.name: one.stat().st_size for one in folder.iterdir()}
            for text in (
                "head -c 9M /dev/zero > f3",
                "echo more >> f0",
                "cp f1 f4",
                "dd if=f0 of=f1 seek=30000",
            ):
                outcome = await run(text)
                assert outcome.exit_code not in {0, None}, outcome
                assert OVER in outcome.reason
            sizes = {one.name: one.stat().st_size for one in folder.iterdir()}
            assert sum(sizes.values()) <= sum(before.values())
            read = await run("ls f0 2>/dev/null | cat")
            assert (read.exit_code, read.output) == (0, "f0\n")
            assert await run("rm f1 f2") == Outcome(0, "")
            assert await run("echo word > f5 && cat f5") == Outcome(0, "word\n")

    play(story())


def test_a_folder_far_over_its_limit_runs_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "EXCESS_BYTES", 0)

    async def story() -> None:
        async with session(tmp_path) as (run, folder):
            for at in range(5):
                (folder / f"f{at}").write_bytes(bytes(13 * MIB))
            with pytest.raises(SandboxFailed, match=r"takes 6\d,\d+,\d+ bytes of the disk, limit 33,554,432"):
                await run("rm f0")
            (folder / "f0").unlink()
            assert (await run("rm f1 f2")).exit_code == 0

    play(story())


def test_the_names_in_a_folder_are_counted_over_all_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bubblewrap, "FILES_MAX", 100)

    async def story() -> None:
        async with session(tmp_path) as (run, _):
            assert await run("touch f{1..60}") == Outcome(0, "")
            for text in ("ln f1 g; for at in {1..45}; do ln g g$at; done", "mkdir h; mkdir h/d{1..50}"):
                outcome = await run(text)
                assert outcome.exit_code is None
                assert "files and folders, limit 100. Delete files" in outcome.reason
                assert await run("rm -rf g* h") == Outcome(0, "")

    play(story())


def test_folders_of_any_depth_are_counted(tmp_path: Path) -> None:
    enter = (
        "import os\nfor at in range({levels}):\n    os.path.isdir('d') or os.mkdir('d')\n    os.chdir('d')\n"
    )

    async def story() -> None:
        async with session(tmp_path) as (run, folder):
            # Deeper than a path can be long, and than a process can have handles.
            deep = enter.format(levels=2_100)
            assert await run(python(f"{deep}open('low', 'wb').write(bytes(12 << 20))")) == Outcome(0, "")
            assert await run(
                "mkdir -p {a,d/e}/f; head -c 1M /dev/zero | tee a/f/high > d/e/f/high"
            ) == Outcome(0, "")
            usage = Count(DiskUsage(1 << 40, 10_000)).of(folder)
            assert (usage.files, usage.closed) == (2_100 + 4 + 3, 0)
            assert usage.size >= 14 * MIB
            outcome = await run(python(f"{deep}open('more', 'wb').write(bytes(20 << 20))"))
            assert outcome.exit_code is None
            assert OVER in outcome.reason
            assert await run("rm -rf d") == Outcome(0, "")

    play(story())


def test_a_folder_that_grows_while_it_is_counted_is_named_by_the_next_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = disk.Disk(tmp_path, DiskUsage(32 * MIB, 1_000), is_own=True)
    count, free = Count.of, os.statvfs(tmp_path)

    def count_before_a_write(self: Count, folder: Path, *, opens: bool = False) -> DiskUsage:
        usage = count(self, folder, opens=opens)
        (tmp_path / "big").write_bytes(bytes(40 * MIB))
        lost = os.statvfs_result((*free[:4], free.f_bavail - 40 * MIB // free.f_frsize, *free[5:]))
        monkeypatch.setattr(os, "statvfs", {tmp_path: lost}.__getitem__)
        return usage

    monkeypatch.setattr(Count, "of", count_before_a_write)
    assert limits.problem() == ""
    assert OVER in limits.problem()


def test_a_full_folder_does_not_grow_by_files_in_memory(tmp_path: Path) -> None:
    holes = "import os\nfor at in range(4):\n    os.truncate(os.open(f's{at}', 66, 0o600), 20 << 20)"
    fill = """
import mmap, os
for at in range(4):
    file = os.open(f"s{at}", os.O_RDWR)
    for flags in (mmap.MAP_SHARED, 3):
        try:
            mmap.mmap(file, 20 << 20, flags=flags)[:] = bytes(20 << 20)
        except OSError as error:
            print(error.strerror)
print(len(mmap.mmap(-1, 1 << 20)), len(mmap.mmap(file, 1 << 20, flags=mmap.MAP_PRIVATE)))
"""

    async def story() -> None:
        async with session(tmp_path) as (run, folder):
            assert await run(python(holes)) == Outcome(0, "")
            assert OVER in (await run("head -c 40M /dev/zero > big")).reason
            before = Count(DiskUsage(1 << 40, 1_000)).of(folder)
            outcome = await run(python(fill))
            assert outcome.output == "Operation not supported\n" * 8 + "1048576 1048576\n", outcome
            assert Count(DiskUsage(1 << 40, 1_000)).of(folder) == before
            assert await run("rm big") == Outcome(0, "")
            assert OVER in (await run(python(fill))).reason, "in a folder that is not full it may be mapped"

    play(story())


def test_a_file_that_was_removed_while_it_is_open_counts_until_the_command_is_ended(tmp_path: Path) -> None:
    hold = """
import os, time
held = os.open("gone", 66, 0o600)
os.unlink("gone")
while True:
    os.write(held, bytes(1 << 20)) if os.fstat(held).st_size < 80 << 20 else time.sleep(1)
"""

    async def story() -> None:
        async with session(tmp_path) as (run, folder):
            outcome = await run(python(hold))
            assert outcome.exit_code is None
            assert "the disk lost more than 33,554,432 bytes" in outcome.reason
            assert [*folder.iterdir()] == []

    play(story())


def test_in_a_folder_of_the_application_a_quick_command_is_told_too(tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "large").write_bytes(bytes(40 * MIB))

    async def story() -> None:
        sandboxes = BubblewrapSandboxes(tmp_path / "root")
        try:
            outcome = await command(sandboxes, "cat large > /dev/null", spec=SPEC, folder=tmp_path / "given")
            assert outcome == Outcome(0, ""), "what the application has there does not count"
            text = "cat large large > copy"
            outcome = await command(sandboxes, text, spec=SPEC, folder=tmp_path / "given")
            assert outcome.exit_code is None
            assert "the disk lost more than 33,554,432 bytes" in outcome.reason
        finally:
            await sandboxes.aclose()

    play(story())


def test_a_folder_is_counted_by_blocks_and_a_file_once(tmp_path: Path) -> None:
    most = DiskUsage(1 << 40, 1_000_000)
    (tmp_path / "f").write_bytes(bytes(MIB))
    for at in range(5):
        os.link(tmp_path / "f", tmp_path / f"link{at}")
    os.truncate(_made(tmp_path / "sparse"), 1 << 33)
    (tmp_path / "way").symlink_to("/")
    usage = Count(most).of(tmp_path)
    assert usage.files == 8
    assert MIB <= usage.size < 2 * MIB
    assert Count(DiskUsage(1 << 40, 3)).of(tmp_path).files == 4, "it stops once a limit is passed"


def test_a_folder_that_its_owner_closed_is_not_taken_for_empty() -> None:
    # Root opens every folder, so that the count runs as another user.
    code = f"""
import os, sys
from pathlib import Path
from windlass.sandboxes.disk import Count, Disk, DiskUsage
if os.geteuid() == 0:
    os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
folder = Path(sys.argv[1])
(folder / "d").mkdir()
(folder / "d" / "large").write_bytes(bytes(1 << 20))
(folder / "d").chmod(0)
usage = Count(DiskUsage(1 << 40, 1_000)).of(folder)
print(usage.closed, usage.is_over(DiskUsage(1 << 40, 1_000)))
# Before a command starts, they are opened: what is in them counts.
(folder / "e").mkdir()
(folder / "e" / "large").write_bytes(bytes(1 << 20))
(folder / "e").chmod(0o400)
(folder / "way").symlink_to("/")
folder.chmod(0)
disk = Disk(folder, DiskUsage(3 << 19, 1_000), is_own=True)
print(disk.is_full, "bytes of the disk, limit" in disk.note)
print(*(oct((folder / name).stat().st_mode & 0o777) for name in (".", "d", "e")))
"""
    with TemporaryDirectory() as name:
        if os.geteuid() == 0:
            os.chown(name, NOBODY, NOBODY)
        done = subprocess.run(
            [sys.executable, "-c", code, name], capture_output=True, text=True, check=False, timeout=GUARD_S
        )
    assert done.stdout == "1 True\nTrue True\n0o700 0o700 0o700\n", done.stderr


def _made(path: Path) -> Path:
    path.touch()
    return path
