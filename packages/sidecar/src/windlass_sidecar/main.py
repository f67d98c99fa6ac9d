"""The command `windlass-sidecar` and the life of its process: options, boot, ready, serve, drain, exit."""

import argparse
import asyncio
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import Final, NoReturn

from windlass import limits
from windlass.errors import AgentError
from windlass.loading import load_tools
from windlass.parts import hide_environment
from windlass_protocol import ListenInfo, SidecarReady, SidecarShutdown, encode
from windlass_protocol.frozen import sealed
from windlass_sidecar import PROTOCOL_VERSION, __version__
from windlass_sidecar.app import LOG_LEVELS, App, SidecarSettings, guard_tools, health, log_to
from windlass_sidecar.limits import (
    CLOSE_NOW_S,
    CLOSE_S,
    DRAIN_S,
    EOF_DRAIN_S,
    FLUSH_S,
    HALF_FRAME_S,
    PARENT_POLL_S,
    PRINTED_S,
)
from windlass_sidecar.methods import CATALOGUE, READY, SHUTDOWN
from windlass_sidecar.rpc import Host, Peer
from windlass_sidecar.stdio import Stdio, StdioJsonRpcTransport, take_stdio

_LOG: Final = logging.getLogger(__name__)

READY_MARK: Final = "__SIDECAR_READY__:"
INTERRUPTED: Final = 130
"""The exit code after Ctrl-C."""
_SHUTTING_DOWN: Final = "the sidecar is shutting down and takes no new requests"
_EPILOG: Final = (
    "Frames go to stdout, one JSON-RPC 2.0 message on each line; logs and the output of tools go to stderr."
)


@sealed
class Options:
    """The options of the command line."""

    store: str | None = None
    tools: tuple[str, ...] = ()
    log_level: str = "info"
    quiet_ready: bool = False
    half_frame_s: float = HALF_FRAME_S
    drain_s: float = limits.DRAIN_S


async def run(options: Options, stdio: Stdio) -> None:
    """Serve until stdin ends, the host asks for a shutdown, or the parent process is gone.

    Raises:
        AgentError: a tool cannot be loaded, or the store cannot be opened.
    """
    handler = log_to(stdio.errors, options.log_level)
    host = Host()
    app = await App.open(
        options.store, guard_tools(load_tools(options.tools)), host=host, drain_s=options.drain_s
    )
    handler.scribe, app.settings = app.scribe, SidecarSettings(options.log_level)
    transport = StdioJsonRpcTransport(stdio.in_fd, stdio.out_fd, half_frame_s=options.half_frame_s)
    host.link = peer = Peer(transport, app, methods=CATALOGUE)
    _on_signals(app)
    watch_parent(_orphan_handler(app))
    await _say_ready(app, peer, stdio, is_quiet=options.quiet_ready)
    serving = asyncio.create_task(peer.serve())
    stopping = asyncio.create_task(app.stop.wait())
    await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
    reason = "normal" if app.stop.is_set() else "eof"
    if serving.done() and serving.exception() is not None:
        _LOG.error("stdin cannot be read", exc_info=serving.exception())
    await _drain(app, peer, is_eof=reason == "eof")
    if transport.is_broken:
        app.stop_now()
    with suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_NOW_S if app.is_hurried else options.drain_s + CLOSE_S):
            await app.aclose()
    with suppress(TimeoutError):
        async with asyncio.timeout(FLUSH_S):  # a host that does not read stdout blocks it
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
    """Wait for requests and streams that are under way; runs that do not end in time are durable."""
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
        # Not possible on Windows, and only in the main thread.
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, _ask_to_stop, app)


def _ask_to_stop(app: App) -> None:
    """Shut down after a signal; a second one ends the drain."""
    if app.stop.is_set():
        app.stop_now()
    app.stop.set()


def _orphan_handler(app: App) -> Callable[[], None]:
    """Return what to do, in a thread, when the parent process is gone."""
    loop = asyncio.get_running_loop()

    def from_thread() -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(app.stop_now)
        # The process ends even if something blocks the event loop.
        time.sleep(CLOSE_NOW_S + FLUSH_S)
        os._exit(0)

    return from_thread


def watch_parent(on_gone: Callable[[], None]) -> None:
    """Call a function, in a thread, once the parent process is gone.

    The end of stdin does not tell: another process may hold the other end of the pipe open.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_POLL_S)
        on_gone()

    Thread(target=watch, name="sidecar-parent", daemon=True).start()


def read_options(arguments: Sequence[str]) -> Options:
    """Return the options of a command line; exit with a message if it is wrong."""
    parser = argparse.ArgumentParser(
        prog="windlass-sidecar",
        description="Windlass for programs in any language: JSON-RPC 2.0 on stdin and stdout.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--store",
        metavar="PATH",
        help="SQLite file of the journal, or postgresql://…; in memory if left out",
    )
    parser.add_argument(
        "--tools", action="append", default=[], metavar="MODULE[:NAME]", help="tools to load; may be repeated"
    )
    parser.add_argument(
        "--log-level",
        choices=LOG_LEVELS,
        default="info",
        help="the least severe level that is logged on stderr",
    )
    parser.add_argument("--quiet-ready", action="store_true", help="do not write the ready mark to stderr")
    parser.add_argument(
        "--frame-timeout",
        type=float,
        default=HALF_FRAME_S,
        metavar="SECONDS",
        help="how long an unfinished line may wait for its line feed",
    )
    parser.add_argument(
        "--drain-s",
        type=float,
        default=limits.DRAIN_S,
        metavar="SECONDS",
        help="how long tool calls under way may take to end at a shutdown",
    )
    parser.add_argument("--version", action="version", version=__version__)
    options = parser.parse_args(arguments)
    return Options(
        options.store,
        tuple(options.tools),
        options.log_level,
        options.quiet_ready,
        options.frame_timeout,
        options.drain_s,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sidecar and exit."""
    options = read_options(sys.argv[1:] if arguments is None else arguments)
    # The commands of tools run as the same user.
    hide_environment()
    try:
        stdio = take_stdio()
    except OSError as error:
        sys.exit(f"windlass-sidecar: stdin, stdout and stderr must be open: {error.strerror}")
    code = INTERRUPTED
    try:
        asyncio.run(_live(options, stdio))
    except KeyboardInterrupt:
        pass
    except Exception:  # noqa: BLE001 - reported here: stderr is a pipe that ends with the process
        traceback.print_exc()
        code = 1
    stdio.finish(PRINTED_S)
    os._exit(code)


async def _live(options: Options, stdio: Stdio) -> NoReturn:
    code = 0
    try:
        await run(options, stdio)
    except AgentError as error:
        stdio.errors.write(f"windlass-sidecar: {error}\n".encode())
        code = 1
    stdio.finish(PRINTED_S)
    # asyncio and the interpreter would wait for tools that cannot be cancelled.
    os._exit(code)
