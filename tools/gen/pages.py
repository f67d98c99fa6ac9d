"""The pages of event payloads and of routes, from spec/."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

from tools.gen.operations import Group, Operation, Parameter

Schema = dict[str, object]
HEAD: Final = """# Event payloads: the data of every event, with examples

For everyone who reads events: in Python as `event.data`, over HTTP and in the sidecar as `data`. The page
is made from `spec/` by `make gen`; the tests validate the examples. [events.md](events.md) says which types
a run writes, and how to subscribe. Fields that are not required may be absent, and readers ignore fields
that they do not know. In Python, `windlass_protocol` has a model for each type:
`RunWaitingData.model_validate(event.data)`.

"""


ROUTES: Final = """# Routes: every operation of the server, over HTTP and in the clients

For everyone who calls a [server](server.md). The page is made from `spec/` by `make gen`; the methods of the
[Python client](client.md) and of `@windlass/protocol/client` are too, and the OpenAPI document at
`/v1/openapi.json`, which has the fields of bodies and answers. `sessions.list` is `client.sessions.list(…)`
in both clients. Names are in camelCase on the wire and in TypeScript, and in snake_case in Python.

A query with a name that its route does not take, or with a value outside the set of its parameter, is refused
with 422. A list has pages: `after` is the `next` of the page before. What a repeated request does is said at
each operation that writes; [server.md](server.md#routes) says more of `Idempotency-Key`.

"""
_WITH_KEY: Final = "A request that is repeated with its `Idempotency-Key` has one effect."
_REPEATS: Final = {
    "harmless": "A repeated request has no further effect.",
    "keyed": _WITH_KEY,
    "derived": _WITH_KEY,
    "refused": "A request must not be repeated blindly.",
}
_WHO: Final = {
    "public": "Needs no credentials.",
    "user": "",
    "improver": "For keys with the role improver.",
    "operator": "For keys of operators.",
}


def page_files(spec: Path, groups: tuple[Group, ...]) -> dict[str, str]:
    """Return the generated pages by their names."""
    routes = ROUTES + "\n".join(_group(group) for group in groups)
    return {"payloads.md": HEAD + "\n".join(_sections(spec)), "routes.md": routes}


def _group(group: Group) -> str:
    head = f"## {group.name}\n\n{group.doc}\n\n"
    return head + "\n".join(_operation(operation) for operation in group.operations)


def _operation(operation: Operation) -> str:
    names = [f"{operation.group}.{method.name}" for method in operation.methods]
    body = f" takes `{operation.body}`" if operation.body not in (None, "JsonObject") else ""
    answer = (
        f"`{operation.answer}`" if operation.answer else " or ".join(f"`{kind}`" for kind in operation.media)
    )
    lines = [
        f"### {', '.join(names)}",
        "",
        f"`{operation.method} {operation.path}`{body}; the answer is {operation.status} with {answer}.",
        "",
        operation.doc,
        "",
    ]
    notes = [_WHO[operation.who], "" if operation.method == "GET" else _REPEATS[operation.repeat]]
    if any(notes):
        lines += [" ".join(filter(None, notes)), ""]
    parameters = [*operation.query, *operation.headers]
    if parameters:
        lines += ["| parameter | type | meaning |", "|---|---|---|"]
        lines += [f"| `{item.wire}` | {_parameter_type(item)} | {item.doc} |" for item in parameters]
        lines.append("")
    return "\n".join(lines)


def _parameter_type(parameter: Parameter) -> str:
    kind = _type(cast(Schema, parameter.schema))
    needed = ", required" if parameter.is_required else ""
    default = "" if parameter.default is None else f", {json.dumps(parameter.default)} by default"
    return f"{kind}{needed}{default}"


def _sections(spec: Path) -> Iterator[str]:
    definitions = cast("dict[str, Schema]", _read(spec / "event-data.schema.json")["$defs"])
    examples = cast("dict[str, Schema]", _read(spec / "examples" / "valid" / "Event.json"))
    typed = cast("dict[str, Schema]", _read(spec / "events.schema.json")["$defs"])["TypedData"]
    for case in cast("list[dict[str, Schema]]", typed["allOf"]):
        properties = cast("dict[str, Schema]", case["if"]["properties"])
        data = cast("dict[str, Schema]", case["then"]["properties"])["data"]
        name = str(properties["type"]["const"])
        definition = str(data["$ref"]).rpartition("/")[2]
        yield _section(name, definition, definitions[definition], examples[name].get("data"))


def _section(name: str, definition: str, schema: Schema, example: object) -> str:
    lines = [f"## {name}", "", f"{schema['description']} Model: `{definition}`.", ""]
    fields = cast("dict[str, Schema]", schema.get("properties", {}))
    if fields:
        required = cast("list[str]", schema.get("required", []))
        lines += ["| field | type | meaning |", "|---|---|---|"]
        for field, part in fields.items():
            needed = ", required" if field in required else ""
            lines.append(f"| `{field}` | {_type(part)}{needed} | {part['description']} |")
        lines.append("")
    lines += ["```json", json.dumps(example or {}, indent=2, ensure_ascii=False), "```", ""]
    return "\n".join(lines)


def _type(schema: Schema) -> str:
    """Return a type in words."""
    if "$ref" in schema:
        return f"`{str(schema['$ref']).rpartition('/')[2]}`"
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in cast("list[str]", schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(_type(option) for option in cast("list[Schema]", schema["anyOf"]))
    kind = schema.get("type")
    if kind == "array":
        return f"list of {_type(cast(Schema, schema['items']))}"
    if isinstance(kind, list):
        return " or ".join(cast("list[str]", kind))
    more = schema.get("additionalProperties")
    if kind == "object" and isinstance(more, dict):
        return f"object of {_type(cast(Schema, more))}"
    return str(kind or "any JSON")


def _read(path: Path) -> Schema:
    return cast(Schema, json.loads(path.read_text("utf-8")))
