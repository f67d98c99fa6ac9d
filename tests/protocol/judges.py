"""Three judges of a wire value: the schema, the Python types, the Zod validators."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from jsonschema import Draft202012Validator
from pydantic import JsonValue, TypeAdapter, ValidationError
from referencing import Registry, Resource

import windlass_protocol

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "spec"
EXAMPLES = SPEC / "examples"
WEB_DIST = ROOT / "web/protocol/dist/index.js"
NODE_JUDGE = Path(__file__).parent / "judge.mjs"

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A value and the type that it is tested against."""

    type: str
    name: str
    value: JsonValue

    def __str__(self) -> str:
        return f"{self.type}: {self.name}"


@cache
def spec_files() -> dict[str, Schema]:
    """Every schema file by its name, which is also its $id."""
    return {path.name: json.loads(path.read_text("utf-8")) for path in sorted(SPEC.glob("*.schema.json"))}


@cache
def definitions() -> dict[str, Schema]:
    """Every definition by its name, as the schema files write it."""
    return {name: body for file in spec_files().values() for name, body in file["$defs"].items()}


def event_types() -> dict[str, str]:
    """The definition of the data of each event type."""
    rows = definitions()["TypedData"]["allOf"]
    return {
        row["if"]["properties"]["type"]["const"]: row["then"]["properties"]["data"]["$ref"].split("/")[-1]
        for row in rows
    }


@cache
def examples(folder: str) -> tuple[Case, ...]:
    """Every example of spec/examples/valid or /invalid."""
    return tuple(
        Case(path.stem, name, value)
        for path in sorted((EXAMPLES / folder).glob("*.json"))
        for name, value in cast(dict[str, JsonValue], json.loads(path.read_text("utf-8"))).items()
    )


def _for_python(schema: Any) -> Any:
    # JSON Schema means the `$` of ECMA-262; that of Python also matches before a final newline.
    match schema:
        case dict():
            body = cast(Schema, schema)
            return {
                key: value.removesuffix("$") + r"\Z"
                if key == "pattern" and isinstance(value, str)
                else _for_python(value)
                for key, value in body.items()
            }
        case list():
            return [_for_python(value) for value in cast(list[Any], schema)]
        case _:
            return schema


@cache
def _registry() -> Registry[Any]:
    files = ((name, Resource[Any].from_contents(_for_python(file))) for name, file in spec_files().items())
    return Registry[Any]().with_resources(files)


@cache
def _schema_validator(type_: str) -> Any:
    home = next(name for name, file in spec_files().items() if type_ in file["$defs"])
    return Draft202012Validator({"$ref": f"{home}#/$defs/{type_}"}, registry=_registry())


def schema_accepts(case: Case) -> bool:
    """Ask the JSON Schema in spec/."""
    return bool(_schema_validator(case.type).is_valid(case.value))


@cache
def adapter(type_: str) -> TypeAdapter[Any]:
    """The Python type of that name as pydantic checks it."""
    return TypeAdapter(getattr(windlass_protocol, type_))


def python_accepts(case: Case) -> bool:
    """Ask the generated Python type, by the rules of the wire."""
    try:
        adapter(case.type).validate_json(json.dumps(case.value), strict=True, by_alias=True, by_name=False)
    except ValidationError:
        return False
    return True


def zod_accepts(cases: Sequence[Case]) -> list[bool]:
    """Ask the generated TypeScript validators, all cases in one process of node."""
    node = shutil.which("node")
    assert node, "node is not installed: the TypeScript validators cannot be asked"
    assert WEB_DIST.is_file(), f"{WEB_DIST.relative_to(ROOT)} is missing: run `make check`, which builds it"
    lines = "".join(json.dumps([case.type, case.value]) + "\n" for case in cases)
    done = subprocess.run([node, NODE_JUDGE], input=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    verdicts = cast(list[bool], json.loads(done.stdout))
    assert len(verdicts) == len(cases)
    return verdicts
