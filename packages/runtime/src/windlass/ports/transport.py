"""Port of a chat transport."""

from collections.abc import AsyncIterator
from typing import Protocol

from windlass_protocol import SSEEvent


class TransportAdapter(Protocol):
    """Carries events of the simple chat stream between two processes."""

    async def emit(self, event: SSEEvent) -> None:
        """Send one event, in order; wait while the receiver is slow.

        Raises:
            Unavailable: the connection is closed; no later event can be sent.
        """
        ...

    def receive(self) -> AsyncIterator[SSEEvent]:
        """Yield the events of the sender, in order, until the connection ends."""
        ...
