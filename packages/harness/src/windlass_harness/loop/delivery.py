"""Deliveries of the output of an ended run, and its last hooks.

A delivery is made at most once. Its intent is written in one append with the end of the run, and the owner
that wrote it delivers right after. An intent without a result and without an active delivery was interrupted:
its outcome is recorded as unknown, and it is not sent again.
"""

from collections.abc import Set
from hashlib import sha256
from typing import Final, TypedDict, assert_never

from windlass_harness.loop import hooks
from windlass_harness.loop.events import CallHooks, Deliver, DeliverySettled, Draft, Moment, Plan, join_ids
from windlass_harness.loop.rules import AFTER_RUN_TERMINAL, Dedupe, Rules, SinkRule
from windlass_harness.loop.state import LoopState
from windlass_harness.views.runs import DeliveryState, RunState
from windlass_protocol import CodecLimits, RunResult, RunStatus, canonical
from windlass_protocol.bodies import Body
from windlass_protocol.generated import records

FINAL_MESSAGE: Final = "final_message"
FINAL_VALIDATED_OUTPUT: Final = "final_validated_output"
INTERRUPTED: Final = "The delivery was interrupted before its result was known."
_LIMITS: Final = CodecLimits(message_bytes_max=64 * 1_048_576, depth_max=128)


def errands(state: LoopState, under_way: Set[str], *, now: Moment, rules: Rules) -> Plan:
    """Return the records and effects that are due for ended runs.

    `under_way` has the keys of effects in progress.
    """
    lost = [
        _unknown(state.deliveries.by_id[delivery_id], now)
        for delivery_id in state.deliveries.open_ids
        if f"deliver:{delivery_id}" not in under_way
    ]
    run = state.session.run
    if run is None or run.result is None:
        return Plan(tuple(lost))
    drafts: list[Draft] = []
    effects: list[CallHooks | Deliver] = [
        effect for effect in hooks.due(state, AFTER_RUN_TERMINAL, rules=rules) if effect.key not in under_way
    ]
    if run.status is RunStatus.COMPLETED and run.job is None:
        for sink in rules.sinks:
            _deliver(state, run, sink, now, drafts=drafts, effects=effects)
    return Plan((*lost, *drafts), tuple(effects))


def settle(state: LoopState, event: DeliverySettled, *, now: Moment) -> list[Draft]:
    """Return the record of a delivery's outcome; none if it is already recorded."""
    if event.delivery_id not in state.deliveries.open_ids:
        return []
    delivery = state.deliveries.by_id[event.delivery_id]
    ids = _ids(delivery)
    if event.error is not None:
        return [_about(delivery, records.DeliveryFailed(error=event.error, **ids), now)]
    if event.reason is not None:
        return [_about(delivery, records.DeliveryUnknown(reason=event.reason, **ids), now)]
    return [_about(delivery, records.DeliveryCompleted(receipt=event.receipt, **ids), now)]


def _deliver(
    state: LoopState,
    run: RunState,
    sink: SinkRule,
    now: Moment,
    *,
    drafts: list[Draft],
    effects: list[CallHooks | Deliver],
) -> None:
    delivery_id = join_ids(run.run_id, sink.sink_id)
    result = run.result
    if result is None or delivery_id in state.deliveries.by_id:
        return
    key = dedupe_key(sink, run)
    ids: DeliveryIds = {"delivery_id": delivery_id, "sink_id": sink.sink_id}
    if key in state.deliveries.keys or any(
        isinstance(effect, Deliver) and effect.dedupe_key == key for effect in effects
    ):
        drafts.append(_draft(run, records.DeliveryDeduped(dedupe_key=key, run_id=run.run_id, **ids), now))
        return
    is_typed = "structured_output" in result.model_fields_set
    kind = FINAL_VALIDATED_OUTPUT if is_typed else FINAL_MESSAGE
    intended = records.DeliveryIntended(dedupe_key=key, kind=kind, run_id=run.run_id, **ids)
    drafts.append(_draft(run, intended, now))
    effects.append(Deliver(delivery_id, sink.sink_id, key, kind, run))


def dedupe_key(sink: SinkRule, run: RunState) -> str:
    """Return the deduplication key of a delivery; a sink accepts each key once."""
    match sink.dedupe:
        case Dedupe.RUN:
            return join_ids(run.run_id, sink.sink_id)
        case Dedupe.SESSION:
            return join_ids(run.session_id, sink.sink_id)
        case Dedupe.OUTPUT:
            return join_ids(_digest(run.result), sink.sink_id)
        case _:
            assert_never(sink.dedupe)


def _digest(result: RunResult | None) -> str:
    """Return the digest of an output: of its canonical JSON, or of its text."""
    assert result is not None, "only a run that has ended has an output"
    if "structured_output" in result.model_fields_set:
        return "sha256:" + sha256(canonical(result.structured_output, _LIMITS)).hexdigest()
    return "sha256:" + sha256((result.output or "").encode("utf-8", "surrogatepass")).hexdigest()


def _unknown(delivery: DeliveryState, now: Moment) -> Draft:
    return _about(delivery, records.DeliveryUnknown(reason=INTERRUPTED, **_ids(delivery)), now)


class DeliveryIds(TypedDict):
    """The ids in the records of a delivery."""

    delivery_id: str
    sink_id: str


def _ids(delivery: DeliveryState) -> DeliveryIds:
    return {"delivery_id": delivery.delivery_id, "sink_id": delivery.sink_id}


def _about(delivery: DeliveryState, body: Body, now: Moment) -> Draft:
    return Draft(body.TYPE, now.at, body, run_id=delivery.run_id)


def _draft(run: RunState, body: Body, now: Moment) -> Draft:
    return Draft(body.TYPE, now.at, body, run_id=run.run_id, agent_id=run.agent_id)
