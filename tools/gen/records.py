"""Writes the classes of records: the data of each type, and the objects that steps are made of."""

from typing import Final

from tools.gen.model import (
    AliasDef,
    Choice,
    Definition,
    EnumDef,
    Field,
    ObjectDef,
    Spec,
    SpecError,
    TableDef,
    Text,
    UnionDef,
    tag_of,
)
from tools.gen.order import ordered
from tools.gen.python import PACKAGE, RENAMED, attribute, docstring, formatted, hint, keeps_null, module_of

STRUCTS: Final = (
    *("ActionError", "BudgetUsage", "ContentRef", "PolicyDecision", "PolicyRef"),
    *("CacheLoss", "Price", "PricePart", "PromptCache", "Reservation"),
    *("RuntimeActionRequest", "RuntimeActionResult", "Usage"),
)
"""Objects inside of bodies that are structs; others are models, because applications hold them as such."""


def record_files(spec: Spec) -> dict[str, str]:
    """Return the text of the module of record classes by its name."""
    return {"records.py": formatted(_module(spec), "records.py")}


def _module(spec: Spec) -> str:
    known = {d.name: d for file in spec.files for d in file.definitions}
    table = next(d for d in known.values() if isinstance(d, TableDef))
    types = {data: kind for kind, data in table.rows}
    structs = {*types, *STRUCTS}
    for name in STRUCTS:
        definition = known[name]
        structs |= set(definition.members) if isinstance(definition, UnionDef) else set()
    made = _Classes(spec, known, structs, types)
    body = "".join(made.write(d) for d in ordered(tuple(known[name] for name in known if name in structs)))
    rows = "".join(f'    "{kind}": {made.name(data)},\n' for kind, data in table.rows)
    id_type = known["Id"]
    assert isinstance(id_type, AliasDef)
    enums, models = sorted(made.enums), sorted(made.models)
    homes = sorted({spec.home[name] for name in enums})
    return "\n".join(
        [
            "# Generated from spec/ by `make gen`. Do not edit.",
            '"""The data of each type of record as a class; see `windlass_protocol.bodies`."""\n',
            "from collections.abc import Sequence",
            "from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal\n",
            "from msgspec import UNSET, Meta, UnsetType\n",
            "from windlass_protocol.bodies import Body, Part, model",
            *(
                f"from {PACKAGE}.{module_of(home)} import "
                + ", ".join(name for name in enums if spec.home[name] == home)
                for home in homes
            ),
            "\nif TYPE_CHECKING:",
            "    from pydantic import JsonValue\n",
            "    from windlass_protocol._wire import JsonObject",
            *(
                f"    from {PACKAGE}.{module_of(home)} import "
                + ", ".join(name for name in models if spec.home[name] == home)
                for home in sorted({spec.home[name] for name in models})
            ),
            "else:",
            "    JsonValue = Any",
            "    JsonObject = dict[str, Any]",
            *(f'    {name} = model("{module_of(spec.home[name])}", "{name}")' for name in models),
            f"\nId = {_text(id_type)}\n\n",
            body,
            f"\nBODIES: dict[str, type[Body]] = {{\n{rows}}}",
            '"""The class of the data of each known type."""',
            "",
        ]
    )


def _text(alias: AliasDef) -> str:
    """Return a text with its lengths; patterns are left to the wire."""
    assert isinstance(alias.type, Text)
    return f"Annotated[str, Meta(min_length={alias.type.min_length}, max_length={alias.type.max_length})]"


class _Classes:
    """Writes structs, and collects what they need."""

    def __init__(
        self, spec: Spec, known: dict[str, Definition], structs: set[str], types: dict[str, str]
    ) -> None:
        self._spec = spec
        self._known = known
        self._structs = structs
        self._types = types
        self._tags = {
            member: tag_of(spec, d)
            for d in known.values()
            if isinstance(d, UnionDef) and d.name in structs
            for member in d.members
        }
        self.enums: set[str] = set()
        self.models: set[str] = set()

    def name(self, definition: str) -> str:
        """Return the name of a struct: that of its definition, without `Data`."""
        return definition.removesuffix("Data") if definition in self._types else definition

    def write(self, definition: Definition) -> str:
        """Return the text of a struct, or of a union of structs."""
        match definition:
            case ObjectDef():
                return self._struct(definition)
            case UnionDef(name, doc, members):
                return f"\n{name} = {' | '.join(members)}\n{docstring(doc, '')}\n\n"
            case _:
                raise SpecError(f"{definition.name} cannot be a struct")

    def _struct(self, definition: ObjectDef) -> str:
        tag, kind = self._tags.get(definition.name), self._types.get(definition.name)
        options = "frozen=True, kw_only=True"
        if tag is not None:
            (kinds,) = (one.type for one in definition.fields if one.wire == tag)
            assert isinstance(kinds, Choice)
            options += f", tag_field={tag!r}, tag={kinds.values[0]!r}"
        base = "Part" if kind is None else "Body"
        head = f"\nclass {self.name(definition.name)}({base}, {options}):"
        lines = [head, docstring(definition.doc, "    ")]
        if kind is not None:
            lines.append(f'\n    TYPE: ClassVar[str] = "{kind}"')
        for one in definition.fields:
            if one.wire != tag:
                lines += [f"    {self._field(one)}", docstring(one.doc, "    ")]
        return "\n".join(lines) + "\n\n"

    def _field(self, one: Field) -> str:
        if one.wire in RENAMED:
            raise SpecError(f"field {one.wire!r} of a struct would need a name of its own")
        name, kind = attribute(one.wire), hint(one.type, self._reference)
        if one.is_required:
            return f"{name}: {kind}"
        if keeps_null(one):
            return f"{name}: {kind} | UnsetType = UNSET"
        return f"{name}: {kind} | None = None"

    def _reference(self, name: str) -> str:
        if name in ("JsonObject", "Id"):
            return name
        match self._known[name]:
            case AliasDef(type=type_):
                return hint(type_, self._reference)
            case EnumDef():
                self.enums.add(name)
                return name
            case _ if name in self._structs:
                return self.name(name)
            case _:
                self.models.add(name)
                return name
