"""Writes the Zod validators; the TypeScript types are inferred from them."""

import json
import re

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
BUILT_IN = ("JsonObject",)
"""Definitions that wire.ts writes by hand."""
WIRE_NAMES = ("Json", "JsonObject", "exactlyOne", "open", "record", "text", "typedData")


def typescript_files(spec: Spec) -> dict[str, str]:
    """Return the text of every generated TypeScript file by its name."""
    files = {f"{file.name}.ts": _file(spec, file) for file in spec.files}
    exports = "".join(f'export * from "./{file.name}.js";\n' for file in spec.files)
    files["index.ts"] = f"// Generated from spec/ by `make gen`. Do not edit.\n{exports}"
    return files


def _file(spec: Spec, file: SpecFile) -> str:
    body = "\n".join(_definition(spec, d) for d in ordered(file.definitions) if d.name not in BUILT_IN)
    head = [
        f"// Generated from spec/{file.name}.schema.json by `make gen`. Do not edit.",
        f"/** {file.doc} */",
        *_imports(spec, file, body),
    ]
    return "\n".join(head) + "\n\n" + body


def _imports(spec: Spec, file: SpecFile, body: str) -> list[str]:
    lines: list[str] = []
    body = re.sub(r"/\*\*.*?\*/", "", body)
    if re.search(r"\bz\.", body):
        lines.append('import { z } from "zod";')
    if wire := [name for name in WIRE_NAMES if re.search(rf"\b{name}\b", body)]:
        lines.append(f'import {{ {", ".join(wire)} }} from "../wire.js";')
    names = {name for definition in file.definitions for name in references(definition)} - set(BUILT_IN)
    for home in sorted({spec.home[name] for name in names} - {file.name}):
        wanted = sorted(name for name in names if spec.home[name] == home)
        line = f'import {{ {", ".join(wanted)} }} from "./{home}.js";'
        if len(line) > WIDTH:
            line = "import {\n" + "".join(f"  {name},\n" for name in wanted) + f'}} from "./{home}.js";'
        lines.append(line)
    return lines


def _definition(spec: Spec, definition: Definition) -> str:
    doc = f"/** {definition.doc} */\n"
    name = definition.name
    infer = f"export type {name} = z.infer<typeof {name}>;\n"
    match definition:
        case ObjectDef():
            return f"{doc}export const {name} = {_object(definition)};\n{infer}"
        case EnumDef(values=values):
            return f"{doc}export const {name} = z.enum({json.dumps(list(values))});\n{infer}"
        case UnionDef(members=members):
            tag = tag_of(spec, definition)
            return (
                f'{doc}export const {name} = z.discriminatedUnion("{tag}", [{", ".join(members)}]);\n{infer}'
            )
        case AliasDef(type=Text() as type_) if type_.pattern:
            says = f"text({{ says: {json.dumps(form(definition.doc))}, "
            return f"{doc}export const {name} = {_expression(type_).replace('text({ ', says)};\n{infer}"
        case AliasDef(type=type_):
            return f"{doc}export const {name} = {_expression(type_)};\n{infer}"
        case TableDef(rows=rows):
            table = "".join(f'  "{value}": {data},\n' for value, data in rows)
            return (
                f"{doc}export const EVENT_DATA = {{\n{table}}} as const;\n"
                "export type EventDataByType = {\n"
                "  [K in keyof typeof EVENT_DATA]: z.infer<(typeof EVENT_DATA)[K]>;\n};\n"
            )


def _object(definition: ObjectDef) -> str:
    kind = "open" if definition.is_open else "z.strictObject"
    fields = "".join(
        f"  /** {field.doc} */\n  {field.wire}: {_field(field)},\n" for field in definition.fields
    )
    text = f"{kind}({{\n{fields}}})"
    if definition.exactly_one_of:
        text += f".superRefine(exactlyOne({json.dumps(list(definition.exactly_one_of))}))"
    if definition.has_typed_data:
        text += ".superRefine(typedData(EVENT_DATA))"
    return text


def _field(field: Field) -> str:
    text = _expression(field.type)
    if field.has_empty_default:
        return f"{text}.default({{}})"
    return text if field.is_required else f"{text}.optional()"


def _expression(type_: Type) -> str:
    match type_:
        case Ref(name):
            return name
        case Text(None, None, None):
            return "z.string()"
        case Text(low, high, pattern):
            limits = [f"{key}: {value}" for key, value in (("min", low), ("max", high)) if value is not None]
            if pattern is not None:
                limits.append(f'pattern: new RegExp({json.dumps(pattern)}, "u")')
            return f"text({{ {', '.join(limits)} }})"
        case Number(is_integer, low, high):
            bounds = "".join(
                f".{key}({value})" for key, value in (("min", low), ("max", high)) if value is not None
            )
            return ("z.int()" if is_integer else "z.number()") + bounds
        case Boolean():
            return "z.boolean()"
        case Anything():
            return "Json"
        case AnyObject():
            return "JsonObject"
        case Choice(values) if len(values) == 1:
            return f"z.literal({json.dumps(values[0])})"
        case Choice(values):
            return f"z.enum({json.dumps(list(values))})"
        case Listing(item, low, high):
            bounds = "".join(
                f".{key}({value})" for key, value in (("min", low), ("max", high)) if value is not None
            )
            return f"z.array({_expression(item)}){bounds}"
        case Mapped(item):
            return f"record({_expression(item)})"
        case Either(options):
            return f"z.union([{', '.join(_expression(option) for option in options)}])"
        case Nullable(inner):
            return f"{_expression(inner)}.nullable()"
