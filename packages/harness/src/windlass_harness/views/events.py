"""Projections of records: feed events and Steerable SSE events."""

from collections.abc import Callable, Iterable
from typing import Final

from pydantic import JsonValue

from windlass_harness.record import Record
from windlass_harness.views.chat import step_message_id
from windlass_harness.views.fold import read, text_in
from windlass_harness.views.payloads import tool_call, tool_output, tool_result
from windlass_protocol import (
    ActionResultData,
    ActionsRequestedData,
    Event,
    EventMeta,
    MessageAppendedData,
    SSEEvent,
    SSEEventType,
    ToolCall,
)


def to_event(record: Record) -> Event:
    """Return the feed event of a record."""
    return Event(
        type=record.type,
        data=record.data,
        meta=EventMeta(
            at=record.at,
            id=record.event_id,
            attempt=record.attempt,
            position=record.position,
            privacy=record.privacy,
        ),
        session_id=record.session_id,
        seq=record.seq,
        run_id=record.run_id,
        agent_id=record.agent_id,
    )


def to_sse(event: Event) -> tuple[SSEEvent, ...]:
    """Return the events of the simple chat stream for a feed event; many have none.

    Text comes from live deltas only, each with the id of its chat message. Each call and each result is a
    separate event, and a result carries the `id` of its call. The failure of a step is repeated as that of
    its turn and its session, with the same code. A stream ends at `done`.
    """
    project = _PROJECTIONS.get(event.type)
    return () if project is None else tuple(project(event))


def _content(event: Event) -> Iterable[SSEEvent]:
    data = read(MessageAppendedData, event.data)
    message_id = None
    if event.session_id is not None:
        message_id = step_message_id(event.session_id, turn_id=data.turn_id, step_index=data.step_index)
    yield SSEEvent(type=SSEEventType.CONTENT, content=data.message_delta, message_id=message_id)


def _tool_calls(event: Event) -> Iterable[SSEEvent]:
    for action in read(ActionsRequestedData, event.data).actions:
        yield SSEEvent(type=SSEEventType.TOOL_CALL, payload=_payload(tool_call(action)))


def _payload(call: ToolCall) -> dict[str, JsonValue]:
    return {"id": call.id, "name": call.name, "arguments": call.arguments}


def _tool_result(event: Event) -> Iterable[SSEEvent]:
    data = read(ActionResultData, event.data)
    result = tool_result(data.result.call_id, tool_output(data))
    yield SSEEvent(type=SSEEventType.TOOL_RESULT, payload=result.model_dump(mode="json"))


def _error(event: Event) -> Iterable[SSEEvent]:
    code, message = text_in(event.data, "code"), text_in(event.data, "message")
    yield SSEEvent(type=SSEEventType.ERROR, code=code, message=message)


def _error_and_done(event: Event) -> Iterable[SSEEvent]:
    yield from _error(event)
    yield from _done(event)


def _exhausted(event: Event) -> Iterable[SSEEvent]:
    yield SSEEvent(type=SSEEventType.BUDGET_EXHAUSTED, event=event.type, payload=event.data)
    yield from _done(event)


def _done(event: Event) -> Iterable[SSEEvent]:
    yield SSEEvent(type=SSEEventType.DONE, event=event.type)


def _agent(event: Event) -> Iterable[SSEEvent]:
    """Show open and settled requests; a client that knows requests can render them."""
    yield SSEEvent(type=SSEEventType.AGENT, event=event.type, payload=event.data)


def _orchestration(event: Event) -> Iterable[SSEEvent]:
    call_id = text_in(event.data, "callId")
    yield SSEEvent(type=SSEEventType.ORCHESTRATION, event=event.type, task_id=call_id, payload=event.data)


_PROJECTIONS: Final[dict[str, Callable[[Event], Iterable[SSEEvent]]]] = {
    "message.appended": _content,
    "actions.requested": _tool_calls,
    "action.result": _tool_result,
    "input.requested": _agent,
    "input.resolved": _agent,
    "subagent.called": _orchestration,
    "subagent.completed": _orchestration,
    "step.failed": _error,
    "turn.failed": _error,
    "session.failed": _error_and_done,
    "run.completed": _done,
    "run.failed": _done,
    "run.cancelled": _done,
    "run.budget_exhausted": _exhausted,
    "session.waiting": _done,
    "session.completed": _done,
}
