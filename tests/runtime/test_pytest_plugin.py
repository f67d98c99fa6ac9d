"""The plugins of `windlass.testing` and `windlass.evals` as the guides show them, in pytests of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.doc_blocks import blocks
from tools.files import ROOT

PAGE = blocks((ROOT / "docs" / "testing.md").read_text(encoding="utf-8"))
[CONFTEST] = [block.code for block in PAGE if block.code.startswith("pytest_plugins")]
EVALS = blocks((ROOT / "docs" / "evaluations.md").read_text(encoding="utf-8"))
[EVAL_CONFTEST] = [block.code for block in EVALS if block.code.startswith("pytest_plugins")]
[EVALUATED] = [block.code for block in EVALS if "@pytest.mark.windlass_eval" in block.code]
CASES = """
cases: [{name: a, inputs: x, expected_output: x}, {name: b, inputs: y, expected_output: z}]
evaluators: [EqualsExpected]
"""
FAILING = (
    EVALUATED.replace("pass_rate>=0.5", "pass_rate>=0.9")
    + """

@pytest.mark.windlass_eval("cases.yaml", agent=echo, gate=["pass_rate>=0.5"])
def test_with_a_misspelt_option() -> None: ...


def test_without_a_marker(windlass_eval) -> None: ...
"""
)
[TESTS] = [block.code for block in PAGE if "def test_a_request_expires_without_waiting" in block.code]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (tmp_path / "test_desk.py").write_text(TESTS, encoding="utf-8")
    return tmp_path


@pytest.mark.slow
def test_the_fixtures_serve_plain_tests_without_other_plugins(project: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=300, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_a_marked_test_runs_an_experiment_and_fails_at_its_gates(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(EVAL_CONFTEST, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n", encoding="utf-8")
    (tmp_path / "cases.yaml").write_text(CASES, encoding="utf-8")
    (tmp_path / "test_good.py").write_text(EVALUATED, encoding="utf-8")
    (tmp_path / "test_bad.py").write_text(FAILING, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert "3 passed, 3 errors" in done.stdout, done.stdout + done.stderr
    assert "pass_rate>=0.9 is not met: 0.5" in done.stdout
    assert "@pytest.mark.windlass_eval: Experiment has no field" in done.stdout
    assert "b: exact: expected 'z', found 'y'" in done.stdout
    assert "write @pytest.mark.windlass_eval(dataset, agent=agent) before the test" in done.stdout
    assert (tmp_path / "evals.db").exists()
