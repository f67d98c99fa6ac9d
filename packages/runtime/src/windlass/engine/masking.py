"""Secrets, kept out of what is shown or cut short before it becomes a record."""

import logging
import re
from traceback import format_exception
from typing import Final, cast

from pydantic import JsonValue
from pydantic_core import to_json

from windlass.ports.feed import LiveAnswer
from windlass_harness.redact import Redactor
from windlass_harness.redact.text import MaskedStream
from windlass_protocol import JsonObject

SECRET_INPUTS_MAX: Final = 4_096
SECRET_INPUTS_BYTES_MAX: Final = 64 * 1_048_576
_MASKED: Final = re.compile(rb"\[redacted(?::[a-z_]+)?\]").search


class MaskedAnswer:
    """An answer shown while it is written, without secrets; see `LiveAnswer`.

    A secret may come in pieces, so the end of a text is held back for as long as it may be the beginning of
    one; `end` shows the rest.
    """

    __slots__ = ("_inputs", "_live", "_reasoning", "_redactor", "_text")

    def __init__(self, live: LiveAnswer, redactor: Redactor) -> None:
        self._live = live
        self._redactor = redactor
        self._text: MaskedStream | None = None
        self._reasoning: MaskedStream | None = None
        self._inputs: dict[str, MaskedStream] = {}

    def text(self, delta: str) -> None:
        """Show a piece of the answer."""
        self._text = self._text or self._redactor.stream()
        self._live.text(self._text.feed(delta))

    def reasoning(self, delta: str) -> None:
        """Show a piece of the reasoning."""
        self._reasoning = self._reasoning or self._redactor.stream()
        self._live.reasoning(self._reasoning.feed(delta))

    def tool_input(self, call_id: str, delta: str, *, tool_name: str | None = None) -> None:
        """Show a piece of the arguments of a call."""
        if call_id not in self._inputs:
            self._inputs[call_id] = self._redactor.stream()
        self._live.tool_input(call_id, self._inputs[call_id].feed(delta), tool_name=tool_name)

    def partial(self, call_id: str, output: JsonValue, *, tool_name: str | None = None) -> None:
        """Show how far a running call is."""
        self._live.partial(call_id, masked(self._redactor, output), tool_name=tool_name)

    def show(self, event_type: str, data: JsonObject) -> None:
        """Show anything else."""
        self._live.show(event_type, cast(JsonObject, self._redactor.value(data)))

    def end(self) -> None:
        """Show what was held back: the model has said all it had to say."""
        for stream, show in ((self._reasoning, self._live.reasoning), (self._text, self._live.text)):
            if stream is not None:
                show(stream.finish())

    def close(self) -> None:
        """Forget the step."""
        self._live.close()


def masked(redactor: Redactor, value: JsonValue) -> JsonValue:
    """Return a JSON value without the secrets in it."""
    return cast(JsonValue, redactor.value(value))


def masked_end(redactor: Redactor, text: str) -> str:
    """Return a text that was cut, also without half a secret at its end."""
    return redactor.stream().feed(text)


def has_mask(value: JsonValue) -> bool:
    """Whether a secret was masked in a value that the journal has."""
    return _MASKED(to_json(value)) is not None


class SecretInputs:
    """Arguments of calls that wait, with the secrets that records do not have.

    A session that waits has no memory of its own, so they are kept for it here, as long as the process lives
    and there is room; what is forgotten has to be asked for anew.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], JsonValue] = {}
        self._sizes: dict[tuple[str, str], int] = {}

    def __bool__(self) -> bool:
        return bool(self._kept)

    def keep(self, session_id: str, call_id: str, *, value: JsonValue, redactor: Redactor) -> None:
        """Keep the arguments of a call, if there are secrets in them."""
        if redactor.value(value) is value:
            return
        key = session_id, call_id
        self._drop(key)
        self._kept[key], self._sizes[key] = value, len(to_json(value))
        while sum(self._sizes.values()) > SECRET_INPUTS_BYTES_MAX or len(self._kept) > SECRET_INPUTS_MAX:
            self._drop(next(iter(self._kept)))

    def find(self, session_id: str, call_id: str, *, recorded: JsonValue, redactor: Redactor) -> JsonValue:
        """Return the arguments of a recorded call; None if they are not here."""
        value = self._kept.get((session_id, call_id))
        return value if value is not None and redactor.value(value) == recorded else None

    def forget(self, session_id: str) -> None:
        """Forget the calls of a session: its model has answered anew."""
        for key in [key for key in self._kept if key[0] == session_id]:
            self._drop(key)

    def _drop(self, key: tuple[str, str]) -> None:
        self._kept.pop(key, None)
        self._sizes.pop(key, None)


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
