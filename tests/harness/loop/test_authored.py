"""The authored state of a session: changes by calls are recorded with their results."""

from dataclasses import replace

import pytest
from tests.harness.loop.stage import (
    Session,
    World,
    asked,
    begin_all,
    call,
    calls,
    returned,
    run_asked,
    says,
)

from windlass_harness.loop.authored import (
    STATE_BYTES_MAX,
    STATE_KEYS_MAX,
    STATE_TOO_LARGE,
    state_problem,
)
from windlass_harness.loop.events import CancelRequested, FeedbackGiven, StateChange, StateGiven
from windlass_harness.loop.state import dump_loop, load_loop
from windlass_harness.views.session import fold_session
from windlass_protocol import ActionStatus, JsonObject
from windlass_protocol.bodies import data_of
from windlass_protocol.generated import records

TWO = [[calls(call("keep", "c-1", n=1))], [calls(call("keep", "c-2", n=2), call("look"))], [says()]]
BOTH: JsonObject = {"count": 2, "c-1": {"n": 1}, "c-2": {"n": 2}}


def test_a_call_that_keeps_nothing_leaves_no_record_of_it() -> None:
    session = asked(calls(call("look")))
    (effect,) = begin_all(session)
    assert session.done(effect, returned(effect.call_id)) == ["action.result"]


def test_a_state_change_omits_empty_fields() -> None:
    assert data_of(StateChange({}, ("a",)).body) == {"removed": ["a"]}
    assert data_of(StateChange({"a": 1}).body) == {"set": {"a": 1}}
    assert data_of(StateChange({}).body) == {}


def test_the_state_survives_a_fold_and_a_snapshot() -> None:
    session = World(TWO).drive(Session(), run_asked())
    assert fold_session(session.records).authored == BOTH
    loaded = load_loop(dump_loop(session.state))
    assert loaded is not None
    assert loaded.session.authored == BOTH


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (StateChange({str(number): number for number in range(STATE_KEYS_MAX)}), "keys"),
        (StateChange({"large": "x" * STATE_BYTES_MAX}), "bytes"),
    ],
)
def test_a_state_change_beyond_the_limit_fails_the_call_and_changes_nothing(
    change: StateChange, words: str
) -> None:
    session = asked(calls(call("keep", "c-1"), call("keep", "c-2")))
    first, second = begin_all(session)
    session.done(first, replace(returned(first.call_id), state=StateChange({"kept": 1})))
    assert session.done(second, replace(returned(second.call_id), state=change)) == ["action.result"]
    result = session.data("action.result")
    assert result["status"] == ActionStatus.FAILED
    error = result["error"]
    assert isinstance(error, dict)
    assert error["code"] == STATE_TOO_LARGE
    assert words in str(error["message"])
    assert session.state.session.authored == {"kept": 1}


def test_a_state_that_is_full_can_be_made_smaller() -> None:
    full: JsonObject = {str(number): number for number in range(STATE_KEYS_MAX + 1)}
    assert state_problem(full, StateChange({}, ("1",))) is None
    assert state_problem(full, StateChange({"2": 1}, ("1",))) is None
    assert state_problem(full, StateChange({"2": 1})) is not None


def test_the_host_can_change_the_state_of_an_idle_or_running_session() -> None:
    session = asked()
    session.tell(StateGiven(StateChange({"a": 1})))
    assert session.records[-1].run_id == "r1"
    session.tell(CancelRequested("r1"))
    session.under_way.clear()
    session.turn()
    assert session.end == "cancelled"
    assert session.tell(StateGiven(StateChange({"b": 2}, ("a",)))) == ["session.state_changed"]
    assert session.records[-1].run_id is None, "the run has ended"
    assert session.state.session.authored == {"b": 2}


def test_feedback_is_a_record_of_the_session_that_names_its_run() -> None:
    session = asked()
    assert session.tell(FeedbackGiven(records.FeedbackGiven(run_id="r1", thumb="up"))) == ["feedback.given"]
    last = session.records[-1]
    assert (last.run_id, last.data) == (None, {"runId": "r1", "thumb": "up"})
    assert session.end is None, "the run goes on"


def test_a_state_change_of_the_host_beyond_the_limit_is_ignored() -> None:
    session = Session()
    assert session.tell(StateGiven(StateChange({"large": "x" * STATE_BYTES_MAX}))) == []
