"""Calls and results as models and chat clients see them."""

import pytest
from pydantic import JsonValue
from tests.harness.views.journal import call

from windlass_harness.views.payloads import (
    as_text,
    content_model,
    content_part,
    output_of,
    result_name,
    tool_call,
)
from windlass_protocol import ContentRef, ToolCallAction
from windlass_protocol.generated import records


def test_a_result_is_named_after_what_was_called() -> None:
    tool = records.ToolActionResult(call_id="a", tool_name="look", output=1)
    child = records.SubagentActionResult(call_id="a", subagent_name="helper", output=1)
    skill = records.LoadSkillActionResult(call_id="a", output=1, name="pdf")
    assert [result_name(one) for one in (tool, child, skill)] == ["look", "helper", "load_skill"]


def test_a_reference_is_the_same_in_a_record_and_as_a_model() -> None:
    ref = ContentRef(content_id="c", hash="sha256:" + "0" * 64, size_bytes=3, media_type="text/plain")
    assert content_model(content_part(ref)) == ref


def test_a_call_keeps_its_id_name_and_arguments() -> None:
    shown = tool_call(ToolCallAction.model_validate(call("a")))
    assert (shown.id, shown.name, shown.arguments) == ("a", "look", {"for": "a"})


@pytest.mark.parametrize("value", [None, 7, "text", [1]])
def test_arguments_that_are_no_object_go_under_input(value: JsonValue) -> None:
    action = ToolCallAction(call_id="a", tool_name="look", input=value)
    assert tool_call(action).arguments == {"input": value}


def test_text_is_shown_as_it_is_and_all_else_as_json() -> None:
    assert (as_text("a"), as_text({"a": [None, "é"]})) == ("a", '{"a":[null,"é"]}')
    assert (output_of("a").type, output_of(["a"]).type) == ("text", "json")
