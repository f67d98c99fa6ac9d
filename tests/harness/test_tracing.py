"""The trace of a run, as the shared cases say it must be."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue
from tests.harness.views.journal import Journal, at, request, streams

from windlass_harness.record import Record, from_wire
from windlass_harness.tracing import ARGUMENTS_CHARS_MAX, TraceState, fold_trace
from windlass_harness.views.fold import text_in

Json = dict[str, JsonValue]
FILE = Path(__file__).parents[2] / "conformance" / "cases" / "tracing.json"
CASES: list[Json] = json.loads(FILE.read_text(encoding="utf-8"))["cases"]


def records_of(case: Json) -> list[Record]:
    first, records = case.get("from", 1), case["records"]
    assert isinstance(first, int)
    assert isinstance(records, list)
    made: list[Record] = []
    for place, record in enumerate(records):
        assert isinstance(record, dict)
        at = f"2026-01-31T09:30:{place + 1:02d}.000Z"
        made.append(from_wire({"sessionId": "s1", "seq": first + place, "at": at, **record}))
    return made


def start(case: Json) -> TraceState:
    """The state before the first record, with the given values of the case."""
    options = case.get("options", {})
    assert isinstance(options, dict)
    return fold_trace(
        [],
        run_id=text_in(options, "runId"),
        chat_id=text_in(options, "chatId"),
        user_id=text_in(options, "userId"),
    )


def shown(state: TraceState) -> dict[str, object]:
    return {
        "trace": None if state.trace is None else state.trace.model_dump(mode="json"),
        "spans": [span.model_dump(mode="json") for span in state.spans],
        "events": [event.model_dump(mode="json") for event in state.events],
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_records_give_the_trace_of_the_shared_cases(case: Json) -> None:
    expected = {key: case[key] for key in ("trace", "spans", "events")}
    assert shown(fold_trace(records_of(case), start(case))) == expected


def test_a_call_goes_on_after_an_answer_to_a_subagent_about_a_call_with_the_same_id() -> None:
    child = {"childSessionId": "s2", "callId": "a", **at()}
    journal = Journal().begin().answer("a")
    journal.add("input.requested", {"requests": [request("q", "a", kind="question")], **child})
    journal.add("input.resolved", {"resolutions": [{"requestId": "q", "outcome": "answered"}], **child})
    before = fold_trace(journal.records)
    assert "call a" in before.open_spans
    after = fold_trace(journal.result("a").records)
    assert "call a" not in after.open_spans


def defer(journal: Journal, call_id: str | None) -> None:
    decision: Json = {"decision": "defer", "code": "timer.set", "reason": "not yet", "policyRefs": []}
    call: Json = {} if call_id is None else {"callId": call_id}
    journal.add("policy.decided", {"stage": "pre_tool", "runId": "r1", "decision": decision, **call, **at()})


@pytest.mark.parametrize("end", ["started", "result"])
def test_a_call_that_is_tried_later_has_the_time_that_it_waits(end: str) -> None:
    journal = Journal().begin().answer("a")
    asked_at = next(record.at for record in journal.records if record.type == "actions.requested")
    for call_id in ("a", "a", None, "unknown"):
        defer(journal, call_id)
    (waits,) = [span for span in fold_trace(journal.records).spans if span.name == "wait"]
    assert waits.end_at is None
    journal.run("a") if end == "started" else journal.result("a")
    ended_at = journal.records[-1].at
    trace = fold_trace(journal.records)
    call = next(span for span in trace.spans if span.name.startswith("tool.dispatch"))
    (waits,) = [span for span in trace.spans if span.name == "wait"]
    assert (waits.parent_id, waits.end_at, call.start_at) == (call.span_id, ended_at, asked_at)
    assert (waits.attrs or {})["kind"] == "timer"
    journal.result("a")
    assert "timer a" not in fold_trace(journal.records).open_spans


@given(records=streams())
def test_child_spans_and_events_are_within_their_parent_span(records: list[Record]) -> None:
    state = fold_trace(records)
    ids = [span.span_id for span in state.spans]
    assert len(set(ids)) == len(ids)
    for place, span in enumerate(state.spans):
        assert span.parent_id in ids[:place] if place else span.parent_id is None
        assert span.end_at is None or span.end_at >= span.start_at
    assert all(event.span_id in ids for event in state.events)
    is_over = state.trace is not None and state.trace.ended_at is not None
    assert not is_over or all(span.end_at is not None for span in state.spans)
    assert {place for place, span in enumerate(state.spans) if span.end_at is None} == set(
        state.open_spans.values()
    )
    assert set(state.asked_by) == {key for key in state.open_spans if key.startswith("wait ")}


ARGUMENTS: list[tuple[JsonValue, str | None]] = [
    (
        {"order": 1042, "cents": 4990, "reason": "It  broke.\nTwice."},
        "order 1042, cents 4990, reason It broke. Twice.",
    ),
    ({"dry": True, "note": None, "share": 0.5}, "dry true, note null, share 0.5"),
    ({"items": [1], "empty": [], "to": {"a": 1}, "none": {}}, "items […], empty [], to {…}, none {}"),
    ({"password": "hunter2", "user": "ann"}, "password [redacted], user ann"),
    ({"text": "x" * 41}, f"text {'x' * 39}…"),
    ({"text": "x" * 2_001}, "text …"),
    ({"a": "x" * 30, "b": "y" * 30, "c": "z" * 30}, f"a {'x' * 30}, b {'y' * 30}, …"),
    ({"k" * 60: "v" * 60}, f"{'k' * 39}… {'v' * 38}…"),
    ({}, None),
    (None, None),
]


@pytest.mark.parametrize(("given_", "expected"), ARGUMENTS)
def test_a_call_shows_its_arguments_in_one_short_masked_line(given_: JsonValue, expected: str | None) -> None:
    journal = Journal().begin()
    action: JsonValue = {"kind": "tool-call", "callId": "a", "toolName": "t", "input": given_}
    journal.add("actions.requested", {"actions": [action], **at()})
    (span,) = [one for one in fold_trace(journal.records).spans if one.name == "tool.dispatch:t"]
    shown_ = text_in(span.attrs, "arguments")
    assert shown_ == expected
    assert len(shown_ or "") <= ARGUMENTS_CHARS_MAX


def test_a_run_that_waits_says_what_for_until_it_goes_on() -> None:
    journal = Journal().begin()
    journal.add("run.waiting", {"runId": "r1", "on": "timer", "until": "2026-02-01T00:00:00.000Z"})
    waits = fold_trace(journal.records)
    since = journal.records[-1].at
    assert waits.since(journal.records[-2].seq)[0] == waits.spans[:1]
    found = waits.spans[0].attrs or {}
    assert (found["waitsOn"], found["waitsUntil"], found["waitsSince"]) == (
        "timer",
        "2026-02-01T00:00:00.000Z",
        since,
    )
    for end in ("run.resumed", "run.cancel_requested", "run.cancelled"):
        again = Journal().begin()
        again.add("run.waiting", {"runId": "r1", "on": "timer"})
        again.add(end, {"runId": "r1", "reason": "x"})
        assert not any(name.startswith("waits") for name in fold_trace(again.records).spans[0].attrs or {})


@given(records=streams(), data=st.data())
def test_what_is_new_since_a_record_completes_the_trace_up_to_it(
    records: list[Record], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(records)))
    before, whole = fold_trace(records[:cut]), fold_trace(records)
    spans, events = whole.since(records[cut - 1].seq if cut else 0)
    merged = {span.span_id: span for span in before.spans} | {span.span_id: span for span in spans}
    assert tuple(merged.values()) == whole.spans
    assert (*before.events, *events) == whole.events
