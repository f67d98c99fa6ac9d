"""What a change reaches, for `make quick`."""

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tools import quick
from tools.quick import Facts, facts_of, files_to_test, files_to_type

RULES = "packages/harness/src/windlass_harness/rules.py"
ENGINE = "packages/runtime/src/windlass/engine.py"
RULES_TEST = "tests/harness/test_rules.py"
ENGINE_TEST = "tests/runtime/test_engine.py"
PAGE_TEST = "tests/runtime/test_page.py"
FILES: Mapping[str, str] = {
    RULES: "def limit(x: int) -> int:\n    return x\n\n\ndef free(x):\n    return x\n",
    ENGINE: "from windlass_harness.rules import limit\n\n\ndef run() -> int:\n    return limit(1)\n",
    "packages/runtime/src/windlass/__init__.py": 'HOMES = {"windlass.engine": ("run",)}\n',
    "tests/harness/rig.py": "import windlass_harness.rules\n",
    RULES_TEST: "from tests.harness import rig\n",
    ENGINE_TEST: "from windlass import run\n",
    PAGE_TEST: 'PAGE = "docs/tools.md"\n',
    "tests/runtime/conftest.py": "",
    "docs/tools.md": "# Tools\n",
    "conformance/cases.json": "[]",
}
MODULES = (RULES_TEST, ENGINE_TEST, PAGE_TEST)


def snapshot(files: Mapping[str, str]) -> dict[str, Facts]:
    return {path: facts_of(path, text.encode()) for path, text in files.items()}


BEFORE = snapshot(FILES)


def after(path: str, text: str | None) -> dict[str, Facts]:
    files = {**FILES, path: text or ""}
    return snapshot(files if text is not None else {key: files[key] for key in files.keys() - {path}})


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (RULES, "", {RULES_TEST, ENGINE_TEST}),
        (RULES, None, {RULES_TEST, ENGINE_TEST}),
        (ENGINE, "", {ENGINE_TEST}),
        (ENGINE_TEST, "", {ENGINE_TEST}),
        ("tests/harness/rig.py", "", {RULES_TEST}),
        ("tests/runtime/conftest.py", "x = 1\n", {ENGINE_TEST, PAGE_TEST}),
        ("tests/runtime/test_new.py", "", set[str]()),
        ("docs/tools.md", "# More\n", {PAGE_TEST}),
        ("docs/tools.md", None, {PAGE_TEST}),
        ("conformance/cases.json", "[1]", None),
        ("conformance/cases.json", None, None),
    ],
)
def test_a_test_module_runs_if_a_change_reaches_it(
    path: str, text: str | None, expected: set[str] | None
) -> None:
    assert files_to_test(BEFORE, after(path, text), MODULES) == expected


def test_nothing_runs_without_a_change_and_everything_without_a_success() -> None:
    assert files_to_test(BEFORE, BEFORE, MODULES) == set()
    assert files_to_type(BEFORE, BEFORE) == set()
    assert files_to_test({}, BEFORE, MODULES) is None
    assert files_to_type({}, BEFORE) is None


@pytest.mark.parametrize(
    ("old", "new", "is_seen"),
    [
        ("    return x\n\n\ndef free", "    return x + 1\n\n\ndef free", False),
        ("limit(x: int)", "limit(x: str)", True),
        ("    return x\n\n\ndef free", "    global y\n    y = 1\n    return x\n\n\ndef free", True),
        ("    return x\n\n\ndef free", "    x.y = 1\n    return x\n\n\ndef free", True),
        ("def free(x):\n    return x", "def free(x):\n    return 1", True),
        ("def free", "def free(", True),
    ],
    ids=["body", "parameter", "global", "attribute", "inferred", "error"],
)
def test_pyright_looks_at_the_users_of_a_file_where_they_can_see_a_change(
    old: str, new: str, is_seen: bool
) -> None:
    users = {path for path in FILES if path.endswith(".py")} - {RULES, PAGE_TEST, "tests/runtime/conftest.py"}
    text = FILES[RULES].replace(old, new)
    assert text != FILES[RULES]
    assert files_to_type(BEFORE, after(RULES, text)) == {RULES} | (users if is_seen else set[str]())


def test_pyright_looks_at_the_users_of_a_file_that_is_gone_and_at_all_after_a_change_of_its_settings() -> (
    None
):
    assert files_to_type(BEFORE, after(ENGINE, None)) == {
        "packages/runtime/src/windlass/__init__.py",
        ENGINE_TEST,
    }
    assert files_to_type(BEFORE, after("docs/tools.md", "# More\n")) == set()
    assert files_to_type(BEFORE, after("pyproject.toml", "[tool]\n")) is None


def test_successes_are_those_of_the_interpreter_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as context:
        context.setattr(sys, "prefix", str(tmp_path))
        store = importlib.reload(quick).STORE
    importlib.reload(quick)
    assert store == tmp_path / ".quick"
