"""Stdin and stdout are for frames alone, whatever tools print or read."""

import os
import sys
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Final

from windlass_sidecar.limits import LOG_BYTES_MAX, READ_BYTES

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2


@dataclass(frozen=True, slots=True)
class Stdio:
    """The ends of the host, under numbers that nobody else knows."""

    in_fd: int
    out_fd: int
    errors: "Stderr"
    printing: Thread | None = None
    """Takes what is printed to stderr."""

    def finish(self, timeout_s: float) -> None:
        """Let what was printed and logged get out, for so long at most."""
        if self.printing is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            # Nobody but children can print now, and without them the thread comes to its end.
            for fd in (STDOUT, STDERR):
                os.dup2(self.errors.fd, fd)
            self.printing.join(timeout_s)
        self.errors.flush(timeout_s)


class Stderr:
    """Bytes for stderr, written in a thread: who does not read them stops nobody.

    What does not fit any more is dropped, and a line says so once there is room again.
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
        """Add some bytes, or drop them if too much waits."""
        with self._changed:
            if self._size + len(data) > self._bytes_max:
                self._dropped += len(data)
                return
            if self._dropped:
                data = f"\n[{self._dropped:,} bytes were dropped: nobody read them]\n".encode() + data
                self._dropped = 0
            self._waiting.append(data)
            self._size += len(data)
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything is written; say whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._size, timeout_s)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                data = self._waiting.popleft()
            # A host that has closed it wants to know nothing.
            with suppress(OSError):
                write_all(self.fd, data)
            with self._changed:
                self._size -= len(data)
                self._changed.notify_all()


def write_all(fd: int, data: bytes) -> None:
    """Write all bytes, however many calls that takes.

    Raises:
        OSError: the other end is gone.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def take_stdio() -> Stdio:
    """Take stdin, stdout and stderr away from everybody else in the process.

    From now on whatever is printed, by Python, by C or by a child process, goes to stderr by way of a thread,
    so that a host which does not read it stops nobody; and whoever reads stdin finds it empty. Call it before
    any code of the user is loaded.
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
    # One that was made for a file would look for its place in the pipe.
    sys.stdout, sys.stderr = (
        os.fdopen(fd, "w", buffering=1, errors="backslashreplace", closefd=False) for fd in (STDOUT, STDERR)
    )
    return Stdio(in_fd, out_fd, errors, printing)


def _forward(reader: int, errors: Stderr) -> None:
    while data := os.read(reader, READ_BYTES):
        errors.write(data)
