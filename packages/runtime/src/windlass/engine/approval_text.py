"""What people are shown of a call: exactly what will run, nothing that can lie.

Two calls that differ never look the same: what is shown can be read back to the very bytes that are hashed.
"""

import unicodedata
from typing import Final

from pydantic import JsonValue

from windlass_protocol import CodecError, canonical

PROMPT_CHARS_MAX: Final = 100_000
"""Nobody reads more, and nobody is asked about what was not shown whole."""
SPACES_MAX: Final = 8
"""A longer run of blanks is shown as their number: it could push the rest out of sight."""
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_BLANK: Final = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\u034f")
"""Letters, signs and marks that look like nothing at all."""
_INDENT: Final = "  "


def approval_prompt(tool_name: str, arguments: JsonValue, *, reason: str) -> str | None:
    """Return the words of a request for consent; None if they are too many to be read.

    The arguments are rendered from their canonical JSON, each value on a line of its own, so that no text can
    change the order or the look of another one. Characters that cannot be seen, or that change the order of
    others, are written as escapes.
    """
    try:
        text = canonical(arguments).decode()
    except CodecError:
        # They fitted before they were masked, and a mask may be longer than what it hides.
        return None
    if len(text) > PROMPT_CHARS_MAX:
        return None
    prompt = f"Run {plain(tool_name)}? {plain(reason)}\n{_laid_out(text)}"
    return None if len(prompt) > PROMPT_CHARS_MAX else prompt


def plain(text: str) -> str:
    """Return a text in which every character can be seen for what it is."""
    shown: list[str] = []
    blanks = 0
    for character in text:
        if character == " ":
            blanks += 1
            continue
        shown.append(_blanks(blanks))
        blanks = 0
        shown.append(_escape(character) if _is_hidden(character) else character)
    shown.append(_blanks(blanks))
    return "".join(shown)


def _is_hidden(character: str) -> bool:
    return (
        unicodedata.category(character) in _HIDDEN
        or character.isspace()
        or character in _BLANK
        or _is_variant(ord(character))
    )


def _is_variant(code: int) -> bool:
    """Whether it selects a variant of the character before it, unseen itself."""
    return 0xFE00 <= code <= 0xFE0F or 0x180B <= code <= 0x180F or 0xE0100 <= code <= 0xE01EF


def _blanks(count: int) -> str:
    # JSON writes no backslash before a bracket, so this cannot be the text of an argument.
    return " " * count if count <= SPACES_MAX else f"\\[{count:,} spaces]"


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _laid_out(text: str) -> str:
    """Return canonical JSON, one value to a line; only blanks are added."""
    parts: list[str] = []
    level, at = 0, 0
    while at < len(text):
        character = text[at]
        if character == '"':
            end = _end_of_string(text, at)
            parts.append(plain(text[at:end]))
            at = end
            continue
        at += 1
        if character in "[{" and text[at] not in "]}":
            level += 1
            parts.append(f"{character}\n{_INDENT * level}")
        elif character in "]}" and text[at - 2] not in "[{":
            level -= 1
            parts.append(f"\n{_INDENT * level}{character}")
        elif character == ",":
            parts.append(f",\n{_INDENT * level}")
        else:
            parts.append(": " if character == ":" else character)
    return "".join(parts)


def _end_of_string(text: str, start: int) -> int:
    at = start + 1
    while text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1
