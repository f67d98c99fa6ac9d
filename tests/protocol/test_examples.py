"""The examples of spec/examples: every validator agrees with the folder of each example.

The TypeScript side of the same examples is web/protocol/test/examples.test.ts.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import cast

import pytest
from pydantic import BaseModel, JsonValue
from tests.protocol.judges import (
    EXAMPLES,
    Case,
    adapter,
    definitions,
    event_types,
    examples,
    python_accepts,
    schema_accepts,
    zod_accepts,
)

import windlass_protocol
from windlass_protocol.codec import canonical, decode, encode, parse

VALID = examples("valid")
INVALID = examples("invalid")


def each(judge: Callable[[Case], bool]) -> Callable[[Sequence[Case]], list[bool]]:
    return lambda cases: [judge(case) for case in cases]


JUDGES = {"schema": each(schema_accepts), "python": each(python_accepts), "zod": zod_accepts}
EACH_JUDGE = ["schema", "python", pytest.param("zod", marks=pytest.mark.node)]


def is_shown_inside_events(definition: str) -> bool:
    """The data of an event is shown inside its event; so is the table of them."""
    return definition.endswith("Data")


@pytest.mark.uncounted
@pytest.mark.promise("W1")
@pytest.mark.parametrize("judge", EACH_JUDGE)
def test_every_valid_example_is_accepted(judge: str) -> None:
    verdicts = JUDGES[judge](VALID)
    assert [str(case) for case, accepted in zip(VALID, verdicts, strict=True) if not accepted] == []


@pytest.mark.uncounted
@pytest.mark.promise("W1")
@pytest.mark.parametrize("judge", EACH_JUDGE)
def test_every_invalid_example_is_refused(judge: str) -> None:
    verdicts = JUDGES[judge](INVALID)
    assert [str(case) for case, accepted in zip(INVALID, verdicts, strict=True) if accepted] == []


@pytest.mark.parametrize("folder", ["valid", "invalid"])
def test_every_definition_has_a_file_of_examples_and_no_file_is_left_over(folder: str) -> None:
    files = {path.stem for path in (EXAMPLES / folder).iterdir()}
    assert files == {name for name in definitions() if not is_shown_inside_events(name)}
    assert files == {case.type for case in examples(folder)}, "a file holds no case"


def test_every_event_type_has_a_valid_example_of_its_name() -> None:
    shown = {case.name: case.value for case in VALID if case.type == "Event"}
    for event_type in event_types():
        value = shown.get(event_type)
        assert isinstance(value, dict), event_type
        assert value["type"] == event_type


def test_every_event_type_has_an_invalid_example_that_begins_with_its_name() -> None:
    refused = [case for case in INVALID if case.type == "Event"]
    for event_type in event_types():
        named = [case.value for case in refused if case.name.startswith(f"{event_type}: ")]
        assert named, event_type
        assert all(isinstance(value, dict) and value["type"] == event_type for value in named), event_type


def test_every_field_of_every_type_is_set_in_a_valid_example() -> None:
    shown: dict[str, set[str]] = {}
    data_of = event_types()
    for case in VALID:
        if isinstance(case.value, dict):
            shown.setdefault(case.type, set()).update(case.value)
            data = case.value.get("data")
            if case.type == "Event" and isinstance(data, dict):
                shown.setdefault(data_of.get(str(case.value["type"]), ""), set()).update(data)
    missing = {
        name: unseen
        for name, body in definitions().items()
        if (unseen := set(body.get("properties", ())) - shown.get(name, set()))
    }
    assert missing == {}


def test_no_name_is_given_to_two_cases_of_a_file() -> None:
    def names(pairs: list[tuple[str, object]]) -> list[str]:
        return [name for name, _ in pairs]

    for path in sorted(EXAMPLES.glob("*/*.json")):
        counted = Counter[str](json.loads(path.read_text("utf-8"), object_pairs_hook=names))
        assert [name for name, count in counted.items() if count > 1] == [], path.name


def round_trip(case: Case) -> JsonValue:
    """The value after it is read as its type, written and read again."""
    value: object = decode(cast(type[object], getattr(windlass_protocol, case.type)), json.dumps(case.value))
    is_model = isinstance(value, BaseModel)
    return parse(encode(value if is_model else adapter(case.type).dump_python(value, by_alias=True)))


def with_defaults(case: Case) -> JsonValue:
    """The one default of the wire: an event or record without data has empty data."""
    if case.type in ("Event", "Record") and isinstance(case.value, dict):
        return {"data": {}, **case.value}
    return case.value


@pytest.mark.promise("W2")
@pytest.mark.parametrize("type_", sorted({case.type for case in VALID}))
def test_reading_and_writing_a_valid_example_changes_nothing(type_: str) -> None:
    for case in VALID:
        if case.type == type_:
            assert canonical(round_trip(case)) == canonical(with_defaults(case)), case.name


@pytest.mark.parametrize(
    "line",
    [
        '{"data": {"runtime": {"agentId": "app", "agentName": "app", "runnerVersion": "0.13.8",'
        ' "modelId": "mock/model"}}, "type": "session.started", "meta": {"at": "2026-11-15T06:19:55.968Z"}}',
        '{"data": {"message": "ADD 2 3", "sequence": 0, "turnId": "turn_0"}, "type": "message.received",'
        ' "meta": {"at": "2026-11-15T06:19:55.983Z"}}',
        '{"data": {"messageDelta": "five ", "messageSoFar": "it is five ", "sequence": 0, "stepIndex": 1,'
        ' "turnId": "turn_0"}, "type": "message.appended", "meta": {"at": "2026-11-15T06:19:56.354Z"}}',
        '{"data": {"actions": [{"callId": "call_17", "input": {"a": 2, "b": 3}, "kind": "tool-call",'
        ' "toolName": "add"}], "sequence": 0, "stepIndex": 0, "turnId": "turn_0"},'
        ' "type": "actions.requested", "meta": {"at": "2026-11-15T06:19:58.147Z"}}',
        '{"data": {"result": {"callId": "call_17", "kind": "tool-result", "output": {"sum": 5},'
        ' "toolName": "add"}, "sequence": 0, "stepIndex": 0, "status": "completed", "turnId": "turn_0"},'
        ' "type": "action.result", "meta": {"at": "2026-11-15T06:19:58.147Z"}}',
        '{"data": {"error": {"code": "TOOL_EXECUTION_DENIED", "message": "Tool execution was denied."},'
        ' "result": {"callId": "call_18", "isError": true, "kind": "tool-result", "output": {"code":'
        ' "TOOL_EXECUTION_DENIED", "message": "Tool execution was denied."}, "toolName": "guarded"},'
        ' "sequence": 0, "stepIndex": 0, "status": "rejected", "turnId": "turn_0"}, "type": "action.result",'
        ' "meta": {"at": "2026-11-15T06:20:01.535Z"}}',
        '{"data": {"requests": [{"action": {"callId": "call_19", "input": {"prompt": "Which size?",'
        ' "options": [{"id": "s", "label": "Small"}]}, "kind": "tool-call", "toolName": "ask_question"},'
        ' "display": "select", "prompt": "Which size?", "requestId": "call_19", "options":'
        ' [{"id": "s", "label": "Small"}]}], "sequence": 0, "stepIndex": 0, "turnId": "turn_0"},'
        ' "type": "input.requested", "meta": {"at": "2026-11-15T06:19:59.183Z"}}',
        '{"data": {"finishReason": "tool-calls", "sequence": 0, "stepIndex": 0, "turnId": "turn_0", "usage":'
        ' {"inputTokens": 2788, "outputTokens": 20, "cacheReadTokens": 0}}, "type": "step.completed",'
        ' "meta": {"at": "2026-11-15T06:20:06.342Z"}}',
        '{"data": {"callId": "call_20", "childSessionId": "wrun_02", "sessionId": "wrun_01", "sequence": 0,'
        ' "name": "agent", "toolName": "agent", "turnId": "turn_0", "workflowId": "workflow//entry"},'
        ' "type": "subagent.called", "meta": {"at": "2026-11-15T06:20:09.358Z"}}',
        '{"data": {"code": "MODEL_CALL_FAILED", "message": "No answer.", "sequence": 0, "stepIndex": 0,'
        ' "turnId": "turn_0"}, "type": "step.failed", "meta": {"at": "2026-11-15T06:20:07.100Z"}}',
        '{"data": {"wait": "next-user-message"}, "type": "session.waiting",'
        ' "meta": {"at": "2026-11-15T06:19:59.197Z"}}',
        '{"type": "session.completed", "meta": {"at": "2026-11-15T06:20:06.376Z"}}',
    ],
)
def test_a_line_of_an_older_stream_is_an_event(line: str) -> None:
    case = Case("Event", "line", json.loads(line))
    assert schema_accepts(case)
    assert canonical(round_trip(case)) == canonical(with_defaults(case))
