"""Open streams: how events are sent to one client until it, or the server, goes."""

import asyncio
from collections import Counter, OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from windlass import AgentError, Event
from windlass.feed import encode_cursor
from windlass.ports.feed import EventStream
from windlass_protocol.codec import encode_trusted
from windlass_server.limits import BATCH_BYTES, FRAMES_MAX, RETRY_MS
from windlass_server.metrics import Metrics
from windlass_server.problems import Problem, of_agent_error
from windlass_server.settings import Limits


class Frames(Protocol):
    """How one kind of stream writes what it sends."""

    media_type: str

    def opening(self) -> bytes:
        """Return what comes before everything else."""
        ...

    def event(self, event: Event, raw: bytes, *, cursor: str) -> bytes:
        """Return an event; `raw` is its JSON, and `cursor` the place behind it."""
        ...

    def is_last(self, event: Event) -> bool:
        """Whether this kind of stream ends after an event."""
        ...

    def heartbeat(self) -> bytes:
        """Return what keeps the connection open."""
        ...

    def reconnect(self, retry_ms: int) -> bytes:
        """Return what tells a client to come back."""
        ...

    def failure(self, problem: Problem) -> bytes:
        """Return what tells a client why the stream ends."""
        ...

    def closing(self) -> bytes:
        """Return what comes after everything else."""
        ...


@dataclass(slots=True, eq=False)
class _Reader:
    """A stream that is being sent; `scope` ends its present wait."""

    scope: asyncio.Timeout | None = None
    is_gone: bool = False

    def stir(self) -> None:
        """End the present wait."""
        scope = self.scope
        if scope is not None and not scope.expired():
            # A scope that has just been left cannot be changed any more, and need not be.
            with suppress(RuntimeError):
                scope.reschedule(asyncio.get_running_loop().time())


class Streams:
    """All open streams of a server."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self.limits: Final = limits
        self._metrics = metrics
        self._readers: set[_Reader] = set()
        self._by_principal: Counter[str] = Counter()
        self._raw: OrderedDict[int, tuple[Event, bytes]] = OrderedDict()
        self.is_closing = False

    def close(self) -> None:
        """Tell every client to come back later, and end its stream."""
        self.is_closing = True
        for reader in tuple(self._readers):
            reader.stir()

    def enter(self, principal: str) -> _Reader:
        """Take a place for a stream.

        Raises:
            Problem: there is none.
        """
        if len(self._readers) >= self.limits.streams_max:
            raise Problem(503, "too many open streams: come back later", retry_s=RETRY_MS // 1000)
        if self._by_principal[principal] >= self.limits.streams_per_principal_max:
            raise Problem(429, "you have too many open streams: close one", retry_s=RETRY_MS // 1000)
        reader = _Reader()
        self._readers.add(reader)
        self._by_principal[principal] += 1
        self._metrics.streams.inc()
        return reader

    def leave(self, reader: _Reader, principal: str) -> None:
        """Give the place back."""
        self._readers.discard(reader)
        self._by_principal[principal] -= 1
        if not self._by_principal[principal]:
            del self._by_principal[principal]
        self._metrics.streams.dec()

    def raw(self, event: Event) -> bytes:
        """Return the JSON of an event; readers of the same event share it."""
        self._metrics.events.inc()
        known = self._raw.get(id(event))
        if known is not None and known[0] is event:
            return known[1]
        raw = encode_trusted(event)
        self._raw[id(event)] = (event, raw)
        if len(self._raw) > FRAMES_MAX:
            self._raw.popitem(last=False)
        return raw


class FeedResponse(Response):
    """Sends a feed until it ends, the client goes, or the server does."""

    def __init__(self, feed: EventStream, frames: Frames, *, streams: Streams, principal: str) -> None:
        super().__init__(media_type=frames.media_type)
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-store"
        self.headers["x-accel-buffering"] = "no"
        self._feed = feed
        self._frames = frames
        self._streams = streams
        self._principal = principal
        self._reader = streams.enter(principal)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream; see ASGI."""
        watch = asyncio.create_task(self._watch(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._send(send, self._frames.opening())
            last = await self._pump(send)
            if not self._reader.is_gone:
                await self._send(send, last, is_last=True)
        except TimeoutError:
            # The client takes nothing any more. What it missed is in the journal.
            return
        finally:
            watch.cancel()
            self._streams.leave(self._reader, self._principal)
            await self._feed.aclose()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._reader.is_gone = True
        self._reader.stir()

    async def _pump(self, send: Send) -> bytes:
        """Send events; return what to send at the end."""
        frames, reader, streams, feed = self._frames, self._reader, self._streams, self._feed
        while not reader.is_gone:
            if streams.is_closing:
                return frames.reconnect(streams.limits.reconnect_ms)
            try:
                async with asyncio.timeout(streams.limits.heartbeat_s) as reader.scope:
                    event = await anext(feed)
            except TimeoutError:
                if not (reader.is_gone or streams.is_closing):
                    await self._send(send, frames.heartbeat())
                continue
            except StopAsyncIteration:
                break
            except AgentError as error:
                if streams.is_closing:
                    return frames.reconnect(streams.limits.reconnect_ms)
                return frames.failure(of_agent_error(error))
            finally:
                reader.scope = None
            is_over, batch = await self._batch(event)
            await self._send(send, batch)
            if is_over:
                break
        return frames.closing()

    async def _batch(self, event: Event) -> tuple[bool, bytes]:
        """Return whether the stream is over, and what to send of all that is there."""
        frames, feed, parts, size = self._frames, self._feed, list[bytes](), 0
        while True:
            part = frames.event(event, self._streams.raw(event), cursor=encode_cursor(feed.cursor))
            parts.append(part)
            size += len(part)
            if frames.is_last(event):
                return True, b"".join(parts)
            if not feed.ready or size >= BATCH_BYTES:
                return False, b"".join(parts)
            event = await anext(feed)

    async def _send(self, send: Send, body: bytes, *, is_last: bool = False) -> None:
        if not body and not is_last:
            return
        async with asyncio.timeout(self._streams.limits.send_s_max):
            await send({"type": "http.response.body", "body": body, "more_body": not is_last})
