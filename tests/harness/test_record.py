"""Records are plain objects inside, and the wire model at the border."""

from dataclasses import fields

import pytest
from msgspec import Raw
from pydantic import ValidationError

from windlass_harness.record import Post, Record, from_wire, number, to_delta, to_wire
from windlass_protocol import Event, EventMeta
from windlass_protocol import Record as WireRecord
from windlass_protocol.bodies import BodyError
from windlass_protocol.generated import records

AT = "2026-01-31T09:00:00.000Z"
WAITING = {"wait": "next-user-message"}


def test_a_record_has_the_fields_of_the_wire_and_its_posts() -> None:
    assert {one.name for one in fields(Record)} == {*WireRecord.model_fields, "posts", "body", "stored"}


def test_a_record_goes_over_the_wire_and_back_without_its_posts() -> None:
    post = Post("s2", "report", "k", {})
    record = Record("session.waiting", AT, {**WAITING}, run_id="r", posts=(post,))
    assert number(record, "s1", seq=3, epoch=2) is record
    wire = to_wire(record)
    assert wire == {
        "sessionId": "s1",
        "seq": 3,
        "type": "session.waiting",
        "at": AT,
        "data": WAITING,
        "runId": "r",
        "epoch": 2,
    }
    again = from_wire(wire)
    assert (again.posts, again.data, again.seq, again.position) == ((), WAITING, 3, None)
    assert from_wire(WireRecord.model_validate(wire)) == again
    assert number(again, "s1", seq=3, epoch=2, position=9).position == 9


def test_an_unknown_type_has_data_and_no_body() -> None:
    record = Record("tomorrow.began", AT, Raw(b'{"light":[1]}'))
    assert record.body is None
    assert record.data == {"light": [1]}


def test_an_unknown_field_stays_in_the_data() -> None:
    record = Record("session.waiting", AT, Raw(b'{"wait":"input","colour":"red"}'))
    assert record.body == records.SessionWaiting(wait="input")
    assert to_wire(number(record, "s1", seq=1, epoch=1))["data"] == {"wait": "input", "colour": "red"}


def test_data_that_does_not_fit_its_type_is_refused_when_its_body_is_read() -> None:
    record = Record("session.waiting", AT, {"wait": 7})
    with pytest.raises(BodyError, match=r"session.waiting .* at `\$.wait`"):
        record.body  # noqa: B018 - reading it is the test
    assert record.data == {"wait": 7}


def test_a_record_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError, match="colour"):
        getattr(Record("session.waiting", AT, {}), "colour")  # noqa: B009 - not an attribute


@pytest.mark.parametrize("change", [{"seq": 0}, {"session_id": "s1"}, {"data": {"wait": 5}}])
def test_a_value_that_is_no_record_is_refused(change: dict[str, object]) -> None:
    wire = {"sessionId": "s1", "seq": 1, "type": "session.waiting", "at": AT, "data": WAITING, **change}
    if "session_id" in change:
        del wire["sessionId"]
    with pytest.raises(ValidationError):
        from_wire(wire)


def test_a_live_delta_has_the_place_and_the_run_of_its_step() -> None:
    started = from_wire(
        {
            "sessionId": "s1",
            "seq": 7,
            "type": "x.started",
            "at": "2026-01-31T09:00:00Z",
            "data": {},
            "eventId": "evt_1",
            "runId": "r1",
            "agentId": "helper",
            "attempt": 2,
        }
    )
    at = "2026-01-31T09:00:01Z"
    assert to_delta(started, "x.appended", data={"n": 1}, position=(7, 3), at=at) == Event(
        type="x.appended",
        data={"n": 1},
        meta=EventMeta(at=at, attempt=2),
        session_id="s1",
        seq=7,
        index=3,
        run_id="r1",
        agent_id="helper",
    )
