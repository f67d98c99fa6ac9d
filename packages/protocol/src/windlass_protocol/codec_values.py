"""Checks of values before encoding and after parsing: limits and JSON types."""

from collections import deque
from collections.abc import Collection
from dataclasses import fields, is_dataclass
from math import inf, isfinite
from types import NoneType
from typing import Any, Final, NoReturn, TypeAlias, cast

from pydantic import BaseModel, JsonValue

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
_LEAVES: Final = frozenset({bool, NoneType})
_ATOMS: Final = frozenset({str, int, float, bool, NoneType})

# The minimum size of parts as JSON. A value has a comma or a bracket beside it, except the
# outermost; a key has its quotes and its colon, and each of its characters takes at least one byte.
_SIZE_BEFORE: Final = -1
_VALUE_BYTES_MIN: Final = 2
_KEY_BYTES_MIN: Final = 3


def fits(value: JsonValue, limits: CodecLimits) -> bool:
    """Return whether a parsed value keeps the limits of depth and of numbers.

    Iterative by level, not recursive: it runs for every message.
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

    A shared container is counted at each place, as it will be written; the walk stops at the size limit.
    Strings are measured but not inspected: the encoder finds lone surrogates at no cost.
    """
    level: list[_Container] = [[value]]
    size = _SIZE_BEFORE
    for _ in range(limits.depth_max + 1):
        inner: list[_Container] = []
        for container in level:
            size += _gather(container, inner)
            if size > limits.message_bytes_max:
                return False
        if not inner:
            return True
        level = inner
    return False


def _gather(container: _Container, inner: list[_Container]) -> float:
    """Add the containers in a container to `inner`.

    Returns the minimum size of its items in bytes, or infinity if one of them is not JSON.
    """
    items = container
    size: float = _VALUE_BYTES_MIN * len(container)
    if isinstance(container, dict):
        try:
            size += _KEY_BYTES_MIN * len(container) + len("".join(container))
        except TypeError:  # a key is not a string
            return inf
        items = container.values()
    for item in items:
        kind = item.__class__
        if kind is str:
            size += len(item) + 1
        elif kind is dict or kind is list:
            inner.append(item)
        elif kind is int and -INTEGER_MAX <= item <= INTEGER_MAX:
            pass
        elif kind not in _LEAVES:
            size += _other(item, inner)
    return size


def _other(item: object, inner: list[_Container]) -> float:
    """Do the work of `_gather` for numbers and for subclasses of strings and containers."""
    match item:
        case int():
            return 0 if -INTEGER_MAX <= item <= INTEGER_MAX else inf
        case float():
            return 0 if isfinite(item) else inf
        case str():
            return len(item) + 1
        case dict() | list() | tuple():
            inner.append(cast("_Container", item))
            return 0
        case _:
            return inf


def find_unfolding_fault(model: BaseModel, limits: CodecLimits) -> CodecError | None:
    """Return why a model must not be dumped, or None.

    A dump copies a shared value once for each place, and a model that was built without validation, or
    changed since, may hold anything. This is an estimate: more values or more levels than a message can have.
    """
    level: list[object] = [model]
    values = 0
    for _ in range(limits.depth_max + 1):
        inner: list[object] = []
        for item in level:
            parts = _parts(item)
            values += len(parts)
            if _VALUE_BYTES_MIN * values > limits.message_bytes_max:
                size = f"more than {limits.message_bytes_max:,}"
                return CodecError(CodecErrorCode.TOO_LARGE, too_large_text(size, limits))
            inner += [part for part in parts if part.__class__ not in _ATOMS]
        if not inner:
            return None
        level = inner
    return CodecError(CodecErrorCode.TOO_DEEP, too_deep_text(limits.depth_max + 1, limits))


def _parts(item: object) -> Collection[object]:
    if isinstance(item, BaseModel):
        # Most fields of most models are absent: they are not written, so they do not count.
        parts = [part for part in vars(item).values() if part is not None]
        return parts + list(item.model_extra.values()) if item.model_extra else parts
    if isinstance(item, dict):
        return cast("dict[object, object]", item).values()
    if isinstance(item, list | tuple | set | frozenset | deque):
        return cast("Collection[object]", item)
    return [getattr(item, field.name) for field in fields(item)] if is_dataclass(item) else ()


def find_value_fault(value: object, limits: CodecLimits) -> CodecError | None:
    """Return the first reason why a value cannot be encoded, with its path, or None."""
    try:
        _ValueScan(limits).check(value)
    except CodecError as fault:
        return fault
    return None


class _ValueScan:
    """The slow variant of `is_sendable`, which tracks the path."""

    def __init__(self, limits: CodecLimits) -> None:
        self._limits = limits
        self._steps: list[str | int] = []
        self._size = _SIZE_BEFORE

    def check(self, value: object) -> None:
        self._count(_VALUE_BYTES_MIN)
        if isinstance(value, dict):
            self._open()
            self._members(cast("dict[object, object]", value))
        elif isinstance(value, list | tuple):
            self._open()
            for index, item in enumerate(cast("list[object]", value)):
                self._inside(index, item)
        else:
            self._leaf(value)

    def _count(self, size: int) -> None:
        self._size += size
        limit = self._limits.message_bytes_max
        if self._size > limit:
            self._fail(CodecErrorCode.TOO_LARGE, too_large_text(f"more than {limit:,}", self._limits))

    def _open(self) -> None:
        depth = len(self._steps) + 1
        if depth > self._limits.depth_max:
            self._fail(CodecErrorCode.TOO_DEEP, too_deep_text(depth, self._limits))

    def _members(self, members: dict[object, object]) -> None:
        for key, item in members.items():
            if not isinstance(key, str):
                self._fail(CodecErrorCode.INVALID, f"expected a key of type str, found {_kind(key)}")
            self._text(key, _KEY_BYTES_MIN)
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
                self._text(value, 1)
            case int():
                if not -INTEGER_MAX <= value <= INTEGER_MAX:
                    self._fail(CodecErrorCode.NUMBER_OUT_OF_RANGE, OUT_OF_RANGE_TEXT)
            case float():
                if not isfinite(value):
                    self._fail(CodecErrorCode.NON_FINITE, NON_FINITE_TEXT)
            case _:
                self._fail(CodecErrorCode.INVALID, f"expected a JSON value, found {_kind(value)}")

    def _text(self, text: str, quotes: int) -> None:
        self._count(len(text) + quotes)
        if any("\ud800" <= char <= "\udfff" for char in text):
            self._fail(CodecErrorCode.LONE_SURROGATE, LONE_SURROGATE_TEXT)

    def _fail(self, code: CodecErrorCode, message: str) -> NoReturn:
        path = pointer(self._steps)
        issues = (Issue(path, message),) if code is CodecErrorCode.INVALID else ()
        raise CodecError(code, f"{message}, at {path or 'the top'}", path=path, issues=issues)


def _kind(value: object) -> str:
    return type(value).__name__
