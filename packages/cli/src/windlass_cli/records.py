"""The records of one run, read from the journal."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from windlass import AgentRuntime
    from windlass_protocol import Record

ENDS: Final = frozenset({"completed", "failed", "cancelled", "budget_exhausted"})
"""The states of a run that has ended; its last record is called after them."""
_PAGE: Final = 500


async def run_records(runtime: "AgentRuntime", run_id: str) -> "AsyncIterator[Record]":
    """Return what the journal has of a run, up to its end or to now."""
    session_id = (await runtime.run_snapshot(run_id)).session_id
    assert session_id is not None, "a run that was started has a session"
    after = 0
    while records := await runtime.sessions.records(session_id, after=after, limit=_PAGE):
        for record in records:
            if record.run_id == run_id:
                yield record
                if record.type.startswith("run.") and record.type.removeprefix("run.") in ENDS:
                    return
        after = records[-1].seq
