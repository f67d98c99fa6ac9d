"""Views as JSON, so that a fold need not begin at the first record again.

A snapshot is a cache: it may be dropped at any time, and one of another view or of another version of
the folds, is worth nothing.
"""

from functools import cache
from typing import Final, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

VIEW_VERSION: Final = 7
"""Raised whenever a fold or a state changes, so that old snapshots are not read."""

StateT = TypeVar("StateT")


def dump_state(state: object) -> bytes:
    """Return a state as bytes: a line that says what it is, then JSON."""
    # As an adapter writes it, which takes twenty milliseconds to be made and is needed for reading alone.
    return _head(type(state)) + to_json(state)


def load_state(state_type: type[StateT], snapshot: bytes) -> StateT | None:
    """Return the state in a snapshot; None if it has to be folded anew."""
    head = _head(state_type)
    if not snapshot.startswith(head):
        return None
    try:
        return _adapter(state_type).validate_json(snapshot[len(head) :], by_alias=True, by_name=False)
    except ValidationError:
        return None


def _head(state_type: type[object]) -> bytes:
    return f"windlass-view {VIEW_VERSION} {state_type.__name__}\n".encode()


@cache
def _adapter(state_type: type[StateT]) -> TypeAdapter[StateT]:
    return TypeAdapter(state_type)
