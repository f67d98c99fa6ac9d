"""Any Python value as JSON: one walk for tool results, progress reports and recordings.

Models, dataclasses and mappings become objects, enums their values, times ISO 8601, sets sorted lists. A
value that JSON cannot hold is an object with a key that begins with `$`: `$bytes` (base64), `$pairs` (entries
with keys that are no texts), `$omitted` (a limit was reached, or a value contains itself), `$type` and
`$repr` (a type without a JSON form). A value that raises while it is read counts as a value of such a type.

This module imports no pydantic: a script that only records must start quickly.
"""

import json
import sys
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import field, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from itertools import islice
from math import isfinite
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Literal, TypeVar, cast
from uuid import UUID

from windlass.limits import (
    NAME_CHARS_MAX,
    REPR_CHARS_MAX,
    REPR_READ_CHARS_MAX,
    RESULT_VALUES_MAX,
)
from windlass_protocol.frozen import mutable, sealed
from windlass_protocol.limits import FREE_LEVELS_MAX, INTEGER_MAX

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pydantic import BaseModel, JsonValue
    from typing_extensions import TypeIs
else:
    JsonValue = object

JsonObject = dict[str, JsonValue]

T = TypeVar("T")

_INTEGER_BITS_MAX: Final = 8_192
"""A larger whole number is not written out: Python refuses more than 4,300 digits."""
_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_BINARY: Final[tuple[type, ...]] = (bytes, bytearray, memoryview)
_name_of = type.__dict__["__name__"].__get__


class NoJsonForm(TypeError):
    """A value holds another of a type that has no JSON form."""

    def __init__(self, kind: type) -> None:
        self.type_name = _type_name(kind)
        super().__init__(f"no JSON form: a value of type {self.type_name}")


@sealed
class JsonForm:
    """Limits of the walk, and the forms that differ between its users."""

    unknown: Literal["show", "refuse"] = "show"
    """Show a type without a JSON form as `$type` and `$repr`, or raise `NoJsonForm`."""
    binary: Literal["base64", "repr"] = "base64"
    """Base64 can be read back; in a repr, secrets are recognised by their shape and masked."""
    levels_max: int = FREE_LEVELS_MAX
    values_max: int = RESULT_VALUES_MAX
    """Of the whole value; the rest is left out."""
    items_max: int | None = None
    """Of each list, set and mapping; the rest is left out."""
    repr_chars_max: int = REPR_CHARS_MAX


SHOWN: Final = JsonForm()


def json_value(value: object, form: JsonForm = SHOWN) -> JsonValue:
    """Return a value as JSON that shares nothing with it.

    Raises:
        NoJsonForm: the form refuses types without a JSON form, and the value holds one.
    """
    return _Walk(form).value(value, 0)


def text_of(value: object, chars_max: int = REPR_READ_CHARS_MAX) -> str:
    """Return a text that UTF-8 can hold; of anything but a text, its repr.

    Surrogates that form a pair become one character, a lone one becomes its escape, such as `\\ud800`.
    """
    text = str.__str__(value) if isinstance(value, str) else _repr(value, chars_max)
    if text.isascii():
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return joined.encode("utf-8", "backslashreplace").decode()


@mutable
class _Walk:
    form: JsonForm
    path: set[int] = field(default_factory=set[int])
    """Containers that the current value is inside of."""
    values: int = 0

    def value(self, value: object, level: int) -> JsonValue:
        self.values += 1
        if self.values > self.form.values_max:
            return {"$omitted": f"more than {self.form.values_max:,} values"}
        try:
            return self._form_of(value, level)
        except NoJsonForm:
            raise
        except Exception:  # noqa: BLE001 - code of the value's author may raise anything
            return self._unknown(value)

    def _form_of(self, value: object, level: int) -> JsonValue:
        if isinstance(value, Enum):
            inner: object = value.value
            return self._unknown(value) if isinstance(inner, Enum) else self.value(inner, level)
        if value is None or isinstance(value, str | bool | int | float):
            return _scalar(value)
        text = _text_form(value)
        if text is not None:
            return text
        if self.form.binary == "base64" and isinstance(value, _BINARY):
            return {"$bytes": b64encode(cast(bytes, value)).decode("ascii")}
        if not _is_container(value):
            return self._unknown(value)
        if level >= self.form.levels_max:
            return {"$omitted": f"more than {self.form.levels_max} levels"}
        if id(value) in self.path:
            return {"$omitted": "a value inside itself"}
        self.path.add(id(value))
        try:
            return self._container(value, level + 1)
        finally:
            self.path.remove(id(value))

    def _container(self, value: object, level: int) -> JsonValue:
        if _is_model(value):
            return self.value(_dump(value), level)
        if isinstance(value, Mapping):
            return self._mapping(cast("Mapping[object, object]", value), level)
        if isinstance(value, list | tuple):
            return [self.value(item, level) for item in self._within_limits(cast("list[object]", value))]
        if isinstance(value, AbstractSet):
            items = [
                self.value(item, level) for item in self._within_limits(cast("AbstractSet[object]", value))
            ]
            # A set has no order, and equal results must be equal bytes.
            return sorted(items, key=lambda item: json.dumps(item, sort_keys=True, ensure_ascii=False))
        names = (part.name for part in fields(cast("DataclassInstance", value)))
        return {name: self.value(getattr(value, name), level) for name in self._within_limits(names)}

    def _mapping(self, value: Mapping[object, object], level: int) -> JsonValue:
        room = self.form.values_max - self.values + 1
        entries = list(islice(value.items(), min(room, self.form.items_max or room)))
        # A key that is a text stays a name, also beside keys that are none: secrets are masked by name.
        texts = {text_of(key) for key, _ in entries if isinstance(key, str)}
        body: JsonObject = {}
        pairs: list[JsonValue] = []
        for key, item in self._within_limits(entries):
            name = _key(key)
            if name is None or name in body or (name in texts and not isinstance(key, str)):
                pairs.append([self.value(key, level), self.value(item, level)])
            else:
                body[name] = self.value(item, level)
        return {**body, "$pairs": pairs} if pairs else body

    def _within_limits(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items until a limit is reached, also of an endless collection."""
        for item in islice(items, self.form.items_max):
            if self.values > self.form.values_max:
                return
            yield item

    def _unknown(self, value: object) -> JsonValue:
        if self.form.unknown == "refuse":
            raise NoJsonForm(type(value))
        return {"$type": _type_name(type(value)), "$repr": text_of(_repr(value, self.form.repr_chars_max))}


def _scalar(value: str | float | None) -> JsonValue:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return text_of(value)
    if isinstance(value, int):
        number = int.__int__(value)
        if number.bit_length() > _INTEGER_BITS_MAX:
            return {"$omitted": f"a whole number of {number.bit_length():,} bits"}
        # Other languages would read a larger one as another number.
        return number if abs(number) <= INTEGER_MAX else str(number)
    real = float.__float__(value)
    return real if isfinite(real) else _NOT_FINITE[repr(real)]


def _text_form(value: object) -> str | None:
    """Return the text that a time, a decimal number, a path or a UUID is written as."""
    if isinstance(value, datetime | date | time):
        return text_of(value.isoformat())
    if isinstance(value, Decimal | PurePath | UUID):
        return text_of(str(value))
    if isinstance(value, timedelta):
        from pydantic_core import from_json, to_json  # noqa: PLC0415 - slow to import

        return cast(str, from_json(to_json(value)))
    return None


def _key(key: object) -> str | None:
    """Return a key as the name of a property; None if it has no such form."""
    key = key.value if isinstance(key, Enum) else key
    if isinstance(key, str):
        return text_of(key)
    if isinstance(key, bool):
        return None
    if isinstance(key, int):
        return str(int.__int__(key)) if int.__int__(key).bit_length() <= _INTEGER_BITS_MAX else None
    return _text_form(key) if isinstance(key, date | UUID) else None


def _is_model(value: object) -> "TypeIs[BaseModel]":
    # There is no model in a process that never imported pydantic.
    models = sys.modules.get("pydantic.main")
    return models is not None and isinstance(value, models.BaseModel)


def _is_container(value: object) -> bool:
    if isinstance(value, Mapping | list | tuple | AbstractSet) or _is_model(value):
        return True
    return is_dataclass(value) and not isinstance(value, type)


def _dump(model: "BaseModel") -> object:
    try:
        return model.model_dump(mode="json", by_alias=True, warnings=False)
    except ValueError:  # a field holds a value that pydantic cannot write
        return model.model_dump(by_alias=True, warnings=False)


def _repr(value: object, chars_max: int) -> str:
    try:
        text = str.__str__(repr(value))
    except Exception:  # noqa: BLE001 - code of the value's author may raise anything
        return f"<{_type_name(type(value))}: repr() failed>"
    return text if len(text) <= chars_max else f"{text[: chars_max - 1]}…"


def _type_name(kind: type) -> str:
    return text_of(_name_of(kind))[:NAME_CHARS_MAX]
