"""Programs that run other programs: the policy list agrees with that of the shell grader."""

import pytest

from windlass_harness.policy import runs_anything
from windlass_harness.shell.programs import CAUTIONS, GIT, PROGRAMS

PROJECT_TOOLS = frozenset(
    "cargo cmake composer docker go gradle just make mvn podman pytest tox vitest".split()
)


@pytest.mark.parametrize("program", sorted({*CAUTIONS["unknown/exec"].split()} - PROJECT_TOOLS))
def test_programs_that_run_code_count_as_running_anything(program: str) -> None:
    assert runs_anything((program, "x"))


@pytest.mark.parametrize("program", sorted({*PROGRAMS} - {"awk", "sed"}))
def test_programs_of_the_safe_language_do_not_count_as_running_anything(program: str) -> None:
    assert not runs_anything((program,))


@pytest.mark.parametrize("name", sorted(name for name in GIT if not name.startswith("-")))
def test_reads_of_git_do_not_count_as_running_anything(name: str) -> None:
    # A setting can name a program: of `git config`, the language has the forms that read alone.
    assert runs_anything(("git", *name.split())) is (name == "config")


@pytest.mark.parametrize(
    "word", ["python3.11", "/usr/bin/Python", "C:\\Python\\python.exe", "./bash", "ksh93"]
)
def test_folder_version_and_case_do_not_hide_a_program(word: str) -> None:
    assert runs_anything((word,))


@pytest.mark.parametrize(
    "command",
    [
        "FOO=1 bash",
        "screen",
        "perf stat",
        "rbash",
        "python3.11-dbg",
        "pyenv exec",
        "npm run",
        "docker container run",
        "docker compose run",
        "cargo +nightly run",
        "ip netns",
        "git -c",
        "make",
    ],
)
def test_a_way_to_run_anything_is_seen_behind_other_words(command: str) -> None:
    assert runs_anything(tuple(command.split()))


@pytest.mark.parametrize("command", ["git commit", "npm view", "docker ps", "cargo fmt", "ls", "grep"])
def test_a_program_that_does_one_thing_may_always_be_allowed(command: str) -> None:
    assert not runs_anything(tuple(command.split()))
