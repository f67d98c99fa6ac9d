"""What an answer of the model comes to: calls are made, what is next is decided."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from windlass.steps.calls import Asked, Delegated, Ready, Refused, Sorted, action_of, sort_call
from windlass.steps.calls import Final as FinalCall
from windlass.steps.contract import StepFn, StepResult
from windlass.steps.output import LATER, NOT_FULFILLED, ONCE, REMINDER, SCHEMA_ID, check_final, told
from windlass.steps.performing import Outcome, output_as, perform, result_event, result_part, tool_part
from windlass.steps.run import StepRun, at, at_turn, dump
from windlass_harness.compaction import Origin, mark
from windlass_harness.loop.events import ModelAnswered, OutputChecked
from windlass_protocol import (
    ActionStatus,
    AssistantMessage,
    AssistantPart,
    FinishReason,
    JsonObject,
    PendingActionBatch,
    PendingInputBatch,
    ReasoningPart,
    StepDone,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)

_UNMET: Final = "the model gave no output that fits the schema, although it was told what is wrong"


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer whose calls have been looked at and, where that may be, made."""

    model: ModelAnswered
    items: tuple[Sorted, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def asked(self) -> tuple[Asked, ...]:
        return tuple(item for item in self.items if isinstance(item, Asked))

    @property
    def delegated(self) -> tuple[Delegated, ...]:
        return tuple(item for item in self.items if isinstance(item, Delegated))

    @property
    def final(self) -> FinalCall | None:
        return next((item for item in self.items if isinstance(item, FinalCall)), None)

    @property
    def parts(self) -> tuple[ToolResultPart, ...]:
        """The results there are."""
        return tuple(result_part(outcome) for outcome in self.outcomes)

    def message(self, *, without: str | None = None) -> AssistantMessage:
        """Return the answer as the history has it; one call may be left out."""
        model = self.model
        parts: list[AssistantPart] = []
        if model.reasoning or model.provider_data:
            parts.append(ReasoningPart(text=model.reasoning, provider_options=model.provider_data))
        if model.text:
            parts.append(TextPart(text=model.text))
        parts += [
            ToolCallPart(tool_call_id=call.call_id, tool_name=call.tool_name, input=call.input)
            for call in model.calls
            if call.call_id != without
        ]
        is_text = len(parts) == 1 and isinstance(parts[0], TextPart)
        return AssistantMessage(content=model.text if is_text else tuple(parts))


async def conclude(run: StepRun, model: ModelAnswered, *, again: StepFn) -> StepResult:
    """Make the calls of an answer, show what came of it, and say what is next."""
    await _tell_answer(run, model)
    items = _one_output([await sort_call(run, call) for call in model.calls])
    shown = [item for item in items if isinstance(item, Ready | Refused | Delegated)]
    if shown:
        actions: list[JsonValue] = [dump(action_of(item)) for item in shown]
        await run.emit("actions.requested", {"actions": actions, **at(run.place)})
    todo = [item for item in items if isinstance(item, Ready | Refused)]
    outcomes = await perform(run, todo, place=run.place)
    for outcome in outcomes:
        event = result_event(outcome, run.place)
        await run.emit(event.type, event.data)
    completed: JsonObject = {"finishReason": model.finish_reason.value, **at(run.place)}
    if model.usage:
        completed["usage"] = model.usage
    if model.latency_ms is not None:
        completed["latencyMs"] = model.latency_ms
    await run.emit("step.completed", completed)
    return await _next(run, _Answer(model, items, outcomes), again)


def _one_output(items: Sequence[Sorted]) -> tuple[Sorted, ...]:
    """Refuse all outputs of an answer but the first."""
    first = next((item for item in items if isinstance(item, FinalCall)), None)
    return tuple(
        Refused(item.call, "repeated", ONCE) if isinstance(item, FinalCall) and item is not first else item
        for item in items
    )


async def _tell_answer(run: StepRun, model: ModelAnswered) -> None:
    if model.reasoning or model.provider_data:
        thought: JsonObject = {"reasoning": model.reasoning, **at(run.place)}
        if model.provider_data:
            thought["providerMetadata"] = model.provider_data
        await run.emit("reasoning.completed", thought)
    if model.text:
        reason = FinishReason.TOOL_CALLS if model.calls else model.finish_reason
        data: JsonObject = {"message": model.text, "finishReason": reason.value}
        await run.emit("message.completed", {**data, **at(run.place)})


async def _next(run: StepRun, answer: _Answer, again: StepFn) -> StepResult:
    if answer.asked or answer.delegated:
        return await _park(run, answer)
    if answer.final is not None:
        return await _take_output(run, answer, answer.final, again=again)
    if not answer.model.calls:
        return await _take_text(run, answer, again)
    run.say(answer.message(), ToolMessage(content=answer.parts))
    last = next((outcome for outcome in answer.outcomes if outcome.is_terminal), None)
    if last is not None:
        returned = last.returned
        is_error = returned.status is not ActionStatus.COMPLETED
        return await finish(run, returned.message if is_error else returned.output, is_error=is_error)
    return _go_on(run, again)


def _go_on(run: StepRun, again: StepFn) -> StepResult:
    place = run.place
    run.change(place=place.model_copy(update={"step_index": place.step_index + 1}))
    return StepResult(again, run.saved())


# waiting


async def _park(run: StepRun, answer: _Answer) -> StepResult:
    parts = list(answer.parts)
    if answer.final is not None:
        parts.append(_final_part(answer.final, LATER))
    run.change(pending_messages=(answer.message(), ToolMessage(content=tuple(parts))))
    if answer.delegated:
        actions = tuple(item.action for item in answer.delegated)
        run.change(pending_action_batch=PendingActionBatch(event=run.place, actions=actions))
    if answer.asked:
        requests = tuple(item.request for item in answer.asked)
        run.change(pending_input_batch=PendingInputBatch(event=run.place, requests=requests))
        shown: list[JsonValue] = [dump(request) for request in requests]
        await run.emit("input.requested", {"requests": shown, **at(run.place)})
        await _tell_wait(run)
    return StepResult(None, run.saved())


async def _tell_wait(run: StepRun) -> None:
    if run.is_one_turn:
        await run.emit("turn.waiting", {"on": "input", **at_turn(run.place)})
        return
    run.change(is_turn_open=False)
    if not run.harness.is_task:
        await run.emit("turn.completed", at_turn(run.place))
        await run.emit("session.waiting", {"wait": "next-user-message"})


# output


async def _take_output(run: StepRun, answer: _Answer, final: FinalCall, *, again: StepFn) -> StepResult:
    schema = run.session.output_schema
    assert schema is not None, "only a schema has a tool for the output"
    checked = check_final(schema, final.call.input)
    if checked.errors:
        parts = (*answer.parts, _final_part(final, told(checked.errors)))
        order = [call.call_id for call in answer.model.calls]
        ordered = sorted(parts, key=lambda part: order.index(part.tool_call_id))
        run.say(answer.message(), ToolMessage(content=tuple(ordered)))
        return await _reask(run, checked, again)
    if answer.parts:
        others = answer.message(without=final.call.call_id)
        run.say(others, ToolMessage(content=answer.parts))
    run.say(AssistantMessage(content=to_json(checked.value).decode()))
    run.session = run.session.model_copy(update={"output_schema": None})
    await run.emit("result.completed", {"result": checked.value, **at(run.place)})
    return await finish(run, checked.value)


async def _take_text(run: StepRun, answer: _Answer, again: StepFn) -> StepResult:
    run.say(answer.message())
    if run.session.output_schema is None:
        return await finish(run, answer.model.text)
    run.say(mark(UserMessage(content=REMINDER), Origin.CONTEXT))
    return await _reask(run, OutputChecked(None), again)


async def _reask(run: StepRun, checked: OutputChecked, again: StepFn) -> StepResult:
    """Ask for the output once more, but not for ever."""
    attempt = (run.state.output_attempts or 0) + 1
    run.change(output_attempts=attempt)
    errors: list[JsonValue] = [dump(error) for error in checked.errors]
    await run.emit("output.rejected", {"schemaId": SCHEMA_ID, "attempt": attempt, "errors": errors})
    if attempt > run.harness.config.output_repairs_max:
        return await fail_step(run, NOT_FULFILLED, message=_UNMET)
    return _go_on(run, again)


def _final_part(final: FinalCall, words: str) -> ToolResultPart:
    return tool_part(final.call.call_id, final.call.tool_name, output=output_as(words, is_error=True))


# ends


async def finish(run: StepRun, output: JsonValue, *, is_error: bool = False) -> StepResult:
    """End the turn; a task is over with it."""
    await run.emit("turn.completed", {**at_turn(run.place), **_usage(run)})
    run.change(is_turn_open=False)
    if not run.harness.is_task:
        await run.emit("session.waiting", {"wait": "next-user-message"})
        return StepResult(None, run.saved())
    await run.emit("session.completed", {})
    done = StepDone(output=output, is_error=True) if is_error else StepDone(output=output)
    return StepResult(done, run.saved())


async def fail_step(run: StepRun, code: str, *, message: str, is_terminal: bool = False) -> StepResult:
    """End the turn with a failure; a conversation can go on unless it is terminal."""
    problem: JsonObject = {"code": code, "message": message}
    await run.emit("step.failed", {**problem, **at(run.place)})
    is_over = is_terminal or run.harness.is_task
    await run.emit("turn.failed", {**problem, **at_turn(run.place), "terminal": is_over, **_usage(run)})
    run.change(is_turn_open=False)
    if not is_over:
        await run.emit("session.waiting", {"wait": "next-user-message"})
        return StepResult(None, run.saved())
    await run.emit("session.failed", {**problem, "sessionId": run.session.session_id})
    return StepResult(StepDone(output="" if is_terminal else message, is_error=True), run.saved())


def _usage(run: StepRun) -> JsonObject:
    usage = run.state.turn_usage
    return {} if usage is None else {"usage": dump(usage)}
