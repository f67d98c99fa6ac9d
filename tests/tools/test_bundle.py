"""The bundle of the sidecar: its modules and its size; `make sidecar-bundle` tries them in it."""

import sys
from pathlib import Path

import pytest

from tools.bundle import EXCLUDED, SIZE_BYTES_MAX, checked_size, stdlib_modules
from tools.files import ROOT


def test_the_bundle_must_import_every_public_module_of_the_standard_library() -> None:
    names = stdlib_modules()
    assert len(names) == len(set(names))
    expected = {
        "smtplib",
        "imaplib",
        "shelve",
        "plistlib",
        "unittest",
        "unittest.mock",
        "pydoc",
        "email.mime.text",
    }
    assert expected <= set(names)
    # No top-level module is left out but private ones, those of other systems, and one that opens a browser.
    elsewhere = {name for name in sys.stdlib_module_names if not name.startswith("_")} - set(names)
    assert elsewhere <= {
        "antigravity",
        "msilib",
        "msvcrt",
        "nt",
        "winreg",
        "winsound",
        "nturl2path",
        "tkinter",
    }
    assert not [name for name in names for part in name.split(".") if part.startswith("_")]
    assert set(EXCLUDED).isdisjoint(sys.stdlib_module_names)


@pytest.mark.parametrize(("extra", "is_refused"), [(0, False), (1, True)])
def test_a_bundle_over_300_mb_is_refused(tmp_path: Path, extra: int, is_refused: bool) -> None:
    assert SIZE_BYTES_MAX == 300_000_000
    with (tmp_path / "large").open("wb") as file:
        file.truncate(SIZE_BYTES_MAX + extra)
    if is_refused:
        with pytest.raises(SystemExit, match="300 MB, limit 300 MB"):
            checked_size(tmp_path)
    else:
        assert checked_size(tmp_path) == SIZE_BYTES_MAX


def test_make_test_builds_and_tries_the_bundle() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", "")
    [line] = [line for line in makefile.splitlines() if "REQUIRE_NODE=1 $(SIDE_BY_SIDE)" in line]
    assert "sidecar-bundle" in line.split()
    assert "python -m tools.bundle" in makefile.split("\nsidecar-bundle:", 1)[1].split("\n\n", 1)[0]
