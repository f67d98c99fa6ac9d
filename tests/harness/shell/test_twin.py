"""The grader of each language, thousands of commands, one verdict on each."""

import json
import random
import shlex
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import cast

from tests.harness.shell.corpus import all_rows

from windlass_harness.shell import classify_shell_command

ROOT = Path(__file__).parents[3]
WEB_DIST = ROOT / "web/harness/dist/index.js"
NODE_JUDGE = Path(__file__).parent / "judge.mjs"
SEED = 2_026
MUTANTS = 3_000
CHANGES_MAX = 3
INSERTED = (*"'\"\\$`(){}[]<>|&;*?!~#=,:@%^+- \n\t/.0é中½²ıſ", "😀", "\u2028", "\x1c", "\ud800", "$'\\x1f'")

Verdict = tuple[str, str, tuple[tuple[str, str], ...]]
Change = Callable[[random.Random, str, str], str]


def python_verdict(command: str) -> Verdict:
    verdict = classify_shell_command(command)
    return verdict.severity, verdict.category, tuple((reason.code, reason.part) for reason in verdict.reasons)


def web_verdicts(commands: list[str]) -> list[Verdict]:
    """Ask the TypeScript grader, all commands in one process of node."""
    node = shutil.which("node")
    assert node, "node is not installed: the TypeScript grader cannot be asked"
    assert WEB_DIST.is_file(), f"{WEB_DIST.relative_to(ROOT)} is missing: run `make check`, which builds it"
    done = subprocess.run(
        [node, NODE_JUDGE], input=json.dumps(commands), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = cast(list[tuple[str, str, list[tuple[str, str]]]], json.loads(done.stdout))
    assert len(found) == len(commands)
    return [
        (severity, category, tuple((code, part) for code, part in reasons))
        for severity, category, reasons in found
    ]


def cut(chance: random.Random, command: str) -> int:
    return chance.randrange(len(command) + 1)


def insert(chance: random.Random, command: str, _: str) -> str:
    at = cut(chance, command)
    return command[:at] + chance.choice(INSERTED) + command[at:]


def splice(chance: random.Random, command: str, other: str) -> str:
    return command[: cut(chance, command)] + other[cut(chance, other) :]


CHANGES: tuple[Change, ...] = (
    insert,
    splice,
    lambda chance, command, _: command[: cut(chance, command)],
    lambda chance, command, _: command[cut(chance, command) :],
    lambda chance, command, _: " ".join(chance.sample(words := command.split(" "), len(words))),
    lambda _, command, other: f"{command}; {other}",
    lambda _, command, other: f"{command} | {other}",
    lambda _, command, other: f"{other} && {command} &",
    lambda _, command, __: f"echo $({command})",
    lambda _, command, __: f'x="`{command}`"; $x',
    lambda _, command, __: f"bash -c {shlex.quote(command)}",
    lambda _, command, __: f"printf {shlex.quote(command)} | sh",
    lambda _, command, __: f"cat <<EOF\n{command}\nEOF",
    lambda _, command, __: f"for i in {command}; do $i; done",
    lambda _, command, __: f'"{command}"',
)


@cache
def mutants() -> tuple[str, ...]:
    """Spliced, wrapped and damaged commands; always the same ones."""
    chance = random.Random(SEED)
    graded = [row.command for row in all_rows()]
    found: list[str] = []
    for _ in range(MUTANTS):
        command = chance.choice(graded)
        for _ in range(chance.randint(1, CHANGES_MAX)):
            command = chance.choice(CHANGES)(chance, command, chance.choice(graded))
        found.append(command)
    return tuple(found)


def disputed(commands: list[str]) -> list[str]:
    return [
        f"{command[:200]!r}: python {python}, web {web}"
        for command, web in zip(commands, web_verdicts(commands), strict=True)
        if (python := python_verdict(command)) != web
    ]


def test_both_languages_give_every_graded_command_the_same_reasons() -> None:
    assert disputed([row.command for row in all_rows()]) == []


def test_both_languages_give_damaged_and_wrapped_commands_the_same_reasons() -> None:
    assert disputed(list(mutants())) == []


def test_the_damaged_commands_are_of_every_grade() -> None:
    grades = [classify_shell_command(command).severity for command in mutants()]
    assert all(grades.count(grade) > MUTANTS * 0.03 for grade in ("safe", "caution", "dangerous"))
