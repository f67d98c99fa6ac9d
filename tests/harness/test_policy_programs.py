"""Programs that run anything: the list knows what the shell grader knows."""

import re
from pathlib import Path

import pytest

from windlass_harness.policy_programs import FAMILIES, RUNNERS, runs_anything
from windlass_harness.shell.tables_runners import INTERPRETERS, SHELLS, WRAPPERS

TYPESCRIPT = Path(__file__).parents[2] / "web/harness/src/policy-programs.ts"


@pytest.mark.parametrize("program", sorted({*SHELLS, *WRAPPERS, *INTERPRETERS}))
def test_what_the_shell_grader_unwraps_can_never_always_be_allowed(program: str) -> None:
    assert runs_anything((program, "x"))


@pytest.mark.parametrize(
    "word", ["python3.11", "/usr/bin/Python", "C:\\Python\\python.exe", "./bash", "ksh93"]
)
def test_folder_version_and_case_do_not_hide_a_program(word: str) -> None:
    assert runs_anything((word,))


def test_typescript_has_the_same_lists() -> None:
    source = TYPESCRIPT.read_text("utf-8")
    runners = re.search(r"new Set\(\s*`(.*?)`", source, re.DOTALL)
    assert runners is not None
    assert set(runners[1].split()) == RUNNERS
    assert dict(re.findall(r'\["(.*)", "(.*)"\],', source)) == FAMILIES
