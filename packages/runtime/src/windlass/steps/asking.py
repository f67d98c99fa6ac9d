"""Asking the model: streamed, within its time, and again when that may help."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pydantic import JsonValue

from windlass.engine.answer import Collector, elapsed_ms
from windlass.engine.listening import Asked, listen
from windlass.engine.masking import MaskedAnswer
from windlass.engine.results import broken_off, model_error
from windlass.errors import is_for_us, is_told_to_end
from windlass.limits import MODEL_TIMEOUT_MS
from windlass.ports.model import LLMMessage, LLMProvider
from windlass.steps.run import StepRun, at
from windlass_harness.loop.events import ModelAnswered
from windlass_harness.retry import next_retry_delay_ms, should_retry
from windlass_protocol import ErrorCode, ErrorInfo, ErrorKind, JsonObject, RetryClass

NUDGE: Final = "Your last answer was empty. Go on with the task: answer, or call a tool."
_EMPTY: Final = ErrorInfo(
    code=ErrorCode.UNAVAILABLE,
    kind=ErrorKind.PROVIDER_FAILURE,
    retry=RetryClass.REPAIR_NEEDED,
    message="the model gave an empty answer, also when it was asked again",
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is asked."""

    provider: LLMProvider
    messages: Sequence[LLMMessage]
    tools: tuple[JsonObject, ...] = ()
    temperature: float | None = None
    is_shown: bool = True
    """Whether the answer is shown while it is written."""


class _Live:
    """Keeps the pieces of an answer until they can be shown; see `LiveAnswer`."""

    def __init__(self, run: StepRun, *, is_shown: bool) -> None:
        self._run = run
        self._is_shown = is_shown
        self._pieces: list[tuple[str, JsonObject]] = []

    def text(self, delta: str) -> None:
        """Keep a piece of the answer."""
        if delta:
            self._pieces.append(("message.appended", {"messageDelta": delta}))

    def reasoning(self, delta: str) -> None:
        """Keep a piece of the reasoning."""
        if delta:
            self._pieces.append(("reasoning.appended", {"reasoningDelta": delta}))

    def tool_input(self, call_id: str, delta: str, *, tool_name: str | None = None) -> None:
        """Arguments are shown when they are whole."""

    def partial(self, call_id: str, output: JsonValue, *, tool_name: str | None = None) -> None:
        """Calls begin after the answer."""

    def show(self, event_type: str, data: JsonObject) -> None:
        """There is nothing else."""

    def close(self) -> None:
        """Forget what was not shown."""
        self._pieces.clear()

    async def flush(self) -> None:
        """Show what there is."""
        pieces, self._pieces = self._pieces, []
        for event_type, data in pieces if self._is_shown else ():
            await self._run.emit(event_type, {**data, **at(self._run.place)})


async def ask_model(run: StepRun, prompt: Prompt) -> ModelAnswered | ErrorInfo:
    """Return the answer of the model, or why there is none.

    What passes is tried again after a wait. An empty answer is asked for once more, with a word about it.
    """
    config, tries, is_nudged = run.harness.config, 1, False
    while True:
        answer = await _converse(run, prompt)
        if isinstance(answer, ModelAnswered):
            if answer.text or answer.calls:
                return answer
            if is_nudged:
                return _EMPTY
            is_nudged, delay_ms, problem = True, 0, _EMPTY
            prompt = replace(prompt, messages=[*prompt.messages, LLMMessage("user", NUDGE)])
        elif should_retry(config.retry, tries, retry_class=answer.retry):
            problem = answer
            delay_ms = next_retry_delay_ms(
                config.retry, tries, run.harness.random, retry_after_ms=answer.retry_after_ms
            )
            tries += 1
        else:
            return answer
        if prompt.is_shown:
            await _tell_retry(run, problem, delay_ms)
        run.attempt += 1
        await run.harness.clock.sleep(delay_ms / 1000)


async def _tell_retry(run: StepRun, problem: ErrorInfo, delay_ms: int) -> None:
    data: JsonObject = {
        "code": problem.kind.value,
        "message": problem.message,
        "attempt": run.attempt,
        "delayMs": delay_ms,
    }
    await run.emit("step.retrying", {**data, **at(run.place)})


async def _converse(run: StepRun, prompt: Prompt) -> ModelAnswered | ErrorInfo:
    redactor, clock = run.harness.config.redactor, run.harness.clock
    live = _Live(run, is_shown=prompt.is_shown)
    collector = Collector(MaskedAnswer(live, redactor), redactor)
    started = clock.monotonic()
    asked = Asked(prompt.provider, prompt.messages, prompt.tools, prompt.temperature)
    try:
        await listen(asked, collector, most_s=MODEL_TIMEOUT_MS / 1000, after_chunk=live.flush)
        answer = collector.answer(latency_ms=elapsed_ms(clock, started))
        await live.flush()
    except asyncio.CancelledError:
        if is_told_to_end():
            raise
        return broken_off("answer")
    except BaseException as error:  # the model boundary: a provider may raise anything
        if is_for_us(error):
            raise
        run.spend(collector.usage)
        return model_error(error, redactor)
    run.spend(answer.usage)
    return answer
