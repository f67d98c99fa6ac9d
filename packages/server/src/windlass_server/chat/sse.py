"""Frames of chat clients as Server-Sent Events."""

from collections.abc import Iterable
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

MEDIA_TYPE: Final = "text/event-stream"
HEARTBEAT: Final = b": waiting\n\n"


def sse(frames: Iterable[dict[str, JsonValue]]) -> bytes:
    """Return frames as they are sent."""
    # Not by our codec: a list of messages may be longer than what it lets through, and is no wire of ours.
    return b"".join(b"data: %b\n\n" % to_json(frame) for frame in frames)
