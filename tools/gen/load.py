"""Reads the schema files; what leaves the dialect of spec/README.md is an error."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias, cast

from tools.gen.model import (
    AliasDef,
    AnyObject,
    Anything,
    Boolean,
    Choice,
    Constant,
    Definition,
    Either,
    EnumDef,
    Field,
    Listing,
    Mapped,
    Nullable,
    Number,
    ObjectDef,
    Ref,
    Spec,
    SpecError,
    SpecFile,
    TableDef,
    Text,
    Type,
    UnionDef,
)

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Schema: TypeAlias = Mapping[str, Json]

SUFFIX = ".schema.json"
DRAFT = "https://json-schema.org/draft/2020-12/schema"
INTEGER_MAX = 2**53 - 1
"""Largest integer on the wire: JavaScript holds no larger one exactly."""

_REFERENCE = re.compile(r"(?:[a-z-]+\.schema\.json)?#/\$defs/(\w+)")
_ENUM_VALUE = re.compile(r"[a-z][a-z0-9_ -]*")
_FIELD_NAME = re.compile(r"[a-z][a-z0-9]*(?:[A-Z][a-z0-9]+)*[A-Z]?")
_UNQUOTABLE = re.compile(r'"""|"$|\*/|\\')
# No dot, class or look-around: the regular expressions of Python, Rust and JavaScript differ there.
_PORTABLE_PATTERN = re.compile(r"\^(?:\\\.|\\u[0-9a-f]{4}|\(\?:|(?!\(\?)[^\\.$])*\$")


def load_spec(folder: Path) -> Spec:
    """Read every schema file; raises SpecError that names the place."""
    raw = {path.name: _read(path) for path in sorted(folder.glob("*.schema.json"))}
    home: dict[str, str] = {}
    files = tuple(_file(name, body, home) for name, body in raw.items())
    for name, body in raw.items():
        for ref in _references(body):
            file, definition = ref.split("#/$defs/")
            if home.get(definition) != (file or name).removesuffix(SUFFIX):
                raise SpecError(f"{name}: nothing is at {ref}")
    return Spec(files, home)


def _read(path: Path) -> dict[str, Json]:
    raw = cast(dict[str, Json], json.loads(path.read_text("utf-8")))
    check_keywords(raw, path.name, "$schema", "$id", "title", "description", "$defs")
    if raw.get("$schema") != DRAFT or raw.get("$id") != path.name:
        raise SpecError(f"{path.name}: expected $schema {DRAFT} and the file's own name as $id")
    return raw


def _references(value: Json) -> Iterator[str]:
    match value:
        case {"$ref": str(ref)}:
            yield ref
        case dict():
            for inner in value.values():
                yield from _references(inner)
        case list():
            for inner in value:
                yield from _references(inner)
        case _:
            pass


def _file(file_name: str, raw: Schema, home: dict[str, str]) -> SpecFile:
    name = file_name.removesuffix(SUFFIX)
    definitions: list[Definition] = []
    for key, body in cast(dict[str, Schema], raw["$defs"]).items():
        if key in home:
            raise SpecError(f"{name}: {key} is also defined in {home[key]}")
        home[key] = name
        definitions.append(_definition(key, body, f"{name}.{key}"))
    return SpecFile(name, read_doc(raw, name), tuple(definitions))


def check_keywords(schema: Schema, where: str, *allowed: str) -> None:
    for keyword in schema:
        if keyword not in allowed:
            raise SpecError(f"{where}: keyword {keyword!r} is not in the dialect")


def read_doc(schema: Schema, where: str) -> str:
    doc = schema.get("description")
    if not isinstance(doc, str) or not doc.endswith("."):
        raise SpecError(f"{where}: needs a description that ends with a full stop")
    if _UNQUOTABLE.search(doc):
        raise SpecError(f"{where}: the description holds what ends a comment")
    return doc


def _definition(name: str, schema: Schema, where: str) -> Definition:
    doc = read_doc(schema, where)
    if "properties" in schema:
        return _object(name, schema, where)
    if "allOf" in schema:
        check_keywords(schema, where, "description", "allOf")
        return TableDef(name, doc, tuple(_row(case, where) for case in cast(list[Schema], schema["allOf"])))
    if "oneOf" in schema:
        check_keywords(schema, where, "description", "oneOf")
        members = tuple(_ref_name(member, where) for member in cast(list[Schema], schema["oneOf"]))
        return UnionDef(name, doc, members)
    type_ = read_type({key: value for key, value in schema.items() if key != "description"}, where)
    if isinstance(type_, Choice):
        return EnumDef(name, doc, tuple(str(value) for value in type_.values))
    return AliasDef(name, doc, type_)


def _row(case: Schema, where: str) -> tuple[str, str]:
    match case:
        case {
            "if": {"properties": {"type": {"const": str(value)}}, "required": ["type"]},
            "then": {"properties": {"data": {"$ref": _} as data}},
        }:
            return value, _ref_name(cast(Schema, data), where)
        case _:
            raise SpecError(f"{where}: expected if type is a constant then data is a $ref, found {case}")


def _object(name: str, schema: Schema, where: str) -> ObjectDef:
    allowed = ("type", "properties", "required", "additionalProperties", "oneOf", "allOf")
    check_keywords(schema, where, "description", *allowed)
    required = cast(list[str], schema.get("required", []))
    properties = cast(dict[str, Schema], schema["properties"])
    if unknown := set(required) - set(properties):
        raise SpecError(f"{where}: required names no property: {sorted(unknown)}")
    if schema.get("type") != "object" or not isinstance(schema.get("additionalProperties"), bool):
        raise SpecError(f"{where}: say type object, and additionalProperties true or false")
    fields = tuple(_field(key, body, key in required, f"{where}.{key}") for key, body in properties.items())
    return ObjectDef(
        name,
        read_doc(schema, where),
        fields,
        is_open=schema["additionalProperties"] is True,
        exactly_one_of=tuple(
            _alternative(option, where) for option in cast(list[Json], schema.get("oneOf", []))
        ),
        has_typed_data="allOf" in schema,
    )


def _alternative(option: Json, where: str) -> str:
    match option:
        case {"required": [str(name)], **rest} if not rest:
            return name
        case _:
            raise SpecError(f"{where}: beside properties, oneOf only says which one field is required")


def _field(wire: str, schema: Schema, is_required: bool, where: str) -> Field:
    if not _FIELD_NAME.fullmatch(wire):
        raise SpecError(f"{where}: a field name is written in camelCase")
    body = {key: value for key, value in schema.items() if key not in ("description", "default")}
    if "default" in schema and schema["default"] != {}:
        raise SpecError(f"{where}: the only default in the dialect is the empty object")
    return Field(wire, read_doc(schema, where), read_type(body, where), is_required, "default" in schema)


def _ref_name(schema: Schema, where: str) -> str:
    ref = schema.get("$ref")
    found = _REFERENCE.fullmatch(ref) if isinstance(ref, str) else None
    if not found:
        raise SpecError(f"{where}: expected a $ref to a definition, found {dict(schema)}")
    return found[1]


def read_type(schema: Schema, where: str) -> Type:
    if not schema:
        return Anything()
    if "$ref" in schema:
        check_keywords(schema, where, "$ref")
        return Ref(_ref_name(schema, where))
    if "const" in schema:
        check_keywords(schema, where, "const")
        return Choice((cast(Constant, schema["const"]),))
    if "anyOf" in schema:
        check_keywords(schema, where, "anyOf")
        return _either(cast(list[Schema], schema["anyOf"]), where)
    kind = schema.get("type")
    if isinstance(kind, list):
        check_keywords(schema, where, "type")
        return _either([{"type": one} for one in kind], where)
    return _plain(str(kind), schema, where)


def _either(options: list[Schema], where: str) -> Type:
    present = tuple(read_type(option, where) for option in options if option.get("type") != "null")
    inner = present[0] if len(present) == 1 else Either(present)
    return inner if len(present) == len(options) else Nullable(inner)


def _plain(kind: str, schema: Schema, where: str) -> Type:
    match kind:
        case "string" if "enum" in schema:
            check_keywords(schema, where, "type", "enum")
            return Choice(tuple(_enum_value(value, where) for value in cast(list[str], schema["enum"])))
        case "string":
            return _text(schema, where)
        case "integer" | "number":
            return _number(kind, schema, where)
        case "boolean":
            check_keywords(schema, where, "type")
            return Boolean()
        case "array":
            check_keywords(schema, where, "type", "items", "minItems", "maxItems")
            low, high = cast(int | None, schema.get("minItems")), cast(int | None, schema.get("maxItems"))
            return Listing(read_type(_inner(schema, "items", where), where), low, high)
        case "object":
            check_keywords(schema, where, "type", "additionalProperties")
            if schema.get("additionalProperties") is True:
                return AnyObject()
            return Mapped(read_type(_inner(schema, "additionalProperties", where), where))
        case _:
            raise SpecError(f"{where}: type {kind!r} is not in the dialect")


def _inner(schema: Schema, keyword: str, where: str) -> Schema:
    inner = schema.get(keyword)
    if not isinstance(inner, dict):
        raise SpecError(f"{where}: {schema['type']} needs {keyword}")
    return inner


def _enum_value(value: str, where: str) -> str:
    if not _ENUM_VALUE.fullmatch(value):
        raise SpecError(f"{where}: enum value {value!r} makes no name")
    return value


def _text(schema: Schema, where: str) -> Text:
    check_keywords(schema, where, "type", "minLength", "maxLength", "pattern", "format")
    pattern = cast(str | None, schema.get("pattern"))
    if pattern is not None and not _PORTABLE_PATTERN.fullmatch(pattern):
        raise SpecError(f"{where}: languages read this pattern differently: {pattern}")
    if "format" in schema and pattern is None:
        raise SpecError(f"{where}: format is a remark; the pattern is what counts")
    low, high = cast(int | None, schema.get("minLength")), cast(int | None, schema.get("maxLength"))
    return Text(low, high, pattern)


def _number(kind: str, schema: Schema, where: str) -> Number:
    check_keywords(schema, where, "type", "minimum", "maximum")
    low = cast(float | None, schema.get("minimum"))
    high = cast(float | None, schema.get("maximum"))
    if kind == "number":
        return Number(False, low, high)
    if low is None or high is None or not -INTEGER_MAX <= low <= high <= INTEGER_MAX:
        raise SpecError(f"{where}: an integer needs a minimum and a maximum within ±{INTEGER_MAX}")
    return Number(True, low, high)
