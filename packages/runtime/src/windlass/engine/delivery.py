"""Deliveries of outputs to sinks, with retries."""

from collections.abc import Mapping

from windlass.agent.agent import receipt_of
from windlass.engine.deadline import Raised, TimedOut, run_with_deadline
from windlass.errors import AgentError, Conflict, Denied, Rejected, Unavailable
from windlass.limits import (
    DELIVERY_ATTEMPTS_MAX,
    DELIVERY_RETRY_DELAY_MS,
    DELIVERY_TIMEOUT_MS,
)
from windlass.ports.clock import Clock
from windlass.ports.host import Delivery, OutputSink
from windlass_harness.loop.events import (
    Deliver,
    DeliverySettled,
)
from windlass_protocol import (
    ErrorCode,
    ErrorInfo,
    ErrorKind,
    JsonObject,
    RetryClass,
)


async def deliver(sinks: Mapping[str, OutputSink], effect: Deliver, *, clock: Clock) -> DeliverySettled:
    """Deliver an output to its sink; retry only if the sink reports that nothing happened.

    Raises nothing but cancellation: the outcome is then unknown, and recovery records it so.
    """
    sink = sinks.get(effect.sink_id)
    if sink is None:
        return DeliverySettled(effect.delivery_id, error=_unknown_sink(effect.sink_id))
    for attempt in range(DELIVERY_ATTEMPTS_MAX - 1):
        settled = await _attempt(sink, effect)
        if settled.error is None or settled.error.retry is not RetryClass.RETRYABLE:
            return settled
        await clock.sleep(DELIVERY_RETRY_DELAY_MS * 2**attempt / 1_000)
    return await _attempt(sink, effect)


async def _attempt(sink: OutputSink, effect: Deliver) -> DeliverySettled:
    delivery_id = effect.delivery_id
    outcome = await run_with_deadline(_call_sink(sink, _output(effect)), DELIVERY_TIMEOUT_MS / 1_000)
    if isinstance(outcome, TimedOut):
        reason = f"The sink did not answer within {DELIVERY_TIMEOUT_MS:,} ms."
        return DeliverySettled(delivery_id, reason=reason)
    if not isinstance(outcome, Raised):
        return DeliverySettled(delivery_id, receipt=receipt_of(outcome.value))
    error = outcome.error
    if isinstance(error, Unavailable | Rejected | Denied | Conflict):
        return DeliverySettled(delivery_id, error=error.info())
    message = error.message if isinstance(error, AgentError) else "the outcome is unknown"
    return DeliverySettled(delivery_id, reason=f"The sink failed with {type(error).__name__}: {message}")


async def _call_sink(sink: OutputSink, output: Delivery) -> JsonObject | None:
    return await sink.deliver(output)


def _output(effect: Deliver) -> Delivery:
    run = effect.run
    assert run.result is not None, "only the output of a run that has ended is delivered"
    return Delivery(
        effect.delivery_id,
        effect.dedupe_key,
        effect.sink_id,
        session_id=run.session_id,
        run_id=run.run_id,
        agent_id=run.agent_id,
        kind=effect.kind,
        output=run.result.output or "",
        structured_output=run.result.structured_output,
    )


def _unknown_sink(sink_id: str) -> ErrorInfo:
    return ErrorInfo(
        code=ErrorCode.REJECTED,
        kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
        message=f"this process has no output sink {sink_id}",
    )
