"""The fold that all views share, and snapshots of its state.

A view is a frozen state and a function `(records, state) -> state`. Folding in parts equals folding at once,
for any split of the stream, so a stored state is only a cache. Inside one call the work is done on a mutable
draft: a state is copied once for each call, not for each record. Unknown record types and unknown fields are
ignored.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from windlass_harness.record import Record
from windlass_protocol.bodies import Body, data_of
from windlass_protocol.frozen import sealed

BodyT = TypeVar("BodyT", bound=Body)
DraftT = TypeVar("DraftT")
EntryT = TypeVar("EntryT")
ChangeT = TypeVar("ChangeT")
MoreP = ParamSpec("MoreP")
StateT = TypeVar("StateT")
StateT_co = TypeVar("StateT_co", covariant=True)


class Gap(ValueError):
    """A record is not the next one of its session."""

    def __init__(self, expected: "Position", record: Record) -> None:
        self.session_id = expected.session_id or record.session_id
        self.expected_seq = (expected.seq or 0) + 1
        self.found_seq = record.seq
        actual = f"record {record.seq}"
        if record.session_id != self.session_id:
            actual += f" of session {record.session_id!r}"
        super().__init__(
            f"expected record {self.expected_seq} of session {self.session_id!r}, found {actual}; "
            f"read the session again after record {self.expected_seq - 1}"
        )


@sealed
class Position:
    """The last record that a state has seen; `seq` None accepts any first record."""

    session_id: str | None = None
    seq: int | None = 0

    def after(self, record: Record) -> "Position":
        """Return the position after the next record.

        Raises:
            Gap: the record is not the next one.
        """
        is_known_session = self.session_id is None or record.session_id == self.session_id
        if not is_known_session or (self.seq is not None and record.seq != self.seq + 1):
            raise Gap(self, record)
        return Position(record.session_id, record.seq)


START = Position()
ANYWHERE = Position(seq=None)


class Draft(Protocol[StateT_co]):
    """A mutable copy of a state that records are applied to."""

    position: Position

    def apply(self, record: Record) -> None: ...

    def freeze(self) -> StateT_co: ...


def fold(draft: Draft[StateT], records: Iterable[Record]) -> StateT:
    """Apply the records to the draft in order and return its state.

    Raises:
        Gap: a record is not the next one of the session.
    """
    for record in records:
        draft.position = draft.position.after(record)
        draft.apply(record)
    return draft.freeze()


class Handlers(Generic[DraftT, EntryT, MoreP, ChangeT]):
    """The handlers of a fold, by the class of the data that each applies.

    A handler is called with the draft, the record, its body, and what else the fold passes.
    """

    def __init__(self) -> None:
        self.by_type: dict[str, Callable[Concatenate[DraftT, EntryT, Any, MoreP], ChangeT]] = {}

    def on(
        self, *body_types: type[BodyT]
    ) -> Callable[
        [Callable[Concatenate[DraftT, EntryT, BodyT, MoreP], ChangeT]],
        Callable[Concatenate[DraftT, EntryT, BodyT, MoreP], ChangeT],
    ]:
        """Register a function, or a method of the draft, for the records of some types."""

        def register(
            handle: Callable[Concatenate[DraftT, EntryT, BodyT, MoreP], ChangeT],
        ) -> Callable[Concatenate[DraftT, EntryT, BodyT, MoreP], ChangeT]:
            self.by_type |= {body_type.TYPE: handle for body_type in body_types}
            return handle

        return register


def types_of(*body_types: type[Body]) -> frozenset[str]:
    """Return the record types of classes."""
    return frozenset(body_type.TYPE for body_type in body_types)


def text_in(mapping: Mapping[str, object] | None, key: str) -> str | None:
    """Return a string field of an open object; None if it is missing or has another type."""
    value = (mapping or {}).get(key)
    return value if isinstance(value, str) else None


VIEW_VERSION: Final = 11
"""Increased whenever a fold or a state changes, so that old snapshots are not read."""


def dump_state(state: object, *parts: object) -> bytes:
    """Return a state as bytes: a line with its type and version, then JSON; parts of it have a line each.

    Nothing can interrupt the encoding of one value: a state of megabytes is encoded in parts.
    """
    # A pydantic adapter takes twenty milliseconds to build; only reading needs one.
    lines = (to_json(value, fallback=data_of) for value in (state, *parts))
    return _head(type(state)) + b"\n".join(lines)


def load_state(state_type: type[StateT], snapshot: bytes) -> StateT | None:
    """Return the state in a snapshot, without its parts; None if it must be folded again."""
    head = _head(state_type)
    if not snapshot.startswith(head):
        return None
    return _load(state_type, snapshot[len(head) :].partition(b"\n")[0])


def load_parts(part_type: type[StateT], snapshot: bytes) -> list[StateT] | None:
    """Return the parts of the state in a snapshot; None if it must be folded again."""
    parts = [_load(part_type, line) for line in snapshot.split(b"\n")[2:]]
    whole = [part for part in parts if part is not None]
    return whole if len(whole) == len(parts) else None


def _load(state_type: type[StateT], raw: bytes) -> StateT | None:
    try:
        return _adapter(state_type).validate_json(raw, by_alias=True, by_name=False)
    except ValidationError:
        return None


def _head(state_type: type[object]) -> bytes:
    return f"windlass-view {VIEW_VERSION} {state_type.__name__}\n".encode()


@cache
def _adapter(state_type: type[StateT]) -> TypeAdapter[StateT]:
    return TypeAdapter(state_type)
