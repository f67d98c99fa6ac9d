"""The records of one run, read from the journal."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

import windlass

if TYPE_CHECKING:
    from windlass_cli.session import Place
    from windlass_protocol import Event, Record

ENDS: Final = frozenset({"completed", "failed", "cancelled", "budget_exhausted"})
"""The states of a run that has ended; its last record is called after them."""
_PAGE: Final = 500


async def run_records(place: "Place", run_id: str) -> "AsyncIterator[Record | Event]":
    """Return what the journal has of a run, up to its end or to now."""
    async for record in _stored(place, run_id):
        if record.run_id == run_id:
            yield record
            if record.type.startswith("run.") and record.type.removeprefix("run.") in ENDS:
                return


async def _stored(place: "Place", run_id: str) -> "AsyncIterator[Record | Event]":
    if not isinstance(place, windlass.AgentRuntime):
        async for event in place.handle(run_id).records():
            yield event
        return
    async for record in _of_session(place, await session_of_run(place, run_id)):
        yield record


async def _of_session(place: "Place", session_id: str) -> "AsyncIterator[Record | Event]":
    if not isinstance(place, windlass.AgentRuntime):
        async for event in place.sessions.stored(session_id):
            yield event
        return
    after = 0
    while records := await place.sessions.records(session_id, after=after, limit=_PAGE):
        for record in records:
            yield record
        after = records[-1].seq


async def session_of_run(place: "Place", run_id: str) -> str:
    """Return the session of a run."""
    session_id = (await place.run_snapshot(run_id)).session_id
    assert session_id is not None, "a run that was started has a session"
    return session_id


async def last_of_run(place: "Place", run_id: str) -> int | None:
    """Return the number of a run's last record, notes of the session included.

    None for a run that has not begun.
    """
    last: int | None = None
    async for record in _of_session(place, await session_of_run(place, run_id)):
        if record.run_id == run_id or (last is not None and record.run_id is None):
            last = record.seq
        elif last is not None:
            break
    return last


def at_of(record: "Record | Event") -> str:
    """Return when something was written down."""
    return record.meta.at if isinstance(record, windlass.Event) else record.at
