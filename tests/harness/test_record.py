"""Records are plain objects inside, and the wire model at the border."""

from dataclasses import fields

import pytest
from pydantic import ValidationError

from windlass_harness.record import Post, Record, from_wire, number, to_wire
from windlass_protocol import Record as WireRecord

AT = "2026-01-31T09:00:00.000Z"
WAITING = {"wait": "next-user-message"}


def test_a_record_has_the_fields_of_the_wire_and_its_posts() -> None:
    assert {one.name for one in fields(Record)} == {*WireRecord.model_fields, "posts"}


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


@pytest.mark.parametrize("change", [{"seq": 0}, {"session_id": "s1"}, {"data": {"wait": 5}}])
def test_a_value_that_is_no_record_is_refused(change: dict[str, object]) -> None:
    wire = {"sessionId": "s1", "seq": 1, "type": "session.waiting", "at": AT, "data": WAITING, **change}
    if "session_id" in change:
        del wire["sessionId"]
    with pytest.raises(ValidationError):
        from_wire(wire)
