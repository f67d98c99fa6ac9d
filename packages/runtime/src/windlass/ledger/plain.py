"""Values of all kinds as JSON: recording never fails because of one."""

from collections.abc import Mapping, Sequence
from itertools import islice
from math import isfinite
from typing import Final, NamedTuple, cast

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]
JsonObject = dict[str, JsonValue]

REPR_CHARS_MAX: Final = 2_000
"""Kept of the repr of a value that JSON has no form for."""
REPR_READ_CHARS_MAX: Final = 65_536
"""Read of it: it is cut after secrets are masked, because half a secret is not found."""
LEVELS_MAX: Final = 48
INTEGER_MAX: Final = 2**53 - 1
"""The largest whole number that every language can hold."""


class Size(NamedTuple):
    """How much is kept of a value that is too large for a record."""

    chars: int
    """Of one text."""
    items: int
    """Of one list or dictionary; more than any record has names of its own."""
    levels: int


_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""As every JSON writer of ours puts them."""
SIZES: Final = (Size(65_536, 1_024, 48), Size(4_096, 128, 16), Size(256, 16, 8), Size(64, 16, 4))
"""Tried in turn, until a record is small enough."""


def plain(value: object, *, items: int | None = None) -> JsonValue:
    """Return a value as JSON; what has no form there becomes a marked repr.

    The mark is an object with `$type`, the name of its type, and `$repr`. At most `items` of each list and
    dictionary are kept.
    """
    return _Plain(items).of(value, LEVELS_MAX)


def text_of(value: object) -> str:
    """Return a text that can be written anywhere; other values as they are printed."""
    if type(value) is not str:
        value = value if isinstance(value, str) else _repr(value)
    return value.encode("utf-8", "backslashreplace").decode()


def short(value: JsonValue) -> JsonValue:
    """Return a value with marked reprs of their usual length."""
    match value:
        case {"$type": _, "$repr": str() as told}:
            return {**value, "$repr": told[:REPR_CHARS_MAX]}
        case list():
            return [short(item) for item in value]
        case dict():
            return {key: short(item) for key, item in value.items()}
        case _:
            return value


def shrunk(value: JsonValue, size: Size) -> JsonValue:
    """Return a value of the same shape that is smaller: texts and lists are cut."""
    match value:
        case str() if len(value) > size.chars:
            return f"{value[: size.chars]}… [cut: {len(value) - size.chars:,} more]"
        case list():
            below = size._replace(levels=size.levels - 1)
            return [shrunk(item, below) for item in value[: size.items]] if size.levels else []
        case dict():
            below = size._replace(levels=size.levels - 1)
            entries = islice(value.items(), size.items) if size.levels else ()
            return {key: shrunk(item, below) for key, item in entries}
        case _:
            return value


class _Plain:
    """A value while it becomes JSON."""

    def __init__(self, items: int | None) -> None:
        self._items = items
        self._path: set[int] = set()
        """What it is inside of."""

    def of(self, value: object, levels: int) -> JsonValue:
        match value:
            case None | bool():
                return value
            case str():
                return text_of(str(value))
            case int():
                return int(value) if abs(value) <= INTEGER_MAX else _mark(value)
            case float():
                return float(value) if isfinite(value) else _NOT_FINITE[repr(float(value))]
            case _:
                pass
        if not isinstance(value, Mapping | list | tuple):
            return _mark(value)
        held = cast("Mapping[object, object] | Sequence[object]", value)
        if levels == 0 or id(held) in self._path:
            return _mark(held)
        self._path.add(id(held))
        try:
            return self._container(held, levels - 1)
        except Exception:  # noqa: BLE001 - a mapping of the caller's may do anything when it is read
            return _mark(held)
        finally:
            self._path.discard(id(held))

    def _container(self, value: Mapping[object, object] | Sequence[object], levels: int) -> JsonValue:
        if isinstance(value, Mapping):
            entries = islice(value.items(), self._items)
            return {text_of(key): self.of(item, levels) for key, item in entries}
        return [self.of(item, levels) for item in islice(value, self._items)]


def _mark(value: object) -> JsonObject:
    return {"$type": _name(value), "$repr": text_of(_repr(value))}


def _repr(value: object) -> str:
    try:
        return repr(value)[:REPR_READ_CHARS_MAX]
    except Exception:  # noqa: BLE001 - whatever it raises, there is nothing to show
        return f"<{_name(value)} that cannot be shown>"


def _name(value: object) -> str:
    return text_of(type(value).__name__)
