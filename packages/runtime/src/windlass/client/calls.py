"""One request, as data."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import cast

from windlass_protocol import JsonObject

Query = Mapping[str, str | int | bool | None]


@dataclass(frozen=True, slots=True)
class Call:
    """What is asked of a server."""

    method: str
    path: str
    _: KW_ONLY
    query: Query | None = None
    body: JsonObject | None = None
    key: str | None = None
    """The idempotency key."""
    is_repeatable: bool = True
    """Whether it may be sent again when nobody knows whether it arrived."""


def query_of(given: Mapping[str, object]) -> Query:
    """Return a typed dictionary of plain values as a query."""
    return cast(Query, given)
