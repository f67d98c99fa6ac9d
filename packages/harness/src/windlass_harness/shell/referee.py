"""Referee: tree-sitter must find the same words at the same places, or nothing is safe."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from windlass_harness.shell.parser import Simple

Span = tuple[int, int]

_NOT_ASCII: Final = re.compile("[^\x00-\x7f]")
_ATOMS: Final = frozenset("word number string raw_string concatenation command_name".split())
_GROUPS: Final = frozenset("program list pipeline redirected_statement".split())
_TOKENS: Final = frozenset("&& || ; | \n".split(" "))


@lru_cache(maxsize=1)
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def agrees(text: str, commands: tuple[Simple, ...]) -> bool:
    """Say whether tree-sitter reads the same commands, words and redirections, and nothing else."""
    # The scanner of tree-sitter-bash 0.25 reads beyond a table, and the process dies, on some characters
    # outside ASCII. To bash they are all just letters of a word.
    root = _parser().parse(_NOT_ASCII.sub("u", text).encode("ascii")).root_node
    if root.has_error:
        return False
    theirs = sorted(_spans(root))
    return theirs == sorted(span for command in commands for span in _spans_of(command))


def _spans_of(command: Simple) -> Iterator[tuple[Span, ...]]:
    spans = tuple((word.start, word.end) for word in command.words)
    # tree-sitter has a grammar of its own for the inside of `[ … ]`.
    yield ((spans[0][0], spans[-1][1]),) if command.words[0].text == "[" else spans
    for redirect in command.redirects:
        yield ((redirect.target.start, redirect.target.end),)


def _spans(root: Node) -> Iterator[tuple[Span, ...]]:
    """Yield the places of the words of each command and redirection; an odd one for any other node."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type in _GROUPS:
            stack.extend(node.children)
        elif node.type == "command":
            yield tuple(_span(child) for child in node.children)
        elif node.type == "file_redirect":
            yield tuple(_span(child) for child in node.named_children if child.type != "file_descriptor")
        elif node.type == "test_command":
            yield (_span(node),)
        elif node.type not in _TOKENS:
            yield ()


def _span(node: Node) -> Span:
    return (
        (node.start_byte, node.end_byte) if node.type in _ATOMS or node.type == "test_command" else (-1, -1)
    )
