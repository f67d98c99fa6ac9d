import enum
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, cast
from uuid import UUID

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from windlass.errors import Rejected
from windlass.tools import schema as tool_schema
from windlass.tools import tool
from windlass_protocol import JsonObject


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    """A place."""

    street: str
    number: int = 1
    inside: "Place | None" = None


@dataclass
class Size:
    wide: int
    tall: int = 3
    tags: list[str] = field(default_factory=list[str])


class Extra(TypedDict):
    note: str


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    known: int = 1


def everything(
    text: str,
    count: Annotated[int, Field(gt=0, le=10)],
    colour: Colour,
    place: Place,
    size: Size,
    extra: Extra,
    kind: Literal["a", "b"] = "a",
    maybe: str | None = None,
    either: int | str = 5,
    many: list[Place] | None = None,
    table: dict[str, float] | None = None,
    pair: tuple[int, str] = (1, "x"),
    when: datetime | None = None,
    money: Decimal = Decimal("1.50"),
    key: UUID | None = None,
    anything: Any = None,
    secret: object = object(),
    schema: str = "s",
    model_config: str = "m",
    _hidden: int = 0,
) -> None:
    """Take everything."""


EVERYTHING = tool(everything)
GOOD: JsonObject = {
    "text": "x",
    "count": 3,
    "colour": "red",
    "place": {"street": "s", "inside": {"street": "t"}},
    "size": {"wide": 1},
    "extra": {"note": "n"},
}


def test_the_schema_is_json_schema_of_draft_2020_12():
    jsonschema.Draft202012Validator.check_schema(EVERYTHING.input_schema)
    assert EVERYTHING.input_schema["type"] == "object"
    assert EVERYTHING.input_schema["additionalProperties"] is False
    assert EVERYTHING.input_schema["required"] == ["colour", "count", "extra", "place", "size", "text"]
    assert json.loads(json.dumps(EVERYTHING.input_schema)) == EVERYTHING.input_schema


def properties() -> dict[str, JsonObject]:
    return cast(dict[str, JsonObject], EVERYTHING.input_schema["properties"])


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("text", {"type": "string"}),
        ("count", {"type": "integer", "exclusiveMinimum": 0, "maximum": 10}),
        ("colour", {"$ref": "#/$defs/Colour"}),
        ("kind", {"enum": ["a", "b"], "type": "string", "default": "a"}),
        ("maybe", {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}),
        ("either", {"anyOf": [{"type": "integer"}, {"type": "string"}], "default": 5}),
        ("anything", {"default": None}),
        ("secret", {}),
        ("schema", {"type": "string", "default": "s"}),
        ("model_config", {"type": "string", "default": "m"}),
        ("_hidden", {"type": "integer", "default": 0}),
    ],
)
def test_a_type_hint_becomes_the_schema_that_says_the_same(name: str, schema: JsonObject):
    assert properties()[name] == schema


def test_models_inside_are_definitions_without_unknown_fields_or_titles():
    definitions = cast(dict[str, JsonObject], EVERYTHING.input_schema["$defs"])
    assert definitions["Place"] == {
        "description": "A place.",
        "type": "object",
        "properties": {
            "street": {"type": "string"},
            "number": {"type": "integer", "default": 1},
            "inside": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}], "default": None},
        },
        "required": ["street"],
        "additionalProperties": False,
    }
    assert definitions["Colour"] == {"enum": ["red", "blue"], "type": "string"}
    assert definitions["Extra"]["additionalProperties"] is False


def test_a_model_with_extra_fields_allowed_keeps_them_and_says_so_in_its_schema():
    def keep(value: Open, place: Place) -> None: ...

    made = tool(keep)
    definitions = cast(dict[str, JsonObject], made.input_schema["$defs"])
    assert definitions["Open"]["additionalProperties"] is True
    values = made.shape.validate(b'{"value":{"more":1},"place":{"street":"s"}}')
    assert values["value"] == Open.model_validate({"more": 1})


def test_the_same_function_gives_the_same_schema_again():
    assert json.dumps(tool(everything).input_schema) == json.dumps(EVERYTHING.input_schema)


def test_json_arguments_become_typed_values_and_omitted_ones_stay_out():
    values = EVERYTHING.shape.validate(json.dumps(GOOD).encode())
    assert values == {
        "text": "x",
        "count": 3,
        "colour": Colour.RED,
        "place": Place(street="s", inside=Place(street="t")),
        "size": Size(1),
        "extra": {"note": "n"},
    }


class Stranger:
    pass


def strange(fine: int, odd: Stranger) -> None: ...


def function(fine: int, odd: Callable[[int], int]) -> None: ...


def wrong_field(odd: Annotated[int, Field(discriminator="kind")]) -> None: ...


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (strange, "tool strange: odd is of a type that is not known; use a model"),
        (function, "tool function: odd has no JSON form"),
        (wrong_field, "tool wrong_field: odd cannot be used: "),
    ],
)
def test_a_type_that_json_cannot_hold_is_named_with_its_parameter(made: Callable[..., object], words: str):
    with pytest.raises(Rejected, match=words):
        tool(made)


def test_a_plain_tool_pays_for_its_schema_when_it_is_asked_for():
    def plain(text: str, names: list[str], size: int | None = None, kind: Literal["a"] = "a") -> None: ...

    made = tool(plain)
    assert "_raw_schema" not in vars(made.shape)
    assert made.input_schema["required"] == ["names", "text"]
    assert "_raw_schema" in vars(made.shape)


SIMPLE = st.builds(
    tool_schema.ToolParameter,
    name=st.sampled_from(["a", "b", "model_config", "schema", "class_"]),
    annotation=st.sampled_from([str, int, float, bool]),
    default=st.one_of(
        st.just(tool_schema.MISSING),
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(),
        st.just("\ud800"),
    ),
)


@given(st.lists(SIMPLE, unique_by=lambda one: one.name), st.dictionaries(st.sampled_from("ab"), st.text()))
def test_simple_types_have_the_schema_that_pydantic_makes(
    parameters: list[tool_schema.ToolParameter], descriptions: dict[str, str]
) -> None:
    signature = tool_schema.Signature(tuple(parameters), None, is_async=True)
    ours = tool_schema.ArgumentShape("t", signature, descriptions)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tool_schema, "_SIMPLE", {})
        of_pydantic = tool_schema.ArgumentShape("t", signature, descriptions).schema
    assert json.dumps(ours.schema) == json.dumps(of_pydantic)


def test_the_schema_of_simple_types_needs_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def count(*_: object) -> None:
        raise AssertionError("a model was made")

    monkeypatch.setattr(tool_schema, "create_model", count)

    @tool(mode="read", description="d")
    async def find(query: str, page: int = 1, *, exact: bool = False) -> str:
        return ""

    assert find.input_schema["required"] == ["query"]
