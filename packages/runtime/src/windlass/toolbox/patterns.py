"""Patterns of paths: `*`, `?`, `[a-z]`, `{a,b}` and `**`, matched in linear time."""

import re
from dataclasses import dataclass
from fnmatch import translate
from itertools import product
from typing import Final

from windlass.toolbox.limits import GLOB_CHARS_MAX, GLOB_CHOICES_MAX, GLOB_PARTS_MAX
from windlass.tools import ToolFailed

_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_Part = re.Pattern[str] | None
"""None is `**`: any number of folders."""


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A pattern of paths; one without a slash is about the last name alone."""

    choices: tuple[tuple[_Part, ...], ...]

    def matches(self, path: str) -> bool:
        """Whether a path, relative and with slashes, is meant."""
        names = path.split("/")
        return any(_matches(choice, names) for choice in self.choices)


def path_pattern(text: str) -> PathPattern:
    """Read a pattern.

    Raises:
        ToolFailed: it is too long, or has too many parts or choices.
    """
    if len(text) > GLOB_CHARS_MAX:
        raise ToolFailed(f"the pattern is too long: {len(text):,} characters, limit {GLOB_CHARS_MAX:,}")
    if text.startswith("/") or ".." in text.split("/"):
        raise ToolFailed("the pattern is relative to `path`: leave out the slash at its beginning and `..`")
    return PathPattern(tuple(_parts(choice) for choice in _choices(text)))


def _choices(text: str) -> list[str]:
    pieces = _BRACES.split(text)
    # Every other piece was inside braces.
    options = [piece.split(",") if at % 2 else [piece] for at, piece in enumerate(pieces)]
    count = 1
    for option in options:
        count *= len(option)
    if count > GLOB_CHOICES_MAX:
        raise ToolFailed(f"the braces of the pattern make {count:,} patterns, limit {GLOB_CHOICES_MAX}")
    return ["".join(choice) for choice in product(*options)]


def _parts(text: str) -> tuple[_Part, ...]:
    names = [name for name in text.split("/") if name not in {"", "."}]
    if len(names) > GLOB_PARTS_MAX:
        raise ToolFailed(f"the pattern has {len(names):,} parts, limit {GLOB_PARTS_MAX}")
    if len(names) == 1:
        names.insert(0, "**")
    # Each star of a name is matched as early as it can be and never again: see fnmatch.translate.
    return tuple(None if name == "**" else re.compile(translate(name)) for name in names)


def _matches(parts: tuple[_Part, ...], names: list[str]) -> bool:
    """Follow all ways through a pattern at once: as many steps as names times parts."""
    reached = _with_skips({0}, parts)
    for name in names:
        after: set[int] = set()
        for at in reached:
            if at == len(parts):
                continue
            part = parts[at]
            if part is None:
                after.add(at)
            elif part.match(name):
                after.add(at + 1)
        reached = _with_skips(after, parts)
        if not reached:
            return False
    return len(parts) in reached


def _with_skips(places: set[int], parts: tuple[_Part, ...]) -> set[int]:
    """Add the places behind a `**` that stands for nothing."""
    found = set(places)
    for at in sorted(places):
        while at < len(parts) and parts[at] is None:
            at += 1
            found.add(at)
    return found
