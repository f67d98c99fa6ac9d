"""The trace of a run, as the shared cases say it must be."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from pydantic import JsonValue
from tests.harness.views.journal import Journal, at, request, streams

from windlass_harness.record import Record, from_wire
from windlass_harness.tracing import TraceState, fold_trace
from windlass_harness.views import Gap, dump_state, load_state
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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_trace_in_pieces_is_the_trace_at_once(case: Json) -> None:
    records = records_of(case)
    at_once = fold_trace(records, start(case))
    for cut in range(len(records) + 1):
        first = fold_trace(records[:cut], start(case))
        stored = load_state(TraceState, dump_state(first))
        assert fold_trace(records[cut:], stored) == at_once


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_nothing_is_left_open_when_the_run_has_ended(case: Json) -> None:
    state = fold_trace(records_of(case), start(case))
    if state.trace is not None and state.trace.ended_at is not None:
        assert (state.open_spans, state.asked_by) == ({}, {})


def test_a_trace_may_begin_anywhere_and_then_takes_each_record_in_its_turn() -> None:
    records = Journal().begin().answer("a").records
    state = fold_trace(records[1:3])
    assert state.trace is not None
    with pytest.raises(Gap, match="expected record 4"):
        fold_trace(records[4:], state)


def test_a_call_goes_on_after_an_answer_to_a_subagent_about_a_call_with_the_same_id() -> None:
    child = {"childSessionId": "s2", "callId": "a", **at()}
    journal = Journal().begin().answer("a")
    journal.add("input.requested", {"requests": [request("q", "a", kind="question")], **child})
    journal.add("input.resolved", {"resolutions": [{"requestId": "q", "outcome": "answered"}], **child})
    before = fold_trace(journal.records)
    assert "call a" in before.open_spans
    after = fold_trace(journal.result("a").records)
    assert "call a" not in after.open_spans


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
