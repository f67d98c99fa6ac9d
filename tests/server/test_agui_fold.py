"""AG-UI as a fold: a client has the same messages wherever it was cut."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.server.agui_client import AguiClient
from tests.server.stories import STORIES, delta, live

from windlass import Event
from windlass_server.chat.agui import AguiFold, AguiRun
from windlass_server.chat.run_events import Past, View

QUESTION = {"id": "u1", "role": "user", "content": "go"}
SETTINGS = settings(max_examples=60)
names = st.sampled_from(sorted(STORIES))


def past_of(events: Sequence[Event]) -> Past:
    past = Past(str(events[0].run_id) if events else "")
    for event in events:
        past.take(event)
    return past


def ask(
    client: AguiClient, events: Sequence[Event], answered: frozenset[str] = frozenset(), **more: Any
) -> AguiFold:
    """The fold of a request that a client makes as early as it can."""
    ends = range(len(events) + 1) if answered else ()
    views = (past_of(events[:end]).behind(answered, needs_all=True) for end in ends)
    view = next((view for view in views if view is not None), View())
    parts: dict[str, Any] = {"view": view, "messages": tuple(client.messages), **more}
    return AguiFold(AguiRun("t1", "a1", "s1", str(events[0].run_id), **parts))


def read(client: AguiClient, fold: AguiFold, events: Sequence[Event]) -> None:
    client.take(fold.opening())
    for event in events:
        if not fold.is_over:
            client.take(fold.take(event))


def play(events: Sequence[Event], *, cut: int | None = None, again: Sequence[Event] = ()) -> AguiClient:
    """Follow a run through its interrupts; one request may be cut and made again."""
    client = AguiClient([QUESTION])
    answered, left = frozenset[str](), cut
    while True:
        fold = ask(client, events, answered)
        if left is not None:
            read(client, fold, events[:left])
            if client.is_running:
                client.cut()
                read(client, ask(client, again, answered, is_again=True), again)
                left = None
        else:
            read(client, fold, events)
        if not client.interrupts:
            return client
        answered = frozenset(client.interrupts)


def shown(client: AguiClient) -> list[tuple[str, object]]:
    """The visible messages: empty reasoning and its position are left out."""
    words = [one for one in client.messages if one["role"] != "reasoning" or one["content"]]
    thoughts = sorted((str(one["id"]), one) for one in words if one["role"] == "reasoning")
    return [*((str(one["id"]), one) for one in words if one["role"] != "reasoning"), *thoughts]


@pytest.mark.parametrize("name", sorted(STORIES))
def test_every_journal_is_a_run_in_good_order_that_ends(name: str) -> None:
    client = play(STORIES[name])
    assert not client.is_running
    assert client.ends


@SETTINGS
@given(st.data())
def test_text_in_deltas_makes_the_same_messages_as_whole_text(data: st.DataObject) -> None:
    events = STORIES[data.draw(names)]
    assert shown(play(data.draw(live(events)))) == shown(play(events))


@SETTINGS
@given(st.data())
def test_a_client_that_is_cut_off_anywhere_and_asks_again_has_nothing_twice(data: st.DataObject) -> None:
    events = STORIES[data.draw(names)]
    seen = data.draw(live(events))
    cut = data.draw(st.integers(0, len(seen)))
    again = data.draw(st.sampled_from([events, tuple(seen)]))
    whole = play(events)
    cut_off = play(seen, cut=cut, again=again)
    assert shown(cut_off) == shown(whole)
    assert cut_off.ends[-1] == whole.ends[-1]


def test_a_run_that_asks_ends_with_an_interrupt_and_its_sequel_shows_the_rest() -> None:
    events = STORIES["approved/r1"]
    client = AguiClient([QUESTION])
    read(client, ask(client, events), events)
    [end] = client.ends
    [interrupt] = end["outcome"]["interrupts"]
    assert interrupt["reason"] == "tool_call"
    assert interrupt["toolCallId"] == "r1/0/call-1"
    assert interrupt["metadata"]["windlass"]["argumentsHash"].startswith("sha256:")
    assert [one["role"] for one in client.messages] == ["user", "assistant"]
    read(client, ask(client, events, frozenset(client.interrupts)), events)
    assert [one["role"] for one in client.messages] == ["user", "assistant", "tool", "assistant"]
    assert client.ends[-1]["outcome"] == {"type": "success"}
    assert client.ends[-1]["result"] == "Sent."


def test_a_run_that_was_answered_elsewhere_is_not_interrupted_again() -> None:
    events = STORIES["asked-twice/r1"]
    waited = next(at for at, event in enumerate(events) if event.type == "run.waiting")
    past = past_of(events[: waited + 2])
    assert past.settled
    client = AguiClient([QUESTION])
    read(client, ask(client, events, view=past.whole(), is_again=True), events)
    assert client.interrupts == ["approval:r1:1:call-2:1"]


@pytest.mark.parametrize(("knows", "expected"), [(True, "RUN_FINISHED"), (False, "RUN_ERROR")])
def test_a_cancelled_run_is_no_success_for_any_client(knows: bool, expected: str) -> None:
    events = STORIES["cancelled/r1"]
    fold = ask(
        client := AguiClient(),
        events,
        view=View(decided=frozenset({"approval:r1:0:call-1:1"})),
        knows_cancelled=knows,
    )
    read(client, fold, events)
    [end] = client.ends
    assert end["type"] == expected
    assert (end.get("outcome") or {"type": end.get("code")})["type"] == "cancelled"


@pytest.mark.parametrize(
    ("story", "code"),
    [("hopeless/r1", "rejected"), ("retried/r1", "unavailable"), ("out-of-steps/r1", "budget_exhausted")],
)
def test_a_run_that_fails_says_so_with_a_stable_code(story: str, code: str) -> None:
    assert play(STORIES[story]).ends[-1]["code"] == code


def test_a_subagent_that_asks_is_suspended_and_goes_on() -> None:
    events = STORIES["subagent/r1"]
    first, second = AguiClient([QUESTION]), AguiClient([QUESTION])
    read(first, ask(first, events), events)
    [interrupt] = first.ends[0]["outcome"]["interrupts"]
    assert interrupt["subagentRunId"] == "subagent:r1/0/call-1"
    assert interrupt["toolCallId"] == "r1/0/call-1"
    fold = ask(second, events, frozenset(first.interrupts), is_again=True)
    frames = [*fold.opening(), *(frame for event in events for frame in fold.take(event))]
    assert [frame["type"] for frame in frames if "SUBAGENT" in str(frame["type"])] == [
        "SUBAGENT_STARTED",
        "SUBAGENT_FINISHED",
    ]
    usage: Any = frames[-1]["usage"]
    assert [entry["inputTokens"] for entry in usage if "model" not in entry] == [12]


def test_arguments_are_shown_as_they_are_written_and_put_right_if_they_were_wrong() -> None:
    events = list(STORIES["approved/r1"])
    at = next(at for at, event in enumerate(events) if event.type == "actions.requested")
    for pieces in (['{"to"', ': "bob"}'], ['{"to": "eve"}']):
        shown = [
            delta(events[at - 1], "action.input.appended", callId="call-1", toolName="mail", inputDelta=piece)
            for piece in pieces
        ]
        client = play([*events[:at], *shown, *events[at:]])
        [call] = client.messages[1]["toolCalls"]
        assert call["function"]["name"] == "mail"
        assert "bob" in call["function"]["arguments"]
        assert "eve" not in call["function"]["arguments"]


def test_state_is_the_state_of_the_client_with_the_changes_of_the_agent() -> None:
    event = STORIES["words/r1"][0]
    changes = [
        delta(event, "session.state_changed", set={"cart": [1]}),
        delta(event, "session.state_changed", set={"step": 2}, removed=["cart"]),
    ]
    client = AguiClient()
    read(client, ask(client, [event], state={"theme": "dark"}), [event, *changes])
    assert client.state == {"theme": "dark", "step": 2}


def test_a_message_to_a_running_run_is_shown() -> None:
    events = list(STORIES["words/r1"])
    said = next(event for event in events if event.type == "message.received")
    later = said.model_copy(update={"seq": 99, "data": {**said.data, "message": "Be quick."}})
    client = play([*events[:-1], later, events[-1]])
    assert {"id": "r1/said/99", "role": "user", "content": "Be quick."} in client.messages


def test_streamed_text_that_differs_from_the_message_is_corrected() -> None:
    events = list(STORIES["thoughts/r1"])
    at = next(at for at, event in enumerate(events) if event.type == "step.started")
    wrong = [
        delta(events[at], "reasoning.appended", reasoningDelta="Let me", reasoningSoFar="Let me"),
        delta(events[at], "action.input.appended", callId="torn", toolName="mail", inputDelta='{"to'),
        delta(events[at], "message.appended", messageDelta="No.", messageSoFar="No."),
        delta(events[at], "message.appended", messageDelta="Y", messageSoFar="Y"),
    ]
    client = play([*events[: at + 1], *wrong, *events[at + 1 :]])
    texts = {str(one["id"]): one.get("content") for one in client.messages}
    assert texts == {"u1": "go", "r1/0": "Yes.", "r1/0/thought": "Let me see …"}
