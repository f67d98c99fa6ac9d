"""What is done otherwise when a drive was refused, or fails each time.

Such a drive leaves nothing behind, so the next one would do the same again. It is made carefully instead:
what came through the inbox is written item by item, so that it shows which one is at fault, and of that one
only the bare facts are written. If no item is at fault, the run is, and it ends.
"""

from dataclasses import replace
from typing import Final

from windlass.errors import AgentError
from windlass_harness.loop.events import Stopped
from windlass_protocol import ErrorCode, ErrorInfo, ErrorKind, RetryClass
from windlass_protocol.frozen import frozen


@frozen
class Refusal:
    """What a driver does will never come to the journal."""

    error: Exception
    items: frozenset[int]
    """The items of the inbox that were answered by it."""


@frozen
class Care:
    """How carefully to drive."""

    is_careful: bool = False
    """One item at a time."""
    bare: frozenset[int] = frozenset()
    """Items of which only the bare facts are written."""
    gone: frozenset[int] = frozenset()
    """Items of which nothing is written, because not even that was taken."""
    why: ErrorInfo | None = None
    """Why items are bare."""
    stop: Stopped | None = None
    """The end of the run under way."""

    def after(self, refusal: Refusal) -> "Care | None":
        """Return how to drive next; None if there is nothing left to try."""
        why = _info(refusal.error)
        if not self.is_careful and refusal.items:
            return replace(self, is_careful=True)
        if refusal.items - self.bare:
            return replace(self, bare=self.bare | refusal.items, why=why)
        if refusal.items - self.gone:
            return replace(self, gone=self.gone | refusal.items)
        if self.stop is None and not refusal.items:
            return replace(self, is_careful=True, stop=Stopped(why))
        return None


NO_CARE: Final = Care()


def _info(error: Exception) -> ErrorInfo:
    if isinstance(error, AgentError):
        return error.info()
    message = f"It could not be driven: {type(error).__name__}. The log has the place in the code."
    return ErrorInfo(
        code=ErrorCode.REJECTED,
        kind=ErrorKind.RECOVERY_REPAIR_NEEDED,
        retry=RetryClass.NOT_RETRYABLE,
        message=message,
    )
