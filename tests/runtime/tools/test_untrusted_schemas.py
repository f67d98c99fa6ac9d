"""Untrusted schemas: none fetches anything, hangs, or runs without a limit."""

import socket
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.agent.agent import output_contract
from windlass.engine.model_calls.output import check_output
from windlass.limits import (
    OUTPUT_CHECKS_MAX,
    PATTERN_CHARS_MAX,
    PATTERN_STEPS_PER_CHECK,
    PATTERN_WEIGHT_MAX,
    SCHEMA_BYTES_MAX,
    SCHEMA_CHAIN_MAX,
    SCHEMA_ENUM_VALUES_MAX,
    SCHEMA_PATTERNS_SIZE_MAX,
    SCHEMA_PROPERTIES_MAX,
)
from windlass.tools.json_schema import (
    Patterns,
    compiled_size,
    matches,
    pattern_problem,
    schema_faults,
    schema_problem,
    weight,
)
from windlass_protocol import JsonObject
from windlass_protocol.limits import FREE_LEVELS_MAX


def chain(length: int) -> dict[str, Any]:
    names = [f"d{number}" for number in range(length)]
    inner: dict[str, Any] = {name: {"$ref": f"#/$defs/{after}"} for name, after in pairwise(names)}
    return {"$defs": {**inner, names[-1]: {"type": "integer"}}, "$ref": "#/$defs/d0"}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels - 1):
        schema = {"items": schema}
    return schema


FINE: list[dict[str, Any]] = [
    {},
    {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"},
    {"$id": "https://example.org/mine", "$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}},
    {"$defs": {"a": {"$anchor": "here", "type": "integer"}}, "$ref": "#here"},
    {"$defs": {"a": {"$dynamicAnchor": "here"}}, "$dynamicRef": "#here"},
    {"$defs": {"a/b~c": True}, "$ref": "#/$defs/a~1b~0c"},
    {"$defs": {"a b": {}}, "$ref": "#/$defs/a%20b"},
    {"properties": {"format": {"type": "string"}, "$ref": {"type": "integer"}, "pattern": {"type": "null"}}},
    {"properties": {"kids": {"items": {"$ref": "#"}}}},
    {"enum": [{"$ref": "https://example.org"}, {"pattern": "(?=x)"}]},
    {"const": {"$ref": "elsewhere"}, "default": {"$id": "x"}, "examples": [{"$ref": "y"}]},
    {"anyOf": [{"type": "integer"}, True], "not": False},
    {"prefixItems": [{"type": "integer"}], "items": False},
    {"patternProperties": {"^a": {"type": "integer"}}, "additionalProperties": False},
    {"if": {"type": "integer"}, "then": {"minimum": 1}, "else": {"type": "string"}},
    {"dependentSchemas": {"a": {"required": ["b"]}}, "unevaluatedProperties": False},
    chain(SCHEMA_CHAIN_MAX - 1),
    nested(FREE_LEVELS_MAX),
    {"enum": list(range(SCHEMA_ENUM_VALUES_MAX))},
    {"properties": {f"p{number}": {} for number in range(SCHEMA_PROPERTIES_MAX)}},
]


@pytest.mark.parametrize("schema", FINE, ids=lambda one: str(one)[:40])
def test_an_honest_schema_can_be_used(schema: dict[str, Any]):
    assert schema_problem(schema) is None
    check_output(output_contract(schema, "x"), "1")


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"$ref": "http://127.0.0.1:9/schema"}, "a $ref must stay inside the schema"),
    ({"$ref": "other.json#/a"}, "a $ref must stay inside the schema"),
    ({"items": {"$dynamicRef": "https://example.org#x"}}, "a $ref must stay inside the schema"),
    ({"$id": "https://example.org/a", "$ref": "https://example.org/a#/$defs/b"}, "must stay inside"),
    ({"$ref": 5}, "a $ref must stay inside the schema"),
    ({"$ref": "#/$defs/gone"}, "a $ref points to no schema"),
    ({"$ref": "#gone"}, "a $ref points to no schema"),
    ({"$ref": "#/hidden", "hidden": {"$ref": "http://x"}}, "a $ref points to no schema"),
    ({"$ref": "#/enum/0", "enum": [{"$ref": "http://x"}]}, "a $ref points to no schema"),
    ({"items": {"$id": "https://example.org/b"}}, "only the whole schema may have an $id"),
    ({"$schema": "http://json-schema.org/draft-07/schema#"}, "the $schema is not JSON Schema 2020-12"),
    ({"items": {"$schema": "http://json-schema.org/draft-04/schema#"}}, "the $schema is not"),
    ({"$ref": "#"}, "a $ref leads back to itself"),
    ({"anyOf": [{"$ref": "#"}]}, "a $ref leads back to itself"),
    ({"not": {"$ref": "#"}}, "a $ref leads back to itself"),
    ({"$defs": {"a": {"if": {"$ref": "#/$defs/b"}}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}}, "leads back"),
    (chain(SCHEMA_CHAIN_MAX + 2), "too many schemas refer to one another"),
    (chain(200), "too many schemas refer to one another"),
    (nested(FREE_LEVELS_MAX + 1), "deep"),
    ({"description": "x" * SCHEMA_BYTES_MAX}, "limit"),
    ({"enum": list(range(SCHEMA_ENUM_VALUES_MAX + 1))}, "too many enum values: 1,025, limit 1,024"),
    (
        {"properties": {f"p{number}": {} for number in range(SCHEMA_PROPERTIES_MAX + 1)}},
        "too many properties",
    ),
    ({"pattern": "(?=a)b"}, "a pattern is not a regular expression, or it uses look-around"),
    ({"pattern": r"(a)\1"}, "a pattern is not a regular expression"),
    ({"pattern": "("}, "a pattern is not a regular expression"),
    ({"patternProperties": {"(": {}}}, "a pattern is not a regular expression"),
    ({"pattern": "a" * (PATTERN_CHARS_MAX + 1)}, "a pattern is too long: 1,025 characters, limit 1,024"),
    ({"pattern": "(a{0,300}){0,300}b$"}, "a pattern repeats too much"),
    ({"patternProperties": {"a": {}}, "unevaluatedProperties": False}, "cannot be used together"),
    ({"type": "strnig"}, "it is not a JSON Schema (draft 2020-12), see /type"),
    ({"properties": 5}, "it is not a JSON Schema (draft 2020-12), see /properties"),
    ({"anyOf": {"a": 1}}, "it is not a JSON Schema"),
    ({"anyOf": [5]}, "it is not a JSON Schema"),
    ({"pattern": 5}, "it is not a JSON Schema"),
    ({"items": object()}, "JSON"),
    ({"properties": {"apiKey": {"type": "string"}}}, "the property 'apiKey' names a secret"),
    ({"items": {"properties": {"auth": {"enum": ["oauth", "basic"]}}}}, "choose another name"),
]


@pytest.mark.parametrize(("schema", "told"), HOSTILE, ids=lambda one: str(one)[:40])
def test_a_hostile_schema_is_refused_with_the_reason(schema: dict[str, Any], told: str):
    problem = schema_problem(schema)
    assert problem is not None
    assert told in problem


def test_nothing_is_ever_fetched(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection was attempted")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    for schema, _ in HOSTILE[:9]:
        contract = output_contract({}, "x").model_copy(update={"json_schema": schema})
        assert check_output(contract, "1").errors[0].code == "schema"


def laugh(levels: int, width: int) -> dict[str, Any]:
    """A small schema that asks for `width ** levels` checks."""
    defs: dict[str, Any] = {"d0": {"type": "integer"}}
    for level in range(1, levels + 1):
        defs[f"d{level}"] = {"allOf": [{"$ref": f"#/$defs/d{level - 1}"}] * width}
    return {"$defs": defs, "$ref": f"#/$defs/d{levels}"}


@pytest.mark.uncounted
def test_a_schema_that_asks_for_endless_work_is_given_up():
    (error,) = check_output(output_contract(laugh(10, 20), "x"), "1").errors
    assert error.code == "too_much"
    assert check_output(output_contract(laugh(3, 5), "x"), "1").errors == ()


def test_a_value_and_a_schema_that_go_too_deep_together_are_given_up():
    deep = chain(SCHEMA_CHAIN_MAX - 1)
    deep["$defs"]["d30"] = {"items": {"$ref": "#/$defs/d0"}}
    text = "[" * 48 + "]" * 48
    (error,) = check_output(output_contract(deep, "x"), text).errors
    assert error.code == "too_much"


CATASTROPHES = ["(a+)+$", "(a|aa)+$", "(a*)*b", "([a-z]+)*\\d", "(.*a){20}b", "^(a?){30}a{30}b$"]


@pytest.mark.parametrize("pattern", CATASTROPHES)
def test_no_pattern_takes_longer_than_its_text_is_long(pattern: str):
    """Each of these would keep a backtracking engine busy without end."""
    text = "a" * 8_000 + "!"
    schema = {
        "properties": {"x": {"pattern": pattern}},
        "patternProperties": {pattern: {"maxLength": 99_999}},
        "additionalProperties": {"type": "string"},
    }
    checked = check_output(output_contract(schema, "x"), f'{{"x": "{text}", "{text}": "{text}"}}')
    assert {one.code for one in checked.errors} <= {"pattern"}


def test_unlike_items_are_compared_in_time_that_grows_with_their_number():
    items = ",".join(f'"{number}"' if number % 2 else str(number) for number in range(4_000))
    assert check_output(output_contract({"uniqueItems": True}, "x"), f"[{items}]").errors == ()


def test_patterns_decide_as_json_schema_has_it():
    schema = {"patternProperties": {"^n": {"type": "integer"}}, "additionalProperties": False}
    contract = output_contract(schema, "x")
    assert check_output(contract, '{"n": 1}').errors == ()
    assert [one.path for one in check_output(contract, '{"n": "x"}').errors] == ["/n"]
    assert [one.path for one in check_output(contract, '{"m": 1}').errors] == ["/m"]
    assert check_output(contract, "[]").errors == ()
    assert matches("b", "abc")
    assert not matches("^b", "abc")


def test_a_dialect_of_its_own_does_not_lead_around_the_bounds():
    """Python takes a line break at the end for the end: that shows who matched."""
    dialect = "https://json-schema.org/draft/2020-12/schema"
    schema = {"$schema": dialect, "pattern": "^a$", "items": {"$ref": "#"}}
    checked = check_output(output_contract(schema, "x"), '["a\\n"]')
    assert [(one.path, one.code) for one in checked.errors] == [("/0", "pattern")]


WEIGHTS = [
    ("", 0),
    ("abc", 3),
    ("a{5}", 5),
    ("a{2,7}", 7),
    ("a{3,}", 3),
    ("(ab){4}", 8),
    ("((a{3}){3}){3}", 27),
    ("[abc]{5}", 5),
    ("[]a]{5}x", 6),
    (r"[\]]{5}", 5),
    (r"\({3}a", 4),
    ("a*b+c?", 3),
    ("a{0}", 1),
    ("()", 1),
    ("a)b{2}", 4),
    ("[abc", 1),
    ("{5}", 0),
    ("a|b", 3),
]


@pytest.mark.parametrize(("pattern", "pieces"), WEIGHTS)
def test_the_weight_of_a_pattern_counts_its_expanded_repetitions(pattern: str, pieces: int):
    assert weight(pattern) == pieces


def test_the_weight_of_a_pattern_is_limited():
    assert pattern_problem(f"a{{{PATTERN_WEIGHT_MAX}}}") is None
    assert pattern_problem(f"a{{{PATTERN_WEIGHT_MAX + 1}}}") is not None


SIZES = [
    ("", 20),
    ("a{5}", 25),
    (r"\w{5}", 520),
    (r"[\]\w]{3}", 320),
    (r"\\w{5}", 26),
    (r"(\pL|a){2}", 226),
    (r"\d{5}", 70),
    (f"[{'é' * 50}]{{2}}", 42),
]


@pytest.mark.parametrize(("pattern", "size"), SIZES)
def test_the_size_of_a_compiled_pattern_counts_classes_by_their_ranges(pattern: str, size: int):
    assert compiled_size(pattern) == size


def test_the_patterns_of_a_schema_have_a_size_together():
    def with_patterns(count: int) -> JsonObject:
        # Each is small enough for itself, and would take 7 MB and 50 ms.
        patterns = [f"{number}\\w{{179}}" for number in range(count)]
        properties: JsonObject = {f"p{number}": {"pattern": one} for number, one in enumerate(patterns)}
        return {"properties": properties, "patternProperties": {one: {} for one in patterns}}

    most = SCHEMA_PATTERNS_SIZE_MAX // compiled_size(r"0\w{179}")
    assert schema_problem(with_patterns(most)) is None
    problem = schema_problem(with_patterns(most + 1))
    assert problem is not None
    assert "its patterns are too large together: 107,526 pieces, limit 100,000" in problem


def test_compiled_patterns_are_kept_up_to_a_size_those_used_last():
    kept = Patterns(3 * compiled_size("a"))
    first = {name: kept.compile(name) for name in "abc"}
    assert kept.compile("a") is first["a"]
    kept.compile("d")
    assert kept.compile("a") is first["a"]
    assert kept.compile("c") is first["c"]
    assert kept.compile("b") is not first["b"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["$ref", "$defs", "properties", "items", "anyOf", "pattern", "enum", "type", "$id", "not"]
            )
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@pytest.mark.slow
@settings(max_examples=200)
@given(
    st.dictionaries(
        st.sampled_from(["$ref", "$defs", "properties", "items", "anyOf", "pattern", "type"]), JSON
    )
)
def test_a_random_schema_is_refused_or_usable(schema: dict[str, Any]):
    if schema_problem(schema) is None:
        check_output(output_contract(schema, "x"), '{"a": [1, "b", null]}')


def test_the_work_of_patterns_counts_and_is_limited():
    pattern = "(?:(?:a{1,40}){1,40})b"
    assert pattern_problem(pattern) is None
    room = OUTPUT_CHECKS_MAX * PATTERN_STEPS_PER_CHECK // weight(pattern)
    schema: Any = {"type": "object", "properties": {"a": {"pattern": pattern}}}
    assert "expected pattern" in schema_faults(schema, {"a": "a" * (room - 100)})[0]
    assert "more than 100,000 checks" in schema_faults(schema, {"a": "a" * (room + 100)})[0]
    halves: Any = {"items": {"pattern": pattern}}
    assert "more than 100,000 checks" in schema_faults(halves, [*["a" * (room // 2 + 100)] * 2])[0]


@pytest.mark.parametrize("inner", [{"patternProperties": {"(?:a{1,40}){1,40}b": {}}}])
@pytest.mark.parametrize("more", [{}, {"additionalProperties": False}])
def test_the_work_of_patterns_of_keys_counts(inner: dict[str, Any], more: dict[str, Any]):
    value: Any = {"a" * 3_000 + str(number): 1 for number in range(10)}
    assert "more than 100,000 checks" in schema_faults({**inner, **more}, value)[0]


def test_every_comparison_with_a_choice_counts():
    choices: Any = [[number] for number in range(SCHEMA_ENUM_VALUES_MAX)]
    schema: Any = {"type": "array", "contains": {"enum": choices}}
    values: Any = [{"a": 1}] * 200
    assert "more than 100,000 checks" in schema_faults(schema, values)[0]
    texts: Any = {"type": "array", "items": {"enum": [str(number) for number in range(1_000)]}}
    assert schema_faults(texts, [*["999"] * 500]) == ()


@pytest.mark.parametrize(
    ("choice", "value", "is_choice"),
    [
        ("a", "a", True),
        ("1", 1, False),
        (1, 1.0, True),
        (True, 1, False),
        (0, False, False),
        (None, None, True),
        ([1, {"a": 2}], [1.0, {"a": 2}], True),
        ([True], [1], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ([], {}, False),
    ],
)
def test_choices_are_compared_as_json(choice: Any, value: Any, is_choice: bool):
    assert (schema_faults({"enum": [choice]}, value) == ()) is is_choice
