"""Outages of a provider: retries for a time, the wait in the records, and what ends it early."""

from dataclasses import replace

import pytest
from tests.harness.loop.stage import (
    CONTRACT,
    Session,
    World,
    asked,
    call,
    calls,
    error,
    failure,
    interrupt,
    long_call,
    moment,
    run_asked,
    says,
)

from windlass_harness.loop.events import (
    CallModel,
    CancelRequested,
    CompactionBroken,
    CompactionRequested,
    MessageSent,
    ModelFailed,
    RunRequested,
)
from windlass_harness.loop.rules import AWAKE_MS_MAX, CompactionRule, Rules
from windlass_harness.retry import RetryPolicy
from windlass_harness.views.runs import fold_runs
from windlass_protocol import ErrorKind, FinishReason, JsonObject, JsonValue, RetryClass, RunWait

HOUR_MS = 3_600_000
STEADY = Rules(retry=RetryPolicy(max_delay_ms=60_000, jitter=False))


def fails(session: Session, event: ModelFailed | None = None) -> list[str]:
    """The next model call fails."""
    (effect,) = session.turn()
    assert isinstance(effect, CallModel)
    return session.done(effect, event or failure())


def parked(rules: Rules = STEADY, **start: JsonValue) -> Session:
    """A run whose provider is away until the run waits."""
    session = Session(rules=rules)
    session.tell(run_asked("r1", **start))
    while "run.waiting" not in session.types:
        fails(session)
        wake = session.plan().wake_at_ms
        assert wake is not None
        if "run.waiting" not in session.types:
            session.ms = wake - moment(0).ms
    return session


def test_retries_end_with_their_time_and_the_last_one_is_at_its_end() -> None:
    session = Session(rules=replace(STEADY, retry_for_ms=100_000))
    session.tell(run_asked())
    while session.end is None:
        fails(session)
        session.turn()
        session.ms = (session.plan().wake_at_ms or moment(session.ms).ms) - moment(0).ms
    assert session.end == "failed"
    assert session.ms == 100_000
    assert sum(int(str(one["delayMs"])) for one in session.all("step.retrying")) == 100_000


def test_attempts_count_for_the_time_of_retries_and_a_stopped_process_does_not() -> None:
    session = Session(
        rules=replace(STEADY, retry_for_ms=60_000, retry=RetryPolicy(max_attempts=1, jitter=False))
    )
    session.tell(run_asked())
    fails(session)
    session = interrupt(session, len(session.records), epoch=2)
    session.pass_ms(24 * HOUR_MS)
    (effect,) = session.turn()
    session.pass_ms(30_000)
    assert session.done(effect, failure()) == ["step.retrying"], "half a minute is left"
    session.pass_ms(5_000)
    (effect,) = session.turn()
    session.pass_ms(30_000)
    assert session.done(effect, failure()) == ["step.failed"]


@pytest.mark.parametrize("fault", ["empty", "malformed"])
def test_answers_that_cannot_be_used_get_the_attempts_of_the_policy_only(fault: str) -> None:
    told = error().model_copy(update={"details": {"fault": fault}})
    session = World([[ModelFailed(told)] * 3 + [says()]]).drive(Session(rules=STEADY), run_asked())
    assert session.end == "failed"
    assert session.types.count("step.started") == 3


def test_a_long_pause_is_a_wait_with_its_reason() -> None:
    session = parked()
    assert session.types[-3:] == ["step.retrying", "turn.waiting", "run.waiting"]
    data = session.data("run.waiting")
    assert data.pop("usage") == {"inputTokens": 8, "outputTokens": 0}
    wait_ms = session.data("step.retrying")["delayMs"]
    assert isinstance(wait_ms, int)
    assert wait_ms > AWAKE_MS_MAX
    until = moment(session.ms + wait_ms)
    assert data == {"runId": "r1", "on": "provider", "until": until.at, "reason": "it broke"}
    assert session.plan().wake_at_ms == until.ms
    run = fold_runs(session.records).runs["r1"]
    assert (run.status, run.waiting) == (
        "waiting",
        RunWait(on="provider", since=moment(session.ms).at, until=until.at, reason="it broke"),
    )


def test_a_message_ends_the_wait() -> None:
    session = parked()
    assert session.tell(MessageSent({"message": "still there?", "messageId": "m1"})) == [
        "message.received",
        "run.resumed",
    ]
    assert session.data("run.resumed")["reason"] == "steered"
    (effect,) = session.turn()
    session.done(effect, says())
    session.turn()
    assert session.end == "completed"


def test_a_cancel_ends_the_wait_and_the_run() -> None:
    session = parked()
    session.tell(CancelRequested("r1"))
    assert fold_runs(session.records).runs["r1"].waiting is None
    session.turn()
    assert session.end == "cancelled"


def test_the_time_budget_ends_the_wait() -> None:
    session = parked(budget={"maxWallMs": 60_000})
    wake = session.plan().wake_at_ms
    assert wake == moment(60_001).ms
    session.ms = 60_001
    session.turn()
    assert session.end == "budget_exhausted"


LONG = [[long_call(number)] for number in range(20)] + [[says()]]
SOFT = replace(STEADY, compaction=CompactionRule(threshold=1_000, recent_window_size=4))


def test_a_message_ends_the_wait_of_a_compaction() -> None:
    session, world = Session(rules=SOFT), World(LONG, compactions=[error(after=120_000)])
    session.tell(run_asked())
    while "run.waiting" not in session.types:
        for effect in session.turn():
            session.done(effect, world.perform(session, effect))
    session.tell(MessageSent({"message": "go on", "messageId": "m1"}))
    (effect,) = session.turn()
    assert effect.key == "compact"


def test_a_compaction_between_runs_makes_the_attempts_of_the_policy_only() -> None:
    session = Session(rules=SOFT)
    session.tell(run_asked())
    (effect,) = session.turn()
    session.done(effect, says())
    session.turn()
    session.tell(CompactionRequested())
    (effect,) = session.turn()
    del session.under_way[effect.key]
    for _ in range(2):
        assert session.tell(CompactionBroken(error())) == ["compaction.failed"]
        assert "delayMs" in session.data("compaction.failed")
        session.pass_ms(60_000)
        (effect,) = session.turn()
        del session.under_way[effect.key]
    session.tell(CompactionBroken(error()))
    assert "delayMs" not in session.data("compaction.failed")


# runs that continue a failed one


def retry_asked() -> RunRequested:
    return RunRequested({"runId": "r2", "agentId": "helper", "retryOf": "r1"})


def test_a_run_continues_a_failed_one_without_a_message_of_its_own() -> None:
    failing = [[calls(call("put"))], [failure(RetryClass.NOT_RETRYABLE), says()]]
    world = World(failing)
    session = world.drive(Session(), run_asked())
    assert session.end == "failed"
    before = list(session.state.session.history.messages)
    assert session.tell(retry_asked()) == ["run.started", "turn.started"]
    assert session.data("run.started")["retryOf"] == "r1"
    (effect,) = session.turn()
    assert list(session.state.session.history.messages) == before, "the model sees what the failed run left"
    session.done(effect, says())
    session.turn()
    assert session.end == "completed"
    assert world.ledger == ["r1/0/c-put"], "a finished call is not repeated"


def test_a_playground_run_has_no_message_of_its_own() -> None:
    origin: JsonObject = {
        "runId": "r0",
        "sessionId": "s0",
        "stepIndex": 0,
        "size": "run",
        "calls": "recorded",
    }
    failing = [[calls(call("put"))], [failure(RetryClass.NOT_RETRYABLE)]]
    session = World(failing).drive(Session(), run_asked())
    asked = RunRequested({"runId": "r2", "agentId": "helper", "message": "Hi.", "playground": origin})
    assert session.tell(asked) == ["run.started", "turn.started"]
    run = session.state.run
    assert run is not None
    assert run.playground is not None
    assert (run.playground.run_id, run.playground.calls) == ("r0", "recorded")


def test_a_run_that_continues_an_answer_says_so_to_the_model() -> None:
    session = World([[says("half", FinishReason.LENGTH)]]).drive(Session(), run_asked())
    assert session.end == "failed"
    assert session.tell(retry_asked()) == ["run.started", "turn.started", "message.received"]
    assert session.data("message.received")["delivery"] == "correction"
    assert "Continue" in str(session.data("message.received")["context"])


def test_a_run_that_continues_a_failed_one_keeps_its_contract() -> None:
    session = Session()
    session.tell(run_asked("r1", contract=CONTRACT))
    (effect,) = session.turn()
    session.done(effect, failure(RetryClass.NOT_RETRYABLE))
    session.turn()
    assert session.tell(retry_asked()) == ["run.started", "turn.started", "output.requested"]


# fallback models

CHAIN = replace(
    STEADY, fallbacks=("b/2", "c/3"), retry=RetryPolicy(max_attempts=2, max_delay_ms=60_000, jitter=False)
)
NO_CREDIT = ModelFailed(error(RetryClass.USER_ACTION_NEEDED, kind=ErrorKind.PROVIDER_FAILURE))


def models(session: Session) -> list[object]:
    return [one["modelId"] for one in session.all("step.started")]


def test_the_next_model_is_called_when_one_refuses_the_account() -> None:
    session = World([[NO_CREDIT, NO_CREDIT, says()]]).drive(
        Session(rules=CHAIN), run_asked("r1", modelId="1")
    )
    assert (session.end, models(session)) == ("completed", ["1", "b/2", "c/3"])


def test_after_the_last_model_the_first_is_waited_for() -> None:
    script = [[failure(), failure(), NO_CREDIT, NO_CREDIT, failure(), says()]]
    session = World(script).drive(Session(rules=CHAIN), run_asked("r1", modelId="1"))
    assert (session.end, models(session)) == ("completed", ["1", "1", "b/2", "c/3", "1", "1"])
    pauses = [one["delayMs"] for one in session.all("step.retrying")]
    assert pauses == [200, 0, 0, 1600, 200]


def test_models_that_stay_away_fail_the_run_at_the_end_of_the_time() -> None:
    rules = replace(CHAIN, retry_for_ms=60_000)
    session = World([[failure()] * 100]).drive(Session(rules=rules), run_asked("r1", modelId="1"))
    assert session.end == "failed"
    assert {"1", "b/2", "c/3"} == set(models(session))
    assert sum(int(str(one["delayMs"])) for one in session.all("step.retrying")) >= 60_000


def test_a_run_without_the_name_of_its_model_has_no_fallback() -> None:
    session = asked(rules=CHAIN)
    fails(session)
    session.pass_ms(1_000)
    fails(session)
    assert "nextModelId" not in session.data("step.retrying")


def test_a_model_that_asks_for_a_long_pause_is_passed_over_at_once() -> None:
    session = World([[failure(after=AWAKE_MS_MAX + 1), says()]]).drive(
        Session(rules=CHAIN), run_asked("r1", modelId="1")
    )
    assert (session.end, models(session)) == ("completed", ["1", "b/2"])


def test_a_fallback_that_the_agent_has_no_more_is_followed_by_the_first_model() -> None:
    session = Session(rules=CHAIN)
    session.tell(run_asked("r1", modelId="1"))
    fails(session, NO_CREDIT)
    session.rules = replace(CHAIN, fallbacks=("d/4",))
    fails(session, NO_CREDIT)
    assert session.end is None or models(session) == ["1", "b/2"]
    assert session.types[-1] == "step.failed", "no model was away"
