"""Records inside Windlass: plain objects, with the wire model at the border.

`windlass_protocol.Record` is the wire model: it validates, and costs accordingly. Records are created and
read for every step, so inside there is this class with the same fields. `from_wire` and `to_wire` convert.
"""

from dataclasses import fields
from typing import Final

from windlass_protocol import CausalIds, JsonObject
from windlass_protocol import Record as WireRecord
from windlass_protocol.frozen import frozen, mutable


@frozen
class Post:
    """An item for the inbox of another session, durable together with a record of this one.

    A key that is known there is the same item, whatever its body.
    """

    session_id: str
    kind: str
    key: str
    body: JsonObject


@mutable
class Record:
    """One fact of a session.

    The loop makes it without numbers. The writer of the session sets `session_id`, `seq` and `epoch` when it
    takes the record, and `position` when the record is durable. Nothing else is ever changed. `data` has the
    form of the wire.
    """

    type: str
    at: str
    data: JsonObject
    run_id: str | None = None
    agent_id: str | None = None
    turn_id: str | None = None
    step_index: int | None = None
    attempt: int | None = None
    posts: tuple[Post, ...] = ()
    """Items for other sessions; not part of the record on the wire."""
    session_id: str = ""
    seq: int = 0
    """The number in the session, from 1; 0 before it has one."""
    epoch: int | None = None
    position: int | None = None
    event_id: str | None = None
    causal_ids: CausalIds | None = None


def number(record: Record, session_id: str, *, seq: int, epoch: int, position: int | None = None) -> Record:
    """Give a record its place in a session, and in the store if that is known; return it."""
    record.session_id, record.seq, record.epoch, record.position = session_id, seq, epoch, position
    return record


_FIELDS: Final = tuple(one.name for one in fields(Record) if one.name != "posts")


def from_wire(value: object) -> Record:
    """Return a record from its JSON, by wire names.

    Raises:
        ValidationError: it is not a record.
    """
    wire = (
        value
        if isinstance(value, WireRecord)
        else WireRecord.model_validate(value, by_alias=True, by_name=False)
    )
    return Record(**{name: getattr(wire, name) for name in _FIELDS})


def to_wire(record: Record) -> JsonObject:
    """Return the JSON of a record, by wire names; fields without a value are left out."""
    wire = WireRecord.model_construct(
        _fields_set=set(_FIELDS), **{name: getattr(record, name) for name in _FIELDS}
    )
    return wire.model_dump(mode="json", by_alias=True)
