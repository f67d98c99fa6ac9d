"""Canonical JSON (RFC 8785): one value, one sequence of bytes, for digests."""

from json.encoder import encode_basestring

from pydantic import JsonValue

_POINT_MAX = 21
_POINT_MIN = -6


def canonical_text(value: JsonValue) -> str:
    """Return the canonical text of a valid JSON value."""
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, dict):
        # The order of UTF-16 code units is that of the characters, if all of them are ASCII.
        keys = sorted(value) if "".join(value).isascii() else sorted(value, key=_utf16)
        members: list[str] = []
        for key in keys:
            member = value[key]
            written = encode_basestring(member) if type(member) is str else canonical_text(member)
            members.append(f"{encode_basestring(key)}:{written}")
        return "{" + ",".join(members) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(canonical_text, value)) + "]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return int.__repr__(value) if isinstance(value, int) else _number(value)


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def _number(value: float) -> str:
    """Write a finite double as ECMAScript's Number::toString does.

    Python and ECMAScript choose the same shortest digits but place the decimal point differently.
    """
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = float.__repr__(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    written = whole + fraction
    digits = written.lstrip("0")
    point = len(whole) - (len(written) - len(digits)) + int(exponent or 0)
    digits = digits.rstrip("0")
    return sign + _place(digits, point)


def _place(digits: str, point: int) -> str:
    count = len(digits)
    if count <= point <= _POINT_MAX:
        return digits + "0" * (point - count)
    if 0 < point <= _POINT_MAX:
        return f"{digits[:point]}.{digits[point:]}"
    if _POINT_MIN < point <= 0:
        return f"0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if count > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"
