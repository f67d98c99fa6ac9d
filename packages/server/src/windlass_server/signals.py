"""Learning that the process is told to end, before its server waits for anybody."""

import asyncio
import signal
import threading
from collections.abc import Callable
from types import FrameType


def on_exit(close: Callable[[], None]) -> None:
    """Call `close` in this event loop when the process is told to end.

    The server is told as well. It waits for open connections before it says that it ends, and a stream is
    open until it is told. Outside of the main thread nobody is told anything, so nothing is done there.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(number)

        def told(got: int, frame: FrameType | None, before: object = before) -> None:
            loop.call_soon_threadsafe(close)
            if callable(before):
                before(got, frame)

        signal.signal(number, told)
