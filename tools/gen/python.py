"""Writes the pydantic models."""

import json
import keyword
import re
import subprocess
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
RENAMED = {"from": "start", "schema": "json_schema"}
"""Attributes that are a word of Python, or would hide something of pydantic's BaseModel."""
BUILT_IN = ("JsonObject",)
"""Definitions that _wire.py writes by hand."""
PACKAGE = "windlass_protocol.generated"
WIRE_NAMES = (
    *("Bool", "Closed", "ExactlyOne", "Float", "JsonObject", "KeepsNulls"),
    *("Maybe", "OnlyBool", "Open", "Str", "Tagged", "Says", "Whole", "check_data"),
)


def python_files(spec: Spec) -> dict[str, str]:
    """Return the text of every generated Python file by its name."""
    files = {f"{_module(file.name)}.py": _file(spec, file) for file in spec.files}
    files["__init__.py"] = _index(spec)
    return {name: _formatted(text) for name, text in files.items()}


def _formatted(text: str) -> str:
    ruff = find_ruff_bin()
    command = [ruff, "format", "--isolated", f"--line-length={WIDTH}", "--target-version=py311", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def attribute(wire: str) -> str:
    """Return the Python name of a wire field."""
    name = RENAMED.get(wire) or re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", wire).lower()
    if keyword.iskeyword(name):
        raise SpecError(f"field {wire!r} is a Python keyword")
    return name


def _module(file_name: str) -> str:
    return file_name.replace("-", "_")


def _file(spec: Spec, file: SpecFile) -> str:
    body = "\n\n".join(_definition(spec, d) for d in ordered(file.definitions) if d.name not in BUILT_IN)
    lines = [
        f"# Generated from spec/{file.name}.schema.json by `make gen`. Do not edit.",
        f'"""{file.doc}"""',
        "",
        *_imports(spec, file, body),
        "",
        "",
        body.strip("\n"),
        "",
    ]
    return "\n".join(lines)


def _imports(spec: Spec, file: SpecFile, body: str) -> list[str]:
    code = re.sub(r'""".*?"""', "", body, flags=re.DOTALL)

    def used(name: str) -> bool:
        return re.search(rf"\b{name}\b", code) is not None

    standard: list[str] = []
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
    built_in = {d.name for d in file.definitions if d.name in BUILT_IN}
    if wire := [
        f"{name} as {name}" if name in built_in else name
        for name in WIRE_NAMES
        if used(name) or name in built_in
    ]:
        own.append(f"from windlass_protocol._wire import {', '.join(wire)}")
    names = {name for definition in file.definitions for name in references(definition)}
    for home in sorted({spec.home[name] for name in names} - {file.name}):
        wanted = sorted(name for name in names if spec.home[name] == home and name not in BUILT_IN)
        if wanted:
            own.append(_wrapped_import(f"{PACKAGE}.{_module(home)}", wanted))
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
            return f"\nclass {name}(StrEnum):\n{_text(doc, '    ')}\n\n{members}\n"
        case UnionDef(name, doc, members):
            tag = attribute(tag_of(spec, definition))
            return (
                f"{name} = Annotated[\n    {' | '.join(members)},\n"
                f'    Field(discriminator="{tag}"),\n]\n{_text(doc, "")}\n'
            )
        case AliasDef(name, doc, type_):
            expression = _expression(type_)
            if isinstance(type_, Text) and type_.pattern:
                expression = f"Annotated[{expression}, Says({json.dumps(form(doc))})]"
            return f"{name} = {expression}\n{_text(doc, '')}\n"
        case TableDef(_, doc, rows):
            table = "".join(f'    "{value}": {name},\n' for value, name in rows)
            return f"EVENT_DATA: dict[str, type[BaseModel]] = {{\n{table}}}\n{_text(doc, '')}\n"


def _member(value: str) -> str:
    return value.replace("-", "_").upper()


def _object(definition: ObjectDef) -> str:
    constants = tuple(attribute(field.wire) for field in definition.fields if _constant(field) is not None)
    bases = ["Open" if definition.is_open else "Closed"]
    if constants:
        bases.insert(0, "Tagged")
    if definition.exactly_one_of:
        bases.insert(0, "ExactlyOne")
    if any(_keeps_null(field) for field in definition.fields):
        bases.insert(0, "KeepsNulls")
    lines = [f"\nclass {definition.name}({', '.join(bases)}):", _text(definition.doc, "    "), ""]
    if definition.exactly_one_of:
        lines.append(f"    __exactly_one_of__ = {definition.exactly_one_of!r}\n")
    if constants:
        lines.append(f"    __constants__ = {constants!r}\n")
    required = [field for field in definition.fields if not _has_default(field)]
    optional = [field for field in definition.fields if _has_default(field)]
    for field in required + optional:
        lines.append(_field(field))
        lines.append(_text(field.doc, "    "))
    if definition.has_typed_data:
        lines.append(
            '\n    @field_validator("data")\n    @classmethod\n'
            "    def _data_fits_its_type(cls, data: JsonObject, info: ValidationInfo) -> JsonObject:\n"
            "        return check_data(EVENT_DATA, data, info)"
        )
    return "\n".join(lines) + "\n"


def _has_default(field: Field) -> bool:
    return not field.is_required or _constant(field) is not None


def _constant(field: Field) -> str | int | bool | None:
    return field.type.values[0] if isinstance(field.type, Choice) and len(field.type.values) == 1 else None


def _keeps_null(field: Field) -> bool:
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
    if _keeps_null(field):
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


def _text(doc: str, indent: str) -> str:
    if len(indent) + len(doc) + 6 <= WIDTH:
        return f'{indent}"""{doc}"""'
    lines = wrap(doc, WIDTH - len(indent) - 3)
    return f'{indent}"""' + f"\n{indent}".join(lines) + f'\n{indent}"""'


def _index(spec: Spec) -> str:
    homes = {
        "EVENT_DATA" if isinstance(d, TableDef) else d.name: _module(file.name)
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
