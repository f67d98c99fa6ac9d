"""JSON conversion: any value becomes bounded strict JSON, and only `NoJsonForm` is ever raised."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date
from enum import Enum, IntEnum
from functools import partial
from itertools import count
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import NoReturn, cast

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, JsonValue
from pydantic_core import to_json

from windlass.json_value import JsonForm, NoJsonForm, json_value, text_of
from windlass_protocol import encode, parse
from windlass_protocol.limits import CodecLimits

LIMITS = CodecLimits(message_bytes_max=2**30, depth_max=128)


class Fault(Exception):
    pass


def fail(*_: object) -> NoReturn:
    raise Fault


class Colour(Enum):
    RED = "red"
    PAIR = (1, "two")


class Level(IntEnum):
    LOW = 1


class Hollow(Enum):
    SELF = 1

    @property
    def value(self) -> object:
        return self


class HostileText(str):
    __slots__ = ()
    __str__ = __repr__ = __len__ = fail  # pyright: ignore[reportAssignmentType]


class HostileNumber(int):
    __int__ = __repr__ = __abs__ = __le__ = fail  # pyright: ignore[reportAssignmentType]


seven = partial(cast("Callable[[int], object]", HostileNumber), 7)


class HostileDict(dict[object, object]):
    __iter__ = items = values = __repr__ = fail  # pyright: ignore[reportAssignmentType]


class HostileList(list[object]):
    __iter__ = __len__ = __repr__ = fail  # pyright: ignore[reportAssignmentType]


class HostileObject:
    __class__ = property(fail)  # pyright: ignore[reportIncompatibleMethodOverride]
    __repr__ = fail  # pyright: ignore[reportAssignmentType]


class EndlessMapping(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        return map(str, count())

    def __len__(self) -> int:
        return 1


@dataclass
class Part:
    one: object
    other: list[object] = field(default_factory=list[object])


@dataclass(slots=True)
class Unset:
    missing: int = field(init=False)


class Model(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    inner: object = None


def in_itself() -> object:
    values: list[object] = [1]
    values += [values, {"again": values}, Part(values), Model(inner=values)]
    return values


def odd() -> list[object]:
    """Values that raise when they are read, or do not end.

    Made when needed: pytest and Hypothesis print the values of a module and of a strategy.
    """
    return [
        Colour.RED,
        Colour.PAIR,
        Level.LOW,
        Hollow.SELF,
        HostileText("text"),
        seven(),
        HostileDict({"a": 1}),
        HostileList([1]),
        HostileObject(),
        EndlessMapping(),
        Unset(),
        Model(inner=object()),
        in_itself(),
        memoryview(b"abcd")[::2],
        iter([1]),
        Part,
        10**5_000,
        MappingProxyType({1: 2}),
    ]


def anything() -> st.SearchStrategy[object]:
    leaves = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.complex_numbers()
        | st.text(st.characters())
        | st.characters(categories=["Cs"])
        | st.binary()
        | st.datetimes(timezones=st.just(UTC))
        | st.dates()
        | st.times()
        | st.timedeltas()
        | st.decimals()
        | st.uuids()
        | st.fractions()
        | st.integers(0, len(odd()) - 1).map(lambda at: odd()[at])
        | st.just(PurePosixPath("a/\udcff"))
    )
    # No Hollow.SELF: as a key inside a model it overflows the stack of pydantic itself.
    keys = (
        st.text(max_size=3)
        | st.integers()
        | st.none()
        | st.booleans()
        | st.tuples(st.integers())
        | st.dates()
        | st.sampled_from([Colour.RED, Level.LOW])
        | st.builds(HostileText, st.text(max_size=2))
        | st.integers(5_000, 5_001).map(lambda digits: 10**digits)
    )

    def held(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
        return (
            st.lists(inner, max_size=5)
            | st.tuples(inner, inner)
            | st.dictionaries(keys, inner, max_size=5)
            | st.sets(st.integers() | st.text(), max_size=4)
            | st.builds(Part, inner, st.lists(inner, max_size=2))
            | inner.map(lambda value: Model(inner=value))
            | inner.map(lambda value: OrderedDict[str, object](k=value))
        )

    return st.recursive(leaves, held, max_leaves=20)


def levels_and_values(value: JsonValue) -> tuple[int, int]:
    below: list[JsonValue] = []
    if isinstance(value, dict):
        below = list(value.values())
    elif isinstance(value, list):
        below = value
    found = [levels_and_values(one) for one in below]
    is_held = isinstance(value, dict | list)
    return is_held + max((levels for levels, _ in found), default=0), 1 + sum(values for _, values in found)


FORMS = st.builds(
    JsonForm,
    binary=st.sampled_from(["base64", "repr"]),
    levels_max=st.integers(0, 8),
    values_max=st.integers(1, 100),
    items_max=st.none() | st.integers(1, 5),
    repr_chars_max=st.integers(1, 50),
)


@given(value=anything(), form=FORMS)
def test_any_value_becomes_strict_json_within_the_limits(value: object, form: JsonForm) -> None:
    found = json_value(value, form)
    assert parse(encode(found, LIMITS), LIMITS) == found
    levels, values = levels_and_values(found)
    # A mark such as {"$omitted": …} is one level, `$pairs` two; each value may end in a mark.
    assert levels <= 3 * form.levels_max + 1
    assert values <= 6 * form.values_max + 6


@given(value=anything())
def test_a_type_without_a_json_form_is_the_only_reason_to_raise(value: object) -> None:
    found: JsonValue = None
    with suppress(NoJsonForm):
        found = json_value(value, JsonForm(unknown="refuse", values_max=1_000))
    assert b'"$repr"' not in to_json(found)


@given(value=anything())
def test_a_value_that_is_strict_json_stays_as_it_is(value: object) -> None:
    once = json_value(value, JsonForm(values_max=1_000, levels_max=10))
    assert json_value(once, JsonForm(levels_max=64)) == once


def test_code_of_the_author_that_raises_does_not_reach_the_caller() -> None:
    # Not parametrized: pytest would print the values.
    expected: list[tuple[object, JsonValue]] = [
        (Colour.PAIR, [1, "two"]),
        (HostileText("text"), "text"),
        (seven(), 7),
        ({HostileText("k"): 1}, {"k": 1}),
        (Hollow.SELF, {"$type": "Hollow", "$repr": "<Hollow.SELF: 1>"}),
        (HostileDict({"a": 1}), {"$type": "HostileDict", "$repr": "<HostileDict: repr() failed>"}),
        (HostileObject(), {"$type": "HostileObject", "$repr": "<HostileObject: repr() failed>"}),
        ({date(2026, 1, 2): 1, None: 2}, {"2026-01-02": 1, "$pairs": [[None, 2]]}),
        ({Hollow.SELF: 1}, {"$pairs": [[{"$type": "Hollow", "$repr": "<Hollow.SELF: 1>"}, 1]]}),
    ]
    for value, form in expected:
        assert json_value(value) == form


def test_an_endless_mapping_is_read_up_to_the_limit() -> None:
    found = json_value(EndlessMapping(), JsonForm(values_max=10))
    assert isinstance(found, dict)
    assert list(found.values()) == [1] * 9 + [{"$omitted": "more than 10 values"}]
    assert len(cast("dict[str, object]", json_value(EndlessMapping(), JsonForm(items_max=3)))) == 3


def test_secrets_in_bytes_can_be_recognised_where_bytes_are_not_read_back() -> None:
    assert json_value(b"token", JsonForm(binary="repr")) == {"$type": "bytes", "$repr": "b'token'"}


def test_a_lone_surrogate_is_escaped_and_a_pair_is_joined() -> None:
    assert text_of("\ud800 \ud83d\ude00") == "\\ud800 😀"
