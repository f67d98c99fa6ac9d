"""The grammar of eve over the records of a session: waits, answers that come early, cancels and attempts."""

from collections.abc import Iterable
from typing import cast

from windlass_harness.views.eve import EveGrammar, Shown
from windlass_protocol import InputRequest, JsonObject, JsonValue, StepPlace

PLACE: JsonObject = {"sequence": 0, "turnId": "own", "stepIndex": 0}
TURN: JsonObject = {"sequence": 0, "turnId": "own"}
BEGIN: list[Shown] = [
    ("session.started", {"runtime": {"agentId": "a"}, "agent": {"system": "secret"}}),
    ("run.started", {"runId": "r", "agentId": "a"}),
    ("turn.started", TURN),
    ("message.received", {"message": "Go.", **TURN}),
    ("step.started", PLACE),
]


def requested(*call_ids: str) -> list[Shown]:
    actions: list[JsonValue] = [
        {"kind": "tool-call", "callId": one, "toolName": "pay", "input": {}} for one in call_ids
    ]
    return [
        ("actions.requested", {"actions": actions, **PLACE}),
        ("step.completed", {"finishReason": "tool-calls", **PLACE}),
    ]


def asks(call_id: str, kind: str | None = "approval") -> Shown:
    action: JsonObject = {"kind": "tool-call", "callId": call_id, "toolName": "pay", "input": {}}
    request: JsonObject = {"requestId": f"ask-{call_id}", "action": action}
    return "input.requested", {"requests": [{**request, **({"kind": kind} if kind else {})}], **PLACE}


def resolved(call_id: str, outcome: str, kind: str = "approval") -> Shown:
    one: JsonObject = {"requestId": f"ask-{call_id}", "outcome": outcome, "kind": kind}
    return "input.resolved", {"resolutions": [one], **PLACE}


def result(call_id: str, status: str = "completed", code: str | None = None) -> Shown:
    data: JsonObject = {"result": {"kind": "tool-result", "callId": call_id, "output": 1}, "status": status}
    if code is not None:
        data["error"] = {"code": code, "message": "No."}
    return "action.result", {**data, **PLACE}


WAIT: Shown = ("turn.waiting", {**TURN, "on": "input"})


def shown(records: Iterable[Shown], grammar: EveGrammar | None = None) -> list[Shown]:
    grammar = grammar or EveGrammar()
    return [one for kind, data in records for one in grammar.take(kind, data)]


def test_an_output_that_does_not_fit_has_the_code_of_eve() -> None:
    failed: JsonObject = {"code": "structured_output_failure", "message": "It does not fit."}
    others: JsonObject = {"code": "provider_failure", "message": "It is down."}
    kinds = [("step.failed", {**failed, **PLACE}), ("turn.failed", {**failed, **TURN})]
    events = shown([*BEGIN, *kinds, ("session.failed", failed), ("session.failed", others)])
    assert [data["code"] for kind, data in events if kind.endswith(".failed")] == [
        *["OUTPUT_SCHEMA_NOT_FULFILLED"] * 3,
        "provider_failure",
    ]


def _list(value: JsonValue) -> list[JsonObject]:
    return cast(list[JsonObject], value)


def types(events: Iterable[Shown]) -> list[str]:
    return [kind for kind, _ in events]


def test_only_known_types_and_fields_are_shown() -> None:
    events = shown([*BEGIN, ("policy.decided", {}), ("message.received", {"delivery": "correction", **TURN})])
    assert types(events) == ["session.started", "turn.started", "message.received", "step.started"]
    assert events[0][1] == {"runtime": {"agentId": "a", "eveVersion": "0.13.8"}}
    assert shown([("session.started", {"invocation": {}})]) == [("session.started", {"invocation": {}})]
    assert events[1][1] == {"sequence": 0, "turnId": "turn_0"}


def test_a_step_that_is_tried_again_is_shown_once() -> None:
    grammar = EveGrammar()
    shown(BEGIN, grammar)
    assert list(grammar.take("step.started", PLACE, attempt=2)) == []


def test_a_call_with_the_id_of_an_earlier_question_is_shown_with_its_result() -> None:
    grammar = EveGrammar()
    asked = [*BEGIN, *requested("a"), asks("a", "question"), WAIT, resolved("a", "answered", "question")]
    shown([*asked, result("a")], grammar)
    step: Shown = ("step.started", {**PLACE, "stepIndex": 1})
    rest = shown([step, *requested("a"), result("a"), ("step.started", {**PLACE, "stepIndex": 2})], grammar)
    assert types(rest) == [
        "turn.started",
        "step.started",
        "actions.requested",
        "action.result",
        "step.completed",
        "step.started",
    ]


def test_calls_of_a_program_are_not_shown_and_their_requests_are() -> None:
    grammar = EveGrammar()
    shown([*BEGIN, *requested("p")], grammar)
    inner = [(kind, {**data, "parentCallId": "p"}) for kind, data in (*requested("a")[:1], result("a"))]
    asked = shown([inner[0], asks("a"), WAIT], grammar)
    assert types(asked) == [
        "actions.requested",
        "step.completed",
        "input.requested",
        "turn.completed",
        "session.waiting",
    ]
    assert [one["callId"] for one in _list(asked[0][1]["actions"])] == ["p"]
    step: Shown = ("step.started", {**PLACE, "stepIndex": 1})
    rest = shown([resolved("a", "approved"), inner[1], result("p"), step], grammar)
    assert types(rest) == ["turn.started", "step.started", "action.result"]


def test_a_task_that_asks_has_no_boundary() -> None:
    grammar = EveGrammar()
    run: Shown = ("run.started", {"runId": "r", "agentId": "a", "mode": "task"})
    task = [BEGIN[0], run, *BEGIN[2:]]
    assert types(shown([*task, *requested("a"), asks("a"), WAIT], grammar))[-2:] == [
        "step.completed",
        "input.requested",
    ]
    assert grammar.is_turn_open is False


def test_a_wait_for_a_subagent_ends_no_turn_and_the_next_step_keeps_its_index() -> None:
    grammar = EveGrammar(actions={"agent": {"nodeId": "root"}})
    call: JsonObject = {"kind": "subagent-call", "callId": "a", "name": "agent", "input": {}}
    waits: list[Shown] = [
        ("actions.requested", {"actions": [call], **PLACE}),
        ("step.completed", {"finishReason": "tool-calls", **PLACE}),
        ("subagent.called", {"callId": "a", **TURN}),
        ("turn.waiting", {**TURN, "on": "subagent"}),
        ("subagent.completed", {"callId": "a", "output": "x"}),
        result("a"),
        ("step.started", {**PLACE, "stepIndex": 1}),
        *requested("b"),
        result("b"),
        ("step.started", {**PLACE, "stepIndex": 2}),
    ]
    events = shown([*BEGIN, *waits], grammar)
    assert types(events)[4:] == [
        "actions.requested",
        "step.completed",
        "subagent.called",
        "subagent.completed",
        "action.result",
        "step.started",
        "actions.requested",
        "action.result",
        "step.completed",
        "step.started",
    ]
    assert events[4][1]["actions"] == [{**call, "nodeId": "root"}]
    assert [data["stepIndex"] for kind, data in events if kind == "step.started"] == [0, 0, 1]


def test_a_denial_of_a_person_has_the_code_of_eve_and_one_of_a_policy_its_own() -> None:
    grammar = EveGrammar()
    shown([*BEGIN, *requested("a", "b"), asks("a"), asks("b")], grammar)
    events = shown(
        [
            WAIT,
            resolved("a", "denied"),
            resolved("b", "approved"),
            resolved("unknown", "denied"),
            result("a", "rejected", "denied"),
            result("b", "rejected", "policy.changed"),
        ],
        grammar,
    )
    denied = [data for kind, data in events if kind == "action.result"]
    assert denied[0]["error"] == {"code": "TOOL_EXECUTION_DENIED", "message": "No."}
    assert denied[0]["result"] == {
        "kind": "tool-result",
        "callId": "a",
        "output": {"code": "TOOL_EXECUTION_DENIED", "message": "No."},
    }
    assert denied[1]["error"] == {"code": "policy.changed", "message": "No."}
    assert {str(data["turnId"]) for data in denied} == {"turn_0"}


def test_a_message_is_shown_after_all_the_calls_that_it_passed_over() -> None:
    grammar = EveGrammar()
    shown([*BEGIN, *requested("a", "b"), asks("a"), asks("b"), WAIT], grammar)
    steer: Shown = ("message.received", {"message": "Stop.", "delivery": "steer", **TURN})
    events = shown(
        [
            resolved("a", "ignored"),
            resolved("b", "ignored"),
            steer,
            result("a", "rejected", "denied"),
            result("b", "rejected", "denied"),
        ],
        grammar,
    )
    assert types(events) == ["action.result", "action.result", "turn.started", "message.received"]


def test_a_cancelled_run_fails_its_turn_and_shows_the_message_that_it_held() -> None:
    grammar = EveGrammar()
    shown([*BEGIN, *requested("a"), asks("a"), WAIT], grammar)
    steer: Shown = ("message.received", {"message": "Stop.", "delivery": "steer", **TURN})
    events = shown([resolved("a", "ignored"), steer, ("turn.cancelled", TURN), *BEGIN[1:3]], grammar)
    assert types(events) == ["turn.started", "message.received", "turn.failed", "turn.started"]
    assert events[2][1] == {
        "sequence": 1,
        "turnId": "turn_1",
        "code": "cancelled",
        "message": "The run was cancelled.",
    }
    assert events[3][1]["turnId"] == "turn_2"


def test_a_grammar_between_two_steps_knows_the_open_requests() -> None:
    place = StepPlace(sequence=3, step_index=0, turn_id="turn_3")
    request = InputRequest.model_validate(
        {
            "requestId": "ask-q",
            "action": {"kind": "tool-call", "callId": "q", "toolName": "ask_question", "input": {}},
            "prompt": "?",
            "display": "text",
            "kind": "question",
        }
    )
    grammar = EveGrammar(place, requests=[request])
    events = shown([resolved("q", "answered", "question"), result("q"), ("step.started", PLACE)], grammar)
    assert events == [
        ("turn.started", {"sequence": 4, "turnId": "turn_4"}),
        ("step.started", {"sequence": 4, "turnId": "turn_4", "stepIndex": 0}),
    ]


def test_results_of_approved_calls_that_no_step_follows_are_shown_at_the_next_wait() -> None:
    grammar = EveGrammar()
    shown([*BEGIN, *requested("a", "b"), asks("a"), asks("b"), WAIT], grammar)
    events = shown([resolved("a", "approved"), result("a"), WAIT, WAIT], grammar)
    assert types(events) == ["action.result", "session.waiting"]


def test_a_wait_that_no_answer_came_before_is_not_shown_twice() -> None:
    grammar = EveGrammar()
    calls = requested("a", "b", "c")
    early = shown([*BEGIN, *calls, asks("a"), asks("b"), resolved("a", "approved")], grammar)
    assert types(early)[-2:] == ["turn.completed", "session.waiting"]
    # The third call was running: its end is no answer.
    assert types(shown([result("c"), result("a"), WAIT], grammar)) == ["action.result", "action.result"]
    assert types(shown([resolved("b", "denied"), result("b", "rejected", "denied")], grammar)) == [
        "action.result"
    ]
    assert types(shown([("step.started", PLACE)], grammar)) == ["turn.started", "step.started"]
    assert types(shown([WAIT, WAIT], grammar)) == ["turn.completed", "session.waiting"]
