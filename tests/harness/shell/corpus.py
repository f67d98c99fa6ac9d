"""The graded commands of the tests, and the ways to wrap one command in another."""

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from windlass_harness.shell import Severity

_CASES = Path(__file__).parents[3] / "conformance/cases/safety"
_SEVERITIES: dict[str, Severity] = {"safe": "safe", "caution": "caution", "dangerous": "dangerous"}


@dataclass(frozen=True, slots=True)
class Row:
    """One command and the grade that people gave it."""

    command: str
    expected: Severity
    reason: str


def rows(name: str) -> list[Row]:
    """Read a file of graded commands; a field that begins with a quote is JSON."""
    lines = (_CASES / name).read_text(encoding="utf-8").splitlines()[1:]
    found: list[Row] = []
    for line in lines:
        command, expected, reason = line.split("\t")
        text = json.loads(command) if command.startswith('"') else command
        found.append(Row(text, _SEVERITIES[expected], reason))
    return found


def all_rows() -> list[Row]:
    """Every graded command."""
    return rows("corpus.tsv") + rows("more.tsv")


def _in_backticks(command: str) -> str:
    escaped = command.replace("\\", "\\\\").replace("`", "\\`").replace("$", "\\$")
    return f"echo `{escaped}\n`"


_quote = shlex.quote

WRAPPINGS: dict[str, Callable[[str], str]] = {
    "after a semicolon": lambda c: f"ls; {c}",
    "after and": lambda c: f"true && {c}",
    "after or": lambda c: f"false || {c}",
    "after a newline": lambda c: f"ls\n{c}",
    "in the background": lambda c: f"{c} &",
    "negated": lambda c: f"! {c}",
    "in a substitution": lambda c: f"echo $({c}\n)",
    "in a quoted substitution": lambda c: f'echo "$({c}\n)"',
    "in backticks": _in_backticks,
    "in a default value": lambda c: f"echo ${{x:-$({c}\n)}}",
    "in a process substitution": lambda c: f"cat <({c}\n)",
    "in an array": lambda c: f"a=($({c}\n))",
    "in a subshell": lambda c: f"({c}\n)",
    "in a group": lambda c: f"{{ {c}\n}}",
    "in a function": lambda c: f"f() {{ {c}\n}}; f",
    "in a then": lambda c: f"if true; then {c}\nfi",
    "in a condition": lambda c: f"if {c}\nthen ls; fi",
    "in an elif": lambda c: f"if false; then ls; elif true; then {c}\nfi",
    "in a while": lambda c: f"while ls; do {c}\ndone",
    "in a for": lambda c: f"for i in 1; do {c}\ndone",
    "in a case": lambda c: f"case x in x) {c}\n;; esac",
    "by bash -c": lambda c: f"bash -c {_quote(c)}",
    "by nested shells": lambda c: f"sh -c {_quote(f'bash -c {_quote(c)}')}",
    "by eval": lambda c: f"eval {_quote(c)}",
    "by a trap": lambda c: f"trap {_quote(c)} EXIT",
    "by env": lambda c: f"env bash -c {_quote(c)}",
    "by timeout": lambda c: f"timeout 5 bash -c {_quote(c)}",
    "by nice": lambda c: f"nice -n 5 bash -c {_quote(c)}",
    "by find": lambda c: f"find . -exec bash -c {_quote(c)} \\;",
    "by xargs": lambda c: f"xargs -I@@ bash -c {_quote(c)}",
    "by ssh": lambda c: f"ssh host {_quote(c)}",
    "from a pipe": lambda c: f"echo {_quote(c)} | sh",
    "from a here-string": lambda c: f"bash <<< {_quote(c)}",
    "from a here-document": lambda c: f"bash <<'EOF_OF_TEST'\n{c}\nEOF_OF_TEST",
}
"""Ways to put a command inside another program that still runs it."""
