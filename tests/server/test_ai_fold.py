"""The AI SDK as a fold: a client builds the message of the run."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.server.ai_client import AiClient
from tests.server.stories import STORIES, delta, live
from tests.server.test_agui_fold import past_of

from windlass import Event
from windlass_harness.record import Record
from windlass_server.chat.ai_sdk import AiFold, AiHistory, AiRun
from windlass_server.chat.run_events import WHOLE, View

SETTINGS = settings(max_examples=60)
names = st.sampled_from(sorted(STORIES))


def read(
    client: AiClient, events: Sequence[Event], *, view: View = WHOLE, is_new_message: bool = True
) -> list[Any]:
    run = AiRun("s1", str(events[0].run_id), view, is_new_message)
    fold = AiFold(run)
    chunks = [*fold.opening()]
    for event in events:
        if not fold.is_over:
            chunks += fold.take(event)
    client.take(chunks)
    return chunks


def whole(events: Sequence[Event]) -> AiClient:
    """The message built from the whole run after its end."""
    client = AiClient()
    read(client, events, view=past_of(events).whole())
    return client


def by_answers(events: Sequence[Event]) -> AiClient:
    """The message of a client that answers each request in it."""
    client = AiClient()
    read(client, events)
    while client.finish == "tool-calls":
        answered = frozenset([*client.approvals, *client.requests])
        client.approve()
        past = next(
            past
            for end in range(1, len(events) + 1)
            if (past := past_of(events[:end])).behind(answered, needs_all=True)
        )
        view = past.behind(answered, needs_all=True)
        assert view is not None
        read(client, events, view=view, is_new_message=False)
    return client


def shown(client: AiClient) -> list[dict[str, Any]]:
    """The parts without requests: a message that is resumed leaves out those that are answered."""
    without = [{name: part[name] for name in part if name != "approval"} for part in client.parts]
    return [{**part, "data": None} if part["type"] == "data-request" else part for part in without]


@pytest.mark.parametrize("name", sorted(STORIES))
def test_every_journal_is_a_message_that_is_finished_or_an_error(name: str) -> None:
    client = whole(STORIES[name])
    assert bool(client.finish) != bool(client.errors)
    assert not client.approvals
    assert client.id == STORIES[name][0].run_id


@pytest.mark.parametrize("name", sorted(STORIES))
def test_a_message_that_was_built_answer_by_answer_is_the_one_that_is_resumed(name: str) -> None:
    assert shown(by_answers(STORIES[name])) == shown(whole(STORIES[name]))


@pytest.mark.parametrize("name", sorted(STORIES))
def test_a_history_has_the_message_of_the_stream_with_the_answers_of_people(name: str) -> None:
    history, streamed = AiHistory("s1"), whole(STORIES[name])
    for event in STORIES[name]:
        history.take(Record(event.type, event.meta.at, event.data, run_id=event.run_id, seq=event.seq or 0))
    nothing: dict[str, Any] = {"id": streamed.id, "parts": [], "metadata": {}}
    found: list[Any] = [one for one in history.messages() if one["role"] == "assistant"] or [nothing]
    [message] = found
    assert message["id"] == streamed.id
    assert [part["type"] for part in message["parts"]] == [part["type"] for part in streamed.parts]
    states = [
        [one["state"] for one in parts if "toolCallId" in one] for parts in (message["parts"], streamed.parts)
    ]
    assert states[0] == states[1]
    assert message["metadata"].get("error") == next(iter(streamed.errors), None)


@SETTINGS
@given(st.data())
def test_text_in_deltas_makes_the_same_message_as_whole_text(data: st.DataObject) -> None:
    events = STORIES[data.draw(names)]
    assert _sorted(whole(data.draw(live(events)))) == _sorted(whole(events))


def _sorted(client: AiClient) -> list[list[tuple[str, str]]]:
    """The parts by steps; inside a step their order is that of first pieces."""
    steps: list[list[tuple[str, str]]] = [[]]
    for part in shown(client):
        if part["type"] == "step-start":
            steps.append([])
        elif part["type"] not in ("text", "reasoning") or part["text"]:
            steps[-1].append((part["type"], str(part)))
    return [sorted(step) for step in steps]


def test_denied_failed_and_policy_rejected_calls_have_different_states() -> None:
    states = {part.get("state") for part in whole(STORIES["denied/r1"]).parts}
    assert "output-denied" in states
    [failed] = [part for part in whole(STORIES["tool-fails/r1"]).parts if "errorText" in part]
    assert failed["state"] == "output-error"
    denied = [event for event in STORIES["denied/r1"] if not event.type.startswith("input.")]
    [unasked] = [part for part in whole(denied).parts if "errorText" in part]
    assert unasked["errorText"] == "A person denied the call."


def test_progress_arguments_and_words_of_others_are_shown() -> None:
    events = list(STORIES["approved/r1"])
    asked = next(at for at, event in enumerate(events) if event.type == "actions.requested")
    began = next(at for at, event in enumerate(events) if event.type == "action.started")
    said = next(event for event in events if event.type == "message.received")
    client = AiClient()
    chunks = read(
        client,
        [
            *events[:asked],
            delta(events[asked - 1], "action.input.appended", callId="call-1", inputDelta='{"to"'),
            delta(
                events[asked - 1], "action.input.appended", callId="call-1", toolName="mail", inputDelta=": "
            ),
            *events[asked : began + 1],
            delta(events[asked - 1], "action.partial", callId="call-1", output="half"),
            delta(events[asked - 1], "action.partial", callId="nobody", output="none"),
            said.model_copy(update={"data": {**said.data, "message": "Be quick."}}),
            *events[began + 1 :],
        ],
        view=past_of(events).whole(),
    )
    assert {"type": "tool-input-delta", "toolCallId": "r1/0/call-1", "inputTextDelta": '{"to": '} in chunks
    [progress] = [chunk for chunk in chunks if chunk.get("preliminary")]
    assert progress["output"] == "half"
    [words] = [part for part in client.parts if part["type"] == "data-steering"]
    assert words["data"]["parts"][0]["text"] == "Be quick."


def test_a_run_that_ends_while_its_answers_are_on_their_way_says_so() -> None:
    client = AiClient()
    events = STORIES["cancelled/r1"]
    read(client, events)
    answered = frozenset({"approval:r1:0:call-1:1"})
    view = past_of(events).behind(answered, needs_all=False)
    assert view is not None
    read(client, events, view=view, is_new_message=False)
    assert client.finish == "other"
    assert client.parts[-1]["state"] == "output-error"
    late = AiClient()
    read(late, events, view=view)
    assert late.parts[-1]["state"] == "output-error"
    read(late, events, view=View(skipped=5))
    assert late.finish == "other"
