"""Streams: how events are sent to a client, as SSE, NDJSON, for simple chat clients or for clients of eve.

A stream ends with its feed, when the client disconnects, or when the server shuts down.
"""

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterator
from datetime import datetime
from typing import Final, Protocol, Self

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from windlass import AgentError, Event
from windlass.feed import encode_cursor
from windlass.parts import Clock
from windlass.ports.feed import EventStream, StreamOptions
from windlass_harness.views.eve import EVE_TYPES, EveGrammar, Shown
from windlass_harness.views.events import SHARED_FIELDS, SLIM_TYPES, to_sse
from windlass_harness.views.runs import RUN_ENDS
from windlass_harness.views.stream import ChatFold
from windlass_protocol import Cursor, JsonObject, SSEEvent, SSEEventType, encode
from windlass_protocol.codec import CodecError, CodecErrorCode, encode_trusted
from windlass_server.guard import Metrics
from windlass_server.problems import Problem, of_agent_error
from windlass_server.requests import Caller
from windlass_server.settings import (
    BATCH_BYTES,
    FRAMES_BYTES_MAX,
    FRAMES_MAX,
    RETRY_MS,
    Limits,
)
from windlass_server.transport import DONE, SSE_TYPE, sse_frame

NDJSON_TYPE: Final = "application/x-ndjson"


class Frames(Protocol):
    """The encoding of one kind of stream."""

    media_type: str

    def opening(self) -> bytes:
        """Return the first bytes of the stream."""
        ...

    def event(self, event: Event, raw: bytes, *, cursor: str) -> bytes:
        """Return an event; `raw` is its JSON, and `cursor` continues after it."""
        ...

    def is_last(self, event: Event) -> bool:
        """Whether this kind of stream ends after an event."""
        ...

    def heartbeat(self) -> bytes:
        """Return a heartbeat, which keeps the connection open."""
        ...

    def reconnect(self, retry_ms: int) -> bytes:
        """Return the message that tells a client to reconnect."""
        ...

    def failure(self, problem: Problem) -> bytes:
        """Return the error that ends the stream."""
        ...

    def closing(self) -> bytes:
        """Return the last bytes of the stream."""
        ...


class StreamTimer:
    """Limits the waits of an open stream: for the next event, and for a client that reads slowly.

    All waits share one callback of the loop, which is scheduled again only when it runs: a stream waits for
    each event and in each write, and nearly all of these waits end early.
    """

    __slots__ = ("_has_expired", "_loop", "_others", "_task", "_until", "handle", "is_gone", "is_writing")

    def __init__(self) -> None:
        self.is_gone = False
        self.is_writing = False
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[object] | None = None
        self._others = 0
        """Cancellations of the task that are not of this timer."""
        self.handle: asyncio.TimerHandle | None = None
        """The scheduled callback; None if there is none."""
        self._until: float | None = None
        """End of the current wait; None if there is none."""
        self._has_expired = False

    def start(self) -> None:
        """Bind the timer to the current task."""
        self._task = asyncio.current_task()
        assert self._task is not None, "a stream is sent by a task"
        self._others = self._task.cancelling()

    def begin_wait(self, seconds: float) -> None:
        """Begin a wait: the task is cancelled after some seconds, unless `end_wait` is called before."""
        until = self._until = self._loop.time() + seconds
        handle = self.handle
        if handle is None:
            self.handle = self._loop.call_at(until, self._look)
        elif handle.when() > until:
            handle.cancel()
            self.handle = self._loop.call_at(until, self._look)

    def end_wait(self) -> None:
        """End the wait."""
        self._until = None
        self.is_writing = False

    def take_timeout(self) -> bool:
        """Consume the cancellation of this timer; False if another cancelled the task too."""
        has_expired, self._has_expired = self._has_expired, False
        assert self._task is not None, "it was bound by `start`"
        return has_expired and self._task.uncancel() <= self._others

    def stir(self) -> None:
        """End the current wait for an event; a write goes on."""
        if not self.is_writing:
            self._expire()

    def stop(self) -> None:
        """Stop the timer."""
        self._until = None
        if self.handle is not None:
            self.handle.cancel()

    def _look(self) -> None:
        self.handle = None
        if self._until is None:
            return
        if self._until <= self._loop.time():
            self._expire()
        else:
            self.handle = self._loop.call_at(self._until, self._look)

    def _expire(self) -> None:
        if self._until is not None and self._task is not None:
            self._until, self._has_expired = None, True
            self._task.cancel()


_LOG: Final = logging.getLogger("windlass.server")
_UNSENT: Final = "event.unsent"
"""The type of an event that stands for one with too many levels."""


class Streams:
    """All open streams of a server."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self.limits: Final = limits
        self._metrics = metrics
        self._timers: set[StreamTimer] = set()
        self._by_principal: Counter[str] = Counter()
        self._raw: OrderedDict[int, tuple[Event, bytes]] = OrderedDict()
        self._raw_bytes = 0
        self.is_closing = False

    def close(self) -> None:
        """Tell every client to reconnect, and end its stream."""
        self.is_closing = True
        for timer in tuple(self._timers):
            timer.stir()

    def options(self, *, follow: bool = True, with_live: bool = True) -> StreamOptions:
        """Return the options of a subscription that a stream sends."""
        return StreamOptions(follow=follow, with_live=with_live, live_pause_s=self.limits.delta_ms / 1000)

    def enter(self, principal: str) -> StreamTimer:
        """Count a new stream.

        Raises:
            Problem: too many streams are open.
        """
        if len(self._timers) >= self.limits.streams_max:
            raise Problem(503, "too many open streams on this server: retry later", retry_s=RETRY_MS // 1000)
        if self._by_principal[principal] >= self.limits.streams_per_principal_max:
            raise Problem(
                429, "you have too many open streams: close one, then retry", retry_s=RETRY_MS // 1000
            )
        timer = StreamTimer()
        self._timers.add(timer)
        self._by_principal[principal] += 1
        self._metrics.streams.inc()
        return timer

    def leave(self, timer: StreamTimer, principal: str) -> None:
        """Uncount a stream."""
        self._timers.discard(timer)
        self._by_principal[principal] -= 1
        if not self._by_principal[principal]:
            del self._by_principal[principal]
        self._metrics.streams.dec()

    def raw(self, event: Event) -> bytes:
        """Return the JSON of an event; readers of the same event share it."""
        cached = self._raw.get(id(event))
        if cached is not None and cached[0] is event:
            return cached[1]
        try:
            raw = encode_trusted(event)
        except CodecError as error:
            if error.code is not CodecErrorCode.TOO_DEEP:
                raise
            # A record that cannot be sent must not end the feed for good. Another type stands for it, at its
            # place: readers leave types alone that they do not know.
            _LOG.warning("event %s of session %s is not sent: %s", event.type, event.session_id, error)
            stand_in: JsonObject = {"type": event.type, "problem": str(error)}
            raw = encode_trusted(event.model_copy(update={"type": _UNSENT, "data": stand_in}))
        if len(raw) <= BATCH_BYTES:
            self._keep(event, raw)
        return raw

    def count(self, events: int) -> None:
        """Count events that are sent."""
        self._metrics.events.inc(events)

    def _keep(self, event: Event, raw: bytes) -> None:
        _, before = self._raw.pop(
            id(event), (event, b"")
        )  # an event that was freed may have had the same id()
        self._raw[id(event)] = (event, raw)
        self._raw_bytes += len(raw) - len(before)
        while len(self._raw) > FRAMES_MAX or self._raw_bytes > FRAMES_BYTES_MAX:
            _, (_, dropped) = self._raw.popitem(last=False)
            self._raw_bytes -= len(dropped)


class StreamResponse(Response):
    """A response that is sent over time, until it ends, the client disconnects or the server shuts down.

    It counts as a stream. A client that does not read for `send_s_max` is disconnected.
    """

    def __init__(self, media_type: str, *, streams: Streams, caller: Caller) -> None:
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-store"
        self.headers["x-accel-buffering"] = "no"
        self._streams = streams
        self._principal = caller.principal.key
        self._timer = streams.enter(self._principal)
        # From here on the request waits: its slot is free for another request.
        caller.release_slot()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream; see ASGI."""
        self._timer.start()
        watch = asyncio.create_task(self._watch(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            last = await self._pump(send)
            if last is not None and not self._timer.is_gone:
                await self._send(send, last, is_last=True)
        except TimeoutError:
            # The client does not read. It can resume by its cursor: the journal has what it missed.
            return
        finally:
            watch.cancel()
            self._timer.stop()
            self._streams.leave(self._timer, self._principal)
            await self._close()

    async def _pump(self, send: Send) -> bytes | None:
        """Send everything; return the last bytes, or None if the stream was cut off."""
        raise NotImplementedError

    async def _close(self) -> None:
        """Release the source of the stream."""
        raise NotImplementedError

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._timer.is_gone = True
        self._timer.stir()

    async def _send(self, send: Send, body: bytes, *, is_last: bool = False) -> None:
        if not body and not is_last:
            return
        self._timer.is_writing = True
        self._timer.begin_wait(self._streams.limits.send_s_max)
        try:
            await send({"type": "http.response.body", "body": body, "more_body": not is_last})
        except asyncio.CancelledError:
            if not self._timer.take_timeout():
                raise
            raise TimeoutError from None
        finally:
            self._timer.end_wait()


class LinesResponse(StreamResponse):
    """Sends stored lines as fast as the client reads them."""

    def __init__(
        self, lines: AsyncGenerator[bytes], media_type: str, *, streams: Streams, caller: Caller
    ) -> None:
        super().__init__(media_type, streams=streams, caller=caller)
        self._lines = lines

    async def _pump(self, send: Send) -> bytes | None:
        parts, size = list[bytes](), 0
        try:
            async for line in self._lines:
                if self._timer.is_gone or self._streams.is_closing:
                    return None
                parts.append(line)
                size += len(line)
                if size >= BATCH_BYTES:
                    await self._send(send, b"".join(parts))
                    parts, size = [], 0
        except AgentError:
            return None  # the response ends without its last chunk, so the client sees that it is incomplete
        return b"".join(parts)

    async def _close(self) -> None:
        await self._lines.aclose()


class SlimDeltas:
    """The short form of text deltas: one leaves out what it shares with the text delta before it."""

    def __init__(self) -> None:
        self._before: Event | None = None

    def raw(self, event: Event) -> bytes | None:
        """Return the JSON of the next event of a stream in the short form; None if it is sent whole."""
        if event.index is None or event.type not in SLIM_TYPES:
            return None
        before, self._before = self._before, event
        # Equal numbers are those of one step, whose deltas share its place.
        if before is None or _step_of(before) != _step_of(event):
            return None
        data: JsonObject = {name: value for name, value in event.data.items() if name not in SHARED_FIELDS}
        return encode({"type": event.type, "data": data, "seq": event.seq, "index": event.index})


def _step_of(delta: Event) -> tuple[object, ...]:
    return delta.seq, delta.session_id, delta.run_id, delta.agent_id, delta.meta.attempt


class FeedResponse(StreamResponse):
    """Sends the events of a feed; text deltas in their short form if `slim` is given."""

    def __init__(
        self,
        feed: EventStream,
        frames: Frames,
        *,
        streams: Streams,
        caller: Caller,
        slim: SlimDeltas | None = None,
    ) -> None:
        super().__init__(frames.media_type, streams=streams, caller=caller)
        self._slim = slim
        self._feed = feed
        self._frames = frames
        self._is_welcome = caller.is_welcome
        self._checked_at = asyncio.get_running_loop().time()

    async def _close(self) -> None:
        await self._feed.aclose()

    async def _may_go_on(self) -> bool:
        """Whether the server stays up and the credentials are still valid; checked once per heartbeat."""
        if self._streams.is_closing:
            return False
        now = asyncio.get_running_loop().time()
        if now - self._checked_at < self._streams.limits.heartbeat_s:
            return True
        self._checked_at = now
        return await self._is_welcome()

    async def _pump(self, send: Send) -> bytes:
        frames, timer, streams, feed = self._frames, self._timer, self._streams, self._feed
        await self._send(send, frames.opening())
        while not timer.is_gone:
            if streams.is_closing:
                return frames.reconnect(streams.limits.reconnect_ms)
            timer.begin_wait(streams.limits.heartbeat_s)
            try:
                event = await anext(feed)
            except asyncio.CancelledError:
                if not timer.take_timeout():
                    raise
                event = None
            except StopAsyncIteration:
                break
            except AgentError as error:
                if streams.is_closing or not await self._is_welcome():
                    return frames.reconnect(streams.limits.reconnect_ms)
                return frames.failure(of_agent_error(error))
            finally:
                timer.end_wait()
            if timer.is_gone:
                break
            if not await self._may_go_on():
                return frames.reconnect(streams.limits.reconnect_ms)
            is_over, batch = (False, frames.heartbeat()) if event is None else await self._batch(event)
            await self._send(send, batch)
            if is_over:
                break
        return frames.closing()

    async def _batch(self, event: Event) -> tuple[bool, bytes]:
        """Return whether the stream is over, and the events that are ready, as bytes."""
        frames, feed, parts, size = self._frames, self._feed, list[bytes](), 0
        while True:
            raw = None if self._slim is None else self._slim.raw(event)
            part = frames.event(event, raw or self._streams.raw(event), cursor=encode_cursor(feed.cursor))
            parts.append(part)
            size += len(part)
            is_last = frames.is_last(event)
            if is_last or not feed.ready or size >= BATCH_BYTES:
                self._streams.count(len(parts))
                return is_last, b"".join(parts)
            event = await anext(feed)


async def open_feed(
    feed: EventStream,
    frames: Callable[[str], Frames],
    *,
    streams: Streams,
    caller: Caller,
    slim: SlimDeltas | None = None,
) -> FeedResponse:
    """Open a feed and return the response that sends it.

    `frames` gets the cursor at which the feed begins; `slim` shortens text deltas.

    Raises:
        AgentError: the cursor of the feed cannot be used.
        Problem: too many streams are open.
    """
    await feed.open()
    try:
        opened = frames(encode_cursor(feed.cursor))
        return FeedResponse(feed, opened, streams=streams, caller=caller, slim=slim)
    except BaseException:
        await feed.aclose()
        raise


class SseFrames:
    """Frames of Server-Sent Events, with the cursor of each as its `id`."""

    media_type = SSE_TYPE

    def __init__(self, retry_ms: int, first_cursor: str | None = None, until: int | None = None) -> None:
        self._retry_ms = retry_ms
        self._until = until
        self._place = first_cursor

    def opening(self) -> bytes:
        """Return the reconnect delay, and the first cursor if it is known."""
        id_line = b"" if self._place is None else b"id: %b\n" % self._place.encode()
        return b"retry: %d\n%b\n" % (self._retry_ms, id_line)

    def event(self, event: Event, raw: bytes, *, cursor: str) -> bytes:
        """Return an event."""
        return b"id: %b\ndata: %b\n\n" % (cursor.encode(), raw)

    def is_last(self, event: Event) -> bool:
        """Whether it is the record at which the reader wants to end."""
        return self._until is not None and event.seq is not None and event.seq >= self._until

    def heartbeat(self) -> bytes:
        """Return a comment."""
        return b": waiting\n\n"

    def reconnect(self, retry_ms: int) -> bytes:
        """Return the message that tells a client to reconnect."""
        return b"event: reconnect\nretry: %d\ndata: %b\n\n" % (retry_ms, encode({"retryMs": retry_ms}))

    def failure(self, problem: Problem) -> bytes:
        """Return the problem; it has no id, so a client resumes after the last event."""
        return b"event: error\ndata: %b\n\n" % problem.body()

    def closing(self) -> bytes:
        """Return nothing."""
        return b""


class NdjsonFrames:
    """One line for each event."""

    media_type = NDJSON_TYPE

    def __init__(self, until: int | None = None) -> None:
        self._until = until

    def opening(self) -> bytes:
        """Return nothing."""
        return b""

    def event(self, event: Event, raw: bytes, *, cursor: str) -> bytes:
        """Return an event with its cursor."""
        # A cursor is letters, digits and ._- alone, and an event is never an empty object.
        return b'{"cursor":"%b",%b\n' % (cursor.encode(), raw[1:])

    def is_last(self, event: Event) -> bool:
        """Whether it is the record at which the reader wants to end."""
        return self._until is not None and event.seq is not None and event.seq >= self._until

    def heartbeat(self) -> bytes:
        """Return an empty line."""
        return b"\n"

    def reconnect(self, retry_ms: int) -> bytes:
        """Return the message that tells a client to reconnect."""
        return encode({"reconnect": {"retryMs": retry_ms}}) + b"\n"

    def failure(self, problem: Problem) -> bytes:
        """Return the problem."""
        return b'{"error":%b}\n' % problem.body()

    def closing(self) -> bytes:
        """Return nothing."""
        return b""


_SESSION_ENDS: Final = frozenset({"session.waiting", "session.completed", "session.failed"})


class SteerableFrames:
    """Events in the Steerable shape: the few kinds that a chat needs, then `[DONE]`.

    Text comes in deltas. A message that comes whole has the `event` `message.completed`, and it replaces the
    deltas that the client may have. `chat` has the events that a client that resumes has already.
    """

    media_type = SSE_TYPE

    def __init__(self, chat: ChatFold | None = None) -> None:
        self._chat = chat or ChatFold()
        self._is_over = False

    def opening(self) -> bytes:
        """Return nothing."""
        return b""

    def event(self, event: Event, raw: bytes, *, cursor: str) -> bytes:
        """Return an event in this shape; most are nothing."""
        was_over = self._chat.is_run_over
        changes = self._chat.apply(event)
        # The end of the run was the end of this stream: the session repeats it for a client that resumes.
        is_repeated = was_over and event.type in _SESSION_ENDS
        shown = () if is_repeated else to_sse(event, changes)
        self._is_over = any(sse_event.type is SSEEventType.DONE for sse_event in shown)
        return b"".join(sse_frame(sse_event, cursor) for sse_event in shown)

    def is_last(self, event: Event) -> bool:
        """Whether the turn is over, which ends this shape."""
        return self._is_over

    def heartbeat(self) -> bytes:
        """Return the heartbeat of this shape."""
        return sse_frame(SSEEvent(type=SSEEventType.KEEPALIVE))

    def reconnect(self, retry_ms: int) -> bytes:
        """Return the message that tells a client to reconnect."""
        return b"event: reconnect\nretry: %d\ndata: %b\n\n" % (retry_ms, encode({"retryMs": retry_ms}))

    def failure(self, problem: Problem) -> bytes:
        """Return the problem as an error, and `[DONE]`."""
        error = SSEEvent(type=SSEEventType.ERROR, code=problem.named_code, message=problem.detail)
        return sse_frame(error) + DONE

    def closing(self) -> bytes:
        """Return `[DONE]`."""
        return DONE


class EveFrames:
    """Events in the sequence of eve 0.13.8, numbered from 0; those before `start` are left out.

    The same journal gives the same numbers, live and later: a text is cut at `CUTS`, and an attempt at a step
    that came to no answer counts as if all its pieces had been sent. Server-Sent Events have the number as
    `id`; their live deltas are finer and have none. Clients of lines count what they read.
    """

    def __init__(self, sse: SseFrames | None, start: int) -> None:
        self.media_type = NDJSON_TYPE if sse is None else SSE_TYPE
        self._sse = sse
        self._start = start
        self._next = 0
        self._grammar = EveGrammar()
        self._streamed: dict[str, str] = {}
        """The live texts of the current attempt so far, by the first word of their type."""
        self._is_unanswered = False
        """Whether an attempt at a step is under way."""
        self._cuts = 0
        """The pieces of the message that have a number, in this attempt."""
        self._has_thought = False
        """Whether the piece of the reasoning has a number, in this attempt."""
        self._thought: Shown | None = None
        """The end of the reasoning: it is numbered after the pieces of the message, and so is the piece of
        reasoning that began after the message."""

    def opening(self) -> bytes:
        """Return the reconnect delay of Server-Sent Events."""
        return b"" if self._sse is None else self._sse.opening()

    def event(self, event: Event, raw: bytes, *, cursor: str) -> bytes:
        """Return the events of eve that a record makes; many make none."""
        if event.index is not None:
            return self._delta(event)
        at, parts = event.meta.at, list[bytes]()
        if self._is_unanswered and event.type in _VOIDING:
            parts += self._void(at)
        for shown in self._grammar.take(event.type, event.data, attempt=event.meta.attempt):
            parts += self._events(shown, at)
        if event.type in ("step.started", "step.completed"):
            self._begin_attempt(is_unanswered=event.type == "step.started")
        return b"".join(parts)

    def is_last(self, event: Event) -> bool:
        """Return False: no event ends the stream."""
        return False

    def heartbeat(self) -> bytes:
        """Return a comment, or an empty line, which clients of eve skip and do not count."""
        return b"\n" if self._sse is None else self._sse.heartbeat()

    def reconnect(self, retry_ms: int) -> bytes:
        """Return the message that tells a client to reconnect; lines end, and their clients reconnect."""
        return b"" if self._sse is None else self._sse.reconnect(retry_ms)

    def failure(self, problem: Problem) -> bytes:
        """Return the problem; lines end, and a client that reconnects gets it as the status."""
        return b"" if self._sse is None else self._sse.failure(problem)

    def closing(self) -> bytes:
        """Return nothing."""
        return b""

    def _begin_attempt(self, *, is_unanswered: bool) -> None:
        self._streamed.clear()
        self._is_unanswered, self._cuts, self._has_thought = is_unanswered, 0, False

    def _void(self, at: str) -> Iterator[bytes]:
        """Yield the pieces that an attempt without an answer did not send: the text is empty again."""
        data: JsonObject = {**self._step_place(), **_texts("message", "", "")}
        for _ in range(len(CUTS) + 1 - self._cuts - self._has_thought):
            yield self._next_event(("message.appended", data), at)
        self._begin_attempt(is_unanswered=False)

    def _events(self, shown: Shown, at: str) -> Iterator[bytes]:
        """Yield an event; the end of a text comes after its pieces."""
        kind, data = shown
        text = data.get(kind.partition(".")[0])
        if kind == "reasoning.completed" and isinstance(text, str):
            if not data.get("isLate"):
                yield from self._think(text, data, at)
            self._thought = shown
            return
        if kind == "message.completed":
            self._is_unanswered = False
            if isinstance(text, str):
                yield from self._cut(text, data, at)
        thought, self._thought = self._thought, None
        if thought is not None:
            yield from self._think(str(thought[1]["reasoning"]), thought[1], at)
            yield self._next_event(thought, at)
        if kind == "message.completed" and isinstance(text, str):
            yield self._piece(text, len(text), data, at)
        yield self._next_event(shown, at)

    def _think(self, text: str, data: JsonObject, at: str) -> Iterator[bytes]:
        """Yield the piece of the reasoning, once."""
        if not self._has_thought:
            self._has_thought = True
            piece: Shown = ("reasoning.appended", {**_step_fields(data), **_texts("reasoning", text, text)})
            yield self._next_event(piece, at, is_told=self._sse is not None and "reasoning" in self._streamed)

    def _cut(self, text: str, data: JsonObject, at: str) -> Iterator[bytes]:
        """Yield the pieces of a message up to the last cut before its end so far."""
        while self._cuts < len(CUTS) and len(text) > CUTS[self._cuts]:
            end = CUTS[self._cuts]
            piece = self._piece(text, end, data, at)
            self._cuts += 1
            yield piece

    def _piece(self, text: str, end: int, data: JsonObject, at: str) -> bytes:
        """Return the piece of a message between the last cut and `end`."""
        start = CUTS[self._cuts - 1] if self._cuts else 0
        piece: Shown = (
            "message.appended",
            {**_step_fields(data), **_texts("message", text[start:end], text[:end])},
        )
        return self._next_event(piece, at, is_told=self._sse is not None and "message" in self._streamed)

    def _step_place(self) -> JsonObject:
        return self._grammar.with_position({"sequence": 0, "stepIndex": 0, "turnId": ""})

    def _delta(self, event: Event) -> bytes:
        name = event.type.partition(".")[0]
        if name not in _TEXTS or event.type not in EVE_TYPES:
            return b""
        delta, so_far = event.data.get(f"{name}Delta"), event.data.get(f"{name}SoFar")
        text = so_far if isinstance(so_far, str) else f"{self._streamed.get(name, '')}{delta}"
        step_fields, at = _step_fields(self._grammar.with_position(event.data)), event.meta.at
        if self._sse is not None:
            if self._next < self._start:
                return b""
            self._streamed[name] = text
            shown: Shown = (event.type, {**step_fields, **_texts(name, str(delta), text)})
            return b"data: %b\n\n" % _eve_event(shown, at)
        is_begun = "message" in self._streamed
        self._streamed[name] = text
        if name == "reasoning" or not self._is_unanswered:
            return b""
        parts = list[bytes]()
        # Reasoning that began after the message is numbered after its pieces, as `isLate` says later.
        if "reasoning" in self._streamed and not is_begun:
            parts += self._think(self._streamed["reasoning"], step_fields, at)
        parts += self._cut(text, step_fields, at)
        return b"".join(parts)

    def _next_event(self, shown: Shown, at: str, *, is_told: bool = False) -> bytes:
        """Return the next event; nothing if the client has it, by its number or as live deltas."""
        number, self._next = self._next, self._next + 1
        if number < self._start or is_told:
            return b""
        raw = _eve_event(shown, at)
        return b"%b\n" % raw if self._sse is None else b"id: %d\ndata: %b\n\n" % (number, raw)


def _cut_lengths() -> Iterator[int]:
    """Yield the lengths at which texts are cut: often at first, so that a text is live, and then less."""
    length = CUT_CHARS_MIN
    while length <= CUT_CHARS_MAX:
        yield length
        length += max(CUT_CHARS_MIN, length // 3)


CUT_CHARS_MIN: Final = 16
CUT_CHARS_MAX: Final = 16_384
"""A longer text comes whole after this, at its end."""
CUTS: Final = tuple(_cut_lengths())
"""The lengths of a text at which a piece ends. They never change: clients resume by numbers of events."""
_VOIDING: Final = frozenset({"step.started", "step.retrying", "step.failed", *RUN_ENDS}) | {
    "turn.completed",
    "turn.failed",
    "turn.cancelled",
}
"""Records after which an attempt at a step has no answer any more."""
_TEXTS: Final = frozenset({"message", "reasoning"})


def _eve_event(shown: Shown, at: str) -> bytes:
    kind, data = shown
    return encode({"type": kind, "data": data, "meta": {"at": at}})


def _step_fields(data: JsonObject) -> JsonObject:
    return {name: data[name] for name in ("sequence", "stepIndex", "turnId") if name in data}


def _texts(name: str, delta: str, so_far: str) -> JsonObject:
    return {f"{name}Delta": delta, f"{name}SoFar": so_far}


class PacedStream:
    """The events of a run with the pauses that were between them; see `EventStream`.

    `speed` 2 halves the pauses; none takes more than `pause_s_max` seconds.
    """

    def __init__(self, inner: EventStream, clock: Clock, *, speed: float, pause_s_max: float) -> None:
        self._inner = inner
        self._clock = clock
        self._speed = speed
        self._pause_s_max = pause_s_max
        self._taken: tuple[Event, Cursor] | None = None
        """An event that was read and is not due yet."""
        self._due = 0.0
        self._last_at: datetime | None = None
        self._cursor = inner.cursor

    def __aiter__(self) -> Self:
        """Return the stream itself."""
        return self

    async def __anext__(self) -> Event:
        """Return the next event, once its pause is over."""
        if self._taken is None:
            event = await anext(self._inner)
            self._taken = (event, self._inner.cursor)
            self._due = self._clock.monotonic() + self._pause_s(event)
        # A wait that is interrupted here keeps the event for the next call.
        left_s = self._due - self._clock.monotonic()
        if left_s > 0:
            await self._clock.sleep(left_s)
        (event, self._cursor), self._taken = self._taken, None
        return event

    def _pause_s(self, event: Event) -> float:
        at, before = datetime.fromisoformat(event.meta.at), self._last_at
        self._last_at = at
        # The clock may have been set back between two events.
        real_s = 0.0 if before is None else max(0.0, (at - before).total_seconds())
        return min(real_s / self._speed, self._pause_s_max)

    @property
    def cursor(self) -> Cursor:
        """The cursor after the last event."""
        return self._cursor

    @property
    def ready(self) -> int:
        """Return 0: each event is sent by itself."""
        return 0

    async def open(self) -> None:
        """Check the cursor before the first event is read."""
        await self._inner.open()
        self._cursor = self._inner.cursor

    async def aclose(self) -> None:
        """End the stream."""
        await self._inner.aclose()
