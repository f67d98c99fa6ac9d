"""Compaction of a history: reminders of tools, and a summary written by a model."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final, cast

from windlass.engine.binding import Binding
from windlass.engine.deadline import (
    LEAVE_S,
    DeadlineExceeded,
    Deadlines,
    Raised,
    TimedOut,
    await_within,
    run_with_deadline,
)
from windlass.engine.model_calls.model_call import Collector, ModelRequest, listen, to_llm
from windlass.engine.spending.provider_limits import ProviderSlot
from windlass.engine.spending.spend_limits import SummaryTooDear
from windlass.engine.tool_calls.results import broken_off, model_error
from windlass.engine.writing.masking import MaskedAnswer, UnseenAnswer
from windlass.errors import is_for_us, is_told_to_end
from windlass.limits import ON_COMPACTION_TIMEOUT_MS, REMINDER_CHARS_MAX, REMINDERS_PER_TOOL_MAX
from windlass.ports.model import ModelFault, ModelUnavailable, is_unpaid, window_tokens
from windlass.prices import shorten_answer
from windlass.tools import Tool
from windlass.tools.calling import in_masking_thread
from windlass.tools.context import CompactionContext, SessionValues
from windlass_harness.compaction import (
    CompactionPlan,
    completion_data,
    estimate_tokens,
    plan,
    plan_eviction,
    summary_request,
)
from windlass_harness.loop.events import Compact, CompactionBroken, HistoryCompacted, ModelAnswered
from windlass_harness.loop.state import LoopState
from windlass_protocol import (
    ErrorCode,
    ErrorInfo,
    ErrorKind,
    FinishReason,
    ModelMessage,
    RetryClass,
    UserMessage,
)
from windlass_protocol.frozen import frozen
from windlass_protocol.generated import records

_LOG: Final = logging.getLogger(__name__)


NOTHING_TO_COMPACT: Final = "nothing_to_compact"
_NOTHING: Final = ErrorInfo.model_construct(
    code=ErrorCode.REJECTED,
    kind=ErrorKind.PROJECTION_FAILURE,
    retry=RetryClass.NOT_RETRYABLE,
    message="The history has no messages that a compaction can remove; it is unchanged.",
)
LIMIT_REACHED: Final = "limit_reached"
_USABLE: Final = frozenset({FinishReason.STOP, FinishReason.LENGTH, FinishReason.OTHER})
"""Finish reasons of a usable summary; a summary cut at the output limit is usable."""


@frozen
class SummaryLimits:
    """Time limit of a summary, the random number that spreads retries, the provider's limit, the clock."""

    limit_ms: int
    chance: float
    slot: ProviderSlot
    take_slot: Callable[[], Awaitable[None]]
    now: Callable[[], datetime]
    reserve: Callable[[Binding, int], Awaitable[int | None]]
    """Sets aside what a summary of so many tokens may cost; returns the tokens of its longest answer."""


async def compact(
    binding: Binding, state: LoopState, *, effect: Compact, limits: SummaryLimits
) -> HistoryCompacted | CompactionBroken:
    """Compact the history; a failure is returned as an event.

    Each message of a long history is written as JSON to be measured, so the plan is made in a thread.
    """
    pinned = await _reminders(binding, state)
    messages = tuple(state.session.history.messages)
    overhead_tokens = effect.overhead_tokens
    make_plan = partial(
        plan,
        messages,
        effect.config,
        overhead_tokens=overhead_tokens,
        on_compaction=pinned,
        summary_window_tokens=binding.summary_window or window_tokens(binding.summary_provider),
    )
    made = await in_masking_thread(make_plan)
    if made.is_empty:
        return CompactionBroken(_NOTHING, NOTHING_TO_COMPACT)
    if not made.needs_summary:
        return HistoryCompacted(_data(binding, state, made))
    prompt = await in_masking_thread(partial(summary_request, made, messages))
    answer = await _summarise(binding, prompt, limits)
    if isinstance(answer, CompactionBroken):
        evict = partial(plan_eviction, messages, effect.config, overhead_tokens=overhead_tokens)
        evicted = await in_masking_thread(evict)
        return replace(answer, fallback=None if evicted.is_empty else _data(binding, state, evicted))
    return HistoryCompacted(_data(binding, state, made, answer.text), usage=answer.usage, price=answer.price)


def _data(
    binding: Binding, state: LoopState, made: CompactionPlan, summary: str | None = None
) -> records.CompactionCompleted:
    turn = state.session.turn
    assert turn is not None, "only a session with a history is compacted"
    return completion_data(
        made, summary, model_id=binding.summary_model_id, sequence=turn.sequence, turn_id=turn.turn_id
    )


# reminders of tools and of the application


async def _reminders(binding: Binding, state: LoopState) -> list[ModelMessage]:
    """Return the messages that tools want after the summary."""
    run = state.session.run
    assert run is not None, "only a session with a history is compacted"
    values = SessionValues(state.session.authored)
    context = CompactionContext(run.session_id, run.run_id, agent_id=run.agent_id, state=values)
    texts: list[str] = []
    for tool in binding.tools.values():
        texts += await _tool_notes(tool, context)
    return [*(UserMessage(content=text) for text in texts), *_host_messages(binding)]


def _host_messages(binding: Binding) -> Sequence[ModelMessage]:
    if binding.on_compaction is None:
        return ()
    try:
        return binding.on_compaction()
    except Exception as error:  # noqa: BLE001 - the host's code: the history is compacted all the same
        _LOG.warning("on_compaction of the host failed: %s", type(error).__name__)
        return ()


async def _tool_notes(tool: Tool[..., object], context: CompactionContext) -> list[str]:
    if tool.on_compaction is None:
        return []
    try:
        answer = cast(Sequence[object] | Awaitable[Sequence[object]], tool.on_compaction(context))
        items = await await_within(answer, ON_COMPACTION_TIMEOUT_MS)
        texts = [text for text in items if isinstance(text, str) and text.strip()]
    except DeadlineExceeded:
        _LOG.warning("on_compaction of tool %s took over %d ms", tool.name, ON_COMPACTION_TIMEOUT_MS)
        return []
    except BaseException as error:  # tool boundary: compaction continues without its reminder
        if is_for_us(error):
            raise
        _LOG.warning("on_compaction of tool %s failed: %s", tool.name, type(error).__name__)
        return []
    return [text[:REMINDER_CHARS_MAX] for text in texts[:REMINDERS_PER_TOOL_MAX]]


# the summary


async def _call_model(model_request: ModelRequest, collector: Collector, most_s: float) -> None:
    """Call the model; a provider that ignores cancellation is abandoned."""
    work = listen(model_request, collector, most_s=most_s, deadlines=Deadlines())
    match await run_with_deadline(work, most_s + LEAVE_S, is_patient=True):
        case TimedOut():
            raise TimeoutError
        case Raised(error):
            raise error
        case _:
            pass


async def _summarise(
    binding: Binding, request: Sequence[ModelMessage], limits: SummaryLimits
) -> ModelAnswered | CompactionBroken:
    live = MaskedAnswer(UnseenAnswer(), binding.redactor)
    collector = Collector(live, binding.redactor, tariff=binding.summary_tariff)
    messages = [part for message in request for part in to_llm(message)]
    try:
        longest = await limits.reserve(binding, sum(map(estimate_tokens, request)))
    except SummaryTooDear as error:
        return CompactionBroken(error.info(), LIMIT_REACHED, exceeded=error.exceeded)
    provider = shorten_answer(binding.summary_provider, longest)
    model_request = ModelRequest(provider, messages, temperature=0)
    try:
        await limits.take_slot()
        collector.asked_at = limits.now()
        await _call_model(model_request, collector, limits.limit_ms / 1_000)
        answer = collector.answer(latency_ms=0)
        if answer.text.strip() and answer.finish_reason in _USABLE:
            return answer
        failure = _no_summary(answer.finish_reason)
    except asyncio.CancelledError:
        if is_told_to_end():
            raise
        failure = broken_off("summary")
    except BaseException as error:  # model boundary: a provider may raise anything
        limits.slot.free(error, usage=collector.usage)
        if is_for_us(error):
            raise
        collector.is_refused = is_unpaid(error)
        failure = model_error(error, binding.redactor)
    finally:
        limits.slot.free(usage=collector.usage)
    if failure.retry_after_ms is not None:
        # A provider's retry-after must not exceed the time limit of the run.
        wait_ms = min(failure.retry_after_ms, limits.limit_ms)
        failure = failure.model_copy(update={"retry_after_ms": wait_ms})
    bill = collector.bill()
    return CompactionBroken(
        failure,
        model_id=binding.summary_model_id,
        chance=limits.chance,
        usage=bill.usage,
        price=bill.price,
    )


def _no_summary(reason: FinishReason) -> ErrorInfo:
    # A fault of an answer, not an outage: more than a few attempts cost tokens and do not help.
    message = f"the model wrote no summary (finish reason: {reason.value})"
    return ModelUnavailable(message, fault=ModelFault.EMPTY).info()
