"""The `repr` of messages shows sizes, never what was said."""

import pytest
from pydantic import BaseModel

import windlass_protocol
from windlass_protocol import (
    AssistantMessage,
    RunRequest,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolOutputType,
    ToolResultPart,
    UserMessage,
)
from windlass_protocol._wire import CONTENT_FIELDS

SAID = "swordfish"


def result() -> ToolResultPart:
    output = ToolOutput(type=ToolOutputType.JSON, value={"word": SAID})
    return ToolResultPart(tool_call_id="c1", tool_name="look", output=output)


@pytest.mark.parametrize(
    "message",
    [
        SystemMessage(content=SAID),
        UserMessage(content=SAID),
        UserMessage(content=(TextPart(text=SAID),)),
        AssistantMessage(content=(ToolCallPart(tool_call_id="c1", tool_name="look", input=SAID),)),
        ToolMessage(content=(result(),)),
        TextPart(text=SAID),
        result(),
        ToolOutput(type=ToolOutputType.JSON, value=1_000),
        ToolCall(id="c1", name="look", arguments={"word": SAID}),
        RunRequest(run_id="r1", agent_id="a", input=SAID, context=(SAID,), metadata={"word": SAID}),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_message_does_not_show_its_content(message: BaseModel) -> None:
    for shown in (repr(message), str(message)):
        assert SAID not in shown
        assert "1000" not in shown


def test_sizes_and_everything_else_are_shown() -> None:
    assert repr(TextPart(text=SAID)) == "TextPart(text=<9 characters>, type='text', provider_options=None)"
    assert "value=<1 items>" in repr(result())
    assert "value=<…>" in repr(ToolOutput(type=ToolOutputType.JSON, value=1_000))
    assert "tool_name='look'" in repr(result())


@pytest.mark.parametrize("name", CONTENT_FIELDS)
def test_every_type_and_field_with_content_exists(name: str) -> None:
    assert set(getattr(windlass_protocol, name).model_fields) >= CONTENT_FIELDS[name]
