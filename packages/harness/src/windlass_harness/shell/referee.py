"""Cross-check with tree-sitter: it must find the same commands, or nothing is safe."""

from collections.abc import Iterator
from functools import lru_cache
from typing import assert_never

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from windlass_harness.shell.parser import RESERVED
from windlass_harness.shell.tree import (
    Arithmetic,
    ArrayLiteral,
    Budget,
    Compound,
    Parameter,
    Part,
    Redirect,
    Script,
    Simple,
    Substitution,
    Text,
    Word,
)
from windlass_protocol.lazy import lazy_pattern

# tree-sitter has its own nodes for these, so they are no command names there.
_NOT_ASCII = lazy_pattern("[^\x00-\x7f]")
_KEYWORDS = frozenset("export declare typeset readonly local unset unsetenv test [ [[".split())


@lru_cache(maxsize=1)
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def agrees(text: str, script: Script, *, budget: Budget) -> bool:
    """Say whether tree-sitter reads the same command words, without an error."""
    root = _parser().parse(_ascii(text).encode("ascii")).root_node
    if root.has_error:
        return False
    theirs: list[str] = []
    for node in _nodes(root, budget):
        if node.type == "command":
            theirs.append(_command_word(node))
    if any(word in RESERVED for word in theirs):
        return False
    ours = [_plain(_ascii(word)) for word in _script_words(script)]
    return _names(ours) == _names(theirs)


def _command_word(command: Node) -> str:
    words = [_plain((child.text or b"").decode("ascii", "replace")) for child in command.named_children]
    names = [
        word
        for child, word in zip(command.named_children, words, strict=True)
        if child.type == "command_name"
    ]
    if names != ["time"]:
        return names[0] if names else ""
    # tree-sitter takes the reserved word `time` for a program.
    rest = words[words.index("time") + 1 :]
    return next((word for word in rest if word not in ("-p", "--", "time")), "")


def _names(words: list[str]) -> list[str]:
    return sorted(word for word in words if word and word not in _KEYWORDS)


def _ascii(text: str) -> str:
    # The scanner of tree-sitter-bash 0.25 reads beyond a table, and the process dies, on some characters
    # outside ASCII. To bash they are all just letters of a word.
    return _NOT_ASCII.sub("u", text)


def _plain(word: str) -> str:
    return word.replace("\\\n", "")


def _nodes(root: Node, budget: Budget) -> Iterator[Node]:
    stack = [root]
    while stack:
        budget.spend()
        node = stack.pop()
        yield node
        stack.extend(node.children)


def _script_words(script: Script) -> Iterator[str]:
    for item in script.items:
        for command in item.pipeline.commands:
            yield from _simple_words(command) if isinstance(command, Simple) else _compound_words(command)


def _simple_words(command: Simple) -> Iterator[str]:
    if command.words:
        yield command.words[0].raw
    for word in (*command.assigns, *command.words):
        yield from _word_words(word)
    yield from _redirect_words(command.redirects)


def _compound_words(command: Compound) -> Iterator[str]:
    for word in command.words:
        yield from _word_words(word)
    for body in command.bodies:
        yield from _script_words(body)
    yield from _redirect_words(command.redirects)


def _redirect_words(redirects: tuple[Redirect, ...]) -> Iterator[str]:
    for redirect in redirects:
        yield from _word_words(redirect.target)
        if redirect.body is not None:
            yield from _word_words(redirect.body)


def _word_words(word: Word) -> Iterator[str]:
    for part in word.parts:
        yield from _part_words(part)


def _part_words(part: Part) -> Iterator[str]:
    match part:
        case Text():
            return
        case Substitution():
            yield from _script_words(part.script)
        case ArrayLiteral():
            for word in part.words:
                yield from _word_words(word)
        case Arithmetic():
            for inner in part.parts:
                yield from _part_words(inner)
        case Parameter():
            for inner in (*part.subscript, *part.argument):
                yield from _part_words(inner)
        case _:
            assert_never(part)
