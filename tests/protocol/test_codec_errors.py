"""Error texts of the codec: our own wording, without the payload."""

import json
import re
from collections.abc import Iterator
from string import Formatter
from typing import Annotated, Any, cast

import pytest
from pydantic import AfterValidator, BaseModel, Field, JsonValue, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError
from pydantic_core._pydantic_core import list_all_errors
from tests.protocol.judges import Case, adapter, examples
from tests.protocol.mutation import mutants

from windlass_protocol.codec import CodecError, decode
from windlass_protocol.codec_words import EXPECTED, OTHERWISE, issue_text, json_type

SECRET = "hunter2-canary"
OURS = {"constant", "exactly_one", "invalid-json-value", "text_form", "whole_number"}
FROM_THE_SCHEMA = {
    "actual_length",  # a number
    "decimal_places",
    "discriminator",
    "encoding",
    "expected",
    "expected_schemes",
    "expected_tags",
    "expected_version",
    "ge",
    "gt",
    "le",
    "lt",
    "max_digits",
    "max_length",
    "min_length",
    "multiple_of",
    "pattern",
    "tz_expected",
    "whole_digits",
}
EVERY = 29
"""Of the mutants of all valid examples, read each 29th."""


def facts_of(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name}


def refused() -> Iterator[Case]:
    yield from examples("invalid")
    changed = ((case, what, value) for case in examples("valid") for what, value in mutants(case.value))
    for index, (case, what, value) in enumerate(changed):
        if index % EVERY == 0:
            yield Case(case.type, what, value)


def custom_kinds(schema: object) -> Iterator[str]:
    """Find the kinds of issues that a core schema makes up itself."""
    match schema:
        case dict():
            members = cast(dict[str, Any], schema)
            if isinstance(kind := members.get("custom_error_type"), str):
                yield kind
            for member in members.values():
                yield from custom_kinds(member)
        case list() | tuple():
            for member in cast(list[Any], schema):
                yield from custom_kinds(member)
        case _:
            pass


def test_exactly_the_error_types_of_pydantic_have_our_texts() -> None:
    assert set(EXPECTED) == {kind["type"] for kind in list_all_errors()} | OURS


def test_every_custom_error_type_of_our_types_has_a_text() -> None:
    types = {case.type for case in examples("valid")}
    made_up = {kind for name in types for kind in custom_kinds(adapter(name).core_schema)}
    assert made_up >= {"text_form", "whole_number", "invalid-json-value"}
    assert made_up <= set(EXPECTED)


@pytest.mark.parametrize("kind", list_all_errors(), ids=lambda kind: kind["type"])
def test_error_texts_contain_only_facts_of_the_schema(kind: dict[str, Any]) -> None:
    facts = facts_of(EXPECTED[kind["type"]])
    assert facts <= FROM_THE_SCHEMA
    assert facts <= set(kind["example_context"] or {})


@pytest.mark.parametrize("kind", list_all_errors(), ids=lambda kind: kind["type"])
def test_error_texts_contain_no_text_of_pydantic(kind: dict[str, Any]) -> None:
    theirs = {kind["message_template_python"], kind.get("message_template_json", "")}
    text = issue_text(kind["type"], dict.fromkeys(kind["example_context"] or {}, "x"), value=None)
    assert re.fullmatch(r"expected .+, found .+", text)
    assert EXPECTED[kind["type"]] not in theirs
    assert "nput" not in text


@pytest.mark.uncounted
def test_no_wire_type_needs_the_generic_error_text() -> None:
    kinds: set[str] = set()
    for case in refused():
        raw = json.dumps(case.value)
        try:
            adapter(case.type).validate_json(raw, strict=True, by_alias=True, by_name=False)
        except ValidationError as error:
            kinds |= {details["type"] for details in error.errors()}
            with pytest.raises(CodecError) as caught:
                decode(adapter(case.type), raw)
            for issue in caught.value.issues:
                assert issue.message.startswith("expected ")
                assert ", found " in issue.message or issue.message.endswith("…")
    assert len(kinds) > 15
    assert kinds <= set(EXPECTED)


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (None, "null"),
        (True, "a boolean"),
        (0, "a number"),
        (0.5, "a number"),
        ("x", "a string"),
        ([], "an array"),
        ({}, "an object"),
        ((1,), "no JSON: a value of class tuple"),
    ],
)
def test_a_wrong_value_is_named_by_its_json_type(value: object, word: str) -> None:
    assert json_type(value) == word


@pytest.mark.parametrize(("value", "word"), [("c", "another string"), (3, "a number"), (None, "null")])
def test_a_value_outside_of_an_enumeration_is_called_another_value(value: object, word: str) -> None:
    facts = {"expected": "'a' or 'b'"}
    assert issue_text("literal_error", facts, value=value) == f"expected 'a' or 'b', found {word}"


def test_a_custom_error_type_gets_a_generic_text_without_the_value() -> None:
    def refuse(value: str) -> str:
        raise PydanticCustomError("my_kind", "found {value}", {"value": value})

    class Mine(BaseModel):
        word: Annotated[str, AfterValidator(refuse)]

    with pytest.raises(CodecError) as caught:
        decode(Mine, json.dumps({"word": SECRET}))
    assert caught.value.issues[0].message == f"expected {OTHERWISE}, found a string"
    assert SECRET not in f"{caught.value!r} {vars(caught.value)}"


def test_an_error_type_without_its_context_still_gets_a_text() -> None:
    assert issue_text("greater_than", {}, value=1) == "expected a value above …, found a number"


@pytest.mark.parametrize(
    ("annotation", "value", "text"),
    [
        (Annotated[list[int], Field(min_length=2)], [1], "expected at least 2 items, found 1"),
        (Annotated[list[int], Field(max_length=1)], [1, 2], "expected at most 1 items, found more"),
        (Annotated[int, Field(gt=3)], 2, "expected a value above 3, found a number"),
        (Annotated[str, Field(pattern="^a$")], SECRET, "expected text that matches ^a$, found a string"),
    ],
)
def test_error_texts_name_the_limits_of_the_schema(annotation: Any, value: JsonValue, text: str) -> None:
    with pytest.raises(CodecError) as caught:
        decode(TypeAdapter[object](annotation), json.dumps(value))
    assert caught.value.issues[0].message == text
