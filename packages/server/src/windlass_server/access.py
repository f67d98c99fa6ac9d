"""What a caller may see: their own sessions, and the runs in them."""

import re
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Request

from windlass.ports.journal import RunRow
from windlass_server.guard import Caller
from windlass_server.problems import not_found
from windlass_server.reservations import Reserved

_ID: Final = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,512}")


async def _caller(request: Request) -> Caller:
    return request.state.caller


CallerDep = Annotated[Caller, Depends(_caller)]


@dataclass(frozen=True, slots=True)
class OwnSession:
    """A session of the caller."""

    session_id: str
    agent_id: str


async def own_session(caller: Caller, session_id: str) -> OwnSession:
    """Return a session of the caller.

    Raises:
        Problem: there is none, or it is somebody else's; nobody can tell which.
    """
    found: Reserved | None = None
    if _ID.fullmatch(session_id):
        found = await caller.tenant.reservations.find(session_id)
    if found is None or found.user != caller.principal.user:
        raise not_found("session")
    return OwnSession(session_id, found.agent_id)


async def own_run(caller: Caller, run_id: str) -> RunRow:
    """Return a run in a session of the caller.

    Raises:
        Problem: there is none, or it is somebody else's; nobody can tell which.
    """
    row = await caller.tenant.store.run(run_id) if _ID.fullmatch(run_id) else None
    owner = None if row is None else await caller.tenant.reservations.find(row.session_id)
    if row is None or owner is None or owner.user != caller.principal.user:
        raise not_found("run")
    return row
