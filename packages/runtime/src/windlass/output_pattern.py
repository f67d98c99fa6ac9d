"""Regular expressions of strangers: matched in linear time, or refused.

The expressions of Python go back and try again, and a short hostile one takes for ever. These are matched by
the engine of pydantic, which never goes back; it knows no look-around and no references to groups.
"""

import re
from functools import lru_cache
from typing import Final

from pydantic_core import SchemaError, SchemaValidator, core_schema

from windlass.limits import PATTERN_CHARS_MAX, PATTERN_WEIGHT_MAX

_COUNT: Final = re.compile(r"\{(\d{1,9})(?:(,)(\d{1,9})?)?\}")


def pattern_problem(pattern: str) -> str | None:
    """Say why a pattern cannot be used; None if it can."""
    if len(pattern) > PATTERN_CHARS_MAX:
        return f"a pattern is too long: {len(pattern):,} characters, limit {PATTERN_CHARS_MAX:,}"
    if weight(pattern) > PATTERN_WEIGHT_MAX:
        return f"a pattern repeats too much: over the limit of {PATTERN_WEIGHT_MAX:,} pieces"
    try:
        _compiled(pattern)
    except SchemaError:
        return "a pattern is no regular expression without look-around and back-references"
    return None


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern that can be used is found anywhere in a text."""
    return _compiled(pattern).isinstance_python(text)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> SchemaValidator:
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))


def weight(pattern: str) -> int:
    """Return about how many pieces a pattern has with its repetitions written out."""
    groups: list[int] = [0]
    last, at = 0, 0
    while at < len(pattern):
        count = _COUNT.match(pattern, at)
        if count is not None:
            times = int(count[3] or count[1])
            groups[-1] += last * max(0, times - 1)
            last *= max(1, times)
            at = count.end()
            continue
        match pattern[at]:
            case "(":
                groups.append(0)
                last = 0
            case ")" if len(groups) > 1:
                last = max(1, groups.pop())
                groups[-1] += last
            case "[":
                at = _class_end(pattern, at)
                last = 1
                groups[-1] += 1
            case character:
                at += character == "\\"
                last = last if character in "*+?" else 1
                groups[-1] += character not in "*+?"
        at += 1
    return sum(groups)


def _class_end(pattern: str, start: int) -> int:
    """Return where the class that begins at a place ends."""
    at = start + 1
    while at < len(pattern) and (pattern[at] != "]" or at == start + 1):
        at += 2 if pattern[at] == "\\" else 1
    return at
