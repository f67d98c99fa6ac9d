"""Questions of the model: answered, expired, or passed over by a message."""

import pytest
from tests.harness.loop.stage import (
    ASK,
    JsonObject,
    Session,
    asked,
    begin_all,
    call,
    calls,
    interrupt,
    judge_all,
    run_asked,
    says,
)
from tests.harness.loop.test_take_calls import outputs

from windlass_harness.loop.events import (
    AnswersGiven,
    CallAsks,
    CallModel,
    CancelRequested,
    JudgeCall,
    MessageSent,
)
from windlass_harness.loop.people import match_option
from windlass_protocol import InputRequest, InputResponse

COLOURS: tuple[JsonObject, ...] = ({"id": "red", "label": "Deep Red"}, {"id": "blue", "label": "Blue"})


def asking(*, options: tuple[JsonObject, ...] = COLOURS, freeform: bool = False, **more: str) -> Session:
    """A session that waits for the answer to a question."""
    session = asked(calls(call("ask_question", prompt="Which?")))
    (effect,) = session.turn()
    assert isinstance(effect, JudgeCall)
    given: JsonObject = {"prompt": "Which?"}
    until = more.get("until")
    asks = CallAsks(
        effect.call_id,
        given,
        "Which?",
        options=options,
        allow_freeform=freeform,
        expires_at=until,
    )
    assert session.done(effect, asks) == ["input.requested"]
    assert session.turn() == []
    return session


def the_request(session: Session) -> InputRequest:
    (request,) = session.state.session.requests.values()
    return request


def answer(session: Session, **more: str) -> list[str]:
    response = InputResponse.model_validate({"requestId": the_request(session).request_id, **more})
    return session.tell(AnswersGiven((response,)))


def steer(session: Session, text: str) -> list[str]:
    return session.tell(MessageSent({"message": text, "messageId": "m1", "sender": "ann"}))


def test_a_question_that_approves_has_the_responders_of_approvals() -> None:
    session = asked(calls(call("ask_question", prompt="Pay?")))
    (effect,) = session.turn()
    assert isinstance(effect, JudgeCall)
    session.done(effect, CallAsks(effect.call_id, {"prompt": "Pay?"}, "Pay?", responders=("bob",)))
    assert the_request(session).responders == ("bob",)
    assert answer(session, text="yes", responder="ann") == ["approval.candidate"]
    assert answer(session, text="yes", responder="bob") == ["input.resolved", "action.result"]


def test_a_question_is_shown_with_its_options_and_the_run_waits() -> None:
    session = asking()
    request = the_request(session)
    assert (request.kind, request.display, request.prompt) == ("question", "select", "Which?")
    assert [option.id for option in request.options or ()] == ["red", "blue"]
    assert session.types[-2:] == ["turn.waiting", "run.waiting"]
    assert the_request(asking(options=(), freeform=True)).display == "text"


@pytest.mark.parametrize("text", ["red", " RED ", "deep red", "1"])
def test_a_text_that_names_an_option_selects_it(text: str) -> None:
    session = asking()
    assert answer(session, text=text) == ["input.resolved", "action.result"]
    assert session.turn() == [CallModel(1, 1)]
    assert session.types[-2:] == ["run.resumed", "step.started"]
    assert outputs(session) == [("c-ask_question", {"status": "answered", "optionId": "red"})]


@pytest.mark.parametrize("text", ["re", "3", "0", "red or blue", ""])
def test_other_text_is_an_answer_only_if_freeform_is_allowed(text: str) -> None:
    session = asking()
    assert answer(session, text=text) == ["approval.candidate"]
    assert session.turn() == []
    free = asking(freeform=True)
    assert answer(free, text=text) == ["input.resolved", "action.result"]
    free.turn()
    assert outputs(free) == [("c-ask_question", {"status": "answered", "text": text})]


def test_a_question_of_a_run_that_is_cancelled_is_closed_without_a_result() -> None:
    session = asking()
    assert session.tell(CancelRequested("r1")) == ["run.cancel_requested", "input.resolved"]
    assert not session.state.session.requests
    session.turn()
    assert session.end == "cancelled"


def test_an_unanswered_question_expires() -> None:
    session = asking(until="2026-01-31T09:01:00.000Z")
    session.pass_ms(10 * 60_000)
    assert session.turn() == [CallModel(1, 1)]
    assert outputs(session) == [("c-ask_question", {"status": "expired"})]
    assert shown_result(session)["output"] == {"status": "expired"}


def shown_result(session: Session) -> JsonObject:
    """The result of the question's call, as feeds show it."""
    data = session.data("action.result")
    assert data["status"] == "completed"
    assert (data["turnId"], data["stepIndex"]) == ("turn_0", 0)
    result = data["result"]
    assert isinstance(result, dict)
    return result


def test_a_message_instead_of_an_answer_ignores_the_question() -> None:
    session = asking(freeform=True)
    assert steer(session, "red") == ["input.resolved", "action.result", "message.received"]
    assert session.data("input.resolved")["resolutions"] == [
        {"requestId": "question:r1:0:c-ask_question:1", "outcome": "ignored", "kind": "question"}
    ]
    assert session.data("message.received")["delivery"] == "steer"
    assert session.turn() == [CallModel(1, 1)]
    assert outputs(session) == [("c-ask_question", {"status": "ignored"})]
    assert [message.role for message in session.state.session.history.messages[-2:]] == ["tool", "user"]


@pytest.mark.parametrize("text", ["1", "2", " 1 ", "yes", "Yes", "ok", "y", "approved"])
@pytest.mark.parametrize("kind", ["approval", None])
def test_a_text_that_does_not_name_the_option_never_approves(text: str, kind: str | None) -> None:
    session = asked(calls(call("pay", n=1)))
    judge_all(session, ASK)
    request = the_request(session).model_copy(update={"kind": kind})
    assert match_option(request, InputResponse(request_id="a", text=text)).option_id is None
    assert answer(session, text=text) == ["approval.candidate"]
    assert session.turn() == []
    assert session.tell(MessageSent({"message": text, "messageId": "m1"}))[-1] == "message.received"
    assert session.turn() == [CallModel(1, 1)]
    assert "action.started" not in session.types


def test_a_text_that_names_the_option_of_an_approval_selects_it() -> None:
    for text, outcome in (("approve", "approved"), (" Approve ", "approved"), ("deny", "denied")):
        session = asked(calls(call("pay", n=1)))
        judge_all(session, ASK)
        answer(session, text=text)
        assert session.data("approval.settled")["outcome"] == outcome


def test_a_message_does_not_settle_a_recovery_request() -> None:
    session = asked(calls(call("send", n=1)))
    begin_all(session)
    after = interrupt(session, len(session.records))
    after.turn()
    assert steer(after, "never mind") == ["message.received"]
    assert after.turn() == []
    assert the_request(after).kind == "recovery"


def test_a_message_during_a_model_call_follows_the_answer() -> None:
    session = Session()
    session.tell(run_asked())
    (effect,) = session.turn()
    assert steer(session, "and be brief") == ["message.received"]
    session.done(effect, says("a long story"))
    assert session.turn() == [CallModel(1, 1)], "an answer that did not hear it is not the last word"
    roles = [message.role for message in session.state.session.history.messages]
    assert roles == ["user", "assistant", "user"]


def test_a_message_to_a_run_records_its_sender() -> None:
    session = asked(calls(call("look")))
    session.tell(MessageSent({"message": "hurry", "source": {"kind": "user", "id": "ann"}}))
    assert session.data("message.received")["sender"] == "ann"
    run = session.state.run
    assert run is not None
    assert run.speakers == ("ann",)


def test_a_message_without_a_run_is_ignored_by_the_loop() -> None:
    assert steer(Session(), "hello") == []
