"""The fixtures of `windlass.testing.pytest`, as docs/testing.md shows them, in a pytest of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.doc_blocks import blocks
from tools.files import ROOT

PAGE = blocks((ROOT / "docs" / "testing.md").read_text(encoding="utf-8"))
[CONFTEST] = [block.code for block in PAGE if block.code.startswith("pytest_plugins")]
[TESTS] = [block.code for block in PAGE if "def test_a_request_expires_without_waiting" in block.code]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (tmp_path / "test_desk.py").write_text(TESTS, encoding="utf-8")
    return tmp_path


def test_the_fixtures_serve_plain_tests_without_other_plugins(project: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=300, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
