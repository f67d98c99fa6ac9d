"""Logs of a server process: lines for a person on a terminal, JSON lines otherwise.

Loggers are those of the standard library: `windlass.runs` has the runs that failed, `windlass.failures` the
exceptions of tools, models, hooks and policies, `windlass.server` the server itself. `extra=fields(…)` gives
an entry its ids. Secrets are masked by their shape in the entries of all loggers.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final, TextIO, cast

from windlass_harness.redact import mask_text, sanitize_for_trace
from windlass_server.options import LOG_LEVELS

_LINES_MAX: Final = 40
"""Lines of one traceback on a terminal; the end of it is shown."""


def fields(**values: str | int | float | list[str] | None) -> dict[str, object]:
    """Return the fields of an entry, for `extra`; None is left out."""
    return {"windlass": {name: value for name, value in values.items() if value is not None}}


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return cast(dict[str, object], getattr(record, "windlass", {}))


def _at(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


class JsonLines(logging.Formatter):
    """One JSON object for each entry: time, level, logger, message, the fields, and a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return an entry as one line."""
        entry: dict[str, object] = {
            "time": _at(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(sanitize_for_trace(entry), ensure_ascii=False, default=str)


class TextLines(logging.Formatter):
    """One line for each entry, and its traceback below it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return an entry as text."""
        # A control character of a client, such as an escape sequence, must not reach the terminal.
        message = "".join(char if char.isprintable() or char == "\n" else "?" for char in record.getMessage())
        suffix = " ".join(f"{name}={value}" for name, value in _fields(record).items())
        line = f"{_at(record):%H:%M:%S} {record.levelname.lower()} "
        line += mask_text(f"{message}{suffix and '  ' + suffix}")
        if record.exc_info:
            # Masked before it is cut: the cut may go through a secret of several lines.
            traceback = mask_text(self.formatException(record.exc_info))
            line += "\n" + "\n".join(traceback.splitlines()[-_LINES_MAX:])
        return line


def configure(level: str, stream: TextIO | None = None) -> None:
    """Write the logs of this process to standard error, unless the host has configured logging.

    `level` is one of `LOG_LEVELS`.
    """
    assert level in LOG_LEVELS, "checked by Settings"
    root = logging.getLogger()
    if root.handlers:
        return
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(TextLines() if handler.stream.isatty() else JsonLines())
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("windlass").setLevel(level.upper())
