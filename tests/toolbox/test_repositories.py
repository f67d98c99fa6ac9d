"""Reads of git that are safe show nothing of a repository that leads out of the workspace."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.toolbox.rig import Failed, play, tool_of, use

from windlass.toolbox import Workspace
from windlass.toolbox.repository import stray_place

CANARY = "CANARY of another repository"


def git(folder: Path, *arguments: str) -> None:
    words = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", *arguments]
    words[1:1] = ["-c", "protocol.file.allow=always"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True)


def make_repository(folder: Path, text: str) -> Path:
    folder.mkdir()
    git(folder, "init", "-qb", "main")
    (folder / "a.txt").write_text(f"{text}\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def shown(folder: Path, command: str) -> str:
    return str(play(use(tool_of(Workspace(folder), "bash"), {"command": command})))


def by_file(own: Path, other: Path) -> None:
    (own / "sub").mkdir()
    (own / "sub" / ".git").write_text(f"gitdir: {other}/.git\n")


def by_link(own: Path, other: Path) -> None:
    (own / "sub").mkdir()
    (own / "sub" / ".git").symlink_to(other / ".git")


def by_common_folder(own: Path, other: Path) -> None:
    (own / "sub" / ".git").mkdir(parents=True)
    (own / "sub" / ".git" / "commondir").write_text(f"{other}/.git\n")
    (own / "sub" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")


def by_linked_parts(own: Path, other: Path) -> None:
    make_repository(own / "sub", "plain")
    for name in ("objects", "refs"):
        (own / "sub" / ".git" / name).rename(own / name)
        (own / "sub" / ".git" / name).symlink_to(other / ".git" / name)


def by_setting(own: Path, other: Path) -> None:
    make_repository(own / "sub", "plain")
    git(own / "sub", "config", "core.worktree", str(other))


def by_setting_of_a_tree(own: Path, other: Path) -> None:
    make_repository(own / "sub", "plain")
    git(own / "sub", "config", "extensions.worktreeConfig", "true")
    (own / "sub" / ".git" / "config.worktree").write_text(f'[core] WorkTree = "{other}"\n')


def by_long_settings(own: Path, other: Path) -> None:
    make_repository(own / "sub", "plain")
    with (own / "sub" / ".git" / "config").open("a") as file:
        file.write(f"{'# ' + 'x' * 70_000}\n[core] worktree = {other}\n")


def by_continued_setting(own: Path, other: Path) -> None:
    make_repository(own / "sub", "plain")
    with (own / "sub" / ".git" / "config").open("a") as file:
        file.write(f"[core]\n\tworktree = \\\n{other}\n")


@pytest.mark.promise("S2")
@pytest.mark.parametrize(
    "plant",
    [
        by_file,
        by_link,
        by_common_folder,
        by_linked_parts,
        by_setting,
        by_setting_of_a_tree,
        by_long_settings,
        by_continued_setting,
    ],
)
def test_a_repository_that_leads_elsewhere_is_refused(
    plant: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    other = make_repository(tmp_path / "other", CANARY)
    own = make_repository(tmp_path / "own", "plain")
    plant(own, other)
    for command in ("git -C sub show", "git -C sub diff HEAD", "git -C sub grep -h CANARY"):
        with pytest.raises(Failed, match="outside of the workspace"):
            shown(own, command)
    shows = [shown(own, f"git -C sub {words}; true\n") for words in ("show", "diff HEAD", "grep -h CANARY")]
    assert CANARY in "".join(shows), "git itself does not show it"
    assert "plain" in shown(own, "git show")


def test_work_trees_submodules_and_folders_of_a_repository_are_read(tmp_path: Path) -> None:
    main = make_repository(tmp_path / "main", "plain")
    git(main, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert "plain" in shown(tmp_path / "tree", "git show")
    git(main, "submodule", "--quiet", "add", str(make_repository(tmp_path / "child", "plain")), "sub")
    assert "plain" in shown(main, "git -C sub show")
    assert "plain" in shown(main / "sub", "git show")
    (main / "docs").mkdir()
    assert "plain" in shown(main / "docs", "git show")
    assert "not a git repository" in shown(make_folder(tmp_path / "none"), "git status")


def make_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_what_cannot_be_read_leads_nowhere(tmp_path: Path) -> None:
    root = os.path.realpath(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "commondir").mkdir()
    assert stray_place(root, root) is None
    assert stray_place(os.path.dirname(root), root) is None
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".git").symlink_to("loop")
    (tmp_path / "a" / "loop").symlink_to(".git")
    assert stray_place(os.path.join(root, "a"), root) is None
