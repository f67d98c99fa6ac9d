"""Values of attributes: short, and writable as UTF-8."""

from collections.abc import Mapping

from pydantic import JsonValue

from windlass.ports.telemetry import Attribute
from windlass.telemetry.limits import ATTRIBUTE_CHARS_MAX


def clean_text(text: str, limit: int = ATTRIBUTE_CHARS_MAX) -> str:
    """Return a text as an attribute has it: cut, and without half characters."""
    cut = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return cut.encode("utf-8", "replace").decode()


def attribute(value: JsonValue) -> Attribute | None:
    """Return a plain value as an attribute; None for what is not one."""
    match value:
        case str():
            return clean_text(value)
        case bool() | int() | float():
            return value
        case list() if all(isinstance(item, str) for item in value):
            return tuple(clean_text(str(item)) for item in value[:16])
        case _:
            return None


def picked(facts: Mapping[str, JsonValue], names: Mapping[str, str]) -> dict[str, Attribute]:
    """Return the facts that have a name among attributes, under that name."""
    found = ((name, attribute(facts.get(fact))) for fact, name in names.items())
    return {name: value for name, value in found if value is not None}
