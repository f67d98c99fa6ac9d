"""Budgets: checked before the spend, exact at the limit; waiting is free."""

import pytest
from tests.harness.loop.stage import (
    ASK,
    JsonObject,
    Session,
    World,
    asked,
    begin_all,
    call,
    calls,
    failure,
    interrupt,
    judge_all,
    judged,
    returned,
    run_asked,
    says,
)

from windlass_harness.loop.events import AnswersGiven, CallModel, JudgeCall, ModelAnswered
from windlass_protocol import ErrorInfo, FinishReason, InputResponse
from windlass_protocol.generated import records
from windlass_protocol.limits import INTEGER_MAX

LOOK = [calls(call("look"))]


def spent(budget: JsonObject, script: list[list[ModelAnswered]] | None = None) -> Session:
    return World(script or [LOOK, LOOK, LOOK, [says()]]).drive(Session(), run_asked(budget=budget))


def exceeded(session: Session) -> object:
    return session.data("run.budget_exhausted")["exceeded"]


@pytest.mark.parametrize(
    "budget",
    [
        {"maxSteps": 4},
        {"maxTokens": 31},
        {"maxCostMicros": 30},
        {"maxToolCalls": 3},
        {"maxWallMs": 1000},
        {},
    ],
)
def test_a_run_that_needs_all_it_may_use_completes(budget: JsonObject) -> None:
    assert spent(budget).end == "completed"


def test_the_budget_record_has_usage_and_limits() -> None:
    session = spent({"maxSteps": 1})
    data = session.data("run.budget_exhausted")
    assert data["used"] == {
        "tokensUsed": 10,
        "stepsUsed": 1,
        "toolCallsUsed": 1,
        "costMicrosUsed": 10,
        "wallMsUsed": 30,
    }
    assert data["limits"] == {"maxSteps": 1}
    assert session.data("budget.exhausted") == {
        name: data[name] for name in ("exceeded", "used", "limits", "runId")
    }
    error = ErrorInfo.model_validate(data["error"])
    assert session.data("turn.failed")["message"] == error.message
    assert error.message.startswith("The run has used up its budget: 1 of 1 steps.")


@pytest.mark.parametrize(
    ("budget", "name", "limit", "used", "told"),
    [
        ({"maxSteps": 2}, "steps", 2, 2, "2 of 2 steps"),
        ({"maxTokens": 21}, "tokens", 21, 30, "30 of 21 tokens"),
        ({"maxCostMicros": 15}, "cost", 15, 20, "20 of 15 millionths of a dollar"),
        ({"maxToolCalls": 2}, "tool_calls", 2, 2, "2 of 2 tool calls"),
        ({"maxWallMs": 55}, "wall", 55, 60, "60 of 55 milliseconds"),
    ],
)
def test_the_error_of_a_run_names_the_exhausted_budget_its_limit_and_usage(
    budget: JsonObject, name: str, limit: int, used: int, told: str
) -> None:
    run = spent(budget).state.session.run
    assert run is not None
    assert run.result is not None
    error = run.result.error
    assert error is not None
    assert told in error.message
    assert error.details == {
        "reason": "budget_exhausted",
        "budgets": [{"name": name, "limit": limit, "used": used}],
    }
    assert (error.code, error.kind) == ("denied", "policy_denial")


def test_all_budgets_that_ran_out_at_once_are_named() -> None:
    error = ErrorInfo.model_validate(
        spent({"maxSteps": 2, "maxTokens": 20}).data("run.budget_exhausted")["error"]
    )
    assert "20 of 20 tokens, 2 of 2 steps" in error.message


def test_refused_and_denied_calls_are_not_counted() -> None:
    script = [[calls(call("none"), call("banned"))], [calls(call("look"))], [says()]]
    assert spent({"maxToolCalls": 1}, script).end == "completed"


def test_a_call_that_runs_again_counts_once() -> None:
    session = asked(calls(call("put")), budget={"maxToolCalls": 1})
    begin_all(session)
    after = Session(session.records, epoch=2)
    (effect,) = after.turn()
    assert after.state.run_notes.budget.tool_calls_used == 1
    after.done(effect, returned("c-put"))
    World([LOOK, [says()]]).drive(after)
    assert after.end == "completed"


def test_time_spent_waiting_for_people_is_free() -> None:
    session = asked(calls(call("pay")), budget={"maxWallMs": 100})
    judge_all(session, ASK)
    session.turn()
    session.pass_ms(1_000_000)
    session.tell(AnswersGiven((InputResponse(request_id="approval:r1:0:c-pay:1", option_id="approve"),)))
    judge_all(session)
    assert session.state.wall_ms(session.now) == 10
    (effect,) = session.turn()
    session.pass_ms(91)
    session.done(effect, returned("c-pay"))
    session.turn()
    assert (session.end, exceeded(session)) == ("budget_exhausted", ["wall"])


def test_a_wait_that_is_recorded_twice_counts_once() -> None:
    session = asked(calls(call("pay")), budget={"maxWallMs": 100})
    judge_all(session, ASK)
    session.turn()
    session.pass_ms(50)
    session.write("run.waiting", {"runId": "r1", "on": "input"})
    assert session.state.wall_ms(session.now) == 10


def test_time_runs_out_while_a_call_is_judged() -> None:
    session = asked(calls(call("look")), budget={"maxWallMs": 50})
    (effect,) = session.turn()
    assert isinstance(effect, JudgeCall)
    session.pass_ms(41)
    assert session.done(effect, judged(effect)) == []
    session.turn()
    assert session.end == "budget_exhausted"


def test_a_finished_answer_completes_the_run_beyond_its_token_budget() -> None:
    session = spent({"maxTokens": 5}, [[says(tokens=50)]])
    assert session.end == "completed"


def test_a_run_with_a_budget_does_not_charge_the_next() -> None:
    world = World([[says()]])
    session = world.drive(Session(), run_asked(budget={"maxSteps": 1}))
    session = world.drive(session, run_asked("r2", budget={"maxSteps": 1}))
    assert session.end == "completed"


MOST = records.Usage(input_tokens=INTEGER_MAX)


def test_usage_is_added_up_to_the_largest_number() -> None:
    huge = ModelAnswered("", FinishReason.STOP, calls(call("look")).calls, usage=MOST)
    session = World([[huge], [says()]]).drive(Session(), run_asked())
    assert session.data("run.completed")["usage"] == {
        "inputTokens": INTEGER_MAX,
        "outputTokens": 1,
        "costMicros": 10,
    }


def test_usage_fields_that_are_unknown_are_ignored() -> None:
    session = asked()
    session.turn()
    session.under_way.clear()
    place: JsonObject = {"sequence": 0, "turnId": "turn_0", "stepIndex": 0}
    retrying: JsonObject = {"code": "E", "attempt": 1, "delayMs": 0, **place}
    session.write("step.retrying", retrying)
    session.write("step.retrying", {**retrying, "usage": {"inputTokens": 5, "tier": "fast"}})
    assert session.state.run_notes.usage == records.Usage(input_tokens=5)
    assert session.state.run_notes.budget.tokens_used == 5
    assert session.turn() == [CallModel(0, 2)]


# owners


def test_time_between_owners_is_free_also_when_nothing_was_interrupted() -> None:
    session = asked(calls(call("look")), budget={"maxWallMs": 100})
    (effect,) = begin_all(session)
    session.done(effect, returned("c-look"))
    session.pass_ms(1_000_000)
    after = interrupt(session, len(session.records))
    assert after.types == session.types, "there is nothing to say"
    assert after.state.wall_ms(after.now) == 10, "it is known before anything is written"
    assert World([LOOK, [says()]]).drive(after).end == "completed"


def test_the_delay_before_a_retry_counts_as_wall_time_after_a_change_of_owner() -> None:
    session = asked(budget={"maxWallMs": 10_000_000})
    (effect,) = session.turn()
    session.done(effect, failure(after=60_000))
    session.pass_ms(20_000)
    early = interrupt(session, len(session.records))
    assert early.state.wall_ms(early.now) == 20_000
    session.pass_ms(980_000)
    late = interrupt(session, len(session.records))
    assert late.state.wall_ms(late.now) == 60_000
    late.turn()
    late.pass_ms(7)
    assert late.state.wall_ms(late.now) == 60_007


def test_a_wait_for_people_stays_free_when_another_owner_ends_it() -> None:
    session = asked(calls(call("pay")), budget={"maxWallMs": 100})
    judge_all(session, ASK)
    session.turn()
    session.pass_ms(1_000)
    after = interrupt(session, len(session.records))
    after.tell(AnswersGiven((InputResponse(request_id="approval:r1:0:c-pay:1", option_id="approve"),)))
    assert after.state.wall_ms(after.now) == 10
    judge_all(after)
    after.pass_ms(4)
    assert after.state.wall_ms(after.now) == 14
