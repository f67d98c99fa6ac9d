"""The terminal: what is written for people, what for machines, and what is asked."""

import asyncio
import json
import os
import sys
import termios
import threading
from contextlib import suppress
from typing import Final, TextIO

from rich.console import Console
from rich.text import Text

_KEPT: Final = frozenset("\n\t")
_READ_BYTES: Final = 4096


class Terminal:
    """Two streams: the answer goes to the first, everything about it to the second."""

    def __init__(self, out: TextIO, err: TextIO, *, source: TextIO) -> None:
        self.out = Console(file=out, highlight=False, markup=False, soft_wrap=True)
        self.err = Console(file=err, highlight=False, markup=False, soft_wrap=True)
        self._source = source
        self._typed = b""
        """What was read of a terminal and belongs to the next line."""

    @property
    def is_interactive(self) -> bool:
        """Whether a person can be asked."""
        return self._source.isatty() and self.err.is_terminal

    def say(self, text: str, style: str = "") -> None:
        """Write a line about what happens."""
        self.err.print(Text(plain(text), style=style))

    def show(self, text: str, style: str = "") -> None:
        """Write a line of what was asked for, to be read by people."""
        self.out.print(Text(plain(text), style=style))

    def write(self, text: str) -> None:
        """Write a piece of the answer, as it comes."""
        self.out.file.write(plain(text) if self.out.is_terminal else text)
        self.out.file.flush()

    def line(self, text: str) -> None:
        """Write a line for machines; on a terminal, what could move its cursor escaped."""
        self.out.file.write(f"{escaped(text) if self.out.is_terminal else text}\n")
        self.out.file.flush()

    def forget(self) -> None:
        """Drop what was typed so far: it was no answer to what is asked next."""
        if self._source.isatty():
            self._typed = b""
            with suppress(termios.error):  # the terminal is gone, and so is what was typed
                termios.tcflush(self._source.fileno(), termios.TCIFLUSH)

    async def ask(self, prompt: str) -> str | None:
        """Return what a person types; None at the end of the input."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str] = loop.create_future()

        def settle(line: str) -> None:
            if not answer.done():
                answer.set_result(line)

        def read() -> None:
            try:
                line = self._read_typed() if self._source.isatty() else self._source.readline()
            except (OSError, ValueError):  # the terminal is gone
                line = ""
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, line)

        self.err.file.write(plain(prompt))
        self.err.file.flush()
        # A thread that nobody waits for: Ctrl-C must not have to wait for a key.
        threading.Thread(target=read, daemon=True).start()
        line = await answer
        return line.rstrip("\r\n") if line else None

    def _read_typed(self) -> str:
        """Read a line of a terminal without a buffer that `forget` could not empty."""
        while b"\n" not in self._typed:
            piece = os.read(self._source.fileno(), _READ_BYTES)
            self._typed += piece
            if not piece:
                break
        line, end, self._typed = self._typed.partition(b"\n")
        return (line + end).decode("utf-8", "replace")


def plain(text: str) -> str:
    """Return a text without what would move the cursor or lie about directions."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in _KEPT else "�" for char in text)


def escaped(text: str) -> str:
    """Return JSON, or any line, with escapes for all that `plain` would replace."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def standard_terminal() -> Terminal:
    """Return the terminal of the process; it writes UTF-8 whatever the locale."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="replace")
    return Terminal(sys.stdout, sys.stderr, source=sys.stdin)
