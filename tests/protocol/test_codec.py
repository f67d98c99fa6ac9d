"""The strict codec: accepted values, refused values, and error texts."""

import base64
import json
import tracemalloc
from collections.abc import Callable
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict, cast

import pytest
from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, field_validator, model_serializer

from windlass_protocol import (
    AllCursor,
    Cursor,
    Event,
    PolicyDecision,
    SessionCursor,
    SidecarRequest,
    SidecarResponse,
)
from windlass_protocol.codec import CodecError, canonical, decode, encode, parse
from windlass_protocol.codec_errors import CodecErrorCode, MessagePosition
from windlass_protocol.codec_scan import count_values, find_fault
from windlass_protocol.codec_values import find_value_fault
from windlass_protocol.limits import (
    DEFAULT_LIMITS,
    DEPTH_CEILING,
    DEPTH_MAX,
    ERROR_COUNTED_MAX,
    ERROR_ISSUES_MAX,
    ERROR_KEY_CHARS_MAX,
    ERROR_PATH_CHARS_MAX,
    ERROR_TEXT_CHARS_MAX,
    INTEGER_MAX,
    MESSAGE_BYTES_MAX,
    CodecLimits,
)

CASES = Path(__file__).parents[2] / "conformance/cases/codec.json"
SECRET = "hunter2-canary"


class Limits(TypedDict):
    messageBytesMax: NotRequired[int]
    depthMax: NotRequired[int]


class Case(TypedDict):
    name: str
    text: NotRequired[str]
    bytes: NotRequired[str]
    parts: NotRequired[list[tuple[str, int]]]
    limits: NotRequired[Limits]
    ok: NotRequired[JsonValue]
    accepted: NotRequired[bool]
    error: NotRequired[str]
    position: NotRequired[dict[str, int]]
    path: NotRequired[str]
    message: NotRequired[str]


def read_cases() -> list[Case]:
    return json.loads(CASES.read_text(encoding="utf-8"))["cases"]


def message_of(case: Case) -> bytes:
    if "bytes" in case:
        return base64.b64decode(case["bytes"])
    if "parts" in case:
        return "".join(text * times for text, times in case["parts"]).encode()
    return case.get("text", "").encode()


def limits_of(case: Case) -> CodecLimits:
    changed = case.get("limits", {})
    return CodecLimits(
        message_bytes_max=changed.get("messageBytesMax", MESSAGE_BYTES_MAX),
        depth_max=changed.get("depthMax", DEPTH_MAX),
    )


def refusal(call: Callable[[], object]) -> CodecError:
    with pytest.raises(CodecError) as caught:
        call()
    return caught.value


@pytest.mark.promise("W1")
@pytest.mark.parametrize("case", read_cases(), ids=lambda case: case["name"])
def test_the_shared_cases_are_answered_as_written(case: Case) -> None:
    data, limits = message_of(case), limits_of(case)
    if "error" not in case:
        value = parse(data, limits)
        # By representation, so that 1 and 1.0 and true are three values.
        assert "accepted" in case or repr(value) == repr(case.get("ok"))
        return
    error = refusal(lambda: parse(data, limits))
    assert error.code == case["error"]
    assert error.message == str(error) == case.get("message", error.message)
    assert error.path == case.get("path", error.path)
    if "position" in case:
        assert error.position == MessagePosition(**case["position"])


def test_the_shared_cases_name_every_code_of_the_text() -> None:
    assert {case["error"] for case in read_cases() if "error" in case} == set(CodecErrorCode) - {"invalid"}


@pytest.mark.parametrize("case", read_cases(), ids=lambda case: case["name"])
def test_a_message_is_judged_alike_as_bytes_text_buffer_and_view(case: Case) -> None:
    data, limits = message_of(case), limits_of(case)
    views: list[bytearray | memoryview | str] = [bytearray(data), memoryview(data)]
    if case.get("error") != "not_utf8":
        views.append(data.decode(errors="replace"))
    for view in views:
        if "error" in case:
            assert refusal(lambda view=view: parse(view, limits)).code == case["error"]
        else:
            assert repr(parse(view, limits)) == repr(parse(data, limits))


def test_a_view_of_other_items_is_counted_in_bytes() -> None:
    view = memoryview(b"[0,1,2,3,4]").cast("B")[::2]
    assert refusal(lambda: parse(view)).code == "not_json"
    wide = memoryview(b'"abcdef"').cast("Q")
    assert parse(wide, CodecLimits(message_bytes_max=8)) == "abcdef"
    assert refusal(lambda: parse(wide, CodecLimits(message_bytes_max=7))).code == "too_large"


def test_a_lone_surrogate_is_refused_with_its_position() -> None:
    error = refusal(lambda: parse('["é",\n"\ud800"]'))
    assert error.code == "lone_surrogate"
    assert error.position == MessagePosition(offset=8, line=2, column=2)


def test_bytes_that_are_not_utf8_are_refused_with_their_position() -> None:
    error = refusal(lambda: parse(b'["\xc3\xa9",\n"\xff"]'))
    assert (error.code, error.position) == ("not_utf8", MessagePosition(offset=8, line=2, column=2))
    assert str(error) == "not UTF-8: expected UTF-8, found another byte at offset 8"


@pytest.mark.parametrize(
    "text", ['{"a": 1}', ' {"a":1}', '{"\\u0061":1}', '{"a":1e0}', '{"a":1.50}', '["\\/"]']
)
def test_json_that_is_good_but_not_compact_is_read(text: str) -> None:
    assert parse(text) == json.loads(text)


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.promise("L1")
def test_a_message_may_have_as_many_bytes_as_the_limit_and_not_one_more() -> None:
    full = b'"' + b"a" * (MESSAGE_BYTES_MAX - 2) + b'"'
    assert len(encode(parse(full))) == MESSAGE_BYTES_MAX
    over = full + b" "
    assert str(refusal(lambda: parse(over))) == "message too large: 1,048,577 bytes, limit 1,048,576"
    text = refusal(lambda: parse(over.decode()))
    assert str(text) == "message too large: at least 1,048,577 bytes, limit 1,048,576"
    accents = refusal(lambda: parse("é" * MESSAGE_BYTES_MAX))
    assert str(accents) == "message too large: 2,097,152 bytes, limit 1,048,576"
    assert str(refusal(lambda: parse(full * 2))) == "message too large: 2,097,152 bytes, limit 1,048,576"


@pytest.mark.promise("L1")
@pytest.mark.parametrize("data", [b"[" * 1_000_000, "[" * 1_000_000, bytearray(1_000_000)], ids=type)
def test_refusing_a_message_a_thousand_times_too_large_costs_no_memory(data: bytes | str | bytearray) -> None:
    limits = CodecLimits(message_bytes_max=1_000)
    tracemalloc.start()
    try:
        assert refusal(lambda: parse(data, limits)).code == "too_large"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32_000


@pytest.mark.promise("L1")
@pytest.mark.parametrize("write", [encode, canonical])
def test_the_limits_apply_to_writing_too(write: Callable[[JsonValue, CodecLimits], bytes]) -> None:
    limits = CodecLimits(message_bytes_max=8, depth_max=2)
    assert write([[1]], limits) == b"[[1]]"
    assert write("abcdef", limits) == b'"abcdef"'
    assert refusal(lambda: write("abcdefg", limits)).code == "too_large"
    assert refusal(lambda: write("a" * 8_000, limits)).code == "too_large"
    error = refusal(lambda: write([{"a": [1]}], CodecLimits(message_bytes_max=16, depth_max=2)))
    assert (error.code, error.path) == ("too_deep", "/0/a")
    assert str(error) == "message too deep: 3 levels, limit 2, at /0/a"
    assert refusal(lambda: write([1, 2, 3, 4], limits)).code == "too_large"


def test_the_limits_of_writing_are_those_of_reading() -> None:
    deepest: JsonValue = 1
    for _ in range(DEPTH_MAX):
        deepest = [deepest]
    assert parse(encode(deepest)) == deepest
    assert refusal(lambda: encode([deepest])).code == "too_deep"
    assert parse(encode([INTEGER_MAX, -INTEGER_MAX])) == [INTEGER_MAX, -INTEGER_MAX]
    for number in (INTEGER_MAX + 1, -INTEGER_MAX - 1, INTEGER_MAX * 1_000):
        assert refusal(lambda number=number: encode([number])).code == "number_out_of_range"


@pytest.mark.uncounted
@pytest.mark.promise("L1")
def test_a_list_that_holds_itself_is_refused_before_it_is_unfolded() -> None:
    once: list[JsonValue] = []
    once.append(once)
    assert refusal(lambda: encode(once)).code == "too_deep"
    doubling: list[JsonValue] = []
    doubling.extend([doubling, doubling])
    assert refusal(lambda: encode(doubling)).code in {"too_deep", "too_large"}
    shared: JsonValue = []
    for _ in range(DEPTH_MAX - 2):
        shared = [shared, shared]
    error = refusal(lambda: encode(shared))
    assert str(error).startswith("message too large: more than 1,048,576 bytes, limit 1,048,576")


@pytest.mark.parametrize(
    ("bytes_max", "depth_max"),
    [(0, 64), (-1, 64), (1, 0), (1, DEPTH_CEILING + 1), (1, DEPTH_CEILING * 1_000)],
)
def test_limits_that_make_no_sense_are_refused(bytes_max: int, depth_max: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        CodecLimits(message_bytes_max=bytes_max, depth_max=depth_max)


def test_the_largest_depth_a_caller_may_choose_works() -> None:
    limits = CodecLimits(depth_max=DEPTH_CEILING)
    for opening, closing in (("[", "]"), ('{ "a":', "}")):
        good = opening * DEPTH_CEILING + "1" + closing * DEPTH_CEILING
        assert parse(encode(parse(good, limits), limits), limits) == json.loads(good)
        assert refusal(lambda good=good: parse(f"[{good}]", limits)).code == "too_deep"


# --- decode ---------------------------------------------------------------------------------------


class Item(BaseModel):
    model_config = ConfigDict(extra="forbid")
    item_count: int = Field(alias="itemCount")


class Order(BaseModel):
    model_config = ConfigDict(populate_by_name=True, extra="forbid")
    order_id: str = Field(alias="orderId")
    items: tuple[Item, ...] = ()
    kind: Literal["a", "b"] = "a"
    note: str | int | Item | None = None
    checked: str = ""

    @field_validator("checked")
    @classmethod
    def _never_quotes(cls, value: str) -> str:
        if value:
            raise ValueError(f"{value} is not checked")
        return value


def test_a_message_becomes_its_model() -> None:
    order = decode(Order, b'{"orderId":"o1","items":[{"itemCount":2}]}')
    assert order == Order(orderId="o1", items=(Item(itemCount=2),))


@pytest.mark.parametrize("data", [None, 5, {"orderId": "o1"}])
def test_decoding_anything_but_bytes_or_text_raises_type_error(data: object) -> None:
    with pytest.raises(TypeError, match="expected bytes or text, found"):
        decode(Order, cast(bytes, data))


def test_a_list_of_models_is_read_too() -> None:
    assert decode(list[Item], b'[{"itemCount":2}]') == [Item(itemCount=2)]


def test_a_union_is_read_with_and_without_an_adapter() -> None:
    cursors: TypeAdapter[Cursor] = TypeAdapter(Cursor)
    bare = cast(type[object], Cursor)
    assert decode(bare, '{"scope":"all","position":3}') == AllCursor(position=3)
    assert decode(cursors, '{"scope":"session","sessionId":"s","seq":3}') == SessionCursor(
        session_id="s", seq=3
    )
    error = refusal(lambda: decode(cursors, f'{{"scope":"{SECRET}"}}'))
    assert error.code == "invalid"
    expected = "'all', 'session', 'run', 'agent', 'filter'"
    assert error.issues[0].message == f"expected 'scope' to be one of {expected}, found another value"


def test_json_errors_are_reported_before_type_errors() -> None:
    assert refusal(lambda: decode(Order, b'{"orderId":"o1","orderId":"o2"}')).code == "duplicate_key"
    assert refusal(lambda: decode(Order, b"{")).code == "not_json"
    assert refusal(lambda: decode(Order, b"{}" + b" " * MESSAGE_BYTES_MAX)).code == "too_large"


@pytest.mark.parametrize(
    ("data", "path", "text"),
    [
        ("[]", "", "expected an object, found an array"),
        ("{}", "/orderId", "expected this field, found none"),
        ('{"order_id":"o1"}', "/orderId", "expected this field, found none"),
        ('{"orderId":7}', "/orderId", "expected a string, found a number"),
        ('{"orderId":"o","extra~/":1}', "/extra~0~1", "expected no field of this name, found a number"),
        (
            '{"orderId":"o","items":[{"itemCount":1},{}]}',
            "/items/1/itemCount",
            "expected this field, found none",
        ),
        (
            '{"orderId":"o","items":[{"itemCount":"2"}]}',
            "/items/0/itemCount",
            "expected an integer, found a string",
        ),
        ('{"orderId":"o","kind":"c"}', "/kind", "expected 'a' or 'b', found another string"),
        ('{"orderId":"o","note":[]}', "/note", "expected a string, found an array"),
        (
            '{"orderId":"o","checked":"x"}',
            "/checked",
            "expected a value that its own check accepts, found a string",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_path(data: str, path: str, text: str) -> None:
    error = refusal(lambda: decode(Order, data))
    assert (error.code, error.path) == ("invalid", path)
    assert error.issues[0].path == path
    assert error.issues[0].message == text
    assert str(error).startswith(
        f"invalid Order: issues: {len(error.issues)}, the first at {path or 'the top'}: "
    )


@pytest.mark.promise("L1")
@pytest.mark.parametrize(
    ("wrong", "listed"),
    [
        (ERROR_ISSUES_MAX, ERROR_ISSUES_MAX),
        (ERROR_ISSUES_MAX + 1, ERROR_ISSUES_MAX),
        (ERROR_COUNTED_MAX, ERROR_ISSUES_MAX),
        (ERROR_COUNTED_MAX + 1, 1),
        (ERROR_ISSUES_MAX * 1_000, 1),
    ],
)
def test_an_error_lists_no_more_issues_than_its_limit(wrong: int, listed: int) -> None:
    data = '{"orderId":"o","items":[' + ",".join(["1"] * wrong) + "]}"
    error = refusal(lambda: decode(Order, data))
    assert len(error.issues) == listed
    assert f"issues: {wrong:,}, " in str(error)


@pytest.mark.promise("L1")
@pytest.mark.parametrize("size", [ERROR_KEY_CHARS_MAX, ERROR_KEY_CHARS_MAX + 1, ERROR_KEY_CHARS_MAX * 1_000])
def test_a_key_is_named_no_longer_than_its_limit(size: int) -> None:
    error = refusal(lambda: decode(Order, json.dumps({"orderId": "o", "k" * size: 1})))
    shown = "k" * size if size <= ERROR_KEY_CHARS_MAX else "k" * (ERROR_KEY_CHARS_MAX - 1) + "…"
    assert error.path == f"/{shown}"


@pytest.mark.promise("L1")
def test_paths_and_texts_are_cut_to_their_limits() -> None:
    class Wordy(BaseModel):
        word: Annotated[str, Field(pattern="x" * 1_000)]

    assert len(refusal(lambda: decode(Wordy, '{"word":"y"}')).issues[0].message) == ERROR_TEXT_CHARS_MAX
    deep: JsonValue = {"\ud800": 1}
    for _ in range(40):
        deep = {"k" * 30: deep}
    path = refusal(lambda: encode(deep)).path
    assert path is not None
    assert len(path) == ERROR_PATH_CHARS_MAX


# --- nothing of the payload -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        f'{{"a":"{SECRET}","a":1}}',
        f'["{SECRET}",NaN]',
        f'["{SECRET}",1e400]',
        f'["{SECRET}"',
        f'["{SECRET}"{SECRET}]',
        f'["{SECRET}\\ud800"]',
        f'["{SECRET}\ud800"]',
        f'["{SECRET}",{"9" * 40}]',
        f'["{SECRET}",{"9" * 5_000}]',
        b'["' + SECRET.encode() + b'\xff"]',
        f"\ufeff{SECRET}",
        f'{"[" * 65}"{SECRET}"',
        f'"{SECRET * MESSAGE_BYTES_MAX}"'[: MESSAGE_BYTES_MAX + 1],
        f'{{"orderId":["{SECRET}"]}}',
        f'{{"orderId":"o","kind":"{SECRET}"}}',
        f'{{"orderId":"o","checked":"{SECRET}"}}',
        f'{{"orderId":"o","note":{{"{SECRET}":"{SECRET}"}}}}'.replace(f'"{SECRET}":', '"n":'),
    ],
)
def test_an_error_and_its_chain_carry_nothing_of_the_payload(message: bytes | str) -> None:
    error = refusal(lambda: decode(Order, message))
    assert error.__cause__ is None
    assert error.__context__ is None
    assert SECRET not in f"{error!r} {error.args} {vars(error)}"


@pytest.mark.parametrize("tag", [SECRET, f"{SECRET}' found using {SECRET}"])
def test_a_wrong_tag_is_not_quoted_even_inside_an_event(tag: str) -> None:
    decision: JsonValue = {"decision": tag, "code": "x", "reason": "y", "policyRefs": []}
    assert SECRET not in str(
        vars(refusal(lambda: decode(cast(type[object], PolicyDecision), json.dumps(decision))))
    )
    event: JsonValue = {
        "type": "policy.decided",
        "meta": {"at": "2026-01-31T09:30:00Z"},
        "data": {"stage": "pre_tool", "decision": decision},
    }
    assert SECRET not in str(vars(refusal(lambda: decode(Event, json.dumps(event)))))


# --- encode ---------------------------------------------------------------------------------------


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Words(list[str]):
    pass


def test_json_is_written_as_compact_utf8() -> None:
    value: JsonValue = {"é": [1, -1.5, True, None, "a/\u2028\x7f😀\n"], "b": {}}
    assert encode(value) == '{"é":[1,-1.5,true,null,"a/\u2028\x7f😀\\n"],"b":{}}'.encode()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Colour.RED, b'"red"'),
        ({Colour.RED: Level.HIGH}, b'{"red":3}'),
        ((1, (2,)), b"[1,[2]]"),
        (Words(["a"]), b'["a"]'),
        (1e20, b"1e+20"),
        (2.0**53, b"9007199254740992.0"),
        (-0.0, b"-0.0"),
    ],
)
def test_kinds_of_text_number_and_list_are_written_as_such(value: Any, written: bytes) -> None:
    assert encode(value) == written
    assert parse(written) == parse(encode(value))


@pytest.mark.parametrize("write", [encode, canonical])
@pytest.mark.parametrize(
    ("value", "code", "path"),
    [
        (float("nan"), "non_finite", ""),
        ({"a": [0.5, float("-inf")]}, "non_finite", "/a/1"),
        ("\ud800", "lone_surrogate", ""),
        ({"a": ["b", "\udfff!"]}, "lone_surrogate", "/a/1"),
        ({"a": {"\ud800": 1}}, "lone_surrogate", "/a"),
        ({1: 2}, "invalid", ""),
        ({"a": {None: 2}}, "invalid", "/a"),
        ({"a": {1: 2, "1": 3}}, "invalid", "/a"),
        ({"a": b"bytes"}, "invalid", "/a"),
        ([{1, 2}], "invalid", "/0"),
        ([Item(itemCount=1)], "invalid", "/0"),
        ({"a": object()}, "invalid", "/a"),
    ],
)
def test_a_value_that_json_cannot_hold_is_not_written(
    write: Callable[[Any], bytes], value: object, code: str, path: str
) -> None:
    error = refusal(lambda: write(value))
    assert (error.code, error.path) == (code, path)
    assert bool(error.issues) == (code == "invalid")
    assert str(error).endswith(f", at {path or 'the top'}")
    assert error.__context__ is None


def test_an_unprintable_key_is_shown_safely() -> None:
    path = refusal(lambda: encode({"a\n\x1b\u202e b": float("nan")})).path
    assert path == "/a\ufffd\ufffd\ufffd b"


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")
    number: float = 0
    anything: Annotated[object, Field()] = None


@pytest.mark.parametrize(
    ("fields", "code", "path"),
    [
        ({"number": float("nan")}, "non_finite", "/number"),
        ({"anything": [float("inf")]}, "non_finite", "/anything/0"),
        ({"anything": {1: 2, "1": 3}}, "invalid", "/anything"),
        ({"anything": {1, 2}}, "invalid", "/anything"),
        ({"other": "\ud800"}, "lone_surrogate", "/other"),
    ],
)
def test_a_model_with_a_value_that_json_cannot_hold_is_not_written(
    fields: dict[str, Any], code: str, path: str
) -> None:
    error = refusal(lambda: encode(Loose(**fields)))
    assert (error.code, error.path) == (code, path)


class Unwritable(BaseModel):
    secret: str

    @model_serializer
    def _fails(self) -> str:
        raise TypeError(self.secret)


def test_a_model_that_cannot_be_written_is_refused() -> None:
    error = refusal(lambda: encode(Unwritable(secret=SECRET)))
    assert (error.code, str(error)) == ("invalid", "invalid Unwritable: it cannot be written")
    assert error.__context__ is None


def test_a_model_that_holds_itself_is_not_written() -> None:
    endless: list[object] = []
    endless.append(endless)
    error = refusal(lambda: encode(Loose(anything=endless)))
    assert (error.code, error.__context__) == ("too_deep", None)


# --- round trips ----------------------------------------------------------------------------------


@pytest.mark.promise("W2")
@pytest.mark.parametrize(
    "event",
    [
        {
            "type": "weather.changed",
            "meta": {"at": "2026-01-31T09:30:00Z"},
            "data": {"deg": 1.5, "x": [None]},
        },
        {
            "type": "weather.changed",
            "meta": {"at": "2026-01-31T09:30:00Z", "newMeta": {"a": None}},
            "data": {},
            "newField": [1, {"b": None}],
            "snake_field": None,
        },
    ],
)
def test_unknown_events_and_fields_survive_a_round_trip(event: JsonValue) -> None:
    assert parse(encode(decode(Event, json.dumps(event)))) == event


@pytest.mark.promise("W2")
@pytest.mark.parametrize("params", [{}, {"params": None}, {"params": {"a": None}}, {"params": [1, None]}])
def test_an_explicit_null_is_kept_and_an_absent_field_stays_absent(params: dict[str, JsonValue]) -> None:
    message: JsonValue = {"jsonrpc": "2.0", "id": None, "method": "system.ping", **params}
    assert parse(encode(decode(SidecarRequest, json.dumps(message)))) == message


def test_a_model_is_written_with_its_constants_and_without_absent_fields() -> None:
    assert parse(encode(SessionCursor(session_id="s", seq=0))) == {
        "scope": "session",
        "sessionId": "s",
        "seq": 0,
    }
    assert parse(encode(SidecarResponse(id=1, result=None))) == {"jsonrpc": "2.0", "id": 1, "result": None}


def test_names_of_python_are_not_names_of_the_wire() -> None:
    error = refusal(lambda: decode(SessionCursor, '{"scope":"session","session_id":"s","seq":0}'))
    assert "/sessionId" in {issue.path for issue in error.issues}


def test_the_scanners_find_no_fault_in_a_valid_value() -> None:
    value: JsonValue = {"a": [1, 2.5e3, "xA", {}, [], None]}
    assert find_fault('{"a": [1, 2.5e3, "x\\u0041", {}, [], null]}', DEFAULT_LIMITS) is None
    assert find_value_fault(value, DEFAULT_LIMITS) is None


@pytest.mark.parametrize(
    ("text", "count"),
    [("1", 0), ("[1,2]", 2), ('{"a":[]}', 2), ('["a,b[{",1]', 2), (r'["\",{,",1]', 2), ('["cut,', 1)],
)
def test_values_are_counted_outside_of_strings_if_there_could_be_too_many(text: str, count: int) -> None:
    raw = text.encode()
    assert count_values(raw, 0) == count
    # Below the limit the strings are not looked at.
    assert count_values(raw, 100) == sum(raw.count(mark) for mark in (b",", b"[", b"{"))


def test_counting_values_removes_no_more_strings_than_the_limit_has_room_for() -> None:
    texts = b'["a","b","c","d","e","f"]'
    assert count_values(texts, 5) == 6, "all strings were removed"
    pairs = b'{"a":"b","c":"d"}'
    assert count_values(pairs, 2) == 2
    # Of two values, at most four strings: the rest is not looked at, and the answer is above the limit.
    many = b'["",' + b'",[{",' * 100 + b'""]'
    assert count_values(many, 2) > 102
    assert count_values(b'"" "" "" "" "" ""' + b'"[[["', 2) == 3
