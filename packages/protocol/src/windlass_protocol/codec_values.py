"""Checks of values, not of text: the limits, and what JSON can hold at all."""

from math import isfinite
from types import NoneType
from typing import Any, Final, NoReturn, TypeAlias, cast

from pydantic import JsonValue

from windlass_protocol.codec_errors import (
    LONE_SURROGATE_TEXT,
    NON_FINITE_TEXT,
    OUT_OF_RANGE_TEXT,
    CodecError,
    CodecErrorCode,
    Issue,
    pointer,
    too_deep_text,
    too_large_text,
)
from windlass_protocol.limits import INTEGER_MAX, CodecLimits

_Container: TypeAlias = dict[Any, Any] | list[Any] | tuple[Any, ...]
_CONTAINERS: tuple[type, ...] = (dict, list, tuple)
_LEAVES: Final = frozenset({str, bool, NoneType})


def fits(value: JsonValue, limits: CodecLimits) -> bool:
    """Return whether a parsed value keeps the limits of depth and of numbers.

    Level by level and not by recursion: this is on the path of every message.
    """
    level: list[_Container] = [[value]]
    for _ in range(limits.depth_max + 1):
        inner: list[_Container] = []
        for container in level:
            for item in container.values() if type(container) is dict else container:
                kind = item.__class__
                if kind is dict or kind is list:
                    inner.append(item)
                elif kind is int:
                    if not -INTEGER_MAX <= item <= INTEGER_MAX:
                        return False
                elif kind is float and not isfinite(item):
                    return False
        if not inner:
            return True
        level = inner
    return False


def is_sendable(value: object, limits: CodecLimits) -> bool:
    """Return whether a value is JSON and keeps the limits.

    Strings are not looked into: the writer finds lone surrogates at no cost.
    """
    level: list[_Container] = [[value]]
    values = 0
    for _ in range(limits.depth_max + 1):
        inner: list[_Container] = []
        for container in level:
            values += len(container)
            if _bytes_min(values) > limits.message_bytes_max or not _gather(container, inner):
                return False
        if not inner:
            return True
        level = inner
    return False


def _gather(container: _Container, inner: list[_Container]) -> bool:
    """Add the containers in a container to `inner`; False if one thing is not JSON."""
    if isinstance(container, dict):
        for key in container:
            if not isinstance(key, str):
                return False
    for item in container.values() if isinstance(container, dict) else container:
        if type(item) in _LEAVES:
            continue
        if isinstance(item, _CONTAINERS):
            inner.append(item)
        elif not _is_scalar(item):
            return False
    return True


def _is_scalar(item: object) -> bool:
    if isinstance(item, int):
        return -INTEGER_MAX <= item <= INTEGER_MAX
    if isinstance(item, float):
        return isfinite(item)
    return isinstance(item, str)


def _bytes_min(values: int) -> int:
    # Each value takes two bytes, with the comma or bracket beside it. Counting stops a list that
    # holds itself many times over before it is unfolded.
    return 2 * values - 1


def find_value_fault(value: object, limits: CodecLimits) -> CodecError | None:
    """Return the first reason why a value cannot be sent, with its path, or None."""
    try:
        _ValueScan(limits).check(value)
    except CodecError as fault:
        return fault
    return None


class _ValueScan:
    """The slow twin of `is_sendable`: it knows where it is."""

    def __init__(self, limits: CodecLimits) -> None:
        self._limits = limits
        self._steps: list[str | int] = []
        self._values = 0

    def check(self, value: object) -> None:
        self._values += 1
        limit = self._limits.message_bytes_max
        if _bytes_min(self._values) > limit:
            self._fail(CodecErrorCode.TOO_LARGE, too_large_text(f"more than {limit:,}", self._limits))
        if isinstance(value, dict):
            self._open()
            self._members(cast("dict[object, object]", value))
        elif isinstance(value, list | tuple):
            self._open()
            for index, item in enumerate(cast("list[object]", value)):
                self._inside(index, item)
        else:
            self._leaf(value)

    def _open(self) -> None:
        depth = len(self._steps) + 1
        if depth > self._limits.depth_max:
            self._fail(CodecErrorCode.TOO_DEEP, too_deep_text(depth, self._limits))

    def _members(self, members: dict[object, object]) -> None:
        for key, item in members.items():
            if not isinstance(key, str):
                self._fail(CodecErrorCode.INVALID, f"expected a key of type str, found {_kind(key)}")
            self._text(key)
            self._inside(key, item)

    def _inside(self, step: str | int, item: object) -> None:
        self._steps.append(step)
        self.check(item)
        self._steps.pop()

    def _leaf(self, value: object) -> None:
        match value:
            case None | bool():
                pass
            case str():
                self._text(value)
            case int():
                if not _is_scalar(value):
                    self._fail(CodecErrorCode.NUMBER_OUT_OF_RANGE, OUT_OF_RANGE_TEXT)
            case float():
                if not isfinite(value):
                    self._fail(CodecErrorCode.NON_FINITE, NON_FINITE_TEXT)
            case _:
                self._fail(CodecErrorCode.INVALID, f"expected a JSON value, found {_kind(value)}")

    def _text(self, text: str) -> None:
        if any("\ud800" <= char <= "\udfff" for char in text):
            self._fail(CodecErrorCode.LONE_SURROGATE, LONE_SURROGATE_TEXT)

    def _fail(self, code: CodecErrorCode, message: str) -> NoReturn:
        path = pointer(self._steps)
        issues = (Issue(path, message),) if code is CodecErrorCode.INVALID else ()
        raise CodecError(code, f"{message}, at {path or 'the top'}", path=path, issues=issues)


def _kind(value: object) -> str:
    return type(value).__name__
