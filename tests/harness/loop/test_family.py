"""Subagents in the loop: starts, reports, requests, and waiting callers."""

from dataclasses import replace
from typing import cast

import pytest
from pydantic import JsonValue
from tests.harness.loop.stage import (
    FREE,
    TOOLS,
    JsonObject,
    Session,
    asked,
    begin_all,
    call,
    calls,
    interrupt,
    judged,
    report,
    returned,
    run_asked,
    says,
)

from windlass_harness.loop.advance import advance
from windlass_harness.loop.events import (
    AnswersGiven,
    CallModel,
    CallReturned,
    CancelRequested,
    ChildSaid,
    Draft,
    Effect,
    JudgeCall,
    LoopEvent,
    OutputChecked,
    ReviewReport,
    RunRefused,
    RunWithdrawn,
    Stopped,
)
from windlass_harness.loop.rules import RequestedCall, Rules
from windlass_harness.loop.state import dump_loop, load_loop
from windlass_harness.loop.subagents import ASK, REPORT, SETTLE, is_childs
from windlass_harness.loop.take import take
from windlass_harness.record import Post
from windlass_protocol import (
    ActionStatus,
    BudgetLimits,
    ErrorCode,
    ErrorInfo,
    ErrorKind,
    InputResponse,
    RetryClass,
    Taint,
)

CHILD = "subagent:r1/0/c-child"
PARENT: JsonObject = {
    "sessionId": "s0",
    "runId": "r0",
    "callId": "c0",
    "rootSessionId": "top",
    "depth": 1,
    "agents": ["boss"],
}
ERROR = ErrorInfo(
    code=ErrorCode.REJECTED,
    kind=ErrorKind.PROVIDER_FAILURE,
    retry=RetryClass.NOT_RETRYABLE,
    message="it broke",
)
REQUEST: JsonObject = {
    "requestId": "q:1",
    "action": {"kind": "tool-call", "callId": "c-child", "toolName": "ask", "input": {}},
    "prompt": "Which?",
    "display": "text",
    "allowFreeform": True,
    "kind": "question",
}


def posts(session: Session, event: LoopEvent) -> list[Post]:
    """The posts of the records that an event causes; then apply the event."""
    drafts = take(session.state, event, now=session.now, rules=session.rules)
    session.tell(event)
    return [post for draft in drafts for post in draft.posts]


def planned(session: Session) -> list[Draft]:
    return list(advance(session.state, frozenset(), now=session.now, rules=session.rules).drafts)


def judge(session: Session) -> list[Post]:
    """Allow every call that waits for a decision; return the posts."""
    told: list[Post] = []
    for effect in session.turn():
        if isinstance(effect, JudgeCall):
            tool = TOOLS[effect.tool_name]
            parts = len(list(session.state.session.history.open_calls()))
            delegation = tool.delegation and replace(tool.delegation, parts=parts)
            event = replace(judged(effect, kind=tool.effect), delegation=delegation)
            del session.under_way[effect.key]
            told += posts(session, event)
    return told


def waiting(*asks: RequestedCall, rules: Rules = FREE, **body: JsonValue) -> Session:
    """A session with a run that waits for its subagents."""
    session = asked(calls(*(asks or (call("child"),))), rules=rules, **body)
    judge(session)
    session.turn()
    return session


def the_effect(session: Session) -> Effect:
    (effect,) = session.turn()
    return effect


def said(kind: str, call_id: str = "c-child", **more: JsonValue) -> ChildSaid:
    facts: JsonObject = {"runId": "r1", "callId": call_id, "childRunId": f"subagent:r1/0/{call_id}"}
    return ChildSaid(kind, {**facts, **more})


def asks(**more: JsonValue) -> ChildSaid:
    return said(ASK, sessionId="leaf", requests=[{**REQUEST, **more}])


def ended(call_id: str = "c-child", **more: JsonValue) -> ChildSaid:
    return ChildSaid(REPORT, report(call_id, f"subagent:r1/0/{call_id}", **more))


# calling


def test_the_start_of_a_subagent_is_posted_with_the_record_of_the_call() -> None:
    session = asked(calls(RequestedCall("c-child", "child", {"message": "help"}, "child")))
    (post,) = judge(session)
    assert session.types[-3:] == ["policy.decided", "action.started", "subagent.called"]
    assert (post.session_id, post.kind, post.key) == (f"session:{CHILD}", "start", f"start:{CHILD}")
    assert post.body == {
        "agentId": "child",
        "message": "help",
        "mode": "task",
        "runId": CHILD,
        "parent": {
            "sessionId": "s1",
            "runId": "r1",
            "callId": "c-child",
            "rootSessionId": "s1",
            "depth": 1,
            "agents": ["helper"],
        },
        "session": {
            "invocation": {
                "kind": "subagent",
                "parentCallId": "c-child",
                "parentSessionId": "s1",
                "parentTurnId": "turn_0",
                "name": "child",
            },
            "rootSessionId": "s1",
        },
    }
    (actions,) = cast("list[list[JsonObject]]", [one["actions"] for one in session.all("actions.requested")])
    assert (actions[0]["kind"], actions[0]["subagentName"]) == ("subagent-call", "child")
    assert session.data("subagent.called")["childRunId"] == CHILD


def test_a_subagent_is_told_whose_sandbox_it_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    shared: JsonObject = {"sessionId": "top", "agentId": "boss"}
    tool = TOOLS["child"]
    assert tool.delegation is not None
    body: JsonObject = {**tool.delegation.body, "parent": {"sandbox": shared, "runId": "another"}}
    monkeypatch.setitem(TOOLS, "child", replace(tool, delegation=replace(tool.delegation, body=body)))
    (post,) = judge(asked(calls(call("child"))))
    parent = post.body["parent"]
    assert isinstance(parent, dict)
    assert (parent["sandbox"], parent["runId"]) == (shared, "r1")


def test_a_nested_subagent_gets_the_root_session_and_all_agents_above() -> None:
    session = asked(calls(call("child")), parent=PARENT)
    (post,) = judge(session)
    parent = post.body["parent"]
    assert isinstance(parent, dict)
    assert (parent["rootSessionId"], parent["depth"], parent["agents"]) == ("top", 2, ["boss", "helper"])


def test_a_subagent_works_for_the_owner_of_its_callers_session() -> None:
    (post,) = judge(asked(calls(call("child")), owner="ann"))
    assert post.body["owner"] == "ann"


@pytest.mark.parametrize(
    ("rules", "body", "code"),
    [
        (Rules(subagent_depth_max=1), {"parent": PARENT}, "subagent_depth"),
        (Rules(subagent_calls_max=0), {}, "subagent_count"),
        (Rules(), {"budget": {"maxSteps": 1}}, "subagent_budget"),
    ],
)
def test_a_subagent_call_beyond_a_limit_is_rejected(rules: Rules, body: JsonObject, code: str) -> None:
    session = asked(calls(call("child")), rules=rules, **body)
    assert judge(session) == []
    error = session.data("action.result")["error"]
    assert isinstance(error, dict)
    assert error["code"] == code
    assert "subagent.called" not in session.types
    assert session.data("action.result")["status"] == "rejected"


def test_a_subagent_gets_the_smaller_of_its_own_limits_and_its_share() -> None:
    body: JsonObject = {"maxTokens": 110, "maxSteps": 11, "maxCostMicros": 1_000, "maxWallMs": 1_000}
    session = asked(calls(call("child"), call("child", "c-2")), budget=body)
    tool = TOOLS["child"].delegation
    assert tool is not None
    effects = [one for one in session.turn() if isinstance(one, JudgeCall)]
    own: JsonObject = {**tool.body, "budget": {"maxSteps": 2, "maxTokens": 900, "maxToolCalls": 7}}
    event = replace(judged(effects[0]), delegation=replace(tool, body=own, parts=2))
    (post,) = posts(session, event)
    assert post.body["budget"] == {
        "maxTokens": 50,
        "maxSteps": 2,
        "maxToolCalls": 7,
        "maxCostMicros": 495,
        "maxWallMs": 990,
    }


def test_what_is_lent_to_a_subagent_is_not_lent_again_until_it_reports() -> None:
    """A program calls its subagents one after another: each is judged as if it were the only one."""
    body: JsonObject = {"maxTokens": 1_010, "maxCostMicros": 1_010, "maxSteps": 101, "maxToolCalls": 102}
    session = asked(calls(call("child"), call("child", "c-2"), call("child", "c-3")), budget=body)
    tool = TOOLS["child"].delegation
    assert tool is not None
    first, second, third = [one for one in session.turn() if isinstance(one, JudgeCall)]
    (post,) = posts(session, replace(judged(first), delegation=replace(tool, parts=1)))
    half = {"maxTokens": 600, "maxCostMicros": 700, "maxSteps": 60, "maxToolCalls": 60}
    assert isinstance(post.body["budget"], dict)
    assert post.body["budget"]["maxTokens"] == 1_000
    assert session.data("subagent.called")["lent"] == post.body["budget"]
    session.state.note("c-child").lent = BudgetLimits.model_validate(half)
    (post,) = posts(session, replace(judged(second), delegation=replace(tool, parts=1)))
    assert post.body["budget"] == {
        "maxTokens": 400,
        "maxCostMicros": 300,
        "maxSteps": 40,
        "maxToolCalls": 39,
    }
    session.tell(replace(judged(third), delegation=replace(tool, parts=1)))
    assert session.data("action.result")["status"] == "rejected", "nothing is left to lend"


def test_money_alone_is_lent_once() -> None:
    session = asked(calls(call("child"), call("child", "c-2")), budget={"maxCostMicros": 1_010})
    tool = TOOLS["child"].delegation
    assert tool is not None
    lent = [
        post.body["budget"]
        for effect in session.turn()
        if isinstance(effect, JudgeCall)
        for post in posts(session, replace(judged(effect), delegation=replace(tool, parts=1)))
    ]
    assert lent == [{"maxCostMicros": 1_000}, {"maxCostMicros": 0}]


def test_reservations_of_a_subagent_that_count_as_spent_count_for_its_caller() -> None:
    session = waiting(budget={"maxCostMicros": 5_000})
    session.tell(ended(settledMicros=300))
    notes = session.state.run_notes
    assert (notes.usage.cost_micros, notes.settled_micros) == (12, 300)
    assert notes.budget.cost_micros_used == 312
    assert session.data("subagent.completed")["settledMicros"] == 300


def test_a_subagent_starts_with_the_taint_of_its_caller() -> None:
    session = asked(calls(call("child")))
    session.state.session.taint |= {"untrusted", "private"}
    tool = TOOLS["child"].delegation
    effects = [one for one in session.turn() if isinstance(one, JudgeCall)]
    (post,) = posts(session, replace(judged(effects[0]), delegation=tool))
    begun = post.body["session"]
    assert isinstance(begun, dict)
    assert begun["taint"] == ["private", "untrusted"]


# reports


def test_a_report_is_reviewed_and_then_is_the_result() -> None:
    session = waiting()
    assert session.tell(ended()) == ["subagent.completed"]
    effect = the_effect(session)
    assert isinstance(effect, ReviewReport)
    assert (effect.arguments, effect.report.output) == ({}, "helped")
    assert session.types[-1] == "run.resumed"
    assert session.done(effect, returned("c-child", "helped")) == ["action.result"]
    assert session.data("action.result")["result"] == {
        "kind": "subagent-result",
        "callId": "c-child",
        "subagentName": "child",
        "output": "helped",
    }
    assert isinstance(the_effect(session), CallModel)


def test_the_usage_of_a_subagent_counts_against_the_run() -> None:
    session = waiting(budget={"maxSteps": 5})
    session.tell(ended())
    notes = session.state.run_notes
    assert (notes.budget.steps_used, notes.budget.tool_calls_used, notes.budget.tokens_used) == (3, 2, 16)
    assert notes.usage.cost_micros == 12


def test_a_report_counts_once_and_only_from_the_child_that_was_called() -> None:
    session = waiting()
    for other in (
        ChildSaid(REPORT, report("c-child", "somebody")),
        ChildSaid(REPORT, report("c-none", CHILD)),
        ended(runId="r9"),
    ):
        assert session.tell(other) == []
    assert session.tell(ended()) == ["subagent.completed"]
    assert session.tell(ended(output="again")) == []
    assert session.tell(asks()) == []


def test_a_report_that_comes_after_the_end_of_the_run_is_let_be() -> None:
    session = waiting()
    session.tell(CancelRequested("r1"))
    session.turn()
    assert session.end == "cancelled"
    assert session.tell(ended()) == []


# time


def test_the_time_of_a_run_goes_on_while_it_waits_for_subagents() -> None:
    session = waiting(budget={"maxWallMs": 1_000})
    wake = session.plan().wake_at_ms
    assert wake == session.now.ms + 1_001 - 10
    session.pass_ms(1_001 - 10)
    assert [draft.type for draft in planned(session)][-3:-1] == ["turn.failed", "run.budget_exhausted"]
    posted = [post for draft in planned(session) for post in draft.posts]
    assert [(one.kind, one.session_id, one.body["runId"]) for one in posted] == [
        ("cancel", f"session:{CHILD}", CHILD)
    ]


def test_the_time_of_a_run_goes_on_for_the_next_owner_too() -> None:
    before = waiting(budget={"maxWallMs": 1_000})
    before.pass_ms(500)
    after = interrupt(before, len(before.records))
    assert after.state.wall_ms(after.now) == 510
    after.tell(ended())
    assert after.state.wall_ms(after.now) == 510


def test_the_other_calls_of_a_step_are_set_aside_before_a_budget_is_shared() -> None:
    session = asked(
        calls(call("look"), call("child"), call("look", "c-2"), call("look", "c-3")),
        budget={"maxToolCalls": 10},
    )
    (post,) = judge(session)
    # Four of them are calls of this step; the rest is for four that could be subagents.
    assert post.body["budget"] == {"maxToolCalls": (10 - 4) // 4}


@pytest.mark.parametrize(
    ("name", "is_kept"),
    [(CHILD, True), (f"session:{CHILD}", True), ("session:r1", False), ("r1/0/c-child", False)],
)
def test_names_of_subagents_are_known_by_how_they_begin(name: str, is_kept: bool) -> None:
    assert is_childs(name) == is_kept


# ends


def up(drafts: list[Draft], kind: str) -> JsonObject:
    """The body of the post to the caller."""
    (post,) = [post for draft in drafts for post in draft.posts if post.kind == kind]
    assert post.session_id == "s0"
    assert (post.body["runId"], post.body["callId"], post.body["childRunId"]) == ("r0", "c0", "r1")
    return {name: value for name, value in post.body.items() if name not in ("runId", "callId", "childRunId")}


def test_a_completed_subagent_reports_output_and_usage_to_its_caller() -> None:
    session = asked(says("all of it"), parent=PARENT, mode="task")
    told = up(planned(session), REPORT)
    used: JsonObject = {"inputTokens": 9, "outputTokens": 1, "costMicros": 10}
    assert told == {"status": "completed", "output": "all of it", "steps": 1, "toolCalls": 0, "usage": used}
    session.turn()
    assert session.types[-1] == "session.completed"


def test_a_subagent_reports_its_taint_to_its_caller() -> None:
    session = asked(calls(call("look")), parent=PARENT, mode="task")
    (effect,) = begin_all(session)
    tainted = CallReturned(effect.call_id, ActionStatus.COMPLETED, "found", taint=(Taint.UNTRUSTED,))
    session.done(effect, tainted)
    session.done(the_effect(session), says("all of it"))
    assert up(planned(session), REPORT)["taint"] == ["untrusted"]


def test_a_run_above_gets_data_as_data() -> None:
    contract: JsonObject = {
        "schemaId": "answer",
        "schemaVersion": {"major": 1, "minor": 0, "patch": 0},
        "schema": {"type": "object"},
    }
    session = asked(says("{}"), parent=PARENT, contract=contract)
    effect = the_effect(session)
    session.done(effect, OutputChecked({"n": 1}))
    told = up(planned(session), REPORT)
    assert (told["output"], told["isStructured"]) == ('{"n":1}', True)


def test_a_failed_or_cancelled_subagent_reports_the_error_to_its_caller() -> None:
    session = asked(says("x"), parent=PARENT)
    told = up(take(session.state, Stopped(ERROR), now=session.now, rules=session.rules), REPORT)
    assert (told["status"], told["isError"]) == ("failed", True)
    assert told["error"] == {"code": "subagent_failed", "message": "it broke"}
    session.tell(CancelRequested("r1"))
    told = up(planned(session), REPORT)
    assert told["error"] == {
        "code": "subagent_cancelled",
        "message": "The subagent was cancelled before it was done.",
    }


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_subagent_that_never_started_reports_the_reason_to_its_caller(*, is_refused: bool) -> None:
    session = Session()
    body = run_asked(parent=PARENT).body
    event = RunRefused(body, ERROR) if is_refused else RunWithdrawn(body, "ann", "no")
    told = up(take(session.state, event, now=session.now), REPORT)
    assert told["status"] == ("failed" if is_refused else "cancelled")
    assert told["output"] == ("it broke" if is_refused else "The subagent was cancelled before it was done.")


# people


def test_a_request_of_a_subagent_is_recorded_with_its_session_and_is_no_own_request() -> None:
    session = waiting()
    assert session.tell(asks()) == ["input.requested"]
    shown = session.data("input.requested")
    assert (shown["callId"], shown["childSessionId"]) == ("c-child", "leaf")
    assert session.state.session.requests == {}
    (proxied,) = session.state.session.family.proxied.values()
    assert (proxied.request.request_id, proxied.session_id, proxied.call_id) == ("q:1", "leaf", "c-child")
    assert session.tell(said(ASK, sessionId="leaf", requests=[])) == []


def test_a_request_of_a_subagent_is_settled_by_the_subagent_only() -> None:
    session = waiting()
    session.tell(asks())
    assert session.tell(AnswersGiven((InputResponse(request_id="q:1", text="x"),))) == ["approval.candidate"]
    assert "q:1" in session.state.session.family.proxied
    settled: list[JsonValue] = [
        {"requestId": "q:1", "outcome": "answered"},
        {"requestId": "q:2", "outcome": "answered"},
    ]
    assert session.tell(said(SETTLE, resolutions=settled)) == ["input.resolved"]
    assert session.state.session.family.proxied == {}
    assert session.tell(said(SETTLE, resolutions=settled)) == []


def test_a_subagent_cannot_settle_the_request_of_another() -> None:
    session = waiting(call("child"), call("child", "c-2"))
    session.tell(asks())
    settled: list[JsonValue] = [{"requestId": "q:1", "outcome": "answered"}]
    assert session.tell(said(SETTLE, "c-2", resolutions=settled)) == []
    session.turn()
    assert session.data("run.waiting")["on"] == "subagent", "the other one works"


def test_a_cancel_closes_the_requests_of_all_subagents() -> None:
    session = waiting(call("child"), call("child", "c-2"))
    session.tell(asks())
    session.tell(said(ASK, "c-2", sessionId="other", requests=[{**REQUEST, "requestId": "q:2"}]))
    assert session.tell(CancelRequested("r1")) == ["run.cancel_requested", "input.resolved", "input.resolved"]
    assert [closed["resolutions"] for closed in session.all("input.resolved")] == [
        [{"requestId": "q:1", "outcome": "cancelled"}],
        [{"requestId": "q:2", "outcome": "cancelled"}],
    ]
    assert session.state.session.family.proxied == {}


def test_questions_go_up_level_by_level_and_so_do_their_answers() -> None:
    session = waiting(parent=PARENT)
    drafts = take(session.state, asks(), now=session.now)
    told = up(drafts, ASK)
    assert told["sessionId"] == "leaf"
    session.tell(asks())
    settled: list[JsonValue] = [{"requestId": "q:1", "outcome": "answered"}]
    event = said(SETTLE, resolutions=settled)
    assert up(take(session.state, event, now=session.now), SETTLE) == {"resolutions": settled}
    assert up(take(session.state, ended(), now=session.now), SETTLE)["resolutions"] == [
        {"requestId": "q:1", "outcome": "cancelled"}
    ]


def test_a_snapshot_has_all_that_is_known_of_subagents() -> None:
    session = waiting(call("child"), call("child", "c-2"))
    session.tell(asks())
    session.tell(ended("c-2"))
    again = load_loop(dump_loop(session.state))
    assert again is not None
    again.epoch = session.epoch
    assert again.notes == session.state.notes
    assert again.session.freeze() == session.state.session.freeze()
    assert advance(again, frozenset(), now=session.now) == session.plan()
