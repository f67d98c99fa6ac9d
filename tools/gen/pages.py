"""The page of event payloads: a table of the fields of each type, and an example, from spec/."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

Schema = dict[str, object]
HEAD: Final = """# Event payloads: the data of every event, with examples

For everyone who reads events: in Python as `event.data`, over HTTP and in the sidecar as `data`. The page
is made from `spec/` by `make gen`; the tests validate the examples. [events.md](events.md) says which types
a run writes, and how to subscribe. Fields that are not required may be absent, and readers ignore fields
that they do not know. In Python, `windlass_protocol` has a model for each type:
`RunWaitingData.model_validate(event.data)`.

"""


def page_files(spec: Path) -> dict[str, str]:
    """Return the generated pages by their names."""
    return {"payloads.md": HEAD + "\n".join(_sections(spec))}


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
        for field, one in fields.items():
            needed = ", required" if field in required else ""
            lines.append(f"| `{field}` | {_type(one)}{needed} | {one['description']} |")
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
        return " or ".join(_type(one) for one in cast("list[Schema]", schema["anyOf"]))
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
