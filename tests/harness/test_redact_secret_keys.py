"""Names of secrets: the shared cases, and the names of our own wire."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from windlass_harness.redact.shapes import KEY_CHARS_MAX, is_secret_key

ROOT = Path(__file__).parents[2]
Case = dict[str, Any]
CASES: list[Case] = json.loads((ROOT / "conformance/cases/redact.json").read_text("utf-8").replace("·", ""))[
    "cases"
]
NAMES = [(case["secret"], key) for case in CASES for key in case.get("keys", ())]


def property_names(schema: object) -> Iterator[str]:
    """Every field of every wire type."""
    if isinstance(schema, dict):
        fields = cast(dict[str, object], schema)
        properties = fields.get("properties")
        if isinstance(properties, dict):
            yield from cast(dict[str, object], properties)
        for part in fields.values():
            yield from property_names(part)
    elif isinstance(schema, list):
        for part in cast(list[object], schema):
            yield from property_names(part)


@pytest.mark.parametrize(("is_secret", "key"), NAMES)
def test_a_shared_name_has_the_answer_of_every_language(is_secret: bool, key: str) -> None:
    assert is_secret_key(key) is is_secret


def test_a_name_is_read_from_its_end_and_a_longer_one_for_any_word_in_it() -> None:
    at_limit = "password".ljust(KEY_CHARS_MAX, "x")
    assert not is_secret_key(at_limit)
    assert is_secret_key(at_limit + "x")
    assert is_secret_key("password".rjust(KEY_CHARS_MAX, "x"))
    assert not is_secret_key("x" * (KEY_CHARS_MAX + 1))


def test_no_field_of_the_wire_is_taken_for_a_secret_but_the_two_that_are() -> None:
    names = {
        name
        for path in (ROOT / "spec").glob("*.schema.json")
        for name in property_names(json.loads(path.read_text("utf-8")))
    }
    assert len(names) > 100
    assert {name for name in names if is_secret_key(name)} == {"authorization", "continuationToken"}
