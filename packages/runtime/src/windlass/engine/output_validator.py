"""JSON Schema 2020-12 with bounds: nothing is fetched, and the work is counted.

This module brings in the validator, which takes longer to import than all the rest of an agent; it is
imported when the first answer has to fit a schema.
"""

from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from functools import lru_cache
from typing import Final, Protocol, cast

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend  # pyright: ignore[reportUnknownVariableType] - its stubs are partial
from pydantic import JsonValue
from referencing import Registry

from windlass.engine.output_formats import FORMATS
from windlass.limits import OUTPUT_CHECKS_MAX
from windlass.output_pattern import matches
from windlass_protocol import JsonObject, canonical, parse


class Validator(Protocol):
    """What a keyword may use of the library."""

    def iter_errors(self, instance: object) -> Iterator[ValidationError]:
        """Yield where a value misses the schema."""
        ...

    def descend(
        self, instance: object, schema: object, *, path: str | None = None, schema_path: str | None = None
    ) -> Iterator[ValidationError]:
        """Yield where a part of the value misses a part of the schema."""
        ...


Keyword = Callable[[Validator, object, object, JsonObject], Iterable[ValidationError] | None]

_LEFT: ContextVar[list[int]] = ContextVar("checks left")


class TooMuch(Exception):
    """Holding a value against a schema takes more work than it may."""


def meta_problem(schema: JsonObject) -> str | None:
    """Say what is wrong with a schema as a schema; None if nothing is."""
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        place = "/".join(str(part) for part in error.absolute_path)
        return f"it is not a JSON Schema (draft 2020-12), see /{place}"
    except RecursionError:
        return "it is nested too deep"
    return None


def validation_errors(schema: JsonObject, value: JsonValue) -> Iterator[ValidationError]:
    """Yield where a value misses a schema that has no problem.

    Raises:
        TooMuch: it takes too much work to say.
    """
    left = _LEFT.set([OUTPUT_CHECKS_MAX])
    try:
        yield from _validator(canonical(schema)).iter_errors(_quiet(value))
    except RecursionError:
        raise TooMuch from None
    finally:
        _LEFT.reset(left)


@lru_cache(maxsize=64)
def _validator(schema: bytes) -> Validator:
    body = cast(JsonObject, parse(schema))
    # With a dialect of its own, the library would go on with its own validator, which has no bounds.
    body.pop("$schema", None)
    registry: Registry[JsonValue] = Registry()
    return _BOUNDED(body, format_checker=_FORMATS, registry=registry)


# values whose representation costs nothing and tells nothing: the library puts it into every message


class _Object(dict[str, object]):
    def __repr__(self) -> str:
        return "an object"


class _List(list[object]):
    def __repr__(self) -> str:
        return "a list"


class _Text(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return "a text"


def _quiet(value: JsonValue) -> object:
    if isinstance(value, dict):
        return _Object({key: _quiet(one) for key, one in value.items()})
    if isinstance(value, list):
        return _List([_quiet(one) for one in value])
    return _Text(value) if isinstance(value, str) else value


# keywords


def _counted(keyword: Keyword) -> Keyword:
    def check(
        validator: Validator, value: object, instance: object, schema: JsonObject
    ) -> Iterable[ValidationError] | None:
        left = _LEFT.get()
        left[0] -= 1
        if left[0] < 0:
            raise TooMuch
        return keyword(validator, value, instance, schema)

    return check


def _pattern(
    validator: Validator, pattern: object, instance: object, schema: JsonObject
) -> Iterable[ValidationError]:
    if isinstance(instance, str) and not matches(str(pattern), instance):
        yield ValidationError("does not match")


def _pattern_properties(
    validator: Validator, patterns: object, instance: object, schema: JsonObject
) -> Iterable[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, inner in cast(dict[str, JsonObject], patterns).items():
        for key, one in cast(dict[str, object], instance).items():
            if matches(pattern, key):
                yield from validator.descend(one, inner, path=key, schema_path=pattern)


def _additional_properties(
    validator: Validator, inner: object, instance: object, schema: JsonObject
) -> Iterable[ValidationError]:
    if not isinstance(instance, dict):
        return
    known = cast(dict[str, object], schema.get("properties") or {})
    patterns = cast(dict[str, object], schema.get("patternProperties") or {})
    for key, one in cast(dict[str, object], instance).items():
        if key in known or any(matches(pattern, key) for pattern in patterns):
            continue
        if inner is False:
            error = ValidationError("is not known")
            error.path.appendleft(key)
            yield error
        else:
            yield from validator.descend(one, inner, path=key)


def _unique_items(
    validator: Validator, is_wanted: object, instance: object, schema: JsonObject
) -> Iterable[ValidationError]:
    if is_wanted and isinstance(instance, list):
        items = cast(list[JsonValue], instance)
        if len({canonical(one) for one in items}) < len(items):
            yield ValidationError("has equal elements")


_OWN: Final[dict[str, Keyword]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
}
_KEYWORDS: Final = cast(dict[str, Keyword], {**Draft202012Validator.VALIDATORS, **_OWN})
_extend = cast(Callable[[object, object], Callable[..., Validator]], extend)
_BOUNDED: Final = _extend(
    Draft202012Validator, {name: _counted(keyword) for name, keyword in _KEYWORDS.items()}
)
_FORMATS: Final = FormatChecker(formats=())
for _name, _check in FORMATS.items():
    _FORMATS.checks(_name)(_check)
