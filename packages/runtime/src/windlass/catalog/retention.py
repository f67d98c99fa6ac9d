"""Retention: the processes of a store that drive delete ended sessions after some days."""

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta
from typing import Final

from windlass.catalog.sessions import Sessions
from windlass.engine.clocks import moment
from windlass.errors import AgentError, Conflict
from windlass.ports.clock import IDLE, Clock
from windlass.ports.store import Document, Documents

LOOK_S: Final = 600.0
"""How often a process looks whether it is time for a sweep."""
SWEEP_MS: Final = 3_600_000
"""The time between the beginnings of two sweeps, by any process of the store."""
_KIND: Final = "retention"
_NAME: Final = "sweep"
_LOG: Final = logging.getLogger("windlass.runs")


async def retain(sessions: Sessions, store: Documents, clock: Clock, *, days: int) -> None:
    """Delete sessions that ended more than `days` days ago, for ever; one process of a store at a time.

    A sweep that a kill has interrupted is continued by the next one: what is deleted is gone as a whole.
    """
    while True:
        try:
            if await _is_turn(store, clock):
                count = await sessions.prune(clock.now() - timedelta(days=days))
                if count:
                    _LOG.info("retention deleted sessions: %d", count)
        except AgentError as error:
            # The store is unreachable for now.
            _LOG.warning("retention could not delete sessions, and tries again: %s", error.kind)
        pause = asyncio.create_task(_sleep(clock), name=IDLE)
        try:
            await pause
        finally:
            pause.cancel()


async def _sleep(clock: Clock) -> None:
    await clock.sleep(LOOK_S)


async def _is_turn(store: Documents, clock: Clock) -> bool:
    """Return whether it is time for a sweep, and this process makes it."""
    now_ms, found = moment(clock).ms, await store.document(_KIND, _NAME)
    if found is not None and found.due_at_ms is not None and found.due_at_ms > now_ms:
        return False
    revision = 1 if found is None else found.revision + 1
    with suppress(Conflict):
        await store.put_document(Document(_KIND, _NAME, revision, {}, now_ms + SWEEP_MS))
        return True
    return False
