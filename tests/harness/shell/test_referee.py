"""Two parsers and shfmt: commands that they parse differently are never safe."""

import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from windlass_harness.shell import classify_shell_command
from windlass_harness.shell.parser import parse_program
from windlass_harness.shell.referee import agrees
from windlass_harness.shell.tree import Budget, ShellSyntaxError, TooMuchWork

SHFMT = Path(sys.executable).parent / "shfmt"
PROGRAMS = 150
UNITS = 20_000

ATOMS = [
    "ls", "cat a", "echo 'a;b'", 'echo "x $y"', "wc -l *.py", "x=1", "x=1 y=2 ls", "echo ${x:-$(pwd)}",
    "echo $(date)", "echo `id`", "cat <<E\nhi $(pwd)\nE", "cat <<'E'\n$(rm x)\nE",
    "ls >/dev/null 2>&1", "a=(1 2)", "[ -f x ]", "[[ -f x && -n $y ]]", "((i++))", "echo $((1+(2*3)))",
    "head -1 <<< hi", "diff <(ls) <(pwd)", "ls # c", "export A=1", "declare -i n=1", "unset x", "\\ls",
    'l"s"', "echo a\\ b", "echo $'a\\'b'", "time ls", "echo \\\n hi", "echo ${x%%.*}", "echo ${x/a/b}",
    'echo "${x:-"a b"}"', "case x in a|b) ls;; (c) pwd;; *) id; esac",
    "for ((i=0;i<3;i++)); do ls; done", "function g { ls; }", "g() { ls; }", "g() ( ls )",
    "trap 'ls' EXIT", "ls &", "{ ls; } 2>/dev/null", 'echo "$(echo "$(ls)")"', "echo >(cat)",
    "ls |& cat", "if", "done", "echo $( (ls) )", "((ls); pwd)", "echo 'it'\\''s'", "coproc ls", "rm x",
    "!", "until false; do ls; done", "select i in a; do ls; done",
]  # fmt: skip
JOINERS = [";", "\n", " && ", " || ", " | ", " & ", " |\n", "&&\n"]
FRAMES = [
    "({0})", "{{ {0}; }}", "{{ {0}\n}}", "if {0}; then {1}; fi", "if {0}\nthen {1}\nelse {0}\nfi",
    "! {0}", "time {0}", "for i in a b; do {0}; done", "while {0}; do {1}; done", "f() {{ {0}\n}}",
    "echo $({0})", 'echo "$({0})"', "case x in x) {0};; esac", "{0} &", "cat <({0})", "x=$({0})",
    "ls\n\\{0}", "{0} > /dev/null", '[ -n "$({0})" ]',
]  # fmt: skip


def program(source: random.Random, depth: int) -> str:
    choice = source.random()
    if depth == 0 or choice < 0.4:
        return source.choice(ATOMS)
    first, second = program(source, depth - 1), program(source, depth - 1)
    return (
        first + source.choice(JOINERS) + second
        if choice < 0.6
        else source.choice(FRAMES).format(first, second)
    )


def words_of_shfmt(node: object, text: bytes) -> Iterator[str]:
    """Every command word that shfmt sees."""
    if isinstance(node, list):
        for item in cast(list[object], node):
            yield from words_of_shfmt(item, text)
    elif isinstance(node, dict):
        found = cast(dict[str, object], node)
        if found.get("Type") == "CallExpr" and found.get("Args"):
            first = cast(list[dict[str, dict[str, int]]], found["Args"])[0]
            yield text[first["Pos"]["Offset"] : first["End"]["Offset"]].decode().replace("\\\n", "")
        for value in found.values():
            yield from words_of_shfmt(value, text)


def seen_by_shfmt(text: str) -> list[str] | None:
    done = subprocess.run(
        [SHFMT, "--to-json", "-ln", "bash"], input=text.encode(), capture_output=True, check=False
    )
    return list(words_of_shfmt(json.loads(done.stdout), text.encode())) if done.returncode == 0 else None


@pytest.mark.skipif(not SHFMT.exists(), reason="shfmt is not installed beside this Python")
def test_every_command_that_shfmt_sees_is_seen_or_the_program_is_not_safe() -> None:
    source = random.Random(20240601)
    safe = compared = 0
    for _ in range(PROGRAMS):
        text = program(source, source.choice([1, 2, 3]))
        verdict = classify_shell_command(text)
        words = seen_by_shfmt(text)
        safe += verdict.severity == "safe"
        compared += words is not None
        if verdict.severity == "safe" and words is not None:
            assert "rm" not in words, text
            assert all(word[0] not in "\\'\"$" for word in words), text
    assert min(safe, compared) > PROGRAMS // 10


@pytest.mark.skipif(not SHFMT.exists(), reason="shfmt is not installed beside this Python")
@pytest.mark.parametrize("hidden", ["rm x", "\\rm x", "r''m x"])
def test_a_command_that_shfmt_sees_in_a_generated_program_is_found(hidden: str) -> None:
    source = random.Random(7)
    checked = 0
    for _ in range(PROGRAMS // 3):
        text = re.sub(r"\bls\b", lambda _: hidden, program(source, 2))
        words = seen_by_shfmt(text)
        if words is not None and hidden.split()[0] in words:
            checked += 1
            assert classify_shell_command(text).severity == "dangerous", text
    assert checked


@pytest.mark.parametrize(
    "text", ["ls", "ls | cat", "x=$(ls)", "time -p ls", "f() { ls; }", "[ a ]", "export A=1", "echo é", "é"]
)
def test_the_second_parser_agrees_on_plain_programs(text: str) -> None:
    assert agrees(text, parse_program(text, Budget(UNITS)), budget=Budget(UNITS))


@pytest.mark.parametrize("text", ["! for i in a; do ls; done", "ls\n\\rm x", "time { ls; }", "coproc ls"])
def test_the_second_parser_is_not_believed_where_it_misreads(text: str) -> None:
    assert not agrees(text, parse_program(text, Budget(UNITS)), budget=Budget(UNITS))


def test_a_tree_with_too_many_nodes_is_too_much_work() -> None:
    with pytest.raises(TooMuchWork):
        agrees("ls a b", parse_program("ls a b", Budget(UNITS)), budget=Budget(2))


def test_syntax_errors_name_the_expected_or_unexpected_word() -> None:
    with pytest.raises(ShellSyntaxError, match="expected done"):
        parse_program("for x in a; do ls", Budget(UNITS))
    with pytest.raises(ShellSyntaxError, match="unexpected then"):
        parse_program("ls | then", Budget(UNITS))


def test_characters_that_crash_the_scanner_never_reach_it() -> None:
    source = random.Random(3)
    for _ in range(300):
        text = "".join(chr(source.randrange(0x80, 0x110000)) for _ in range(20))
        assert classify_shell_command(f"echo <<E {text}\nE").severity != "dangerous"
