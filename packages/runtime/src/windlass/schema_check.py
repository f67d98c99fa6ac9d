"""Values that are held against a JSON Schema, for those below the engine."""

from pydantic import JsonValue

from windlass.limits import PROBLEMS_MAX
from windlass_protocol import JsonObject


def schema_faults(schema: JsonObject, value: JsonValue) -> tuple[str, ...]:
    """Say where a value misses a schema that has no problem; no value is quoted."""
    # Only a process that has such a schema pays for the validator.
    from windlass.engine.output_check import value_errors  # noqa: PLC0415 - slow to import

    errors = value_errors(schema, value, most=PROBLEMS_MAX)
    return tuple(f"{error.path or 'the top'}: {error.message}" for error in errors)
