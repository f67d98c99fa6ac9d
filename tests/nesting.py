"""Values of many levels."""

from pydantic import JsonValue


def nested(levels: int) -> JsonValue:
    """An object with this many levels."""
    value: JsonValue = 1
    for _ in range(levels):
        value = {"a": value}
    return value
