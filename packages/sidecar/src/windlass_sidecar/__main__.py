"""The command: `windlass-sidecar`, or `python -m windlass_sidecar`."""

import argparse
import asyncio
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from windlass.errors import AgentError
from windlass_sidecar import __version__
from windlass_sidecar.lifecycle import Options, run
from windlass_sidecar.limits import HALF_FRAME_S, PRINTED_S
from windlass_sidecar.logs import LEVELS
from windlass_sidecar.stdio import Stdio, take_stdio

INTERRUPTED: Final = 130
_EPILOG = (
    "Frames go to stdout, one JSON-RPC 2.0 message on each line; logs and all that tools print to stderr."
)


def read_options(arguments: Sequence[str]) -> Options:
    """Return what the command line says; exits with a message if it cannot be read."""
    parser = argparse.ArgumentParser(
        prog="windlass-sidecar",
        description="Windlass for programs in any language: JSON-RPC 2.0 on stdin and stdout.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--store", type=Path, metavar="PATH", help="SQLite file for journal; in memory if left out"
    )
    parser.add_argument(
        "--tools", action="append", default=[], metavar="MODULE[:NAME]", help="tools to load; may be repeated"
    )
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="what to log on stderr")
    parser.add_argument("--quiet-ready", action="store_true", help="do not write the ready mark to stderr")
    parser.add_argument(
        "--frame-timeout",
        type=float,
        default=HALF_FRAME_S,
        metavar="SECONDS",
        help="how long half a line may wait for its end",
    )
    parser.add_argument("--version", action="version", version=__version__)
    given = parser.parse_args(arguments)
    return Options(given.store, tuple(given.tools), given.log_level, given.quiet_ready, given.frame_timeout)


def main(arguments: Sequence[str] | None = None) -> None:
    """Be a sidecar; the process ends with it."""
    options = read_options(sys.argv[1:] if arguments is None else arguments)
    try:
        stdio = take_stdio()
    except OSError as error:
        sys.exit(f"windlass-sidecar: stdin, stdout and stderr must be open: {error.strerror}")
    code = INTERRUPTED
    try:
        asyncio.run(_live(options, stdio))
    except KeyboardInterrupt:
        pass
    except Exception:  # noqa: BLE001 - it is told here: stderr is a pipe that ends with the process
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
    # Not by way of asyncio and the interpreter: they would wait for tools that hear of no end.
    os._exit(code)


if __name__ == "__main__":
    main()
