"""Feeds as Server-Sent Events.

An event has no name, so that `onmessage` of a browser gets it; its type is in its data. What has a name is
said by the server: `reconnect` and `error`.
"""

from typing import Final

from windlass import Event
from windlass_protocol import encode
from windlass_server.problems import Problem

MEDIA_TYPE: Final = "text/event-stream"


class SseFrames:
    """Frames of Server-Sent Events, with the cursor of each as its `id`."""

    media_type = MEDIA_TYPE

    def __init__(self, retry_ms: int, place: str | None = None) -> None:
        self._retry_ms = retry_ms
        self._place = place

    def opening(self) -> bytes:
        """Return how soon to come back, and where if that is known."""
        place = b"" if self._place is None else b"id: %b\n" % self._place.encode()
        return b"retry: %d\n%b\n" % (self._retry_ms, place)

    def event(self, event: Event, raw: bytes, *, cursor: str) -> bytes:
        """Return an event."""
        return b"id: %b\ndata: %b\n\n" % (cursor.encode(), raw)

    def is_last(self, event: Event) -> bool:
        """No event ends the stream by itself."""
        return False

    def heartbeat(self) -> bytes:
        """Return a comment."""
        return b": waiting\n\n"

    def reconnect(self, retry_ms: int) -> bytes:
        """Return what tells a client to come back."""
        return b"event: reconnect\nretry: %d\ndata: %b\n\n" % (retry_ms, encode({"retryMs": retry_ms}))

    def failure(self, problem: Problem) -> bytes:
        """Return the problem; its id stays that of the last event."""
        return b"event: error\ndata: %b\n\n" % problem.body()

    def closing(self) -> bytes:
        """Return nothing: the last event says it."""
        return b""
