"""Payloads of a step: the usual shape reads the same as its type would."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError
from tests.harness.views.journal import SHAPES, Facts, at, call

from windlass_harness.views.fold import read
from windlass_harness.views.payloads import (
    action_name,
    read_reasoning,
    read_requested,
    read_result,
    read_said,
    read_started,
    read_step_completed,
    read_step_started,
    tool_output,
)
from windlass_protocol import (
    ActionResultData,
    ActionsRequestedData,
    ActionStartedData,
    MessageCompletedData,
    ReasoningCompletedData,
    ReasoningPart,
    StepCompletedData,
    StepStartedData,
    TextPart,
    ToolCallPart,
)

Data = dict[str, JsonValue]


def step_started(data: Data) -> object:
    found = read(StepStartedData, data)
    return (found.turn_id, found.step_index), found.prompt_message_count


def step_completed(data: Data) -> object:
    found = read(StepCompletedData, data)
    tokens = None if found.usage is None else found.usage.input_tokens
    return (found.turn_id, found.step_index), tokens


def reasoning(data: Data) -> object:
    found = read(ReasoningCompletedData, data)
    part = ReasoningPart(text=found.reasoning, provider_options=found.provider_metadata)
    return (found.turn_id, found.step_index), part


def said(data: Data) -> object:
    found = read(MessageCompletedData, data)
    parts = found.parts or ((TextPart(text=found.message),) if found.message else ())
    return (found.turn_id, found.step_index), tuple(parts)


def requested(data: Data) -> object:
    found = read(ActionsRequestedData, data)
    parts = [
        ToolCallPart(tool_call_id=one.call_id, tool_name=action_name(one), input=one.input)
        for one in found.actions
    ]
    return (found.turn_id, found.step_index), parts


def started(data: Data) -> object:
    found = read(ActionStartedData, data)
    call = found.call_id, found.tool_name, found.effect, found.idempotency_key, found.arguments
    return (found.turn_id, found.step_index), call


def result(data: Data) -> object:
    found = read(ActionResultData, data)
    return found.result.call_id, tool_output(found)


READERS: dict[str, tuple[Callable[[Data], object], Callable[[Data], object]]] = {
    "step.started": (read_step_started, step_started),
    "step.completed": (read_step_completed, step_completed),
    "reasoning.completed": (read_reasoning, reasoning),
    "message.completed": (read_said, said),
    "actions.requested": (read_requested, requested),
    "action.started": (read_started, started),
    "action.result": (read_result, result),
}
UNUSUAL: Facts = {"stepIndex": 1.0}
SAID: Facts = {"message": "hi", "finishReason": "stop", **at()}
ASKED: Facts = {"actions": [call("a"), call("b")], **at()}
STARTED: Facts = {"callId": "a", "toolName": "look", "effect": "once", "idempotencyKey": "k", **at()}
FOUND: Facts = {"kind": "tool-result", "callId": "a", "toolName": "look", "output": None}
DONE: Facts = {"result": FOUND, "status": "completed", **at()}
CASES: list[tuple[str, Facts]] = [
    ("step.started", at()),
    ("step.started", {**at(), "promptMessageCount": 7}),
    ("step.started", {**at(), "promptMessageCount": 7.0}),
    ("step.started", {**at(), **UNUSUAL}),
    ("step.completed", {**at(), "finishReason": "stop"}),
    ("step.completed", {**at(), "finishReason": "stop", "usage": {"inputTokens": 5}}),
    ("step.completed", {**at(), "finishReason": "stop", "usage": {"inputTokens": 5.0}}),
    ("step.completed", {**at(), "finishReason": "stop", "usage": {"outputTokens": 5}}),
    ("step.completed", {**at(), "finishReason": "stop", **UNUSUAL}),
    ("reasoning.completed", {**at(), "reasoning": "hm"}),
    ("reasoning.completed", {**at(), "reasoning": "hm", "providerMetadata": {"signature": "x"}}),
    ("message.completed", SAID),
    ("message.completed", {**SAID, "message": None}),
    ("message.completed", {**SAID, "message": ""}),
    ("message.completed", {**SAID, "parts": [{"type": "text", "text": "ho"}]}),
    ("message.completed", {**SAID, "parts": []}),
    ("message.completed", {**SAID, **UNUSUAL}),
    ("actions.requested", ASKED),
    ("actions.requested", {**ASKED, "actions": []}),
    ("actions.requested", {**ASKED, **UNUSUAL}),
    ("actions.requested", {**ASKED, "actions": [{"kind": "load-skill", "callId": "s", "input": "pdf"}]}),
    ("action.started", STARTED),
    ("action.started", {**STARTED, "arguments": {"n": [1]}}),
    ("action.started", {**STARTED, **UNUSUAL}),
    ("action.result", DONE),
    ("action.result", {**DONE, "result": {**FOUND, "output": True}}),
    ("action.result", {**DONE, "result": {**FOUND, "output": "text"}}),
    ("action.result", {**DONE, "result": {**FOUND, "isError": True}}),
    ("action.result", {**DONE, "status": "failed", "error": {"code": "E", "message": "it broke"}}),
    ("action.result", {**DONE, "status": "rejected"}),
    (
        "action.result",
        {**DONE, "result": {"kind": "load-skill-result", "callId": "a", "output": "words"}},
    ),
]


@pytest.mark.parametrize(("kind", "data"), CASES)
def test_a_fast_reader_agrees_with_the_type(kind: str, data: Data) -> None:
    quick, by_type = READERS[kind]
    assert quick(data) == by_type(data)


@given(kind=st.sampled_from(sorted(READERS)), data=st.data())
def test_a_fast_reader_agrees_with_the_type_on_random_payloads(kind: str, data: st.DataObject) -> None:
    drawn = dict(data.draw(SHAPES[kind]))
    quick, by_type = READERS[kind]
    assert quick(drawn) == by_type(drawn)  # pyright: ignore[reportArgumentType] - facts are JSON


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("step.started", {"sequence": 0}),
        ("step.started", {**at(), "promptMessageCount": "many"}),
        ("step.completed", {**at(), "finishReason": "stop", "usage": "none"}),
        ("reasoning.completed", at()),
        ("message.completed", {"finishReason": "stop", **at()}),
        ("actions.requested", at()),
        ("actions.requested", {**ASKED, "actions": [{**call("a"), "toolName": 7}]}),
        ("actions.requested", {**ASKED, "actions": ["a"]}),
        ("action.started", {**STARTED, "effect": "twice"}),
        ("action.started", {**STARTED, "callId": 7}),
        ("action.result", at()),
        ("action.result", {**DONE, "result": {"kind": "tool-result", "callId": "a", "toolName": "look"}}),
        ("action.result", {**DONE, "result": {**FOUND, "callId": 7}}),
    ],
)
def test_a_payload_that_is_garbled_is_refused_by_its_type(kind: str, data: Data) -> None:
    with pytest.raises(ValidationError):
        READERS[kind][0](data)
