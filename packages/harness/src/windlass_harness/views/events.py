"""Feed events as events of the simple chat stream."""

from collections.abc import Callable, Iterable
from typing import Final

from windlass_harness.record import body_of
from windlass_harness.views.payloads import tool_call, tool_result
from windlass_harness.views.stream import CallRequested, CallSettled, Change, TextDelta
from windlass_protocol import Event, JsonObject, SSEEvent, SSEEventType
from windlass_protocol.generated import records

SLIM_TYPES: Final = frozenset({"message.appended", "reasoning.appended", "action.input.appended"})
"""Text deltas: a feed of slim deltas sends them short."""
SHARED_FIELDS: Final = frozenset({"sequence", "stepIndex", "turnId"})
"""Fields in the data of a text delta that the next ones of its step share with it."""


def to_sse(event: Event, changes: Iterable[Change]) -> tuple[SSEEvent, ...]:
    """Return the events of the simple chat stream for a feed event; many have none.

    `changes` are those that `ChatFold` makes of the event. Text comes in deltas, each with the id of its
    chat message. A text that comes whole replaces its deltas; its `event` is then `message.completed`. Each
    call and each result is a separate event, and a result carries the `id` of its call. The failure of a step
    is repeated as that of its turn and its session, with the same code. A stream ends at `done`.
    """
    passed_on = _PASSED_ON.get(event.type)
    shown = [event_part for change in changes for event_part in _events_of(change)]
    return tuple(shown) if passed_on is None else (*shown, *passed_on(event))


def _events_of(change: Change) -> Iterable[SSEEvent]:
    match change:
        case TextDelta(kind="text"):
            name = records.MessageCompleted.TYPE if change.is_whole else None
            text, message_id = change.delta, change.message_id
            yield SSEEvent(type=SSEEventType.CONTENT, content=text, message_id=message_id, event=name)
        case CallRequested():
            call = tool_call(change.action)
            payload: JsonObject = {"id": call.id, "name": call.name, "arguments": call.arguments}
            yield SSEEvent(type=SSEEventType.TOOL_CALL, payload=payload)
        case CallSettled(result=records.ActionResult()):
            result = tool_result(change.call_id, change.output)
            yield SSEEvent(type=SSEEventType.TOOL_RESULT, payload=result.model_dump(mode="json"))
        case _:
            pass


def _error(event: Event) -> Iterable[SSEEvent]:
    body = body_of(event)
    assert isinstance(body, records.StepFailed | records.TurnFailed | records.SessionFailed)
    yield SSEEvent(type=SSEEventType.ERROR, code=body.code, message=body.message)


def _error_and_done(event: Event) -> Iterable[SSEEvent]:
    yield from _error(event)
    yield from _done(event)


def _budget_events(event: Event) -> Iterable[SSEEvent]:
    yield SSEEvent(type=SSEEventType.BUDGET_EXHAUSTED, event=event.type, payload=event.data)
    yield from _done(event)


def _done(event: Event) -> Iterable[SSEEvent]:
    yield SSEEvent(type=SSEEventType.DONE, event=event.type)


def _agent(event: Event) -> Iterable[SSEEvent]:
    """Show open and settled requests; a client that knows requests can render them."""
    yield SSEEvent(type=SSEEventType.AGENT, event=event.type, payload=event.data)


def _orchestration(event: Event) -> Iterable[SSEEvent]:
    body = body_of(event)
    assert isinstance(body, records.SubagentCalled | records.SubagentCompleted)
    yield SSEEvent(
        type=SSEEventType.ORCHESTRATION, event=event.type, task_id=body.call_id, payload=event.data
    )


_PASSED_ON: Final[dict[str, Callable[[Event], Iterable[SSEEvent]]]] = {
    records.InputRequested.TYPE: _agent,
    records.InputResolved.TYPE: _agent,
    records.SubagentCalled.TYPE: _orchestration,
    records.SubagentCompleted.TYPE: _orchestration,
    records.StepFailed.TYPE: _error,
    records.TurnFailed.TYPE: _error,
    records.SessionFailed.TYPE: _error_and_done,
    records.RunCompleted.TYPE: _done,
    records.RunFailed.TYPE: _done,
    records.RunCancelled.TYPE: _done,
    records.RunBudgetExhausted.TYPE: _budget_events,
    records.SessionWaiting.TYPE: _done,
    records.SessionCompleted.TYPE: _done,
}
