"""Making room in the history before the model is asked."""

import logging
from collections.abc import Sequence
from typing import Final

from windlass.engine.judge import settled
from windlass.engine.prompt import to_llm
from windlass.engine.results import model_error
from windlass.steps.asking import Prompt, ask_model
from windlass.steps.run import StepRun, at, dump
from windlass_harness.compaction import (
    CompactionPlan,
    apply,
    completed_data,
    plan,
    should_compact,
    summary_request,
)
from windlass_protocol import (
    ErrorCode,
    ErrorInfo,
    ErrorKind,
    JsonObject,
    ModelMessage,
    ModelReference,
    RetryClass,
)

_LOG: Final = logging.getLogger(__name__)
COMPACTION_FAILED: Final = "COMPACTION_FAILED"
_NO_SUMMARY: Final = ErrorInfo(
    code=ErrorCode.UNAVAILABLE,
    kind=ErrorKind.PROVIDER_FAILURE,
    retry=RetryClass.REPAIR_NEEDED,
    message="the model gave no summary",
)


async def compact_history(run: StepRun, *, overhead_tokens: int) -> None:
    """Compact the history if the next call would read too much.

    If no summary can be had the history stays as it is, and `compaction.failed` says so.
    """
    session = run.session
    if not should_compact(session.history, session.compaction, overhead_tokens=overhead_tokens):
        return
    reference = session.agent.compaction_model_reference or session.agent.model_reference
    planned = plan(
        session.history,
        session.compaction,
        overhead_tokens=overhead_tokens,
        on_compaction=_put_back(run),
        summary_window_tokens=reference.context_window_tokens,
    )
    if planned.is_empty:
        return
    place = {**at(run.place), "sessionId": session.session_id}
    asked: JsonObject = {"modelId": reference.id, "usageInputTokens": planned.tokens_before}
    await run.emit("compaction.requested", {**asked, **place})
    summary = await _summary(run, planned, reference) if planned.needs_summary else None
    if isinstance(summary, ErrorInfo):
        await run.emit(
            "compaction.failed", {"code": COMPACTION_FAILED, "message": summary.message, **at(run.place)}
        )
        return
    done = completed_data(
        planned,
        summary,
        model_id=reference.id,
        sequence=run.place.sequence,
        turn_id=run.place.turn_id,
    )
    history = apply(planned, session.history, summary=summary)
    # What the provider counted was the history before.
    forgotten = {"last_known_input_tokens": None, "last_known_prompt_message_count": None}
    config = session.compaction.model_copy(update=forgotten)
    run.session = session.model_copy(update={"history": history, "compaction": config})
    await run.emit("compaction.completed", {**dump(done), **place})


async def _summary(
    run: StepRun, planned: CompactionPlan, reference: ModelReference
) -> str | ErrorInfo | None:
    try:
        provider = await settled(run.harness.config.resolve_model(reference))
    except Exception as error:  # noqa: BLE001 - the host's code: a model that cannot be had is a failed summary
        return model_error(error, run.harness.config.redactor)
    request = summary_request(planned, run.session.history)
    messages = [one for message in request for one in to_llm(message)]
    answer = await ask_model(run, Prompt(provider, messages, temperature=0.0, is_shown=False))
    if isinstance(answer, ErrorInfo):
        return answer
    return answer.text if answer.text.strip() else _NO_SUMMARY


def _put_back(run: StepRun) -> Sequence[ModelMessage]:
    on_compaction = run.harness.config.on_compaction
    if on_compaction is None:
        return ()
    try:
        return on_compaction()
    except Exception as error:  # noqa: BLE001 - the host's code: what it raises must not end the session
        _LOG.warning("on_compaction failed with %s", type(error).__name__)
        return ()
