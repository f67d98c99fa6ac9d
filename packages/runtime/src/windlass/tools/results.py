"""Values of tools as JSON that the journal can hold: results of calls, reports of progress.

`windlass.json_value` says which form each Python type has. Plain JSON is copied, so that a tool that keeps
its result cannot change the journal. A type without a JSON form fails the call; a report of progress shows
its repr.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, cast

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from windlass.json_value import SHOWN, JsonForm, NoJsonForm, json_value
from windlass.limits import CONTENT_BYTES_MAX, LIGHT_CHARS_MAX, LIGHT_VALUES_MAX
from windlass_protocol.codec_scan import count_values
from windlass_protocol.codec_values import is_sendable
from windlass_protocol.limits import FREE_LEVELS_MAX, CodecLimits

_COPIED_VALUES_MAX: Final = 650_000
"""Values that are copied at once, which nothing can interrupt; the walk over more lets other threads run."""
_Container = dict[object, object] | list[object] | tuple[object, ...]
_CONTAINERS: Final = (dict, list, tuple)
_LIMITS: Final = CodecLimits(message_bytes_max=CONTENT_BYTES_MAX, depth_max=FREE_LEVELS_MAX)
_LIGHT_LIMITS: Final = CodecLimits(message_bytes_max=LIGHT_CHARS_MAX, depth_max=FREE_LEVELS_MAX)


def result_value(value: object, form: JsonForm = SHOWN, *, is_json: bool = False) -> JsonValue:
    """Return any value as JSON that the journal can hold; `is_json` says that `weigh` found it to be JSON.

    Raises:
        NoJsonForm: the form refuses types without a JSON form, and the value holds one.
    """
    if type(value) is str and _is_text(value):
        return value
    if not isinstance(value, str | int | float | bool | None):
        try:
            # Copying plain JSON is ten times as fast as the walk.
            if is_json or is_sendable(value, _LIMITS):
                raw = to_json(value)
                if count_values(raw, _COPIED_VALUES_MAX) <= _COPIED_VALUES_MAX:
                    return from_json(raw, allow_inf_nan=False)
        except Exception:  # noqa: BLE001 - a lone surrogate, or host code of the value: the walk handles both
            pass
    return json_value(value, form)


def _is_text(text: str) -> bool:
    """Return whether UTF-8 can hold a text: it has no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def no_json_form_text(error: NoJsonForm) -> str:
    """Return the error for the model if the result of a call has no JSON form."""
    return (
        "the tool has run, and its effects have happened, but its result cannot be shown: it holds a value "
        f"of type {error.type_name}; return texts, numbers, lists, dictionaries, dataclasses or models"
    )


def _never(_: str) -> bool:
    return False


class Weight(NamedTuple):
    """What one walk over the result of a tool tells."""

    is_light: bool
    is_json: bool
    """Whether it is JSON that the journal can hold; only a light value is known to be."""


def _item_count(value: object) -> int:
    return len(cast(_Container, value)) if isinstance(value, _CONTAINERS) else 1


def weigh(value: object) -> Weight:
    """Weigh the result of a tool: nearly all are plain JSON, and light."""
    if _item_count(value) > LIGHT_VALUES_MAX:
        return Weight(is_light=False, is_json=False)
    try:
        is_json = type(value) is not str and is_sendable(value, _LIGHT_LIMITS)
    except Exception:  # noqa: BLE001 - host code of the value
        is_json = False
    return Weight(is_json or is_light(value), is_json)


def is_light(value: object, is_known: Callable[[str], bool] = _never) -> bool:
    """Whether a value is small enough to be converted on the event loop.

    A large text does not count if `is_known` says so: that its conversion was done before.
    """
    if type(value) is str:
        return len(value) <= LIGHT_CHARS_MAX
    values, chars = 1, 0
    containers: list[_Container] = [(value,)]
    for container in containers:
        for item in container.values() if isinstance(container, dict) else container:
            if isinstance(item, str):
                size = len(item)
                chars += 0 if size > LIGHT_CHARS_MAX and is_known(item) else size
            elif isinstance(item, _CONTAINERS):
                containers.append(cast(_Container, item))
                values += len(containers[-1])
            elif isinstance(item, bytes):
                chars += len(item)
        if values > LIGHT_VALUES_MAX or chars > LIGHT_CHARS_MAX:
            return False
    return True
