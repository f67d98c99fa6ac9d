"""Output schemas of strangers: refused if using one could fetch or never end.

The walk knows which keywords hold schemas, so a property may be called `format` or `$ref` like any other.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, cast
from urllib.parse import unquote

from pydantic import JsonValue

from windlass.limits import (
    SCHEMA_BYTES_MAX,
    SCHEMA_CHAIN_MAX,
    SCHEMA_ENUM_VALUES_MAX,
    SCHEMA_LEVELS_MAX,
    SCHEMA_PROPERTIES_MAX,
)
from windlass.output_pattern import pattern_problem
from windlass_harness.redact.shapes import is_secret_key
from windlass_protocol import CodecError, CodecLimits, JsonObject, canonical, parse

Path = tuple[str, ...]
Schema = JsonObject | bool

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_ONE: Final = frozenset(
    {
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAPS: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
_SAME_VALUE: Final = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
"""Keywords whose schemas look at the value itself, not at a part of it."""
_REFS: Final = frozenset({"$ref", "$dynamicRef"})
_LIMITS: Final = CodecLimits(message_bytes_max=SCHEMA_BYTES_MAX, depth_max=SCHEMA_LEVELS_MAX)


class _Unusable(Exception):
    """Why a schema cannot be used."""


def schema_problem(schema: JsonObject) -> str | None:
    """Say why answers cannot be held against a schema; None if they can."""
    try:
        return _problem(canonical(schema, _LIMITS))
    except CodecError as error:
        return error.message


@lru_cache(maxsize=64)
def _problem(schema: bytes) -> str | None:
    value = cast(JsonObject, parse(schema, _LIMITS))
    try:
        _Walk(value).check()
    except _Unusable as error:
        return str(error)
    # Only a run that must return something pays for the validator.
    from windlass.engine.output_validator import meta_problem  # noqa: PLC0415 - slow to import

    return meta_problem(value)


class _Walk:
    """A schema, taken apart."""

    def __init__(self, schema: JsonObject) -> None:
        self._nodes: dict[Path, Schema] = {}
        self._anchors: dict[str, Path] = {}
        self._properties = 0
        self._has_patterns = False
        self._has_leftovers = False
        self._add(schema, ())

    def check(self) -> None:
        """Raise if the schema cannot be used."""
        if self._has_patterns and self._has_leftovers:
            raise _Unusable("patternProperties and unevaluatedProperties cannot be used together")
        depths: dict[Path, int] = {}
        for path in self._nodes:
            self._depth(path, (), depths)

    def _add(self, schema: JsonValue, path: Path) -> None:
        if isinstance(schema, bool):
            self._nodes[path] = schema
        if not isinstance(schema, dict):
            return
        self._nodes[path] = schema
        self._check_words(schema, path)
        for key, value in schema.items():
            for part, inner in _inner(key, value):
                self._add(inner, (*path, *part))

    def _check_words(self, schema: JsonObject, path: Path) -> None:
        if schema.get("$schema", _DIALECT) not in (_DIALECT, f"{_DIALECT}#"):
            raise _Unusable("its dialect is not JSON Schema 2020-12")
        if path and "$id" in schema:
            raise _Unusable("only the whole schema may have an $id")
        for name in ("$anchor", "$dynamicAnchor"):
            anchor = schema.get(name)
            if isinstance(anchor, str):
                self._anchors[anchor] = path
        values, properties = schema.get("enum"), schema.get("properties")
        if isinstance(values, list) and len(values) > SCHEMA_ENUM_VALUES_MAX:
            raise _Unusable(f"too many enum values: {len(values):,}, limit {SCHEMA_ENUM_VALUES_MAX:,}")
        names = properties if isinstance(properties, dict) else {}
        secret = next(filter(is_secret_key, names), None)
        if secret is not None:
            raise _Unusable(
                f"the property {secret!r} names a secret, and the journal keeps none: its value would be "
                "masked; choose another name"
            )
        self._properties += len(names)
        if self._properties > SCHEMA_PROPERTIES_MAX:
            raise _Unusable(f"too many properties: over the limit of {SCHEMA_PROPERTIES_MAX:,}")
        self._check_patterns(schema)
        self._has_leftovers |= "unevaluatedProperties" in schema

    def _check_patterns(self, schema: JsonObject) -> None:
        pattern, keyed = schema.get("pattern"), schema.get("patternProperties")
        patterns = [pattern] if isinstance(pattern, str) else []
        if isinstance(keyed, dict):
            self._has_patterns = True
            patterns += keyed
        for one in patterns:
            problem = pattern_problem(one)
            if problem is not None:
                raise _Unusable(problem)

    def _depth(self, path: Path, trail: tuple[Path, ...], depths: dict[Path, int]) -> int:
        """How many schemas look at one and the same value, from here on."""
        if path in depths:
            return depths[path]
        if path in trail:
            raise _Unusable("a $ref leads back to itself without getting any deeper into the value")
        if len(trail) > SCHEMA_CHAIN_MAX:
            raise _Unusable(f"too many schemas refer to one another in a row, limit {SCHEMA_CHAIN_MAX}")
        inner = [self._depth(one, (*trail, path), depths) for one in self._same_value(path)]
        depths[path] = 1 + max(inner, default=0)
        if depths[path] > SCHEMA_CHAIN_MAX:
            raise _Unusable(f"too many schemas refer to one another in a row, limit {SCHEMA_CHAIN_MAX}")
        return depths[path]

    def _same_value(self, path: Path) -> Iterator[Path]:
        schema = self._nodes[path]
        if isinstance(schema, bool):
            return
        for key, value in schema.items():
            if key in _REFS:
                yield self._target(value)
            elif key in _SAME_VALUE:
                for part, inner in _inner(key, value):
                    if isinstance(inner, dict | bool):
                        yield (*path, *part)

    def _target(self, ref: JsonValue) -> Path:
        if not isinstance(ref, str) or not ref.startswith("#"):
            raise _Unusable("a $ref must stay inside the schema, as in #/$defs/…")
        name = unquote(ref[1:])
        if name and not name.startswith("/"):
            path = self._anchors.get(name)
        else:
            path = tuple(part.replace("~1", "/").replace("~0", "~") for part in name.split("/")[1:])
        if path is None or path not in self._nodes:
            raise _Unusable("a $ref leads to nothing that is a schema")
        return path


def _inner(key: str, value: JsonValue) -> Iterator[tuple[Path, JsonValue]]:
    """The schemas that a keyword holds, and where they are."""
    if key in _ONE:
        yield (key,), value
    elif key in _LISTS and isinstance(value, list):
        for index, one in enumerate(value):
            yield (key, str(index)), one
    elif key in _MAPS and isinstance(value, dict):
        for name, one in value.items():
            yield (key, name), one
