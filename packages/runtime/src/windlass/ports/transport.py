"""Port of a chat transport."""

from collections.abc import AsyncIterator
from typing import Protocol

from windlass_protocol import SSEEvent


class TransportAdapter(Protocol):
    """Carries events of the simple chat stream between two programs."""

    async def emit(self, event: SSEEvent) -> None:
        """Send one event, after those before it; wait while the other side is slow."""
        ...

    def receive(self) -> AsyncIterator[SSEEvent]:
        """Yield the events that the other side sends, in order, until it is gone."""
        ...
