"""Feeds: what happens in a session or a run, as it happens."""

from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Request, Response

from windlass.feed import decode_cursor
from windlass.ports.feed import EventStream, StreamOptions
from windlass_protocol import Cursor
from windlass_server import feed_ndjson, feed_sse, feed_steerable
from windlass_server.access import CallerDep, own_run, own_session
from windlass_server.docs import answers
from windlass_server.guard import PREFIX, Caller
from windlass_server.routes.runs import RunId
from windlass_server.routes.sessions import SessionId
from windlass_server.streams import FeedResponse, Frames, Streams
from windlass_server.wire import Wire

router = APIRouter(prefix=PREFIX, tags=["feeds"])
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


FeedDep = Annotated[FeedQuery, Query()]
LastEventId = Annotated[
    str | None,
    Header(alias="Last-Event-ID", description="As `after`; browsers send it when they come back."),
]
_ANSWERS = answers(200, _EXAMPLE, 400, 404, 410, media_type=feed_sse.MEDIA_TYPE)
_ANSWERS[200]["content"][feed_ndjson.MEDIA_TYPE] = {
    "example": '{"cursor":"s.MDE5YQ.7","type":"message.completed","data":{"message":"Done."},"seq":7}\n'
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


def _cursor(query: FeedQuery, last: str | None) -> Cursor | None:
    # A browser that comes back sends the query of its first request again: what it saw since counts.
    text = last or query.after
    return None if not text else decode_cursor(text)


async def _response(request: Request, caller: Caller, *, feed: EventStream, query: FeedQuery) -> Response:
    streams: Streams = request.app.state.streams
    await feed.open()
    try:
        frames = _frames(request, query, streams)
        response = FeedResponse(feed, frames, streams=streams, principal=caller.principal.key)
    except BaseException:
        await feed.aclose()
        raise
    # What is left is waiting, which keeps nobody else from being answered.
    caller.slot.release()
    return response


def _frames(request: Request, query: FeedQuery, streams: Streams) -> Frames:
    if query.shape == "steerable":
        return feed_steerable.SteerableFrames()
    accepted = request.headers.get("accept", "")
    wanted = query.format or ("ndjson" if feed_ndjson.MEDIA_TYPE in accepted else "sse")
    if wanted == "ndjson":
        return feed_ndjson.NdjsonFrames()
    return feed_sse.SseFrames(streams.limits.reconnect_ms)
