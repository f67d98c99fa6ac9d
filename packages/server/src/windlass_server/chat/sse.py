"""Frames of chat clients as Server-Sent Events."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from pydantic import JsonValue
from pydantic_core import to_json

from windlass import Event
from windlass_server.problems import Problem

JsonObject = dict[str, JsonValue]

MEDIA_TYPE: Final = "text/event-stream"
_HEARTBEAT: Final = b": waiting\n\n"


def sse(frames: Iterable[JsonObject]) -> bytes:
    """Return frames as they are sent."""
    # Not by our codec: a list of messages may be longer than what it lets through, and is no wire of ours.
    return b"".join(b"data: %b\n\n" % to_json(frame) for frame in frames)


class Fold(Protocol):
    """The events of a run as one kind of client understands them."""

    is_over: bool
    """Whether that client has been told all of it, for now or for good."""

    def opening(self) -> list[JsonObject]:
        """Return what comes before everything else."""
        ...

    def take(self, event: Event) -> list[JsonObject]:
        """Return what an event is for the client, often nothing."""
        ...

    def failure(self, code: str, message: str) -> JsonObject:
        """Return the end of a run that went wrong."""
        ...


@dataclass(slots=True)
class ChatFrames:
    """Frames of one run for a chat client, see `Frames`."""

    fold: Fold
    goes_on: str
    """What a client is told when the server ends before the run."""
    end: bytes = b""
    """What comes after everything else."""
    media_type: str = MEDIA_TYPE

    def opening(self) -> bytes:
        """Return that the run began."""
        return sse(self.fold.opening())

    def event(self, event: Event, raw: bytes, *, cursor: str) -> bytes:
        """Return what an event is for the client, often nothing."""
        return sse(self.fold.take(event))

    def is_last(self, event: Event) -> bool:
        """Whether the run is over, as the client sees it."""
        return self.fold.is_over

    def heartbeat(self) -> bytes:
        """Return a comment."""
        return _HEARTBEAT

    def reconnect(self, retry_ms: int) -> bytes:
        """Return that the server ends, and how to go on."""
        return sse([self.fold.failure("unavailable", self.goes_on)]) + self.end

    def failure(self, problem: Problem) -> bytes:
        """Return why the stream ends."""
        return sse([self.fold.failure(problem.named_code, problem.detail)]) + self.end

    def closing(self) -> bytes:
        """Return the end."""
        return self.end
