"""read_file and write_file: shown text, written files, and refusals."""

import asyncio
import os
import re
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue
from tests.toolbox.rig import Failed, play, reminders, state_of, text, tool_of, tree

from windlass import Rejected
from windlass.toolbox import Workspace
from windlass.toolbox.limits import (
    LINE_CHARS_MAX,
    MARKED_FILE_BYTES_MAX,
    MARKS_MAX,
    OUTPUT_BYTES_MAX,
    OUTPUT_LINES_MAX,
    WRITE_CHARS_MAX,
)
from windlass.toolbox.read import Window, read_window

NUMBER_CHARS = 7


def read(folder: Path, path: str, **arguments: object) -> str:
    return play(text(tool_of(Workspace(folder), "read_file"), path=path, **arguments))


def shown(numbered: str) -> list[str]:
    """The lines that a file has, without their numbers and the notes."""
    return [line[NUMBER_CHARS:] for line in numbered.split("\n") if line[:6].strip().isdigit()]


def test_lines_are_shown_behind_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\n  three\n")
    assert read(tmp_path, "a.txt") == "     1\tone\n     2\t\n     3\t  three"
    assert read(tmp_path, "./a.txt", offset=2, limit=1).startswith("     2\t\n[lines 2 to 2, 3 in all; go on")


def test_a_file_is_shown_to_the_limit_of_lines_and_goes_on_behind_it(tmp_path: Path) -> None:
    (tmp_path / "at").write_text("x\n" * OUTPUT_LINES_MAX)
    (tmp_path / "over").write_text("x\n" * (OUTPUT_LINES_MAX + 1))
    assert "go on" not in read(tmp_path, "at")
    assert f"{OUTPUT_LINES_MAX + 1:,} in all; go on with offset={OUTPUT_LINES_MAX + 1}" in read(
        tmp_path, "over"
    )
    assert shown(read(tmp_path, "over", offset=OUTPUT_LINES_MAX + 1)) == ["x"]


def test_a_line_is_shown_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "at").write_text("x" * LINE_CHARS_MAX)
    (tmp_path / "over").write_text("é" * (LINE_CHARS_MAX + 1) + "\nnext")
    assert "left out" not in read(tmp_path, "at")
    first, second = shown(read(tmp_path, "over"))
    assert first == "é" * LINE_CHARS_MAX + " [… 1 characters left out]"
    assert second == "next"


def test_the_shown_part_of_a_file_is_limited_in_bytes(tmp_path: Path) -> None:
    (tmp_path / "wide").write_text(("y" * 1_000 + "\n") * 1_000)
    told = read(tmp_path, "wide")
    assert len(told.encode()) <= OUTPUT_BYTES_MAX + 200
    lines = shown(told)
    assert f"go on with offset={len(lines) + 1}]" in told


@pytest.mark.uncounted
def test_a_huge_file_is_read_in_parts_and_never_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as file:
        for _ in range(80):
            file.write(b"0123456789abcde\n" * 16_384)
    assert path.stat().st_size > MARKED_FILE_BYTES_MAX
    told = read(tmp_path, "huge", offset=1_000_000, limit=2)
    assert told == (
        "1000000\t0123456789abcde\n1000001\t0123456789abcde\n"
        "[lines 1,000,000 to 1,000,001, more; go on with offset=1000002]"
    )


@pytest.mark.parametrize(
    ("body", "lines", "note"),
    [
        ("grün\n".encode(), ["grün"], ""),
        ("\ufeffgrün\n".encode(), ["grün"], ""),
        ("grün\nblau".encode("utf-16"), ["grün", "blau"], ""),
        (b"\xff\xfe\x00\x00" + "grün".encode("utf-32-le"), ["grün"], ""),
        ("grün\n".encode("latin-1"), ["gr\ufffdn"], "not text in the encoding"),
        (b"a\r\nb\r\n", ["a", "b"], "CR LF"),
        (b"\n", [""], ""),
    ],
)
def test_text_is_decoded_by_its_byte_order_mark(
    body: bytes, lines: list[str], note: str, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(body)
    told = read(tmp_path, "a")
    assert shown(told) == lines
    assert note in told
    assert ("[" in told) == bool(note)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("image.png", {}, "is not text \\(12 bytes of binary data\\)"),
        ("folder", {}, "is a folder; use glob"),
        (".", {}, "is a folder"),
        ("none.txt", {}, "there is no file"),
        ("none/file.txt", {}, "is not there"),
        ("a.txt/b", {}, "not a folder"),
        ("a.txt", {"offset": 3}, "has 2 lines; offset 3 is past"),
        ("a.txt", {"offset": 0}, "offset"),
        ("a.txt", {"limit": OUTPUT_LINES_MAX + 1}, "limit"),
        ("closed.txt", {}, "permission denied"),
        ("", {}, "path"),
    ],
)
def test_unreadable_paths_are_refused_with_a_message(
    name: str, arguments: dict[str, object], words: str, tmp_path: Path
) -> None:
    (tmp_path / "image.png").write_bytes(b"\x89PNG\0\0\0\0data")
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.txt").write_text("1\n2\n")
    (tmp_path / "closed.txt").write_text("x")
    (tmp_path / "closed.txt").chmod(0)
    if name == "closed.txt" and os.geteuid() == 0:
        pytest.skip("root may read everything")
    with pytest.raises(Failed, match=words):
        read(tmp_path, name, **arguments)


def test_an_empty_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert read(tmp_path, "empty") == "[the file is empty]"


@given(
    content=st.text(alphabet="ab\n\r é", max_size=60),
    cuts=st.lists(st.integers(1, 9), max_size=40),
    first=st.integers(1, 8),
    most=st.integers(1, 8),
)
def test_a_window_holds_the_same_lines_however_the_file_comes(
    content: str, cuts: list[int], first: int, most: int
) -> None:
    body = content.encode()
    pieces: list[bytes] = []
    for cut in cuts:
        pieces.append(body[:cut])
        body = body[cut:]
    stream = iter([piece for piece in (*pieces, body) if piece])
    window = Window(first, most)
    total = read_window(window, lambda _: next(stream, b""), take=lambda _: True, is_cancelled=lambda: False)
    lines = content.removesuffix("\n").split("\n") if content else []
    assert total == len(lines)
    assert window.lines == [line.removesuffix("\r") for line in lines[first - 1 : first - 1 + most]]
    assert window.is_full == (len(lines) >= first + most)


def test_a_new_file_is_written_with_its_folders(tmp_path: Path) -> None:
    told = play(text(tool_of(Workspace(tmp_path), "write_file"), path="a/b/c.txt", content="grün\n"))
    assert told == "wrote 'a/b/c.txt', a new file of 6 bytes"
    assert (tmp_path / "a/b/c.txt").read_text() == "grün\n"
    assert [path.name for path in (tmp_path / "a/b").iterdir()] == ["c.txt"]


def test_a_file_is_overwritten_only_after_it_was_read_in_its_present_content(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    read_file, write_file = Workspace(tmp_path).tools("read_file", "write_file")

    async def story() -> None:
        with pytest.raises(Failed, match="was not read in this session"):
            await text(write_file, path="a.txt", content="two")
        await text(read_file, path="a.txt")
        path.write_text("changed by somebody else")
        with pytest.raises(Failed, match="has changed since it was read"):
            await text(write_file, path="a.txt", content="two")
        assert path.read_text() == "changed by somebody else"
        await text(read_file, path="a.txt")
        await text(write_file, path="a.txt", content="two")
        await text(write_file, path="./a.txt", content="three")
        assert path.read_text() == "three"

    play(story())


def test_a_file_read_in_one_session_counts_as_unread_in_another(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    read_file, write_file = Workspace(tmp_path).tools("read_file", "write_file")

    async def story() -> None:
        await text(read_file, path="a.txt", session="s1")
        with pytest.raises(Failed, match="was not read in this session"):
            await text(write_file, path="a.txt", content="two", session="s2")
        await text(read_file, path="a.txt", session="s2")
        await text(write_file, path="a.txt", content="two", session="s2")
        with pytest.raises(Failed, match="has changed"):
            await text(write_file, path="a.txt", content="three", session="s1")

    play(story())


def test_reading_one_file_says_nothing_of_another(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "b.txt").write_text("one")
    read_file, write_file = Workspace(tmp_path).tools("read_file", "write_file")

    async def story() -> None:
        await text(read_file, path="a.txt")
        with pytest.raises(Failed, match="was not read in this session"):
            await text(write_file, path="b.txt", content="two")

    play(story())


def test_marks_outlive_the_workspace_that_made_them(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")

    async def story() -> None:
        await text(tool_of(Workspace(tmp_path), "read_file"), path="a.txt")
        await text(tool_of(Workspace(tmp_path), "write_file"), path="a.txt", content="two")

    play(story())
    assert (tmp_path / "a.txt").read_text() == "two"


def test_a_write_that_is_made_again_after_a_crash_is_done_already(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")

    async def story() -> None:
        read_file, write_file = Workspace(tmp_path).tools("read_file", "write_file")
        await text(read_file, path="a.txt")
        await text(write_file, path="a.txt", content="two")
        again = await text(tool_of(Workspace(tmp_path), "write_file"), path="a.txt", content="two")
        assert "has this content already" in again

    play(story())


def test_concurrent_writes_of_many_sessions_to_one_file_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("")
    read_file, write_file = Workspace(tmp_path).tools("read_file", "write_file")

    async def add(session: str) -> None:
        while True:
            told = await text(read_file, path="log.txt", session=session)
            present = "".join(f"{line}\n" for line in shown(told))
            try:
                await text(write_file, path="log.txt", content=f"{present}{session}\n", session=session)
            except Failed:
                continue
            return

    async def story() -> None:
        await asyncio.gather(*(add(f"s{number}") for number in range(12)))

    play(story())
    assert sorted(path.read_text().split()) == sorted(f"s{number}" for number in range(12))


def test_file_permissions_are_kept_without_setuid_and_setgid(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o4750)
    read_file, write_file = Workspace(tmp_path).tools("read_file", "write_file")

    async def story() -> None:
        await text(read_file, path="run.sh")
        await text(write_file, path="run.sh", content="#!/bin/sh\ntrue\n")

    play(story())
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


def test_a_reader_sees_the_old_content_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old" * 1_000)
    read_file, write_file = Workspace(tmp_path).tools("read_file", "write_file")

    async def story() -> None:
        await text(read_file, path="a.txt")
        with path.open() as held:
            await text(write_file, path="a.txt", content="new")
            assert held.read() == "old" * 1_000

    play(story())
    assert path.read_text() == "new"


def test_a_failed_write_leaves_everything_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("one")
    read_file, write_file = Workspace(tmp_path).tools("read_file", "write_file")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async def story() -> None:
        await text(read_file, path="a.txt")
        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(Failed, match="the disk is full"):
            await text(write_file, path="a.txt", content="two")

    before = tree(tmp_path)
    play(story())
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        ("folder", "x", "is a folder"),
        ("..", "x", "outside"),
        ("folder/", "x", "is a folder"),
        ("a.txt/b", "x", "not a folder"),
        ("new/../../x", "x", "goes back from a folder that is not there"),
        ("a", "x" * (WRITE_CHARS_MAX + 1), "content"),
        ("huge", "x", "too large to be overwritten"),
        ("n" * 256, "x", "name in the path is too long"),
    ],
)
def test_unwritable_files_are_refused_with_a_message(
    path: str, content: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.txt").write_text("1")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(MARKED_FILE_BYTES_MAX + 1)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(Failed, match=words):
        play(text(tool_of(Workspace(tmp_path), "write_file"), path=path, content=content))
    assert sorted(os.listdir(tmp_path)) == before


def test_a_workspace_gives_the_tools_that_are_named_and_no_others(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    assert [tool.name for tool in workspace.tools("grep", "read_file")] == ["grep", "read_file"]
    with pytest.raises(Rejected, match="found no name"):
        workspace.tools()
    with pytest.raises(Rejected, match="bash, send_files, fetch_files; found rm"):
        workspace.tools("rm", "glob")


@pytest.mark.parametrize(
    ("name", "words"), [("none", "must exist, found no "), ("file", "another kind of file at ")]
)
def test_a_workspace_needs_a_folder(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Rejected, match=re.escape(f"{words}{tmp_path / name}")):
        Workspace(tmp_path / name)


def test_the_tools_declare_their_mode_and_effect(tmp_path: Path) -> None:
    tools = Workspace(tmp_path).tools("read_file", "write_file", "glob", "grep", "bash")
    declared = {
        tool.name: (str(tool.mode), str(tool.effect), tool.is_outbound, tool.is_shell) for tool in tools
    }
    assert declared == {
        "read_file": ("read", "read", False, False),
        "write_file": ("safe_write", "idempotent", False, False),
        "glob": ("read", "read", False, False),
        "grep": ("read", "read", False, False),
        "bash": ("local", "once", None, True),
    }


def test_a_session_forgets_the_file_that_it_saw_first(tmp_path: Path) -> None:
    for number in range(MARKS_MAX + 1):
        (tmp_path / f"{number}.txt").write_text("one")
    read_file, write_file = Workspace(tmp_path).tools("read_file", "write_file")

    async def story() -> None:
        await text(read_file, path="0.txt")
        for number in range(MARKS_MAX + 1):
            await text(read_file, path=f"{number}.txt")
            if number == 1:
                # Seen with another content, so it is the newest again.
                (tmp_path / "0.txt").write_text("two")
                await text(read_file, path="0.txt")
        assert len(state_of("s1")) == MARKS_MAX
        await text(write_file, path="0.txt", content="three")
        with pytest.raises(Failed, match="was not read in this session"):
            await text(write_file, path="1.txt", content="three")

    play(story())


def test_reading_a_file_again_changes_no_state(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    read_file = tool_of(Workspace(tmp_path), "read_file")

    async def story() -> None:
        await text(read_file, path="a.txt")
        before = state_of("s1")
        await text(read_file, path="a.txt")
        assert state_of("s1") is before

    play(story())


def test_an_unreadable_read_mark_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    read_file, write_file = Workspace(tmp_path).tools("read_file", "write_file")

    async def story() -> None:
        await text(read_file, path="a.txt")
        (key,) = state_of("s1")
        marks: list[JsonValue] = ["sha", {"sha256": 1}]
        for mark in marks:
            state_of("s1")[key] = mark
            with pytest.raises(Failed, match="was not read in this session"):
                await text(write_file, path="a.txt", content="two")

    play(story())


def test_a_compaction_names_the_files_that_were_seen_in_this_workspace(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text(name)
    long = "x" * 200 + "/" + "y" * 200
    one, two = (tool_of(Workspace(tmp_path / name), "read_file") for name in ("one", "two"))
    write_file = tool_of(Workspace(tmp_path / "one"), "write_file")

    async def story() -> None:
        assert await reminders(one) == []
        await text(one, path="one.txt")
        await text(write_file, path="new.txt", content="new")
        await text(write_file, path=long, content="new")
        await text(two, path="two.txt")
        (told,) = await reminders(one)
        assert told.splitlines()[1:] == ["'new.txt'", "'one.txt'"]

    play(story())
