"""Every line of docs/origins.md is proved by a test, or says why something is left out."""

import re
from pathlib import Path

import pytest
from tests.docs.test_guides import rows

from tools.files import ROOT

HEADER = ["here", "difference and reason", "test"]
ROWS = [row for row in rows("origins.md") if row[1:] != HEADER]
LINK = re.compile(r"\[([\w.]+)\]\(\.\./(tests/[\w./]+)\)")


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_line_names_its_place_its_difference_and_its_test(row: list[str]) -> None:
    assert len(row) == 4, "a row has four cells; write | in code as another word"
    assert all(row), "an empty cell says nothing: write – for none"
    proofs = LINK.findall(row[3])
    assert proofs or row[2].startswith("left out: "), "neither a test nor a reason why it is left out"
    for name, path in proofs:
        assert Path(path).name == name
        assert "def test_" in (ROOT / path).read_text(encoding="utf-8")
    assert (row[1] == "–") <= row[2].startswith("left out: ")
