"""Writes the pydantic models: for each schema file a stub with the types, and a module that makes them.

A model costs about 0.2 ms to define, and a program needs few of the 300. So each definition is a function,
called when its name is first asked for; the type checker and readers have the stub.
"""

import json
import keyword
import re
import subprocess
from collections.abc import Callable
from textwrap import wrap

from ruff import find_ruff_bin

from tools.gen.model import (
    AliasDef,
    AnyObject,
    Anything,
    Boolean,
    Choice,
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
    form,
    references,
    tag_of,
)
from tools.gen.order import ordered

WIDTH = 110
RENAMED = {"schema": "json_schema"}
"""Attributes that are a word of Python, or would hide something of pydantic's BaseModel."""
BUILT_IN = ("JsonObject",)
"""Definitions that _wire.py writes by hand."""
PACKAGE = "windlass_protocol.generated"
_CHECK = """
    @field_validator("data")
    @classmethod
    def _data_fits_its_type(cls, data: JsonObject, info: ValidationInfo) -> JsonObject:
        return check_data(EVENT_DATA, data, info)
"""
WIRE_NAMES = (
    *("Bool", "Closed", "EventModels", "ExactlyOne", "Float", "JsonObject", "KeepsNulls"),
    *("Maybe", "OnlyBool", "Open", "Str", "Tagged", "Says", "Whole", "check_data"),
)


def python_files(spec: Spec) -> dict[str, str]:
    """Return the text of every generated Python file by its name."""
    files = {f"{module_of(file.name)}.pyi": _stub(spec, file) for file in spec.files}
    files |= {f"{module_of(file.name)}.py": _makers(spec, file) for file in spec.files}
    files["__init__.py"] = _index(spec)
    files["values.py"] = _values(spec)
    return {name: formatted(text, name) for name, text in files.items()}


def formatted(text: str, name: str) -> str:
    """Return the text of a Python file in the format of the repository."""
    ruff = find_ruff_bin()
    options = [f"--line-length={WIDTH}", "--target-version=py311", f"--stdin-filename={name}"]
    command = [ruff, "format", "--isolated", *options, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def attribute(wire: str) -> str:
    """Return the Python name of a wire field."""
    name = RENAMED.get(wire) or re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", wire).lower()
    if keyword.iskeyword(name):
        raise SpecError(f"field {wire!r} is a Python keyword")
    return name


def module_of(file_name: str) -> str:
    """Return the module of a schema file."""
    return file_name.replace("-", "_")


def _stub(spec: Spec, file: SpecFile) -> str:
    definitions = [d for d in ordered(file.definitions) if d.name not in BUILT_IN]
    body = "\n\n".join(_definition(spec, d) for d in definitions)
    lines = [
        f"# Generated from spec/{file.name}.schema.json by `make gen`. Do not edit.",
        f'"""{file.doc}"""',
        "",
        *_imports(spec, file, file.definitions, body=body),
        "",
        "",
        body.strip("\n"),
        "",
    ]
    return "\n".join(lines)


def _makers(spec: Spec, file: SpecFile) -> str:
    definitions = [d for d in ordered(file.definitions) if d.name not in BUILT_IN]
    built_in = [d.name for d in file.definitions if d.name in BUILT_IN]
    table = "".join(f'    "{_name(d)}": _make_{_name(d)},\n' for d in definitions)
    lines = [
        f"# Generated from spec/{file.name}.schema.json by `make gen`. Do not edit.",
        f'"""{file.doc}\n\nThe types are made on first use; the .pyi file declares them.\n"""',
        "",
        *(f"from windlass_protocol._wire import {name} as {name}" for name in built_in),
        "from windlass_protocol.lazy import lazy_values as _lazy_values",
        *(_maker(spec, file, d) for d in definitions),
        f"__getattr__, __dir__ = _lazy_values(globals(), {{\n{table}}})",
        "",
    ]
    return "\n".join(lines)


def _maker(spec: Spec, file: SpecFile, definition: Definition) -> str:
    """Return the function that makes one definition."""
    name = _name(definition)
    match definition:
        case TableDef(_, _, rows):
            homes = {spec.home[row] for _, row in rows}
            if len(homes) != 1:
                raise SpecError(f"{definition.name}: the data of all types must be in one file")
            table = "".join(f'    "{value}": "{row}",\n' for value, row in rows)
            code = f'EVENT_DATA = EventModels("{PACKAGE}.{module_of(homes.pop())}", {{\n{table}}})'
        case ObjectDef() | EnumDef():
            # The name that pickle, repr and JSON Schema see: that of a class of the module.
            head, doc, rest = re.split(
                r'(""".*?""")', _definition(spec, definition), maxsplit=1, flags=re.DOTALL
            )
            code = f'{head}{doc}\n    __qualname__ = "{name}"{_without_docs(rest)}'
            if isinstance(definition, ObjectDef) and definition.has_typed_data:
                code += _CHECK
        case _:
            code = _without_docs(_definition(spec, definition))
    inside = [*_imports(spec, file, (definition,), body=code), "", *code.strip("\n").split("\n")]
    body = "\n".join(f"    {line}" if line else "" for line in inside)
    return f"\n\ndef _make_{name}() -> object:\n{body}\n    return {name}\n\n"


def _name(definition: Definition) -> str:
    return "EVENT_DATA" if isinstance(definition, TableDef) else definition.name


def _without_docs(code: str) -> str:
    return re.sub(r'\n *""".*?"""', "", code, flags=re.DOTALL)


def _imports(spec: Spec, file: SpecFile, definitions: tuple[Definition, ...], *, body: str) -> list[str]:
    """Return the imports that definitions need; other definitions of the file are imported as well."""
    code = re.sub(r'""".*?"""', "", body, flags=re.DOTALL)

    def used(name: str) -> bool:
        return re.search(rf"\b{name}\b", code) is not None

    standard: list[str] = []
    if used("Mapping"):
        standard.append("from collections.abc import Mapping")
    if used("StrEnum"):
        standard.append("from enum import StrEnum")
    if typing := [name for name in ("Annotated", "Literal") if used(name)]:
        standard.append(f"from typing import {', '.join(typing)}")
    pydantic = [
        name
        for name in (
            "BaseModel",
            "Field",
            "JsonValue",
            "StringConstraints",
            "ValidationInfo",
            "field_validator",
        )
        if used(name)
    ]
    external = [f"from pydantic import {', '.join(pydantic)}"] if pydantic else []
    own: list[str] = []
    built_in = {d.name for d in definitions if d.name in BUILT_IN}
    if wire := [
        f"{name} as {name}" if name in built_in else name
        for name in WIRE_NAMES
        if used(name) or name in built_in
    ]:
        own.append(f"from windlass_protocol._wire import {', '.join(wire)}")
    # The table names its models as texts: they are made on first use.
    named = [one for one in definitions if not isinstance(one, TableDef)]
    names = {name for definition in named for name in references(definition)}
    names -= {definition.name for definition in definitions}
    if "check_data(EVENT_DATA" in code:
        names.add("EVENT_DATA")
    homes = {**spec.home, "EVENT_DATA": file.name}
    for home in sorted({homes[name] for name in names}):
        wanted = sorted(name for name in names if homes[name] == home and name not in BUILT_IN)
        if wanted:
            own.append(_wrapped_import(f"{PACKAGE}.{module_of(home)}", wanted))
    groups = ["\n".join(group) for group in (standard, external, own) if group]
    return "\n\n".join(groups).split("\n")


def _wrapped_import(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")"


def _definition(spec: Spec, definition: Definition) -> str:
    match definition:
        case ObjectDef():
            return _object(definition)
        case EnumDef(name, doc, values):
            members = "\n".join(f'    {_member(value)} = "{value}"' for value in values)
            return f"\nclass {name}(StrEnum):\n{docstring(doc, '    ')}\n\n{members}\n"
        case UnionDef(name, doc, members):
            tag = attribute(tag_of(spec, definition))
            return (
                f"{name} = Annotated[\n    {' | '.join(members)},\n"
                f'    Field(discriminator="{tag}"),\n]\n{docstring(doc, "")}\n'
            )
        case AliasDef(name, doc, type_):
            expression = _expression(type_)
            if isinstance(type_, Text) and type_.pattern:
                expression = f"Annotated[{expression}, Says({json.dumps(form(doc))})]"
            return f"{name} = {expression}\n{docstring(doc, '')}\n"
        case TableDef(_, doc, _):
            return f"EVENT_DATA: Mapping[str, type[BaseModel]]\n{docstring(doc, '')}\n"


def _member(value: str) -> str:
    return value.replace("-", "_").replace(" ", "_").upper()


def _object(definition: ObjectDef) -> str:
    constants = tuple(attribute(field.wire) for field in definition.fields if _constant(field) is not None)
    bases = ["Open" if definition.is_open else "Closed"]
    if constants:
        bases.insert(0, "Tagged")
    if definition.exactly_one_of:
        bases.insert(0, "ExactlyOne")
    if any(keeps_null(field) for field in definition.fields):
        bases.insert(0, "KeepsNulls")
    lines = [f"\nclass {definition.name}({', '.join(bases)}):", docstring(definition.doc, "    "), ""]
    if definition.exactly_one_of:
        lines.append(f"    __exactly_one_of__ = {definition.exactly_one_of!r}\n")
    if constants:
        lines.append(f"    __constants__ = {constants!r}\n")
    required = [field for field in definition.fields if not _has_default(field)]
    optional = [field for field in definition.fields if _has_default(field)]
    for field in required + optional:
        lines.append(_field(field))
        lines.append(docstring(field.doc, "    "))
    return "\n".join(lines) + "\n"


def _has_default(field: Field) -> bool:
    return not field.is_required or _constant(field) is not None


def _constant(field: Field) -> str | int | bool | None:
    return field.type.values[0] if isinstance(field.type, Choice) and len(field.type.values) == 1 else None


def keeps_null(field: Field) -> bool:
    """Whether null is a value of a field that may be left out."""
    return not field.is_required and isinstance(field.type, Nullable | Anything)


def _field(field: Field) -> str:
    name, type_ = attribute(field.wire), _expression(field.type)
    if field.wire in RENAMED:
        alias = f'validation_alias="{field.wire}", serialization_alias="{field.wire}"'
        return f"    {name}: {type_} = Field({alias})"
    if (constant := _constant(field)) is not None:
        return f"    {name}: {type_} = {constant!r}"
    if field.has_empty_default:
        default = ", default_factory=dict[str, JsonValue]" if not field.is_required else ""
        return f"    {name}: {type_} = Field(validate_default=True{default})"
    if field.is_required:
        return f"    {name}: {type_}"
    if keeps_null(field):
        return f"    {name}: {type_} = None"
    return f"    {name}: Maybe[{type_}] = None"


def _expression(type_: Type) -> str:
    match type_:
        case Ref(name):
            return name
        case Text(None, None, None):
            return "Str"
        case Text(low, high, pattern):
            limits = {"min_length": low, "max_length": high, "pattern": pattern}
            given = [f"{key}={value!r}" for key, value in limits.items() if value is not None]
            return f"Annotated[Str, StringConstraints({', '.join(given)})]"
        case Number():
            return _number(type_)
        case Boolean():
            return "Bool"
        case Anything():
            return "JsonValue"
        case AnyObject():
            return "JsonObject"
        case Choice((bool() as value,)):
            return f"Annotated[Literal[{value}], OnlyBool()]"
        case Choice((int() as value,)):
            return f"Annotated[Literal[{value}], Whole({value}, {value})]"
        case Choice(values):
            return f"Literal[{', '.join(repr(value) for value in values)}]"
        case Listing(item, None, None):
            return f"tuple[{_expression(item)}, ...]"
        case Listing(item, low, high):
            limits = {"min_length": low, "max_length": high}
            given = [f"{key}={value}" for key, value in limits.items() if value is not None]
            return f"Annotated[tuple[{_expression(item)}, ...], Field({', '.join(given)})]"
        case Mapped(item):
            return f"dict[str, {_expression(item)}]"
        case Either(options):
            return " | ".join(_expression(option) for option in options)
        case Nullable(inner):
            return f"{_expression(inner)} | None"


def _number(number: Number) -> str:
    if number.is_integer:
        return f"Annotated[int, Whole({number.minimum}, {number.maximum})]"
    bounds = {"ge": number.minimum, "le": number.maximum}
    given = [f"{key}={value}" for key, value in bounds.items() if value is not None]
    return f"Annotated[Float, Field({', '.join(given)})]" if given else "Float"


def hint(
    type_: Type, reference: Callable[[str], str], *, mapping: str = "dict", json_object: str = "JsonObject"
) -> str:
    """Return the annotation of a value; `reference` returns that of a definition."""

    def inner(part: Type) -> str:
        return hint(part, reference, mapping=mapping, json_object=json_object)

    match type_:
        case Ref(name):
            return reference(name)
        case Text():
            return "str"
        case Number(is_integer):
            return "int" if is_integer else "float"
        case Boolean():
            return "bool"
        case Anything():
            return "JsonValue"
        case AnyObject():
            return json_object
        case Choice(values):
            return f"Literal[{', '.join(repr(value) for value in values)}]"
        case Listing(item):
            return f"Sequence[{inner(item)}]"
        case Mapped(item):
            return f"{mapping}[str, {inner(item)}]"
        case Either(options):
            return " | ".join(inner(option) for option in options)
        case Nullable(value):
            return f"{inner(value)} | None"


def docstring(doc: str, indent: str) -> str:
    """Return a description as a docstring."""
    if len(indent) + len(doc) + 6 <= WIDTH:
        return f'{indent}"""{doc}"""'
    lines = wrap(doc, WIDTH - len(indent) - 3)
    return f'{indent}"""' + f"\n{indent}".join(lines) + f'\n{indent}"""'


def _values(spec: Spec) -> str:
    """Return the module of the literal types: the values of each enum, and the known types of events."""
    choices: dict[str, list[str]] = {}
    for file in spec.files:
        for definition in file.definitions:
            match definition:
                case EnumDef(name, _, values):
                    choices[f"{name}Value"] = list(values)
                case TableDef(_, _, rows):
                    choices["EventTypeValue"] = [value for value, _ in rows]
                    choices["EventFamilyValue"] = [
                        *dict.fromkeys(value.partition(".")[0] for value, _ in rows)
                    ]
                case _:
                    pass
    body = "".join(
        f"{name} = Literal[{', '.join(repr(value) for value in values)}]\n"
        for name, values in sorted(choices.items())
    )
    return (
        "# Generated from spec/ by `make gen`. Do not edit.\n"
        '"""The values of each enum as literal types, for signatures that also take texts."""\n\n'
        f"from typing import Literal\n\n{body}"
    )


def _index(spec: Spec) -> str:
    homes = {
        "EVENT_DATA" if isinstance(d, TableDef) else d.name: module_of(file.name)
        for file in spec.files
        for d in file.definitions
    }
    by_module: dict[str, list[str]] = {}
    for name, module in sorted(homes.items()):
        by_module.setdefault(module, []).append(name)
    typed = "\n".join(
        f"    from {PACKAGE}.{module} import (\n" + "".join(f"        {n} as {n},\n" for n in names) + "    )"
        for module, names in sorted(by_module.items())
    )
    table = "".join(f'    "{name}": "{module}",\n' for name, module in sorted(homes.items()))
    return (
        "# Generated from spec/ by `make gen`. Do not edit.\n"
        '"""Every wire type by name; its module is imported when it is first asked for."""\n\n'
        "from typing import TYPE_CHECKING\n\n"
        f"if TYPE_CHECKING:\n{typed}\n\n"
        f"MODULE_OF: dict[str, str] = {{\n{table}}}\n"
    )
