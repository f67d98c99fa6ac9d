"""Records as events, and events as the simple chat stream."""

import pytest
from tests.harness.views.journal import ERROR, FAILURE, SPENT, Facts, Journal, at, call

from windlass_harness.record import from_wire
from windlass_harness.views import ChatFold, fold_chat, to_event, to_sse
from windlass_protocol import Event, EventMeta, SSEEvent


def event(kind: str, data: Facts, session_id: str | None = "s1") -> Event:
    facts = {"type": kind, "data": data, "meta": {"at": "2026-01-31T09:00:00Z"}}
    return Event.model_validate({**facts, "sessionId": session_id})


def shown(kind: str, data: Facts) -> list[dict[str, object]]:
    return [one.model_dump(mode="json") for one in projected(event(kind, data))]


def projected(*events: Event) -> list[SSEEvent]:
    """The simple chat stream of a reader that begins with these events."""
    found, chat = list[SSEEvent](), ChatFold()
    for one in events:
        found += to_sse(one, chat.apply(one))
    return found


def test_a_record_is_shown_with_its_place_and_its_facts() -> None:
    record = from_wire(
        {
            "sessionId": "s1",
            "seq": 7,
            "type": "something.new",
            "at": "2026-01-31T09:00:00Z",
            "data": {"n": [1]},
            "position": 99,
            "eventId": "evt_1",
            "runId": "r1",
            "agentId": "helper",
            "attempt": 2,
            "epoch": 4,
        }
    )
    shown_as = to_event(record)
    assert shown_as == Event(
        type="something.new",
        data={"n": [1]},
        meta=EventMeta.model_validate({"at": record.at, "id": "evt_1", "attempt": 2, "position": 99}),
        session_id="s1",
        seq=7,
        run_id="r1",
        agent_id="helper",
    )
    assert "epoch" not in shown_as.model_dump(), "the owner of a session is not public"


def test_a_delta_carries_the_id_of_the_message_that_it_will_be_part_of() -> None:
    data = {"messageDelta": "he", **at(3)}
    assert shown("message.appended", data) == [{"type": "content", "content": "he", "messageId": "s1/t0/3"}]
    (without,) = projected(event("message.appended", data, None))
    assert without.message_id is None
    journal = Journal().begin().answer(text="hello", step=3)
    assert fold_chat(journal.records).messages[-1].id == "s1/t0/3"


def test_each_call_is_an_event_of_its_own() -> None:
    actions = [call("a"), {"kind": "load-skill", "callId": "b", "input": "pdf"}]
    assert shown("actions.requested", {"actions": actions, **at()}) == [
        {"type": "tool_call", "payload": {"id": "a", "name": "look", "arguments": {"for": "a"}}},
        {"type": "tool_call", "payload": {"id": "b", "name": "load_skill", "arguments": {"input": "pdf"}}},
    ]


def test_a_result_carries_the_id_of_its_call() -> None:
    result = {"kind": "tool-result", "callId": "a", "toolName": "look", "output": {"n": 1}}
    assert shown("action.result", {"result": result, "status": "completed", **at()}) == [
        {"type": "tool_result", "payload": {"success": True, "data": {"n": 1}, "id": "a"}}
    ]
    assert shown("action.result", {"result": result, "status": "rejected", **at()}) == [
        {
            "type": "tool_result",
            "payload": {"success": False, "error": "Tool execution was denied.", "id": "a"},
        }
    ]


@pytest.mark.parametrize("kind", ["step.failed", "turn.failed"])
def test_a_failure_shows_its_code_and_message(kind: str) -> None:
    assert shown(kind, {**FAILURE, **at()}) == [{"type": "error", "code": "E", "message": "it broke"}]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("run.completed", {"runId": "r1"}),
        ("run.failed", {"runId": "r1", "error": ERROR}),
        ("run.cancelled", {"runId": "r1"}),
        ("session.waiting", {"wait": "next-user-message"}),
        ("session.completed", {}),
    ],
)
def test_the_end_of_a_run_or_of_a_stretch_of_work_ends_the_stream(kind: str, data: Facts) -> None:
    assert shown(kind, data) == [{"type": "done", "event": kind}]


def test_a_session_that_failed_says_so_before_it_ends() -> None:
    assert [one["type"] for one in shown("session.failed", FAILURE)] == ["error", "done"]


def test_a_budget_that_ran_out_is_said_before_the_end() -> None:
    data: Facts = {"runId": "r1", "exceeded": ["tokens"], "used": SPENT, "limits": {}}
    first, last = shown("run.budget_exhausted", data)
    assert (first["type"], first["payload"], last["type"]) == ("budget_exhausted", data, "done")


def test_questions_to_people_are_passed_on_whole() -> None:
    data: Facts = {"requests": [], **at()}
    assert shown("input.requested", data) == [{"type": "agent", "event": "input.requested", "payload": data}]
    assert [one["type"] for one in shown("input.resolved", {"resolutions": [], **at()})] == ["agent"]


def test_subagents_show_as_orchestration() -> None:
    data = {"callId": "c", "subagentName": "s", "output": "x"}
    (one,) = shown("subagent.completed", data)
    assert (one["type"], one["taskId"], one["payload"]) == ("orchestration", "c", data)


@pytest.mark.parametrize("kind", ["something.new", "turn.started", "policy.decided"])
def test_events_without_a_form_in_the_simple_stream_are_left_out(kind: str) -> None:
    loose = Event.model_construct(type=kind, data={}, meta=EventMeta(at="2026-01-31T09:00:00Z"))
    assert to_sse(loose, ()) == ()
