"""The purse of a run: what a model call may cost is set aside before it is made.

A reservation is part of the record that begins the call. The cost of the call takes its place. If that is not
known, because the process died or the provider reported no usage, the reservation counts as spent: so a limit
holds whatever happens, and a call never counts twice. Limits that runs share are kept by the store, which is
asked before the call and told of its cost with the record of its end.
"""

from dataclasses import replace
from typing import Final

from windlass_harness.loop import ends, failures, overdraft
from windlass_harness.loop.compaction import prompt_tokens
from windlass_harness.loop.events import (
    CallModel,
    CallReserved,
    CheaperCall,
    Draft,
    LimitAsk,
    Moment,
    Plan,
    ReserveCall,
)
from windlass_harness.loop.notes import HANDED_OVER, INTERRUPTED
from windlass_harness.loop.rules import CallBounds, CallPrice, ModelTerms, Rules
from windlass_harness.loop.state import LoopState
from windlass_harness.record import Record
from windlass_harness.views.payloads import token_count
from windlass_protocol import BudgetName, LimitChoice
from windlass_protocol.bodies import Body
from windlass_protocol.frozen import frozen
from windlass_protocol.generated import records

ANSWER_TOKENS_MIN: Final = 256
"""Tokens of the shortest answer that is worth a call, unless the model is set to shorter ones."""


@frozen
class PaidCall:
    """What a call that counts for shared limits has cost; None means: as much as was set aside."""

    call: str
    micros: int | None
    tokens: int | None
    purses: tuple[str, ...] = ()
    """The purses of a call that was not held in them before it was made: a summary."""


def begin_call(state: LoopState, *, now: Moment, rules: Rules) -> Plan:
    """Return the next model call, the question to the store before it, or the end of a run without money."""
    limit = state.run_notes.limits.max_cost_micros
    if limit is None and not rules.is_shared:
        return _begin(state, None, now)
    bounds = bounds_of(state, rules)
    if bounds is None:
        return Plan(ends.fail_run(state, failures.missing_price(state.model_id or ""), now=now))
    cheaper, model_id = _cheaper_calls(state, bounds, rules), None
    run_limit = rules.run_limits.get(BudgetName.COST)
    is_cheaper = run_limit is not None and run_limit.at_limit is LimitChoice.CHEAPER
    if limit is not None:
        left = limit - state.run_notes.budget.cost_micros_used
        fitted, cheaper = _fit(bounds, left), _fitting_calls(cheaper, left)
        if fitted is None and cheaper and is_cheaper:
            model_id, fitted = cheaper[0].model_id, cheaper[0].bounds
        if fitted is None:
            needed = bounds.cost(bounds.answer_tokens_min)
            return reach_budget(state, (BudgetName.COST,), now=now, rules=rules, needed=needed)
        bounds = fitted
    if rules.is_shared:
        return Plan(effects=(ReserveCall(_key_of(state), bounds, model_id, tuple(cheaper)),))
    return _begin(state, reservation_of(bounds), now, model_id=model_id)


def reach_budget(
    state: LoopState,
    names: tuple[BudgetName, ...],
    *,
    now: Moment,
    rules: Rules,
    needed: int | None = None,
) -> Plan:
    """Return the end of a run that has used up its budget, or the request to let it spend more.

    `needed` is what its next answer may cost at least.
    """
    limits, used, bounds = state.run_notes.limits, state.run_notes.budget, bounds_of(state, rules)
    run_limit = rules.run_limits.get(names[0]) if len(names) == 1 else None
    if run_limit is not None and run_limit.at_limit is LimitChoice.ASK and bounds is not None:
        is_money = names[0] is BudgetName.COST
        micros, tokens = bounds.amounts(bounds.answer_tokens)
        ask = LimitAsk(
            run_limit.name,
            names[0],
            used=used.cost_micros_used if is_money else used.tokens_used,
            most=(limits.max_cost_micros if is_money else limits.max_tokens) or 0,
            amount=micros if is_money else tokens,
            responders=run_limit.responders,
        )
        return Plan((overdraft.request(state, ask, call=_key_of(state), now=now),))
    return Plan(ends.exhaust_budget(state, names, now=now, needed=needed, run_limits=rules.run_limits))


def _cheaper_calls(state: LoopState, bounds: CallBounds, rules: Rules) -> list[CheaperCall]:
    """Return the next call by the fallback models that are cheaper than the model of the run."""
    calls: list[CheaperCall] = []
    for model_id in rules.fallbacks:
        other = _bounds_for(state, rules, model_id)
        if other is not None and other.cost(other.answer_tokens_min) < bounds.cost(bounds.answer_tokens_min):
            calls.append(CheaperCall(model_id, other))
    return calls


def _fitting_calls(calls: list[CheaperCall], left: int) -> list[CheaperCall]:
    fitted_calls = ((call.model_id, _fit(call.bounds, left)) for call in calls)
    return [CheaperCall(model_id, bounds) for model_id, bounds in fitted_calls if bounds is not None]


def _fit(bounds: CallBounds, left: int) -> CallBounds | None:
    """Return a call with an answer that what is left pays for; None if not even the shortest does."""
    longest = bounds.longest(micros=left, tokens=None)
    return None if longest < bounds.answer_tokens_min else replace(bounds, answer_tokens=longest)


def take_reserved(state: LoopState, event: CallReserved, *, now: Moment) -> list[Draft]:
    """Return the record that begins a call which the store has set money aside for; none if it is not due."""
    if state.run is None or state.is_ending or event.call != _key_of(state):
        return []
    if event.ask is not None:
        return [overdraft.request(state, event.ask, call=event.call, now=now)]
    if event.error is not None:
        return [*ends.exhaust_shared(state, event.error, event.exceeded, now=now)]
    return [*_begin(state, event.reserved, now, model_id=event.model_id).drafts]


def reservation_of(bounds: CallBounds, *, shared: str | None = None) -> records.Reservation:
    """Return what is set aside for a call with the longest answer."""
    tokens = bounds.answer_tokens
    return records.Reservation(cost_micros=bounds.cost(tokens), answer_tokens=tokens, shared_call=shared)


def bounds_of(state: LoopState, rules: Rules) -> CallBounds | None:
    """Return what the next model call may cost; None if its model has no price."""
    return _bounds_for(state, rules, state.run_notes.model_id)


def _bounds_for(state: LoopState, rules: Rules, model_id: str | None) -> CallBounds | None:
    terms = rules.terms.get(model_id)
    if terms is None:
        return None
    return call_bounds(terms, prompt_tokens(state, rules.compaction), left=None)


def call_bounds(terms: ModelTerms, prompt_tokens: int, *, left: int | None) -> CallBounds | None:
    """Return what a call may cost with what is left of a run; None if not even the shortest answer fits."""
    least = max(min(ANSWER_TOKENS_MIN, terms.answer_tokens), terms.answer_tokens_min)
    longest = max(least, terms.answer_tokens)
    bounds = CallBounds(price_of(terms, prompt_tokens), prompt_tokens, longest, least)
    return bounds if left is None else _fit(bounds, left)


def price_of(terms: ModelTerms, prompt: int) -> CallPrice:
    """Return the prices for a prompt of this length: long ones may cost more."""
    return [price for price in terms.prices if price.above_tokens < prompt or not price.above_tokens][-1]


def paid_call(call: str, body: Body) -> PaidCall:
    """Return the cost of a call by the record that ended it, or the run; see `RunNotes.settle`."""
    if not isinstance(body, records.StepCompleted | records.StepFailed | records.StepRetrying):
        return PaidCall(call, None, None)
    usage, is_lost = body.usage, False
    if isinstance(body, records.StepRetrying):
        is_lost = body.code in (INTERRUPTED, HANDED_OVER)
    if usage is None and body.price is None and not is_lost:
        # The provider refused it.
        return PaidCall(call, 0, 0)
    tokens = None if usage is None else token_count(usage)
    return PaidCall(call, None if usage is None else usage.cost_micros, tokens)


def paid_summary(record: Record, purses: tuple[str, ...]) -> PaidCall | None:
    """Return the cost of a summary; None if the record is not about one, or its cost is not known."""
    body = record.body
    if not isinstance(body, records.CompactionCompleted | records.CompactionFailed) or body.usage is None:
        return None
    return PaidCall(f"summary/{record.seq}", body.usage.cost_micros or 0, token_count(body.usage), purses)


def _position(state: LoopState) -> tuple[int, int]:
    """Return the step and the attempt of the next model call."""
    notes, turn = state.run_notes, state.session.turn
    assert turn is not None, "no turn has begun"
    last = -1 if turn.step_index is None else turn.step_index
    return (last, notes.attempt + 1) if notes.is_retry else (last + 1, 1)


def _key_of(state: LoopState) -> str:
    """Return what the store knows the next model call by."""
    run, (index, attempt) = state.run, _position(state)
    assert run is not None, "only a run calls a model"
    return f"{run.run_id}/{index}/{attempt}"


def _begin(
    state: LoopState, reserved: records.Reservation | None, now: Moment, *, model_id: str | None = None
) -> Plan:
    """Return the record that begins a call, and the call; `model_id` names a cheaper model."""
    run, turn, (index, attempt) = state.run, state.session.turn, _position(state)
    assert run is not None, "only a run calls a model"
    assert turn is not None, "no turn has begun"
    body = records.StepStarted(
        model_id=model_id or state.model_id,
        prompt_message_count=len(state.session.history.messages),
        reserved=reserved,
        **state.place(index),
    )
    draft = Draft(body.TYPE, now.at, body, run.run_id, run.agent_id, turn.turn_id, index, attempt)
    return Plan((draft,), (CallModel(index, attempt),))
