"""The purse of a run: what a model call may cost is set aside before it is made, and settled once."""

from dataclasses import replace

import pytest
from tests.harness.loop.stage import (
    Session,
    call,
    calls,
    error,
    run_asked,
    says,
)

from windlass_harness.loop.events import (
    CallModel,
    CallReserved,
    CancelRequested,
    ModelAnswered,
    ModelFailed,
    ReserveCall,
    SessionClaimed,
)
from windlass_harness.loop.purse import PaidCall, paid_call, paid_summary, price_of, reservation_of
from windlass_harness.loop.rules import CallBounds, CallPrice, ModelTerms, Rules
from windlass_harness.loop.state import StepPlace
from windlass_harness.record import Record
from windlass_protocol import BudgetName, FinishReason, JsonObject, PriceGap, PriceSource, RetryClass
from windlass_protocol.bodies import Body
from windlass_protocol.generated import records

DOLLAR = 1_000_000
"""A dollar for a million tokens: a millionth of a dollar for each."""
UNPRICED = records.Price(source=PriceSource.NONE, gap=PriceGap.NO_USAGE)
UNCOSTED = records.Usage(input_tokens=1)


def rules(output: int = 10 * DOLLAR, *, answer: int = 1_000, least: int = 1, **prices: int) -> Rules:
    price = CallPrice(prices.get("input", DOLLAR), output, request=prices.get("request", 0))
    return Rules(terms={None: ModelTerms((price,), answer, least)})


def begun(limit: int, made: Rules) -> Session:
    session = Session(rules=made)
    session.tell(run_asked(budget={"maxCostMicros": limit}))
    session.turn()
    return session


def answered(session: Session, answer: ModelAnswered | ModelFailed) -> Session:
    (effect,) = [one for one in session.under_way.values() if isinstance(one, CallModel)]
    session.done(effect, answer)
    session.turn()
    return session


def reserved(session: Session) -> JsonObject:
    found = session.all("step.started")[-1]["reserved"]
    assert isinstance(found, dict)
    return found


PROMPT = 9
"""Tokens of the prompt of a test, as the loop estimates it."""


def test_the_most_that_a_call_can_cost_is_set_aside_before_it() -> None:
    session = begun(1_000_000, rules())
    assert reserved(session) == {"costMicros": PROMPT + 10 * 1_000, "answerTokens": 1_000}
    assert session.state.run_notes.reserved == PROMPT + 10_000


def test_a_run_without_a_limit_in_money_sets_nothing_aside() -> None:
    session = Session(rules=Rules())
    session.tell(run_asked(budget={"maxTokens": 100}))
    session.turn()
    assert "reserved" not in session.all("step.started")[-1]


def test_an_answer_is_made_shorter_to_fit() -> None:
    session = begun(PROMPT + 10 * 400 + 9, rules())
    assert reserved(session) == {"costMicros": PROMPT + 4_000, "answerTokens": 400}
    assert session.state.run_notes.answer_tokens == 400


@pytest.mark.parametrize(("left", "end"), [(PROMPT + 2_560, None), (PROMPT + 2_559, "budget_exhausted")])
def test_a_run_that_cannot_pay_for_the_shortest_answer_ends_before_it_pays(
    left: int, end: str | None
) -> None:
    session = begun(left, rules())
    assert session.end == end
    assert [kind for kind in session.types if kind == "step.started"] == ([] if end else ["step.started"])
    if end:
        told = session.data("turn.failed")["message"]
        assert told == (
            f"The run has used up its budget: 0 of {left:,} millionths of a dollar, and the next answer may "
            f"cost {PROMPT + 2_560:,}. Give a new run more, or ask for less."
        )


@pytest.mark.parametrize(
    ("answer", "least", "needed"), [(100, 1, 1_000), (100, 300, 3_000), (1_000, 300, 3_000)]
)
def test_the_shortest_answer_is_what_the_model_is_set_to_or_must_think(
    answer: int, least: int, needed: int
) -> None:
    made = rules(answer=answer, least=least)
    assert begun(PROMPT + needed, made).end is None
    assert begun(PROMPT + needed - 1, made).end == "budget_exhausted"


def test_the_cost_of_a_call_takes_the_place_of_its_reservation() -> None:
    session = answered(begun(100_000, rules()), calls(call("look"), tokens=70))
    notes = session.state.run_notes
    assert (notes.reserved, notes.answer_tokens, notes.budget.cost_micros_used) == (None, None, 70)


@pytest.mark.parametrize(
    ("answer", "spent"),
    [
        (ModelAnswered("x", FinishReason.STOP, usage=records.Usage(cost_micros=7)), 7),
        (ModelAnswered("x", FinishReason.STOP, price=UNPRICED), PROMPT + 10_000),
        (
            ModelAnswered("x", FinishReason.STOP, usage=UNCOSTED, price=UNPRICED),
            PROMPT + 10_000,
        ),
        (ModelFailed(error(), price=UNPRICED), PROMPT + 10_000),
        (ModelFailed(error(), usage=records.Usage(cost_micros=3)), 3),
        # It was refused before it began: nothing was paid.
        (ModelFailed(error()), 0),
        (ModelFailed(error(RetryClass.NOT_RETRYABLE), price=UNPRICED), PROMPT + 10_000),
    ],
)
def test_a_call_counts_once_by_its_cost_or_by_its_reservation(
    answer: ModelAnswered | ModelFailed, spent: int
) -> None:
    session = answered(begun(100_000, rules()), answer)
    notes = session.state.run_notes
    assert (notes.reserved, notes.budget.cost_micros_used) == (None, spent)
    assert notes.settled_micros == (spent if spent > 7 else None)


def test_the_reservation_of_a_dead_process_counts_as_spent_once() -> None:
    before = begun(100_000, rules())
    after = Session(before.records, epoch=2, rules=rules())
    after.tell(SessionClaimed(2, "recovery"))
    after.turn()
    after.pass_ms(60_000)
    after.turn()
    notes = after.state.run_notes
    assert after.types.count("step.retrying") == 1
    assert notes.budget.cost_micros_used == notes.settled_micros == PROMPT + 10_000
    assert notes.reserved == PROMPT + 10_000, "the call is made again"
    assert notes.unknown_micros == 2 * notes.reserved
    answered(after, says(tokens=50))
    assert after.state.run_notes.budget.cost_micros_used == PROMPT + 10_000 + 50


def test_processes_that_die_again_and_again_do_not_pass_the_limit() -> None:
    made, limit = rules(), 3 * (PROMPT + 10_000)
    session = begun(limit, made)
    epoch, calls_made = 1, 1
    while session.end is None:
        epoch += 1
        session = Session(
            session.records, epoch=epoch, rules=replace(made, interruptions_max=99), ms=session.ms
        )
        session.tell(SessionClaimed(epoch, "recovery"))
        session.turn()
        session.pass_ms(3_600_000)
        session.turn()
        calls_made += session.types.count("step.started") == epoch
    assert session.end == "budget_exhausted"
    assert calls_made == 3
    assert session.state.run_notes.budget.cost_micros_used <= limit


def test_every_call_of_a_run_that_is_interrupted_too_often_is_paid_for() -> None:
    made = rules()
    session = begun(DOLLAR, made)
    for epoch in range(2, 9):
        if session.end is not None:
            break
        session = Session(session.records, epoch=epoch, rules=made, ms=session.ms)
        session.tell(SessionClaimed(epoch, "recovery"))
        session.turn()
        session.pass_ms(3_600_000)
        session.turn()
    assert session.end == "failed"
    lost = len(session.all("step.started"))
    assert session.state.run_notes.budget.cost_micros_used == lost * (PROMPT + 10_000)


def test_a_model_without_a_price_ends_a_run_with_a_limit_in_money() -> None:
    session = begun(1_000, Rules())
    assert session.end == "failed"
    told = session.data("turn.failed")["message"]
    assert isinstance(told, str)
    assert told.startswith("The run has a limit in money, and model")


def test_long_prompts_have_their_own_prices() -> None:
    short, long = CallPrice(1, 2), CallPrice(3, 4, above_tokens=200)
    terms = ModelTerms((short, long), 10)
    assert [price_of(terms, prompt) for prompt in (0, 200, 201)] == [short, short, long]


@pytest.mark.parametrize(
    ("price", "cost"),
    [
        (CallPrice(0, 0), 0),
        (CallPrice(1, 0), 1),
        (CallPrice(500_000, 0), 50),
        (CallPrice(500_001, 0), 51),
        (CallPrice(0, DOLLAR, request=7), 17),
    ],
)
def test_a_cost_is_rounded_up(price: CallPrice, cost: int) -> None:
    assert CallBounds(price, 100, 10, 1).cost(10) == cost


def test_a_free_model_may_answer_as_long_as_it_can() -> None:
    session = begun(0, rules(0, input=0))
    assert reserved(session) == {"costMicros": 0, "answerTokens": 1_000}


# limits that runs share


def asking(**more: int) -> tuple[Session, ReserveCall]:
    """Return a run with a shared limit that has asked the store for its first call."""
    session = Session(rules=replace(rules(), is_shared=True))
    budget: JsonObject = {**more}
    session.tell(run_asked(budget=budget) if more else run_asked())
    (effect,) = session.turn()
    assert isinstance(effect, ReserveCall)
    assert "step.started" not in session.types
    return session, effect


@pytest.mark.parametrize(("limit", "answer"), [({}, 1_000), ({"maxCostMicros": PROMPT + 4_000}, 400)])
def test_a_run_with_a_shared_limit_asks_the_store_for_what_it_can_pay_itself(
    limit: dict[str, int], answer: int
) -> None:
    session, effect = asking(**limit)
    assert effect == ReserveCall("r1/0/1", CallBounds(CallPrice(DOLLAR, 10 * DOLLAR), PROMPT, answer, 256))
    granted = replace(effect.bounds, answer_tokens=300)
    session.done(effect, CallReserved("r1/0/1", reservation_of(granted, shared="r1/0/1")))
    (model_call,) = session.turn()
    assert model_call == CallModel(0, 1)
    assert reserved(session) == {"costMicros": PROMPT + 3_000, "answerTokens": 300, "sharedCall": "r1/0/1"}
    assert session.state.run_notes.shared_call == "r1/0/1"
    answered(session, says(tokens=50))
    assert session.state.run_notes.shared_call is None


def test_a_call_that_does_not_fit_a_shared_limit_ends_the_run_unpaid() -> None:
    session, effect = asking()
    session.done(effect, CallReserved("r1/0/1", error=error(), exceeded=(BudgetName.TOKENS,)))
    session.turn()
    assert session.end == "budget_exhausted"
    assert session.all("run.budget_exhausted")[-1]["exceeded"] == ["tokens"]
    assert "step.started" not in session.types


def test_an_answer_of_the_store_that_came_too_late_starts_nothing() -> None:
    session, effect = asking()
    session.tell(CancelRequested("r1"))
    session.done(effect, CallReserved("r1/0/1", reservation_of(effect.bounds, shared="r1/0/1")))
    session.turn()
    assert session.end == "cancelled"
    assert "step.started" not in session.types


_PLACE: StepPlace = {"sequence": 0, "turn_id": "t", "step_index": 0}


@pytest.mark.parametrize(
    ("body", "paid"),
    [
        (records.StepFailed(code="x", message="x", **_PLACE), (0, 0)),
        (records.StepFailed(code="x", message="x", price=UNPRICED, **_PLACE), (None, None)),
        (records.StepRetrying(code="interrupted", attempt=1, delay_ms=0, **_PLACE), (None, None)),
        (records.StepRetrying(code="overloaded", attempt=1, delay_ms=0, **_PLACE), (0, 0)),
        (
            records.StepRetrying(
                code="x", attempt=1, delay_ms=0, usage=records.Usage(input_tokens=3, cost_micros=7), **_PLACE
            ),
            (7, 3),
        ),
        (records.RunCancelled(run_id="r1"), (None, None)),
    ],
)
def test_a_call_is_paid_by_its_cost_or_by_what_was_held(
    body: Body, paid: tuple[int | None, int | None]
) -> None:
    assert paid_call("c", body) == PaidCall("c", *paid)


def test_an_answer_is_as_long_as_the_tokens_that_are_left() -> None:
    bounds = CallBounds(CallPrice(0, 0), prompt_tokens=300, answer_tokens=1_000, answer_tokens_min=1)
    assert bounds.longest(micros=None, tokens=800) == 500
    assert bounds.longest(micros=None, tokens=2_000) == 1_000


@pytest.mark.parametrize(
    ("usage", "paid"),
    [
        (
            records.Usage(input_tokens=70, output_tokens=10, cost_micros=9),
            PaidCall("summary/7", 9, 80, ("p",)),
        ),
        (records.Usage(input_tokens=70), PaidCall("summary/7", 0, 70, ("p",))),
        (None, None),
    ],
)
def test_a_summary_is_paid_when_it_is_made(usage: records.Usage | None, paid: PaidCall | None) -> None:
    body = records.CompactionFailed(code="x", message="x", usage=usage)
    assert paid_summary(record_of(body), ("p",)) == paid


def test_only_a_summary_is_paid_like_one() -> None:
    assert paid_summary(record_of(records.StepFailed(code="x", message="x", **_PLACE)), ("p",)) is None


def record_of(body: Body) -> Record:
    return Record(body.TYPE, "2026-01-31T09:00:00.000Z", body, seq=7)
