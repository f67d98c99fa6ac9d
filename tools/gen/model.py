"""The schema files as a small typed model; a keyword it does not know is an error."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, cast

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Schema: TypeAlias = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Ref:
    name: str


@dataclass(frozen=True, slots=True)
class Text:
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class Number:
    is_integer: bool
    minimum: int | None = None
    maximum: int | None = None


@dataclass(frozen=True, slots=True)
class Boolean:
    pass


@dataclass(frozen=True, slots=True)
class Anything:
    pass


@dataclass(frozen=True, slots=True)
class AnyObject:
    pass


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some literal values."""

    values: tuple[str | int | bool, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    item: "Type"


@dataclass(frozen=True, slots=True)
class Mapped:
    item: "Type"


@dataclass(frozen=True, slots=True)
class Either:
    options: tuple["Type", ...]


@dataclass(frozen=True, slots=True)
class Nullable:
    inner: "Type"


Type = Ref | Text | Number | Boolean | Anything | AnyObject | Choice | Listing | Mapped | Either | Nullable


@dataclass(frozen=True, slots=True)
class Field:
    wire: str
    doc: str
    type: Type
    is_required: bool
    has_empty_default: bool


@dataclass(frozen=True, slots=True)
class ObjectDef:
    name: str
    doc: str
    fields: tuple[Field, ...]
    is_open: bool
    exactly_one_of: tuple[str, ...]
    has_typed_data: bool


@dataclass(frozen=True, slots=True)
class EnumDef:
    name: str
    doc: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnionDef:
    name: str
    doc: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AliasDef:
    name: str
    doc: str
    type: Type


@dataclass(frozen=True, slots=True)
class TableDef:
    """Ties each value of `type` to the definition that `data` must fit."""

    name: str
    doc: str
    rows: tuple[tuple[str, str], ...]


Definition = ObjectDef | EnumDef | UnionDef | AliasDef | TableDef


@dataclass(frozen=True, slots=True)
class SpecFile:
    name: str
    title: str
    doc: str
    definitions: tuple[Definition, ...]


@dataclass(frozen=True, slots=True)
class Spec:
    files: tuple[SpecFile, ...]
    home: Mapping[str, str]
    """File name by definition name."""


class SpecError(ValueError):
    """A schema file leaves the dialect that spec/README.md describes."""


def load_spec(folder: Path) -> Spec:
    """Read every schema file; raises SpecError that names the place."""
    files: list[SpecFile] = []
    home: dict[str, str] = {}
    for path in sorted(folder.glob("**/*.schema.json")):
        name = path.name.removesuffix(".schema.json")
        raw = cast(dict[str, Json], json.loads(path.read_text("utf-8")))
        _only(raw, f"{name}", "$schema", "$id", "title", "description", "$defs")
        if raw["$id"] != path.name:
            raise SpecError(f"{path.name}: $id is {raw['$id']!r}, expected the file's own name")
        definitions: list[Definition] = []
        for key, body in cast(dict[str, Schema], raw["$defs"]).items():
            if key in home:
                raise SpecError(f"{name}: {key} is also defined in {home[key]}")
            home[key] = name
            definitions.append(_definition(key, body, f"{name}.{key}"))
        files.append(SpecFile(name, str(raw["title"]), str(raw["description"]), tuple(definitions)))
    spec = Spec(tuple(files), home)
    _check_references(spec)
    return spec


def tag_of(spec: Spec, union: UnionDef) -> str:
    """Return the field whose constant tells the members of a union apart."""
    bodies = {d.name: d for file in spec.files for d in file.definitions if isinstance(d, ObjectDef)}
    tags: list[set[str]] = [
        {f.wire for f in bodies[member].fields if isinstance(f.type, Choice) and len(f.type.values) == 1}
        for member in union.members
    ]
    common = tags[0].intersection(*tags[1:])
    if len(common) != 1:
        raise SpecError(
            f"{union.name}: members must share exactly one constant field, found {sorted(common)}"
        )
    return common.pop()


def references(definition: Definition) -> tuple[str, ...]:
    """Return the names a definition refers to, in order, without repeats."""
    match definition:
        case ObjectDef(fields=fields):
            names = [name for field in fields for name in _names(field.type)]
        case UnionDef(members=members):
            names = list(members)
        case AliasDef(type=type_):
            names = list(_names(type_))
        case TableDef(rows=rows):
            names = [name for _, name in rows]
        case EnumDef():
            names = []
    return tuple(dict.fromkeys(names))


def _names(type_: Type) -> tuple[str, ...]:
    match type_:
        case Ref(name):
            return (name,)
        case Listing(item) | Mapped(item) | Nullable(item):
            return _names(item)
        case Either(options):
            return tuple(name for option in options for name in _names(option))
        case _:
            return ()


def _only(schema: Schema, where: str, *allowed: str) -> None:
    for keyword in schema:
        if keyword not in allowed:
            raise SpecError(f"{where}: keyword {keyword!r} is not in the dialect")


def _doc(schema: Schema, where: str) -> str:
    doc = schema.get("description")
    if not isinstance(doc, str) or not doc:
        raise SpecError(f"{where}: every definition and field needs a description")
    return doc


def _definition(name: str, schema: Schema, where: str) -> Definition:
    doc = _doc(schema, where)
    if "properties" in schema:
        return _object(name, schema, where)
    if "allOf" in schema:
        _only(schema, where, "description", "allOf")
        return TableDef(name, doc, tuple(_row(case, where) for case in cast(list[Schema], schema["allOf"])))
    if "oneOf" in schema:
        _only(schema, where, "description", "oneOf")
        members = tuple(
            _ref_name(cast(Schema, member), where) for member in cast(list[Json], schema["oneOf"])
        )
        return UnionDef(name, doc, members)
    type_ = _type({key: value for key, value in schema.items() if key != "description"}, where)
    if isinstance(type_, Choice):
        return EnumDef(name, doc, tuple(str(value) for value in type_.values))
    return AliasDef(name, doc, type_)


def _row(case: Schema, where: str) -> tuple[str, str]:
    condition = cast(dict[str, dict[str, dict[str, str]]], case["if"])
    then = cast(dict[str, dict[str, Schema]], case["then"])
    return condition["properties"]["type"]["const"], _ref_name(then["properties"]["data"], where)


def _object(name: str, schema: Schema, where: str) -> ObjectDef:
    _only(
        schema,
        where,
        "description",
        "type",
        "properties",
        "required",
        "additionalProperties",
        "oneOf",
        "allOf",
    )
    required = cast(list[str], schema.get("required", []))
    properties = cast(dict[str, Schema], schema["properties"])
    if unknown := set(required) - set(properties):
        raise SpecError(f"{where}: required names no property: {sorted(unknown)}")
    if not isinstance(schema.get("additionalProperties"), bool):
        raise SpecError(f"{where}: say additionalProperties true or false")
    fields = tuple(_field(key, body, key in required, f"{where}.{key}") for key, body in properties.items())
    alternatives = cast(list[dict[str, list[str]]], schema.get("oneOf", []))
    return ObjectDef(
        name,
        _doc(schema, where),
        fields,
        is_open=schema["additionalProperties"] is True,
        exactly_one_of=tuple(option["required"][0] for option in alternatives),
        has_typed_data="allOf" in schema,
    )


def _field(wire: str, schema: Schema, is_required: bool, where: str) -> Field:
    body = {key: value for key, value in schema.items() if key not in ("description", "default")}
    if "default" in schema and schema["default"] != {}:
        raise SpecError(f"{where}: the only default in the dialect is the empty object")
    return Field(wire, _doc(schema, where), _type(body, where), is_required, "default" in schema)


def _ref_name(schema: Schema, where: str) -> str:
    ref = schema.get("$ref")
    found = re.fullmatch(r"(?:[a-z-]+\.schema\.json)?#/\$defs/(\w+)", ref) if isinstance(ref, str) else None
    if not found:
        raise SpecError(f"{where}: expected a $ref to a definition, found {dict(schema)}")
    return found[1]


def _type(schema: Schema, where: str) -> Type:
    if not schema:
        return Anything()
    if "$ref" in schema:
        _only(schema, where, "$ref")
        return Ref(_ref_name(schema, where))
    if "const" in schema:
        _only(schema, where, "const")
        return Choice((cast(str | int | bool, schema["const"]),))
    if "anyOf" in schema:
        _only(schema, where, "anyOf")
        return _either(
            [_type_or_null(cast(Schema, option), where) for option in cast(list[Json], schema["anyOf"])]
        )
    kind = schema.get("type")
    if isinstance(kind, list):
        return _either([_type_or_null({**schema, "type": one}, where) for one in kind])
    return _plain(str(kind), schema, where)


def _type_or_null(schema: Schema, where: str) -> Type | None:
    return None if schema.get("type") == "null" else _type(schema, where)


def _either(options: list[Type | None]) -> Type:
    present = tuple(option for option in options if option is not None)
    inner = present[0] if len(present) == 1 else Either(present)
    return Nullable(inner) if None in options else inner


def _plain(kind: str, schema: Schema, where: str) -> Type:
    match kind:
        case "string" if "enum" in schema:
            _only(schema, where, "type", "enum")
            return Choice(tuple(cast(list[str], schema["enum"])))
        case "string":
            _only(schema, where, "type", "minLength", "maxLength", "pattern", "format")
            return Text(
                cast(int | None, schema.get("minLength")),
                cast(int | None, schema.get("maxLength")),
                cast(str | None, schema.get("pattern")),
            )
        case "integer" | "number":
            _only(schema, where, "type", "minimum", "maximum")
            return Number(
                kind == "integer",
                cast(int | None, schema.get("minimum")),
                cast(int | None, schema.get("maximum")),
            )
        case "boolean":
            _only(schema, where, "type")
            return Boolean()
        case "array":
            _only(schema, where, "type", "items")
            return Listing(_type(cast(Schema, schema["items"]), where))
        case "object":
            _only(schema, where, "type", "additionalProperties")
            extra = schema.get("additionalProperties")
            return AnyObject() if extra is True else Mapped(_type(cast(Schema, extra), where))
        case _:
            raise SpecError(f"{where}: type {kind!r} is not in the dialect")


def _check_references(spec: Spec) -> None:
    for file in spec.files:
        for definition in file.definitions:
            for name in references(definition):
                if name not in spec.home:
                    raise SpecError(f"{file.name}.{definition.name}: {name} is not defined anywhere")
