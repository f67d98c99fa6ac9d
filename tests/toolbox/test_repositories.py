"""Reads of git that are safe show nothing of a repository that leads out of the workspace."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cpu import run_within
from tests.toolbox.rig import Failed, play, tool_of, use

from windlass.toolbox import Workspace, repository
from windlass.toolbox.repository import stray_place
from windlass_harness.shell.language import is_secret

CANARY = "CANARY of another repository"


EMPTY = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
"""The hash of an empty file."""


def git(folder: Path, *arguments: str, text: str = "") -> None:
    words = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", *arguments]
    words[1:1] = ["-c", "protocol.file.allow=always"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True, input=text.encode())


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


def by_alternates(own: Path, other: Path) -> None:
    by_alternate_of(own, f"{other}/.git/objects", other)


def by_relative_alternates(own: Path, other: Path) -> None:
    by_alternate_of(own, "../../../../other/.git/objects", other)


def by_quoted_alternates(own: Path, other: Path) -> None:
    by_alternate_of(own, f'"{other}/.git/objects"', other)


def by_alternates_of_alternates(own: Path, other: Path) -> None:
    (own / "store" / "info").mkdir(parents=True)
    (own / "store" / "info" / "alternates").write_text(f"{other}/.git/objects\n")
    by_alternate_of(own, f"# more\n\n{own}/store", other)


def by_alternates_of_a_linked_folder(own: Path, other: Path) -> None:
    (own / "store").mkdir()
    (own / "store" / "alternates").write_text(f"{other}/.git/objects\n")
    by_alternate_of(own, "", other)
    shutil.rmtree(own / "sub" / ".git" / "objects" / "info")
    (own / "sub" / ".git" / "objects" / "info").symlink_to("../../../store")


def by_alternate_of(own: Path, line: str, other: Path) -> None:
    """Name the objects of another repository, and its commit."""
    make_repository(own / "sub", "plain")
    objects = own / "sub" / ".git" / "objects" / "info"
    objects.mkdir(exist_ok=True)
    (objects / "alternates").write_text(f"{line}\n")
    commit = (other / ".git" / "refs" / "heads" / "main").read_text()
    (own / "sub" / ".git" / "refs" / "heads" / "main").write_text(commit)


def by_links_of_objects(own: Path, other: Path) -> None:
    by_alternate_of(own, "# none", other)
    for folder in (other / ".git" / "objects").iterdir():
        mine = own / "sub" / ".git" / "objects" / folder.name
        if not mine.exists():
            mine.symlink_to(folder)
        elif len(folder.name) == 2:
            for name in folder.iterdir():
                if not (mine / name.name).exists():
                    (mine / name.name).symlink_to(name)


@pytest.mark.promise("S2")
@pytest.mark.parametrize(
    "plant",
    [
        by_alternates,
        by_relative_alternates,
        by_quoted_alternates,
        by_alternates_of_alternates,
        by_alternates_of_a_linked_folder,
        by_links_of_objects,
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
    shows = [shown(own, f"git -C sub {words}; true &") for words in ("show", "diff HEAD", "grep -h CANARY")]
    assert CANARY in "".join(shows), "git itself does not show it"
    assert "plain" in shown(own, "git show")


@pytest.mark.promise("S2")
def test_a_folder_of_git_that_is_no_repository_hides_none(tmp_path: Path) -> None:
    other = make_repository(tmp_path / "other", CANARY)
    own = make_repository(tmp_path / "own", "plain")
    by_file(own, other)
    (own / "sub" / "below" / ".git").mkdir(parents=True)
    assert CANARY in shown(own, "git -C sub/below show; true &"), "git passes over it"
    with pytest.raises(Failed, match="outside of the workspace"):
        shown(own, "git -C sub/below show")


LINKED = """
objects/info/alternates info/grafts shallow packed-refs info/exclude rebase-merge/done MERGE_HEAD
rebase-merge/git-rebase-todo BISECT_START worktrees/x/gitdir
worktrees/hooks/gitdir
""".split()
"""Files of which git shows lines, most of them in messages about what it expected."""
SHOWING = "git status; git blame a.txt; git worktree list; git check-ignore -v CANARY-1; git log -1; git tag"


@pytest.mark.promise("S2")
@pytest.mark.parametrize("target", ["../../outside", "../.env"])
@pytest.mark.parametrize("name", LINKED)
def test_a_link_among_the_files_of_git_is_not_read(name: str, target: str, tmp_path: Path) -> None:
    own = make_repository(tmp_path / "own", "plain")
    for file in (tmp_path / "outside", own / ".env"):
        file.write_text("CANARY-1\n# CANARY\n")
    link = own / ".git" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    for other in ("interactive", "onto", "rebasing", "head-name", "HEAD", "commondir"):
        if link.parent.parent.name in (".git", "worktrees") and link.name != other:
            (link.parent / other).write_text("../..\n" if other == "commondir" else "x\n")
    (own / ".git" / "BISECT_LOG").touch()
    link.symlink_to(os.path.relpath((own / ".git" / target).resolve(), link.parent))
    raw = shown(own, f"{SHOWING}; true &")
    assert "CANARY" in raw, "git itself does not show it"
    for command in SHOWING.split("; "):
        with pytest.raises(Failed, match=r"outside of the workspace|name of credentials"):
            shown(own, command)


@pytest.mark.parametrize("value", ["files://$OTHER", '"reftable://$OTHER"', "files://../../../other"])
def test_references_outside_of_the_workspace_are_refused(value: str, tmp_path: Path) -> None:
    own = make_repository(tmp_path / "own", "plain")
    settings = own / ".git" / "config"
    before = settings.read_text()
    settings.write_text(
        f"{before}[extensions] refStorage = {value.replace('$OTHER', str(tmp_path / 'other'))}\n"
    )
    root = os.path.realpath(own)
    assert "outside" in (stray_place(root, root, is_secret) or "")
    settings.write_text(f"{before}[extensions] refStorage = files\n")
    assert stray_place(root, root, is_secret) is None


@pytest.mark.promise("S2")
@pytest.mark.parametrize("stages", [(0,), (1, 2, 3), (1, 3), (3,)])
def test_a_search_of_git_follows_no_linked_folder(stages: tuple[int, ...], tmp_path: Path) -> None:
    other = make_folder(tmp_path / "other")
    (other / "b.txt").write_text(f"{CANARY}\n")
    own = make_repository(tmp_path / "own", "plain")
    (own / "link").symlink_to(other)
    names = "".join(f"100644 {EMPTY} {stage}\tlink/b.txt\n" for stage in stages)
    git(own, "hash-object", "-w", "--stdin")
    git(own, "update-index", "--index-info", text=names)
    for command in ("git grep -h ''", "git grep -h CANARY -- ."):
        assert CANARY not in shown(own, command)
    assert "plain" in shown(own, "git grep -h ''")
    assert CANARY in shown(own, "git grep -h ''; true &")


@pytest.mark.promise("S2")
@pytest.mark.parametrize(
    "lines",
    [
        "[include]\n\tpath = ../../settings\n",
        "[INCLUDE] path = ../../settings\n",
        '[core] bare = false\n[includeIf "gitdir:**"] path = ../../settings\n',
    ],
)
@pytest.mark.parametrize("file", ["config", "config.worktree"])
def test_settings_of_another_file_are_not_shown(file: str, lines: str, tmp_path: Path) -> None:
    own = make_repository(tmp_path / "own", "plain")
    (tmp_path / "settings").write_text(f"[user] name = {CANARY}\n")
    git(own, "config", "extensions.worktreeConfig", "true")
    with (own / ".git" / file).open("a") as settings:
        settings.write(lines)
    with pytest.raises(Failed, match="include those of another file; name it with git --git-dir"):
        shown(own, "git config --get user.name")
    assert CANARY in shown(own, "git config --get user.name; true &")


def test_a_shared_clone_is_refused_by_that_name(tmp_path: Path) -> None:
    make_repository(tmp_path / "other", "plain")
    git(tmp_path, "clone", "-q", "--shared", "other", "own")
    with pytest.raises(Failed, match=r"takes objects, as one made by git clone --shared does, from .*other"):
        shown(tmp_path / "own", "git log")


def test_links_that_stay_inside_and_hooks_are_no_way_out(tmp_path: Path) -> None:
    own = make_repository(tmp_path / "own", "plain")
    (own / "store").mkdir()
    shutil.move(own / ".git" / "objects", own / "store" / "objects")
    (own / ".git" / "objects").symlink_to("../store/objects")
    (own / ".git" / "hooks").mkdir(exist_ok=True)
    (own / ".git" / "hooks" / "pre-commit").symlink_to(tmp_path)
    (own / ".git" / "lfs").symlink_to(tmp_path)
    (own / ".git" / "objects" / "info" / "alternates").write_text("../../store/objects\n")
    assert "plain" in shown(own, "git show")


def test_a_repository_may_have_so_many_files_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = make_repository(tmp_path / "own", "plain")
    root = os.path.realpath(own)
    count = sum(1 for path in (own / ".git").rglob("*") if "hooks" not in path.parts)
    monkeypatch.setattr(repository, "ENTRIES_MAX", count)
    assert stray_place(root, root, is_secret) is None
    monkeypatch.setattr(repository, "ENTRIES_MAX", count - 1)
    assert "too many" in (stray_place(root, root, is_secret) or "")


def test_work_trees_submodules_and_folders_of_a_repository_are_read(tmp_path: Path) -> None:
    main = make_repository(tmp_path / "main", "plain")
    git(main, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert "plain" in shown(tmp_path / "tree", "git show")
    git(main, "submodule", "--quiet", "add", str(make_repository(tmp_path / "child", "plain")), "sub")
    assert "plain" in shown(main, "git -C sub show")
    assert "plain" in shown(main / "sub", "git show")
    (main / "docs").mkdir()
    assert "first" in shown(main / "docs", "git show")
    assert "not a git repository" in shown(make_folder(tmp_path / "none"), "git status")


WHOLE = """
git show
git show -m
git show --cc HEAD~1
git diff HEAD~1
git diff
git diff --word-diff
git -C sub diff HEAD
git log -p
git log -p -c --all
git log -p -m --first-parent
git log -1 -p -- .
git log -p HEAD -- ./a.txt
git log --format=%h -S CANARY-2
git grep -h CANARY
git grep -h CANARY HEAD
cd sub && git show
cd sub; git log -p -S CANARY
""".strip().split("\n")
FROM_TOP = """
git show HEAD:other/a.txt
git show HEAD:
git show HEAD -- ':/!own'
git -C sub show HEAD:other/a.txt
git cat-file -p HEAD:other/a.txt
git cat-file -p :other/a.txt
git grep -h CANARY -- :/
git grep -h CANARY HEAD:other
git diff HEAD -- :/other
git diff HEAD:other/a.txt HEAD~1:other/a.txt
cd sub && git show HEAD:other/a.txt
""".strip().split("\n")


@pytest.mark.promise("S2")
@pytest.mark.parametrize("is_nested", [False, True])
def test_a_repository_above_the_workspace_shows_what_is_in_it_alone(is_nested: bool, tmp_path: Path) -> None:
    own = tmp_path / "own"
    make_folder(own)
    (tmp_path / "other").mkdir()
    (own / "sub").mkdir()
    git(tmp_path, "init", "-qb", "main")
    for text in ("1", "2", "3"):
        for name in ("other/a.txt", "own/a.txt", "own/sub/b.txt"):
            (tmp_path / name).write_text(f"{CANARY if 'other' in name else 'plain'}-{text}\n")
        if text != "3":
            git(tmp_path, "add", "-A")
            git(tmp_path, "commit", "-qm", "x")
    git(tmp_path, "checkout", "-qb", "side", "HEAD~1", "-f")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "side")
    git(tmp_path, "merge", "-q", "-s", "ours", "main")
    (tmp_path / "other" / "a.txt").write_text(f"{CANARY}-4\n")
    (own / "a.txt").write_text("plain-4\n")
    if is_nested:
        # Git passes over what is no repository.
        (own / ".git" / "objects").mkdir(parents=True)
        (own / ".git" / "refs").mkdir()
        (own / ".git" / "HEAD").write_text("none\n")
    for command in WHOLE:
        assert CANARY not in shown(own, command), command
    assert "plain-4" in shown(own, "git diff")
    assert "plain-2" in shown(own, "git log -p main")
    assert "plain" in shown(own, "git show HEAD:./a.txt")
    for command in FROM_TOP:
        with pytest.raises(Failed, match=r"begins above the workspace.*write COMMIT:\./PATH"):
            shown(own, command)
    for command in ("git diff", "git show HEAD:other/a.txt", "git log -p main"):
        assert CANARY in shown(own, f"{command}; true &")
    # One of its own has all of its paths here.
    shutil.rmtree(own / ".git", ignore_errors=True)
    git(own, "init", "-qb", "main")
    git(own, "add", "-A")
    git(own, "commit", "-qm", "first")
    assert "plain-4" in shown(own, "git show HEAD:a.txt")
    assert "plain-4" in shown(own, "cd sub && git show HEAD -- ':/a.txt'")


@pytest.mark.parametrize("head", ["ref: refs/heads/main\n", f"{EMPTY}\n", "link"])
def test_a_repository_without_files_of_its_own_is_refused(head: str, tmp_path: Path) -> None:
    own = make_repository(tmp_path / "own", "plain")
    git(own, "clone", "-q", "--bare", ".", "bare")
    if head == "link":
        (own / "bare" / "HEAD").unlink()
        (own / "bare" / "HEAD").symlink_to("refs/heads/main")
    else:
        (own / "bare" / "HEAD").write_text(head)
    for command in ("git -C bare show", "cd bare && git log", "git -C bare/refs status"):
        with pytest.raises(Failed, match="bare"):
            shown(own, command)
    (own / "bare" / "HEAD").unlink()
    assert "plain" in shown(own, "git -C bare show")


def make_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_what_cannot_be_read_leads_nowhere(tmp_path: Path) -> None:
    root = os.path.realpath(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "commondir").mkdir()
    assert stray_place(root, root, is_secret) is None
    assert stray_place(os.path.dirname(root), root, is_secret) is None
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".git").symlink_to("loop")
    (tmp_path / "a" / "loop").symlink_to(".git")
    assert stray_place(os.path.join(root, "a"), root, is_secret) is None


def test_the_time_for_hostile_settings_of_a_repository_grows_with_their_length(tmp_path: Path) -> None:
    folder = tmp_path / ".git"
    folder.mkdir()
    for name in ("HEAD", "config", "config.worktree"):
        (folder / name).write_text("\n" * 65_000)
    (folder / "HEAD").write_text("ref: refs/heads/main")
    for name in ("objects", "refs"):
        (folder / name).mkdir()
    program = (
        "from windlass.toolbox.repository import stray_place\n"
        f"assert stray_place({str(tmp_path)!r}, {str(tmp_path)!r}, lambda path: False) is None"
    )
    run_within(20, program)
