"""A run from its beginning to its end.

The order of its records, and one terminal record.
"""

from typing import cast

import pytest
from pydantic import JsonValue
from tests.harness.loop.stage import (
    ALLOW,
    CONTRACT,
    JsonObject,
    Session,
    World,
    asked,
    bad,
    begin_all,
    call,
    calls,
    error,
    judge_all,
    judged,
    run_asked,
    says,
)

from windlass_harness.loop.advance import last_text
from windlass_harness.loop.events import (
    CallModel,
    CallRefused,
    CallReturned,
    JudgeCall,
    ModelAnswered,
    ModelFailed,
    OutputChecked,
    SessionClaimed,
    Stopped,
)
from windlass_harness.loop.rules import Rules
from windlass_harness.loop.take import take
from windlass_harness.record import number
from windlass_protocol import (
    ActionStatus,
    AllowDecision,
    AssistantMessage,
    CausalIds,
    ErrorInfo,
    FinishReason,
    HookStatus,
    ReasoningPart,
    UserMessage,
)
from windlass_protocol.generated import records

OPENING = ["session.started", "run.started", "turn.started", "message.received"]
STEP = ["step.started", "reasoning.completed", "message.completed", "actions.requested", "step.completed"]
END = ["turn.completed", "run.completed", "session.waiting"]


def test_a_run_of_one_answer_is_written_in_order() -> None:
    session = World([[says("hello")]]).drive(Session(), run_asked())
    assert session.types == [*OPENING, "step.started", "message.completed", "step.completed", *END]
    usage = {"inputTokens": 9, "outputTokens": 1, "costMicros": 10}
    assert session.data("run.completed") == {"runId": "r1", "output": "hello", "usage": usage}
    assert session.data("turn.completed") == {"sequence": 0, "turnId": "turn_0", "usage": usage}
    assert session.data("session.waiting") == {"wait": "next-user-message"}


def test_a_run_with_a_call_is_written_in_order() -> None:
    session = World([[calls(call("look"))], [says()]]).drive(Session(), run_asked())
    work = ["policy.decided", "action.started", "action.result"]
    assert session.types == [
        *OPENING,
        *STEP,
        *work,
        "step.started",
        "message.completed",
        "step.completed",
        *END,
    ]
    assert session.data("step.started") == {
        "sequence": 0,
        "turnId": "turn_0",
        "stepIndex": 1,
        "promptMessageCount": 3,
    }
    assert [record.step_index for record in session.records[4:13]] == [0] * 8 + [1]


def test_every_record_of_a_run_names_its_run_agent_and_turn() -> None:
    session = World([[calls(call("look"))], [says()]]).drive(Session(), run_asked())
    for record in session.records[1:-1]:
        assert (record.run_id, record.agent_id, record.turn_id) == ("r1", "helper", "turn_0")
    assert [session.records[0].agent_id, session.records[-1].agent_id] == ["helper", None]


def test_nothing_happens_without_a_run() -> None:
    session = Session()
    assert session.turn() == []
    assert session.tell(says()) == []
    assert session.tell(SessionClaimed(2, "recovery")) == []
    assert session.tell(Stopped(error())) == []
    assert session.records == []


def test_the_input_of_a_run_is_recorded() -> None:
    session = Session()
    parts: list[JsonValue] = [{"type": "text", "text": "see this"}]
    session.tell(
        run_asked(
            message="",
            parts=parts,
            context=["it rains"],
            turnId="t7",
            contract=CONTRACT,
            session={"rootSessionId": "s0"},
            modelId="m1",
            metadata={"chatId": "c"},
        )
    )
    assert session.types == [*OPENING, "output.requested"]
    assert session.data("session.started") == {"rootSessionId": "s0"}
    assert session.data("run.started") == {
        "runId": "r1",
        "agentId": "helper",
        "modelId": "m1",
        "metadata": {"chatId": "c"},
    }
    assert session.data("message.received") == {
        "message": "",
        "parts": parts,
        "context": ["it rains"],
        "sequence": 0,
        "turnId": "t7",
    }
    session.turn()
    assert session.data("step.started")["modelId"] == "m1"


def test_a_second_run_is_another_turn_of_the_session() -> None:
    world = World([[says("one")]])
    session = world.drive(Session(), run_asked())
    assert session.tell(run_asked("r2", message="more")) == OPENING[1:]
    world.drive(session)
    assert session.end == "completed"
    assert session.data("turn.completed")["turnId"] == "turn_1"
    assert session.data("run.completed")["runId"] == "r2"
    assert session.data("run.completed")["usage"] == {"inputTokens": 9, "outputTokens": 1, "costMicros": 10}


def test_a_run_that_is_asked_for_again_is_not_begun_again() -> None:
    session = asked()
    assert session.tell(run_asked()) == []
    World([[says()]]).drive(session)
    assert session.tell(run_asked()) == []


def test_a_run_is_never_begun_while_another_goes_on() -> None:
    with pytest.raises(AssertionError, match="waits until the one before it has ended"):
        asked().tell(run_asked("r2"))


def test_a_run_with_an_empty_answer_does_not_end_with_the_output_of_the_run_before() -> None:
    session = World([[says("old words")]]).drive(Session(), run_asked())
    session.tell(run_asked("r2", message=""))
    assert session.turn() == [CallModel(0, 1)]


def test_a_task_is_over_with_its_run() -> None:
    done = World([[says("42")]]).drive(Session(), run_asked(mode="task"))
    assert done.types[-2:] == ["run.completed", "session.completed"]
    assert done.data("session.completed") == {"output": "42"}
    typed = World([[says("{}")]], [OutputChecked({"a": 1})]).drive(
        Session(), run_asked(mode="task", contract=CONTRACT)
    )
    assert typed.data("session.completed") == {"output": {"a": 1}}
    stopped = asked(mode="task")
    assert stopped.tell(Stopped(error())) == ["turn.failed", "run.failed", "session.failed"]
    assert stopped.data("session.failed") == {"code": "timeout", "message": "it broke"}
    spent = World([]).drive(Session(), run_asked(mode="task", budget={"maxSteps": 0}))
    assert spent.data("session.failed")["code"] == "budget_exhausted"


def test_a_run_can_be_stopped_from_outside() -> None:
    session = asked()
    session.turn()
    assert session.tell(Stopped(error())) == ["turn.failed", "run.failed", "session.waiting"]
    assert session.data("run.failed")["error"] == {
        "code": "unavailable",
        "kind": "timeout",
        "retry": "retryable",
        "message": "it broke",
        "causalIds": {"sessionId": "s1", "runId": "r1", "turnId": "turn_0", "stepIndex": 0},
    }


def test_an_error_keeps_the_ids_that_it_came_with() -> None:
    session = asked()
    session.turn()
    session.tell(Stopped(error().model_copy(update={"causal_ids": CausalIds(turn_id="t", span_id="s")})))
    found = ErrorInfo.model_validate(session.data("run.failed")["error"])
    assert found.causal_ids == CausalIds(session_id="s1", run_id="r1", turn_id="t", step_index=0, span_id="s")
    assert session.tell(Stopped(error())) == [], "once"
    assert session.tell(says()) == []


def test_notes_of_an_effect_are_recorded_before_its_result() -> None:
    session = asked()
    (effect,) = session.turn()
    hook = records.HookCompleted(hook_id="h", point="model.before", status=HookStatus.COMPLETED)
    wrote = session.done(effect, ModelAnswered("hi", FinishReason.STOP, notes=(hook,)))
    assert wrote == ["hook.completed", "message.completed", "step.completed"]


@pytest.mark.parametrize("text", ["", "hm"])
def test_provider_data_is_kept_with_the_answer(text: str) -> None:
    session = asked(ModelAnswered("hi", FinishReason.STOP, reasoning=text, provider_data={"me": 1}))
    thought = session.data("reasoning.completed")
    assert (thought["reasoning"], thought["providerMetadata"]) == (text, {"me": 1})
    message = session.state.session.history.messages[-1]
    assert isinstance(message, AssistantMessage)
    assert isinstance(message.content[0], ReasoningPart)
    assert message.content[0].provider_options == {"me": 1}


@pytest.mark.parametrize("is_late", [False, True])
def test_reasoning_that_began_after_text_is_marked(is_late: bool) -> None:
    session = asked(ModelAnswered("hi", FinishReason.STOP, reasoning="hm", is_reasoning_late=is_late))
    assert session.data("reasoning.completed").get("isLate") == (True if is_late else None)


@pytest.mark.parametrize("text", ["", "hm"])
def test_an_empty_answer_is_an_answer(text: str) -> None:
    session = asked(ModelAnswered("", FinishReason.STOP, reasoning=text))
    session.turn()
    assert session.end == "completed"
    assert session.data("run.completed")["output"] == ""


def test_an_empty_answer_after_a_call_ends_the_run_too() -> None:
    session = World([[calls(call("look"))], [says("")]]).drive(Session(), run_asked())
    assert (session.end, session.data("run.completed")["output"]) == ("completed", "")


def test_a_message_that_comes_while_the_model_answers_is_answered_too() -> None:
    session = asked()
    (effect,) = session.turn()
    steer: JsonObject = {"message": "wait", "sequence": 0, "turnId": "turn_0"}
    session.write("message.received", steer)
    session.done(effect, says("done"))
    assert session.turn() == [CallModel(1, 1)]
    session = asked()
    (effect,) = session.turn()
    session.write("message.received", steer)
    session.done(effect, says(""))
    assert session.turn() == [CallModel(1, 1)]


@pytest.mark.parametrize("reason", [FinishReason.LENGTH, FinishReason.CONTENT_FILTER, FinishReason.ERROR])
def test_an_answer_that_was_cut_off_fails_the_run(reason: FinishReason) -> None:
    session = asked(says("half an", reason))
    session.turn()
    assert session.end == "failed"
    failed = session.state.session.run
    assert failed is not None
    assert failed.result is not None
    assert failed.result.error is not None
    assert ("output limit" if reason is FinishReason.LENGTH else reason.value) in failed.result.error.message


def test_an_answer_that_ended_for_another_reason_counts() -> None:
    session = asked(says("all of it", FinishReason.OTHER))
    session.turn()
    assert session.end == "completed"


@pytest.mark.parametrize("reason", [FinishReason.CONTENT_FILTER, FinishReason.ERROR])
def test_calls_of_a_broken_answer_are_not_made(reason: FinishReason) -> None:
    session = asked(ModelAnswered("", reason, calls(call("send")).calls))
    assert session.turn() == []
    assert session.end == "failed"


def test_calls_of_an_answer_at_its_output_limit_are_made() -> None:
    session = asked(ModelAnswered("", FinishReason.LENGTH, calls(call("look")).calls))
    assert len(judge_all(session)) == 1


def test_too_many_calls_in_one_answer_fail_the_run() -> None:
    rules = Rules(calls_per_step_max=2)
    at_limit = asked(calls(call("look", "1"), call("look", "2")), rules=rules)
    assert len(judge_all(at_limit)) == 2
    over = asked(calls(*(call("look", str(one)) for one in range(3))), rules=rules)
    assert over.turn() == []
    assert over.end == "failed"
    assert over.data("step.failed")["message"] == "too many calls in one answer: 3, limit 2"
    assert over.data("run.failed")["usage"] == {"inputTokens": 9, "outputTokens": 1, "costMicros": 10}


def test_the_number_of_model_calls_of_a_run_is_limited() -> None:
    rules = Rules(steps_max=2)
    endless = [[calls(call("look"))]] * 5
    session = World(endless).drive(Session(rules=rules), run_asked())
    assert (session.end, session.types.count("step.started")) == ("failed", 2)
    assert "2 model calls" in str(session.data("turn.failed")["message"])


def test_the_last_model_call_may_be_tried_again() -> None:
    failing = ModelFailed(error())
    session = World([[failing, says()]]).drive(Session(rules=Rules(steps_max=1)), run_asked())
    assert session.end == "completed"


def test_events_of_finished_effects_change_nothing() -> None:
    session = asked(calls(call("look")))
    assert session.tell(says()) == []
    assert session.tell(ModelFailed(error())) == []
    (effect,) = begin_all(session)
    session.done(effect, CallReturned(effect.call_id, ActionStatus.COMPLETED, 1))
    for event in (
        CallReturned(effect.call_id, ActionStatus.COMPLETED, 2),
        CallRefused(effect.call_id, "unknown_tool", "?"),
        CallReturned("nobody", ActionStatus.COMPLETED, 2),
    ):
        assert session.tell(event) == []


def test_the_output_is_the_text_of_the_newest_answer() -> None:
    assert last_text(Session().state) == ""
    session = asked()
    assert last_text(session.state) == ""
    session = asked(ModelAnswered("said", FinishReason.STOP, reasoning="thought"))
    assert last_text(session.state) == "said"


def test_taking_an_event_changes_nothing_by_itself() -> None:
    session = asked()
    session.turn()
    drafts = take(session.state, says(), now=session.now)
    assert take(session.state, says(), now=session.now) == drafts


def test_a_record_gets_its_place_in_the_store_last() -> None:
    session = asked()
    (draft, *_) = take(session.state, Stopped(error()), now=session.now)
    record = number(draft, "s1", seq=5, epoch=3)
    assert (record.seq, record.epoch, record.position) == (5, 3, None)
    assert number(draft, "s1", seq=5, epoch=3, position=77).position == 77


def test_the_user_message_goes_into_the_history() -> None:
    assert asked().state.session.history.messages == [UserMessage(content="do it")]


def test_an_answer_that_does_not_fit_is_repaired() -> None:
    world = World([[says("x")], [says("{}")]], [bad("not an object"), OutputChecked({})])
    session = world.drive(Session(), run_asked(contract=CONTRACT))
    assert session.end == "completed"
    assert [one["attempt"] for one in session.all("output.rejected")] == [1]
    assert session.data("output.validated")["attempt"] == 2
    repair = session.all("message.received")[1]
    assert (repair["message"], repair["delivery"]) == ("", "correction")
    assert "- /a: not an object" in str(repair["context"])


@pytest.mark.parametrize(("repairs", "attempts"), [(None, 3), (0, 1), (1, 2)])
def test_answers_that_never_fit_fail_the_run(repairs: int | None, attempts: int) -> None:
    contract = CONTRACT if repairs is None else {**CONTRACT, "maxRepairAttempts": repairs}
    session = World([[says("x")]] * 4, [bad()] * 4).drive(Session(), run_asked(contract=contract))
    assert session.end == "failed"
    assert session.data("output.failed")["attempts"] == attempts
    told = f"No answer fitted the output contract in {attempts} attempts. What was wrong with the last one: "
    if attempts == 1:
        told = (
            "The answer did not fit the output contract, and no repair was allowed. What was wrong with it: "
        )
    assert told + "/a: not a number." in str(session.data("run.failed"))
    assert session.types.count("output.rejected") == attempts - 1
    assert session.types.count("step.started") == attempts
    assert session.types[-5:] == [
        "output.failed",
        "step.failed",
        "turn.failed",
        "run.failed",
        "session.waiting",
    ]
    codes = {str(session.data(kind)["code"]) for kind in ("step.failed", "turn.failed")}
    assert codes == {"structured_output_failure"}


def test_a_contract_that_no_answer_met_stays_for_the_agents_next_run() -> None:
    failed = World([[says("x")]] * 4, [bad()] * 4).drive(Session(), run_asked(contract=CONTRACT))
    for agent_id, count in (("helper", 2), ("other", 1)):
        session = Session(failed.records)
        session.tell(run_asked("r2", agentId=agent_id))
        assert session.types.count("output.requested") == count
    replaced = Session(failed.records)
    replaced.tell(run_asked("r2", contract={**CONTRACT, "schemaId": "b"}))
    contract = replaced.data("output.requested")["contract"]
    assert isinstance(contract, dict)
    assert contract["schemaId"] == "b"


def test_every_decision_is_recorded_as_it_was_made_however_many_there_are() -> None:
    codes = [f"code-{number}" for number in range(70)]
    rules = Rules(calls_per_step_max=len(codes))
    session = asked(calls(*(call("look", code) for code in codes)), rules=rules)
    effects = [effect for effect in session.turn() if isinstance(effect, JudgeCall)]
    for effect, code in zip(effects, codes, strict=True):
        decision = AllowDecision(code=code, reason="fine", policy_refs=ALLOW.policy_refs)
        session.done(effect, judged(effect, decision))
    found = [one.data["decision"] for one in session.records if one.type == "policy.decided"]
    assert [cast(JsonObject, one)["code"] for one in found] == codes
