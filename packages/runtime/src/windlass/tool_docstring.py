"""The parts of a docstring that a model should read.

Three ways to write parameters are known: Google (`Args:`), NumPy (`Parameters` over a line of dashes) and
Sphinx (`:param name:`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from inspect import cleandoc
from typing import Final

_GOOGLE: Final = re.compile(r"(Args|Arguments|Parameters|Params):\s*")
_SECTION: Final = re.compile(
    r"(Args|Arguments|Attributes|Examples?|Keyword Args|Keyword Arguments|Notes?|Other Parameters|Parameters"
    r"|Params|Raises|References|Returns?|See Also|Todo|Warnings?|Warns|Yields?):?\s*"
)
_DASHES: Final = re.compile(r"-{3,}\s*")
_GOOGLE_ITEM: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)")
_NUMPY_ITEM: Final = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?")
_SPHINX_ITEM: Final = re.compile(r":(?:param|parameter|arg|argument)\s+(?:[^:]*\s)?\*{0,2}(\w+):\s*(.*)")
_SPHINX_FIELD: Final = re.compile(r":\w+(?:\s[^:]*)?:")


@dataclass(frozen=True, slots=True)
class Docstring:
    """A docstring in parts."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict[str, str])


def read_docstring(text: str | None) -> Docstring:
    """Take a docstring apart; what is written in no known way is description."""
    lines = cleandoc(text or "").splitlines()
    about = lines[: next(_ends(lines), len(lines))]
    parameters = _google(lines) | _numpy(lines) | _sphinx(lines)
    return Docstring("\n".join(about).strip(), {name: text for name, text in parameters.items() if text})


def _ends(lines: list[str]) -> Iterator[int]:
    """Yield the lines with which something other than the description begins."""
    for index, line in enumerate(lines):
        is_google = line.rstrip().endswith(":") and _SECTION.fullmatch(line)
        if is_google or _is_numpy(lines, index) or _SPHINX_FIELD.match(line):
            yield index


def _is_numpy(lines: list[str], index: int) -> bool:
    below = lines[index + 1] if index + 1 < len(lines) else ""
    return bool(_SECTION.fullmatch(lines[index]) and _DASHES.fullmatch(below))


def _google(lines: list[str]) -> dict[str, str]:
    start = next((index for index, line in enumerate(lines) if _GOOGLE.fullmatch(line)), None)
    if start is None:
        return {}
    body: list[str] = []
    for line in lines[start + 1 :]:
        if line and not line[0].isspace():
            break
        body.append(line)
    return _items(cleandoc("\n".join(["", *body])).splitlines(), _GOOGLE_ITEM)


def _sphinx(lines: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines:
        match = _SPHINX_ITEM.fullmatch(line)
        if match:
            current = found.setdefault(match[1], [match[2]])
        elif line[:1].isspace():
            current.append(line)
        else:
            current = []
    return _joined(found)


def _numpy(lines: list[str]) -> dict[str, str]:
    start = next(
        (
            index
            for index, line in enumerate(lines)
            if line.strip() == "Parameters" and _is_numpy(lines, index)
        ),
        None,
    )
    if start is None:
        return {}
    body = lines[start + 2 :]
    end = next((index for index in range(len(body)) if _is_numpy(body, index)), len(body))
    return _items(body[:end], _NUMPY_ITEM)


def _items(lines: list[str], item: re.Pattern[str]) -> dict[str, str]:
    """Read a list of names whose texts follow them, indented."""
    found: dict[str, list[str]] = {}
    current: list[list[str]] = []
    for line in lines:
        match = item.fullmatch(line) if line[:1].strip() else None
        if match:
            first = match[2] if item is _GOOGLE_ITEM else ""
            current = [found.setdefault(name.strip(), [first]) for name in match[1].split(",")]
        else:
            for text in current:
                text.append(line)
    return _joined(found)


def _joined(found: dict[str, list[str]]) -> dict[str, str]:
    return {name: " ".join(" ".join(texts).split()) for name, texts in found.items()}
