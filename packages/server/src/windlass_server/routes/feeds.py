"""Feeds: what happens in a session or a run, as it happens."""

from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import Field

from windlass.feed import decode_cursor, encode_cursor
from windlass.ports.feed import PROGRESS_TYPES, EventStream, StreamOptions
from windlass_protocol import AllCursor, Cursor
from windlass_server import feed_ndjson, feed_sse, feed_steerable
from windlass_server.access import CallerDep, own_run, own_session
from windlass_server.docs import answers
from windlass_server.guard import PREFIX, Caller
from windlass_server.limits import REPLAY_PAUSE_S, REPLAY_PAUSE_S_MAX, TYPES_MAX
from windlass_server.owned import OwnedStream
from windlass_server.paced import PacedStream
from windlass_server.problems import Problem
from windlass_server.routes.runs import RunId
from windlass_server.routes.sessions import SessionId
from windlass_server.streams import FeedResponse, Frames, Streams
from windlass_server.wire import Wire

router = APIRouter(prefix=PREFIX, tags=["feeds"])
CURSOR_HEADER = "windlass-cursor"
_EXAMPLE = 'id: s.MDE5YQ.7\ndata: {"type":"message.completed","data":{"message":"Done."},"seq":7}\n\n'


class FeedQuery(Wire):
    """How a feed is read."""

    after: str | None = None
    """The `id` of the last event that was seen; everything when left out."""
    follow: bool = True
    """False ends the stream where the journal ends now."""
    format: Literal["sse", "ndjson"] | None = None
    """Else `Accept` decides: Server-Sent Events unless it names `application/x-ndjson`."""
    shape: Literal["events", "steerable"] = "events"
    """`steerable` gives the few kinds of events that a simple chat needs, and then `[DONE]`."""


class ReplayQuery(Wire):
    """How a run is shown again."""

    after: str | None = None
    """The `id` of the last event that was seen; everything when left out."""
    format: Literal["sse", "ndjson"] | None = None
    """Else `Accept` decides."""
    speed: Annotated[float, Field(ge=0.1, le=1_000, description="2 is twice as fast as it was.")] = 1.0
    pause_max: Annotated[
        float,
        Field(alias="pause_max", ge=0, le=REPLAY_PAUSE_S_MAX, description="The longest pause, seconds."),
    ] = REPLAY_PAUSE_S


class AllQuery(Wire):
    """How the feed over all sessions is read."""

    after: str | None = None
    """The `id` of the last event that was seen, or `now`; everything when left out."""
    follow: bool = True
    """False ends the stream where the journal ends now."""
    format: Literal["sse", "ndjson"] | None = None
    """Else `Accept` decides."""
    types: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=4_096,
            pattern=r"^[a-z_.]+(?:,[a-z_.]+)*$",
            description="Types of events, with commas between them.",
            examples=["run.started,run.waiting,run.completed"],
        ),
    ] = None


FeedDep = Annotated[FeedQuery, Query()]
LastEventId = Annotated[
    str | None,
    Header(alias="Last-Event-ID", description="As `after`; browsers send it when they come back."),
]
_ANSWERS = answers(200, _EXAMPLE, 400, 404, 410, media_type=feed_sse.MEDIA_TYPE)
_ANSWERS[200]["content"][feed_ndjson.MEDIA_TYPE] = {
    "example": '{"cursor":"s.MDE5YQ.7","type":"message.completed","data":{"message":"Done."},"seq":7}\n'
}
_OF_ALL = answers(200, _EXAMPLE, 400, 410, media_type=feed_sse.MEDIA_TYPE)
_OF_ALL[200]["content"][feed_ndjson.MEDIA_TYPE] = _ANSWERS[200]["content"][feed_ndjson.MEDIA_TYPE]
_OF_ALL[200]["headers"] = {
    CURSOR_HEADER: {"description": "Where the stream begins.", "schema": {"type": "string"}}
}


@router.get(
    "/sessions/{session_id:path}/events",
    responses=_ANSWERS,
    response_class=Response,
    summary="Watch a session",
)
async def of_session(
    *, request: Request, caller: CallerDep, session_id: SessionId, query: FeedDep, last: LastEventId = None
) -> Response:
    """Send every event of a session, those that are stored and then those that come.

    Each has an `id`. A client that comes back with the last one it saw misses nothing and gets nothing twice,
    also when the server was started anew meanwhile.
    """
    await own_session(caller, session_id)
    bus = caller.tenant.runtime.events()
    cursor = _cursor(query, last)
    feed = bus.subscribe_session(session_id, cursor, options=StreamOptions(follow=query.follow))
    return await _response(request, caller, feed=feed, query=query)


@router.get("/runs/{run_id:path}/events", responses=_ANSWERS, response_class=Response, summary="Watch a run")
async def of_run(
    *, request: Request, caller: CallerDep, run_id: RunId, query: FeedDep, last: LastEventId = None
) -> Response:
    """Send every event of a run; the stream ends with the run."""
    await own_run(caller, run_id)
    bus = caller.tenant.runtime.events()
    options = StreamOptions(follow=query.follow)
    feed = bus.subscribe_run(run_id, _cursor(query, last), options=options, until_terminal=True)
    return await _response(request, caller, feed=feed, query=query)


@router.get(
    "/runs/{run_id:path}/replay", responses=_ANSWERS, response_class=Response, summary="Watch a run again"
)
async def replay(
    *,
    request: Request,
    caller: CallerDep,
    run_id: RunId,
    query: Annotated[ReplayQuery, Query()],
    last: LastEventId = None,
) -> Response:
    """Send the events of a run again, with the pauses that there were.

    Nothing is run.

    The stream ends with the event that ended the run, or where the run is now. Pieces of answers are not
    kept, so answers come whole.
    """
    await own_run(caller, run_id)
    runtime, plain = caller.tenant.runtime, FeedQuery(after=query.after, format=query.format)
    options = StreamOptions(follow=False)
    inner = runtime.events().subscribe_run(run_id, _cursor(plain, last), options=options, until_terminal=True)
    clock = runtime.ports.machine.clock
    feed = PacedStream(inner, clock, speed=query.speed, pause_s_max=query.pause_max)
    return await _response(request, caller, feed=feed, query=plain)


@router.get("/events", responses=_OF_ALL, response_class=Response, summary="Watch all your sessions")
async def of_all(
    *, request: Request, caller: CallerDep, query: Annotated[AllQuery, Query()], last: LastEventId = None
) -> Response:
    """Send the events of all your sessions, in the order in which they happened.

    `after=now` begins with what comes next. The header `windlass-cursor` says where the stream begins, so
    that whoever is cut off before the first event comes back there. Pieces of answers that are being written
    come only if `types` names them. For a list that is up to date: open this first, then read the list.
    """
    types = None if query.types is None else frozenset(query.types.split(","))
    if types is not None and len(types) > TYPES_MAX:
        raise Problem(422, f"types: found {len(types):,}, limit {TYPES_MAX}")
    options = StreamOptions(follow=query.follow, with_live=types is not None and bool(types & PROGRESS_TYPES))
    text = last or query.after
    if text == "now":
        cursor: Cursor | None = AllCursor(position=await caller.tenant.store.last_position())
    else:
        cursor = None if not text else decode_cursor(text)
    inner = caller.tenant.runtime.events().subscribe_all(cursor, options=options)
    feed = OwnedStream(inner, caller.tenant.store, owner=caller.principal.user, types=types)
    plain = FeedQuery(after=query.after, follow=query.follow, format=query.format)
    return await _response(request, caller, feed=feed, query=plain, tells_place=True)


def _cursor(query: FeedQuery, last: str | None) -> Cursor | None:
    # A browser that comes back sends the query of its first request again: what it saw since counts.
    text = last or query.after
    return None if not text else decode_cursor(text)


async def _response(
    request: Request, caller: Caller, *, feed: EventStream, query: FeedQuery, tells_place: bool = False
) -> Response:
    streams: Streams = request.app.state.streams
    await feed.open()
    try:
        place = encode_cursor(feed.cursor) if tells_place else None
        frames = _frames(request, query, streams, place=place)
        response = FeedResponse(feed, frames, streams=streams, reading=caller.reading)
    except BaseException:
        await feed.aclose()
        raise
    if place is not None:
        response.headers[CURSOR_HEADER] = place
    # What is left is waiting, which keeps nobody else from being answered.
    caller.slot.release()
    return response


def _frames(request: Request, query: FeedQuery, streams: Streams, *, place: str | None) -> Frames:
    if query.shape == "steerable":
        return feed_steerable.SteerableFrames()
    accepted = request.headers.get("accept", "")
    wanted = query.format or ("ndjson" if feed_ndjson.MEDIA_TYPE in accepted else "sse")
    if wanted == "ndjson":
        return feed_ndjson.NdjsonFrames()
    return feed_sse.SseFrames(streams.limits.reconnect_ms, place)
