"""What a caller may see: their own sessions, and the runs in them."""

import re
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Request

from windlass.catalog import SessionInfo
from windlass.ports.store import RunRow
from windlass_server.guard import Caller
from windlass_server.problems import not_found
from windlass_server.reservations import Reserved

_ID: Final = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,512}")


async def _caller(request: Request) -> Caller:
    return request.state.caller


CallerDep = Annotated[Caller, Depends(_caller)]


@dataclass(frozen=True, slots=True)
class OwnSession:
    """A session of the caller: with a history, or without a first word."""

    session_id: str
    agent_id: str
    info: SessionInfo | None = None
    reserved: Reserved | None = None


async def own_session(caller: Caller, session_id: str) -> OwnSession:
    """Return a session of the caller.

    Raises:
        Problem: there is none, or it is somebody else's; nobody can tell which.
    """
    if not _ID.fullmatch(session_id):
        raise not_found("session")
    info = await caller.tenant.store.listed_session(session_id)
    if info is not None and info.owner == caller.principal.user:
        return OwnSession(session_id, info.agent_id, info)
    reserved = await caller.tenant.reservations.find(session_id)
    if info is not None or reserved is None or reserved.user != caller.principal.user:
        raise not_found("session")
    return OwnSession(session_id, reserved.agent_id, reserved=reserved)


async def own_history(caller: Caller, session_id: str) -> SessionInfo:
    """Return a session of the caller in which something was said.

    Raises:
        Problem: there is none, or it is somebody else's; nobody can tell which.
    """
    session = await own_session(caller, session_id)
    if session.info is None:
        raise not_found("session")
    return session.info


async def own_run(caller: Caller, run_id: str) -> RunRow:
    """Return a run in a session of the caller.

    Raises:
        Problem: there is none, or it is somebody else's; nobody can tell which.
    """
    store = caller.tenant.store
    row = await store.run(run_id) if _ID.fullmatch(run_id) else None
    info = None if row is None else await store.listed_session(row.session_id)
    if row is None or info is None or info.owner != caller.principal.user:
        raise not_found("run")
    return row
