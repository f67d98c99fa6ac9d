"""Open streams: how events are sent to one client until it, or the server, goes."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from windlass import AgentError, Event
from windlass.feed import encode_cursor
from windlass.ports.feed import EventStream
from windlass_protocol.codec import encode_trusted
from windlass_server.limits import BATCH_BYTES, FRAMES_BYTES_MAX, FRAMES_MAX, RETRY_MS
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
        self._raw_bytes = 0
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
        if len(raw) <= BATCH_BYTES:
            self._keep(event, raw)
        return raw

    def _keep(self, event: Event, raw: bytes) -> None:
        _, before = self._raw.pop(id(event), (event, b""))  # of an event that is gone, in the same place
        self._raw[id(event)] = (event, raw)
        self._raw_bytes += len(raw) - len(before)
        while len(self._raw) > FRAMES_MAX or self._raw_bytes > FRAMES_BYTES_MAX:
            _, (_, dropped) = self._raw.popitem(last=False)
            self._raw_bytes -= len(dropped)


@dataclass(frozen=True, slots=True)
class Reading:
    """Who reads a stream, and how long they may."""

    principal: str
    is_welcome: Callable[[], Awaitable[bool]]
    """Whether they would be let in now: a key can be revoked, and a token ends."""


class StreamResponse(Response):
    """Sends what takes long, until it ends or the client or the server goes.

    It has a place among the streams, and a client that takes nothing of it is cut off.
    """

    def __init__(self, media_type: str, *, streams: Streams, principal: str) -> None:
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-store"
        self.headers["x-accel-buffering"] = "no"
        self._streams = streams
        self._principal = principal
        self._reader = streams.enter(principal)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream; see ASGI."""
        watch = asyncio.create_task(self._watch(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            last = await self._pump(send)
            if last is not None and not self._reader.is_gone:
                await self._send(send, last, is_last=True)
        except TimeoutError:
            # The client takes nothing any more. What it missed is in the journal.
            return
        finally:
            watch.cancel()
            self._streams.leave(self._reader, self._principal)
            await self._close()

    async def _pump(self, send: Send) -> bytes | None:
        """Send everything; return what to send at the end, if it is one."""
        raise NotImplementedError

    async def _close(self) -> None:
        """Let go of what was sent from."""
        raise NotImplementedError

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._reader.is_gone = True
        self._reader.stir()

    async def _send(self, send: Send, body: bytes, *, is_last: bool = False) -> None:
        if not body and not is_last:
            return
        async with asyncio.timeout(self._streams.limits.send_s_max):
            await send({"type": "http.response.body", "body": body, "more_body": not is_last})


class LinesResponse(StreamResponse):
    """Sends lines that are there already, as fast as a client takes them."""

    def __init__(
        self, lines: AsyncGenerator[bytes], media_type: str, *, streams: Streams, principal: str
    ) -> None:
        super().__init__(media_type, streams=streams, principal=principal)
        self._lines = lines

    async def _pump(self, send: Send) -> bytes | None:
        parts, size = list[bytes](), 0
        try:
            async for line in self._lines:
                if self._reader.is_gone or self._streams.is_closing:
                    return None
                parts.append(line)
                size += len(line)
                if size >= BATCH_BYTES:
                    await self._send(send, b"".join(parts))
                    parts, size = [], 0
        except AgentError:
            return None  # what was sent is not all of it, and its end says so
        return b"".join(parts)

    async def _close(self) -> None:
        await self._lines.aclose()


class FeedResponse(StreamResponse):
    """Sends a feed until it ends, the client goes, or the server does."""

    def __init__(self, feed: EventStream, frames: Frames, *, streams: Streams, reading: Reading) -> None:
        super().__init__(frames.media_type, streams=streams, principal=reading.principal)
        self._feed = feed
        self._frames = frames
        self._is_welcome = reading.is_welcome
        self._checked_at = asyncio.get_running_loop().time()

    async def _close(self) -> None:
        await self._feed.aclose()

    async def _may_go_on(self) -> bool:
        """Whether server and reader are still there; looked at per heartbeat."""
        if self._streams.is_closing:
            return False
        now = asyncio.get_running_loop().time()
        if now - self._checked_at < self._streams.limits.heartbeat_s:
            return True
        self._checked_at = now
        return await self._is_welcome()

    async def _pump(self, send: Send) -> bytes:
        frames, reader, streams, feed = self._frames, self._reader, self._streams, self._feed
        await self._send(send, frames.opening())
        while not reader.is_gone:
            try:
                async with asyncio.timeout(streams.limits.heartbeat_s) as reader.scope:
                    event = await anext(feed)
            except TimeoutError:
                event = None
            except StopAsyncIteration:
                break
            except AgentError as error:
                if streams.is_closing:
                    return frames.reconnect(streams.limits.reconnect_ms)
                return frames.failure(of_agent_error(error))
            finally:
                reader.scope = None
            if reader.is_gone:
                break
            if not await self._may_go_on():
                return frames.reconnect(streams.limits.reconnect_ms)
            is_over, batch = (False, frames.heartbeat()) if event is None else await self._batch(event)
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
