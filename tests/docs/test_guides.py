"""The guides say what the code does: limits, points and options, row by row."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from tools.files import ROOT
from windlass.compose import RunOptions, RuntimeOptions
from windlass.hooks import POINTS, HookOptions
from windlass.tools import ToolOptions

DOCS = ROOT / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))


def rows(page: str, heading: str = "") -> list[list[str]]:
    """The cells of the tables of a page, or of the part of it under a heading."""
    text = (DOCS / page).read_text(encoding="utf-8")
    if heading:
        text = text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_index_names_every_page() -> None:
    listed = set(re.findall(r"\]\(([\w.]+)\)", (DOCS / "README.md").read_text(encoding="utf-8")))
    assert listed == set(PAGES) - {"README.md"}
    assert "docs/README.md" in (ROOT / "README.md").read_text(encoding="utf-8")


LIMITS = [(row[0], row[1], row[2].strip("`")) for row in rows("limits.md")[1:]]


@pytest.mark.parametrize(("what", "value", "place"), LIMITS, ids=[place for _, _, place in LIMITS])
def test_a_limit_on_the_page_is_that_of_the_code(what: str, value: str, place: str) -> None:
    module, _, name = place.rpartition(".")
    found = getattr(import_module(module), name)
    assert float(value.replace(",", "")) == found, what


def test_the_page_has_the_limits_that_a_program_meets_first() -> None:
    names = {place.rpartition(".")[2] for _, _, place in LIMITS}
    assert {"STEPS_MAX", "TOOL_TIMEOUT_MS", "MODEL_TIMEOUT_MS", "MODEL_IDLE_TIMEOUT_MS"} <= names
    assert {"GRACE_S", "CALLS_PER_STEP_MAX", "SWEEP_S", "HOOK_TIMEOUT_MS"} <= names


def test_the_points_on_the_page_are_those_of_the_code() -> None:
    found = {row[0].strip("`"): row[1:] for row in rows("hooks.md", "Points")[1:]}
    words = {True: "yes", False: "no"}
    assert found == {
        name: [
            f"`{point.owns}`" if point.owns else "nothing",
            words[point.can_veto],
        ]
        for name, point in POINTS.items()
    }


@pytest.mark.parametrize(
    ("page", "heading", "options"),
    [
        ("runtime.md", "Options of `open` and `in_memory`", RuntimeOptions),
        ("runtime.md", "Options of `start`", RunOptions),
        ("tools.md", "", ToolOptions),
        ("hooks.md", "Options", HookOptions),
    ],
)
def test_every_option_is_on_its_page(page: str, heading: str, options: type) -> None:
    listed = {name for row in rows(page, heading) for name in re.findall(r"`(\w+)`", row[0])}
    missing = options.__annotations__.keys() - listed
    assert not missing, f"{page}: no row for {sorted(missing)}"
    if heading:
        assert listed - options.__annotations__.keys() <= {"durability", "open"}


def test_no_guide_is_longer_than_a_reader_has_patience_for() -> None:
    long = {name: len(Path(DOCS / name).read_text(encoding="utf-8").splitlines()) for name in PAGES}
    assert {name: lines for name, lines in long.items() if lines > 180} == {}
