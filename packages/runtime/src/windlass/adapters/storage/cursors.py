"""Cursors: where a list goes on, as text that only that list understands."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

from pydantic import JsonValue

from windlass.adapters.storage.refusals import rejected
from windlass.limits import STORAGE_CURSOR_CHARS_MAX

_SCOPE_CHARS: Final = 16
_PART_MAX: Final = 2**63 - 1


def scope_of(name: str, filters: Mapping[str, object]) -> str:
    """Return a short name for a list with its filters; other filters have another."""
    text = json.dumps([name, sorted(filters.items())])
    return sha256(text.encode()).hexdigest()[:_SCOPE_CHARS]


def write_cursor(scope: str, place: Sequence[int]) -> str:
    """Return the cursor that stands behind the document at `place`."""
    return urlsafe_b64encode(json.dumps([scope, *place]).encode()).decode().rstrip("=")


def read_cursor(cursor: str, scope: str, *, parts: int) -> tuple[int, ...]:
    """Return the place of a cursor, which has that many parts.

    Raises:
        Rejected: it is no cursor, or one of another list.
    """
    match _parsed(cursor):
        case [str(found_scope), *found]:
            place = tuple(part for part in found if isinstance(part, int) and abs(part) <= _PART_MAX)
            if found_scope == scope and len(found) == len(place) == parts:
                return place
            raise rejected("cursor of another list: expected one of the same list and filters")
        case _:
            raise rejected("not a cursor: expected one that a list returned")


def _parsed(cursor: str) -> JsonValue:
    if len(cursor) > STORAGE_CURSOR_CHARS_MAX:
        return None
    try:
        return json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except ValueError:
        return None
