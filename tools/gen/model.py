"""The schema files as a small typed model, for the writers of each language."""

from collections.abc import Mapping
from dataclasses import dataclass

Constant = str | int | bool


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
    minimum: float | None = None
    maximum: float | None = None


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

    values: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    item: "Type"
    min_items: int | None = None
    max_items: int | None = None


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
    doc: str
    definitions: tuple[Definition, ...]


@dataclass(frozen=True, slots=True)
class Spec:
    files: tuple[SpecFile, ...]
    home: Mapping[str, str]
    """File name by definition name."""


class SpecError(ValueError):
    """A schema file leaves the dialect that spec/README.md describes."""


def tag_of(spec: Spec, union: UnionDef) -> str:
    """Return the field with a constant that distinguishes the members of a union."""
    bodies = {d.name: d for file in spec.files for d in file.definitions if isinstance(d, ObjectDef)}
    tags: list[dict[str, Constant]] = []
    for member in union.members:
        if member not in bodies:
            raise SpecError(f"{union.name}: {member} is no object")
        tags.append(_constants(bodies[member]))
    common = set(tags[0]).intersection(*tags[1:])
    if len(common) != 1:
        raise SpecError(
            f"{union.name}: members must share exactly one constant field, found {sorted(common)}"
        )
    tag = common.pop()
    if len({constants[tag] for constants in tags}) < len(tags):
        raise SpecError(f"{union.name}: two members have the same {tag}")
    return tag


def _constants(definition: ObjectDef) -> dict[str, Constant]:
    return {
        field.wire: field.type.values[0]
        for field in definition.fields
        if field.is_required and isinstance(field.type, Choice) and len(field.type.values) == 1
    }


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
        case Listing(item=item) | Mapped(item) | Nullable(item):
            return _names(item)
        case Either(options):
            return tuple(name for option in options for name in _names(option))
        case _:
            return ()


def form(doc: str) -> str:
    """Return the description of a text as the end of the sentence "Expected …"."""
    return doc[0].lower() + doc[1:].removesuffix(".")
