"""Routes of sessions: create, send messages, list, read, fork, export, delete; and their contents."""

from collections.abc import AsyncGenerator, Sequence
from hashlib import sha256
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Request, Response

import windlass_protocol as wire
from windlass import Conflict
from windlass.catalog import SessionStatus
from windlass.catalog.agent_sessions import FIRST_STAGE
from windlass.catalog.sessions import SessionQuery
from windlass_protocol import (
    Accepted,
    AgentSession,
    AgentSessionList,
    ContentList,
    ContentRef,
    Deleted,
    HistoryPage,
    InputResponse,
    RunStatus,
    SafePoints,
    SessionInfo,
    SessionPage,
    Usage,
    UserContent,
)
from windlass_server.generated.bodies import AgentSessionChange, Cancel, Fork, NewMessage, NewSession
from windlass_server.generated.queries import (
    AgentSessionsListQuery,
    SessionsListQuery,
    SessionsSafePointsQuery,
)
from windlass_server.openapi import (
    ACCEPTED_EXAMPLE,
    AGENT_SESSION_EXAMPLE,
    CONTENT_EXAMPLE,
    HASH_EXAMPLE,
    MESSAGE_EXAMPLE,
    SESSION_EXAMPLE,
    answers,
    body_example,
)
from windlass_server.problems import Problem, not_found
from windlass_server.requests import (
    KEY_TAKEN,
    PREFIX,
    Caller,
    CallerDep,
    OwnedSession,
    OwnHistory,
    OwnSession,
    PageDep,
    agent_for,
    body_of,
    check_token,
    conflict_error,
    first_run_id,
    page_of,
    reply,
    run_id_for,
    sign_responses,
    stamp,
    start,
    token_after,
    token_of,
)
from windlass_server.reservations import ReservedSession
from windlass_server.routing import Route
from windlass_server.settings import PAGE_MAX
from windlass_server.streams import NDJSON_TYPE, LinesResponse, Streams

router = APIRouter(prefix=PREFIX, tags=["sessions"], route_class=Route)
catalogue = APIRouter(prefix=PREFIX, tags=["catalogue"], route_class=Route)
contents = APIRouter(prefix=PREFIX, tags=["contents"], route_class=Route)
UNDER_WAY: Final = frozenset({RunStatus.RUNNING, RunStatus.WAITING, RunStatus.CANCELLING})


@router.post(
    "/sessions",
    status_code=202,
    response_model=Accepted,
    responses=answers(202, ACCEPTED_EXAMPLE),
)
async def create(
    *,
    caller: CallerDep,
    body: Annotated[
        NewSession,
        body_example(
            message={"agent": "clerk", "message": "Pay the hotel."},
            empty={"agent": "clerk"},
            staged={"chatId": "chat-7", "currentStage": "PLANNING", "scenario": "travel"},
            typed={"message": "Which city?", "outputSchema": {"type": "string"}, "mode": "task"},
            file={
                "message": [
                    {"type": "text", "text": "What is on it?"},
                    {
                        "type": "image",
                        "image": "data:image/png;base64,iVBORw0KGgo=",
                        "mediaType": "image/png",
                    },
                ]
            },
        ),
    ],
) -> Response:
    """Create a session, with its first message or without."""
    return reply(await begin(caller, body), 202)


async def begin(caller: Caller, body: wire.NewSession) -> Accepted:
    """Create a session of the caller; see `create`."""
    agent_id = agent_for(caller, body.agent)
    session_id, has_key = caller.new_id("session"), caller.key is not None
    run_id = first_run_id(session_id)
    store = caller.tenant.store
    has_document = _has_document(body)
    if has_document:
        await _create_document(caller, body, session_id=session_id, agent_id=agent_id)
    elif has_key and await store.session_info(session_id) is not None:
        # The key of a session with a history: only the request that created it may be repeated.
        has_first = await store.run(run_id) is not None
        if has_first != (body.message is not None):
            raise conflict_error(KEY_TAKEN)
        if body.message is None:
            # It was created without a message, and has a history now: no reservation is needed.
            return _empty(session_id)
    if body.message is None and has_document:
        return _empty(session_id)
    if body.message is None:
        return await _reserve(caller, body, session_id=session_id, agent_id=agent_id)
    if has_key and await caller.tenant.reservations.find(session_id, caller.principal.user) is not None:
        raise conflict_error(KEY_TAKEN)
    ids = (session_id, run_id)
    await start(caller, body.message, wishes=body, ids=ids, agent_id=agent_id)
    return _accepted_run(session_id, run_id)


def _has_document(body: wire.NewSession) -> bool:
    """Whether a session is given fields of its `AgentSession` document."""
    fields = (body.chat_id, body.current_stage, body.scenario, body.stage_data, body.project_id)
    return any(value is not None for value in fields)


async def _create_document(caller: Caller, body: wire.NewSession, *, session_id: str, agent_id: str) -> None:
    """Journal a session with the fields of its `AgentSession` document; the same request changes nothing."""
    user = caller.principal.user
    try:
        await caller.tenant.runtime.sessions.agent_sessions.create(
            body.chat_id or session_id,
            session_id=session_id,
            user_id=user,
            current_stage=body.current_stage,
            scenario=body.scenario,
            stage_data=body.stage_data,
            project_id=body.project_id,
            owner=user,
            agent_id=agent_id,
        )
    except Conflict:
        # The id is derived from the key, and another request made the session.
        raise conflict_error(KEY_TAKEN) from None


async def _reserve(caller: Caller, body: wire.NewSession, *, session_id: str, agent_id: str) -> Accepted:
    digest = sha256(body.model_dump_json(by_alias=True).encode()).hexdigest()
    reserved = ReservedSession(session_id, caller.principal.user, agent_id, stamp(caller.now()), digest)
    await caller.tenant.reservations.reserve(reserved)
    return _empty(session_id)


def _empty(session_id: str) -> Accepted:
    return Accepted(session_id=session_id, continuation_token=token_after(session_id, ""))


@router.post(
    "/sessions/{session_id:path}/messages",
    status_code=202,
    response_model=Accepted,
    responses=answers(202, ACCEPTED_EXAMPLE),
)
async def say(
    *,
    caller: CallerDep,
    session: OwnSession,
    body: Annotated[
        NewMessage,
        body_example(
            message={"message": "And the train?"},
            steer={"message": "Take the cheaper one.", "delivery": "steer"},
            answers={"responses": [{"requestId": "approval:019a8f…", "optionId": "approve"}]},
        ),
    ],
) -> Response:
    """Send a message to a session, or answer its requests."""
    return reply(await deliver(caller, session, body), 202)


async def deliver(caller: Caller, session: OwnedSession, body: wire.NewMessage) -> Accepted:
    """Send a message to a session of the caller, or answer its requests; see `say`."""
    if body.responses is not None:
        return await _answer(caller, session.session_id, body.responses, token=body.continuation_token)
    session_id, token = session.session_id, body.continuation_token
    run_id = run_id_for(caller, session_id, token=token)
    await check_token(caller, session_id, token=token, run_id=run_id)
    assert body.message is not None, "one of the two was given"
    if body.delivery == "steer":
        return await steer(caller, session, message=body.message, agent=body.agent, message_id=run_id)
    agent_id = agent_for(caller, body.agent, default=session.agent_id)
    await start(caller, body.message, wishes=body, ids=(session_id, run_id), agent_id=agent_id)
    await _drop_reservation(caller, session)
    return _accepted_run(session_id, run_id)


async def _answer(
    caller: Caller, session_id: str, responses: Sequence[InputResponse], *, token: str | None
) -> Accepted:
    await check_token(caller, session_id, token=token, run_id=run_id_for(caller, session_id, token=token))
    answers = await sign_responses(caller, responses)
    await caller.tenant.runtime.sessions.answer(session_id, answers, key=caller.id_for("answer"))
    return Accepted(session_id=session_id, continuation_token=await token_of(caller, session_id))


async def steer(
    caller: Caller,
    session: OwnedSession,
    *,
    message: UserContent,
    message_id: str | None = None,
    agent: str | None = None,
    context: Sequence[str] | None = None,
    responses: Sequence[InputResponse] | None = None,
) -> Accepted:
    """Send a message to the current run of a session of the caller, with answers or without."""
    posted_id = await caller.tenant.runtime.steer(
        agent_for(caller, agent, default=session.agent_id),
        message,
        session_id=session.session_id,
        message_id=message_id,
        context=context,
        responses=await sign_responses(caller, responses or ()),
        source=caller.principal.source,
        owner=caller.principal.user,
    )
    await _drop_reservation(caller, session)
    return Accepted(session_id=session.session_id, message_id=posted_id)


async def _drop_reservation(caller: Caller, session: OwnedSession) -> None:
    """Remove the reservation of a session that has a history now."""
    if session.reserved is not None and await caller.tenant.store.session_info(session.session_id):
        await caller.tenant.reservations.release(session.session_id, caller.principal.user)


def _accepted_run(session_id: str, run_id: str) -> Accepted:
    token = token_after(session_id, run_id)
    return Accepted(session_id=session_id, run_id=run_id, continuation_token=token)


@router.post(
    "/sessions/{session_id:path}/compact",
    status_code=202,
    response_model=Accepted,
    responses=answers(202, {"sessionId": "019a8f…"}),
)
async def compact(caller: CallerDep, session: OwnHistory) -> Response:
    """Compact the history: now, or before the next model call of the current run."""
    await caller.tenant.runtime.sessions.compact(session.session_id, key=caller.id_for("compact"))
    return reply(Accepted(session_id=session.session_id), 202)


@router.post(
    "/sessions/{session_id:path}/cancel",
    status_code=202,
    response_model=Accepted,
    responses=answers(202, ACCEPTED_EXAMPLE),
)
async def cancel(
    *,
    caller: CallerDep,
    session: OwnSession,
    body: Annotated[Cancel | None, body_example(reason={"reason": "It takes too long."})] = None,
) -> Response:
    """Cancel the current run; queued runs start next."""
    runs = (await caller.sessions.runs(session_id=session.session_id, limit=PAGE_MAX)).items
    under_way = [run for run in runs if run.status in UNDER_WAY]
    if caller.key is not None and not caller.key.is_new:
        # A repeated request leaves out the run that began when its first try had ended the one before.
        at = stamp(caller.key.at)
        under_way = [run for run in under_way if (run.started_at or "") <= at]
    if not under_way:
        return reply(Accepted(session_id=session.session_id), 202)
    run_id, reason = under_way[-1].run_id, None if body is None else body.reason
    await caller.tenant.runtime.cancel_run(run_id, by=caller.principal.user, reason=reason)
    return reply(Accepted(session_id=session.session_id, run_id=run_id), 202)


SEARCH_CHARS_MAX: Final = 256


@catalogue.get(
    "/sessions",
    response_model=SessionPage,
    responses=answers(200, {"sessions": [SESSION_EXAMPLE]}),
)
async def list_sessions(caller: CallerDep, query: Annotated[SessionsListQuery, Query()]) -> Response:
    """Return your sessions, newest first unless sorted otherwise."""
    session_query = SessionQuery(
        agent_id=query.agent,
        status=query.status,
        text=query.text,
        root_only=not query.subagents,
        waits_on=query.waits_on,
        version=query.version,
        error=query.error,
        tag=query.tag,
        feedback=query.feedback,
        has_crashed=query.crashed,
        since=query.since,
        until=query.until,
        cost_micros_min=query.cost_min,
        cost_micros_max=query.cost_max,
        sort=query.sort,
        is_ascending=query.ascending,
    )
    page = await caller.sessions.list(after=query.after, limit=query.limit, **session_query)
    total = await caller.sessions.count(**session_query) if query.total else None
    sessions = tuple(body_of(SessionInfo, info) for info in page.items)
    return reply(SessionPage(sessions=sessions, next=page.next, total=total))


@catalogue.get(
    "/agent-sessions",
    response_model=AgentSessionList,
    responses=answers(200, {"sessions": [AGENT_SESSION_EXAMPLE]}),
)
async def list_agent_sessions(
    caller: CallerDep, query: Annotated[AgentSessionsListQuery, Query()]
) -> Response:
    """Return your sessions as `AgentSession` documents, newest first."""
    page = await caller.tenant.runtime.sessions.agent_sessions.list(
        owner=caller.principal.user,
        chat_id=query.chat_id,
        active_only=query.active_only,
        after=query.after,
        limit=query.limit,
    )
    return reply(AgentSessionList(sessions=page.items, next=page.next))


@catalogue.get(
    "/sessions/{session_id:path}/agent-session",
    response_model=AgentSession,
    responses=answers(200, AGENT_SESSION_EXAMPLE),
)
async def agent_session(caller: CallerDep, session: OwnSession) -> Response:
    """Return a session as an `AgentSession` document: user, chat and stage."""
    if session.reserved is None:
        return reply(await caller.tenant.runtime.sessions.agent_sessions.get(session.session_id))
    empty = AgentSession(
        session_id=session.session_id,
        user_id=session.reserved.user,
        chat_id=session.session_id,
        current_stage=FIRST_STAGE,
        is_active=True,
        created_at=session.reserved.created_at,
        updated_at=session.reserved.created_at,
    )
    return reply(empty)


@router.post(
    "/sessions/{session_id:path}/agent-session",
    response_model=AgentSession,
    responses=answers(200, AGENT_SESSION_EXAMPLE),
)
async def change_agent_session(
    *,
    caller: CallerDep,
    session: OwnSession,
    body: Annotated[
        AgentSessionChange,
        body_example(
            stage={"currentStage": "PAYING", "nextStage": None}, data={"stageData": {"city": "Oslo"}}
        ),
    ],
) -> Response:
    """Change the stage; fields that are left out stay as they are, and `nextStage: null` removes it."""
    if session.info is None:
        raise Problem(409, "the session has no message yet: send the first one, then change its stage")
    changed = await caller.tenant.runtime.sessions.agent_sessions.update(
        session.session_id, body, key=caller.id_for("stage"), at=caller.now()
    )
    return reply(changed)


@catalogue.get(
    "/sessions/{session_id:path}/history",
    response_model=HistoryPage,
    responses=answers(200, {"messages": [MESSAGE_EXAMPLE]}),
)
async def history(caller: CallerDep, session: OwnSession, *, query: PageDep) -> Response:
    """Return the messages of a session, oldest first."""
    if session.info is None:
        return reply(HistoryPage(messages=()))
    page = await caller.tenant.runtime.sessions.history(
        session.session_id, after=query.after, limit=query.limit
    )
    return reply(HistoryPage(messages=page.items, next=page.next))


@catalogue.get(
    "/sessions/{session_id:path}/safe-points",
    response_model=SafePoints,
    responses=answers(200, {"safePoints": [3, 9, 12]}),
)
async def safe_points(
    caller: CallerDep, session: OwnSession, *, query: Annotated[SessionsSafePointsQuery, Query()]
) -> Response:
    """Return the records at which a fork can begin: no call is open there."""
    if session.info is None:
        return reply(SafePoints(safe_points=()))
    sessions, limit = caller.tenant.runtime.sessions, query.limit
    points = await sessions.safe_points(session.session_id, before=query.before, limit=limit + 1)
    shown = points[-limit:]
    return reply(SafePoints(safe_points=shown, next=shown[0] if len(points) > limit else None))


@catalogue.post(
    "/sessions/{session_id:path}/fork",
    status_code=201,
    response_model=SessionInfo,
    responses=answers(201, SESSION_EXAMPLE),
)
async def fork(
    *,
    caller: CallerDep,
    session: OwnHistory,
    body: Annotated[Fork | None, body_example(now={}, earlier={"at": 12})] = None,
) -> Response:
    """Create a copy of a session as it is now, or was after one of its records."""
    session_id, at = session.session_id, None if body is None else body.at
    name = caller.new_id("fork")
    info = await caller.tenant.runtime.sessions.fork(session_id, at=at, session_id_new=name)
    token = await token_of(caller, name)
    return reply(body_of(SessionInfo, info, continuation_token=token), 201)


@catalogue.get(
    "/sessions/{session_id:path}/export",
    response_class=Response,
    responses=answers(200, '{"kind":"header","format":"windlass-session"}\n', media_type=NDJSON_TYPE),
)
async def export(request: Request, caller: CallerDep, *, session: OwnHistory) -> Response:
    """Send everything that is stored of a session."""
    streams: Streams = request.app.state.streams
    response = LinesResponse(_lines(caller, session.session_id), NDJSON_TYPE, streams=streams, caller=caller)
    response.headers["content-disposition"] = 'attachment; filename="session.jsonl"'
    return response


async def _lines(caller: Caller, session_id: str) -> AsyncGenerator[bytes]:
    async for line in caller.tenant.runtime.sessions.export(session_id):
        yield f"{line}\n".encode()


@catalogue.get(
    "/sessions/{session_id:path}",
    response_model=SessionInfo,
    responses=answers(200, SESSION_EXAMPLE),
)
async def get_session(caller: CallerDep, session: OwnSession) -> Response:
    """Return the title, status and usage of a session."""
    token = await token_of(caller, session.session_id)
    if session.info is not None:
        return reply(body_of(SessionInfo, session.info, continuation_token=token))
    assert session.reserved is not None, "a session without a history is a reserved one"
    at = session.reserved.created_at
    view = SessionInfo(
        session_id=session.session_id,
        title="",
        agent_id=session.agent_id,
        status=SessionStatus.IDLE,
        created_at=at,
        updated_at=at,
        run_count=0,
        request_count=0,
        usage=Usage(),
        root_session_id=session.session_id,
        continuation_token=token,
    )
    return reply(view)


@catalogue.delete(
    "/sessions/{session_id:path}",
    response_model=Deleted,
    responses=answers(200, {"deleted": ["019a8f…"]}),
)
async def delete(caller: CallerDep, session: OwnSession) -> Response:
    """Delete a session and everything that is stored of it."""
    await caller.tenant.reservations.release(session.session_id, caller.principal.user)
    if session.info is None:
        return reply(Deleted(deleted=(session.session_id,)))
    return reply(Deleted(deleted=await caller.tenant.runtime.sessions.delete(session.session_id)))


ContentHash = Annotated[
    str,
    Path(pattern=r"^sha256:[0-9a-f]{64}$", description="The hash of a content.", examples=[HASH_EXAMPLE]),
]
BYTES: Final = "application/octet-stream"
_SENT_AS_IS: Final = frozenset(
    {
        "application/json",
        "application/pdf",
        "image/gif",
        "image/jpeg",
        "image/png",
        "image/webp",
        "text/plain",
    }
)
"""Media types that are sent as they are; a browser saves every content, and shows none."""
_CONTENT_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; sandbox",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "private, max-age=31536000, immutable",
}


@contents.get(
    "/sessions/{session_id:path}/contents",
    response_model=ContentList,
    responses=answers(200, {"contents": [CONTENT_EXAMPLE]}),
)
async def list_contents(caller: CallerDep, session: OwnHistory, query: PageDep) -> Response:
    """Return the contents of a session: values that are too large for a record."""
    refs = await caller.tenant.store.contents_of(session.session_id)
    page = page_of(refs, query, name=lambda ref: ref.hash)
    return reply(ContentList(contents=page.items, next=page.next))


@contents.get(
    "/sessions/{session_id:path}/contents/{content_hash}",
    response_class=Response,
    responses=answers(200, "…", media_type=BYTES),
)
async def get_content(*, caller: CallerDep, session: OwnHistory, content_hash: ContentHash) -> Response:
    """Send a content as a download; a browser does not show or run it."""
    refs = await caller.tenant.store.contents_of(session.session_id)
    ref = next((ref for ref in refs if ref.hash == content_hash), None)
    store = caller.tenant.runtime.core.ports.content
    assert store is not None, "it was opened with one"
    if ref is None:
        raise not_found("content")
    kind, _, _ = (ref.media_type or BYTES).partition(";")
    headers = {**_CONTENT_HEADERS, "content-disposition": f'attachment; filename="{_content_name(ref)}"'}
    return Response(await store.get(ref), media_type=kind if kind in _SENT_AS_IS else BYTES, headers=headers)


def _content_name(ref: ContentRef) -> str:
    """Return a file name that contains no user input."""
    kind = (ref.media_type or "").partition(";")[0]
    ending = {"application/json": "json", "text/plain": "txt", "application/pdf": "pdf"}.get(kind)
    ending = ending or (kind.removeprefix("image/") if kind in _SENT_AS_IS else "bin")
    return f"{ref.hash.removeprefix('sha256:')[:16]}.{ending}"
