"""From the first line to the last: boot, ready, serve, drain, end."""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Final

from windlass.loading import load_tools
from windlass_protocol import ListenInfo, SidecarReady, SidecarShutdown, encode
from windlass_sidecar import PROTOCOL_VERSION, __version__
from windlass_sidecar.app import App, Settings
from windlass_sidecar.health import health
from windlass_sidecar.limits import (
    CLOSE_NOW_S,
    CLOSE_S,
    DRAIN_S,
    EOF_DRAIN_S,
    FLUSH_S,
    HALF_FRAME_S,
    PARENT_POLL_S,
)
from windlass_sidecar.logs import set_up
from windlass_sidecar.methods.protocol import CATALOGUE, READY, SHUTDOWN
from windlass_sidecar.own_tools import guarded
from windlass_sidecar.peers import Host
from windlass_sidecar.rpc import Peer
from windlass_sidecar.stdio import Stdio
from windlass_sidecar.transport import StdioJsonRpcTransport

_LOG: Final = logging.getLogger(__name__)

READY_MARK: Final = "__SIDECAR_READY__:"
_SHUTTING_DOWN: Final = "the sidecar is shutting down and takes nothing new"


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    store: Path | None = None
    tools: tuple[str, ...] = ()
    log_level: str = "info"
    quiet_ready: bool = False
    half_frame_s: float = HALF_FRAME_S


async def run(options: Options, stdio: Stdio) -> None:
    """Be a sidecar until the host is gone or wants no more.

    Raises:
        AgentError: a tool cannot be loaded, or the store cannot be opened.
    """
    handler = set_up(stdio.errors, options.log_level)
    host = Host()
    app = await App.open(options.store, guarded(load_tools(options.tools)), host=host)
    handler.scribe, app.settings = app.scribe, Settings(options.log_level)
    transport = StdioJsonRpcTransport(stdio.in_fd, stdio.out_fd, half_frame_s=options.half_frame_s)
    host.link = peer = Peer(transport, app, methods=CATALOGUE)
    _on_signals(app)
    watch_parent(_stopper(app))
    await _say_ready(app, peer, stdio, is_quiet=options.quiet_ready)
    serving = asyncio.create_task(peer.serve())
    stopping = asyncio.create_task(app.stop.wait())
    await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
    reason = "normal" if app.stop.is_set() else "eof"
    if serving.done() and serving.exception() is not None:
        _LOG.error("the sidecar cannot read on", exc_info=serving.exception())
    await _drain(app, peer, is_eof=reason == "eof")
    is_gone = app.is_hurried or transport.is_broken
    with suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_NOW_S if is_gone else CLOSE_S):
            await app.aclose()
    with suppress(TimeoutError):
        async with asyncio.timeout(FLUSH_S):  # a host that does not read has no room for it
            await peer.notify(SHUTDOWN, SidecarShutdown(reason=reason).model_dump(mode="json", by_alias=True))
    await transport.flush(FLUSH_S)


async def _say_ready(app: App, peer: Peer[App], stdio: Stdio, *, is_quiet: bool) -> None:
    if not is_quiet:
        facts = encode(await health(app))
        stdio.errors.write(READY_MARK.encode() + facts + b"\n")
    ready = SidecarReady(
        version=__version__,
        protocol_version=PROTOCOL_VERSION,
        pid=os.getpid(),
        listen_info=ListenInfo(transport="stdio"),
    )
    await peer.notify(READY, ready.model_dump(mode="json", by_alias=True))


async def _drain(app: App, peer: Peer[App], *, is_eof: bool) -> None:
    """Let what is under way come to its end; what does not is durable."""
    peer.refuses = _SHUTTING_DOWN
    if app.is_hurried:
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(EOF_DRAIN_S if is_eof else DRAIN_S):
            await peer.drain()
            await app.streams.wait()


def _on_signals(app: App) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        # Not on Windows, nor in another thread than the main one.
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, app.stop.set)


def _stopper(app: App) -> Callable[[], None]:
    loop = asyncio.get_running_loop()

    def stop() -> None:
        app.is_hurried = True
        app.stop.set()

    def from_thread() -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(stop)
        # Whatever holds the loop up, nobody is there any more to wait for it.
        time.sleep(CLOSE_NOW_S + FLUSH_S)
        os._exit(0)

    return from_thread


def watch_parent(on_gone: Callable[[], None]) -> None:
    """Call something, in a thread, once the parent process is gone.

    It may be gone without closing stdin: another process may hold that too.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_POLL_S)
        on_gone()

    Thread(target=watch, name="sidecar-parent", daemon=True).start()
