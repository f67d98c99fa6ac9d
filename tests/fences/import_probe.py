"""Imports modules in a bare interpreter and prints the side effects as JSON.

    python -I -S -B -W error import_probe.py <folder to import from> <module> …

It imports as little as possible: its own imports would hide those of the modules.
"""

import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterable

OWN = ("windlass_protocol", "windlass_harness", "windlass", "windlass_server", "windlass_sidecar")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
ACTS = (
    "socket.",
    "subprocess.",
    "shutil.",
    "tempfile.",
    "sqlite3.",
    "urllib.",
    "http.",
    "ftplib.",
    "smtplib.",
)
OS_READS = (
    "os.listdir",
    "os.scandir",
    "os.walk",
    "os.fwalk",
    "os.listxattr",
    "os.getxattr",
    "os.add_dll_directory",
)


def watch(acts: list[str]) -> None:
    """Note from now on all that reaches outside the process, reading files apart."""

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open":
            flags = arguments[2]
            if isinstance(flags, int) and flags & WRITING:
                acts.append(f"open for writing: {arguments[0]}")
        elif event.startswith(ACTS) or (event.startswith("os.") and event not in OS_READS):
            acts.append(f"{event} {arguments}")

    sys.addaudithook(hook)


def other_threads() -> int:
    """Threads beside the main one; none were started if `threading` was not imported."""
    threading = sys.modules.get("threading")
    return 0 if threading is None else threading.active_count() - 1


def configured_loggers() -> list[str]:
    """Loggers that have a handler or a level, the root's default level apart."""
    logging = sys.modules.get("logging")
    if logging is None:
        return []
    named = [
        name
        for name, logger in logging.Logger.manager.loggerDict.items()
        if getattr(logger, "handlers", None) or getattr(logger, "level", 0)
    ]
    return [*named, *(["root"] if logging.root.handlers or logging.root.level != logging.WARNING else [])]


def probe(folder: str, modules: Iterable[str]) -> dict[str, object]:
    """Import the modules in order and return their side effects."""
    sys.path.insert(0, folder)
    environment = dict(os.environ)
    acts: list[str] = []
    watch(acts)
    for module in modules:
        importlib.import_module(module)
    return {
        "acts": list(acts),
        "threads": other_threads(),
        "loggers": configured_loggers(),
        "environment_changed": environment != dict(os.environ),
        "modules": sorted(sys.modules),
        "visible": [name for name in OWN if importlib.util.find_spec(name) is not None],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(probe(sys.argv[1], sys.argv[2:])))
