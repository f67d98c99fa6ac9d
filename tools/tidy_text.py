"""The budgets of the house style about words: comments, addresses, TypeScript."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools.tidy import Finding, comments, is_generated

EXEMPTION_LINES_MIN = 1_000
"""Lines of Python for each comment that silences the type checker."""

REASON_WORDS_MIN = 2

# The words are put together here so that this file does not hold what it looks for.
_FORBIDDEN = {
    "path-of-one-machine": re.compile(r"(?<![\w.~-])/wor" + r"k/|\.\./sha" + r"red\b|/ro" + r"ot/\.pyenv"),
    "registry-address": re.compile(
        r"https?://[^\s\"'<>)]+/simp" + r"le\b"
        r"|registry\.(?:npm" + r"js|yarn" + r"pkg)\.\w+"
        r"|files\.python" + r"hosted\.org"
        r"|\"resolved\": \"ht" + r"tp",
        re.IGNORECASE,
    ),
}
_FORBIDDEN_FILES = {"uv.lock", "poetry.lock", "Pipfile.lock", "yarn.lock", "pnpm-lock.yaml"}

_UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b(?!\(#\d+\))")
_EXEMPTION = re.compile(
    r"#\s*(?P<kind>type:\s*ignore|pyright:\s*\w+(?:=\w+)?|noqa|pragma:\s*no\s+\w+)"
    r"(?P<rules>\[[^\]]+\]|:\s*[A-Z]+\d+(?:\s*,\s*[A-Z]+\d+)*)?(?P<reason>.*)"
)
_TYPE_KINDS = ("type", "pyright")
_WORD = re.compile(r"[A-Za-z]{2,}")
_LINE_COMMENT = {".ts": "//", ".tsx": "//", ".mts": "//", ".js": "//", ".toml": "#", ".sh": "#", "": "#"}

_SCRIPT_COMMENT_OR_TEXT = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`", re.DOTALL
)
_SCRIPT_ANY = re.compile(r"(?:[:<|&,(=]|\bas)\s*any\b(?!\s*\()")
_SCRIPT_EXEMPTION = re.compile(r"@ts-(?:ignore|nocheck|expect-error)|eslint-disable")
_SCRIPT_REASON = re.compile(r"(?:@ts-expect-error|eslint-disable\S*\s+\S+)\s+--\s+\S+\s+\S+")


def check_words(path: Path, text: str) -> Iterator[Finding]:
    """Words that no file of the repository may hold, and files that may not be there."""
    if path.name in _FORBIDDEN_FILES:
        yield Finding("foreign-lock-file", path, 1, 1, 0)
    # A corpus of hostile commands holds hostile addresses.
    for rule, pattern in _FORBIDDEN.items() if path.suffix != ".tsv" else ():
        yield from _matches(rule, path, pattern, _numbered(text))


def check_comments(path: Path, text: str) -> Iterator[Finding]:
    """Work left undone without an issue; in Python, silenced checks without a reason."""
    if path.suffix == ".py":
        found = comments(text)
        for line, comment in found:
            exemption = _EXEMPTION.search(comment)
            if exemption is not None and not _is_explained(exemption):
                yield Finding("exemption-without-rule-and-reason", path, line, 1, 0)
    else:
        mark = _LINE_COMMENT.get(path.suffix)
        found = [] if mark is None else [(n, mark + line.partition(mark)[2]) for n, line in _numbered(text)]
    yield from _matches("unfinished-without-issue", path, _UNFINISHED, found)


def type_exemptions(text: str) -> list[int]:
    """The lines of a Python file whose comment silences the type checker."""
    return [
        line
        for line, comment in comments(text)
        for exemption in [_EXEMPTION.search(comment)]
        if exemption is not None and exemption["kind"].startswith(_TYPE_KINDS)
    ]


def check_script(path: Path, text: str) -> Iterator[Finding]:
    """TypeScript: no `any`, and every silenced check names its rule and its reason."""
    code = _SCRIPT_COMMENT_OR_TEXT.sub(lambda found: "\n" * found[0].count("\n"), text)
    yield from _matches("any", path, _SCRIPT_ANY, _numbered(code))
    for line, content in _numbered(text):
        if _SCRIPT_EXEMPTION.search(content) and not _SCRIPT_REASON.search(content):
            yield Finding("exemption-without-rule-and-reason", path, line, 1, 0)


def is_script(path: Path) -> bool:
    """Whether the file is TypeScript that people write."""
    return path.suffix in {".ts", ".tsx", ".mts"} and not is_generated(path)


def _is_explained(exemption: re.Match[str]) -> bool:
    needs_rule = exemption["kind"].partition(":")[0] == "noqa" or "ignore" in exemption["kind"]
    has_reason = len(_WORD.findall(exemption["reason"])) >= REASON_WORDS_MIN
    return has_reason and (not needs_rule or exemption["rules"] is not None)


def _numbered(text: str) -> list[tuple[int, str]]:
    return list(enumerate(text.split("\n"), start=1))


def _matches(
    rule: str, path: Path, pattern: re.Pattern[str], lines: Iterable[tuple[int, str]]
) -> Iterator[Finding]:
    for number, line in lines:
        if pattern.search(line):
            yield Finding(rule, path, number, 1, 0)
