"""Model calls: retries, final failures, and interrupted calls."""

import pytest
from tests.harness.loop.stage import (
    Session,
    World,
    asked,
    call,
    calls,
    error,
    failure,
    interrupt,
    moment,
    run_asked,
    says,
)

from windlass_harness.loop.events import CallModel, ModelFailed
from windlass_harness.loop.rules import Rules
from windlass_harness.retry import RetryPolicy
from windlass_protocol import RetryClass

STEADY = Rules(retry=RetryPolicy(max_attempts=3, base_delay_ms=100, jitter=False), retry_for_ms=0)


def begun(rules: Rules = STEADY) -> tuple[Session, CallModel]:
    session = asked(rules=rules)
    (effect,) = session.turn()
    assert isinstance(effect, CallModel)
    return session, effect


def test_a_failure_that_may_pass_is_tried_again_after_a_while() -> None:
    session, effect = begun()
    assert session.done(effect, failure()) == ["step.retrying"]
    assert session.data("step.retrying") == {
        "code": "timeout",
        "attempt": 1,
        "delayMs": 100,
        "message": "it broke",
        "usage": {"inputTokens": 1, "outputTokens": 0},
        "sequence": 0,
        "turnId": "turn_0",
        "stepIndex": 0,
    }
    assert session.plan().wake_at_ms == moment(100).ms
    session.pass_ms(99)
    assert session.turn() == []
    session.pass_ms(1)
    assert session.turn() == [CallModel(0, 2)]
    assert session.records[-1].attempt == 2


def test_retry_delays_have_jitter() -> None:
    rules = Rules(retry=RetryPolicy(base_delay_ms=1000))
    waits: list[object] = []
    for chance in (0.0, 0.5):
        session, effect = begun(rules)
        session.done(effect, ModelFailed(error(), chance))
        waits.append(session.data("step.retrying")["delayMs"])
    assert waits == [800, 1000]


def test_model_attempts_are_limited() -> None:
    world = World([[failure(), failure(), failure(), says()]])
    session = world.drive(Session(rules=STEADY), run_asked())
    assert session.end == "failed"
    assert [record.attempt for record in session.records if record.type == "step.started"] == [1, 2, 3]
    assert [one["delayMs"] for one in session.all("step.retrying")] == [100, 200]
    assert session.types[-4:] == ["step.failed", "turn.failed", "run.failed", "session.waiting"]
    assert session.data("run.failed")["usage"] == {"inputTokens": 3, "outputTokens": 0}


def test_the_last_attempt_may_succeed() -> None:
    session = World([[failure(), failure(), says()]]).drive(Session(rules=STEADY), run_asked())
    assert session.end == "completed"
    assert session.state.run_notes.budget.steps_used == 1, "a step counts once"


def test_every_step_has_its_own_attempts() -> None:
    script = [[failure(), failure(), calls(call("look"))], [failure(), failure(), says()]]
    session = World(script).drive(Session(rules=STEADY), run_asked())
    assert session.end == "completed"


@pytest.mark.parametrize("retry", [one for one in RetryClass if one is not RetryClass.RETRYABLE])
def test_a_failure_that_stays_is_not_tried_again(retry: RetryClass) -> None:
    session, effect = begun()
    assert session.done(effect, failure(retry)) == ["step.failed"]
    session.turn()
    assert session.end == "failed"
    result = session.data("run.failed")["error"]
    assert isinstance(result, dict)
    assert (result["kind"], result["retry"], result["message"]) == ("timeout", retry.value, "it broke")


def test_a_failure_without_usage_uses_nothing() -> None:
    session, effect = begun()
    session.done(effect, ModelFailed(error(RetryClass.NOT_RETRYABLE)))
    session.turn()
    assert "usage" not in session.data("run.failed")
    session, effect = begun()
    session.done(effect, ModelFailed(error()))
    assert "usage" not in session.data("step.retrying")


def test_a_failure_without_a_retry_class_is_retried() -> None:
    session, _ = begun()
    place = {"sequence": 0, "turnId": "turn_0", "stepIndex": 0}
    session.under_way.clear()
    session.write("step.failed", {"code": "E", "message": "it broke", **place})
    assert session.turn() == [CallModel(1, 1)]


def test_an_interrupted_model_call_is_made_again_at_once() -> None:
    session, _ = begun()
    after = interrupt(session, len(session.records))
    assert after.turn() == [CallModel(0, 2)]
    assert after.types[-3:] == ["recovery.started", "step.retrying", "step.started"]
    assert after.data("step.retrying")["code"] == "interrupted"
    assert after.data("recovery.started") == {"epoch": 2, "reason": "recovery", "runId": "r1"}


def test_an_owner_that_takes_its_own_session_again_interrupts_nothing() -> None:
    session, _ = begun()
    same = interrupt(session, len(session.records), epoch=1)
    assert "recovery.started" not in same.types
    assert same.turn() == [CallModel(0, 1)]
