"""Output that must fit a schema: a tool of its own takes it."""

from typing import Final

from pydantic_core import to_json

from windlass.engine.output_check import check_output
from windlass.errors import wrong
from windlass.json_schema import schema_problem
from windlass_harness.loop.events import OutputChecked
from windlass_protocol import JsonObject, JsonValue, OutputContract, OutputError, SchemaVersion

FINAL_OUTPUT: Final = "final_output"
SCHEMA_ID: Final = "output"
NOT_FULFILLED: Final = "OUTPUT_SCHEMA_NOT_FULFILLED"
LATER: Final = f"The other calls have to end first. Call {FINAL_OUTPUT} again when you have their results."
ONCE: Final = f"Call {FINAL_OUTPUT} once; this answer calls it more often."
REMINDER: Final = f"The answer is not given yet: call {FINAL_OUTPUT} with it, and write nothing else."
_VALUE: Final = "value"
_FIRST: Final = SchemaVersion(major=1, minor=0, patch=0)


def check_schema(schema: JsonObject) -> None:
    """Refuse a schema that no output can be held against.

    Raises:
        Rejected: it cannot be used.
    """
    problem = schema_problem(schema)
    if problem is not None:
        raise wrong(f"outputSchema cannot be used: {problem}")


def output_tool(schema: JsonObject) -> JsonObject:
    """Return what the model is told of the tool that takes the output."""
    return {
        "name": FINAL_OUTPUT,
        "description": (
            "Give your final answer. Call it once, alone, when all other work is done; what you write beside "
            "it is not the answer."
        ),
        "inputSchema": schema if _is_object(schema) else _wrapped(schema),
    }


def _is_object(schema: JsonObject) -> bool:
    return schema.get("type") == "object"


def _wrapped(schema: JsonObject) -> JsonObject:
    """Arguments are objects; any other output is one property of them."""
    inner: JsonObject = {key: value for key, value in schema.items() if key != "$defs"}
    outer: JsonObject = {"type": "object", "properties": {_VALUE: inner}, "required": [_VALUE]}
    if "$defs" in schema:
        outer["$defs"] = schema["$defs"]
    return outer


def check_final(schema: JsonObject, given: JsonValue) -> OutputChecked:
    """Return the value of an output, or what is wrong with it."""
    if not _is_object(schema) and isinstance(given, dict):
        if _VALUE not in given:
            told = f"missing properties: {_VALUE}"
            return OutputChecked(None, (OutputError(path="", code="required", message=told),))
        given = given[_VALUE]
        text = to_json(given).decode()
    else:
        text = given if isinstance(given, str) else to_json(given).decode()
    contract = OutputContract(schema_id=SCHEMA_ID, schema_version=_FIRST, json_schema=schema)
    return check_output(contract, text)


def told(errors: tuple[OutputError, ...]) -> str:
    """Return what the model is told of an output that misses the schema."""
    lines = [f"- {error.path or 'the whole'}: {error.message}" for error in errors]
    return "\n".join(
        ["The output does not fit the schema:", *lines, f"Call {FINAL_OUTPUT} again, corrected."]
    )
