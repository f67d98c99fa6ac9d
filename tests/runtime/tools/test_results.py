from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, JsonValue, SecretStr

from windlass.json_value import JsonForm, NoJsonForm
from windlass.limits import REPR_CHARS_MAX, RESULT_VALUES_MAX
from windlass.tools import results
from windlass.tools.calling import tool_result
from windlass.tools.results import Weight, no_json_form_text, result_value, weigh
from windlass_protocol import ToolResult, encode
from windlass_protocol.limits import FREE_LEVELS_MAX


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Place(BaseModel):
    street: str = Field(alias="streetName")


class Odd(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    inner: object
    data: bytes = b"\xff"


@dataclass
class Size:
    wide: int
    place: Place


class Angry:
    def __repr__(self) -> str:
        raise ValueError


class Quiet:
    def __repr__(self) -> str:
        return "Quiet()"


class Long:
    def __repr__(self) -> str:
        return "é" * 5_000


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (1.5, 1.5),
        ("é", "é"),
        ([1, (2, {"a": None})], [1, [2, {"a": None}]]),
        (Colour.RED, "red"),
        ([Level.LOW], [1]),
        (Level.LOW, 1),
        (Place(streetName="s"), {"streetName": "s"}),
        (Size(1, Place(streetName="s")), {"wide": 1, "place": {"streetName": "s"}}),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00"),
        ([date(2026, 1, 2), time(3, 4), timedelta(hours=1)], ["2026-01-02", "03:04:00", "PT1H"]),
        (Decimal("1.50"), "1.50"),
        (PurePosixPath("a/b"), "a/b"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ({"b", "a", "c"}, ["a", "b", "c"]),
        (frozenset({2, 1}), [1, 2]),
        (b"\x00\xff", {"$bytes": "AP8="}),
        (bytearray(b"a"), {"$bytes": "YQ=="}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        ({1: "a", Colour.RED: "b", date(2026, 1, 2): "c"}, {"1": "a", "red": "b", "2026-01-02": "c"}),
        ({1: "a", "1": "b"}, {"1": "b", "$pairs": [[1, "a"]]}),
        ({"key": "a", (1, 2): "b"}, {"key": "a", "$pairs": [[[1, 2], "b"]]}),
        ({datetime(2026, 1, 2, tzinfo=UTC): 1}, {"2026-01-02T00:00:00+00:00": 1}),
        ({(1, 2): "a"}, {"$pairs": [[[1, 2], "a"]]}),
        ({True: "a"}, {"$pairs": [[True, "a"]]}),
        (float("nan"), "NaN"),
        ([float("inf"), -float("inf")], ["Infinity", "-Infinity"]),
        (2**53 - 1, 2**53 - 1),
        ([2**53], ["9007199254740992"]),
        ([10**5_000], [{"$omitted": "a whole number of 16,610 bits"}]),
        ("a\ud800b", "a\\ud800b"),
        (["a\ud800b", "\ud83d\ude00"], ["a\\ud800b", "😀"]),
        ({"\ud800": 1}, {"\\ud800": 1}),
        (Quiet(), {"$type": "Quiet", "$repr": "Quiet()"}),
        (Angry(), {"$type": "Angry", "$repr": "<Angry: repr() failed>"}),
        (Size, {"$type": "type", "$repr": repr(Size)}),
        (
            Odd(inner=Quiet()),
            {"inner": {"$type": "Quiet", "$repr": "Quiet()"}, "data": {"$bytes": "/w=="}},
        ),
    ],
)
def test_tool_results_of_many_types_become_json(value: object, expected: JsonValue):
    assert result_value(value) == expected
    encode(result_value(value))


FOREIGN: list[tuple[object, str]] = [
    (Quiet(), "Quiet"),
    ([1, {"a": Quiet()}], "Quiet"),
    (Size, "type"),
    (iter([1]), "list_iterator"),
    (Odd(inner=Quiet()), "Quiet"),
    (ToolResult.model_construct({"success", "data"}, success=True, data=Quiet()), "Quiet"),
]


@pytest.mark.parametrize(("value", "name"), FOREIGN)
def test_a_result_without_a_json_form_fails_the_call_and_names_its_type(value: object, name: str):
    with pytest.raises(NoJsonForm, match=f"no JSON form: a value of type {name}$") as raised:
        tool_result(value)
    assert f"it holds a value of type {name}; return texts" in no_json_form_text(raised.value)


def test_a_secret_of_pydantic_stays_one():
    class Login(BaseModel):
        password: SecretStr

    assert result_value(Login(password=SecretStr("hunter22"))) == {"password": "**********"}


def test_a_repr_is_cut_short():
    shown = result_value(Long())
    assert isinstance(shown, dict)
    assert shown["$repr"] == "é" * (REPR_CHARS_MAX - 1) + "…"


def test_changing_a_returned_value_later_does_not_change_the_result():
    rows: list[JsonValue] = [{"a": 1}]
    kept = result_value(rows)
    rows.append(2)
    assert kept == [{"a": 1}]


def test_a_value_inside_itself_ends():
    loop: list[object] = [1]
    loop.append(loop)
    assert result_value(loop) == [1, {"$omitted": "a value inside itself"}]
    shared = ["x"]
    assert result_value({"a": shared, "b": [Colour.RED, shared]}) == {"a": ["x"], "b": ["red", ["x"]]}


def nested(levels: int) -> JsonValue:
    value: JsonValue = "x"
    for _ in range(levels):
        value = [value]
    return value


def test_a_result_goes_as_deep_as_its_limit_and_not_deeper():
    assert result_value(nested(FREE_LEVELS_MAX)) == nested(FREE_LEVELS_MAX)
    cut = result_value(nested(FREE_LEVELS_MAX + 1))
    for _ in range(FREE_LEVELS_MAX):
        assert isinstance(cut, list)
        cut = cut[0]
    assert cut == {"$omitted": "more than 48 levels"}


def test_a_value_that_unfolds_without_end_is_cut():
    assert JsonForm().values_max == RESULT_VALUES_MAX
    three = JsonForm(values_max=3)
    omitted = {"$omitted": "more than 3 values"}
    assert result_value([Colour.RED, 2, 3, 4], three) == ["red", omitted]
    assert result_value([Decimal(1), 2], three) == ["1", 2]


def test_a_tool_may_return_a_tool_result():
    said = ToolResult(success=False, error="no", terminal=True)
    assert tool_result(said) is said
    made = tool_result(ToolResult.model_construct({"success", "data"}, success=True, data=Colour.RED))
    assert made.data == "red"
    assert tool_result(None) == ToolResult(success=True, data=None)
    assert encode(tool_result(None)) == b'{"success":true,"data":null}'


def test_an_iterator_is_not_run():
    def endless() -> Iterator[int]:
        while True:
            yield 1

    shown = result_value(endless())
    assert isinstance(shown, dict)
    assert "generator" in str(shown["$repr"])


def test_a_result_of_many_values_is_the_same_however_it_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"a": [{"b": number, "c": "é,[", "d": None} for number in range(10)]}
    copied = results.result_value(value)
    read: list[bytes] = []
    monkeypatch.setattr(results, "_COPIED_VALUES_MAX", 20)

    def trace(raw: bytes, **_: object) -> None:
        read.append(raw)

    monkeypatch.setattr(results, "from_json", trace)
    assert results.result_value(value) == copied == value
    assert read == [], "it is walked over, not read at once"


@pytest.mark.parametrize(
    ("value", "weight"),
    [
        pytest.param([{"rows": [1, 2.5, None, True, "x"]}], Weight(is_light=True, is_json=True), id="json"),
        pytest.param("text", Weight(is_light=True, is_json=False), id="text"),
        pytest.param([{1: "x"}], Weight(is_light=True, is_json=False), id="odd key"),
        pytest.param([date(2026, 1, 1)], Weight(is_light=True, is_json=False), id="no json"),
        pytest.param([float("nan")], Weight(is_light=True, is_json=False), id="no number"),
        pytest.param(["x" * 70_000], Weight(is_light=False, is_json=False), id="large"),
        pytest.param("x" * 70_000, Weight(is_light=False, is_json=False), id="large text"),
    ],
)
def test_a_result_is_weighed_once(value: object, weight: Weight) -> None:
    assert weigh(value) == weight


def test_a_result_that_was_found_to_be_json_is_copied_without_another_walk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [{"amount": 1}]
    found = weigh(rows)
    walks: list[object] = []

    def walk(value: object, limits: object) -> bool:
        walks.append(value)
        return True

    monkeypatch.setattr(results, "is_sendable", walk)
    copied = tool_result(rows, is_json=found.is_json).data
    assert (copied, walks) == (rows, [])
    assert copied is not rows
