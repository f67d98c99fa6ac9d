"""Literal commands: the words of a program without expansions or side effects of its own."""

from windlass_harness.shell.tree import Compound, Redirect, Script, Simple, Text, Word
from windlass_protocol.lazy import lazy_pattern

_ACTIVE = lazy_pattern(r"[*?\[\]{}~!]")
_DESCRIPTOR = lazy_pattern(r"[0-9]+")


def literal_commands(script: Script) -> tuple[tuple[str, ...], ...]:
    """Return the words of each command; nothing if any could become another."""
    found: list[tuple[str, ...]] = []
    for item in script.items:
        if item.operator == "&":
            return ()
        for command in item.pipeline.commands:
            if not _is_literal(command):
                return ()
            found.append(tuple("".join(_texts(word)) for word in command.words))
    return tuple(found) if all(found) else ()


def _is_literal(command: Simple | Compound) -> bool:
    return (
        isinstance(command, Simple)
        and not command.assigns
        and all(_is_literal_word(word) for word in command.words)
        and all(_writes_nothing(redirect) for redirect in command.redirects)
    )


def _is_literal_word(word: Word) -> bool:
    return all(
        isinstance(part, Text) and (part.quoted or not _ACTIVE.search(part.text)) for part in word.parts
    )


def _texts(word: Word) -> list[str]:
    return [part.text for part in word.parts if isinstance(part, Text)]


def _writes_nothing(redirect: Redirect) -> bool:
    if redirect.operator in (">&", "<&"):
        return _DESCRIPTOR.fullmatch(redirect.target.raw) is not None
    return redirect.target.raw == "/dev/null" and not redirect.descriptor.startswith("{")
