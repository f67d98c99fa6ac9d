"""The data of events as the models of their types."""

from typing import assert_type

import pytest

from windlass_protocol import (
    EVENT_DATA,
    ActionResultData,
    ActionStatus,
    CodecError,
    Event,
    EventMeta,
    InputRequest,
    InputRequestedData,
    JsonObject,
    Record,
    RunCompletedData,
    typed_data,
)

META = EventMeta(at="2026-01-31T09:30:00.000Z")
PLACE: JsonObject = {"sequence": 0, "turnId": "t", "stepIndex": 0}


def told(event: Event | Record) -> str:
    """What a program of a user does with an event."""
    match typed_data(event):
        case ActionResultData() as data:
            assert_type(data, ActionResultData)
            assert_type(data.status, ActionStatus)
            return f"{data.result.call_id} {data.status}"
        case InputRequestedData(requests=requests):
            assert_type(requests, tuple[InputRequest, ...])
            return str(len(requests))
        case RunCompletedData() as data:
            assert_type(data.output, str | None)
            return data.output or ""
        case None:
            return "unknown"
        case other:
            return type(other).__name__


def test_an_event_is_matched_by_the_class_of_its_data() -> None:
    result: JsonObject = {"kind": "tool-result", "callId": "c", "output": 1, "toolName": "look"}
    data: JsonObject = {"result": result, "status": "completed", **PLACE}
    assert told(Event(type="action.result", meta=META, data=data)) == "c completed"
    record = Record(session_id="s", seq=1, type="action.result", at=META.at, data=data)
    assert told(record) == "c completed"
    assert told(Event(type="input.requested", meta=META, data={"requests": [], **PLACE})) == "0"
    assert told(Event(type="run.completed", meta=META, data={"runId": "r", "output": "done"})) == "done"
    assert (
        told(Event(type="turn.started", meta=META, data={"sequence": 0, "turnId": "t"})) == "TurnStartedData"
    )


def test_an_event_of_an_unknown_type_has_no_typed_data() -> None:
    assert told(Event(type="shop.sold", meta=META, data={"any": 1})) == "unknown"


def test_data_that_does_not_fit_its_type_is_refused() -> None:
    event = Event.model_construct(type="run.completed", meta=META, data={})
    with pytest.raises(CodecError):
        typed_data(event)


def test_every_type_has_a_class_that_is_named_after_it() -> None:
    for name, shape in EVENT_DATA.items():
        words = name.replace("_", ".").split(".")
        assert shape.__name__ == "".join(word.capitalize() for word in words) + "Data"
