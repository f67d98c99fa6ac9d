"""Logs: lines on stderr, masked, and never in anybody's way."""

import logging
from typing import Final

from windlass_harness.redact import mask_text
from windlass_sidecar.limits import LOG_LINE_BYTES_MAX
from windlass_sidecar.secrets import GrowingScribe
from windlass_sidecar.stdio import Stderr

LEVELS: Final = ("debug", "info", "warning", "error")
_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_CHATTY: Final = ("httpcore2", "httpx2")
"""Loggers that tell every request as news."""


class LineHandler(logging.Handler):
    """Writes log records as lines; what looks like a secret is masked."""

    def __init__(self, errors: Stderr) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(_FORMAT))
        self.scribe: GrowingScribe | None = None
        """Knows the keys, once there are any."""
        self._errors = errors

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        try:
            text = self.format(record)
        except Exception:  # noqa: BLE001 - logging must never fail its caller
            text = f"{record.levelname} {record.name}: a record that cannot be written"
        masked = mask_text(text) if self.scribe is None else self.scribe.redactor.text(text)
        line = " ".join(masked.splitlines()).encode("utf-8", "backslashreplace")
        self._errors.write(line[:LOG_LINE_BYTES_MAX] + b"\n")


def set_up(errors: Stderr, level: str) -> LineHandler:
    """Send all logs of the process to stderr."""
    handler = LineHandler(errors)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
    return handler
