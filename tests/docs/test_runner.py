"""The runner of the pages: the blocks it runs, refuses and compares."""

from pathlib import Path

import pytest

from tools import doc_blocks
from tools.doc_blocks import Block, PageError

FENCE = "```"


def page(*parts: str) -> str:
    """A page made of the parts in order, after a line of text."""
    return "\n".join(("text", *parts, ""))


def python(code: str) -> str:
    return f"{FENCE}python\n{code}\n{FENCE}"


def text(output: str) -> str:
    return f"<!-- output -->\n{FENCE}text\n{output}\n{FENCE}"


def run(source: str, folder: Path) -> list[str | None]:
    chains = doc_blocks.chains(doc_blocks.blocks(source))
    return [doc_blocks.run_chain(chain, name="docs/page.md", folder=folder) for chain in chains]


def test_a_block_that_runs_has_no_problem(tmp_path: Path) -> None:
    assert run(page(python("assert 1 + 1 == 2")), tmp_path) == [None]


def test_a_block_that_fails_is_reported_with_the_line_of_the_page(tmp_path: Path) -> None:
    [problem] = run(page("one", python("x = 1\nraise SystemError('no')"), "two"), tmp_path)
    assert problem is not None
    assert problem.startswith("docs/page.md:4: the block fails:")
    assert 'page.md", line 5, in <module>' in problem
    assert "SystemError: no" in problem


@pytest.mark.parametrize("code", ["def", "import warnings\nwarnings.warn('old')", "raise SystemExit(3)"])
def test_a_syntax_error_a_warning_and_a_bad_exit_are_failures(code: str, tmp_path: Path) -> None:
    [problem] = run(page(python(code)), tmp_path)
    assert problem is not None


def test_output_equal_to_the_page_has_no_problem(tmp_path: Path) -> None:
    assert run(page(python("print('a')\nprint('b')"), "then", text("a\nb")), tmp_path) == [None]


@pytest.mark.parametrize("printed", ["print('a ')", "print('a')\nprint()", "pass", "print('A')"])
def test_output_that_differs_in_any_way_is_a_failure(printed: str, tmp_path: Path) -> None:
    [problem] = run(page(python(printed), text("a")), tmp_path)
    assert problem is not None
    assert "docs/page.md:3: the page says\na\n" in problem


def test_a_text_block_without_the_mark_is_not_compared(tmp_path: Path) -> None:
    assert run(page(python("print('a')"), f"{FENCE}text\nb\n{FENCE}"), tmp_path) == [None]


def test_blocks_share_nothing_unless_they_say_so(tmp_path: Path) -> None:
    first, second = run(page(python("x = 1"), python("x")), tmp_path)
    assert first is None
    assert second is not None
    assert "NameError" in second


def test_a_block_that_continues_sees_the_names_before_it_and_has_its_own_output(tmp_path: Path) -> None:
    shared = page(
        python("x = 1\nprint(x)"), text("1"), "<!-- test: continue -->", python("print(x + 1)"), text("2")
    )
    assert run(shared, tmp_path) == [None]
    [problem] = run(shared.replace("\n2\n", "\n3\n"), tmp_path)
    assert problem is not None
    assert "the page says\n3\n\nand the block prints\n2\n" in problem


def test_a_block_runs_in_an_empty_folder_and_does_not_see_the_repository(tmp_path: Path) -> None:
    assert run(page(python("import os\nassert os.listdir() == []")), tmp_path) == [None]
    [problem] = run(page(python("import tools")), tmp_path)
    assert problem is not None


def test_a_skipped_block_is_not_run_and_keeps_its_reason(tmp_path: Path) -> None:
    source = page("<!-- test: skip needs a key -->", python("raise SystemError"))
    assert run(source, tmp_path) == []
    assert [block.skip for block in doc_blocks.blocks(source)] == ["needs a key"]


@pytest.mark.parametrize(
    "source",
    [
        page("<!-- test: skip -->", python("x")),
        page("<!-- test: skipp it -->", python("x")),
        page("<!-- test: continue -->", python("x")),
        page(text("output of nothing")),
        page(python("x"), text("a"), text("b")),
        page("<!-- test: skip it -->", "", python("x")),
        page("<!-- output -->"),
        page(f"{FENCE}python", "never closed"),
    ],
    ids=[
        "no reason",
        "misspelt",
        "continues nothing",
        "output of nothing",
        "two outputs",
        "gap",
        "alone",
        "open",
    ],
)
def test_an_ambiguous_block_is_refused_with_its_line(source: str) -> None:
    with pytest.raises(PageError, match="line"):
        doc_blocks.blocks(source)


def test_a_block_in_a_list_and_a_block_that_shows_a_fence_are_read_whole() -> None:
    source = page(
        "1. item", f"   {FENCE}python", "   if x:", "       y", f"   {FENCE}", "````text", FENCE, "````"
    )
    assert doc_blocks.blocks(source) == [Block("python", 4, "if x:\n    y\n"), Block("text", 8, f"{FENCE}\n")]


@pytest.mark.parametrize(
    ("code", "targets"),
    [
        ("make test", {"test"}),
        ("git clone x && make check dev  # not make that", {"check", "dev"}),
        ("make PYTHON=python3.12 -j2 test; echo make nothing", {"test"}),
        ("$ make gen\nmake output of it", {"gen"}),
        ("cmake x\nremake y", set[str]()),
    ],
)
def test_make_targets_are_found_in_commands(code: str, targets: set[str]) -> None:
    assert doc_blocks.make_targets(code) == targets


@pytest.mark.parametrize(
    ("code", "paths"),
    [
        (
            ".venv/bin/pytest tests/harness/test_a.py::test_b -q",
            {".venv/bin/pytest", "tests/harness/test_a.py"},
        ),
        ("python tour.py ./here ../there", {"tour.py", "./here", "../there"}),
        (
            "pip install windlass @windlass/protocol /etc/hosts ~/x $HOME/y https://example.com/z a/*.py",
            set[str](),
        ),
        ("$ cat README.md\nsome/output", {"README.md"}),
    ],
)
def test_relative_paths_are_found_in_commands(code: str, paths: set[str]) -> None:
    assert doc_blocks.paths(code) == paths


def test_links_are_found_in_prose_and_not_in_code_or_to_other_sites() -> None:
    source = page(
        '[a](docs/a.md#part) ![b](b.png "title") [c](#here) [d](https://example.com/d) [e](mailto:e@e.org)',
        "`[f](f.md)`",
        f"{FENCE}\n[g](g.md)\n{FENCE}",
        "[h]: h.md",
    )
    found = [(link.line, link.path, link.anchor) for link in doc_blocks.links(source)]
    assert found == [(2, "docs/a.md", "part"), (2, "b.png", ""), (2, "", "here"), (7, "h.md", "")]


def test_anchors_are_spelt_as_github_does() -> None:
    source = page(
        "# What it *is*, `now`",
        "## A [link](x.md) & more",
        f"{FENCE}\n# not one\n{FENCE}",
        "## Same",
        "### Same",
    )
    assert doc_blocks.anchors(source) == {"what-it-is-now", "a-link--more", "same", "same-1"}
