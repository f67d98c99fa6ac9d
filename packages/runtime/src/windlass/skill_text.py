"""The text of a SKILL.md: front matter between two lines of `---`, then the body.

The front matter is a strict part of YAML: keys at the margin, and for `name` and `description` a plain or
quoted text, or a block after `>` or `|`. Other keys are passed over with all that is indented below them.
What YAML would read as something else than a text is refused rather than guessed at.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from windlass.definitions import wrong
from windlass_protocol import CodecError, parse

_FENCE: Final = "---"
_KEY: Final = re.compile(r"([A-Za-z][A-Za-z0-9_-]*):(?:[ ]+(.*))?")
_BLOCK: Final = re.compile(r"([>|])[+-]?")
_READ: Final = ("name", "description")
_SPECIAL: Final = "[]{}&*!%@`|>,?#-\"'"
"""What a plain text does not begin with."""


@dataclass(frozen=True, slots=True)
class SkillText:
    """What a SKILL.md says."""

    name: str
    description: str
    body: str


def read_skill_text(text: str, where: str) -> SkillText:
    """Return what a SKILL.md says.

    Raises:
        Rejected: there is no front matter, or a part of it cannot be read.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != _FENCE:
        raise wrong(f"{where}: the first line must be {_FENCE}, and name and description follow")
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise wrong(f"{where}: the front matter does not end; write {_FENCE} on a line of its own")
    found = _fields(lines[1:end], where)
    missing = [key for key in _READ if not found.get(key)]
    if missing:
        raise wrong(f"{where}: the front matter has no {' and no '.join(missing)}")
    return SkillText(found["name"], found["description"], "\n".join(lines[end + 1 :]).strip())


def _fields(lines: Sequence[str], where: str) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if not line.strip() or line.startswith("#"):
            continue
        match = _KEY.fullmatch(line.rstrip())
        if match is None:
            raise wrong(f"{where}: line {at + 1} is not `key: text`")
        key, inside = match[1], at
        while at < len(lines) and _is_inside(lines[at], is_list_fine=not match[2]):
            at += 1
        if key in found:
            raise wrong(f"{where}: {key} is there twice")
        found[key] = _value(match[2] or "", lines[inside:at], f"{where}: {key}") if key in _READ else key
    return found


def _is_inside(line: str, *, is_list_fine: bool) -> bool:
    """Say whether a line belongs to the key above it."""
    return not line.strip() or line[0] in " \t" or (is_list_fine and line.startswith("- "))


def _value(first: str, more: Sequence[str], where: str) -> str:
    block = _BLOCK.fullmatch(first)
    if block:
        return _joined(more, "\n" if block[1] == "|" else " ")
    if not first:
        raise wrong(f"{where} is a text on the same line, or a block after > or |")
    if first[0] in "\"'":
        if any(line.strip() for line in more):
            raise wrong(f"{where}: a text in quotes ends on its line; use a block after > instead")
        return _unquoted(first, where)
    text = _joined([first, *more], " ")
    if first[0] in _SPECIAL or ": " in text or " #" in text or text.endswith(":"):
        raise wrong(f"{where} could be read as something else than a text; put it in double quotes")
    return text


def _joined(lines: Sequence[str], between: str) -> str:
    return between.join(line.strip() for line in lines).strip()


def _unquoted(text: str, where: str) -> str:
    if text[0] == "'":
        inner = text[1:-1]
        if len(text) >= 2 and text.endswith("'") and "'" not in inner.replace("''", ""):
            return inner.replace("''", "'").strip()
    else:
        try:
            # A text in double quotes is the same in JSON, the rarer escapes of YAML apart.
            return cast(str, parse(text)).strip()
        except (CodecError, json.JSONDecodeError):
            pass
    raise wrong(f"{where}: the quotes do not match, or hold what JSON does not know")
