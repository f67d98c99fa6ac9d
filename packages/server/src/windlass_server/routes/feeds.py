"""Routes of feeds: the events of a session, a run, or all sessions, stored and live."""

from contextlib import aclosing
from typing import Annotated, Final

from fastapi import APIRouter, Header, Query, Request, Response

from windlass.feed import decode_cursor, encode_cursor
from windlass.ports.feed import PROGRESS_TYPES, EventStream, StreamOptions, check_event_names
from windlass_harness.views.stream import ChatFold
from windlass_protocol import AllCursor, Cursor, RunCursor, SessionCursor
from windlass_server.generated.queries import (
    FeedsAllQuery,
    FeedsReplayQuery,
    FeedsRunQuery,
    FeedsSessionQuery,
)
from windlass_server.openapi import answers
from windlass_server.problems import Problem
from windlass_server.requests import PREFIX, Caller, CallerDep, OwnRun, OwnSession
from windlass_server.routing import Route
from windlass_server.settings import TYPES_MAX
from windlass_server.streams import (
    NDJSON_TYPE,
    SSE_TYPE,
    EveFrames,
    Frames,
    NdjsonFrames,
    PacedStream,
    SlimDeltas,
    SseFrames,
    SteerableFrames,
    Streams,
    open_feed,
)

router = APIRouter(prefix=PREFIX, tags=["feeds"], route_class=Route)
CURSOR_HEADER = "windlass-cursor"
EVE_HEADERS = {"x-eve-stream-format": "ndjson", "x-eve-stream-version": "16"}
"""The headers by which clients of eve 0.13.8 know the stream."""
_NUMBER_DIGITS_MAX = 15
_STORED: Final = StreamOptions(follow=False)
RECORDS_MAX = 10_000
"""Records from the end with which a feed starts."""
_EXAMPLE = 'id: s.MDE5YQ.7\ndata: {"type":"message.completed","data":{"message":"Done."},"seq":7}\n\n'


FeedQuery = FeedsRunQuery | FeedsSessionQuery
FeedDep = Annotated[FeedsRunQuery, Query()]
LastEventId = Annotated[
    str | None,
    Header(alias="Last-Event-ID", description="As `after`; browsers send it when they reconnect."),
]
_ANSWERS = answers(200, _EXAMPLE, media_type=SSE_TYPE)
_ANSWERS[200]["content"][NDJSON_TYPE] = {
    "example": '{"cursor":"s.MDE5YQ.7","type":"message.completed","data":{"message":"Done."},"seq":7}\n'
}
_OF_ALL = answers(200, _EXAMPLE, media_type=SSE_TYPE)
_OF_ALL[200]["content"][NDJSON_TYPE] = _ANSWERS[200]["content"][NDJSON_TYPE]
_OF_ALL[200]["headers"] = {
    CURSOR_HEADER: {"description": "The cursor at which the stream begins.", "schema": {"type": "string"}}
}


@router.get(
    "/sessions/{session_id:path}/events",
    responses=_ANSWERS,
    response_class=Response,
)
async def of_session(
    *,
    request: Request,
    caller: CallerDep,
    session: OwnSession,
    query: Annotated[FeedsSessionQuery, Query()],
    last: LastEventId = None,
) -> Response:
    """Send every event of a session: first the stored ones, then new ones."""
    bus, streams = caller.tenant.runtime.events(), _streams(request)
    start = _eve_start(query, last)
    cursor = None if query.shape == "eve" else _cursor(query, last)
    if query.last is not None or query.before is not None:
        cursor = await _from_end(caller, session.session_id, query=query, cursor=cursor)
    feed = bus.subscribe_session(session.session_id, cursor, options=streams.options(follow=query.follow))
    chat = None
    if query.shape == "steerable" and isinstance(cursor, SessionCursor):
        first = await _run_start(caller, cursor)
        chat = await _chat_before(bus.subscribe_session(session.session_id, first, options=_STORED), cursor)
    until = None if query.before is None else query.before - 1
    response = await _response(request, caller, feed=feed, query=query, start=start, until=until, chat=chat)
    if query.shape == "eve":
        response.headers.update(EVE_HEADERS)
    return response


@router.get("/runs/{run_id:path}/events", responses=_ANSWERS, response_class=Response)
async def of_run(
    *, request: Request, caller: CallerDep, run: OwnRun, query: FeedDep, last: LastEventId = None
) -> Response:
    """Send every event of a run; the stream ends with the run."""
    if query.shape == "eve":
        raise Problem(422, "shape=eve is for sessions: read /sessions/{id}/events?shape=eve")
    _eve_start(query, last)
    bus = caller.tenant.runtime.events()
    options, cursor = _streams(request).options(follow=query.follow), _cursor(query, last)
    feed = bus.subscribe_run(run.run_id, cursor, options=options, until_terminal=True, row=run)
    chat = None
    if query.shape == "steerable" and isinstance(cursor, RunCursor):
        chat = await _chat_before(bus.subscribe_run(run.run_id, options=_STORED, row=run), cursor)
    return await _response(request, caller, feed=feed, query=query, chat=chat)


@router.get("/runs/{run_id:path}/replay", responses=_ANSWERS, response_class=Response)
async def replay(
    *,
    request: Request,
    caller: CallerDep,
    run: OwnRun,
    query: Annotated[FeedsReplayQuery, Query()],
    last: LastEventId = None,
) -> Response:
    """Send the events of a run again, with the original pauses."""
    runtime, plain = caller.tenant.runtime, FeedsRunQuery(after=query.after, format=query.format)
    options = StreamOptions(follow=False)
    inner = runtime.events().subscribe_run(
        run.run_id, _cursor(plain, last), options=options, until_terminal=True
    )
    clock = runtime.core.ports.machine.clock
    feed = PacedStream(inner, clock, speed=query.speed, pause_s_max=query.pause_max)
    return await _response(request, caller, feed=feed, query=plain)


@router.get("/events", responses=_OF_ALL, response_class=Response)
async def of_all(
    *, request: Request, caller: CallerDep, query: Annotated[FeedsAllQuery, Query()], last: LastEventId = None
) -> Response:
    """Send the events of all your sessions, in their order."""
    types = None if query.types is None else frozenset(query.types.split(","))
    if types is not None and len(types) > TYPES_MAX:
        raise Problem(422, f"types: found {len(types):,}, limit {TYPES_MAX}")
    check_event_names("types", types or ())
    with_live = types is not None and bool(types & PROGRESS_TYPES)
    options = _streams(request).options(follow=query.follow, with_live=with_live)
    text = last or query.after
    if text == "now":
        cursor: Cursor | None = AllCursor(position=await caller.tenant.store.last_position())
    else:
        cursor = None if not text else decode_cursor(text)
    feed = caller.sessions.events(cursor, options=options, types=types)
    plain = FeedsRunQuery(after=query.after, follow=query.follow, format=query.format)
    return await _response(request, caller, feed=feed, query=plain, tells_place=True)


async def _from_end(
    caller: Caller, session_id: str, *, query: FeedsSessionQuery, cursor: Cursor | None
) -> Cursor | None:
    """Return where a page of a session starts; a cursor, of a client that reconnects, says it itself."""
    if query.shape != "events":
        raise Problem(422, "last, before: only with shape=events")
    if query.before is not None and query.follow:
        raise Problem(422, "before: only with follow=false; new events are at the end")
    if cursor is not None or query.last is None:
        return cursor
    row = await caller.tenant.store.session(session_id)
    end = 0 if row is None else row.last_seq
    end = end if query.before is None else min(end, query.before - 1)
    return SessionCursor(session_id=session_id, seq=max(0, end - query.last))


async def _run_start(caller: Caller, cursor: SessionCursor) -> SessionCursor:
    """Return where the run at a cursor begins; a chat has nothing open between two runs."""
    page = await caller.sessions.runs(session_id=cursor.session_id)
    starts = [run.first_seq for run in page.items if 0 < run.first_seq <= cursor.seq]
    return SessionCursor(session_id=cursor.session_id, seq=max(starts, default=1) - 1)


async def _chat_before(past: EventStream, cursor: SessionCursor | RunCursor) -> ChatFold:
    """Return the chat of a client that has the stored events of `past` up to a cursor."""
    chat = ChatFold()
    async with aclosing(past):
        async for event in past:
            if event.seq is not None and event.seq > cursor.seq:
                break
            chat.apply(event)
    chat.resume(has_deltas=bool(cursor.index))
    return chat


def _eve_start(query: FeedQuery, last: str | None) -> int:
    """Return the number of the first event of the eve shape to send."""
    if query.shape != "eve":
        if query.start_index is not None:
            raise Problem(422, "startIndex: only with shape=eve; resume other shapes with after")
        return 0
    if query.after is not None:
        raise Problem(422, "after: not with shape=eve; resume with startIndex or Last-Event-ID")
    if last and not (last.isascii() and last.isdigit() and len(last) <= _NUMBER_DIGITS_MAX):
        raise Problem(400, "Last-Event-ID: expected the number of an event of shape=eve")
    # A browser that reconnects repeats its first query: Last-Event-ID is newer than `startIndex`.
    return int(last) + 1 if last else query.start_index or 0


def _cursor(query: FeedQuery, last: str | None) -> Cursor | None:
    # A browser that reconnects repeats its first query: Last-Event-ID is newer than `after`.
    text = last or query.after
    return None if not text else decode_cursor(text)


def _streams(request: Request) -> Streams:
    return request.app.state.streams


async def _response(
    request: Request,
    caller: Caller,
    *,
    feed: EventStream,
    query: FeedQuery,
    tells_place: bool = False,
    start: int = 0,
    until: int | None = None,
    chat: ChatFold | None = None,
) -> Response:
    streams = _streams(request)

    def frames(cursor: str) -> Frames:
        first_cursor = cursor if tells_place else None
        if query.shape == "steerable":
            return SteerableFrames(chat)
        return _frames(request, query, streams, first_cursor=first_cursor, start=start, until=until)

    if query.deltas == "slim" and query.shape != "events":
        raise Problem(422, "deltas=slim: only with shape=events")
    slim = SlimDeltas() if query.deltas == "slim" else None
    response = await open_feed(feed, frames, streams=streams, caller=caller, slim=slim)
    if tells_place:
        response.headers[CURSOR_HEADER] = encode_cursor(feed.cursor)
    return response


def _frames(
    request: Request,
    query: FeedQuery,
    streams: Streams,
    *,
    first_cursor: str | None,
    start: int,
    until: int | None,
) -> Frames:
    accepted = request.headers.get("accept", "")
    is_sse = SSE_TYPE in accepted if query.shape == "eve" else NDJSON_TYPE not in accepted
    format_name = query.format or ("sse" if is_sse else "ndjson")
    sse = SseFrames(streams.limits.reconnect_ms, first_cursor, until) if format_name == "sse" else None
    if query.shape == "eve":
        return EveFrames(sse, start)
    return sse or NdjsonFrames(until)
