"""Feeds as lines of JSON, for programs.

A line is an event with its `cursor`, or has only one of `reconnect` and `error`. An empty line says that
the connection is alive.
"""

from typing import Final

from windlass import Event
from windlass_protocol import encode
from windlass_server.problems import Problem

MEDIA_TYPE: Final = "application/x-ndjson"


class NdjsonFrames:
    """One line for each event."""

    media_type = MEDIA_TYPE

    def opening(self) -> bytes:
        """Return nothing."""
        return b""

    def event(self, event: Event, raw: bytes, *, cursor: str) -> bytes:
        """Return an event with its cursor."""
        # A cursor is letters, digits and ._- alone, and an event is never an empty object.
        return b'{"cursor":"%b",%b\n' % (cursor.encode(), raw[1:])

    def is_last(self, event: Event) -> bool:
        """No event ends the stream by itself."""
        return False

    def heartbeat(self) -> bytes:
        """Return an empty line."""
        return b"\n"

    def reconnect(self, retry_ms: int) -> bytes:
        """Return what tells a client to come back."""
        return encode({"reconnect": {"retryMs": retry_ms}}) + b"\n"

    def failure(self, problem: Problem) -> bytes:
        """Return the problem."""
        return b'{"error":%b}\n' % problem.body()

    def closing(self) -> bytes:
        """Return nothing."""
        return b""
