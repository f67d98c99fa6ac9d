"""Canonical JSON against the examples of RFC 8785."""

import json
import struct

import pytest
from pydantic import JsonValue

from windlass_protocol import SessionCursor
from windlass_protocol.codec import CodecError, canonical, parse

# Appendix B: the bits of a double and its text.
NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}


@pytest.mark.parametrize(("bits", "text"), NUMBERS.items())
def test_numbers_are_written_as_the_rfc_says(bits: str, text: str) -> None:
    [number] = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical(number) == text.encode()


@pytest.mark.parametrize("bits", ["7fffffffffffffff", "7ff0000000000000", "fff0000000000000"])
def test_numbers_that_are_not_finite_are_refused(bits: str) -> None:
    [number] = struct.unpack(">d", bytes.fromhex(bits))
    with pytest.raises(CodecError, match="not finite"):
        canonical(number)


def test_the_example_of_the_rfc_is_written_as_there() -> None:
    text = r"""{
        "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]
    }"""
    expected = (
        r'{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        r'"string":"€$\u000f\nA'
        "'"
        r'B\"\\\\\"/"}'
    )
    assert canonical(parse(text)) == expected.encode()


def test_keys_are_sorted_by_utf16_units_and_not_by_characters() -> None:
    value: JsonValue = {
        "\u20ac": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One",
        "\U0001f600": "Emoji: Grinning Face",
        "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis",
    }
    order = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    assert list(json.loads(canonical(value))) == order


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (1, "1"),
        (True, "true"),
        (None, "null"),
        (123456789012345680000.0, "123456789012345680000"),
        (0.00001, "0.00001"),
        (1.5e-7, "1.5e-7"),
        ({}, "{}"),
        ((1, [2.0]), "[1,[2]]"),
        ({"b": {"d": 1, "c": 2}, "a": ""}, '{"a":"","b":{"c":2,"d":1}}'),
    ],
)
def test_values_that_mean_the_same_are_written_the_same(value: JsonValue, text: str) -> None:
    assert canonical(value) == text.encode()


def test_a_model_is_written_by_the_names_of_the_wire() -> None:
    assert canonical(SessionCursor(session_id="s", seq=0)) == b'{"scope":"session","seq":0,"sessionId":"s"}'


def test_a_double_that_looks_like_a_large_integer_is_for_digests_only() -> None:
    with pytest.raises(CodecError, match="integer out of range"):
        parse(canonical(2.0**53))
