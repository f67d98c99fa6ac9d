"""Runs that outlive the command: shown until they end, kept when it is interrupted."""

import asyncio
from typing import TYPE_CHECKING

from windlass_cli.problems import Exit
from windlass_cli.session import Session
from windlass_cli.watch import Watch

if TYPE_CHECKING:
    from windlass import RunHandle


async def watched(session: Session, watch: Watch, handle: "RunHandle") -> Exit:
    """Show a run; when the command is interrupted, say how to go on with it."""
    try:
        return watch.end(await watch.follow(handle), run_id=handle.run_id)
    except asyncio.CancelledError:
        watch.leave()
        session.terminal.say(
            f"Kept in {session.settings.store}. Go on with: windlass runs resume {handle.run_id}"
        )
        raise
