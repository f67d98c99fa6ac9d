"""Commands graded safe are executed: they make no writes and no connections.

The tree before and after is always compared; with strace every system call is watched too.
"""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.harness.shell.corpus import rows

from windlass_harness.shell import classify_shell_command

STRACE = shutil.which("strace")
FILES = (
    "README.md CHANGELOG.md Makefile pyproject.toml data.json rm.txt a b src/app.py src/b.py assets/logo.png"
)
CALLS = (
    "open,openat,creat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,rmdir,connect,link,linkat,symlink,"
    "symlinkat,chmod,fchmodat,chown,fchownat,truncate,ftruncate"
)
WRITES = re.compile(
    r"^\d+ +(?:(?:open|openat)\(.*(?:O_WRONLY|O_RDWR|O_CREAT|O_TRUNC)|(?!open)[a-z0-9]+\()(?!.*= -1 E)",
    re.MULTILINE,
)
HARMLESS = re.compile(r'"/dev/(?:null|tty)"|/proc/self/|nscd/socket|/tmp/sh-thd')
ENVIRONMENT = {
    "PATH": os.environ.get("PATH", ""),
    "LANG": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
}

SAFE = [
    row.command
    for row in rows("corpus.tsv")
    if classify_shell_command(row.command).severity == "safe" and not row.command.startswith("sleep")
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small repository to read."""
    folder = tmp_path_factory.mktemp("tree")
    for name in FILES.split():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"items": [{"name": "a"}]}\n')
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for arguments in (
        ("init", "-q"),
        ("add", "-A"),
        ("commit", "-qm", "one"),
        ("commit", "-qm", "two", "--allow-empty"),
    ):
        subprocess.run(
            ["git", *identity, *arguments], cwd=folder, env=ENVIRONMENT, check=True, capture_output=True
        )
    return folder


def snapshot(folder: Path) -> dict[str, tuple[int, int, int, str]]:
    """Everything below a folder, with its mode, size, time and content."""
    found: dict[str, tuple[int, int, int, str]] = {}
    for path in sorted(folder.rglob("*")):
        stat = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (stat.st_mode, stat.st_size, stat.st_mtime_ns, content)
    return found


def run(command: list[str], tree: Path) -> None:
    subprocess.run(
        command,
        cwd=tree,
        env=ENVIRONMENT | {"HOME": str(tree), "TMPDIR": str(tree)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=300,
    )


def watched(command: str, tree: Path, log: Path) -> list[str]:
    trace = [STRACE or "strace", "-f", "-qq", "-o", str(log), "-e", f"trace={CALLS}"]
    run([*trace, "bash", "-c", command], tree)
    lines = log.read_text(errors="replace").splitlines()
    return [line for line in lines if WRITES.match(line) and not HARMLESS.search(line)]


def test_a_change_of_the_tree_is_noticed(tree: Path) -> None:
    before = snapshot(tree)
    for change in ("echo x > made", "touch -d @1 a", "mkdir empty", "rm made; rmdir empty; chmod 600 a"):
        run(["bash", "-c", change], tree)
        assert snapshot(tree) != before
        before = snapshot(tree)


@pytest.mark.parametrize("command", SAFE)
def test_a_safe_command_leaves_the_tree_as_it_was(command: str, tree: Path) -> None:
    before = snapshot(tree)
    run(["bash", "-c", command], tree)
    assert snapshot(tree) == before


@pytest.mark.skipif(STRACE is None, reason="strace is not installed, so nothing can be watched")
def test_a_write_is_noticed(tree: Path, tmp_path: Path) -> None:
    assert watched("echo x > made", tree, tmp_path / "log")
    assert watched("rm made", tree, tmp_path / "log")


@pytest.mark.skipif(STRACE is None, reason="strace is not installed, so nothing can be watched")
@pytest.mark.parametrize("command", SAFE)
def test_a_safe_command_makes_no_writes_and_no_connections(command: str, tree: Path, tmp_path: Path) -> None:
    assert watched(command, tree, tmp_path / "log") == []
