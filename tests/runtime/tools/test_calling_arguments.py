import json
import threading
from collections.abc import Callable
from datetime import UTC, date, datetime
from enum import Enum
from hashlib import sha256
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, JsonValue, model_validator
from tests.runtime.runtime_rig import play

from windlass import Agent, AgentRuntime, Approval
from windlass.errors import Rejected
from windlass.limits import ARGUMENT_BYTES_MAX, LIGHT_VALUES_MAX
from windlass.testing import ScriptedModel, call, say
from windlass.tools import tool
from windlass.tools.calling import arguments_hash, arguments_of
from windlass_protocol import ErrorKind, JsonObject, RetryClass, ToolMode
from windlass_protocol.limits import ERROR_COUNTED_MAX, FREE_LEVELS_MAX


class Colour(Enum):
    RED = "red"


class Span(BaseModel):
    start: date
    end: date

    @model_validator(mode="after")
    def _in_order(self) -> "Span":
        if self.end < self.start:
            raise ValueError("end must not be before start AKIAIOSFODNN7EXAMPLE\nand more")
        assert self.end.year < 2100, "too far"
        return self


@tool
def book(
    count: int,
    colour: Colour = Colour.RED,
    span: Span | None = None,
    when: datetime | None = None,
    price: float = 1.0,
    tags: list[str] | None = None,
) -> None: ...


def refused(raw: JsonValue) -> str:
    with pytest.raises(Rejected) as caught:
        arguments_of(book, raw)
    assert (caught.value.kind, caught.value.retry) == (ErrorKind.TOOL_FAILURE, RetryClass.REPAIR_NEEDED)
    assert caught.value.__context__ is None
    return caught.value.message


def test_a_text_is_read_as_json_and_an_object_as_it_is():
    written: list[JsonValue] = ['{"count": 2, "colour": "red"}', {"colour": "red", "count": 2}]
    for raw in written:
        arguments = arguments_of(book, raw)
        assert arguments.json == {"count": 2, "colour": "red"}
        assert arguments.values == {"count": 2, "colour": Colour.RED}
        assert arguments.hash == "sha256:" + sha256(b'{"colour":"red","count":2}').hexdigest()
        assert arguments.hash == arguments_hash(arguments.json)


def test_a_call_without_arguments_has_a_hash_too():
    @tool
    def look() -> None: ...

    written: list[JsonValue] = ["{}", {}]
    for raw in written:
        assert arguments_of(look, raw).hash == "sha256:" + sha256(b"{}").hexdigest()


@pytest.mark.parametrize("whole", ["3", "3.0", "3e0", "0.3e1"])
def test_a_whole_number_is_one_however_it_is_written(whole: str):
    arguments = arguments_of(book, f'{{"count": {whole}}}')
    assert arguments.values == {"count": 3}
    assert arguments.hash == arguments_hash({"count": 3})


def test_values_that_json_writes_as_texts_are_read():
    raw: JsonValue = {
        "count": 1,
        "when": "2026-01-02T03:04:05Z",
        "span": {"start": "2026-01-01", "end": "2026-01-02"},
        "price": 3,
        "tags": ["a"],
    }
    assert arguments_of(book, raw).values == {
        "count": 1,
        "when": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "span": Span(start=date(2026, 1, 1), end=date(2026, 1, 2)),
        "price": 3.0,
        "tags": ["a"],
    }


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"count": "5"}, "/count: expected an integer, found a string"),
        ({"count": 5.5}, "/count: expected an integer, found a number"),
        ({"count": True}, "/count: expected an integer, found a boolean"),
        ({"count": None}, "/count: expected an integer, found null"),
        ({}, "/count: expected this field, found none"),
        ({"count": 1, "colour": "green"}, "/colour: expected 'red', found another string"),
        ({"count": 1, "when": 12345}, "/when: expected a moment as RFC 3339, found a number"),
        ({"count": 1, "price": "3"}, "/price: expected a number, found a string"),
        ({"count": 1, "tags": ["a", 2]}, "/tags/1: expected a string, found a number"),
        ({"count": 1, "span": {"start": "2026-01-01"}}, "/span/end: expected this field, found none"),
        (
            {"count": 1, "span": {"start": "2026-01-01", "end": "2026-01-02", "x": 1}},
            "/span/x: expected no field of this name",
        ),
        (
            {"count": 1, "span": {"start": "2026-01-02", "end": "2026-01-01"}},
            "/span: end must not be before start",
        ),
        ({"count": 1, "span": {"start": "2026-01-02", "end": "2126-01-01"}}, "/span: too far"),
        (
            {"count": 1, "colr": "red"},
            "/colr: expected no field of this name, found a string; "
            "the parameters are count, colour, span, when, price, tags",
        ),
        ([], "expected an object with the parameters by name"),
        (None, "expected an object"),
        ("", "they are not valid JSON: "),
        ("{", "they are not valid JSON: not JSON"),
        ('{"count": 1, "count": 2}', "they are not valid JSON: duplicate key"),
        ('{"count": NaN}', "they are not valid JSON: "),
        ({"count": float("nan")}, "they are not valid JSON: number not finite"),
        ('{"count": 1, "tags": ["\\ud800"]}', "they are not valid JSON: lone surrogate"),
        ({"count": 1, "tags": ["\ud800"]}, "they are not valid JSON: lone surrogate"),
        ({"count": 2**53}, "they are not valid JSON: integer out of range"),
        ("text", "they are not valid JSON: "),
        ('"text"', "expected an object"),
    ],
)
def test_the_error_for_arguments_that_do_not_fit_quotes_no_values(raw: JsonValue, words: str):
    message = refused(raw)
    assert message.startswith("the arguments of book do not fit: ")
    assert words in message
    assert "green" not in message
    assert "AKIA" not in message
    assert "\n" not in message


def test_only_the_first_problems_of_arguments_are_listed():
    message = refused({"count": 1, "tags": list(range(20))})
    assert "/tags/7" in message
    assert "/tags/8" not in message
    assert message.endswith("; and 8 more")
    assert "1,000" in refused({"count": 1, "tags": list(range(1_001))})


@tool
def plan(spans: list[Span]) -> str:
    """Plan."""
    return ""


@pytest.mark.parametrize(
    ("count", "words"),
    [(ERROR_COUNTED_MAX, "too far"), (ERROR_COUNTED_MAX + 1, "more than 1,000 issues, too many to list")],
)
def test_too_many_problems_of_arguments_are_not_read_one_by_one(count: int, words: str):
    spans: list[JsonValue] = [{"start": "2100-01-01", "end": "2100-01-02"} for _ in range(count)]
    with pytest.raises(Rejected) as caught:
        arguments_of(plan, {"spans": spans})
    assert words in caught.value.message


def test_arguments_fit_up_to_their_limits():
    @tool
    def keep(value: object) -> None: ...

    frame = len('{"value":""}')
    assert arguments_of(keep, {"value": "a" * (ARGUMENT_BYTES_MAX - frame)})
    with pytest.raises(Rejected, match=r"they are too large: message too large: .* limit 524,288"):
        arguments_of(keep, {"value": "a" * (ARGUMENT_BYTES_MAX - frame + 1)})

    def nested(levels: int) -> JsonValue:
        value: JsonValue = 1
        for _ in range(levels):
            value = [value]
        return value

    assert arguments_of(keep, {"value": nested(FREE_LEVELS_MAX - 1)})
    with pytest.raises(Rejected, match="49 levels, limit 48"):
        arguments_of(keep, {"value": nested(FREE_LEVELS_MAX)})


def test_many_parameters_are_not_all_listed():
    names = [f"parameter_{number}" for number in range(30)]
    scope: dict[str, Callable[..., object]] = {}
    exec(f"def wide({', '.join(f'{name}: int = 0' for name in names)}) -> None: ...", scope)
    made = tool(scope["wide"])
    with pytest.raises(Rejected, match=r"parameter_23 and 6 more$"):
        arguments_of(made, {"x": 1})


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(value=JSON)
def test_the_hash_is_that_of_the_value_and_not_of_its_writing(value: JsonValue):
    @tool
    def keep(value: object) -> None: ...

    plain = arguments_of(keep, {"value": value})
    for text in (json.dumps({"value": value}), json.dumps({"value": value}, indent=2, sort_keys=True)):
        assert arguments_of(keep, text).hash == plain.hash


@given(raw=JSON)
def test_random_arguments_either_fit_or_are_rejected(raw: JsonValue):
    try:
        arguments = arguments_of(book, raw)
    except Rejected:
        return
    assert isinstance(arguments.values["count"], int)


def test_arguments_too_large_for_a_record_are_an_error_result():
    @tool(mode="read")
    async def keep(text: str) -> str:
        return text

    async def story() -> str:
        model = ScriptedModel([call("keep", {"text": "x" * 2_000_000}), say("done")])
        async with AgentRuntime.in_memory([Agent("a", model=model, tools=[keep])]) as runtime:
            await (await runtime.start_run("a", "go")).wait(timeout=300)
        return model.requests[1].messages[-1].content

    told = play(story())
    assert "they are too large: 2,0" in told
    assert "characters, limit 524,288 bytes; send less, or in several calls" in told


@pytest.mark.parametrize(("size", "is_on_loop"), [(8, True), (LIGHT_VALUES_MAX + 1, False)])
@pytest.mark.parametrize("mode", ["read", "external"])
def test_large_arguments_are_read_beside_the_event_loop(size: int, is_on_loop: bool, mode: ToolMode) -> None:
    threads: list[int] = []

    def note(value: list[int]) -> list[int]:
        threads.append(threading.get_ident())
        return value

    @tool(mode=mode)
    async def add(numbers: Annotated[list[int], AfterValidator(note)]) -> str:
        """Add."""
        return str(len(numbers))

    async def story() -> None:
        numbers: list[JsonValue] = [0] * size
        add_all: JsonObject = {"numbers": numbers}
        model = ScriptedModel([call("add", add_all), call("add", add_all), say("done")])
        agent = Agent("adder", model=model, tools=[add])
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run("adder", "Add.")
            async for request in handle.requests():
                assert isinstance(request, Approval)
                await request.approve()
            assert (await handle.wait()).output == "done"
        assert threads
        assert {thread == threading.get_ident() for thread in threads} == {is_on_loop}

    play(story())
