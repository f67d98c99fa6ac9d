"""Compaction in the loop: when it is due, its intent, its result and its retries.

It runs before a model call, after its intent is durable. A compaction has no effects outside of the session,
so an interrupted one is repeated.
"""

from collections.abc import Set
from dataclasses import replace

from msgspec import structs

from windlass_harness.compaction import BYTES_PER_TOKEN, JSON_BYTES_MAX, estimate_tokens
from windlass_harness.loop import ends, failures, outage
from windlass_harness.loop.events import (
    NOTHING,
    Compact,
    CompactionBroken,
    Draft,
    HistoryCompacted,
    Moment,
    Plan,
)
from windlass_harness.loop.notes import (
    ASKED,
    HANDED_OVER,
    INTERRUPTED,
    OVERFLOW,
    RECOVERY,
    THRESHOLD,
    lower_threshold,
)
from windlass_harness.loop.rules import CompactionRule, Rules
from windlass_harness.loop.state import LoopState
from windlass_harness.views.runs import UNKNOWN_MODEL
from windlass_protocol import CompactionConfig, JsonObject
from windlass_protocol.bodies import Body
from windlass_protocol.generated import records
from windlass_protocol.limits import INTEGER_MAX


def before_step(state: LoopState, *, now: Moment, rules: Rules) -> Plan | None:
    """Return the compaction that must precede the model call; None if there is none."""
    note, rule = state.compacting, rules.compaction
    if note.is_due:
        return _go_on(state, now, rules)
    if note.is_overflow:
        return Plan((_request_draft(state, OVERFLOW, now, rule),))
    if note.has_overflowed and note.tokens_after >= note.tokens:
        # The same prompt would be refused again.
        return Plan(ends.fail_run(state, failures.cannot_shrink(note.tokens), now=now))
    if rule.limit is not None and note.tokens_after > rule.limit:
        error = failures.does_not_fit(note.tokens_after, rule.limit)
        return Plan(ends.fail_run(state, error, now=now))
    if _is_too_long(state, rule):
        return Plan((_request_draft(state, THRESHOLD, now, rule),))
    return None


def at_rest(state: LoopState, under_way: Set[str], *, now: Moment, rules: Rules) -> Plan:
    """Return the next step of a compaction while no run is active."""
    if Compact.key in under_way or not state.compacting.is_due:
        return NOTHING
    return _go_on(state, now, rules)


def take_request(state: LoopState, *, now: Moment, rules: Rules) -> list[Draft]:
    """Return the intent of a compaction that a caller requested.

    Empty if there is nothing to compact, or a compaction is already due.
    """
    if state.session.turn is None or state.compacting.is_due:
        return []
    return [_request_draft(state, ASKED, now, rules.compaction)]


def take_result(state: LoopState, event: HistoryCompacted, *, now: Moment) -> list[Draft]:
    """Return the record of a completed compaction; none if it is out of date."""
    if not state.compacting.is_open:
        return []
    return [_draft(state, structs.replace(event.body, usage=event.usage, price=event.price), now)]


def take_failure(state: LoopState, event: CompactionBroken, *, now: Moment, rules: Rules) -> list[Draft]:
    """Return the record of a failed compaction.

    It is retried by the rules for model calls; after the last attempt, the part that needs no model is
    applied.
    """
    note, error = state.compacting, event.error
    if not note.is_open:
        return []
    # Between runs nothing waits for the compaction, and a wait would hold back the next run.
    bound = rules if state.run is not None else replace(rules, retry_for_ms=0)
    delay_ms = outage.retry_delay_ms(note, error, event.chance, now=now, rules=bound)
    failed = _failure_draft(
        state,
        event.code or error.kind.value,
        error.message,
        now,
        details={"error": error.model_dump(mode="json", by_alias=True)},
        model_id=event.model_id,
        usage=event.usage,
        price=event.price,
        delay_ms=delay_ms,
    )
    if delay_ms is not None:
        return [failed, *outage.waiting(state, delay_ms, error.message, now=now)]
    if event.exceeded is not None and state.run is not None:
        return [failed, *ends.exhaust_shared(state, error, (event.exceeded,), now=now)]
    return [failed] if event.fallback is None else [failed, _draft(state, event.fallback, now)]


def hand_over(state: LoopState, now: Moment) -> list[Draft]:
    """Return the record of a compaction that its owner handed over."""
    if state.compacting.epoch != state.epoch:
        return []
    return [_failure_draft(state, HANDED_OVER, "The owner released the session.", now, delay_ms=0)]


def prompt_tokens(state: LoopState, rule: CompactionRule) -> int:
    """Return the prompt tokens of the next model call.

    Same result as `input_tokens`, but each message is estimated once.
    """
    history = state.session.history
    tokens, count = _provider_counts(state, rule)
    since = state.token_sums.since(count, history.messages, revision=history.revision)
    return min(tokens + since, INTEGER_MAX)


def _is_too_long(state: LoopState, rule: CompactionRule) -> bool:
    """Return whether the prompt of the next model call exceeds the threshold.

    The messages are estimated only if a quick upper bound exceeds it: most steps are far below.
    """
    history, bound = state.session.history, _bound(state, rule)
    tokens, count = _provider_counts(state, rule)
    size = state.size_sums.since(count, history.messages, revision=history.revision)
    most = tokens + size * JSON_BYTES_MAX // BYTES_PER_TOKEN
    return most > bound and prompt_tokens(state, rule) > bound


def _provider_counts(state: LoopState, rule: CompactionRule) -> tuple[int, int]:
    """Return the prompt tokens that the provider counted last, and the number of messages in that prompt."""
    tokens, count = state.session.counted
    if tokens is None or count is None or count > len(state.session.history.messages):
        return _overhead_tokens(state, rule), 0
    return tokens, count


def _overhead_tokens(state: LoopState, rule: CompactionRule) -> int:
    """Tokens of a prompt without the history."""
    contract = state.run_notes.contract
    return rule.overhead_tokens + (0 if contract is None else estimate_tokens(contract.json_schema))


def _bound(state: LoopState, rule: CompactionRule) -> int:
    """Tokens that the history may have before it is compacted.

    After a compaction that missed its target, the next one waits until the history has grown.
    """
    note = state.compacting
    bound = _threshold(state, rule)
    return bound if note.tokens_after <= bound else note.tokens_after + bound // 10


def _threshold(state: LoopState, rule: CompactionRule) -> int:
    learned = state.compacting.learned
    return rule.threshold if learned is None else min(rule.threshold, learned)


def _go_on(state: LoopState, now: Moment, rules: Rules) -> Plan:
    """A compaction is open: perform it, or retry it after a failure or a change of owner."""
    note, rule = state.compacting, rules.compaction
    if note.is_retry:
        if note.pause is not None and now.is_in(note.pause):
            return Plan(wake_at_ms=note.pause.until_ms)
        return Plan((_request_draft(state, note.reason, now, rule),))
    if note.epoch == state.epoch:
        return Plan(effects=(_effect(state, rule),))
    times = outage.times_ended(state, note, rules=rules)
    if not times:
        shared, delay_ms, reason = outage.after_crash(state, note)
        failure = "The process ended during the compaction."
        again = _failure_draft(state, INTERRUPTED, failure, now, delay_ms=delay_ms, shared=shared)
        return Plan((again, *outage.waiting(state, delay_ms, reason, now=now, on=RECOVERY)))
    error = failures.interrupted_too_often(times)
    failure = _failure_draft(state, "interrupted_too_often", error.message, now)
    return Plan((failure, *(() if state.run is None else ends.fail_run(state, error, now=now))))


def _effect(state: LoopState, rule: CompactionRule) -> Compact:
    note, counted = state.compacting, state.session.compaction
    threshold = _threshold(state, rule)
    config = CompactionConfig(
        recent_window_size=rule.recent_window_size,
        threshold=min(threshold, lower_threshold(note.tokens)) if note.reason == ASKED else threshold,
        last_known_input_tokens=counted.last_known_input_tokens,
        last_known_prompt_message_count=counted.last_known_prompt_message_count,
    )
    return Compact(config, _overhead_tokens(state, rule))


def _request_draft(state: LoopState, reason: str, now: Moment, rule: CompactionRule) -> Draft:
    run = state.session.run
    model_id = rule.model_id or (None if run is None else run.first_model)
    body = records.CompactionRequested(
        model_id=model_id or UNKNOWN_MODEL,
        usage_input_tokens=prompt_tokens(state, rule),
        reason=reason,
        **state.turn_place,
    )
    return _draft(state, body, now)


def _failure_draft(
    state: LoopState,
    code: str,
    message: str,
    now: Moment,
    *,
    delay_ms: int | None = None,
    shared: bool | None = None,
    details: JsonObject | None = None,
    model_id: str | None = None,
    usage: records.Usage | None = None,
    price: records.Price | None = None,
) -> Draft:
    """Return the record of a failed attempt; with a delay it is retried."""
    body = records.CompactionFailed(
        code=code,
        message=message,
        details=details,
        shared=shared,
        delay_ms=delay_ms,
        model_id=model_id,
        usage=usage,
        price=price,
        **state.turn_place,
    )
    return _draft(state, body, now)


def _draft(state: LoopState, body: Body, now: Moment) -> Draft:
    """Return a draft of the current run; of the session alone if there is none."""
    return Draft(body.TYPE, now.at, body) if state.run is None else state.draft(body, now=now)
