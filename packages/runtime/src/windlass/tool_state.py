"""The state of a session, as a tool sees and changes it."""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Final, cast

from pydantic import JsonValue
from pydantic_core import from_json

from windlass.definitions import kind_of
from windlass.tool_failed import ToolFailed
from windlass.tool_limits import STATE_KEY_CHARS_MAX, STATE_LEVELS_MAX, STATE_VALUE_BYTES_MAX
from windlass_harness.loop.events import StateChange
from windlass_protocol import CodecError, CodecErrorCode, CodecLimits, JsonObject, canonical
from windlass_protocol.codec_errors import shown

RESERVED: Final = "windlass."
"""What keys begin with that only tools which come along set."""
STEPS_KEY: Final = f"{RESERVED}steps"
"""Where `windlass.steps` keeps what it needs; tools neither see it nor set it."""
_LIMITS: Final = CodecLimits(message_bytes_max=STATE_VALUE_BYTES_MAX, depth_max=STATE_LEVELS_MAX)
_KEY_SHOWN_CHARS: Final = 64


class SessionValues(Mapping[str, JsonValue]):
    """The state of a session at one moment, to be read; every value is a copy."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, JsonValue] | None = None) -> None:
        # Nobody changes the values themselves, so that copying the mapping is enough.
        self._values: JsonObject = {} if values is None else dict(values)
        self._values.pop(STEPS_KEY, None)

    def __getitem__(self, key: str) -> JsonValue:
        return _copied(self._values[key])

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._values))})"


class ToolState(SessionValues, MutableMapping[str, JsonValue]):
    """The state of a session while a call runs: JSON values by key.

    A call sees the state as it was at its start, and its own changes. They are recorded together with the
    result; those of a call that fails, or is cut off, are dropped. What is read is a copy: to change a value,
    set it anew.
    """

    __slots__ = ("_removed", "_set")

    def __init__(self, values: Mapping[str, JsonValue] | None = None) -> None:
        super().__init__(values)
        self._set: JsonObject = {}
        self._removed: dict[str, None] = {}

    def __setitem__(self, key: str, value: JsonValue) -> None:
        self._values[key] = self._set[key] = state_value(key, value)

    def keep_own(self, key: str, value: JsonValue) -> None:
        """Set a value of a tool that comes along; its key begins with `windlass.`."""
        self._values[key] = self._set[key] = _kept(key, value)

    def __delitem__(self, key: str) -> None:
        del self._values[key]
        self._set.pop(key, None)
        self._removed[key] = None

    @property
    def change(self) -> StateChange | None:
        """What was changed; None if nothing was."""
        if not self._set and not self._removed:
            return None
        return StateChange(dict(self._set), tuple(self._removed))


def state_value(key: str, value: JsonValue) -> JsonValue:
    """Return a value as it is kept: a copy of JSON, small enough.

    Raises:
        TypeError: the key is no text of a fitting length, or the value is not JSON.
        ToolFailed: the value is too large.
    """
    _check_key(key)
    if key.startswith(RESERVED):
        raise TypeError(
            f"keys that begin with {RESERVED} are those of the tools that come along; choose another"
        )
    return _kept(key, value)


def _kept(key: str, value: JsonValue) -> JsonValue:
    name = shown(key, _KEY_SHOWN_CHARS)
    try:
        return cast(list[JsonValue], from_json(canonical([key, value], _LIMITS)))[1]
    except CodecError as error:
        if error.code is CodecErrorCode.TOO_LARGE:
            raise ToolFailed(f"{name} is too large for the state of a session: {error.message}") from None
        problem = _told(error)
    raise TypeError(
        f"{name} cannot be kept in the state of a session: {problem}; keep texts, numbers, booleans, "
        "None, and lists and dictionaries of these"
    )


def _told(error: CodecError) -> str:
    """Say what is wrong, and where inside of the value."""
    whole = f", at {error.path}"
    inside = (error.path or "").removeprefix("/1")
    return error.message.removesuffix(whole) + (f", at {inside}" if inside else "")


def _check_key(key: object) -> None:
    if not isinstance(key, str) or not 1 <= len(key) <= STATE_KEY_CHARS_MAX:
        found = f"{len(key):,} characters" if isinstance(key, str) else kind_of(key)
        raise TypeError(
            f"a key of the state is a text of 1 to {STATE_KEY_CHARS_MAX} characters, found {found}"
        )


def _copied(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    return [_copied(one) for one in value] if isinstance(value, list) else value
