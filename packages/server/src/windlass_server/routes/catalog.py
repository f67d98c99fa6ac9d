"""Sessions as a catalogue: finding, reading, copying and removing them."""

from collections.abc import AsyncGenerator
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from windlass.catalog import SessionStatus
from windlass.catalog.sessions import SAFE_POINTS_MAX
from windlass_protocol import Usage
from windlass_protocol.limits import INTEGER_MAX
from windlass_server import examples
from windlass_server.access import CallerDep, own_history, own_session
from windlass_server.docs import answers, body_example, reply, seen
from windlass_server.feed_ndjson import MEDIA_TYPE
from windlass_server.guard import PREFIX, Caller
from windlass_server.limits import PAGE_DEFAULT, PAGE_MAX
from windlass_server.models import Deleted, Fork, HistoryPage, SafePoints, SessionPage, SessionView
from windlass_server.repeats import once
from windlass_server.routes.sessions import SessionId
from windlass_server.starting import IdempotencyKey, session_id_for, token_of
from windlass_server.streams import LinesResponse, Streams
from windlass_server.wire import Wire

router = APIRouter(prefix=PREFIX, tags=["catalogue"])
After = Annotated[str | None, Query(max_length=64, description="The `next` of the page before.")]
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX, description="Items on a page.")]
Before = Annotated[int | None, Query(ge=1, le=INTEGER_MAX, description="Only records with a lower number.")]
PointsLimit = Annotated[int, Query(ge=1, le=SAFE_POINTS_MAX - 1, description="Points of one answer.")]
SEARCH_CHARS_MAX: Final = 256


class SessionQueryParams(Wire):
    """Which sessions are wanted."""

    after: Annotated[str | None, Field(max_length=64, description="The `next` of the page before.")] = None
    limit: Annotated[int, Field(ge=1, le=PAGE_MAX, description="Sessions on a page.")] = PAGE_DEFAULT
    agent: Annotated[str | None, Field(min_length=1, max_length=512)] = None
    status: SessionStatus | None = None
    text: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=SEARCH_CHARS_MAX,
            description="Words, or beginnings of them, of the title.",
        ),
    ] = None
    subagents: Annotated[bool, Field(description="Whether sessions of subagents are listed as well.")] = False


@router.get(
    "/sessions",
    response_model=SessionPage,
    responses=answers(200, {"sessions": [examples.SESSION]}, 400),
    summary="Your sessions",
)
async def list_sessions(caller: CallerDep, query: Annotated[SessionQueryParams, Query()]) -> Response:
    """Return your sessions, the one that was begun last first.

    Those without a word in them are left out.
    """
    page = await caller.tenant.runtime.sessions.list(
        after=query.after,
        limit=query.limit,
        agent_id=query.agent,
        status=query.status,
        owner=caller.principal.user,
        text=query.text,
        root_only=not query.subagents,
    )
    sessions = tuple(seen(SessionView, info) for info in page.items)
    return reply(SessionPage(sessions=sessions, next=page.next))


@router.get(
    "/sessions/{session_id:path}/history",
    response_model=HistoryPage,
    responses=answers(200, {"messages": [examples.MESSAGE]}, 400, 404),
    summary="The chat of a session",
)
async def history(
    *, caller: CallerDep, session_id: SessionId, after: After = None, limit: Limit = PAGE_DEFAULT
) -> Response:
    """Return what was said in a session, the oldest message first."""
    session = await own_session(caller, session_id)
    if session.info is None:
        return reply(HistoryPage(messages=()))
    page = await caller.tenant.runtime.sessions.history(session_id, after=after, limit=limit)
    return reply(HistoryPage(messages=page.items, next=page.next))


@router.get(
    "/sessions/{session_id:path}/safe-points",
    response_model=SafePoints,
    responses=answers(200, {"safePoints": [3, 9, 12]}, 404),
    summary="Where a fork can begin",
)
async def safe_points(
    *, caller: CallerDep, session_id: SessionId, before: Before = None, limit: PointsLimit = 1_000
) -> Response:
    """Return the records at which a fork can begin: no call is under way there.

    A fork at another record begins at the last one of these before it. They are in order, and the newest of
    them; `before` leads to older ones.
    """
    session = await own_session(caller, session_id)
    if session.info is None:
        return reply(SafePoints(safe_points=()))
    sessions = caller.tenant.runtime.sessions
    found = await sessions.safe_points(session_id, before=before, limit=limit + 1)
    shown = found[-limit:]
    return reply(SafePoints(safe_points=shown, next=shown[0] if len(found) > limit else None))


@router.post(
    "/sessions/{session_id:path}/fork",
    status_code=201,
    response_model=SessionView,
    responses=answers(201, examples.SESSION, 404, 409, has_body=True),
    summary="Copy a session",
)
async def fork(
    *,
    caller: CallerDep,
    session_id: SessionId,
    wanted: Annotated[Fork | None, body_example(now={}, earlier={"at": 12})] = None,
    key: IdempotencyKey = None,
) -> Response:
    """Make a session that begins as this one is now, or was after one of its records.

    Nothing is run again. A run that was under way there is cancelled in the fork.
    """
    await own_history(caller, session_id)
    at = None if wanted is None else wanted.at
    name = session_id_for(caller, key, kind=f"fork of {session_id}")
    async with once(caller, key, route=f"sessions/{session_id}/fork", body=wanted or Fork()):
        info = await caller.tenant.runtime.sessions.fork(session_id, at=at, session_id_new=name)
    token = await token_of(caller, name)
    return reply(seen(SessionView, info, continuation_token=token), 201)


@router.get(
    "/sessions/{session_id:path}/export",
    response_class=Response,
    responses=answers(200, '{"kind":"header","format":"windlass-session"}\n', 404, media_type=MEDIA_TYPE),
    summary="A session as lines of JSON",
)
async def export(request: Request, caller: CallerDep, *, session_id: SessionId) -> Response:
    """Send everything that is stored of a session.

    The last line holds a checksum of the others. It counts as a stream while it is sent.
    """
    await own_history(caller, session_id)
    streams: Streams = request.app.state.streams
    lines, principal = _lines(caller, session_id), caller.principal.key
    response = LinesResponse(lines, MEDIA_TYPE, streams=streams, principal=principal)
    response.headers["content-disposition"] = 'attachment; filename="session.jsonl"'
    # How long it takes is up to the client, and must not keep others from being answered.
    caller.slot.release()
    return response


async def _lines(caller: Caller, session_id: str) -> AsyncGenerator[bytes]:
    async for line in caller.tenant.runtime.sessions.export(session_id):
        yield f"{line}\n".encode()


@router.get(
    "/sessions/{session_id:path}",
    response_model=SessionView,
    responses=answers(200, examples.SESSION, 404),
    summary="A session",
)
async def get(caller: CallerDep, session_id: SessionId) -> Response:
    """Return what a session is about, where it is, and what it has used."""
    session = await own_session(caller, session_id)
    token = await token_of(caller, session_id)
    if session.info is not None:
        return reply(seen(SessionView, session.info, continuation_token=token))
    assert session.reserved is not None, "a session without a history is a reserved one"
    at = session.reserved.created_at
    view = SessionView(
        session_id=session_id,
        title="",
        agent_id=session.agent_id,
        status=SessionStatus.IDLE,
        created_at=at,
        updated_at=at,
        run_count=0,
        request_count=0,
        usage=Usage(),
        root_session_id=session_id,
        continuation_token=token,
    )
    return reply(view)


@router.delete(
    "/sessions/{session_id:path}",
    response_model=Deleted,
    responses=answers(200, {"deleted": ["019a8f…"]}, 404, 409),
    summary="Remove a session",
)
async def delete(caller: CallerDep, session_id: SessionId) -> Response:
    """Remove a session with everything that is stored of it.

    The sessions of its subagents go with it. It is refused while a run is under way: cancel that first.
    """
    session = await own_session(caller, session_id)
    await caller.tenant.reservations.release(session_id)
    if session.info is None:
        return reply(Deleted(deleted=(session_id,)))
    return reply(Deleted(deleted=await caller.tenant.runtime.sessions.delete(session_id)))
