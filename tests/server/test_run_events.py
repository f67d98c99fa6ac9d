"""The part of a run that is streamed while requests are open."""

import pytest
from tests.server.stories import STORIES
from tests.server.test_agui_fold import past_of

from windlass import Event
from windlass_harness.views.stream import ChatFold, RunWaiting
from windlass_server.chat.run_events import View, ViewGate

FIRST, SECOND = "approval:r1:0:call-1:1", "approval:r1:0:call-2:1"
BOTH = frozenset({FIRST, SECOND})


def asked_more() -> list[Event]:
    """A run that waits for one thing, and then for another as well."""
    events = list(STORIES["approved/r1"])
    at = next(at for at, event in enumerate(events) if event.type == "run.waiting")
    asked = next(event for event in events if event.type == "input.requested")
    requests = asked.data["requests"]
    assert isinstance(requests, list)
    [request] = requests
    assert isinstance(request, dict)
    action = {"kind": "tool-call", "callId": "call-2", "toolName": "mail", "input": "x"}
    more = asked.model_copy(
        update={"data": {**asked.data, "requests": [{**request, "requestId": SECOND, "action": action}]}}
    )
    return [*events[: at + 1], more, events[at]]


def pauses(events: list[Event], view: View) -> list[int]:
    """At which waits a stream would end."""
    gate, found, count = ViewGate(view), list[int](), 0
    for change in ChatFold("r1").apply_all(events):
        count += isinstance(change, RunWaiting)
        if gate.is_pause(change):
            found.append(count)
    return found


def test_a_run_that_waits_for_more_is_shown_up_to_its_last_wait() -> None:
    events = asked_more()
    assert pauses(events, View()) == [1, 2]
    assert pauses(events, past_of(events).whole()) == [2]


@pytest.mark.parametrize(
    ("answered", "needs_all", "skipped", "ends"),
    [
        ({FIRST}, True, 1, [2]),
        (BOTH, True, 1, []),
        ({SECOND}, False, 2, []),
        ({FIRST}, False, 1, [2]),
    ],
)
def test_answers_go_on_behind_the_wait_that_they_are_for(
    answered: set[str], needs_all: bool, skipped: int, ends: list[int]
) -> None:
    events = asked_more()
    view = past_of(events).behind(frozenset(answered), needs_all=needs_all)
    assert view is not None
    assert view.skipped == skipped
    assert pauses(events, view) == ends


def test_answers_that_leave_something_open_are_for_no_wait() -> None:
    assert past_of(asked_more()).behind(frozenset({SECOND}), needs_all=True) is None
    assert past_of(asked_more()).behind(frozenset({"nobody"}), needs_all=False) is None


def test_open_requests_are_settled_at_the_end_of_the_run() -> None:
    past = past_of(STORIES["cancelled/r1"])
    assert past.settled == {FIRST}
    assert pauses(list(STORIES["cancelled/r1"]), past.whole()) == []
