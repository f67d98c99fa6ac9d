"""YAML texts whose aliases stand for more than they have."""

from pathlib import Path

import pytest
import yaml

from windlass.errors import Rejected
from windlass.evals import Dataset
from windlass.openapi import OpenApi
from windlass.yaml_value import TooManyValues, load_yaml

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
"""Sixty lines that stand for 2**60 texts."""


def test_aliases_count_at_every_place() -> None:
    text = "a: &a [1, 2]\nb: [*a, *a]\n"
    # Two keys, the list with its two numbers, the list of both, and the mapping.
    assert load_yaml(text, 2 + 3 + 1 + 6 + 1) == {"a": [1, 2], "b": [[1, 2], [1, 2]]}
    with pytest.raises(TooManyValues, match="more than 12 values"):
        load_yaml(text, 12)


MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 20)
)
"""A mapping of one key, which is put together of 10**19 others."""


@pytest.mark.parametrize("text", ["a: &a [*a]", "&a {b: *a}", "&a {? *a : 1}", BOMB, MERGES])
def test_a_text_without_an_end_is_refused(text: str) -> None:
    with pytest.raises(TooManyValues):
        load_yaml(text, 1_000_000)


def test_an_empty_text_is_none_and_no_other_tag_is_read() -> None:
    assert load_yaml("", 1) is None
    with pytest.raises(yaml.YAMLError):
        load_yaml("!!python/object/apply:os.getcwd []", 10)


def test_a_data_set_with_an_alias_bomb_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(f"cases:\n- inputs: hello\nmetadata:\n  {BOMB.replace(chr(10), chr(10) + '  ')}\n")
    with pytest.raises(Rejected, match="aliases written out, it has more than"):
        Dataset.load(file)


def test_an_openapi_document_with_an_alias_bomb_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "api.yaml"
    for bomb in (BOMB, MERGES):
        file.write_text(f"openapi: 3.1.0\n{bomb}")
        with pytest.raises(Rejected, match="aliases written out, it has more than"):
            OpenApi("shop", file, operations=["getOrder"])


@pytest.mark.parametrize("number", [":".join(["59"] * 400), "1" * 1_001, f"0.{'1' * 1_000}"])
def test_a_number_that_takes_long_to_read_is_refused(number: str) -> None:
    assert load_yaml(f"a: '{number}'") == {"a": number}
    with pytest.raises(yaml.YAMLError, match=r"a number is longer than 1,000 characters"):
        load_yaml(f"a: {number}")
