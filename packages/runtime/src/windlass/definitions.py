"""Checks of what an author defines: a slip is refused, with what to write."""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from windlass.errors import Rejected
from windlass.tool_limits import CLOSE_NAMES_MAX, NAME_CHARS_MAX
from windlass_protocol import ErrorKind, RetryClass

_LAMBDA: Final = (lambda: None).__name__
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")


def wrong(message: str) -> Rejected:
    """Return the error for a definition that cannot work."""
    return Rejected(message, kind=ErrorKind.INVALID_PACKAGE, retry=RetryClass.NOT_RETRYABLE)


def option_problem(
    options: Mapping[str, object], known: type, *, what: str, beside: Sequence[str] = ()
) -> str | None:
    """Say which keywords are none of a typed dictionary; None if all are.

    `beside` are keywords of the function itself.
    """
    names = [*beside, *known.__annotations__]
    unknown = sorted(options.keys() - set(names))
    if not unknown:
        return None
    return f"{what} does not know {', '.join(unknown)}; it takes {', '.join(names)}{meant(unknown, names)}"


def meant(asked: Iterable[str], names: Sequence[str]) -> str:
    """Return `; did you mean …?` with the names that are close to those asked for."""
    found = [name for one in asked for name in get_close_matches(one[:NAME_CHARS_MAX], names, n=1)]
    close = list(dict.fromkeys(found))[:CLOSE_NAMES_MAX]
    return f"; did you mean {', '.join(close)}?" if close else ""


def check_name(name: object, what: str, *, option: str = "name") -> str:
    """Return the name of a tool or an agent, if every provider and store can hold it.

    `option` is the keyword that gives it, for what has no name by itself.
    """
    if not isinstance(name, str):
        raise wrong(f"the name of {what} is a text, found {kind_of(name)}")
    if name == _LAMBDA:
        raise wrong(f'{what} that is a lambda has no name of its own; write {option}="…"')
    if len(name) > NAME_CHARS_MAX:
        raise wrong(f"the name of {what} is too long: {len(name):,} characters, limit {NAME_CHARS_MAX}")
    if not _NAME.fullmatch(name):
        raise wrong(
            f"the name of {what} must be letters, digits, _ and -, and not begin with -; found {name!r}"
        )
    return name


def check_text(text: object, what: str, *, chars_max: int) -> str:
    """Return a text that is not too long."""
    if not isinstance(text, str):
        raise wrong(f"{what} is a text, found {kind_of(text)}")
    if len(text) > chars_max:
        raise wrong(f"{what} is too long: {len(text):,} characters, limit {chars_max:,}")
    return text


def check_whole(number: object, what: str, *, most: int) -> int:
    """Return a whole number from 1 to the limit."""
    if not isinstance(number, int) or isinstance(number, bool):
        raise wrong(f"{what} is a whole number, found {kind_of(number)}")
    if not 1 <= number <= most:
        raise wrong(f"{what} must be 1 to {most:,}, found {number:,}")
    return number


def kind_of(value: object) -> str:
    """Name the type of a value, and nothing of the value."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
