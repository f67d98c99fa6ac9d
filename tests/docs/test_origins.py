"""The tables of docs/origins.md: each row has four cells and links a test, or says why something is left out.

A linked file must exist and have tests. A link `file.py::test_name` must name a test of that file. Whether
the tests prove the row is not checked here.
"""

import re
from importlib import import_module
from pathlib import Path

import pytest
from tests.docs.test_guides import rows

from tools.files import ROOT

HEADER = ["here", "difference and reason", "test"]
ROWS = [row for row in rows("origins.md", "Hive (framework.Runtime)") if row[1:] != HEADER]
LINK = re.compile(r"\[([\w.]+)(?:::(\w+))?\]\(\.\./(tests/[\w./]+)\)")
TEST = re.compile(r"^ *(?:async )?def (test_\w+)\(", re.MULTILINE)


def missing(cell: str) -> list[str]:
    """The links of a cell to files without tests, or to tests that their file does not have."""
    found: list[str] = []
    for name, test, path in LINK.findall(cell):
        tests = TEST.findall((ROOT / path).read_text(encoding="utf-8")) if (ROOT / path).is_file() else []
        if Path(path).name != name or not tests or (test and test not in tests):
            found.append(f"{path}::{test}")
    return found


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_line_names_its_place_its_difference_and_its_test(row: list[str]) -> None:
    assert len(row) == 4, "a row has four cells; write | in code as another word"
    assert all(row), "an empty cell says nothing: write – for none"
    is_left_out = row[2].startswith("left out: ")
    assert LINK.search(row[3]) or is_left_out, "neither a test nor a reason why it is left out"
    assert not missing(row[3])
    assert (row[1] == "–") <= is_left_out


NAMED = re.compile(r"`((?:tests/)?[\w/]*test_\w+\.py|tests/[\w/]+)`")


def test_the_tests_that_the_other_sections_name_exist() -> None:
    """A bare name is that of a file beside the one before it."""
    named: list[Path] = []
    for row in rows("origins.md"):
        folder = Path("tests")
        for name in NAMED.findall(" ".join(row)):
            path = Path(name) if name.startswith("tests/") else folder / name
            folder = path.parent
            named.append(path)
    assert len(named) > 100
    assert [str(path) for path in named if not (ROOT / path).exists()] == []


OF_A_MODULE = re.compile(r"((?:`@?\w+`, )*`@?\w+`),? of `(windlass[\w.]*)`")


def test_the_names_that_are_said_to_be_of_a_module_are_there() -> None:
    found = [
        (module, name)
        for row in rows("origins.md")
        for names, module in OF_A_MODULE.findall(" ".join(row))
        for name in re.findall(r"\w+", names)
    ]
    assert len(found) > 15
    assert [(one, name) for one, name in found if not hasattr(import_module(one), name)] == []


HERE = "../tests/docs/test_origins.py"


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (f"[test_origins.py]({HERE})", []),
        (f"[test_origins.py::test_a_link_names_a_test_that_exists]({HERE})", []),
        (f"[test_origins.py::test_a_link_names]({HERE})", ["tests/docs/test_origins.py::test_a_link_names"]),
        (f"[test_guides.py]({HERE})", ["tests/docs/test_origins.py::"]),
        ("[test_gone.py](../tests/docs/test_gone.py)", ["tests/docs/test_gone.py::"]),
        ("[samples.py](../tests/ledger/samples.py)", ["tests/ledger/samples.py::"]),
    ],
)
def test_a_link_names_a_test_that_exists(cell: str, expected: list[str]) -> None:
    assert missing(cell) == expected
