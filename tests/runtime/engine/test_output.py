"""Output validation: accepted answers, and the errors of refused ones."""

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, JsonValue
from pydantic_core import to_json
from tests.runtime.engine.hook_rig import run

from windlass.agent.agent import Agent, output_contract
from windlass.engine.model_calls.output import check_output
from windlass.errors import Rejected
from windlass.limits import (
    OUTPUT_BYTES,
    OUTPUT_BYTES_MAX,
    OUTPUT_ERROR_CHARS_MAX,
    OUTPUT_ERRORS,
)
from windlass.runtime.registry import register_agent
from windlass.testing import say
from windlass_harness.loop.events import OutputChecked
from windlass_protocol import OutputContract, canonical
from windlass_protocol.limits import FREE_LEVELS_MAX


def contract(schema: Any, **more: Any) -> OutputContract:
    return output_contract(schema, "answer").model_copy(update=more)


def check(schema: Any, answer: object, **more: Any) -> OutputChecked:
    text = answer if isinstance(answer, str) else to_json(answer).decode()
    return check_output(contract(schema, **more), text)


def errors_of(schema: Any, answer: object) -> list[tuple[str, str, str]]:
    return [(one.path, one.code, one.message) for one in check(schema, answer).errors]


class Node(BaseModel):
    name: str
    format: int
    kids: "list[Node]" = []
    born: datetime | None = None


def test_an_answer_that_fits_is_returned_with_the_hash_of_its_canonical_form():
    checked = check(Node, ' {"format": 1, "name": "a", "kids": [{"name": "b", "format": 2}]} ')
    assert checked.errors == ()
    assert checked.value == {"name": "a", "format": 1, "kids": [{"name": "b", "format": 2}]}
    other = check(Node, '{"name":"a","kids":[{"format":2,"name":"b"}],"format":1.0}')
    assert checked.hash == other.hash
    assert str(checked.hash).startswith("sha256:")


def test_a_code_fence_around_an_answer_is_forgiven_and_prose_is_not():
    assert check({"type": "integer"}, "```json\n5\n```").value == 5
    assert check({"type": "integer"}, "The answer is 5.").errors[0].code == "json"


def test_null_and_false_are_answers():
    values: list[JsonValue] = [None, False, 0, "", [], {}]
    for value in values:
        checked = check({}, to_json(value).decode())
        assert (checked.value, checked.errors) == (value, ())
        assert checked.hash is not None


WORDS: list[tuple[dict[str, Any], object, tuple[str, str, str]]] = [
    ({"type": "integer"}, "x", ("", "type", "expected integer, found string")),
    ({"type": ["integer", "null"]}, True, ("", "type", "expected integer or null, found boolean")),
    ({"type": "string"}, None, ("", "type", "expected string, found null")),
    ({"type": "string"}, 1.5, ("", "type", "expected string, found number")),
    ({"type": "string"}, [1], ("", "type", "expected string, found array")),
    ({"type": "string"}, {"a": 1}, ("", "type", "expected string, found object")),
    ({"required": ["a", "b"]}, {"b": 1}, ("", "required", "missing properties: a")),
    ({"enum": ["a", 1]}, "b", ("", "enum", 'expected one of ["a",1]')),
    ({"const": 5}, 6, ("", "const", "expected const 5")),
    ({"pattern": "^a$"}, "secret", ("", "pattern", 'expected pattern "^a$"')),
    ({"format": "uuid"}, "secret", ("", "format", 'expected format "uuid"')),
    ({"minimum": 3}, 1, ("", "minimum", "minimum is 3, found integer")),
    ({"maxLength": 2}, "secret", ("", "maxLength", "maxLength is 2, found string")),
    ({"minItems": 2}, [1], ("", "minItems", "minItems is 2, found array")),
    ({"uniqueItems": True}, [1, 1.0], ("", "uniqueItems", "uniqueItems is true, found array")),
    ({"properties": {"a": False}}, {"a": 1}, ("", "false", "not allowed here")),
    ({"additionalProperties": False}, {"a": 1}, ("/a", "additionalProperties", "not allowed here")),
    ({"additionalProperties": {"type": "null"}}, {"a": 1}, ("/a", "type", "expected null, found integer")),
    ({"not": {}}, 1, ("", "not", "not allowed here")),
    ({"oneOf": [{}, {}]}, 1, ("", "oneOf", "matches none of the alternatives, or more than one")),
    ({"items": {"type": "integer"}}, [1, "a"], ("/1", "type", "expected integer, found string")),
]


@pytest.mark.parametrize(("schema", "answer", "words"), WORDS)
def test_a_validation_error_names_the_expectation_and_quotes_nothing(
    schema: dict[str, Any], answer: object, words: tuple[str, str, str]
):
    assert errors_of(schema, to_json(answer).decode()) == [words]
    assert "secret" not in str(words)


def test_the_error_of_an_any_of_is_that_of_the_deepest_match():
    shape = {"type": "object", "properties": {"a": {"type": "object", "required": ["b"]}}}
    assert errors_of({"anyOf": [{"type": "null"}, shape]}, {"a": {}}) == [
        ("/a", "required", "missing properties: b")
    ]


def test_errors_are_bounded_in_number_and_length_and_in_the_order_of_their_places():
    schema = {"items": {"enum": ["x" * 500]}}
    checked = check(schema, list(range(100)))
    assert len(checked.errors) == OUTPUT_ERRORS
    assert {len(one.message) for one in checked.errors} == {OUTPUT_ERROR_CHARS_MAX}
    assert len(check(schema, [1, 2, 3], max_errors_returned=2).errors) == 2
    long = check({"additionalProperties": False}, {"k" * 5_000: 1}).errors[0]
    assert len(long.path) <= OUTPUT_ERROR_CHARS_MAX


def test_the_length_of_an_answer_is_limited():
    schema = {"type": "string"}
    fits, over = "x" * (OUTPUT_BYTES - 2), "x" * (OUTPUT_BYTES - 1)
    assert check(schema, f'"{fits}"').errors == ()
    assert check(schema, f'"{over}"').errors[0].code == "json"
    assert check(schema, f'"{over}"', max_candidate_bytes=OUTPUT_BYTES + 1).errors == ()
    huge = '"' + "x" * OUTPUT_BYTES_MAX + '"'
    assert check(schema, huge, max_candidate_bytes=OUTPUT_BYTES_MAX * 9).errors[0].code == "json"


def test_the_depth_of_an_answer_is_limited():
    schema = {"type": "array", "items": {"$ref": "#"}}
    levels = FREE_LEVELS_MAX
    assert check(schema, "[" * levels + "]" * levels).errors == ()
    assert check(schema, "[" * (levels + 1) + "]" * (levels + 1)).errors[0].code == "json"


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', "NaN", "1e999", "{} {}", '"\ud800"', ""])
def test_an_answer_that_is_not_strict_json_is_refused(text: str):
    assert check({}, text).errors[0].code == "json"


# formats

FORMATS = {
    "date": (["2024-02-29"], ["2023-02-29", "2024-2-9", "20240229", "٢٠٢٤-٠١-٠١"]),
    "time": (["12:00:00Z", "23:59:59.123456789+02:00", "00:00:00z"], ["24:00:00Z", "12:00:00", "12:00Z"]),
    "date-time": (
        ["2024-01-01T00:00:00Z", "2024-01-01t12:34:56.5-11:00"],
        ["2024-01-01 00:00:00Z", "2024-01-01T00:00:00", "2024-13-01T00:00:00Z", "2024-01-01"],
    ),
    "duration": (["P1D", "PT5M", "P1Y2M3DT4H5M6.5S", "P3W"], ["P", "PT", "1D", "P1H", "P-1D"]),
    "email": (["a@b", "first.last+tag@example.org"], ["a", "a@", "@b", "a b@c", "a@b@c", "<a@b>"]),
    "uuid": (["123e4567-e89b-12d3-a456-426614174000"], ["123e4567e89b12d3a456426614174000", "x"]),
    "ipv4": (["127.0.0.1"], ["256.0.0.1", "1.2.3", "::1"]),
    "ipv6": (["::1", "2001:db8::1"], ["127.0.0.1", ":::1"]),
    "uri": (["https://example.org/a?b#c", "urn:x:y"], ["/path", "a b", "http://[::1", "é:1"]),
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats_are_checked(name: str):
    good, bad = FORMATS[name]
    schema = {"format": name}
    assert [text for text in good if check(schema, to_json(text).decode()).errors] == []
    assert [text for text in bad if not check(schema, to_json(text).decode()).errors] == []
    assert check(schema, 5).errors == ()


def test_an_unknown_format_is_not_checked():
    assert check({"format": "phone"}, '"x"').errors == ()


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_datetime_that_pydantic_writes_fits_the_format(moment: datetime):
    checked = check({"format": "date-time"}, to_json(moment).decode())
    assert checked.errors == ()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_an_empty_schema_accepts_every_json_value(value: Any):
    checked = check({}, canonical(value).decode())
    assert checked.value == value
    assert checked.errors == ()


# the run


def test_a_rejected_answer_is_repaired_and_the_validated_hash_is_recorded():
    found = run(script=[say('{"name": "a"}'), say('{"name": "a", "format": 1}')], output=Node)
    assert found.result.structured_output == {"name": "a", "format": 1}
    types = [one for one in found.types if one.startswith(("output.", "result.", "run.c"))]
    assert types == [
        "output.requested",
        "output.rejected",
        "output.validated",
        "result.completed",
        "run.completed",
    ]
    hashed = check(Node, '{"name": "a", "format": 1}').hash
    assert found.all("output.validated")[0]["hash"] == hashed


def test_an_agent_with_a_hostile_schema_does_not_get_into_a_runtime():
    for schema in ({"$ref": "https://example.org/x.json"}, {"pattern": "(?=x)"}, {"type": "strnig"}):
        with pytest.raises(Rejected, match="agent a: output is not a usable JSON Schema: "):
            Agent("a", model="p/m", output=schema)


def test_an_agent_with_a_hostile_schema_from_a_type_is_refused():
    class Hostile(BaseModel):
        text: str = Field(json_schema_extra={"pattern": "(?=x)"})

    with pytest.raises(Rejected, match="output contract"):
        register_agent(Agent("a", model="p/m", output=Hostile))


@pytest.mark.slow
def test_a_run_without_a_contract_does_not_pay_for_the_validator():
    code = (
        "import sys, windlass.runtime.compose, windlass.engine.effects\n"
        "assert not {'jsonschema', 'referencing'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
