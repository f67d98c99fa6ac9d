"""Trace contexts: a valid traceparent of the caller is used."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.telemetry.sink import TraceContext
from windlass.telemetry.spans import context_in, run_key, session_context, span_number, trace_number
from windlass_harness.record import Record
from windlass_protocol import JsonObject

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
KNOWN = TraceContext(int(TRACE, 16), int(SPAN, 16), is_remote=True)


def first(data: JsonObject, record_type: str = "session.started") -> Record:
    return Record(
        session_id="s",
        seq=1,
        position=1,
        event_id="e",
        type=record_type,
        at="2026-01-01T00:00:00.000Z",
        epoch=1,
        data=data,
    )


@pytest.mark.parametrize("text", [f"00-{TRACE}-{SPAN}-01", f"cc-{TRACE}-{SPAN}-01-what-comes-later"])
def test_a_traceparent_names_the_parent(text: str) -> None:
    assert context_in({"traceparent": text}) == KNOWN


def test_a_traceparent_carries_the_sampled_flag() -> None:
    context = context_in({"traceparent": f"00-{TRACE}-{SPAN}-02"})
    assert context is not None
    assert not context.is_sampled


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE}-{SPAN}",
    ],
)
def test_an_invalid_traceparent_is_ignored(text: str) -> None:
    assert context_in({"traceparent": text}) is None


@pytest.mark.parametrize("state", [7, "x" * 513, "a=\n", "a=ö"])
def test_an_invalid_tracestate_is_ignored(state: int | str) -> None:
    assert context_in({"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": state}) == KNOWN


def test_a_session_may_name_its_trace() -> None:
    assert session_context(first({"trace": {"traceId": TRACE, "spanId": SPAN}})) == KNOWN
    assert session_context(first({"trace": {"traceId": TRACE}})) == TraceContext(int(TRACE, 16))
    assert session_context(first({"trace": {"traceId": TRACE, "spanId": "0" * 16}})) == TraceContext(
        int(TRACE, 16)
    )


@pytest.mark.parametrize("data", [{}, {"trace": {"traceId": "0" * 32}}, {"trace": {"traceId": "xyz"}}])
def test_a_session_with_an_invalid_trace_is_ignored(data: JsonObject) -> None:
    assert session_context(first(data)) is None


def test_only_the_beginning_of_a_session_names_its_trace() -> None:
    assert session_context(first({"trace": {"traceId": TRACE}}, "custom.note")) is None


def test_runs_that_begin_together_have_traces_of_their_own() -> None:
    started = [first({"runId": name, "agentId": "a"}, "run.started") for name in ("r", "q")]
    assert len({trace_number(run_key(record)) for record in started}) == 2


@given(st.text())
def test_ids_can_be_made_of_anything_and_are_always_valid(text: str) -> None:
    assert 0 < trace_number(text) < 2**128
    assert 0 < span_number(text, text) < 2**64
    assert span_number(text, "a") != span_number(text, "b")
    assert context_in({"traceparent": text}) is None
