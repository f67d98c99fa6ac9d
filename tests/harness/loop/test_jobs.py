"""Jobs in the loop: calls that are answered at once, reports that join or begin a run, calls about jobs."""

from dataclasses import replace

import pytest
from pydantic import JsonValue
from tests.harness.loop.stage import (
    CONTRACT,
    FREE,
    JsonObject,
    Session,
    asked,
    call,
    calls,
    interrupt,
    judged,
    report,
    returned,
    run_asked,
    says,
)
from tests.harness.loop.test_family import REQUEST, posts

from windlass_harness.loop.events import (
    AnswersGiven,
    CallJudged,
    CallModel,
    CallReturned,
    CancelRequested,
    ChildSaid,
    Delegation,
    JudgeCall,
    MessageSent,
    ReviewReport,
    Stopped,
)
from windlass_harness.loop.jobs import JobCall
from windlass_harness.loop.notes import JOBS_KEPT_MAX
from windlass_harness.loop.rules import RequestedCall, Rules
from windlass_harness.loop.state import dump_loop, load_loop
from windlass_harness.loop.subagents import ASK, REPORT, SETTLE
from windlass_harness.record import Post
from windlass_protocol import ActionStatus, ErrorInfo, InputResponse, UserMessage
from windlass_protocol.bodies import data_of

RULES = replace(FREE, has_jobs=True)
AWAITING = replace(RULES, waits_for_jobs=True)
BODY: JsonObject = {"agentId": "helper", "message": "Call crawl.", "mode": "task"}


def begin(effect: JudgeCall, **more: bool) -> CallJudged:
    delegation = Delegation(effect.tool_name, BODY, is_background=True, is_tool=True)
    return replace(judged(effect), delegation=replace(delegation, **more))


def begun(*names: str, rules: Rules = RULES, is_tool: bool = True, **body: JsonValue) -> Session:
    """A session with a run that has begun jobs; its model is called again."""
    asks = [call(name, f"c-{number}") for number, name in enumerate(names or ("crawl",))]
    session = asked(calls(*asks), rules=rules, **body)
    for effect in session.turn():
        assert isinstance(effect, JudgeCall)
        session.done(effect, begin(effect, is_tool=is_tool))
    return session


def child(number: int = 0, run_id: str = "r1") -> str:
    return f"subagent:{run_id}/0/c-{number}"


def said(kind: str, number: int = 0, **more: JsonValue) -> ChildSaid:
    facts: JsonObject = {"runId": "r1", "callId": f"c-{number}", "childRunId": child(number)}
    return ChildSaid(kind, {**facts, **more})


def ended(number: int = 0, **more: JsonValue) -> ChildSaid:
    return ChildSaid(REPORT, report(f"c-{number}", child(number), **more))


def answer(session: Session, *answers: object) -> None:
    """Let the model answer, once for each answer."""
    for each in answers:
        (effect,) = session.turn()
        assert isinstance(effect, CallModel)
        session.done(effect, each)  # pyright: ignore[reportArgumentType]


def completed(*, rules: Rules = RULES, **body: JsonValue) -> Session:
    """A session with a run that has ended before its job."""
    session = begun("crawl", rules=rules, is_tool=True, **body)
    answer(session, says("Under way."))
    session.turn()
    assert session.end == "completed"
    return session


def results(session: Session) -> list[JsonValue]:
    outputs: list[JsonValue] = []
    for body in session.all("action.result"):
        result = body["result"]
        assert isinstance(result, dict)
        outputs.append(result["output"])
    return outputs


def brought(session: Session) -> str:
    """The text of the newest message that brings a report."""
    context = session.data("message.received")["context"]
    assert isinstance(context, list)
    return str(context[0])


def review(session: Session, event: CallReturned | None = None) -> None:
    """Let the only report be reviewed."""
    session.turn()
    (effect,) = [each for each in session.under_way.values() if isinstance(each, ReviewReport)]
    session.done(effect, event or returned(effect.call_id, effect.report.output))


@pytest.mark.parametrize(("is_tool", "kind"), [(True, "tool-result"), (False, "subagent-result")])
def test_a_call_that_begins_a_job_is_answered_in_the_append_that_begins_it(is_tool: bool, kind: str) -> None:
    session = begun(is_tool=is_tool)
    assert session.types[-4:] == ["policy.decided", "action.started", "subagent.called", "action.result"]
    assert session.data("subagent.called")["job"] == "job_1"
    result = session.data("action.result")["result"]
    assert isinstance(result, dict)
    assert (result["kind"], result["output"]) == (
        kind,
        {"job": "job_1", "name": "crawl", "status": "running"},
    )
    assert session.turn() == [CallModel(1, 1)]


def test_a_job_that_may_not_begin_is_refused() -> None:
    session = begun(rules=replace(RULES, subagent_calls_max=0))
    assert "subagent.called" not in session.types
    assert session.turn() == [CallModel(1, 1)]


def test_a_report_joins_the_next_model_call_as_a_message() -> None:
    session = begun()
    answer(session, calls(call("list_jobs")))
    assert session.tell(ended()) == ["subagent.completed"]
    session.turn()
    assert results(session)[-1] == [{**_facts(session), "status": "completed"}]
    review(session)
    assert brought(session) == "Job job_1 (crawl) has completed. Its result:\nhelped"
    last = session.state.session.history.messages[-1]
    assert isinstance(last, UserMessage)
    assert session.turn() == [CallModel(2, 1)]
    assert session.state.run_notes.usage.cost_micros == 10 + 10 + 2, "the usage of a job counts for its run"


def test_a_report_without_a_result_says_why() -> None:
    session = begun()
    session.under_way.clear()
    session.tell(ended(isError=True))
    failed = CallReturned("job_1", ActionStatus.FAILED, None, code="failed", message="It is down.")
    review(session, failed)
    assert brought(session) == "Job job_1 (crawl) has no result: It is down."


def test_a_report_that_is_no_text_is_brought_as_json() -> None:
    session = begun()
    session.tell(ended())
    review(session, returned("job_1", {"pages": 12}))
    assert brought(session).endswith('{"pages":12}')


def test_a_report_is_brought_once_also_by_another_owner() -> None:
    session = begun()
    session.tell(ended())
    session = interrupt(session, len(session.records))
    review(session)
    assert session.tell(returned("job_1")) == []
    after = interrupt(session, len(session.records), epoch=3)
    assert after.turn() == [CallModel(1, 1)]


def test_a_report_that_comes_after_the_run_begins_one_like_it() -> None:
    contract: JsonObject = CONTRACT
    session = begun(
        owner="ann", contract=contract, capabilities={"requestInput": False}, budget={"maxSteps": 9}
    )
    answer(session, says("3"))
    session.turn()
    session.under_way.clear()
    session.tell(Stopped(_error()))
    session.turn()
    assert session.end == "failed"
    assert posts(session, ended()) == [], "nothing waits for a job of a run that failed"


def _error() -> ErrorInfo:
    return ErrorInfo.model_validate(
        {"code": "rejected", "kind": "provider_failure", "retry": "not_retryable", "message": "it broke"}
    )


def test_the_turn_of_a_report_is_like_the_run_before() -> None:
    session = completed(owner="ann", capabilities={"requestInput": False}, budget={"maxSteps": 9})
    (post,) = posts(session, ended())
    assert session.records[-1].type == "subagent.completed"
    assert session.records[-1].run_id is None, "the run has ended"
    assert (post.session_id, post.kind) == ("s1", "steer")
    assert post.body == {
        "runId": f"after:{child()}",
        "agentId": "helper",
        "owner": "ann",
        "budget": {"maxSteps": 9},
        "capabilities": {"requestInput": False},
        "message": "",
        "context": ["Job job_1 (crawl) has ended."],
        "delivery": "job",
    }
    session.tell(replace(run_asked(), body=post.body))
    review(session)
    assert brought(session) == "Job job_1 (crawl) has completed. Its result:\nhelped"
    answer(session, says("12 pages."))
    session.turn()
    assert session.end == "completed"
    assert session.state.run_notes.usage.cost_micros == 10, "the job is not of this run"


def test_the_turn_of_a_report_has_the_contract_of_the_run_before() -> None:
    session = begun(contract=CONTRACT)
    session.state.run = None
    (post,) = posts(session, ended())
    assert post.body["contract"] == CONTRACT


def test_a_message_about_a_job_changes_nothing_while_a_run_goes_on() -> None:
    session = begun()
    assert session.tell(MessageSent({"message": "", "delivery": "job"})) == []


def test_a_run_that_waits_for_jobs_ends_after_them() -> None:
    session = begun("crawl", "crawl", rules=AWAITING)
    answer(session, says("Under way."))
    assert session.turn() == []
    assert session.data("run.waiting")["on"] == "subagent"
    session.tell(ended(1))
    review(session)
    answer(session, says("One is there."))
    assert session.turn() == []
    session.tell(ended(0))
    review(session)
    answer(session, says("Both are there."))
    session.turn()
    assert session.end == "completed"


def test_the_run_of_a_task_waits_for_its_jobs() -> None:
    session = begun(mode="task")
    answer(session, says("Under way."))
    assert session.turn() == []
    assert session.end is None


def test_a_run_that_waits_for_jobs_ends_with_its_budget() -> None:
    session = begun(rules=AWAITING, budget={"maxWallMs": 1_000})
    answer(session, says("Under way."))
    session.turn()
    session.pass_ms(2_000)
    session.turn()
    assert session.end == "budget_exhausted"


def test_jobs_of_a_run_that_is_cancelled_are_cancelled_and_begin_nothing() -> None:
    session = begun(rules=AWAITING)
    answer(session, says("Under way."))
    session.turn()
    session.tell(CancelRequested("r1"))
    drafts = session.plan().drafts
    (post,) = [post for draft in drafts for post in draft.posts]
    assert (post.session_id, post.kind, post.body["runId"]) == (f"session:{child()}", "cancel", child())
    assert posts(session, ended(status="cancelled")) == []
    session.turn()
    assert session.end == "cancelled"
    assert session.state.jobs["job_1"].report is None


def test_a_run_that_is_cancelled_leaves_the_jobs_of_earlier_runs() -> None:
    session = completed()
    session.tell(run_asked("r2"))
    session.turn()
    session.tell(CancelRequested("r2"))
    assert [post.kind for post in posts(session, ended())] == ["steer"], "the result comes after this run"
    session.under_way.clear()
    session.turn()
    assert session.end == "cancelled"
    assert session.state.jobs["job_1"].report is not None


def test_jobs_that_have_ended_are_not_cancelled() -> None:
    session = begun()
    session.tell(ended())
    session.tell(CancelRequested("r1"))
    session.under_way.clear()
    assert not [post for draft in session.plan().drafts for post in draft.posts]


def test_requests_of_a_job_are_shown_while_its_run_goes_on() -> None:
    session = begun()
    assert session.tell(said(ASK, sessionId="leaf", requests=[REQUEST])) == ["input.requested"]
    answer(session, calls(call("list_jobs")))
    session.turn()
    assert results(session)[-1] == [{**_facts(session), "status": "waits for a person"}]
    resolution: JsonObject = {"requestId": "q:1", "outcome": "answered"}
    assert session.tell(said(SETTLE, resolutions=[resolution])) == ["input.resolved"]


def test_requests_of_a_job_without_a_run_stay_in_its_own_session() -> None:
    session = completed()
    assert session.tell(said(ASK, sessionId="leaf", requests=[REQUEST])) == []


def test_a_job_says_nothing_after_its_end() -> None:
    session = begun()
    session.tell(ended())
    assert session.tell(ended()) == []
    assert session.tell(AnswersGiven((InputResponse(request_id="q:1"),))) == ["approval.candidate"]


def ask_about(session: Session, *asks: RequestedCall) -> list[Post]:
    """Let the model make calls about jobs; return the posts."""
    answer(session, calls(*asks))
    plan = session.plan()
    session.turn()
    return [post for draft in plan.drafts for post in draft.posts]


def test_a_model_messages_and_cancels_its_jobs() -> None:
    session = begun()
    told, cancelled = ask_about(
        session, call("message_job", job="job_1", message="Hurry."), call("cancel_job", job="job_1")
    )
    assert (told.session_id, told.kind) == (f"session:{child()}", "tell")
    assert (told.body["message"], told.body["runId"]) == ("Hurry.", child())
    assert (cancelled.kind, cancelled.body["runId"]) == ("cancel", child())


def test_calls_about_jobs_that_have_ended_say_so() -> None:
    session = begun()
    session.tell(ended())
    review(session)
    asks = [call(name, job="job_1") for name in ("wait_for_job", "message_job", "cancel_job")]
    assert ask_about(session, *asks) == []
    assert [output["status"] for output in results(session)[-3:] if isinstance(output, dict)] == [
        "completed"
    ] * 3


def test_a_call_that_waits_for_a_job_ends_with_it() -> None:
    session = begun()
    ask_about(session, call("wait_for_job", job="job_1"))
    assert session.data("run.waiting")["on"] == "subagent"
    session.tell(ended())
    review(session)
    assert results(session)[-1] == {**_facts(session), "status": "completed"}


def _facts(session: Session) -> JsonObject:
    job = session.state.jobs["job_1"]
    return {"job": "job_1", "name": "crawl", "began": job.began_at}


def test_a_call_about_an_unknown_job_fails() -> None:
    session = begun()
    ask_about(session, RequestedCall("c-x", "wait_for_job", "nonsense"))
    error = session.data("action.result")["error"]
    assert isinstance(error, dict)
    assert error["code"] == "unknown_job"


def test_a_tool_of_the_application_may_have_the_name_of_one_for_jobs() -> None:
    session = asked(calls(call("list_jobs")))
    (effect,) = session.turn()
    assert isinstance(effect, JudgeCall)


def test_open_jobs_share_the_budget_of_their_run() -> None:
    session = begun(budget={"maxTokens": 1_000, "maxSteps": 11})
    assert session.data("subagent.called")["lent"] == {"maxTokens": 990, "maxSteps": 10}
    answer(session, calls(call("crawl", "c-1")))
    (effect,) = session.turn()
    assert isinstance(effect, JudgeCall)
    session.done(effect, begin(effect))
    refused = session.data("action.result")["error"]
    assert isinstance(refused, dict)
    assert refused["code"] == "subagent_budget"


def test_the_oldest_jobs_that_have_ended_are_forgotten() -> None:
    session = begun(rules=replace(RULES, subagent_calls_max=1_000))
    for number in range(JOBS_KEPT_MAX):
        session.under_way.clear()
        session.tell(ChildSaid(REPORT, report("c-0", f"subagent:r1/{number}/c-0")))
        review(session)
        answer(session, calls(call("crawl", "c-0")))
        (effect,) = session.turn()
        assert isinstance(effect, JudgeCall)
        session.done(effect, begin(effect))
    assert len(session.state.jobs) == JOBS_KEPT_MAX
    assert "job_1" not in session.state.jobs


def test_jobs_are_part_of_a_snapshot_and_not_of_a_fork() -> None:
    session = begun()
    loaded = load_loop(dump_loop(session.state))
    assert loaded is not None
    assert (loaded.jobs, loaded.job_count) == (session.state.jobs, 1)
    loaded.disown()
    assert loaded.jobs == {}


# the run of a job


def job_run(**body: JsonValue) -> Session:
    session = Session(rules=RULES)
    job = data_of(JobCall(tool_name="crawl", input={"site": "a"}))
    session.tell(run_asked("j1", job=job, mode="task", **body))
    return session


def run_call(session: Session, event: CallReturned) -> None:
    (judge,) = session.turn()
    assert isinstance(judge, JudgeCall)
    assert (judge.tool_name, judge.input) == ("crawl", {"site": "a"})
    session.done(judge, judged(judge))
    (run,) = session.turn()
    session.done(run, event)
    session.turn()


@pytest.mark.parametrize(("output", "text"), [("12 pages", "12 pages"), ({"pages": 12}, '{"pages":12}')])
def test_the_run_of_a_job_makes_its_call_and_returns_the_result(output: JsonValue, text: str) -> None:
    session = job_run()
    run_call(session, returned("crawl", output))
    assert session.end == "completed"
    assert session.data("run.completed")["output"] == text


def test_the_run_of_a_job_fails_with_its_call() -> None:
    session = job_run()
    run_call(session, CallReturned("crawl", ActionStatus.FAILED, None, code="failed", message="It is down."))
    assert session.end == "failed"
    error = session.data("run.failed")["error"]
    assert isinstance(error, dict)
    assert "It is down." in str(error["message"])
