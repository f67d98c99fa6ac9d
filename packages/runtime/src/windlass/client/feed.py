"""A feed that resumes after disconnects without a gap or a repeat."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, Literal, Self, cast

import httpx2

from windlass.client.connection import (
    EVENT_BYTES_MAX,
    FEEDS,
    GAPS_MAX,
    IDLE_S,
    Broken,
    NotWindlass,
    ServerCall,
    is_passing,
    stream_error,
)
from windlass.client.link import ServerLink
from windlass.errors import AgentError, Ambiguous
from windlass.tools.calling import read_by_size
from windlass_harness.views.events import SHARED_FIELDS, SLIM_TYPES
from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import CodecError, CodecLimits, Event, decode, encode, parse

Verdict = Literal["new", "seen", "gap"]
"""How an event relates to those read before: new, seen before, or after a gap."""
_STEP: Final = "step.started"


class FeedPlace:
    """The position of a reader.

    Records have numbers without gaps in their session. Live deltas have a number in their step, which
    restarts with each `step.started`. The feed of one run leaves out the records of other runs, so numbers
    may be missing there.
    """

    def __init__(self, *, has_all: bool, is_from_start: bool) -> None:
        self._has_all = has_all
        self._seq = 0 if is_from_start else None
        self._index = -1

    def take(self, event: Event) -> Verdict:
        """Apply the next event, unless it was seen before or a record before it is missing."""
        if event.seq is None:
            return "new"
        return self._record(event.seq, event.type) if event.index is None else self._delta(event.index)

    def _record(self, seq: int, kind: str) -> Verdict:
        if self._seq is not None:
            if seq <= self._seq:
                return "seen"
            if self._has_all and seq > self._seq + 1:
                return "gap"
        self._seq = seq
        if kind == _STEP:
            self._index = -1
        return "new"

    def _delta(self, index: int) -> Verdict:
        if index <= self._index:
            return "seen"
        self._index = index
        return "new"


def ends_run(event: Event) -> bool:
    """Whether an event ends its run; only deliveries may follow."""
    return event.type in RUN_ENDS


_SSE: Final = "text/event-stream"
_DONE: Final = "[DONE]"
_LIMITS: Final = CodecLimits(message_bytes_max=EVENT_BYTES_MAX)
_NOTHING_MORE: Final = 204
"""The SSE status for "do not reconnect"."""


class _Missing(Broken):
    """An event arrived without the record before it."""

    def __init__(self) -> None:
        super().__init__("a record is missing in the feed after repeated reads")


class EventFeed:
    """The events of a session or a run: the stored ones, then the live ones.

    Read it with `async for`, in one task. The next chunk is read from the connection after all events of the
    last one were taken: a slow reader slows the server, and nothing is buffered here. A connection that
    breaks, goes silent or is closed by the server is opened again after the last event, without a limit of
    attempts unless `attempts_max` is set. A connection that was never open is given up, like a request.
    """

    def __init__(
        self,
        link: ServerLink,
        path: str,
        *,
        is_of_run: bool,
        after: str | None,
        follow: bool,
        idle_s: float = IDLE_S,
    ) -> None:
        self._link = link
        self._path = path
        self._is_of_run = is_of_run
        self._cursor = after
        self._follow = follow
        self._idle_s = idle_s
        self._place = FeedPlace(has_all=not is_of_run, is_from_start=after is None)
        self.attempts_max: int | None = None
        """Attempts in a row to open a connection that was lost; None is without a limit."""
        self._failures = 0
        self._gaps = 0
        self._retry_ms: int | None = None
        self._text_delta: Event | None = None
        """The last text delta of the connection: the next ones leave out what they share with it."""
        self._has_opened = self._has_ended = self._is_over = False
        self._events = self._read()
        link.keep(self)

    @property
    def cursor(self) -> str | None:
        """The position of the reader: pass it as `after` to continue from here, also in another process."""
        return self._cursor

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """Return the next event; wait if there is none.

        Raises:
            CursorExpired: the events after the cursor are no longer stored.
            AgentError: the server refuses for good, or sends an invalid feed.
        """
        return await anext(self._events)

    async def aclose(self) -> None:
        """Close the feed and its connection."""
        await self._events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _read(self) -> AsyncGenerator[Event]:
        while not self._is_over:
            after_ms: int | None = None
            try:
                async with aclosing(self._connection()) as events:
                    async for event in events:
                        yield event
            except AgentError as error:
                self._bear(error)
                after_ms = error.retry_after_ms
            if not self._is_over:
                pause_ms, self._retry_ms = max(after_ms or 0, self._retry_ms or 0), None
                await self._link.pause(max(self._failures, 1), FEEDS, retry_after_ms=pause_ms)

    async def _connection(self) -> AsyncGenerator[Event]:
        """Yield the events of one connection."""
        query = {"deltas": "slim", "follow": None if self._follow else False, "after": self._cursor}
        self._text_delta = None
        call = ServerCall("GET", self._path, query=query)
        async with self._link.stream(call, accept=_SSE, silence_s=self._idle_s) as response:
            if response.status_code == _NOTHING_MORE:
                self._is_over = True
                return
            self._check_type(response)
            self._has_opened = True
            try:
                async with aclosing(self._read_events(response)) as events:
                    async for event in events:
                        yield event
            except httpx2.SSEError:
                raise NotWindlass(
                    f"an event of the feed is too large: limit {EVENT_BYTES_MAX:,} bytes"
                ) from None
            except httpx2.RequestError as error:
                raise self._link.fault(error) from None

    async def _read_events(self, response: httpx2.Response) -> AsyncGenerator[Event]:
        source = httpx2.EventSource(response, max_event_size=EVENT_BYTES_MAX)
        parts = cast(AsyncGenerator[httpx2.ServerSentEvent], source.__aiter__())
        async with aclosing(parts):
            async for part in parts:
                if part.retry is not None:
                    self._retry_ms = max(part.retry, 0)
                if part.event == "reconnect":
                    self._retry_ms = _hint(part.data) or self._retry_ms
                    return
                if part.event == "end" or part.data == _DONE:
                    self._is_over = True
                    return
                if part.event == "error":
                    raise stream_error(self._mask(part.data))
                if not part.data:
                    continue
                data = part.data
                before = self._text_delta
                event = await read_by_size(
                    len(data), lambda data=data, before=before: _event(self._mask(data), before)
                )
                if event.type in SLIM_TYPES:
                    self._text_delta = event
                if self._is_new(event, part.id):
                    yield event
        # A clean end ends a finite feed; any other end means that the server went away. The delays grow even
        # if the server accepts and closes connections repeatedly.
        self._is_over = not self._follow or self._has_ended
        self._failures += 1

    def _is_new(self, event: Event, cursor: str | None) -> bool:
        verdict = self._place.take(event)
        if verdict == "gap":
            raise _Missing
        self._cursor = self._link.mask.text(cursor or "") or self._cursor
        if verdict == "seen":
            return False
        self._failures = self._gaps = 0
        # Deliveries may follow the end of a run, and nothing else.
        self._has_ended = self._has_ended or (self._is_of_run and ends_run(event))
        return True

    def _mask(self, data: str) -> str:
        return self._link.mask.json(data.encode("utf-8", "replace"), _LIMITS).decode()

    def _check_type(self, response: httpx2.Response) -> None:
        content_type = response.headers.get("content-type", "").partition(";")[0].strip()
        if content_type.lower() != _SSE:
            shown_type = self._link.mask.text(content_type)[:64] or "no content type"
            raise NotWindlass(f"expected a feed ({_SSE}), found {shown_type}: is it a Windlass server?")

    def _bear(self, error: AgentError) -> None:
        """Count a failure; raise it if another attempt does not help."""
        if isinstance(error, _Missing):
            self._gaps += 1
            if self._gaps >= GAPS_MAX:
                raise NotWindlass(error.message) from None
        if not (is_passing(error) or isinstance(error, Ambiguous)):
            raise error
        self._failures += 1
        most = self.attempts_max if self._has_opened else self._link.retries.max_attempts
        if most is not None and self._failures >= most:
            raise error


def _event(data: str, before: Event | None) -> Event:
    """Return an event; a slim text delta gets what it shares with the one before it."""
    try:
        # Quotation marks in a text are escaped, so this is a field.
        if before is None or '"meta":' in data:
            return decode(Event, data, limits=_LIMITS)
        slim = parse(data, _LIMITS)
        if isinstance(slim, dict) and isinstance(rest := slim.get("data"), dict):
            shared = {name: value for name, value in before.data.items() if name in SHARED_FIELDS}
            whole = before.model_dump(mode="json", by_alias=True, exclude_unset=True)
            data = encode({**whole, **slim, "data": {**rest, **shared}}).decode()
        return decode(Event, data, limits=_LIMITS)
    except CodecError as error:
        reason = error.message
    raise NotWindlass(f"the feed sent an invalid event: {reason}")


def _hint(data: str) -> int | None:
    try:
        value = parse(data)
    except CodecError:
        return None
    hint = value.get("retryMs") if isinstance(value, dict) else None
    return hint if isinstance(hint, int) and hint >= 0 else None
