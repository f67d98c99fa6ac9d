"""Writing models: strictly, and by the faster path for trusted models."""

import json
import tracemalloc
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter, field_serializer
from tests.depth import some
from tests.protocol.judges import Case, adapter, examples
from tests.protocol.test_codec import refusal
from tests.protocol.test_codec_properties import values

from windlass_protocol import Record, SessionCursor, TextPart
from windlass_protocol.codec import (
    CodecError,
    CodecLimits,
    canonical,
    decode,
    decode_trusted,
    encode,
    encode_trusted,
    parse,
)
from windlass_protocol.limits import DEPTH_MAX, INTEGER_MAX, MESSAGE_BYTES_MAX

SECRET = "hunter2-canary"
AT = "2026-01-31T09:30:00Z"
SMALL = CodecLimits(message_bytes_max=10_000)


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")
    anything: object = None


@dataclass
class Pair:
    left: object
    right: object


class Twins(BaseModel):
    left: object
    right: object


def record(data: dict[str, JsonValue], type_: str = "weather.changed") -> Record:
    return Record(session_id="s1", seq=1, type=type_, at=AT, data=data)


def valid_models() -> list[Case]:
    made: list[tuple[Case, object]] = [(case, read(case)) for case in examples("valid")]
    return [case for case, model in made if isinstance(model, BaseModel)]


def read(case: Case) -> BaseModel:
    return decode(adapter(case.type), json.dumps(case.value))


def nested(depth: int) -> JsonValue:
    return json.loads("[" * depth + "]" * depth)


# --- as strict as reading -------------------------------------------------------------------------


@pytest.mark.promise("W2")
@pytest.mark.parametrize(
    ("model", "path"),
    [
        (Record.model_construct(session_id=5), "/sessionId"),
        (Record.model_construct(), "/sessionId"),
        (record({}).model_copy(update={"seq": 0}), "/seq"),
        (record({}).model_copy(update={"at": SECRET}), "/at"),
        (record({}).model_copy(update={"type": "turn.started"}), "/data/sequence"),
        (SessionCursor.model_construct(session_id="s", seq=1, scope="all"), "/scope"),
        (TextPart.model_construct(text=SECRET, type="image"), "/type"),
    ],
)
def test_a_model_built_without_validation_is_written_only_if_it_fits(model: BaseModel, path: str) -> None:
    error = refusal(lambda: encode(model))
    assert (error.code, error.path, error.__context__) == ("invalid", path, None)
    assert str(error).startswith(f"invalid {type(model).__name__}: issues: ")
    assert SECRET not in f"{error!r} {vars(error)}"


def test_data_that_was_changed_after_validation_is_checked_again() -> None:
    good = record({"sequence": 0, "turnId": "t1"}, "turn.started")
    good.data["turnId"] = ""
    error = refusal(lambda: encode(good))
    assert (error.code, error.path) == ("invalid", "/data/turnId")


def test_a_model_built_without_validation_that_fits_is_written() -> None:
    assert encode(SessionCursor.model_construct(session_id="s", seq=1)) == encode(
        SessionCursor(session_id="s", seq=1)
    )


@pytest.mark.promise("W2")
@settings(max_examples=some(400))
@given(st.sampled_from(valid_models()), st.data())
def test_every_written_model_is_read_back(case: Case, data: st.DataObject) -> None:
    model = read(case)
    name = data.draw(st.sampled_from(sorted(type(model).model_fields)))
    changed = model.model_copy(update={name: data.draw(values)})
    try:
        raw = encode(changed)
    except CodecError:
        return
    # Not byte for byte: a whole number may be written as 1.0.
    back = decode(type(model), raw)
    assert decode(type(model), encode(back)) == back


# --- shared parts -------------------------------------------------------------------------------


def doubled(make: Callable[[object], object], times: int) -> Any:
    value: object = "x"
    for _ in range(times):
        value = make(value)
    return value


def as_list(value: object) -> object:
    return [value, value]


def as_tuple(value: object) -> object:
    return (value, value)


def as_dict(value: object) -> object:
    return {"a": value, "b": value}


def as_deque(value: object) -> object:
    return deque([value, value])


def as_dataclass(value: object) -> object:
    return Pair(value, value)


def as_model(value: object) -> object:
    return Twins(left=value, right=value)


def as_extra(value: object) -> object:
    return Loose.model_construct(a=value, b=value)


@pytest.mark.promise("L1")
@pytest.mark.parametrize(
    "make",
    [as_list, as_tuple, as_dict, as_deque, as_dataclass, as_model, as_extra],
)
def test_shared_parts_of_a_model_count_against_the_limit_before_they_are_expanded(
    make: Callable[[object], object],
) -> None:
    model = Loose.model_construct(anything=doubled(make, 18))
    tracemalloc.start()
    try:
        for write in (encode, canonical):
            assert refusal(lambda write=write: write(model, SMALL)).code == "too_large"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.promise("L1")
@pytest.mark.parametrize("write", [encode, canonical])
def test_shared_parts_of_a_value_count_against_the_limit_before_they_are_expanded(
    write: Callable[[JsonValue, CodecLimits], bytes],
) -> None:
    text: list[JsonValue] = ["x" * 1_000]
    keys: list[JsonValue] = [{"k" * 1_000: 1}]
    for value in (doubled(as_list, 18), doubled(as_dict, 18), text * 3_000, keys * 1_000):
        error = refusal(lambda value=value: write(value, SMALL))
        assert str(error).startswith("message too large: more than 10,000 bytes, limit 10,000, at ")


@pytest.mark.promise("L1")
@pytest.mark.parametrize("text", ['{"a":[1,"e",null,{"b":"c"}]}', "[true]", '{"k":""}', '""', "10", "[[]]"])
def test_the_count_refuses_nothing_that_fits(text: str) -> None:
    value = parse(text)
    assert encode(value, CodecLimits(message_bytes_max=len(text))) == text.encode()
    small = CodecLimits(message_bytes_max=len(text) - 1)
    assert refusal(lambda: encode(value, small)).code == "too_large"


@pytest.mark.promise("L1")
def test_a_model_that_holds_itself_or_too_many_levels_is_not_dumped() -> None:
    endless = Loose.model_construct()
    endless.anything = [endless]
    error = refusal(lambda: encode(endless))
    assert str(error) == f"message too deep: {DEPTH_MAX + 1} levels, limit {DEPTH_MAX}"
    deep = nested(DEPTH_MAX - 1)
    assert parse(encode(Loose(anything=deep))) == {"anything": deep}
    assert refusal(lambda: encode(Loose(anything=[deep]))).code == "too_deep"


def test_fields_that_are_absent_do_not_count() -> None:
    part = SessionCursor(session_id="s", seq=1)
    limits = CodecLimits(message_bytes_max=len(encode(part)))
    assert encode(part, limits)


class Dated(BaseModel):
    day: date
    days: frozenset[date] = frozenset()

    @field_serializer("day")
    def _as_text(self, day: date) -> str:
        return day.isoformat()

    @field_serializer("days")
    def _as_texts(self, days: frozenset[date]) -> list[str]:
        return sorted(day.isoformat() for day in days)


def test_a_model_that_writes_its_own_kinds_as_json_is_written() -> None:
    dated = Dated(day=date(2026, 1, 31), days=frozenset({date(2026, 2, 1)}))
    assert decode(Dated, encode(dated)) == dated


# --- trusted --------------------------------------------------------------------------------------


@pytest.mark.promise("W2")
def test_a_trusted_model_is_written_and_read_as_by_the_strict_codec() -> None:
    for case in valid_models():
        model = read(case)
        raw = encode_trusted(model)
        assert raw == encode(model), case
        assert decode_trusted(type(model), raw) == model, case


@pytest.mark.promise("W2")
@settings(max_examples=some(300))
@given(st.dictionaries(st.text(max_size=3), values | st.text() | st.integers(), max_size=4))
def test_a_trusted_record_is_written_exactly_if_the_strict_codec_writes_it(data: dict[str, Any]) -> None:
    made = record(data)
    try:
        raw = encode(made)
    except CodecError as error:
        strict = error
    else:
        assert encode_trusted(made) == raw
        assert decode_trusted(Record, raw) == made == decode(Record, raw)
        return
    assert refusal(lambda: encode_trusted(made)).code == strict.code


@pytest.mark.promise("L1")
@pytest.mark.parametrize(
    ("data", "code"),
    [
        ({"a": INTEGER_MAX + 1}, "number_out_of_range"),
        ({"a": [-INTEGER_MAX - 1]}, "number_out_of_range"),
        ({"a": "\ud800"}, "lone_surrogate"),
        ({"a": "x" * MESSAGE_BYTES_MAX}, "too_large"),
        ({"a": nested(DEPTH_MAX - 1)}, "too_deep"),
    ],
)
def test_the_trusted_path_refuses_values_that_the_wire_does_not_carry(
    data: dict[str, Any], code: str
) -> None:
    made = record(data)
    error = refusal(lambda: encode_trusted(made))
    assert (error.code, error.__context__) == (code, None)


def test_a_cyclic_trusted_record_is_refused() -> None:
    made = record({"a": []})
    made.data["a"] = made.data
    error = refusal(lambda: encode_trusted(made))
    assert (error.code, error.__context__) == ("too_deep", None)


LOOKS: list[dict[str, JsonValue]] = [
    {"a": INTEGER_MAX, "b": -INTEGER_MAX, "c": 0.30000000000000004, "d": "9" * 40},
    {"a": json.loads(f"[{'[],{},' * DEPTH_MAX}0]"), "b": "[{" * DEPTH_MAX},
    {"a": nested(DEPTH_MAX - 2)},
]


@pytest.mark.parametrize("data", LOOKS)
def test_valid_values_near_a_limit_are_written_by_the_trusted_path(data: dict[str, JsonValue]) -> None:
    made = record(data)
    assert encode_trusted(made) == encode(made)


def test_a_number_that_is_not_finite_is_refused_when_a_type_is_made() -> None:
    for number in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="finite"):
            record({"a": [number]})


def test_trusted_bytes_are_not_asked_for_the_shape_of_their_data() -> None:
    raw = b'{"sessionId":"s1","seq":1,"type":"turn.started","at":"2026-01-31T09:30:00Z","data":{}}'
    assert decode_trusted(Record, raw).data == {}
    assert refusal(lambda: decode(Record, raw)).path == "/data/sequence"


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"seq":0}', b"\xff"])
def test_trusted_bytes_that_are_plainly_wrong_are_refused_as_by_decode(raw: bytes) -> None:
    trusted, strict = refusal(lambda: decode_trusted(Record, raw)), refusal(lambda: decode(Record, raw))
    assert (trusted.code, str(trusted), trusted.__context__) == (strict.code, str(strict), None)


def test_the_strict_codec_also_checks_types_with_a_trusted_path() -> None:
    strict = TypeAdapter(Record)
    decode_trusted(Record, encode(record({})))
    wrong = json.dumps({"sessionId": "s", "seq": 1, "type": "turn.started", "at": AT, "data": {}})
    assert refusal(lambda: decode(strict, wrong)).code == "invalid"
