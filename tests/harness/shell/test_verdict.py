"""Verdicts: the words of literal commands, and documented categories."""

import re
from pathlib import Path

import pytest

from windlass_harness.policy import CallFacts, PolicySet, Rule, decide
from windlass_harness.shell import ShellConfig, classify_shell_command
from windlass_harness.shell.classify import MESSAGES, severity_of
from windlass_protocol import ToolMode

README = Path(__file__).parents[3] / "packages/harness/README.md"
POLICY = PolicySet((Rule("own", "allow", commands=("mkdir", "git status")),), version="v1")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("git status", (("git", "status"),)),
        ("git commit -m 'a b' \"c\"", (("git", "commit", "-m", "a b", "c"),)),
        (
            "npm test && git status; ls | head -3",
            (("npm", "test"), ("git", "status"), ("ls",), ("head", "-3")),
        ),
        ("npm test 2>&1 | tail -5", (("npm", "test"), ("tail", "-5"))),
        ("npm test >/dev/null 2>/dev/null </dev/null", (("npm", "test"),)),
        ("rm -rf x", (("rm", "-rf", "x"),)),
        ("echo '*' \\$x", (("echo", "*", "$x"),)),
        ("\n git status\n\nls &&\n pwd\n", (("git", "status"), ("ls",), ("pwd",))),
        ("git commit -m 'é' 2>&1", (("git", "commit", "-m", "é"),)),
    ],
)
def test_a_verdict_has_the_words_of_literal_commands(
    command: str, words: tuple[tuple[str, ...], ...]
) -> None:
    assert classify_shell_command(command).commands == words


@pytest.mark.parametrize(
    "command",
    """
    npm test > out
    npm test >> out
    npm test 2> err
    npm test &> out
    npm test >&out
    npm test < in
    npm test <<< x
    npm test {fd}>/dev/null
    npm test $(id)
    npm test `id`
    npm test $x
    npm test <(id)
    npm test *.js
    npm test ~/x
    npm test {a,b}
    npm test a[1]
    PATH=. npm test
    x=1
    >/dev/null
    npm test &
    (npm test)
    { npm test; }
    if npm test; then ls; fi
    f() { npm test; }
    coproc npm test
    [[ a == a ]]
    ! npm test
    npm test # x
    npm test 2>/dev/null x
    npm test (
    npm 'test
    npm\u202e test
    """.strip().split("\n"),
)
def test_a_verdict_on_anything_but_literal_commands_has_no_words(command: str) -> None:
    assert classify_shell_command(command.strip()).commands == ()


def test_a_command_that_cannot_be_read_for_sure_has_no_words() -> None:
    assert classify_shell_command("npm 'test'", ShellConfig(platform="windows")).commands == ()
    assert classify_shell_command("ls; " * 3_000).commands == ()
    assert classify_shell_command("").commands == ()


def answer(command: str) -> str:
    verdict = classify_shell_command(command)
    call = CallFacts("shell", ToolMode.EXTERNAL, shell=verdict.severity, commands=verdict.commands)
    return decide(POLICY, call, is_attended=True).decision


def test_a_grant_for_first_words_covers_commands_that_start_so_and_no_others() -> None:
    assert answer("mkdir a") == "allow"
    assert answer("mkdir a 2>&1 && git status -sb") == "allow"
    assert answer("mkdir a && npm publish") != "allow"
    assert answer("mkdir a > .git/hooks/pre-commit") != "allow"
    assert answer("mkdir a $(rm -rf x)") != "allow"
    assert answer("rmdir a") != "allow"
    assert answer("PATH=. mkdir a") != "allow"


def test_the_documented_categories_are_those_of_the_code() -> None:
    rows = re.findall(
        r"^\| `([^`]+)` \| (safe|caution|dangerous) \| (.+) \|$", README.read_text(), re.MULTILINE
    )
    said = {code: (grade, meaning) for code, grade, meaning in rows}
    assert said == {
        code: ("safe" if code == "read" else severity_of(code), message) for code, message in MESSAGES.items()
    }


@pytest.mark.parametrize(
    ("command", "category"),
    [
        ("ls -la src", "read"),
        ("mkdir x", "safe_write"),
        ("curl https://example.com", "unknown/network"),
        ("pip install x", "unknown/install"),
        ("make test", "unknown/exec"),
        ("less f", "unknown/pager"),
        ("vim f", "unknown/editor"),
        ("frobnicate", "unknown/program"),
        ("git commit", "unknown/git"),
        ("cat --frobnicate f", "unknown/option"),
        ("cat /etc/hosts", "unknown/outside"),
        ("cat *.json", "unknown/pattern"),
        ("ls > out", "unknown/redirect"),
        ("ls $x", "unknown/parse"),
        ("ls\npwd", "read"),
        ("ls\tsrc", "unknown/letters"),
        ("cat .env", "read/secret"),
        ("rm x", "destructive"),
        ("sudo ls", "destructive/priv"),
    ],
)
def test_the_category_says_why_a_command_is_not_safe(command: str, category: str) -> None:
    verdict = classify_shell_command(command)
    assert verdict.category == category
    assert all(reason.message == MESSAGES[reason.code] for reason in verdict.reasons)
