"""Runs that outlive the command: shown until they end, kept when it ends first."""

import asyncio
from typing import TYPE_CHECKING

from windlass_cli.problems import Exit
from windlass_cli.session import Session, start
from windlass_cli.watch import Watch

if TYPE_CHECKING:
    from windlass_cli.session import Place, PlacedRun


async def started(
    session: Session, place: "Place", *, agent: str, words: str, session_id: str | None
) -> "PlacedRun":
    """Start a run; when the command is interrupted, say that it may have begun.

    Raises:
        AgentError: it was refused.
    """
    try:
        return await start(place, agent, words=words, session_id=session_id)
    except asyncio.CancelledError:
        session.terminal.say("It may have begun, and is kept then. See: windlass runs list")
        raise


async def watched(session: Session, place: "Place", *, watch: Watch, handle: "PlacedRun") -> Exit:
    """Show a run; when the command is interrupted, say how to go on with it.

    Behind a run that waits for a person it would wait for ever: that one is shown, and asked about, first.
    """
    try:
        ahead = await _ahead(place, handle)
        if ahead is not None:
            session.terminal.say(f"Queued behind run {ahead.run_id}, which waits.", "yellow")
            if await watch.follow(ahead) is None:
                return watch.end(None, run_id=ahead.run_id)
        return watch.end(await watch.follow(handle), run_id=handle.run_id)
    except asyncio.CancelledError:
        watch.leave()
        settings = session.settings
        where = f"It goes on at {settings.server}" if settings.server else f"Kept in {settings.store}"
        session.terminal.say(f"{where}. Go on with: windlass runs resume {handle.run_id}")
        raise


async def _ahead(place: "Place", handle: "PlacedRun") -> "PlacedRun | None":
    """The run of the same session that waits, if this one has not begun because of it."""
    snapshot = await place.run_snapshot(handle.run_id)
    if snapshot.status.value != "pending":
        return None
    page = await place.sessions.runs(session_id=snapshot.session_id, status="waiting", limit=1)
    return place.handle(page.items[0].run_id) if page.items else None
