"""Writes the operations of the TypeScript client: a class for each group, a method for each operation."""

import json
import re

from tools.gen.client import STREAMS, class_name, fields_of
from tools.gen.model import (
    AnyObject,
    Anything,
    Boolean,
    Choice,
    Definition,
    Either,
    Listing,
    Mapped,
    Nullable,
    Number,
    ObjectDef,
    Ref,
    Spec,
    Text,
    Type,
)
from tools.gen.operations import Group, Method, Operation, Parameter

HEAD = """// Generated from spec/operations.json by `make gen`. Do not edit.
/** The operations of a server, by group. */
import * as wire from "../client/answers.js";
import { path, type RequestOptions, type Requests, type Requires } from "../client/requests.js";
import type { JsonValue } from "../wire.js";
"""


def typescript_client(spec: Spec, groups: tuple[Group, ...]) -> str:
    """Return the text of the operations."""
    definitions = {d.name: d for file in spec.files for d in file.definitions}
    parts = [HEAD]
    for group in groups:
        parts += [_query(operation) for operation in group.operations if operation.query]
        methods = "\n".join(
            _method(operation, method, definitions)
            for operation in group.operations
            for method in operation.methods
        )
        parts.append(
            f"/** {group.doc} */\nexport class {class_name(group)} {{\n"
            f"  constructor(private readonly requests: Requests) {{}}\n\n{methods}}}\n"
        )
    groups_of = "".join(
        f"  /** {group.doc} */\n  readonly {group.name}: {class_name(group)};\n" for group in groups
    )
    made = "".join(f"    this.{group.name} = new {class_name(group)}(requests);\n" for group in groups)
    parts.append(
        "/** All operations of a server. */\nexport class Operations {\n"
        f"{groups_of}\n  constructor(protected readonly requests: Requests) {{\n{made}  }}\n}}\n"
    )
    return "\n".join(parts)


def _query_name(operation: Operation) -> str:
    return "".join(f"{part[0].upper()}{part[1:]}" for part in (operation.group, operation.name)) + "Query"


def _query(operation: Operation) -> str:
    fields = "".join(
        f"  /** {_doc(parameter)} */\n"
        f"  readonly {parameter.wire}{'' if parameter.is_required else '?'}: {_type(parameter.type)}"
        f"{'' if parameter.is_required else ' | undefined'};\n"
        for parameter in operation.query
    )
    return (
        f"/** The query of `{operation.id}`. */\nexport interface {_query_name(operation)} {{\n{fields}}}\n"
    )


def _doc(parameter: Parameter) -> str:
    if parameter.default is None:
        return parameter.doc
    return f"{parameter.doc} By default {json.dumps(parameter.default)}."


def _method(operation: Operation, method: Method, definitions: dict[str, Definition]) -> str:
    arguments = [f"{item.wire}: {_type(item.type)}" for item in operation.ids]
    call = [f'method: "{operation.method}"', f"path: {_path(operation)}"]
    if operation.body is not None:
        kind, is_required = _body(operation, method, definitions)
        default = "" if is_required else " = {}"
        arguments.append(f"body: {kind}{default}")
        fixed = "".join(f", {name}: {json.dumps(value)}" for name, value in method.fixed.items())
        call.append(f"body: {{ ...body{fixed} }}" if fixed else "body")
    if operation.query:
        is_required = any(parameter.is_required for parameter in operation.query)
        arguments.append(f"query: {_query_name(operation)}{'' if is_required else ' = {}'}")
        call.append("query")
    if operation.headers:
        kinds = "".join(f'"{header.wire}"?: string; ' for header in operation.headers)
        arguments.append(f"headers: {{ {kinds}}} = {{}}")
        call.append("headers")
    if operation.method != "GET":
        call.append(f'repeat: "{operation.repeat}"')
    arguments.append("options?: RequestOptions")
    kind, ask = _answer(operation, method)
    request = f"{{ {', '.join(call)} }}"
    return (
        f"  /**\n{_lines(method.doc)}   */\n"
        f"  {method.name}({', '.join(arguments)}): {kind} {{\n"
        f"    return this.requests.{ask.format(request=request)};\n  }}\n"
    )


def _lines(doc: str) -> str:
    return "".join(f"   * {line}".rstrip() + "\n" for line in doc.split("\n"))


def _path(operation: Operation) -> str:
    template = re.sub(r"\{(\w+)\}", r"${\1}", operation.path)
    return f"path`{template}`" if operation.ids else json.dumps(template)


def _body(operation: Operation, method: Method, definitions: dict[str, Definition]) -> tuple[str, bool]:
    """Return the type of the body that a method takes, and whether it must be given."""
    definition = definitions[operation.body or ""]
    kind = f"wire.{operation.body}"
    if not isinstance(definition, ObjectDef):
        return kind, True
    if method.fields is not None:
        kind = f"Pick<{kind}, {_union(method.fields)}>"
    if method.requires:
        kind = f"Requires<{kind}, {_union(method.requires)}>"
    fields = fields_of(operation, method, definitions)
    return kind, bool(method.requires) or any(field.is_required for field in fields)


def _union(names: tuple[str, ...]) -> str:
    return " | ".join(json.dumps(name) for name in names)


def _answer(operation: Operation, method: Method) -> tuple[str, str]:
    if method.answer is not None:
        return f"Promise<wire.{method.answer}>", f"ask(wire.{method.answer}, {{request}}, options)"
    if set(operation.media) & set(STREAMS):
        accept = json.dumps(operation.media[-1])
        return "AsyncGenerator<string, void, undefined>", f"lines({{request}}, {accept}, options)"
    match operation.media:
        case ("application/octet-stream",):
            return "Promise<Uint8Array>", "bytes({request}, options)"
        case ("application/json",):
            return "Promise<JsonValue>", "json({request}, options)"
        case _:
            return "Promise<string>", "text({request}, options)"


def _type(type_: Type) -> str:
    match type_:
        case Ref(name):
            return f"wire.{name}"
        case Text():
            return "string"
        case Number():
            return "number"
        case Boolean():
            return "boolean"
        case Anything():
            return "JsonValue"
        case AnyObject():
            return "wire.JsonObject"
        case Choice(values):
            return " | ".join(json.dumps(value) for value in values)
        case Listing(item):
            return f"readonly ({_type(item)})[]"
        case Mapped(item):
            return f"Readonly<Record<string, {_type(item)}>>"
        case Either(options):
            return " | ".join(_type(option) for option in options)
        case Nullable(inner):
            return f"{_type(inner)} | null"
