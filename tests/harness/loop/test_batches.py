"""Model calls in batches: the wait in the records, and what ends it."""

from tests.harness.loop.stage import CONTRACT, Session, failure, interrupt, run_asked, says

from windlass_harness.loop.events import (
    BatchAnswered,
    CallModel,
    CancelRequested,
    Effect,
    MessageSent,
    ModelBatched,
    SessionClaimed,
    SessionReleased,
)
from windlass_harness.views.runs import fold_runs
from windlass_protocol import RunWait

DAY_MS = 86_400_000
REASON = "openai/gpt-5 answers in a batch, within 24 hours"


def waiting() -> tuple[Session, Effect]:
    """A run that waits for its answer in a batch, and its model call."""
    session = Session()
    session.tell(run_asked("r1", budget={"maxWallMs": 60_000}))
    (effect,) = session.turn()
    assert isinstance(effect, CallModel)
    assert session.done(effect, ModelBatched(REASON)) == ["turn.waiting", "run.waiting"]
    return session, effect


def test_a_call_in_a_batch_parks_its_run_without_a_timer() -> None:
    session, _ = waiting()
    assert session.plan().is_empty
    assert session.plan().wake_at_ms is None
    run = fold_runs(session.records).runs["r1"]
    assert (run.status, run.waiting) == (
        "waiting",
        RunWait(on="batch", since=session.records[-1].at, reason=REASON),
    )
    assert session.tell(SessionReleased()) == [], "the call is under way at the provider"


def test_the_answer_is_asked_for_again_with_the_same_call_also_by_another_owner() -> None:
    session, effect = waiting()
    session = interrupt(session, len(session.records), epoch=2)
    session.pass_ms(DAY_MS)
    assert session.tell(SessionClaimed(2, "recovery")) == [], "nothing was interrupted"
    assert session.tell(BatchAnswered("r1")) == ["run.resumed"]
    assert session.turn() == [effect]
    again = interrupt(session, len(session.records), epoch=3)
    assert again.turn() == [effect], "what the answer was read by has died"
    again.done(effect, says("done"))
    again.turn()
    assert again.end == "completed", "the wait does not count for the time budget"
    assert len(again.all("step.started")) == 1


def test_an_item_that_failed_is_retried_as_another_call() -> None:
    session, effect = waiting()
    session.tell(BatchAnswered("r1"))
    assert session.turn() == [effect]
    assert session.done(effect, failure()) == ["step.retrying"]
    session.pass_ms(60_000)
    (retry,) = session.turn()
    assert isinstance(retry, CallModel)
    assert retry.attempt == 2
    session = interrupt(session, len(session.records), epoch=2)
    assert session.turn() != [retry], "a call that is in no batch was interrupted"


def test_answers_that_no_run_waits_for_have_no_effect() -> None:
    session, effect = waiting()
    assert session.tell(BatchAnswered("another")) == []
    session.tell(BatchAnswered("r1"))
    assert session.tell(BatchAnswered("r1")) == []
    (again,) = session.turn()
    assert again == effect
    session.done(effect, says("done"))
    session.turn()
    assert session.tell(BatchAnswered("r1")) == []


def test_a_message_waits_for_the_answer_and_a_cancel_does_not() -> None:
    session, _ = waiting()
    assert session.tell(MessageSent({"message": "Well?", "messageId": "m1"})) == ["message.received"]
    assert session.plan().is_empty
    session.tell(CancelRequested("r1"))
    assert session.tell(BatchAnswered("r1")) in ([], ["run.resumed"])
    session.turn()
    assert session.end == "cancelled"


def test_a_cancel_while_a_call_is_offered_ends_the_run() -> None:
    session = Session()
    session.tell(run_asked("r1", contract=CONTRACT))
    (effect,) = session.turn()
    session.tell(CancelRequested("r1"))
    assert session.done(effect, ModelBatched(REASON)) == []
