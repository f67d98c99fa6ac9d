"""Workspace escapes: nothing outside of a workspace is read or changed."""

import os
from pathlib import Path

import pytest
from tests.toolbox.escapes import NAME, UNLISTED, escaping_paths, outside_world
from tests.toolbox.rig import SECRET, Failed, play, text, tool_of, tree
from tests.toolbox.swaps import CAN_EXCHANGE, exchange, swaps

from windlass.toolbox import Workspace
from windlass.toolbox.folder import Folder
from windlass.tools import ToolFailed

PATHS_MIN = 120
SWAPS = 300
ATTEMPTS_MAX = 50


def outside_of(root: Path) -> dict[str, bytes | str]:
    return {path: what for path, what in tree(root.parent).items() if not path.startswith(f"{root}/")}


def test_no_path_leads_out_of_the_workspace(tmp_path: Path) -> None:
    root, out = outside_world(tmp_path)
    paths = escaping_paths(root, out)
    assert len(set(paths)) >= PATHS_MIN
    workspace = Workspace(root)
    before = outside_of(root)

    async def story() -> list[str]:
        said: list[str] = []
        for path in paths:
            for name, arguments in (
                ("read_file", {}),
                ("grep", {"pattern": "secret"}),
                ("glob", {"pattern": "**"}),
                ("write_file", {"content": "overwritten"}),
            ):
                try:
                    said.append(await text(tool_of(workspace, name), path=path, **arguments))
                except Failed as failure:
                    said.append(str(failure))
        return said

    said = play(story())
    assert not [words for words in said if SECRET in words or UNLISTED in words or "root:x:0" in words]
    assert outside_of(root) == before


def test_failure_texts_are_short_and_without_a_traceback(tmp_path: Path) -> None:
    root, out = outside_world(tmp_path)
    read = tool_of(Workspace(root), "read_file")

    async def story() -> None:
        for path in escaping_paths(root, out):
            try:
                await text(read, path=path)
            except Failed as failure:
                words = str(failure)
                assert "Error" not in words, words
                assert "Traceback" not in words
                assert len(words) < 500

    play(story())


def test_links_that_stay_inside_are_followed(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "real.txt").write_text("found")
    (tmp_path / "a" / "here").symlink_to("./b/../b")
    (tmp_path / "link.txt").symlink_to("a/here/real.txt")
    read = tool_of(Workspace(tmp_path), "read_file")

    async def story() -> None:
        assert "found" in await text(read, path="link.txt")
        assert "found" in await text(read, path="a/here/../../link.txt")
        assert "found" in await text(read, path=str(tmp_path / "a" / "here" / "real.txt"))

    play(story())


def test_a_write_through_a_link_that_stays_inside_changes_its_target_and_keeps_the_link(
    tmp_path: Path,
) -> None:
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    read, write = Workspace(tmp_path).tools("read_file", "write_file")

    async def story() -> None:
        await text(read, path="link.txt")
        await text(write, path="link.txt", content="new")

    play(story())
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def test_a_hard_link_is_opened_only_where_the_host_allows_it(tmp_path: Path) -> None:
    root, _ = outside_world(tmp_path)
    strict = tool_of(Workspace(root), "read_file")
    lenient = tool_of(Workspace(root, allows_hard_links=True), "read_file")

    async def story() -> None:
        with pytest.raises(Failed, match="hard link"):
            await text(strict, path="hard-link")
        assert SECRET in await text(lenient, path="hard-link")

    play(story())


@pytest.mark.parametrize("kind", ["fifo", "socket", "device"])
def test_special_files_are_refused_and_nothing_waits_for_them(kind: str, tmp_path: Path) -> None:
    special = tmp_path / "special"
    match kind:
        case "fifo":
            os.mkfifo(special)
        case "socket":
            os.mknod(special, 0o140600)
        case _:
            try:
                os.mknod(special, 0o020600, os.makedev(1, 5))
            except PermissionError:
                pytest.skip("only root can make a device")
    read, write, grep = Workspace(tmp_path).tools("read_file", "write_file", "grep")

    async def story() -> None:
        for tool, arguments in ((read, {}), (write, {"content": "x"}), (grep, {"pattern": "x"})):
            with pytest.raises(Failed, match="not a regular file"):
                await text(tool, path="special", **arguments)
        assert await text(grep, pattern="x") == "[nothing matches]"

    play(story())


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".git/hooks/pre-commit",
        "sub/.git/config",
        ".GIT/config",
        ".Git",
        "git~1/config",
        ".git./config",
        ".git /config",
        ".g\u200bit/config",
        ".git::$INDEX_ALLOCATION/config",
        "link-to-git/config",
        "\uff0egit/config",
    ],
)
def test_nothing_is_written_into_the_folder_of_git(path: str, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "link-to-git").symlink_to(".git")
    write = tool_of(Workspace(tmp_path), "write_file")
    before = tree(tmp_path)

    async def story() -> None:
        with pytest.raises(Failed, match="writing into"):
            await text(write, path=path, content="[core]\nfsmonitor = ./evil")

    play(story())
    assert tree(tmp_path) == before


def test_a_folder_that_took_the_place_of_the_workspace_is_not_used(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    workspace = Workspace(root)
    root.rename(tmp_path / "moved")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / NAME).write_text(SECRET)
    (tmp_path / "other").rename(root)

    async def story() -> None:
        with pytest.raises(Failed, match="was replaced"):
            await text(tool_of(workspace, "read_file"), path=NAME)
        with pytest.raises(Failed, match="was replaced"):
            await text(tool_of(workspace, "bash"), command="ls")
        (root / NAME).unlink()
        root.rmdir()
        with pytest.raises(Failed, match="does not exist any more"):
            await text(tool_of(workspace, "read_file"), path=NAME)

    play(story())


@pytest.mark.skipif(not CAN_EXCHANGE, reason="only Linux can let two files change their names at one moment")
def test_links_that_are_swapped_while_a_path_is_walked_lead_nowhere(tmp_path: Path) -> None:
    reads = 0
    for attempt in range(ATTEMPTS_MAX):
        (tmp_path / f"{attempt}").mkdir()
        told = swaps(tmp_path / f"{attempt}", count=SWAPS)
        assert told["swaps"] >= SWAPS
        assert told["escapes"] == 0
        reads += told["reads"]
        if reads:
            # On a busy machine the reader may miss every moment in which the path is honest.
            return
    pytest.fail("the honest file was never read: nothing was proved")


@pytest.mark.skipif(not CAN_EXCHANGE, reason="only Linux can let two files change their names at one moment")
@pytest.mark.parametrize(("name", "link"), [("folder", "link"), ("folder/file.txt", "folder/link")])
def test_a_file_swapped_for_a_link_after_its_check_is_not_opened(
    name: str, link: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, out = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "folder", out):
        folder.mkdir(parents=True)
        (folder / "file.txt").write_text(SECRET if folder == out else "honest")
    (root / "link").symlink_to(out)
    (root / "folder" / "link").symlink_to(out / "file.txt")
    look, folder = os.stat, Folder(root)

    def look_and_swap(
        path: str, *, dir_fd: int | None = None, follow_symlinks: bool = True
    ) -> os.stat_result:
        status = look(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        if dir_fd is not None and path == Path(name).name:
            exchange(root / name, root / link)
        return status

    monkeypatch.setattr(os, "stat", look_and_swap)
    with pytest.raises(ToolFailed), folder.walk("folder/file.txt") as place:
        os.close(folder.open_file(place))


@pytest.mark.parametrize(
    "path", ["file-link-abs", "dir-link-abs/x", "root-link/etc", "../root-evil/x", "@ROOT-evil/x"]
)
def test_a_path_that_leads_out_is_refused_as_outside(path: str, tmp_path: Path) -> None:
    root, _ = outside_world(tmp_path)
    with pytest.raises(Failed, match="is outside of the workspace"):
        play(text(tool_of(Workspace(root), "read_file"), path=path.replace("@ROOT", str(root))))


def test_no_handle_is_left_open(tmp_path: Path) -> None:
    root, out = outside_world(tmp_path)
    folder = Folder(root)

    def handles() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    if not Path("/proc/self/fd").exists():
        pytest.skip("only Linux lists the handles of a process")
    before = handles()
    for path in escaping_paths(root, out):
        try:
            with folder.walk(path) as place:
                os.close(folder.open_file(place))
        except ToolFailed:
            continue
    assert handles() == before
