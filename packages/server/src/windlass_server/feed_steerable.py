"""Feeds in the shape of simple chat clients: SSEEvents, then `[DONE]`."""

from typing import Final

from windlass import Event
from windlass_harness.views.chat import step_message_id
from windlass_harness.views.events import to_sse
from windlass_protocol import SSEEvent, SSEEventType, encode
from windlass_protocol.codec import encode_trusted
from windlass_server.problems import Problem

MEDIA_TYPE: Final = "text/event-stream"
_DONE: Final = b"data: [DONE]\n\n"


class SteerableFrames:
    """Turns events into the few kinds that a chat needs.

    Words come as they are written. Of a message that was finished before the stream began they come at once;
    its `event` is then `message.completed`, to be put in the place of what the client may have of it.
    """

    media_type = MEDIA_TYPE

    def __init__(self) -> None:
        self._written: str | None = None
        """The message whose words were sent as they came."""

    def opening(self) -> bytes:
        """Return nothing."""
        return b""

    def event(self, event: Event, raw: bytes, *, cursor: str) -> bytes:
        """Return what an event is in this shape, often nothing."""
        shown = to_sse(event)
        if event.type == "message.appended":
            self._written = None if not shown else shown[0].message_id
        elif event.type == "message.completed":
            shown = self._whole(event)
        return b"".join(_frame(one, cursor) for one in shown)

    def is_last(self, event: Event) -> bool:
        """Whether the turn is over: this shape knows nothing behind it."""
        return any(one.type is SSEEventType.DONE for one in to_sse(event))

    def heartbeat(self) -> bytes:
        """Return the heartbeat of this shape."""
        return _frame(SSEEvent(type=SSEEventType.KEEPALIVE))

    def reconnect(self, retry_ms: int) -> bytes:
        """Return what tells a client to come back."""
        return b"event: reconnect\nretry: %d\ndata: %b\n\n" % (retry_ms, encode({"retryMs": retry_ms}))

    def failure(self, problem: Problem) -> bytes:
        """Return the problem as an error, and the end."""
        error = SSEEvent(type=SSEEventType.ERROR, code=problem.named_code, message=problem.detail)
        return _frame(error) + _DONE

    def closing(self) -> bytes:
        """Return the end."""
        return _DONE

    def _whole(self, event: Event) -> tuple[SSEEvent, ...]:
        data = event.data
        text, turn_id, step = data.get("message"), data.get("turnId"), data.get("stepIndex")
        if not (isinstance(text, str) and text and isinstance(turn_id, str) and isinstance(step, int)):
            return ()
        message_id = step_message_id(event.session_id or "", turn_id=turn_id, step_index=step)
        if message_id == self._written:
            return ()
        return (SSEEvent(type=SSEEventType.CONTENT, content=text, message_id=message_id, event=event.type),)


def _frame(event: SSEEvent, cursor: str | None = None) -> bytes:
    name = b"" if cursor is None else b"id: %b\n" % cursor.encode()
    return b"%bevent: message\ndata: %b\n\n" % (name, encode_trusted(event))
