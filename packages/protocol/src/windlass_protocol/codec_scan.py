"""Finds the first fault of a JSON text, in reading order.

The codec uses a fast parser that only accepts or refuses; this scanner explains a refusal. It reports the
same faults in the same order as `scan.ts` in the TypeScript package.
"""

import json
import re
from math import isfinite
from typing import Final, NoReturn

from windlass_protocol.codec_errors import (
    LONE_SURROGATE_TEXT,
    NON_FINITE_TEXT,
    OUT_OF_RANGE_TEXT,
    CodecError,
    CodecErrorCode,
    MessagePosition,
    pointer,
    printable,
    too_deep_text,
)
from windlass_protocol.limits import ERROR_KEY_CHARS_MAX, INTEGER_MAX, NUMBER_CHARS_MAX, CodecLimits

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_CONSTANT: Final = re.compile(r"NaN|-?Infinity")
_UNIT: Final = re.compile(r"\\u[0-9a-fA-F]{4}")
# The valid prefix of the inside of a string: short escapes, characters and surrogate pairs.
_GOOD_TEXT: Final = re.compile(
    r'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}'
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*+"
)
# A value without a possible fault, and the same as an element of an array with its comma: large
# messages consist mostly of these, and a closer look at each is slow in Python.
_PLAIN: Final = (
    r'(?:"[^"\\\x00-\x1f]*"|-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?(?![0-9.eE])|true|false|null)'
)
_PLAIN_VALUE: Final = re.compile(_PLAIN)
_PLAIN_ELEMENT: Final = re.compile(_PLAIN + r"[ \t\n\r]*,[ \t\n\r]*")
# Characters that an error may quote: those of JSON, and common mistakes.
_NAMED: Final = frozenset("{}[]:,\"'/#")
# A sentinel after the last character: nothing in JSON starts with it, so no index is out of range.
_END: Final = "\x00"


def find_fault(text: str, limits: CodecLimits) -> CodecError | None:
    """Return the first fault of the text, or None if it is valid strict JSON."""
    try:
        _Scan(text, limits).message()
    except CodecError as fault:
        return fault
    return None


class _Scan:
    def __init__(self, text: str, limits: CodecLimits) -> None:
        self._text = text + _END
        self._limits = limits
        self._at = 0
        # For each open array or object: the keys so far (None in an array), and the current step.
        self._keys: list[set[str] | None] = []
        self._steps: list[str | int] = []

    def message(self) -> None:
        """Scan the whole text; iterative, so that depth uses no stack."""
        if self._next() == _END and self._is_end():
            self._fail(CodecErrorCode.EMPTY, "empty message: expected one JSON value")
        while True:
            if self._opens():
                continue
            while self._keys and self._closes():
                self._keys.pop()
                self._steps.pop()
            if not self._keys:
                break
        if self._next() != _END or not self._is_end():
            self._fail_expecting("the end of the message")

    def _opens(self) -> bool:
        """Scan one value; return True if it opened a non-empty container."""
        mark = self._next()
        if mark not in "[{":
            self._scalar(mark)
            return False
        depth = len(self._keys) + 1
        if depth > self._limits.depth_max:
            self._fail(CodecErrorCode.TOO_DEEP, too_deep_text(depth, self._limits))
        self._at += 1
        if self._next() == ("]" if mark == "[" else "}"):
            self._at += 1
            return False
        if mark == "{":
            self._key(set())
        else:
            self._keys.append(None)
            self._steps.append(0)
            self._skip_plain()
        return True

    def _closes(self) -> bool:
        """Scan what follows a value; return True at the end of the container."""
        keys = self._keys[-1]
        end = "]" if keys is None else "}"
        mark = self._next()
        if mark not in (",", end):
            self._fail_expecting(f"',' or '{end}'")
        self._at += 1
        if mark == end:
            return True
        step = self._steps.pop()
        self._next()
        if keys is None:
            self._steps.append(int(step) + 1)
            self._skip_plain()
        else:
            self._keys.pop()
            self._key(keys)
        return False

    def _skip_plain(self) -> None:
        """Skip to the next element of an array that needs a closer look."""
        skipped = 0
        while element := _PLAIN_ELEMENT.match(self._text, self._at):
            self._at = element.end()
            skipped += 1
        self._steps[-1] = int(self._steps[-1]) + skipped

    def _key(self, keys: set[str]) -> None:
        """Scan a key and its colon, and step into the member.

        A fault in the key itself has the path of the object.
        """
        start = self._at
        if self._text[start] != '"':
            self._fail_expecting("a key in double quotes")
        self._string()
        key = _text_of(self._text[start : self._at])
        self._keys.append(keys)
        self._steps.append(key)
        if key in keys:
            self._at = start
            name = printable(key, ERROR_KEY_CHARS_MAX)
            self._fail(CodecErrorCode.DUPLICATE_KEY, f'duplicate key "{name}" ({pointer(self._steps)})')
        keys.add(key)
        if self._next() != ":":
            self._fail_expecting("':'")
        self._at += 1

    def _scalar(self, mark: str) -> None:
        if plain := _PLAIN_VALUE.match(self._text, self._at):
            self._at = plain.end()
        elif mark == '"':
            self._string()
        elif _CONSTANT.match(self._text, self._at):
            self._fail(CodecErrorCode.NON_FINITE, NON_FINITE_TEXT)
        elif number := _NUMBER.match(self._text, self._at):
            self._number(number)
            self._at = number.end()
        else:
            self._fail_expecting("a value")

    def _number(self, number: re.Match[str]) -> None:
        token = number.group()
        if len(token) > NUMBER_CHARS_MAX:
            self._fail(
                CodecErrorCode.NUMBER_TOO_LONG,
                f"number too long: {len(token):,} characters, limit {NUMBER_CHARS_MAX:,}",
            )
        if number.group(1) or number.group(2):
            if not isfinite(float(token)):
                self._fail(CodecErrorCode.NON_FINITE, NON_FINITE_TEXT)
        elif abs(int(token)) > INTEGER_MAX:
            self._fail(CodecErrorCode.NUMBER_OUT_OF_RANGE, OUT_OF_RANGE_TEXT)

    def _string(self) -> None:
        self._at = self._end_of(_GOOD_TEXT, self._at + 1)
        mark = self._text[self._at]
        if mark == "\\":
            if _UNIT.match(self._text, self._at):
                self._fail(CodecErrorCode.LONE_SURROGATE, LONE_SURROGATE_TEXT)
            self._fail_expecting("a valid escape")
        if mark != '"':
            self._fail_expecting("a closing quote")
        self._at += 1

    def _next(self) -> str:
        """Skip white space and return the next character."""
        mark = self._text[self._at]
        if mark in " \t\n\r":
            self._at = self._end_of(_SPACE, self._at)
            mark = self._text[self._at]
        return mark

    def _end_of(self, pattern: re.Pattern[str], at: int) -> int:
        match = pattern.match(self._text, at)
        assert match is not None  # these patterns also match the empty text
        return match.end()

    def _is_end(self) -> bool:
        return self._at == len(self._text) - 1

    def _fail_expecting(self, what: str) -> NoReturn:
        actual = "the end of the message" if self._is_end() else _char_text(self._text[self._at])
        self._fail(CodecErrorCode.NOT_JSON, f"not JSON: expected {what}, found {actual}")

    def _fail(self, code: CodecErrorCode, message: str) -> NoReturn:
        position = position_of(self._text, self._at)
        message = f"{message}, at line {position.line} column {position.column}"
        raise CodecError(code, message, position=position, path=pointer(self._steps))


def _text_of(string: str) -> str:
    """Return the text of a valid JSON string."""
    text: str = json.loads(string) if "\\" in string else string[1:-1]
    return text


def _char_text(char: str) -> str:
    if char in _NAMED:
        return f"'{char}'"
    return "a control character" if char < " " else "another character"


def position_of(text: str, at: int) -> MessagePosition:
    """Return the position of a character index."""
    return MessagePosition(
        offset=len(text[:at].encode()),
        line=text.count("\n", 0, at) + 1,
        column=at - text.rfind("\n", 0, at),
    )


_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""A string of JSON; an unterminated one extends to the end, so that matching stays linear."""


def count_values(raw: bytes, limit: int) -> int:
    """Return an upper bound of the number of values in JSON, without reading it.

    Strings are removed only if the count with them is above the limit: most messages are one long string. No
    more are removed than values within the limit can have, so the work is bounded, too.
    """
    count = _marks(raw)
    if count <= limit:
        return count
    rest, strings = _STRING.subn(b"", raw, count=2 * limit + 2)
    return max(_marks(rest), limit + 1) if strings > 2 * limit + 1 else _marks(rest)


def _marks(raw: bytes) -> int:
    """Count the characters that values begin after."""
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{")
