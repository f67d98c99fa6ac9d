"""What the log gets of code that failed: where, and why, without secrets."""

import logging
from traceback import format_exception
from typing import Final

from windlass_harness.redact import Redactor

_LOG: Final = logging.getLogger("windlass.failures")
FRAMES_MAX: Final = 20
"""The innermost calls that are told of."""
TEXT_CHARS_MAX: Final = 65_536
"""What is looked through for secrets."""
TOLD_CHARS_MAX: Final = 16_384


def log_failure(
    what: str, error: BaseException | None, *, redactor: Redactor, level: int = logging.WARNING
) -> None:
    """Log what failed, with the traceback if there is one; secrets are masked."""
    if not _LOG.isEnabledFor(level):
        return
    what = redactor.text(what)
    if error is None:
        _LOG.log(level, "%s", what)
        return
    try:
        text = "".join(format_exception(error, limit=-FRAMES_MAX))
    except Exception:  # noqa: BLE001 - an exception is the host's code too, and may not even have a text
        text = type(error).__name__
    # The end is cut off after it was masked: half a secret would be none to anybody.
    _LOG.log(level, "%s\n%s", what, redactor.text(text[-TEXT_CHARS_MAX:])[-TOLD_CHARS_MAX:].rstrip())
