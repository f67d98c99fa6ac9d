"""How much the tests try: a third in `make test`, all of it in `make torture`."""

import os
from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

DEEP: Final = "WINDLASS_DEEP" in os.environ


def some(count: int) -> int:
    """Return how many of so many examples, trials or seeds this run of the tests plays."""
    return count if DEEP else -(-count // 3)


def some_of(points: Sequence[T]) -> Sequence[T]:
    """Return the points at which this run of the tests strikes."""
    return points if DEEP else points[::3]
