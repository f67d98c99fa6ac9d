"""Quarantine: how a session is driven after the journal refused an inbox item or a run.

A refused drive leaves no records, so driving in the same way again would fail again. In quarantine, inbox
items are written one per append, to find the item at fault; only the minimal facts of that item are written.
If no item is at fault, the run is ended.
"""

from dataclasses import replace
from typing import Final

from windlass.errors import AgentError
from windlass_harness.loop.events import Stopped
from windlass_protocol import ErrorCode, ErrorInfo, ErrorKind, RetryClass
from windlass_protocol.frozen import frozen


@frozen
class RefusedDrive:
    """A drive that failed because the journal never accepts its records."""

    error: Exception
    items: frozenset[int]
    """Inbox items that the refused append would have consumed."""


@frozen
class Quarantine:
    """Quarantine settings of the next drive."""

    is_itemwise: bool = False
    """Whether to write one inbox item per append."""
    minimal: frozenset[int] = frozenset()
    """Items of which only the minimal facts are written."""
    dropped: frozenset[int] = frozenset()
    """Items of which nothing is written, because the minimal facts were refused too."""
    error: ErrorInfo | None = None
    """The error that caused the quarantine."""
    stop: Stopped | None = None
    """Ends the current run, if the run is at fault."""

    def after(self, refusal: RefusedDrive) -> "Quarantine | None":
        """Return the settings of the next drive; None if there is nothing left to try."""
        why = _info(refusal.error)
        if not self.is_itemwise and refusal.items:
            return replace(self, is_itemwise=True)
        if refusal.items - self.minimal:
            return replace(self, minimal=self.minimal | refusal.items, error=why)
        if refusal.items - self.dropped:
            return replace(self, dropped=self.dropped | refusal.items)
        if self.stop is None and not refusal.items:
            return replace(self, is_itemwise=True, stop=Stopped(why))
        return None


NO_QUARANTINE: Final = Quarantine()


def _info(error: Exception) -> ErrorInfo:
    if isinstance(error, AgentError):
        return error.info()
    message = f"The session could not be driven: {type(error).__name__}. See the traceback in the log."
    return ErrorInfo(
        code=ErrorCode.REJECTED,
        kind=ErrorKind.RECOVERY_REPAIR_NEEDED,
        retry=RetryClass.NOT_RETRYABLE,
        message=message,
    )
