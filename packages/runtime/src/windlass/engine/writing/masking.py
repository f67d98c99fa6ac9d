"""Masking of secrets in live answers, arguments, cut texts and logs."""

import logging
import re
from functools import partial
from traceback import format_exception
from typing import Final, cast

from pydantic import JsonValue
from pydantic_core import to_json

from windlass.limits import LIGHT_CHARS_MAX, LIGHT_VALUES_MAX
from windlass.ports.feed import LiveAnswer
from windlass.tools.calling import in_masking_thread
from windlass.tools.results import is_light
from windlass_harness.redact import Redactor
from windlass_harness.redact.text import MaskedStream
from windlass_protocol import JsonObject

SECRET_INPUTS_MAX: Final = 4_096
SECRET_INPUTS_BYTES_MAX: Final = 64 * 1_048_576
_MASKED: Final = re.compile(rb"\[redacted(?::[a-z_]+)?\]")


class UnseenAnswer:
    """A live answer that is not shown: a summary, or the answer to an item of a batch; see `LiveAnswer`."""

    def text(self, delta: str) -> None:
        """Do nothing."""

    def reasoning(self, delta: str) -> None:
        """Do nothing."""

    def tool_input(self, call_id: str, delta: str, *, tool_name: str | None = None) -> None:
        """Do nothing."""

    def partial(self, call_id: str, output: JsonValue, *, tool_name: str | None = None) -> None:
        """Do nothing."""

    def show(self, event_type: str, data: JsonObject) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class MaskedAnswer:
    """A live answer with secrets masked; see `LiveAnswer`.

    A secret can arrive in pieces, so the end of a text is held back while it may be the start of one; `end`
    shows the rest.
    """

    __slots__ = (
        "_has_reasoning",
        "_has_text",
        "_inputs",
        "_live",
        "_reasoning",
        "_redactor",
        "_text",
        "is_reasoning_late",
    )

    def __init__(self, live: LiveAnswer, redactor: Redactor) -> None:
        self._live = live
        self._redactor = redactor
        self._text: MaskedStream | None = None
        self._reasoning: MaskedStream | None = None
        self._inputs: dict[str, MaskedStream] = {}
        self._has_text = self._has_reasoning = False
        self.is_reasoning_late = False
        """Whether the reasoning was shown after text."""

    def text(self, delta: str) -> None:
        """Show a delta of the answer."""
        self._text = self._text or self._redactor.stream()
        self._show_text(self._text.feed(delta))

    def reasoning(self, delta: str) -> None:
        """Show a delta of the reasoning."""
        self._reasoning = self._reasoning or self._redactor.stream()
        self._show_reasoning(self._reasoning.feed(delta))

    def tool_input(self, call_id: str, delta: str, *, tool_name: str | None = None) -> None:
        """Show a delta of the arguments of a call."""
        if call_id not in self._inputs:
            self._inputs[call_id] = self._redactor.stream()
        self._live.tool_input(call_id, self._inputs[call_id].feed(delta), tool_name=tool_name)

    def partial(self, call_id: str, output: JsonValue, *, tool_name: str | None = None) -> None:
        """Show a partial result of a running call."""
        self._live.partial(call_id, mask_value(self._redactor, output), tool_name=tool_name)

    def show(self, event_type: str, data: JsonObject) -> None:
        """Show an event of any other type."""
        self._live.show(event_type, cast(JsonObject, self._redactor.value(data)))

    def end(self) -> None:
        """Show the text that was held back: the answer is complete."""
        for stream, show in ((self._reasoning, self._show_reasoning), (self._text, self._show_text)):
            if stream is not None:
                show(stream.finish())

    def close(self) -> None:
        """Discard the live state of the step."""
        self._live.close()

    def _show_text(self, text: str) -> None:
        self._has_text = self._has_text or bool(text)
        self._live.text(text)

    def _show_reasoning(self, text: str) -> None:
        if text and not self._has_reasoning:
            self._has_reasoning, self.is_reasoning_late = True, self._has_text
        self._live.reasoning(text)


def mask_value(redactor: Redactor, value: JsonValue) -> JsonValue:
    """Return a JSON value with secrets masked."""
    return cast(JsonValue, redactor.value(value))


def is_clean_at_once(redactor: Redactor, value: object) -> bool:
    """Return whether a value is small and has nothing to mask."""
    return redactor.is_clean(value, LIGHT_VALUES_MAX, LIGHT_CHARS_MAX)


async def mask_object(redactor: Redactor, value: JsonObject) -> JsonObject:
    """Return a JSON object with secrets masked, the same one if there are none; a large one in a thread.

    The redactor remembers the texts, so that masking a record made of them costs little.
    """
    if is_clean_at_once(redactor, value):
        return value
    mask = partial(redactor.value, value)
    safe_value = mask() if is_light(value, redactor.is_settled) else await in_masking_thread(mask)
    return cast(JsonObject, safe_value)


def mask_cut_text(redactor: Redactor, text: str) -> str:
    """Return a cut text with secrets masked, also one that is cut in half at the end."""
    return redactor.stream().feed(text)


def has_mask(value: JsonValue) -> bool:
    """Whether a recorded value contains a mask."""
    return _MASKED.search(to_json(value)) is not None


class SecretInputs:
    """Unmasked arguments of waiting calls; records have them masked.

    They are kept in memory only, as long as the process lives and there is room. A call whose arguments are
    lost must be requested again.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], JsonValue] = {}
        self._sizes: dict[tuple[str, str], int] = {}

    def __bool__(self) -> bool:
        return bool(self._kept)

    def keep(self, session_id: str, call_id: str, *, value: JsonValue, redactor: Redactor) -> None:
        """Keep the arguments of a call, if they contain secrets."""
        if redactor.value(value) is value:
            return
        key = session_id, call_id
        self._drop(key)
        self._kept[key], self._sizes[key] = value, len(to_json(value))
        while sum(self._sizes.values()) > SECRET_INPUTS_BYTES_MAX or len(self._kept) > SECRET_INPUTS_MAX:
            self._drop(next(iter(self._kept)))

    def find(self, session_id: str, call_id: str, *, recorded: JsonValue, redactor: Redactor) -> JsonValue:
        """Return the unmasked arguments of a recorded call; None if they are lost."""
        value = self._kept.get((session_id, call_id))
        return value if value is not None and redactor.value(value) == recorded else None

    def original(self, session_id: str, call_id: str) -> JsonValue:
        """Return the unmasked arguments of a call; None if none are kept."""
        return self._kept.get((session_id, call_id))

    def forget(self, session_id: str) -> None:
        """Forget the calls of a session: the model has answered again."""
        for key in [key for key in self._kept if key[0] == session_id]:
            self._drop(key)

    def _drop(self, key: tuple[str, str]) -> None:
        self._kept.pop(key, None)
        self._sizes.pop(key, None)


_LOG: Final = logging.getLogger("windlass.failures")
FRAMES_MAX: Final = 20
"""Innermost stack frames that are logged."""
TEXT_CHARS_MAX: Final = 65_536
"""Characters that are searched for secrets."""
TOLD_CHARS_MAX: Final = 16_384


def log_failure(
    what: str, error: BaseException | None, *, redactor: Redactor, level: int = logging.WARNING
) -> None:
    """Log a failure with its traceback, if any, with secrets masked."""
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
    # Cut after masking: half a secret would not be recognised.
    _LOG.log(level, "%s\n%s", what, redactor.text(text[-TEXT_CHARS_MAX:])[-TOLD_CHARS_MAX:].rstrip())
