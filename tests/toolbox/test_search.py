"""glob and grep: matches, exclusions and limits."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.toolbox.rig import SECRET, Failed, play, text, tool_of, use

from windlass.toolbox import Workspace, limits
from windlass.toolbox.limits import GLOB_CHARS_MAX, GLOB_PARTS_MAX, GREP_FILE_BYTES_MAX, OUTPUT_LINES_MAX
from windlass.toolbox.search import path_pattern
from windlass.tools.context import ToolControl

FILES = (
    "a.py",
    "b.txt",
    "src/c.py",
    "src/deep/d.py",
    "src/deep/e.ts",
    "test_x.py",
    ".hidden.py",
    "src/[x].py",
)


def project(folder: Path) -> Path:
    for name in (*FILES, ".git/config.py", "node_modules/m/index.py", "src/__pycache__/c.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"name = '{name}'\nneedle = 1\n")
    return folder


def find(folder: Path, pattern: str, **arguments: object) -> list[str]:
    return play(text(tool_of(Workspace(folder), "glob"), pattern=pattern, **arguments)).split("\n")


def grep(folder: Path, pattern: str, **arguments: object) -> list[str]:
    return play(text(tool_of(Workspace(folder), "grep"), pattern=pattern, **arguments)).split("\n")


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("*.py", ".", [".hidden.py", "a.py", "src/[x].py", "src/c.py", "src/deep/d.py", "test_x.py"]),
        ("src/*.py", ".", ["src/[x].py", "src/c.py"]),
        ("src/**/*.py", ".", ["src/[x].py", "src/c.py", "src/deep/d.py"]),
        ("**/deep/**", ".", ["src/deep/", "src/deep/d.py", "src/deep/e.ts"]),
        ("**/*.{py,ts}", "src/deep", ["src/deep/d.py", "src/deep/e.ts"]),
        ("src/[[]x].py", ".", ["src/[x].py"]),
        ("?.{py,txt}", ".", ["a.py", "b.txt", "src/c.py", "src/deep/d.py"]),
        ("./src/c.py", ".", ["src/c.py"]),
        ("*.rs", ".", ["[nothing matches]"]),
        ("index.py", "node_modules", ["node_modules/m/index.py"]),
        ("config.py", ".", ["[nothing matches]"]),
    ],
)
def test_paths_are_found_by_their_pattern(pattern: str, path: str, found: list[str], tmp_path: Path) -> None:
    assert find(project(tmp_path), pattern, path=path) == found


@pytest.mark.parametrize(
    ("pattern", "path", "words"),
    [
        ("x" * (GLOB_CHARS_MAX + 1), ".", "too long"),
        ("/".join("x" * (GLOB_PARTS_MAX + 1)), ".", "parts, limit"),
        ("{a,b}" * 7, ".", "make 128 patterns, limit 64"),
        ("../*", ".", "relative to `path`"),
        ("/etc/*", ".", "relative to `path`"),
        ("*", "a.py", "is not a folder"),
        ("*", "../", "outside"),
        ("", ".", "pattern"),
    ],
)
def test_unusable_patterns_are_refused_with_a_message(
    pattern: str, path: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(Failed, match=words):
        find(project(tmp_path), pattern, path=path)


def test_a_hostile_path_pattern_is_matched_in_bounded_time(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(40):
        folder = folder / "a"
        folder.mkdir()
    (folder / ("a" * 250)).touch()
    assert find(tmp_path, "/".join(["**", "a"] * 15) + "/b") == ["[nothing matches]"]
    assert find(tmp_path, "*a" * 200 + "b") == ["[nothing matches]"]


@given(st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=5), st.data())
def test_two_stars_match_any_number_of_folders(names: list[str], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(names) - 1))
    end = data.draw(st.integers(cut, len(names) - 1))
    pattern = path_pattern("/".join([*names[:cut], "**", *names[end:]]))
    assert pattern.matches("/".join(names))
    assert not pattern.matches("/".join([*names, "other"]))


def test_links_are_listed_and_not_followed(tmp_path: Path) -> None:
    root, out = tmp_path / "root", tmp_path / "out"
    root.mkdir()
    out.mkdir()
    (out / "secret.txt").write_text(SECRET)
    (root / "link").symlink_to(out)
    (root / "secret.txt").symlink_to(out / "secret.txt")
    os.link(out / "secret.txt", root / "hard.txt")
    assert find(root, "**") == ["hard.txt", "link", "secret.txt"]
    assert grep(root, "secret") == [
        "[nothing matches]",
        "[1 files were not searched: too large, or not to be opened]",
    ]


def test_a_listing_ends_at_its_limit_and_says_so(tmp_path: Path) -> None:
    for number in range(OUTPUT_LINES_MAX + 1):
        (tmp_path / f"{number:05}").touch()
    found = find(tmp_path, "*")
    assert len(found) == OUTPUT_LINES_MAX + 1
    assert found[-1] == "[there are more paths; use a narrower pattern or path]"
    (tmp_path / "00000").unlink()
    assert len(find(tmp_path, "*")) == OUTPUT_LINES_MAX


def test_the_number_of_entries_of_a_search_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.toolbox.folder.WALK_ENTRIES_MAX", 3)
    monkeypatch.setattr("windlass.toolbox.folder.WALK_LEVELS_MAX", 1)
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
    assert find(tmp_path, "*") == ["a", "b", "c"]
    (tmp_path / "d").touch()
    assert "the search ended at its limit" in find(tmp_path, "*")[-1]
    for name in ("b", "c", "d"):
        (tmp_path / name).unlink()
    (tmp_path / "x" / "y").mkdir(parents=True)
    assert find(tmp_path, "*") == [
        "a",
        "x/",
        "x/y/",
        f"[the search ended at its limit of {limits.WALK_ENTRIES_MAX:,} entries: search a smaller folder]",
    ]


def test_matching_lines_are_shown_with_their_place(tmp_path: Path) -> None:
    project(tmp_path)
    assert grep(tmp_path, "^name.*src", files="*.py") == [
        "src/[x].py:1: name = 'src/[x].py'",
        "src/c.py:1: name = 'src/c.py'",
        "src/deep/d.py:1: name = 'src/deep/d.py'",
    ]
    assert grep(tmp_path, "NEEDLE", path="src/c.py", ignore_case=True) == ["src/c.py:2: needle = 1"]
    assert grep(tmp_path, "NEEDLE") == ["[nothing matches]"]
    assert grep(tmp_path, "1$", path="src/deep", files="e.*") == ["src/deep/e.ts:2: needle = 1"]


def test_lines_around_a_match_are_shown_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(
        "".join(f"{number}{'x' if number in {2, 4, 9} else ''}\n" for number in range(12))
    )
    assert grep(tmp_path, "x", context=1) == [
        "a-2- 1",
        "a:3: 2x",
        "a-4- 3",
        "a:5: 4x",
        "a-6- 5",
        "--",
        "a-9- 8",
        "a:10: 9x",
        "a-11- 10",
    ]


def test_binary_and_large_files_are_not_searched(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"needle\0")
    (tmp_path / "utf16").write_text("needle", encoding="utf-16")
    with (tmp_path / "large").open("w") as file:
        file.write("needle\n" * (GREP_FILE_BYTES_MAX // 7 + 1))
    assert grep(tmp_path, "needle") == [
        "utf16:1: needle",
        "[1 files were not searched: too large, or not to be opened]",
    ]


def test_a_long_line_is_shown_in_part(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x" * 600 + "\r\n")
    assert grep(tmp_path, "x$") == ["a:1: " + "x" * 500 + " [… 100 characters]"]


@pytest.mark.parametrize("pattern", ["(", "(?=x)", r"(x)\1", "a{1001}", "(a{100}){100}", "x" * 1_025])
def test_expressions_that_cannot_be_matched_in_linear_time_are_refused_with_a_message(
    pattern: str, tmp_path: Path
) -> None:
    with pytest.raises(Failed, match="pattern"):
        grep(tmp_path, pattern)


@pytest.mark.parametrize("pattern", ["(x+x+)+y", "(a|a)*b", "(.*a){20}b", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_a_hostile_expression_is_matched_in_bounded_time(pattern: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x" * 100_000 + "\n" + "a" * 100_000)
    assert grep(tmp_path, pattern) == ["[nothing matches]"]


def test_a_cancelled_search_stops(tmp_path: Path) -> None:
    project(tmp_path)

    async def story() -> None:
        control = ToolControl()
        control.cancel()
        for name in ("glob", "grep"):
            with pytest.raises(Failed, match="was stopped"):
                await use(tool_of(Workspace(tmp_path), name), {"pattern": "x*"}, control=control)

    play(story())


def test_a_search_stops_at_the_depth_limit(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(limits.WALK_LEVELS_MAX + 3):
        folder = folder / "d"
        folder.mkdir()
    found = find(tmp_path, "**")
    assert len(found) == limits.WALK_LEVELS_MAX + 2
    assert "the search ended" in found[-1]
