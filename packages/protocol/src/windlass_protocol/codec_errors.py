"""Errors of the codec: codes, positions, issues and texts."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from windlass_protocol.frozen import sealed
from windlass_protocol.limits import ERROR_KEY_CHARS_MAX, ERROR_PATH_CHARS_MAX, INTEGER_MAX, CodecLimits

NON_FINITE_TEXT: Final = "number not finite: expected one that fits a double"
LONE_SURROGATE_TEXT: Final = "lone surrogate in a string: expected a pair"
OUT_OF_RANGE_TEXT: Final = f"integer out of range: limit ±{INTEGER_MAX:,}, send a larger one as a string"


class CodecErrorCode(StrEnum):
    """Why a message was refused; stable, the same in every language."""

    NOT_UTF8 = "not_utf8"
    BOM = "bom"
    EMPTY = "empty"
    TOO_LARGE = "too_large"
    TOO_DEEP = "too_deep"
    NOT_JSON = "not_json"
    NON_FINITE = "non_finite"
    DUPLICATE_KEY = "duplicate_key"
    LONE_SURROGATE = "lone_surrogate"
    NUMBER_TOO_LONG = "number_too_long"
    NUMBER_OUT_OF_RANGE = "number_out_of_range"
    INVALID = "invalid"


@sealed
class MessagePosition:
    """A position in a message: bytes from 0; lines and characters from 1."""

    offset: int
    line: int
    column: int


@sealed
class Issue:
    """One violation of a type, with its path."""

    path: str
    message: str


class CodecError(ValueError):
    """A message that the codec refuses, without any of its payload.

    `position` is set for a fault in the text, and `path` (a JSON pointer) for a fault in a value. `issues` is
    filled for the code `invalid` alone. Keys are quoted, shortened and printable; values never are.
    """

    def __init__(
        self,
        code: CodecErrorCode,
        message: str,
        *,
        position: MessagePosition | None = None,
        path: str | None = None,
        issues: tuple[Issue, ...] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.position = position
        self.path = path
        self.issues = issues


def too_large_text(size: str, limits: CodecLimits) -> str:
    """Return the error text for a message over the size limit; `size` is in bytes."""
    return f"message too large: {size} bytes, limit {limits.message_bytes_max:,}"


def too_deep_text(depth: int, limits: CodecLimits) -> str:
    """Return the error text for a message over the depth limit."""
    return f"message too deep: {depth:,} levels, limit {limits.depth_max:,}"


def printable(text: str, chars_max: int) -> str:
    """Return a text for an error message: printable and cut to the limit."""
    cut = text if len(text) <= chars_max else text[: chars_max - 1] + "…"
    return cut if cut.isprintable() else "".join(char if char.isprintable() else "\ufffd" for char in cut)


def pointer(steps: Iterable[str | int]) -> str:
    """Return the JSON pointer (RFC 6901) of these keys and indexes, cut to its limit."""
    return printable("".join(f"/{_token(step)}" for step in steps), ERROR_PATH_CHARS_MAX)


def _token(step: str | int) -> str:
    key = printable(str(step), ERROR_KEY_CHARS_MAX)
    return key.replace("~", "~0").replace("/", "~1")
