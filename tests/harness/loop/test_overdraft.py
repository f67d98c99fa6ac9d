"""Overdrafts: what happens to a run at a limit that does more than end it."""

from dataclasses import replace

import pytest
from tests.harness.loop.stage import Session, call, calls, error, run_asked, says
from tests.harness.loop.test_purse import DOLLAR, PROMPT, rules

from windlass_harness.loop.events import (
    AnswersGiven,
    CallModel,
    CallReserved,
    CheaperCall,
    Compact,
    CompactionBroken,
    CompactionRequested,
    LimitAsk,
    MessageSent,
    ReserveCall,
)
from windlass_harness.loop.notes import RunNotes, amount_of
from windlass_harness.loop.purse import reservation_of
from windlass_harness.loop.rules import CallBounds, CallPrice, CompactionRule, ModelTerms, Rules, RunLimit
from windlass_harness.views.costs import fold_costs
from windlass_protocol import BudgetName, InputResponse, JsonObject, LimitChoice, RetryClass

ASK = RunLimit("runs", LimitChoice.ASK, ("eve",))
CHEAPER = RunLimit("runs", LimitChoice.CHEAPER)
ASKS = {BudgetName.COST: ASK, BudgetName.TOKENS: ASK}
CHEAPERS = {BudgetName.COST: CHEAPER, BudgetName.TOKENS: CHEAPER}
ANSWER = 1_000
FULL = PROMPT + 10 * ANSWER
"""What the longest answer may cost."""


def begin(limit: JsonObject, made: Rules) -> Session:
    session = Session(rules=made)
    session.tell(run_asked(budget=limit))
    session.turn()
    return session


def request(session: Session) -> JsonObject:
    """The newest request to a person."""
    requests = session.all("input.requested")[-1]["requests"]
    assert isinstance(requests, list)
    assert isinstance(requests[0], dict)
    return requests[0]


def answer(session: Session, option: str, **more: object) -> None:
    fields = {"request_id": request(session)["requestId"], "option_id": option, "responder": "eve", **more}
    session.tell(AnswersGiven((InputResponse.model_validate(fields),)))
    session.turn()


def model_call(session: Session) -> CallModel:
    (effect,) = [effect for effect in session.under_way.values() if isinstance(effect, CallModel)]
    return effect


def test_a_run_at_its_limit_asks_and_goes_on_with_what_a_person_allows() -> None:
    session = begin({"maxCostMicros": 100}, replace(rules(), run_limits=ASKS))
    asked = request(session)
    assert asked["prompt"] == (
        "The limit runs is reached: 0.000000 of 0.000100 dollars are spent. "
        "May this run spend 0.010009 dollars more?"
    )
    assert asked["action"] == {
        "kind": "tool-call",
        "callId": "limit:r1/0/1/1",
        "toolName": "exceed_limit",
        "input": {"limit": "runs", "costMicros": FULL},
    }
    assert asked["responders"] == ["eve"]
    assert session.types[-1] == "run.waiting"
    # The next owner goes on waiting.
    session = Session(session.records, epoch=2, rules=session.rules)
    assert session.turn() == []
    answer(session, "approve")
    assert session.all("action.result")[-1]["status"] == "completed"
    assert session.state.run_notes.limits.max_cost_micros == FULL
    session.done(model_call(session), says(tokens=50))
    session.turn()
    assert session.end == "completed"
    assert [message.role for message in session.state.session.history.messages] == ["user", "assistant"]
    assert not fold_costs((record.type, record.data) for record in session.records).tools


def in_debt(made: Rules) -> Session:
    """A run of which the first answer uses up its tokens, and calls a tool."""
    session = begin({"maxTokens": 9}, made)
    session.done(model_call(session), calls(call("look"), tokens=20))
    session.turn()
    return session


@pytest.mark.parametrize(("text", "end"), [("Enough.", ": Enough."), (None, "")])
def test_a_run_that_a_person_does_not_let_go_on_ends_unpaid(text: str | None, end: str) -> None:
    session = in_debt(replace(rules(), run_limits=ASKS))
    assert "20 of 9 tokens are spent" in str(request(session)["prompt"])
    answer(session, "deny", text=text)
    assert session.end == "budget_exhausted"
    last = session.data("run.budget_exhausted")
    assert last["exceeded"] == ["tokens"]
    assert isinstance(last["error"], dict)
    words = "The limit runs is reached, and a person refused to let the run exceed it"
    assert last["error"]["message"] == f"{words}{end}"


def test_a_call_waits_until_the_run_may_spend_more() -> None:
    session = in_debt(replace(rules(), run_limits=ASKS))
    assert "policy.decided" not in session.types
    answer(session, "approve", arguments={"tokens": 1_000, "costMicros": 5})
    assert session.state.run_notes.limits.max_tokens == 20 + 1_000
    assert session.state.run_notes.limits.max_cost_micros is None, "only what was asked for is allowed"
    assert [effect.key for effect in session.under_way.values()] == ["judge:c-look"]


@pytest.mark.parametrize(
    "made",
    [
        rules(),
        replace(rules(), run_limits=CHEAPERS),
        Rules(terms={}, run_limits=ASKS),
    ],
)
def test_a_run_without_a_person_to_ask_ends(made: Rules) -> None:
    session = Session(rules=rules())
    session.tell(run_asked(budget={"maxTokens": 9}))
    session.turn()
    session.rules = made
    session.done(model_call(session), calls(call("look"), tokens=20))
    session.turn()
    assert session.end == "budget_exhausted"


@pytest.mark.parametrize(
    ("subject", "words"),
    [("", "limit runs for each run"), ("ann", "limit runs of ann for each run")],
)
def test_a_run_that_its_limit_ends_names_the_limit(subject: str, words: str) -> None:
    limit = RunLimit("runs", LimitChoice.REFUSE, subject=subject)
    session = begin({"maxCostMicros": 100}, replace(rules(), run_limits={BudgetName.COST: limit}))
    error = session.data("run.budget_exhausted")["error"]
    assert isinstance(error, dict)
    assert error["message"] == (
        f"The run has used up its budget: 0 of 100 millionths of a dollar of {words}, and the next answer "
        f"may cost {PROMPT + 2_560:,}. An operator can raise the limit."
    )
    assert error["details"] == {
        "reason": "budget_exhausted",
        "budgets": [{"name": "cost", "limit": 100, "used": 0}],
        "limit": "runs",
        "subject": subject,
        "per": "run",
        "neededMicros": PROMPT + 2_560,
    }


def test_a_budget_of_the_run_itself_is_no_limit_of_others() -> None:
    tokens = replace(rules(), run_limits={BudgetName.TOKENS: ASK})
    session = begin({"maxCostMicros": 100, "maxTokens": 9}, tokens)
    error = session.data("run.budget_exhausted")["error"]
    assert isinstance(error, dict)
    assert isinstance(error["details"], dict)
    assert "limit" not in error["details"]


def test_a_limit_on_steps_asks_nobody() -> None:
    session = begin({"maxSteps": 1, "maxTokens": 9}, replace(rules(), run_limits=ASKS))
    session.done(model_call(session), says(tokens=20))
    session.turn()
    assert session.end == "completed"
    session = begin({"maxWallMs": 5, "maxTokens": 9}, replace(rules(), run_limits=ASKS))
    session.pass_ms(10)
    session.done(model_call(session), calls(call("look"), tokens=20))
    session.turn()
    assert session.end == "budget_exhausted"


def test_a_message_passes_the_request_over_and_the_run_asks_again() -> None:
    session = begin({"maxCostMicros": 100}, replace(rules(), run_limits=ASKS))
    first = request(session)
    session.tell(MessageSent({"message": "Well?", "messageId": "m1"}))
    session.turn()
    second = request(session)
    assert second["requestId"] != first["requestId"]
    answer(session, "approve", arguments={"costMicros": 20_000})
    assert session.state.run_notes.limits.max_cost_micros == 20_000
    assert not [body for body in session.all("message.received") if body.get("context")], "nobody is told"


@pytest.mark.parametrize("amount", [None, 0, -1, True, "5", 2**53])
def test_an_answer_without_an_amount_is_refused(amount: object) -> None:
    session = begin({"maxCostMicros": 100}, replace(rules(), run_limits=ASKS))
    answer(session, "approve", arguments={"costMicros": amount})
    assert session.types[-1] == "approval.candidate"
    assert amount_of({"costMicros": amount}, "costMicros") == 0  # type: ignore[dict-item]


# limits that runs share


def asking(made: Rules) -> tuple[Session, ReserveCall]:
    session = Session(rules=replace(made, is_shared=True))
    session.tell(run_asked(modelId="dear"))
    (effect,) = session.turn()
    assert isinstance(effect, ReserveCall)
    return session, effect


@pytest.mark.parametrize("budget", [BudgetName.COST, BudgetName.TOKENS])
@pytest.mark.parametrize("subject", ["", "ann"])
def test_what_a_person_allows_counts_for_the_limits_that_runs_share(budget: BudgetName, subject: str) -> None:
    session, effect = asking(rules())
    ask = LimitAsk("people", budget, 7, 7, 500, subject=subject, period="2026-01")
    session.done(effect, CallReserved(effect.call, ask=ask))
    session.turn()
    is_money = budget is BudgetName.COST
    spent = "0.000007 of 0.000007 dollars" if is_money else "7 of 7 tokens"
    scope = f" of {subject}" if subject else ""
    assert str(request(session)["prompt"]).startswith(
        f"The limit people{scope} for 2026-01 is reached: {spent}"
    )
    answer(session, "approve")
    assert session.state.run_notes.overdraft == ((500, 0) if is_money else (0, 500))
    (again,) = session.under_way.values()
    assert isinstance(again, ReserveCall)
    session.done(again, CallReserved(again.call, reservation_of(again.bounds, shared=again.call)))
    session.turn()
    session.done(model_call(session), calls(call("look"), tokens=100))
    session.turn()
    assert session.state.run_notes.overdraft == ((400, 0) if is_money else (0, 400))


def test_a_run_without_an_amount_may_spend_no_more() -> None:
    notes = RunNotes()
    notes.allow({"costMicros": 5}, {})
    notes.allow({"tokens": 5, "period": "x"}, {})
    assert (notes.limits.max_cost_micros, notes.overdraft) == (None, (0, 0))


# cheaper models


def terms(output: int) -> ModelTerms:
    return ModelTerms((CallPrice(DOLLAR, output * DOLLAR),), ANSWER)


MODELS = Rules(
    terms={None: terms(10), "a/dearer": terms(20), "b/cheap": terms(1), "c/free": terms(0)},
    fallbacks=("a/dearer", "z/unpriced", "b/cheap", "c/free"),
)


def bounds(output: int, answer_tokens: int = ANSWER) -> CallBounds:
    return CallBounds(CallPrice(DOLLAR, output * DOLLAR), PROMPT, answer_tokens, 256)


def test_the_store_is_offered_the_cheaper_models_and_their_names_are_recorded() -> None:
    session, effect = asking(MODELS)
    cheaper = (CheaperCall("b/cheap", bounds(1)), CheaperCall("c/free", bounds(0)))
    assert effect == ReserveCall("r1/0/1", bounds(10), None, cheaper)
    granted = reservation_of(bounds(1), shared=effect.call)
    session.done(effect, CallReserved(effect.call, granted, model_id="b/cheap"))
    (made,) = session.turn()
    assert isinstance(made, CallModel)
    assert session.data("step.started")["modelId"] == "b/cheap"
    assert session.state.model_id == "b/cheap"
    session.done(made, calls(call("look")))
    session.turn()
    # The run stays with it.
    assert Session(session.records, epoch=1).state.run_notes.model_id == "b/cheap"


@pytest.mark.parametrize(
    ("limit", "model_id", "answer_tokens"),
    [(PROMPT + 2_560, "dear", 256), (PROMPT + 300, "b/cheap", 300), (PROMPT + 255, "c/free", ANSWER)],
)
def test_a_run_at_its_own_limit_goes_on_with_the_first_model_that_fits(
    limit: int, model_id: str, answer_tokens: int
) -> None:
    session = Session(rules=replace(MODELS, run_limits=CHEAPERS))
    session.tell(run_asked(modelId="dear", budget={"maxCostMicros": limit}))
    session.turn()
    started = session.data("step.started")
    assert isinstance(started["reserved"], dict)
    assert (started["modelId"], started["reserved"]["answerTokens"]) == (model_id, answer_tokens)


@pytest.mark.parametrize("made", [MODELS, replace(MODELS, fallbacks=("a/dearer",), run_limits=CHEAPERS)])
def test_a_run_at_its_own_limit_without_a_cheaper_model_ends(made: Rules) -> None:
    session = Session(rules=made)
    session.tell(run_asked(modelId="dear", budget={"maxCostMicros": PROMPT + 300}))
    session.turn()
    assert session.end == "budget_exhausted"


def test_a_summary_that_does_not_fit_a_limit_ends_the_run_and_between_runs_only_fails() -> None:
    session = Session(rules=replace(rules(), compaction=CompactionRule(threshold=1)))
    session.tell(run_asked())
    (effect,) = session.turn()
    assert isinstance(effect, Compact)
    session.done(effect, CompactionBroken(error(RetryClass.NOT_RETRYABLE), exceeded=BudgetName.COST))
    session.turn()
    assert session.end == "budget_exhausted"
    session.tell(CompactionRequested())
    (effect,) = session.turn()
    session.done(effect, CompactionBroken(error(RetryClass.NOT_RETRYABLE), exceeded=BudgetName.COST))
    session.turn()
    assert session.types[-1] == "compaction.failed"
