"""The adapter under the sidecar: frames on two file descriptors.

Both are read and written in threads, so that pipes, files and terminals are alike and a host that does not
read holds up nobody but itself.
"""

import asyncio
import logging
import os
import select
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from threading import Condition, Semaphore, Thread
from typing import Final

from pydantic import BaseModel, ValidationError

from windlass_protocol import CodecError, SidecarNotification, SSEEvent, decode, encode
from windlass_sidecar.framing import Frame, LineReader
from windlass_sidecar.limits import (
    FRAME_BYTES_MAX,
    FRAME_LIMITS,
    HALF_FRAME_S,
    READ_BYTES,
    READS_WAITING_MAX,
    SEND_BYTES_MAX,
)
from windlass_sidecar.stdio import write_all

_LOG: Final = logging.getLogger(__name__)

EVENT: Final = "transport.event"
"""The notification that carries one SSEEvent."""


class StdioJsonRpcTransport:
    """Newline-delimited JSON-RPC; `frames` and `send` are what a sidecar needs of it.

    `emit` and `receive` are those of a TransportAdapter: events of the simple chat stream, each in a
    notification of its own. Whoever uses them does not use `frames`.
    """

    def __init__(self, in_fd: int, out_fd: int, *, half_frame_s: float = HALF_FRAME_S) -> None:
        self._in_fd = in_fd
        self._out_fd = out_fd
        self._half_frame_s = half_frame_s
        self._lines = LineReader(FRAME_BYTES_MAX)
        self._read: asyncio.Queue[bytes] = asyncio.Queue()
        self._may_read = Semaphore(READS_WAITING_MAX)
        self._sender = _Sender(out_fd)
        self._loop = asyncio.get_running_loop()
        self._sender.on_change = lambda: self._post(self._look)
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_over = False
        self._may_take = asyncio.Event()
        """Set while there is room, and for good once the host has closed its end."""
        self._may_take.set()
        self._is_closed = False
        Thread(target=self._work, name="sidecar-stdin", daemon=True).start()
        Thread(target=self._watch, name="sidecar-closed", daemon=True).start()

    async def frames(self) -> AsyncIterator[Frame]:
        """Yield what the host sends, until it closes its end or nobody reads ours.

        Half a line and then nothing is given up after a while.
        """
        while data := await self._next():
            if isinstance(data, bytes):
                self._may_read.release()
                for frame in self._lines.feed(data):
                    yield frame
            else:
                yield self._lines.give_up()
        for frame in self._lines.end():
            yield frame

    async def _next(self) -> bytes | bool:
        """Return what was read, nothing at the end, or True when half a line is too old."""
        try:
            async with asyncio.timeout(self._half_frame_s if self._lines.is_half else None):
                return await self._read.get()
        except TimeoutError:
            return True

    async def send(self, body: bytes) -> None:
        """Send one frame, after those before it; wait while too many wait.

        Nothing happens when the host reads no more.
        """
        self._sender.put(body + b"\n")
        self._look()
        await self._has_room.wait()

    async def room(self) -> None:
        """Return once there is room for an answer, or nobody reads any more.

        A host that has closed its end is listened to without: what is left in the pipe is little, and behind
        it is the end.
        """
        self._look()
        await self._may_take.wait()

    @property
    def is_broken(self) -> bool:
        """Whether nobody reads what is sent."""
        return self._sender.is_broken

    async def flush(self, timeout_s: float) -> None:
        """Wait until everything that was sent is written, for so long at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await asyncio.to_thread(self._sender.flush, timeout_s)

    # the contract of a TransportAdapter

    async def emit(self, event: SSEEvent) -> None:
        """Send one event; return when it is on its way.

        Raises:
            CodecError: it cannot be written.
        """
        await self.notify(EVENT, event)

    async def receive(self) -> AsyncIterator[SSEEvent]:
        """Yield the events that the other side sends; all else is passed over."""
        async for frame in self.frames():
            try:
                if not isinstance(frame, bytes):
                    continue
                message = decode(SidecarNotification, frame, limits=FRAME_LIMITS)
                event = SSEEvent.model_validate(message.params) if message.method == EVENT else None
            except (CodecError, ValidationError):
                event = None
            if event is None:
                _LOG.warning("a frame that is no event is passed over")
            else:
                yield event

    async def notify(self, method: str, params: BaseModel | dict[str, object]) -> None:
        """Send a notification.

        Raises:
            CodecError: it cannot be written.
        """
        plain = params.model_dump(mode="json", by_alias=True) if isinstance(params, BaseModel) else params
        message = SidecarNotification.model_validate({"method": method, "params": plain})
        await self.send(encode(message, FRAME_LIMITS))

    # threads

    def _work(self) -> None:
        data = b"begin"
        while data:
            self._may_read.acquire()
            try:
                data = os.read(self._in_fd, READ_BYTES)
            except OSError:
                data = b""
            self._post(self._read.put_nowait, data)

    def _watch(self) -> None:
        """Wait until the host closes its end, however much is unread before that."""
        waiting = select.poll()
        waiting.register(self._in_fd, getattr(select, "POLLRDHUP", 0))
        waiting.poll()
        self._post(self._close)

    def _close(self) -> None:
        self._is_closed = True
        self._look()

    def _post(self, call: Callable[..., None], *given: object) -> None:
        # The loop may be gone before its threads are.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *given)

    def _look(self) -> None:
        if self._sender.is_full:
            self._has_room.clear()
        else:
            self._has_room.set()
        if self._sender.is_full and not self._is_closed:
            self._may_take.clear()
        else:
            self._may_take.set()
        if self._sender.is_broken and not self._is_over:
            self._is_over = True
            self._read.put_nowait(b"")


class _Sender:
    """Writes in a thread what is put into it."""

    def __init__(self, fd: int) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self.is_broken = False
        self._fd = fd
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._changed = Condition()
        Thread(target=self._work, name="sidecar-stdout", daemon=True).start()

    @property
    def is_full(self) -> bool:
        return self._size > SEND_BYTES_MAX and not self.is_broken

    def put(self, data: bytes) -> None:
        with self._changed:
            if not self.is_broken:
                self._waiting.append(data)
                self._size += len(data)
                self._changed.notify_all()

    def flush(self, timeout_s: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._size, timeout_s)

    def _work(self) -> None:
        while not self.is_broken:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                data = self._waiting.popleft()
            try:
                write_all(self._fd, data)
            except OSError:
                self._break()
            else:
                self._wrote(len(data))

    def _wrote(self, count: int) -> None:
        with self._changed:
            was_full = self.is_full
            self._size -= count
            self._changed.notify_all()
        if was_full:
            self.on_change()

    def _break(self) -> None:
        with self._changed:
            self.is_broken = True
            self._waiting.clear()
            self._size = 0
            self._changed.notify_all()
        self.on_change()
