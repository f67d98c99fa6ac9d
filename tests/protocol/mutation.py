"""Makes many slightly wrong values out of a right one, always the same ones."""

import re
from collections.abc import Iterator

from pydantic import JsonValue

OTHERS: tuple[JsonValue, ...] = (
    *(None, True, False, 0, -1, 1.0, 1.5, 0.9999999999999999, 2**53, -(2**53), 10**30, 1e300),
    *("", "x", "1", "true", "x" * 600, "😀" * 512, "2026-02-29T00:00:00Z", "sha256:" + "0" * 64),
    *([], [None], {}, {"x": None}),
)
"""Replacements for any value."""

TAG_KEYS = frozenset({"type", "kind", "role", "scope", "decision", "status"})
TAGS = (
    *("turn.started", "session.completed", "planet.landed", "tool-call", "tool-result", "subagent-result"),
    *(
        "text",
        "file",
        "user",
        "tool",
        "all",
        "run",
        "allow",
        "modify",
        "completed",
        "__proto__",
        "constructor",
    ),
)
KEYS = ("newField", "__proto__", "constructor")
"""Field names that no type has."""


def mutants(value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    """Yield values that differ from this one in one place, and the change in words."""
    for other in OTHERS:
        yield f"becomes {str(other)[:20]!r}", other
    yield "is put in a list", [value]
    yield "is put in an object", {"value": value}
    match value:
        case dict():
            yield from _objects(value)
        case list():
            yield from _lists(value)
        case str():
            for what, text in (
                ("newline", value + "\n"),
                ("space", value + " "),
                ("capitals", value.upper()),
            ):
                yield f"changes by {what}", text
        case int() | float() if not isinstance(value, bool):
            for what, number in (
                ("as text", str(value)),
                ("as float", float(value)),
                ("half more", value + 0.5),
            ):
                yield what, number
        case _:
            pass


def _objects(value: dict[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    for key in KEYS:
        yield f"gets {key}", {**value, key: {"x": 1}}
        yield f"gets a null {key}", {**value, key: None}
    for key, inner in value.items():
        rest = {name: other for name, other in value.items() if name != key}
        yield f"loses {key}", rest
        snake = re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", key)
        if snake != key:
            yield f"has {key} written {snake}", {**rest, snake: inner}
            yield f"has {key} twice, also as {snake}", {**value, snake: inner}
        for what, other in mutants(inner):
            yield f"{key} {what}", {**value, key: other}
        if key in TAG_KEYS:
            for tag in TAGS:
                yield f"{key} becomes {tag}", {**value, key: tag}


def _lists(value: list[JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    yield "is doubled", value + value
    for index, inner in enumerate(value):
        yield f"loses {index}", value[:index] + value[index + 1 :]
        for what, other in mutants(inner):
            yield f"{index} {what}", [*value[:index], other, *value[index + 1 :]]
