"""Read the fenced blocks and links of Markdown pages, and run the Python ones.

A comment on the line above a fence says what the tests do with the block:

- `<!-- test: continue -->` a Python block goes on where the one before it on the page ended;
- `<!-- test: skip reason -->` the block is not run or checked, for that reason;
- `<!-- output -->` a text block is exactly what the Python block before it prints.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent

RUN_TIMEOUT_S = 300
SHELL_LANGUAGES = {"bash", "console"}
MISSPELT_LANGUAGES = {
    **dict.fromkeys(("py", "python3", "pycon", "Python"), "python"),
    **dict.fromkeys(("sh", "shell", "zsh", "Bash"), "bash"),
}

_FENCE = re.compile(r"^(?P<indent>[ ]*)(?P<fence>```+|~~~+)(?P<language>[\w+-]*)[^`]*$")
_DIRECTIVE = re.compile(r"^\s*<!--\s*(?P<word>test:|output)\s*(?P<rest>.*?)\s*-->\s*$")
_BLOCK_END = "\x1e"  # ASCII's record separator: no example prints it
_CODE_SPAN = re.compile(r"(`+)(?:(?!\1).)+\1")
_LINK = re.compile(r"\]\((?P<inline>[^)\s]+)(?:\s+\"[^\"]*\")?\)|^\s*\[[^\]]+\]:\s+(?P<reference>\S+)")
_HEADING = re.compile(r"^#{1,6}\s+(?P<text>.*?)\s*#*$")
_MAKE = re.compile(r"(?:^|[;&|]\s*)make((?:\s+[^\s;&|]+)*)")
_PATH_WORD = re.compile(r"(?!-)[\w.-]+(?:/[\w.-]+)*/?")
_FILE_SUFFIX = re.compile(r"\.(?:py|md|txt|toml|json|ts|js|in|tsv)$")


class PageError(ValueError):
    """A page is written in a way that the runner refuses to guess about."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a page; `line` is that of its first line of code."""

    language: str
    line: int
    code: str
    continues: bool = False
    skip: str | None = None
    output: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """Where a link points, and the line on which it stands."""

    line: int
    path: str
    anchor: str


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page in order, outputs joined to the code they belong to.

    Raises:
        PageError: a directive is unknown, stands alone, or lacks its reason; a fence is not closed.
    """
    found: list[Block] = []
    for block, directive in _fenced(page):
        match directive:
            case None:
                found.append(block)
            case ("output", "") if found and found[-1].language == "python" and found[-1].output is None:
                found[-1] = replace(found[-1], output=block.code)
            case ("test:", "continue") if any(other.language == "python" for other in found):
                found.append(replace(block, continues=True))
            case ("test:", rest) if rest.startswith("skip "):
                found.append(replace(block, skip=rest.removeprefix("skip ").strip()))
            case (word, rest):
                raise PageError(
                    f"line {block.line - 2}: cannot use the directive {f'{word} {rest}'.strip()!r}"
                )
    return found


def chains(found: Sequence[Block]) -> list[list[Block]]:
    """The Python blocks to run, those that share their state together."""
    result: list[list[Block]] = []
    for block in found:
        if block.language != "python" or block.skip is not None:
            continue
        if block.continues and result:
            result[-1].append(block)
        else:
            result.append([block])
    return result


def run_chain(chain: Sequence[Block], *, name: str, folder: Path) -> str | None:
    """Run blocks in one fresh process and an empty folder; return the problem, if any.

    The script keeps the line numbers of the page, so a traceback names the line to look at.
    """
    script = folder / name.replace("/", "_")
    script.write_text(_script(chain), encoding="utf-8")
    empty = folder / "cwd"
    empty.mkdir(exist_ok=True)
    result = subprocess.run(
        [sys.executable, "-I", "-W", "error", str(script)],
        cwd=empty,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    if result.returncode != 0:
        return f"{name}:{chain[0].line}: the block fails:\n{result.stderr}"
    printed = result.stdout.split(_BLOCK_END + "\n")
    for block, output in zip(chain, printed, strict=False):
        if block.output is not None and output != block.output:
            return f"{name}:{block.line}: the page says\n{block.output}\nand the block prints\n{output}"
    return None


def make_targets(code: str) -> set[str]:
    """The make targets that a shell block asks for."""
    words = [word for line in _commands(code) for found in _MAKE.finditer(line) for word in found[1].split()]
    return {word for word in words if "=" not in word and not word.startswith("-")}


def paths(code: str) -> set[str]:
    """The relative paths of a shell block: words with a slash or a known suffix."""
    words = (word.partition("::")[0] for line in _commands(code) for word in line.split())
    return {
        word for word in words if _PATH_WORD.fullmatch(word) and ("/" in word or _FILE_SUFFIX.search(word))
    }


def links(page: str) -> Iterator[Target]:
    """The links of a page into the repository: not those to other sites."""
    for line, text in _prose(page):
        for found in _LINK.finditer(_CODE_SPAN.sub("", text)):
            target: str = found["inline"] or found["reference"]
            path, _, anchor = target.partition("#")
            if "://" not in target and not target.startswith("mailto:"):
                yield Target(line, path, anchor)


def anchors(page: str) -> set[str]:
    """The anchors that the headings of a page make, as GitHub spells them."""
    found: set[str] = set()
    for _, text in _prose(page):
        heading = _HEADING.match(text)
        if heading is not None:
            words = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading["text"].lower()))
            base = words.replace(" ", "-")
            found.add(next(name for name in _numbered(base) if name not in found))
    return found


def _numbered(base: str) -> Iterator[str]:
    yield base
    yield from (f"{base}-{number}" for number in range(1, 1_000))


def _script(chain: Sequence[Block]) -> str:
    lines: list[str] = []
    for block in chain:
        if lines:
            # Between two blocks of a page there are always two fences, so there is room for this line.
            lines.append(f"__import__('sys').stdout.write({_BLOCK_END!r} + '\\n')")
        lines += [""] * (block.line - 1 - len(lines))
        lines += block.code.splitlines()
    return "\n".join(lines) + "\n"


def _commands(code: str) -> list[str]:
    """The lines that are typed: after a prompt where there is one, without comments."""
    lines = code.replace("\\\n", " ").splitlines()
    prompted = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [re.sub(r"(?:^|\s)#.*", "", line) for line in prompted or lines]


def _fenced(page: str) -> Iterator[tuple[Block, tuple[str, str] | None]]:
    lines = page.split("\n")
    number = 0
    while number < len(lines):
        opening = _FENCE.match(lines[number])
        above = _DIRECTIVE.match(lines[number])
        number += 1
        if opening is None:
            if above is not None and (number >= len(lines) or not _FENCE.match(lines[number])):
                raise PageError(f"line {number}: a directive without a fence on the next line")
            continue
        start = number
        while number < len(lines) and lines[number].strip() != opening["fence"]:
            number += 1
        if number == len(lines):
            raise PageError(f"line {start}: the fence is not closed")
        code = dedent("\n".join(lines[start:number])) + "\n" if number > start else ""
        directive = _DIRECTIVE.match(lines[start - 2]) if start >= 2 else None
        yield (
            Block(opening["language"], start + 1, code),
            None if directive is None else (directive["word"], directive["rest"]),
        )
        number += 1


def _prose(page: str) -> Iterator[tuple[int, str]]:
    """The lines of a page outside its fences."""
    inside: str | None = None
    for number, line in enumerate(page.split("\n"), start=1):
        fence = _FENCE.match(line)
        if inside is None and fence is not None:
            inside = fence["fence"]
        elif inside is not None and line.strip() == inside:
            inside = None
        elif inside is None:
            yield number, line
