"""Stdin, stdout and stderr: frames of one line each, the transport, and where printed text goes.

File descriptors are read and written in threads, so that pipes, files and terminals behave alike and a host
that does not read blocks only its own requests.
"""

import asyncio
import logging
import os
import select
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from threading import Condition, Semaphore, Thread
from typing import Final

from pydantic import BaseModel, ValidationError

from windlass.errors import Unavailable
from windlass_protocol import (
    CodecError,
    ErrorKind,
    RetryClass,
    SidecarNotification,
    SSEEvent,
    decode,
    encode,
)
from windlass_protocol.frozen import sealed
from windlass_sidecar.limits import (
    FRAME_BYTES_MAX,
    FRAME_LIMITS,
    HALF_FRAME_S,
    LOG_BYTES_MAX,
    READ_BYTES,
    READS_WAITING_MAX,
    SEND_BYTES_MAX,
)

_LOG: Final = logging.getLogger(__name__)

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2
EVENT: Final = "transport.event"
"""The notification that carries one SSEEvent."""


@sealed
class Refused:
    """A line that is not parsed, and why."""

    reason: str


Frame = bytes | Refused


class LineReader:
    """Splits bytes into lines; it buffers at most the beginning of one line."""

    def __init__(self, bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._line = bytearray()
        self._is_skipping = False

    @property
    def is_half(self) -> bool:
        """Whether an unfinished line is buffered."""
        return bool(self._line)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the lines that are complete now; a line that is too long yields one `Refused`.

        Lines of white space are ignored.
        """
        at = 0
        while (end := data.find(b"\n", at)) >= 0:
            yield from self._take(data[at:end])
            yield from self._finish_line()
            at = end + 1
        yield from self._take(data[at:])

    def end(self) -> Iterator[Frame]:
        """Yield the last line at the end of the input: it needs no line feed."""
        yield from self._finish_line()

    def give_up(self) -> Refused:
        """Drop the unfinished line; the next byte begins another."""
        size = len(self._line)
        self._line.clear()
        return Refused(f"unfinished frame: {size:,} bytes without a line feed, and then nothing")

    def _take(self, piece: bytes) -> Iterator[Frame]:
        if self._is_skipping:
            return
        if len(self._line) + len(piece) <= self._bytes_max:
            self._line += piece
            return
        self._is_skipping = True
        self._line = bytearray()
        yield Refused(f"frame too long: limit {self._bytes_max:,} bytes")

    def _finish_line(self) -> Iterator[Frame]:
        line = bytes(self._line)
        self._line = bytearray()
        is_skipped, self._is_skipping = self._is_skipping, False
        if not is_skipped and line.strip(b" \t\r"):
            yield line


@sealed
class Stdio:
    """The host's ends of stdin, stdout and stderr, on descriptors that no other code uses."""

    in_fd: int
    out_fd: int
    errors: "Stderr"
    printing: Thread | None = None
    """The thread that forwards printed text to stderr."""

    def finish(self, timeout_s: float) -> None:
        """Write out what was printed and logged, for at most `timeout_s`."""
        if self.printing is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            # Only child processes can print from now on; without them the thread ends.
            for fd in (STDOUT, STDERR):
                os.dup2(self.errors.fd, fd)
            self.printing.join(timeout_s)
        self.errors.flush(timeout_s)


class Stderr:
    """Bytes for stderr, written in a thread: a host that does not read them blocks nothing.

    Bytes beyond the limit are dropped, and a line says so once there is room again.
    """

    def __init__(self, fd: int, *, bytes_max: int = LOG_BYTES_MAX) -> None:
        self.fd = fd
        self._bytes_max = bytes_max
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._dropped = 0
        self._changed = Condition()
        Thread(target=self._work, name="sidecar-stderr", daemon=True).start()

    def write(self, data: bytes) -> None:
        """Queue bytes, or drop them if the queue is full."""
        with self._changed:
            if self._size + len(data) > self._bytes_max:
                self._dropped += len(data)
                return
            if self._dropped:
                data = f"\n[{self._dropped:,} bytes were dropped: stderr was not read]\n".encode() + data
                self._dropped = 0
            self._waiting.append(data)
            self._size += len(data)
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything is written; return whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._size, timeout_s)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                data = self._waiting.popleft()
            # The host may have closed stderr.
            with suppress(OSError):
                write_all(self.fd, data)
            with self._changed:
                self._size -= len(data)
                self._changed.notify_all()


def write_all(fd: int, data: bytes) -> None:
    """Write all bytes.

    Raises:
        OSError: the other end is closed.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def take_stdio() -> Stdio:
    """Take stdin, stdout and stderr from all other code of the process.

    From now on everything that is printed, by Python, by C or by a child process, goes to stderr through a
    thread, so that a host that does not read it blocks nothing; stdin is empty for other code. Call it before
    code of the user is loaded.
    """
    errors = Stderr(os.dup(STDERR))
    in_fd, out_fd = os.dup(STDIN), os.dup(STDOUT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, STDIN)
    os.close(nothing)
    reader, writer = os.pipe()
    os.dup2(writer, STDOUT)
    os.dup2(writer, STDERR)
    os.close(writer)
    printing = Thread(target=_forward, args=(reader, errors), name="sidecar-printed", daemon=True)
    printing.start()
    # Stream objects that were opened for a file would seek in the pipe.
    sys.stdout, sys.stderr = (
        os.fdopen(fd, "w", buffering=1, errors="backslashreplace", closefd=False) for fd in (STDOUT, STDERR)
    )
    return Stdio(in_fd, out_fd, errors, printing)


def _forward(reader: int, errors: Stderr) -> None:
    while data := os.read(reader, READ_BYTES):
        errors.write(data)


class StdioJsonRpcTransport:
    """Newline-delimited JSON-RPC on two file descriptors.

    The sidecar uses `frames` and `send`. `emit` and `receive` are the `TransportAdapter` of the Runtime Spec:
    each `SSEEvent` is a notification of its own. Use either `frames` or `receive`, not both.
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
        """Set while there is room, and always once stdin has ended."""
        self._may_take.set()
        self._is_closed = False
        Thread(target=self._work, name="sidecar-stdin", daemon=True).start()
        Thread(target=self._watch, name="sidecar-closed", daemon=True).start()

    async def frames(self) -> AsyncIterator[Frame]:
        """Yield the frames of the host, until stdin ends or stdout is closed.

        An unfinished line is dropped after the frame timeout.
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
        """Return bytes, no bytes at the end, or True when an unfinished line is too old."""
        try:
            async with asyncio.timeout(self._half_frame_s if self._lines.is_half else None):
                return await self._read.get()
        except TimeoutError:
            return True

    async def send(self, body: bytes) -> None:
        """Queue one frame behind the others; wait while the queue is full.

        Nothing happens once stdout is closed.
        """
        self._sender.put(body + b"\n")
        self._look()
        await self._has_room.wait()

    async def room(self) -> None:
        """Return once there is room for an answer, or stdout is closed.

        Once stdin has ended there is always room: little is left in the pipe, and then comes the end.
        """
        self._look()
        await self._may_take.wait()

    @property
    def is_broken(self) -> bool:
        """Whether stdout is closed."""
        return self._sender.is_broken

    async def flush(self, timeout_s: float) -> None:
        """Wait until all frames are written, for at most `timeout_s`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await asyncio.to_thread(self._sender.flush, timeout_s)

    # TransportAdapter

    async def emit(self, event: SSEEvent) -> None:
        """Send one event.

        Raises:
            CodecError: it cannot be encoded.
            Unavailable: stdout is closed.
        """
        if self.is_broken:
            raise Unavailable(
                "stdout is closed: no event can be sent",
                kind=ErrorKind.PROJECTION_FAILURE,
                retry=RetryClass.NOT_RETRYABLE,
            )
        await self.notify(EVENT, event)

    async def receive(self) -> AsyncIterator[SSEEvent]:
        """Yield the events of the other side; other frames are logged and ignored."""
        async for frame in self.frames():
            try:
                if not isinstance(frame, bytes):
                    continue
                message = decode(SidecarNotification, frame, limits=FRAME_LIMITS)
                event = SSEEvent.model_validate(message.params) if message.method == EVENT else None
            except (CodecError, ValidationError):
                event = None
            if event is None:
                _LOG.warning("ignored a frame that is not a transport.event notification")
            else:
                yield event

    async def notify(self, method: str, params: BaseModel | dict[str, object]) -> None:
        """Send a notification.

        Raises:
            CodecError: it cannot be encoded.
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
        """Wait until the host closes stdin, also while data before that is unread."""
        waiting = select.poll()
        waiting.register(self._in_fd, getattr(select, "POLLRDHUP", 0))
        waiting.poll()
        self._post(self._close)

    def _close(self) -> None:
        self._is_closed = True
        self._look()

    def _post(self, call: Callable[..., None], *arguments: object) -> None:
        # The event loop may be closed before its threads end.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *arguments)

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
    """A queue of bytes that a thread writes."""

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
                self._count_written(len(data))

    def _count_written(self, count: int) -> None:
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
