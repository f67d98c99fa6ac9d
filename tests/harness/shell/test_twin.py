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

import pytest
from tests.harness.shell.corpus import all_rows

from windlass_harness.shell import ShellConfig, classify_shell_command
from windlass_harness.shell.families import FAMILIES
from windlass_harness.shell.limits import (
    CALLS_DEEP_MAX,
    COMMAND_CHARS_MAX,
    FAMILY_WORDS_MAX,
    NESTING_MAX,
    PATTERN_CHARS_MAX,
)
from windlass_harness.shell.model import Platform
from windlass_harness.shell.options import describe
from windlass_harness.shell.tables_git import GIT_READERS
from windlass_harness.shell.tables_programs import WRITERS
from windlass_harness.shell.tables_readers import READERS
from windlass_harness.shell.tables_runners import INTERPRETERS, WRAPPERS
from windlass_protocol import CommandSafetyPattern

pytestmark = [pytest.mark.node, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
WEB_DIST = ROOT / "web/harness/dist/index.js"
NODE_JUDGE = Path(__file__).parent / "judge.mjs"
DEFAULT = ShellConfig()
SEED = 2_026
MUTANTS = 3_000
PATTERNS_AT_ONCE = 16
CHANGES_MAX = 3
INSERTED = (*"'\"\\$`(){}[]<>|&;*?!~#=,:@%^+- \n\t/.0é中½²ıſ", "😀", "\u2028", "\x1c", "\ud800", "$'\\x1f'")

HOSTS = """
    localhost 127.0.0.1 0x7f.1 0177.0.0.1 2130706433 8.8.8.8 08.1.1.1 256.1.1.1 172.31.0.1
    172.32.0.1 [::1] [::] [::ffff:127.0.0.1] [::ffff:8.8.8.8] [64:ff9b::7f00:1]
    [64:ff9b::808:808] [2002:7f00:1::] [2002:808:808::] [2001:4860:4860::8888] [2001:db8::1]
    [2001::1] [fe80::1%eth0] [fc00::1] [ff02::1] [1::2::3] [12345::] [::1.2.3.4]
    [1:2:3:4:5:6:7:8] [1:2:3:4:5:6:7:8:9] [::1.2.3] example.com EXAMPLE.com. a.internal
    １２７.0.0.1 u@10.0.0.1
"""
PATTERNS = (
    *r"""
    \brm\b (?i)GIT ^ls \.txt$ \s\S+ [^/]+/ (?=.*x) (?<=g)i (?<!a)b (?<n>a) (?P<n>a) a{2,3} a{,3} {
    []a] [^]a] [\d-] [a-\d] \Z \A \p{L} \u00e9 \x67 \- \_ * ( ) x*+ a?? (a+)+ (?:a|b)* (g)\1 \B \0
    $* (?=a)* [é-😀] 😀+ \W [^\W] a.*b.*c.*d (?s). (?#c)a (?:g){2} .*.* [[:alpha:]] [a--b] [a&&b] [a[] [\\[:]
    """.split(),
    "x" * (PATTERN_CHARS_MAX + 1),
)
"""Patterns that a host may write, right and wrong ones."""

Verdict = tuple[str, str, tuple[tuple[str, str], ...], tuple[tuple[str, ...], ...]]
Change = Callable[[random.Random, str, str], str]


def python_verdict(command: str, config: ShellConfig) -> Verdict:
    verdict = classify_shell_command(command, config)
    reasons = tuple((reason.code, reason.part) for reason in verdict.reasons)
    return verdict.severity, verdict.category, reasons, verdict.commands


def web_verdicts(commands: list[str], config: ShellConfig) -> list[Verdict]:
    """Ask the TypeScript grader, all commands in one process of node."""
    node = shutil.which("node")
    assert node, "node is not installed: the TypeScript grader cannot be asked"
    assert WEB_DIST.is_file(), f"{WEB_DIST.relative_to(ROOT)} is missing: run `make check`, which builds it"
    patterns = [pattern.model_dump(mode="json", by_alias=True) for pattern in config.patterns]
    host = json.dumps({"patterns": patterns, "platform": config.platform})
    done = subprocess.run(
        [node, NODE_JUDGE, host], input=json.dumps(commands), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = cast(list[tuple[str, str, list[tuple[str, str]], list[list[str]]]], json.loads(done.stdout))
    assert len(found) == len(commands)
    return [
        (severity, category, tuple((code, part) for code, part in reasons), tuple(map(tuple, words)))
        for severity, category, reasons, words in found
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
    graded = [row.command for row in all_rows()] + described()[::4]
    found: list[str] = []
    for _ in range(MUTANTS):
        command = chance.choice(graded)
        for _ in range(chance.randint(1, CHANGES_MAX)):
            command = chance.choice(CHANGES)(chance, command, chance.choice(graded))
        found.append(command)
    return tuple(found)


def described() -> list[str]:
    """Every option that a table describes, and every rule of a family."""
    tables = {**READERS, **WRITERS, **INTERPRETERS, **WRAPPERS}
    tables |= {f"git {name}": description for name, description in GIT_READERS.items()}
    options = [
        f"{program} {option} .env x" for program, text in tables.items() for option in describe(text).options
    ]
    rules = [
        f"{program} {rule.strip().replace('*', 'x')}"
        for program, categories in FAMILIES.items()
        for text in categories.values()
        for rule in text.split(";")
    ]
    return options + rules


def at_limits() -> list[str]:
    """Commands just inside and just outside of a limit."""
    sizes = (NESTING_MAX, CALLS_DEEP_MAX, FAMILY_WORDS_MAX, 1_000, COMMAND_CHARS_MAX - 1)
    pieces = (
        "a",
        "😀",
        "ls;",
        "$(",
        "'a' ",
        "rm -rf x;",
        "env ",
        "x+=$x$x;",
        "{a,b}",
        "git -x ",
        "echo $(",
        "(",
    )
    return [piece * size + end for piece in pieces for size in sizes for end in ("", "a", "aa")]


def disputed(commands: list[str], config: ShellConfig = DEFAULT) -> list[str]:
    return [
        f"{command[:200]!r}: python {python}, web {web}"
        for command, web in zip(commands, web_verdicts(commands, config), strict=True)
        if (python := python_verdict(command, config)) != web
    ]


def test_both_languages_give_every_graded_command_the_same_reasons() -> None:
    assert disputed([row.command for row in all_rows()]) == []


def test_both_languages_give_damaged_and_wrapped_commands_the_same_reasons() -> None:
    assert disputed(list(mutants())) == []


def test_both_languages_read_every_described_option_alike() -> None:
    assert disputed(described()) == []


def test_both_languages_see_the_same_addresses() -> None:
    assert (
        disputed(
            [f"curl {scheme}{host}/x" for host in HOSTS.split() for scheme in ("", "http://", "file://")]
        )
        == []
    )


def test_both_languages_stop_at_the_same_limits() -> None:
    assert disputed(at_limits()) == []


@pytest.mark.parametrize("platform", ["unix", "windows"])
@pytest.mark.parametrize("start", range(0, len(PATTERNS), PATTERNS_AT_ONCE))
def test_both_languages_match_the_patterns_of_a_host_alike(platform: Platform, start: int) -> None:
    patterns = tuple(
        CommandSafetyPattern(
            id=f"p{number}",
            label="label",
            description="description",
            category=f"host/{number}",
            severity="critical" if number % 2 else "warning",
            pattern=text,
            platform="all",
        )
        for number, text in enumerate(PATTERNS[start : start + PATTERNS_AT_ONCE])
    )
    commands = ["ls", "git log a/b.txt", "cat 'é aab😀😀' x-gg", "rm -rf x", "echo a\nls b1"]
    assert disputed(commands, ShellConfig(patterns, platform)) == []


def test_the_damaged_commands_are_of_every_grade() -> None:
    grades = [classify_shell_command(command).severity for command in mutants()]
    assert all(grades.count(grade) > MUTANTS * 0.03 for grade in ("safe", "caution", "dangerous"))
