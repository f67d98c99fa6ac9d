"""Laws of the codec that hold for every input."""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue
from tests.depth import some

from windlass_protocol import Event
from windlass_protocol.codec import CodecError, CodecLimits, canonical, decode, encode, parse
from windlass_protocol.codec_scan import find_fault
from windlass_protocol.codec_values import find_value_fault
from windlass_protocol.limits import INTEGER_MAX

many = settings(max_examples=some(300))

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
integers = st.integers(-INTEGER_MAX, INTEGER_MAX)
finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | integers | finite | texts


def nested(leaves: st.SearchStrategy[Any], keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=12,
    )


values = nested(scalars, texts)

# Pieces that meet at the edges of the grammar far more often than random characters do.
PIECES = [
    *'{}[]:,"\\ \n\t09-+.eE/x',
    *[
        '"a"',
        '"b"',
        '"\\u0061"',
        '{"a":',
        ',"a":',
        "true",
        "null",
        "NaN",
        "Infinity",
        "1e400",
        "-0",
        "1.5",
        "12",
    ],
    *[
        "\\u",
        "d800",
        "\\ud83d",
        "\\ude00",
        "\x00",
        "\x1f",
        "é",
        "😀",
        "\ufeff",
        "\u2028",
        "9007199254740992",
        "0" * 130,
    ],
]
near_json = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)
LIMITS = CodecLimits(message_bytes_max=2_000, depth_max=3)


def outcome(call: Callable[[], object]) -> tuple[str, object]:
    """Return the outcome of a call: a value, or the code of an error without a context."""
    try:
        return "value", call()
    except CodecError as error:
        refusal = error
    assert refusal.__context__ is None
    assert str(refusal).encode()
    return refusal.code, None


def parsed(data: bytes | str) -> tuple[str, object]:
    return outcome(lambda: parse(data, LIMITS))


@many
@given(values)
def test_a_written_value_is_read_back_unchanged(value: JsonValue) -> None:
    assert repr(parse(encode(value))) == repr(value)


@many
@given(values, st.booleans(), st.sampled_from([None, 0, 2]))
def test_json_of_other_writers_is_read_unchanged(
    value: JsonValue, ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert repr(parse(text)) == repr(value)


@many
@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_a_codec_error(data: bytes) -> None:
    parsed(data)


@many
@given(st.text(max_size=40))
def test_any_text_gives_a_value_or_a_codec_error(text: str) -> None:
    parsed(text)


@settings(max_examples=some(1_500))
@given(near_json)
@example('{"a":1,"a":1}')
@example('{"a":"\\":"}')
@example('{"a" :1,"b":":"}')
def test_the_fast_reader_and_the_scanner_agree(text: str) -> None:
    code, value = parsed(text)
    fault = find_fault(text, LIMITS)
    if text.startswith("\ufeff"):
        assert code == "bom"
    else:
        assert code == ("value" if fault is None else fault.code)
    if code == "value":
        assert repr(value) == repr(json.loads(text))


@many
@given(values, st.data())
def test_a_good_message_with_one_change_is_judged_alike_by_both(
    value: JsonValue, data: st.DataObject
) -> None:
    raw = encode(value)
    at = data.draw(st.integers(0, len(raw)))
    cut = data.draw(st.integers(0, 2))
    changed = raw[:at] + data.draw(st.binary(max_size=2)) + raw[at + cut :]
    code, read = parsed(changed)
    if code == "value":
        assert repr(read) == repr(json.loads(changed.decode()))
        assert find_fault(changed.decode(), LIMITS) is None


@many
@given(near_json | st.binary(max_size=60) | values.map(encode))
def test_any_message_gives_an_event_or_a_codec_error(data: bytes | str) -> None:
    outcome(lambda: decode(Event, data))


@many
@given(
    nested(
        scalars | st.floats() | st.integers() | st.text() | st.sampled_from([b"", {1}, object, 1j]),
        texts | st.text(max_size=2) | st.integers() | st.none(),
    )
)
def test_any_value_is_written_or_refused_with_its_fault(value: Any) -> None:
    fault = find_value_fault(value, LIMITS)
    for write in (encode, canonical):
        code, _ = outcome(lambda write=write: write(value, LIMITS))
        assert code == fault.code if fault else code in {"value", "too_large"}


def in_other_order(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: in_other_order(value[key]) for key in reversed(value)}
    return [in_other_order(item) for item in value] if isinstance(value, list) else value


# Between these the RFC writes a double as an integer that the wire does not carry.
for_the_wire = finite.filter(lambda number: abs(number) <= INTEGER_MAX or abs(number) >= 1e21)


@many
@given(nested(st.none() | st.booleans() | integers | for_the_wire | texts, texts))
def test_canonical_bytes_are_a_fixed_point_and_keep_the_meaning(value: JsonValue) -> None:
    written = canonical(value)
    assert canonical(parse(written)) == written
    assert parse(written) == value


@many
@given(values)
def test_canonical_bytes_do_not_depend_on_the_order_of_keys(value: JsonValue) -> None:
    assert canonical(in_other_order(value)) == canonical(value)


@many
@given(values, values)
def test_canonical_bytes_are_equal_only_for_equal_values(left: JsonValue, right: JsonValue) -> None:
    assert (canonical(left) == canonical(right)) <= (left == right)


@many
@given(finite)
def test_canonical_numbers_are_exact(number: float) -> None:
    assert float(canonical(number)) == number
