"""How much memory a value takes, about, and quickly."""

from typing import Final

from pydantic import JsonValue

PART_BYTES: Final = 64
"""What each value takes beside its text, and each event beside its data."""
_WIDE: Final = 4
"""Bytes of a character, when a text has one that is not ASCII."""


def weight(value: JsonValue) -> int:
    """Return about how many bytes a value takes in memory.

    Long texts are not looked through, so the price is that of the number of parts.
    """
    total, left = 0, [value]
    while left:
        one = left.pop()
        total += PART_BYTES
        if isinstance(one, str):
            total += len(one) if one.isascii() else _WIDE * len(one)
        elif isinstance(one, dict):
            total += sum(map(len, one))
            left += one.values()
        elif isinstance(one, list):
            left += one
    return total
