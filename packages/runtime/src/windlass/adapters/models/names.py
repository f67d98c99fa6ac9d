"""Names that an API accepts, in place of those that it does not."""

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from windlass_protocol import JsonObject

NAME_CHARS_MAX: Final = 64
CALL_ID_CHARS_MAX: Final = 40
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST_CHARS: Final = 8


def wire_name(name: str) -> str:
    """Return the name of a tool as both APIs allow it; equal names stay equal."""
    return _plain(name, NAME_CHARS_MAX)


def wire_call_id(call_id: str) -> str:
    """Return the id of a call as both APIs allow it; equal ids stay equal."""
    return _plain(call_id, CALL_ID_CHARS_MAX)


def _plain(text: str, chars_max: int) -> str:
    plain = _FOREIGN.sub("_", text)
    if plain == text and 0 < len(text) <= chars_max:
        return text
    # Two names that differ in what was replaced or cut off must not become one.
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{plain[: chars_max - _DIGEST_CHARS - 1]}_{digest}"


def names_back(tools: Iterable[JsonObject]) -> dict[str, str]:
    """Return the tools' own names by those on the wire, where they differ."""
    names = (str(tool["name"]) for tool in tools)
    return {wire_name(name): name for name in names if wire_name(name) != name}
