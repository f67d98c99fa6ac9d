"""Pages of a list, and the cursors between them."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from windlass.definitions import kind_of
from windlass.refusals import bad_request
from windlass_protocol.limits import INTEGER_MAX

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

PAGE_ITEMS_MAX: Final = 200
"""Sessions, runs, requests or messages of one page."""
PAGE_RECORDS_MAX: Final = 1_000
_CURSOR: Final = re.compile(r"([a-z]+)\.([1-9][0-9]{0,15})")


@dataclass(frozen=True, slots=True)
class Page(Generic[T_co]):
    """Some of a list, and where the next page begins."""

    items: tuple[T_co, ...]
    next: str | None
    """What `after` takes to go on; None if this is the last page."""


def page_of(found: Sequence[T], limit: int, *, kind: str, place: Callable[[T], int]) -> Page[T]:
    """Return a page of what was found with a limit of one more than the page has."""
    items = tuple(found[:limit])
    return Page(items, f"{kind}.{place(items[-1])}" if len(found) > limit else None)


def place_of(after: object, kind: str) -> int | None:
    """Return the place that a cursor names; None for no cursor.

    Raises:
        Rejected: no page of this kind gave it out.
    """
    if after is None:
        return None
    found = _CURSOR.fullmatch(after) if isinstance(after, str) else None
    if found is None or found[1] != kind or int(found[2]) > INTEGER_MAX:
        raise bad_request("after is the `next` of a page of the same kind, and this is not one")
    return int(found[2])


def check_limit(limit: object, most: int = PAGE_ITEMS_MAX) -> int:
    """Return how many items a page may have."""
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise bad_request(f"limit is a whole number, found {kind_of(limit)}")
    if not 1 <= limit <= most:
        raise bad_request(f"limit must be 1 to {most:,}, found {limit:,}")
    return limit
