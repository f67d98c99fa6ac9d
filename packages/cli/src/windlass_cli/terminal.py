"""The terminal: what is written for people, what for machines, and what is asked."""

import asyncio
import sys
import threading
from typing import Final, TextIO

from rich.console import Console
from rich.text import Text

_KEPT: Final = frozenset("\n\t")


class Terminal:
    """Two streams: the answer goes to the first, everything about it to the second."""

    def __init__(self, out: TextIO, err: TextIO, source: TextIO) -> None:
        self.out = Console(file=out, highlight=False, markup=False, soft_wrap=True)
        self.err = Console(file=err, highlight=False, markup=False, soft_wrap=True)
        self._source = source

    @property
    def is_interactive(self) -> bool:
        """Whether a person can be asked."""
        return self._source.isatty() and self.err.is_terminal

    def say(self, text: str, style: str = "") -> None:
        """Write a line about what happens."""
        self.err.print(Text(plain(text), style=style))

    def write(self, text: str) -> None:
        """Write a piece of the answer, as it comes."""
        self.out.file.write(plain(text) if self.out.is_terminal else text)
        self.out.file.flush()

    def line(self, text: str) -> None:
        """Write a line for machines, as it is."""
        self.out.file.write(f"{text}\n")
        self.out.file.flush()

    async def ask(self, prompt: str) -> str | None:
        """Return what a person types; None at the end of the input."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str] = loop.create_future()

        def settle(line: str) -> None:
            if not answer.done():
                answer.set_result(line)

        def read() -> None:
            try:
                line = self._source.readline()
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


def plain(text: str) -> str:
    """Return a text without what would move the cursor, set colours or lie about the direction."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in _KEPT else "�" for char in text)


def standard_terminal() -> Terminal:
    """Return the terminal of the process; its output is UTF-8 whatever the locale says."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="replace")
    return Terminal(sys.stdout, sys.stderr, sys.stdin)
