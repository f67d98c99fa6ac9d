"""Compaction of a history: reminders of tools, and a summary written by a model."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, cast

from pydantic import JsonValue

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
from windlass.engine.masking import MaskedAnswer
from windlass.engine.model_call import Collector, ModelRequest, listen, to_llm
from windlass.engine.provider_limits import ProviderTurn
from windlass.engine.results import broken_off, model_error
from windlass.errors import is_for_us, is_told_to_end
from windlass.limits import ON_COMPACTION_TIMEOUT_MS, REMINDER_CHARS_MAX, REMINDERS_PER_TOOL_MAX
from windlass.ports.model import ModelFault, ModelUnavailable, window_tokens
from windlass.tools import Tool
from windlass.tools.context import CompactionContext, SessionValues
from windlass_harness.compaction import CompactionPlan, completed_data, plan, plan_eviction, summary_request
from windlass_harness.loop.events import Compact, CompactionBroken, HistoryCompacted, ModelAnswered
from windlass_harness.loop.state import LoopState
from windlass_protocol import (
    ErrorCode,
    ErrorInfo,
    ErrorKind,
    FinishReason,
    JsonObject,
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
_USABLE: Final = frozenset({FinishReason.STOP, FinishReason.LENGTH, FinishReason.OTHER})
"""Finish reasons of a usable summary; a summary cut at the output limit is usable."""


@frozen
class SummaryLimits:
    """Time limit of a summary, the random number that spreads retries, and the limit of the provider."""

    limit_ms: int
    chance: float
    begin_turn: Callable[[], Awaitable[ProviderTurn]]


async def compact(
    binding: Binding, state: LoopState, *, effect: Compact, patience: SummaryLimits
) -> HistoryCompacted | CompactionBroken:
    """Compact the history; a failure is returned as an event."""
    pinned = await _reminders(binding, state)
    messages = tuple(state.session.history.messages)
    made = plan(
        messages,
        effect.config,
        overhead_tokens=effect.overhead_tokens,
        on_compaction=pinned,
        summary_window_tokens=binding.summary_window or window_tokens(binding.summary_provider),
    )
    if made.is_empty:
        return CompactionBroken(_NOTHING, NOTHING_TO_COMPACT)
    if not made.needs_summary:
        return HistoryCompacted(_data(binding, state, made))
    answer = await _summarise(binding, summary_request(made, messages), patience)
    if isinstance(answer, CompactionBroken):
        evicted = plan_eviction(messages, effect.config, overhead_tokens=effect.overhead_tokens)
        return replace(answer, fallback=None if evicted.is_empty else _data(binding, state, evicted))
    return HistoryCompacted(_data(binding, state, made, answer.text), usage=answer.usage)


def _data(
    binding: Binding, state: LoopState, made: CompactionPlan, summary: str | None = None
) -> records.CompactionCompleted:
    turn = state.session.turn
    assert turn is not None, "only a session with a history is compacted"
    return completed_data(
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
        texts += await _told_by(tool, context)
    return [*(UserMessage(content=text) for text in texts), *_told_by_host(binding)]


def _told_by_host(binding: Binding) -> Sequence[ModelMessage]:
    if binding.on_compaction is None:
        return ()
    try:
        return binding.on_compaction()
    except Exception as error:  # noqa: BLE001 - the host's code: the history is compacted all the same
        _LOG.warning("on_compaction of the host failed: %s", type(error).__name__)
        return ()


async def _told_by(tool: Tool[..., object], context: CompactionContext) -> list[str]:
    if tool.on_compaction is None:
        return []
    try:
        asked = cast(Sequence[object] | Awaitable[Sequence[object]], tool.on_compaction(context))
        told = await await_within(asked, ON_COMPACTION_TIMEOUT_MS)
        texts = [text for text in told if isinstance(text, str) and text.strip()]
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


async def _listened(asked: ModelRequest, collector: Collector, most_s: float) -> None:
    """Call the model; a provider that ignores cancellation is abandoned."""
    work = listen(asked, collector, most_s=most_s, deadlines=Deadlines())
    match await run_with_deadline(work, most_s + LEAVE_S, is_patient=True):
        case TimedOut():
            raise TimeoutError
        case Raised(error):
            raise error
        case _:
            pass


async def _summarise(
    binding: Binding, request: Sequence[ModelMessage], patience: SummaryLimits
) -> ModelAnswered | CompactionBroken:
    collector = Collector(MaskedAnswer(_Unseen(), binding.redactor), binding.redactor)
    messages = [one for message in request for one in to_llm(message)]
    asked = ModelRequest(binding.summary_provider, messages, temperature=0)
    turn: ProviderTurn | None = None
    try:
        turn = await patience.begin_turn()
        await _listened(asked, collector, patience.limit_ms / 1_000)
        answer = collector.answer(latency_ms=0)
        if answer.text.strip() and answer.finish_reason in _USABLE:
            return answer
        failure = _no_summary(answer.finish_reason)
    except asyncio.CancelledError:
        if is_told_to_end():
            raise
        failure = broken_off("summary")
    except BaseException as error:  # model boundary: a provider may raise anything
        if turn is not None:
            turn.end(error, usage=collector.usage)
        if is_for_us(error):
            raise
        failure = model_error(error, binding.redactor)
    finally:
        if turn is not None:
            turn.end(usage=collector.usage)
    if failure.retry_after_ms is not None:
        # A provider's retry-after must not exceed the time limit of the run.
        wait_ms = min(failure.retry_after_ms, patience.limit_ms)
        failure = failure.model_copy(update={"retry_after_ms": wait_ms})
    return CompactionBroken(
        failure,
        model_id=binding.summary_model_id,
        chance=patience.chance,
        usage=collector.usage,
    )


def _no_summary(reason: FinishReason) -> ErrorInfo:
    # A fault of an answer, not an outage: more than a few attempts cost tokens and do not help.
    message = f"the model wrote no summary (finish reason: {reason.value})"
    return ModelUnavailable(message, fault=ModelFault.EMPTY).info()


class _Unseen:
    """A live answer that shows nothing: summaries are not streamed."""

    def text(self, delta: str) -> None:
        """Show nothing."""

    def reasoning(self, delta: str) -> None:
        """Show nothing."""

    def tool_input(self, call_id: str, delta: str, *, tool_name: str | None = None) -> None:
        """Show nothing."""

    def partial(self, call_id: str, output: JsonValue, *, tool_name: str | None = None) -> None:
        """Show nothing."""

    def show(self, event_type: str, data: JsonObject) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Forget nothing."""
