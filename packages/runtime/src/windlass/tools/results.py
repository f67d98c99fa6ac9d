"""Tool results as JSON for the journal.

Plain JSON is copied, so that a tool that keeps what it returned cannot change the journal. What is more is
written in its usual form: models and dataclasses as objects, enums as their values, times as ISO 8601, sets
as lists. What JSON lacks becomes an object with one key that begins with `$`, so that nobody takes it for
data: `$bytes` (base64), `$pairs` (a mapping whose keys are no texts), `$repr` (a number that is not finite),
`$omitted`. A value of any other type fails the call: the model hears which type it was, and that the tool has
run. A report of progress shows such a value as a `$repr`, cut short, because nothing depends on it.
"""

from base64 import b64encode
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite
from pathlib import PurePath
from typing import Final, cast
from uuid import UUID

from pydantic import BaseModel, JsonValue
from pydantic_core import PydanticSerializationError, from_json, to_json

from windlass.limits import (
    CONTENT_BYTES_MAX,
    LIGHT_CHARS_MAX,
    LIGHT_VALUES_MAX,
    NAME_CHARS_MAX,
    REPR_CHARS_MAX,
    RESULT_LEVELS_MAX,
    RESULT_VALUES_MAX,
)
from windlass_protocol import ToolResult
from windlass_protocol.canonical_json import canonical_text
from windlass_protocol.codec_values import is_sendable
from windlass_protocol.limits import INTEGER_MAX, CodecLimits

_LIMITS: Final = CodecLimits(message_bytes_max=CONTENT_BYTES_MAX, depth_max=RESULT_LEVELS_MAX)
_TEXTUAL: Final = (Decimal, PurePath, UUID)
_TIMES: Final = (datetime, date, time)


class NoJsonForm(TypeError):
    """A tool returned what JSON cannot hold; the words are for the model."""

    def __init__(self, kind: type) -> None:
        super().__init__(
            "the tool has run, and whatever it does is done, but its result cannot be shown: it holds a "
            f"value of type {kind.__name__[:NAME_CHARS_MAX]}; return texts, numbers, lists, dictionaries, "
            "dataclasses or pydantic models"
        )


def tool_result(value: object) -> ToolResult:
    """Return the result of a call; a tool may return a ToolResult itself.

    Raises:
        NoJsonForm: it holds a value that is no data.
    """
    if not isinstance(value, ToolResult):
        return ToolResult(success=True, data=_data(value))
    if "data" not in value.model_fields_set:
        return value
    return value.model_copy(update={"data": _data(value.data)})


def _data(value: object) -> JsonValue:
    if type(value) is str:
        return _text(value)
    walk = _Walk()
    data = result_value(value, walk)
    if walk.foreign is not None:
        raise NoJsonForm(walk.foreign)
    return data


def is_light(value: object) -> bool:
    """Whether a value is so small that nobody notices while it is looked through."""
    values, chars = 1, 0
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str | bytes):
            chars += len(one)
        elif isinstance(one, dict):
            values += len(cast(dict[object, object], one))
            left += cast(dict[object, object], one).values() if values <= LIGHT_VALUES_MAX else ()
        elif isinstance(one, list | tuple):
            values += len(cast(list[object], one))
            left += cast(list[object], one) if values <= LIGHT_VALUES_MAX else ()
        if values > LIGHT_VALUES_MAX or chars > LIGHT_CHARS_MAX:
            return False
    return True


def result_value(value: object, walk: "_Walk | None" = None) -> JsonValue:
    """Return any value as JSON that the journal can hold; see the module."""
    walk = walk or _Walk()
    if isinstance(value, str | int | float | bool) or value is None:
        return walk.value(value, 0)
    if is_sendable(value, _LIMITS):
        try:
            return from_json(to_json(value), allow_inf_nan=False)
        except PydanticSerializationError:  # a lone surrogate: the walk replaces it
            pass
    return walk.value(value, 0)


def shown_repr(value: object) -> str:
    """Return the repr of a value, cut short; also of one whose repr fails."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - the tool boundary: the code is the author's
        text = f"<{type(value).__name__}>"
    return _text(text if len(text) <= REPR_CHARS_MAX else f"{text[: REPR_CHARS_MAX - 1]}…")


@dataclass(slots=True)
class _Walk:
    """One walk through a value that is more than JSON."""

    path: set[int] = field(default_factory=set[int])
    values: int = 0
    foreign: type | None = None
    """The first type that has no JSON form."""

    def value(self, value: object, level: int) -> JsonValue:
        self.values += 1
        if self.values > RESULT_VALUES_MAX:
            return {"$omitted": f"more than {RESULT_VALUES_MAX:,} values"}
        if isinstance(value, Enum):
            return self.value(value.value, level)
        if value is None or isinstance(value, bool | str | int | float):
            return _scalar(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return {"$bytes": b64encode(cast(bytes, value)).decode("ascii")}
        if isinstance(value, _TIMES):
            return value.isoformat()
        if isinstance(value, timedelta):
            return cast(str, from_json(to_json(value)))
        if isinstance(value, _TEXTUAL):
            return _text(str(value))
        return self._inside(value, level)

    def _inside(self, value: object, level: int) -> JsonValue:
        if level >= RESULT_LEVELS_MAX:
            return {"$omitted": f"more than {RESULT_LEVELS_MAX} levels"}
        if id(value) in self.path:
            return {"$omitted": "a value inside itself"}
        self.path.add(id(value))
        try:
            return self._container(value, level + 1)
        finally:
            self.path.remove(id(value))

    def _container(self, value: object, level: int) -> JsonValue:
        if isinstance(value, BaseModel):
            return self._model(value, level)
        if isinstance(value, Mapping):
            return self._mapping(cast(Mapping[object, object], value), level)
        if isinstance(value, list | tuple):
            return [self.value(item, level) for item in cast(list[object], value)]
        if isinstance(value, AbstractSet):
            # A set has no order of its own, and the same result must be the same bytes.
            items = [self.value(item, level) for item in cast(AbstractSet[object], value)]
            return sorted(items, key=canonical_text)
        if is_dataclass(value) and not isinstance(value, type):
            return {part.name: self.value(getattr(value, part.name), level) for part in fields(value)}
        self.foreign = self.foreign or type(value)
        return {"$repr": shown_repr(value)}

    def _model(self, value: BaseModel, level: int) -> JsonValue:
        try:
            dump: object = value.model_dump(mode="json", by_alias=True, warnings=False)
        except ValueError:  # it holds something that pydantic cannot write
            dump = value.model_dump(by_alias=True, warnings=False)
        return self.value(dump, level)

    def _mapping(self, value: Mapping[object, object], level: int) -> JsonValue:
        entries = [(_key(key), self.value(item, level)) for key, item in value.items()]
        body: dict[str, JsonValue] = {key: item for key, item in entries if key is not None}
        if len(body) == len(entries):
            return body
        return {
            "$pairs": [[self.value(key, level), item] for key, (_, item) in zip(value, entries, strict=True)]
        }


def _key(key: object) -> str | None:
    """Return a key as JSON writes it; None if it has no such form."""
    if isinstance(key, Enum):
        return _key(key.value)
    if isinstance(key, str):
        return _text(key)
    if isinstance(key, bool) or not isinstance(key, int | date | UUID):
        return None
    return str(key)


def _scalar(value: str | float | None) -> JsonValue:
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        # Beyond this, other languages would read another number.
        return int(value) if -INTEGER_MAX <= value <= INTEGER_MAX else str(int(value))
    return float(value) if isfinite(value) else {"$repr": repr(float(value))}


def _text(text: str) -> str:
    """Return text that UTF-8 can hold: what is half a character is replaced."""
    if text.isascii():
        return str(text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
