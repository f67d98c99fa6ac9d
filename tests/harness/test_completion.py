"""Whether a result ends the loop: the shared cases, as mappings and models."""

import json
from pathlib import Path
from typing import Any

import pytest

from windlass_harness.completion import is_terminal_result
from windlass_protocol import ToolResult

Case = dict[str, Any]
CASES: list[Case] = json.loads(
    (Path(__file__).parents[2] / "conformance/cases/completion.json").read_text("utf-8")
)["cases"]


def is_tool_result(case: Case) -> bool:
    if "refused" in case:
        return False
    values: Case = case["result"] or {}
    names = ("success", "terminal", "needsFollowup")
    return "success" in values and all(isinstance(values.get(name, True), bool) for name in names)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_shared_case_has_the_answer_of_every_language(case: Case) -> None:
    if "refused" in case:
        with pytest.raises(
            TypeError, match=r"takes a ToolResult, a mapping or None, found .*; wrap a plain value"
        ):
            is_terminal_result(case["result"])
    else:
        assert is_terminal_result(case["result"]) is case["terminal"]


@pytest.mark.parametrize("case", list(filter(is_tool_result, CASES)), ids=lambda case: case["name"])
def test_a_model_has_the_answer_of_its_mapping(case: Case) -> None:
    assert (
        is_terminal_result(ToolResult.model_validate(case["result"], by_alias=True, by_name=False))
        is case["terminal"]
    )
